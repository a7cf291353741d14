//! A printed execution trace made flat again: regions replaced by their content, marked so that it stays together.

use super::regions::GivenNames;
use crate::claim::Mark;
use crate::ir::verify::region_name;
use crate::ir::{Arg, Bsym, Stage, Stmt, Trace, ValueId};
use crate::ops;
use rustc_hash::FxHashMap;

/// A region without content: what `--depth 1` has left out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("region `{0}` has no content, so it cannot be run: print the trace without `--depth`")]
pub struct EmptyRegion(pub String);

/// `trace` without regions, marks for its statements, and the names of the regions. A trace of another stage than
/// `execution` is what it was.
pub fn inline(mut trace: Trace) -> Result<(Trace, Vec<Mark>, GivenNames), EmptyRegion> {
    let mut names = GivenNames::new();
    if trace.stage != Stage::Execution {
        trace.body.retain(|stmt| matches!(stmt, Stmt::Op(_)));
        let marks = vec![Mark::default(); trace.body.len()];
        return Ok((trace, marks, names));
    }
    let mut body = Vec::with_capacity(trace.body.len());
    let mut marks = Vec::with_capacity(trace.body.len());
    for stmt in std::mem::take(&mut trace.body) {
        let Stmt::Op(bsym) = stmt else { continue };
        if region_name(&bsym.op).is_none() || ops::find(&bsym.op).is_some() {
            body.push(Stmt::Op(bsym));
            marks.push(Mark::default());
            continue;
        }
        let fixed = Some(names.len() as u32);
        names.push(bsym.op.clone());
        for stmt in content(bsym)? {
            body.push(stmt);
            marks.push(Mark { gone: Vec::new(), fixed });
        }
    }
    trace.body = body;
    Ok((trace, marks, names))
}

/// The statements of a region, in which what it yields has the names that it has outside.
fn content(region: Bsym) -> Result<Vec<Stmt>, EmptyRegion> {
    let Some(block) = region.block else { return Err(EmptyRegion(region.op.to_string())) };
    let yielded = region.results.iter().zip(&block.yields);
    let outer: FxHashMap<ValueId, ValueId> =
        yielded.filter_map(|(result, inner)| Some((inner.value()?, (*result)?))).collect();
    let body = block.body.into_iter().filter(|stmt| matches!(stmt, Stmt::Op(_)));
    Ok(body.map(|stmt| renamed(stmt, &outer)).collect())
}

/// The statement with other values in the places of some; blocks included.
pub(super) fn renamed(stmt: Stmt, to: &FxHashMap<ValueId, ValueId>) -> Stmt {
    let Stmt::Op(mut bsym) = stmt else { return stmt };
    let new = |v: ValueId| to.get(&v).copied().unwrap_or(v);
    let arg = |a: &Arg| a.map_values(&mut |v| Arg::Value(new(v)));
    bsym.args = bsym.args.iter().map(arg).collect();
    bsym.named = bsym.named.iter().map(|(n, a)| (n.clone(), arg(a))).collect();
    bsym.results = bsym.results.iter().map(|r| r.map(new)).collect();
    if let Some(block) = &mut bsym.block {
        block.body = std::mem::take(&mut block.body).into_iter().map(|s| renamed(s, to)).collect();
        block.yields = block.yields.iter().map(arg).collect();
    }
    Stmt::Op(bsym)
}
