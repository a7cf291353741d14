//! Products of matrices: two prims, and PyTorch's many ways to ask for them.
//!
//! Products of f16 and bf16 accumulate in f32 and round once. Deliberately absent: factorisations.

use super::arith::Built;
use super::aten::{Aten, AtenCall, Import};
use super::build::{Builder, Num, Tensor};
use super::emit::{broadcast_to, number_for};
use super::{Call, Grad, Level, Meta, Op, OpError, Sample, Vjp, import, meta};
use crate::ir::{Arg, Dim, Type};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &MATMUL,
    &LINEAR,
    &TORCH_MATMUL,
    &TORCH_MM,
    &TORCH_BMM,
    &TORCH_LINEAR,
    &TORCH_ADDMM,
    &TORCH_BADDBMM,
    &TORCH_EINSUM,
];

pub static MATMUL: Op = Op {
    name: "prims.matmul",
    doc: "Product of two matrices, or of two batches of them with equal batch dims. f16 and bf16 accumulate in f32 \
          and round once; integers wrap; a contracted dim of size 0 gives zeros.",
    schema: "(a: Tensor<n>, b: Tensor<n>) -> Tensor",
    meta: Meta::Fn(matmul_meta),
    vjp: Vjp::Rule(matmul_rule),
    samples: &[
        Sample("T[2, 3], T[3, 4]"),
        Sample("T[5, 2, 3], T[5, 3, 4]"),
        Sample("T[2, 3, 1, 4], T[2, 3, 4, 1]"),
        Sample("T[2, 0], T[0, 3]"),
        Sample("T[0, 3], T[3, 2]"),
        Sample("T[3, 3]{nonfinite}, T[3, 3]"),
        Sample("i64[2, 3]{-5..5}, i64[3, 2]{-5..5}"),
    ],
    ..Op::BASE
};

pub static LINEAR: Op = Op {
    name: "prims.linear",
    doc: "`a @ wᵀ + bias` over the last dim of `a`; `w` is `[out, in]`, `bias` is `[out]`. f16 and bf16 accumulate in \
          f32, bias included, and round once.",
    schema: "(a: Tensor<x>, w: Tensor<x>, bias: Tensor<x>?) -> Tensor",
    meta: Meta::Fn(linear_meta),
    vjp: Vjp::Rule(|b, d| {
        let (a, w, g) = (d.call.tensor("a")?, d.call.tensor("w")?, d.g()?);
        let (rows, columns) = (flat_rows(b, &g)?, flat_rows(b, &a)?);
        let mut all = vec![None, None];
        if d.wants(0) {
            let w = b.conj(&w)?;
            let flat = b.matmul(&rows, &w)?;
            all[0] = Some(b.reshape(&flat, a.dims())?);
        }
        if d.wants(1) {
            let turned = b.swap_last(&rows)?;
            let columns = b.conj(&columns)?;
            all[1] = Some(b.matmul(&turned, &columns)?);
        }
        if d.call.has("bias") {
            all.push(if d.wants(2) { Some(b.sum(&rows, &[0])?) } else { None });
        }
        Ok(all)
    }),
    samples: LINEAR_SAMPLES,
    ..Op::BASE
};

const LINEAR_SAMPLES: &[Sample] = &[
    Sample("T[2, 3], T[4, 3], T[4]"),
    Sample("T[2, 3], T[4, 3], none"),
    Sample("T[2, 5, 3], T[4, 3], T[4]"),
    Sample("T[3], T[4, 3], T[4]"),
    Sample("T[0, 3], T[4, 3], T[4]"),
    Sample("T[2, 0], T[4, 0], T[4]"),
];

pub static TORCH_MATMUL: Op = Op {
    name: "torch.matmul",
    doc: "PyTorch's `@`: a 1-d operand counts as a row on the left and as a column on the right and its dim goes again; \
          batch dims broadcast.",
    schema: "(a: Tensor, b: Tensor) -> Tensor",
    level: Level::Composite(|b, call| {
        let (x, y) = (call.tensor("a")?, call.tensor("b")?);
        Ok(vec![matmul(b, call, &x, &y)?.arg()])
    }),
    aten: &[Aten {
        overloads: &["matmul.default", "linalg_matmul.default"],
        import: Import::Map("a=self b=other"),
    }],
    samples: &[
        Sample("T[2, 3], T[3, 4]"),
        Sample("T[3], T[3]"),
        Sample("T[3], T[3, 4]"),
        Sample("T[2, 3], T[3]"),
        Sample("T[5, 2, 3], T[3, 4]"),
        Sample("T[5, 2, 3], T[3]"),
        Sample("T[3], T[5, 3, 4]"),
        Sample("T[2, 3], T[5, 3, 4]"),
        Sample("T[6, 1, 2, 3], T[5, 3, 4]"),
        Sample("T[5, 2, 0], T[0, 4]"),
    ],
    ..Op::BASE
};

pub static TORCH_MM: Op = Op {
    name: "torch.mm",
    doc: "Product of two matrices.",
    schema: "(a: Tensor, b: Tensor) -> Tensor",
    level: Level::Composite(|b, call| strict_product(b, call, 2)),
    aten: &[
        Aten { overloads: &["mm.default"], import: Import::Map("a=self b=mat2") },
        Aten { overloads: &["mm.dtype"], import: Import::With(|b, c| product_in_dtype(b, c, "torch.mm")) },
    ],
    samples: &[Sample("T[2, 3], T[3, 4]"), Sample("T[0, 3], T[3, 4]"), Sample("T[2, 0], T[0, 4]")],
    ..Op::BASE
};

pub static TORCH_BMM: Op = Op {
    name: "torch.bmm",
    doc: "Products of two batches of matrices of equal length.",
    schema: "(a: Tensor, b: Tensor) -> Tensor",
    level: Level::Composite(|b, call| strict_product(b, call, 3)),
    aten: &[
        Aten { overloads: &["bmm.default"], import: Import::Map("a=self b=mat2") },
        Aten { overloads: &["bmm.dtype"], import: Import::With(|b, c| product_in_dtype(b, c, "torch.bmm")) },
    ],
    samples: &[Sample("T[5, 2, 3], T[5, 3, 4]"), Sample("T[0, 2, 3], T[0, 3, 4]")],
    ..Op::BASE
};

pub static TORCH_LINEAR: Op = Op {
    name: "torch.linear",
    doc: "`a @ wᵀ + bias`; a 1-d `w` is a single output whose dim goes.",
    schema: "(a: Tensor, w: Tensor, bias: Tensor? = None) -> Tensor",
    level: Level::Composite(linear),
    aten: &[Aten { overloads: &["linear.default"], import: Import::Map("a=input w=weight bias") }],
    samples: LINEAR_SAMPLES,
    ..Op::BASE
};

pub static TORCH_ADDMM: Op = Op {
    name: "torch.addmm",
    doc: "`beta * c + alpha * (a @ b)` with `c` broadcast: matrix by matrix, matrix by vector, or the outer product of \
          two vectors. With `beta` 0, `c` is ignored, NaN included.",
    schema: "(c: Tensor, a: Tensor, b: Tensor, *, beta: num = 1, alpha: num = 1) -> Tensor",
    level: Level::Composite(|b, call| {
        let (x, y) = (call.tensor("a")?, call.tensor("b")?);
        let product = match (x.rank(), y.rank()) {
            (2, 2) => product(b, call, &x, &y)?,
            (2, 1) => matmul(b, call, &x, &y)?,
            (1, 1) => {
                let column = b.unsqueeze(&x, 1)?;
                b.mul(&column, &y)?
            }
            (m, n) => {
                return Err(call.error(format!("`a` has {m} dims and `b` {n}: 2 and 2, 2 and 1, or 1 and 1")));
            }
        };
        add_scaled(b, call, &product)
    }),
    aten: &[
        Aten {
            overloads: &["addmm.default", "addmm_.default"],
            import: Import::Map("c=self a=mat1 b=mat2 beta alpha"),
        },
        Aten {
            overloads: &["addmv.default", "addmv_.default"],
            import: Import::Map("c=self a=mat b=vec beta alpha"),
        },
        Aten {
            overloads: &["addr.default", "addr_.default"],
            import: Import::Map("c=self a=vec1 b=vec2 beta alpha"),
        },
    ],
    samples: &[
        Sample("T[4], T[2, 3], T[3, 4]"),
        Sample("T[2, 4], T[2, 3], T[3, 4], beta=0.5, alpha=2.0"),
        Sample("T[2, 4]{nonfinite}, T[2, 3], T[3, 4], beta=0"),
        Sample("T[2], T[2, 3], T[3]"),
        Sample("T[2, 3], T[2], T[3], alpha=2"),
    ],
    ..Op::BASE
};

pub static TORCH_BADDBMM: Op = Op {
    name: "torch.baddbmm",
    doc: "`beta * c + alpha * (a @ b)` for batches, `c` broadcast. With `beta` 0, `c` is ignored, NaN included.",
    schema: "(c: Tensor, a: Tensor, b: Tensor, *, beta: num = 1, alpha: num = 1) -> Tensor",
    level: Level::Composite(|b, call| {
        let (x, y) = (call.tensor("a")?, call.tensor("b")?);
        check_ranks(call, &x, &y, 3)?;
        let p = product(b, call, &x, &y)?;
        add_scaled(b, call, &p)
    }),
    aten: &[
        Aten {
            overloads: &["baddbmm.default", "baddbmm_.default"],
            import: Import::Map("c=self a=batch1 b=batch2 beta alpha"),
        },
        Aten { overloads: &["addbmm.default", "addbmm_.default"], import: Import::With(import_addbmm) },
    ],
    samples: &[
        Sample("T[5, 2, 4], T[5, 2, 3], T[5, 3, 4]"),
        Sample("T[4], T[5, 2, 3], T[5, 3, 4], beta=2.0, alpha=0.5"),
        Sample("T[5, 2, 4]{nonfinite}, T[5, 2, 3], T[5, 3, 4], beta=0"),
    ],
    ..Op::BASE
};

pub static TORCH_EINSUM: Op = Op {
    name: "torch.einsum",
    doc: "Sum of products in Einstein's notation, with ellipses and repeated labels (diagonals); contracted from left \
          to right.",
    schema: "(equation: str, tensors: Tensor[]) -> Tensor",
    level: Level::Composite(super::einsum::decompose),
    aten: &[Aten { overloads: &["einsum.default"], import: Import::Map("equation tensors") }],
    samples: &[
        Sample("[T[2, 3], T[3, 4]], equation=\"ij,jk->ik\""),
        Sample("[T[2, 3, 4, 5], T[2, 3, 6, 5]], equation=\"bhid,bhjd->bhij\""),
        Sample("[T[3, 3]], equation=\"ii->i\""),
        Sample("[T[2, 3]], equation=\"ij->\""),
        Sample("[T[2, 3, 4], T[3, 4]], equation=\"...i,...i\""),
        Sample("[T[2], T[3]], equation=\"i,j\""),
        Sample("[T[2, 3], T[3, 4], T[4, 5]], equation=\"ab,bc,cd->da\""),
        Sample("[T[2, 3], T[3, 4], T[2, 4]], equation=\"bi,ij,bj->b\""),
    ],
    ..Op::BASE
};

fn matmul_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let (a, b) = (call.tensor("a")?, call.tensor("b")?);
    same_dtype(call, &a, &b)?;
    let n = a.rank();
    if n < 2 || b.rank() != n {
        return Err(
            call.error(format!("`a` has {n} dims and `b` {}: at least 2, and equally many", b.rank()))
        );
    }
    let differ = |x: &Dim, y: &Dim| x.same(y) == Some(false);
    if differ(&a.dims()[n - 1], &b.dims()[n - 2]) {
        return Err(does_not_multiply(call, &a, &b));
    }
    if a.dims()[..n - 2].iter().zip(b.dims()).any(|(x, y)| differ(x, y)) {
        return Err(call.error(format!(
            "batch dims differ: {} and {}",
            meta::show(&a.dims()[..n - 2]),
            meta::show(&b.dims()[..n - 2])
        )));
    }
    let mut dims = a.dims().to_vec();
    dims[n - 1] = b.dims()[n - 1].clone();
    meta::one(dims, a.dtype(), &a.ty)
}

fn linear_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let (a, w) = (call.tensor("a")?, call.tensor("w")?);
    same_dtype(call, &a, &w)?;
    let (Some(k), [out, inner]) = (a.dims().last(), w.dims()) else {
        return Err(call.error(format!(
            "`a` {} has no dim to contract with `w` {}, which must be [out, in]",
            meta::show(a.dims()),
            meta::show(w.dims())
        )));
    };
    if k.same(inner) == Some(false) {
        return Err(call.error(format!("`a` ends in {k}, `w` {} takes {inner}", meta::show(w.dims()))));
    }
    if let Some(bias) = call.opt_tensor("bias")? {
        same_dtype(call, &a, &bias)?;
        if bias.rank() != 1 || bias.dims()[0].same(out) == Some(false) {
            return Err(call.error(format!("`bias` is {}, [{out}] is wanted", meta::show(bias.dims()))));
        }
    }
    let mut dims = a.dims().to_vec();
    *dims.last_mut().expect("checked above") = out.clone();
    meta::one(dims, a.dtype(), &a.ty)
}

fn same_dtype(call: &Call, a: &Tensor, b: &Tensor) -> Result<(), OpError> {
    if a.dtype() == b.dtype() {
        return Ok(());
    }
    Err(call.error(format!("operands of one dtype are wanted, found {} and {}", a.dtype(), b.dtype())))
}

fn does_not_multiply(call: &Call, a: &Tensor, b: &Tensor) -> OpError {
    call.error(format!("{} and {} do not multiply", meta::show(a.dims()), meta::show(b.dims())))
}

fn check_ranks(call: &Call, a: &Tensor, b: &Tensor, rank: usize) -> Result<(), OpError> {
    if a.rank() == rank && b.rank() == rank {
        return Ok(());
    }
    let (a, b) = (meta::show(a.dims()), meta::show(b.dims()));
    Err(call.error(format!("operands of {rank} dims are wanted, found {a} and {b}")))
}

/// `prims.matmul` with the composite's name in its errors.
fn product(b: &mut Builder<'_>, call: &Call, x: &Tensor, y: &Tensor) -> Built {
    same_dtype(call, x, y)?;
    b.matmul(x, y).map_err(|e| call.error(e.what))
}

fn strict_product(b: &mut Builder<'_>, call: &Call, rank: usize) -> Result<Vec<Arg>, OpError> {
    let (x, y) = (call.tensor("a")?, call.tensor("b")?);
    check_ranks(call, &x, &y, rank)?;
    Ok(vec![product(b, call, &x, &y)?.arg()])
}

/// PyTorch's `x @ y`. Batches of the left against one matrix on the right are folded into its rows: one large product
/// is faster than many small ones.
pub fn matmul(b: &mut Builder<'_>, call: &Call, x: &Tensor, y: &Tensor) -> Built {
    if x.rank() == 0 || y.rank() == 0 {
        return Err(call.error("both operands need at least one dim"));
    }
    let (row, column) = (x.rank() == 1, y.rank() == 1);
    let x = if row { b.unsqueeze(x, 0)? } else { x.clone() };
    let y = if column { b.unsqueeze(y, 1)? } else { y.clone() };
    let full =
        if y.rank() == 2 && x.rank() > 2 { folded(b, call, &x, &y)? } else { batched(b, call, &x, &y)? };
    let mut gone = Vec::new();
    if row {
        gone.push(full.rank() - 2);
    }
    if column {
        gone.push(full.rank() - 1);
    }
    b.squeeze(&full, &gone)
}

fn folded(b: &mut Builder<'_>, call: &Call, x: &Tensor, y: &Tensor) -> Built {
    let (k, rows) = x.dims().split_last().expect("rank is above 2");
    let flat = b.reshape(x, &[Dim::product(rows), k.clone()])?;
    let p = product(b, call, &flat, y)?;
    let mut dims = x.dims().to_vec();
    *dims.last_mut().expect("rank is above 2") = y.dims()[1].clone();
    b.reshape(&p, &dims)
}

fn batched(b: &mut Builder<'_>, call: &Call, x: &Tensor, y: &Tensor) -> Built {
    let (xs, ys) = (x.dims(), y.dims());
    let (xb, yb) = (&xs[..xs.len() - 2], &ys[..ys.len() - 2]);
    let batch = meta::broadcast_dims(call, [xb, yb])?;
    let with_batch = |d: &[Dim]| [&batch[..], &d[d.len() - 2..]].concat();
    let (xd, yd) = (with_batch(xs), with_batch(ys));
    let (x, y) = (broadcast_to(b, x, &xd)?, broadcast_to(b, y, &yd)?);
    product(b, call, &x, &y)
}

fn linear(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, w, bias) = (call.tensor("a")?, call.tensor("w")?, call.opt_tensor("bias")?);
    if w.rank() == 1 {
        let p = matmul(b, call, &a, &w)?;
        return Ok(vec![match bias {
            Some(bias) => b.add(&p, &bias)?.arg(),
            None => p.arg(),
        }]);
    }
    if !a.dtype().is_inexact() {
        // `prims.linear` is for floats; an integer layer is rare and needs no kernel of its own.
        let t = b.swap_last(&w)?;
        let p = matmul(b, call, &a, &t)?;
        return Ok(vec![bias.map_or(Ok(p.clone()), |bias| b.add(&p, &bias))?.arg()]);
    }
    let bias = bias.map_or(Arg::None, |t| t.arg());
    let y = b.tensor("prims.linear", vec![a.arg(), w.arg(), bias]).map_err(|e| call.error(e.what))?;
    Ok(vec![y.arg()])
}

/// `beta * c + alpha * product`.
fn add_scaled(b: &mut Builder<'_>, call: &Call, product: &Tensor) -> Result<Vec<Arg>, OpError> {
    let c = call.tensor("c")?;
    let product = scaled(b, product, call.num("alpha")?)?;
    let beta = call.num("beta")?;
    if is_number(&beta, 0.0) {
        return Ok(vec![product.arg()]);
    }
    same_dtype(call, &c, &product)?;
    let c = scaled(b, &c, beta)?;
    let dims = meta::broadcast_dims(call, [product.dims(), c.dims()])?;
    if dims.len() != product.rank() || dims.iter().zip(product.dims()).any(|(d, p)| d.same(p) == Some(false))
    {
        return Err(call.error(format!(
            "`c` is {}, the product {}",
            meta::show(c.dims()),
            meta::show(product.dims())
        )));
    }
    let c = broadcast_to(b, &c, product.dims())?;
    Ok(vec![b.add(&c, product)?.arg()])
}

fn scaled(b: &mut Builder<'_>, x: &Tensor, by: Num) -> Built {
    if is_number(&by, 1.0) {
        return Ok(x.clone());
    }
    let by = number_for(&by, x.dtype());
    b.tensor("prims.mul", vec![x.arg(), by])
}

/// Is the number known to be this one?
pub fn is_number(n: &Num, value: f64) -> bool {
    match n {
        Num::Int(i) => *i as f64 == value,
        Num::Float(x) => *x == value,
        _ => false,
    }
}

/// `mm.dtype`, `bmm.dtype`: half operands with an f32 result. Converting first rounds nothing, and the product is the
/// same, since these accumulate in f32 anyway.
fn product_in_dtype(b: &mut Builder<'_>, c: &AtenCall, op: &str) -> Result<Vec<Arg>, OpError> {
    let dtype = import::arg(c, "out_dtype")?;
    let mut operands = Vec::new();
    for name in ["self", "mat2"] {
        operands.push(b.tensor("torch.to", vec![import::arg(c, name)?, dtype.clone()])?.arg());
    }
    b.call(op, operands)
}

/// `addbmm` sums the products of its batch: one product whose contracted dim is batch and inner dim together.
fn import_addbmm(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let (x, y) = (import::tensor(b, c, "batch1")?, import::tensor(b, c, "batch2")?);
    let ([n, rows, k], [_, _, columns]) = (x.dims(), y.dims()) else {
        return Err(c.error("`batch1` and `batch2` must have 3 dims"));
    };
    let inner = n.mul(k);
    let x_rows = b.tensor("torch.permute", vec![x.arg(), Arg::ints([1, 0, 2])])?;
    let x = b.tensor("torch.reshape", vec![x_rows.arg(), Arg::dims(&[rows.clone(), inner.clone()])])?;
    let y = b.tensor("torch.reshape", vec![y.arg(), Arg::dims(&[inner, columns.clone()])])?;
    let [c0, beta, alpha] = ["self", "beta", "alpha"].map(|name| import::arg(c, name));
    b.call("torch.addmm", vec![c0?, x.arg(), y.arg(), beta?, alpha?])
}

/// d (a b) = g b^H in a, a^H g in b.
fn matmul_rule(b: &mut Builder<'_>, d: &Grad<'_>) -> Result<Vec<Option<Tensor>>, OpError> {
    let (x, y, g) = (d.call.tensor("a")?, d.call.tensor("b")?, d.g()?);
    let mut all = vec![None, None];
    if d.wants(0) {
        let y = adjoint(b, &y)?;
        all[0] = Some(b.matmul(&g, &y)?);
    }
    if d.wants(1) {
        let x = adjoint(b, &x)?;
        all[1] = Some(b.matmul(&x, &g)?);
    }
    Ok(all)
}

fn adjoint(b: &mut Builder<'_>, x: &Tensor) -> Result<Tensor, OpError> {
    let turned = b.swap_last(x)?;
    b.conj(&turned)
}

/// A tensor as a matrix of its last dim; of one dim it is one row.
fn flat_rows(b: &mut Builder<'_>, x: &Tensor) -> Result<Tensor, OpError> {
    let last = x.rank().saturating_sub(1);
    let rows = crate::ir::Dim::product(&x.dims()[..last]);
    let columns = x.dims().last().cloned().unwrap_or(crate::ir::Dim::Known(1));
    b.reshape(x, &[rows, columns])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_recognised_in_either_kind() {
        assert!(is_number(&Num::Int(1), 1.0) && is_number(&Num::Float(1.0), 1.0));
        assert!(!is_number(&Num::Float(f64::NAN), 1.0));
    }
}
