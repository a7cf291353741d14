//! The product of matrices that linear layers, matmuls and convolutions share: packed tiles of fixed sizes.
//!
//! A result is cut into tiles of [`TILE_ROWS`] by [`TILE_COLUMNS`]; a chunk of the parallel loop is one tile. Both
//! operands are packed into panels in the accumulator's type, [`DEPTH`] terms at a time, so any layout and any dtype
//! costs the same inner loop. The order of additions depends on the sizes alone: terms in order within a block of
//! `DEPTH`, blocks in order. On x86 with AVX2 the same loops are compiled for it; without fused multiplication, so the
//! bits stay the same everywhere.

use super::pool::Pool;
use super::value::Arith;
use thunderhead_sdk::Error;

const TILE_ROWS: usize = 128;
const TILE_COLUMNS: usize = 128;
const DEPTH: usize = 256;
/// Rows and columns that the innermost loop keeps in registers.
const ROWS: usize = 4;
const COLUMNS: usize = 16;

/// Sizes of a stack of products: `count` results of `rows` by `columns`, sums of `depth` terms each.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub count: usize,
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
}

/// Hands `store(s, i, j, Σ_k a(s, i, k) * b(s, k, j))` each element of each product once.
pub fn gemm<T: Arith>(
    pool: &dyn Pool,
    sizes: Sizes,
    a: impl Fn(usize, usize, usize) -> T + Sync,
    b: impl Fn(usize, usize, usize) -> T + Sync,
    store: impl Fn(usize, usize, usize, T) + Sync,
) -> Result<(), Error> {
    let (tile_rows, tile_columns) = (sizes.rows.div_ceil(TILE_ROWS), sizes.columns.div_ceil(TILE_COLUMNS));
    pool.split(sizes.count * tile_rows * tile_columns, 1, &|tiles| {
        for tile in tiles {
            let (of, within) = (tile / (tile_rows * tile_columns), tile % (tile_rows * tile_columns));
            let tile =
                Tile::new(sizes, within / tile_columns * TILE_ROWS, within % tile_columns * TILE_COLUMNS);
            tile.compute(|i, k| a(of, i, k), |k, j| b(of, k, j), |i, j, v| store(of, i, j, v));
        }
    })
}

/// A part of one result.
struct Tile {
    row: usize,
    column: usize,
    rows: usize,
    columns: usize,
    depth: usize,
}

impl Tile {
    fn new(sizes: Sizes, row: usize, column: usize) -> Tile {
        let rows = TILE_ROWS.min(sizes.rows - row);
        let columns = TILE_COLUMNS.min(sizes.columns - column);
        Tile { row, column, rows, columns, depth: sizes.depth }
    }

    fn compute<T: Arith>(
        &self,
        a: impl Fn(usize, usize) -> T,
        b: impl Fn(usize, usize) -> T,
        store: impl Fn(usize, usize, T),
    ) {
        let (row_panels, column_panels) = (self.rows.div_ceil(ROWS), self.columns.div_ceil(COLUMNS));
        let block = DEPTH.min(self.depth);
        let mut sums = vec![[[T::default(); COLUMNS]; ROWS]; row_panels * column_panels];
        let mut packed_a = vec![[T::default(); ROWS]; row_panels * block];
        let mut packed_b = vec![[T::default(); COLUMNS]; column_panels * block];
        for start in (0..self.depth).step_by(DEPTH) {
            let depth = DEPTH.min(self.depth - start);
            // What lies outside the tile keeps old values; their products go to sums that nobody reads.
            for i in 0..self.rows {
                let panel = &mut packed_a[i / ROWS * depth..][..depth];
                for (k, terms) in panel.iter_mut().enumerate() {
                    terms[i % ROWS] = a(self.row + i, start + k);
                }
            }
            for panel in 0..column_panels {
                let columns = COLUMNS.min(self.columns - panel * COLUMNS);
                let packed = &mut packed_b[panel * depth..][..depth];
                for (k, terms) in packed.iter_mut().enumerate() {
                    for (j, term) in terms[..columns].iter_mut().enumerate() {
                        *term = b(start + k, self.column + panel * COLUMNS + j);
                    }
                }
            }
            for column_panel in 0..column_panels {
                let b = &packed_b[column_panel * depth..][..depth];
                for row_panel in 0..row_panels {
                    let a = &packed_a[row_panel * depth..][..depth];
                    add_products(a, b, &mut sums[row_panel * column_panels + column_panel]);
                }
            }
        }
        for i in 0..self.rows {
            for j in 0..self.columns {
                let sums = &sums[i / ROWS * column_panels + j / COLUMNS];
                store(self.row + i, self.column + j, sums[i % ROWS][j % COLUMNS]);
            }
        }
    }
}

/// `sums[i][j] += Σ_k a[k][i] * b[k][j]`.
#[inline(always)]
fn add_products_plain<T: Arith>(a: &[[T; ROWS]], b: &[[T; COLUMNS]], sums: &mut [[T; COLUMNS]; ROWS]) {
    let mut block = [[T::default(); COLUMNS]; ROWS];
    for (a, b) in a.iter().zip(b) {
        for i in 0..ROWS {
            for j in 0..COLUMNS {
                block[i][j] = block[i][j].add(a[i].mul(b[j]));
            }
        }
    }
    for (sums, block) in sums.iter_mut().zip(&block) {
        for (sum, block) in sums.iter_mut().zip(block) {
            *sum = sum.add(*block);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn add_products_avx2<T: Arith>(a: &[[T; ROWS]], b: &[[T; COLUMNS]], sums: &mut [[T; COLUMNS]; ROWS]) {
    add_products_plain(a, b, sums);
}

fn add_products<T: Arith>(a: &[[T; ROWS]], b: &[[T; COLUMNS]], sums: &mut [[T; COLUMNS]; ROWS]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has AVX2.
        return unsafe { add_products_avx2(a, b, sums) };
    }
    add_products_plain(a, b, sums);
}

/// That the loops chosen for this machine give the bits of the plain ones.
pub fn selftest() -> Result<(), Error> {
    let term = |k: usize, i: usize| ((k * 31 + i * 17) % 97) as f32 * 0.37 - 11.0;
    let a: Vec<[f32; ROWS]> = (0..DEPTH).map(|k| std::array::from_fn(|i| term(k, i))).collect();
    let b: Vec<[f32; COLUMNS]> = (0..DEPTH).map(|k| std::array::from_fn(|j| term(j, k))).collect();
    let (mut chosen, mut plain) = ([[0f32; COLUMNS]; ROWS], [[0f32; COLUMNS]; ROWS]);
    add_products(&a, &b, &mut chosen);
    add_products_plain(&a, &b, &mut plain);
    if chosen.as_flattened().iter().zip(plain.as_flattened()).all(|(a, b)| a.to_bits() == b.to_bits()) {
        return Ok(());
    }
    Err(Error::internal("vector loops and plain ones give different products"))
}

#[cfg(test)]
mod tests {
    use super::super::pool::Alone;
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn tiles_and_blocks_of_any_size_agree_with_the_definition() {
        for (rows, columns, depth) in
            [(1, 1, 1), (5, 17, 3), (130, 131, 257), (3, 300, 600), (0, 4, 2), (2, 2, 0)]
        {
            let sizes = Sizes { count: 2, rows, columns, depth };
            let a = |s: usize, i: usize, k: usize| ((s + 3 * i + 5 * k) % 7) as i64 - 3;
            let b = |s: usize, k: usize, j: usize| ((2 * s + k + 11 * j) % 5) as i64 - 2;
            let found = Mutex::new(vec![None; 2 * rows * columns]);
            gemm(&Alone, sizes, a, b, |s, i, j, v| {
                found.lock().expect("one thread")[(s * rows + i) * columns + j] = Some(v);
            })
            .expect("runs");
            for (at, v) in found.into_inner().expect("one thread").into_iter().enumerate() {
                let (s, i, j) = (at / (rows * columns), at / columns % rows, at % columns);
                assert_eq!(
                    v,
                    Some((0..depth).map(|k| a(s, i, k) * b(s, k, j)).sum()),
                    "{sizes:?} at {s} {i} {j}"
                );
            }
        }
    }
}
