//! Tensors from nothing: filled, counted, or with unspecified contents.
//!
//! Composites know PyTorch's defaults (f32, or what the value is; i64 for integer ranges). A model file often omits the
//! dtype, since it is the session's default: then it is the recorded one.

use super::aten::{Aten, AtenCall, Import};
use super::build::{Builder, Num};
use super::emit::{self, filled, number_for, to_dtype};
use super::meta::{DEFAULT_FLOAT, number_dtype};
use super::{Call, Level, Meta, Op, OpError, Sample, Traits, Vjp};
use crate::ir::{Arg, Device, Dim, Dtype, TensorType, Type};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &EMPTY,
    &FULL,
    &IOTA,
    &TORCH_ARANGE,
    &TORCH_EMPTY,
    &TORCH_FULL,
    &TORCH_FULL_LIKE,
    &TORCH_LINSPACE,
    &TORCH_ONES,
    &TORCH_ONES_LIKE,
    &TORCH_ZEROS,
    &TORCH_ZEROS_LIKE,
];

const PRIM: Op = Op { traits: Traits::CHEAP, ..Op::BASE };
const COMPOSITE: Op = Op { traits: Traits::CHEAP, ..Op::BASE };

pub static EMPTY: Op = Op {
    name: "prims.empty",
    doc: "A tensor whose contents are unspecified.",
    schema: "(dims: dims, *, dtype: dtype, device: device) -> Tensor",
    meta: Meta::Fn(|call| created(call, call.dims("dims")?, call.dtype("dtype")?)),
    vjp: Vjp::NonDiff,
    samples: &[
        Sample("dims=[2, 3], dtype=f32, device=cpu"),
        Sample("dims=[], dtype=i64, device=cpu"),
        Sample("dims=[0, 2], dtype=f16, device=cpu"),
    ],
    ..PRIM
};

pub static FULL: Op = Op {
    name: "prims.full",
    doc: "A tensor filled with a number.",
    schema: "(dims: dims, value: num, *, dtype: dtype, device: device) -> Tensor",
    meta: Meta::Fn(|call| {
        call.num("value")?;
        created(call, call.dims("dims")?, call.dtype("dtype")?)
    }),
    vjp: Vjp::NonDiff,
    samples: &[
        Sample("dims=[2, 3], value=1.5, dtype=f32, device=cpu"),
        Sample("dims=[], value=-7, dtype=i64, device=cpu"),
        Sample("dims=[0], value=true, dtype=bool, device=cpu"),
        Sample("dims=[2], value=inf, dtype=bf16, device=cpu"),
    ],
    ..PRIM
};

pub static IOTA: Op = Op {
    name: "prims.iota",
    doc: "`start + i * step` for i from 0 up to `n`.",
    schema: "(n: dim, *, start: num, step: num, dtype: dtype, device: device) -> Tensor",
    meta: Meta::Fn(|call| {
        let (n, dtype) = (call.dim("n")?, call.dtype("dtype")?);
        call.num("start")?;
        call.num("step")?;
        if dtype == Dtype::Bool {
            return Err(call.error("cannot count in bool"));
        }
        created(call, vec![n], dtype)
    }),
    vjp: Vjp::NonDiff,
    samples: &[
        Sample("n=5, start=0, step=1, dtype=i64, device=cpu"),
        Sample("n=4, start=0.5, step=-0.25, dtype=f32, device=cpu"),
        Sample("n=0, start=0, step=1, dtype=i32, device=cpu"),
    ],
    ..PRIM
};

pub static TORCH_ARANGE: Op = Op {
    name: "torch.arange",
    doc: "`start`, `start + step`, … below `end` (above it where `step` is negative).",
    schema: "(start: num, end: num, step: num, *, dtype: dtype?, device: device?) -> Tensor",
    level: Level::Composite(|b, call| {
        let (n, dtype) = (arange_size(call)?, arange_dtype(call)?);
        let number = |name: &str| Ok(number_for(&call.num(name)?, dtype));
        let args = vec![
            Arg::dim(n),
            number("start")?,
            number("step")?,
            dtype.into(),
            Arg::Device(call.device("device")?),
        ];
        Ok(vec![b.tensor("prims.iota", args)?.arg()])
    }),
    meta: Meta::Fn(|call| created(call, vec![arange_size(call)?], arange_dtype(call)?)),
    vjp: Vjp::NonDiff,
    aten: &[
        Aten {
            overloads: &["arange.default"],
            import: Import::With(|b, call| arange(b, call, Arg::Int(0), Arg::Int(1))),
        },
        Aten {
            overloads: &["arange.start"],
            import: Import::With(|b, call| {
                let start = call.arg("start")?.clone();
                arange(b, call, start, Arg::Int(1))
            }),
        },
        Aten {
            overloads: &["arange.start_step"],
            import: Import::With(|b, call| {
                let (start, step) = (call.arg("start")?.clone(), call.arg("step")?.clone());
                arange(b, call, start, step)
            }),
        },
    ],
    samples: &[
        Sample("start=0, end=5, step=1"),
        Sample("start=1, end=2.5, step=0.5"),
        Sample("start=5, end=-5, step=-3"),
        Sample("start=0, end=0, step=1"),
        Sample("start=0, end=4, step=1, dtype=f16"),
    ],
    ..COMPOSITE
};

pub static TORCH_EMPTY: Op = Op {
    name: "torch.empty",
    doc: "A tensor whose contents are unspecified.",
    schema: "(dims: dims, *, dtype: dtype?, device: device?) -> Tensor",
    level: Level::Composite(|b, call| {
        let dtype = call.opt_dtype("dtype")?.unwrap_or(DEFAULT_FLOAT);
        Ok(vec![
            b.tensor(
                "prims.empty",
                vec![call.raw("dims")?, dtype.into(), Arg::Device(call.device("device")?)],
            )?
            .arg(),
        ])
    }),
    meta: Meta::Fn(|call| {
        created(call, call.dims("dims")?, call.opt_dtype("dtype")?.unwrap_or(DEFAULT_FLOAT))
    }),
    vjp: Vjp::NonDiff,
    aten: &[
        Aten {
            overloads: &["empty.memory_format", "empty_strided.default", "empty_permuted.default"],
            import: Import::With(|b, call| factory(b, call, &TORCH_EMPTY, Some(DEFAULT_FLOAT))),
        },
        Aten {
            overloads: &["new_empty.default", "new_empty_strided.default", "empty_like.default"],
            import: Import::With(|b, call| factory_like(b, call, &TORCH_EMPTY, None)),
        },
    ],
    samples: &[Sample("dims=[2, 3]"), Sample("dims=[], dtype=i64"), Sample("dims=[0]")],
    ..COMPOSITE
};

pub static TORCH_FULL: Op = Op {
    name: "torch.full",
    doc: "A tensor filled with a number; its dtype is what the number is, floats and complex numbers as the default.",
    schema: "(dims: dims, value: num, *, dtype: dtype?, device: device?) -> Tensor",
    level: Level::Composite(|b, call| {
        let value = call.num("value")?;
        let dtype = call.opt_dtype("dtype")?.unwrap_or_else(|| number_dtype(&value));
        full(b, call, &call.dims("dims")?, &value, dtype, call.device("device")?)
    }),
    meta: Meta::Fn(|call| {
        let value = call.num("value")?;
        created(call, call.dims("dims")?, call.opt_dtype("dtype")?.unwrap_or_else(|| number_dtype(&value)))
    }),
    vjp: Vjp::NonDiff,
    aten: &[
        Aten {
            overloads: &["full.default"],
            import: Import::With(|b, call| {
                let value = call.arg("fill_value")?.clone();
                let natural = Num::from_arg(&value).map(|n| number_dtype(&n));
                let args =
                    vec![call.arg("size")?.clone(), value, factory_dtype(call, natural)?, given_device(call)];
                b.call_recorded(&TORCH_FULL, args, &call.results)
            }),
        },
        Aten {
            overloads: &["scalar_tensor.default"],
            import: Import::With(|b, call| {
                let value = call.arg("s")?.clone();
                let dtype = match factory_dtype(call, None)? {
                    Arg::None => DEFAULT_FLOAT.into(),
                    given => given,
                };
                b.call_recorded(
                    &TORCH_FULL,
                    vec![Arg::List(vec![]), value, dtype, given_device(call)],
                    &call.results,
                )
            }),
        },
    ],
    samples: &[
        Sample("dims=[2, 3], value=1.5"),
        Sample("dims=[2], value=3"),
        Sample("dims=[], value=true"),
        Sample("dims=[0, 2], value=0, dtype=f16"),
    ],
    ..COMPOSITE
};

pub static TORCH_FULL_LIKE: Op = Op {
    name: "torch.full_like",
    doc: "A tensor of `a`'s dims, dtype and device (or those given) filled with a number.",
    schema: "(a: Tensor, value: num, *, dtype: dtype?, device: device?) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let dtype = call.opt_dtype("dtype")?.unwrap_or(a.dtype());
        full(b, call, a.dims(), &call.num("value")?, dtype, device_or(call, &a.ty.device)?)
    }),
    meta: Meta::Fn(|call| {
        call.num("value")?;
        like(call)
    }),
    vjp: Vjp::NonDiff,
    aten: &[
        Aten {
            overloads: &["full_like.default"],
            import: Import::Map("a=self value=fill_value dtype device"),
        },
        Aten {
            overloads: &["new_full.default"],
            import: Import::With(|b, call| {
                let value = call.arg("fill_value")?.clone();
                factory_like(b, call, &TORCH_FULL, Some(value))
            }),
        },
    ],
    samples: &[
        Sample("T[2, 3], value=1"),
        Sample("T[2], value=2.5, dtype=f64"),
        Sample("T[], value=0"),
        Sample("T[0, 2], value=1"),
    ],
    ..COMPOSITE
};

pub static TORCH_LINSPACE: Op = Op {
    name: "torch.linspace",
    doc: "`steps` numbers from `start` to `end`, both included, counted from the nearer end.",
    schema: "(start: num, end: num, steps: dim, *, dtype: dtype?, device: device?) -> Tensor",
    level: Level::Composite(linspace),
    meta: Meta::Fn(|call| {
        created(call, vec![call.dim("steps")?], call.opt_dtype("dtype")?.unwrap_or(DEFAULT_FLOAT))
    }),
    vjp: Vjp::NonDiff,
    aten: &[Aten {
        overloads: &["linspace.default"],
        import: Import::With(|b, call| {
            let dtype = factory_dtype(call, Some(DEFAULT_FLOAT))?;
            let args = vec![
                call.arg("start")?.clone(),
                call.arg("end")?.clone(),
                call.arg("steps")?.clone(),
                dtype,
                given_device(call),
            ];
            b.call_recorded(&TORCH_LINSPACE, args, &call.results)
        }),
    }],
    samples: &[
        Sample("start=0, end=1, steps=5"),
        Sample("start=-2.5, end=2.5, steps=4"),
        Sample("start=3, end=3, steps=1"),
        Sample("start=0, end=1, steps=0"),
        Sample("start=0, end=10, steps=4, dtype=i64"),
    ],
    ..COMPOSITE
};

pub static TORCH_ONES: Op = Op {
    name: "torch.ones",
    doc: "A tensor of ones.",
    schema: "(dims: dims, *, dtype: dtype?, device: device?) -> Tensor",
    level: Level::Composite(|b, call| constant(b, call, 1)),
    meta: Meta::Fn(|call| {
        created(call, call.dims("dims")?, call.opt_dtype("dtype")?.unwrap_or(DEFAULT_FLOAT))
    }),
    vjp: Vjp::NonDiff,
    aten: &[
        Aten {
            overloads: &["ones.default"],
            import: Import::With(|b, call| factory(b, call, &TORCH_ONES, Some(DEFAULT_FLOAT))),
        },
        Aten {
            overloads: &["new_ones.default"],
            import: Import::With(|b, call| factory_like(b, call, &TORCH_ONES, None)),
        },
    ],
    samples: &[Sample("dims=[2, 3]"), Sample("dims=[], dtype=i64"), Sample("dims=[0]")],
    ..COMPOSITE
};

pub static TORCH_ONES_LIKE: Op = Op {
    name: "torch.ones_like",
    doc: "A tensor of ones with `a`'s dims, dtype and device (or those given).",
    schema: "(a: Tensor, *, dtype: dtype?, device: device?) -> Tensor",
    level: Level::Composite(|b, call| constant_like(b, call, 1)),
    meta: Meta::Fn(like),
    vjp: Vjp::NonDiff,
    aten: &[Aten { overloads: &["ones_like.default"], import: Import::Map("a=self dtype device") }],
    samples: &[Sample("T[2, 3]"), Sample("T[2], dtype=bool"), Sample("T[]"), Sample("T[0, 2]")],
    ..COMPOSITE
};

pub static TORCH_ZEROS: Op = Op {
    name: "torch.zeros",
    doc: "A tensor of zeros.",
    schema: "(dims: dims, *, dtype: dtype?, device: device?) -> Tensor",
    level: Level::Composite(|b, call| constant(b, call, 0)),
    meta: Meta::Fn(|call| {
        created(call, call.dims("dims")?, call.opt_dtype("dtype")?.unwrap_or(DEFAULT_FLOAT))
    }),
    vjp: Vjp::NonDiff,
    aten: &[
        Aten {
            overloads: &["zeros.default", "_efficientzerotensor.default"],
            import: Import::With(|b, call| factory(b, call, &TORCH_ZEROS, Some(DEFAULT_FLOAT))),
        },
        Aten {
            overloads: &["new_zeros.default"],
            import: Import::With(|b, call| factory_like(b, call, &TORCH_ZEROS, None)),
        },
    ],
    samples: &[Sample("dims=[2, 3]"), Sample("dims=[], dtype=i64"), Sample("dims=[0]")],
    ..COMPOSITE
};

pub static TORCH_ZEROS_LIKE: Op = Op {
    name: "torch.zeros_like",
    doc: "A tensor of zeros with `a`'s dims, dtype and device (or those given).",
    schema: "(a: Tensor, *, dtype: dtype?, device: device?) -> Tensor",
    level: Level::Composite(|b, call| constant_like(b, call, 0)),
    meta: Meta::Fn(like),
    vjp: Vjp::NonDiff,
    aten: &[Aten { overloads: &["zeros_like.default"], import: Import::Map("a=self dtype device") }],
    samples: &[Sample("T[2, 3]"), Sample("T[2], dtype=bool"), Sample("T[]"), Sample("T[0, 2]")],
    ..COMPOSITE
};

/// One tensor of `dims` on the device given.
fn created(call: &Call, dims: Vec<Dim>, dtype: Dtype) -> Result<Vec<Option<Type>>, OpError> {
    if let Some(d) = dims.iter().find(|d| d.known().is_some_and(|n| n < 0)) {
        return Err(call.error(format!("a dim cannot be {d}")));
    }
    Ok(vec![Some(TensorType { dims, dtype, device: call.device("device")? }.into())])
}

/// One tensor like `a`, in the dtype and on the device given.
fn like(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let a = call.tensor("a")?;
    let dtype = call.opt_dtype("dtype")?.unwrap_or(a.dtype());
    let device = device_or(call, &a.ty.device)?;
    Ok(vec![Some(TensorType { dims: a.dims().to_vec(), dtype, device }.into())])
}

fn device_or(call: &Call, other: &Device) -> Result<Device, OpError> {
    if call.has("device") { call.device("device") } else { Ok(other.clone()) }
}

fn full(
    b: &mut Builder<'_>,
    call: &Call,
    dims: &[Dim],
    value: &Num,
    dtype: Dtype,
    device: Device,
) -> Result<Vec<Arg>, OpError> {
    if matches!(value, Num::Complex(..)) && !dtype.is_complex() {
        return Err(call.error(format!("a complex number cannot be {dtype}")));
    }
    let args = vec![Arg::dims(dims), number_for(value, dtype), dtype.into(), Arg::Device(device)];
    Ok(vec![b.tensor("prims.full", args)?.arg()])
}

fn constant(b: &mut Builder<'_>, call: &Call, value: i64) -> Result<Vec<Arg>, OpError> {
    let dtype = call.opt_dtype("dtype")?.unwrap_or(DEFAULT_FLOAT);
    full(b, call, &call.dims("dims")?, &Num::Int(value), dtype, call.device("device")?)
}

fn constant_like(b: &mut Builder<'_>, call: &Call, value: i64) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let dtype = call.opt_dtype("dtype")?.unwrap_or(a.dtype());
    full(b, call, a.dims(), &Num::Int(value), dtype, device_or(call, &a.ty.device)?)
}

/// Integers where all three are, unless a dtype is given.
fn arange_dtype(call: &Call) -> Result<Dtype, OpError> {
    if let Some(dtype) = call.opt_dtype("dtype")? {
        return Ok(dtype);
    }
    let numbers = [call.num("start")?, call.num("end")?, call.num("step")?];
    let whole = numbers.iter().all(|n| !number_dtype(n).is_inexact());
    Ok(if whole { Dtype::I64 } else { DEFAULT_FLOAT })
}

/// `ceil((end - start) / step)`.
fn arange_size(call: &Call) -> Result<Dim, OpError> {
    let (start, end, step) = (call.num("start")?, call.num("end")?, call.num("step")?);
    let backwards = || call.error(format!("no way from {start:?} to {end:?} by {step:?}"));
    if let (Some(start), Some(end), Some(step)) = (size(&start), size(&end), size(&step)) {
        let span = end.sub(&start);
        let (span, by) = match step.known() {
            Some(0) => return Err(call.error("`step` is zero")),
            Some(by) if by < 0 => (span.neg(), -by),
            Some(by) => (span, by),
            None => return Err(call.error(format!("`step` must be known, found {step}"))),
        };
        if span.known().is_some_and(|n| n < 0) {
            return Err(backwards());
        }
        let up = span.add(&Dim::Known(by - 1)).floordiv(&Dim::Known(by));
        return Ok(up.unwrap_or(span));
    }
    let (start, end, step) = (call.float("start")?, call.float("end")?, call.float("step")?);
    let n = ((end - start) / step).ceil();
    if step == 0.0 || !n.is_finite() || n < 0.0 {
        return Err(backwards());
    }
    Ok(Dim::Known(n as i64))
}

/// An integer as a size.
fn size(n: &Num) -> Option<Dim> {
    match n {
        Num::Int(n) => Some(Dim::Known(*n)),
        Num::Bool(b) => Some(Dim::Known((*b).into())),
        Num::Dim(d) => Some(d.clone()),
        Num::Value(_, ty) => ty.equals.clone(),
        _ => None,
    }
}

/// Counted from the nearer end, so that the ends are met exactly and the row is symmetric.
fn linspace(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let dtype = call.opt_dtype("dtype")?.unwrap_or(DEFAULT_FLOAT);
    // Integers are cut off after exact steps.
    let acc = if dtype.is_integer() { Dtype::F64 } else { dtype.acc() };
    let (n, device) = (call.dim("steps")?, call.device("device")?);
    let (start, end) = (call.num("start")?, call.num("end")?);
    if n.is(0) || n.is(1) {
        return full(b, call, &[n], &start, dtype, device);
    }
    let last = n.sub(&Dim::Known(1));
    let count = vec![Arg::dim(n.clone()), Arg::Int(0), Arg::Int(1), acc.into(), Arg::Device(device.clone())];
    let i = b.tensor("prims.iota", count)?;
    // (end - start) / (n - 1), as a tensor where a number is not known.
    let scalar = |b: &mut Builder<'_>, n: &Num| filled(b, number_for(n, acc), &[], acc, &device);
    let from = scalar(b, &start)?;
    let to = scalar(b, &end)?;
    let span = emit::binary(b, "prims.sub", &to, &from)?;
    let intervals = scalar(b, &Num::Dim(last.clone()))?;
    let step = emit::binary(b, "prims.div", &span, intervals)?;
    let dims = std::slice::from_ref(&n);
    let step = emit::broadcast_to(b, &step, dims)?;
    let from = emit::broadcast_to(b, &from, dims)?;
    let to = emit::broadcast_to(b, &to, dims)?;
    let up = emit::binary(b, "prims.mul", &i, &step)?;
    let up = emit::binary(b, "prims.add", &up, from)?;
    let left = emit::binary(b, "prims.sub", &i, Num::Dim(last))?;
    let down = emit::binary(b, "prims.mul", &left, step)?;
    let down = emit::binary(b, "prims.add", &down, to)?;
    let half = n.floordiv(&Dim::Known(2)).unwrap_or(n);
    let first_half = emit::binary(b, "prims.lt", &i, Num::Dim(half))?;
    let out = emit::select(b, &first_half, up, down)?;
    Ok(vec![to_dtype(b, &out, dtype)?.arg()])
}

/// The dtype of a factory call: given, or recorded where that is not its natural one.
pub(super) fn factory_dtype(call: &AtenCall, natural: Option<Dtype>) -> Result<Arg, OpError> {
    let given = call.arg("dtype")?.clone();
    Ok(match (given, call.recorded_dtype(0)) {
        (Arg::None, Some(recorded)) if natural != Some(recorded) => recorded.into(),
        (given, _) => given,
    })
}

/// The device, where it is given and not the CPU.
pub(super) fn given_device(call: &AtenCall) -> Arg {
    match call.arg("device") {
        Ok(Arg::Device(d)) if *d != Device::Cpu => Arg::Device(d.clone()),
        _ => Arg::None,
    }
}

fn arange(b: &mut Builder<'_>, call: &AtenCall, start: Arg, step: Arg) -> Result<Vec<Arg>, OpError> {
    let end = call.arg("end")?.clone();
    let floats = [&start, &end, &step].iter().any(|a| matches!(a, Arg::Float(_)));
    let natural = if floats { DEFAULT_FLOAT } else { Dtype::I64 };
    let dtype = factory_dtype(call, Some(natural))?;
    b.call_recorded(&TORCH_ARANGE, vec![start, end, step, dtype, given_device(call)], &call.results)
}

/// A factory of dims: `zeros`, `ones`, `empty`.
fn factory(
    b: &mut Builder<'_>,
    call: &AtenCall,
    op: &'static Op,
    natural: Option<Dtype>,
) -> Result<Vec<Arg>, OpError> {
    let args = vec![call.arg("size")?.clone(), factory_dtype(call, natural)?, given_device(call)];
    b.call_recorded(op, args, &call.results)
}

/// A factory of dims with the dtype and device of another tensor where none are given: `new_zeros`, `empty_like`.
fn factory_like(
    b: &mut Builder<'_>,
    call: &AtenCall,
    op: &'static Op,
    value: Option<Arg>,
) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor(b, "self")?;
    let dims = call.arg("size").cloned().unwrap_or_else(|_| Arg::dims(a.dims()));
    let dtype = match call.arg("dtype")? {
        Arg::None => a.dtype().into(),
        given => given.clone(),
    };
    let device = match call.arg("device")? {
        Arg::None if a.ty.device != Device::Cpu => Arg::Device(a.ty.device.clone()),
        _ => given_device(call),
    };
    let mut args = vec![dims];
    args.extend(value);
    args.extend([dtype, device]);
    b.call_recorded(op, args, &call.results)
}
