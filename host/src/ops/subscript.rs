//! Python's subscripts: reading and replacing a part of a tensor that a list of keys names.
//!
//! A key is a number (one element of a dim, which goes), a list `[start, stop, step]` with gaps (a slice), `none` (a new
//! dim of 1), `"..."` (as many whole dims as are left), or a tensor of integers or bools. As in PyTorch, numbers, slices
//! and new dims are taken first; the tensors then index what they left, so a number beside a tensor moves no dim. Model
//! files hold the single steps instead; these ops are for programs that are written by hand.

use super::build::{Builder, Tensor};
use super::{Call, Level, Op, OpError, Sample, meta};
use crate::ir::{Arg, Type};

/// Every op of this family.
pub static OPS: &[&Op] = &[&TORCH_GETITEM, &TORCH_SETITEM];

pub static TORCH_GETITEM: Op = Op {
    name: "torch.getitem",
    doc: "`a[key]`: numbers, slices as lists `[start, stop, step]`, `none` for a new dim, `\"...\"`, tensors of integers or bools.",
    schema: "(a: Tensor, key: any) -> Tensor",
    level: Level::Composite(|b, call| {
        let mut part = call.tensor("a")?;
        let path = Path::of(b, call, &part)?;
        for step in &path.steps {
            part = step.read(b, &part)?;
        }
        if let Some(indices) = path.indices {
            part = b.tensor("torch.index", vec![part.arg(), indices]).map_err(|e| call.error(e.what))?;
        }
        Ok(vec![part.arg()])
    }),
    samples: &[
        Sample("T[4, 3], key=[1]"),
        Sample("T[4, 3], key=[-1, [0, none, 2]]"),
        Sample("T[4, 3, 2], key=[[1, -1, none], none, \"...\", 0]"),
        Sample("T[4, 3], key=[]"),
        Sample("T[], key=[none, \"...\"]"),
        Sample("T[4, 3], key=i64[5]{-4..4}"),
        Sample("T[4, 3], key=[[none, none, 2], i64[2, 2]{0..3}]"),
        Sample("T[4, 2, 3], key=[i64[2]{0..4}, \"...\", i64[2]{0..3}]"),
        Sample("T[2, 4, 3], key=[0, bool[4]]"),
        Sample("T[4, 3], key=bool[4, 3]"),
        Sample("T[0, 3], key=[\"...\", 1]"),
    ],
    ..Op::BASE
};

pub static TORCH_SETITEM: Op = Op {
    name: "torch.setitem",
    doc: "`a` after `a[key] = value`, which is broadcast and cast to the dtype of `a`; keys as of `torch.getitem`. Of places that \
          a tensor names twice the last value stays.",
    schema: "(a: Tensor, key: any, value: Tensor|num) -> Tensor",
    level: Level::Composite(setitem),
    samples: &[
        Sample("T[4, 3], 2.0, key=[1]"),
        Sample("T[4, 3], T[2], key=[-1, [0, none, 2]]"),
        Sample("T[4, 3, 2], T[2, 1, 3], key=[[1, -1, none], none, \"...\", 0]"),
        Sample("T[4, 3], T[3], key=[]"),
        Sample("T[4, 3], f64[3], key=[i64[2]{2..3}]"),
        Sample("T[4, 2, 3], 1, key=[i64[2]{0..4}, \"...\", i64[2]{0..3}]"),
        Sample("T[2, 4, 3], T[], key=[0, bool[4]]"),
        Sample("T[4, 3], 0.5, key=bool[4, 3]"),
    ],
    ..Op::BASE
};

/// One step to a part: what is read, and how a part is put back.
enum Step {
    Select { axis: i64, index: Arg },
    Slice { axis: i64, bounds: [Arg; 3] },
    NewDim { axis: i64 },
}

/// How a key reaches its part.
struct Path {
    steps: Vec<Step>,
    /// Tensors that index what the steps leave, with gaps.
    indices: Option<Arg>,
}

impl Step {
    fn read(&self, b: &mut Builder<'_>, a: &Tensor) -> Result<Tensor, OpError> {
        match self {
            Step::Select { axis, index } => {
                b.tensor("torch.select", vec![a.arg(), Arg::Int(*axis), index.clone()])
            }
            Step::Slice { axis, bounds } => {
                b.tensor("torch.slice", [&[a.arg(), Arg::Int(*axis)], &bounds[..]].concat())
            }
            Step::NewDim { axis } => b.tensor("torch.unsqueeze", vec![a.arg(), Arg::Int(*axis)]),
        }
    }

    /// `a` with the part that `read` gives replaced by `part`.
    fn put_back(&self, b: &mut Builder<'_>, a: &Tensor, part: &Tensor) -> Result<Tensor, OpError> {
        match self {
            Step::Select { axis, index } => {
                b.tensor("torch.select_scatter", vec![a.arg(), part.arg(), Arg::Int(*axis), index.clone()])
            }
            Step::Slice { axis, bounds } => b.tensor(
                "torch.slice_scatter",
                [&[a.arg(), part.arg(), Arg::Int(*axis)], &bounds[..]].concat(),
            ),
            Step::NewDim { .. } => b.reshape(part, a.dims()),
        }
    }
}

impl Path {
    fn of(b: &Builder<'_>, call: &Call, a: &Tensor) -> Result<Path, OpError> {
        let keys = match call.raw("key")? {
            Arg::List(keys) => keys,
            one => vec![one],
        };
        let taken: Vec<usize> = keys.iter().map(|key| dims_taken(b, call, key)).collect::<Result<_, _>>()?;
        let total: usize = taken.iter().sum();
        let dots = keys.iter().filter(|key| is_dots(key)).count();
        if total > a.rank() || dots > 1 {
            let what = format!("{total} dims are indexed, with {dots} ellipses, of {}", meta::show(a.dims()));
            return Err(call.error(what));
        }
        let (mut axis, mut steps, mut indices) = (0, Vec::new(), Vec::new());
        for (key, taken) in keys.iter().zip(taken) {
            match key {
                Arg::None => {
                    steps.push(Step::NewDim { axis: axis as i64 });
                    axis += 1;
                }
                Arg::Str(_) => axis += a.rank() - total,
                Arg::List(bounds) => {
                    steps.push(Step::Slice { axis: axis as i64, bounds: slice(call, bounds)? });
                    axis += 1;
                }
                Arg::Value(v) if matches!(b.trace().ty(*v), Type::Tensor(_)) => {
                    indices.resize(axis, Arg::None);
                    indices.push(key.clone());
                    axis += taken;
                }
                index => steps.push(Step::Select { axis: axis as i64, index: index.clone() }),
            }
        }
        // A place for each index, not for each dim: bools of several dims take one.
        let indices = (!indices.is_empty()).then(|| Arg::List(places(b, &indices)));
        Ok(Path { steps, indices })
    }
}

/// The list without the gaps that dims taken by a tensor of several bools have left.
fn places(b: &Builder<'_>, indices: &[Arg]) -> Vec<Arg> {
    let mut out = Vec::with_capacity(indices.len());
    let mut skip = 0;
    for index in indices {
        if skip > 0 {
            skip -= 1;
            continue;
        }
        skip = bool_dims(b, index).map_or(0, |n| n.saturating_sub(1));
        out.push(index.clone());
    }
    out
}

/// How many dims a tensor of bools stands for.
fn bool_dims(b: &Builder<'_>, key: &Arg) -> Option<usize> {
    let ty = b.trace().ty(key.value()?).tensor()?;
    (ty.dtype == crate::ir::Dtype::Bool).then_some(ty.rank())
}

/// How many dims of the tensor a key takes.
fn dims_taken(b: &Builder<'_>, call: &Call, key: &Arg) -> Result<usize, OpError> {
    Ok(match key {
        Arg::None => 0,
        Arg::Str(_) if is_dots(key) => 0,
        Arg::Int(_) | Arg::Dim(_) | Arg::List(_) => 1,
        Arg::Value(_) => bool_dims(b, key).unwrap_or(1),
        other => return Err(call.error(format!("{other:?} is no key"))),
    })
}

fn is_dots(key: &Arg) -> bool {
    matches!(key, Arg::Str(text) if &**text == "...")
}

/// Start, stop and step.
fn slice(call: &Call, bounds: &[Arg]) -> Result<[Arg; 3], OpError> {
    match bounds {
        [start, stop] => Ok([start.clone(), stop.clone(), Arg::Int(1)]),
        [start, stop, Arg::None] => Ok([start.clone(), stop.clone(), Arg::Int(1)]),
        [start, stop, step] => Ok([start.clone(), stop.clone(), step.clone()]),
        _ => Err(call.error(format!("a slice is a list of start, stop and step, found {bounds:?}"))),
    }
}

fn setitem(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let value = match call.operand("value")? {
        super::Operand::Tensor(t) => b.to(&t, a.dtype())?,
        super::Operand::Num(n) => b.full(&[], n, a.dtype(), &a.ty.device)?,
    };
    let path = Path::of(b, call, &a)?;
    // Every part on the way, the whole first.
    let mut parts = vec![a];
    for step in &path.steps {
        let part = step.read(b, &parts[parts.len() - 1])?;
        parts.push(part);
    }
    let last = parts.pop().ok_or_else(|| call.error("has no part"))?;
    let mut new = match path.indices {
        Some(indices) => b
            .tensor("torch.index_put", vec![last.arg(), indices, value.arg()])
            .map_err(|e| call.error(e.what))?,
        None => fitted(b, call, &value, &last)?,
    };
    for (step, whole) in path.steps.iter().zip(&parts).rev() {
        new = step.put_back(b, whole, &new)?;
    }
    Ok(vec![new.arg()])
}

/// The value broadcast to a part; leading dims of 1 too many go, as in PyTorch.
fn fitted(b: &mut Builder<'_>, call: &Call, value: &Tensor, part: &Tensor) -> Result<Tensor, OpError> {
    let beyond = value.rank().saturating_sub(part.rank());
    let value = if value.dims()[..beyond].iter().all(|d| d.is(1)) {
        b.reshape(value, &value.dims()[beyond..])?
    } else {
        value.clone()
    };
    let dims = meta::broadcast_dims(call, [value.dims(), part.dims()])?;
    if dims.len() != part.rank() || dims.iter().zip(part.dims()).any(|(x, y)| x.same(y) == Some(false)) {
        let (found, want) = (meta::show(value.dims()), meta::show(part.dims()));
        return Err(call.error(format!("`value` is {found}, the part {want}")));
    }
    b.expand(&value, part.dims())
}
