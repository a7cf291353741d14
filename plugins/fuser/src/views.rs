//! A view, known by offset and strides, as a chain of prims over its base: reshape, slice, squeeze, transpose, broadcast.
//!
//! One way for all views of the op table. Where strides do not nest (diagonals, windows, odd steps) there is no such
//! chain, and the view is read from memory instead.

use thunderhead_loops::Prim;

/// Where the elements of a view lie in its base, which is row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Lie {
    pub dims: Vec<usize>,
    /// In elements, one a dim.
    pub strides: Vec<usize>,
    /// Of the first element.
    pub offset: usize,
}

/// The prims that lead from a row-major tensor of `base` dims to the view; `None` where its strides do not nest.
pub fn chain(base: &[usize], lie: &Lie) -> Option<Vec<Prim>> {
    let numel: usize = base.iter().product();
    if numel == 0 || lie.dims.contains(&0) {
        return None;
    }
    // Dims that move, outermost first; those that repeat or hold one element come back at the end.
    let moves = |d: &usize| lie.dims[*d] > 1 && lie.strides[*d] > 0;
    let mut moving: Vec<usize> = (0..lie.dims.len()).filter(moves).collect();
    moving.sort_by_key(|d| (std::cmp::Reverse(lie.strides[*d]), *d));
    let grid = grid(numel, lie, &moving)?;
    let mut prims = Vec::new();
    let mut now = base.to_vec();
    let mut go = |prim: Prim, dims: &[usize]| {
        if dims != now.as_slice() || matches!(prim, Prim::Transpose(_)) {
            now = dims.to_vec();
            prims.push(prim);
        }
    };
    go(Prim::Reshape(grid.sizes.clone()), &grid.sizes);
    let end: Vec<usize> = grid.start.iter().zip(&grid.taken).map(|(start, n)| start + n).collect();
    let slice = Prim::Slice { start: grid.start, end, step: vec![1; grid.taken.len()] };
    go(slice, &grid.taken);
    let kept: Vec<usize> = moving.iter().map(|d| lie.dims[*d]).collect();
    go(Prim::Reshape(kept.clone()), &kept);
    let mut order: Vec<usize> = (0..moving.len()).collect();
    order.sort_by_key(|at| moving[*at]);
    let turned: Vec<usize> = order.iter().map(|at| kept[*at]).collect();
    if order.iter().enumerate().any(|(new, old)| new != *old) {
        go(Prim::Transpose(order), &turned);
    }
    moving.sort_unstable();
    go(Prim::Broadcast { dims: lie.dims.clone(), axes: moving }, &lie.dims);
    Some(prims)
}

/// The base cut so that each moving dim is one of its dims.
struct Grid {
    sizes: Vec<usize>,
    start: Vec<usize>,
    taken: Vec<usize>,
}

fn grid(numel: usize, lie: &Lie, moving: &[usize]) -> Option<Grid> {
    let mut grid = Grid { sizes: Vec::new(), start: Vec::new(), taken: Vec::new() };
    let (mut around, mut offset) = (numel, lie.offset);
    for d in moving {
        let stride = lie.strides[*d];
        if !around.is_multiple_of(stride) {
            return None;
        }
        grid.add(around / stride, offset / stride, lie.dims[*d])?;
        (around, offset) = (stride, offset % stride);
    }
    // Of what lies between two neighbours, one element.
    if around > 1 {
        grid.add(around, offset, 1)?;
    }
    Some(grid)
}

impl Grid {
    fn add(&mut self, size: usize, start: usize, taken: usize) -> Option<()> {
        if start + taken > size {
            return None;
        }
        self.sizes.push(size);
        self.start.push(start);
        self.taken.push(taken);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thunderhead_loops::{
        Dtype, Graph, Operand, Options, Serial, Step, TensorType, View, ViewMut, compile,
    };

    /// What the chain reads, of a base that holds its own indices; `None` where there is no chain.
    fn read(base: &[usize], lie: &Lie) -> Option<Vec<f32>> {
        let mut graph = Graph::new();
        let mut value = graph.dense_input(TensorType::new(Dtype::F32, base)).expect("small");
        for prim in chain(base, lie)? {
            value = graph.push1(prim, &[Operand::Value(value)]).expect("fits");
        }
        assert_eq!(graph.ty(value).dims, lie.dims);
        let value = graph.push1(Prim::Copy, &[value.into()]).expect("fits");
        graph.output(value);
        let program = compile(&graph, &Options::default()).expect("views are taken");
        let input: Vec<f32> = (0..base.iter().product::<usize>()).map(|i| i as f32).collect();
        let mut output = vec![f32::NAN; lie.dims.iter().product()];
        for step in program.steps() {
            let Step::Kernel(kernel) = step else { panic!("a kernel") };
            kernel.run(&[View::of(&input)], &mut [ViewMut::of(&mut output)], &[], &Serial).expect("runs");
        }
        Some(output)
    }

    /// Dims of the base; dims, strides and offset of the view.
    type Case<'a> = (&'a [usize], &'a [usize], &'a [usize], usize);

    fn expected(lie: &Lie) -> Vec<f32> {
        let numel: usize = lie.dims.iter().product();
        let at = |mut flat: usize| {
            let mut offset = lie.offset;
            for d in (0..lie.dims.len()).rev() {
                offset += flat % lie.dims[d] * lie.strides[d];
                flat /= lie.dims[d];
            }
            offset as f32
        };
        (0..numel).map(at).collect()
    }

    #[test]
    fn chains_read_what_strides_say() {
        let lies: [Case<'_>; 11] = [
            (&[2, 12, 96], &[2, 4, 12, 8], &[1152, 8, 96, 1], 32),
            (&[2, 4, 12, 8], &[2, 4, 12, 4], &[384, 96, 8, 1], 4),
            (&[2, 3], &[3, 2], &[1, 3], 0),
            (&[2, 3], &[4, 2, 3], &[0, 3, 1], 0),
            (&[4, 6], &[12], &[1], 6),
            (&[4, 6], &[4, 1], &[6, 1], 5),
            (&[4, 6], &[4, 3], &[6, 2], 1),
            (&[4, 6], &[], &[], 7),
            (&[1], &[3, 3], &[0, 0], 0),
            (&[5, 7], &[5, 7], &[7, 1], 0),
            (&[6], &[1, 6, 1], &[9, 1, 4], 0),
        ];
        for (base, dims, strides, offset) in lies {
            let lie = Lie { dims: dims.to_vec(), strides: strides.to_vec(), offset };
            assert_eq!(read(base, &lie).expect("nests"), expected(&lie), "{base:?} {lie:?}");
        }
    }

    #[test]
    fn strides_that_do_not_nest_have_no_chain() {
        let lies: [Case<'_>; 3] =
            [(&[3, 3], &[3], &[4], 0), (&[9], &[5], &[2], 0), (&[8], &[3, 4], &[2, 1], 0)];
        for (base, dims, strides, offset) in lies {
            let lie = Lie { dims: dims.to_vec(), strides: strides.to_vec(), offset };
            assert_eq!(chain(base, &lie), None, "{base:?} {lie:?}");
        }
    }
}
