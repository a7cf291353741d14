//! From a group to straight-line code over one box of its coordinates: SSA of scalar operations, each value once.
//!
//! A box is a range of each coordinate. Where a cat or pad changes its operand inside a box, the box is cut ([`emit`]
//! gives one [`Code`] a box). Nothing here knows of lanes, tiles or registers.

use crate::affine::{Affine, Map, Part, linear};
use crate::fuse::{Group, Groups, place_of};
use crate::graph::{Binary, Dtype, Operand, Prim, Reduce, Scalar, Ternary, Unary, ValueId};
use crate::micro::{Bin, Cmp, IntBin, Red, Tern, Un32};
use crate::rare;
use std::collections::HashMap;

/// Types of values in tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    F32,
    F64,
    I64,
    Mask,
}

impl Class {
    pub fn of(dtype: Dtype) -> Class {
        match dtype {
            Dtype::F16 | Dtype::BF16 | Dtype::F32 => Class::F32,
            Dtype::F64 => Class::F64,
            Dtype::Bool => Class::Mask,
            _ => Class::I64,
        }
    }

    pub const fn size_bytes(self) -> usize {
        match self {
            Class::F32 | Class::Mask => 4,
            Class::F64 | Class::I64 => 8,
        }
    }
}

pub type Id = usize;

/// Where in a tensor an element is: which tensor, as a place among the kernel's inputs or outputs, and the element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    pub operand: usize,
    pub dtype: Dtype,
    pub at: Affine,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A number, by its bits in the class.
    Const(u64),
    /// A number that the run gives, converted to a dtype.
    Slot(u32, Dtype),
    Load(Access),
    /// The value of the expression, as i64.
    Index(Affine),
    Un(Un32),
    /// A function of one `f32` or `f64`, through `f64`.
    Slow(Unary),
    /// A function of two, through `f64`.
    Slow2(Binary),
    Bin(Bin),
    Int(IntBin, Dtype),
    Cmp(Cmp),
    Sel,
    Tern(Tern),
    /// To another class; to a dtype whose range matters for floats.
    Cast(Dtype),
    /// Integers brought into the range of their dtype.
    Wrap(Dtype),
    Signbit,
    /// An element of a table: `at` for all axes but the indexed one, which has this stride and size.
    Gather(Access, i64, usize),
    /// A uniform number: the element's row-major place.
    Uniform(Dtype, Affine),
    Fold(Red),
    /// The place (row-major among the folded) of the largest or smallest.
    Place {
        largest: bool,
        at: Affine,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ins {
    pub op: Op,
    pub class: Class,
    pub args: Vec<Id>,
}

/// A result and where it goes.
pub struct Store {
    pub value: Id,
    pub access: Access,
}

/// The code of one box.
pub struct Code {
    pub lens: Vec<usize>,
    pub folded: Vec<bool>,
    pub ins: Vec<Ins>,
    pub stores: Vec<Store>,
}

/// The box must be cut: before this value of this coordinate.
struct Cut(usize, usize);

/// Code for each box of a group, whose loads and stores count in these lists.
pub fn emit<'a>(
    groups: &'a Groups<'a>,
    at: usize,
    inputs: &mut Vec<ValueId>,
    outputs: &[ValueId],
) -> Vec<Code> {
    let group = &groups.groups[at];
    let mut codes = Vec::new();
    let mut left = vec![Part::whole(&group.lens)];
    while let Some(part) = left.pop() {
        let mut emitter = Emitter::new(groups, group, &part, inputs);
        match emitter.all(outputs) {
            Ok(stores) => codes.push(Code {
                lens: part.lens.clone(),
                folded: group.folded.clone(),
                ins: emitter.ins,
                stores,
            }),
            Err(Cut(d, before)) => {
                let (mut first, mut second) = (part.clone(), part);
                second.lens[d] -= before;
                second.low[d] += before;
                first.lens[d] = before;
                left.push(second);
                left.push(first);
            }
        }
    }
    codes
}

struct Emitter<'a> {
    groups: &'a Groups<'a>,
    group: &'a Group,
    part: &'a Part,
    inputs: &'a mut Vec<ValueId>,
    ins: Vec<Ins>,
    known: HashMap<Ins, Id>,
    done: HashMap<(ValueId, Map), Id>,
}

type Emitted = Result<Id, Cut>;

impl<'a> Emitter<'a> {
    fn new(
        groups: &'a Groups<'a>,
        group: &'a Group,
        part: &'a Part,
        inputs: &'a mut Vec<ValueId>,
    ) -> Emitter<'a> {
        Emitter { groups, group, part, inputs, ins: Vec::new(), known: HashMap::new(), done: HashMap::new() }
    }

    fn rank(&self) -> usize {
        self.part.lens.len()
    }

    fn all(&mut self, outputs: &[ValueId]) -> Result<Vec<Store>, Cut> {
        let mut stores = Vec::new();
        for (operand, value) in outputs.iter().enumerate() {
            let map = self.group.map_of(*value).expect("a stored value is a member of its group");
            let ty = self.groups.work.ty(*value);
            let at = place_of(map, &ty.dims, self.rank()).from(&self.part.low);
            let id = self.member(*value, map)?;
            stores.push(Store { value: id, access: Access { operand, dtype: ty.dtype, at } });
        }
        Ok(stores)
    }

    fn push(&mut self, op: Op, class: Class, args: Vec<Id>) -> Id {
        let ins = Ins { op, class, args };
        if let Some(id) = self.known.get(&ins) {
            return *id;
        }
        let id = self.ins.len();
        self.known.insert(ins.clone(), id);
        self.ins.push(ins);
        id
    }

    fn dims(&self, value: ValueId) -> &'a [usize] {
        &self.groups.work.values[value.at()].ty.dims
    }

    fn input(&mut self, value: ValueId) -> usize {
        if let Some(at) = self.inputs.iter().position(|input| *input == value) {
            return at;
        }
        self.inputs.push(value);
        self.inputs.len() - 1
    }

    fn load(&mut self, value: ValueId, map: &[Affine]) -> Id {
        let at = linear(map, &self.groups.work.values[value.at()].strides, self.rank());
        self.load_at(value, at)
    }

    fn load_at(&mut self, value: ValueId, at: Affine) -> Id {
        let dtype = self.groups.work.ty(value).dtype;
        let operand = self.input(value);
        let at = at.from(&self.part.low);
        self.push(Op::Load(Access { operand, dtype, at }), Class::of(dtype), vec![])
    }

    fn in_memory(&self, value: ValueId) -> bool {
        let work = &self.groups.work;
        !matches!(work.values[value.at()].def, crate::work::Def::Node(_)) || self.group.loads.contains(&value)
    }

    fn value(&mut self, value: ValueId, map: &Map) -> Emitted {
        if self.in_memory(value) {
            return Ok(self.load(value, map));
        }
        self.member(value, map)
    }

    fn member(&mut self, value: ValueId, map: &Map) -> Emitted {
        let key = (value, map.clone());
        if let Some(id) = self.done.get(&key) {
            return Ok(*id);
        }
        let crate::work::Def::Node(at) = self.groups.work.values[value.at()].def else {
            return Ok(self.load(value, map));
        };
        let id = self.node(at, map)?;
        self.done.insert(key, id);
        Ok(id)
    }

    fn constant(&mut self, number: Scalar, dtype: Dtype) -> Id {
        let bits = rare::bits_of(number, dtype);
        self.push(Op::Const(bits), Class::of(dtype), vec![])
    }

    fn operand(&mut self, operand: Operand, dtype: Dtype, map: &Map) -> Emitted {
        match operand {
            Operand::Value(value) => self.value(value, map),
            Operand::Number(number) => Ok(self.constant(number, dtype)),
            Operand::Slot(slot) => Ok(self.push(Op::Slot(slot, dtype), Class::of(dtype), vec![])),
        }
    }

    fn node(&mut self, at: usize, map: &Map) -> Emitted {
        let groups = self.groups;
        let node = &groups.work.nodes[at];
        let ty = groups.work.ty(node.results[0]);
        match &node.prim {
            prim if prim.is_view() => self.view(at, map),
            Prim::Unary(op) => {
                let a = self.operand(node.operands[0], ty.dtype, map)?;
                let dtype = groups.work.ty(node.value(0)).dtype;
                Ok(self.unary(*op, dtype, a))
            }
            Prim::Binary(op) => {
                let dtype = node.values().next().map_or(ty.dtype, |value| groups.work.ty(value).dtype);
                let a = self.operand(node.operands[0], dtype, map)?;
                if *op == Binary::Pow
                    && dtype.is_float()
                    && let Operand::Number(exponent) = node.operands[1]
                    && let Some(id) = self.power(a, exponent.to_f64(), dtype)
                {
                    return Ok(id);
                }
                let b = self.operand(node.operands[1], dtype, map)?;
                Ok(self.binary(*op, dtype, a, b))
            }
            Prim::Ternary(op) => {
                let [a, b, c] = [0, 1, 2].map(|i| self.operand(node.operands[i], ty.dtype, map));
                let (a, b, c) = (a?, b?, c?);
                Ok(self.ternary(*op, ty.dtype, a, b, c))
            }
            Prim::Where => {
                let pred = self.operand(node.operands[0], Dtype::Bool, map)?;
                let a = self.operand(node.operands[1], ty.dtype, map)?;
                let b = self.operand(node.operands[2], ty.dtype, map)?;
                Ok(self.push(Op::Sel, Class::of(ty.dtype), vec![pred, a, b]))
            }
            Prim::Convert(to) => {
                let from = groups.work.ty(node.value(0)).dtype;
                let a = self.operand(node.operands[0], from, map)?;
                Ok(self.convert(a, from, *to))
            }
            Prim::Full(ty) => self.operand(node.operands[0], ty.dtype, map),
            Prim::Iota { dtype, .. } => self.iota(node.operands[0], node.operands[1], *dtype, &map[0]),
            Prim::Uniform(ty) => {
                let [lo, hi] = [0, 1].map(|i| self.operand(node.operands[i], uniform_dtype(ty.dtype), map));
                let [seed, offset] = [2, 3].map(|i| self.operand(node.operands[i], Dtype::I64, map));
                let args = vec![lo?, hi?, seed?, offset?];
                let place = place_of(map, &ty.dims, self.rank()).from(&self.part.low);
                Ok(self.push(Op::Uniform(ty.dtype, place), Class::of(ty.dtype), args))
            }
            Prim::Cat(axis) => self.cat(at, *axis, map),
            Prim::Pad(config) => {
                let a = node.value(0);
                let mut shifted = map.clone();
                config.iter().enumerate().for_each(|(d, (low, _, _))| shifted[d].base -= low);
                match self.inside(&shifted, self.dims(a))? {
                    true => self.value(a, &shifted),
                    false => self.operand(node.operands[1], ty.dtype, map),
                }
            }
            Prim::SliceScatter { start, .. } => {
                let (a, src) = (node.value(0), node.value(1));
                let mut shifted = map.clone();
                shifted.iter_mut().zip(start).for_each(|(e, start)| e.base -= *start as i64);
                match self.inside(&shifted, self.dims(src))? {
                    true => self.value(src, &shifted),
                    false => self.value(a, map),
                }
            }
            Prim::Take(axis) => {
                let index = node.value(1);
                let index_map = if self.dims(index).is_empty() { vec![] } else { vec![map[*axis].clone()] };
                let index = self.value(index, &index_map)?;
                let mut rest = map.clone();
                rest[*axis] = Affine::constant(self.rank(), 0);
                Ok(self.gather(node.value(0), &rest, *axis, index))
            }
            Prim::TakeAlongAxis(axis) => {
                let index = self.value(node.value(1), map)?;
                let dims = self.dims(node.value(0));
                let zero = Affine::constant(self.rank(), 0);
                let of = |d: usize| if d == *axis || dims[d] == 1 { zero.clone() } else { map[d].clone() };
                let rest: Map = (0..dims.len()).map(of).collect();
                Ok(self.gather(node.value(0), &rest, *axis, index))
            }
            Prim::Embedding => {
                let index = self.value(node.value(0), &map[..map.len() - 1].to_vec())?;
                let rest = vec![Affine::constant(self.rank(), 0), map[map.len() - 1].clone()];
                Ok(self.gather(node.value(1), &rest, 0, index))
            }
            Prim::Reduce { op, .. } => self.fold(at, *op),
            Prim::ArgReduce { largest, axis } => self.place(at, *largest, *axis),
            prim => unreachable!("{} is in no group", prim.name()),
        }
    }

    fn view(&mut self, at: usize, map: &Map) -> Emitted {
        let node = &self.groups.work.nodes[at];
        let (operand, result) = (node.value(0), node.results[0]);
        match self.part.pull(&node.prim, map, self.dims(operand), self.dims(result)) {
            Ok(pulled) => self.value(operand, &pulled),
            Err(_) => {
                let place = place_of(map, self.dims(result), self.rank());
                Ok(self.load_at(operand, place))
            }
        }
    }

    fn cat(&mut self, at: usize, axis: usize, map: &Map) -> Emitted {
        let values: Vec<ValueId> = self.groups.work.nodes[at].values().collect();
        let (low, high) = self.part.range(&map[axis]);
        let mut start = 0i64;
        for value in values {
            let end = start + self.dims(value)[axis] as i64;
            if low >= start && low < end {
                if high < end {
                    let mut shifted = map.clone();
                    shifted[axis].base -= start;
                    return self.value(value, &shifted);
                }
                return Err(self.cut(&map[axis], end));
            }
            start = end;
        }
        unreachable!("a map stays inside its value");
    }

    /// Whether a box lies in a tensor of `dims` or beside it.
    fn inside(&self, map: &Map, dims: &[usize]) -> Result<bool, Cut> {
        let mut all = true;
        for (e, dim) in map.iter().zip(dims) {
            let (low, high) = self.part.range(e);
            let end = *dim as i64;
            if high < 0 || low >= end {
                all = false;
            }
        }
        if !all {
            return Ok(false);
        }
        for (e, dim) in map.iter().zip(dims) {
            let (low, high) = self.part.range(e);
            if low < 0 {
                return Err(self.cut(e, 0));
            }
            if high >= *dim as i64 {
                return Err(self.cut(e, *dim as i64));
            }
        }
        Ok(true)
    }

    /// Before the coordinate at which an expression reaches a value.
    fn cut(&self, e: &Affine, value: i64) -> Cut {
        let d = e.single().expect("joining has checked that one coordinate crosses the boundary");
        Cut(d, (value - e.base) as usize - self.part.low[d])
    }

    fn gather(&mut self, table: ValueId, rest: &Map, axis: usize, index: Id) -> Id {
        let value = &self.groups.work.values[table.at()];
        let (stride, size, dtype) = (value.strides[axis], value.ty.dims[axis], value.ty.dtype);
        let at = linear(rest, &value.strides, self.rank()).from(&self.part.low);
        let operand = self.input(table);
        let access = Access { operand, dtype, at };
        self.push(Op::Gather(access, stride as i64, size), Class::of(dtype), vec![index])
    }

    fn iota(&mut self, start: Operand, step: Operand, dtype: Dtype, at: &Affine) -> Emitted {
        let index = self.push(Op::Index(at.from(&self.part.low)), Class::I64, vec![]);
        let whole = |operand: Operand| match operand {
            Operand::Number(number) => !matches!(number, Scalar::Float(_)),
            _ => !dtype.is_float(),
        };
        let wide = if whole(start) && whole(step) { Dtype::I64 } else { Dtype::F64 };
        let class = Class::of(wide);
        let index = self.convert(index, Dtype::I64, wide);
        let nothing = Map::new();
        let start_is_zero = matches!(start, Operand::Number(number) if number.to_f64() == 0.0);
        let step_is_one = matches!(step, Operand::Number(number) if number.to_f64() == 1.0);
        let mut sum = index;
        if !step_is_one {
            let step = self.operand(step, wide, &nothing)?;
            sum = self.push(Op::Bin(Bin::Mul), class, vec![sum, step]);
        }
        if !start_is_zero {
            let start = self.operand(start, wide, &nothing)?;
            sum = self.push(Op::Bin(Bin::Add), class, vec![sum, start]);
        }
        Ok(self.convert(sum, wide, dtype))
    }

    fn fold(&mut self, at: usize, op: Reduce) -> Emitted {
        let groups = self.groups;
        let node = &groups.work.nodes[at];
        let operand = node.value(0);
        let from = groups.work.ty(operand).dtype;
        let to = groups.work.ty(node.results[0]).dtype;
        let full = self.full_map(node.results[0]);
        let a = self.value(operand, &full)?;
        let extreme = matches!(op, Reduce::Amax | Reduce::Amin);
        let wide = match from {
            Dtype::F64 => Dtype::F64,
            _ if from.is_float() && (extreme || to.is_float()) => Dtype::F32,
            _ if extreme || !to.is_float() => Dtype::I64,
            _ => Dtype::F64,
        };
        let wide = if wide == Dtype::F64 && !to.is_float() && !extreme { Dtype::I64 } else { wide };
        let wide = if wide == Dtype::F32 && to == Dtype::F64 && !extreme { Dtype::F64 } else { wide };
        let a = self.convert(a, from, wide);
        let red = match op {
            Reduce::Sum => Red::Sum,
            Reduce::Prod => Red::Prod,
            Reduce::Amax => Red::Max,
            Reduce::Amin => Red::Min,
        };
        let folded = self.push(Op::Fold(red), Class::of(wide), vec![a]);
        Ok(self.convert(folded, wide, to))
    }

    fn place(&mut self, at: usize, largest: bool, axis: Option<usize>) -> Emitted {
        let groups = self.groups;
        let operand = groups.work.nodes[at].value(0);
        let dims = self.dims(operand);
        let axes = axis.map_or_else(|| (0..dims.len()).collect(), |axis| vec![axis]);
        let full = self.full_map(groups.work.nodes[at].results[0]);
        let along: Map = axes.iter().map(|axis| full[*axis].clone()).collect();
        let along_dims: Vec<usize> = axes.iter().map(|axis| dims[*axis]).collect();
        let place = place_of(&along, &along_dims, self.rank()).from(&self.part.low);
        let a = self.value(operand, &full)?;
        let a = match groups.work.ty(operand).dtype {
            Dtype::Bool => self.convert(a, Dtype::Bool, Dtype::I64),
            _ => a,
        };
        Ok(self.push(Op::Place { largest, at: place }, Class::I64, vec![a]))
    }

    /// The map of a fold's operand.
    fn full_map(&self, result: ValueId) -> Map {
        let found = self.group.operand_maps.iter().find(|(of, _)| *of == result);
        found.expect("a fold joins with the map of its operand").1.clone()
    }

    fn convert(&mut self, a: Id, from: Dtype, to: Dtype) -> Id {
        let (old, new) = (Class::of(from), Class::of(to));
        if old == new {
            let narrower = new == Class::I64 && from != to && !fits(from, to);
            return if narrower { self.push(Op::Wrap(to), new, vec![a]) } else { a };
        }
        if new == Class::Mask {
            let zero = self.push(Op::Const(0), old, vec![]);
            return self.push(Op::Cmp(Cmp::Ne), Class::Mask, vec![a, zero]);
        }
        let cast = self.push(Op::Cast(to), new, vec![a]);
        self.wrapped(cast, if old == Class::Mask { Dtype::I64 } else { to })
    }

    fn wrapped(&mut self, a: Id, dtype: Dtype) -> Id {
        match dtype {
            Dtype::I64 => a,
            _ if Class::of(dtype) == Class::I64 => self.push(Op::Wrap(dtype), Class::I64, vec![a]),
            _ => a,
        }
    }

    fn unary(&mut self, op: Unary, dtype: Dtype, a: Id) -> Id {
        let class = Class::of(dtype);
        match (op, class) {
            (Unary::Isfinite, Class::F32 | Class::F64) => {
                let size = match class {
                    Class::F32 => self.push(Op::Un(Un32::Abs), class, vec![a]),
                    _ => self.push(Op::Slow(Unary::Abs), class, vec![a]),
                };
                let infinity = self.constant(Scalar::Float(f64::INFINITY), wide(dtype));
                self.push(Op::Cmp(Cmp::Lt), Class::Mask, vec![size, infinity])
            }
            (Unary::Isfinite, _) => self.constant(Scalar::Bool(true), Dtype::Bool),
            (Unary::Signbit, Class::I64) => {
                let zero = self.constant(Scalar::Int(0), dtype);
                self.push(Op::Cmp(Cmp::Lt), Class::Mask, vec![a, zero])
            }
            (Unary::Signbit, _) => self.push(Op::Signbit, Class::Mask, vec![a]),
            (_, Class::F32) => match un32(op) {
                Some(op) => self.push(Op::Un(op), class, vec![a]),
                None => self.push(Op::Slow(op), class, vec![a]),
            },
            (_, Class::F64) => self.push(Op::Slow(op), class, vec![a]),
            (Unary::BitwiseNot, _) => {
                let ones = self.push(
                    Op::Const(if class == Class::Mask { u64::from(u32::MAX) } else { u64::MAX }),
                    class,
                    vec![],
                );
                let not = self.push(Op::Int(IntBin::Xor, dtype), class, vec![a, ones]);
                self.wrapped(not, dtype)
            }
            (Unary::Neg | Unary::Abs, _) => {
                let zero = self.constant(Scalar::Int(0), dtype);
                let minus = self.push(Op::Bin(Bin::Sub), class, vec![zero, a]);
                let minus = self.wrapped(minus, dtype);
                match op {
                    Unary::Abs if matches!(dtype, Dtype::U8 | Dtype::U16 | Dtype::U32) => a,
                    Unary::Abs => {
                        let below = self.push(Op::Cmp(Cmp::Lt), Class::Mask, vec![a, zero]);
                        self.push(Op::Sel, class, vec![below, minus, a])
                    }
                    _ => minus,
                }
            }
            (Unary::Sign, _) => {
                let (one, minus) =
                    (self.constant(Scalar::Int(1), Dtype::I64), self.constant(Scalar::Int(-1), Dtype::I64));
                let below = self.push(Op::Bin(Bin::Max), class, vec![a, minus]);
                self.push(Op::Bin(Bin::Min), class, vec![below, one])
            }
            // What rounds leaves integers alone.
            _ => a,
        }
    }

    fn binary(&mut self, op: Binary, dtype: Dtype, a: Id, b: Id) -> Id {
        let class = Class::of(dtype);
        let args = vec![a, b];
        if let Some(cmp) = cmp(op) {
            if class != Class::Mask {
                return self.push(Op::Cmp(cmp), Class::Mask, args);
            }
            let differ = self.push(Op::Int(IntBin::Xor, dtype), class, args);
            return if op == Binary::Ne { differ } else { self.unary(Unary::BitwiseNot, dtype, differ) };
        }
        if class == Class::Mask {
            let op = match op {
                Binary::Mul | Binary::BitwiseAnd => IntBin::And,
                Binary::BitwiseXor => IntBin::Xor,
                _ => IntBin::Or,
            };
            return self.push(Op::Int(op, dtype), class, args);
        }
        let bin = match op {
            Binary::Add => Some(Bin::Add),
            Binary::Sub => Some(Bin::Sub),
            Binary::Mul => Some(Bin::Mul),
            Binary::Div => Some(Bin::Div),
            Binary::Maximum => Some(Bin::Max),
            Binary::Minimum => Some(Bin::Min),
            _ => None,
        };
        let id = match (bin, class) {
            // Division of integers looks at each divisor.
            (Some(Bin::Div), Class::I64) => self.push(Op::Slow2(Binary::Div), class, args),
            (Some(bin), _) => self.push(Op::Bin(bin), class, args),
            (None, Class::I64) => self.push(Op::Int(int_bin(op), dtype), class, args),
            (None, _) => self.push(Op::Slow2(op), class, args),
        };
        self.wrapped(id, dtype)
    }

    /// Powers that are something simpler.
    fn power(&mut self, a: Id, exponent: f64, dtype: Dtype) -> Option<Id> {
        let class = Class::of(dtype);
        let square = |me: &mut Self| me.push(Op::Bin(Bin::Mul), class, vec![a, a]);
        match exponent {
            1.0 => Some(a),
            2.0 => Some(square(self)),
            3.0 => {
                let square = square(self);
                Some(self.push(Op::Bin(Bin::Mul), class, vec![square, a]))
            }
            -1.0 => Some(self.unary(Unary::Reciprocal, dtype, a)),
            -2.0 => {
                let square = square(self);
                Some(self.unary(Unary::Reciprocal, dtype, square))
            }
            _ => None,
        }
    }

    fn ternary(&mut self, op: Ternary, dtype: Dtype, a: Id, b: Id, c: Id) -> Id {
        let class = Class::of(dtype);
        if class == Class::F32 {
            let op = if op == Ternary::Fma { Tern::Fma } else { Tern::Lerp };
            return self.push(Op::Tern(op), class, vec![a, b, c]);
        }
        let mut bin = |op: Bin, a: Id, b: Id| self.push(Op::Bin(op), class, vec![a, b]);
        if op == Ternary::Fma {
            let product = bin(Bin::Mul, a, b);
            return bin(Bin::Add, product, c);
        }
        let apart = bin(Bin::Sub, b, a);
        let step = bin(Bin::Mul, c, apart);
        let near = bin(Bin::Add, a, step);
        let one = self.constant(Scalar::Float(1.0), dtype);
        let mut bin = |op: Bin, a: Id, b: Id| self.push(Op::Bin(op), class, vec![a, b]);
        let rest = bin(Bin::Sub, one, c);
        let back = bin(Bin::Mul, apart, rest);
        let far = bin(Bin::Sub, b, back);
        let size = self.push(Op::Slow(Unary::Abs), class, vec![c]);
        let half = self.constant(Scalar::Float(0.5), dtype);
        let below = self.push(Op::Cmp(Cmp::Lt), Class::Mask, vec![size, half]);
        self.push(Op::Sel, class, vec![below, near, far])
    }
}

/// The dtype whose numbers stand for those of a class of floats without rounding.
fn wide(dtype: Dtype) -> Dtype {
    if dtype == Dtype::F64 { Dtype::F64 } else { Dtype::F32 }
}

/// Bounds of a uniform draw are f32 unless the draw is f64.
fn uniform_dtype(dtype: Dtype) -> Dtype {
    wide(dtype)
}

/// Whether every integer of one dtype is one of another.
fn fits(from: Dtype, to: Dtype) -> bool {
    let signed = |dtype: Dtype| !matches!(dtype, Dtype::U8 | Dtype::U16 | Dtype::U32);
    match (signed(from), signed(to)) {
        (true, false) => false,
        (false, true) => from.size_bytes() < to.size_bytes(),
        _ => from.size_bytes() <= to.size_bytes(),
    }
}

fn un32(op: Unary) -> Option<Un32> {
    Some(match op {
        Unary::Neg => Un32::Neg,
        Unary::Abs => Un32::Abs,
        Unary::Sqrt => Un32::Sqrt,
        Unary::Rsqrt => Un32::Rsqrt,
        Unary::Reciprocal => Un32::Recip,
        Unary::Exp => Un32::Exp,
        Unary::Log => Un32::Log,
        Unary::Sin => Un32::Sin,
        Unary::Cos => Un32::Cos,
        Unary::Tanh => Un32::Tanh,
        Unary::Erf => Un32::Erf,
        Unary::Floor => Un32::Floor,
        Unary::Ceil => Un32::Ceil,
        Unary::Trunc => Un32::Trunc,
        Unary::Round => Un32::Round,
        Unary::Sign => Un32::Sign,
        _ => return None,
    })
}

fn cmp(op: Binary) -> Option<Cmp> {
    Some(match op {
        Binary::Eq => Cmp::Eq,
        Binary::Ne => Cmp::Ne,
        Binary::Lt => Cmp::Lt,
        Binary::Le => Cmp::Le,
        Binary::Gt => Cmp::Gt,
        Binary::Ge => Cmp::Ge,
        _ => return None,
    })
}

fn int_bin(op: Binary) -> IntBin {
    match op {
        Binary::BitwiseAnd => IntBin::And,
        Binary::BitwiseOr => IntBin::Or,
        Binary::BitwiseXor => IntBin::Xor,
        Binary::BitwiseLeftShift => IntBin::Shl,
        Binary::BitwiseRightShift => IntBin::Shr,
        Binary::Fmod => IntBin::Fmod,
        Binary::Remainder => IntBin::Remainder,
        _ => IntBin::Pow,
    }
}
