//! Convolutions, pooling, resampling, recurrent layers.

use thunderhead_sdk::{ArgRef, Refusal};

use super::norm::wanted;
use thunderhead_aten::Arg;
use thunderhead_aten::recipe::{Recipe, Row, call, form, with};

/// What this family runs.
pub static ROWS: &[Row] = &[
    call("prims.convolution", "convolution", CONVOLUTION),
    with("prims.convolution_backward", convolution_backward),
    with("prims.adaptive_avg_pool", |recipe| by_rank(recipe, "adaptive_avg_pool{}d", "out", "a out")),
    with("prims.adaptive_avg_pool_backward", adaptive_avg_pool_backward),
    with("prims.adaptive_max_pool", |recipe| by_rank(recipe, "adaptive_max_pool{}d", "out", "a out")),
    with("prims.avg_pool", |recipe| {
        let n = spatial(recipe, "window")?;
        avg_pool(recipe, n)
    }),
    with("prims.avg_pool_backward", avg_pool_backward),
    with("prims.max_pool", |recipe| {
        by_rank(recipe, "max_pool{}d_with_indices", "window", "a window stride padding dilation ceil_mode")
    }),
    call("torch.adaptive_avg_pool1d", "adaptive_avg_pool1d", "a out"),
    with("torch.adaptive_avg_pool2d", |recipe| adaptive(recipe, "adaptive_avg_pool2d", 2)),
    call("torch.adaptive_avg_pool2d_backward", "_adaptive_avg_pool2d_backward", "g a"),
    with("torch.adaptive_avg_pool3d", |recipe| adaptive(recipe, "adaptive_avg_pool3d", 3)),
    call("torch.adaptive_max_pool1d", "adaptive_max_pool1d", "a out"),
    with("torch.adaptive_max_pool2d", |recipe| adaptive(recipe, "adaptive_max_pool2d", 2)),
    with("torch.adaptive_max_pool3d", |recipe| adaptive(recipe, "adaptive_max_pool3d", 3)),
    with("torch.affine_grid", affine_grid),
    with("torch.avg_pool1d", |recipe| avg_pool(recipe, 1)),
    with("torch.avg_pool2d", |recipe| avg_pool(recipe, 2)),
    call(
        "torch.avg_pool2d_backward",
        "avg_pool2d_backward",
        "g a window stride padding ceil_mode count_include_pad divisor",
    ),
    with("torch.avg_pool3d", |recipe| avg_pool(recipe, 3)),
    with("torch.conv1d", |recipe| conv(recipe, "conv1d")),
    with("torch.conv2d", |recipe| conv(recipe, "conv2d")),
    with("torch.conv3d", |recipe| conv(recipe, "conv3d")),
    call("torch.conv_transpose1d", "conv_transpose1d", TRANSPOSED),
    call("torch.conv_transpose2d", "conv_transpose2d.input", TRANSPOSED),
    call("torch.conv_transpose3d", "conv_transpose3d.input", TRANSPOSED),
    call("torch.convolution", "convolution", CONVOLUTION),
    with("torch.convolution_backward", convolution_backward),
    call("torch.grid_sample", "grid_sampler", "a grid mode padding align_corners"),
    with("torch.max_pool1d", |recipe| {
        recipe.inexact("a")?;
        recipe.call("max_pool1d", "a window stride padding dilation ceil_mode")
    }),
    call(
        "torch.max_pool1d_with_indices",
        "max_pool1d_with_indices",
        "a window stride padding dilation ceil_mode",
    ),
    call("torch.max_pool2d", "max_pool2d", "a window stride padding dilation ceil_mode"),
    with("torch.max_pool2d_backward", |recipe| {
        recipe.inexact("a")?;
        let args = "g a window stride padding dilation ceil_mode index";
        recipe.call("max_pool2d_with_indices_backward", args)
    }),
    call(
        "torch.max_pool2d_with_indices",
        "max_pool2d_with_indices",
        "a window stride padding dilation ceil_mode",
    ),
    call("torch.max_pool3d", "max_pool3d", "a window stride padding dilation ceil_mode"),
    call(
        "torch.max_pool3d_with_indices",
        "max_pool3d_with_indices",
        "a window stride padding dilation ceil_mode",
    ),
    with("torch.upsample_nearest", |recipe| {
        upsample(recipe, ["upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"], false)
    }),
    with("torch.upsample_nearest_exact", |recipe| {
        let names = ["_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"];
        upsample(recipe, names, false)
    }),
    with("torch.upsample_linear", |recipe| {
        upsample(recipe, ["upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"], true)
    }),
    with("torch.upsample_bicubic2d", |recipe| upsample(recipe, ["", "upsample_bicubic2d", ""], true)),
    call("torch.gru", "gru.input", "a h params has_biases layers dropout train bidirectional batch_first"),
    call("torch.gru_cell", "gru_cell", "a h w_ih w_hh b_ih b_hh"),
    call("torch.lstm", "lstm.input", "a h params has_biases layers dropout train bidirectional batch_first"),
    call("torch.lstm_cell", "lstm_cell", "a h w_ih w_hh b_ih b_hh"),
    with("torch.rnn", |recipe| {
        let args = "a h params has_biases layers dropout train bidirectional batch_first";
        match recipe.op.str("nonlinearity")? {
            "relu" => recipe.call("rnn_relu.input", args),
            _ => recipe.call("rnn_tanh.input", args),
        }
    }),
    with("torch.rnn_cell", |recipe| match recipe.op.str("nonlinearity")? {
        "relu" => recipe.call("rnn_relu_cell", "a h w_ih w_hh b_ih b_hh"),
        _ => recipe.call("rnn_tanh_cell", "a h w_ih w_hh b_ih b_hh"),
    }),
    with("torch.upsample_aa", |recipe| match recipe.op.str("filter")? {
        "bicubic" => upsample(recipe, ["", "_upsample_bicubic2d_aa", ""], true),
        _ => upsample(recipe, ["", "_upsample_bilinear2d_aa", ""], true),
    }),
];

const CONVOLUTION: &str = "a w bias stride padding dilation transposed output_padding groups";
const TRANSPOSED: &str = "a w bias stride padding output_padding groups dilation";

/// Padding by name has an overload of its own.
fn conv(recipe: &mut Recipe<'_>, aten: &str) -> Result<(), Refusal> {
    let args = "a w bias stride padding dilation groups";
    match recipe.op.arg("padding") {
        Some(ArgRef::Str(_)) => recipe.call(&format!("{aten}.padding"), args),
        _ => recipe.call(aten, args),
    }
}

fn convolution_backward(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    let channels = recipe.desc("g")?.dims().get(1).copied().unwrap_or(0);
    let bias_dims = match recipe.op.arg("bias_dims") {
        Some(ArgRef::Ints(_)) => recipe.arg("bias_dims")?,
        _ => Arg::Ints(vec![channels]),
    };
    let mut args = recipe.args("g a w")?;
    args.push(bias_dims);
    args.extend(recipe.args("stride padding dilation transposed output_padding groups mask")?);
    let outputs = wanted(recipe)?;
    recipe.call_with_results("convolution_backward", args, &outputs)
}

/// The overload for one, two or three dims, as many as `list` is long; `{}` stands for that number.
fn by_rank(recipe: &mut Recipe<'_>, aten: &str, list: &str, args: &str) -> Result<(), Refusal> {
    let n = spatial(recipe, list)?;
    recipe.call(&aten.replace("{}", &n.to_string()), args)
}

fn spatial(recipe: &Recipe<'_>, list: &str) -> Result<usize, Refusal> {
    match recipe.op.ints(list)?.len() {
        n @ 1..=3 => Ok(n),
        n => Err(form(format!("`{list}` names {n} dims; 1 to 3 are taken")).attribute(list)),
    }
}

/// A single row or column makes ATen ask for a number in the dtype of `theta`, which it cannot do for halves.
fn affine_grid(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    let single = recipe.op.ints("out")?.iter().skip(2).any(|n| *n == 1);
    if single && recipe.desc("theta")?.dtype().is_half() {
        return Err(form("halves, and a dim of the result is 1".into()).attribute("out"));
    }
    recipe.call("affine_grid_generator", "theta out align_corners")
}

/// One size stands for all dims; ATen wants each.
fn adaptive(recipe: &mut Recipe<'_>, aten: &str, n: usize) -> Result<(), Refusal> {
    let sizes = match recipe.op.ints("out")? {
        [size] => vec![*size; n],
        sizes => sizes.to_vec(),
    };
    let a = recipe.arg("a")?;
    recipe.call_to_outputs(aten, vec![a, Arg::Ints(sizes)])
}

/// One dim has no divisor in ATen.
fn avg_pool(recipe: &mut Recipe<'_>, n: usize) -> Result<(), Refusal> {
    match n {
        1 if recipe.op.has("divisor") => {
            Err(form("a divisor is given for one dim".into()).attribute("divisor"))
        }
        1 => recipe.call("avg_pool1d", "a window stride padding ceil_mode count_include_pad"),
        3 if recipe.desc("a")?.dtype().is_half() => {
            Err(Refusal::new("dtype_unsupported", "three dims of half precision have no kernel in ATen")
                .attribute("a"))
        }
        n => recipe
            .call(&format!("avg_pool{n}d"), "a window stride padding ceil_mode count_include_pad divisor"),
    }
}

/// ATen asks for the input, of which only the dims matter here: an expanded zero stands for it.
fn avg_pool_backward(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    let n = spatial(recipe, "window")?;
    if n == 1 {
        return Err(form("one dim has no kernel of its own in ATen".into()).attribute("window"));
    }
    let stand_in = stand_in(recipe)?;
    let mut args = recipe.args("g")?;
    args.push(stand_in);
    args.extend(recipe.args("window stride padding ceil_mode count_include_pad divisor")?);
    recipe.call_to_outputs(&format!("avg_pool{n}d_backward"), args)
}

fn adaptive_avg_pool_backward(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    // Batch and channel come before the pooled dims; their number is that of the prim's.
    let n = recipe.desc("g")?.rank().saturating_sub(2);
    if !(2..=3).contains(&n) {
        return Err(form(format!("{n} dims are pooled; 2 and 3 are taken")).attribute("g"));
    }
    let g = recipe.arg("g")?;
    let stand_in = stand_in(recipe)?;
    recipe.call_to_outputs(&format!("_adaptive_avg_pool{n}d_backward"), vec![g, stand_in])
}

/// A tensor of output 0's dims and dtype, made once.
fn stand_in(recipe: &mut Recipe<'_>) -> Result<Arg, Refusal> {
    let out = Arg::Reg(recipe.out(0));
    Ok(Arg::Reg(recipe.bind_with("zeros_like", vec![out])))
}

/// Resampling: dims or scales, or both where the file gives both.
fn upsample(recipe: &mut Recipe<'_>, aten: [&str; 3], corners: bool) -> Result<(), Refusal> {
    let n = recipe.desc("a")?.rank().saturating_sub(2);
    let name = n.checked_sub(1).and_then(|idx| aten.get(idx)).copied().unwrap_or("");
    if name.is_empty() {
        return Err(form(format!("{n} dims are resampled")).attribute("a"));
    }
    let align = if corners { recipe.args("align_corners")? } else { Vec::new() };
    let mut args = recipe.args("a out")?;
    args.extend(align);
    match (recipe.op.has("out"), recipe.op.arg("scales")) {
        (true, Some(ArgRef::Floats(scales))) => {
            args.extend(scales.iter().copied().map(Arg::Float));
            recipe.call_to_outputs(name, args)
        }
        (true, _) => {
            args.extend((0..n).map(|_| Arg::None));
            recipe.call_to_outputs(name, args)
        }
        (false, _) => {
            args.extend(recipe.args("scales")?);
            recipe.call_to_outputs(&format!("{name}.vec"), args)
        }
    }
}
