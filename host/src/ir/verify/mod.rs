//! The rules that every module keeps, whatever its ops mean: names and scopes, blocks, types that meet, roles, writes
//! and lifetimes (rules 2, 3, 7, 8 and 9 of the format).
//!
//! All faults are collected, in the order of the text. What is checked, per trace and from top to bottom:
//! - each value is defined once, before its uses, and a block's values are not seen outside of it;
//! - a block yields its statement's results, in number and type;
//! - dims use declared symbols, nested traces exist and none holds itself;
//! - roles fit the trace, user names are unique, `backward` takes what `forward` saves;
//! - a write (`prims.copy_`) stands at the end, its target may be written, and is once;
//! - `del` stands in execution only, after the last use; what the run owns dies, or is returned or saved.
//!
//! Not checked here: arguments and types against the op table (`ops::check`). After a module has passed, indexing its
//! tables with its ids cannot fail.

mod body;

use super::fault::{Code, Fault, Part, Place};
use super::text::lex;
use super::{Arg, Module, Name, Role, RoleKind, Stage, Stmt, Symbol, Trace, Type};
use std::collections::{HashMap, HashSet};

/// The one op that writes: the format names it (rule 8), so this room may.
pub const WRITE: &str = "prims.copy_";

/// All faults of the module's structure, in the order of the text; none: it is a program.
pub fn verify(module: &Module) -> Vec<Fault> {
    let mut m = ModuleCheck::new(module);
    m.declarations();
    m.traces();
    for (idx, trace) in module.traces.iter().enumerate() {
        m.roles(idx, trace);
        body::TraceCheck::new(&mut m, idx, trace).run();
    }
    m.saved();
    m.cycles();
    m.faults
}

/// As [`verify`], for a trace without its module: declared symbols, nested traces and roles are not looked at.
pub fn verify_alone(trace: &Trace) -> Vec<Fault> {
    let module = Module::default();
    let mut m = ModuleCheck::new(&module);
    m.alone = true;
    body::TraceCheck::new(&mut m, 0, trace).run();
    m.faults
}

/// The inclusive range of each declared symbol; anything for one that is not.
pub fn range_of(module: &Module) -> impl Fn(Symbol) -> (i64, i64) + use<> {
    let ranges = ranges_of(module);
    move |s| ranges.get(&s).copied().unwrap_or(ANYTHING)
}

const ANYTHING: (i64, i64) = (i64::MIN, i64::MAX);

fn ranges_of(module: &Module) -> HashMap<Symbol, (i64, i64)> {
    module.dims.iter().map(|d| (d.symbol, (d.low, d.high.unwrap_or(i64::MAX)))).collect()
}

/// May a value of one type stand for the other? Sizes disagree only where no value of the symbols makes them equal:
/// what cannot be decided is assumed, and checked with concrete sizes (rule 4).
pub fn types_agree(a: &Type, b: &Type, range: &dyn Fn(Symbol) -> (i64, i64)) -> bool {
    match (a, b) {
        (Type::Tensor(a), Type::Tensor(b)) => {
            a.dtype == b.dtype
                && a.device == b.device
                && a.dims.len() == b.dims.len()
                && a.dims.iter().zip(&b.dims).all(|(a, b)| !a.contradicts(b, range))
        }
        (Type::Number(a), Type::Number(b)) => {
            a.kind == b.kind
                && match (&a.equals, &b.equals) {
                    (Some(a), Some(b)) => !a.contradicts(b, range),
                    _ => true,
                }
        }
        _ => false,
    }
}

struct ModuleCheck<'a> {
    module: &'a Module,
    /// One trace only, so nothing outside of it can be asked for.
    alone: bool,
    faults: Vec<Fault>,
    /// The range of each declared symbol.
    ranges: HashMap<Symbol, (i64, i64)>,
    trace_names: HashSet<&'a Name>,
    /// What `forward` returns, by user name.
    forward_outputs: Option<HashSet<&'a Name>>,
    /// How many regions of each label have been seen.
    regions: HashMap<String, u64>,
}

impl<'a> ModuleCheck<'a> {
    fn new(module: &'a Module) -> ModuleCheck<'a> {
        let outputs =
            module.trace("forward").map(|f| f.outputs.iter().filter_map(|o| o.name.as_ref()).collect());
        ModuleCheck {
            module,
            alone: false,
            faults: Vec::new(),
            ranges: ranges_of(module),
            trace_names: module.traces.iter().map(|t| &t.name).collect(),
            forward_outputs: outputs,
            regions: HashMap::new(),
        }
    }

    fn range(&self, s: Symbol) -> (i64, i64) {
        self.ranges.get(&s).copied().unwrap_or(ANYTHING)
    }

    fn fault(&mut self, code: Code, place: Place, at: String, message: String) -> &mut Fault {
        self.faults.push(Fault::new(code, message, Some(place), at));
        self.faults.last_mut().expect("just pushed")
    }

    fn declarations(&mut self) {
        let mut seen = HashSet::new();
        for (i, d) in self.module.dims.iter().enumerate() {
            let place = Place::declaration(i);
            let at = format!("dim {}", d.symbol);
            if !seen.insert(d.symbol) {
                self.fault(Code::Symbol, place, at.clone(), format!("`{}` is declared twice", d.symbol));
            }
            if let Some(high) = d.high.filter(|h| *h < d.low) {
                let message = format!("the range of `{}` is empty: {} is more than {high}", d.symbol, d.low);
                self.fault(Code::Symbol, place, at.clone(), message);
            }
            if d.step < 1 {
                let message = format!("the step of `{}` is {}, at least 1 is meant", d.symbol, d.step);
                self.fault(Code::Symbol, place, at, message);
            }
        }
    }

    fn traces(&mut self) {
        let mut seen = HashSet::new();
        for (i, t) in self.module.traces.iter().enumerate() {
            let place = Place::of_trace(i, Part::Head);
            if !seen.insert(&t.name) {
                self.fault(
                    Code::Trace,
                    place,
                    t.name.to_string(),
                    format!("there are two traces `{}`", t.name),
                );
            }
            if !lex::is_name(&t.name) || lex::is_reserved(&t.name) {
                let message = format!("`{}` cannot be the name of a trace", t.name);
                self.fault(Code::Name, place, t.name.to_string(), message);
            }
        }
        if self.module.traces.is_empty() {
            let place = Place { trace: None, stmt: None, part: Part::Head };
            self.fault(Code::Trace, place, "the module".into(), "there is no trace in it".into());
        }
    }

    /// Which kinds of parameters a trace may have, and their user names.
    fn roles(&mut self, idx: usize, trace: &Trace) {
        let kind = self.kind_of(idx, trace);
        let mut names: HashSet<(u8, &Name)> = HashSet::new();
        for (i, p) in trace.params.iter().enumerate() {
            let place = Place::of_trace(idx, Part::Param(i as u32));
            let at = format!("parameter {i} of {}", trace.name);
            let role = &p.role;
            if !kind.takes(role.kind) {
                let message = format!("`{}` is no role in a {}", role.kind.name(), kind.name());
                self.fault(Code::Role, place, at.clone(), message).help = Some(kind.help().to_string());
            }
            if role.name.is_some() != role.kind.has_name() || role.frozen && role.name.is_none() {
                let has = if role.kind.has_name() { "needs" } else { "has no" };
                let message = format!("`{}` {has} user name", role.kind.name());
                self.fault(Code::Role, place, at.clone(), message);
            }
            if let Some(name) = &role.name
                && !names.insert((name_group(role.kind), name))
            {
                self.fault(Code::Role, place, at, format!("two parameters are `{name}`"));
            }
        }
        self.cotangents(idx, trace);
    }

    /// A cotangent is of an output that `forward` has.
    fn cotangents(&mut self, idx: usize, trace: &Trace) {
        let Some(outputs) = &self.forward_outputs else { return };
        let mut missing = Vec::new();
        for (i, p) in trace.params.iter().enumerate() {
            let Role { kind: RoleKind::Cotangent, name: Some(name), .. } = &p.role else { continue };
            if !outputs.contains(name) {
                let message = format!("`forward` returns nothing as {name:?}");
                let place = Place::of_trace(idx, Part::Param(i as u32));
                let fault =
                    Fault::new(Code::Role, message, Some(place), format!("parameter {i} of {}", trace.name));
                missing.push(fault.nearest(name, outputs.iter().map(|n| &***n)));
            }
        }
        self.faults.append(&mut missing);
    }

    fn kind_of(&self, idx: usize, trace: &Trace) -> TraceKind {
        match (idx, trace.stage, &*trace.name) {
            (_, Stage::Backward, _) | (_, _, "backward") => TraceKind::Backward,
            (0, ..) | (_, Stage::Forward, _) | (_, _, "forward") => TraceKind::Forward,
            _ => TraceKind::Nested,
        }
    }

    /// `backward` takes what `forward` saves: names, types and order.
    fn saved(&mut self) {
        let find = |want| {
            let mut all = self.module.traces.iter().enumerate();
            all.find(|(i, t)| self.kind_of(*i, t) == want)
        };
        let (Some((f_idx, forward)), Some((b_idx, backward))) =
            (find(TraceKind::Forward), find(TraceKind::Backward))
        else {
            return;
        };
        let saves = &forward.save;
        let taken: Vec<_> =
            backward.params.iter().enumerate().filter(|(_, p)| p.role.kind == RoleKind::Saved).collect();
        for (i, (save, (at, param))) in saves.iter().zip(&taken).enumerate() {
            let (Some(a), Some(b)) =
                (forward.values.get(save.index()), backward.values.get(param.value.index()))
            else {
                continue;
            };
            let agree = a.name == b.name && types_agree(&a.ty, &b.ty, &|s| self.range(s));
            if !agree {
                let message = format!(
                    "`{}` saves `%{}: {}` as number {i}, `{}` takes `%{}: {}`",
                    forward.name, a.name, a.ty, backward.name, b.name, b.ty
                );
                let place = Place::of_trace(b_idx, Part::Param(*at as u32));
                self.fault(Code::Save, place, format!("%{} in {}", b.name, backward.name), message);
            }
        }
        if saves.len() != taken.len() {
            let message = format!(
                "`{}` saves {} values, `{}` takes {}",
                forward.name,
                saves.len(),
                backward.name,
                taken.len()
            );
            let place = Place::of_trace(f_idx, Part::Save(saves.len().saturating_sub(1) as u32));
            self.fault(Code::Save, place, forward.name.to_string(), message);
        }
    }

    /// No trace holds itself, however far down.
    fn cycles(&mut self) {
        let index: HashMap<&Name, usize> =
            self.module.traces.iter().enumerate().map(|(i, t)| (&t.name, i)).collect();
        let uses: Vec<Vec<usize>> = self.module.traces.iter().map(|t| nested_of(t, &index)).collect();
        // 0: not seen, 1: on the way down, 2: done. The walk keeps its own stack: nesting is the file's to choose.
        let mut state = vec![0u8; uses.len()];
        for start in 0..uses.len() {
            let mut stack = vec![(start, 0)];
            while let Some((at, next)) = stack.pop() {
                if next == 0 {
                    if state[at] == 2 {
                        continue;
                    }
                    state[at] = 1;
                }
                match uses[at].get(next) {
                    None => state[at] = 2,
                    Some(to) => {
                        stack.push((at, next + 1));
                        if state[*to] == 1 {
                            let name = self.module.traces[*to].name.to_string();
                            let message = format!("the trace `{name}` holds itself");
                            self.fault(Code::Trace, Place::of_trace(*to, Part::Head), name, message);
                        } else if state[*to] == 0 {
                            stack.push((*to, 0));
                        }
                    }
                }
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TraceKind {
    Forward,
    Backward,
    Nested,
}

impl TraceKind {
    fn takes(self, role: RoleKind) -> bool {
        use RoleKind::{Cotangent, Operand, Saved};
        match self {
            TraceKind::Forward => !matches!(role, Cotangent | Operand | Saved),
            TraceKind::Backward => role != Operand,
            TraceKind::Nested => role == Operand,
        }
    }

    fn name(self) -> &'static str {
        match self {
            TraceKind::Forward => "forward trace",
            TraceKind::Backward => "backward trace",
            TraceKind::Nested => "nested trace",
        }
    }

    fn help(self) -> &'static str {
        match self {
            TraceKind::Forward => "`saved` and `cotangent` belong to `backward`, `operand` to nested traces",
            TraceKind::Backward => "`operand` belongs to nested traces",
            TraceKind::Nested => {
                "nested traces take `operand`s: they see nothing of the trace that holds them"
            }
        }
    }
}

/// Names are unique among what callers give, among cotangents, and among what the model file holds.
fn name_group(kind: RoleKind) -> u8 {
    match kind {
        RoleKind::Input | RoleKind::Inout => 0,
        RoleKind::Cotangent => 1,
        _ => 2,
    }
}

/// The traces that this one holds, each once.
fn nested_of(trace: &Trace, index: &HashMap<&Name, usize>) -> Vec<usize> {
    fn of_arg(arg: &Arg, index: &HashMap<&Name, usize>, out: &mut Vec<usize>) {
        match arg {
            Arg::Trace(name) => out.extend(index.get(name)),
            Arg::List(items) => items.iter().for_each(|a| of_arg(a, index, out)),
            _ => {}
        }
    }
    fn of_body(body: &[Stmt], index: &HashMap<&Name, usize>, out: &mut Vec<usize>) {
        for b in body.iter().filter_map(Stmt::op) {
            b.args.iter().chain(b.named.iter().map(|(_, a)| a)).for_each(|a| of_arg(a, index, out));
            if let Some(block) = &b.block {
                of_body(&block.body, index, out);
            }
        }
    }
    let mut out = Vec::new();
    of_body(&trace.body, index, &mut out);
    out.sort_unstable();
    out.dedup();
    out
}

/// `FullFusion0`: the label and the number of a region's name; none for any other op.
pub fn region_name(op: &str) -> Option<(&str, &str)> {
    let at = op.find(|c: char| c.is_ascii_digit())?;
    let (label, number) = op.split_at(at);
    let is_label =
        label.starts_with(|c: char| c.is_ascii_uppercase()) && label.bytes().all(|b| b.is_ascii_alphabetic());
    (is_label && number.bytes().all(|b| b.is_ascii_digit())).then_some((label, number))
}
