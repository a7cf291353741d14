//! Choosing and ordering the first `k` of a line exactly as the GNU C++ library's `partial_sort`, `nth_element` and `sort`
//! do, on which ATen's `topk` stands: these are not stable, and programs see which of several equal values came first.
//!
//! The algorithms are introselect and introsort (Musser 1997): quicksort's partitions around the median of three, heaps
//! when that goes deep, insertion for short pieces. What matters here are the exact swaps. `before` is a strict weak
//! order; any other gives some order, or a panic that the border catches.

/// Up to so many elements, `sort` leaves order to insertion.
const SHORT: usize = 16;

/// Orders `line` so that its first `k` elements, `k > 0`, are the first of all; in order where `sorted`.
pub fn first<T: Copy>(line: &mut [T], k: usize, sorted: bool, before: &impl Fn(&T, &T) -> bool) {
    if k * 64 <= line.len() {
        partial_sort(line, k, before);
        return;
    }
    nth_element(line, k - 1, before);
    if sorted {
        sort(&mut line[..k - 1], before);
    }
}

/// How many partitions are made before heaps take over.
fn depth_limit(len: usize) -> u32 {
    2 * len.checked_ilog2().unwrap_or(0)
}

fn nth_element<T: Copy>(line: &mut [T], nth: usize, before: &impl Fn(&T, &T) -> bool) {
    let (mut first, mut last) = (0, line.len());
    let mut depth = depth_limit(last);
    while last - first > 3 {
        if depth == 0 {
            heap_select(&mut line[first..last], nth + 1 - first, before);
            line.swap(first, nth);
            return;
        }
        depth -= 1;
        let cut = first + partition(&mut line[first..last], before);
        if cut <= nth { first = cut } else { last = cut }
    }
    insertion_sort(&mut line[first..last], before);
}

fn sort<T: Copy>(line: &mut [T], before: &impl Fn(&T, &T) -> bool) {
    rough_sort(line, depth_limit(line.len()), before);
    let guarded = line.len().min(SHORT);
    insertion_sort(&mut line[..guarded], before);
    (guarded..line.len()).for_each(|at| insert(line, at, before));
}

/// Leaves pieces of at most [`SHORT`] elements unordered.
fn rough_sort<T: Copy>(line: &mut [T], depth: u32, before: &impl Fn(&T, &T) -> bool) {
    let (mut last, mut depth) = (line.len(), depth);
    while last > SHORT {
        if depth == 0 {
            partial_sort(&mut line[..last], last, before);
            return;
        }
        depth -= 1;
        let cut = partition(&mut line[..last], before);
        rough_sort(&mut line[cut..last], depth, before);
        last = cut;
    }
}

/// Partitions around the median of the second, middle and last element, which goes to the front; the place of the cut.
fn partition<T: Copy>(line: &mut [T], before: &impl Fn(&T, &T) -> bool) -> usize {
    let (second, middle, last) = (1, line.len() / 2, line.len() - 1);
    let is_before = |a: usize, b: usize| before(&line[a], &line[b]);
    let median = match (is_before(second, middle), is_before(middle, last), is_before(second, last)) {
        (true, true, _) | (false, false, false) => middle,
        (true, false, true) | (false, true, false) => last,
        _ => second,
    };
    line.swap(0, median);
    let (mut low, mut high) = (1, line.len());
    loop {
        while before(&line[low], &line[0]) {
            low += 1;
        }
        high -= 1;
        while before(&line[0], &line[high]) {
            high -= 1;
        }
        if low >= high {
            return low;
        }
        line.swap(low, high);
        low += 1;
    }
}

fn insertion_sort<T: Copy>(line: &mut [T], before: &impl Fn(&T, &T) -> bool) {
    for at in 1..line.len() {
        if before(&line[at], &line[0]) {
            line[..=at].rotate_right(1);
        } else {
            insert(line, at, before);
        }
    }
}

/// Moves an element down to its place among those before it, of which the first is not behind it.
fn insert<T: Copy>(line: &mut [T], at: usize, before: &impl Fn(&T, &T) -> bool) {
    let value = line[at];
    let mut hole = at;
    while before(&value, &line[hole - 1]) {
        line[hole] = line[hole - 1];
        hole -= 1;
    }
    line[hole] = value;
}

fn partial_sort<T: Copy>(line: &mut [T], k: usize, before: &impl Fn(&T, &T) -> bool) {
    heap_select(line, k, before);
    for last in (1..k).rev() {
        let value = line[last];
        line[last] = line[0];
        sift(&mut line[..last], 0, value, before);
    }
}

/// A heap of the first `k` of all, the last of them on top.
fn heap_select<T: Copy>(line: &mut [T], k: usize, before: &impl Fn(&T, &T) -> bool) {
    let (heap, rest) = line.split_at_mut(k);
    for parent in (0..k / 2).rev() {
        let value = heap[parent];
        sift(heap, parent, value, before);
    }
    for at in rest {
        if before(at, &heap[0]) {
            let value = *at;
            *at = heap[0];
            sift(heap, 0, value, before);
        }
    }
}

/// Fills the hole at `top` with the later child all the way down, then lets `value` rise from there.
fn sift<T: Copy>(heap: &mut [T], top: usize, value: T, before: &impl Fn(&T, &T) -> bool) {
    let mut hole = top;
    loop {
        let (left, right) = (2 * hole + 1, 2 * hole + 2);
        if left >= heap.len() {
            break;
        }
        let child = if right >= heap.len() || before(&heap[right], &heap[left]) { left } else { right };
        heap[hole] = heap[child];
        hole = child;
    }
    while hole > top && before(&heap[(hole - 1) / 2], &value) {
        heap[hole] = heap[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    heap[hole] = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places of the first `k` of values that repeat a lot, as `torch.topk` gives them on a CPU.
    fn places(values: &[i64], k: usize) -> Vec<usize> {
        let mut line: Vec<(i64, usize)> = values.iter().copied().zip(0..).collect();
        first(&mut line, k, true, &|a, b| a.0 > b.0);
        line[..k].iter().map(|(_, place)| *place).collect()
    }

    /// The first six places, and a digest of all.
    fn print(values: &[i64], k: usize) -> (Vec<usize>, usize) {
        let places = places(values, k);
        let digest = places.iter().fold(0, |digest, place| (digest * 31 + place) % 1_000_000_007);
        (places[..k.min(6)].to_vec(), digest)
    }

    fn repeating(n: i64, modulus: i64) -> Vec<i64> {
        (0..n).map(|i| i * i * 7 % modulus).collect()
    }

    #[test]
    fn equal_values_come_as_from_aten() {
        assert_eq!(print(&repeating(9, 3), 3), (vec![7, 5, 4], 6886));
        assert_eq!(print(&repeating(9, 3), 9), (vec![4, 8, 7, 5, 1, 2], 21697580));
        assert_eq!(print(&repeating(40, 5), 20), (vec![23, 7, 37, 38, 3, 2], 839702940));
        assert_eq!(print(&repeating(100, 7), 40), (vec![96, 70, 71, 72, 73, 74], 850008878));
        assert_eq!(print(&repeating(300, 11), 100), (vec![160, 105, 193, 104, 38, 39], 20368443));
        assert_eq!(print(&repeating(1000, 13), 10), (vec![23, 29, 42, 3, 16, 49], 842665064));
        assert_eq!(print(&repeating(1000, 3), 15), (vec![8, 10, 1, 7, 5, 19], 318898291));
        assert_eq!(print(&repeating(5000, 17), 60), (vec![113, 62, 249, 159, 142, 419], 197141473));
    }
}
