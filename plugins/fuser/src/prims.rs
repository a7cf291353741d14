//! A prim of the op table as a prim of loops. Looks at an op's arguments and types only; [`build`](super::build) checks
//! that loops come to the same dims and dtypes.

use thunderhead_loops::{Binary, Dtype, Operand, Prim, Reduce, Scalar, TensorType, Ternary, Unary, supports};
use thunderhead_sdk::{self as sdk, ArgRef, Number, RegionOp, TensorDesc, ValueId};

/// What an op takes, before the graph has values for the region's tensors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg {
    /// A tensor of the region.
    Tensor(ValueId),
    /// A number, known or a slot of the region's.
    Number(Operand),
}

/// A prim with what it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub prim: Prim,
    pub args: Vec<Arg>,
}

/// Loops' name of a dtype; `None` for those that they do not compute with.
pub fn dtype(dtype: sdk::Dtype) -> Option<Dtype> {
    Dtype::from_name(dtype.name())
}

/// Loops' type of a tensor.
pub fn tensor_type(desc: &TensorDesc<'_>) -> Option<TensorType> {
    Some(TensorType { dtype: dtype(desc.dtype())?, dims: sizes(desc.dims())? })
}

/// All at least zero.
pub fn sizes(list: &[i64]) -> Option<Vec<usize>> {
    list.iter().map(|n| usize::try_from(*n).ok()).collect()
}

/// The prim as loops know it; `None` where they do not, or not of these types.
pub fn translate(op: &RegionOp<'_>) -> Option<Call> {
    let name = op.name().strip_prefix("prims.")?;
    let inputs: Vec<TensorType> = op.inputs().map(|desc| tensor_type(&desc)).collect::<Option<_>>()?;
    op.outputs().try_for_each(|desc| tensor_type(&desc).map(|_| ()))?;
    let call = pointwise(op, name).or_else(|| shape(op, name, &inputs)).or_else(|| other(op, name))?;
    let dtypes: Vec<Dtype> = match call.prim {
        // The predicate comes first; what is chosen counts.
        Prim::Where => inputs.iter().skip(1).map(|ty| ty.dtype).collect(),
        _ => inputs.iter().map(|ty| ty.dtype).collect(),
    };
    supports(&call.prim, &dtypes).ok()?;
    Some(call)
}

fn pointwise(op: &RegionOp<'_>, name: &str) -> Option<Call> {
    if let Some(fun) = Unary::from_name(name) {
        return Some(Call { prim: Prim::Unary(fun), args: vec![tensor(op, "a")?] });
    }
    if let Some(fun) = Binary::from_name(name) {
        return Some(Call { prim: Prim::Binary(fun), args: vec![arg(op, "a")?, arg(op, "b")?] });
    }
    match Ternary::from_name(name) {
        Some(Ternary::Fma) => {
            let args = vec![arg(op, "a")?, arg(op, "b")?, arg(op, "c")?];
            Some(Call { prim: Prim::Ternary(Ternary::Fma), args })
        }
        Some(Ternary::Lerp) => {
            let args = vec![arg(op, "start")?, arg(op, "end")?, arg(op, "weight")?];
            Some(Call { prim: Prim::Ternary(Ternary::Lerp), args })
        }
        None => None,
    }
}

fn shape(op: &RegionOp<'_>, name: &str, inputs: &[TensorType]) -> Option<Call> {
    let of_a = |prim: Prim| Some(Call { prim, args: vec![tensor(op, "a")?] });
    let out = || tensor_type(&op.output(0));
    match name {
        "reshape" => of_a(Prim::Reshape(out()?.dims)),
        "transpose" => of_a(Prim::Transpose(ints(op, "permutation")?)),
        "broadcast_in_dim" => of_a(Prim::Broadcast { dims: out()?.dims, axes: ints(op, "broadcast_dims")? }),
        "slice" => {
            of_a(Prim::Slice { start: ints(op, "start")?, end: ints(op, "end")?, step: ints(op, "step")? })
        }
        "squeeze" => of_a(Prim::Squeeze(axes(op, "axes", inputs)?)),
        "flip" => of_a(Prim::Flip(axes(op, "axes", inputs)?)),
        // What lies in memory in another order is the same value; steps write row-major.
        "clone" | "shallow_copy" | "stride_order" => of_a(Prim::Copy),
        "set_data" => Some(Call { prim: Prim::Copy, args: vec![tensor(op, "new")?] }),
        "cat" => {
            let args = op.tensors("tensors").into_iter();
            let args = args.map(|at| Some(Arg::Tensor(*op.input_values().get(at?)?)));
            Some(Call { prim: Prim::Cat(axis(op, "axis", inputs)?), args: args.collect::<Option<_>>()? })
        }
        "pad" => {
            let config = op.lists("config").ok()?;
            let entry = |list: &[i64]| match *list {
                [low, high, between] => Some((low, high, usize::try_from(between).ok()?)),
                _ => None,
            };
            let config = config.iter().map(entry).collect::<Option<Vec<_>>>()?;
            Some(Call { prim: Prim::Pad(config), args: vec![tensor(op, "a")?, arg(op, "value")?] })
        }
        "slice_scatter" => {
            let prim = Prim::SliceScatter { start: ints(op, "start")?, step: ints(op, "step")? };
            Some(Call { prim, args: vec![tensor(op, "a")?, tensor(op, "src")?] })
        }
        "take" => {
            let prim = Prim::Take(axis(op, "axis", inputs)?);
            Some(Call { prim, args: vec![tensor(op, "a")?, tensor(op, "index")?] })
        }
        "take_along_axis" | "gather" => {
            let prim = Prim::TakeAlongAxis(axis(op, "axis", inputs)?);
            Some(Call { prim, args: vec![tensor(op, "a")?, tensor(op, "index")?] })
        }
        "sum" => fold(op, Reduce::Sum, inputs),
        "prod" => fold(op, Reduce::Prod, inputs),
        "amax" => fold(op, Reduce::Amax, inputs),
        "amin" => fold(op, Reduce::Amin, inputs),
        "argmax" | "argmin" => {
            let axis = match op.opt_int("axis").ok()? {
                Some(_) => Some(axis(op, "axis", inputs)?),
                None => None,
            };
            of_a(Prim::ArgReduce { largest: name == "argmax", axis })
        }
        "var" | "var_mean" => {
            let axes = axes(op, "axes", inputs)?;
            let prim = if name == "var" { Prim::Var(axes) } else { Prim::VarMean(axes) };
            Some(Call { prim, args: vec![tensor(op, "a")?, arg(op, "correction")?] })
        }
        _ => None,
    }
}

fn other(op: &RegionOp<'_>, name: &str) -> Option<Call> {
    let out = tensor_type(&op.output(0))?;
    match name {
        "where" => {
            let args = vec![tensor(op, "pred")?, arg(op, "a")?, arg(op, "b")?];
            // Two numbers have no dtype of their own.
            let known = args[1..].iter().any(|arg| matches!(arg, Arg::Tensor(_)));
            known.then_some(Call { prim: Prim::Where, args })
        }
        "convert_element_type" => Some(Call { prim: Prim::Convert(out.dtype), args: vec![tensor(op, "a")?] }),
        "embedding" => {
            Some(Call { prim: Prim::Embedding, args: vec![tensor(op, "index")?, tensor(op, "weight")?] })
        }
        "full" => Some(Call { prim: Prim::Full(out), args: vec![arg(op, "value")?] }),
        // Nobody may rely on what it holds.
        "empty" => {
            let zero = Arg::Number(Operand::Number(Scalar::Int(0)));
            Some(Call { prim: Prim::Full(out), args: vec![zero] })
        }
        "iota" => {
            let prim = Prim::Iota { n: *out.dims.first()?, dtype: out.dtype };
            Some(Call { prim, args: vec![arg(op, "start")?, arg(op, "step")?] })
        }
        "uniform_philox" => {
            let args = vec![arg(op, "lo")?, arg(op, "hi")?, arg(op, "seed")?, arg(op, "offset")?];
            Some(Call { prim: Prim::Uniform(out), args })
        }
        _ => None,
    }
}

fn fold(op: &RegionOp<'_>, fold: Reduce, inputs: &[TensorType]) -> Option<Call> {
    let out = dtype(op.output(0).dtype())?;
    let given = (out != inputs.first()?.dtype).then_some(out);
    let prim = Prim::Reduce { op: fold, axes: axes(op, "axes", inputs)?, out: given };
    Some(Call { prim, args: vec![tensor(op, "a")?] })
}

fn tensor(op: &RegionOp<'_>, name: &str) -> Option<Arg> {
    op.tensor_value(name).map(Arg::Tensor)
}

/// A tensor or a number.
fn arg(op: &RegionOp<'_>, name: &str) -> Option<Arg> {
    if let ArgRef::Slot(slot) = op.arg(name)? {
        return Some(Arg::Number(Operand::Slot(u32::try_from(slot).ok()?)));
    }
    if let Some(value) = op.tensor_value(name) {
        return Some(Arg::Tensor(value));
    }
    let number = match op.number(name).ok()? {
        Number::Int(n) => Scalar::Int(n),
        Number::Float(x) => Scalar::Float(x),
        Number::Bool(b) => Scalar::Bool(b),
    };
    Some(Arg::Number(Operand::Number(number)))
}

fn ints(op: &RegionOp<'_>, name: &str) -> Option<Vec<usize>> {
    sizes(op.ints(name).ok()?)
}

fn axis(op: &RegionOp<'_>, name: &str, inputs: &[TensorType]) -> Option<usize> {
    at(op.int(name).ok()?, inputs.first()?.dims.len())
}

fn axes(op: &RegionOp<'_>, name: &str, inputs: &[TensorType]) -> Option<Vec<usize>> {
    let rank = inputs.first()?.dims.len();
    op.ints(name).ok()?.iter().map(|axis| at(*axis, rank)).collect()
}

/// An axis counted from the end where negative.
fn at(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis.checked_add(i64::try_from(rank).ok()?)? } else { axis };
    usize::try_from(axis).ok()
}
