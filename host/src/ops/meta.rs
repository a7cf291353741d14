//! Rules that many ops share: broadcasting, promotion, reductions.

use super::build::{Num, Operand, Tensor};
use super::call::Call;
use super::error::OpError;
use crate::ir::dtype::Category;
use crate::ir::{Device, Dim, Dtype, NumKind, ParamBase, SymKind, Symbol, TensorType, Type};

/// The default float, as PyTorch's: what integers and Python floats become.
pub const DEFAULT_FLOAT: Dtype = Dtype::F32;

/// The dims of tensors broadcast together, as an error of this call where they do not.
pub fn broadcast_dims<'a>(
    call: &Call,
    all: impl IntoIterator<Item = &'a [Dim]>,
) -> Result<Vec<Dim>, OpError> {
    broadcast(all).map_err(|what| call.error(what))
}

/// The dims of tensors broadcast together. A symbolic dim against a known one other than 1 is assumed equal and checked
/// with concrete sizes; of two undecided ones the first wins.
pub fn broadcast<'a>(all: impl IntoIterator<Item = &'a [Dim]>) -> Result<Vec<Dim>, String> {
    let mut out: Vec<Dim> = Vec::new();
    for dims in all {
        if dims.len() > out.len() {
            let missing = dims.len() - out.len();
            out.splice(0..0, std::iter::repeat_n(Dim::Known(1), missing));
        }
        let shift = out.len() - dims.len();
        for (i, d) in dims.iter().enumerate() {
            let o = &out[shift + i];
            out[shift + i] = match (o, d) {
                (o, d) if d.is(1) || o == d => o.clone(),
                (o, d) if o.is(1) => d.clone(),
                (Dim::Known(a), Dim::Known(b)) => {
                    return Err(format!("dims {a} and {b} do not broadcast"));
                }
                (o, d) if o.same(d) == Some(false) => {
                    return Err(format!("dims {o} and {d} do not broadcast"));
                }
                (Dim::Known(_), _) => o.clone(),
                (_, Dim::Known(_)) => d.clone(),
                _ => o.clone(),
            };
        }
    }
    Ok(out)
}

/// The device of a call's result: that of its first tensor with dims, else of its first tensor, else the CPU.
pub fn common_device<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> Device {
    let mut first = None;
    for t in tensors {
        if t.rank() > 0 {
            return t.ty.device.clone();
        }
        first = first.or(Some(t));
    }
    first.map_or(Device::Cpu, |t| t.ty.device.clone())
}

/// One tensor result: the operands broadcast, with that dtype.
pub fn broadcast_of(call: &Call, operands: &[Operand], dtype: Dtype) -> Result<Vec<Option<Type>>, OpError> {
    let tensors = || operands.iter().filter_map(Operand::tensor);
    let dims = broadcast_dims(call, tensors().map(Tensor::dims))?;
    Ok(vec![Some(TensorType { dims, dtype, device: common_device(tensors()) }.into())])
}

/// The dtype of PyTorch's promotion of operands: the highest category wins; within it tensors with dims count before
/// zero-dim tensors, those before numbers.
pub fn promoted(operands: &[Operand]) -> Dtype {
    let mut best = [None::<Dtype>; 3];
    for o in operands {
        let (priority, dtype) = match o {
            Operand::Tensor(t) if t.rank() > 0 => (0, t.dtype()),
            Operand::Tensor(t) => (1, t.dtype()),
            Operand::Num(n) => (2, number_dtype(n)),
        };
        best[priority] = Some(best[priority].map_or(dtype, |b| promote(b, dtype)));
    }
    let combine = |higher: Option<Dtype>, lower: Option<Dtype>| match (higher, lower) {
        (Some(a), Some(b)) if b.category() > a.category() => {
            // A complex number or zero-dim tensor keeps the precision of the floating tensor beside it.
            Some(if b.is_complex() && a.is_float() { complex_of(a) } else { b })
        }
        (Some(a), _) => Some(a),
        (None, b) => b,
    };
    combine(best[0], combine(best[1], best[2])).unwrap_or(DEFAULT_FLOAT)
}

/// The dtype a number stands for on its own.
pub fn number_dtype(n: &Num) -> Dtype {
    match n {
        Num::Int(_) | Num::Dim(_) => Dtype::I64,
        Num::Float(_) => DEFAULT_FLOAT,
        Num::Bool(_) => Dtype::Bool,
        Num::Complex(..) => Dtype::C64,
        Num::Value(_, ty) => match ty.kind {
            NumKind::Int => Dtype::I64,
            NumKind::Float => DEFAULT_FLOAT,
            NumKind::Bool => Dtype::Bool,
        },
    }
}

/// The complex dtype with parts at least as wide.
pub fn complex_of(d: Dtype) -> Dtype {
    if d == Dtype::F64 || d == Dtype::C128 { Dtype::C128 } else { Dtype::C64 }
}

/// PyTorch's promotion of two dtypes of tensors.
pub fn promote(a: Dtype, b: Dtype) -> Dtype {
    if a == b {
        return a;
    }
    match a.category().max(b.category()) {
        Category::Complex => {
            let wide = [a, b].iter().any(|d| matches!(d, Dtype::C128 | Dtype::F64));
            if wide { Dtype::C128 } else { Dtype::C64 }
        }
        Category::Float => match (a.is_float(), b.is_float()) {
            (true, false) => a,
            (false, true) => b,
            // f16 with bf16 has no common half type.
            _ if a.size_bytes() == b.size_bytes() => DEFAULT_FLOAT,
            _ => {
                if a.size_bytes() > b.size_bytes() {
                    a
                } else {
                    b
                }
            }
        },
        Category::Integer => match (a, b) {
            (Dtype::Bool, d) | (d, Dtype::Bool) => d,
            (Dtype::U8, d) | (d, Dtype::U8) => {
                // u8 with i8 needs i16; any wider signed type holds u8.
                if d == Dtype::I8 { Dtype::I16 } else { d }
            }
            _ => {
                if a.size_bytes() >= b.size_bytes() {
                    a
                } else {
                    b
                }
            }
        },
        Category::Bool => Dtype::Bool,
    }
}

/// Integers and bools become the default float; others stay.
pub fn inexact(d: Dtype) -> Dtype {
    if d.is_inexact() { d } else { DEFAULT_FLOAT }
}

/// The axes as a permutation of all of `rank` dims, made non-negative.
pub fn permutation(call: &Call, axes: &[i64], rank: usize) -> Result<Vec<usize>, OpError> {
    if axes.len() != rank {
        return Err(call.error(format!("{axes:?} names {} axes, the tensor has {rank}", axes.len())));
    }
    let mut seen = vec![false; rank];
    let mut out = Vec::with_capacity(rank);
    for axis in axes {
        let axis = call.canonical_axis(*axis, rank)?;
        if std::mem::replace(&mut seen[axis], true) {
            return Err(call.error(format!("{axes:?} names axis {axis} twice")));
        }
        out.push(axis);
    }
    Ok(out)
}

/// The dims of a reduction of `dims` over canonical `axes`.
pub fn reduced_dims(dims: &[Dim], axes: &[usize], keepdim: bool) -> Vec<Dim> {
    dims.iter()
        .enumerate()
        .filter_map(|(i, d)| match (axes.contains(&i), keepdim) {
            (false, _) => Some(d.clone()),
            (true, true) => Some(Dim::Known(1)),
            (true, false) => None,
        })
        .collect()
}

/// One tensor result.
pub fn one(dims: Vec<Dim>, dtype: Dtype, like: &TensorType) -> Result<Vec<Option<Type>>, OpError> {
    Ok(vec![Some(TensorType { dims, dtype, device: like.device.clone() }.into())])
}

/// A size of a meta rule's result that only the run knows; `k` counts them in one call. The builder names it.
pub fn data_size(k: u32) -> Dim {
    Dim::symbol(Symbol { kind: SymKind::Data, number: u32::MAX - k })
}

/// Is it one of [`data_size`]?
pub fn is_unnamed(s: Symbol) -> bool {
    s.kind == SymKind::Data && s.number > u32::MAX - 16
}

/// Meta of an elementwise prim: all tensors of one dtype and one set of dims, which the result has, too.
pub fn same_as_inputs(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let like = same_inputs(call)?;
    Ok(vec![Some(Type::Tensor(like))])
}

/// Meta of a comparing prim: as [`same_as_inputs`], with a bool result.
pub fn bool_of_inputs(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let like = same_inputs(call)?;
    one(like.dims.clone(), Dtype::Bool, &like)
}

/// The common type of all tensor inputs of a prim; an error where they differ, or where a number beside them is of a
/// kind that their dtype does not hold.
pub fn same_inputs(call: &Call) -> Result<std::sync::Arc<TensorType>, OpError> {
    let all = call.all_tensors();
    let first = all.first().ok_or_else(|| call.error("needs at least one tensor"))?;
    for t in &all[1..] {
        if t.dtype() != first.dtype() {
            return Err(call.error(format!(
                "tensors of one dtype are wanted, found {} and {}",
                first.dtype(),
                t.dtype()
            )));
        }
        let differ = t.rank() != first.rank()
            || t.dims().iter().zip(first.dims()).any(|(a, b)| a.same(b) == Some(false));
        if differ {
            return Err(call.error(format!(
                "tensors of one shape are wanted, found {} and {}",
                show(first.dims()),
                show(t.dims())
            )));
        }
    }
    for n in call.numbers_among_tensors() {
        if number_dtype(&n).category() > first.dtype().category().max(Category::Integer) {
            return Err(call.error(format!("tensors are {}, which does not hold {n:?}", first.dtype())));
        }
    }
    Ok(first.ty.clone())
}

/// `[2, s0]`.
pub fn show(dims: &[Dim]) -> String {
    let items: Vec<String> = dims.iter().map(Dim::to_string).collect();
    format!("[{}]", items.join(", "))
}

/// Refuses a dtype that the schema's class does not hold, naming both.
pub fn check_classes(call: &Call) -> Result<(), OpError> {
    for (p, dtype) in call.tensor_dtypes() {
        let mut classes = p.ty.any_of.iter().filter_map(|base| match base {
            ParamBase::Tensor(class) | ParamBase::Tensors { class, .. } => Some(class),
            _ => None,
        });
        if let Some(class) = classes.next()
            && !class.holds(dtype)
        {
            return Err(call.error(format!("`{}` is {dtype}, it takes {class}", p.name)));
        }
    }
    Ok(())
}

/// Fills what a meta rule left undecided from a type known from elsewhere. A contradiction in the dims is an error;
/// another dtype is not (autocast records its own), the meta rule's counts.
pub fn reconcile(call: &Call, inferred: &mut Option<Type>, recorded: &Option<Type>) -> Result<(), OpError> {
    match (inferred.as_mut(), recorded) {
        (Some(Type::Tensor(t)), Some(Type::Tensor(r))) if t.dims != r.dims => {
            let agree =
                t.rank() == r.rank() && t.dims.iter().zip(&r.dims).all(|(a, b)| a.same(b) != Some(false));
            if !agree {
                let what = format!("result is recorded as {}, it must be {}", show(&r.dims), show(&t.dims));
                return Err(call.error(what));
            }
            std::sync::Arc::make_mut(t).dims.clone_from(&r.dims);
        }
        (Some(Type::Number(n)), Some(Type::Number(r))) if n.kind == r.kind => {
            if let (Some(a), Some(b)) = (&n.equals, &r.equals)
                && a.same(b) == Some(false)
            {
                return Err(call.error(format!("result is recorded as {b}, it must be {a}")));
            }
            if r.equals.is_some() {
                n.equals.clone_from(&r.equals);
            }
        }
        _ => {}
    }
    Ok(())
}
