//! Functions of analysis, elementwise: inverse trigonometric and hyperbolic functions, logarithms to other bases, the
//! error, gamma, zeta and Bessel functions.
//!
//! Slopes are stated on whichever of input and output saves work. Deliberately absent: the functions that networks are
//! made of (`exp`, `tanh`, …), which are `pointwise`.

use super::arith::Built;
use super::build::{Builder, Tensor};
use super::emit::{elementwise, in_acc, to_dtype};
use super::meta::{self, inexact, promoted};
use super::pointwise::{
    BINARY_PRIM, INEXACT, PRIM, SAME, UNARY, UNARY_POS, binary_rule, chain, chain_operand, inexact_of_a,
    operands_a_b, unary_inexact, unary_rule,
};
use super::{Aten, Call, Grad, Import, Level, Meta, Op, OpError, Sample, Vjp};
use crate::ir::{Arg, Dtype, Type};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &ACOS,
    &ACOSH,
    &ASIN,
    &ASINH,
    &ATAN,
    &ATANH,
    &BESSEL_I0,
    &COSH,
    &DIGAMMA,
    &ERFC,
    &ERFCINV,
    &ERFINV,
    &EXP2,
    &LGAMMA,
    &LOG10,
    &LOG2,
    &NDTRI,
    &POLYGAMMA,
    &SINH,
    &TAN,
    &ATAN2,
    &ZETA,
    &FMA,
    &TORCH_ACOS,
    &TORCH_ACOSH,
    &TORCH_ASIN,
    &TORCH_ASINH,
    &TORCH_ATAN,
    &TORCH_ATANH,
    &TORCH_COSH,
    &TORCH_DIGAMMA,
    &TORCH_ERF,
    &TORCH_ERFC,
    &TORCH_ERFINV,
    &TORCH_EXP2,
    &TORCH_EXPM1,
    &TORCH_LGAMMA,
    &TORCH_LOG10,
    &TORCH_LOG1P,
    &TORCH_LOG2,
    &TORCH_NDTRI,
    &TORCH_RECIPROCAL,
    &TORCH_SINH,
    &TORCH_TAN,
    &TORCH_I0,
    &TORCH_POLYGAMMA,
    &TORCH_LOGIT,
    &TORCH_ATAN2,
    &TORCH_HYPOT,
    &TORCH_LDEXP,
    &TORCH_LOGADDEXP,
    &TORCH_XLOGY,
    &TORCH_ZETA,
];

/// Composites of one real tensor, computed as the default float where that is not inexact.
const REAL: Op = Op { meta: Meta::Fn(real_inexact_of_a), ..INEXACT };
/// Composites of `a` and `b`, broadcast and promoted to a float.
const BINARY_INEXACT: Op = Op { meta: Meta::Fn(inexact_of_a_b), ..SAME };

/// Where the inverse of cosh is defined, and around.
const FROM_ONE: &[Sample] =
    &[Sample("T[2, 3]{2..9}"), Sample("T[]{2..9}"), Sample("T[0, 4]"), Sample("T[5]{nonfinite}")];

pub static ACOS: Op = Op {
    name: "prims.acos",
    doc: "Arc cosine, in [0, pi]; NaN outside [-1, 1].",
    schema: "(a: Tensor<x>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, a, _, g| {
            let slope = arc_slope(b, a)?;
            let slope = b.neg(&slope)?;
            chain(b, g, &slope)
        })
    }),
    samples: &[Sample("T[2, 3]{unit}"), Sample("T[]{unit}"), Sample("T[0, 4]"), Sample("T[5]{nonfinite}")],
    ..PRIM
};

pub static ACOSH: Op = Op {
    name: "prims.acosh",
    doc: "Inverse of the hyperbolic cosine; NaN below 1.",
    schema: "(a: Tensor<x>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, a, _, g| {
            // 1 / (sqrt(x - 1) sqrt(x + 1)): the product of roots is right on the complex plane, too.
            let (low, high) = (b.sub(a, 1.0)?, b.add(a, 1.0)?);
            let (low, high) = (b.rsqrt(&low)?, b.rsqrt(&high)?);
            let slope = b.mul(&low, &high)?;
            chain(b, g, &slope)
        })
    }),
    samples: FROM_ONE,
    ..PRIM
};

pub static ASIN: Op = Op {
    name: "prims.asin",
    doc: "Arc sine, in [-pi/2, pi/2]; NaN outside [-1, 1].",
    schema: "(a: Tensor<x>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, a, _, g| {
            let slope = arc_slope(b, a)?;
            chain(b, g, &slope)
        })
    }),
    samples: &[Sample("T[2, 3]{unit}"), Sample("T[]{unit}"), Sample("T[0, 4]"), Sample("T[5]{nonfinite}")],
    ..PRIM
};

pub static ASINH: Op = Op {
    name: "prims.asinh",
    doc: "Inverse of the hyperbolic sine.",
    schema: "(a: Tensor<x>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, a, _, g| {
            let square = b.mul(a, a)?;
            let sum = b.add(&square, 1.0)?;
            let slope = b.rsqrt(&sum)?;
            chain(b, g, &slope)
        })
    }),
    samples: UNARY,
    ..PRIM
};

pub static ATAN: Op = Op {
    name: "prims.atan",
    doc: "Arc tangent, in [-pi/2, pi/2].",
    schema: "(a: Tensor<x>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, a, _, g| {
            let square = b.mul(a, a)?;
            let sum = b.add(&square, 1.0)?;
            let slope = b.unary("prims.reciprocal", &sum)?;
            chain(b, g, &slope)
        })
    }),
    samples: UNARY,
    ..PRIM
};

pub static ATANH: Op = Op {
    name: "prims.atanh",
    doc: "Inverse of the hyperbolic tangent; infinite at -1 and 1, NaN beyond.",
    schema: "(a: Tensor<x>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, a, _, g| {
            let square = b.mul(a, a)?;
            let rest = b.one_minus(&square)?;
            let slope = b.unary("prims.reciprocal", &rest)?;
            chain(b, g, &slope)
        })
    }),
    samples: &[Sample("T[2, 3]{unit}"), Sample("T[]{unit}"), Sample("T[0, 4]"), Sample("T[5]{nonfinite}")],
    ..PRIM
};

pub static BESSEL_I0: Op = Op {
    name: "prims.bessel_i0",
    doc: "Modified Bessel function of the first kind of order 0.",
    schema: "(a: Tensor<f>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, a, _, g| {
            let slope = bessel_i1(b, a)?;
            b.mul(g, &slope)
        })
    }),
    samples: UNARY,
    ..PRIM
};

pub static COSH: Op = Op {
    name: "prims.cosh",
    doc: "Hyperbolic cosine.",
    schema: "(a: Tensor<x>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, a, _, g| {
            let slope = b.unary("prims.sinh", a)?;
            chain(b, g, &slope)
        })
    }),
    samples: UNARY,
    ..PRIM
};

pub static DIGAMMA: Op = Op {
    name: "prims.digamma",
    doc: "The derivative of the logarithm of the gamma function; -inf at 0, NaN at negative integers.",
    schema: "(a: Tensor<f>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, a, _, g| {
            let slope = polygamma(b, a, 1)?;
            b.mul(g, &slope)
        })
    }),
    samples: UNARY_POS,
    ..PRIM
};

pub static ERFC: Op = Op {
    name: "prims.erfc",
    doc: "1 - erf(x), accurate where erf is near 1.",
    schema: "(a: Tensor<f>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, a, _, g| {
            let bell = bell(b, a, -1.0)?;
            let slope = b.mul(&bell, -std::f64::consts::FRAC_2_SQRT_PI)?;
            b.mul(g, &slope)
        })
    }),
    samples: UNARY,
    ..PRIM
};

pub static ERFCINV: Op = Op {
    name: "prims.erfcinv",
    doc: "Inverse of erfc: erfinv(1 - x), accurate near 0.",
    schema: "(a: Tensor<f>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, _, y, g| {
            let growth = bell(b, y, 1.0)?;
            let slope = b.mul(&growth, -1.0 / std::f64::consts::FRAC_2_SQRT_PI)?;
            b.mul(g, &slope)
        })
    }),
    samples: &[Sample("T[2, 3]{unit}"), Sample("T[]{unit}"), Sample("T[0, 4]"), Sample("T[5]{nonfinite}")],
    ..PRIM
};

pub static ERFINV: Op = Op {
    name: "prims.erfinv",
    doc: "Inverse of erf; infinite at -1 and 1, NaN beyond.",
    schema: "(a: Tensor<f>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, _, y, g| {
            let growth = bell(b, y, 1.0)?;
            let slope = b.mul(&growth, 1.0 / std::f64::consts::FRAC_2_SQRT_PI)?;
            b.mul(g, &slope)
        })
    }),
    samples: &[Sample("T[2, 3]{unit}"), Sample("T[]{unit}"), Sample("T[0, 4]"), Sample("T[5]{nonfinite}")],
    ..PRIM
};

pub static EXP2: Op = Op {
    name: "prims.exp2",
    doc: "2 to the power of each element.",
    schema: "(a: Tensor<x>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, _, y, g| {
            let slope = b.mul(y, std::f64::consts::LN_2)?;
            chain(b, g, &slope)
        })
    }),
    samples: UNARY,
    ..PRIM
};

pub static LGAMMA: Op = Op {
    name: "prims.lgamma",
    doc: "Logarithm of the absolute value of the gamma function; inf at 0 and negative integers.",
    schema: "(a: Tensor<f>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, a, _, g| {
            let slope = b.unary("prims.digamma", a)?;
            b.mul(g, &slope)
        })
    }),
    samples: UNARY_POS,
    ..PRIM
};

pub static LOG10: Op = Op {
    name: "prims.log10",
    doc: "Logarithm to base 10; NaN below zero, -inf at zero.",
    schema: "(a: Tensor<x>) -> Tensor",
    vjp: Vjp::Rule(|b, d| unary_rule(b, d, |b, a, _, g| log_rule(b, a, g, std::f64::consts::LN_10))),
    samples: UNARY_POS,
    ..PRIM
};

pub static LOG2: Op = Op {
    name: "prims.log2",
    doc: "Logarithm to base 2; NaN below zero, -inf at zero.",
    schema: "(a: Tensor<x>) -> Tensor",
    vjp: Vjp::Rule(|b, d| unary_rule(b, d, |b, a, _, g| log_rule(b, a, g, std::f64::consts::LN_2))),
    samples: UNARY_POS,
    ..PRIM
};

pub static NDTRI: Op = Op {
    name: "prims.ndtri",
    doc: "Inverse of the distribution function of the normal distribution; infinite at 0 and 1.",
    schema: "(a: Tensor<f>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, _, y, g| {
            // 1 / phi(y), phi the density: sqrt(2 pi) exp(y^2 / 2).
            let growth = bell(b, y, 0.5)?;
            let slope = b.mul(&growth, std::f64::consts::TAU.sqrt())?;
            b.mul(g, &slope)
        })
    }),
    samples: &[Sample("T[2, 3]{unit}"), Sample("T[]{unit}"), Sample("T[0, 4]"), Sample("T[5]{nonfinite}")],
    ..PRIM
};

pub static POLYGAMMA: Op = Op {
    name: "prims.polygamma",
    doc: "Derivative of order `n` of digamma, `n` at least 0.",
    schema: "(a: Tensor<f>, n: int) -> Tensor",
    meta: Meta::Fn(|call| {
        order_of(call)?;
        meta::same_as_inputs(call)
    }),
    vjp: Vjp::Rule(|b, d| {
        let n = d.call.int("n")?;
        unary_rule(b, d, |b, a, _, g| {
            let slope = polygamma(b, a, n + 1)?;
            b.mul(g, &slope)
        })
    }),
    samples: &[
        Sample("T[2, 3]{pos}, n=1"),
        Sample("T[4]{pos}, n=0"),
        Sample("T[]{pos}, n=2"),
        Sample("T[0, 4], n=1"),
    ],
    ..PRIM
};

pub static SINH: Op = Op {
    name: "prims.sinh",
    doc: "Hyperbolic sine.",
    schema: "(a: Tensor<x>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, a, _, g| {
            let slope = b.unary("prims.cosh", a)?;
            chain(b, g, &slope)
        })
    }),
    samples: UNARY,
    ..PRIM
};

pub static TAN: Op = Op {
    name: "prims.tan",
    doc: "Tangent.",
    schema: "(a: Tensor<x>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, _, y, g| {
            let square = b.mul(y, y)?;
            let slope = b.add(&square, 1.0)?;
            chain(b, g, &slope)
        })
    }),
    samples: UNARY,
    ..PRIM
};

pub static ATAN2: Op = Op {
    name: "prims.atan2",
    doc: "Angle of the point with abscissa `b` and ordinate `a`, in [-pi, pi].",
    schema: "(a: Tensor<f>, b: Tensor<f>|num) -> Tensor",
    vjp: Vjp::Rule(atan2_rule),
    samples: BINARY_PRIM,
    ..PRIM
};

pub static ZETA: Op = Op {
    name: "prims.zeta",
    doc: "Hurwitz zeta function: the sum of (b + k)^-a over k from 0; NaN for `a` below 1.",
    schema: "(a: Tensor<f>, b: Tensor<f>|num) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        binary_rule(
            b,
            d,
            |_, _, _, _, _| {
                Err(OpError {
                    op: "prims.zeta".into(),
                    what: "has no gradient by `a`: no formula of these functions gives it".into(),
                })
            },
            |b, x, q, _, g| {
                // d zeta(x, q) / dq = -x zeta(x + 1, q).
                let next = b.add(x, 1.0)?;
                let zeta = b.binary("prims.zeta", &next, q.clone())?;
                let slope = b.mul(x, &zeta)?;
                let slope = b.neg(&slope)?;
                b.mul(g, &slope)
            },
        )
    }),
    samples: &[
        Sample("T[2, 3]{pos}, T[2, 3]{pos}"),
        Sample("T[4]{pos}, 2"),
        Sample("T[]{pos}, T[]{pos}"),
        Sample("T[0, 2], T[0, 2]"),
    ],
    ..PRIM
};

pub static FMA: Op = Op {
    name: "prims.fma",
    doc: "`a * b + c`; that it is rounded once is not promised.",
    schema: "(a: Tensor<x>, b: Tensor<x>|num, c: Tensor<x>|num) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        let (g, x) = (d.g()?, d.call.tensor("a")?);
        let y = d.call.operand("b")?;
        let mut all = vec![Some(chain_operand(b, &g, &y)?)];
        if y.tensor().is_some() {
            all.push(Some(chain(b, &g, &x)?));
        }
        if d.call.operand("c")?.tensor().is_some() {
            all.push(Some(g));
        }
        Ok(all)
    }),
    samples: &[
        Sample("T[2, 3], T[2, 3], T[2, 3]"),
        Sample("T[4], 2, T[4]"),
        Sample("T[4], T[4], 1"),
        Sample("T[0], T[0], T[0]"),
    ],
    ..PRIM
};

pub static TORCH_ACOS: Op = Op {
    name: "torch.acos",
    doc: "Arc cosine; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.acos")),
    aten: &[Aten {
        overloads: &["acos.default", "acos_.default", "arccos.default", "arccos_.default"],
        import: Import::Map("a=self"),
    }],
    samples: &[Sample("T[2, 3]{unit}"), Sample("T[]{unit}"), Sample("T[0, 4]"), Sample("T[5]{nonfinite}")],
    ..INEXACT
};

pub static TORCH_ACOSH: Op = Op {
    name: "torch.acosh",
    doc: "Inverse of the hyperbolic cosine; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.acosh")),
    aten: &[Aten {
        overloads: &["acosh.default", "acosh_.default", "arccosh.default", "arccosh_.default"],
        import: Import::Map("a=self"),
    }],
    samples: FROM_ONE,
    ..INEXACT
};

pub static TORCH_ASIN: Op = Op {
    name: "torch.asin",
    doc: "Arc sine; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.asin")),
    aten: &[Aten {
        overloads: &["arcsin.default", "arcsin_.default", "asin.default", "asin_.default"],
        import: Import::Map("a=self"),
    }],
    samples: &[Sample("T[2, 3]{unit}"), Sample("T[]{unit}"), Sample("T[0, 4]"), Sample("T[5]{nonfinite}")],
    ..INEXACT
};

pub static TORCH_ASINH: Op = Op {
    name: "torch.asinh",
    doc: "Inverse of the hyperbolic sine; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.asinh")),
    aten: &[Aten {
        overloads: &["arcsinh.default", "arcsinh_.default", "asinh.default", "asinh_.default"],
        import: Import::Map("a=self"),
    }],
    samples: UNARY,
    ..INEXACT
};

pub static TORCH_ATAN: Op = Op {
    name: "torch.atan",
    doc: "Arc tangent; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.atan")),
    aten: &[Aten {
        overloads: &["arctan.default", "arctan_.default", "atan.default", "atan_.default"],
        import: Import::Map("a=self"),
    }],
    samples: UNARY,
    ..INEXACT
};

pub static TORCH_ATANH: Op = Op {
    name: "torch.atanh",
    doc: "Inverse of the hyperbolic tangent; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.atanh")),
    aten: &[Aten {
        overloads: &["arctanh.default", "arctanh_.default", "atanh.default", "atanh_.default"],
        import: Import::Map("a=self"),
    }],
    samples: &[Sample("T[2, 3]{unit}"), Sample("T[]{unit}"), Sample("T[0, 4]"), Sample("T[5]{nonfinite}")],
    ..INEXACT
};

pub static TORCH_COSH: Op = Op {
    name: "torch.cosh",
    doc: "Hyperbolic cosine; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.cosh")),
    aten: &[Aten { overloads: &["cosh.default", "cosh_.default"], import: Import::Map("a=self") }],
    samples: UNARY,
    ..INEXACT
};

pub static TORCH_DIGAMMA: Op = Op {
    name: "torch.digamma",
    doc: "Derivative of the logarithm of the gamma function; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.digamma")),
    aten: &[Aten {
        overloads: &["digamma.default", "digamma_.default", "special_digamma.default", "special_psi.default"],
        import: Import::Map("a=self"),
    }],
    samples: UNARY_POS,
    ..REAL
};

pub static TORCH_ERF: Op = Op {
    name: "torch.erf",
    doc: "The error function; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.erf")),
    aten: &[Aten {
        overloads: &["erf.default", "erf_.default", "special_erf.default"],
        import: Import::Map("a=self"),
    }],
    samples: UNARY,
    ..REAL
};

pub static TORCH_ERFC: Op = Op {
    name: "torch.erfc",
    doc: "1 - erf(x); integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.erfc")),
    aten: &[Aten {
        overloads: &["erfc.default", "erfc_.default", "special_erfc.default"],
        import: Import::Map("a=self"),
    }],
    samples: UNARY,
    ..REAL
};

pub static TORCH_ERFINV: Op = Op {
    name: "torch.erfinv",
    doc: "Inverse of the error function; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.erfinv")),
    aten: &[Aten {
        overloads: &["erfinv.default", "erfinv_.default", "special_erfinv.default"],
        import: Import::Map("a=self"),
    }],
    samples: &[Sample("T[2, 3]{unit}"), Sample("T[]{unit}"), Sample("T[0, 4]"), Sample("T[5]{nonfinite}")],
    ..REAL
};

pub static TORCH_EXP2: Op = Op {
    name: "torch.exp2",
    doc: "2 to the power of each element; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.exp2")),
    aten: &[Aten {
        overloads: &["exp2.default", "exp2_.default", "special_exp2.default"],
        import: Import::Map("a=self"),
    }],
    samples: UNARY,
    ..INEXACT
};

pub static TORCH_EXPM1: Op = Op {
    name: "torch.expm1",
    doc: "exp(x) - 1, accurate near zero; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.expm1")),
    aten: &[Aten {
        overloads: &["expm1.default", "expm1_.default", "special_expm1.default"],
        import: Import::Map("a=self"),
    }],
    samples: UNARY,
    ..INEXACT
};

pub static TORCH_LGAMMA: Op = Op {
    name: "torch.lgamma",
    doc: "Logarithm of the absolute value of the gamma function; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.lgamma")),
    aten: &[Aten {
        overloads: &["lgamma.default", "lgamma_.default", "special_gammaln.default"],
        import: Import::Map("a=self"),
    }],
    samples: UNARY_POS,
    ..REAL
};

pub static TORCH_LOG10: Op = Op {
    name: "torch.log10",
    doc: "Logarithm to base 10; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.log10")),
    aten: &[Aten { overloads: &["log10.default", "log10_.default"], import: Import::Map("a=self") }],
    samples: UNARY_POS,
    ..INEXACT
};

pub static TORCH_LOG1P: Op = Op {
    name: "torch.log1p",
    doc: "log(1 + x), accurate near zero; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.log1p")),
    aten: &[Aten {
        overloads: &["log1p.default", "log1p_.default", "special_log1p.default"],
        import: Import::Map("a=self"),
    }],
    samples: UNARY_POS,
    ..INEXACT
};

pub static TORCH_LOG2: Op = Op {
    name: "torch.log2",
    doc: "Logarithm to base 2; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.log2")),
    aten: &[Aten { overloads: &["log2.default", "log2_.default"], import: Import::Map("a=self") }],
    samples: UNARY_POS,
    ..INEXACT
};

pub static TORCH_NDTRI: Op = Op {
    name: "torch.ndtri",
    doc: "Inverse of the normal distribution function; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.ndtri")),
    aten: &[Aten { overloads: &["special_ndtri.default"], import: Import::Map("a=self") }],
    samples: &[Sample("T[2, 3]{unit}"), Sample("T[]{unit}"), Sample("T[0, 4]"), Sample("T[5]{nonfinite}")],
    ..REAL
};

pub static TORCH_RECIPROCAL: Op = Op {
    name: "torch.reciprocal",
    doc: "1 / x; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.reciprocal")),
    aten: &[Aten {
        overloads: &["reciprocal.default", "reciprocal_.default"],
        import: Import::Map("a=self"),
    }],
    samples: UNARY_POS,
    ..INEXACT
};

pub static TORCH_SINH: Op = Op {
    name: "torch.sinh",
    doc: "Hyperbolic sine; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.sinh")),
    aten: &[Aten { overloads: &["sinh.default", "sinh_.default"], import: Import::Map("a=self") }],
    samples: UNARY,
    ..INEXACT
};

pub static TORCH_TAN: Op = Op {
    name: "torch.tan",
    doc: "Tangent; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.tan")),
    aten: &[Aten { overloads: &["tan.default", "tan_.default"], import: Import::Map("a=self") }],
    samples: UNARY,
    ..INEXACT
};

pub static TORCH_I0: Op = Op {
    name: "torch.i0",
    doc: "Modified Bessel function of the first kind of order 0; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.bessel_i0")),
    aten: &[Aten {
        overloads: &["i0.default", "i0_.default", "special_i0.default"],
        import: Import::Map("a=self"),
    }],
    samples: UNARY,
    ..REAL
};

pub static TORCH_POLYGAMMA: Op = Op {
    name: "torch.polygamma",
    doc: "Derivative of order `n` of digamma; integers and bools are computed as the default float.",
    schema: "(n: int, a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let a = b.to(&a, inexact(a.dtype()))?;
        Ok(vec![polygamma(b, &a, call.int("n")?)?.arg()])
    }),
    meta: Meta::Fn(|call| {
        order_of(call)?;
        real_inexact_of_a(call)
    }),
    aten: &[Aten {
        overloads: &["polygamma.default", "polygamma_.default", "special_polygamma.default"],
        import: Import::Map("n a=self"),
    }],
    samples: &[
        Sample("T[2, 3]{pos}, n=1"),
        Sample("T[4]{pos}, n=0"),
        Sample("T[]{pos}, n=2"),
        Sample("T[0, 4], n=1"),
    ],
    ..INEXACT
};

pub static TORCH_LOGIT: Op = Op {
    name: "torch.logit",
    doc: "log(x / (1 - x)); with `eps` x is limited to [eps, 1 - eps] first. Integers are computed as the default float.",
    schema: "(a: Tensor, eps: num? = None) -> Tensor",
    level: Level::Composite(logit),
    aten: &[Aten {
        overloads: &["logit.default", "logit_.default", "special_logit.default"],
        import: Import::Map("a=self eps"),
    }],
    samples: &[
        Sample("T[2, 3]{unit}"),
        Sample("T[]{unit}"),
        Sample("T[0, 4]"),
        Sample("T[4]{unit}, eps=0.1"),
    ],
    ..REAL
};

pub static TORCH_ATAN2: Op = Op {
    name: "torch.atan2",
    doc: "Angle of the point with abscissa `b` and ordinate `a`, broadcast and promoted; integers are computed as the default float.",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor",
    level: Level::Composite(|b, call| binary_inexact(b, call, "prims.atan2")),
    aten: &[Aten {
        overloads: &["arctan2.default", "arctan2_.default", "atan2.default", "atan2.out", "atan2_.default"],
        import: Import::Map("a=self b=other"),
    }],
    samples: &[
        Sample("T[2, 3], T[3]"),
        Sample("T[2, 1], i64[3]{0..5}"),
        Sample("T[4], T[]"),
        Sample("T[0, 3], T[3]"),
        Sample("T[5]{nonfinite}, T[5]{nonfinite}"),
    ],
    ..BINARY_INEXACT
};

pub static TORCH_HYPOT: Op = Op {
    name: "torch.hypot",
    doc: "sqrt(a^2 + b^2), broadcast and promoted, without overflow of the squares; floats only.",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor",
    level: Level::Composite(hypot),
    meta: Meta::Fn(float_of_a_b),
    aten: &[Aten { overloads: &["hypot.default", "hypot_.default"], import: Import::Map("a=self b=other") }],
    samples: &[
        Sample("T[2, 3], T[3]"),
        Sample("T[4], T[]"),
        Sample("T[0, 3], T[3]"),
        Sample("T[5]{nonfinite}, T[5]{nonfinite}"),
    ],
    ..BINARY_INEXACT
};

pub static TORCH_LDEXP: Op = Op {
    name: "torch.ldexp",
    doc: "`a * 2^b`; the power is a float, infinite where it does not fit.",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor",
    level: Level::Composite(|b, call| {
        let [a, e] = operands_a_b(call)?;
        let dtype = inexact(promoted(&[a.clone(), e.clone()]));
        let factor = elementwise(b, call, "prims.exp2", &[e], dtype)?;
        Ok(vec![elementwise(b, call, "prims.mul", &[a, factor.into()], dtype)?.arg()])
    }),
    meta: Meta::Fn(inexact_of_a_b),
    aten: &[Aten { overloads: &["ldexp.Tensor"], import: Import::Map("a=self b=other") }],
    samples: &[Sample("T[2, 3], T[3]"), Sample("T[2, 1], i64[3]{0..5}"), Sample("T[0, 3], T[3]")],
    ..BINARY_INEXACT
};

pub static TORCH_LOGADDEXP: Op = Op {
    name: "torch.logaddexp",
    doc: "log(exp(a) + exp(b)) without overflow, broadcast and promoted; floats only.",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor",
    level: Level::Composite(logaddexp),
    meta: Meta::Fn(float_of_a_b),
    aten: &[Aten { overloads: &["logaddexp.default"], import: Import::Map("a=self b=other") }],
    samples: &[
        Sample("T[2, 3], T[3]"),
        Sample("T[4], T[]"),
        Sample("T[0, 3], T[3]"),
        Sample("T[5]{nonfinite}, T[5]{nonfinite}"),
    ],
    ..BINARY_INEXACT
};

pub static TORCH_XLOGY: Op = Op {
    name: "torch.xlogy",
    doc: "`a * log(b)`, 0 where `a` is 0 and `b` is not NaN; broadcast, promoted, integers as the default float.",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor",
    level: Level::Composite(xlogy),
    aten: &[Aten {
        overloads: &[
            "special_xlogy.default",
            "special_xlogy.other_scalar",
            "special_xlogy.self_scalar",
            "xlogy.Scalar_Other",
            "xlogy.Scalar_Self",
            "xlogy.Tensor",
            "xlogy_.Scalar_Other",
            "xlogy_.Tensor",
        ],
        import: Import::Map("a=self b=other"),
    }],
    samples: &[
        Sample("T[2, 3]{pos}, T[3]{pos}"),
        Sample("T[2, 1]{pos}, i64[3]{1..5}"),
        Sample("T[4]{pos}, T[]{pos}"),
        Sample("T[0, 3], T[3]"),
        Sample("T[4], 2.5"),
        Sample("2, T[3]{pos}"),
    ],
    ..BINARY_INEXACT
};

pub static TORCH_ZETA: Op = Op {
    name: "torch.zeta",
    doc: "Hurwitz zeta function of `a` and `b`, broadcast and promoted, integers as the default float.",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor",
    level: Level::Composite(|b, call| binary_inexact(b, call, "prims.zeta")),
    aten: &[Aten {
        overloads: &["special_zeta.default", "special_zeta.other_scalar", "special_zeta.self_scalar"],
        import: Import::Map("a=self b=other"),
    }],
    samples: &[
        Sample("T[2, 3]{pos}, T[3]{pos}"),
        Sample("T[2, 1]{pos}, i64[3]{1..5}"),
        Sample("T[4]{pos}, T[]{pos}"),
        Sample("T[0, 3], T[3]"),
        Sample("T[4]{pos}, 2"),
        Sample("2, T[3]{pos}"),
    ],
    ..BINARY_INEXACT
};

fn real_inexact_of_a(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    not_complex(call, call.tensor("a")?.dtype())?;
    inexact_of_a(call)
}

fn not_complex(call: &Call, dtype: Dtype) -> Result<(), OpError> {
    if dtype.is_complex() { Err(call.error(format!("takes real tensors, found {dtype}"))) } else { Ok(()) }
}

fn inexact_of_a_b(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let operands = operands_a_b(call)?;
    let dtype = inexact(promoted(&operands));
    if call.op() != "torch.ldexp" && call.op() != "torch.xlogy" {
        not_complex(call, dtype)?;
    }
    meta::broadcast_of(call, &operands, dtype)
}

fn float_of_a_b(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let operands = operands_a_b(call)?;
    let dtype = promoted(&operands);
    if !dtype.is_float() {
        return Err(call.error(format!("takes floats, found {dtype}")));
    }
    meta::broadcast_of(call, &operands, dtype)
}

/// The order of a polygamma function; negative ones have no meaning.
fn order_of(call: &Call) -> Result<i64, OpError> {
    match call.int("n")? {
        n if n >= 0 => Ok(n),
        n => Err(call.error(format!("`n` must be at least 0, found {n}"))),
    }
}

fn polygamma(b: &mut Builder<'_>, a: &Tensor, n: i64) -> Built {
    b.tensor("prims.polygamma", vec![a.arg(), Arg::Int(n)])
}

/// 1 / sqrt(1 - x^2).
fn arc_slope(b: &mut Builder<'_>, a: &Tensor) -> Built {
    let square = b.mul(a, a)?;
    let rest = b.one_minus(&square)?;
    b.rsqrt(&rest)
}

/// exp(factor x^2).
fn bell(b: &mut Builder<'_>, x: &Tensor, factor: f64) -> Built {
    let square = b.mul(x, x)?;
    let scaled = b.mul(&square, factor)?;
    b.exp(&scaled)
}

/// The gradient of a logarithm whose base has the natural logarithm `ln`.
fn log_rule(b: &mut Builder<'_>, a: &Tensor, g: &Tensor, ln: f64) -> Built {
    let scaled = b.mul(a, ln)?;
    let slope = b.unary("prims.reciprocal", &scaled)?;
    chain(b, g, &slope)
}

/// d atan2(y, x) = (x dy - y dx) / (x^2 + y^2).
fn atan2_rule(b: &mut Builder<'_>, d: &Grad<'_>) -> Result<Vec<Option<Tensor>>, OpError> {
    binary_rule(
        b,
        d,
        |b, y, x, _, g| {
            let radius = b.mul(y, y)?;
            let x = match x {
                super::Operand::Tensor(x) => x.clone(),
                super::Operand::Num(n) => b.full(y.dims(), n.clone(), y.dtype(), &y.ty.device)?,
            };
            let square = b.mul(&x, &x)?;
            let radius = b.add(&radius, &square)?;
            let slope = b.div(&x, &radius)?;
            b.mul(g, &slope)
        },
        |b, y, x, _, g| {
            let square = b.mul(y, y)?;
            let x = x.tensor().expect("asked for tensors only").clone();
            let radius = b.mul(&x, &x)?;
            let radius = b.add(&radius, &square)?;
            let slope = b.div(y, &radius)?;
            let slope = b.neg(&slope)?;
            b.mul(g, &slope)
        },
    )
}

/// How many points of the half circle the mean of [`bessel_i1`] takes. The midpoint rule is exact up to Bessel functions
/// of order 2n: below 1e-15 of the result up to |x| = 40, below 1e-7 up to 200; f32 overflows at 88.
const BESSEL_POINTS: i64 = 64;

/// I1, the slope of I0: the mean of exp(x cos t) cos t over the half circle. There is no prim of it, and a sum of
/// exponentials needs no table of coefficients; gradients of Bessel windows are not worth one.
fn bessel_i1(b: &mut Builder<'_>, x: &Tensor) -> Built {
    let acc = x.dtype().acc();
    let wide = b.to(x, acc)?;
    let t = b.iota(&BESSEL_POINTS.into(), acc, &x.ty.device)?;
    let t = b.add(&t, 0.5)?;
    let t = b.mul(&t, std::f64::consts::PI / BESSEL_POINTS as f64)?;
    let cos = b.unary("prims.cos", &t)?;
    let column = b.unsqueeze(&wide, x.rank())?;
    let inner = b.mul(&column, &cos)?;
    let e = b.exp(&inner)?;
    let terms = b.mul(&e, &cos)?;
    let mean = b.mean(&terms, &[x.rank()])?;
    b.to(&mean, x.dtype())
}

fn logit(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let a = to_dtype(b, &a, inexact(a.dtype()))?;
    let eps = match call.opt_num("eps")? {
        Some(_) => Some(call.float("eps")?),
        None => None,
    };
    let y = in_acc(b, &a, |b, x| {
        let x = match eps {
            Some(eps) => b.tensor("torch.clamp", vec![x.arg(), Arg::Float(eps), Arg::Float(1.0 - eps)])?,
            None => x.clone(),
        };
        let rest = b.one_minus(&x)?;
        let odds = b.div(&x, &rest)?;
        b.log(&odds)
    })?;
    Ok(vec![y.arg()])
}

/// A prim on `a` and `b`, broadcast and promoted to a float.
fn binary_inexact(b: &mut Builder<'_>, call: &Call, prim: &str) -> Result<Vec<Arg>, OpError> {
    let operands = operands_a_b(call)?;
    let dtype = inexact(promoted(&operands));
    Ok(vec![elementwise(b, call, prim, &operands, dtype)?.arg()])
}

/// Both operands as tensors of one type: broadcast, promoted, halves in f32. And the dtype of the result.
fn both(b: &mut Builder<'_>, call: &Call) -> Result<(Tensor, Tensor, Dtype), OpError> {
    let [x, y] = operands_a_b(call)?;
    let dtype = inexact(promoted(&[x.clone(), y.clone()]));
    let dims = {
        let tensors = [&x, &y].into_iter().filter_map(super::Operand::tensor);
        meta::broadcast_dims(call, tensors.map(Tensor::dims))?
    };
    let device = meta::common_device([&x, &y].into_iter().filter_map(super::Operand::tensor));
    let mut ready = Vec::with_capacity(2);
    for o in [x, y] {
        ready.push(match o {
            super::Operand::Tensor(t) => {
                let t = b.to(&t, dtype.acc())?;
                b.expand(&t, &dims)?
            }
            super::Operand::Num(n) => {
                let n = super::emit::number_for(&n, dtype);
                super::emit::filled(b, n, &dims, dtype.acc(), &device)?
            }
        });
    }
    let y = ready.pop().expect("two were made");
    let x = ready.pop().expect("two were made");
    Ok((x, y, dtype))
}

/// `m * sqrt(1 + (n / m)^2)`, m the larger and n the smaller of both magnitudes.
fn hypot(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (x, y, dtype) = both(b, call)?;
    let (x, y) = (b.abs(&x)?, b.abs(&y)?);
    let (m, n) = (b.maximum(&x, &y)?, b.minimum(&x, &y)?);
    let ratio = b.div(&n, &m)?;
    let nothing = b.eq(&m, 0.0)?;
    let ratio = b.select(&nothing, 0.0, &ratio)?;
    let square = b.mul(&ratio, &ratio)?;
    let sum = b.add(&square, 1.0)?;
    let root = b.sqrt(&sum)?;
    let length = b.mul(&m, &root)?;
    // An infinite side counts even beside NaN.
    let mut out = length;
    for side in [&x, &y] {
        let infinite = b.eq(side, f64::INFINITY)?;
        out = b.select(&infinite, f64::INFINITY, &out)?;
    }
    Ok(vec![b.to(&out, dtype)?.arg()])
}

/// `max + log(1 + exp(-|a - b|))`; equal infinities, whose difference is NaN, stay.
fn logaddexp(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (x, y, dtype) = both(b, call)?;
    let max = b.maximum(&x, &y)?;
    let difference = b.sub(&x, &y)?;
    let distance = b.abs(&difference)?;
    let minus = b.neg(&distance)?;
    let e = b.exp(&minus)?;
    let rest = b.unary("prims.log1p", &e)?;
    let sum = b.add(&max, &rest)?;
    let equal = b.eq(&x, &y)?;
    let size = b.abs(&x)?;
    let infinite = b.eq(&size, f64::INFINITY)?;
    let stays = b.binary("prims.bitwise_and", &equal, &infinite)?;
    let out = b.select(&stays, &x, &sum)?;
    Ok(vec![b.to(&out, dtype)?.arg()])
}

fn xlogy(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (x, y, dtype) = both(b, call)?;
    let log = b.log(&y)?;
    let product = b.mul(&x, &log)?;
    let nothing = b.eq(&x, 0.0)?;
    let out = b.select(&nothing, 0.0, &product)?;
    let unknown = b.ne(&y, &y)?;
    let out = b.select(&unknown, &y, &out)?;
    Ok(vec![b.to(&out, dtype)?.arg()])
}
