//! Runs loops: turns places into pointers and calls micro-kernels, tile after tile.
//!
//! This file and `micro.rs` are all that touches memory. What makes it sound: the compiler keeps every access inside the
//! dims of its tensor for every coordinate of the loop (`Kernel::bytes` is the largest of them, checked against each view
//! before a run); tiles, cells and buffers lie in scratch that is as large as the loop says; outputs are views that nothing
//! else may touch, and two chunks write different elements of them, since each element is seen by one iteration.

use crate::emit::Class;
use crate::graph::{Dtype, Scalar};
use crate::lower::{Do, Form, Loop, Number, Place, Reach, RowFunction, State, Step};
use crate::math;
use crate::micro::{PARTIALS, Red, Rows, Shape, Table};
use crate::program::{Parallel, RunError, View, ViewMut};
use crate::rare;
use crate::rows::{self, RowCall};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Mutex;

/// The tensors of a run, by their first elements.
pub struct Operands<'a> {
    pub inputs: &'a [View<'a>],
    pub outputs: &'a [ViewMut<'a>],
    pub numbers: &'a [Scalar],
}

// SAFETY: inputs are only read; what chunks write to outputs does not overlap (see the head of this file).
unsafe impl Sync for Operands<'_> {}

/// Work of a chunk, in lanes times steps: enough that handing it out costs little.
const CHUNK_WORK: usize = 1 << 18;

impl Loop {
    fn n_outer(&self) -> usize {
        self.outer.iter().product()
    }

    /// Units that any thread may take.
    fn n_units(&self) -> usize {
        match self.form {
            Form::Row => self.n_outer(),
            Form::Flat | Form::Column => self.n_outer() * self.tile.n,
        }
    }

    fn unit_work(&self) -> usize {
        let steps: usize = self.passes.iter().map(|pass| pass.body.len() + 1).sum();
        let lanes = match self.form {
            Form::Row => self.lane.iter().product(),
            Form::Flat => self.tile.lanes,
            Form::Column => self.tile.lanes * self.serial.iter().product::<usize>(),
        };
        // A step has a cost of its own, whatever its lanes.
        steps * (lanes + 64)
    }

    /// Units, and units of a chunk: by the loop alone, never by the number of threads.
    pub fn share_out(&mut self) {
        let (units, work) = match &self.rows {
            Some(function) => {
                let pieces = function.n.div_ceil(function.piece);
                (
                    function.dims.iter().product::<usize>() * pieces,
                    function.kind.steps() * (function.piece + 64),
                )
            }
            None => (self.n_units(), self.unit_work()),
        };
        (self.units, self.units_a_chunk) = (units, (CHUNK_WORK / work).clamp(1, units.max(1)));
    }

    #[inline]
    pub fn run(
        &self,
        table: &Table,
        operands: &Operands<'_>,
        parallel: &dyn Parallel,
    ) -> Result<(), RunError> {
        if self.units > self.units_a_chunk {
            return self.run_chunks(table, operands, parallel);
        }
        // The smallest loops take less time than what they would be shared out with.
        match &self.rows {
            _ if self.units == 0 => Ok(()),
            Some(function) if !function.kind.has_buffer() => {
                run_rows(function, table, operands, std::ptr::null_mut(), 0..self.units);
                Ok(())
            }
            _ => self.run_chunk(table, operands, 0..self.units),
        }
    }

    #[inline(never)]
    fn run_chunks(
        &self,
        table: &Table,
        operands: &Operands<'_>,
        parallel: &dyn Parallel,
    ) -> Result<(), RunError> {
        let (units, grain) = (self.units, self.units_a_chunk);
        let first: Mutex<Option<(usize, RunError)>> = Mutex::new(None);
        let chunk = |at: usize| {
            let range = at * grain..((at + 1) * grain).min(units);
            let Err(error) = self.run_chunk(table, operands, range) else { return };
            let mut first = first.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if first.is_none_or(|(earliest, _)| at < earliest) {
                *first = Some((at, error));
            }
        };
        match units.div_ceil(grain) {
            chunks if parallel.threads() < 2 => (0..chunks).for_each(chunk),
            chunks => parallel.for_each(chunks, &chunk),
        }
        match first.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    fn scratch_bytes(&self) -> usize {
        let offsets = self.reaches.len() * 3 * 8;
        (self.n_cells * 8).next_multiple_of(64)
            + offsets.next_multiple_of(64)
            + self.tile_bytes.next_multiple_of(64)
            + self.buffer_bytes
    }

    fn run_chunk(&self, table: &Table, operands: &Operands<'_>, units: Range<usize>) -> Result<(), RunError> {
        if let Some(function) = self.rows.as_ref().filter(|function| !function.kind.has_buffer()) {
            run_rows(function, table, operands, std::ptr::null_mut(), units);
            return Ok(());
        }
        SCRATCH.with(|scratch| {
            // A caller who runs a kernel within a chunk of another finds the scratch taken.
            let mut own = Vec::new();
            let mut kept = scratch.try_borrow_mut();
            let scratch = kept.as_deref_mut().unwrap_or(&mut own);
            let Some(function) = &self.rows else {
                return Walk::new(self, table, operands, scratch).units(units);
            };
            let lines = self.buffer_bytes / 64 + 1;
            if scratch.len() < lines {
                scratch.resize(lines, Line([0; 64]));
            }
            run_rows(function, table, operands, scratch.as_mut_ptr().cast(), units);
            Ok(())
        })
    }
}

/// Units of a function of rows: as many rows a call as lie equally far apart. `buffer` is as long as a row.
fn run_rows(
    function: &RowFunction,
    table: &Table,
    operands: &Operands<'_>,
    buffer: *mut f32,
    units: Range<usize>,
) {
    let (pieces, across) = (function.pieces, function.across);
    let size = function.dtype.size_bytes() as i64;
    let mut unit = units.start;
    while unit < units.end {
        let (row, from) = match pieces {
            1 => (unit, 0),
            _ => (unit / pieces, unit % pieces * function.piece),
        };
        let rows = match (pieces, row) {
            (1, 0) => across.min(units.end),
            (1, _) => (across - row % across).min(units.end - unit),
            _ => 1,
        };
        let mut at = [rows::ABSENT; 5];
        for (at, operand) in at.iter_mut().zip(&function.operands) {
            let Some(operand) = operand else { continue };
            let mut offset = operand.base + from as i64;
            match operand.steps[..] {
                _ if row == 0 => {}
                [step] => offset += row as i64 * step,
                _ => {
                    let mut left = row;
                    for (len, step) in function.dims.iter().zip(&operand.steps).rev() {
                        offset += (left % len) as i64 * step;
                        left /= len;
                    }
                }
            }
            let first = match operand.operand {
                (false, at) => operands.inputs[at].data,
                (true, at) => operands.outputs[at].data.cast_const(),
            };
            let step = operand.steps.last().copied().unwrap_or(0) as isize;
            *at = rows::Operand { at: first.wrapping_offset((offset * size) as isize), step };
        }
        let [x, y, w, b, out] = at;
        let call = RowCall {
            kind: function.kind,
            size: size as usize,
            halves: function.dtype == Dtype::BF16,
            rows,
            n: function.piece.min(function.n - from),
            scale: function.scale,
            epsilon: function.epsilon,
            x,
            y,
            w,
            b,
            out,
            buffer,
            stream: function.stream,
        };
        // SAFETY: operands are accesses of the loop, which stay inside their tensors (see the head of this file), for these
        // rows and elements; they are runs of neighbours; the buffer is as long as a row, where the function has one.
        unsafe { (table.rows)(&call) };
        unit += rows;
    }
}

/// Scratch is made of lines of the cache.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code)] [u8; 64]);

thread_local! {
    static SCRATCH: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// One chunk of a loop on its way.
struct Walk<'a> {
    looped: &'a Loop,
    table: &'a Table,
    operands: &'a Operands<'a>,
    cells: *mut u8,
    /// Offsets in elements of each access: of the outer coordinates, of these and the tile, and of all.
    outer_at: *mut i64,
    tile_at: *mut i64,
    total_at: *mut i64,
    tiles: *mut u8,
    buffers: *mut u8,
    /// First lane of the tile, and how many it has; its first coordinates.
    lane: usize,
    n: usize,
    /// Of coordinate `tile.dim`, in this tile.
    count: usize,
    failed: Option<RunError>,
}

impl<'a> Walk<'a> {
    fn new(
        looped: &'a Loop,
        table: &'a Table,
        operands: &'a Operands<'a>,
        scratch: &mut Vec<Line>,
    ) -> Walk<'a> {
        let lines = looped.scratch_bytes() / 64 + 1;
        if scratch.len() < lines {
            scratch.resize(lines, Line([0; 64]));
        }
        let base: *mut u8 = scratch.as_mut_ptr().cast();
        let offsets = (looped.n_cells * 8).next_multiple_of(64);
        let n = looped.reaches.len();
        let tiles = offsets + (n * 3 * 8).next_multiple_of(64);
        let buffers = tiles + looped.tile_bytes.next_multiple_of(64);
        // SAFETY: all lie in the scratch, which is as large as `scratch_bytes`; it is not resized while the walk lives.
        let (outer_at, tiles, buffers) =
            unsafe { (base.add(offsets).cast::<i64>(), base.add(tiles), base.add(buffers)) };
        let walk = Walk {
            looped,
            table,
            operands,
            cells: base,
            outer_at,
            tile_at: outer_at.wrapping_add(n),
            total_at: outer_at.wrapping_add(2 * n),
            tiles,
            buffers,
            lane: 0,
            n: 0,
            count: 0,
            failed: None,
        };
        walk.numbers();
        walk
    }

    fn numbers(&self) {
        for (cell, number) in &self.looped.numbers {
            let bits = match number {
                Number::Bits(bits) => *bits,
                Number::Slot(slot, dtype) => rare::bits_of(self.operands.numbers[*slot as usize], *dtype),
            };
            // SAFETY: a cell of this loop.
            unsafe { *self.cells.add(cell * 8).cast::<u64>() = bits };
        }
    }

    fn units(mut self, units: Range<usize>) -> Result<(), RunError> {
        match self.looped.form {
            Form::Flat => self.flat(units),
            Form::Row => self.rows(units),
            Form::Column => self.columns(units),
        }
        match self.failed {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn flat(&mut self, units: Range<usize>) {
        let looped = self.looped;
        let mut current = None;
        for unit in units {
            let (outer, tile) = (unit / looped.tile.n, unit % looped.tile.n);
            for pass in &looped.passes {
                if current != Some(outer) {
                    self.set_outer(outer);
                    self.set_tile(0);
                    self.steps(&pass.before);
                    current = Some(outer);
                }
                self.set_tile(tile);
                self.steps(&pass.body);
            }
        }
    }

    fn rows(&mut self, units: Range<usize>) {
        let looped = self.looped;
        for unit in units {
            self.set_outer(unit);
            let one_tile = looped.tile.n == 1;
            if one_tile {
                self.set_tile(0);
            }
            for pass in &looped.passes {
                if !pass.before.is_empty() {
                    if !one_tile {
                        self.set_tile(0);
                    }
                    self.steps(&pass.before);
                }
                pass.states.iter().for_each(|state| self.start(state, PARTIALS));
                if !pass.body.is_empty() {
                    for tile in 0..looped.tile.n {
                        if !one_tile {
                            self.set_tile(tile);
                        }
                        self.steps(&pass.body);
                    }
                }
                pass.states.iter().for_each(|state| self.finish(state));
            }
        }
    }

    fn columns(&mut self, units: Range<usize>) {
        let looped = self.looped;
        let length: usize = looped.serial.iter().product();
        for unit in units {
            self.set_outer(unit / looped.tile.n);
            self.set_tile(unit % looped.tile.n);
            for pass in &looped.passes {
                self.steps(&pass.before);
                pass.states.iter().for_each(|state| self.start(state, self.n));
                if !pass.body.is_empty() {
                    for step in 0..length {
                        self.set_serial(step);
                        self.steps(&pass.body);
                    }
                    self.set_serial(0);
                }
            }
        }
    }

    fn set_outer(&mut self, at: usize) {
        let looped = self.looped;
        for (i, reach) in looped.reaches.iter().enumerate() {
            let mut left = at;
            let mut offset = reach.base;
            for (len, c) in looped.outer.iter().zip(&reach.outer).rev() {
                offset += (left % len) as i64 * c;
                left /= len;
            }
            // SAFETY: one offset an access.
            unsafe { *self.outer_at.add(i) = offset };
        }
    }

    fn set_tile(&mut self, at: usize) {
        let looped = self.looped;
        let tile = &looped.tile;
        let len = looped.lane.get(tile.dim).copied().unwrap_or(1);
        let across = len.div_ceil(tile.count);
        let (before, start) = (at / across, at % across * tile.count);
        self.count = tile.count.min(len - start);
        self.n = self.count * tile.inside;
        self.lane = (before * len + start) * tile.inside;
        for (i, reach) in looped.reaches.iter().enumerate() {
            let mut left = before;
            let mut offset = reach.lane.get(tile.dim).map_or(0, |c| c * start as i64);
            for d in (0..tile.dim).rev() {
                offset += (left % looped.lane[d]) as i64 * reach.lane[d];
                left /= looped.lane[d];
            }
            // SAFETY: one offset an access.
            unsafe {
                let at = *self.outer_at.add(i) + offset;
                *self.tile_at.add(i) = at;
                *self.total_at.add(i) = at;
            }
        }
    }

    fn set_serial(&mut self, at: usize) {
        let looped = self.looped;
        for (i, reach) in looped.reaches.iter().enumerate() {
            let mut left = at;
            let mut offset = 0;
            for (len, c) in looped.serial.iter().zip(&reach.serial).rev() {
                offset += (left % len) as i64 * c;
                left /= len;
            }
            // SAFETY: one offset an access.
            unsafe { *self.total_at.add(i) = *self.tile_at.add(i) + offset };
        }
    }

    #[inline(always)]
    fn offset(&self, access: usize) -> i64 {
        debug_assert!(access < self.looped.reaches.len());
        // SAFETY: one offset an access.
        unsafe { *self.total_at.add(access) }
    }

    /// The element at which an access stands.
    #[inline(always)]
    fn element(&self, access: usize) -> *mut u8 {
        let reach = &self.looped.reaches[access];
        let bytes = self.offset(access) * reach.dtype.size_bytes() as i64;
        match reach.operand {
            Some((false, at)) => self.operands.inputs[at].data.wrapping_offset(bytes as isize).cast_mut(),
            Some((true, at)) => self.operands.outputs[at].data.wrapping_offset(bytes as isize),
            None => std::ptr::null_mut(),
        }
    }

    #[inline(always)]
    fn place(&self, place: Place) -> *mut u8 {
        match place {
            Place::Reg(offset) => self.tiles.wrapping_add(offset),
            Place::Cell(cell) => self.cells.wrapping_add(cell * 8),
            Place::Mem(access) => self.element(access),
            Place::Buf(offset, size) => self.buffers.wrapping_add(offset + self.lane * size),
            Place::None => std::ptr::null_mut(),
        }
    }

    fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            self.step(step);
        }
    }

    fn step(&mut self, step: &Step) {
        let n = if step.tile { self.n } else { 1 };
        let d = self.place(step.dst);
        let a = self.place(step.args[0]);
        let table = self.table;
        // SAFETY: places hold as many lanes of the step's class as the tile, or are single numbers where `single` says so;
        // the lowering gives a result a place of its own.
        unsafe {
            match &step.op {
                Do::Load(access) => self.load(*access, d, step.tile),
                Do::Store(access) => self.store(*access, a, step.tile),
                Do::Splat => match step.class {
                    Class::F32 | Class::Mask => (table.load)(Dtype::F32, d, a, Rows::run(n, 0)),
                    Class::F64 | Class::I64 => (table.load)(Dtype::I64, d, a, Rows::run(n, 0)),
                },
                Do::Un(op) => (table.un32)(*op, d.cast(), a.cast(), n),
                Do::Bin(op) => {
                    let (shape, b) = (step.shape(), self.place(step.args[1]));
                    match step.class {
                        Class::F32 if step.halves != (false, false) => {
                            (table.bin_halves)(*op, shape, step.halves, d, a, b, n);
                        }
                        Class::F32 => (table.bin32)(*op, shape, d.cast(), a.cast(), b.cast(), n),
                        Class::F64 => (table.bin64)(*op, shape, d.cast(), a.cast(), b.cast(), n),
                        _ => (table.bini)(*op, shape, d.cast(), a.cast(), b.cast(), n),
                    }
                }
                Do::Tern(op) => {
                    let (b, c) = (self.place(step.args[1]), self.place(step.args[2]));
                    if step.halves.0 {
                        (table.tern_halves)(*op, step.single, step.halves.1, d, a.cast(), b, c, n);
                    } else {
                        (table.tern32)(*op, step.single, d.cast(), a.cast(), b.cast(), c.cast(), n);
                    }
                }
                Do::Cmp(op, class) => {
                    let (shape, b) = (step.shape(), self.place(step.args[1]));
                    match class {
                        Class::F32 => (table.cmp32)(*op, shape, d.cast(), a.cast(), b.cast(), n),
                        Class::F64 => (table.cmp64)(*op, shape, d.cast(), a.cast(), b.cast(), n),
                        _ => (table.cmpi)(*op, shape, d.cast(), a.cast(), b.cast(), n),
                    }
                }
                Do::Sel => {
                    let (b, c) = (self.place(step.args[1]), self.place(step.args[2]));
                    if step.class.size_bytes() == 4 {
                        (table.sel32)(step.single, d.cast(), a.cast(), b.cast(), c.cast(), n);
                    } else {
                        (table.sel64)(step.single, d.cast(), a.cast(), b.cast(), c.cast(), n);
                    }
                }
                Do::Fold(red) => {
                    let b = if *red == Red::Dot { self.place(step.args[1]) } else { a };
                    if step.halves.0 {
                        (table.fold_halves)(*red, d.cast(), a.cast(), b.cast(), n);
                    } else {
                        self.fold(*red, step.class, d, a, b, n);
                    }
                }
                _ => self.rare(step, d, a, n),
            }
        }
    }

    /// Calls `f` for each run of a tile: its first lane, the offset of its first element, and its lanes.
    fn runs(&self, access: usize, mut f: impl FnMut(usize, i64, usize)) {
        self.blocks(access, |lane, offset, rows| {
            for row in 0..rows.rows {
                f(lane + row * rows.n, offset + row as i64 * rows.step as i64, rows.n);
            }
        });
    }

    /// Calls `f` for each block of runs that are equally far apart: its first lane, the offset of its first element.
    fn blocks(&self, access: usize, mut f: impl FnMut(usize, i64, Rows)) {
        let looped = self.looped;
        let (tile, reach) = (&looped.tile, &looped.reaches[access]);
        let stride = reach.stride as isize;
        if reach.run_from <= tile.dim {
            return f(0, 0, Rows::run(self.n, stride));
        }
        let n: usize = looped.lane[reach.run_from..].iter().product();
        // The coordinate before the run counts its rows, those before that the blocks.
        let last = reach.run_from - 1;
        let rows = if last == tile.dim { self.count } else { looped.lane[last] };
        let block = Rows { n, stride, rows, step: reach.lane[last] as isize };
        for (k, lane) in (0..self.n).step_by(n * rows).enumerate() {
            let mut left = k;
            let mut offset = 0;
            for d in (tile.dim + 1..last).rev() {
                offset += (left % looped.lane[d]) as i64 * reach.lane[d];
                left /= looped.lane[d];
            }
            if last > tile.dim {
                offset += left as i64 * reach.lane[tile.dim];
            }
            f(lane, offset, block);
        }
    }

    /// # Safety
    /// `d` has room for `n` lanes of the dtype's class.
    unsafe fn load(&self, access: usize, d: *mut u8, tile: bool) {
        // SAFETY: the caller's and the compiler's: every element of the tile lies in its tensor.
        unsafe { self.load_from(access, self.element(access), d, tile) }
    }

    /// As [`Walk::load`], from another first element.
    ///
    /// # Safety
    /// As there, and all elements of the access lie in a tensor when counted from `from`.
    unsafe fn load_from(&self, access: usize, from: *const u8, d: *mut u8, tile: bool) {
        let reach = &self.looped.reaches[access];
        let dtype = reach.dtype;
        if !tile {
            // SAFETY: one element.
            return unsafe { (self.table.load)(dtype, d, from, Rows::run(1, 0)) };
        }
        let (size, lane_size) = (dtype.size_bytes() as isize, Class::of(dtype).size_bytes());
        self.blocks(access, |lane, offset, rows| {
            let d = d.wrapping_add(lane * lane_size);
            let from = from.wrapping_offset(offset as isize * size);
            // SAFETY: a block of the tile.
            unsafe { (self.table.load)(dtype, d, from, rows) };
        });
    }

    /// # Safety
    /// `a` has `n` lanes of the dtype's class.
    unsafe fn store(&self, access: usize, a: *const u8, tile: bool) {
        let reach = &self.looped.reaches[access];
        let (to, dtype) = (self.element(access), reach.dtype);
        if !tile {
            // SAFETY: one element.
            return unsafe { (self.table.store)(dtype, to, a, Rows::run(1, 1)) };
        }
        let (size, lane_size) = (dtype.size_bytes() as isize, Class::of(dtype).size_bytes());
        self.blocks(access, |lane, offset, rows| {
            let a = a.wrapping_add(lane * lane_size);
            let to = to.wrapping_offset(offset as isize * size);
            // SAFETY: a block of the tile.
            unsafe { (self.table.store)(dtype, to, a, rows) };
        });
    }

    /// # Safety
    /// As for [`Walk::step`]: `d` is the state, `a` and `b` have `n` lanes.
    unsafe fn fold(&self, red: Red, class: Class, d: *mut u8, a: *const u8, b: *const u8, n: usize) {
        let lanes = self.looped.form == Form::Column;
        // SAFETY: the caller's.
        unsafe {
            match (class, lanes) {
                (Class::F32, true) => (self.table.lanes32)(red, d.cast(), a.cast(), b.cast(), n),
                (Class::F32, false) => (self.table.fold32)(red, d.cast(), a.cast(), b.cast(), n),
                (Class::F64, _) => fold_wide::<f64>(red, d.cast(), a.cast(), n, lanes),
                _ => fold_wide::<i64>(red, d.cast(), a.cast(), n, lanes),
            }
        }
    }

    /// Before the first lane of a fold.
    fn start(&self, state: &State, lanes: usize) {
        let at = self.tiles.wrapping_add(state.at);
        let places = self.tiles.wrapping_add(state.places);
        if let (Some(red), Class::F32, Form::Row) = (state.red, state.class, self.looped.form) {
            // SAFETY: a row's state has `PARTIALS` lanes.
            return unsafe { (self.table.start32)(red, at.cast()) };
        }
        for i in 0..lanes {
            // SAFETY: a state has room for eight bytes a lane, and another eight for places where it has any.
            unsafe {
                match (state.red, state.class) {
                    // Nothing found yet.
                    (None, _) => *places.cast::<i64>().add(i) = -1,
                    (Some(red), Class::F32) => *at.cast::<f32>().add(i) = f32::start(red),
                    (Some(red), Class::F64) => *at.cast::<f64>().add(i) = f64::start(red),
                    (Some(red), _) => *at.cast::<i64>().add(i) = i64::start(red),
                }
            }
        }
    }

    /// A row's result, from its partial ones.
    fn finish(&self, state: &State) {
        let at = self.tiles.wrapping_add(state.at);
        let result = self.place(state.result);
        // SAFETY: a state has `PARTIALS` lanes; the result is a cell.
        unsafe {
            match (state.red, state.class) {
                (None, _) => {
                    *result.cast::<i64>() = *self.tiles.wrapping_add(state.places).cast::<i64>();
                }
                (Some(red), Class::F32) => (self.table.finish32)(red, at.cast(), result.cast()),
                (Some(red), Class::F64) => *result.cast::<f64>() = gather_partials(red, at.cast::<f64>()),
                (Some(red), _) => *result.cast::<i64>() = gather_partials(red, at.cast::<i64>()),
            }
        }
    }

    /// # Safety
    /// As for [`Walk::step`].
    unsafe fn rare(&mut self, step: &Step, d: *mut u8, a: *const u8, n: usize) {
        let [_, b, ..] = step.args.map(|place| self.place(place).cast_const());
        // SAFETY: the caller's.
        unsafe {
            match &step.op {
                Do::Slow(op) => {
                    let f = rare::slow(*op);
                    match step.class {
                        Class::F32 => {
                            each(n, |i| at::<f32>(d, i).write(f(f64::from(*lane::<f32>(a, i))) as f32))
                        }
                        _ => each(n, |i| at::<f64>(d, i).write(f(*lane::<f64>(a, i)))),
                    }
                }
                Do::Slow2(op) if step.class == Class::I64 => {
                    let _ = op;
                    self.divide(step, d.cast(), a.cast(), b.cast(), n);
                }
                Do::Slow2(op) => {
                    let f = rare::slow2(*op);
                    let (x, y) = (step.single & 1 == 0, step.single & 2 == 0);
                    let (x, y) = (usize::from(x), usize::from(y));
                    match step.class {
                        Class::F32 => each(n, |i| {
                            let (x, y) = (*lane::<f32>(a, i * x), *lane::<f32>(b, i * y));
                            at::<f32>(d, i).write(f(f64::from(x), f64::from(y)) as f32);
                        }),
                        _ => each(n, |i| {
                            at::<f64>(d, i).write(f(*lane::<f64>(a, i * x), *lane::<f64>(b, i * y)));
                        }),
                    }
                }
                Do::Int(op, _) if step.class == Class::Mask => {
                    (self.table.bits)(*op, step.shape(), d.cast(), a.cast(), b.cast(), n);
                }
                Do::Int(op, dtype) => {
                    let (x, y) = (usize::from(step.single & 1 == 0), usize::from(step.single & 2 == 0));
                    for i in 0..n {
                        let (x, y) = (*lane::<i64>(a, i * x), *lane::<i64>(b, i * y));
                        let v = rare::int(*op, *dtype, x, y).unwrap_or_else(|| {
                            self.failed = Some(RunError::DividedByZero);
                            0
                        });
                        at::<i64>(d, i).write(v);
                    }
                }
                Do::Cast(from, to) => cast(*from, *to, step.class, d, a, n),
                Do::Wrap(dtype) => each(n, |i| at::<i64>(d, i).write(rare::wrap(*lane::<i64>(a, i), *dtype))),
                Do::Signbit(Class::F32) => each(n, |i| {
                    at::<u32>(d, i).write(((*lane::<i32>(a, i)) >> 31) as u32);
                }),
                Do::Signbit(_) => each(n, |i| at::<u32>(d, i).write((*lane::<i64>(a, i) >> 63) as u32)),
                Do::Index(access) => self.index(*access, d.cast(), step.tile),
                Do::Uniform(dtype, access) => self.uniform(step, *dtype, *access, d),
                Do::Gather { access, stride, size } => {
                    self.gather(step, *access, (*stride, *size), d, a.cast());
                }
                Do::Search { largest, class, access } => {
                    let places: *mut i64 = self.place(step.args[1]).cast();
                    match class {
                        Class::F32 => self.search::<f32>(*largest, *access, d.cast(), places, a.cast()),
                        Class::F64 => self.search::<f64>(*largest, *access, d.cast(), places, a.cast()),
                        _ => self.search::<i64>(*largest, *access, d.cast(), places, a.cast()),
                    }
                }
                _ => unreachable!("`step` does all others"),
            }
        }
    }

    /// # Safety
    /// As for [`Walk::step`].
    unsafe fn divide(&mut self, step: &Step, d: *mut i64, a: *const i64, b: *const i64, n: usize) {
        let b_lanes = if step.single & 2 == 0 { n } else { 1 };
        // SAFETY: the caller's.
        unsafe {
            if (0..b_lanes).any(|i| *b.add(i) == 0) {
                self.failed = Some(RunError::DividedByZero);
            }
            // Both single: one result.
            let shape = if step.single & 3 == 3 { Shape::Lanes } else { step.shape() };
            (self.table.bini)(crate::micro::Bin::Div, shape, d, a, b, n);
        }
    }

    /// # Safety
    /// `d` has room for the tile, or for one number.
    unsafe fn index(&self, access: usize, d: *mut i64, tile: bool) {
        let first = self.offset(access);
        if !tile {
            // SAFETY: one number.
            return unsafe { *d = first };
        }
        let stride = self.looped.reaches[access].stride;
        self.runs(access, |lane, offset, n| {
            for i in 0..n {
                // SAFETY: lanes of the tile.
                unsafe { *d.add(lane + i) = first + offset + i as i64 * stride };
            }
        });
    }

    /// # Safety
    /// As for [`Walk::step`]; all four operands are single numbers.
    unsafe fn uniform(&self, step: &Step, dtype: Dtype, access: usize, d: *mut u8) {
        let args = step.args.map(|place| self.place(place).cast_const());
        // SAFETY: single numbers of their classes.
        let (seed, offset) = unsafe { (*args[2].cast::<i64>(), *args[3].cast::<i64>()) };
        let first = self.offset(access);
        let stride = if step.tile { self.looped.reaches[access].stride } else { 0 };
        let run = |lane: usize, at: i64, n: usize| {
            // SAFETY: single numbers of their class, and lanes of the tile.
            unsafe {
                if dtype == Dtype::F64 {
                    let (lo, hi) = (*args[0].cast::<f64>(), *args[1].cast::<f64>());
                    each(n, |i| {
                        let element = (first + at + i as i64 * stride) as u64;
                        self::at::<f64>(d, lane + i)
                            .write(lo + rare::unit64(seed, offset, element) * (hi - lo));
                    });
                    return;
                }
                let (lo, hi) = (*args[0].cast::<f32>(), *args[1].cast::<f32>());
                let word = |element: i64| rare::word32(seed, offset, element as u64);
                let write = |i: usize, word: u32| {
                    self::at::<f32>(d, lane + i).write(lo + rare::unit32(word, dtype) * (hi - lo));
                };
                let start = first + at;
                if stride != 1 {
                    return (0..n).for_each(|i| write(i, word(start + i as i64 * stride)));
                }
                // Neighbours share a block of four words.
                let position = (offset as u64).wrapping_add(start as u64);
                let head = ((4 - position % 4) % 4).min(n as u64) as usize;
                (0..head).for_each(|i| write(i, word(start + i as i64)));
                let mut i = head;
                while i < n {
                    let block = rare::philox(seed, position.wrapping_add(i as u64) / 4);
                    (i..n.min(i + 4)).for_each(|k| write(k, block[k - i]));
                    i += 4;
                }
            }
        };
        if step.tile {
            self.runs(access, run);
        } else {
            run(0, 0, 1);
        }
    }

    fn checked(&mut self, index: i64, size: usize) -> i64 {
        if index >= 0 && (index as u64) < size as u64 {
            return index;
        }
        self.failed.get_or_insert(RunError::Index { index, size });
        0
    }

    /// # Safety
    /// As for [`Walk::step`]; a table has at least one element along the indexed axis.
    unsafe fn gather(
        &mut self,
        step: &Step,
        access: usize,
        (stride, size): (i64, usize),
        d: *mut u8,
        index: *const i64,
    ) {
        let dtype = self.looped.reaches[access].dtype;
        let (bytes, lane_size) = (dtype.size_bytes() as isize, Class::of(dtype).size_bytes());
        let from = self.element(access).cast_const();
        if step.single & 1 == 1 {
            // SAFETY: one number.
            let at = self.checked(unsafe { *index }, size);
            let from = from.wrapping_offset((at * stride) as isize * bytes);
            // SAFETY: the index is inside its axis, so the access stays inside the table.
            return unsafe { self.load_from(access, from, d, step.tile) };
        }
        let walk = self.looped.reaches[access].stride;
        let mut runs = Vec::new();
        self.runs(access, |lane, offset, n| runs.push((lane, offset, n)));
        for (lane, offset, n) in runs {
            for i in 0..n {
                // SAFETY: a lane of the tile.
                let at = self.checked(unsafe { *index.add(lane + i) }, size);
                let element = offset + i as i64 * walk + at * stride;
                let from = from.wrapping_offset(element as isize * bytes);
                // SAFETY: the index is inside its axis, so this is an element of the table.
                unsafe { (self.table.load)(dtype, d.add((lane + i) * lane_size), from, Rows::run(1, 0)) };
            }
        }
    }

    /// # Safety
    /// As for [`Walk::step`]; state and places are one for a row, one a lane for columns.
    unsafe fn search<T: Wide>(
        &self,
        largest: bool,
        access: usize,
        best: *mut T,
        places: *mut i64,
        a: *const T,
    ) {
        let columns = self.looped.form == Form::Column;
        let first = self.offset(access);
        let reach = &self.looped.reaches[access];
        let see = |lane: usize, place: i64| {
            let slot = if columns { lane } else { 0 };
            // SAFETY: lanes of the tile and of the state.
            unsafe {
                let (v, old, at) = (*a.add(lane), *best.add(slot), *places.add(slot));
                let beats = if v.is_nan() {
                    at < 0 || !old.is_nan()
                } else {
                    at < 0 || (!old.is_nan() && if largest { v > old } else { v < old })
                };
                let tie = at >= 0 && place < at && (v == old || (v.is_nan() && old.is_nan()));
                if beats || tie {
                    *best.add(slot) = v;
                    *places.add(slot) = place;
                }
            }
        };
        if columns {
            return (0..self.n).for_each(|lane| see(lane, first));
        }
        self.runs(access, |lane, offset, n| {
            (0..n).for_each(|i| see(lane + i, first + offset + i as i64 * reach.stride));
        });
    }
}

fn each(n: usize, f: impl FnMut(usize)) {
    (0..n).for_each(f);
}

fn at<T>(d: *mut u8, i: usize) -> *mut T {
    d.cast::<T>().wrapping_add(i)
}

fn lane<T>(a: *const u8, i: usize) -> *const T {
    a.cast::<T>().wrapping_add(i)
}

/// A type that folds run in.
trait Wide: Copy + PartialOrd {
    fn start(red: Red) -> Self;
    fn join(red: Red, a: Self, b: Self) -> Self;
    fn is_nan(self) -> bool {
        false
    }
}

macro_rules! floats {
    ($($t:ident)*) => {$(
        impl Wide for $t {
            fn start(red: Red) -> $t {
                match red {
                    Red::Sum | Red::Dot => 0.0,
                    Red::Prod => 1.0,
                    Red::Max => $t::NEG_INFINITY,
                    Red::Min => $t::INFINITY,
                }
            }
            fn join(red: Red, a: $t, b: $t) -> $t {
                match red {
                    Red::Sum | Red::Dot => a + b,
                    Red::Prod => a * b,
                    Red::Max => if a > b || a.is_nan() { a } else { b },
                    Red::Min => if a < b || a.is_nan() { a } else { b },
                }
            }
            fn is_nan(self) -> bool {
                $t::is_nan(self)
            }
        }
    )*};
}

floats! { f32 f64 }

impl Wide for i64 {
    fn start(red: Red) -> i64 {
        match red {
            Red::Sum | Red::Dot => 0,
            Red::Prod => 1,
            Red::Max => i64::MIN,
            Red::Min => i64::MAX,
        }
    }

    fn join(red: Red, a: i64, b: i64) -> i64 {
        match red {
            Red::Sum | Red::Dot => a.wrapping_add(b),
            Red::Prod => a.wrapping_mul(b),
            Red::Max => a.max(b),
            Red::Min => a.min(b),
        }
    }
}

/// # Safety
/// `acc` has a partial result a lane (`lanes`), or `PARTIALS` of them; `a` has `n` lanes.
unsafe fn fold_wide<T: Wide>(red: Red, acc: *mut T, a: *const T, n: usize, lanes: bool) {
    for i in 0..n {
        let slot = if lanes { i } else { i % PARTIALS };
        // SAFETY: the caller's.
        unsafe { *acc.add(slot) = T::join(red, *acc.add(slot), *a.add(i)) };
    }
}

/// Partial results joined in pairs, always in the same order.
///
/// # Safety
/// `partials` has `PARTIALS` lanes.
unsafe fn gather_partials<T: Wide>(red: Red, partials: *mut T) -> T {
    let mut half = PARTIALS / 2;
    // SAFETY: the caller's.
    unsafe {
        while half > 0 {
            for i in 0..half {
                *partials.add(i) = T::join(red, *partials.add(i), *partials.add(i + half));
            }
            half /= 2;
        }
        *partials
    }
}

/// # Safety
/// `d` and `a` have `n` lanes of their classes.
unsafe fn cast(from: Class, to: Dtype, class: Class, d: *mut u8, a: *const u8, n: usize) {
    // Halves are rounded from what f64 rounds to odd, so that they round once.
    let half = matches!(to, Dtype::F16 | Dtype::BF16);
    // SAFETY: the caller's.
    unsafe {
        match (from, class) {
            (Class::F32, Class::F64) => each(n, |i| at::<f64>(d, i).write(f64::from(*lane::<f32>(a, i)))),
            (Class::F64, Class::F32) if half => {
                each(n, |i| at::<f32>(d, i).write(math::to_odd(*lane::<f64>(a, i))));
            }
            (Class::F64, Class::F32) => each(n, |i| at::<f32>(d, i).write(*lane::<f64>(a, i) as f32)),
            (Class::F32, Class::I64) => {
                each(n, |i| at::<i64>(d, i).write(rare::cut(f64::from(*lane::<f32>(a, i)), to)));
            }
            (Class::F64, Class::I64) => each(n, |i| at::<i64>(d, i).write(rare::cut(*lane::<f64>(a, i), to))),
            (Class::I64, Class::F32) => each(n, |i| at::<f32>(d, i).write(*lane::<i64>(a, i) as f32)),
            (Class::I64, Class::F64) => each(n, |i| at::<f64>(d, i).write(*lane::<i64>(a, i) as f64)),
            (Class::Mask, Class::F32) => {
                each(n, |i| at::<f32>(d, i).write(if *lane::<u32>(a, i) != 0 { 1.0 } else { 0.0 }));
            }
            (Class::Mask, Class::F64) => {
                each(n, |i| at::<f64>(d, i).write(f64::from(*lane::<u32>(a, i) & 1)));
            }
            (Class::Mask, Class::I64) => {
                each(n, |i| at::<i64>(d, i).write(i64::from(*lane::<u32>(a, i) & 1)));
            }
            _ => unreachable!("no cast within a class"),
        }
    }
}

/// How far an access goes into its tensor: its least element, and the bytes up to the end of its last.
pub fn reach_bytes(looped: &Loop, reach: &Reach) -> (i64, usize) {
    let (mut first, mut last) = (reach.base, reach.base);
    let dims = [(&looped.outer, &reach.outer), (&looped.serial, &reach.serial), (&looped.lane, &reach.lane)];
    for (lens, coeffs) in dims {
        for (len, c) in lens.iter().zip(coeffs) {
            let moved = c * (*len as i64 - 1);
            first += moved.min(0);
            last += moved.max(0);
        }
    }
    (first, (last + 1).max(0) as usize * reach.dtype.size_bytes())
}
