//! Dims and dtypes of results, and every check of a node's operands. Behind it nothing is checked again.

use crate::graph::{Binary, Dtype, Graph, Operand, Prim, TensorType, Ternary, Unary};

type Checked<T> = Result<T, String>;

/// Types of the results of a node.
pub fn infer(graph: &Graph, prim: &Prim, operands: &[Operand]) -> Checked<Vec<TensorType>> {
    for operand in operands {
        if let Operand::Value(value) = operand
            && value.at() >= graph.values.len()
        {
            return Err(format!("{value} is no value of this graph"));
        }
    }
    let see = See { graph, operands };
    let one = |ty: TensorType| Ok(vec![ty]);
    match prim {
        Prim::Unary(op) => {
            let a = see.only()?;
            supports_unary(*op, a.dtype)?;
            let dtype = match op {
                Unary::Isfinite | Unary::Signbit => Dtype::Bool,
                _ => a.dtype,
            };
            one(TensorType { dtype, dims: a.dims.clone() })
        }
        Prim::Binary(op) => {
            let a = see.same(2, 0)?;
            supports_binary(*op, a.dtype)?;
            let dtype = if op.compares() { Dtype::Bool } else { a.dtype };
            one(TensorType { dtype, dims: a.dims.clone() })
        }
        Prim::Ternary(op) => {
            let a = see.same(3, 0)?;
            supports_ternary(*op, a.dtype)?;
            one(a.clone())
        }
        Prim::Where => {
            let pred = see.tensor(0)?;
            if pred.dtype != Dtype::Bool {
                return Err(format!("`pred` is {}; expected bool", pred.dtype));
            }
            let a = see.same(3, 1)?;
            if a.dims != pred.dims {
                return Err(format!("dims {:?} and {:?} differ", pred.dims, a.dims));
            }
            one(a.clone())
        }
        Prim::Convert(dtype) => one(TensorType { dtype: *dtype, dims: see.only()?.dims.clone() }),
        Prim::Copy => one(see.only()?.clone()),
        Prim::Reshape(dims) => {
            let a = see.only()?;
            let numel = dims.iter().try_fold(1usize, |n, dim| n.checked_mul(*dim));
            if numel != Some(a.numel()) {
                return Err(format!("dims {:?} do not reshape to {dims:?}", a.dims));
            }
            one(TensorType::new(a.dtype, dims))
        }
        Prim::Transpose(permutation) => {
            let a = see.only()?;
            let mut seen = permutation.clone();
            seen.sort_unstable();
            if !seen.iter().copied().eq(0..a.dims.len()) {
                return Err(format!("permutation {permutation:?} of dims {:?}", a.dims));
            }
            one(TensorType { dtype: a.dtype, dims: permutation.iter().map(|axis| a.dims[*axis]).collect() })
        }
        Prim::Broadcast { dims, axes } => {
            let a = see.only()?;
            let rising = axes.windows(2).all(|pair| pair[0] < pair[1]);
            let fits =
                |(axis, dim): (&usize, &usize)| *axis < dims.len() && (*dim == 1 || *dim == dims[*axis]);
            if axes.len() != a.dims.len() || !rising || !axes.iter().zip(&a.dims).all(fits) {
                return Err(format!("dims {:?} do not broadcast to {dims:?} at {axes:?}", a.dims));
            }
            one(TensorType::new(a.dtype, dims))
        }
        Prim::Slice { start, end, step } => {
            let a = see.only()?;
            let rank = a.dims.len();
            if start.len() != rank || end.len() != rank || step.len() != rank || step.contains(&0) {
                return Err(format!("start {start:?}, end {end:?}, step {step:?} of dims {:?}", a.dims));
            }
            let mut dims = Vec::with_capacity(rank);
            for i in 0..rank {
                let end = end[i].min(a.dims[i]);
                dims.push(end.saturating_sub(start[i]).div_ceil(step[i]));
            }
            one(TensorType { dtype: a.dtype, dims })
        }
        Prim::Squeeze(axes) => {
            let a = see.only()?;
            if axes.iter().any(|axis| a.dims.get(*axis) != Some(&1)) {
                return Err(format!("axes {axes:?} of dims {:?} are not all 1", a.dims));
            }
            one(TensorType { dtype: a.dtype, dims: without(&a.dims, axes) })
        }
        Prim::Flip(axes) => {
            let a = see.only()?;
            if axes.iter().any(|axis| *axis >= a.dims.len()) {
                return Err(format!("axes {axes:?} of dims {:?}", a.dims));
            }
            one(a.clone())
        }
        Prim::Cat(axis) => cat(&see, *axis).and_then(one),
        Prim::Pad(config) => pad(&see, config).and_then(one),
        Prim::SliceScatter { start, step } => {
            let (a, src) = (see.tensor(0)?, see.tensor(1)?);
            let rank = a.dims.len();
            let fits = |i: usize| src.dims[i] == 0 || start[i] + (src.dims[i] - 1) * step[i] < a.dims[i];
            if src.dims.len() != rank
                || start.len() != rank
                || step.len() != rank
                || step.contains(&0)
                || src.dtype != a.dtype
                || !(0..rank).all(fits)
            {
                return Err(format!("{src} from {start:?} in steps of {step:?} does not fit into {a}"));
            }
            one(a.clone())
        }
        Prim::Full(ty) => see.numbers(1).and_then(|()| one(ty.clone())),
        Prim::Iota { n, dtype } => see.numbers(2).and_then(|()| one(TensorType::new(*dtype, &[*n]))),
        Prim::Take(axis) => {
            let (a, index) = (see.tensor(0)?, see.index(1)?);
            if *axis >= a.dims.len() || index.dims.len() > 1 {
                return Err(format!("axis {axis} of {a} by an index of dims {:?}", index.dims));
            }
            let mut dims = a.dims.clone();
            dims[*axis] = index.numel();
            one(TensorType { dtype: a.dtype, dims })
        }
        Prim::TakeAlongAxis(axis) => {
            let (a, index) = (see.tensor(0)?, see.index(1)?);
            if a.dims.len() != index.dims.len() || (*axis >= a.dims.len()) {
                return Err(format!("axis {axis} of {a} by an index of dims {:?}", index.dims));
            }
            let mut dims = Vec::new();
            for i in 0..a.dims.len() {
                // A gather's index may stay inside a corner; a broadcast one is 1.
                let fits = i == *axis || index.dims[i] <= a.dims[i] || a.dims[i] == 1;
                if !fits {
                    return Err(format!("dims {:?} of the index and {:?} do not fit", index.dims, a.dims));
                }
                dims.push(index.dims[i]);
            }
            one(TensorType { dtype: a.dtype, dims })
        }
        Prim::Embedding => {
            let (index, weight) = (see.index(0)?, see.tensor(1)?);
            let [_, row] = *weight.dims.as_slice() else {
                return Err(format!("a table of dims {:?}; expected two", weight.dims));
            };
            let mut dims = index.dims.clone();
            dims.push(row);
            one(TensorType { dtype: weight.dtype, dims })
        }
        Prim::Reduce { op, axes, out } => {
            let a = see.only()?;
            check_axes(a, axes)?;
            supports_reduce(*op, a.dtype)?;
            if op.is_extreme() && axes.iter().any(|axis| a.dims[*axis] == 0) {
                return Err("the greatest or least of no elements is not defined".into());
            }
            one(TensorType { dtype: out.unwrap_or(a.dtype), dims: without(&a.dims, axes) })
        }
        Prim::ArgReduce { axis, .. } => {
            let a = see.only()?;
            let axes: Vec<usize> = axis.map_or_else(|| (0..a.dims.len()).collect(), |axis| vec![axis]);
            check_axes(a, &axes)?;
            if axes.iter().any(|axis| a.dims[*axis] == 0) {
                return Err("the greatest or least of no elements is not defined".into());
            }
            one(TensorType { dtype: Dtype::I64, dims: without(&a.dims, &axes) })
        }
        Prim::Var(axes) => Ok(vec![variance(&see, axes)?]),
        Prim::VarMean(axes) => {
            let ty = variance(&see, axes)?;
            Ok(vec![ty.clone(), ty])
        }
        Prim::Uniform(ty) => {
            see.numbers(4)?;
            if ty.dtype.is_float() { one(ty.clone()) } else { Err(format!("draws {}", ty.dtype)) }
        }
        Prim::Extern(types) => Ok(types.clone()),
    }
}

struct See<'a> {
    graph: &'a Graph,
    operands: &'a [Operand],
}

impl<'a> See<'a> {
    fn tensor(&self, at: usize) -> Checked<&'a TensorType> {
        match self.operands.get(at) {
            Some(Operand::Value(value)) => Ok(self.graph.ty(*value)),
            other => Err(format!("operand {at} is {other:?}; expected a tensor")),
        }
    }

    fn index(&self, at: usize) -> Checked<&'a TensorType> {
        let ty = self.tensor(at)?;
        if ty.dtype.is_int() { Ok(ty) } else { Err(format!("an index is {}; expected an integer", ty.dtype)) }
    }

    fn only(&self) -> Checked<&'a TensorType> {
        self.count(1)?;
        self.tensor(0)
    }

    fn count(&self, n: usize) -> Checked<()> {
        if self.operands.len() == n {
            Ok(())
        } else {
            Err(format!("{} operands; expected {n}", self.operands.len()))
        }
    }

    fn numbers(&self, n: usize) -> Checked<()> {
        self.count(n)?;
        if self.operands.iter().any(|operand| matches!(operand, Operand::Value(_))) {
            return Err("an operand is a tensor; expected numbers".into());
        }
        Ok(())
    }

    /// The common type of the tensors from operand `from` on, of `n` operands in all.
    fn same(&self, n: usize, from: usize) -> Checked<&'a TensorType> {
        self.count(n)?;
        let mut tensors = self.operands[from..].iter().filter_map(|operand| match operand {
            Operand::Value(value) => Some(self.graph.ty(*value)),
            _ => None,
        });
        let first = tensors.next().ok_or("no operand is a tensor")?;
        match tensors.find(|ty| *ty != first) {
            Some(other) => Err(format!("operands {first} and {other} differ")),
            None => Ok(first),
        }
    }
}

fn without(dims: &[usize], axes: &[usize]) -> Vec<usize> {
    (0..dims.len()).filter(|axis| !axes.contains(axis)).map(|axis| dims[axis]).collect()
}

fn check_axes(a: &TensorType, axes: &[usize]) -> Checked<()> {
    let mut sorted = axes.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() != axes.len() || axes.iter().any(|axis| *axis >= a.dims.len()) {
        return Err(format!("axes {axes:?} of dims {:?}", a.dims));
    }
    Ok(())
}

fn cat(see: &See<'_>, axis: usize) -> Checked<TensorType> {
    let first = see.tensor(0)?;
    if axis >= first.dims.len() {
        return Err(format!("axis {axis} of dims {:?}", first.dims));
    }
    let mut ty = first.clone();
    for at in 1..see.operands.len() {
        let next = see.tensor(at)?;
        let fits = next.dims.len() == ty.dims.len()
            && next.dtype == ty.dtype
            && (0..ty.dims.len()).all(|i| i == axis || next.dims[i] == ty.dims[i]);
        if !fits {
            return Err(format!("{next} does not join {ty} along axis {axis}"));
        }
        ty.dims[axis] += next.dims[axis];
    }
    Ok(ty)
}

fn pad(see: &See<'_>, config: &[(i64, i64, usize)]) -> Checked<TensorType> {
    see.count(2)?;
    let a = see.tensor(0)?;
    if matches!(see.operands[1], Operand::Value(_)) || config.len() != a.dims.len() {
        return Err(format!("{} paddings of {a} by {:?}", config.len(), see.operands[1]));
    }
    let mut dims = Vec::new();
    for (dim, (low, high, between)) in a.dims.iter().zip(config) {
        let between = i64::try_from(dim.saturating_sub(1).saturating_mul(*between)).unwrap_or(i64::MAX);
        let sum = (*dim as i64).checked_add(between).and_then(|n| n.checked_add(*low));
        let sum = sum.and_then(|n| n.checked_add(*high)).and_then(|n| usize::try_from(n).ok());
        dims.push(sum.ok_or_else(|| format!("padding {config:?} of dims {:?}", a.dims))?);
    }
    Ok(TensorType { dtype: a.dtype, dims })
}

fn variance(see: &See<'_>, axes: &[usize]) -> Checked<TensorType> {
    see.count(2)?;
    let a = see.tensor(0)?;
    check_axes(a, axes)?;
    if !a.dtype.is_float() {
        return Err(format!("`a` is {}; expected a float", a.dtype));
    }
    Ok(TensorType { dtype: a.dtype, dims: without(&a.dims, axes) })
}

fn refused(dtype: Dtype) -> Checked<()> {
    Err(format!("does not take {dtype}"))
}

/// Whether a unary prim takes a dtype.
pub fn supports_unary(op: Unary, dtype: Dtype) -> Checked<()> {
    use Unary as U;
    let taken = match op {
        U::BitwiseNot => !dtype.is_float(),
        U::Abs | U::Neg | U::Sign | U::Signbit | U::Ceil | U::Floor | U::Round | U::Trunc => {
            dtype != Dtype::Bool
        }
        U::Isfinite => true,
        _ => dtype.is_float(),
    };
    if taken { Ok(()) } else { refused(dtype) }
}

/// Whether a binary prim takes a dtype.
pub fn supports_binary(op: Binary, dtype: Dtype) -> Checked<()> {
    use Binary as B;
    let taken = match op {
        B::Add | B::Mul | B::Eq | B::Ne => true,
        B::BitwiseAnd | B::BitwiseOr | B::BitwiseXor => !dtype.is_float(),
        B::BitwiseLeftShift | B::BitwiseRightShift => dtype.is_int(),
        B::Atan2 | B::Copysign => dtype.is_float(),
        _ => dtype != Dtype::Bool,
    };
    if taken { Ok(()) } else { refused(dtype) }
}

/// Whether a ternary prim takes a dtype.
pub fn supports_ternary(_: Ternary, dtype: Dtype) -> Checked<()> {
    if dtype.is_float() { Ok(()) } else { refused(dtype) }
}

/// Whether a fold takes a dtype.
pub fn supports_reduce(op: crate::graph::Reduce, dtype: Dtype) -> Checked<()> {
    if op == crate::graph::Reduce::Prod && dtype == Dtype::Bool { refused(dtype) } else { Ok(()) }
}

impl crate::graph::Reduce {
    /// Has no result for no elements.
    pub(crate) const fn is_extreme(self) -> bool {
        matches!(self, crate::graph::Reduce::Amax | crate::graph::Reduce::Amin)
    }
}
