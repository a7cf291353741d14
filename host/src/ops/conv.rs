//! Convolutions of one to three spatial dims.
//!
//! Input is `[n, channels, spatial …]`, weight `[out, channels / groups, window …]`, and of a transposed convolution
//! `[channels, out / groups, window …]`. Products of f16 and bf16 accumulate in f32 and round once.

use super::arith::Built;
use super::aten::{Aten, Import};
use super::build::{Builder, Tensor};
use super::norm::mask;
use super::{Call, Grad, Level, Meta, Op, OpError, Sample, Vjp, meta};
use crate::ir::{Arg, Dim, Type};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &CONVOLUTION,
    &CONVOLUTION_BACKWARD,
    &TORCH_CONVOLUTION,
    &TORCH_CONVOLUTION_BACKWARD,
    &TORCH_CONV1D,
    &TORCH_CONV2D,
    &TORCH_CONV3D,
    &TORCH_CONV_TRANSPOSE1D,
    &TORCH_CONV_TRANSPOSE2D,
    &TORCH_CONV_TRANSPOSE3D,
];

const CONVOLUTION_SAMPLES: &[Sample] = &[
    Sample(
        "T[2, 3, 7], T[4, 3, 3], T[4], stride=[1], padding=[1], dilation=[1], transposed=false, output_padding=[0], \
         groups=1",
    ),
    Sample(
        "T[1, 4, 6, 5], T[6, 2, 3, 2], none, stride=[2, 1], padding=[1, 0], dilation=[1, 2], transposed=false, \
         output_padding=[0, 0], groups=2",
    ),
    Sample(
        "T[1, 4, 3, 4], T[4, 3, 3, 3], T[6], stride=[2, 2], padding=[1, 1], dilation=[1, 1], transposed=true, \
         output_padding=[1, 0], groups=2",
    ),
    Sample(
        "T[1, 2, 3, 4, 3], T[2, 2, 2, 2, 2], T[2], stride=[1, 1, 1], padding=[0, 1, 0], dilation=[1, 1, 1], \
         transposed=false, output_padding=[0, 0, 0], groups=1",
    ),
    Sample(
        "T[2, 4, 5, 5], T[4, 1, 3, 3], none, stride=[1, 1], padding=[1, 1], dilation=[1, 1], transposed=false, \
         output_padding=[0, 0], groups=4",
    ),
    Sample(
        "T[0, 3, 7], T[4, 3, 3], T[4], stride=[1], padding=[0], dilation=[1], transposed=false, output_padding=[0], \
         groups=1",
    ),
];

const BACKWARD_SAMPLES: &[Sample] = &[
    Sample(
        "T[2, 4, 7], T[2, 3, 7], T[4, 3, 3], stride=[1], padding=[1], dilation=[1], transposed=false, \
         output_padding=[0], groups=1, mask=[true, true, true]",
    ),
    Sample(
        "T[1, 6, 3, 3], T[1, 4, 6, 5], T[6, 2, 3, 2], stride=[2, 1], padding=[1, 0], dilation=[1, 2], \
         transposed=false, output_padding=[0, 0], groups=2, mask=[true, true, false]",
    ),
    Sample(
        "T[1, 6, 6, 7], T[1, 4, 3, 4], T[4, 3, 3, 3], stride=[2, 2], padding=[1, 1], dilation=[1, 1], \
         transposed=true, output_padding=[1, 0], groups=2, mask=[true, true, true]",
    ),
];

pub static CONVOLUTION: Op = Op {
    name: "prims.convolution",
    doc: "Convolution (correlation) of one to three spatial dims, or its transpose, plus bias.",
    schema: "(a: Tensor<x>, w: Tensor<x>, bias: Tensor<x>?, stride: ints, padding: ints, dilation: ints, \
             transposed: bool, output_padding: ints, groups: int) -> Tensor",
    meta: Meta::Fn(convolution_meta),
    vjp: Vjp::Rule(|b, d| {
        let (a, w, g) = (d.call.tensor("a")?, d.call.tensor("w")?, d.g()?);
        let (a, w) = (b.conj(&a)?, b.conj(&w)?);
        let mask = [d.wants(0), d.wants(1), d.call.has("bias") && d.wants(2)];
        let grads = gradients(b, d.call, [&g, &a, &w], mask)?;
        let n = d.tensors().len();
        (0..n)
            .map(|i| match grads.get(i).and_then(Arg::value) {
                Some(v) => b.as_tensor(v).map(Some),
                None => Ok(None),
            })
            .collect()
    }),
    samples: CONVOLUTION_SAMPLES,
    ..Op::BASE
};

pub static CONVOLUTION_BACKWARD: Op = Op {
    name: "prims.convolution_backward",
    doc: "Gradients of a convolution in input, weight and bias, of those that `mask` asks for.",
    schema: "(g: Tensor<x>, a: Tensor<x>, w: Tensor<x>, stride: ints, padding: ints, dilation: ints, \
             transposed: bool, output_padding: ints, groups: int, mask: bool[3]) -> (Tensor?, Tensor?, Tensor?)",
    meta: Meta::Fn(convolution_backward_meta),
    vjp: Vjp::Rule(backward_rule),
    samples: BACKWARD_SAMPLES,
    ..Op::BASE
};

pub static TORCH_CONVOLUTION: Op = Op {
    name: "torch.convolution",
    doc: "Convolution of one to three spatial dims with every parameter; lists of one number stand for all dims. Input \
          without a batch is one element.",
    schema: "(a: Tensor, w: Tensor, bias: Tensor?, stride: ints, padding: ints, dilation: ints, transposed: bool, \
             output_padding: ints, groups: int) -> Tensor",
    level: Level::Composite(|b, call| {
        let given = Given {
            stride: call.ints("stride")?,
            padding: call.ints("padding")?,
            dilation: call.ints("dilation")?,
            output_padding: call.ints("output_padding")?,
            transposed: call.bool("transposed")?,
            groups: call.int("groups")?,
        };
        let a = call.tensor("a")?;
        Ok(vec![convolved(b, call, &a, given)?.arg()])
    }),
    aten: &[Aten {
        overloads: &["convolution.default", "_convolution.default", "convolution_overrideable.default"],
        import: Import::Map("a=input w=weight bias stride padding dilation transposed output_padding groups"),
    }],
    samples: CONVOLUTION_SAMPLES,
    ..Op::BASE
};

pub static TORCH_CONVOLUTION_BACKWARD: Op = Op {
    name: "torch.convolution_backward",
    doc: "Gradients of a convolution in input, weight and bias, of those that `mask` asks for.",
    schema: "(g: Tensor, a: Tensor, w: Tensor, bias_dims: dims?, stride: ints, padding: ints, dilation: ints, \
             transposed: bool, output_padding: ints, groups: int, mask: bool[3]) -> (Tensor?, Tensor?, Tensor?)",
    level: Level::Composite(|b, call| {
        let n = spatial_rank(call)?;
        let mut args = vec![call.raw("g")?, call.raw("a")?, call.raw("w")?];
        for name in ["stride", "padding", "dilation"] {
            args.push(Arg::ints(spread_ints(call, name, call.ints(name)?, n)?));
        }
        args.push(call.raw("transposed")?);
        args.push(Arg::ints(spread_ints(call, "output_padding", call.ints("output_padding")?, n)?));
        args.extend([call.raw("groups")?, call.raw("mask")?]);
        b.call("prims.convolution_backward", args).map_err(|e| call.error(e.what))
    }),
    aten: &[Aten {
        overloads: &["convolution_backward.default"],
        import: Import::Map(
            "g=grad_output a=input w=weight bias_dims=bias_sizes stride padding dilation transposed output_padding \
             groups mask=output_mask",
        ),
    }],
    samples: BACKWARD_SAMPLES,
    ..Op::BASE
};

/// What a convolution and its backward have in common, as arguments in schema order.
fn geometry(call: &Call) -> Result<Vec<Arg>, OpError> {
    ["stride", "padding", "dilation", "transposed", "output_padding", "groups"]
        .map(|n| call.raw(n))
        .into_iter()
        .collect()
}

/// Gradients in input, weight and bias from `g`, input and weight.
fn gradients(
    b: &mut Builder<'_>,
    call: &Call,
    [g, a, w]: [&Tensor; 3],
    mask: [bool; 3],
) -> Result<Vec<Arg>, OpError> {
    let mut args = vec![g.arg(), a.arg(), w.arg()];
    args.extend(geometry(call)?);
    args.push(Arg::List(mask.iter().map(|m| Arg::Bool(*m)).collect()));
    b.call("prims.convolution_backward", args)
}

/// The backward is linear in `g` and in either `w` or `a`: what it gives for the input is a transposed convolution of
/// `g` and `w`, for the weight a correlation of `g` and `a`, for the bias a sum of `g`.
fn backward_rule(b: &mut Builder<'_>, d: &Grad<'_>) -> Result<Vec<Option<Tensor>>, OpError> {
    let call = d.call;
    let (g, a, w) = (call.tensor("g")?, call.tensor("a")?, call.tensor("w")?);
    let (of_a, of_w, of_bias) = (d.cotangent(0), d.cotangent(1), d.cotangent(2));
    let mut all = vec![None, None, None];
    if d.wants(0) {
        let mut total: Option<Tensor> = None;
        let mut parts = Vec::new();
        if let Some(of_a) = &of_a {
            parts.push((of_a.clone(), b.conj(&w)?));
        }
        if let Some(of_w) = &of_w {
            parts.push((b.conj(&a)?, of_w.clone()));
        }
        for (x, k) in parts {
            let mut args = vec![x.arg(), k.arg(), Arg::None];
            args.extend(geometry(call)?);
            let part = b.tensor("prims.convolution", args)?;
            total = Some(match total {
                Some(t) => b.add(&t, &part)?,
                None => part,
            });
        }
        if let Some(of_bias) = &of_bias {
            let others: Vec<usize> = (0..g.rank()).filter(|i| *i != 1).collect();
            let part = b.spread(of_bias, g.dims(), &others)?;
            total = Some(match total {
                Some(t) => b.add(&t, &part)?,
                None => part,
            });
        }
        all[0] = total;
    }
    let g = b.conj(&g)?;
    let one = |b: &mut Builder<'_>, a: &Tensor, w: &Tensor, at: usize| -> Result<Option<Tensor>, OpError> {
        let grads = gradients(b, call, [&g, a, w], [at == 0, at == 1, false])?;
        grads.get(at).and_then(Arg::value).map(|v| b.as_tensor(v)).transpose()
    };
    if let (Some(of_w), true) = (&of_w, d.wants(1)) {
        all[1] = one(b, &a, of_w, 0)?;
    }
    if let (Some(of_a), true) = (&of_a, d.wants(2)) {
        all[2] = one(b, of_a, &w, 1)?;
    }
    Ok(all)
}

const CONV: Op = Op {
    schema: "(a: Tensor, w: Tensor, bias: Tensor? = None, stride: ints = 1, padding: ints|str{same|valid} = 0, \
             dilation: ints = 1, groups: int = 1) -> Tensor",
    level: Level::Composite(conv),
    ..Op::BASE
};

pub static TORCH_CONV1D: Op = Op {
    name: "torch.conv1d",
    doc: "Convolution of one spatial dim; `padding` may be `same` (the input's size, extra padding behind) or `valid`.",
    aten: &[Aten { overloads: &["conv1d.default", "conv1d.padding"], import: Import::Map(CONV_MAP) }],
    samples: &[
        Sample("T[2, 3, 7], T[4, 3, 3], T[4], padding=[1]"),
        Sample("T[2, 4, 7], T[4, 2, 4], none, padding=\"same\", dilation=[1], groups=2"),
        Sample("T[3, 7], T[4, 3, 3], T[4], stride=[2]"),
    ],
    ..CONV
};

const CONV_MAP: &str = "a=input w=weight bias stride padding dilation groups";

pub static TORCH_CONV2D: Op = Op {
    name: "torch.conv2d",
    doc: "Convolution of two spatial dims; `padding` may be `same` (the input's size, extra padding behind) or `valid`.",
    aten: &[Aten { overloads: &["conv2d.default", "conv2d.padding"], import: Import::Map(CONV_MAP) }],
    samples: &[
        Sample("T[2, 3, 6, 5], T[4, 3, 3, 3], T[4], stride=[2, 1], padding=[1, 1]"),
        Sample("T[1, 4, 5, 5], T[4, 1, 3, 3], none, padding=\"valid\", groups=4"),
        Sample("T[1, 2, 5, 6], T[3, 2, 2, 4], T[3], padding=\"same\", dilation=[1, 2]"),
        Sample("T[3, 6, 5], T[4, 3, 3, 3]"),
    ],
    ..CONV
};

pub static TORCH_CONV3D: Op = Op {
    name: "torch.conv3d",
    doc: "Convolution of three spatial dims; `padding` may be `same` (the input's size, extra padding behind) or `valid`.",
    aten: &[Aten { overloads: &["conv3d.default", "conv3d.padding"], import: Import::Map(CONV_MAP) }],
    samples: &[Sample("T[1, 2, 4, 3, 4], T[2, 2, 2, 2, 2], T[2], padding=[1, 0, 1]")],
    ..CONV
};

const CONV_TRANSPOSE: Op = Op {
    schema: "(a: Tensor, w: Tensor, bias: Tensor? = None, stride: ints = 1, padding: ints = 0, \
             output_padding: ints = 0, groups: int = 1, dilation: ints = 1) -> Tensor",
    level: Level::Composite(|b, call| {
        let given = Given {
            stride: call.ints("stride")?,
            padding: call.ints("padding")?,
            dilation: call.ints("dilation")?,
            output_padding: call.ints("output_padding")?,
            transposed: true,
            groups: call.int("groups")?,
        };
        let a = call.tensor("a")?;
        Ok(vec![convolved(b, call, &a, given)?.arg()])
    }),
    ..Op::BASE
};

const TRANSPOSE_MAP: &str = "a=input w=weight bias stride padding output_padding groups dilation";

pub static TORCH_CONV_TRANSPOSE1D: Op = Op {
    name: "torch.conv_transpose1d",
    doc: "Transposed convolution of one spatial dim.",
    aten: &[Aten { overloads: &["conv_transpose1d.default"], import: Import::Map(TRANSPOSE_MAP) }],
    samples: &[Sample("T[2, 3, 5], T[3, 2, 3], T[2], stride=[2], padding=[1], output_padding=[1]")],
    ..CONV_TRANSPOSE
};

pub static TORCH_CONV_TRANSPOSE2D: Op = Op {
    name: "torch.conv_transpose2d",
    doc: "Transposed convolution of two spatial dims.",
    aten: &[Aten { overloads: &["conv_transpose2d.input"], import: Import::Map(TRANSPOSE_MAP) }],
    samples: &[
        Sample("T[1, 4, 3, 4], T[4, 3, 3, 3], T[6], stride=[2, 2], padding=[1, 1], groups=2"),
        Sample("T[2, 3, 4], T[2, 3, 2, 2], dilation=[2, 1]"),
    ],
    ..CONV_TRANSPOSE
};

pub static TORCH_CONV_TRANSPOSE3D: Op = Op {
    name: "torch.conv_transpose3d",
    doc: "Transposed convolution of three spatial dims.",
    aten: &[Aten { overloads: &["conv_transpose3d.input"], import: Import::Map(TRANSPOSE_MAP) }],
    samples: &[Sample("T[1, 2, 3, 2, 3], T[2, 2, 2, 2, 2], T[2], stride=[1, 2, 1]")],
    ..CONV_TRANSPOSE
};

/// Spatial dims of the call's weight.
fn spatial_rank(call: &Call) -> Result<usize, OpError> {
    let w = call.tensor("w")?;
    match w.rank() {
        n @ 3..=5 => Ok(n - 2),
        _ => Err(call.error(format!("`w` is {}, it needs 1 to 3 spatial dims", meta::show(w.dims())))),
    }
}

/// A number for each of `n` dims; one alone stands for all.
pub fn spread_ints(call: &Call, name: &str, given: Vec<i64>, n: usize) -> Result<Vec<i64>, OpError> {
    match given.len() {
        m if m == n => Ok(given),
        1 => Ok(vec![given[0]; n]),
        m => Err(call.error(format!("`{name}` has {m} numbers, {n} are wanted"))),
    }
}

/// The numbers of a prim, one for each spatial dim.
struct Window {
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    output_padding: Vec<i64>,
}

impl Window {
    fn of(call: &Call, n: usize) -> Result<Window, OpError> {
        let read = |name: &str, low: i64| -> Result<Vec<i64>, OpError> {
            let ints = call.ints(name)?;
            if ints.len() != n || ints.iter().any(|i| *i < low) {
                return Err(
                    call.error(format!("`{name}` is {ints:?}, {n} numbers of at least {low} are wanted"))
                );
            }
            Ok(ints)
        };
        Ok(Window {
            stride: read("stride", 1)?,
            padding: read("padding", 0)?,
            dilation: read("dilation", 1)?,
            output_padding: read("output_padding", 0)?,
        })
    }

    /// Size of spatial dim `i` of the result from that of the input and the window.
    fn out(&self, i: usize, size: &Dim, window: &Dim, transposed: bool) -> Dim {
        let one = Dim::Known(1);
        let reach = window.sub(&one).mul(&Dim::Known(self.dilation[i]));
        let padding = Dim::Known(2 * self.padding[i]);
        let stride = Dim::Known(self.stride[i]);
        if transposed {
            let grown = size.sub(&one).mul(&stride).sub(&padding).add(&reach);
            return grown.add(&Dim::Known(self.output_padding[i] + 1));
        }
        let room = size.add(&padding).sub(&reach).sub(&one);
        room.floordiv(&stride).expect("strides are positive").add(&one)
    }
}

fn convolution_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let (a, w) = (call.tensor("a")?, call.tensor("w")?);
    let n = spatial_rank(call)?;
    let dims = convolution_dims(call, &a, &w, n)?;
    if let Some(bias) = call.opt_tensor("bias")?
        && (bias.rank() != 1 || bias.dims()[0].same(&dims[1]) == Some(false) || bias.dtype() != a.dtype())
    {
        let found = format!("{}{}", bias.dtype(), meta::show(bias.dims()));
        return Err(call.error(format!("`bias` is {found}, {}[{}] is wanted", a.dtype(), dims[1])));
    }
    meta::one(dims, a.dtype(), &a.ty)
}

fn convolution_dims(call: &Call, a: &Tensor, w: &Tensor, n: usize) -> Result<Vec<Dim>, OpError> {
    let shown = || format!("`a` {}, `w` {}", meta::show(a.dims()), meta::show(w.dims()));
    if a.rank() != n + 2 {
        return Err(call.error(format!("equally many dims are wanted: {}", shown())));
    }
    if a.dtype() != w.dtype() {
        return Err(call.error(format!("`a` is {}, `w` is {}: one dtype is wanted", a.dtype(), w.dtype())));
    }
    let transposed = call.bool("transposed")?;
    let groups = call.int("groups")?;
    let each = Dim::Known(groups);
    let (channels, out) = if transposed {
        (w.dims()[0].clone(), w.dims()[1].mul(&each))
    } else {
        (w.dims()[1].mul(&each), w.dims()[0].clone())
    };
    let splits = |d: &Dim| groups > 0 && d.known().is_none_or(|d| d % groups == 0);
    if channels.same(&a.dims()[1]) == Some(false) || !splits(&channels) || !splits(&out) {
        return Err(call.error(format!("channels do not match in {groups} groups: {}", shown())));
    }
    let window = Window::of(call, n)?;
    let mut dims = vec![a.dims()[0].clone(), out];
    for i in 0..n {
        let d = window.out(i, &a.dims()[i + 2], &w.dims()[i + 2], transposed);
        if d.known().is_some_and(|d| d < 1) {
            return Err(call.error(format!("the window is larger than the padded input: {}", shown())));
        }
        dims.push(d);
    }
    Ok(dims)
}

fn convolution_backward_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let (g, a, w) = (call.tensor("g")?, call.tensor("a")?, call.tensor("w")?);
    let n = spatial_rank(call)?;
    let dims = convolution_dims(call, &a, &w, n)?;
    let fits = g.rank() == dims.len() && g.dims().iter().zip(&dims).all(|(x, y)| x.same(y) != Some(false));
    if !fits {
        let (found, want) = (meta::show(g.dims()), meta::show(&dims));
        return Err(call.error(format!("`g` is {found}, the convolution gives {want}")));
    }
    let mask = mask(call)?;
    let bias = meta::one(vec![dims[1].clone()], a.dtype(), &a.ty)?;
    let all = [Some(Type::Tensor(a.ty.clone())), Some(Type::Tensor(w.ty.clone())), bias[0].clone()];
    if mask.len() != all.len() {
        return Err(call.error(format!("`mask` has {} flags, 3 are wanted", mask.len())));
    }
    Ok(all.into_iter().zip(mask).map(|(t, wanted)| t.filter(|_| wanted)).collect())
}

/// The numbers of a composite, as they were given.
struct Given {
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    output_padding: Vec<i64>,
    transposed: bool,
    groups: i64,
}

/// `prims.convolution` on `a` with the call's weight and bias; without a batch dim `a` is one element.
fn convolved(b: &mut Builder<'_>, call: &Call, a: &Tensor, given: Given) -> Built {
    let n = spatial_rank(call)?;
    let single = a.rank() == n + 1;
    let x = if single { b.unsqueeze(a, 0)? } else { a.clone() };
    let ints = |name: &str, given: Vec<i64>| spread_ints(call, name, given, n).map(Arg::ints);
    let args = vec![
        x.arg(),
        call.raw("w")?,
        call.raw("bias")?,
        ints("stride", given.stride)?,
        ints("padding", given.padding)?,
        ints("dilation", given.dilation)?,
        Arg::Bool(given.transposed),
        ints("output_padding", given.output_padding)?,
        Arg::Int(given.groups),
    ];
    let y = b.tensor("prims.convolution", args).map_err(|e| call.error(e.what))?;
    if single { b.squeeze(&y, &[0]) } else { Ok(y) }
}

fn conv(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let n = spatial_rank(call)?;
    let mut a = call.tensor("a")?;
    let dilation = spread_ints(call, "dilation", call.ints("dilation")?, n)?;
    let padding = match call.raw("padding")? {
        Arg::Str(s) if &*s == "valid" => vec![0],
        Arg::Str(s) if &*s == "same" => {
            if call.ints("stride")?.iter().any(|s| *s != 1) {
                return Err(call.error("`same` padding needs a stride of 1"));
            }
            let (even, extra) = same_padding(call, &dilation)?;
            a = padded_behind(b, &a, &extra)?;
            even
        }
        _ => call.ints("padding")?,
    };
    let given = Given {
        stride: call.ints("stride")?,
        padding,
        dilation,
        output_padding: vec![0],
        transposed: false,
        groups: call.int("groups")?,
    };
    Ok(vec![convolved(b, call, &a, given)?.arg()])
}

/// What `same` pads on both sides, and what it pads behind beyond that.
fn same_padding(call: &Call, dilation: &[i64]) -> Result<(Vec<i64>, Vec<i64>), OpError> {
    let w = call.tensor("w")?;
    let mut totals = Vec::new();
    for (k, d) in w.dims()[2..].iter().zip(dilation) {
        let Some(k) = k.known() else {
            return Err(call.error(format!("`same` padding needs a known window, found {k}")));
        };
        totals.push((k - 1) * d);
    }
    Ok((totals.iter().map(|t| t / 2).collect(), totals.iter().map(|t| t % 2).collect()))
}

/// The last dims with zeros behind.
fn padded_behind(b: &mut Builder<'_>, a: &Tensor, extra: &[i64]) -> Built {
    if extra.iter().all(|e| *e == 0) {
        return Ok(a.clone());
    }
    let outer = a.rank() - extra.len();
    let config = (0..a.rank()).map(|i| Arg::ints([0, if i < outer { 0 } else { extra[i - outer] }, 0]));
    let zero = super::emit::number_for(&super::Num::Int(0), a.dtype());
    b.tensor("prims.pad", vec![a.arg(), zero, Arg::List(config.collect())])
}
