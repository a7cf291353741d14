//! `del` lines: where the values that a run owns die, for the printed execution trace. The plan does the real work.

use crate::ir::{Stmt, Trace, ValueId};

/// `trace` with a `del` after the last use of each value that the run owns and neither returns nor saves.
pub fn with_dels(trace: &Trace) -> Trace {
    let mut keeps = vec![false; trace.values.len()];
    for p in &trace.params {
        keeps[p.value.index()] = true;
    }
    trace.outputs.iter().for_each(|o| o.value.for_each_value(&mut |v| keeps[v.index()] = true));
    trace.save.iter().for_each(|v| keeps[v.index()] = true);
    let mut last_use = vec![None; trace.values.len()];
    for (at, stmt) in trace.body.iter().enumerate() {
        let Stmt::Op(b) = stmt else { continue };
        b.defined().for_each(|v| last_use[v.index()] = Some(at));
        b.for_each_use(&mut |v| last_use[v.index()] = Some(at));
    }
    let mut dying: Vec<Vec<ValueId>> = vec![Vec::new(); trace.body.len()];
    for stmt in &trace.body {
        let Stmt::Op(b) = stmt else { continue };
        for v in b.defined().filter(|v| !keeps[v.index()]) {
            if let Some(at) = last_use[v.index()] {
                dying[at].push(v);
            }
        }
    }
    let mut out = trace.clone();
    out.body.clear();
    for (stmt, dead) in trace.body.iter().zip(dying) {
        out.body.push(stmt.clone());
        if !dead.is_empty() {
            out.body.push(Stmt::Del(dead));
        }
    }
    out
}
