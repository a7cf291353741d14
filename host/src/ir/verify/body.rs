//! The walk through one trace: values and scopes, blocks, writes, lifetimes, what is handed out.

use super::{ModuleCheck, TraceKind, WRITE, region_name, types_agree};
use crate::ir::fault::{Code, Fault, Part, Place};
use crate::ir::text::{MAX_NESTING, lex, print_arg};
use crate::ir::{Arg, Block, Bsym, Dim, Name, NumKind, RoleKind, Stage, Stmt, Trace, Type, ValueId};
use std::collections::{HashMap, HashSet};

/// What is known of a value at one point of the walk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Not,
    Visible,
    /// Defined in a block that has ended.
    Gone,
    Deleted,
}

pub(super) struct TraceCheck<'m, 'a> {
    m: &'m mut ModuleCheck<'a>,
    idx: usize,
    trace: &'a Trace,
    seen: Vec<Seen>,
    names: HashMap<&'a Name, ValueId>,
    /// Values that the run owns: results at top level, with where they are defined.
    owned: Vec<(ValueId, Place)>,
    role_of: HashMap<ValueId, RoleKind>,
    written: HashSet<ValueId>,
    /// Results of writes: they are their target's memory, so need not die.
    of_writes: HashSet<ValueId>,
    next_stmt: usize,
}

impl<'m, 'a> TraceCheck<'m, 'a> {
    pub(super) fn new(m: &'m mut ModuleCheck<'a>, idx: usize, trace: &'a Trace) -> TraceCheck<'m, 'a> {
        TraceCheck {
            m,
            idx,
            trace,
            seen: vec![Seen::Not; trace.values.len()],
            names: HashMap::new(),
            owned: Vec::new(),
            role_of: trace.params.iter().map(|p| (p.value, p.role.kind)).collect(),
            written: HashSet::new(),
            of_writes: HashSet::new(),
            next_stmt: 0,
        }
    }

    pub(super) fn run(&mut self) {
        for (i, p) in self.trace.params.iter().enumerate() {
            self.define(p.value, Place::of_trace(self.idx, Part::Param(i as u32)));
        }
        self.body(&self.trace.body, 0);
        self.outputs();
        self.saves();
        if self.trace.stage == Stage::Execution {
            self.lifetimes();
        }
    }

    // ---- faults --------------------------------------------------------------------------------------------------

    fn fault(&mut self, code: Code, place: Place, message: String) -> &mut Fault {
        let at = match place.stmt {
            Some(n) => format!("statement {n} of {}", self.trace.name),
            None => self.trace.name.to_string(),
        };
        self.m.fault(code, place, at, message)
    }

    fn show(&self, id: ValueId) -> String {
        match self.trace.values.get(id.index()) {
            Some(v) => format!("%{}", v.name),
            None => format!("value {}", id.0),
        }
    }

    // ---- values --------------------------------------------------------------------------------------------------

    fn define(&mut self, id: ValueId, place: Place) {
        let trace = self.trace;
        let Some(value) = trace.values.get(id.index()) else {
            let message = format!("value {} is not in the trace's table of {}", id.0, trace.values.len());
            self.fault(Code::UndefinedValue, place, message);
            return;
        };
        if !lex::is_value_name(&value.name) {
            self.fault(Code::Name, place, format!("`%{}` cannot be the name of a value", value.name));
        }
        if self.names.contains_key(&value.name) || self.seen[id.index()] != Seen::Not {
            self.fault(Code::Redefined, place, format!("`%{}` is defined twice", value.name));
        }
        self.names.insert(&value.name, id);
        self.seen[id.index()] = Seen::Visible;
        match &value.ty {
            Type::Tensor(t) => t.dims.iter().for_each(|d| self.symbols(d, place)),
            Type::Number(n) => n.equals.iter().for_each(|d| self.symbols(d, place)),
        }
    }

    fn used(&mut self, id: ValueId, place: Place) {
        let message = match self.seen.get(id.index()).copied().unwrap_or(Seen::Not) {
            Seen::Visible => return,
            Seen::Not => format!("`{}` is used before it is defined", self.show(id)),
            Seen::Gone => format!("`{}` is defined in a block that has ended", self.show(id)),
            Seen::Deleted => {
                self.fault(Code::Del, place, format!("`{}` is used after `del`", self.show(id)));
                return;
            }
        };
        self.fault(Code::UndefinedValue, place, message);
    }

    fn symbols(&mut self, dim: &Dim, place: Place) {
        if self.m.alone {
            return;
        }
        let mut unknown = Vec::new();
        dim.for_each_symbol(&mut |s| {
            if !self.m.ranges.contains_key(&s) && !unknown.contains(&s) {
                unknown.push(s);
            }
        });
        for s in unknown {
            self.fault(Code::Symbol, place, format!("`{s}` is not declared")).help =
                Some(format!("add `dim {s} in 0..` above the first trace"));
        }
    }

    fn arg(&mut self, arg: &Arg, place: Place, depth: usize) {
        match arg {
            Arg::Value(v) => self.used(*v, place),
            Arg::Dim(d) => self.symbols(d, place),
            Arg::List(_) if depth >= MAX_NESTING => {
                self.fault(Code::Nesting, place, format!("lists nest deeper than {MAX_NESTING}"));
            }
            Arg::List(items) => items.iter().for_each(|a| self.arg(a, place, depth + 1)),
            Arg::Trace(name) if !self.m.alone && !self.m.trace_names.contains(name) => {
                let traces = self.m.module.traces.iter().map(|t| &*t.name);
                let fault = self.fault(Code::Trace, place, format!("there is no trace `{name}`"));
                *fault = fault.clone().nearest(name, traces);
            }
            _ => {}
        }
    }

    /// What is returned or yielded: a value or a literal.
    fn output(&mut self, arg: &Arg, place: Place) {
        let mut values_in_list = false;
        if let Arg::List(_) = arg {
            arg.for_each_value(&mut |_| values_in_list = true);
        }
        if values_in_list || matches!(arg, Arg::Trace(_)) {
            self.fault(Code::Output, place, "only a value or a literal can be handed out".to_string());
        }
        self.arg(arg, place, 0);
    }

    // ---- statements ----------------------------------------------------------------------------------------------

    fn body(&mut self, body: &'a [Stmt], depth: usize) {
        for s in body {
            let stmt = self.next_stmt;
            self.next_stmt += 1;
            match s {
                Stmt::Op(b) => self.bsym(b, stmt, depth),
                Stmt::Del(dead) => self.del(dead, stmt, depth),
            }
        }
    }

    fn bsym(&mut self, b: &'a Bsym, stmt: usize, depth: usize) {
        let idx = self.idx;
        let place = |part| Place::of_stmt(idx, stmt, part);
        let head = place(Part::Head);
        self.names_of(b, head);
        for (i, arg) in b.args.iter().chain(b.named.iter().map(|(_, a)| a)).enumerate() {
            self.arg(arg, place(Part::Arg(i as u32)), 0);
        }
        if &*b.op == WRITE {
            self.write(b, stmt, depth);
        } else if depth == 0 && !self.written.is_empty() {
            let message = format!("`{}` stands behind a write, and writes end the trace", b.op);
            self.fault(Code::Write, head, message);
        }
        if self.trace.stage == Stage::Execution && depth == 0 {
            self.region(b, head);
        }
        if let Some(block) = &b.block {
            self.block(b, block, stmt, depth + 1);
        }
        for (i, id) in b.results.iter().enumerate().filter_map(|(i, r)| Some((i, (*r)?))) {
            let place = place(Part::Result(i as u32));
            self.define(id, place);
            if depth == 0 {
                self.owned.push((id, place));
            }
        }
    }

    /// Names that the text could not say.
    fn names_of(&mut self, b: &Bsym, head: Place) {
        let who = b.who.iter().flat_map(|w| std::iter::once(&w.executor).chain(&w.delegate));
        let plain = b.named.iter().map(|(n, _)| n).chain(b.notes.iter().map(|(n, _)| n)).chain(who);
        let wrong: Vec<&Name> = plain.filter(|n| !lex::is_name(n)).collect();
        for name in wrong {
            self.fault(Code::Name, head, format!("`{name}` is no name"));
        }
        if !lex::is_op_name(&b.op) {
            self.fault(Code::Name, head, format!("`{}` cannot be the name of an op", b.op));
        }
    }

    /// Regions of a label count up from 0 through the module.
    fn region(&mut self, b: &Bsym, head: Place) {
        let Some((label, number)) = region_name(&b.op) else { return };
        let next = self.m.regions.entry(label.to_string()).or_insert(0);
        let want = *next;
        *next += 1;
        if number != want.to_string() {
            self.fault(
                Code::Region,
                head,
                format!("expected the region `{label}{want}`, found `{}`", b.op),
            )
            .help = Some("regions of a label count up from 0, forward first".to_string());
        }
    }

    fn block(&mut self, b: &Bsym, block: &'a Block, stmt: usize, depth: usize) {
        let head = Place::of_stmt(self.idx, stmt, Part::Head);
        if depth > MAX_NESTING {
            self.fault(Code::Nesting, head, format!("blocks nest deeper than {MAX_NESTING}"));
            return;
        }
        self.body(&block.body, depth);
        for (i, y) in block.yields.iter().enumerate() {
            let place = Place::of_stmt(self.idx, stmt, Part::Yield(i as u32));
            self.output(y, place);
            if let Some(result) = b.results.get(i) {
                self.yielded(y, *result, place);
            }
        }
        if block.yields.len() != b.results.len() {
            let message = format!(
                "the block yields {} values, `{}` has {} results",
                block.yields.len(),
                b.op,
                b.results.len()
            );
            let last = block.yields.len().saturating_sub(1) as u32;
            self.fault(Code::Yield, Place::of_stmt(self.idx, stmt, Part::Yield(last)), message);
        }
        for id in block.body.iter().filter_map(Stmt::op).flat_map(Bsym::defined) {
            if let Some(value) = self.trace.values.get(id.index()) {
                self.seen[id.index()] = Seen::Gone;
                self.names.remove(&value.name);
            }
        }
    }

    fn yielded(&mut self, y: &Arg, result: Option<ValueId>, place: Place) {
        let ty = |id: ValueId| self.trace.values.get(id.index()).map(|v| &v.ty);
        let message = match (y, result.map(|r| (r, ty(r)))) {
            (Arg::None, None) | (_, Some((_, None))) => return,
            (y, None) => {
                format!("result {} is absent (`_`), the block yields {}", number(place), self.show_arg(y))
            }
            (Arg::Value(v), Some((r, Some(want)))) => match ty(*v) {
                Some(found) if !types_agree(found, want, &|s| self.m.range(s)) => {
                    format!("`{}` is `{found}`, `{}` is `{want}`", self.show(*v), self.show(r))
                }
                _ => return,
            },
            (literal, Some((r, Some(want)))) => match (literal, want) {
                (Arg::Int(_) | Arg::Dim(_), Type::Number(n)) if n.kind == NumKind::Int => return,
                (Arg::Float(_), Type::Number(n)) if n.kind == NumKind::Float => return,
                (Arg::Bool(_), Type::Number(n)) if n.kind == NumKind::Bool => return,
                _ => format!("the block yields {}, `{}` is `{want}`", self.show_arg(literal), self.show(r)),
            },
        };
        self.fault(Code::Yield, place, message);
    }

    fn show_arg(&self, arg: &Arg) -> String {
        match arg {
            Arg::Value(v) => format!("`{}`", self.show(*v)),
            _ => format!("`{}`", print_arg(self.trace, arg)),
        }
    }

    // ---- writes --------------------------------------------------------------------------------------------------

    fn write(&mut self, b: &Bsym, stmt: usize, depth: usize) {
        let head = Place::of_stmt(self.idx, stmt, Part::Head);
        if depth > 0 && self.trace.stage != Stage::Execution {
            self.fault(Code::Write, head, "a write stands in a block".to_string());
        }
        self.of_writes.extend(b.defined());
        let args: Vec<&Arg> = b.args.iter().chain(b.named.iter().map(|(_, a)| a)).collect();
        let [_, Arg::Value(target)] = args[..] else {
            self.fault(Code::Write, head, format!("`{WRITE}` takes a value and its target"));
            return;
        };
        let target = *target;
        let place = Place::of_stmt(self.idx, stmt, Part::Arg(1));
        match self.role_of.get(&target) {
            Some(RoleKind::State | RoleKind::Inout | RoleKind::Param) => {}
            Some(role) => {
                let message = format!("`{}` is written, its role is `{}`", self.show(target), role.name());
                self.fault(Code::Write, place, message).help =
                    Some("what is written is `state`, `inout` or `param`".to_string());
            }
            None => {
                let message = format!("`{}` is written, it is no parameter", self.show(target));
                self.fault(Code::Write, place, message);
            }
        }
        if !self.written.insert(target) {
            self.fault(Code::Write, place, format!("`{}` is written twice", self.show(target)));
        }
    }

    // ---- lifetimes -----------------------------------------------------------------------------------------------

    fn del(&mut self, dead: &[ValueId], stmt: usize, depth: usize) {
        let idx = self.idx;
        let place = |i: usize| Place::of_stmt(idx, stmt, Part::Result(i as u32));
        if self.trace.stage != Stage::Execution {
            let message =
                format!("`del` stands in stage `{}`, only `execution` has it", self.trace.stage.name());
            self.fault(Code::Del, Place::of_stmt(self.idx, stmt, Part::Head), message);
            return;
        }
        if depth > 0 {
            let message = "`del` stands in a block: what a region needs is its executor's".to_string();
            self.fault(Code::Del, Place::of_stmt(self.idx, stmt, Part::Head), message);
            return;
        }
        for (id, place) in dead.iter().zip((0..).map(place)) {
            self.used(*id, place);
            if let Some(role) = self.role_of.get(id).filter(|r| **r != RoleKind::Saved) {
                let message =
                    format!("`{}` is not the run's to delete, its role is `{}`", self.show(*id), role.name());
                self.fault(Code::Del, place, message);
            } else if let Some(seen) = self.seen.get_mut(id.index()).filter(|s| **s == Seen::Visible) {
                *seen = Seen::Deleted;
            }
        }
    }

    /// Whatever the run owns is deleted, returned or saved. Numbers take no memory and results of writes are their
    /// target's: they may be deleted and need not.
    fn lifetimes(&mut self) {
        let mut kept: HashSet<ValueId> = self.trace.save.iter().copied().collect();
        self.trace.outputs.iter().for_each(|o| {
            o.value.for_each_value(&mut |v| {
                kept.insert(v);
            })
        });
        for (id, place) in std::mem::take(&mut self.owned) {
            let is_tensor = self.trace.values.get(id.index()).is_some_and(|v| v.ty.tensor().is_some());
            let alive = self.seen.get(id.index()) == Some(&Seen::Visible);
            if is_tensor && alive && !kept.contains(&id) && !self.of_writes.contains(&id) {
                let message = format!("`{}` is never deleted, returned or saved", self.show(id));
                self.fault(Code::Del, place, message);
            }
        }
    }

    // ---- the end -------------------------------------------------------------------------------------------------

    fn outputs(&mut self) {
        let nested = !self.m.alone && self.m.kind_of(self.idx, self.trace) == TraceKind::Nested;
        let mut names = HashSet::new();
        for (i, o) in self.trace.outputs.iter().enumerate() {
            let place = Place::of_trace(self.idx, Part::Output(i as u32));
            self.output(&o.value, place);
            if let Some(name) = &o.name {
                if nested {
                    self.fault(Code::Output, place, "a nested trace returns no user names".to_string());
                }
                if !names.insert(name) {
                    self.fault(Code::Output, place, format!("two values are returned as {name:?}"));
                }
            }
        }
    }

    fn saves(&mut self) {
        let mut seen = HashSet::new();
        for (i, id) in self.trace.save.iter().enumerate() {
            let place = Place::of_trace(self.idx, Part::Save(i as u32));
            self.used(*id, place);
            if !seen.insert(*id) {
                self.fault(Code::Save, place, format!("`{}` is saved twice", self.show(*id)));
            }
        }
        if !seen.is_empty() && matches!(self.trace.stage, Stage::Acquired | Stage::Backward) {
            let message =
                format!("`save` stands in stage `{}`: only a forward saves", self.trace.stage.name());
            self.fault(Code::Save, Place::of_trace(self.idx, Part::Save(0)), message);
        }
    }
}

fn number(place: Place) -> u32 {
    match place.part {
        Part::Yield(i) => i,
        _ => 0,
    }
}
