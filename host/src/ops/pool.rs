//! Pooling over windows of one to three spatial dims, given or adaptive.
//!
//! Prims take `[n, channels, spatial …]` and a number for each spatial dim; composites also take input without a batch,
//! one number for all dims, and no stride for the window's own.

use super::arith::Built;
use super::aten::{Aten, Import};
use super::build::{Builder, Tensor};
use super::conv::spread_ints;
use super::{Call, Level, Meta, Op, OpError, Sample, Vjp, meta};
use crate::ir::{Arg, Dim, Dtype, Type};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &AVG_POOL,
    &AVG_POOL_BACKWARD,
    &MAX_POOL,
    &MAX_POOL_BACKWARD,
    &ADAPTIVE_AVG_POOL,
    &ADAPTIVE_AVG_POOL_BACKWARD,
    &TORCH_AVG_POOL1D,
    &TORCH_AVG_POOL2D,
    &TORCH_AVG_POOL3D,
    &TORCH_AVG_POOL2D_BACKWARD,
    &TORCH_MAX_POOL1D,
    &TORCH_MAX_POOL2D,
    &TORCH_MAX_POOL3D,
    &TORCH_MAX_POOL1D_WITH_INDICES,
    &TORCH_MAX_POOL2D_WITH_INDICES,
    &TORCH_MAX_POOL3D_WITH_INDICES,
    &TORCH_MAX_POOL2D_BACKWARD,
    &TORCH_ADAPTIVE_AVG_POOL1D,
    &TORCH_ADAPTIVE_AVG_POOL2D,
    &TORCH_ADAPTIVE_AVG_POOL3D,
    &TORCH_ADAPTIVE_AVG_POOL2D_BACKWARD,
    &ADAPTIVE_MAX_POOL,
    &TORCH_ADAPTIVE_MAX_POOL1D,
    &TORCH_ADAPTIVE_MAX_POOL2D,
    &TORCH_ADAPTIVE_MAX_POOL3D,
];

pub static AVG_POOL: Op = Op {
    name: "prims.avg_pool",
    doc: "Mean over each window. Padding counts as zeros with `count_include_pad`, else not at all; what `ceil_mode` lets \
          stick out beyond the padding never counts; `divisor` replaces the count.",
    schema: "(a: Tensor<f>, window: ints, stride: ints, padding: ints, ceil_mode: bool, count_include_pad: bool, \
             divisor: int?) -> Tensor",
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        let dims = pooled_dims(call, a.dims(), false)?;
        meta::one(dims, a.dtype(), &a.ty)
    }),
    vjp: Vjp::Rule(|b, d| {
        let (a, g) = (d.call.tensor("a")?, d.g()?);
        let mut args = vec![g.arg(), Arg::dims(a.dims())];
        for n in ["window", "stride", "padding", "ceil_mode", "count_include_pad", "divisor"] {
            args.push(d.call.raw(n)?);
        }
        Ok(vec![Some(b.tensor("prims.avg_pool_backward", args)?)])
    }),
    samples: &[
        Sample("T[2, 3, 7], window=[3], stride=[2], padding=[1], ceil_mode=false, count_include_pad=true"),
        Sample(
            "T[1, 2, 5, 6], window=[2, 3], stride=[2, 2], padding=[1, 1], ceil_mode=true, count_include_pad=false",
        ),
        Sample(
            "T[1, 2, 5, 6], window=[2, 3], stride=[2, 2], padding=[1, 0], ceil_mode=true, count_include_pad=true",
        ),
        Sample(
            "T[1, 1, 4, 4], window=[2, 2], stride=[2, 2], padding=[0, 0], ceil_mode=false, \
                count_include_pad=true, divisor=3",
        ),
        Sample(
            "T[1, 1, 3, 4, 3], window=[2, 2, 2], stride=[1, 2, 1], padding=[0, 1, 0], ceil_mode=false, \
                count_include_pad=true",
        ),
    ],
    ..Op::BASE
};

const AVG_BACKWARD: &[Sample] = &[
    Sample(
        "T[1, 2, 3, 4], dims=[1, 2, 5, 6], window=[3, 3], stride=[2, 2], padding=[1, 1], ceil_mode=true, \
         count_include_pad=false",
    ),
    Sample(
        "T[1, 2, 2, 3], dims=[1, 2, 4, 6], window=[2, 2], stride=[2, 2], padding=[0, 0], ceil_mode=false, \
         count_include_pad=true, divisor=3",
    ),
];

pub static AVG_POOL_BACKWARD: Op = Op {
    name: "prims.avg_pool_backward",
    doc: "Gradient of `prims.avg_pool` in its input, which has `dims`.",
    schema: "(g: Tensor<f>, dims: dims, window: ints, stride: ints, padding: ints, ceil_mode: bool, \
             count_include_pad: bool, divisor: int?) -> Tensor",
    meta: Meta::Fn(|call| {
        let (g, dims) = (call.tensor("g")?, call.dims("dims")?);
        let pooled = pooled_dims(call, &dims, false)?;
        gradient_of(call, &g, &pooled, dims)
    }),
    // Pooling is linear: the gradient of its gradient is pooling.
    vjp: Vjp::Rule(|b, d| {
        let mut args = vec![d.g()?.arg()];
        for n in ["window", "stride", "padding", "ceil_mode", "count_include_pad", "divisor"] {
            args.push(d.call.raw(n)?);
        }
        Ok(vec![Some(b.tensor("prims.avg_pool", args)?)])
    }),
    samples: AVG_BACKWARD,
    ..Op::BASE
};

pub static MAX_POOL: Op = Op {
    name: "prims.max_pool",
    doc: "Largest of each window (the first of equals; NaN wins) and its index in row-major order of the spatial dims. \
          Padding never wins.",
    schema: "(a: Tensor<r>, window: ints, stride: ints, padding: ints, dilation: ints, ceil_mode: bool) -> (Tensor, \
             Tensor<i64>)",
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        let dims = pooled_dims(call, a.dims(), true)?;
        let values = meta::one(dims.clone(), a.dtype(), &a.ty)?;
        Ok([values, meta::one(dims, Dtype::I64, &a.ty)?].concat())
    }),
    vjp: Vjp::Rule(|b, d| {
        let Some(g) = d.cotangent(0) else { return Ok(vec![None]) };
        let (a, index) = (d.call.tensor("a")?, d.output(1)?);
        Ok(vec![Some(b.tensor("prims.max_pool_backward", vec![g.arg(), index.arg(), Arg::dims(a.dims())])?)])
    }),
    samples: &[
        Sample("T[2, 3, 7], window=[3], stride=[2], padding=[1], dilation=[1], ceil_mode=false"),
        Sample(
            "T[1, 2, 5, 6], window=[2, 3], stride=[2, 2], padding=[1, 1], dilation=[1, 1], ceil_mode=true",
        ),
        Sample(
            "T[1, 2, 7, 7], window=[2, 2], stride=[1, 2], padding=[0, 0], dilation=[2, 3], ceil_mode=false",
        ),
        Sample(
            "T[1, 1, 3, 4, 3], window=[2, 2, 2], stride=[1, 2, 1], padding=[0, 1, 0], dilation=[1, 1, 1], \
             ceil_mode=false",
        ),
        Sample("T[1, 1, 6]{nonfinite}, window=[2], stride=[1], padding=[0], dilation=[1], ceil_mode=false"),
    ],
    ..Op::BASE
};

pub static MAX_POOL_BACKWARD: Op = Op {
    name: "prims.max_pool_backward",
    doc: "Gradient of `prims.max_pool` in its input, which has `dims`: `g` added at the indices.",
    schema: "(g: Tensor<f>, index: Tensor<i64>, dims: dims) -> Tensor",
    meta: Meta::Fn(|call| {
        let (g, index, dims) = (call.tensor("g")?, call.tensor("index")?, call.dims("dims")?);
        gradient_of(call, &g, index.dims(), dims)
    }),
    vjp: Vjp::Rule(|b, d| {
        let (g, index) = (d.g()?, d.call.tensor("index")?);
        // Indices count over the spatial dims together.
        let flat = |dims: &[Dim]| [&dims[..2], &[Dim::product(&dims[2..])]].concat();
        let (x, i) = (b.reshape(&g, &flat(g.dims()))?, b.reshape(&index, &flat(index.dims()))?);
        let picked = b.tensor("prims.gather", vec![x.arg(), i.arg(), Arg::Int(2)])?;
        Ok(vec![Some(b.reshape(&picked, index.dims())?), None])
    }),
    samples: &[
        Sample("T[2, 3, 4], i64[2, 3, 4]{0..7}, dims=[2, 3, 7]"),
        Sample("T[1, 2, 2, 3], i64[1, 2, 2, 3]{0..20}, dims=[1, 2, 4, 5]"),
    ],
    ..Op::BASE
};

pub static ADAPTIVE_AVG_POOL: Op = Op {
    name: "prims.adaptive_avg_pool",
    doc: "Means of windows that divide each spatial dim of size `n` into `out`: from `i * n // out` to \
          `ceil((i + 1) * n / out)`.",
    schema: "(a: Tensor<f>, out: dims) -> Tensor",
    meta: Meta::Fn(|call| {
        let (a, out) = (call.tensor("a")?, call.dims("out")?);
        let dims = [batch_and_channels(call, a.dims(), out.len())?, out].concat();
        meta::one(dims, a.dtype(), &a.ty)
    }),
    vjp: Vjp::Rule(|b, d| {
        let (a, g) = (d.call.tensor("a")?, d.g()?);
        Ok(vec![Some(b.tensor("prims.adaptive_avg_pool_backward", vec![g.arg(), Arg::dims(a.dims())])?)])
    }),
    samples: &[
        Sample("T[2, 3, 7], out=[3]"),
        Sample("T[1, 2, 5, 6], out=[1, 1]"),
        Sample("T[1, 2, 5, 6], out=[3, 8]"),
        Sample("T[1, 1, 3, 4, 5], out=[2, 2, 2]"),
    ],
    ..Op::BASE
};

pub static ADAPTIVE_AVG_POOL_BACKWARD: Op = Op {
    name: "prims.adaptive_avg_pool_backward",
    doc: "Gradient of `prims.adaptive_avg_pool` in its input, which has `dims`.",
    schema: "(g: Tensor<f>, dims: dims) -> Tensor",
    meta: Meta::Fn(|call| {
        let (g, dims) = (call.tensor("g")?, call.dims("dims")?);
        let n = dims.len().saturating_sub(2);
        let outer = batch_and_channels(call, &dims, n)?;
        let pooled = [outer, g.dims().get(2..).unwrap_or_default().to_vec()].concat();
        gradient_of(call, &g, &pooled, dims)
    }),
    vjp: Vjp::Rule(|b, d| {
        let (g, pooled) = (d.g()?, d.call.tensor("g")?);
        Ok(vec![Some(b.tensor("prims.adaptive_avg_pool", vec![g.arg(), Arg::dims(&pooled.dims()[2..])])?)])
    }),
    samples: &[Sample("T[2, 3, 3], dims=[2, 3, 7]"), Sample("T[1, 2, 3, 8], dims=[1, 2, 5, 6]")],
    ..Op::BASE
};

const AVG: Op = Op {
    schema: "(a: Tensor, window: ints, stride: ints, padding: ints, ceil_mode: bool, count_include_pad: bool, \
             divisor: int?) -> Tensor",
    ..Op::BASE
};

pub static TORCH_AVG_POOL1D: Op = Op {
    name: "torch.avg_pool1d",
    doc: "Mean over windows of one spatial dim.",
    level: Level::Composite(|b, call| avg_pool(b, call, 1)),
    aten: &[Aten {
        overloads: &["avg_pool1d.default"],
        import: Import::Map("a=self window=kernel_size stride padding ceil_mode count_include_pad"),
    }],
    samples: &[
        Sample("T[2, 3, 7], window=[3], stride=[], padding=[0], ceil_mode=false, count_include_pad=true"),
        Sample("T[3, 7], window=[3], stride=[2], padding=[1], ceil_mode=true, count_include_pad=false"),
    ],
    ..AVG
};

pub static TORCH_AVG_POOL2D: Op = Op {
    name: "torch.avg_pool2d",
    doc: "Mean over windows of two spatial dims.",
    level: Level::Composite(|b, call| avg_pool(b, call, 2)),
    aten: &[Aten { overloads: &["avg_pool2d.default"], import: Import::Map(AVG_MAP) }],
    samples: &[
        Sample("T[1, 2, 5, 6], window=[2], stride=[], padding=[0], ceil_mode=false, count_include_pad=true"),
        Sample(
            "T[1, 2, 5, 6], window=[2, 3], stride=[2], padding=[1], ceil_mode=true, count_include_pad=false",
        ),
        Sample(
            "T[2, 4, 4], window=[2, 2], stride=[2, 2], padding=[0, 0], ceil_mode=false, count_include_pad=true, \
                divisor=3",
        ),
    ],
    ..AVG
};

pub static TORCH_AVG_POOL3D: Op = Op {
    name: "torch.avg_pool3d",
    doc: "Mean over windows of three spatial dims.",
    level: Level::Composite(|b, call| avg_pool(b, call, 3)),
    aten: &[Aten { overloads: &["avg_pool3d.default"], import: Import::Map(AVG_MAP) }],
    samples: &[Sample(
        "T[1, 1, 3, 4, 3], window=[2], stride=[1, 2, 1], padding=[0, 1, 0], ceil_mode=false, \
                       count_include_pad=true",
    )],
    ..AVG
};

const AVG_MAP: &str =
    "a=self window=kernel_size stride padding ceil_mode count_include_pad divisor=divisor_override";

pub static TORCH_AVG_POOL2D_BACKWARD: Op = Op {
    name: "torch.avg_pool2d_backward",
    doc: "Gradient of `torch.avg_pool2d` in its input.",
    schema: "(g: Tensor, a: Tensor, window: ints, stride: ints, padding: ints, ceil_mode: bool, \
             count_include_pad: bool, divisor: int?) -> Tensor",
    level: Level::Composite(avg_pool2d_backward),
    aten: &[Aten {
        overloads: &["avg_pool2d_backward.default"],
        import: Import::Map(
            "g=grad_output a=self window=kernel_size stride padding ceil_mode count_include_pad \
             divisor=divisor_override",
        ),
    }],
    samples: &[
        Sample(
            "T[1, 2, 3, 4], T[1, 2, 5, 6], window=[3, 3], stride=[2, 2], padding=[1, 1], ceil_mode=true, \
             count_include_pad=false",
        ),
        Sample(
            "T[2, 2, 3], T[2, 4, 6], window=[2, 2], stride=[], padding=[0, 0], ceil_mode=false, \
             count_include_pad=true",
        ),
    ],
    ..Op::BASE
};

const MAX: Op = Op {
    schema: "(a: Tensor, window: ints, stride: ints, padding: ints, dilation: ints, ceil_mode: bool) -> Tensor",
    ..Op::BASE
};
const MAX_WITH_INDICES: Op = Op {
    schema: "(a: Tensor, window: ints, stride: ints, padding: ints, dilation: ints, ceil_mode: bool) -> (Tensor, \
             Tensor<i64>)",
    ..Op::BASE
};
const MAX_MAP: &str = "a=self window=kernel_size stride padding dilation ceil_mode";
const MAX1: &[Sample] = &[
    Sample("T[2, 3, 7], window=[3], stride=[], padding=[0], dilation=[1], ceil_mode=false"),
    Sample("T[3, 7], window=[3], stride=[2], padding=[1], dilation=[2], ceil_mode=true"),
];
const MAX2: &[Sample] = &[
    Sample("T[1, 2, 5, 6], window=[2], stride=[], padding=[0], dilation=[1], ceil_mode=false"),
    Sample("T[1, 2, 5, 6], window=[2, 3], stride=[2], padding=[1], dilation=[1], ceil_mode=true"),
    Sample("T[2, 7, 7], window=[2, 2], stride=[1, 2], padding=[0, 0], dilation=[2, 3], ceil_mode=false"),
];
const MAX3: &[Sample] = &[Sample(
    "T[1, 1, 3, 4, 3], window=[2], stride=[1, 2, 1], padding=[0, 1, 0], dilation=[1], ceil_mode=false",
)];

pub static TORCH_MAX_POOL1D: Op = Op {
    name: "torch.max_pool1d",
    doc: "Largest of windows of one spatial dim.",
    level: Level::Composite(|b, call| Ok(max_pool(b, call, 1)?.into_iter().take(1).collect())),
    aten: &[Aten { overloads: &["max_pool1d.default"], import: Import::Map(MAX_MAP) }],
    samples: MAX1,
    ..MAX
};

pub static TORCH_MAX_POOL2D: Op = Op {
    name: "torch.max_pool2d",
    doc: "Largest of windows of two spatial dims.",
    level: Level::Composite(|b, call| Ok(max_pool(b, call, 2)?.into_iter().take(1).collect())),
    aten: &[Aten { overloads: &["max_pool2d.default"], import: Import::Map(MAX_MAP) }],
    samples: MAX2,
    ..MAX
};

pub static TORCH_MAX_POOL3D: Op = Op {
    name: "torch.max_pool3d",
    doc: "Largest of windows of three spatial dims.",
    level: Level::Composite(|b, call| Ok(max_pool(b, call, 3)?.into_iter().take(1).collect())),
    aten: &[Aten { overloads: &["max_pool3d.default"], import: Import::Map(MAX_MAP) }],
    samples: MAX3,
    ..MAX
};

pub static TORCH_MAX_POOL1D_WITH_INDICES: Op = Op {
    name: "torch.max_pool1d_with_indices",
    doc: "Largest of windows of one spatial dim, and where it stood.",
    level: Level::Composite(|b, call| max_pool(b, call, 1)),
    aten: &[Aten { overloads: &["max_pool1d_with_indices.default"], import: Import::Map(MAX_MAP) }],
    samples: MAX1,
    ..MAX_WITH_INDICES
};

pub static TORCH_MAX_POOL2D_WITH_INDICES: Op = Op {
    name: "torch.max_pool2d_with_indices",
    doc: "Largest of windows of two spatial dims, and where it stood in row-major order of them.",
    level: Level::Composite(|b, call| max_pool(b, call, 2)),
    aten: &[Aten { overloads: &["max_pool2d_with_indices.default"], import: Import::Map(MAX_MAP) }],
    samples: MAX2,
    ..MAX_WITH_INDICES
};

pub static TORCH_MAX_POOL3D_WITH_INDICES: Op = Op {
    name: "torch.max_pool3d_with_indices",
    doc: "Largest of windows of three spatial dims, and where it stood in row-major order of them.",
    level: Level::Composite(|b, call| max_pool(b, call, 3)),
    aten: &[Aten { overloads: &["max_pool3d_with_indices.default"], import: Import::Map(MAX_MAP) }],
    samples: MAX3,
    ..MAX_WITH_INDICES
};

pub static TORCH_MAX_POOL2D_BACKWARD: Op = Op {
    name: "torch.max_pool2d_backward",
    doc: "Gradient of `torch.max_pool2d` in its input, by the indices of the forward.",
    schema: "(g: Tensor, a: Tensor, window: ints, stride: ints, padding: ints, dilation: ints, ceil_mode: bool, \
             index: Tensor<i64>) -> Tensor",
    level: Level::Composite(|b, call| {
        let (g, a, index) = (call.tensor("g")?, call.tensor("a")?, call.tensor("index")?);
        let (g, single) = with_batch(b, &g, 2)?;
        let (index, _) = with_batch(b, &index, 2)?;
        let dims = batched_dims(&a, 2);
        let args = vec![g.arg(), index.arg(), Arg::dims(&dims)];
        let d = b.tensor("prims.max_pool_backward", args).map_err(|e| call.error(e.what))?;
        Ok(vec![without_batch(b, d, single)?.arg()])
    }),
    aten: &[Aten {
        overloads: &["max_pool2d_with_indices_backward.default"],
        import: Import::Map(
            "g=grad_output a=self window=kernel_size stride padding dilation ceil_mode index=indices",
        ),
    }],
    samples: &[Sample(
        "T[1, 2, 2, 3], T[1, 2, 4, 6], i64[1, 2, 2, 3]{0..24}, window=[2, 2], stride=[2, 2], padding=[0, 0], \
         dilation=[1, 1], ceil_mode=false",
    )],
    ..Op::BASE
};

const ADAPTIVE: Op = Op { schema: "(a: Tensor, out: dims) -> Tensor", ..Op::BASE };

pub static TORCH_ADAPTIVE_AVG_POOL1D: Op = Op {
    name: "torch.adaptive_avg_pool1d",
    doc: "Means of as many windows as asked for, of one spatial dim.",
    level: Level::Composite(|b, call| adaptive_avg_pool(b, call, 1)),
    aten: &[Aten {
        overloads: &["adaptive_avg_pool1d.default"],
        import: Import::Map("a=self out=output_size"),
    }],
    samples: &[Sample("T[2, 3, 7], out=[3]"), Sample("T[3, 7], out=[1]")],
    ..ADAPTIVE
};

pub static TORCH_ADAPTIVE_AVG_POOL2D: Op = Op {
    name: "torch.adaptive_avg_pool2d",
    doc: "Means of as many windows as asked for, of two spatial dims.",
    level: Level::Composite(|b, call| adaptive_avg_pool(b, call, 2)),
    aten: &[Aten {
        overloads: &["adaptive_avg_pool2d.default", "_adaptive_avg_pool2d.default"],
        import: Import::Map("a=self out=output_size"),
    }],
    samples: &[
        Sample("T[1, 2, 5, 6], out=[1]"),
        Sample("T[1, 2, 5, 6], out=[3, 8]"),
        Sample("T[2, 5, 6], out=[2, 2]"),
    ],
    ..ADAPTIVE
};

pub static TORCH_ADAPTIVE_AVG_POOL3D: Op = Op {
    name: "torch.adaptive_avg_pool3d",
    doc: "Means of as many windows as asked for, of three spatial dims.",
    level: Level::Composite(|b, call| adaptive_avg_pool(b, call, 3)),
    aten: &[Aten {
        overloads: &["adaptive_avg_pool3d.default", "_adaptive_avg_pool3d.default"],
        import: Import::Map("a=self out=output_size"),
    }],
    samples: &[Sample("T[1, 1, 3, 4, 5], out=[2, 2, 2]")],
    ..ADAPTIVE
};

pub static TORCH_ADAPTIVE_AVG_POOL2D_BACKWARD: Op = Op {
    name: "torch.adaptive_avg_pool2d_backward",
    doc: "Gradient of `torch.adaptive_avg_pool2d` in its input.",
    schema: "(g: Tensor, a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| {
        let (g, a) = (call.tensor("g")?, call.tensor("a")?);
        let (g, single) = with_batch(b, &g, 2)?;
        let args = vec![g.arg(), Arg::dims(&batched_dims(&a, 2))];
        let d = b.tensor("prims.adaptive_avg_pool_backward", args).map_err(|e| call.error(e.what))?;
        Ok(vec![without_batch(b, d, single)?.arg()])
    }),
    aten: &[Aten {
        overloads: &["_adaptive_avg_pool2d_backward.default"],
        import: Import::Map("g=grad_output a=self"),
    }],
    samples: &[Sample("T[1, 2, 3, 8], T[1, 2, 5, 6]"), Sample("T[2, 2, 2], T[2, 5, 6]")],
    ..Op::BASE
};

// Meta rules.

/// Batch and channels of dims that have `n` spatial ones behind.
fn batch_and_channels(call: &Call, dims: &[Dim], n: usize) -> Result<Vec<Dim>, OpError> {
    if n == 0 || dims.len() != n + 2 {
        let what = format!("{} is not batch, channels and {n} spatial dims", meta::show(dims));
        return Err(call.error(what));
    }
    Ok(dims[..2].to_vec())
}

fn pooled_dims(call: &Call, dims: &[Dim], dilated: bool) -> Result<Vec<Dim>, OpError> {
    let window = call.ints("window")?;
    let n = window.len();
    let mut out = batch_and_channels(call, dims, n)?;
    let stride = numbers(call, "stride", n, 1)?;
    let padding = numbers(call, "padding", n, 0)?;
    let dilation = if dilated { numbers(call, "dilation", n, 1)? } else { vec![1; n] };
    let ceil = call.bool("ceil_mode")?;
    for i in 0..n {
        if window[i] < 1 || padding[i] * 2 > window[i] {
            return Err(call.error(format!("`padding` {padding:?} exceeds half of `window` {window:?}")));
        }
        let reach = dilation[i] * (window[i] - 1) + 1;
        let d = pooled(&dims[i + 2], reach, stride[i], padding[i], ceil);
        if d.known().is_some_and(|d| d < 1) {
            let what = format!("`window` {window:?} does not fit into {}", meta::show(dims));
            return Err(call.error(what));
        }
        out.push(d);
    }
    Ok(out)
}

fn numbers(call: &Call, name: &str, n: usize, low: i64) -> Result<Vec<i64>, OpError> {
    let ints = call.ints(name)?;
    if ints.len() == n && ints.iter().all(|i| *i >= low) {
        return Ok(ints);
    }
    Err(call.error(format!("`{name}` is {ints:?}, {n} numbers of at least {low} are wanted")))
}

/// How many windows of that reach there are. In `ceil` mode the last may stick out, but must begin inside of input or
/// front padding.
fn pooled(size: &Dim, reach: i64, stride: i64, padding: i64, ceil: bool) -> Dim {
    let one = Dim::Known(1);
    let by = |d: Dim| d.floordiv(&Dim::Known(stride)).expect("strides are positive").add(&one);
    let slack = if ceil { stride - 1 } else { 0 };
    let out = by(size.add(&Dim::Known(2 * padding - reach + slack)));
    if ceil { out.min_with(&by(size.add(&Dim::Known(padding - 1)))) } else { out }
}

/// A gradient of `dims`, given that `g` has the dims of what was computed.
fn gradient_of(call: &Call, g: &Tensor, want: &[Dim], dims: Vec<Dim>) -> Result<Vec<Option<Type>>, OpError> {
    let fits = g.rank() == want.len() && g.dims().iter().zip(want).all(|(x, y)| x.same(y) != Some(false));
    if !fits {
        let (found, want) = (meta::show(g.dims()), meta::show(want));
        return Err(call.error(format!("`g` is {found}, {want} is wanted")));
    }
    meta::one(dims, g.dtype(), &g.ty)
}

// Decompositions.

/// The tensor with a batch dim, and whether it had none.
fn with_batch(b: &mut Builder<'_>, a: &Tensor, n: usize) -> Result<(Tensor, bool), OpError> {
    Ok(if a.rank() == n + 1 { (b.unsqueeze(a, 0)?, true) } else { (a.clone(), false) })
}

fn without_batch(b: &mut Builder<'_>, a: Tensor, single: bool) -> Built {
    if single { b.squeeze(&a, &[0]) } else { Ok(a) }
}

fn batched_dims(a: &Tensor, n: usize) -> Vec<Dim> {
    let mut dims = a.dims().to_vec();
    if dims.len() == n + 1 {
        dims.insert(0, Dim::Known(1));
    }
    dims
}

/// Window, stride (the window where none is given) and padding for `n` dims.
fn windows(call: &Call, n: usize) -> Result<[Vec<i64>; 3], OpError> {
    let window = spread_ints(call, "window", call.ints("window")?, n)?;
    let stride = call.ints("stride")?;
    let stride = if stride.is_empty() { window.clone() } else { spread_ints(call, "stride", stride, n)? };
    Ok([window, stride, spread_ints(call, "padding", call.ints("padding")?, n)?])
}

fn avg_args(call: &Call, n: usize) -> Result<Vec<Arg>, OpError> {
    let mut args: Vec<Arg> = windows(call, n)?.into_iter().map(Arg::ints).collect();
    for name in ["ceil_mode", "count_include_pad", "divisor"] {
        args.push(call.raw(name)?);
    }
    Ok(args)
}

fn avg_pool(b: &mut Builder<'_>, call: &Call, n: usize) -> Result<Vec<Arg>, OpError> {
    let (a, single) = with_batch(b, &call.tensor("a")?, n)?;
    let args = [vec![a.arg()], avg_args(call, n)?].concat();
    let y = b.tensor("prims.avg_pool", args).map_err(|e| call.error(e.what))?;
    Ok(vec![without_batch(b, y, single)?.arg()])
}

fn avg_pool2d_backward(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (g, a) = (call.tensor("g")?, call.tensor("a")?);
    let (g, single) = with_batch(b, &g, 2)?;
    let args = [vec![g.arg(), Arg::dims(&batched_dims(&a, 2))], avg_args(call, 2)?].concat();
    let d = b.tensor("prims.avg_pool_backward", args).map_err(|e| call.error(e.what))?;
    Ok(vec![without_batch(b, d, single)?.arg()])
}

fn max_pool(b: &mut Builder<'_>, call: &Call, n: usize) -> Result<Vec<Arg>, OpError> {
    let (a, single) = with_batch(b, &call.tensor("a")?, n)?;
    let mut args = vec![a.arg()];
    args.extend(windows(call, n)?.into_iter().map(Arg::ints));
    args.push(Arg::ints(spread_ints(call, "dilation", call.ints("dilation")?, n)?));
    args.push(call.raw("ceil_mode")?);
    let results = b.call("prims.max_pool", args).map_err(|e| call.error(e.what))?;
    let mut out = Vec::new();
    for r in results {
        let t = b.as_tensor(r.value().ok_or_else(|| call.error("pooling has tensor results"))?)?;
        out.push(without_batch(b, t, single)?.arg());
    }
    Ok(out)
}

fn adaptive_avg_pool(b: &mut Builder<'_>, call: &Call, n: usize) -> Result<Vec<Arg>, OpError> {
    let (a, single) = with_batch(b, &call.tensor("a")?, n)?;
    let mut out = call.dims("out")?;
    if let [one] = out.as_slice() {
        out = vec![one.clone(); n];
    }
    let y = b
        .tensor("prims.adaptive_avg_pool", vec![a.arg(), Arg::dims(&out)])
        .map_err(|e| call.error(e.what))?;
    Ok(vec![without_batch(b, y, single)?.arg()])
}
pub static ADAPTIVE_MAX_POOL: Op = Op {
    name: "prims.adaptive_max_pool",
    doc: "Largest of windows that divide each spatial dim as `prims.adaptive_avg_pool` does, and its index in row-major order of the spatial dims.",
    schema: "(a: Tensor<r>, out: dims) -> (Tensor, Tensor<i64>)",
    meta: Meta::Fn(|call| {
        let (a, out) = (call.tensor("a")?, call.dims("out")?);
        let dims = [batch_and_channels(call, a.dims(), out.len())?, out].concat();
        let values = meta::one(dims.clone(), a.dtype(), &a.ty)?;
        Ok([values, meta::one(dims, Dtype::I64, &a.ty)?].concat())
    }),
    vjp: Vjp::Rule(|b, d| {
        let Some(g) = d.cotangent(0) else { return Ok(vec![None]) };
        let (a, index) = (d.call.tensor("a")?, d.output(1)?);
        Ok(vec![Some(b.tensor("prims.max_pool_backward", vec![g.arg(), index.arg(), Arg::dims(a.dims())])?)])
    }),
    samples: &[
        Sample("T[2, 3, 7], out=[3]"),
        Sample("T[1, 2, 5, 6], out=[3, 8]"),
        Sample("T[1, 1, 3, 4, 5], out=[2, 2, 2]"),
    ],
    ..Op::BASE
};

pub static TORCH_ADAPTIVE_MAX_POOL1D: Op = Op {
    name: "torch.adaptive_max_pool1d",
    doc: "Largest of as many windows as asked for, of one spatial dim, and where it stood.",
    schema: "(a: Tensor, out: dims) -> (Tensor, Tensor<i64>)",
    level: Level::Composite(|b, call| adaptive_max_pool(b, call, 1)),
    aten: &[Aten {
        overloads: &["adaptive_max_pool1d.default"],
        import: Import::Map("a=self out=output_size"),
    }],
    samples: &[Sample("T[2, 3, 7], out=[3]"), Sample("T[3, 7], out=[1]")],
    ..Op::BASE
};

pub static TORCH_ADAPTIVE_MAX_POOL2D: Op = Op {
    name: "torch.adaptive_max_pool2d",
    doc: "Largest of as many windows as asked for, of two spatial dims, and where it stood.",
    schema: "(a: Tensor, out: dims) -> (Tensor, Tensor<i64>)",
    level: Level::Composite(|b, call| adaptive_max_pool(b, call, 2)),
    aten: &[Aten {
        overloads: &["adaptive_max_pool2d.default"],
        import: Import::Map("a=self out=output_size"),
    }],
    samples: &[Sample("T[1, 2, 5, 6], out=[1]"), Sample("T[2, 5, 6], out=[2, 2]")],
    ..Op::BASE
};

pub static TORCH_ADAPTIVE_MAX_POOL3D: Op = Op {
    name: "torch.adaptive_max_pool3d",
    doc: "Largest of as many windows as asked for, of three spatial dims, and where it stood.",
    schema: "(a: Tensor, out: dims) -> (Tensor, Tensor<i64>)",
    level: Level::Composite(|b, call| adaptive_max_pool(b, call, 3)),
    aten: &[Aten {
        overloads: &["adaptive_max_pool3d.default"],
        import: Import::Map("a=self out=output_size"),
    }],
    samples: &[Sample("T[1, 1, 3, 4, 5], out=[2, 2, 2]")],
    ..Op::BASE
};

fn adaptive_max_pool(b: &mut Builder<'_>, call: &Call, n: usize) -> Result<Vec<Arg>, OpError> {
    let (a, single) = with_batch(b, &call.tensor("a")?, n)?;
    let mut out = call.dims("out")?;
    if let [one] = out.as_slice() {
        out = vec![one.clone(); n];
    }
    let results =
        b.call("prims.adaptive_max_pool", vec![a.arg(), Arg::dims(&out)]).map_err(|e| call.error(e.what))?;
    results
        .iter()
        .filter_map(Arg::value)
        .map(|v| {
            let t = b.as_tensor(v)?;
            Ok(without_batch(b, t, single)?.arg())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::pooled;
    use crate::ir::{Dim, SymKind, Symbol};

    /// PyTorch's own rule: round up, then drop a window that would begin behind input and front padding.
    fn expected(size: i64, reach: i64, stride: i64, padding: i64, ceil: bool) -> i64 {
        let room = size + 2 * padding - reach;
        let mut n = if ceil { (room + stride - 1).div_euclid(stride) } else { room.div_euclid(stride) } + 1;
        if ceil && (n - 1) * stride >= size + padding {
            n -= 1;
        }
        n
    }

    #[test]
    fn windows_are_counted_as_pytorch_does_also_of_symbolic_sizes() {
        let s = Dim::symbol(Symbol { kind: SymKind::Input, number: 0 });
        for (reach, stride, ceil) in
            (1..6).flat_map(|r| (1..5).flat_map(move |s| [(r, s, true), (r, s, false)]))
        {
            for padding in 0..=reach / 2 {
                let symbolic = pooled(&s, reach, stride, padding, ceil);
                for size in reach..14 {
                    let want = Some(expected(size, reach, stride, padding, ceil));
                    assert_eq!(pooled(&size.into(), reach, stride, padding, ceil).known(), want);
                    assert_eq!(symbolic.eval(&|_| Some(size)), want);
                }
            }
        }
    }
}
