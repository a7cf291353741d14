//! Matrix products and factorisations.
//!
//! Products are brought to two or three dims when bound, so that a run is one call that writes to the output.

use thunderhead_sdk::{ArgRef, Dtype, Refusal, TensorDesc};

use thunderhead_aten::recipe::{Recipe, Row, call, form, with};
use thunderhead_aten::{Arg, Reg};

/// What this family runs.
pub static ROWS: &[Row] = &[
    with("prims.linear", linear),
    with("prims.matmul", matmul),
    call("prims.cholesky", "linalg_cholesky_ex", "a upper"),
    call("prims.grouped_mm", "_grouped_mm", "a b offsets"),
    call("prims.triangular_solve", "linalg_solve_triangular", "a b upper left unitriangular"),
    with("torch.addmm", addmm),
    with("torch.baddbmm", baddbmm),
    call("torch.bilinear", "bilinear", "a b w bias"),
    call("torch.bmm", "bmm", "a b"),
    call("torch.cdist", "cdist", "a b p"),
    call("torch.cholesky", "linalg_cholesky", "a upper"),
    call("torch.cholesky_ex", "linalg_cholesky_ex", "a upper check_errors"),
    with("torch.cross", cross),
    with("torch.dot", dot),
    with("torch.einsum", |recipe| {
        let dtype = recipe.result()?.dtype();
        if dtype.is_int() && dtype != Dtype::I64 {
            return Err(form(format!("ATen's sums of {dtype} are i64")));
        }
        recipe.call("einsum", "equation tensors")
    }),
    call("torch.grouped_mm", "_grouped_mm", "a b offsets =none out_dtype"),
    call("torch.kron", "kron", "a b"),
    with("torch.linear", linear),
    with("torch.matmul", matmul),
    call("torch.mm", "mm", "a b"),
    call("torch.multi_dot", "linalg_multi_dot", "tensors"),
    call("torch.mv", "mv", "a b"),
    call("torch.outer", "outer", "a b"),
    call("torch.pdist", "pdist", "a p"),
    call("torch.solve_triangular", "linalg_solve_triangular", "a b upper left unitriangular"),
    call("torch.tensordot", "tensordot", "a b axes_a axes_b"),
];

/// `a wᵀ + bias`, as one product of matrices.
fn linear(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    let (a, w) = (recipe.desc("a")?, recipe.desc("w")?);
    if a.rank() == 0 || w.rank() != 2 || !a.is_known() || !w.is_known() {
        return recipe.call_and_store("linear", "a w bias");
    }
    let (rows, cols) = (rows(&a), a.dims()[a.rank() - 1]);
    let features = w.dims()[0];
    let Some(a2) = matrix(recipe, "a", rows, cols)? else {
        return recipe.call_and_store("linear", "a w bias");
    };
    let out = recipe.out(0);
    let out2 = recipe.bind_with("view", vec![Arg::Reg(out), Arg::Ints(vec![rows, features])]);
    let wt = recipe.bind("t", "w")?;
    if recipe.op.has("bias") {
        let bias = recipe.arg("bias")?;
        recipe.effect(
            "addmm.out",
            vec![bias, Arg::Reg(a2), Arg::Reg(wt), Arg::Int(1), Arg::Int(1), Arg::Reg(out2)],
        );
    } else {
        recipe.effect("mm.out", vec![Arg::Reg(a2), Arg::Reg(wt), Arg::Reg(out2)]);
    }
    Ok(())
}

/// Two matrices, stacks of them with the same leading dims, or whatever ATen makes of the rest.
fn matmul(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    let (a, b) = (recipe.desc("a")?, recipe.desc("b")?);
    if a.rank() == 2 && b.rank() == 2 {
        return recipe.call("mm", "a b");
    }
    let stacked = a.rank() == b.rank() && a.rank() == 3 && a.dims()[0] == b.dims()[0];
    if stacked {
        return recipe.call("bmm", "a b");
    }
    if !a.is_known() || !b.is_known() || a.rank() < 3 {
        return recipe.call_and_store("matmul", "a b");
    }
    if b.rank() == 2 {
        let (rows, cols, width) = (rows(&a), a.dims()[a.rank() - 1], b.dims()[1]);
        if let Some(a2) = matrix(recipe, "a", rows, cols)? {
            let out = recipe.out(0);
            let out2 = recipe.bind_with("view", vec![Arg::Reg(out), Arg::Ints(vec![rows, width])]);
            let b = recipe.arg("b")?;
            recipe.effect("mm.out", vec![Arg::Reg(a2), b, Arg::Reg(out2)]);
            return Ok(());
        }
    }
    let lead = a.rank() - 2;
    if a.rank() == b.rank()
        && a.dims()[..lead] == b.dims()[..lead]
        && mergeable(&a, lead)
        && mergeable(&b, lead)
    {
        let n = a.dims()[..lead].iter().product();
        let a3 = stack(recipe, "a", n, &a.dims()[lead..])?;
        let b3 = stack(recipe, "b", n, &b.dims()[lead..])?;
        let out = recipe.out(0);
        let dims = vec![n, a.dims()[lead], b.dims()[lead + 1]];
        let out3 = recipe.bind_with("view", vec![Arg::Reg(out), Arg::Ints(dims)]);
        recipe.effect("bmm.out", vec![Arg::Reg(a3), Arg::Reg(b3), Arg::Reg(out3)]);
        return Ok(());
    }
    recipe.call_and_store("matmul", "a b")
}

/// How many rows a tensor has when its last dim is a row.
fn rows(a: &TensorDesc<'_>) -> i64 {
    a.dims()[..a.rank() - 1].iter().product()
}

/// A tensor as a matrix of its last dim, where its strides can say so.
fn matrix(recipe: &mut Recipe<'_>, name: &str, rows: i64, cols: i64) -> Result<Option<Reg>, Refusal> {
    let tensor = recipe.desc(name)?;
    if tensor.rank() == 2 {
        return Ok(Some(recipe.tensor(name)?));
    }
    if !mergeable(&tensor, tensor.rank() - 1) {
        return Ok(None);
    }
    let reg = recipe.tensor(name)?;
    Ok(Some(recipe.bind_with("view", vec![Arg::Reg(reg), Arg::Ints(vec![rows, cols])])))
}

fn stack(recipe: &mut Recipe<'_>, name: &str, n: i64, matrix: &[i64]) -> Result<Reg, Refusal> {
    let reg = recipe.tensor(name)?;
    let dims = [&[n], matrix].concat();
    Ok(recipe.bind_with("view", vec![Arg::Reg(reg), Arg::Ints(dims)]))
}

/// Can the first `lead` dims be seen as one? Not known (in `check`) counts as yes: the answer changes nothing there.
fn mergeable(tensor: &TensorDesc<'_>, lead: usize) -> bool {
    let Some(strides) = tensor.strides() else { return true };
    let dims = tensor.dims();
    if dims.contains(&0) {
        return tensor.is_contiguous();
    }
    // Dims of one have no say; of the others each must step over exactly the next.
    let mut inner: Option<i64> = None;
    for idx in (0..lead).rev().filter(|idx| dims[*idx] != 1) {
        if inner.is_some_and(|expected| strides[idx] != expected) {
            return false;
        }
        inner = Some(strides[idx] * dims[idx]);
    }
    strides.iter().all(|stride| *stride >= 0)
}

/// Integers scaled by a float, which ATen cuts to an integer and PyTorch refuses.
fn unscaled(recipe: &Recipe<'_>) -> Result<(), Refusal> {
    let scaled = ["alpha", "beta"].iter().find(|name| matches!(recipe.op.arg(name), Some(ArgRef::Float(_))));
    match scaled {
        Some(name) if recipe.result()?.dtype().is_int() => {
            Err(form("integers are scaled by a float".into()).attribute(*name))
        }
        _ => Ok(()),
    }
}

/// Core IR's linear, and its forms with a vector.
fn addmm(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    unscaled(recipe)?;
    match (recipe.desc("a")?.rank(), recipe.desc("b")?.rank()) {
        (2, 2) => recipe.call("addmm", "c a b beta alpha"),
        (2, 1) => recipe.call("addmv", "c a b beta alpha"),
        (1, 1) => recipe.call("addr", "c a b beta alpha"),
        (a, b) => Err(form(format!("operands have {a} and {b} dims"))),
    }
}

fn baddbmm(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    unscaled(recipe)?;
    match recipe.result()?.rank() {
        3 => recipe.call("baddbmm", "c a b beta alpha"),
        _ => recipe.call("addbmm", "c a b beta alpha"),
    }
}

fn cross(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    match recipe.op.opt_int("axis")? {
        Some(_) => recipe.call("linalg_cross", "a b axis"),
        None => recipe.call("cross", "a b"),
    }
}

fn dot(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    match (recipe.desc("a")?.rank(), recipe.desc("b")?.rank()) {
        (1, 1) if recipe.op.opt_bool("conj")?.unwrap_or(false) => recipe.call("vdot", "a b"),
        (1, 1) => recipe.call("dot", "a b"),
        (a, b) => Err(form(format!("operands have {a} and {b} dims; 1 and 1 are taken"))),
    }
}
