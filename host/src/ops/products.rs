//! Products and distances that few models need, and triangular systems.
//!
//! Deliberately absent: matrix products themselves, which are `linalg`.

use super::arith::{Built, all_axes};
use super::build::{Builder, Tensor};
use super::{Aten, AtenCall, Call, Grad, Import, Level, Meta, Op, OpError, Sample, Vjp, import, meta};
use crate::ir::{Arg, Dim, Dtype, Type};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &TRIANGULAR_SOLVE,
    &TORCH_SOLVE_TRIANGULAR,
    &TORCH_CROSS,
    &TORCH_DOT,
    &TORCH_KRON,
    &TORCH_MULTI_DOT,
    &TORCH_MV,
    &TORCH_OUTER,
    &TORCH_TENSORDOT,
    &TORCH_BILINEAR,
    &TORCH_CDIST,
    &TORCH_PDIST,
    &GROUPED_MM,
    &TORCH_GROUPED_MM,
];

pub static TRIANGULAR_SOLVE: Op = Op {
    name: "prims.triangular_solve",
    doc: "`x` with `a x = b`, or `x a = b` unless `left`; `a` is the triangle asked for, with ones on its diagonal where `unitriangular`. Nothing else of `a` is read.",
    schema: "(a: Tensor<x>, b: Tensor<x>, upper: bool, left: bool, unitriangular: bool) -> Tensor",
    meta: Meta::Fn(solve_meta),
    vjp: Vjp::Rule(solve_rule),
    samples: &[
        Sample("T[3, 3]{pos}, T[3, 2], upper=false, left=true, unitriangular=false"),
        Sample("T[2, 3, 3]{pos}, T[2, 2, 3], upper=true, left=false, unitriangular=false"),
        Sample("T[2, 2], T[2, 2], upper=true, left=true, unitriangular=true"),
    ],
    ..Op::BASE
};

pub static TORCH_SOLVE_TRIANGULAR: Op = Op {
    name: "torch.solve_triangular",
    doc: "The solution of a triangular system, batches broadcast.",
    schema: "(a: Tensor, b: Tensor, *, upper: bool, left: bool = true, unitriangular: bool = false) -> Tensor",
    level: Level::Composite(|b, call| {
        let (a, y) = (call.tensor("a")?, call.tensor("b")?);
        if a.rank() < 2 || y.rank() < 2 {
            return Err(call.error("takes matrices"));
        }
        let split = |t: &Tensor| {
            let n = t.rank() - 2;
            (t.dims()[..n].to_vec(), t.dims()[n..].to_vec())
        };
        let ((ab, am), (yb, ym)) = (split(&a), split(&y));
        let batch = meta::broadcast_dims(call, [&ab[..], &yb[..]])?;
        let (a, y) =
            (b.expand(&a, &[&batch[..], &am[..]].concat())?, b.expand(&y, &[&batch[..], &ym[..]].concat())?);
        Ok(vec![
            b.tensor(
                "prims.triangular_solve",
                vec![a.arg(), y.arg(), call.raw("upper")?, call.raw("left")?, call.raw("unitriangular")?],
            )
            .map_err(|e| call.error(e.what))?
            .arg(),
        ])
    }),
    aten: &[Aten {
        overloads: &["linalg_solve_triangular.default"],
        import: Import::Map("a=self b=B upper left unitriangular"),
    }],
    samples: &[
        Sample("T[3, 3]{pos}, T[3, 2], upper=false"),
        Sample("T[2, 3, 3]{pos}, T[2, 3], upper=true, left=false"),
        Sample("T[2, 2], T[4, 2, 1], upper=true, unitriangular=true"),
    ],
    ..Op::BASE
};

pub static TORCH_CROSS: Op = Op {
    name: "torch.cross",
    doc: "The cross product along an axis of 3, broadcast; without an axis along the first of that size.",
    schema: "(a: Tensor, b: Tensor, axis: int?) -> Tensor",
    level: Level::Composite(cross),
    aten: &[
        Aten { overloads: &["cross.default"], import: Import::Map("a=self b=other axis=dim") },
        Aten { overloads: &["linalg_cross.default"], import: Import::Map("a=self b=other axis=dim") },
    ],
    samples: &[
        Sample("T[2, 3], T[2, 3], axis=-1"),
        Sample("T[3, 2], T[3, 2]"),
        Sample("T[2, 3], T[1, 3], axis=1"),
    ],
    ..Op::BASE
};

pub static TORCH_DOT: Op = Op {
    name: "torch.dot",
    doc: "Sum of products along the last axis, `conj` of the first factors; broadcast where there are more axes than one.",
    schema: "(a: Tensor, b: Tensor, *, conj: bool = false) -> Tensor",
    level: Level::Composite(|b, call| {
        let (x, y) = (call.tensor("a")?, call.tensor("b")?);
        let x = if call.bool("conj")? && x.dtype().is_complex() { b.unary("prims.conj", &x)? } else { x };
        inner(b, call, &x, &y)
    }),
    aten: &[
        Aten { overloads: &["dot.default"], import: Import::Map("a=self b=tensor") },
        Aten {
            overloads: &["vdot.default"],
            import: Import::MapWith("a=self b=other", &[("conj", super::aten::FixedArg::Bool(true))]),
        },
        Aten { overloads: &["inner.default"], import: Import::With(import_inner) },
        Aten { overloads: &["linalg_vecdot.default"], import: Import::With(import_vecdot) },
    ],
    samples: &[
        Sample("T[4], T[4]"),
        Sample("T[2, 3], T[3]"),
        Sample("T[0], T[0]"),
        Sample("T[3], T[3], conj=true"),
    ],
    ..Op::BASE
};

pub static TORCH_KRON: Op = Op {
    name: "torch.kron",
    doc: "Kronecker product: each element of `a` times all of `b`.",
    schema: "(a: Tensor, b: Tensor) -> Tensor",
    level: Level::Composite(kron),
    aten: &[Aten { overloads: &["kron.default"], import: Import::Map("a=self b=other") }],
    samples: &[Sample("T[2, 3], T[3, 2]"), Sample("T[2], T[2, 3]"), Sample("T[], T[2]")],
    ..Op::BASE
};

pub static TORCH_MULTI_DOT: Op = Op {
    name: "torch.multi_dot",
    doc: "Product of a chain of matrices in the order that multiplies fewest numbers; a vector may stand at either end.",
    schema: "(tensors: Tensor[]) -> Tensor",
    level: Level::Composite(multi_dot),
    aten: &[
        Aten { overloads: &["linalg_multi_dot.default"], import: Import::Map("tensors") },
        Aten { overloads: &["chain_matmul.default"], import: Import::Map("tensors=matrices") },
    ],
    samples: &[
        Sample("[T[2, 3], T[3, 4], T[4, 1]]"),
        Sample("[T[3], T[3, 4], T[4]]"),
        Sample("[T[2, 3], T[3, 2]]"),
    ],
    ..Op::BASE
};

pub static TORCH_MV: Op = Op {
    name: "torch.mv",
    doc: "A matrix times a vector.",
    schema: "(a: Tensor, b: Tensor) -> Tensor",
    level: Level::Composite(|b, call| {
        let (x, y) = (call.tensor("a")?, call.tensor("b")?);
        if x.rank() != 2 || y.rank() != 1 {
            return Err(call.error(format!(
                "takes a matrix and a vector, found {} and {}",
                meta::show(x.dims()),
                meta::show(y.dims())
            )));
        }
        Ok(vec![super::linalg::matmul(b, call, &x, &y)?.arg()])
    }),
    aten: &[Aten { overloads: &["mv.default"], import: Import::Map("a=self b=vec") }],
    samples: &[Sample("T[2, 3], T[3]"), Sample("T[0, 3], T[3]")],
    ..Op::BASE
};

pub static TORCH_OUTER: Op = Op {
    name: "torch.outer",
    doc: "Each element of `a` times each of `b`.",
    schema: "(a: Tensor, b: Tensor) -> Tensor",
    level: Level::Composite(|b, call| {
        let (x, y) = (call.tensor("a")?, call.tensor("b")?);
        if x.rank() != 1 || y.rank() != 1 {
            return Err(call.error(format!(
                "takes vectors, found {} and {}",
                meta::show(x.dims()),
                meta::show(y.dims())
            )));
        }
        let column = b.unsqueeze(&x, 1)?;
        Ok(vec![b.tensor("torch.mul", vec![column.arg(), y.arg()])?.arg()])
    }),
    aten: &[Aten { overloads: &["ger.default", "outer.default"], import: Import::Map("a=self b=vec2") }],
    samples: &[Sample("T[2], T[3]"), Sample("T[2], f64[2]"), Sample("T[0], T[3]")],
    ..Op::BASE
};

pub static TORCH_TENSORDOT: Op = Op {
    name: "torch.tensordot",
    doc: "Products summed over pairs of axes; the others of `a`, then those of `b`, stay.",
    schema: "(a: Tensor, b: Tensor, axes_a: ints, axes_b: ints) -> Tensor",
    level: Level::Composite(tensordot),
    aten: &[Aten {
        overloads: &["tensordot.default"],
        import: Import::Map("a=self b=other axes_a=dims_self axes_b=dims_other"),
    }],
    samples: &[
        Sample("T[2, 3, 4], T[4, 3, 5], axes_a=[1, 2], axes_b=[1, 0]"),
        Sample("T[2, 3], T[4], axes_a=[], axes_b=[]"),
        Sample("T[2], T[2], axes_a=[0], axes_b=[-1]"),
    ],
    ..Op::BASE
};

pub static GROUPED_MM: Op = Op {
    name: "prims.grouped_mm",
    doc: "Products of groups whose ends `offsets` names: of rows of a 2-d `a` with one matrix each of a 3-d `b`, of columns \
          of a 2-d `b`, or, both 2-d, of terms of the sum. What lies behind the last end is zero.",
    schema: "(a: Tensor<f>, b: Tensor<f>, offsets: Tensor<i32>) -> Tensor",
    meta: Meta::Fn(grouped_meta),
    vjp: Vjp::Rule(|b, d| {
        // Rows, columns and terms change places: each gradient is a grouped product, too.
        let (x, y, offsets, g) = (d.call.tensor("a")?, d.call.tensor("b")?, d.call.raw("offsets")?, d.g()?);
        let mut all = vec![None, None, None];
        if d.wants(0) {
            let turned = b.swap_last(&y)?;
            all[0] = Some(b.tensor("prims.grouped_mm", vec![g.arg(), turned.arg(), offsets.clone()])?);
        }
        if d.wants(1) {
            let turned = b.swap_last(&x)?;
            all[1] = Some(b.tensor("prims.grouped_mm", vec![turned.arg(), g.arg(), offsets])?);
        }
        Ok(all)
    }),
    samples: &[
        Sample("T[6, 8], T[2, 8, 8], i32[2]{6..7}"),
        Sample("T[2, 8, 8], T[8, 16], i32[2]{16..17}"),
        Sample("T[8, 16], T[16, 8], i32[2]{16..17}"),
    ],
    ..Op::BASE
};

pub static TORCH_GROUPED_MM: Op = Op {
    name: "torch.grouped_mm",
    doc: "Products of matrices in groups; without `offsets` of a batch.",
    schema: "(a: Tensor, b: Tensor, offsets: Tensor<i32>?, *, out_dtype: dtype? = None) -> Tensor",
    level: Level::Composite(|b, call| {
        let (x, y) = (call.tensor("a")?, call.tensor("b")?);
        if !x.dtype().is_float() {
            return Err(call.error(format!("`a` is {}, floats are wanted", x.dtype())));
        }
        let product = match call.opt_tensor("offsets")? {
            Some(offsets) => b.tensor("prims.grouped_mm", vec![x.arg(), y.arg(), offsets.arg()]),
            None if x.rank() == 3 && y.rank() == 3 => b.matmul(&x, &y),
            None => return Err(call.error("without `offsets` both operands must have 3 dims")),
        };
        let product = product.map_err(|e| call.error(e.what))?;
        let dtype = call.opt_dtype("out_dtype")?.unwrap_or(product.dtype());
        Ok(vec![b.to(&product, dtype)?.arg()])
    }),
    aten: &[Aten {
        overloads: &["_grouped_mm.default"],
        import: Import::With(|b, c| {
            if !c.arg("bias")?.is_none() {
                return Err(c.error("takes no `bias`, in PyTorch neither"));
            }
            let args = import::args(c, &["self", "mat2", "offs", "out_dtype"])?;
            b.call_recorded(&TORCH_GROUPED_MM, args, &c.results)
        }),
    }],
    samples: &[
        Sample("T[6, 8], T[2, 8, 8], i32[2]{6..7}"),
        Sample("T[2, 8, 8], T[8, 16], i32[2]{16..17}"),
        Sample("T[8, 16], T[16, 8], i32[2]{16..17}"),
        Sample("T[2, 8, 8], T[2, 8, 8], none"),
    ],
    ..Op::BASE
};

pub static TORCH_BILINEAR: Op = Op {
    name: "torch.bilinear",
    doc: "`a^T w_k b + bias_k` for each matrix of `w`.",
    schema: "(a: Tensor, b: Tensor, w: Tensor, bias: Tensor? = None) -> Tensor",
    level: Level::Composite(bilinear),
    aten: &[
        Aten { overloads: &["bilinear.default"], import: Import::Map("a=input1 b=input2 w=weight bias") },
        Aten { overloads: &["_trilinear.default"], import: Import::With(import_trilinear) },
    ],
    samples: &[
        Sample("T[2, 3], T[2, 4], T[5, 3, 4], T[5]"),
        Sample("T[3], T[4], T[2, 3, 4]"),
        Sample("T[2, 2, 3], T[2, 2, 1], T[1, 3, 1], T[1]"),
    ],
    ..Op::BASE
};

pub static TORCH_CDIST: Op = Op {
    name: "torch.cdist",
    doc: "Distance of each row of `a` to each row of `b`, in the p-norm; batches broadcast.",
    schema: "(a: Tensor, b: Tensor, p: num = 2.0) -> Tensor",
    level: Level::Composite(cdist),
    aten: &[
        Aten { overloads: &["cdist.default"], import: Import::Map("a=x1 b=x2 p") },
        Aten { overloads: &["_cdist_forward.default"], import: Import::Map("a=x1 b=x2 p") },
        Aten { overloads: &["_euclidean_dist.default"], import: Import::Map("a=x1 b=x2") },
    ],
    samples: &[
        Sample("T[3, 2], T[4, 2]"),
        Sample("T[2, 3, 2], T[4, 2], p=1.0"),
        Sample("T[3, 2], T[4, 2], p=inf"),
    ],
    ..Op::BASE
};

pub static TORCH_PDIST: Op = Op {
    name: "torch.pdist",
    doc: "Distance of each row to each later row, in the p-norm, as one vector.",
    schema: "(a: Tensor, p: num = 2.0) -> Tensor",
    level: Level::Composite(pdist),
    aten: &[Aten {
        overloads: &["_pdist_forward.default", "pdist.default"],
        import: Import::Map("a=self p"),
    }],
    samples: &[Sample("T[4, 3]"), Sample("T[3, 2], p=1.0"), Sample("T[1, 2]")],
    ..Op::BASE
};

fn solve_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let (a, y) = (call.tensor("a")?, call.tensor("b")?);
    let n = a.rank();
    let same = |x: &Dim, y: &Dim| x.same(y) != Some(false);
    let fits = n >= 2 && y.rank() == n && a.dtype() == y.dtype() && {
        let side = if call.bool("left")? { n - 2 } else { n - 1 };
        same(&a.dims()[n - 1], &a.dims()[n - 2])
            && same(&a.dims()[n - 1], &y.dims()[side])
            && a.dims()[..n - 2].iter().zip(y.dims()).all(|(x, y)| same(x, y))
    };
    if !fits || matches!(a.dtype(), Dtype::F16 | Dtype::Bf16) {
        return Err(call.error(format!(
            "{}{} does not solve for {}{}",
            a.dtype(),
            meta::show(a.dims()),
            y.dtype(),
            meta::show(y.dims())
        )));
    }
    Ok(vec![Some(Type::Tensor(y.ty))])
}

/// With `a x = b`: d b = a^-H g, d a = -(d b) x^H, of which the triangle counts; from the right all is transposed.
fn solve_rule(b: &mut Builder<'_>, d: &Grad<'_>) -> Result<Vec<Option<Tensor>>, OpError> {
    let (a, x, g) = (d.call.tensor("a")?, d.output(0)?, d.g()?);
    let (upper, left, unit) = (d.call.bool("upper")?, d.call.bool("left")?, d.call.bool("unitriangular")?);
    let turned = adjoint(b, &a)?;
    let flags = [Arg::Bool(!upper), Arg::Bool(left), Arg::Bool(unit)];
    let of_b = b.tensor("prims.triangular_solve", [vec![turned.arg(), g.arg()], flags.to_vec()].concat())?;
    let mut all = vec![None, Some(of_b.clone())];
    if d.wants(0) {
        let x = adjoint(b, &x)?;
        let product = if left { b.matmul(&of_b, &x)? } else { b.matmul(&x, &of_b)? };
        let minus = b.neg(&product)?;
        // A diagonal of ones that nobody reads has no gradient.
        let diagonal = match (upper, unit) {
            (true, false) | (false, false) => 0,
            (true, true) => 1,
            (false, true) => -1,
        };
        let triangle = if upper { "torch.triu" } else { "torch.tril" };
        all[0] = Some(b.tensor(triangle, vec![minus.arg(), Arg::Int(diagonal)])?);
    }
    Ok(all)
}

/// The conjugate transpose.
fn adjoint(b: &mut Builder<'_>, x: &Tensor) -> Built {
    let turned = b.swap_last(x)?;
    if x.dtype().is_complex() { b.unary("prims.conj", &turned) } else { Ok(turned) }
}

/// Two tensors of one dtype.
fn same_dtype(call: &Call, x: &Tensor, y: &Tensor) -> Result<(), OpError> {
    if x.dtype() == y.dtype() {
        return Ok(());
    }
    Err(call.error(format!("`a` is {}, `b` {}: one dtype is wanted", x.dtype(), y.dtype())))
}

/// Element i is the difference of products of the two others: the operands turned by one and by two places.
fn cross(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (x, y) = (call.tensor("a")?, call.tensor("b")?);
    same_dtype(call, &x, &y)?;
    let dims = meta::broadcast_dims(call, [x.dims(), y.dims()])?;
    let axis = match call.opt_int("axis")? {
        Some(axis) => call.canonical_axis(axis, dims.len())?,
        None => dims.iter().position(|d| d.is(3)).ok_or_else(|| call.error("no axis has 3 elements"))?,
    };
    if dims.get(axis).is_none_or(|d| !d.is(3)) || x.dtype() == Dtype::Bool {
        return Err(call.error(format!("needs 3 numbers along axis {axis} of {}", meta::show(&dims))));
    }
    let (x, y) = (b.expand(&x, &dims)?, b.expand(&y, &dims)?);
    let three = Dim::Known(3);
    let mut turned = |t: &Tensor, by: i64| {
        let at = Dim::Known(by);
        let (head, rest) = (b.narrow(t, axis, &Dim::Known(0), &at)?, b.narrow(t, axis, &at, &three)?);
        b.cat(&[rest, head], axis)
    };
    let (x1, y2, x2, y1) = (turned(&x, 1)?, turned(&y, 2)?, turned(&x, 2)?, turned(&y, 1)?);
    let (plus, minus) = (b.mul(&x1, &y2)?, b.mul(&x2, &y1)?);
    Ok(vec![b.sub(&plus, &minus)?.arg()])
}

fn inner(b: &mut Builder<'_>, call: &Call, x: &Tensor, y: &Tensor) -> Result<Vec<Arg>, OpError> {
    same_dtype(call, x, y)?;
    if x.rank() == 0 || y.rank() == 0 {
        return Err(call.error("both operands need at least one dim"));
    }
    if x.dtype() == Dtype::Bool {
        return Err(call.error("takes numbers, found bool"));
    }
    // Products are summed in the accumulation dtype; a product of two halves fits into f32.
    let (wide_x, wide_y) = (b.to(x, x.dtype().acc())?, b.to(y, y.dtype().acc())?);
    let product = b.mul(&wide_x, &wide_y).map_err(|e| call.error(e.what))?;
    let sum = b.sum(&product, &[product.rank() - 1])?;
    Ok(vec![b.to(&sum, x.dtype())?.arg()])
}

/// `inner` contracts the last axes: of matrices each row with each row.
fn import_inner(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let (x, y) = (import::tensor(b, c, "self")?, import::tensor(b, c, "other")?);
    if x.rank() == 0 || y.rank() == 0 {
        return b.call("torch.mul", vec![x.arg(), y.arg()]);
    }
    b.call("torch.tensordot", vec![x.arg(), y.arg(), Arg::ints([-1]), Arg::ints([-1])])
}

/// The axis goes last.
fn import_vecdot(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let axis = import::int(c, "dim")?;
    let mut operands = Vec::with_capacity(3);
    for name in ["x", "y"] {
        let t = import::tensor(b, c, name)?;
        operands.push(b.tensor("torch.transpose", vec![t.arg(), Arg::Int(axis), Arg::Int(-1)])?.arg());
    }
    operands.push(Arg::Bool(true));
    b.call("torch.dot", operands)
}

fn kron(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (x, y) = (call.tensor("a")?, call.tensor("b")?);
    let rank = x.rank().max(y.rank());
    let padded = |t: &Tensor| [vec![Dim::Known(1); rank - t.rank()], t.dims().to_vec()].concat();
    let (xd, yd) = (padded(&x), padded(&y));
    let one = || Dim::Known(1);
    let wide_x: Vec<Dim> = xd.iter().flat_map(|d| [d.clone(), one()]).collect();
    let wide_y: Vec<Dim> = yd.iter().flat_map(|d| [one(), d.clone()]).collect();
    let (x, y) = (b.reshape(&x, &wide_x)?, b.reshape(&y, &wide_y)?);
    let all = b.tensor("torch.mul", vec![x.arg(), y.arg()])?;
    let dims: Vec<Dim> = xd.iter().zip(&yd).map(|(m, n)| m.mul(n)).collect();
    Ok(vec![b.reshape(&all, &dims)?.arg()])
}

/// The classic order of a matrix chain: `cost[i][j]` is the least for the product of factors i to j. Unknown sizes count as
/// a middling one; they decide the order only, not the result.
fn multi_dot(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let mut all = call.tensors("tensors")?;
    let n = all.len();
    if n < 2 {
        return Err(call.error("needs two tensors at least"));
    }
    let (row, column) = (all[0].rank() == 1, all[n - 1].rank() == 1);
    if row {
        all[0] = b.unsqueeze(&all[0], 0)?;
    }
    if column {
        all[n - 1] = b.unsqueeze(&all[n - 1], 1)?;
    }
    if let Some(t) = all.iter().find(|t| t.rank() != 2) {
        return Err(call.error(format!("takes matrices, found {}", meta::show(t.dims()))));
    }
    let size = |d: &Dim| d.known().unwrap_or(256) as f64;
    let mut p: Vec<f64> = all.iter().map(|t| size(&t.dims()[0])).collect();
    p.push(size(&all[n - 1].dims()[1]));
    let mut cost = vec![vec![0.0f64; n]; n];
    let mut cut = vec![vec![0usize; n]; n];
    for length in 1..n {
        for i in 0..n - length {
            let j = i + length;
            cost[i][j] = f64::INFINITY;
            for k in i..j {
                let c = cost[i][k] + cost[k + 1][j] + p[i] * p[k + 1] * p[j + 1];
                if c < cost[i][j] {
                    (cost[i][j], cut[i][j]) = (c, k);
                }
            }
        }
    }
    let out = chain(b, call, &all, &cut, 0, n - 1)?;
    let gone: Vec<usize> =
        [(row, 0), (column, 1)].iter().filter(|(g, _)| *g).map(|(_, axis)| *axis).collect();
    Ok(vec![b.squeeze(&out, &gone)?.arg()])
}

/// The product of factors `i` to `j`, cut where it is cheapest.
fn chain(b: &mut Builder<'_>, call: &Call, all: &[Tensor], cut: &[Vec<usize>], i: usize, j: usize) -> Built {
    if i == j {
        return Ok(all[i].clone());
    }
    let k = cut[i][j];
    let (x, y) = (chain(b, call, all, cut, i, k)?, chain(b, call, all, cut, k + 1, j)?);
    same_dtype(call, &x, &y)?;
    b.matmul(&x, &y).map_err(|e| call.error(e.what))
}

fn tensordot(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (x, y) = (call.tensor("a")?, call.tensor("b")?);
    same_dtype(call, &x, &y)?;
    let axes = |name: &str, t: &Tensor| -> Result<Vec<usize>, OpError> {
        call.ints(name)?.iter().map(|a| call.canonical_axis(*a, t.rank())).collect()
    };
    let (of_x, of_y) = (axes("axes_a", &x)?, axes("axes_b", &y)?);
    let fits = of_x.len() == of_y.len()
        && of_x.iter().all(|a| *a < x.rank())
        && of_y.iter().all(|a| *a < y.rank())
        && of_x.iter().zip(&of_y).all(|(i, j)| x.dims()[*i].same(&y.dims()[*j]) != Some(false));
    if !fits || x.dtype() == Dtype::Bool {
        return Err(call.error(format!(
            "axes {of_x:?} of {} and {of_y:?} of {} do not contract",
            meta::show(x.dims()),
            meta::show(y.dims())
        )));
    }
    let rest = |t: &Tensor, axes: &[usize]| -> Vec<usize> {
        all_axes(t.rank()).into_iter().filter(|i| !axes.contains(i)).collect()
    };
    let (rest_x, rest_y) = (rest(&x, &of_x), rest(&y, &of_y));
    let pick =
        |t: &Tensor, axes: &[usize]| -> Vec<Dim> { axes.iter().map(|i| t.dims()[*i].clone()).collect() };
    let dims = [pick(&x, &rest_x), pick(&y, &rest_y)].concat();
    let (rows, inner) = (Dim::product(&pick(&x, &rest_x)), Dim::product(&pick(&x, &of_x)));
    let columns = Dim::product(&pick(&y, &rest_y));
    let left = b.permute(&x, &[&rest_x[..], &of_x[..]].concat())?;
    let left = b.reshape(&left, &[rows, inner.clone()])?;
    let right = b.permute(&y, &[&of_y[..], &rest_y[..]].concat())?;
    let right = b.reshape(&right, &[inner, columns])?;
    let product = b.matmul(&left, &right)?;
    Ok(vec![b.reshape(&product, &dims)?.arg()])
}

/// One product of `a` with all of `w`, then one of each result's matrix with its vector of `b`.
fn bilinear(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (x, y, w) = (call.tensor("a")?, call.tensor("b")?, call.tensor("w")?);
    same_dtype(call, &x, &y)?;
    same_dtype(call, &x, &w)?;
    let [k, m, n] = w.dims() else {
        return Err(call.error(format!("`w` must have three dims, found {}", meta::show(w.dims()))));
    };
    let (k, m, n) = (k.clone(), m.clone(), n.clone());
    let (Some((last_x, outer)), Some((last_y, outer_y))) = (x.dims().split_last(), y.dims().split_last())
    else {
        return Err(call.error("both operands need at least one dim"));
    };
    let same = |p: &Dim, q: &Dim| p.same(q) != Some(false);
    if !same(last_x, &m) || !same(last_y, &n) || outer.len() != outer_y.len() {
        return Err(call.error(format!(
            "{} and {} do not fit {}",
            meta::show(x.dims()),
            meta::show(y.dims()),
            meta::show(w.dims())
        )));
    }
    let outer = outer.to_vec();
    let rows = Dim::product(&outer);
    let x = b.reshape(&x, &[rows.clone(), m.clone()])?;
    let y = b.reshape(&y, &[rows.clone(), n.clone(), Dim::Known(1)])?;
    let w = b.permute(&w, &[1, 0, 2])?;
    let w = b.reshape(&w, &[m, k.mul(&n)])?;
    let left = b.matmul(&x, &w)?;
    let left = b.reshape(&left, &[rows, k.clone(), n])?;
    let out = b.matmul(&left, &y)?;
    let mut out = b.reshape(&out, &[outer, vec![k]].concat())?;
    if let Some(bias) = call.opt_tensor("bias")? {
        out = b.tensor("torch.add", vec![out.arg(), bias.arg()])?;
    }
    Ok(vec![out.arg()])
}

fn cdist(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (x, y) = (call.tensor("a")?, call.tensor("b")?);
    same_dtype(call, &x, &y)?;
    if x.rank() < 2 || y.rank() < 2 {
        return Err(call.error("takes matrices, or batches of them"));
    }
    let rows = b.unsqueeze(&x, x.rank() - 1)?;
    let columns = b.unsqueeze(&y, y.rank() - 2)?;
    let difference = b.tensor("torch.sub", vec![rows.arg(), columns.arg()])?;
    Ok(vec![b.tensor("torch.vector_norm", vec![difference.arg(), call.raw("p")?, Arg::ints([-1])])?.arg()])
}

fn pdist(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let [rows, _] = a.dims() else {
        return Err(call.error(format!("takes a matrix, found {}", meta::show(a.dims()))));
    };
    let Some(n) = rows.known() else { return Err(call.error("needs a known number of rows")) };
    let indices = b.tensor("torch.triu_indices", vec![Arg::Int(n), Arg::Int(n), Arg::Int(1)])?;
    let mut sides = Vec::with_capacity(2);
    for i in 0..2 {
        let index = b.pick(&indices, 0, i)?;
        sides.push(b.tensor("prims.take", vec![a.arg(), index.arg(), Arg::Int(0)])?);
    }
    let difference = b.sub(&sides[0], &sides[1])?;
    Ok(vec![b.tensor("torch.vector_norm", vec![difference.arg(), call.raw("p")?, Arg::ints([-1])])?.arg()])
}

fn grouped_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let (x, y, offsets) = (call.tensor("a")?, call.tensor("b")?, call.tensor("offsets")?);
    let [groups] = offsets.dims() else {
        return Err(call.error(format!("`offsets` is {}, one dim is wanted", meta::show(offsets.dims()))));
    };
    let same = |p: &Dim, q: &Dim| p.same(q) != Some(false);
    let dims = match (x.dims(), y.dims()) {
        ([rows, k], [g, inner, columns]) if same(k, inner) && same(g, groups) => {
            vec![rows.clone(), columns.clone()]
        }
        ([g, rows, k], [inner, columns]) if same(k, inner) && same(g, groups) => {
            vec![rows.clone(), columns.clone()]
        }
        ([rows, k], [inner, columns]) if same(k, inner) => {
            vec![groups.clone(), rows.clone(), columns.clone()]
        }
        (x, y) => {
            let (x, y) = (meta::show(x), meta::show(y));
            return Err(call.error(format!("{x} and {y} do not multiply in {groups} groups")));
        }
    };
    if x.dtype() != y.dtype() {
        return Err(call.error(format!("`a` is {}, `b` {}", x.dtype(), y.dtype())));
    }
    meta::one(dims, x.dtype(), &x.ty)
}

/// The product of three tensors with new dims, summed: ATen's own step below `bilinear`.
fn import_trilinear(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let mut product: Option<Tensor> = None;
    for (name, new) in [("i1", "expand1"), ("i2", "expand2"), ("i3", "expand3")] {
        let mut x = import::tensor(b, c, name)?;
        for axis in ints(c, new)? {
            x = b.tensor("torch.unsqueeze", vec![x.arg(), Arg::Int(axis)])?;
        }
        product = Some(match product {
            Some(p) => b.tensor("torch.mul", vec![p.arg(), x.arg()])?,
            None => x,
        });
    }
    let product = product.ok_or_else(|| c.error("has three operands"))?;
    let summed = ints(c, "sumdim")?;
    if summed.is_empty() {
        return Ok(vec![product.arg()]);
    }
    b.call("torch.sum", vec![product.arg(), Arg::ints(summed)])
}

/// Known integers.
fn ints(c: &AtenCall, name: &str) -> Result<Vec<i64>, OpError> {
    let wrong = || c.error(format!("`{name}` must be a list of known integers"));
    let Arg::List(items) = c.arg(name)? else { return Err(wrong()) };
    items.iter().map(|a| if let Arg::Int(n) = a { Ok(*n) } else { Err(wrong()) }).collect()
}
