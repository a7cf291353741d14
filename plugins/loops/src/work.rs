//! The graph as the fuser works on it: variances taken apart, folds that are none removed, long folds into few results
//! cut in two, what is empty gone.
//!
//! Ids of the caller's values are kept; values that are made here come behind them.

use crate::graph::{
    Binary, Dtype, Graph, NodeId, Operand, Prim, Reduce, Scalar, Source, TensorType, ValueId, dense_strides,
};
use crate::program::Unsupported;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Def {
    /// In memory before the program runs.
    Input,
    /// A result of a node of [`Work`].
    Node(usize),
    /// In memory once an extern node has run.
    Extern(usize),
    /// Has no elements.
    Empty,
}

pub struct Node {
    pub prim: Prim,
    pub operands: Vec<Operand>,
    pub results: Vec<ValueId>,
    pub origin: NodeId,
}

impl Node {
    pub fn value(&self, at: usize) -> ValueId {
        match self.operands[at] {
            Operand::Value(value) => value,
            _ => unreachable!("operand {at} of {} was checked to be a tensor", self.prim.name()),
        }
    }

    pub fn values(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.operands.iter().filter_map(|operand| match operand {
            Operand::Value(value) => Some(*value),
            _ => None,
        })
    }
}

pub struct Value {
    pub ty: TensorType,
    pub strides: Vec<usize>,
    pub def: Def,
}

pub struct Work {
    pub nodes: Vec<Node>,
    pub values: Vec<Value>,
    origin: NodeId,
}

/// Folds of more elements than this into few results are cut in two, so that several threads can take part and sums stay
/// accurate.
const LONG_FOLD: usize = 1 << 15;
/// So few results are too few to share out: of folds along the innermost dim, and of others.
const FEW_ROWS: usize = 4;
const FEW_COLUMNS: usize = 1 << 11;

impl Work {
    pub fn of(graph: &Graph) -> Result<Work, Unsupported> {
        let values = graph.values.iter().map(|value| Value {
            ty: value.ty.clone(),
            strides: value.strides.clone(),
            def: match value.source {
                _ if value.ty.numel() == 0 => Def::Empty,
                Source::Input(_) => Def::Input,
                Source::Node(..) => Def::Empty,
            },
        });
        let mut work = Work { nodes: Vec::new(), values: values.collect(), origin: NodeId(0) };
        for (i, node) in graph.nodes.iter().enumerate() {
            work.origin = NodeId(i as u32);
            work.take(&node.prim, &node.operands, &node.results)
                .map_err(|reason| Unsupported { node: NodeId(i as u32), reason })?;
        }
        Ok(work)
    }

    pub fn ty(&self, value: ValueId) -> &TensorType {
        &self.values[value.at()].ty
    }

    /// Row-major in memory.
    pub fn is_dense(&self, value: ValueId) -> bool {
        let value = &self.values[value.at()];
        let dense = dense_strides(&value.ty.dims);
        (0..dense.len()).all(|d| value.ty.dims[d] == 1 || value.strides[d] == dense[d])
    }

    fn numel(&self, value: ValueId) -> usize {
        self.ty(value).numel()
    }

    fn take(&mut self, prim: &Prim, operands: &[Operand], results: &[ValueId]) -> Result<(), String> {
        supported(prim)?;
        if let Prim::Extern(_) = prim {
            self.place(prim.clone(), operands.to_vec(), results.to_vec());
            return Ok(());
        }
        if results.iter().all(|result| self.numel(*result) == 0) {
            return Ok(());
        }
        let result = results[0];
        match prim {
            Prim::Cat(axis) => {
                let full = |operand: &&Operand| match operand {
                    Operand::Value(value) => self.numel(*value) > 0,
                    _ => true,
                };
                let operands: Vec<Operand> = operands.iter().filter(full).copied().collect();
                let prim = if operands.len() == 1 { Prim::Copy } else { Prim::Cat(*axis) };
                self.place(prim, operands, vec![result]);
            }
            Prim::Pad(config) => {
                if self.numel(self.tensor(operands, 0)) == 0 {
                    self.place(Prim::Full(self.ty(result).clone()), vec![operands[1]], vec![result]);
                } else {
                    self.place(Prim::Pad(config.clone()), operands.to_vec(), vec![result]);
                }
            }
            Prim::SliceScatter { .. } if self.numel(self.tensor(operands, 1)) == 0 => {
                self.place(Prim::Copy, vec![operands[0]], vec![result]);
            }
            Prim::Take(_) | Prim::TakeAlongAxis(_) | Prim::Embedding => {
                let table = if *prim == Prim::Embedding { 1 } else { 0 };
                if self.numel(self.tensor(operands, table)) == 0 {
                    return Err("an index into nothing".into());
                }
                self.place(prim.clone(), operands.to_vec(), vec![result]);
            }
            // What a reshape looks at must be readable in row-major order, one way or another.
            Prim::Reshape(_) => {
                let dense = self.dense(self.tensor(operands, 0));
                self.place(prim.clone(), vec![dense.into()], vec![result]);
            }
            Prim::Reduce { op, axes, out } => {
                let a = self.tensor(operands, 0);
                self.fold(*op, a, axes, *out, result);
            }
            Prim::ArgReduce { axis, .. } => {
                let a = self.tensor(operands, 0);
                let dims = &self.ty(a).dims;
                if axis.map_or(dims.iter().product::<usize>(), |axis| dims[axis]) == 1 {
                    let zero = Operand::Number(Scalar::Int(0));
                    self.place(Prim::Full(self.ty(result).clone()), vec![zero], vec![result]);
                } else {
                    self.place(prim.clone(), operands.to_vec(), vec![result]);
                }
            }
            Prim::Var(axes) => self.variance(operands, axes, result, None),
            Prim::VarMean(axes) => self.variance(operands, axes, result, Some(results[1])),
            _ => self.place(prim.clone(), operands.to_vec(), results.to_vec()),
        }
        Ok(())
    }

    fn tensor(&self, operands: &[Operand], at: usize) -> ValueId {
        match operands[at] {
            Operand::Value(value) => value,
            _ => unreachable!("push has checked that operand {at} is a tensor"),
        }
    }

    /// Puts a node at the end.
    pub fn place(&mut self, prim: Prim, operands: Vec<Operand>, results: Vec<ValueId>) {
        let at = self.nodes.len();
        let outside = matches!(prim, Prim::Extern(_));
        for result in &results {
            let value = &mut self.values[result.at()];
            value.def = match outside {
                _ if value.ty.numel() == 0 => Def::Empty,
                true => Def::Extern(at),
                false => Def::Node(at),
            };
        }
        self.nodes.push(Node { prim, operands, results, origin: self.origin });
    }

    fn fresh(&mut self, dtype: Dtype, dims: &[usize]) -> ValueId {
        let ty = TensorType::new(dtype, dims);
        self.values.push(Value { strides: ty.dense_strides(), ty, def: Def::Empty });
        ValueId(self.values.len() as u32 - 1)
    }

    fn node(&mut self, prim: Prim, operands: Vec<Operand>, dtype: Dtype, dims: &[usize]) -> ValueId {
        let result = self.fresh(dtype, dims);
        self.place(prim, operands, vec![result]);
        result
    }

    /// A value, or a copy of it that can be laid out in row-major order.
    fn dense(&mut self, a: ValueId) -> ValueId {
        if self.is_dense(a) {
            return a;
        }
        let ty = self.ty(a).clone();
        self.node(Prim::Copy, vec![a.into()], ty.dtype, &ty.dims)
    }

    fn fold(&mut self, op: Reduce, a: ValueId, axes: &[usize], out: Option<Dtype>, result: ValueId) {
        let (ty, out_ty) = (self.ty(a).clone(), self.ty(result).clone());
        let length: usize = axes.iter().map(|axis| ty.dims[*axis]).product();
        if length == 0 {
            let start = Scalar::Int(i64::from(op == Reduce::Prod));
            self.place(Prim::Full(out_ty), vec![Operand::Number(start)], vec![result]);
            return;
        }
        if length == 1 {
            let a = self.dense(a);
            let flat = self.node(Prim::Reshape(out_ty.dims.clone()), vec![a.into()], ty.dtype, &out_ty.dims);
            self.place(Prim::Convert(out_ty.dtype), vec![flat.into()], vec![result]);
            return;
        }
        // Rows are shared out whole; columns in tiles of many.
        let innermost = (0..ty.dims.len()).rev().find(|d| ty.dims[*d] > 1);
        let few = if innermost.is_some_and(|d| axes.contains(&d)) { FEW_ROWS } else { FEW_COLUMNS };
        if out_ty.numel() < few
            && length >= 64
            && ty.numel() >= LONG_FOLD
            && let Some((axis, outer)) = cut(&ty.dims, axes, out_ty.numel())
        {
            self.fold_in_two(op, a, axes, (axis, outer), result);
            return;
        }
        self.place(Prim::Reduce { op, axes: axes.to_vec(), out }, vec![a.into()], vec![result]);
    }

    /// First each of `outer` parts of an axis, then the parts. Half types stay f32 in between, and what is folded in
    /// integers stays i64.
    fn fold_in_two(
        &mut self,
        op: Reduce,
        a: ValueId,
        axes: &[usize],
        (axis, outer): (usize, usize),
        result: ValueId,
    ) {
        let (ty, out_ty) = (self.ty(a).clone(), self.ty(result).clone());
        let mut dims = ty.dims.clone();
        dims[axis] /= outer;
        dims.insert(axis, outer);
        let a = self.dense(a);
        let parts = self.node(Prim::Reshape(dims.clone()), vec![a.into()], ty.dtype, &dims);
        // Axes behind the cut one have moved by one; of the two parts the inner one goes first.
        let inner: Vec<usize> = axes.iter().map(|at| if *at >= axis { at + 1 } else { *at }).collect();
        let kept: Vec<usize> = (0..dims.len()).filter(|d| !inner.contains(d)).collect();
        let kept_dims: Vec<usize> = kept.iter().map(|d| dims[*d]).collect();
        let wide = match op {
            Reduce::Amax | Reduce::Amin => ty.dtype,
            _ if out_ty.dtype == Dtype::F64 || ty.dtype == Dtype::F64 => Dtype::F64,
            _ if out_ty.dtype.is_float() => Dtype::F32,
            _ => Dtype::I64,
        };
        let first = Prim::Reduce { op, axes: inner, out: Some(wide) };
        let partial = self.node(first, vec![parts.into()], wide, &kept_dims);
        let at = kept.iter().position(|d| *d == axis).unwrap_or(0);
        let second = Prim::Reduce { op, axes: vec![at], out: Some(out_ty.dtype) };
        self.place(second, vec![partial.into()], vec![result]);
    }

    /// `Σ (a - mean)² / max(n - correction, 0)`.
    fn variance(&mut self, operands: &[Operand], axes: &[usize], result: ValueId, mean: Option<ValueId>) {
        let a = self.tensor(operands, 0);
        let (ty, out) = (self.ty(a).clone(), self.ty(result).clone());
        let n: usize = axes.iter().map(|axis| ty.dims[*axis]).product();
        if n == 0 {
            let nan = vec![Operand::Number(Scalar::Float(f64::NAN))];
            for value in [Some(result), mean].into_iter().flatten() {
                self.place(Prim::Full(out.clone()), nan.clone(), vec![value]);
            }
            return;
        }
        let dims = out.dims.clone();
        let sum = self.fresh(ty.dtype, &dims);
        self.fold(Reduce::Sum, a, axes, None, sum);
        let count = Operand::Number(Scalar::Float(n as f64));
        let mean = mean.unwrap_or_else(|| self.fresh(ty.dtype, &dims));
        let wide = if ty.dtype == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
        // Numbers are rounded to the dtype beside them: a count would be wrong in a half one.
        let sum = self.node(Prim::Convert(wide), vec![sum.into()], wide, &dims);
        let wide_mean = self.node(Prim::Binary(Binary::Div), vec![sum.into(), count], wide, &dims);
        self.place(Prim::Convert(ty.dtype), vec![wide_mean.into()], vec![mean]);
        let kept: Vec<usize> = (0..ty.dims.len()).filter(|d| !axes.contains(d)).collect();
        let spread = Prim::Broadcast { dims: ty.dims.clone(), axes: kept };
        let spread = self.node(spread, vec![wide_mean.into()], wide, &ty.dims);
        let wide_a = self.node(Prim::Convert(wide), vec![a.into()], wide, &ty.dims);
        let off = self.node(Prim::Binary(Binary::Sub), vec![wide_a.into(), spread.into()], wide, &ty.dims);
        let square = self.node(Prim::Binary(Binary::Mul), vec![off.into(), off.into()], wide, &ty.dims);
        let squares = self.fresh(wide, &dims);
        self.fold(Reduce::Sum, square, axes, None, squares);
        let below = match operands[1] {
            Operand::Number(correction) => {
                Operand::Number(Scalar::Float((n as f64 - correction.to_f64()).max(0.0)))
            }
            slot => {
                let full = Prim::Full(TensorType::new(wide, &dims));
                let correction = self.node(full, vec![slot], wide, &dims);
                let free = Prim::Binary(Binary::Sub);
                let free = self.node(free, vec![count, correction.into()], wide, &dims);
                let zero = Operand::Number(Scalar::Float(0.0));
                let most = Prim::Binary(Binary::Maximum);
                Operand::Value(self.node(most, vec![free.into(), zero], wide, &dims))
            }
        };
        let wide_var = self.node(Prim::Binary(Binary::Div), vec![squares.into(), below], wide, &dims);
        self.place(Prim::Convert(ty.dtype), vec![wide_var.into()], vec![result]);
    }
}

/// The axis to cut, and into how many parts: the outermost that has a fitting divisor.
fn cut(dims: &[usize], axes: &[usize], kept: usize) -> Option<(usize, usize)> {
    let mut sorted = axes.to_vec();
    sorted.sort_unstable();
    for axis in sorted {
        let n = dims[axis];
        let rest: usize = axes.iter().filter(|at| **at != axis).map(|at| dims[*at]).product();
        // Parts of at least a few thousand elements, but enough of them to share out.
        let most = (n * rest * kept / 4096).clamp(1, 256);
        if let Some(parts) = (2..=most.min(n)).rev().find(|parts| n.is_multiple_of(*parts))
            && parts >= 8.min(most)
        {
            return Some((axis, parts));
        }
    }
    None
}

/// Forms of prims that are not built.
fn supported(prim: &Prim) -> Result<(), String> {
    match prim {
        Prim::Pad(config) if config.iter().any(|(_, _, between)| *between > 0) => {
            Err("padding between elements".into())
        }
        Prim::SliceScatter { step, .. } if step.iter().any(|step| *step > 1) => {
            Err("scattering in steps above 1".into())
        }
        _ => Ok(()),
    }
}

/// As [`supported`], for those who ask before they build a graph.
pub fn supports(prim: &Prim) -> Result<(), String> {
    supported(prim)
}
