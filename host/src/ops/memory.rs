//! Copies, casts, layouts, devices, and the one write: ops that keep values and change where or how they are kept.
//!
//! Invariant: values never change but for a cast. Deliberately absent: when memory is copied; that is the plan's.

use super::aten::{Aten, AtenCall, FixedArg, Import};
use super::build::{Builder, Num, Operand};
use super::emit::{broadcast_to, filled, number_for, to_dtype};
use super::{Call, HostOp, Level, Meta, Op, OpError, Sample, Traits, Vjp, meta};
use crate::ir::{Arg, Dim, Dtype, NumKind, NumberType, TensorType, Type};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &BITCAST,
    &CLONE,
    &CONVERT_ELEMENT_TYPE,
    &COPY_,
    &DEVICE_PUT,
    &SET_DATA,
    &SHALLOW_COPY,
    &STRIDE_ORDER,
    &DEL,
    &ITEM,
    &TORCH_ALIAS,
    &TORCH_CLONE,
    &TORCH_CONTIGUOUS,
    &TORCH_COPY,
    &TORCH_DETACH,
    &TORCH_FILL,
    &TORCH_ITEM,
    &TORCH_TO,
];

/// A prim that sees its tensor's memory as it is.
const VIEW: Op = Op {
    meta: Meta::Fn(like_first),
    traits: Traits::VIEW.and(Traits::CHEAP),
    view: Some(same_memory),
    ..Op::BASE
};

const PRIM: Op = Op { meta: Meta::Fn(like_first), ..Op::BASE };
const COMPOSITE: Op = Op { meta: Meta::Fn(like_first), ..Op::BASE };

const ANY: &[Sample] = &[Sample("T[2, 3]"), Sample("T[]"), Sample("T[0, 4]"), Sample("T[5]{nonfinite}")];

pub static BITCAST: Op = Op {
    name: "prims.bitcast",
    doc: "The same bits under another dtype; the last dim scales with the element size. A view wherever the memory is dense enough.",
    schema: "(a: Tensor, dtype: dtype) -> Tensor",
    meta: Meta::Fn(bitcast_meta),
    vjp: Vjp::NonDiff,
    traits: Traits::VIEW.and(Traits::CHEAP),
    view: Some(bitcast_view),
    samples: &[
        Sample("f32[2, 3], dtype=i32"),
        Sample("f32[2, 3], dtype=u8"),
        Sample("u8[2, 8]{0..255}, dtype=f32"),
        Sample("f64[], dtype=i64"),
    ],
    ..PRIM
};

pub static CLONE: Op = Op {
    name: "prims.clone",
    doc: "A copy that does not alias its input.",
    schema: "(a: Tensor) -> Tensor",
    same: Some(|call| call.raw("a").ok()),
    vjp: Vjp::Rule(|_, d| Ok(vec![Some(d.g()?)])),
    samples: ANY,
    ..PRIM
};

pub static CONVERT_ELEMENT_TYPE: Op = Op {
    name: "prims.convert_element_type",
    doc: "The same values in another dtype; float to integer rounds towards zero, anything to bool asks whether it is not zero.",
    schema: "(a: Tensor|num, dtype: dtype) -> Tensor|num",
    same: Some(|call| {
        let a = call.tensor("a").ok()?;
        (call.dtype("dtype").ok()? == a.dtype()).then(|| a.arg())
    }),
    meta: Meta::Fn(convert_meta),
    vjp: Vjp::Rule(|b, d| {
        let (a, g) = (d.call.tensor("a")?, d.g()?);
        let real = a.dtype().is_float() && g.dtype().is_complex();
        let g = if real { b.unary("prims.real", &g)? } else { g };
        Ok(vec![Some(b.to(&g, a.dtype())?)])
    }),
    traits: Traits::POINTWISE.and(Traits::CHEAP),
    samples: &[
        Sample("T[2, 3], dtype=f64"),
        Sample("T[4], dtype=i64"),
        Sample("T[4], dtype=bool"),
        Sample("T[0], dtype=f32"),
        Sample("T[5]{nonfinite}, dtype=bf16"),
    ],
    ..PRIM
};

pub static COPY_: Op = Op {
    name: "prims.copy_",
    doc: "Writes `src` into the parameter `dst` and gives its new value: the only write there is, at the end of a trace.",
    schema: "(src: Tensor, dst: Tensor) -> Tensor",
    meta: Meta::Fn(copy_meta),
    vjp: Vjp::NonDiff,
    traits: Traits::EFFECT.and(Traits::HOST).and(Traits::WRITES),
    samples: &[Sample("T[2, 3], T[2, 3]"), Sample("T[], T[]")],
    ..PRIM
};

pub static DEVICE_PUT: Op = Op {
    name: "prims.device_put",
    doc: "The same values on another device: a step of the host's plan.",
    schema: "(a: Tensor, device: device) -> Tensor",
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        Ok(vec![Some(TensorType { device: call.device("device")?, ..(*a.ty).clone() }.into())])
    }),
    vjp: Vjp::Rule(|b, d| {
        let (a, g) = (d.call.tensor("a")?, d.g()?);
        let back = b.tensor("prims.device_put", vec![g.arg(), Arg::Device(a.ty.device.clone())])?;
        Ok(vec![Some(back)])
    }),
    samples: &[Sample("T[2, 3], device=cpu")],
    ..PRIM
};

pub static SET_DATA: Op = Op {
    name: "prims.set_data",
    doc: "The value of `new` with the gradient of `base`: what an in-place write under `no_grad` or through `detach` means.",
    schema: "(base: Tensor, new: Tensor) -> Tensor",
    same: Some(|call| call.raw("new").ok()),
    meta: Meta::Fn(set_data_meta),
    vjp: Vjp::Rule(|_, d| Ok(vec![Some(d.g()?), None])),
    samples: &[Sample("T[2, 3], T[2, 3]"), Sample("T[], T[]")],
    ..PRIM
};

pub static SHALLOW_COPY: Op = Op {
    name: "prims.shallow_copy",
    doc: "Another name for the same value: an output that is an input.",
    schema: "(a: Tensor) -> Tensor",
    vjp: Vjp::Rule(|_, d| Ok(vec![Some(d.g()?)])),
    samples: ANY,
    ..VIEW
};

pub static STRIDE_ORDER: Op = Op {
    name: "prims.stride_order",
    doc: "The same value laid out so that the axes of `order`, outermost first, have falling strides without gaps; `[0, 2, 3, 1]` is channels last. A view where it lies so already.",
    schema: "(a: Tensor, order: ints) -> Tensor",
    meta: Meta::Fn(|call| {
        stride_order(call)?;
        like_first(call)
    }),
    vjp: Vjp::Rule(|_, d| Ok(vec![Some(d.g()?)])),
    view: Some(stride_order_view),
    samples: &[
        Sample("T[2, 3], order=[0, 1]"),
        Sample("T[2, 3, 4, 5], order=[0, 2, 3, 1]"),
        Sample("T[], order=[]"),
    ],
    ..VIEW
};

pub static DEL: Op = Op {
    name: "prims.del",
    doc: "In text, the `del` line that ends lifetimes; never a call.",
    schema: "(...) -> ()",
    meta: Meta::Fn(|_| Ok(vec![])),
    vjp: Vjp::NonDiff,
    traits: Traits::EFFECT.and(Traits::HOST),
    host: Some(HostOp::Text),
    samples: &[],
    ..PRIM
};

pub static ITEM: Op = Op {
    name: "prims.item",
    doc: "The one element of a tensor as a number.",
    schema: "(a: Tensor) -> num",
    meta: Meta::Fn(item_meta),
    vjp: Vjp::Zero,
    traits: Traits::HOST,
    host: Some(HostOp::Item),
    samples: &[Sample("T[]"), Sample("T[1, 1]")],
    ..PRIM
};

pub static TORCH_ALIAS: Op = Op {
    name: "torch.alias",
    doc: "Another name for the same value.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| shallow(b, call, "a")),
    traits: Traits::VIEW.and(Traits::CHEAP),
    aten: &[
        Aten { overloads: &["alias.default", "alias_copy.default"], import: Import::Map("a=self") },
        Aten { overloads: &["view_as.default"], import: Import::With(view_as) },
    ],
    samples: ANY,
    ..COMPOSITE
};

pub static TORCH_CLONE: Op = Op {
    name: "torch.clone",
    doc: "A copy that does not alias its input.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| Ok(vec![b.tensor("prims.clone", vec![call.raw("a")?])?.arg()])),
    aten: &[Aten {
        overloads: &["clone.default", "lift_fresh_copy.default", "lift_fresh.default", "lift.default"],
        import: Import::Map("a=self"),
    }],
    samples: ANY,
    ..COMPOSITE
};

pub static TORCH_CONTIGUOUS: Op = Op {
    name: "torch.contiguous",
    doc: "The same value in row-major order, or in the order of axes given (outermost first).",
    schema: "(a: Tensor, *, order: ints? = None) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let order = match call.opt_ints("order")? {
            Some(order) => order,
            None => (0..a.rank() as i64).collect(),
        };
        Ok(vec![b.tensor("prims.stride_order", vec![a.arg(), Arg::ints(order)])?.arg()])
    }),
    meta: Meta::Fn(|call| {
        contiguous_order(call)?;
        like_first(call)
    }),
    traits: Traits::VIEW.and(Traits::CHEAP),
    aten: &[Aten { overloads: &["contiguous.default"], import: Import::With(contiguous) }],
    samples: &[
        Sample("T[2, 3]"),
        Sample("T[]"),
        Sample("T[0, 4]"),
        Sample("T[2, 3, 4, 5], order=[0, 2, 3, 1]"),
    ],
    ..COMPOSITE
};

pub static TORCH_COPY: Op = Op {
    name: "torch.copy",
    doc: "`src` broadcast to the dims of `dst` and cast to its dtype: what `dst` holds after `dst.copy_(src)`.",
    schema: "(dst: Tensor, src: Tensor) -> Tensor",
    level: Level::Composite(|b, call| {
        let (dst, src) = (call.tensor("dst")?, call.tensor("src")?);
        let src = to_dtype(b, &src, dst.dtype())?;
        Ok(vec![broadcast_to(b, &src, dst.dims())?.arg()])
    }),
    meta: Meta::Fn(|call| {
        let (dst, src) = (call.tensor("dst")?, call.tensor("src")?);
        fits_into(call, src.dims(), dst.dims())?;
        like_first(call)
    }),
    aten: &[Aten { overloads: &["copy.default", "copy_.default"], import: Import::Map("dst=self src") }],
    samples: &[Sample("T[2, 3], T[2, 3]"), Sample("T[2, 3], f64[3]"), Sample("T[4], i32[]{0..9}")],
    ..COMPOSITE
};

pub static TORCH_DETACH: Op = Op {
    name: "torch.detach",
    doc: "The same value; no gradient passes.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| shallow(b, call, "a")),
    vjp: Vjp::Zero,
    traits: Traits::VIEW.and(Traits::CHEAP),
    aten: &[Aten {
        overloads: &["detach.default", "detach_.default", "detach_copy.default"],
        import: Import::Map("a=self"),
    }],
    samples: ANY,
    ..COMPOSITE
};

pub static TORCH_FILL: Op = Op {
    name: "torch.fill",
    doc: "A tensor like `a` filled with `value` (a number or a zero-dim tensor).",
    schema: "(a: Tensor, value: num|Tensor) -> Tensor",
    level: Level::Composite(fill),
    aten: &[
        Aten {
            overloads: &["fill.Scalar", "fill_.Scalar", "fill.Tensor", "fill_.Tensor"],
            import: Import::Map("a=self value"),
        },
        Aten {
            overloads: &["zero.default", "zero_.default"],
            import: Import::MapWith("a=self", &[("value", FixedArg::Int(0))]),
        },
    ],
    samples: &[
        Sample("T[2, 3], 1"),
        Sample("T[2], T[]"),
        Sample("T[0, 4], 2.0"),
        Sample("f32[3], i64[]{0..9}"),
    ],
    ..COMPOSITE
};

pub static TORCH_ITEM: Op = Op {
    name: "torch.item",
    doc: "The one element of a tensor as a number.",
    schema: "(a: Tensor) -> num",
    level: Level::Composite(|b, call| b.call_recorded(&ITEM, vec![call.raw("a")?], &call.results)),
    meta: Meta::Fn(item_meta),
    vjp: Vjp::Zero,
    aten: &[Aten {
        overloads: &["item.default", "_local_scalar_dense.default"],
        import: Import::Map("a=self"),
    }],
    samples: &[Sample("T[]"), Sample("T[1, 1]")],
    ..COMPOSITE
};

pub static TORCH_TO: Op = Op {
    name: "torch.to",
    doc: "`a` in another dtype or on another device; a copy where `copy` is true or something changes, else `a` itself.",
    schema: "(a: Tensor, *, dtype: dtype? = None, device: device? = None, copy: bool = false) -> Tensor",
    level: Level::Composite(to),
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        let dtype = call.opt_dtype("dtype")?.unwrap_or(a.dtype());
        let device = if call.has("device") { call.device("device")? } else { a.ty.device.clone() };
        Ok(vec![Some(TensorType { dims: a.dims().to_vec(), dtype, device }.into())])
    }),
    traits: Traits::VIEW.and(Traits::CHEAP),
    aten: &[
        Aten { overloads: &["to.dtype"], import: Import::Map("a=self dtype copy") },
        Aten {
            overloads: &["to.dtype_layout", "to.device"],
            import: Import::Map("a=self dtype device copy"),
        },
        Aten { overloads: &["to.other"], import: Import::With(|b, call| to_like(b, call, true)) },
        Aten { overloads: &["type_as.default"], import: Import::With(|b, call| to_like(b, call, false)) },
        Aten {
            overloads: &["_to_copy.default"],
            import: Import::MapWith("a=self dtype device", &[("copy", FixedArg::Bool(true))]),
        },
    ],
    samples: &[
        Sample("T[2, 3], dtype=f64"),
        Sample("T[2, 3]"),
        Sample("T[4], dtype=i64"),
        Sample("T[], copy=true"),
        Sample("T[0, 2], dtype=bool"),
        Sample("T[3], device=cpu"),
    ],
    ..COMPOSITE
};

/// The type of the first tensor.
fn like_first(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let first = call.first_tensor()?;
    Ok(vec![Some(Type::Tensor(first.ty.clone()))])
}

fn same_memory(_: &Call, strides: &[Dim], offset: &Dim) -> Option<(Vec<Dim>, Dim)> {
    Some((strides.to_vec(), offset.clone()))
}

fn shallow(b: &mut Builder<'_>, call: &Call, name: &str) -> Result<Vec<Arg>, OpError> {
    Ok(vec![b.tensor("prims.shallow_copy", vec![call.raw(name)?])?.arg()])
}

fn bitcast_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let (a, dtype) = (call.tensor("a")?, call.dtype("dtype")?);
    let (from, to) = (a.dtype().size_bytes() as i64, dtype.size_bytes() as i64);
    let mut dims = a.dims().to_vec();
    match dims.last_mut() {
        _ if from == to => {}
        None => {
            return Err(
                call.error(format!("a zero-dim {} cannot be seen as {dtype}: sizes differ", a.dtype()))
            );
        }
        Some(last) if from > to => *last = last.mul(&Dim::Known(from / to)),
        Some(last) => {
            let ratio = Dim::Known(to / from);
            if last.modulo(&ratio).and_then(|r| r.known()).is_some_and(|r| r != 0) {
                let what =
                    format!("the last dim is {last}, {dtype} wants a multiple of {ratio} {}", a.dtype());
                return Err(call.error(what));
            }
            *last = last.floordiv(&ratio).expect("element sizes are not zero");
        }
    }
    meta::one(dims, dtype, &a.ty)
}

/// Strides in elements of the new dtype: the last dim must be dense, all else a multiple of the new size.
fn bitcast_view(call: &Call, strides: &[Dim], offset: &Dim) -> Option<(Vec<Dim>, Dim)> {
    let (a, dtype) = (call.tensor("a").ok()?, call.dtype("dtype").ok()?);
    let (from, to) = (a.dtype().size_bytes() as i64, dtype.size_bytes() as i64);
    if from == to {
        return same_memory(call, strides, offset);
    }
    let dense = strides.last()?.is(1) || a.dims().last()?.is(1);
    if !dense {
        return None;
    }
    let scaled = |d: &Dim| {
        if from > to {
            return Some(d.mul(&Dim::Known(from / to)));
        }
        let ratio = Dim::Known(to / from);
        d.modulo(&ratio)?.is(0).then(|| d.floordiv(&ratio))?
    };
    let mut out = strides[..strides.len() - 1].iter().map(scaled).collect::<Option<Vec<_>>>()?;
    out.push(Dim::Known(1));
    Some((out, scaled(offset)?))
}

fn convert_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let dtype = call.dtype("dtype")?;
    let number = match call.operand("a")? {
        Operand::Tensor(a) => return meta::one(a.dims().to_vec(), dtype, &a.ty),
        Operand::Num(n) => n,
    };
    let kind = match dtype {
        Dtype::Bool => NumKind::Bool,
        d if d.is_integer() => NumKind::Int,
        d if d.is_float() => NumKind::Float,
        d => return Err(call.error(format!("a number cannot be {d}"))),
    };
    let equals = match number {
        Num::Int(n) if kind == NumKind::Int => Some(Dim::Known(n)),
        Num::Dim(d) if kind == NumKind::Int => Some(d),
        Num::Value(_, ty) if kind == ty.kind => ty.equals,
        _ => None,
    };
    Ok(vec![Some(Type::Number(NumberType { kind, equals }))])
}

fn copy_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let (src, dst) = (call.tensor("src")?, call.tensor("dst")?);
    meta::same_inputs(call)?;
    if src.ty.device != dst.ty.device {
        return Err(call.error(format!("`src` is on {}, `dst` on {}", src.ty.device, dst.ty.device)));
    }
    Ok(vec![Some(Type::Tensor(dst.ty))])
}

fn set_data_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    meta::same_inputs(call)?;
    Ok(vec![Some(Type::Tensor(call.tensor("new")?.ty))])
}

/// The order of axes of `prims.stride_order`, each axis once.
fn stride_order(call: &Call) -> Result<Vec<usize>, OpError> {
    let rank = call.tensor("a")?.rank();
    let order = call.ints("order")?;
    meta::permutation(call, &order, rank)
}

fn contiguous_order(call: &Call) -> Result<(), OpError> {
    if call.has("order") {
        stride_order(call)?;
    }
    Ok(())
}

/// The base itself where its strides already say what is asked for; dims of size 1 have any stride.
fn stride_order_view(call: &Call, strides: &[Dim], offset: &Dim) -> Option<(Vec<Dim>, Dim)> {
    let a = call.tensor("a").ok()?;
    let mut dense = Dim::Known(1);
    for axis in stride_order(call).ok()?.into_iter().rev() {
        let dim = &a.dims()[axis];
        if dim.is(1) {
            continue;
        }
        if strides[axis] != dense {
            return None;
        }
        dense = dense.mul(dim);
    }
    same_memory(call, strides, offset)
}

/// Does `src` broadcast to exactly `dst`?
fn fits_into(call: &Call, src: &[Dim], dst: &[Dim]) -> Result<(), OpError> {
    let fits = src.len() <= dst.len()
        && src.iter().rev().zip(dst.iter().rev()).all(|(s, d)| s.is(1) || s.same(d) != Some(false));
    if fits {
        return Ok(());
    }
    Err(call.error(format!("{} does not broadcast to {}", meta::show(src), meta::show(dst))))
}

fn fill(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let out = match call.operand("value")? {
        Operand::Num(n) => filled(b, number_for(&n, a.dtype()), a.dims(), a.dtype(), &a.ty.device)?,
        Operand::Tensor(v) if v.rank() == 0 => {
            let v = to_dtype(b, &v, a.dtype())?;
            broadcast_to(b, &v, a.dims())?
        }
        Operand::Tensor(v) => {
            return Err(call.error(format!("`value` must have no dims, found {}", meta::show(v.dims()))));
        }
    };
    Ok(vec![out.arg()])
}

fn to(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let mut out = a.clone();
    if let Some(dtype) = call.opt_dtype("dtype")? {
        out = to_dtype(b, &out, dtype)?;
    }
    if call.has("device") && call.device("device")? != a.ty.device {
        out = b.tensor("prims.device_put", vec![out.arg(), call.raw("device")?])?;
    }
    if out.id == a.id {
        let prim = if call.bool("copy")? { "prims.clone" } else { "prims.shallow_copy" };
        out = b.tensor(prim, vec![a.arg()])?;
    }
    Ok(vec![out.arg()])
}

/// `to.other`, `type_as`: dtype and device of another tensor.
fn to_like(b: &mut Builder<'_>, call: &AtenCall, may_copy: bool) -> Result<Vec<Arg>, OpError> {
    let other = call.tensor(b, "other")?;
    let copy = if may_copy { call.arg("copy")?.clone() } else { Arg::Bool(false) };
    let device = Arg::Device(other.ty.device.clone());
    b.call_recorded(
        &TORCH_TO,
        vec![call.arg("self")?.clone(), other.dtype().into(), device, copy],
        &call.results,
    )
}

/// `view_as`: the dims of another tensor.
fn view_as(b: &mut Builder<'_>, call: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let dims = Arg::dims(call.tensor(b, "other")?.dims());
    b.call("torch.reshape", vec![call.arg("self")?.clone(), dims])
}

/// `contiguous`: channels-last formats (2, and 3 in three dims) become an order of axes.
fn contiguous(b: &mut Builder<'_>, call: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor(b, "self")?;
    let order = match (call.arg("memory_format")?, a.rank()) {
        (Arg::Int(2), 4) => Arg::ints([0, 2, 3, 1]),
        (Arg::Int(3), 5) => Arg::ints([0, 2, 3, 4, 1]),
        (Arg::Int(n @ (2 | 3)), rank) => {
            return Err(call.error(format!("memory format {n} does not fit a tensor of {rank} dims")));
        }
        _ => Arg::None,
    };
    b.call_recorded(&TORCH_CONTIGUOUS, vec![a.arg(), order], &call.results)
}

fn item_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let a = call.tensor("a")?;
    if a.ty.numel().same(&Dim::Known(1)) == Some(false) {
        return Err(call.error(format!("takes one element, found {}", meta::show(a.dims()))));
    }
    let kind = match a.dtype() {
        Dtype::Bool => NumKind::Bool,
        d if d.is_integer() => NumKind::Int,
        d if d.is_float() => NumKind::Float,
        d => return Err(call.error(format!("a number cannot be {d}"))),
    };
    Ok(vec![Some(Type::Number(NumberType { kind, equals: None }))])
}
