//! Shape ops. Where strides suffice they are the host's; what arrives here must copy, so a view is taken once and copied
//! at each run, or the output is seen in the input's dims.

use thunderhead_sdk::{ArgRef, Dtype, Refusal};

use thunderhead_aten::recipe::{Recipe, Row, call, copy, form, reshape, updates_with, view, views, with};
use thunderhead_aten::{Arg, Reg};

/// What this family runs.
pub static ROWS: &[Row] = &[
    view("prims.as_strided", "as_strided", "a dims strides offset"),
    view("prims.bitcast", "view.dtype", "a dtype"),
    with("prims.broadcast_in_dim", broadcast_in_dim),
    call("prims.cat", "cat", "tensors axis"),
    view("prims.diagonal", "diagonal", "a offset axis1 axis2"),
    call("prims.flip", "flip", "a axes"),
    view("prims.imag", "imag", "a"),
    with("prims.pad", prims_pad),
    view("prims.real", "real", "a"),
    reshape("prims.reshape"),
    with("prims.slice", |recipe| {
        let a = recipe.tensor("a")?;
        let part = sliced(recipe, a)?;
        recipe.copy(part, recipe.out(0));
        Ok(())
    }),
    updates_with("prims.slice_scatter", |recipe| {
        let part = sliced(recipe, recipe.out(0))?;
        replace(recipe, part)
    }),
    reshape("prims.squeeze"),
    view("prims.transpose", "permute", "a permutation"),
    view("prims.unfold", "unfold", "a axis size step"),
    view("prims.view_as_complex", "view_as_complex", "a"),
    view("prims.view_as_real", "view_as_real", "a"),
    view("torch.as_strided", "as_strided", "a dims strides offset"),
    updates_with("torch.as_strided_scatter", |recipe| {
        let part = recipe.bind("as_strided", "%o0 dims strides offset")?;
        replace(recipe, part)
    }),
    reshape("torch.atleast_1d"),
    reshape("torch.atleast_2d"),
    reshape("torch.atleast_3d"),
    with("torch.broadcast_tensors", |recipe| {
        for (output, input) in recipe.op.tensors("tensors").into_iter().flatten().enumerate() {
            recipe.copy(recipe.input(input)?, recipe.out(output));
        }
        Ok(())
    }),
    call("torch.cat", "cat", "tensors axis"),
    call("torch.channel_shuffle", "channel_shuffle", "a groups"),
    views("torch.chunk", "chunk", "a chunks axis"),
    call("torch.col2im", "col2im", "a out kernel dilation padding stride"),
    call("torch.diag", "diag", "a diagonal"),
    call("torch.diag_embed", "diag_embed", "a offset axis1 axis2"),
    view("torch.diagonal", "diagonal", "a offset axis1 axis2"),
    updates_with("torch.diagonal_scatter", |recipe| {
        let part = recipe.bind("diagonal", "%o0 offset axis1 axis2")?;
        replace(recipe, part)
    }),
    copy("torch.expand"),
    reshape("torch.flatten"),
    call("torch.flip", "flip", "a axes"),
    call("torch.hstack", "hstack", "tensors"),
    call("torch.im2col", "im2col", "a kernel dilation padding stride"),
    view("torch.imag", "imag", "a"),
    views("torch.meshgrid", "meshgrid.indexing", "tensors indexing"),
    with("torch.pad", pad),
    view("torch.permute", "permute", "a axes"),
    call("torch.pixel_shuffle", "pixel_shuffle", "a factor"),
    call("torch.pixel_unshuffle", "pixel_unshuffle", "a factor"),
    view("torch.real", "real", "a"),
    with("torch.reflection_pad", |recipe| pad_by_rank(recipe, "reflection_pad")),
    call("torch.repeat", "repeat", "a repeats"),
    with("torch.repeat_interleave", |recipe| match recipe.op.tensor("repeats") {
        Some(_) => recipe.call("repeat_interleave.self_Tensor", "a repeats axis"),
        None => recipe.call("repeat_interleave.self_int", "a repeats axis"),
    }),
    with("torch.replication_pad", |recipe| pad_by_rank(recipe, "replication_pad")),
    reshape("torch.reshape"),
    call("torch.roll", "roll", "a shifts axes"),
    call("torch.rot90", "rot90", "a k axes"),
    view("torch.select", "select.int", "a axis index"),
    updates_with("torch.select_scatter", |recipe| {
        let part = recipe.bind("select.int", "%o0 axis index")?;
        replace(recipe, part)
    }),
    view("torch.slice", "slice.Tensor", "a axis start end step"),
    updates_with("torch.slice_scatter", |recipe| {
        let part = recipe.bind("slice.Tensor", "%o0 axis start end step")?;
        replace(recipe, part)
    }),
    with("torch.split", |recipe| {
        let aten = match recipe.op.arg("sizes") {
            Some(ArgRef::Int(_)) => "split.Tensor",
            _ => "split_with_sizes",
        };
        each_view(recipe, aten, "a sizes axis")
    }),
    reshape("torch.squeeze"),
    call("torch.stack", "stack", "tensors axis"),
    with("torch.t", |recipe| {
        let a = recipe.arg("a")?;
        let rank = recipe.desc("a")?.rank() as i64;
        let seen = match rank {
            0 | 1 => recipe.tensor("a")?,
            _ => recipe.bind_with("transpose.int", vec![a, Arg::Int(rank - 2), Arg::Int(rank - 1)]),
        };
        recipe.copy(seen, recipe.out(0));
        Ok(())
    }),
    with("torch.tensor_split", |recipe| {
        let aten = match recipe.op.arg("sections") {
            Some(ArgRef::Int(_)) => "tensor_split.sections",
            _ => "tensor_split.indices",
        };
        each_view(recipe, aten, "a sections axis")
    }),
    view("torch.transpose", "transpose.int", "a axis0 axis1"),
    call("torch.tril", "tril", "a diagonal"),
    call("torch.triu", "triu", "a diagonal"),
    views("torch.unbind", "unbind.int", "a axis"),
    reshape("torch.unflatten"),
    view("torch.unfold", "unfold", "a axis size step"),
    reshape("torch.unsqueeze"),
    view("torch.view_as_complex", "view_as_complex", "a"),
    view("torch.view_as_real", "view_as_real", "a"),
    view("torch.view_dtype", "view.dtype", "a dtype"),
    call("torch.vstack", "vstack", "tensors"),
];

/// Views of which each is an output.
fn each_view(recipe: &mut Recipe<'_>, aten: &str, args: &str) -> Result<(), Refusal> {
    recipe.copy_views(aten, args)
}

/// The output becomes the input with `part` of it replaced by `src`. Where the output was given the input's memory, only
/// the part is written.
fn replace(recipe: &mut Recipe<'_>, part: Reg) -> Result<(), Refusal> {
    let (a, src) = (recipe.tensor("a")?, recipe.tensor("src")?);
    recipe.copy(a, recipe.out(0));
    recipe.copy(src, part);
    Ok(())
}

/// Dims of one where the input has none; the copy then broadcasts.
fn broadcast_in_dim(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    let places = recipe.op.ints("broadcast_dims")?;
    let mut seen = recipe.tensor("a")?;
    for dim in 0..recipe.result()?.rank() as i64 {
        if !places.contains(&dim) {
            seen = recipe.bind_with("unsqueeze", vec![Arg::Reg(seen), Arg::Int(dim)]);
        }
    }
    recipe.copy(seen, recipe.out(0));
    Ok(())
}

/// The part of a tensor that `start`, `end` and `step` name.
fn sliced(recipe: &mut Recipe<'_>, whole: Reg) -> Result<Reg, Refusal> {
    let (start, end, step) = (recipe.op.ints("start")?, recipe.op.ints("end")?, recipe.op.ints("step")?);
    if start.len() != end.len() || start.len() != step.len() {
        return Err(form("`start`, `end` and `step` differ in length".into()));
    }
    let mut seen = whole;
    for dim in 0..start.len() {
        let args = vec![
            Arg::Reg(seen),
            Arg::Int(dim as i64),
            Arg::Int(start[dim]),
            Arg::Int(end[dim]),
            Arg::Int(step[dim]),
        ];
        seen = recipe.bind_with("slice.Tensor", args);
    }
    Ok(seen)
}

/// One dim of a padding.
struct Padding {
    lo: i64,
    hi: i64,
    interior: i64,
}

fn prims_pad(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    let config = recipe.op.lists("config")?;
    let mut dims = Vec::new();
    for list in config.iter() {
        let [lo, hi, interior] = list else {
            return Err(form("`config` names no three numbers a dim".into()).attribute("config"));
        };
        dims.push(Padding { lo: *lo, hi: *hi, interior: *interior });
    }
    pad_with(recipe, &dims, "value")
}

fn pad(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    if recipe.op.str("mode")? != "constant" {
        if recipe.desc("a")?.dtype() == Dtype::Bool {
            return Err(form("a tensor of bools is padded with its own elements".into()).attribute("mode"));
        }
        return recipe.call("pad", "a pad mode value");
    }
    let pad = recipe.op.ints("pad")?;
    let rank = recipe.desc("a")?.rank();
    if pad.len() % 2 == 1 || pad.len() / 2 > rank {
        return Err(form(format!("`pad` has {} numbers for {rank} dims", pad.len())).attribute("pad"));
    }
    // From the last dim on, two numbers each.
    let of = |dim: usize| {
        let at = 2 * (rank - 1 - dim);
        let number = |idx: usize| pad.get(idx).copied().unwrap_or(0);
        Padding { lo: number(at), hi: number(at + 1), interior: 0 }
    };
    let dims: Vec<Padding> = (0..rank).map(of).collect();
    pad_with(recipe, &dims, "value")
}

/// The output filled with the value, then the input copied to its place in it.
fn pad_with(recipe: &mut Recipe<'_>, dims: &[Padding], value: &str) -> Result<(), Refusal> {
    let sizes = recipe.desc("a")?.dims().to_vec();
    let (mut from, mut to) = (recipe.tensor("a")?, recipe.out(0));
    for (dim, Padding { lo, hi, interior }) in dims.iter().enumerate() {
        let n = sizes[dim];
        if *interior < 0 || (*interior > 0 && (*lo < 0 || *hi < 0)) {
            return Err(form("cropping and interior padding together".into()).attribute("config"));
        }
        let slice = |of: Reg, start: i64, end: i64, step: i64| {
            vec![Arg::Reg(of), Arg::Int(dim as i64), Arg::Int(start), Arg::Int(end), Arg::Int(step)]
        };
        if *lo < 0 || *hi < 0 {
            let args = slice(from, (-lo).max(0), n + hi.min(&0), 1);
            from = recipe.bind_with("slice.Tensor", args);
        }
        let step = interior + 1;
        let kept = n + lo.min(&0) + hi.min(&0);
        let start = *lo.max(&0);
        let end = if kept > 0 { start + (kept - 1) * step + 1 } else { start };
        let args = slice(to, start, end, step);
        to = recipe.bind_with("slice.Tensor", args);
    }
    let value = if recipe.op.has(value) { recipe.arg(value)? } else { Arg::Int(0) };
    recipe.effect("fill_.Scalar", vec![Arg::Reg(recipe.out(0)), value]);
    recipe.copy(from, to);
    Ok(())
}

/// Two numbers a padded dim.
fn pad_by_rank(recipe: &mut Recipe<'_>, aten: &str) -> Result<(), Refusal> {
    let n = recipe.op.ints("pad")?.len() / 2;
    if !(1..=3).contains(&n) {
        return Err(form(format!("{n} dims are padded; 1 to 3 are taken")).attribute("pad"));
    }
    recipe.call(&format!("{aten}{n}d"), "a pad")
}
