//! Control flow: `cond`, `while_loop`, `scan` and `map` with their graphs as nested traces.
//!
//! A graph has a name space of its own and sees nothing but its operands, so it is walked with everything of its own:
//! trace, bases, names. Nested traces draw no random stream: what draws inside takes seed and offset as operands, and the
//! call is preceded by a `next_philox` for all that may be drawn (the branch that needs more; all trips of a loop, trip
//! `i` beginning `i` times the words of one trip behind the first).
//! Deliberately not here: regions without gradient and under autocast, which are inlined.

use super::functionalize::{Base, Link};
use super::import::{Entity, Importer, Names, Scope};
use super::pt2::graph::{Argument, Node, NumberArg, SubGraph};
use super::{ModelError, ModelResult};
use crate::ir::{
    Arg, Bsym, Dim, Name, NumKind, NumberType, Output, Role, RoleKind, Stage, Stmt, Trace, TraceParam, Type,
    ValueId,
};
use crate::ops::{self, HostOp};
use std::collections::{BTreeSet, HashMap};

/// What a graph that is walked on its own puts aside.
struct Aside<'a> {
    trace: Trace,
    body: Vec<Stmt>,
    scopes: Vec<Scope<'a>>,
    bases: Vec<Base>,
    links: Vec<Link>,
    number_values: HashMap<String, ValueId>,
    closed_values: HashMap<String, Arg>,
    unnamed: BTreeSet<ValueId>,
    names: Names,
}

/// A walked graph, not yet part of the module.
struct Walked {
    trace: Trace,
    /// Random words that it draws, a multiple of 4; none: it draws nothing.
    words: Option<Dim>,
}

/// How the seed and offset of a nested trace follow from its operands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Draws {
    /// They are operands.
    Once,
    /// The number of the trip is an operand, too.
    EachTrip,
}

impl<'a> Importer<'a> {
    /// `torch.cond`.
    pub(super) fn cond(&mut self, node: &'a Node) -> ModelResult<()> {
        let (pred, then, otherwise, operands) = match &node.inputs[..] {
            [pred, then, otherwise, operands @ ..] => match (&then.arg, &otherwise.arg) {
                (Argument::Graph(then), Argument::Graph(otherwise)) => (pred, then, otherwise, operands),
                _ => return Err(self.argument_error("branch", "must be a graph")),
            },
            _ => return Err(self.argument_error("pred", "is missing")),
        };
        let pred = match &pred.arg {
            Argument::Tensor(name) => {
                let tensor = self.lookup_tensor(name)?;
                Arg::Value(self.read(tensor)?)
            }
            other => self.plain_argument("pred", other)?,
        };
        let mut operands = self.operands(operands.iter().map(|input| &input.arg))?;
        let mut branches = [self.walk_nested(then, &operands)?, self.walk_nested(otherwise, &operands)?];
        let words = branches.iter().filter_map(|b| b.words.clone()).reduce(|a, b| a.max_with(&b));
        if let Some(words) = words {
            operands.extend(self.draw(words)?);
            for branch in &mut branches {
                take_random(&mut branch.trace, Draws::Once, None);
            }
        }
        let mut args = vec![pred];
        for branch in branches {
            args.push(self.add_nested("branch", branch.trace));
        }
        args.push(Arg::List(operands));
        self.nested_call(node, "prims.cond", args)
    }

    /// `while_loop`.
    pub(super) fn while_loop(&mut self, node: &'a Node) -> ModelResult<()> {
        let (cond, body, carried, extra) = match &node.inputs[..] {
            [cond, body, carried, extra] => match (&cond.arg, &body.arg) {
                (Argument::Graph(cond), Argument::Graph(body)) => (cond, body, &carried.arg, &extra.arg),
                _ => return Err(self.argument_error("body", "must be a graph")),
            },
            _ => return Err(self.argument_error("carried", "is missing")),
        };
        let carried = self.operands([carried])?;
        let extra = self.operands([extra])?;
        let all: Vec<Arg> = carried.iter().chain(&extra).cloned().collect();
        let (cond, body) = (self.walk_nested(cond, &all)?, self.walk_nested(body, &all)?);
        if cond.words.is_some() || body.words.is_some() {
            return Err(ModelError::LoopRandom { place: self.place() });
        }
        let args = vec![
            self.add_nested("cond", cond.trace),
            self.add_nested("body", body.trace),
            Arg::List(carried),
            Arg::List(extra),
        ];
        self.nested_call(node, "prims.while_loop", args)
    }

    /// `scan`, and `map`, which carries nothing.
    pub(super) fn scan(&mut self, node: &'a Node, is_map: bool) -> ModelResult<()> {
        let (body, lists) = match &node.inputs[..] {
            [body, lists @ ..] if lists.len() == if is_map { 2 } else { 3 } => match &body.arg {
                Argument::Graph(body) => (body, lists),
                _ => return Err(self.argument_error("body", "must be a graph")),
            },
            _ => return Err(self.argument_error("xs", "is missing")),
        };
        let init = if is_map { Vec::new() } else { self.operands([&lists[0].arg])? };
        let xs = self.operands([&lists[lists.len() - 2].arg])?;
        let mut extra = self.operands([&lists[lists.len() - 1].arg])?;
        let n_trips = xs.first().and_then(|x| self.trace.ty(x.value()?).tensor()?.dims.first().cloned());
        let n_trips = n_trips.ok_or_else(|| self.argument_error("xs", "holds nothing to take slices of"))?;
        let all: Vec<Arg> = init.iter().chain(&xs).chain(&extra).cloned().collect();
        let mut walked = self.walk_nested(body, &all)?;
        if let Some(words) = walked.words.take() {
            extra.extend(self.draw(words.mul(&n_trips))?);
            take_random(&mut walked.trace, Draws::EachTrip, Some(words));
        }
        let body = self.add_nested("body", walked.trace);
        let args = vec![body, Arg::List(init), Arg::List(xs), Arg::List(extra), Arg::Bool(false)];
        self.nested_call(node, "prims.scan", args)
    }

    /// Emits the call; its results are those that the file records.
    fn nested_call(&mut self, node: &'a Node, op: &str, args: Vec<Arg>) -> ModelResult<()> {
        let recorded = self.recorded(node)?;
        let types: Vec<Option<Type>> =
            recorded.iter().map(|r| r.as_ref().map(|(_, ty)| ty.clone())).collect();
        let op = ops::find(op).ok_or_else(|| ModelError::HigherOrder { place: self.place() })?;
        let results = self.emit(|b| b.call_recorded(op, args, &types))?;
        for (result, recorded) in results.iter().zip(recorded) {
            let (Arg::Value(value), Some((name, ty))) = (result, recorded) else { continue };
            self.rename(*value, name);
            match ty {
                Type::Number(_) => self.define_number_result(name, *value)?,
                Type::Tensor(_) => {
                    let tensor = self.fresh_tensor(*value);
                    self.define(name, Entity::Tensor(tensor))?;
                }
            }
        }
        Ok(())
    }

    /// The values that arguments name, in order.
    fn operands(&mut self, arguments: impl IntoIterator<Item = &'a Argument>) -> ModelResult<Vec<Arg>> {
        let mut all = Vec::new();
        for argument in arguments {
            match argument {
                Argument::Tensor(_) | Argument::Tensors(_) | Argument::OptionalTensor(_) => {
                    for name in Self::tensor_names(argument) {
                        match self.lookup(name)?.clone() {
                            Entity::Tensor(tensor) => all.push(Arg::Value(self.read(tensor)?)),
                            Entity::Number(_) | Entity::Closed(_) => all.push(self.number_value(name)?),
                        }
                    }
                }
                other => match self.plain_argument("operand", other)? {
                    Arg::List(items) => all.extend(items),
                    one => all.push(one),
                },
            }
        }
        Ok(all)
    }

    /// Seed and offset for so many words.
    fn draw(&mut self, words: Dim) -> ModelResult<Vec<Arg>> {
        self.emit(|b| b.call("prims.next_philox", vec![Arg::dim(words)]))
    }

    fn add_nested(&mut self, prefix: &str, mut trace: Trace) -> Arg {
        let taken = |name: &str| self.nested.iter().any(|t| &*t.name == name);
        let mut n = 0usize;
        let name: Name = loop {
            let name = format!("{prefix}_{n}");
            if !taken(&name) {
                break name.into();
            }
            n += 1;
        };
        trace.name = name.clone();
        self.nested.push(trace);
        Arg::Trace(name)
    }

    /// Walks a graph on its own; `operands` are what it will be given, as far as they are known.
    fn walk_nested(&mut self, sub: &'a SubGraph, operands: &[Arg]) -> ModelResult<Walked> {
        let graph = &*sub.graph;
        if graph.inputs.len() != operands.len() {
            let why = format!("has {} inputs and is given {}", graph.inputs.len(), operands.len());
            return Err(self.argument_error(&sub.name, why));
        }
        let (node, notes) = (self.node, self.notes.clone());
        let aside = self.put_aside(Scope { graph, values: HashMap::new() });
        let walked = self.walk_own(sub);
        self.take_back(aside);
        (self.node, self.notes) = (node, notes);
        walked
    }

    fn put_aside(&mut self, scope: Scope<'a>) -> Aside<'a> {
        let reserved = scope.graph.tensor_values.keys().chain(scope.graph.sym_int_values.keys());
        let names = Names::reserving(reserved);
        Aside {
            trace: std::mem::replace(&mut self.trace, Trace::new("nested", Stage::Acquired)),
            body: std::mem::take(&mut self.body),
            scopes: std::mem::replace(&mut self.scopes, vec![scope]),
            bases: std::mem::take(&mut self.bases),
            links: std::mem::take(&mut self.links),
            number_values: std::mem::take(&mut self.number_values),
            closed_values: std::mem::take(&mut self.closed_values),
            unnamed: std::mem::take(&mut self.unnamed),
            names: std::mem::replace(&mut self.names, names),
        }
    }

    fn take_back(&mut self, aside: Aside<'a>) {
        self.trace = aside.trace;
        self.body = aside.body;
        self.scopes = aside.scopes;
        self.bases = aside.bases;
        self.links = aside.links;
        self.number_values = aside.number_values;
        self.closed_values = aside.closed_values;
        self.unnamed = aside.unnamed;
        self.names = aside.names;
    }

    /// The graph of the scope that stands alone now, as a trace.
    fn walk_own(&mut self, sub: &'a SubGraph) -> ModelResult<Walked> {
        let graph = &*sub.graph;
        for input in &graph.inputs {
            self.nested_input(sub, input)?;
        }
        let n_operands = self.bases.len();
        self.walk(graph)?;
        if self.bases.iter().take(n_operands).any(|base| base.version > 0) {
            let why = format!("`{}` writes an operand, which its caller would not see", sub.name);
            return Err(self.mutation_error(why));
        }
        let mut outputs = Vec::with_capacity(graph.outputs.len());
        for output in &graph.outputs {
            match output {
                Argument::Tensor(_) | Argument::Tensors(_) => {
                    for name in Self::tensor_names(output) {
                        let tensor = self.lookup_tensor(name)?;
                        outputs.push(Arg::Value(self.read(tensor)?));
                    }
                }
                other => outputs.push(self.plain_argument("output", other)?),
            }
        }
        self.trace.outputs = outputs.into_iter().map(|value| Output { value, name: None }).collect();
        self.trace.body = std::mem::take(&mut self.body);
        for value in std::mem::take(&mut self.unnamed) {
            self.trace.values[value.index()].name = self.names.temporary();
        }
        let words = words_of(&self.trace).map_err(|why| self.argument_error(&sub.name, why))?;
        let trace = std::mem::replace(&mut self.trace, Trace::new("nested", Stage::Acquired));
        Ok(Walked { trace, words })
    }

    fn nested_input(&mut self, sub: &'a SubGraph, input: &'a Argument) -> ModelResult<()> {
        let (name, ty) = match input {
            Argument::Tensor(name) => {
                let meta = self.meta(name)?;
                (name, Type::from(self.tensor_type(name, meta)?))
            }
            Argument::SymInt(NumberArg::Name(name)) => {
                let value = self.scope().graph.sym_int_values.get(name);
                let value = value.ok_or_else(|| self.type_error(name, "the file has no entry for it"))?;
                let equals = Some(self.size(value)?);
                (name, Type::Number(NumberType { kind: NumKind::Int, equals }))
            }
            Argument::SymFloat(NumberArg::Name(name)) => {
                (name, Type::Number(NumberType { kind: NumKind::Float, equals: None }))
            }
            Argument::SymBool(NumberArg::Name(name)) => {
                (name, Type::Number(NumberType { kind: NumKind::Bool, equals: None }))
            }
            other => {
                let why = format!("has an input of kind `{}`", other.tag());
                return Err(self.argument_error(&sub.name, why));
            }
        };
        let is_tensor = ty.tensor().is_some();
        let value = self.fresh(ty);
        self.rename(value, name);
        let role = Role { kind: RoleKind::Operand, name: None, frozen: false };
        self.trace.params.push(TraceParam { value, role });
        if is_tensor {
            let tensor = self.fresh_tensor(value);
            self.define(name, Entity::Tensor(tensor))
        } else {
            self.define_data_number(input, value)
        }
    }
}

fn draws(bsym: &Bsym) -> bool {
    ops::find(&bsym.op).is_some_and(|op| matches!(op.host, Some(HostOp::NextPhilox)))
}

/// The words that a call of `next_philox` draws, rounded up to a multiple of 4.
fn rounded_words(trace: &Trace, bsym: &Bsym) -> Option<Dim> {
    let words = match bsym.args.first()? {
        Arg::Int(n) => Dim::Known(*n),
        Arg::Dim(d) => d.clone(),
        Arg::Value(v) => match trace.ty(*v) {
            Type::Number(n) => n.equals.clone()?,
            Type::Tensor(_) => return None,
        },
        _ => return None,
    };
    Some(words.add(&Dim::Known(3)).floordiv(&Dim::Known(4))?.mul(&Dim::Known(4)))
}

/// All that a trace draws; none: nothing.
fn words_of(trace: &Trace) -> Result<Option<Dim>, &'static str> {
    let mut all: Option<Dim> = None;
    for bsym in trace.ops().filter(|b| draws(b)) {
        let words =
            rounded_words(trace, bsym).ok_or("draws a number of random words that depends on data")?;
        all = Some(all.map_or(words.clone(), |so_far| so_far.add(&words)));
    }
    Ok(all)
}

/// Replaces the calls that draw by seed and offset as operands; `each` is what one trip draws.
fn take_random(trace: &mut Trace, draws_when: Draws, each: Option<Dim>) {
    let int = || Type::Number(NumberType { kind: NumKind::Int, equals: None });
    let role = || Role { kind: RoleKind::Operand, name: None, frozen: false };
    let operand = |trace: &mut Trace, wanted: &str| {
        let name = new_name(trace, wanted);
        let value = trace.add_value(name, int());
        trace.params.push(TraceParam { value, role: role() });
        value
    };
    let seed = operand(trace, "seed");
    let first = operand(trace, "offset");
    let mut body = Vec::with_capacity(trace.body.len() + 2);
    let number = |trace: &mut Trace, body: &mut Vec<Stmt>, op: &str, args: Vec<Arg>| {
        let name = new_name(trace, "offset");
        let value = trace.add_value(name, int());
        body.push(Stmt::Op(Bsym::new(op, args, vec![Some(value)])));
        Arg::Value(value)
    };
    let mut offset = Arg::Value(first);
    if let (Draws::EachTrip, Some(each)) = (draws_when, each) {
        let trip = operand(trace, "trip");
        let behind = number(trace, &mut body, "num.mul", vec![Arg::Value(trip), Arg::dim(each)]);
        offset = number(trace, &mut body, "num.add", vec![offset, behind]);
    }
    let mut replaced: HashMap<ValueId, Arg> = HashMap::new();
    for stmt in std::mem::take(&mut trace.body) {
        let Stmt::Op(mut bsym) = stmt else { continue };
        if draws(&bsym) {
            if let [Some(own_seed), Some(own_offset)] = bsym.results[..] {
                replaced.insert(own_seed, Arg::Value(seed));
                replaced.insert(own_offset, offset.clone());
            }
            if let Some(words) = rounded_words(trace, &bsym) {
                offset = number(trace, &mut body, "num.add", vec![offset, Arg::dim(words)]);
            }
            continue;
        }
        for arg in bsym.args.iter_mut().chain(bsym.named.iter_mut().map(|(_, a)| a)) {
            *arg = arg.map_values(&mut |v| replaced.get(&v).cloned().unwrap_or(Arg::Value(v)));
        }
        body.push(Stmt::Op(bsym));
    }
    trace.body = body;
}

/// A name like `wanted` that no value of the trace has.
fn new_name(trace: &Trace, wanted: &str) -> Name {
    let taken = |name: &str| trace.values.iter().any(|v| &*v.name == name);
    let mut name = wanted.to_owned();
    let mut n = 1usize;
    while taken(&name) {
        name = format!("{wanted}_{n}");
        n += 1;
    }
    name.into()
}
