//! One numbering for one program: values in the order in which the text defines them, and no others.
//!
//! Passes leave holes in a trace's table; reading a text never makes any. Comparing programs goes through here.

use super::{Arg, Block, Bsym, Module, Output, Stmt, Trace, TraceParam, ValueId};

/// The same trace with its values in the order of the text. Values that nothing defines or uses are dropped.
pub fn renumber(trace: &Trace) -> Trace {
    let mut r = Renumber { old: trace, new: Trace::new(trace.name.clone(), trace.stage), ids: Vec::new() };
    r.ids = vec![None; trace.values.len()];
    r.new.model = trace.model.clone();
    r.new.params =
        trace.params.iter().map(|p| TraceParam { value: r.id(p.value), role: p.role.clone() }).collect();
    r.new.body = r.body(&trace.body);
    r.new.outputs =
        trace.outputs.iter().map(|o| Output { value: r.arg(&o.value), name: o.name.clone() }).collect();
    r.new.save = trace.save.iter().map(|v| r.id(*v)).collect();
    r.new
}

/// Are both the same program? Notes and numbering do not count (rule 12).
pub fn same_program(a: &Module, b: &Module) -> bool {
    let plain = |m: &Module| m.traces.iter().map(|t| without_notes(&renumber(t))).collect::<Vec<_>>();
    a.dims == b.dims && plain(a) == plain(b)
}

fn without_notes(trace: &Trace) -> Trace {
    fn strip(body: &mut [Stmt]) {
        for s in body {
            if let Stmt::Op(b) = s {
                b.notes.clear();
                b.block.iter_mut().for_each(|block| strip(&mut block.body));
            }
        }
    }
    let mut out = trace.clone();
    strip(&mut out.body);
    out
}

struct Renumber<'a> {
    old: &'a Trace,
    new: Trace,
    ids: Vec<Option<ValueId>>,
}

impl Renumber<'_> {
    fn id(&mut self, old: ValueId) -> ValueId {
        if let Some(new) = self.ids[old.index()] {
            return new;
        }
        let value = self.old.value(old);
        let new = self.new.add_value(value.name.clone(), value.ty.clone());
        self.ids[old.index()] = Some(new);
        new
    }

    fn arg(&mut self, arg: &Arg) -> Arg {
        arg.map_values(&mut |v| Arg::Value(self.id(v)))
    }

    fn body(&mut self, body: &[Stmt]) -> Vec<Stmt> {
        body.iter()
            .map(|s| match s {
                Stmt::Op(b) => Stmt::Op(self.bsym(b)),
                Stmt::Del(dead) => Stmt::Del(dead.iter().map(|v| self.id(*v)).collect()),
            })
            .collect()
    }

    fn bsym(&mut self, b: &Bsym) -> Bsym {
        Bsym {
            op: b.op.clone(),
            args: b.args.iter().map(|a| self.arg(a)).collect(),
            named: b.named.iter().map(|(n, a)| (n.clone(), self.arg(a))).collect(),
            results: b.results.iter().map(|r| r.map(|v| self.id(v))).collect(),
            block: b.block.as_ref().map(|block| {
                let body = self.body(&block.body);
                Box::new(Block { body, yields: block.yields.iter().map(|a| self.arg(a)).collect() })
            }),
            who: b.who.clone(),
            notes: b.notes.clone(),
        }
    }
}
