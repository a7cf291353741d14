//! Tensors of a pattern: literals, the unit matrix, windows, triangles' indices.
//!
//! Deliberately absent: filled and counted tensors, which are `creation`.

use super::build::{Builder, Num};
use super::creation::{factory_dtype, given_device};
use super::meta::{self, DEFAULT_FLOAT};
use super::{Aten, AtenCall, Call, Import, Level, Meta, Op, OpError, Sample, Vjp};
use crate::ir::{Arg, Dim, Dtype, TensorType, Type};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &TENSOR_FROM_SEQUENCE,
    &TORCH_TENSOR,
    &TORCH_EYE,
    &TORCH_HANN_WINDOW,
    &TORCH_LOGSPACE,
    &TORCH_TRIL_INDICES,
    &TORCH_TRIU_INDICES,
];

pub static TENSOR_FROM_SEQUENCE: Op = Op {
    name: "prims.tensor_from_sequence",
    doc: "The numbers in row-major order under these dims; for few of them, many are constants of the trace.",
    schema: "(values: num[], *, dims: dims, dtype: dtype, device: device) -> Tensor",
    meta: Meta::Fn(sequence_meta),
    vjp: Vjp::NonDiff,
    samples: &[
        Sample("values=[1, 2, 3, 4], dims=[2, 2], dtype=i64, device=cpu"),
        Sample("values=[0.5], dims=[], dtype=f32, device=cpu"),
        Sample("values=[], dims=[0], dtype=f32, device=cpu"),
    ],
    ..Op::BASE
};

pub static TORCH_TENSOR: Op = Op {
    name: "torch.tensor",
    doc: "The numbers as a vector: i64, f32 or bool as they are, unless `dtype` says otherwise.",
    schema: "(values: num[], *, dtype: dtype?, device: device?) -> Tensor",
    level: Level::Composite(|b, call| {
        let Arg::List(values) = call.raw("values")? else {
            return Err(call.error("`values` must be a list"));
        };
        let natural = values
            .iter()
            .filter_map(Num::from_arg)
            .map(|n| meta::number_dtype(&n))
            .reduce(meta::promote)
            .unwrap_or(DEFAULT_FLOAT);
        let dtype = call.opt_dtype("dtype")?.unwrap_or(natural);
        literal(b, call, values, dtype)
    }),
    vjp: Vjp::NonDiff,
    samples: &[Sample("values=[1, 2, 3]"), Sample("values=[0.5, 1], dtype=f64"), Sample("values=[true]")],
    ..Op::BASE
};

pub static TORCH_EYE: Op = Op {
    name: "torch.eye",
    doc: "Ones on the diagonal, zeros elsewhere.",
    schema: "(n: dim, m: dim, *, dtype: dtype?, device: device?) -> Tensor",
    level: Level::Composite(eye),
    vjp: Vjp::NonDiff,
    aten: &[
        Aten { overloads: &["eye.default"], import: Import::With(|b, c| import_eye(b, c, "n")) },
        Aten { overloads: &["eye.m"], import: Import::With(|b, c| import_eye(b, c, "m")) },
    ],
    samples: &[Sample("n=3, m=3"), Sample("n=2, m=4, dtype=i64"), Sample("n=0, m=2")],
    ..Op::BASE
};

pub static TORCH_HANN_WINDOW: Op = Op {
    name: "torch.hann_window",
    doc: "`(1 - cos(2 pi i / n)) / 2`; unless it is periodic, n - 1 stands for n.",
    schema: "(n: dim, periodic: bool = true, *, dtype: dtype?) -> Tensor",
    level: Level::Composite(hann),
    vjp: Vjp::NonDiff,
    aten: &[
        Aten {
            overloads: &["hann_window.default"],
            import: Import::With(|b, c| import_hann(b, c, Arg::Bool(true))),
        },
        Aten {
            overloads: &["hann_window.periodic"],
            import: Import::With(|b, c| {
                let periodic = c.arg("periodic")?.clone();
                import_hann(b, c, periodic)
            }),
        },
    ],
    samples: &[Sample("n=5"), Sample("n=4, periodic=false, dtype=f64"), Sample("n=1"), Sample("n=0")],
    ..Op::BASE
};

pub static TORCH_LOGSPACE: Op = Op {
    name: "torch.logspace",
    doc: "`steps` powers of `base` whose exponents go from `start` to `end` in equal steps.",
    schema: "(start: num, end: num, steps: dim, base: num = 10.0, *, dtype: dtype?, device: device?) -> Tensor",
    level: Level::Composite(|b, call| {
        let dtype = call.opt_dtype("dtype")?.unwrap_or(DEFAULT_FLOAT);
        let wide = if dtype.is_inexact() { dtype.acc() } else { Dtype::F64 };
        let args =
            vec![call.raw("start")?, call.raw("end")?, call.raw("steps")?, wide.into(), call.raw("device")?];
        let exponents = b.tensor("torch.linspace", args)?;
        let powers = b.tensor("torch.pow", vec![call.raw("base")?, exponents.arg()])?;
        Ok(vec![b.to(&powers, dtype)?.arg()])
    }),
    vjp: Vjp::NonDiff,
    aten: &[Aten {
        overloads: &["logspace.default"],
        import: Import::With(|b, c| {
            let args = vec![
                c.arg("start")?.clone(),
                c.arg("end")?.clone(),
                c.arg("steps")?.clone(),
                c.arg("base")?.clone(),
                factory_dtype(c, Some(DEFAULT_FLOAT))?,
                given_device(c),
            ];
            b.call_recorded(&TORCH_LOGSPACE, args, &c.results)
        }),
    }],
    samples: &[
        Sample("start=0, end=2, steps=5"),
        Sample("start=-1, end=1, steps=4, base=2.0, dtype=f64"),
        Sample("start=0, end=1, steps=0"),
    ],
    ..Op::BASE
};

pub static TORCH_TRIL_INDICES: Op = Op {
    name: "torch.tril_indices",
    doc: "Rows and columns of the elements on and below a diagonal, in row-major order.",
    schema: "(rows: dim, cols: dim, offset: int = 0, *, dtype: dtype?) -> Tensor<i>",
    level: Level::Composite(|b, call| triangle_indices(b, call, false)),
    vjp: Vjp::NonDiff,
    aten: &[Aten {
        overloads: &["tril_indices.default"],
        import: Import::Map("rows=row cols=col offset dtype"),
    }],
    samples: &[
        Sample("rows=3, cols=3"),
        Sample("rows=2, cols=4, offset=1"),
        Sample("rows=4, cols=2, offset=-1, dtype=i32"),
    ],
    ..Op::BASE
};

pub static TORCH_TRIU_INDICES: Op = Op {
    name: "torch.triu_indices",
    doc: "Rows and columns of the elements on and above a diagonal, in row-major order.",
    schema: "(rows: dim, cols: dim, offset: int = 0, *, dtype: dtype?) -> Tensor<i>",
    level: Level::Composite(|b, call| triangle_indices(b, call, true)),
    vjp: Vjp::NonDiff,
    aten: &[Aten {
        overloads: &["triu_indices.default"],
        import: Import::Map("rows=row cols=col offset dtype"),
    }],
    samples: &[
        Sample("rows=3, cols=3"),
        Sample("rows=2, cols=4, offset=1"),
        Sample("rows=4, cols=2, offset=-1, dtype=i32"),
    ],
    ..Op::BASE
};

fn sequence_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let (dims, dtype) = (call.dims("dims")?, call.dtype("dtype")?);
    let Arg::List(values) = call.raw("values")? else { return Err(call.error("`values` must be a list")) };
    let n = Dim::Known(values.len() as i64);
    if Dim::product(&dims).same(&n) == Some(false) {
        return Err(call.error(format!("{n} values do not fill {}", meta::show(&dims))));
    }
    Ok(vec![Some(TensorType { dims, dtype, device: call.device("device")? }.into())])
}

/// A vector of these numbers.
fn literal(b: &mut Builder<'_>, call: &Call, values: Vec<Arg>, dtype: Dtype) -> Result<Vec<Arg>, OpError> {
    let dims = [Dim::Known(values.len() as i64)];
    let ready = |a: Arg| Num::from_arg(&a).map_or(a, |n| super::emit::number_for(&n, dtype));
    let values = Arg::List(values.into_iter().map(ready).collect());
    let device = if call.has("device") { call.device("device")? } else { crate::ir::Device::Cpu };
    let args = vec![values, Arg::dims(&dims), dtype.into(), Arg::Device(device)];
    Ok(vec![b.tensor("prims.tensor_from_sequence", args)?.arg()])
}

fn eye(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let dims = [call.dim("n")?, call.dim("m")?];
    let (dtype, device) = (call.opt_dtype("dtype")?.unwrap_or(DEFAULT_FLOAT), call.device("device")?);
    let row = b.positions(&dims, 0, Dtype::I64, &device)?;
    let column = b.positions(&dims, 1, Dtype::I64, &device)?;
    let on = b.eq(&row, &column)?;
    Ok(vec![b.to(&on, dtype)?.arg()])
}

fn import_eye(b: &mut Builder<'_>, c: &AtenCall, columns: &str) -> Result<Vec<Arg>, OpError> {
    let (n, m) = (c.arg("n")?.clone(), c.arg(columns)?.clone());
    let args = vec![n, m, factory_dtype(c, Some(DEFAULT_FLOAT))?, given_device(c)];
    b.call_recorded(&TORCH_EYE, args, &c.results)
}

fn hann(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (n, dtype) = (call.dim("n")?, call.opt_dtype("dtype")?.unwrap_or(DEFAULT_FLOAT));
    if !dtype.is_float() {
        return Err(call.error(format!("a window has floats, not {dtype}")));
    }
    let device = crate::ir::Device::Cpu;
    if n.is(1) {
        return Ok(vec![b.full(&[n], 1.0, dtype, &device)?.arg()]);
    }
    let period = if call.bool("periodic")? { n.clone() } else { n.sub(&Dim::Known(1)) };
    let i = b.iota(&n, dtype.acc(), &device)?;
    let turns = b.mul(&i, std::f64::consts::TAU)?;
    let angle = b.div(&turns, super::arith::size(&period))?;
    let cos = b.unary("prims.cos", &angle)?;
    let half = b.mul(&cos, -0.5)?;
    let window = b.add(&half, 0.5)?;
    Ok(vec![b.to(&window, dtype)?.arg()])
}

fn import_hann(b: &mut Builder<'_>, c: &AtenCall, periodic: Arg) -> Result<Vec<Arg>, OpError> {
    let args = vec![c.arg("window_length")?.clone(), periodic, factory_dtype(c, Some(DEFAULT_FLOAT))?];
    b.call_recorded(&TORCH_HANN_WINDOW, args, &c.results)
}

fn triangle_indices(b: &mut Builder<'_>, call: &Call, upper: bool) -> Result<Vec<Arg>, OpError> {
    /// Beyond this a literal is no longer a small one.
    const MOST: i64 = 1 << 20;
    let known =
        |name: &str| call.dim(name)?.known().ok_or_else(|| call.error(format!("`{name}` must be known")));
    let (rows, columns, offset) = (known("rows")?, known("cols")?, call.int("offset")?);
    let dtype = call.opt_dtype("dtype")?.unwrap_or(Dtype::I64);
    if rows < 0 || columns < 0 || rows.saturating_mul(columns) > MOST || !dtype.is_integer() {
        return Err(call.error(format!("cannot list {rows} × {columns} elements as {dtype}")));
    }
    let all = (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c)));
    let inside = |&(r, c): &(i64, i64)| if upper { c - r >= offset } else { c - r <= offset };
    let (r, c): (Vec<Arg>, Vec<Arg>) = all.filter(inside).map(|(r, c)| (Arg::Int(r), Arg::Int(c))).unzip();
    let dims = [Dim::Known(2), Dim::Known(r.len() as i64)];
    let values = [r, c].concat();
    let list = Arg::List(values);
    let args = vec![list, Arg::dims(&dims), dtype.into(), crate::ir::Device::Cpu.into()];
    Ok(vec![b.tensor("prims.tensor_from_sequence", args)?.arg()])
}
