//! An execution trace as it is printed: regions as single symbols with their content below them.

use super::regions::{Lowered, Region};
use crate::ir::{Arg, Block, Bsym, Name, Stmt, Trace, ValueId, Who};
use rustc_hash::FxHashMap;

/// What became of the ops of a region: those that were handed on, by their place among its statements.
pub type RegionNotes = FxHashMap<usize, Name>;

/// The trace with its regions; `notes` has an entry for each region that was lowered.
pub fn present(lowered: &Lowered, notes: &dyn Fn(usize) -> Option<RegionNotes>) -> Trace {
    let mut trace = lowered.trace.clone();
    if lowered.regions.is_empty() {
        return trace;
    }
    let mut body = Vec::with_capacity(trace.body.len());
    let mut at = 0;
    let flat = std::mem::take(&mut trace.body);
    while at < flat.len() {
        match lowered.region_of[at] {
            None => {
                body.push(flat[at].clone());
                at += 1;
            }
            Some(number) => {
                let region = &lowered.regions[number];
                let content = &flat[region.stmts.clone()];
                let notes = notes(number).unwrap_or_default();
                body.push(Stmt::Op(symbol(&mut trace, region, content, &notes)));
                at = region.stmts.end;
            }
        }
    }
    trace.body = body;
    trace
}

fn symbol(trace: &mut Trace, region: &Region, content: &[Stmt], notes: &RegionNotes) -> Bsym {
    // What leaves the region has the same name inside, and is another value there.
    let mut inner: FxHashMap<ValueId, ValueId> = FxHashMap::default();
    for v in &region.outputs {
        let (name, ty) = (trace.value(*v).name.clone(), trace.ty(*v).clone());
        inner.insert(*v, trace.add_value(name, ty));
    }
    let mut body = Vec::with_capacity(content.len());
    for (place, stmt) in content.iter().enumerate() {
        let Stmt::Op(mut bsym) = super::inline::renamed(stmt.clone(), &inner) else { continue };
        if let (Some(delegate), Some(who)) = (notes.get(&place), &bsym.who) {
            bsym.who = Some(Who { executor: who.executor.clone(), delegate: Some(delegate.clone()) });
        }
        body.push(Stmt::Op(bsym));
    }
    let yields = region.outputs.iter().map(|v| Arg::Value(inner[v])).collect();
    let args = region.inputs.iter().map(|v| Arg::Value(*v)).collect();
    let results = region.outputs.iter().map(|v| Some(*v)).collect();
    let mut symbol = Bsym::new(region.name.clone(), args, results);
    symbol.who = Some(Who { executor: region.executor.clone(), delegate: None });
    symbol.block = Some(Box::new(Block { body, yields }));
    symbol
}
