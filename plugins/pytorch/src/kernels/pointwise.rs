//! Elementwise ops. Outputs may lie in an input's memory: ATen's iterators read an element before they write it.

use thunderhead_sdk::{ArgRef, Dtype, Refusal};

use thunderhead_aten::Arg;
use thunderhead_aten::recipe::{Recipe, Row, call, copy, form, pointwise, pointwise_with, with};

/// What this family runs.
pub static ROWS: &[Row] = &[
    // Prims of one tensor.
    pointwise("prims.abs", "abs", "a"),
    pointwise("prims.acos", "acos", "a"),
    pointwise("prims.acosh", "acosh", "a"),
    pointwise("prims.asin", "asin", "a"),
    pointwise("prims.asinh", "asinh", "a"),
    pointwise("prims.atan", "atan", "a"),
    pointwise("prims.atanh", "atanh", "a"),
    pointwise("prims.bessel_i0", "i0", "a"),
    pointwise("prims.bitwise_not", "bitwise_not", "a"),
    pointwise("prims.ceil", "ceil", "a"),
    pointwise("prims.conj", "conj_physical", "a"),
    pointwise("prims.cos", "cos", "a"),
    pointwise("prims.cosh", "cosh", "a"),
    pointwise("prims.digamma", "digamma", "a"),
    pointwise("prims.erf", "erf", "a"),
    pointwise("prims.erfc", "erfc", "a"),
    pointwise("prims.erfinv", "erfinv", "a"),
    pointwise("prims.exp", "exp", "a"),
    pointwise("prims.exp2", "exp2", "a"),
    pointwise("prims.expm1", "expm1", "a"),
    pointwise("prims.floor", "floor", "a"),
    pointwise("prims.frexp", "frexp.Tensor", "a"),
    pointwise("prims.isfinite", "isfinite", "a"),
    pointwise("prims.lgamma", "lgamma", "a"),
    pointwise("prims.log", "log", "a"),
    pointwise("prims.log10", "log10", "a"),
    pointwise("prims.log1p", "log1p", "a"),
    pointwise("prims.log2", "log2", "a"),
    pointwise("prims.ndtri", "special_ndtri", "a"),
    pointwise("prims.neg", "neg", "a"),
    pointwise("prims.polygamma", "polygamma", "n a"),
    pointwise("prims.reciprocal", "reciprocal", "a"),
    pointwise("prims.round", "round", "a"),
    pointwise("prims.rsqrt", "rsqrt", "a"),
    with("prims.sign", prims_sign),
    pointwise("prims.signbit", "signbit", "a"),
    pointwise("prims.sin", "sin", "a"),
    pointwise("prims.sinh", "sinh", "a"),
    pointwise("prims.sqrt", "sqrt", "a"),
    pointwise("prims.tan", "tan", "a"),
    pointwise("prims.tanh", "tanh", "a"),
    pointwise("prims.trunc", "trunc", "a"),
    // Prims of two and three tensors; a number stands for a tensor filled with it.
    pointwise("prims.add", "add.Tensor", "a b"),
    pointwise("prims.atan2", "atan2", "a b"),
    pointwise("prims.bitwise_and", "bitwise_and.Tensor", "a b"),
    pointwise("prims.bitwise_left_shift", "bitwise_left_shift.Tensor", "a b"),
    pointwise("prims.bitwise_or", "bitwise_or.Tensor", "a b"),
    pointwise("prims.bitwise_right_shift", "bitwise_right_shift.Tensor", "a b"),
    pointwise("prims.bitwise_xor", "bitwise_xor.Tensor", "a b"),
    pointwise("prims.copysign", "copysign.Tensor", "a b"),
    pointwise_with("prims.div", prims_div),
    pointwise("prims.eq", "eq.Tensor", "a b"),
    pointwise("prims.fmod", "fmod.Tensor", "a b"),
    pointwise("prims.ge", "ge.Tensor", "a b"),
    pointwise("prims.gt", "gt.Tensor", "a b"),
    pointwise("prims.le", "le.Tensor", "a b"),
    pointwise("prims.lt", "lt.Tensor", "a b"),
    pointwise("prims.maximum", "maximum", "a b"),
    pointwise("prims.minimum", "minimum", "a b"),
    pointwise("prims.mul", "mul.Tensor", "a b"),
    pointwise("prims.ne", "ne.Tensor", "a b"),
    pointwise("prims.nextafter", "nextafter", "a b"),
    pointwise_with("prims.pow", pow),
    pointwise("prims.remainder", "remainder.Tensor", "a b"),
    pointwise("prims.sub", "sub.Tensor", "a b"),
    pointwise("prims.zeta", "special_zeta", "a b"),
    pointwise("prims.fma", "addcmul", "c a b"),
    pointwise_with("prims.lerp", lerp),
    pointwise("prims.where", "where.self", "pred a b"),
    // Copies.
    copy("prims.clone"),
    copy("prims.convert_element_type"),
    copy("prims.copy_"),
    copy("prims.device_put"),
    copy("prims.shallow_copy"),
    copy("prims.stride_order"),
    copy("torch.alias"),
    copy("torch.clone"),
    copy("torch.contiguous"),
    copy("torch.detach"),
    copy("torch.to"),
    pointwise_with("torch.copy", |recipe| {
        recipe.copy(recipe.tensor("src")?, recipe.out(0));
        Ok(())
    }),
    pointwise_with("prims.set_data", |recipe| {
        recipe.copy(recipe.tensor("new")?, recipe.out(0));
        Ok(())
    }),
    pointwise_with("torch.fill", fill),
    // Composites of one tensor. Integers become floats where PyTorch makes them so: ATen does it.
    pointwise("torch.abs", "abs", "a"),
    pointwise("torch.acos", "acos", "a"),
    pointwise("torch.acosh", "acosh", "a"),
    pointwise("torch.asin", "asin", "a"),
    pointwise("torch.asinh", "asinh", "a"),
    pointwise("torch.atan", "atan", "a"),
    pointwise("torch.atanh", "atanh", "a"),
    pointwise("torch.bitwise_not", "bitwise_not", "a"),
    pointwise("torch.ceil", "ceil", "a"),
    pointwise("torch.celu", "celu", "a alpha"),
    pointwise("torch.conj", "conj_physical", "a"),
    pointwise("torch.cos", "cos", "a"),
    pointwise("torch.cosh", "cosh", "a"),
    pointwise("torch.digamma", "digamma", "a"),
    pointwise("torch.elu", "elu", "a alpha scale input_scale"),
    pointwise("torch.erf", "erf", "a"),
    pointwise("torch.erfc", "erfc", "a"),
    pointwise("torch.erfinv", "erfinv", "a"),
    pointwise("torch.exp", "exp", "a"),
    pointwise("torch.exp2", "exp2", "a"),
    pointwise("torch.expm1", "expm1", "a"),
    pointwise("torch.floor", "floor", "a"),
    pointwise("torch.frac", "frac", "a"),
    pointwise("torch.frexp", "frexp.Tensor", "a"),
    pointwise("torch.gelu", "gelu", "a approximate"),
    pointwise("torch.hardshrink", "hardshrink", "a lambd"),
    pointwise("torch.hardsigmoid", "hardsigmoid", "a"),
    pointwise("torch.hardswish", "hardswish", "a"),
    pointwise_with("torch.hardtanh", hardtanh),
    pointwise("torch.i0", "i0", "a"),
    pointwise("torch.isfinite", "isfinite", "a"),
    pointwise("torch.isinf", "isinf", "a"),
    // Only NaN differs from itself; `isnan` has no variant that writes to a given output.
    pointwise("torch.isnan", "ne.Tensor", "a a"),
    pointwise("torch.isneginf", "isneginf", "a"),
    pointwise("torch.isposinf", "isposinf", "a"),
    pointwise("torch.leaky_relu", "leaky_relu", "a slope"),
    pointwise("torch.lgamma", "lgamma", "a"),
    pointwise("torch.log", "log", "a"),
    pointwise("torch.log10", "log10", "a"),
    pointwise("torch.log1p", "log1p", "a"),
    pointwise("torch.log2", "log2", "a"),
    pointwise("torch.logical_not", "logical_not", "a"),
    pointwise("torch.logit", "logit", "a eps"),
    pointwise("torch.logsigmoid", "log_sigmoid", "a"),
    pointwise("torch.mish", "mish", "a"),
    pointwise("torch.nan_to_num", "nan_to_num", "a nan posinf neginf"),
    pointwise("torch.ndtri", "special_ndtri", "a"),
    pointwise("torch.neg", "neg", "a"),
    pointwise("torch.polygamma", "polygamma", "n a"),
    pointwise("torch.reciprocal", "reciprocal", "a"),
    // What `relu` is inside ATen, with a variant that writes to a given output.
    pointwise("torch.relu", "clamp_min", "a =0"),
    pointwise("torch.relu6", "hardtanh", "a =0 =6"),
    pointwise_with("torch.round", round),
    pointwise("torch.rsqrt", "rsqrt", "a"),
    pointwise("torch.selu", "elu", "a =1.6732632423543772 =1.0507009873554805"),
    pointwise("torch.sigmoid", "sigmoid", "a"),
    pointwise("torch.sign", "sgn", "a"),
    pointwise("torch.signbit", "signbit", "a"),
    pointwise("torch.silu", "silu", "a"),
    pointwise("torch.sin", "sin", "a"),
    pointwise("torch.sinh", "sinh", "a"),
    pointwise("torch.softplus", "softplus", "a beta threshold"),
    pointwise("torch.softshrink", "softshrink", "a lambd"),
    pointwise_with("torch.softsign", softsign),
    pointwise("torch.sqrt", "sqrt", "a"),
    pointwise("torch.square", "pow.Tensor_Scalar", "a =2"),
    pointwise("torch.tan", "tan", "a"),
    pointwise("torch.tanh", "tanh", "a"),
    pointwise_with("torch.tanhshrink", tanhshrink),
    pointwise("torch.threshold", "threshold", "a threshold value"),
    pointwise("torch.trunc", "trunc", "a"),
    // Composites of two and three tensors.
    pointwise("torch.add", "add.Tensor", "a b alpha"),
    pointwise("torch.atan2", "atan2", "a b"),
    pointwise("torch.bitwise_and", "bitwise_and.Tensor", "a b"),
    pointwise("torch.bitwise_left_shift", "bitwise_left_shift.Tensor", "a b"),
    pointwise("torch.bitwise_or", "bitwise_or.Tensor", "a b"),
    pointwise("torch.bitwise_right_shift", "bitwise_right_shift.Tensor", "a b"),
    pointwise("torch.bitwise_xor", "bitwise_xor.Tensor", "a b"),
    pointwise_with("torch.clamp_max", |recipe| bounded(recipe, "clamp_max", "max")),
    pointwise_with("torch.clamp_min", |recipe| bounded(recipe, "clamp_min", "min")),
    pointwise("torch.complex", "complex", "re im"),
    pointwise("torch.copysign", "copysign.Tensor", "a b"),
    pointwise_with("torch.div", div),
    pointwise("torch.eq", "eq.Tensor", "a b"),
    pointwise("torch.floor_divide", "floor_divide", "a b"),
    pointwise("torch.fmax", "fmax", "a b"),
    pointwise("torch.fmin", "fmin", "a b"),
    pointwise("torch.fmod", "fmod.Tensor", "a b"),
    pointwise("torch.ge", "ge.Tensor", "a b"),
    pointwise("torch.gt", "gt.Tensor", "a b"),
    pointwise("torch.hypot", "hypot", "a b"),
    pointwise("torch.ldexp", "ldexp.Tensor", "a b"),
    pointwise("torch.le", "le.Tensor", "a b"),
    pointwise("torch.logaddexp", "logaddexp", "a b"),
    pointwise("torch.logical_and", "logical_and", "a b"),
    pointwise("torch.logical_or", "logical_or", "a b"),
    pointwise("torch.logical_xor", "logical_xor", "a b"),
    pointwise("torch.lt", "lt.Tensor", "a b"),
    pointwise("torch.maximum", "maximum", "a b"),
    pointwise("torch.minimum", "minimum", "a b"),
    pointwise("torch.mul", "mul.Tensor", "a b"),
    pointwise("torch.ne", "ne.Tensor", "a b"),
    pointwise("torch.nextafter", "nextafter", "a b"),
    pointwise("torch.polar", "polar", "abs angle"),
    pointwise_with("torch.pow", pow),
    pointwise_with("torch.prelu", prelu),
    pointwise("torch.remainder", "remainder.Tensor", "a b"),
    // b - alpha * a
    pointwise("torch.rsub", "sub.Tensor", "b a alpha"),
    pointwise("torch.sub", "sub.Tensor", "a b alpha"),
    pointwise("torch.true_divide", "div.Tensor", "a b"),
    pointwise("torch.xlogy", "xlogy.Tensor", "a b"),
    pointwise("torch.zeta", "special_zeta", "a b"),
    pointwise("torch.addcdiv", "addcdiv", "a b c value"),
    pointwise("torch.addcmul", "addcmul", "a b c value"),
    pointwise_with("torch.clamp", clamp),
    pointwise_with("torch.lerp", lerp),
    pointwise_with("torch.masked_fill", masked_fill),
    pointwise("torch.where", "where.self", "pred a b"),
    // Conditions that the model states; one that does not hold is an error with its message.
    with("prims.check", check),
    call("torch.assert_async", "_assert_async.msg", "cond message"),
    // Where they draw, they are refused before.
    copy("torch.dropout"),
    pointwise("torch.native_dropout", "native_dropout", "a p train"),
    pointwise("torch.native_dropout_backward", "native_dropout_backward", "g mask scale"),
    // Gradients that ATen has as ops.
    with("torch.fake_quantize_per_tensor", fake_quantize),
    call("torch.glu", "glu", "a axis"),
    call("torch.glu_backward", "glu_backward", "g a axis"),
    pointwise("torch.gelu_backward", "gelu_backward", "g a approximate"),
    pointwise("torch.relu_backward", "threshold_backward", "g a threshold"),
    pointwise("torch.sigmoid_backward", "sigmoid_backward", "g a"),
    pointwise("torch.silu_backward", "silu_backward", "g a"),
    pointwise("torch.tanh_backward", "tanh_backward", "g a"),
];

/// Integers divide towards zero; ATen's plain division would make floats of them.
fn prims_div(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    if recipe.result()?.dtype().is_int() {
        recipe.call("div.Tensor_mode", "a b ='trunc'")
    } else {
        recipe.call("div.Tensor", "a b")
    }
}

/// NaN keeps what it is; of ATen's sign it is 0.
fn prims_sign(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    if !recipe.desc("a")?.dtype().is_float() {
        return recipe.call("sign", "a");
    }
    let (sign, nan) = (recipe.run("sign", "a")?, recipe.run("isnan", "a")?);
    let a = recipe.arg("a")?;
    recipe.call_to_outputs("where.self", vec![Arg::Reg(nan), a, Arg::Reg(sign)])
}

fn div(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    match recipe.op.opt_str("mode")? {
        None | Some("none") => recipe.call("div.Tensor", "a b"),
        Some(_) => recipe.call("div.Tensor_mode", "a b mode"),
    }
}

/// Powers by a number have kernels of their own (squares, roots).
fn pow(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    match (recipe.op.tensor("a"), recipe.op.tensor("b")) {
        (Some(_), None) => recipe.call("pow.Tensor_Scalar", "a b"),
        (None, Some(_)) => recipe.call("pow.Scalar", "a b"),
        _ => recipe.call("pow.Tensor_Tensor", "a b"),
    }
}

fn lerp(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    match recipe.op.tensor("weight") {
        Some(_) => recipe.call("lerp.Tensor", "start end weight"),
        None => recipe.call("lerp.Scalar", "start end weight"),
    }
}

fn round(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    match recipe.op.opt_int("decimals")? {
        None | Some(0) => recipe.call("round", "a"),
        Some(_) => recipe.call("round.decimals", "a decimals"),
    }
}

/// `a / (1 + |a|)`
fn softsign(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    let magnitude = recipe.run("abs", "a")?;
    let below = recipe.run_with("add.Tensor", vec![Arg::Reg(magnitude), Arg::Int(1)]);
    let a = recipe.arg("a")?;
    recipe.call_to_outputs("div.Tensor", vec![a, Arg::Reg(below)])
}

/// `a - tanh(a)`
fn tanhshrink(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    let tanh = recipe.run("tanh", "a")?;
    let a = recipe.arg("a")?;
    recipe.call_to_outputs("sub.Tensor", vec![a, Arg::Reg(tanh)])
}

fn hardtanh(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    let negative = |name: &str| recipe.op.number(name).is_ok_and(|limit| limit.as_f64() < 0.0);
    let dtype = recipe.desc("a")?.dtype();
    if dtype == Dtype::U8 && (negative("min") || negative("max")) {
        return Err(form("an unsigned tensor has a negative limit".into()).attribute("min"));
    }
    recipe.call("hardtanh", "a min max")
}

/// A weight for each channel, or one that is broadcast already.
fn prelu(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    match recipe.desc("weight")?.rank() {
        0 | 1 => recipe.call("prelu", "a weight"),
        _ => recipe.call("_prelu_kernel", "a weight"),
    }
}

/// A bound that is a tensor or a number.
fn bounded(recipe: &mut Recipe<'_>, aten: &str, bound: &str) -> Result<(), Refusal> {
    match recipe.op.tensor(bound) {
        Some(_) => recipe.call(&format!("{aten}.Tensor"), &format!("a {bound}")),
        None => recipe.call(aten, &format!("a {bound}")),
    }
}

fn clamp(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    match (recipe.op.tensor("min"), recipe.op.tensor("max")) {
        (None, None) => recipe.call("clamp", "a min max"),
        _ => recipe.call("clamp.Tensor", "a min max"),
    }
}

/// As a choice between the value and `a`, which is one pass where ATen's own `masked_fill` copies first. The value takes
/// the dtype of `a`, so a choice that would promote is left to ATen.
fn masked_fill(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    let dtype = recipe.desc("a")?.dtype();
    let mask = recipe.desc("mask")?.dtype();
    if recipe.op.tensor("value").is_some() {
        return recipe.call("masked_fill.Tensor", "a mask value");
    }
    let promotes = match recipe.op.arg("value") {
        Some(ArgRef::Float(_)) => !(dtype.is_float() || dtype.is_complex()),
        Some(ArgRef::Int(_)) => dtype == Dtype::Bool,
        Some(ArgRef::Bool(_)) => false,
        _ => true,
    };
    if promotes || mask != Dtype::Bool {
        recipe.call("masked_fill.Scalar", "a mask value")
    } else {
        recipe.call("where.self", "mask value a")
    }
}

/// Conditions on numbers are the host's.
fn check(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    match recipe.op.tensor("cond") {
        Some(_) => recipe.call("_assert_async.msg", "cond message"),
        None => Err(form("the condition is no tensor".into()).attribute("cond")),
    }
}

fn fill(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    match recipe.op.arg("value") {
        Some(ArgRef::Tensor(idx)) => {
            recipe.copy(recipe.input(idx)?, recipe.out(0));
            Ok(())
        }
        Some(_) => recipe.call("fill_.Scalar", "%o0 value"),
        None => Err(form("it has no value".into())),
    }
}

/// Scale and zero point are two tensors, or two numbers.
fn fake_quantize(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    match (recipe.op.tensor("scale"), recipe.op.tensor("zero")) {
        (Some(_), Some(_)) => {
            recipe.call("fake_quantize_per_tensor_affine.tensor_qparams", "a scale zero lo hi")
        }
        (None, None) => recipe.call("fake_quantize_per_tensor_affine", "a scale zero lo hi"),
        _ => Err(form("of `scale` and `zero` one is a tensor".into()).attribute("zero")),
    }
}
