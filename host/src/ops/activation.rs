//! Activations that few networks have, and gradients of activations as ops, which stand in graphs exported after
//! autograd.
//!
//! Formulas of several steps compute halves in f32 and round once. Deliberately absent: the activations of most
//! networks, which are `pointwise`; our own gradient rules, which use the parts.

use super::arith::Built;
use super::build::{Builder, Tensor};
use super::pointwise::{CHEAP_POINTWISE, SAME, chain, in_acc_of_a, real_a, same_as_a};
use super::{Aten, AtenCall, Call, Grad, Import, Level, Meta, Op, OpError, Sample, Vjp, import, meta};
use crate::ir::{Arg, Type};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &TORCH_CELU,
    &TORCH_SELU,
    &TORCH_HARDSHRINK,
    &TORCH_SOFTSHRINK,
    &TORCH_LOGSIGMOID,
    &TORCH_SOFTSIGN,
    &TORCH_TANHSHRINK,
    &TORCH_THRESHOLD,
    &TORCH_GELU_BACKWARD,
    &TORCH_GLU_BACKWARD,
    &TORCH_RELU_BACKWARD,
    &TORCH_SIGMOID_BACKWARD,
    &TORCH_SILU_BACKWARD,
    &TORCH_TANH_BACKWARD,
];

/// Gradients as ops: of the type of `g`, which `a` has, too.
const BACKWARD: Op = Op { meta: Meta::Fn(same_as_both), traits: CHEAP_POINTWISE, ..Op::BASE };

/// The constants of self-normalising networks.
const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

pub static TORCH_CELU: Op = Op {
    name: "torch.celu",
    doc: "`x` above zero, `alpha * (exp(x / alpha) - 1)` below.",
    schema: "(a: Tensor<f>, alpha: num = 1.0) -> Tensor",
    level: Level::Composite(|b, call| {
        let alpha = call.float("alpha")?;
        let args = vec![call.raw("a")?, Arg::Float(alpha), Arg::Float(1.0), Arg::Float(1.0 / alpha)];
        Ok(vec![b.tensor("torch.elu", args)?.arg()])
    }),
    meta: Meta::Fn(|call| {
        if call.float("alpha")? == 0.0 {
            return Err(call.error("`alpha` must not be 0"));
        }
        same_as_a(call)
    }),
    aten: &[Aten { overloads: &["celu.default", "celu_.default"], import: Import::Map("a=self alpha") }],
    samples: &[
        Sample("T[2, 3]"),
        Sample("T[]"),
        Sample("T[0, 4]"),
        Sample("T[5]{nonfinite}"),
        Sample("T[4], alpha=0.5"),
    ],
    ..SAME
};

pub static TORCH_SELU: Op = Op {
    name: "torch.selu",
    doc: "`scale * x` above zero, `scale * alpha * (exp(x) - 1)` below, with the constants that keep mean 0 and deviation 1.",
    schema: "(a: Tensor<f>) -> Tensor",
    level: Level::Composite(|b, call| {
        let args = vec![call.raw("a")?, Arg::Float(SELU_ALPHA), Arg::Float(SELU_SCALE), Arg::Float(1.0)];
        Ok(vec![b.tensor("torch.elu", args)?.arg()])
    }),
    aten: &[Aten { overloads: &["selu.default", "selu_.default"], import: Import::Map("a=self") }],
    samples: &[Sample("T[2, 3]"), Sample("T[]"), Sample("T[0, 4]"), Sample("T[5]{nonfinite}")],
    ..SAME
};

pub static TORCH_HARDSHRINK: Op = Op {
    name: "torch.hardshrink",
    doc: "0 where |x| is at most `lambd`, else `x`.",
    schema: "(a: Tensor<f>, lambd: num = 0.5) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let near = near_zero(b, call, &a)?;
        Ok(vec![b.select(&near, 0.0, &a)?.arg()])
    }),
    vjp: Vjp::Rule(shrink_rule),
    aten: &[Aten { overloads: &["hardshrink.default"], import: Import::Map("a=self lambd") }],
    samples: &[
        Sample("T[2, 3]"),
        Sample("T[]"),
        Sample("T[0, 4]"),
        Sample("T[5]{nonfinite}"),
        Sample("T[6], lambd=0.1"),
    ],
    ..SAME
};

pub static TORCH_SOFTSHRINK: Op = Op {
    name: "torch.softshrink",
    doc: "`x` moved by `lambd` towards zero, 0 where |x| is at most that.",
    schema: "(a: Tensor<f>, lambd: num = 0.5) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let lambd = call.num("lambd")?;
        let high = b.binary("prims.gt", &a, lambd.clone())?;
        let above = b.sub(&a, lambd.clone())?;
        let below = b.add(&a, lambd)?;
        let moved = b.select(&high, &above, &below)?;
        let near = near_zero(b, call, &a)?;
        Ok(vec![b.select(&near, 0.0, &moved)?.arg()])
    }),
    vjp: Vjp::Rule(shrink_rule),
    aten: &[Aten { overloads: &["softshrink.default"], import: Import::Map("a=self lambd") }],
    samples: &[
        Sample("T[2, 3]"),
        Sample("T[]"),
        Sample("T[0, 4]"),
        Sample("T[5]{nonfinite}"),
        Sample("T[6], lambd=0.1"),
    ],
    ..SAME
};

pub static TORCH_LOGSIGMOID: Op = Op {
    name: "torch.logsigmoid",
    doc: "log(1 / (1 + exp(-x))), without overflow.",
    schema: "(a: Tensor<f>) -> Tensor",
    level: Level::Composite(|b, call| {
        in_acc_of_a(b, call, |b, x| {
            let low = b.minimum(x, 0.0)?;
            let e = small_exponential(b, x)?;
            let rest = b.unary("prims.log1p", &e)?;
            b.sub(&low, &rest)
        })
    }),
    vjp: Vjp::Rule(|b, d| {
        let (a, g) = (d.call.tensor("a")?, d.g()?);
        let minus = b.neg(&a)?;
        let slope = b.tensor("torch.sigmoid", vec![minus.arg()])?;
        Ok(vec![Some(b.mul(&g, &slope)?)])
    }),
    aten: &[
        Aten { overloads: &["log_sigmoid.default"], import: Import::Map("a=self") },
        Aten { overloads: &["log_sigmoid_forward.default"], import: Import::With(import_log_sigmoid) },
    ],
    samples: &[Sample("T[2, 3]"), Sample("T[]"), Sample("T[0, 4]"), Sample("T[5]{nonfinite}")],
    ..SAME
};

pub static TORCH_SOFTSIGN: Op = Op {
    name: "torch.softsign",
    doc: "`x / (1 + |x|)`.",
    schema: "(a: Tensor<f>) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let size = b.abs(&a)?;
        let below = b.add(&size, 1.0)?;
        Ok(vec![b.div(&a, &below)?.arg()])
    }),
    samples: &[Sample("T[2, 3]"), Sample("T[]"), Sample("T[0, 4]"), Sample("T[5]{nonfinite}")],
    ..SAME
};

pub static TORCH_TANHSHRINK: Op = Op {
    name: "torch.tanhshrink",
    doc: "`x - tanh(x)`.",
    schema: "(a: Tensor<x>) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let y = b.tensor("torch.tanh", vec![a.arg()])?;
        Ok(vec![b.sub(&a, &y)?.arg()])
    }),
    samples: &[Sample("T[2, 3]"), Sample("T[]"), Sample("T[0, 4]"), Sample("T[5]{nonfinite}")],
    ..SAME
};

pub static TORCH_THRESHOLD: Op = Op {
    name: "torch.threshold",
    doc: "`x` above the threshold, `value` elsewhere; NaN stays.",
    schema: "(a: Tensor, threshold: num, value: num) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let low = b.binary("prims.le", &a, call.num("threshold")?)?;
        Ok(vec![b.select(&low, call.num("value")?, &a)?.arg()])
    }),
    meta: Meta::Fn(real_a),
    vjp: Vjp::Rule(|b, d| {
        let (a, g) = (d.call.tensor("a")?, d.g()?);
        let low = b.binary("prims.le", &a, d.call.num("threshold")?)?;
        Ok(vec![Some(b.select(&low, 0.0, &g)?)])
    }),
    aten: &[Aten {
        overloads: &["threshold.default", "threshold_.default"],
        import: Import::Map("a=self threshold value"),
    }],
    samples: &[
        Sample("T[2, 3], threshold=0, value=-1"),
        Sample("T[5]{nonfinite}, threshold=0.5, value=2"),
        Sample("T[0], threshold=0, value=0"),
    ],
    ..SAME
};

pub static TORCH_GELU_BACKWARD: Op = Op {
    name: "torch.gelu_backward",
    doc: "The gradient of `torch.gelu`, from that of its result.",
    schema: "(g: Tensor<f>, a: Tensor<f>, *, approximate: str{none|tanh} = none) -> Tensor",
    level: Level::Composite(gelu_backward),
    aten: &[Aten {
        overloads: &["gelu_backward.default"],
        import: Import::Map("g=grad_output a=self approximate"),
    }],
    samples: &[
        Sample("T[2, 3], T[2, 3]"),
        Sample("T[0, 4], T[0, 4]"),
        Sample("T[], T[]"),
        Sample("T[2, 3], T[2, 3], approximate=\"tanh\""),
    ],
    ..BACKWARD
};

pub static TORCH_GLU_BACKWARD: Op = Op {
    name: "torch.glu_backward",
    doc: "The gradient of `torch.glu`, from that of its result.",
    schema: "(g: Tensor<f>, a: Tensor<f>, axis: int) -> Tensor",
    level: Level::Composite(glu_backward),
    aten: &[Aten {
        overloads: &["glu_backward.default"],
        import: Import::Map("g=grad_output a=self axis=dim"),
    }],
    samples: &[Sample("T[2, 2], T[2, 4], axis=-1"), Sample("T[2, 3], T[4, 3], axis=0")],
    ..Op::BASE
};

pub static TORCH_RELU_BACKWARD: Op = Op {
    name: "torch.relu_backward",
    doc: "The gradient of `torch.relu`, and of whatever is flat up to a threshold.",
    schema: "(g: Tensor<f>, a: Tensor<f>, threshold: num = 0) -> Tensor",
    level: Level::Composite(|b, call| {
        let (g, a) = (call.tensor("g")?, call.tensor("a")?);
        let low = b.binary("prims.le", &a, call.num("threshold")?)?;
        Ok(vec![b.select(&low, 0.0, &g)?.arg()])
    }),
    aten: &[Aten {
        overloads: &["threshold_backward.default"],
        import: Import::Map("g=grad_output a=self threshold"),
    }],
    samples: &[
        Sample("T[2, 3], T[2, 3]"),
        Sample("T[0, 4], T[0, 4]"),
        Sample("T[], T[]"),
        Sample("T[4], T[4], threshold=0.5"),
    ],
    ..BACKWARD
};

pub static TORCH_SIGMOID_BACKWARD: Op = Op {
    name: "torch.sigmoid_backward",
    doc: "The gradient of `torch.sigmoid`, from its result `a`.",
    schema: "(g: Tensor<x>, a: Tensor<x>) -> Tensor",
    level: Level::Composite(|b, call| {
        in_acc_of_g(b, call, |b, g, y| {
            let rest = b.one_minus(y)?;
            let slope = b.mul(y, &rest)?;
            chain(b, g, &slope)
        })
    }),
    aten: &[Aten { overloads: &["sigmoid_backward.default"], import: Import::Map("g=grad_output a=output") }],
    samples: &[Sample("T[2, 3], T[2, 3]"), Sample("T[0, 4], T[0, 4]"), Sample("T[], T[]")],
    ..BACKWARD
};

pub static TORCH_SILU_BACKWARD: Op = Op {
    name: "torch.silu_backward",
    doc: "The gradient of `torch.silu`, from that of its result.",
    schema: "(g: Tensor<f>, a: Tensor<f>) -> Tensor",
    level: Level::Composite(|b, call| {
        in_acc_of_g(b, call, |b, g, x| {
            let s = b.tensor("torch.sigmoid", vec![x.arg()])?;
            let rest = b.one_minus(&s)?;
            let inner = b.mul(x, &rest)?;
            let inner = b.add(&inner, 1.0)?;
            let slope = b.mul(&s, &inner)?;
            b.mul(g, &slope)
        })
    }),
    aten: &[Aten { overloads: &["silu_backward.default"], import: Import::Map("g=grad_output a=self") }],
    samples: &[Sample("T[2, 3], T[2, 3]"), Sample("T[0, 4], T[0, 4]"), Sample("T[], T[]")],
    ..BACKWARD
};

pub static TORCH_TANH_BACKWARD: Op = Op {
    name: "torch.tanh_backward",
    doc: "The gradient of `torch.tanh`, from its result `a`.",
    schema: "(g: Tensor<x>, a: Tensor<x>) -> Tensor",
    level: Level::Composite(|b, call| {
        in_acc_of_g(b, call, |b, g, y| {
            let square = b.mul(y, y)?;
            let slope = b.one_minus(&square)?;
            chain(b, g, &slope)
        })
    }),
    aten: &[Aten { overloads: &["tanh_backward.default"], import: Import::Map("g=grad_output a=output") }],
    samples: &[Sample("T[2, 3], T[2, 3]"), Sample("T[0, 4], T[0, 4]"), Sample("T[], T[]")],
    ..BACKWARD
};

fn same_as_both(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    meta::same_as_inputs(call)
}

/// Is |x| at most `lambd`?
fn near_zero(b: &mut Builder<'_>, call: &Call, a: &Tensor) -> Built {
    let size = b.abs(a)?;
    b.binary("prims.le", &size, call.num("lambd")?)
}

/// The gradient passes but where the op is flat, around zero.
fn shrink_rule(b: &mut Builder<'_>, d: &Grad<'_>) -> Result<Vec<Option<Tensor>>, OpError> {
    let (a, g) = (d.call.tensor("a")?, d.g()?);
    let near = near_zero(b, d.call, &a)?;
    Ok(vec![Some(b.select(&near, 0.0, &g)?)])
}

/// exp(-|x|).
fn small_exponential(b: &mut Builder<'_>, x: &Tensor) -> Built {
    let size = b.abs(x)?;
    let minus = b.neg(&size)?;
    b.exp(&minus)
}

/// The second result is what ATen's own backward wants.
fn import_log_sigmoid(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let a = import::tensor(b, c, "self")?;
    let y = b.tensor("torch.logsigmoid", vec![a.arg()])?;
    Ok(vec![y.arg(), small_exponential(b, &a)?.arg()])
}

/// What `f` makes of `g` and `a`, halves in f32.
fn in_acc_of_g(
    b: &mut Builder<'_>,
    call: &Call,
    f: impl FnOnce(&mut Builder<'_>, &Tensor, &Tensor) -> Built,
) -> Result<Vec<Arg>, OpError> {
    let (g, a) = (call.tensor("g")?, call.tensor("a")?);
    let acc = g.dtype().acc();
    let (wide_g, wide_a) = (b.to(&g, acc)?, b.to(&a, acc)?);
    let out = f(b, &wide_g, &wide_a)?;
    Ok(vec![b.to(&out, g.dtype())?.arg()])
}

fn gelu_backward(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let tanh = call.str("approximate")? == "tanh";
    in_acc_of_g(b, call, |b, g, x| {
        let slope = if tanh { gelu_tanh_slope(b, x)? } else { gelu_slope(b, x)? };
        b.mul(g, &slope)
    })
}

/// Phi(x) + x phi(x).
fn gelu_slope(b: &mut Builder<'_>, x: &Tensor) -> Built {
    let inner = b.mul(x, std::f64::consts::FRAC_1_SQRT_2)?;
    let e = b.unary("prims.erf", &inner)?;
    let half = b.mul(&e, 0.5)?;
    let below = b.add(&half, 0.5)?;
    let square = b.mul(x, x)?;
    let minus = b.mul(&square, -0.5)?;
    let bell = b.exp(&minus)?;
    let density = b.mul(&bell, std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2 * 0.5)?;
    let rest = b.mul(x, &density)?;
    b.add(&below, &rest)
}

/// With u = sqrt(2/pi) (x + 0.044715 x^3) and t = tanh(u): (1 + t) / 2 + x (1 - t^2) u' / 2.
fn gelu_tanh_slope(b: &mut Builder<'_>, x: &Tensor) -> Built {
    let scale = (2.0 / std::f64::consts::PI).sqrt();
    let square = b.mul(x, x)?;
    let cubic = b.mul(&square, 0.044715)?;
    let factor = b.add(&cubic, 1.0)?;
    let inner = b.mul(x, &factor)?;
    let inner = b.mul(&inner, scale)?;
    let t = b.unary("prims.tanh", &inner)?;
    let half = b.mul(&t, 0.5)?;
    let left = b.add(&half, 0.5)?;
    let t2 = b.mul(&t, &t)?;
    let flat = b.one_minus(&t2)?;
    let steep = b.mul(&cubic, 3.0)?;
    let steep = b.add(&steep, 1.0)?;
    let steep = b.mul(&steep, scale * 0.5)?;
    let right = b.mul(&flat, &steep)?;
    let right = b.mul(x, &right)?;
    b.add(&left, &right)
}

/// The gate's half of the gradient is x s (1 - s), the other's s.
fn glu_backward(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (g, a) = (call.tensor("g")?, call.tensor("a")?);
    let axis = call.axis("axis", a.rank())?;
    let halves = b.call("torch.chunk", vec![a.arg(), Arg::Int(2), Arg::Int(axis as i64)])?;
    let [Arg::Value(x), Arg::Value(gate)] = halves[..] else {
        return Err(call.error(format!("{} has no two halves along axis {axis}", meta::show(a.dims()))));
    };
    let acc = a.dtype().acc();
    let (x, gate) = (b.as_tensor(x)?, b.as_tensor(gate)?);
    let (g, x, gate) = (b.to(&g, acc)?, b.to(&x, acc)?, b.to(&gate, acc)?);
    let s = b.tensor("torch.sigmoid", vec![gate.arg()])?;
    let of_x = b.mul(&g, &s)?;
    let rest = b.one_minus(&s)?;
    let slope = b.mul(&rest, &x)?;
    let of_gate = b.mul(&of_x, &slope)?;
    let both = b.cat(&[of_x, of_gate], axis)?;
    Ok(vec![b.to(&both, a.dtype())?.arg()])
}
