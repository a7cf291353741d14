//! Normalisations. All are computed in the accumulation dtype (f32 for f16 and bf16) from the first to the last prim and
//! rounded once; weights and biases of another dtype are converted.
//!
//! Running statistics are values like any other: an op that renews them has them as results, and the importer writes
//! them back.

use super::arith::{Built, all_axes, axes_arg, count, size};
use super::aten::{Aten, AtenCall, Import};
use super::build::{Builder, Num, Tensor};
use super::{Augmented, Call, Grad, Level, Op, OpError, Sample, Vjp, import, meta};
use crate::ir::{Arg, Dim, Dtype};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &TORCH_LAYER_NORM,
    &TORCH_NATIVE_LAYER_NORM,
    &TORCH_NATIVE_LAYER_NORM_BACKWARD,
    &TORCH_RMS_NORM,
    &TORCH_RMS_NORM_BACKWARD,
    &TORCH_GROUP_NORM,
    &TORCH_NATIVE_GROUP_NORM,
    &TORCH_NATIVE_GROUP_NORM_BACKWARD,
    &TORCH_BATCH_NORM,
    &TORCH_NATIVE_BATCH_NORM,
    &TORCH_NATIVE_BATCH_NORM_BACKWARD,
    &TORCH_INSTANCE_NORM,
    &TORCH_NORMALIZE,
    &TORCH_LOCAL_RESPONSE_NORM,
    &TORCH_RENORM,
    &TORCH_WEIGHT_NORM,
];

pub static TORCH_LAYER_NORM: Op = Op {
    name: "torch.layer_norm",
    doc: "`(a - mean) / sqrt(var + eps) * weight + bias` over the last dims, which are `dims`.",
    schema: "(a: Tensor, dims: dims, weight: Tensor? = None, bias: Tensor? = None, eps: num = 1e-5) -> Tensor",
    level: Level::Composite(|b, call| {
        let [out, ..] = layer_norm(b, call)?;
        Ok(vec![out.arg()])
    }),
    vjp: Vjp::Augmented {
        forward: |b, call| {
            let args = ["a", "dims", "weight", "bias", "eps"].map(|n| call.raw(n));
            with_statistics(b, call, "torch.native_layer_norm", args.into_iter().collect::<Result<_, _>>()?)
        },
        backward: |b, d| {
            let [mean, rstd] = statistics(d)?;
            let mut args = vec![d.g()?.arg()];
            args.extend([d.call.raw("a")?, d.call.raw("dims")?, mean, rstd]);
            args.extend([d.call.raw("weight")?, d.call.raw("bias")?, mask_of(d, &["weight", "bias"])?]);
            norm_gradients(b, d, "torch.native_layer_norm_backward", args)
        },
    },
    aten: &[Aten {
        overloads: &["layer_norm.default"],
        import: Import::Map("a=input dims=normalized_shape weight bias eps"),
    }],
    samples: &[
        Sample("T[2, 5], T[5], T[5], dims=[5]"),
        Sample("T[2, 3, 4], dims=[3, 4]"),
        Sample("T[2, 5], T[5], none, dims=[5], eps=0.001"),
        Sample("T[2, 5], none, T[5], dims=[5]"),
        Sample("T[0, 5], T[5], T[5], dims=[5]"),
        Sample("bf16[2, 6], f32[6], f32[6], dims=[6]"),
        Sample("T[2, 4]{nonfinite}, dims=[4]"),
    ],
    ..Op::BASE
};

pub static TORCH_NATIVE_LAYER_NORM: Op = Op {
    name: "torch.native_layer_norm",
    doc: "As `torch.layer_norm`; mean and reciprocal standard deviation are results too, in the accumulation dtype, \
          with dims of 1.",
    schema: "(a: Tensor, dims: dims, weight: Tensor?, bias: Tensor?, eps: num) -> (Tensor, Tensor, Tensor)",
    level: Level::Composite(|b, call| Ok(layer_norm(b, call)?.iter().map(Tensor::arg).collect())),
    vjp: Vjp::Rule(|b, d| {
        let Some(g) = d.cotangent(0) else { return Ok(vec![None; d.tensors().len()]) };
        let mut args = vec![g.arg(), d.call.raw("a")?, d.call.raw("dims")?];
        args.extend([d.output(1)?.arg(), d.output(2)?.arg()]);
        args.extend([d.call.raw("weight")?, d.call.raw("bias")?, mask_of(d, &["weight", "bias"])?]);
        norm_gradients(b, d, "torch.native_layer_norm_backward", args)
    }),
    aten: &[Aten {
        overloads: &["native_layer_norm.default"],
        import: Import::With(import_native_layer_norm),
    }],
    samples: &[
        Sample("T[2, 5], T[5], T[5], dims=[5], eps=1e-05"),
        Sample("T[2, 3, 4], none, none, dims=[3, 4], eps=1e-05"),
        Sample("T[0, 5], T[5], T[5], dims=[5], eps=1e-05"),
    ],
    ..Op::BASE
};

pub static TORCH_NATIVE_LAYER_NORM_BACKWARD: Op = Op {
    name: "torch.native_layer_norm_backward",
    doc: "Gradients of layer norm in input, weight and bias, of those that `mask` asks for and that exist.",
    schema: "(g: Tensor, a: Tensor, dims: dims, mean: Tensor, rstd: Tensor, weight: Tensor?, bias: Tensor?, \
             mask: bool[3]) -> (Tensor?, Tensor?, Tensor?)",
    level: Level::Composite(layer_norm_backward),
    aten: &[Aten {
        overloads: &["native_layer_norm_backward.default"],
        import: Import::Map(
            "g=grad_out a=input dims=normalized_shape mean rstd weight bias mask=output_mask",
        ),
    }],
    samples: &[
        Sample("T[2, 5], T[2, 5], T[2, 1], T[2, 1]{pos}, T[5], T[5], dims=[5], mask=[true, true, true]"),
        Sample("T[2, 3, 4], T[2, 3, 4], T[2, 1, 1], T[2, 1, 1]{pos}, dims=[3, 4], mask=[true, false, false]"),
        Sample("T[2, 5], T[2, 5], T[2, 1], T[2, 1]{pos}, T[5], T[5], dims=[5], mask=[false, true, false]"),
    ],
    ..Op::BASE
};

pub static TORCH_RMS_NORM: Op = Op {
    name: "torch.rms_norm",
    doc: "`a / sqrt(mean(a²) + eps) * weight` over the last dims, which are `dims`. Without `eps`: the distance from 1 \
          to the next number of the accumulation dtype.",
    schema: "(a: Tensor, dims: dims, weight: Tensor? = None, eps: num? = None) -> Tensor",
    level: Level::Composite(rms_norm),
    // The reciprocal root mean square is computed again: one sum over what is kept in any case.
    vjp: Vjp::Rule(|b, d| {
        let a = d.call.tensor("a")?;
        let axes = last_axes(d.call, &a)?;
        let x = b.to(&a, a.dtype().acc())?;
        let eps = d.call.opt_num("eps")?.unwrap_or_else(|| machine_epsilon(x.dtype()));
        let rstd = rms(b, &x, &axes, &eps)?;
        let rstd = b.keepdim(&rstd, x.dims(), &axes)?;
        // Of complex numbers everything that the cotangent is multiplied by is conjugated.
        let (a, rstd) = (b.conj(&a)?, b.conj(&rstd)?);
        let weight = d.call.opt_tensor("weight")?.map(|w| b.conj(&w)).transpose()?;
        let weight = weight.map_or(Arg::None, |w| w.arg());
        let args =
            vec![d.g()?.arg(), a.arg(), d.call.raw("dims")?, rstd.arg(), weight, mask_of(d, &["weight"])?];
        norm_gradients(b, d, "torch.rms_norm_backward", args)
    }),
    aten: &[
        Aten {
            overloads: &["rms_norm.default"],
            import: Import::Map("a=input dims=normalized_shape weight eps"),
        },
        Aten { overloads: &["_fused_rms_norm.default"], import: Import::With(import_fused_rms_norm) },
    ],
    samples: &[
        Sample("T[2, 5], T[5], dims=[5]"),
        Sample("T[2, 5], T[5], dims=[5], eps=1e-05"),
        Sample("T[2, 3, 4], dims=[3, 4], eps=0.1"),
        Sample("T[0, 5], T[5], dims=[5]"),
        Sample("bf16[2, 6], f32[6], dims=[6], eps=1e-05"),
    ],
    ..Op::BASE
};

pub static TORCH_RMS_NORM_BACKWARD: Op = Op {
    name: "torch.rms_norm_backward",
    doc: "Gradients of rms norm in input and weight, of those that `mask` asks for and that exist.",
    schema: "(g: Tensor, a: Tensor, dims: dims, rstd: Tensor, weight: Tensor?, mask: bool[2]) -> (Tensor?, Tensor?)",
    level: Level::Composite(rms_norm_backward),
    aten: &[Aten {
        overloads: &["_fused_rms_norm_backward.default"],
        import: Import::Map("g=grad_out a=input dims=normalized_shape rstd weight mask=output_mask"),
    }],
    samples: &[
        Sample("T[2, 5], T[2, 5], T[2, 1]{pos}, T[5], dims=[5], mask=[true, true]"),
        Sample("T[2, 3, 4], T[2, 3, 4], T[2, 1, 1]{pos}, none, dims=[3, 4], mask=[true, false]"),
    ],
    ..Op::BASE
};

pub static TORCH_GROUP_NORM: Op = Op {
    name: "torch.group_norm",
    doc: "Normalises groups of channels (axis 1), each over its channels and all later axes.",
    schema: "(a: Tensor, groups: int, weight: Tensor? = None, bias: Tensor? = None, eps: num = 1e-5) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        if a.rank() < 2 {
            return Err(call.error(format!("`a` is {}, it needs batch and channels", meta::show(a.dims()))));
        }
        let [out, ..] = group_norm(b, call, &a)?;
        Ok(vec![out.arg()])
    }),
    vjp: Vjp::Augmented {
        forward: |b, call| {
            let mut args = vec![call.raw("a")?, call.raw("weight")?, call.raw("bias")?];
            args.extend(group_sizes(call)?);
            args.extend([call.raw("groups")?, call.raw("eps")?]);
            with_statistics(b, call, "torch.native_group_norm", args)
        },
        backward: |b, d| {
            let [mean, rstd] = statistics(d)?;
            let mut args = vec![d.g()?.arg(), d.call.raw("a")?, mean, rstd, d.call.raw("weight")?];
            args.extend(group_sizes(d.call)?);
            args.extend([d.call.raw("groups")?, mask_of(d, &["weight", "bias"])?]);
            norm_gradients(b, d, "torch.native_group_norm_backward", args)
        },
    },
    aten: &[Aten {
        overloads: &["group_norm.default"],
        import: Import::Map("a=input groups=num_groups weight bias eps"),
    }],
    samples: &[
        Sample("T[2, 6, 3], T[6], T[6], groups=2"),
        Sample("T[2, 4, 3, 2], groups=4"),
        Sample("T[3, 4], T[4], none, groups=1, eps=0.001"),
    ],
    ..Op::BASE
};

pub static TORCH_NATIVE_GROUP_NORM: Op = Op {
    name: "torch.native_group_norm",
    doc: "As `torch.group_norm`; mean and reciprocal standard deviation of each group are results too, `[n, groups]`.",
    schema: "(a: Tensor, weight: Tensor?, bias: Tensor?, n: dim, c: dim, hw: dim, groups: int, eps: num) -> (Tensor, \
             Tensor, Tensor)",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        Ok(group_norm(b, call, &a)?.iter().map(Tensor::arg).collect())
    }),
    vjp: Vjp::Rule(|b, d| {
        let Some(g) = d.cotangent(0) else { return Ok(vec![None; d.tensors().len()]) };
        let mut args = vec![g.arg(), d.call.raw("a")?, d.output(1)?.arg(), d.output(2)?.arg()];
        for name in ["weight", "n", "c", "hw", "groups"] {
            args.push(d.call.raw(name)?);
        }
        args.push(mask_of(d, &["weight", "bias"])?);
        norm_gradients(b, d, "torch.native_group_norm_backward", args)
    }),
    aten: &[Aten {
        overloads: &["native_group_norm.default"],
        import: Import::With(import_native_group_norm),
    }],
    samples: &[
        Sample("T[2, 6, 3], T[6], T[6], n=2, c=6, hw=3, groups=2, eps=1e-05"),
        Sample("T[2, 4, 3, 2], none, none, n=2, c=4, hw=6, groups=4, eps=1e-05"),
    ],
    ..Op::BASE
};

pub static TORCH_NATIVE_GROUP_NORM_BACKWARD: Op = Op {
    name: "torch.native_group_norm_backward",
    doc: "Gradients of group norm in input, weight and bias, of those that `mask` asks for and that exist.",
    schema: "(g: Tensor, a: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor?, n: dim, c: dim, hw: dim, groups: int, \
             mask: bool[3]) -> (Tensor?, Tensor?, Tensor?)",
    level: Level::Composite(group_norm_backward),
    aten: &[Aten {
        overloads: &["native_group_norm_backward.default"],
        import: Import::Map(
            "g=grad_out a=input mean rstd weight n=N c=C hw=HxW groups=group mask=output_mask",
        ),
    }],
    samples: &[
        Sample(
            "T[2, 6, 3], T[2, 6, 3], T[2, 2], T[2, 2]{pos}, T[6], n=2, c=6, hw=3, groups=2, mask=[true, true, true]",
        ),
        Sample(
            "T[2, 4, 2], T[2, 4, 2], T[2, 4], T[2, 4]{pos}, none, n=2, c=4, hw=2, groups=4, mask=[true, false, false]",
        ),
    ],
    ..Op::BASE
};

pub static TORCH_BATCH_NORM: Op = Op {
    name: "torch.batch_norm",
    doc: "Normalises each channel (axis 1): by the statistics of the batch where `train` is true or none are given, else \
          by the given ones. Renews none.",
    schema: "(a: Tensor, weight: Tensor?, bias: Tensor?, mean: Tensor?, var: Tensor?, train: bool, momentum: num, \
             eps: num) -> Tensor",
    level: Level::Composite(|b, call| Ok(vec![batch_norm(b, call)?.out.arg()])),
    vjp: Vjp::Augmented {
        forward: |b, call| with_statistics(b, call, "torch.native_batch_norm", call.raw_args()),
        backward: |b, d| {
            let saved = statistics(d)?;
            batch_norm_gradients(b, d, d.g()?, saved)
        },
    },
    aten: &[Aten { overloads: &["batch_norm.default"], import: Import::With(import_batch_norm) }],
    samples: &[
        Sample("T[2, 3, 4], T[3], T[3], T[3], T[3]{pos}, train=false, momentum=0.1, eps=1e-05"),
        Sample("T[4, 3], T[3], T[3], train=true, momentum=0.1, eps=1e-05"),
        Sample("T[2, 3, 2, 2], none, none, T[3], T[3]{pos}, train=false, momentum=0.1, eps=0.001"),
        Sample("bf16[2, 3, 4], f32[3], f32[3], f32[3], f32[3]{pos}, train=false, momentum=0.1, eps=1e-05"),
    ],
    ..Op::BASE
};

pub static TORCH_NATIVE_BATCH_NORM: Op = Op {
    name: "torch.native_batch_norm",
    doc: "As `torch.batch_norm`, with more results: mean and reciprocal standard deviation of the batch (empty where it \
          does not train), then the new running mean and variance (absent where none are given).",
    schema: "(a: Tensor, weight: Tensor?, bias: Tensor?, mean: Tensor?, var: Tensor?, train: bool, momentum: num, \
             eps: num) -> (Tensor, Tensor, Tensor, Tensor?, Tensor?)",
    level: Level::Composite(native_batch_norm),
    vjp: Vjp::Rule(|b, d| {
        let Some(g) = d.cotangent(0) else { return Ok(vec![None; d.tensors().len()]) };
        let saved = [d.output(1)?.arg(), d.output(2)?.arg()];
        batch_norm_gradients(b, d, g, saved)
    }),
    aten: &[
        Aten {
            overloads: &[
                "_native_batch_norm_legit.default",
                "_native_batch_norm_legit.no_stats",
                "_native_batch_norm_legit_no_training.default",
                "native_batch_norm.default",
                "_batch_norm_no_update.default",
                "_batch_norm_with_update.default",
                "cudnn_batch_norm.default",
            ],
            import: Import::With(import_native_batch_norm),
        },
        Aten {
            overloads: &[
                "_native_batch_norm_legit_functional.default",
                "_batch_norm_with_update_functional.default",
            ],
            import: Import::With(import_functional_batch_norm),
        },
    ],
    samples: &[
        Sample("T[2, 3, 4], T[3], T[3], T[3], T[3]{pos}, train=true, momentum=0.1, eps=1e-05"),
        Sample("T[2, 3, 4], T[3], T[3], T[3], T[3]{pos}, train=false, momentum=0.1, eps=1e-05"),
        Sample("T[4, 3], none, none, none, none, train=true, momentum=0.1, eps=1e-05"),
    ],
    ..Op::BASE
};

pub static TORCH_NATIVE_BATCH_NORM_BACKWARD: Op = Op {
    name: "torch.native_batch_norm_backward",
    doc: "Gradients of batch norm in input, weight and bias, of those that `mask` asks for and that exist. Training, by \
          the saved statistics of the batch; else by the running ones.",
    schema: "(g: Tensor, a: Tensor, weight: Tensor?, mean: Tensor?, var: Tensor?, save_mean: Tensor?, save_rstd: Tensor?, \
             train: bool, eps: num, mask: bool[3]) -> (Tensor?, Tensor?, Tensor?)",
    level: Level::Composite(batch_norm_backward),
    aten: &[Aten {
        overloads: &["native_batch_norm_backward.default"],
        import: Import::Map(
            "g=grad_out a=input weight mean=running_mean var=running_var save_mean save_rstd=save_invstd train eps \
             mask=output_mask",
        ),
    }],
    samples: &[
        Sample(
            "T[2, 3, 4], T[2, 3, 4], T[3], T[3], T[3]{pos}, T[3], T[3]{pos}, train=true, eps=1e-05, \
             mask=[true, true, true]",
        ),
        Sample(
            "T[2, 3, 4], T[2, 3, 4], T[3], T[3], T[3]{pos}, none, none, train=false, eps=1e-05, \
             mask=[true, true, true]",
        ),
    ],
    ..Op::BASE
};

pub static TORCH_INSTANCE_NORM: Op = Op {
    name: "torch.instance_norm",
    doc: "Normalises each channel (axis 1) of each element of the batch over the later axes, or, without \
          `use_input_stats`, by the given statistics. Renews none.",
    schema: "(a: Tensor, weight: Tensor?, bias: Tensor?, mean: Tensor?, var: Tensor?, use_input_stats: bool, \
             momentum: num, eps: num) -> Tensor",
    level: Level::Composite(instance_norm),
    aten: &[Aten { overloads: &["instance_norm.default"], import: Import::With(import_instance_norm) }],
    samples: &[
        Sample("T[2, 3, 4], T[3], T[3], none, none, use_input_stats=true, momentum=0.1, eps=1e-05"),
        Sample("T[2, 3, 2, 2], none, none, T[3], T[3]{pos}, use_input_stats=false, momentum=0.1, eps=1e-05"),
    ],
    ..Op::BASE
};

// Gradients.

/// The forward of a norm as the op that gives its statistics, too: results 1 and 2.
fn with_statistics(b: &mut Builder<'_>, call: &Call, op: &str, args: Vec<Arg>) -> Result<Augmented, OpError> {
    let results = b.call(op, args).map_err(|e| call.error(e.what))?;
    let of = |at: usize| {
        let v = results.get(at).and_then(Arg::value);
        v.ok_or_else(|| call.error("its forward has no statistics")).and_then(|v| b.as_tensor(v))
    };
    let extra = vec![of(1)?, of(2)?];
    Ok(Augmented { results: results[..1].to_vec(), extra })
}

fn statistics(d: &Grad<'_>) -> Result<[Arg; 2], OpError> {
    match d.extra {
        [mean, rstd] => Ok([mean.arg(), rstd.arg()]),
        _ => Err(d.call.error("its statistics were not kept")),
    }
}

/// Which gradients are wanted: of `a` and of these, those that are there.
fn mask_of(d: &Grad<'_>, names: &[&str]) -> Result<Arg, OpError> {
    let mut at = 0;
    let mut mask = vec![Arg::Bool(d.wants(0))];
    for name in names {
        let there = d.call.has(name);
        at += usize::from(there);
        mask.push(Arg::Bool(there && d.wants(at)));
    }
    Ok(Arg::List(mask))
}

/// The results of a backward op as gradients of the tensors that are there, in order.
fn norm_gradients(
    b: &mut Builder<'_>,
    d: &Grad<'_>,
    op: &str,
    args: Vec<Arg>,
) -> Result<Vec<Option<Tensor>>, OpError> {
    let grads = b.call(op, args).map_err(|e| d.call.error(e.what))?;
    let there = [true, d.call.has("weight"), d.call.has("bias")];
    let mut all = Vec::new();
    for (at, _) in there.iter().enumerate().filter(|(_, there)| **there) {
        all.push(grads.get(at).and_then(Arg::value).map(|v| b.as_tensor(v)).transpose()?);
    }
    Ok(all)
}

/// Gradients of batch norm by the statistics that it saved, in training or where it is given no running ones; else by
/// the running ones, which get no gradient, as in PyTorch.
fn batch_norm_gradients(
    b: &mut Builder<'_>,
    d: &Grad<'_>,
    g: Tensor,
    saved: [Arg; 2],
) -> Result<Vec<Option<Tensor>>, OpError> {
    let running = ["mean", "var"].map(|n| d.call.has(n));
    let of_batch = d.call.bool("train")? || running != [true, true];
    let mut args = vec![g.arg()];
    for name in ["a", "weight", "mean", "var"] {
        args.push(d.call.raw(name)?);
    }
    args.extend(if of_batch { saved } else { [Arg::None, Arg::None] });
    args.extend([Arg::Bool(of_batch), d.call.raw("eps")?, mask_of(d, &["weight", "bias"])?]);
    let mut all = norm_gradients(b, d, "torch.native_batch_norm_backward", args)?;
    all.resize(d.tensors().len(), None);
    Ok(all)
}

/// Batch, channels and the rest of a group norm's input.
fn group_sizes(call: &Call) -> Result<[Arg; 3], OpError> {
    let a = call.tensor("a")?;
    let [n, c, rest @ ..] = a.dims() else {
        return Err(call.error(format!("`a` is {}, it needs batch and channels", meta::show(a.dims()))));
    };
    Ok([Arg::dim(n.clone()), Arg::dim(c.clone()), Arg::dim(Dim::product(rest))])
}

// Over the last dims.

/// The axes of the last dims, which must be `dims`.
fn last_axes(call: &Call, a: &Tensor) -> Result<Vec<usize>, OpError> {
    let dims = call.dims("dims")?;
    let first = a.rank().checked_sub(dims.len()).filter(|_| !dims.is_empty());
    let fits = first.is_some_and(|f| a.dims()[f..].iter().zip(&dims).all(|(x, d)| x.same(d) != Some(false)));
    match first {
        Some(first) if fits => Ok((first..a.rank()).collect()),
        _ => Err(call.error(format!(
            "`a` is {}, its last dims should be {}",
            meta::show(a.dims()),
            meta::show(&dims)
        ))),
    }
}

/// `x * weight + bias` with those that are there, in the dtype of `x`, after `shape`, which gives them dims.
fn affine(
    b: &mut Builder<'_>,
    call: &Call,
    x: Tensor,
    shape: &dyn Fn(&mut Builder<'_>, &Tensor) -> Built,
) -> Built {
    let mut x = x;
    if let Some(w) = call.opt_tensor("weight")? {
        let w = b.to(&w, x.dtype())?;
        let w = shape(b, &w)?;
        x = b.mul(&x, &w)?;
    }
    if let Some(bias) = call.opt_tensor("bias")? {
        let bias = b.to(&bias, x.dtype())?;
        let bias = shape(b, &bias)?;
        x = b.add(&x, &bias)?;
    }
    Ok(x)
}

/// Mean and variance (of the whole population) over axes, which go.
fn moments(b: &mut Builder<'_>, x: &Tensor, axes: &[usize]) -> Result<(Tensor, Tensor), OpError> {
    let results = b.call("prims.var_mean", vec![x.arg(), axes_arg(axes), Arg::Int(0)])?;
    let wrong = || OpError { op: "prims.var_mean".into(), what: "has two tensor results".into() };
    let [var, mean] = results.as_slice() else { return Err(wrong()) };
    let (var, mean) = (var.value().ok_or_else(wrong)?, mean.value().ok_or_else(wrong)?);
    Ok((b.as_tensor(mean)?, b.as_tensor(var)?))
}

/// `1 / sqrt(var + eps)`.
fn reciprocal_std(b: &mut Builder<'_>, var: &Tensor, eps: &Num) -> Built {
    let v = b.add(var, eps.clone())?;
    b.rsqrt(&v)
}

/// `(x - mean) * rstd` for statistics that lack `axes`.
fn normalised(b: &mut Builder<'_>, x: &Tensor, mean: &Tensor, rstd: &Tensor, axes: &[usize]) -> Built {
    let m = b.spread(mean, x.dims(), axes)?;
    let r = b.spread(rstd, x.dims(), axes)?;
    let d = b.sub(x, &m)?;
    b.mul(&d, &r)
}

/// Result, mean and reciprocal standard deviation, the latter with dims of 1.
fn layer_norm(b: &mut Builder<'_>, call: &Call) -> Result<[Tensor; 3], OpError> {
    let a = call.tensor("a")?;
    let axes = last_axes(call, &a)?;
    let x = b.to(&a, a.dtype().acc())?;
    let (mean, var) = moments(b, &x, &axes)?;
    let rstd = reciprocal_std(b, &var, &call.num("eps")?)?;
    let n = normalised(b, &x, &mean, &rstd, &axes)?;
    let y = affine(b, call, n, &|b, w| b.expand(w, x.dims()))?;
    let y = b.to(&y, a.dtype())?;
    Ok([y, b.keepdim(&mean, x.dims(), &axes)?, b.keepdim(&rstd, x.dims(), &axes)?])
}

/// Files of CPU exports record the statistics of half inputs in the half dtype.
fn import_native_layer_norm(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let mut args = import::args(c, &["input", "normalized_shape", "weight", "bias"])?;
    args.push(import::float(c, "eps")?);
    let results = b.call("torch.native_layer_norm", args)?;
    in_recorded_dtypes(b, c, results)
}

/// Results cast to the dtypes that the model file records for them.
fn in_recorded_dtypes(b: &mut Builder<'_>, c: &AtenCall, results: Vec<Arg>) -> Result<Vec<Arg>, OpError> {
    let cast = |(i, r): (usize, Arg)| match (import::recorded_dtype(c, i), r.value()) {
        (Some(dtype), Some(v)) if b.as_tensor(v)?.dtype() != dtype => {
            Ok(b.tensor("torch.to", vec![r, Arg::Dtype(dtype)])?.arg())
        }
        _ => Ok(r),
    };
    results.into_iter().enumerate().map(cast).collect()
}

/// The flags of `mask`.
pub fn mask(call: &Call) -> Result<Vec<bool>, OpError> {
    match call.raw("mask")? {
        Arg::List(l) => l
            .iter()
            .map(|a| match a {
                Arg::Bool(x) => Ok(*x),
                other => Err(call.error(format!("`mask` must be bools, found {other:?}"))),
            })
            .collect(),
        other => Err(call.error(format!("`mask` must be a list of bools, found {other:?}"))),
    }
}

/// A gradient in the dtype of what it is the gradient of.
fn gradient(b: &mut Builder<'_>, g: &Tensor, of: Dtype) -> Result<Arg, OpError> {
    Ok(b.to(g, of)?.arg())
}

/// Gradient of `(x - mean) * rstd` in `x`, from the normalised value, where mean and `rstd` come from `x` itself over
/// `axes`: `rstd * (g - mean(g) - n * mean(g * n))`. `centred` is false for rms norm, whose mean is no part of it.
fn through_statistics(
    b: &mut Builder<'_>,
    g: &Tensor,
    n: &Tensor,
    rstd: &Tensor,
    axes: &[usize],
    centred: bool,
) -> Built {
    let gn = b.mul(g, n)?;
    let m = b.mean(&gn, axes)?;
    let m = b.spread(&m, n.dims(), axes)?;
    let along = b.mul(n, &m)?;
    let mut d = b.sub(g, &along)?;
    if centred {
        let mean = b.mean(g, axes)?;
        let mean = b.spread(&mean, n.dims(), axes)?;
        d = b.sub(&d, &mean)?;
    }
    b.mul(&d, rstd)
}

fn layer_norm_backward(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (g0, a) = (call.tensor("g")?, call.tensor("a")?);
    let axes = last_axes(call, &a)?;
    let outer: Vec<usize> = (0..axes[0]).collect();
    let acc = a.dtype().acc();
    let (g, x) = (b.to(&g0, acc)?, b.to(&a, acc)?);
    let (mean, rstd) = (call.tensor("mean")?, call.tensor("rstd")?);
    let (mean, rstd) = (b.to(&mean, acc)?, b.to(&rstd, acc)?);
    let d = b.sub(&x, &mean)?;
    let n = b.mul(&d, &rstd)?;
    let mask = mask(call)?;
    let weight = call.opt_tensor("weight")?;
    let mut grads = vec![Arg::None; 3];
    if mask[0] {
        let gw = weighted(b, &g, weight.as_ref(), &|b, w| b.expand(w, x.dims()))?;
        let dx = through_statistics(b, &gw, &n, &rstd, &axes, true)?;
        grads[0] = gradient(b, &dx, a.dtype())?;
    }
    if mask[1]
        && let Some(w) = &weight
    {
        let gn = b.mul(&g, &n)?;
        let dw = b.sum(&gn, &outer)?;
        grads[1] = gradient(b, &dw, w.dtype())?;
    }
    if mask[2]
        && let Some(bias) = call.opt_tensor("bias")?
    {
        let db = b.sum(&g, &outer)?;
        grads[2] = gradient(b, &db, bias.dtype())?;
    }
    Ok(grads)
}

/// `g * weight`, the gradient of the normalised value.
fn weighted(
    b: &mut Builder<'_>,
    g: &Tensor,
    weight: Option<&Tensor>,
    shape: &dyn Fn(&mut Builder<'_>, &Tensor) -> Built,
) -> Built {
    let Some(w) = weight else { return Ok(g.clone()) };
    let w = b.to(w, g.dtype())?;
    let w = shape(b, &w)?;
    b.mul(g, &w)
}

/// `1 / sqrt(mean(x²) + eps)`, without `axes`.
fn rms(b: &mut Builder<'_>, x: &Tensor, axes: &[usize], eps: &Num) -> Built {
    let squares = b.mul(x, x)?;
    let sum = b.sum(&squares, axes)?;
    let mean = b.div(&sum, size(&count(x.dims(), axes)))?;
    reciprocal_std(b, &mean, eps)
}

fn machine_epsilon(acc: Dtype) -> Num {
    Num::Float(if matches!(acc, Dtype::F64 | Dtype::C128) { f64::EPSILON } else { f64::from(f32::EPSILON) })
}

fn rms_norm(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let axes = last_axes(call, &a)?;
    let x = b.to(&a, a.dtype().acc())?;
    let eps = call.opt_num("eps")?.unwrap_or_else(|| machine_epsilon(x.dtype()));
    let rstd = rms(b, &x, &axes, &eps)?;
    let rstd = b.spread(&rstd, x.dims(), &axes)?;
    let n = b.mul(&x, &rstd)?;
    let weight = call.opt_tensor("weight")?;
    let y = weighted(b, &n, weight.as_ref(), &|b, w| b.expand(w, x.dims()))?;
    Ok(vec![b.to(&y, a.dtype())?.arg()])
}

/// Its second result is the reciprocal root mean square, computed anew: dead where nobody wants it.
fn import_fused_rms_norm(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let mut args = import::args(c, &["input", "normalized_shape", "weight"])?;
    args.push(import::float(c, "eps")?);
    let out = b.tensor("torch.rms_norm", args.clone())?;
    let a = import::tensor(b, c, "input")?;
    let acc = a.dtype().acc();
    let Arg::List(dims) = &args[1] else { return Err(c.error("`normalized_shape` must be a list")) };
    let axes: Vec<usize> = (a.rank().saturating_sub(dims.len())..a.rank()).collect();
    let x = b.to(&a, acc)?;
    let eps = Num::from_arg(&args[3]).unwrap_or_else(|| machine_epsilon(acc));
    let rstd = rms(b, &x, &axes, &eps)?;
    Ok(vec![out.arg(), b.keepdim(&rstd, x.dims(), &axes)?.arg()])
}

fn rms_norm_backward(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (g0, a) = (call.tensor("g")?, call.tensor("a")?);
    let axes = last_axes(call, &a)?;
    let acc = a.dtype().acc();
    let (g, x, rstd) = (b.to(&g0, acc)?, b.to(&a, acc)?, call.tensor("rstd")?);
    let rstd = b.to(&rstd, acc)?;
    let n = b.mul(&x, &rstd)?;
    let mask = mask(call)?;
    let weight = call.opt_tensor("weight")?;
    let mut grads = vec![Arg::None; 2];
    if mask[0] {
        let gw = weighted(b, &g, weight.as_ref(), &|b, w| b.expand(w, x.dims()))?;
        let dx = through_statistics(b, &gw, &n, &rstd, &axes, false)?;
        grads[0] = gradient(b, &dx, a.dtype())?;
    }
    if mask[1]
        && let Some(w) = &weight
    {
        let gn = b.mul(&g, &n)?;
        let outer: Vec<usize> = (0..axes[0]).collect();
        let dw = b.sum(&gn, &outer)?;
        grads[1] = gradient(b, &dw, w.dtype())?;
    }
    Ok(grads)
}

// Over groups of channels.

/// `[n, groups, channels of a group * rest]`.
fn grouped(call: &Call, dims: &[Dim]) -> Result<Vec<Dim>, OpError> {
    let groups = call.int("groups")?;
    let channels = &dims[1];
    if groups < 1 || channels.known().is_some_and(|c| c % groups != 0) {
        return Err(call.error(format!("{channels} channels do not make {groups} groups")));
    }
    let each = channels.floordiv(&Dim::Known(groups)).expect("there is at least one group");
    Ok(vec![dims[0].clone(), Dim::Known(groups), each.mul(&Dim::product(&dims[2..]))])
}

/// A value for each channel, along axis 1 of `dims`.
fn along_channels(b: &mut Builder<'_>, w: &Tensor, dims: &[Dim]) -> Built {
    b.tensor("prims.broadcast_in_dim", vec![w.arg(), Arg::dims(dims), Arg::ints([1])])
}

/// Result, mean and reciprocal standard deviation, the latter `[n, groups]`.
fn group_norm(b: &mut Builder<'_>, call: &Call, a: &Tensor) -> Result<[Tensor; 3], OpError> {
    let shape = grouped(call, a.dims())?;
    let x = b.to(a, a.dtype().acc())?;
    let x = b.reshape(&x, &shape)?;
    let (mean, var) = moments(b, &x, &[2])?;
    let rstd = reciprocal_std(b, &var, &call.num("eps")?)?;
    let n = normalised(b, &x, &mean, &rstd, &[2])?;
    let n = b.reshape(&n, a.dims())?;
    let y = affine(b, call, n, &|b, w| along_channels(b, w, a.dims()))?;
    Ok([b.to(&y, a.dtype())?, mean, rstd])
}

fn import_native_group_norm(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let mut args = import::args(c, &["input", "weight", "bias", "N", "C", "HxW", "group"])?;
    args.push(import::float(c, "eps")?);
    let results = b.call("torch.native_group_norm", args)?;
    in_recorded_dtypes(b, c, results)
}

fn group_norm_backward(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (g0, a) = (call.tensor("g")?, call.tensor("a")?);
    let shape = grouped(call, a.dims())?;
    let acc = a.dtype().acc();
    let (g, x) = (b.to(&g0, acc)?, b.to(&a, acc)?);
    let x = b.reshape(&x, &shape)?;
    let (mean, rstd) = (call.tensor("mean")?, call.tensor("rstd")?);
    let (mean, rstd) = (b.to(&mean, acc)?, b.to(&rstd, acc)?);
    let n = normalised(b, &x, &mean, &rstd, &[2])?;
    let mask = mask(call)?;
    let weight = call.opt_tensor("weight")?;
    let others = all_but_channels(a.rank());
    let mut grads = vec![Arg::None; 3];
    if mask[0] {
        let gw = weighted(b, &g, weight.as_ref(), &|b, w| along_channels(b, w, a.dims()))?;
        let gw = b.reshape(&gw, &shape)?;
        let r = b.spread(&rstd, &shape, &[2])?;
        let dx = through_statistics(b, &gw, &n, &r, &[2], true)?;
        let dx = b.reshape(&dx, a.dims())?;
        grads[0] = gradient(b, &dx, a.dtype())?;
    }
    let dtype = weight.as_ref().map_or(a.dtype(), Tensor::dtype);
    if mask[1] {
        let n = b.reshape(&n, a.dims())?;
        let gn = b.mul(&g, &n)?;
        let dw = b.sum(&gn, &others)?;
        grads[1] = gradient(b, &dw, dtype)?;
    }
    if mask[2] {
        let db = b.sum(&g, &others)?;
        grads[2] = gradient(b, &db, dtype)?;
    }
    Ok(grads)
}

fn all_but_channels(rank: usize) -> Vec<usize> {
    all_axes(rank).into_iter().filter(|i| *i != 1).collect()
}

// Over the batch.

/// What a batch norm computes on its way.
struct BatchNorm {
    out: Tensor,
    /// Mean, variance and reciprocal standard deviation of the batch, where they were used.
    batch: Option<[Tensor; 3]>,
}

fn batch_norm(b: &mut Builder<'_>, call: &Call) -> Result<BatchNorm, OpError> {
    let a = call.tensor("a")?;
    if a.rank() < 2 || !a.dtype().is_float() {
        let found = format!("{}{}", a.dtype(), meta::show(a.dims()));
        return Err(call.error(format!("`a` is {found}, floats with batch and channels are wanted")));
    }
    let eps = call.num("eps")?;
    let axes = all_but_channels(a.rank());
    let x = b.to(&a, a.dtype().acc())?;
    let running = (call.opt_tensor("mean")?, call.opt_tensor("var")?);
    let (mean, rstd, batch) = match running {
        (Some(mean), Some(var)) if !call.bool("train")? => {
            let (mean, var) = (b.to(&mean, x.dtype())?, b.to(&var, x.dtype())?);
            let rstd = reciprocal_std(b, &var, &eps)?;
            (mean, rstd, None)
        }
        _ => {
            let (mean, var) = moments(b, &x, &axes)?;
            let rstd = reciprocal_std(b, &var, &eps)?;
            (mean.clone(), rstd.clone(), Some([mean, var, rstd]))
        }
    };
    let n = normalised(b, &x, &mean, &rstd, &axes)?;
    let y = affine(b, call, n, &|b, w| along_channels(b, w, a.dims()))?;
    Ok(BatchNorm { out: b.to(&y, a.dtype())?, batch })
}

fn native_batch_norm(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let norm = batch_norm(b, call)?;
    let (mean, var) = (call.opt_tensor("mean")?, call.opt_tensor("var")?);
    let Some([batch_mean, batch_var, rstd]) = norm.batch else {
        let none = b.full(&[Dim::Known(0)], 0.0, a.dtype().acc(), &a.ty.device)?.arg();
        let kept = |t: Option<Tensor>| t.map_or(Arg::None, |t| t.arg());
        return Ok(vec![norm.out.arg(), none.clone(), none, kept(mean), kept(var)]);
    };
    let momentum = call.float("momentum")?;
    let n = count(a.dims(), &all_but_channels(a.rank()));
    let new_mean = renewed(b, mean.as_ref(), &batch_mean, momentum)?;
    let new_var = match &var {
        None => Arg::None,
        Some(var) => {
            // The running variance is the unbiased one. One value for each channel has none: n - 1 is 0.
            let scaled = b.mul(&batch_var, size(&n))?;
            let unbiased = b.div(&scaled, size(&n.sub(&Dim::Known(1))))?;
            renewed(b, Some(var), &unbiased, momentum)?
        }
    };
    Ok(vec![norm.out.arg(), batch_mean.arg(), rstd.arg(), new_mean, new_var])
}

/// `momentum * new + (1 - momentum) * old`, in the dtype of `old`.
fn renewed(b: &mut Builder<'_>, old: Option<&Tensor>, new: &Tensor, momentum: f64) -> Result<Arg, OpError> {
    let Some(old) = old else { return Ok(Arg::None) };
    let kept = b.to(old, new.dtype())?;
    let kept = b.mul(&kept, 1.0 - momentum)?;
    let added = b.mul(new, momentum)?;
    let sum = b.add(&added, &kept)?;
    Ok(b.to(&sum, old.dtype())?.arg())
}

/// The arguments of `torch.native_batch_norm` in an ATen call of the family, absent ones filled in.
fn batch_norm_args(c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let or_none = |n: &str| c.arg(n).cloned().unwrap_or(Arg::None);
    let train = match &*c.overload {
        "_native_batch_norm_legit_no_training.default" | "_batch_norm_no_update.default" => Arg::Bool(false),
        "_batch_norm_with_update.default" | "_batch_norm_with_update_functional.default" => Arg::Bool(true),
        _ => import::arg(c, "training")?,
    };
    let [input, weight, bias] = ["input", "weight", "bias"].map(|n| import::arg(c, n));
    let momentum = c.arg("momentum").or_else(|_| c.arg("exponential_average_factor"))?;
    let momentum = if let Arg::Int(n) = momentum { Arg::Float(*n as f64) } else { momentum.clone() };
    let eps = if c.arg("eps").is_ok() { import::float(c, "eps")? } else { import::float(c, "epsilon")? };
    Ok(vec![input?, weight?, bias?, or_none("running_mean"), or_none("running_var"), train, momentum, eps])
}

/// Does the call renew running statistics?
fn renews(args: &[Arg]) -> bool {
    matches!(args[5], Arg::Bool(true)) && !args[3].is_none()
}

/// `batch_norm.default` writes its running statistics when it trains, whatever its schema says.
fn import_batch_norm(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let args = batch_norm_args(c)?;
    if !renews(&args) {
        return b.call("torch.batch_norm", args);
    }
    let mut results = b.call("torch.native_batch_norm", args)?;
    say_written(b, &results);
    results.truncate(1);
    Ok(results)
}

fn say_written(b: &mut Builder<'_>, results: &[Arg]) {
    for (name, value) in ["running_mean", "running_var"].into_iter().zip(&results[3..]) {
        b.write(name, value.clone());
    }
}

fn import_native_batch_norm(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let args = batch_norm_args(c)?;
    let writes = renews(&args);
    let results = b.call("torch.native_batch_norm", args)?;
    if writes {
        say_written(b, &results);
    }
    let mut results = in_recorded_dtypes(b, c, results)?;
    results.truncate(3);
    if has_reserve(c) {
        results.push(reserve(b, c)?);
    }
    Ok(results)
}

fn import_functional_batch_norm(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let args = batch_norm_args(c)?;
    let mut results = b.call("torch.native_batch_norm", args)?;
    if has_reserve(c) {
        results.insert(3, reserve(b, c)?);
    }
    in_recorded_dtypes(b, c, results)
}

fn has_reserve(c: &AtenCall) -> bool {
    c.overload.starts_with("_batch_norm_") || c.overload.starts_with("cudnn")
}

/// Scratch memory of other back ends: no bytes here.
fn reserve(b: &mut Builder<'_>, c: &AtenCall) -> Result<Arg, OpError> {
    let device = import::tensor(b, c, "input")?.ty.device.clone();
    Ok(b.full(&[Dim::Known(0)], 0, Dtype::U8, &device)?.arg())
}

fn batch_norm_backward(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (g0, a) = (call.tensor("g")?, call.tensor("a")?);
    let train = call.bool("train")?;
    let axes = all_but_channels(a.rank());
    let acc = a.dtype().acc();
    let (g, x) = (b.to(&g0, acc)?, b.to(&a, acc)?);
    let (mean, rstd) = if train {
        let (m, r) = (call.tensor("save_mean")?, call.tensor("save_rstd")?);
        (b.to(&m, acc)?, b.to(&r, acc)?)
    } else {
        let (m, v) = (call.tensor("mean")?, call.tensor("var")?);
        let (m, v) = (b.to(&m, acc)?, b.to(&v, acc)?);
        let r = reciprocal_std(b, &v, &call.num("eps")?)?;
        (m, r)
    };
    let mask = mask(call)?;
    let weight = call.opt_tensor("weight")?;
    let r = b.spread(&rstd, x.dims(), &axes)?;
    let mut grads = vec![Arg::None; 3];
    let mut n = None;
    if mask[0] {
        let gw = weighted(b, &g, weight.as_ref(), &|b, w| along_channels(b, w, a.dims()))?;
        let dx = if train {
            let n = n.insert(normalised(b, &x, &mean, &rstd, &axes)?);
            through_statistics(b, &gw, n, &r, &axes, true)?
        } else {
            b.mul(&gw, &r)?
        };
        grads[0] = gradient(b, &dx, a.dtype())?;
    }
    let dtype = weight.as_ref().map_or(acc, Tensor::dtype);
    if mask[1] {
        let n = match n {
            Some(n) => n,
            None => normalised(b, &x, &mean, &rstd, &axes)?,
        };
        let gn = b.mul(&g, &n)?;
        let dw = b.sum(&gn, &axes)?;
        grads[1] = gradient(b, &dw, dtype)?;
    }
    if mask[2] {
        let db = b.sum(&g, &axes)?;
        grads[2] = gradient(b, &db, dtype)?;
    }
    Ok(grads)
}

fn instance_norm(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    if !call.bool("use_input_stats")? {
        let names = ["a", "weight", "bias", "mean", "var"];
        let mut args = names.iter().map(|n| call.raw(n)).collect::<Result<Vec<_>, _>>()?;
        args.extend([Arg::Bool(false), call.raw("momentum")?, call.raw("eps")?]);
        return b.call("torch.batch_norm", args);
    }
    if a.rank() < 3 {
        return Err(
            call.error(format!("`a` is {}, it needs an axis behind the channels", meta::show(a.dims())))
        );
    }
    let axes: Vec<usize> = (2..a.rank()).collect();
    let x = b.to(&a, a.dtype().acc())?;
    let (mean, var) = moments(b, &x, &axes)?;
    let rstd = reciprocal_std(b, &var, &call.num("eps")?)?;
    let n = normalised(b, &x, &mean, &rstd, &axes)?;
    let y = affine(b, call, n, &|b, w| along_channels(b, w, a.dims()))?;
    Ok(vec![b.to(&y, a.dtype())?.arg()])
}

/// With running statistics to renew, these are averaged over the batch, as ATen does.
fn import_instance_norm(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let names = ["input", "weight", "bias", "running_mean", "running_var", "use_input_stats"];
    let mut args = import::args(c, &names)?;
    args.extend([import::float(c, "momentum")?, import::float(c, "eps")?]);
    let out = b.call("torch.instance_norm", args.clone())?;
    if renews(&args) {
        let Arg::Float(momentum) = args[6] else { return Err(c.error("`momentum` must be a known number")) };
        let a = import::tensor(b, c, "input")?;
        let axes: Vec<usize> = (2..a.rank()).collect();
        let x = b.to(&a, a.dtype().acc())?;
        let results = b.call("prims.var_mean", vec![x.arg(), axes_arg(&axes), Arg::Int(1)])?;
        for (name, batch) in ["running_var", "running_mean"].into_iter().zip(results) {
            let batch = batch.value().ok_or_else(|| c.error("statistics are tensors"))?;
            let batch = b.as_tensor(batch)?;
            let mean = b.mean(&batch, &[0])?;
            let old = import::tensor(b, c, name)?;
            let new = renewed(b, Some(&old), &mean, momentum)?;
            b.write(name, new);
        }
    }
    Ok(out)
}

pub static TORCH_NORMALIZE: Op = Op {
    name: "torch.normalize",
    doc: "`a` divided by its norm over axes, which counts as `eps` at least.",
    schema: "(a: Tensor<f>, p: num = 2.0, axes: ints, eps: num = 1e-12) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let n =
            b.tensor("torch.vector_norm", vec![a.arg(), call.raw("p")?, call.raw("axes")?, Arg::Bool(true)])?;
        let n = b.tensor("torch.clamp_min", vec![n.arg(), call.raw("eps")?])?;
        Ok(vec![b.tensor("torch.true_divide", vec![a.arg(), n.arg()])?.arg()])
    }),
    samples: &[
        Sample("T[2, 3], axes=[1]"),
        Sample("T[4], p=1.0, axes=[0]"),
        Sample("T[2, 3, 2], axes=[1, -1]"),
    ],
    ..Op::BASE
};

pub static TORCH_LOCAL_RESPONSE_NORM: Op = Op {
    name: "torch.local_response_norm",
    doc: "`a / (k + alpha m)^beta`, m the mean of squares over `size` neighbouring channels, those beyond the ends counting as zero.",
    schema: "(a: Tensor<f>, size: int, alpha: num, beta: num, k: num) -> Tensor",
    level: Level::Composite(local_response_norm),
    samples: &[
        Sample("T[1, 4, 3], size=3, alpha=0.5, beta=0.75, k=1.0"),
        Sample("T[2, 5], size=2, alpha=1e-4, beta=0.5, k=2.0"),
    ],
    ..Op::BASE
};

pub static TORCH_RENORM: Op = Op {
    name: "torch.renorm",
    doc: "Slices along an axis scaled down to norm `max` where their norm is larger.",
    schema: "(a: Tensor<f>, p: num, axis: int, max: num) -> Tensor",
    level: Level::Composite(renorm),
    aten: &[Aten {
        overloads: &["renorm.default", "renorm_.default"],
        import: Import::Map("a=self p axis=dim max=maxnorm"),
    }],
    samples: &[Sample("T[2, 3], p=2.0, axis=0, max=0.5"), Sample("T[2, 3, 2], p=1.0, axis=-1, max=1")],
    ..Op::BASE
};

pub static TORCH_WEIGHT_NORM: Op = Op {
    name: "torch.weight_norm",
    doc: "`v` scaled so that each slice along an axis (of all, for -1) has the norm in `g`.",
    schema: "(v: Tensor<f>, g: Tensor<f>, axis: int = 0) -> Tensor",
    level: Level::Composite(|b, call| {
        let (w, _) = weight_norm(b, call.tensor("v")?, call.tensor("g")?, call.int("axis")?)
            .map_err(|e| call.error(e.what))?;
        Ok(vec![w.arg()])
    }),
    aten: &[
        Aten { overloads: &["_weight_norm.default"], import: Import::Map("v g axis=dim") },
        Aten {
            overloads: &["_weight_norm_interface.default"],
            import: Import::With(|b, c| {
                let (w, n) = weight_norm(
                    b,
                    import::tensor(b, c, "v")?,
                    import::tensor(b, c, "g")?,
                    import::int(c, "dim")?,
                )?;
                Ok(vec![w.arg(), n.arg()])
            }),
        },
    ],
    samples: &[Sample("T[3, 2], T[3, 1]"), Sample("T[2, 3, 2], T[1, 3, 1], axis=1")],
    ..Op::BASE
};

/// Neighbours are few, so their squares are added up one channel after the other.
fn local_response_norm(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, n) = (call.tensor("a")?, call.int("size")?);
    if a.rank() < 2 || n < 1 {
        return Err(call
            .error(format!("needs channels and a positive `size`, found {} and {n}", meta::show(a.dims()))));
    }
    let x = b.to(&a, a.dtype().acc())?;
    let squares = b.mul(&x, &x)?;
    let mut config = vec![Arg::ints([0, 0, 0]); a.rank()];
    config[1] = Arg::ints([n / 2, (n - 1) / 2, 0]);
    let padded = b.tensor("prims.pad", vec![squares.arg(), Arg::Float(0.0), Arg::List(config)])?;
    let channels = a.dims()[1].clone();
    let mut sum: Option<Tensor> = None;
    for i in 0..n {
        let start = Dim::Known(i);
        let part = b.narrow(&padded, 1, &start, &start.add(&channels))?;
        sum = Some(match sum {
            Some(s) => b.add(&s, &part)?,
            None => part,
        });
    }
    let sum = sum.ok_or_else(|| call.error("`size` must be positive"))?;
    let scaled = b.mul(&sum, call.float("alpha")? / n as f64)?;
    let base = b.add(&scaled, call.num("k")?)?;
    let divisor = b.binary("prims.pow", &base, call.float("beta")?)?;
    let y = b.div(&x, &divisor)?;
    Ok(vec![b.to(&y, a.dtype())?.arg()])
}

fn renorm(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    /// ATen's, against a division by zero.
    const EPS: f64 = 1e-7;
    let (a, max) = (call.tensor("a")?, call.float("max")?);
    let axis = call.axis("axis", a.rank())?;
    if a.rank() < 2 {
        return Err(call.error(format!("needs two dims at least, found {}", a.rank())));
    }
    let x = b.to(&a, a.dtype().acc())?;
    let others = Arg::ints((0..a.rank()).filter(|i| *i != axis).map(|i| i as i64));
    let n = b.tensor("torch.vector_norm", vec![x.arg(), call.raw("p")?, others, Arg::Bool(true)])?;
    let over = b.binary("prims.gt", &n, max)?;
    let moved = b.add(&n, EPS)?;
    let inverse = b.unary("prims.reciprocal", &moved)?;
    let factor = b.mul(&inverse, max)?;
    let factor = b.select(&over, &factor, 1.0)?;
    let y = b.mul(&x, &factor)?;
    Ok(vec![b.to(&y, a.dtype())?.arg()])
}

/// The weight, and the norms that `v` had, in the accumulation dtype.
fn weight_norm(b: &mut Builder<'_>, v: Tensor, g: Tensor, axis: i64) -> Result<(Tensor, Tensor), OpError> {
    let rank = v.rank() as i64;
    if axis < -1 || axis >= rank {
        return Err(OpError {
            op: "torch.weight_norm".into(),
            what: format!("axis {axis} is out of range for {rank} dims"),
        });
    }
    let x = b.to(&v, v.dtype().acc())?;
    let axes: Vec<usize> = (0..v.rank()).filter(|i| *i as i64 != axis).collect();
    let squares = b.mul(&x, &x)?;
    let sum = b.sum(&squares, &axes)?;
    let n = b.sqrt(&sum)?;
    let n = if axis == -1 { n } else { b.keepdim(&n, v.dims(), &axes)? };
    let g = b.to(&g, x.dtype())?;
    let factor = b.div(&g, &n)?;
    let w = b.mul(&x, &factor)?;
    Ok((b.to(&w, v.dtype())?, n))
}

#[cfg(test)]
mod tests {
    use crate::ir::{Arg, Dtype, Stage, TensorType, Trace};
    use crate::ops::{AtenCall, Builder, aten, aten_owner, aten_schema};

    /// What `batch_norm.default` becomes: names of the ops, and of the arguments that it writes.
    fn imported(train: bool) -> (Vec<String>, Vec<String>) {
        let mut trace = Trace::new("t", Stage::Acquired);
        let mut tensor = |dims: &[i64]| {
            let dims: Vec<_> = dims.iter().map(|d| (*d).into()).collect();
            let name = format!("x{}", trace.values.len());
            Arg::Value(trace.add_value(name, TensorType::new(dims, Dtype::F32).into()))
        };
        let mut given: Vec<(String, Arg)> = vec![("input".into(), tensor(&[2, 3, 4]))];
        given
            .extend(["weight", "bias", "running_mean", "running_var"].map(|n| (n.to_string(), tensor(&[3]))));
        given.push(("training".into(), Arg::Bool(train)));
        given.extend([("momentum", 0.1), ("eps", 1e-5)].map(|(n, x)| (n.to_string(), Arg::Float(x))));
        given.push(("cudnn_enabled".into(), Arg::Bool(false)));
        let schema = aten_schema::lookup("batch_norm.default").expect("ATen has it");
        let args = schema.complete(given).expect("all are there");
        let call = AtenCall { overload: "batch_norm.default".into(), args, results: vec![] };
        let (op, entry) = aten_owner("batch_norm.default").expect("the table has it");
        let mut b = Builder::top(&mut trace);
        let results = aten::import(&mut b, op, entry, &call).expect("imports");
        assert_eq!(results.len(), 1);
        let written = b.take_written().into_iter().map(|(name, _)| name.to_string()).collect();
        (b.finish().iter().filter_map(|s| s.op()).map(|op| op.op.to_string()).collect(), written)
    }

    #[test]
    fn training_renews_running_statistics_and_evaluation_does_not() {
        assert_eq!(imported(false), (vec!["torch.batch_norm".to_string()], vec![]));
        let (ops, written) = imported(true);
        assert_eq!(ops, ["torch.native_batch_norm"]);
        assert_eq!(written, ["running_mean", "running_var"]);
    }
}
