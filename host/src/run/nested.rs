//! Control flow: nested traces, each a program of its own, compiled for the sizes and strides that it is given.
//!
//! A nested trace sees its operands and nothing else; it draws no random stream. What it is compiled for is the key of
//! a cache, so that the trips of a loop share one plan. What can be compiled before a run is.
//! Deliberately absent: gradients (`autodiff` writes them as nested traces).

use super::compile::{CompileError, Compiled, Executors, compile_prepared};
use super::instance::{RunError, Source};
use super::numbers::{Numbers, RandomStream, item, truth};
use super::session::{Machine, Ready, SessionError, aligned, outputs, with_params};
use super::value::Value;
use crate::autodiff::NestedTraces;
use crate::ir::{Arg, Dim, Name, Schemas, Symbol, Trace, Type, ValueId};
use crate::lower::Counters;
use crate::memory::{Operand, Tensor, copy_operand};
use crate::ops::{self, Flow};
use crate::plan::{NestedResult, NestedStep, Number};
use rustc_hash::FxHashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Plans kept for one nested trace.
const CACHED: usize = 32;

/// The nested traces that a program can reach.
pub struct NestedPrograms {
    programs: FxHashMap<Name, Program>,
}

/// A nested trace that a program can reach.
#[derive(Clone)]
pub struct NestedTrace {
    /// Before claiming.
    pub trace: Arc<Trace>,
    /// As it runs on dense operands; none where its sizes are known only when it runs.
    pub compiled: Option<Arc<Compiled>>,
}

struct Program {
    trace: Arc<Trace>,
    /// Regions that others have by now: names are unique in a whole program.
    counters: OnceLock<Counters>,
    /// The latest last.
    ready: Mutex<Vec<(Key, Arc<Ready>)>>,
}

/// What a nested trace is compiled for: sizes by symbol, and strides of operands that are not dense.
#[derive(Clone, PartialEq, Eq)]
struct Key {
    sizes: Vec<(Symbol, i64)>,
    strides: Vec<(usize, Vec<i64>)>,
}

type Operands = FxHashMap<ValueId, Value>;

impl NestedPrograms {
    /// Those of `traces` that `caller` reaches.
    pub fn new(traces: &NestedTraces, caller: &Trace) -> NestedPrograms {
        let mut programs = FxHashMap::default();
        let mut todo = called(caller);
        while let Some(name) = todo.pop() {
            if programs.contains_key(&name) {
                continue;
            }
            let Some(trace) = traces.get(&name) else { continue };
            let trace = crate::passes::run(Trace::clone(trace));
            todo.extend(called(&trace));
            programs.insert(
                name,
                Program { trace: Arc::new(trace), counters: OnceLock::new(), ready: Mutex::new(Vec::new()) },
            );
        }
        NestedPrograms { programs }
    }

    /// All, in the order of their names.
    pub(super) fn reached(&self) -> Vec<NestedTrace> {
        let first = |program: &Program| lock(&program.ready).first().map(|(_, ready)| ready.compiled.clone());
        let mut all: Vec<NestedTrace> = self
            .programs
            .values()
            .map(|program| NestedTrace { trace: program.trace.clone(), compiled: first(program) })
            .collect();
        all.sort_unstable_by(|a, b| a.trace.name.cmp(&b.trace.name));
        all
    }

    /// Compiles, for dense operands, each trace whose operands have known sizes. Regions are counted on from `counters`;
    /// gives the count behind the last.
    pub(super) fn compile_known(
        &self,
        executors: &Executors,
        schemas: &'static (dyn Schemas + Sync),
        sizes: &FxHashMap<Symbol, i64>,
        counters: &Counters,
    ) -> Result<Counters, SessionError> {
        let mut counters = counters.clone();
        let mut names: Vec<&Name> = self.programs.keys().collect();
        names.sort_unstable();
        for program in names.into_iter().filter_map(|name| self.programs.get(name)) {
            let _ = program.counters.set(counters.clone());
            let trace = &program.trace;
            let known = |d: &Dim| d.eval(&|s| sizes.get(&s).copied()).is_some();
            let is_known = trace.params.iter().all(|p| match trace.ty(p.value) {
                Type::Tensor(t) => t.dims.iter().all(known),
                Type::Number(n) => n.equals.as_ref().is_none_or(known),
            });
            if is_known {
                let sources = vec![None; trace.params.len()];
                let mut used = FxHashMap::default();
                symbols_of_params(trace, sizes, &mut used);
                counters = program.ready(executors, schemas, used, &sources)?.counters.clone();
            }
        }
        Ok(counters)
    }

    /// Runs a step; gives one value for each result.
    pub(super) fn run(
        &self,
        step: &NestedStep,
        operands: &Operands,
        machine: &Machine<'_>,
    ) -> Result<Vec<Value>, RunError> {
        let r = Runner { programs: self, machine, step, operands };
        match &step.flow {
            Flow::Cond { pred, then, otherwise, operands } => {
                let name = if is_true(&r.value(pred)?)? { then } else { otherwise };
                r.call(name, r.values(operands)?)
            }
            Flow::While { cond, body, carried, extra, stacked } => {
                r.while_loop(cond, body, r.dense(carried)?, r.values(extra)?, *stacked)
            }
            Flow::Scan { body, init, xs, extra, reverse } => {
                r.scan(body, r.dense(init)?, r.values(xs)?, r.values(extra)?, *reverse)
            }
        }
    }
}

impl Program {
    /// The program compiled for these sizes and the strides of `sources`.
    fn ready(
        &self,
        executors: &Executors,
        schemas: &'static (dyn Schemas + Sync),
        sizes: FxHashMap<Symbol, i64>,
        sources: &[Option<Source>],
    ) -> Result<Arc<Ready>, SessionError> {
        let mut known: Vec<(Symbol, i64)> = sizes.iter().map(|(s, n)| (*s, *n)).collect();
        known.sort_unstable();
        let strides = sources.iter().enumerate().filter_map(|(i, s)| {
            let tensor = &s.as_ref()?.tensor;
            (!tensor.is_contiguous()).then(|| (i, tensor.strides_elems().to_vec()))
        });
        let key = Key { sizes: known, strides: strides.collect() };
        let mut ready = lock(&self.ready);
        if let Some((_, found)) = ready.iter().rev().find(|(k, _)| *k == key) {
            return Ok(found.clone());
        }
        let counters = self.counters.get().cloned().unwrap_or_default();
        let compiled = with_params(&self.trace, sources, &[], |info| {
            compile_prepared(Trace::clone(&self.trace), &sizes, executors, schemas, info, &counters)
        })?;
        let none = Arc::new(NestedPrograms { programs: FxHashMap::default() });
        let counters = compiled.counters.clone();
        let made = Arc::new(Ready::new(compiled, none, counters));
        if ready.len() == CACHED {
            // The first one is what was compiled before the run, and is shown.
            ready.remove(1);
        }
        ready.push((key, made.clone()));
        Ok(made)
    }
}

/// One run of one step.
struct Runner<'a> {
    programs: &'a NestedPrograms,
    machine: &'a Machine<'a>,
    step: &'a NestedStep,
    operands: &'a Operands,
}

impl Runner<'_> {
    fn while_loop(
        &self,
        cond: &Name,
        body: &Name,
        mut carried: Vec<Value>,
        extra: Vec<Value>,
        stacked: bool,
    ) -> Result<Vec<Value>, RunError> {
        let mut begun: Vec<Vec<Tensor>> = vec![Vec::new(); if stacked { carried.len() } else { 0 }];
        let like = carried.clone();
        loop {
            if self.machine.context.cancel.load(Ordering::Relaxed) {
                return Err(RunError::Cancelled);
            }
            let given: Vec<Value> = carried.iter().chain(&extra).cloned().collect();
            match self.call(cond, given.clone())?.first() {
                Some(goes_on) if is_true(goes_on)? => {}
                Some(_) => break,
                None => return Err(internal("the condition of a loop gives nothing")),
            }
            for (begun, value) in begun.iter_mut().zip(&carried) {
                begun.push(as_tensor(value)?);
            }
            carried = self.call(body, given)?;
            if carried.len() != like.len() {
                return Err(internal("the body of a loop gives another number of values than it takes"));
            }
        }
        for (begun, like) in begun.iter().zip(&like) {
            carried.push(Value::Tensor(stack(begun, &as_tensor(like)?)?));
        }
        Ok(carried)
    }

    fn scan(
        &self,
        body: &Name,
        init: Vec<Value>,
        xs: Vec<Value>,
        extra: Vec<Value>,
        reverse: bool,
    ) -> Result<Vec<Value>, RunError> {
        let n_trips = xs.iter().find_map(|x| x.tensor()?.dims().first().copied());
        let n_trips = n_trips.ok_or_else(|| internal("a scan over nothing"))?;
        let program = self.program(body)?;
        let numbered = program.trace.params.len() == init.len() + xs.len() + extra.len() + 1;
        let n_carried = init.len();
        let mut carried = init;
        // What each trip gives goes straight into its place.
        let mut stacks: Vec<Option<Tensor>> = Vec::new();
        for result in self.step.results.iter().skip(n_carried) {
            stacks.push(match result {
                NestedResult::Tensor(view) => Some(Tensor::zeros(view.dtype, &view.dims)?),
                _ => None,
            });
        }
        for trip in 0..n_trips {
            if self.machine.context.cancel.load(Ordering::Relaxed) {
                return Err(RunError::Cancelled);
            }
            let at = if reverse { n_trips - 1 - trip } else { trip };
            let mut given = carried;
            for x in &xs {
                let tensor = x.tensor().ok_or_else(|| internal("a scan over a number"))?;
                given.push(Value::Tensor(Tensor::of_operand(tensor.dtype(), slice(tensor, at)?)));
            }
            given.extend(extra.iter().cloned());
            if numbered {
                given.push(Value::Int(at));
            }
            let mut results = self.call(body, given)?;
            let made = results.split_off(n_carried.min(results.len()));
            if made.len() != stacks.len() {
                return Err(internal("the body of a scan gives another number of values than are stacked"));
            }
            for (stack, made) in stacks.iter().zip(made) {
                let Some(stack) = stack else { continue };
                let made =
                    made.tensor().ok_or_else(|| internal("the body of a scan gives a number"))?.clone();
                let place = slice(stack, at)?;
                if place.dims() != made.dims() || stack.dtype() != made.dtype() {
                    return Err(internal(
                        "the body of a scan gives a tensor of another kind than is stacked",
                    ));
                }
                copy_operand(&place, made.operand());
            }
            carried = results;
        }
        carried.extend(stacks.into_iter().map(|s| s.map_or(Value::None, Value::Tensor)));
        Ok(carried)
    }

    fn program(&self, name: &Name) -> Result<&Program, RunError> {
        self.programs
            .programs
            .get(name)
            .ok_or_else(|| internal(&format!("there is no nested trace `{name}`")))
    }

    /// Runs a nested trace once.
    fn call(&self, name: &Name, given: Vec<Value>) -> Result<Vec<Value>, RunError> {
        let program = self.program(name)?;
        let trace = &program.trace;
        if trace.params.len() != given.len() {
            let (found, wanted) = (given.len(), trace.params.len());
            return Err(internal(&format!("`{name}` takes {wanted} operands and is given {found}")));
        }
        let mut sizes = self.step.sizes.clone();
        bind(trace, &given, &mut sizes);
        let mut used = FxHashMap::default();
        symbols_of_params(trace, &sizes, &mut used);
        let mut sources = Vec::with_capacity(given.len());
        let mut numbers = Numbers::default();
        for (p, value) in trace.params.iter().zip(given) {
            fits(trace, p.value, &value, &used).map_err(|what| internal(&format!("`{name}`: {what}")))?;
            sources.push(match value {
                Value::Tensor(tensor) => Some(Source { tensor: aligned(tensor)?, constant: 0, version: 0 }),
                value => {
                    numbers.extend(value.number().map(|n| (p.value, n)));
                    None
                }
            });
        }
        let machine = self.machine;
        let ready = program.ready(machine.executors, machine.schemas, used.clone(), &sources)?;
        // Nested traces draw nothing: seed and offset are operands.
        let mut stream = RandomStream::default();
        Ok(machine.execute(&ready, &used, &sources, &mut numbers, &mut stream, outputs)?)
    }

    fn values(&self, args: &[Arg]) -> Result<Vec<Value>, RunError> {
        args.iter().map(|a| self.value(a)).collect()
    }

    /// The values, tensors dense: what a loop carries changes its memory from trip to trip, not its strides.
    fn dense(&self, args: &[Arg]) -> Result<Vec<Value>, RunError> {
        let dense = |value| match value {
            Value::Tensor(t) => Ok(Value::Tensor(t.contiguous()?)),
            other => Ok(other),
        };
        args.iter().map(|a| dense(self.value(a)?)).collect()
    }

    fn value(&self, arg: &Arg) -> Result<Value, RunError> {
        let known = match arg {
            Arg::Value(v) => self.operands.get(v).cloned(),
            Arg::Int(n) => Some(Value::Int(*n)),
            Arg::Float(x) => Some(Value::Float(*x)),
            Arg::Bool(b) => Some(Value::Bool(*b)),
            Arg::Dim(d) => d.eval(&|s| self.step.sizes.get(&s).copied()).map(Value::Int),
            _ => None,
        };
        known.ok_or_else(|| internal(&format!("an operand of `{}` is not known", self.step.origin)))
    }
}

/// Names of the nested traces that a trace calls.
fn called(trace: &Trace) -> Vec<Name> {
    fn of_body(body: &[crate::ir::Stmt], names: &mut Vec<Name>) {
        for bsym in body.iter().filter_map(crate::ir::Stmt::op) {
            if let Some(flow) = ops::find(&bsym.op).and_then(|op| Flow::of(op, &bsym.args)) {
                names.extend(flow.traces().into_iter().cloned());
            }
            if let Some(block) = &bsym.block {
                of_body(&block.body, names);
            }
        }
    }
    let mut names = Vec::new();
    of_body(&trace.body, &mut names);
    names
}

/// Symbols of the operands' types that `sizes` knows.
fn symbols_of_params(trace: &Trace, sizes: &FxHashMap<Symbol, i64>, used: &mut FxHashMap<Symbol, i64>) {
    let mut see = |d: &Dim| {
        d.for_each_symbol(&mut |s| {
            if let Some(n) = sizes.get(&s) {
                used.insert(s, *n);
            }
        });
    };
    for p in &trace.params {
        match trace.ty(p.value) {
            Type::Tensor(t) => t.dims.iter().for_each(&mut see),
            Type::Number(n) => n.equals.iter().for_each(&mut see),
        }
    }
}

/// Symbols that the operands themselves tell: a size, or a number, that is one.
fn bind(trace: &Trace, given: &[Value], sizes: &mut FxHashMap<Symbol, i64>) {
    for (p, value) in trace.params.iter().zip(given) {
        match (trace.ty(p.value), value) {
            (Type::Tensor(t), Value::Tensor(found)) => {
                for (d, n) in t.dims.iter().zip(found.dims()) {
                    if let Some(s) = d.as_symbol() {
                        sizes.insert(s, *n);
                    }
                }
            }
            (Type::Number(n), Value::Int(found)) => {
                if let Some(s) = n.equals.as_ref().and_then(Dim::as_symbol) {
                    sizes.insert(s, *found);
                }
            }
            _ => {}
        }
    }
}

/// Is the value what the operand's type says?
fn fits(trace: &Trace, v: ValueId, value: &Value, sizes: &FxHashMap<Symbol, i64>) -> Result<(), String> {
    let name = &trace.value(v).name;
    match (trace.ty(v), value) {
        (Type::Tensor(t), Value::Tensor(found)) => {
            let known = |d: &Dim| d.eval(&|s| sizes.get(&s).copied());
            let same = t.dims.len() == found.dims().len()
                && t.dims.iter().zip(found.dims()).all(|(d, n)| known(d) == Some(*n));
            if t.dtype == found.dtype() && same {
                return Ok(());
            }
            Err(format!("`%{name}` is given {}{:?}", found.dtype(), found.dims()))
        }
        (Type::Number(n), value) => match (n.kind, value.number()) {
            (crate::ir::NumKind::Int, Some(Number::Int(_)))
            | (crate::ir::NumKind::Float, Some(Number::Float(_)))
            | (crate::ir::NumKind::Bool, Some(Number::Bool(_))) => Ok(()),
            _ => Err(format!("`%{name}` is given {}", value.kind())),
        },
        (Type::Tensor(_), value) => Err(format!("`%{name}` is given {}", value.kind())),
    }
}

fn is_true(value: &Value) -> Result<bool, RunError> {
    let number = match value {
        Value::Tensor(t) if t.numel() == 1 => item(t.dtype(), t.operand()),
        other => other.number(),
    };
    number.map(truth).ok_or_else(|| internal("a condition is no single bool"))
}

/// The slice at `at` along axis 0.
fn slice(t: &Tensor, at: i64) -> Result<Operand, RunError> {
    let (operand, size) = (t.operand(), t.dtype().size_bytes());
    let start = (operand.addr() as i64).wrapping_sub(operand.bytes().addr() as i64);
    let stride = t.strides_elems().first().copied().unwrap_or(0);
    let offset = start.wrapping_add(at.wrapping_mul(stride).wrapping_mul(size as i64));
    let (dims, strides) = (t.dims().get(1..), t.strides_elems().get(1..));
    let (Some(dims), Some(strides)) = (dims, strides) else {
        return Err(internal("a scan over a tensor without dims"));
    };
    Ok(Operand::new(operand.bytes().clone(), offset, size, dims.to_vec(), strides.to_vec())?)
}

/// A tensor as it is; a number as one without dims.
fn as_tensor(value: &Value) -> Result<Tensor, RunError> {
    Ok(match value {
        Value::Tensor(tensor) => tensor.clone(),
        Value::Int(n) => Tensor::from_slice(&[*n], &[])?,
        Value::Float(x) => Tensor::from_slice(&[*x], &[])?,
        Value::Bool(b) => Tensor::from_slice(&[*b], &[])?,
        other => return Err(internal(&format!("a loop carries {}", other.kind()))),
    })
}

/// The tensors, each like `like`, along a new axis 0.
fn stack(tensors: &[Tensor], like: &Tensor) -> Result<Tensor, RunError> {
    let mut dims = vec![tensors.len() as i64];
    dims.extend_from_slice(like.dims());
    let all = Tensor::zeros(like.dtype(), &dims)?;
    for (at, tensor) in tensors.iter().enumerate() {
        copy_operand(&slice(&all, at as i64)?, tensor.operand());
    }
    Ok(all)
}

fn internal(what: &str) -> RunError {
    RunError::Internal(what.to_owned())
}

impl From<SessionError> for RunError {
    fn from(error: SessionError) -> RunError {
        match error {
            SessionError::Run(error) => error,
            SessionError::Compile(error) => RunError::Compile(Box::new(error)),
            SessionError::Input(error) => RunError::Compile(Box::new(CompileError::Input(error))),
            other => RunError::Internal(other.to_string()),
        }
    }
}

fn lock<T>(m: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}
