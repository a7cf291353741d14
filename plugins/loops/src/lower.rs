//! From straight-line code to a loop that can run: what lies in lanes, what runs outside, in how many passes, and where
//! each value is.
//!
//! Three forms ([`Form`]). *Flat*: nothing is folded; lanes are the innermost coordinates. *Row*: the folded coordinates
//! are the lanes; each iteration of the others is one row, taken in as many passes as its folds depend on each other, while
//! it stays in cache. *Column*: the lanes are kept coordinates, and each fold adds tile to tile. Values are computed at
//! one of three levels ([`Level`]); within a pass in the order of the code. A value of an earlier pass is computed again or,
//! where it was dear, kept in a buffer as long as the row.

// Ids index several lists at once.
#![allow(clippy::needless_range_loop)]

use crate::affine::Affine;
use crate::emit::{Access, Class, Code, Id, Ins, Op};
use crate::graph::{Binary, Dtype, Unary, dense_strides};
use crate::kept::{self, Key};
use crate::micro::{Bin, Cmp, IntBin, PARTIALS, Red, Shape, Tern, Un32};
use crate::rows::Kind;
use std::fmt;
use std::sync::OnceLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    Flat,
    Row,
    Column,
}

/// How often a value is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Once: it depends on numbers only.
    Once,
    /// For each row, or each tile of a column loop.
    Outer,
    /// For each tile, or each step along a column.
    Inner,
}

/// Where a value lies while the loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    None,
    /// A tile, by its offset in bytes.
    Reg(usize),
    /// A single number.
    Cell(usize),
    /// In a tensor, where an access looks.
    Mem(usize),
    /// In a buffer as long as the row: offset and bytes a lane.
    Buf(usize, usize),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Do {
    Load(usize),
    Splat,
    Index(usize),
    Un(Un32),
    Slow(Unary),
    Slow2(Binary),
    Bin(Bin),
    Int(IntBin, Dtype),
    Cmp(Cmp, Class),
    Sel,
    Tern(Tern),
    Cast(Class, Dtype),
    Wrap(Dtype),
    Signbit(Class),
    Gather {
        access: usize,
        stride: i64,
        size: usize,
    },
    Uniform(Dtype, usize),
    Store(usize),
    /// Joins a fold's state.
    Fold(Red),
    /// Joins a search for the largest or smallest: state in the first place, found places in the second.
    Search {
        largest: bool,
        class: Class,
        access: usize,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub op: Do,
    pub class: Class,
    pub dst: Place,
    pub args: [Place; 4],
    /// Which operands are single numbers: bit i for operand i.
    pub single: u8,
    /// One number, or a tile of them.
    pub tile: bool,
    /// Operands that are lanes are bf16 in memory; so is the result.
    pub halves: (bool, bool),
}

/// Neither operands nor result are halves.
const F32: (bool, bool) = (false, false);

impl Step {
    pub fn shape(&self) -> Shape {
        match self.single & 3 {
            2 => Shape::Right,
            1 => Shape::Left,
            _ => Shape::Lanes,
        }
    }
}

/// An access with its coefficients by level.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reach {
    /// Among inputs, or else outputs; `None`: only a number is wanted.
    pub operand: Option<(bool, usize)>,
    pub dtype: Dtype,
    pub base: i64,
    pub outer: Vec<i64>,
    pub serial: Vec<i64>,
    pub lane: Vec<i64>,
    /// Lane coordinates from this one on are one run of lanes, `stride` apart.
    pub run_from: usize,
    pub stride: i64,
}

impl Reach {
    /// A whole tile is one run of neighbours.
    fn is_dense(&self, tile: &Tile) -> bool {
        self.run_from <= tile.dim && self.stride == 1
    }
}

/// How lanes are cut into tiles: `count` of coordinate `dim`, all of those behind it, one of those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    pub dim: usize,
    pub count: usize,
    /// Lanes in one of `dim`.
    pub inside: usize,
    /// Lanes of the largest tile.
    pub lanes: usize,
    pub n: usize,
}

/// State of a fold.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub red: Option<Red>,
    pub largest: bool,
    pub class: Class,
    /// Offset in bytes of its lanes, and of the places found.
    pub at: usize,
    pub places: usize,
    /// Where a row's result goes.
    pub result: Place,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pass {
    pub before: Vec<Step>,
    pub body: Vec<Step>,
    pub states: Vec<State>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Bits(u64),
    Slot(u32, Dtype),
}

/// A loop that can run.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    pub form: Form,
    pub outer: Vec<usize>,
    pub serial: Vec<usize>,
    pub lane: Vec<usize>,
    pub tile: Tile,
    pub reaches: Vec<Reach>,
    pub numbers: Vec<(usize, Number)>,
    pub passes: Vec<Pass>,
    pub n_cells: usize,
    pub tile_bytes: usize,
    pub buffer_bytes: usize,
    /// All of it as one function of rows, for which there is a kernel.
    pub rows: Option<RowFunction>,
    /// Units of work that any thread may take, and how many are handed out at once.
    pub units: usize,
    pub units_a_chunk: usize,
}

/// A function of rows that is recognised (see `rows.rs`).
#[derive(Clone, Debug, PartialEq)]
pub struct RowFunction {
    pub kind: Kind,
    pub scale: f32,
    pub epsilon: f32,
    pub dtype: Dtype,
    /// Rows lie along these; each has `n` elements, and a unit of work is `piece` of them.
    pub dims: Vec<usize>,
    pub n: usize,
    pub piece: usize,
    pub pieces: usize,
    /// Rows that follow each other at one distance: the last of the dims.
    pub across: usize,
    /// `x`, `y`, `w`, `b` and the result.
    pub operands: [Option<RowOperand>; 5],
    /// The result is so large that it leaves the caches before anybody reads it.
    pub stream: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RowOperand {
    pub operand: (bool, usize),
    pub base: i64,
    /// Elements from one row to the next along each of the dims.
    pub steps: Vec<i64>,
}

/// Lanes of a tile: few enough that a dozen of them stay in the nearest cache.
const TILE_LANES: usize = 1024;
/// A row this long is one tile.
const WHOLE_ROW: usize = 2048;
/// A shorter innermost dim shares its tile with the one before it.
const SHORT_LANES: usize = 256;
/// A row of this size stays near.
const NEAR_BUFFER_BYTES: usize = 64 << 10;
/// Elements of a function without folds that are a unit of work.
const PIECE: usize = 1 << 14;
/// More is not kept of a row.
const MOST_BUFFER_BYTES: usize = 512 << 10;

fn begin(code: &Code) -> Lowering {
    let mut code = Peephole::of(code).done();
    let shape = Shaped::of(&code);
    shape.rewrite(&mut code);
    Lowering::new(code, shape)
}

/// What the loop would be kept under, if it were no function of rows.
#[cfg(test)]
pub fn key(code: &Code) -> Key {
    begin(code).key()
}

/// With `rows`, functions of rows are recognised: there are kernels for them.
pub fn lower(code: &Code, rows: bool) -> Loop {
    let mut lowering = begin(code);
    let rows = if rows { lowering.row_function() } else { None };
    let mut looped = lowering.kept();
    if let Some(function) = &rows {
        // A row of f32.
        looped.buffer_bytes = looped.buffer_bytes.max((function.n * 4).next_multiple_of(64));
    }
    looped.rows = rows;
    looped.share_out();
    looped
}

/// SSA that is being simplified; stores are kept apart.
struct Work {
    ins: Vec<Ins>,
    stores: Vec<(Id, Access)>,
    lens: Vec<usize>,
    folded: Vec<bool>,
}

impl Work {
    fn affines(&mut self) -> impl Iterator<Item = &mut Affine> {
        let of_ins = self.ins.iter_mut().filter_map(|ins| match &mut ins.op {
            Op::Load(access) | Op::Gather(access, ..) => Some(&mut access.at),
            Op::Index(at) | Op::Uniform(_, at) | Op::Place { at, .. } => Some(at),
            _ => None,
        });
        of_ins.chain(self.stores.iter_mut().map(|(_, access)| &mut access.at))
    }
}

/// Common sequences made one operation.
struct Peephole {
    work: Work,
    uses: Vec<u32>,
}

impl Peephole {
    fn of(code: &Code) -> Peephole {
        let stores = code.stores.iter().map(|store| (store.value, store.access.clone())).collect();
        let work =
            Work { ins: code.ins.clone(), stores, lens: code.lens.clone(), folded: code.folded.clone() };
        let mut peephole = Peephole { work, uses: vec![] };
        peephole.count();
        peephole
    }

    /// Uses by what is needed for the stores; nothing else is lowered.
    fn count(&mut self) {
        self.uses = vec![0; self.work.ins.len()];
        for (value, _) in &self.work.stores {
            self.uses[*value] += 1;
        }
        for id in (0..self.work.ins.len()).rev() {
            if self.uses[id] > 0 {
                self.work.ins[id].args.iter().for_each(|arg| self.uses[*arg] += 1);
            }
        }
    }

    fn done(mut self) -> Work {
        for _ in 0..3 {
            for id in 0..self.work.ins.len() {
                if self.uses[id] > 0 {
                    self.simplify(id);
                }
            }
            self.count();
        }
        self.work
    }

    fn op(&self, id: Id) -> &Op {
        &self.work.ins[id].op
    }

    fn arg(&self, id: Id, at: usize) -> Id {
        self.work.ins[id].args[at]
    }

    fn is_f32(&self, id: Id) -> bool {
        self.work.ins[id].class == Class::F32
    }

    fn constant(&self, id: Id) -> Option<f32> {
        match self.op(id) {
            Op::Const(bits) if self.is_f32(id) => Some(f32::from_bits(*bits as u32)),
            _ => None,
        }
    }

    /// The other operand of a commutative operation with a constant near this value.
    fn beside(&self, id: Id, bin: Bin, value: f32) -> Option<Id> {
        if *self.op(id) != Op::Bin(bin) || !self.is_f32(id) {
            return None;
        }
        let near = |arg: Id| self.constant(arg).is_some_and(|c| (c - value).abs() <= value.abs() * 1e-6);
        let (a, b) = (self.arg(id, 0), self.arg(id, 1));
        if near(b) { Some(a) } else { near(a).then_some(b) }
    }

    /// Used here only.
    fn sole(&self, id: Id) -> bool {
        self.uses[id] == 1
    }

    fn set(&mut self, id: Id, op: Op, args: Vec<Id>) {
        self.work.ins[id].op = op;
        self.work.ins[id].args = args;
    }

    fn simplify(&mut self, id: Id) {
        if let Op::Fold(Red::Sum) = self.op(id) {
            return self.dot(id);
        }
        if !self.is_f32(id) {
            return;
        }
        let rules = [
            Peephole::sigmoid,
            Peephole::silu,
            Peephole::gelu,
            Peephole::scaled_gelu,
            Peephole::pair,
            Peephole::exp_of_difference,
        ];
        for rule in rules {
            if let Some((op, args)) = rule(self, id) {
                return self.set(id, op, args);
            }
        }
    }

    /// A sum of products is one pass over both.
    fn dot(&mut self, id: Id) {
        let a = self.arg(id, 0);
        if self.is_f32(a) && *self.op(a) == Op::Bin(Bin::Mul) && self.sole(a) {
            let args = self.work.ins[a].args.clone();
            self.set(id, Op::Fold(Red::Dot), args);
        }
    }

    fn sigmoid(&self, id: Id) -> Option<(Op, Vec<Id>)> {
        let sum = (*self.op(id) == Op::Un(Un32::Recip)).then(|| self.arg(id, 0))?;
        let e = self.beside(sum, Bin::Add, 1.0)?;
        let minus = (*self.op(e) == Op::Un(Un32::Exp)).then(|| self.arg(e, 0))?;
        let x = (*self.op(minus) == Op::Un(Un32::Neg)).then(|| self.arg(minus, 0))?;
        Some((Op::Un(Un32::Sigmoid), vec![x]))
    }

    fn silu(&self, id: Id) -> Option<(Op, Vec<Id>)> {
        if *self.op(id) != Op::Bin(Bin::Mul) {
            return None;
        }
        let (a, b) = (self.arg(id, 0), self.arg(id, 1));
        [(a, b), (b, a)].into_iter().find_map(|(x, s)| {
            let fits = *self.op(s) == Op::Un(Un32::Sigmoid) && self.arg(s, 0) == x && self.sole(s);
            fits.then(|| (Op::Un(Un32::Silu), vec![x]))
        })
    }

    /// `(x * 0.5) * (erf(x * sqrt(1/2)) + 1)`.
    fn gelu(&self, id: Id) -> Option<(Op, Vec<Id>)> {
        if *self.op(id) != Op::Bin(Bin::Mul) {
            return None;
        }
        let (a, b) = (self.arg(id, 0), self.arg(id, 1));
        [(a, b), (b, a)].into_iter().find_map(|(half, gate)| {
            let x = self.beside(half, Bin::Mul, 0.5)?;
            let erf = self.beside(gate, Bin::Add, 1.0)?;
            let inner = (*self.op(erf) == Op::Un(Un32::Erf)).then(|| self.arg(erf, 0))?;
            let same = self.beside(inner, Bin::Mul, std::f32::consts::FRAC_1_SQRT_2)? == x;
            (same && self.sole(gate) && self.sole(erf)).then(|| (Op::Un(Un32::Gelu), vec![x]))
        })
    }

    /// An activation and the product or sum around it.
    fn scaled_gelu(&self, id: Id) -> Option<(Op, Vec<Id>)> {
        if *self.op(id) != Op::Bin(Bin::Mul) {
            return None;
        }
        let (a, b) = (self.arg(id, 0), self.arg(id, 1));
        [(a, b), (b, a)].into_iter().find_map(|(act, other)| {
            if act == other || !self.sole(act) {
                return None;
            }
            let x = self.work.ins[act].args.first().copied()?;
            match self.op(act) {
                Op::Un(Un32::Silu) => Some((Op::Tern(Tern::SiluMul), vec![x, other, other])),
                Op::Un(Un32::Gelu) if *self.op(x) == Op::Bin(Bin::Add) && self.sole(x) => {
                    Some((Op::Tern(Tern::GeluMul), vec![self.arg(x, 0), self.arg(x, 1), other]))
                }
                _ => None,
            }
        })
    }

    fn pair(&self, id: Id) -> Option<(Op, Vec<Id>)> {
        let Op::Bin(outer) = *self.op(id) else { return None };
        let (a, b) = (self.arg(id, 0), self.arg(id, 1));
        let inner = |x: Id| match self.op(x) {
            Op::Bin(bin) if self.sole(x) && a != b => Some((*bin, self.arg(x, 0), self.arg(x, 1))),
            _ => None,
        };
        let made = |tern: Tern, args: [Id; 3]| Some((Op::Tern(tern), args.to_vec()));
        match (outer, inner(a), inner(b)) {
            (Bin::Add, Some((Bin::Mul, x, y)), _) => made(Tern::Fma, [x, y, b]),
            (Bin::Add, _, Some((Bin::Mul, x, y))) => made(Tern::Fma, [x, y, a]),
            (Bin::Sub, Some((Bin::Mul, x, y)), _) => made(Tern::MulSub, [x, y, b]),
            (Bin::Sub, _, Some((Bin::Mul, x, y))) => made(Tern::NegMulAdd, [x, y, a]),
            (Bin::Mul, Some((Bin::Sub, x, y)), _) => made(Tern::SubMul, [x, y, b]),
            (Bin::Mul, _, Some((Bin::Sub, x, y))) => made(Tern::SubMul, [x, y, a]),
            (Bin::Mul, Some((Bin::Mul, x, y)), _) => made(Tern::MulMul, [x, y, b]),
            (Bin::Mul, Some((Bin::Add, x, y)), _) => made(Tern::AddMul, [x, y, b]),
            (Bin::Mul, _, Some((Bin::Add, x, y))) => made(Tern::AddMul, [x, y, a]),
            _ => None,
        }
    }

    fn exp_of_difference(&self, id: Id) -> Option<(Op, Vec<Id>)> {
        let x = (*self.op(id) == Op::Un(Un32::Exp)).then(|| self.arg(id, 0))?;
        let fits = *self.op(x) == Op::Bin(Bin::Sub) && self.sole(x);
        fits.then(|| (Op::Tern(Tern::ExpSub), vec![self.arg(x, 0), self.arg(x, 1), self.arg(x, 1)]))
    }
}

/// Coordinates, by what becomes of them.
struct Shaped {
    form: Form,
    /// Old coordinates, and which neighbours become one.
    outer: Vec<usize>,
    serial: Vec<usize>,
    lane: Vec<usize>,
}

impl Shaped {
    fn of(work: &Work) -> Shaped {
        let moving: Vec<usize> = (0..work.lens.len()).filter(|d| work.lens[*d] > 1).collect();
        let (folded, mut kept): (Vec<usize>, Vec<usize>) = moving.iter().partition(|d| work.folded[**d]);
        // The order in which most of the first result is written one after the other.
        if let Some((_, access)) = work.stores.first() {
            kept.sort_by_key(|d| std::cmp::Reverse(access.at.coeffs[*d]));
        }
        let size = |dims: &[usize]| dims.iter().map(|d| work.lens[*d]).product::<usize>();
        if folded.is_empty() {
            return Shaped { form: Form::Flat, outer: vec![], serial: vec![], lane: kept };
        }
        let innermost_folded = moving.last().is_some_and(|d| work.folded[*d]);
        let short = size(&folded) < 32 && size(&kept) >= 64;
        if (innermost_folded && !short) || size(&kept) < 16 {
            return Shaped { form: Form::Row, outer: kept, serial: vec![], lane: folded };
        }
        Shaped { form: Form::Column, outer: vec![], serial: folded, lane: kept }
    }

    /// Makes one coordinate of neighbours that every access steps through as if they were.
    fn rewrite(&self, work: &mut Work) {
        for dims in [&self.outer, &self.serial, &self.lane] {
            for pair in dims.windows(2) {
                let (a, b) = (pair[0], pair[1]);
                let len = work.lens[b] as i64;
                if work.affines().all(|at| at.coeffs[a] == at.coeffs[b] * len) {
                    // The outer one is absorbed: it gets one value, the inner one all of them.
                    work.lens[b] *= work.lens[a];
                    work.lens[a] = 1;
                    work.affines().for_each(|at| at.coeffs[a] = 0);
                }
            }
        }
    }
}

struct Lowering {
    work: Work,
    form: Form,
    outer: Vec<usize>,
    serial: Vec<usize>,
    lane: Vec<usize>,
    tile: Tile,
    levels: Vec<Level>,
    phases: Vec<usize>,
    reaches: Vec<Reach>,
    places: Vec<Place>,
    n_cells: usize,
    /// Bytes of tiles that live as long as a unit of work.
    held_bytes: usize,
    tile_bytes: usize,
    buffer_bytes: usize,
    buffered: Vec<bool>,
    /// Loads of bf16 in the pass at hand that are read where they are.
    soft: Vec<bool>,
}

impl Lowering {
    fn new(work: Work, shape: Shaped) -> Lowering {
        let left =
            |dims: &[usize]| -> Vec<usize> { dims.iter().copied().filter(|d| work.lens[*d] > 1).collect() };
        let (mut outer, serial, mut lane) = (left(&shape.outer), left(&shape.serial), left(&shape.lane));
        let size = |dims: &[usize]| dims.iter().map(|d| work.lens[*d]).product::<usize>();
        if shape.form != Form::Row {
            // As few lane coordinates as fill a tile; a long innermost one alone.
            let mut from = lane.len().saturating_sub(1);
            let enough =
                if lane.last().is_some_and(|d| work.lens[*d] >= SHORT_LANES) { 1 } else { TILE_LANES };
            while from > 0 && size(&lane[from..]) < enough {
                from -= 1;
            }
            outer = lane.drain(..from).collect();
        }
        let lane_lens: Vec<usize> = lane.iter().map(|d| work.lens[*d]).collect();
        let tile = tile_of(&lane_lens);
        let n = work.ins.len();
        let mut lowering = Lowering {
            form: shape.form,
            outer,
            serial,
            lane,
            tile,
            levels: vec![Level::Once; n],
            phases: vec![0; n],
            reaches: Vec::new(),
            places: vec![Place::None; n],
            n_cells: 0,
            held_bytes: 0,
            tile_bytes: 0,
            buffer_bytes: 0,
            buffered: vec![false; n],
            soft: vec![false; n],
            work,
        };
        lowering.levels();
        lowering
    }

    fn lens(&self, dims: &[usize]) -> Vec<usize> {
        dims.iter().map(|d| self.work.lens[*d]).collect()
    }

    fn level_of(&self, at: &Affine) -> Level {
        let moves = |dims: &[usize]| dims.iter().any(|d| at.coeffs[*d] != 0);
        let inner = if self.form == Form::Column { moves(&self.serial) } else { moves(&self.lane) };
        let outer = moves(&self.outer) || moves(&self.lane);
        match (inner, outer) {
            (true, _) => Level::Inner,
            (false, true) => Level::Outer,
            _ => Level::Once,
        }
    }

    fn levels(&mut self) {
        for id in 0..self.work.ins.len() {
            let ins = &self.work.ins[id];
            let own = match &ins.op {
                Op::Load(access) | Op::Gather(access, ..) => self.level_of(&access.at),
                Op::Index(at) | Op::Uniform(_, at) => self.level_of(at),
                Op::Fold(_) | Op::Place { .. } => Level::Outer,
                _ => Level::Once,
            };
            let fold = matches!(ins.op, Op::Fold(_) | Op::Place { .. });
            let args = ins.args.iter();
            let phase = args.clone().map(|arg| self.phases[*arg]).max().unwrap_or(0);
            self.phases[id] = if fold { phase + 1 } else { phase };
            let above = args.map(|arg| self.levels[*arg]).max().unwrap_or(Level::Once);
            self.levels[id] = if fold { Level::Outer } else { own.max(above) };
        }
    }

    /// A value that is one number wherever a tile is computed.
    fn single(&self, id: Id) -> bool {
        match self.levels[id] {
            Level::Once => true,
            Level::Outer => self.form != Form::Column,
            Level::Inner => false,
        }
    }

    fn reach(&mut self, operand: Option<(bool, usize)>, dtype: Dtype, at: &Affine) -> usize {
        let of = |dims: &[usize]| dims.iter().map(|d| at.coeffs[*d]).collect::<Vec<i64>>();
        let lane = of(&self.lane);
        let lens = self.lens(&self.lane);
        let mut run_from = lane.len().saturating_sub(1);
        while run_from > 0 && lane[run_from - 1] == lane[run_from] * lens[run_from] as i64 {
            run_from -= 1;
        }
        let stride = lane.last().copied().unwrap_or(if operand.is_some() { 1 } else { 0 });
        let reach = Reach {
            operand,
            dtype,
            base: at.base,
            outer: of(&self.outer),
            serial: of(&self.serial),
            lane,
            run_from,
            stride,
        };
        if let Some(known) = self.reaches.iter().position(|known| *known == reach) {
            return known;
        }
        self.reaches.push(reach);
        self.reaches.len() - 1
    }

    fn cell(&mut self) -> Place {
        self.n_cells += 1;
        Place::Cell(self.n_cells - 1)
    }

    fn hold(&mut self, bytes: usize) -> usize {
        let at = self.held_bytes;
        self.held_bytes += bytes.next_multiple_of(64);
        at
    }

    /// The loop, as it was lowered for other sizes where the steps are the same.
    fn kept(self) -> Loop {
        let key = self.key();
        let Some(mut looped) = kept::find(&key) else {
            let looped = self.done();
            kept::keep(key, &looped);
            return looped;
        };
        looped.outer = self.lens(&self.outer);
        looped.lane = self.lens(&self.lane);
        looped.tile = self.tile;
        debug_assert_eq!(looped, self.done(), "what a loop depends on is in its key");
        looped
    }

    /// Coordinates that are walked one by one, and the one that is cut into tiles of a size that is in the key, may have
    /// any length. A row's own lanes may not: buffers are as long as it is.
    fn key(&self) -> Key {
        let mut lens = self.work.lens.clone();
        self.outer.iter().for_each(|d| lens[*d] = 0);
        if let (Form::Flat | Form::Column, Some(first)) = (self.form, self.lane.first()) {
            lens[*first] = 0;
        }
        Key {
            ins: self.work.ins.clone(),
            stores: self.work.stores.clone(),
            lens,
            form: self.form,
            outer: self.outer.clone(),
            serial: self.serial.clone(),
            lane: self.lane.clone(),
            reaches: self.reaches.clone(),
            tile: Tile { n: 0, ..self.tile },
        }
    }

    fn done(mut self) -> Loop {
        let n_passes = self.phases.iter().copied().max().unwrap_or(0) + 1;
        let needed = self.needed();
        self.choose_buffers(&needed, n_passes);
        let mut numbers = Vec::new();
        let mut passes = vec![Pass::default(); n_passes];
        for id in (0..self.work.ins.len()).filter(|id| needed[*id]) {
            let ins = self.work.ins[id].clone();
            match ins.op {
                Op::Const(bits) => {
                    self.places[id] = self.cell();
                    numbers.push((self.n_cells - 1, Number::Bits(bits)));
                }
                Op::Slot(slot, dtype) => {
                    self.places[id] = self.cell();
                    numbers.push((self.n_cells - 1, Number::Slot(slot, dtype)));
                }
                Op::Fold(_) | Op::Place { .. } => {
                    let state = self.state(id);
                    passes[self.phases[id] - 1].states.push(state);
                }
                _ if self.levels[id] == Level::Inner => {
                    if self.buffered[id] {
                        let size = ins.class.size_bytes();
                        let lanes: usize = self.lens(&self.lane).iter().product();
                        self.places[id] = Place::Buf(self.buffer_bytes, size);
                        self.buffer_bytes += (lanes * size).next_multiple_of(64);
                    }
                }
                _ => {
                    let mut step = Vec::new();
                    self.outside(id, &mut step);
                    passes[self.phases[id]].before.extend(step);
                }
            }
        }
        self.tile_bytes = self.held_bytes;
        for (at, pass) in passes.iter_mut().enumerate() {
            self.body(at, pass);
        }
        self.outer_stores(&mut passes);
        Loop {
            rows: None,
            units: 0,
            units_a_chunk: 1,
            form: self.form,
            outer: self.lens(&self.outer),
            serial: self.lens(&self.serial),
            lane: self.lens(&self.lane),
            tile: self.tile,
            numbers,
            passes,
            n_cells: self.n_cells,
            tile_bytes: self.tile_bytes,
            buffer_bytes: self.buffer_bytes,
            reaches: self.reaches,
        }
    }

    fn row_function(&mut self) -> Option<RowFunction> {
        let [(value, out)] = &self.work.stores[..] else { return None };
        let mut dims = [&self.outer[..], &self.lane[..]].concat();
        let last = dims.pop()?;
        let n = self.work.lens[last];
        let row = self.form == Form::Row && self.lane.len() == 1 && n * 4 <= MOST_BUFFER_BYTES;
        let found = match self.form {
            Form::Row if row => Recognised::of_rows(&self.work, *value, n)?,
            Form::Flat => Recognised::of_lanes(&self.work, *value)?,
            _ => return None,
        };
        let fits = |dtype: Dtype| match found.kind {
            Kind::Copy => dtype != Dtype::Bool,
            _ => matches!(dtype, Dtype::F32 | Dtype::BF16),
        };
        let operand = |output: bool, access: &Access| {
            let dense = access.at.coeffs[last] == 1 && access.dtype == out.dtype;
            dense.then(|| RowOperand {
                operand: (output, access.operand),
                base: access.at.base,
                steps: dims.iter().map(|d| access.at.coeffs[*d]).collect(),
            })
        };
        let mut operands = [None, None, None, None, Some(operand(true, out)?)];
        for (place, access) in operands.iter_mut().zip(&found.accesses) {
            if let Some(access) = access {
                *place = Some(operand(false, access)?);
            }
        }
        let bytes = self.work.lens.iter().product::<usize>() * out.dtype.size_bytes();
        let piece = if row { n } else { n.min(PIECE) };
        fits(out.dtype).then(|| RowFunction {
            pieces: n.div_ceil(piece),
            across: dims.last().map_or(1, |d| self.work.lens[*d]),
            kind: found.kind,
            scale: found.scale,
            epsilon: found.epsilon,
            dtype: out.dtype,
            dims: dims.iter().map(|d| self.work.lens[*d]).collect(),
            n,
            piece,
            operands,
            // Rows that are folded come out slowly enough.
            stream: !row && bytes > last_cache_bytes() / 2,
        })
    }

    fn needed(&self) -> Vec<bool> {
        let mut needed = vec![false; self.work.ins.len()];
        self.work.stores.iter().for_each(|(value, _)| needed[*value] = true);
        for id in (0..needed.len()).rev() {
            if needed[id] {
                self.work.ins[id].args.iter().for_each(|arg| needed[*arg] = true);
            }
        }
        needed
    }

    /// What a pass computes at the innermost level, from what it must give.
    fn wanted(&self, pass: usize) -> Vec<Id> {
        let mut wanted = vec![false; self.work.ins.len()];
        let mut stack: Vec<Id> = Vec::new();
        for (id, ins) in self.work.ins.iter().enumerate() {
            if matches!(ins.op, Op::Fold(_) | Op::Place { .. })
                && self.phases[id] == pass + 1
                && self.places[id] != Place::None
            {
                stack.extend(&ins.args);
            }
        }
        for (value, access) in &self.work.stores {
            let level = self.level_of(&access.at).max(self.levels[*value]);
            if level == Level::Inner && self.phases[*value] == pass {
                stack.push(*value);
            }
        }
        while let Some(id) = stack.pop() {
            if self.levels[id] != Level::Inner || wanted[id] {
                continue;
            }
            wanted[id] = true;
            let kept = self.buffered[id] && self.phases[id] < pass;
            if !kept {
                stack.extend(&self.work.ins[id].args);
            }
        }
        (0..wanted.len()).filter(|id| wanted[*id]).collect()
    }

    /// Dear values that a later pass wants again.
    fn choose_buffers(&mut self, needed: &[bool], n_passes: usize) {
        if self.form != Form::Row || n_passes < 2 {
            return;
        }
        let lanes: usize = self.lens(&self.lane).iter().product();
        let mut left = MOST_BUFFER_BYTES;
        // Folds count as wanted before they have a place.
        let fold = |ins: &Ins| matches!(ins.op, Op::Fold(_) | Op::Place { .. });
        for id in 0..needed.len() {
            if needed[id] && fold(&self.work.ins[id]) {
                self.places[id] = Place::Cell(usize::MAX);
            }
        }
        for pass in (1..n_passes).rev() {
            for id in self.wanted(pass).into_iter().rev() {
                let bytes = lanes * self.work.ins[id].class.size_bytes();
                let early = self.phases[id] < pass && self.phases[id] + 1 < n_passes;
                let op = &self.work.ins[id].op;
                // In the nearest caches reading back is free; from further away only what is dear is worth it.
                let near = bytes <= NEAR_BUFFER_BYTES && !matches!(op, Op::Load(_)) && self.enters(id, pass);
                if early && (is_dear(op) || near) && bytes <= left && !self.buffered[id] {
                    self.buffered[id] = true;
                    left -= bytes;
                }
            }
        }
        // What is buffered must be computed in its own pass: so it is only what that pass wants in any case.
        for id in 0..needed.len() {
            if self.buffered[id] && !self.wanted(self.phases[id]).contains(&id) {
                self.buffered[id] = false;
            }
        }
    }

    /// Whether what a pass itself computes reads a value.
    fn enters(&self, id: Id, pass: usize) -> bool {
        let reads = |user: &Id| self.work.ins[*user].args.contains(&id);
        let own = |user: &Id| self.phases[*user] == pass && self.levels[*user] == Level::Inner;
        (0..self.work.ins.len()).filter(reads).any(|user| own(&user) || self.is_fold_of(user, pass))
    }

    fn state(&mut self, id: Id) -> State {
        let ins = &self.work.ins[id];
        let (red, largest) = match ins.op {
            Op::Fold(red) => (Some(red), false),
            Op::Place { largest, .. } => (None, largest),
            _ => unreachable!("only folds have a state"),
        };
        let class = if red.is_some() { ins.class } else { self.work.ins[ins.args[0]].class };
        let lanes = if self.form == Form::Column { self.tile.lanes } else { PARTIALS };
        let at = self.hold(lanes * 8);
        let places = if red.is_none() { self.hold(lanes * 8) } else { at };
        let result = if self.form == Form::Column { Place::Reg(places) } else { self.cell() };
        self.places[id] = result;
        State { red, largest, class, at, places, result }
    }

    /// A value that is computed outside of the innermost loop.
    fn outside(&mut self, id: Id, steps: &mut Vec<Step>) {
        let single = self.single(id);
        let ins = self.work.ins[id].clone();
        if let Op::Load(access) = &ins.op {
            let reach = self.reach(Some((false, access.operand)), access.dtype, &access.at);
            if is_own(access.dtype) && (single || self.reaches[reach].is_dense(&self.tile)) {
                self.places[id] = Place::Mem(reach);
                return;
            }
        }
        let dst = if single {
            self.cell()
        } else {
            Place::Reg(self.hold(self.tile.lanes * ins.class.size_bytes()))
        };
        self.places[id] = dst;
        let mut temporaries = Temporaries { top: self.held_bytes, free: vec![], used: self.held_bytes };
        let step = self.step(id, dst, steps, &mut temporaries);
        // Outside, temporaries are rare: they are simply kept.
        self.held_bytes = self.held_bytes.max(temporaries.used);
        steps.push(step);
    }

    /// The step of an instruction, behind those that make tiles of its single numbers where it needs tiles.
    fn step(&mut self, id: Id, dst: Place, steps: &mut Vec<Step>, temporaries: &mut Temporaries) -> Step {
        let ins = self.work.ins[id].clone();
        let tile = !self.single(id);
        let mut args = [Place::None; 4];
        let mut single = 0;
        for (i, arg) in ins.args.iter().enumerate() {
            args[i] = self.places[*arg];
            single |= u8::from(self.single(*arg)) << i;
        }
        let op = match &ins.op {
            Op::Load(access) => Do::Load(self.reach(Some((false, access.operand)), access.dtype, &access.at)),
            Op::Index(at) => Do::Index(self.reach(None, Dtype::I64, at)),
            Op::Un(op) => Do::Un(*op),
            Op::Slow(op) => Do::Slow(*op),
            Op::Slow2(op) => Do::Slow2(*op),
            Op::Bin(op) => Do::Bin(*op),
            Op::Int(op, dtype) => Do::Int(*op, *dtype),
            Op::Cmp(op) => Do::Cmp(*op, self.work.ins[ins.args[0]].class),
            Op::Sel => {
                if tile && single & 1 == 1 {
                    args[0] = splat(args[0], Class::Mask, self.tile.lanes, steps, temporaries);
                    single &= !1;
                }
                Do::Sel
            }
            Op::Tern(op) => Do::Tern(*op),
            Op::Cast(dtype) => Do::Cast(self.work.ins[ins.args[0]].class, *dtype),
            Op::Wrap(dtype) => Do::Wrap(*dtype),
            Op::Signbit => Do::Signbit(self.work.ins[ins.args[0]].class),
            Op::Gather(access, stride, size) => {
                let access = self.reach(Some((false, access.operand)), access.dtype, &access.at);
                Do::Gather { access, stride: *stride, size: *size }
            }
            Op::Uniform(dtype, at) => Do::Uniform(*dtype, self.reach(None, Dtype::I64, at)),
            Op::Const(_) | Op::Slot(..) | Op::Fold(_) | Op::Place { .. } => {
                unreachable!("numbers and folds have places of their own")
            }
        };
        Step { op, class: ins.class, dst, args, single, tile, halves: F32 }
    }

    fn body(&mut self, at: usize, pass: &mut Pass) {
        let wanted = self.wanted(at);
        let last = self.last_uses(at, &wanted);
        self.soft = self.soft_loads(at, &wanted);
        let mut temporaries = Temporaries { top: self.held_bytes, free: vec![], used: self.held_bytes };
        let mut steps = Vec::new();
        let mut written = vec![false; self.work.stores.len()];
        for id in wanted {
            if self.buffered[id] && self.phases[id] < at {
                continue;
            }
            let ins = self.work.ins[id].clone();
            let own = if self.buffered[id] {
                Some(self.places[id])
            } else {
                self.in_memory(id, &ins, at, &mut written)
            };
            let loaded =
                matches!(ins.op, Op::Load(_)) && own.is_some_and(|place| matches!(place, Place::Mem(_)));
            let dst =
                own.unwrap_or_else(|| Place::Reg(temporaries.take(self.tile.lanes, ins.class.size_bytes())));
            self.places[id] = dst;
            if !loaded {
                let mut step = self.step(id, dst, &mut steps, &mut temporaries);
                step.halves = (self.takes_soft(&ins), self.is_half(dst));
                steps.push(step);
            }
            // Whatever needs this value as a fold or store takes it at once, so that it need not be kept.
            self.sinks(at, id, pass, &mut written, &mut steps, &mut temporaries);
            for arg in ins.args.iter().chain([&id]) {
                if last[*arg] == Some(id)
                    && self.levels[*arg] == Level::Inner
                    && let Place::Reg(offset) = self.places[*arg]
                {
                    temporaries.give(offset, self.tile.lanes, self.work.ins[*arg].class.size_bytes());
                }
            }
        }
        self.single_sinks(at, pass, &mut written, &mut steps, &mut temporaries);
        self.tile_bytes = self.tile_bytes.max(temporaries.used);
        pass.body = steps;
    }

    /// A place in a bf16 tensor.
    fn is_half(&self, place: Place) -> bool {
        matches!(place, Place::Mem(reach) if self.reaches[reach].dtype == Dtype::BF16)
    }

    fn takes_soft(&self, ins: &Ins) -> bool {
        ins.args.iter().any(|arg| self.soft[*arg])
    }

    /// Loads of bf16 that need no tile, since whatever reads them in this pass has a micro-kernel for halves, and reads
    /// nothing else in lanes.
    fn soft_loads(&mut self, at: usize, wanted: &[Id]) -> Vec<bool> {
        let mut soft = vec![false; self.work.ins.len()];
        for id in wanted {
            if let Op::Load(access) = self.work.ins[*id].op.clone()
                && access.dtype == Dtype::BF16
            {
                let reach = self.reach(Some((false, access.operand)), access.dtype, &access.at);
                soft[*id] = self.reaches[reach].is_dense(&self.tile);
            }
        }
        let folds: Vec<Id> = (0..self.work.ins.len()).filter(|id| self.is_fold_of(*id, at)).collect();
        loop {
            let mut changed = false;
            for id in wanted.iter().chain(&folds) {
                let ins = &self.work.ins[*id];
                let skipped = self.buffered[*id] && self.phases[*id] < at;
                // A fold gets tiles of what is single, and those are f32.
                let tiled = matches!(ins.op, Op::Fold(_));
                let lanes = |arg: &&Id| tiled || !self.single(**arg);
                let fits =
                    has_halves(&ins.op, self.form) && ins.args.iter().filter(lanes).all(|arg| soft[*arg]);
                // Of few operands only the first may be the single one that a micro-kernel for halves lacks.
                let first = ins.args.first().is_some_and(|arg| !self.single(*arg));
                if skipped || (fits && first) {
                    continue;
                }
                for arg in &ins.args {
                    changed |= soft[*arg];
                    soft[*arg] = false;
                }
            }
            for (value, _) in &self.work.stores {
                // A copy is a load and a store.
                changed |= soft[*value];
                soft[*value] = false;
            }
            if !changed {
                return soft;
            }
        }
    }

    fn is_fold_of(&self, id: Id, at: usize) -> bool {
        let fold = matches!(self.work.ins[id].op, Op::Fold(_) | Op::Place { .. });
        fold && self.phases[id] == at + 1 && self.places[id] != Place::None
    }

    /// Whether the store of a value is all that wants it in its pass.
    fn only_stored(&self, id: Id, at: usize) -> bool {
        let users = (0..self.work.ins.len()).filter(|user| self.work.ins[*user].args.contains(&id));
        let mut users = users.filter(|user| self.levels[*user] == Level::Inner || self.is_fold_of(*user, at));
        users.next().is_none() && self.work.stores.iter().filter(|(value, _)| *value == id).count() == 1
    }

    /// The last of a pass's instructions that reads each.
    fn last_uses(&self, at: usize, wanted: &[Id]) -> Vec<Option<Id>> {
        let mut last = vec![None; self.work.ins.len()];
        for id in wanted {
            last[*id] = Some(*id);
            if !(self.buffered[*id] && self.phases[*id] < at) {
                self.work.ins[*id].args.iter().for_each(|arg| last[*arg] = Some(*id));
            }
        }
        // A fold of two reads both when the later one is there.
        for (id, ins) in self.work.ins.iter().enumerate() {
            let fold = matches!(ins.op, Op::Fold(_) | Op::Place { .. }) && self.phases[id] == at + 1;
            if fold && let Some(end) = ins.args.iter().copied().max() {
                for arg in &ins.args {
                    last[*arg] = last[*arg].max(Some(end));
                }
            }
        }
        last
    }

    /// A place in a tensor that a value may have instead of a tile.
    fn in_memory(&mut self, id: Id, ins: &Ins, at: usize, written: &mut [bool]) -> Option<Place> {
        if let Op::Load(access) = &ins.op {
            let reach = self.reach(Some((false, access.operand)), access.dtype, &access.at);
            let direct = (is_own(access.dtype) || self.soft[id]) && self.reaches[reach].is_dense(&self.tile);
            return direct.then_some(Place::Mem(reach));
        }
        if self.phases[id] != at {
            return None;
        }
        for i in 0..self.work.stores.len() {
            let (value, access) = self.work.stores[i].clone();
            let half = access.dtype == Dtype::BF16 && self.writes_halves(ins) && self.only_stored(id, at);
            if value != id || !(is_own(access.dtype) || half) {
                continue;
            }
            let reach = self.reach(Some((true, access.operand)), access.dtype, &access.at);
            if self.reaches[reach].is_dense(&self.tile) && !written[i] {
                written[i] = true;
                return Some(Place::Mem(reach));
            }
        }
        None
    }

    /// Whether an instruction has a micro-kernel whose result is bf16, with the operands that it has.
    fn writes_halves(&self, ins: &Ins) -> bool {
        let first = ins.args.first().is_some_and(|arg| !self.single(*arg));
        match ins.op {
            Op::Bin(op) => ins.class == Class::F32 && !matches!(op, Bin::Max | Bin::Min) && first,
            Op::Tern(op) => op != Tern::Lerp && op != Tern::ExpSub && first && self.takes_soft(ins),
            _ => false,
        }
    }

    /// Folds whose operands are all there with `id`, and stores of it.
    fn sinks(
        &mut self,
        at: usize,
        id: Id,
        pass: &Pass,
        written: &mut [bool],
        steps: &mut Vec<Step>,
        temporaries: &mut Temporaries,
    ) {
        for fold in 0..self.work.ins.len() {
            let ins = &self.work.ins[fold];
            let latest = ins.args.iter().copied().filter(|arg| self.levels[*arg] == Level::Inner).max();
            let is_fold = matches!(ins.op, Op::Fold(_) | Op::Place { .. }) && self.phases[fold] == at + 1;
            if is_fold && latest == Some(id) && self.places[fold] != Place::None {
                self.fold_step(fold, pass, steps, temporaries);
            }
        }
        for i in 0..self.work.stores.len() {
            if self.work.stores[i].0 == id && self.phases[id] == at && !written[i] {
                written[i] = true;
                self.store_step(i, steps, temporaries);
            }
        }
    }

    /// Folds and stores, at the innermost level, of what is computed outside of it.
    fn single_sinks(
        &mut self,
        at: usize,
        pass: &Pass,
        written: &mut [bool],
        steps: &mut Vec<Step>,
        temporaries: &mut Temporaries,
    ) {
        for fold in 0..self.work.ins.len() {
            let ins = &self.work.ins[fold];
            let outside = ins.args.iter().all(|arg| self.levels[*arg] != Level::Inner);
            let is_fold = matches!(ins.op, Op::Fold(_) | Op::Place { .. }) && self.phases[fold] == at + 1;
            if is_fold && outside && self.places[fold] != Place::None {
                self.fold_step(fold, pass, steps, temporaries);
            }
        }
        for i in 0..self.work.stores.len() {
            let (value, access) = self.work.stores[i].clone();
            let outside = self.levels[value] != Level::Inner && self.level_of(&access.at) == Level::Inner;
            if outside && self.phases[value] == at && !written[i] {
                self.store_step(i, steps, temporaries);
            }
        }
    }

    fn tiled(&mut self, id: Id, steps: &mut Vec<Step>, temporaries: &mut Temporaries) -> Place {
        let (place, class) = (self.places[id], self.work.ins[id].class);
        if self.single(id) { splat(place, class, self.tile.lanes, steps, temporaries) } else { place }
    }

    fn fold_step(&mut self, fold: Id, pass: &Pass, steps: &mut Vec<Step>, temporaries: &mut Temporaries) {
        let ins = self.work.ins[fold].clone();
        let mut args = [Place::None; 4];
        for (i, arg) in ins.args.iter().enumerate() {
            args[i] = self.tiled(*arg, steps, temporaries);
        }
        let result = self.places[fold];
        let state = pass.states.iter().find(|state| state.result == result);
        let state = state.expect("each fold of a pass has its state there");
        let (op, class) = match &ins.op {
            Op::Place { largest, at } => {
                let class = self.work.ins[ins.args[0]].class;
                let access = self.reach(None, Dtype::I64, at);
                args[1] = Place::Reg(state.places);
                (Do::Search { largest: *largest, class, access }, class)
            }
            Op::Fold(red) => (Do::Fold(*red), ins.class),
            _ => unreachable!("only folds have a state"),
        };
        let halves = (self.takes_soft(&ins), false);
        steps.push(Step { op, class, dst: Place::Reg(state.at), args, single: 0, tile: true, halves });
    }

    fn store_step(&mut self, i: usize, steps: &mut Vec<Step>, temporaries: &mut Temporaries) {
        let (value, access) = self.work.stores[i].clone();
        let class = self.work.ins[value].class;
        let place = self.tiled(value, steps, temporaries);
        let reach = self.reach(Some((true, access.operand)), access.dtype, &access.at);
        let args = [place, Place::None, Place::None, Place::None];
        steps.push(Step {
            op: Do::Store(reach),
            class,
            dst: Place::Mem(reach),
            args,
            single: 0,
            tile: true,
            halves: F32,
        });
    }

    /// Stores of what is computed outside of the innermost loop to where no inner coordinate leads.
    fn outer_stores(&mut self, passes: &mut [Pass]) {
        for i in 0..self.work.stores.len() {
            let (value, access) = self.work.stores[i].clone();
            if self.level_of(&access.at).max(self.levels[value]) == Level::Inner {
                continue;
            }
            let class = self.work.ins[value].class;
            let reach = self.reach(Some((true, access.operand)), access.dtype, &access.at);
            let tile = self.form == Form::Column;
            let steps = &mut passes[self.phases[value]].before;
            let mut place = self.places[value];
            if tile && self.single(value) {
                let offset = self.held_bytes.max(self.tile_bytes);
                self.tile_bytes = offset + (self.tile.lanes * class.size_bytes()).next_multiple_of(64);
                let args = [place, Place::None, Place::None, Place::None];
                place = Place::Reg(offset);
                steps.push(Step {
                    op: Do::Splat,
                    class,
                    dst: place,
                    args,
                    single: 1,
                    tile: true,
                    halves: F32,
                });
            }
            let args = [place, Place::None, Place::None, Place::None];
            steps.push(Step {
                op: Do::Store(reach),
                class,
                dst: Place::Mem(reach),
                args,
                single: 0,
                tile,
                halves: F32,
            });
        }
    }
}

/// A function of rows, from what the peephole leaves of it.
struct Recognised {
    kind: Kind,
    scale: f32,
    epsilon: f32,
    /// `x`, `y`, `w` and `b`.
    accesses: [Option<Access>; 4],
}

/// What a value of each lane is multiplied by, and what is added.
type Affines = (Id, Option<Access>, Option<Access>);

impl Recognised {
    fn of_rows(work: &Work, value: Id, lanes: usize) -> Option<Recognised> {
        let see = See(work);
        see.softmax(value)
            .or_else(|| see.log_softmax(value))
            .or_else(|| see.rms_norm(value))
            .or_else(|| see.layer_norm(value, lanes))
    }

    fn of_lanes(work: &Work, value: Id) -> Option<Recognised> {
        let see = See(work);
        let made = |kind: Kind, accesses: [Option<Access>; 4]| {
            Some(Recognised { kind, scale: 1.0, epsilon: 0.0, accesses })
        };
        let load = |id: Id| see.load(id);
        match (&work.ins[value].op, &work.ins[value].args[..]) {
            (Op::Load(x), _) => made(Kind::Copy, [Some(x.clone()), None, None, None]),
            (Op::Tern(Tern::SiluMul), &[x, y, _]) => {
                made(Kind::SiluMul, [Some(load(x)?), Some(load(y)?), None, None])
            }
            (Op::Tern(Tern::GeluMul), &[x, y, w]) => {
                made(Kind::GeluMul, [Some(load(x)?), Some(load(y)?), Some(load(w)?), None])
            }
            (Op::Tern(Tern::Fma), &[x, y, rest]) => {
                let (x, y) = (load(x)?, load(y)?);
                if let Some(w) = load(rest) {
                    return made(Kind::MulAdd, [Some(x), Some(y), Some(w), None]);
                }
                let &[w, b] = see.is(rest, &Op::Bin(Bin::Mul))? else { return None };
                // A minus on either of the second factors.
                let plain = |id: Id| match see.is(id, &Op::Un(Un32::Neg)) {
                    Some(&[id]) => (id, true),
                    _ => (id, false),
                };
                let ((w, a), (b, c)) = (plain(w), plain(b));
                let kind = if a != c { Kind::MulSubMul } else { Kind::MulAddMul };
                made(kind, [Some(x), Some(y), Some(load(w)?), Some(load(b)?)])
            }
            _ => None,
        }
    }
}

/// Looks at code.
struct See<'a>(&'a Work);

impl See<'_> {
    fn is(&self, id: Id, op: &Op) -> Option<&[Id]> {
        let ins = &self.0.ins[id];
        (ins.op == *op && ins.class == Class::F32).then_some(&ins.args[..])
    }

    fn load(&self, id: Id) -> Option<Access> {
        match &self.0.ins[id].op {
            Op::Load(access) => Some(access.clone()),
            _ => None,
        }
    }

    fn constant(&self, id: Id) -> Option<f32> {
        match self.0.ins[id].op {
            Op::Const(bits) if self.0.ins[id].class == Class::F32 => Some(f32::from_bits(bits as u32)),
            _ => None,
        }
    }

    fn function(&self, kind: Kind, x: Id) -> Option<Recognised> {
        let x = self.load(x)?;
        Some(Recognised { kind, scale: 1.0, epsilon: 0.0, accesses: [Some(x), None, None, None] })
    }

    fn softmax(&self, value: Id) -> Option<Recognised> {
        let &[e, sum] = self.is(value, &Op::Bin(Bin::Div))? else { return None };
        let &[x, most, _] = self.is(e, &Op::Tern(Tern::ExpSub))? else { return None };
        let fits = self.is(sum, &Op::Fold(Red::Sum))? == [e] && self.is(most, &Op::Fold(Red::Max))? == [x];
        if fits { self.function(Kind::Softmax, x) } else { None }
    }

    fn log_softmax(&self, value: Id) -> Option<Recognised> {
        let &[off, log] = self.is(value, &Op::Bin(Bin::Sub))? else { return None };
        let &[x, most] = self.is(off, &Op::Bin(Bin::Sub))? else { return None };
        let &[sum] = self.is(log, &Op::Un(Un32::Log))? else { return None };
        let &[e] = self.is(sum, &Op::Fold(Red::Sum))? else { return None };
        let fits = self.is(e, &Op::Un(Un32::Exp))? == [off] && self.is(most, &Op::Fold(Red::Max))? == [x];
        if fits { self.function(Kind::LogSoftmax, x) } else { None }
    }

    /// `rsqrt(Σ of * scale + epsilon)`: what is summed, and the numbers.
    fn root(&self, r: Id) -> Option<([Id; 2], f32, f32)> {
        let &[shifted] = self.is(r, &Op::Un(Un32::Rsqrt))? else { return None };
        let (mean, scale, epsilon) = match self.is(shifted, &Op::Tern(Tern::Fma)) {
            Some(&[sum, scale, epsilon]) => (sum, Some(self.constant(scale)?), epsilon),
            _ => match *self.is(shifted, &Op::Bin(Bin::Add))? {
                [mean, epsilon] => (mean, None, epsilon),
                _ => return None,
            },
        };
        let (sum, scale) = match (scale, self.is(mean, &Op::Bin(Bin::Div))) {
            (Some(scale), _) => (mean, scale),
            (None, Some(&[sum, n])) => (sum, 1.0 / self.constant(n)?),
            _ => match *self.is(mean, &Op::Bin(Bin::Mul))? {
                [sum, scale] => (sum, self.constant(scale)?),
                _ => return None,
            },
        };
        let &[a, b] = self.is(sum, &Op::Fold(Red::Dot))? else { return None };
        Some(([a, b], scale, self.constant(epsilon)?))
    }

    fn rms_norm(&self, value: Id) -> Option<Recognised> {
        let (x, r, w) = match self.is(value, &Op::Tern(Tern::MulMul)) {
            Some(&[a, b, c]) => [(a, b, c), (b, a, c), (a, c, b), (c, a, b), (b, c, a), (c, b, a)]
                .into_iter()
                .find(|(x, r, w)| {
                    self.root(*r).is_some_and(|root| root.0 == [*x; 2]) && self.load(*w).is_some()
                })?,
            _ => match *self.is(value, &Op::Bin(Bin::Mul))? {
                [a, b] if self.root(b).is_some() => (a, b, a),
                [a, b] => (b, a, b),
                _ => return None,
            },
        };
        let (of, scale, epsilon) = self.root(r)?;
        if of != [x; 2] {
            return None;
        }
        let w = if w == x { None } else { Some(self.load(w)?) };
        let accesses = [Some(self.load(x)?), None, w, None];
        Some(Recognised { kind: Kind::RmsNorm, scale, epsilon, accesses })
    }

    /// `d * r`, perhaps times a weight and plus a bias.
    fn scaled(&self, value: Id) -> Option<(Id, Affines)> {
        let (inner, b) = match self.is(value, &Op::Bin(Bin::Add)) {
            Some(&[inner, b]) => match self.load(b) {
                Some(access) => (inner, Some(access)),
                None => (b, Some(self.load(inner)?)),
            },
            _ => (value, None),
        };
        if let Some(&[x, y, z]) = self.is(inner, &Op::Tern(Tern::MulMul)) {
            let mut ways = [(x, y, z), (y, x, z), (x, z, y), (z, x, y), (y, z, x), (z, y, x)].into_iter();
            let (d, r, w) = ways.find(|(_, r, w)| self.root(*r).is_some() && self.load(*w).is_some())?;
            return Some((d, (r, self.load(w), b)));
        }
        match *self.is(inner, &Op::Bin(Bin::Mul))? {
            [d, r] if self.root(r).is_some() => Some((d, (r, None, b))),
            [r, d] if self.root(r).is_some() => Some((d, (r, None, b))),
            _ => None,
        }
    }

    fn layer_norm(&self, value: Id, lanes: usize) -> Option<Recognised> {
        let (d, (r, w, b)) = self.scaled(value)?;
        let (of, scale, epsilon) = self.root(r)?;
        let &[sum, mean] = self.is(d, &Op::Bin(Bin::Sub))? else { return None };
        let &[total, n] = self.is(mean, &Op::Bin(Bin::Div))? else { return None };
        let whole = self.constant(n)? == lanes as f32 && self.is(total, &Op::Fold(Red::Sum))? == [sum];
        if of != [d; 2] || !whole {
            return None;
        }
        let (x, y) = match self.is(sum, &Op::Bin(Bin::Add)) {
            Some(&[x, y]) => (x, Some(self.load(y)?)),
            _ => (sum, None),
        };
        let accesses = [Some(self.load(x)?), y, w, b];
        Some(Recognised { kind: Kind::LayerNorm, scale, epsilon, accesses })
    }
}

/// Tiles of one pass, given back after their last use.
struct Temporaries {
    top: usize,
    free: Vec<(usize, usize)>,
    used: usize,
}

impl Temporaries {
    fn take(&mut self, lanes: usize, size: usize) -> usize {
        let bytes = (lanes * size).next_multiple_of(64);
        if let Some(at) = self.free.iter().rposition(|(_, free)| *free == bytes) {
            return self.free.swap_remove(at).0;
        }
        let at = self.top;
        self.top += bytes;
        self.used = self.used.max(self.top);
        at
    }

    fn give(&mut self, offset: usize, lanes: usize, size: usize) {
        let bytes = (lanes * size).next_multiple_of(64);
        if !self.free.contains(&(offset, bytes)) {
            self.free.push((offset, bytes));
        }
    }
}

fn splat(
    place: Place,
    class: Class,
    lanes: usize,
    steps: &mut Vec<Step>,
    temporaries: &mut Temporaries,
) -> Place {
    let dst = Place::Reg(temporaries.take(lanes, class.size_bytes()));
    let args = [place, Place::None, Place::None, Place::None];
    steps.push(Step { op: Do::Splat, class, dst, args, single: 1, tile: true, halves: F32 });
    dst
}

/// An operation that reads bf16 as well as f32 lanes.
fn has_halves(op: &Op, form: Form) -> bool {
    match op {
        Op::Bin(op) => !matches!(op, Bin::Max | Bin::Min),
        Op::Tern(op) => *op != Tern::Lerp,
        Op::Fold(red) => form == Form::Row && *red != Red::Prod,
        _ => false,
    }
}

/// Elements lie in memory as they do in a tile.
fn is_own(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F32 | Dtype::F64 | Dtype::I64)
}

/// Reading it back beats computing it again.
fn is_dear(op: &Op) -> bool {
    match op {
        Op::Un(op) => matches!(
            op,
            Un32::Exp
                | Un32::Log
                | Un32::Sin
                | Un32::Cos
                | Un32::Tanh
                | Un32::Erf
                | Un32::Sigmoid
                | Un32::Silu
                | Un32::Gelu
        ),
        Op::Tern(op) => matches!(op, Tern::ExpSub | Tern::SiluMul | Tern::GeluMul),
        Op::Slow(_) | Op::Slow2(_) | Op::Uniform(..) | Op::Gather(..) => true,
        _ => false,
    }
}

/// Bytes of the largest cache that the processor speaks of.
fn last_cache_bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        // Linux tells it in kibibytes; elsewhere a common size is taken.
        let path = "/sys/devices/system/cpu/cpu0/cache/index3/size";
        let told = std::fs::read_to_string(path).ok();
        let kib = told.and_then(|text| text.trim().trim_end_matches('K').parse::<usize>().ok());
        kib.unwrap_or(32 << 10) << 10
    })
}

fn tile_of(lens: &[usize]) -> Tile {
    let total: usize = lens.iter().product();
    let most = if total <= WHOLE_ROW { total } else { TILE_LANES };
    let strides = dense_strides(lens);
    // The first coordinate of which a tile can take more than one, or else the last.
    let last = lens.len().saturating_sub(1);
    let dim = (0..lens.len()).find(|d| strides[*d] <= most).unwrap_or(last);
    let (len, inside) = (lens.get(dim).copied().unwrap_or(1), strides.get(dim).copied().unwrap_or(1));
    let count = (most / inside).clamp(1, len);
    let before: usize = lens.iter().take(dim).product();
    Tile { dim, count, inside, lanes: count * inside, n: before * len.div_ceil(count) }
}

impl fmt::Display for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = match self.form {
            Form::Flat => "flat",
            Form::Row => "row",
            Form::Column => "column",
        };
        write!(f, "  {form} outer {:?} lanes {:?}", self.outer, self.lane)?;
        if !self.serial.is_empty() {
            write!(f, " folds {:?}", self.serial)?;
        }
        writeln!(f, " tile {} x {}", self.tile.lanes, self.tile.n)?;
        if let Some(function) = &self.rows {
            writeln!(f, "    as {:?} of rows of {}", function.kind, function.n)?;
        }
        for (cell, number) in &self.numbers {
            match number {
                Number::Bits(bits) => writeln!(f, "    c{cell} = {bits:#x}")?,
                Number::Slot(slot, dtype) => writeln!(f, "    c{cell} = slot {slot} as {dtype}")?,
            }
        }
        for (at, pass) in self.passes.iter().enumerate() {
            let lines = pass
                .before
                .iter()
                .map(|step| ("once", step))
                .chain(pass.body.iter().map(|step| ("tile", step)));
            for (when, step) in lines {
                self.line(f, at, when, step)?;
            }
        }
        Ok(())
    }
}

impl Loop {
    fn line(&self, f: &mut fmt::Formatter<'_>, pass: usize, when: &str, step: &Step) -> fmt::Result {
        let place = |place: Place| match place {
            Place::Reg(at) => format!("t{at}"),
            Place::Cell(cell) => format!("c{cell}"),
            Place::Buf(at, _) => format!("b{at}"),
            Place::Mem(access) => {
                let reach = &self.reaches[access];
                let (kind, at) = match reach.operand {
                    Some((true, at)) => ("out", at),
                    Some((false, at)) => ("in", at),
                    None => ("index", access),
                };
                format!("{kind}{at}{:?}", reach.lane)
            }
            Place::None => "_".into(),
        };
        let args: Vec<String> =
            step.args.iter().filter(|arg| **arg != Place::None).map(|arg| place(*arg)).collect();
        writeln!(f, "    {pass} {when} {} = {:?} {}", place(step.dst), step.op, args.join(" "))
    }
}
