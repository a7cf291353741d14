//! Values replaced by others, or by literals, in what follows.

use crate::ir::{Arg, Block, Bsym, Stmt, Trace, ValueId};

/// What values are replaced by. Invariant: what stands in the map is never replaced itself, so one look-up is enough.
pub struct Replace {
    map: Vec<Option<Arg>>,
}

impl Replace {
    /// Nothing is replaced yet.
    pub fn new(trace: &Trace) -> Replace {
        Replace { map: vec![None; trace.values.len()] }
    }

    /// From here on `arg` stands for the value.
    pub fn insert(&mut self, id: ValueId, arg: &Arg) {
        let arg = self.arg(arg);
        self.map[id.index()] = Some(arg);
    }

    /// What the value is replaced by.
    pub fn get(&self, id: ValueId) -> Option<&Arg> {
        self.map.get(id.index())?.as_ref()
    }

    /// The argument with everything replaced.
    pub fn arg(&self, arg: &Arg) -> Arg {
        arg.map_values(&mut |v| self.get(v).cloned().unwrap_or(Arg::Value(v)))
    }

    fn arg_in_place(&self, arg: &mut Arg) {
        match arg {
            Arg::Value(v) => {
                if let Some(new) = self.get(*v) {
                    *arg = new.clone();
                }
            }
            Arg::List(items) => items.iter_mut().for_each(|a| self.arg_in_place(a)),
            _ => {}
        }
    }

    /// Replaces in the arguments of a call, and in its block.
    pub fn bsym(&self, b: &mut Bsym) {
        b.args.iter_mut().for_each(|a| self.arg_in_place(a));
        b.named.iter_mut().for_each(|(_, a)| self.arg_in_place(a));
        if let Some(block) = &mut b.block {
            self.block(block);
        }
    }

    fn block(&self, block: &mut Block) {
        for s in &mut block.body {
            if let Stmt::Op(b) = s {
                self.bsym(b);
            }
        }
        block.yields.iter_mut().for_each(|a| self.arg_in_place(a));
    }

    /// Replaces in what the trace returns.
    pub fn outputs(&self, trace: &mut Trace) {
        trace.outputs.iter_mut().for_each(|o| self.arg_in_place(&mut o.value));
    }
}

/// For each value: is it returned or saved? Such values keep their statement, and so their name.
pub fn handed_out(trace: &Trace) -> Vec<bool> {
    let mut out = vec![false; trace.values.len()];
    let mut mark = |v: ValueId| {
        if let Some(o) = out.get_mut(v.index()) {
            *o = true;
        }
    };
    trace.save.iter().for_each(|v| mark(*v));
    trace.outputs.iter().for_each(|o| o.value.for_each_value(&mut mark));
    out
}
