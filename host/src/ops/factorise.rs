//! Factorisations of matrices.
//!
//! Deliberately absent: triangular systems, which are `products`.

use super::arith::Built;
use super::aten::{Aten, Import};
use super::build::{Builder, Tensor};
use super::{Call, Grad, Level, Meta, Op, OpError, Sample, Vjp, meta};
use crate::ir::{Arg, Dtype, TensorType, Type};

/// Every op of this family.
pub static OPS: &[&Op] = &[&CHOLESKY, &TORCH_CHOLESKY, &TORCH_CHOLESKY_EX];

/// Matrices that have a factor, and batches of them.
const FACTORED: &[Sample] = &[
    Sample("T[3, 3]{posdef}"),
    Sample("T[2, 4, 4]{posdef}, upper=true"),
    Sample("T[1, 1]{posdef}"),
    Sample("T[0, 2, 2]"),
];

pub static CHOLESKY: Op = Op {
    name: "prims.cholesky",
    doc: "The triangular factor `l` of `a = l l^H` (`upper`: of `a = l^H l`), zeros in its other triangle, and 0, or the order \
          of the first leading minor that is not positive. Of `a` one triangle is read; the gradient is that of a Hermitian \
          matrix.",
    schema: "(a: Tensor<x>, upper: bool) -> (Tensor, Tensor<i32>)",
    meta: Meta::Fn(|call| {
        let a = factored(call)?;
        let batch = a.dims()[..a.rank() - 2].to_vec();
        let info = TensorType { dims: batch, dtype: Dtype::I32, device: a.ty.device.clone() };
        Ok(vec![Some(Type::Tensor(a.ty)), Some(info.into())])
    }),
    vjp: Vjp::Rule(cholesky_rule),
    samples: &[
        Sample("T[3, 3]{posdef}, upper=false"),
        Sample("T[2, 4, 4]{posdef}, upper=true"),
        Sample("T[0, 2, 2], upper=false"),
    ],
    ..Op::BASE
};

pub static TORCH_CHOLESKY: Op = Op {
    name: "torch.cholesky",
    doc: "The triangular factor of a positive-definite matrix; an error for any other.",
    schema: "(a: Tensor, *, upper: bool = false) -> Tensor",
    level: Level::Composite(|b, call| {
        let [l, info] = factor(b, call)?;
        all_positive(b, &info)?;
        Ok(vec![l.arg()])
    }),
    meta: Meta::Fn(|call| Ok(vec![Some(Type::Tensor(factored(call)?.ty))])),
    aten: &[Aten {
        overloads: &["linalg_cholesky.default", "cholesky.default"],
        import: Import::Map("a=self upper"),
    }],
    samples: FACTORED,
    ..Op::BASE
};

pub static TORCH_CHOLESKY_EX: Op = Op {
    name: "torch.cholesky_ex",
    doc: "The triangular factor of a positive-definite matrix, and 0, or where it is not; an error then with `check_errors`.",
    schema: "(a: Tensor, *, upper: bool = false, check_errors: bool = false) -> (Tensor, Tensor<i32>)",
    level: Level::Composite(|b, call| {
        let [l, info] = factor(b, call)?;
        if call.bool("check_errors")? {
            all_positive(b, &info)?;
        }
        Ok(vec![l.arg(), info.arg()])
    }),
    aten: &[Aten {
        overloads: &["linalg_cholesky_ex.default"],
        import: Import::Map("a=self upper check_errors"),
    }],
    samples: FACTORED,
    ..Op::BASE
};

/// The matrix to be factored: square, in a dtype that factorisations are computed in.
fn factored(call: &Call) -> Result<Tensor, OpError> {
    let a = call.tensor("a")?;
    let square = matches!(a.dims(), [.., n, m] if n.same(m) != Some(false));
    if !square {
        return Err(call.error(format!("`a` is {}, square matrices are wanted", meta::show(a.dims()))));
    }
    if !matches!(a.dtype(), Dtype::F32 | Dtype::F64 | Dtype::C64 | Dtype::C128) {
        return Err(call.error(format!("cannot factor {}", a.dtype())));
    }
    Ok(a)
}

fn factor(b: &mut Builder<'_>, call: &Call) -> Result<[Tensor; 2], OpError> {
    factored(call)?;
    let results = b.call("prims.cholesky", vec![call.raw("a")?, call.raw("upper")?])?;
    match results.as_slice() {
        [Arg::Value(l), Arg::Value(info)] => Ok([b.as_tensor(*l)?, b.as_tensor(*info)?]),
        _ => Err(call.error("the prim has two results")),
    }
}

fn all_positive(b: &mut Builder<'_>, info: &Tensor) -> Result<(), OpError> {
    let fine = b.eq(info, 0i64)?;
    let fine = b.tensor("torch.all", vec![fine.arg()])?;
    b.call("prims.check", vec![fine.arg(), Arg::str("the matrix to be factored is not positive-definite")])?;
    Ok(())
}

fn adjoint(b: &mut Builder<'_>, x: &Tensor) -> Built {
    let turned = b.swap_last(x)?;
    b.conj(&turned)
}

/// With `l⁻¹ da l⁻ᴴ = s`, `dl = l φ(s)`, where `φ` takes the lower triangle and half of the diagonal. `φ` is its own
/// adjoint, so the gradient is `l⁻ᴴ φ(lᴴ g) l⁻¹`, of which the Hermitian part is meant.
fn cholesky_rule(b: &mut Builder<'_>, d: &Grad<'_>) -> Result<Vec<Option<Tensor>>, OpError> {
    let (mut l, Some(mut g)) = (d.output(0)?, d.cotangent(0)) else { return Ok(vec![None]) };
    if d.call.bool("upper")? {
        (l, g) = (adjoint(b, &l)?, adjoint(b, &g)?);
    }
    let l_adjoint = adjoint(b, &l)?;
    let m = b.matmul(&l_adjoint, &g)?;
    let mut triangle = |diagonal: i64| b.tensor("torch.tril", vec![m.arg(), Arg::Int(diagonal)]);
    let (with, without) = (triangle(0)?, triangle(-1)?);
    let twice = b.add(&with, &without)?;
    let turned = adjoint(b, &twice)?;
    let sum = b.add(&twice, &turned)?;
    let s = b.mul(&sum, 0.25)?;
    let mut solve = |a: &Tensor, y: &Tensor, upper: bool| {
        let flags = [Arg::Bool(upper), Arg::Bool(upper), Arg::Bool(false)];
        b.tensor("prims.triangular_solve", [vec![a.arg(), y.arg()], flags.to_vec()].concat())
    };
    // The adjoint factor from the left, the factor itself from the right.
    let half = solve(&l_adjoint, &s, true)?;
    Ok(vec![Some(solve(&l, &half, false)?)])
}
