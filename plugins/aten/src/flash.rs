//! libtorch's fused attention on the CPU: forward with the log-sum-exp of each row, and backward.
//!
//! `_scaled_dot_product_flash_attention_for_cpu` and its backward take four dims, grouped key heads, and a float mask of
//! two or four dims that broadcasts. They check little: batches that differ are read out of bounds, an empty operand ends
//! the process with a division by zero, rows whose last stride is not 1 are read wrong. All that is kept from them here,
//! and by `layout = "rows"` in the claims.
//!
//! Deliberately not here: dropout, which the kernels lack; each executor refuses it before (`random`).

use thunderhead_sdk::{ArgRef, Dtype, Refusal, TensorDesc};

use crate::recipe::{Recipe, form};
use crate::{Arg, Reg};

const FORWARD: &str = "_scaled_dot_product_flash_attention_for_cpu";
const BACKWARD: &str = "_scaled_dot_product_flash_attention_for_cpu_backward";

/// `(q, k, v, …) -> out` or `-> (out, lse)`; leading dims may be fewer than four's, and may broadcast.
pub fn forward(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    let sizes = Sizes::of(recipe)?;
    let mut args: Vec<Arg> = Vec::new();
    for (name, dims) in [("q", sizes.q), ("k", sizes.k), ("v", sizes.k)] {
        args.push(Arg::Reg(seen_as(recipe, name, &dims)?));
    }
    args.extend([Arg::Float(0.0), recipe.arg("is_causal")?]);
    args.extend([mask(recipe, &sizes)?, recipe.arg("scale")?]);
    if recipe.desc("q")?.rank() == 4 {
        let outputs = [Some(0), (recipe.op.n_outputs() > 1).then_some(1)];
        return recipe.call_with_results(FORWARD, args, &outputs);
    }
    let [batch, heads, rows, _] = sizes.q;
    let dims = [sizes.q.to_vec(), vec![batch, heads, rows]];
    let results = recipe.call_results(FORWARD, args, 2);
    for (output, (result, dims)) in results.into_iter().zip(dims).take(recipe.op.n_outputs()).enumerate() {
        let seen = recipe.bind_with("view", vec![Arg::Reg(recipe.out(output)), Arg::Ints(dims)]);
        recipe.copy(result, seen);
    }
    Ok(())
}

/// `(g, q, k, v, out, lse, …) -> (g_q, g_k, g_v)`.
pub fn backward(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    let sizes = Sizes::of(recipe)?;
    if recipe.op.n_outputs() > 3 {
        return Err(form("the gradient of the mask is asked for".into()).attribute("mask"));
    }
    for (name, dims) in [("q", sizes.q), ("k", sizes.k), ("v", sizes.k), ("g", sizes.q), ("out", sizes.q)] {
        if recipe.desc(name)?.dims() != dims {
            return Err(
                form(format!("`{name}` has not the four dims of attention, unbroadcast")).attribute(name)
            );
        }
    }
    let (q, lse) = (recipe.desc("q")?.dtype(), recipe.desc("lse")?.dtype());
    if (q == Dtype::F64) != (lse == Dtype::F64) {
        return Err(form(format!("`lse` is {lse} where `q` is {q}")).attribute("lse"));
    }
    let mut args = recipe.args("g q k v out lse =0.0 is_causal")?;
    args.extend([mask(recipe, &sizes)?, recipe.arg("scale")?]);
    recipe.call_to_outputs(BACKWARD, args)
}

/// The four dims that the kernels see.
struct Sizes {
    q: [i64; 4],
    k: [i64; 4],
}

impl Sizes {
    fn of(recipe: &Recipe<'_>) -> Result<Sizes, Refusal> {
        let (q, k, v) =
            (four(recipe.desc("q")?, "q")?, four(recipe.desc("k")?, "k")?, four(recipe.desc("v")?, "v")?);
        if !recipe.desc("q")?.dtype().is_float() {
            return Err(Refusal::new("dtype_unsupported", "queries are floats").attribute("q"));
        }
        for (name, desc) in [("k", recipe.desc("k")?), ("v", recipe.desc("v")?)] {
            if desc.dtype() != recipe.desc("q")?.dtype() {
                return Err(form(format!(
                    "`{name}` is {} where `q` is {}",
                    desc.dtype(),
                    recipe.desc("q")?.dtype()
                ))
                .attribute(name));
            }
        }
        if q[3] != v[3] {
            return Err(form("query and value have different head sizes".into()).dim(3, v[3]).attribute("v"));
        }
        if k != v {
            return Err(form("key and value have different dims".into()).attribute("v"));
        }
        if q[3] != k[3] {
            return Err(form("query and key have different head sizes".into()).dim(3, k[3]).attribute("k"));
        }
        let grouped = recipe.op.arg("enable_gqa") == Some(ArgRef::Bool(true));
        // One key head for all of a row of query heads is what broadcasting says, too.
        let fits = q[1] == k[1] || k[1] == 1 || (grouped && q[1] % k[1] == 0);
        if !fits {
            return Err(form(format!("{} query heads do not share {} key heads", q[1], k[1]))
                .dim(1, k[1])
                .attribute("k"));
        }
        if q[0] != k[0] && k[0] != 1 {
            return Err(form(format!("the batches are {} and {}", q[0], k[0])).dim(0, k[0]).attribute("k"));
        }
        Ok(Sizes { q, k: [q[0], k[1], k[2], k[3]] })
    }
}

/// The dims with ones in front up to four; refused is what has more, an empty one, or one that nobody knows yet.
fn four(desc: TensorDesc<'_>, name: &'static str) -> Result<[i64; 4], Refusal> {
    let dims = desc.dims();
    if !(2..=4).contains(&dims.len()) {
        return Err(form(format!("`{name}` has {} dims; 2 to 4 are taken", dims.len())).attribute(name));
    }
    let mut four = [1; 4];
    four[4 - dims.len()..].copy_from_slice(dims);
    for (axis, dim) in dims.iter().enumerate() {
        match dim {
            1.. => {}
            0 => return Err(form(format!("`{name}` is empty")).dim(axis, 0).attribute(name)),
            _ => {
                return Err(form(format!("a size of `{name}` is not known, and may be zero"))
                    .dim(axis, *dim)
                    .attribute(name));
            }
        }
    }
    Ok(four)
}

/// An operand in these dims: itself, or a view of it.
fn seen_as(recipe: &mut Recipe<'_>, name: &str, dims: &[i64]) -> Result<Reg, Refusal> {
    let (reg, own) = (recipe.tensor(name)?, recipe.desc(name)?.dims());
    if own == dims {
        return Ok(reg);
    }
    Ok(recipe.bind_with("expand", vec![Arg::Reg(reg), Arg::Ints(dims.to_vec())]))
}

/// The mask as the kernels take it: floats of the query's dtype, in two or four dims.
fn mask(recipe: &mut Recipe<'_>, sizes: &Sizes) -> Result<Arg, Refusal> {
    if !matches!(recipe.op.arg("mask"), Some(ArgRef::Tensor(_))) {
        return Ok(Arg::None);
    }
    let (mut reg, desc, q) = (recipe.tensor("mask")?, recipe.desc("mask")?, recipe.desc("q")?.dtype());
    let dims = desc.dims();
    let full = [sizes.q[0], sizes.q[1], sizes.q[2], sizes.k[2]];
    let broadcasts = dims.len() <= 4
        && dims.iter().rev().zip(full.iter().rev()).all(|(own, full)| own == full || *own == 1);
    if !broadcasts {
        return Err(form(format!("the mask's dims {dims:?} do not broadcast to {full:?}")).attribute("mask"));
    }
    if !matches!(dims.len(), 2 | 4) {
        let mut seen = vec![1; 4 - dims.len()];
        seen.extend(dims);
        reg = recipe.bind_with("expand", vec![Arg::Reg(reg), Arg::Ints(seen)]);
    }
    if desc.dtype() == Dtype::Bool {
        reg = recipe
            .run_with("where.Scalar", vec![Arg::Reg(reg), Arg::Float(0.0), Arg::Float(f64::NEG_INFINITY)]);
    }
    if desc.dtype() != q && !(desc.dtype() == Dtype::Bool && q == Dtype::F32) {
        if !desc.dtype().is_float() && desc.dtype() != Dtype::Bool {
            return Err(
                form(format!("the mask is {}; bool and floats are taken", desc.dtype())).attribute("mask")
            );
        }
        reg = recipe.run_with("_to_copy", vec![Arg::Reg(reg), Arg::Dtype(q)]);
    }
    Ok(Arg::Reg(reg))
}
