//! Elementwise ops: prims that neither broadcast nor promote, and composites with PyTorch's rules.

use super::aten::{Aten, Import};
use super::build::{Builder, Num, Operand};
use super::emit::{elementwise, to_dtype};
use super::meta::{self, inexact, promoted};
use super::{Call, Level, Meta, Op, OpError, Sample, Traits};
use crate::ir::Arg;

/// Every op of this family.
pub static OPS: &[&Op] = &[&EXP, &ADD, &MUL, &CONVERT_ELEMENT_TYPE, &TORCH_EXP, &TORCH_ADD];

/// What pointwise prims share.
const PRIM: Op = Op { meta: Meta::Fn(meta::same_as_inputs), traits: Traits::POINTWISE, ..Op::BASE };

/// What pointwise composites share: types come through the decomposition.
const COMPOSITE: Op = Op { traits: Traits::POINTWISE, ..Op::BASE };

const UNARY_REAL: &[Sample] =
    &[Sample("T[2, 3]"), Sample("T[]"), Sample("T[0, 4]"), Sample("T[5]{nonfinite}")];
const BINARY_PRIM: &[Sample] =
    &[Sample("T[2, 3], T[2, 3]"), Sample("T[4], 2"), Sample("T[], T[]"), Sample("T[0, 2], T[0, 2]")];

pub static EXP: Op = Op {
    name: "prims.exp",
    doc: "e to the power of each element.",
    schema: "(a: Tensor<x>) -> Tensor",
    samples: UNARY_REAL,
    ..PRIM
};

pub static ADD: Op = Op {
    name: "prims.add",
    doc: "Sum of both; of bools: or.",
    schema: "(a: Tensor<a>, b: Tensor<a>|num) -> Tensor",
    traits: Traits::POINTWISE.and(Traits::COMMUTATIVE),
    samples: BINARY_PRIM,
    ..PRIM
};

pub static MUL: Op = Op {
    name: "prims.mul",
    doc: "Product of both; of bools: and.",
    schema: "(a: Tensor<a>, b: Tensor<a>|num) -> Tensor",
    traits: Traits::POINTWISE.and(Traits::COMMUTATIVE),
    samples: BINARY_PRIM,
    ..PRIM
};

pub static CONVERT_ELEMENT_TYPE: Op = Op {
    name: "prims.convert_element_type",
    doc: "The same values in another dtype; float to integer rounds towards zero.",
    schema: "(a: Tensor|num, dtype: dtype) -> Tensor|num",
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        meta::one(a.dims().to_vec(), call.dtype("dtype")?, &a.ty)
    }),
    samples: &[Sample("T[2, 3], dtype=f64"), Sample("T[4], dtype=i64"), Sample("T[4], dtype=bool")],
    ..PRIM
};

pub static TORCH_EXP: Op = Op {
    name: "torch.exp",
    doc: "e to the power of each element; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.exp")),
    aten: &[Aten { overloads: &["exp.default", "exp_.default"], import: Import::Map("a=self") }],
    samples: UNARY_REAL,
    ..COMPOSITE
};

pub static TORCH_ADD: Op = Op {
    name: "torch.add",
    doc: "`a + alpha * b`, broadcast and promoted.",
    schema: "(a: Tensor|num, b: Tensor|num, *, alpha: num = 1) -> Tensor",
    level: Level::Composite(|b, call| scaled_binary(b, call, "prims.add")),
    aten: &[Aten {
        overloads: &["add.Tensor", "add_.Tensor", "add.Scalar", "add_.Scalar"],
        import: Import::Map("a=self b=other alpha"),
    }],
    samples: &[
        Sample("T[2, 3], T[3]"),
        Sample("T[2, 1], i64[3]{0..5}"),
        Sample("T[4], 2.5"),
        Sample("T[2], T[2], alpha=2"),
    ],
    ..COMPOSITE
};

/// A prim on the input in its inexact dtype.
fn unary_inexact(b: &mut Builder<'_>, call: &Call, prim: &str) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let a = to_dtype(b, &a, inexact(a.dtype()))?;
    Ok(vec![b.tensor(prim, vec![a.arg()])?.arg()])
}

/// `prim(a, alpha * b)` with promotion of `a` and `b`.
fn scaled_binary(b: &mut Builder<'_>, call: &Call, prim: &str) -> Result<Vec<Arg>, OpError> {
    let (lhs, mut rhs) = (call.operand("a")?, call.operand("b")?);
    let dtype = promoted(&[lhs.clone(), rhs.clone()]);
    let alpha = call.num("alpha")?;
    if !matches!(alpha, Num::Int(1)) {
        rhs = elementwise(b, call, "prims.mul", &[rhs, Operand::Num(alpha)], dtype)?.into();
    }
    Ok(vec![elementwise(b, call, prim, &[lhs, rhs], dtype)?.arg()])
}
