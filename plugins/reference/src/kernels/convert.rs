//! Conversion between any two dtypes, in tiles of the widest type of the source's category: so each dtype needs one
//! reader and a writer a category, not a loop for each pair.

use super::pool::Pool;
use super::strided::{Dst, GRAIN, Src};
use super::value::{Tile, Value, Via};
use std::ops::Range;
use thunderhead_sdk::Error;

/// Elements of a tile: few enough to stay in the nearest cache.
const TILE: usize = 1024;

/// A tensor of any dtype that is read.
pub trait Load: Sync {
    fn dims(&self) -> &[usize];
    /// Elements of that range in row-major order.
    fn load(&self, range: Range<usize>) -> Tile;
}

/// A tensor of any dtype that is written.
pub trait Store: Sync {
    fn dims(&self) -> &[usize];
    /// Elements of that range in row-major order; the tile has as many.
    fn store(&self, range: Range<usize>, tile: &Tile);
}

impl<T: Value> Load for Src<T> {
    fn dims(&self) -> &[usize] {
        Src::dims(self)
    }

    fn load(&self, range: Range<usize>) -> Tile {
        let mut values = Vec::with_capacity(range.len());
        self.read_range(range, |v| values.push(v.via()));
        Via::tile(values)
    }
}

impl<T: Value> Store for Dst<T> {
    fn dims(&self) -> &[usize] {
        Dst::dims(self)
    }

    fn store(&self, range: Range<usize>, tile: &Tile) {
        match tile {
            Tile::Signed(values) => self.write_values(range, values),
            Tile::Unsigned(values) => self.write_values(range, values),
            Tile::Floats(values) => self.write_values(range, values),
            Tile::Complex(values) => self.write_values(range, values),
        }
    }
}

impl<T: Value> Dst<T> {
    fn write_values<V: Via>(&self, range: Range<usize>, values: &[V]) {
        assert_eq!(range.len(), values.len(), "a value an element");
        let mut next = 0;
        self.write_range(range, || {
            next += 1;
            values[next - 1].to_value()
        });
    }
}

/// `out[i] = a[i]`, converted. Each tile is read before it is written.
pub fn convert(pool: &dyn Pool, out: &dyn Store, a: &dyn Load) -> Result<(), Error> {
    if out.dims() != a.dims() {
        return Err(Error::invalid(format!("dims {:?} are converted into {:?}", a.dims(), out.dims())));
    }
    pool.split(super::strided::numel(out.dims()), GRAIN, &|range| {
        for start in range.clone().step_by(TILE) {
            let tile = start..(start + TILE).min(range.end);
            out.store(tile.clone(), &a.load(tile));
        }
    })
}
