//! Writes the augmented forward and the backward.

use super::Differentiated;
use super::backward::Reverse;
use super::saved::Choice;
use super::tape::Tape;
use crate::ir::{Arg, Bsym, Name, Output, Role, RoleKind, Stage, Stmt, Trace, TraceParam, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

/// Both traces.
pub fn split(tape: &mut Tape, reverse: &Reverse, choice: &Choice) -> Differentiated {
    // Parts of what is taken apart come into the scope of the whole: names of several composites' parts may be the same.
    tape.trace.body = forward_body(tape, choice);
    rename(&mut tape.trace, &mut |name, taken| unused(name, taken));
    let tape = &*tape;
    let mut b = Backward::new(tape, reverse, choice);
    for stmt in &reverse.body {
        b.statement(stmt);
    }
    let outputs = reverse
        .gradients
        .iter()
        .map(|(v, g)| {
            let name = tape.trace.params.iter().find(|p| p.value == *v).and_then(|p| p.role.name.clone());
            Output { value: Arg::Value(b.value(*g)), name }
        })
        .collect();
    let save = b.save.clone();
    let mut backward = b.finish(outputs);
    number_values(&mut backward);
    let params: FxHashSet<ValueId> = tape.trace.params.iter().map(|p| p.value).collect();
    let saved_bytes =
        save.iter().filter(|v| !params.contains(v)).map(|v| tape.bytes(*v)).sum::<Option<u64>>();
    let forward = Trace { save, stage: Stage::Forward, name: "forward".into(), ..tape.trace.clone() };
    Differentiated {
        forward,
        backward,
        cotangents: reverse.cotangents.iter().map(|(i, _)| *i).collect(),
        nested: tape.nested.clone(),
        saved_bytes,
    }
}

/// The statements of the forward, with those taken apart of which the backward wants parts.
fn forward_body(tape: &Tape, choice: &Choice) -> Vec<Stmt> {
    let mut body = Vec::new();
    for (at, stmt) in tape.forward.iter().enumerate() {
        if choice.taken_apart.contains(&at) {
            body.extend(stmt.parts.iter().cloned().map(Stmt::Op));
        } else {
            body.push(Stmt::Op(stmt.bsym.clone()));
        }
    }
    body
}

/// The backward while it is written.
struct Backward<'a> {
    tape: &'a Tape,
    choice: &'a Choice,
    trace: Trace,
    /// Values of the tape as values of the backward.
    new: FxHashMap<ValueId, ValueId>,
    names: FxHashMap<ValueId, Name>,
    cotangent_params: Vec<TraceParam>,
    /// Saved values in the order of first use.
    save: Vec<ValueId>,
    backward_values: FxHashSet<ValueId>,
}

impl<'a> Backward<'a> {
    fn new(tape: &'a Tape, reverse: &Reverse, choice: &'a Choice) -> Backward<'a> {
        let mut trace = Trace::new("backward", Stage::Backward);
        trace.model = tape.trace.model.clone();
        let names = reverse
            .of_value
            .iter()
            .map(|(v, g)| (*g, Name::from(format!("g_{}", tape.trace.value(*v).name))))
            .collect();
        let mut b = Backward {
            tape,
            choice,
            trace,
            new: FxHashMap::default(),
            names,
            cotangent_params: Vec::new(),
            save: Vec::new(),
            backward_values: reverse.body.iter().flat_map(Bsym::defined).collect(),
        };
        for (i, g) in &reverse.cotangents {
            let value = b.define(*g, tape.trace.value(*g).name.clone());
            let name = tape.trace.outputs[*i].name.clone().or_else(|| Some(format!("out{i}").into()));
            let role = Role { kind: RoleKind::Cotangent, name, frozen: false };
            b.cotangent_params.push(TraceParam { value, role });
        }
        b
    }

    fn define(&mut self, old: ValueId, name: Name) -> ValueId {
        let v = self.trace.add_value(name, self.tape.trace.ty(old).clone());
        self.new.insert(old, v);
        v
    }

    /// The backward's name for a value of the tape: saved, computed again, or made by it.
    fn value(&mut self, v: ValueId) -> ValueId {
        if let Some(n) = self.new.get(&v) {
            return *n;
        }
        self.bring(v);
        self.new[&v]
    }

    /// Brings a value of the forward: takes it from the saved ones, or emits what computes it again. Without recursion:
    /// chains can be long.
    fn bring(&mut self, v: ValueId) {
        let mut todo = vec![v];
        while let Some(&v) = todo.last() {
            if self.new.contains_key(&v) {
                todo.pop();
                continue;
            }
            let maker = self.choice.makers.get(&v).filter(|_| !self.choice.saved.contains(&v));
            let Some(maker) = maker.cloned() else {
                todo.pop();
                self.save.push(v);
                let name = self.tape.trace.value(v).name.clone();
                self.define(v, name);
                continue;
            };
            let mut missing = Vec::new();
            maker.for_each_use(&mut |u| {
                if !self.new.contains_key(&u) {
                    missing.push(u);
                }
            });
            if missing.is_empty() {
                todo.pop();
                self.again(&maker);
            } else {
                todo.extend(missing.into_iter().rev());
            }
        }
    }

    /// Emits a call of the forward again, under names with `.r`.
    fn again(&mut self, maker: &Bsym) {
        let mut b = self.mapped(maker);
        for (new, old) in b.results.iter_mut().zip(&maker.results) {
            *new = old.map(|old| match self.new.get(&old) {
                // A result that was saved on its own keeps that value; this one is another.
                Some(_) => {
                    let name = format!("{}.r", self.tape.trace.value(old).name);
                    self.trace.add_value(name, self.tape.trace.ty(old).clone())
                }
                None => self.define(old, format!("{}.r", self.tape.trace.value(old).name).into()),
            });
        }
        b.notes.retain(|(k, _)| &**k != "recompute");
        b.notes.push(("recompute".into(), Arg::Bool(true)));
        self.trace.body.push(Stmt::Op(b));
    }

    fn statement(&mut self, stmt: &Bsym) {
        let mut used = Vec::new();
        stmt.for_each_use(&mut |v| used.push(v));
        for v in used {
            self.value(v);
        }
        let mut b = self.mapped(stmt);
        for (new, old) in b.results.iter_mut().zip(&stmt.results) {
            *new = old.map(|old| {
                let name = self.names.get(&old).cloned().unwrap_or_else(|| "t".into());
                self.define(old, name)
            });
        }
        self.trace.body.push(Stmt::Op(b));
    }

    /// The call with its arguments as values of the backward, which are all there.
    fn mapped(&self, bsym: &Bsym) -> Bsym {
        let mut b = bsym.clone();
        for a in b.args.iter_mut().chain(b.named.iter_mut().map(|(_, a)| a)) {
            *a = a.map_values(&mut |v| Arg::Value(self.new[&v]));
        }
        b
    }

    fn finish(mut self, outputs: Vec<Output>) -> Trace {
        debug_assert!(self.save.iter().all(|v| !self.backward_values.contains(v)));
        self.trace.outputs = outputs;
        let saved = self.save.iter().map(|v| TraceParam {
            value: self.new[v],
            role: Role { kind: RoleKind::Saved, name: None, frozen: false },
        });
        self.trace.params = saved.chain(self.cotangent_params.iter().cloned()).collect();
        self.trace
    }
}

/// Gives nameless values `t0`, `t1`, … and makes all names unique, in the order in which they are defined.
pub(super) fn number_values(trace: &mut Trace) {
    let mut next = 0u32;
    rename(trace, &mut |name, taken| match &**name {
        "t" => numbered(&mut next, taken),
        _ => unused(name, taken),
    });
}

/// Renames the values that the body defines, in order; `fresh` is given the name and those that are taken.
fn rename(trace: &mut Trace, fresh: &mut dyn FnMut(&Name, &FxHashSet<Name>) -> Name) {
    let mut taken: FxHashSet<Name> = trace.params.iter().map(|p| trace.value(p.value).name.clone()).collect();
    let defined: Vec<ValueId> = trace.body.iter().filter_map(Stmt::op).flat_map(Bsym::defined).collect();
    for v in defined {
        let name = fresh(&trace.value(v).name, &taken);
        taken.insert(name.clone());
        trace.values[v.index()].name = name;
    }
}

/// The name, or the name with a number behind it.
fn unused(name: &Name, taken: &FxHashSet<Name>) -> Name {
    let mut fresh = name.clone();
    let mut again = 1u32;
    while taken.contains(&fresh) {
        fresh = format!("{name}.{again}").into();
        again += 1;
    }
    fresh
}

fn numbered(next: &mut u32, taken: &FxHashSet<Name>) -> Name {
    loop {
        let name: Name = format!("t{next}").into();
        *next += 1;
        if !taken.contains(&name) {
            return name;
        }
    }
}
