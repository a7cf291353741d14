//! Forward with a tape, and backward.
//!
//! Saved values belong to the tape. A parameter or input that the backward needs is held by reference with its version;
//! a parameter that was written since is an error that names it. A tape can be dropped at any time and used once or,
//! by reference, often.

use super::compile::Compiled;
use super::instance::{RunError, Source};
use super::numbers::{Numbers, RandomStream};
use super::session::{Left, Ready, Session, SessionError, outputs};
use super::value::Value;
use super::{InputError, bind_inputs};
use crate::autodiff::{self, Request};
use crate::ir::{Dtype, Name, RoleKind, Symbol, Trace, TraceParam, Type, ValueId};
use crate::lower::Counters;
use crate::memory::Tensor;
use crate::passes::Purpose;
use crate::plan::Number;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// What gradients are asked of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GradRequest {
    /// Names of parameters and inputs that want a gradient, sorted; none: every floating input and every floating
    /// parameter that requires one.
    pub wrt: Option<Vec<String>>,
    /// Compute cheap values again instead of saving them.
    pub remat: bool,
}

impl Default for GradRequest {
    fn default() -> GradRequest {
        GradRequest { wrt: None, remat: true }
    }
}

impl GradRequest {
    /// Does the parameter want a gradient?
    pub fn wants(&self, p: &TraceParam) -> bool {
        let name = p.role.name.as_deref().unwrap_or("");
        match (&self.wrt, p.role.kind) {
            (
                Some(names),
                RoleKind::Input
                | RoleKind::Inout
                | RoleKind::Param
                | RoleKind::Buffer
                | RoleKind::State
                | RoleKind::Const,
            ) => names.iter().any(|n| n == name),
            (None, RoleKind::Input | RoleKind::Inout) => true,
            (None, RoleKind::Param) => !p.role.frozen,
            _ => false,
        }
    }
}

/// Forward and backward of a program for concrete sizes.
pub struct Differentiated {
    /// The two traces before claiming, and what is saved.
    pub traces: autodiff::Differentiated,
    pub(super) forward: Arc<Ready>,
    /// Compiled at the first backward, when it is known how the saved values lie.
    pub(super) backward: OnceLock<Arc<Ready>>,
    /// The same for other sizes that only a run tells, the latest last. Held while one is compiled.
    resized: Mutex<Vec<Arc<Ready>>>,
}

/// Backwards kept for sizes that only a run tells.
const RESIZED: usize = 32;
impl Differentiated {
    /// The forward as it runs.
    pub fn compiled_forward(&self) -> &Arc<Compiled> {
        &self.forward.compiled
    }

    /// The backward as it runs; none before the first backward.
    pub fn compiled_backward(&self) -> Option<&Arc<Compiled>> {
        self.backward.get().map(|ready| &ready.compiled)
    }
}

/// A value that the backward needs.
#[derive(Clone)]
enum Saved {
    Number(Number),
    Tensor(Source),
    /// A weight: its name, and the version that the forward saw.
    Weight {
        at: usize,
        version: u64,
    },
}

/// What a forward kept for its backward.
pub struct Tape<'s> {
    session: &'s Session,
    program: Arc<Differentiated>,
    saved: Vec<Saved>,
    sizes: FxHashMap<Symbol, i64>,
    stream: RandomStream,
}

/// Outputs, new values of written inputs by name, and the tape for the backward.
pub type Forward<'s> = (Vec<Value>, BTreeMap<Name, Tensor>, Tape<'s>);

impl Session {
    /// Runs the forward for `request`: outputs, new values of written inputs, and the tape.
    pub fn forward(&self, inputs: &[Value], request: &GradRequest) -> Result<Forward<'_>, SessionError> {
        let program = self.differentiated(inputs, request)?;
        let (outputs, written, saved, sizes, stream) = self.run_forward(&program, inputs)?;
        Ok((outputs, written, Tape { session: self, program, saved, sizes, stream }))
    }

    /// Forward and backward for inputs like these, compiled once for their sizes.
    pub fn differentiated(
        &self,
        inputs: &[Value],
        request: &GradRequest,
    ) -> Result<Arc<Differentiated>, SessionError> {
        let bindings = bind_inputs(self.module(), self.trace(), inputs)?;
        if let Some(found) = self.cached_grad(inputs, &bindings, request) {
            return Ok(found);
        }
        let prepared = super::compile::prepare(self.trace(), &bindings, Purpose::Gradients)?;
        let ties = self.ties();
        let nested = self.nested(&bindings, Purpose::Gradients)?;
        let asked =
            Request { wants: &|p| request.wants(p), remat: request.remat, ties: &ties, nested: &nested };
        let traces = autodiff::differentiate(&prepared, &asked)?;
        let forward = self.compile_prepared(
            crate::passes::run(traces.forward.clone()),
            &traces.nested,
            &bindings.sizes,
            &self.snapshot(),
            &Counters::default(),
        )?;
        let program = Arc::new(Differentiated {
            traces,
            forward,
            backward: OnceLock::new(),
            resized: Mutex::new(Vec::new()),
        });
        self.cache_grad(inputs, &bindings, request, program.clone());
        Ok(program)
    }

    /// Forward and backward for inputs like these, compiled without running. Where no backward has run yet, saved
    /// values are taken to be dense; a run looks how the forward left them.
    pub fn compiled_grad(
        &self,
        inputs: &[Value],
        request: &GradRequest,
    ) -> Result<(Arc<Compiled>, Arc<Compiled>), SessionError> {
        let program = self.differentiated(inputs, request)?;
        let forward = program.forward.compiled.clone();
        if let Some(known) = program.compiled_backward() {
            return Ok((forward, known.clone()));
        }
        let (given, _) = self.sources(inputs)?;
        let params = &forward.lowered.trace.params;
        let held = |v: ValueId| given.get(params.iter().position(|p| p.value == v)?)?.clone();
        let backward = &program.traces.backward;
        let mut saved = forward.lowered.trace.save.iter();
        let sources: Vec<Option<Source>> = backward
            .params
            .iter()
            .map(|p| match p.role.kind {
                RoleKind::Saved => saved.next().and_then(|v| held(*v)),
                _ => None,
            })
            .collect();
        let trace = crate::passes::run(backward.clone());
        let (nested, counters) = (&program.traces.nested, &program.forward.counters);
        let backward = self.compile_prepared(trace, nested, &forward.sizes, &sources, counters)?;
        Ok((forward, backward.compiled.clone()))
    }

    /// Parameters that are one tensor: the same memory, dims and strides.
    pub(super) fn ties(&self) -> Vec<Vec<ValueId>> {
        let mut groups: Vec<(Tensor, Vec<ValueId>)> = Vec::new();
        for (p, source) in self.trace().params.iter().zip(self.snapshot()) {
            let Some(Source { tensor, .. }) = source.filter(|_| p.role.kind == RoleKind::Param) else {
                continue;
            };
            let same = |t: &Tensor| {
                (t.operand().addr(), t.dtype(), t.dims(), t.strides_elems())
                    == (tensor.operand().addr(), tensor.dtype(), tensor.dims(), tensor.strides_elems())
            };
            match groups.iter_mut().find(|(t, _)| same(t)) {
                Some((_, names)) => names.push(p.value),
                None => groups.push((tensor, vec![p.value])),
            }
        }
        groups.into_iter().map(|(_, names)| names).filter(|names| names.len() > 1).collect()
    }

    #[allow(clippy::type_complexity)] // what a forward leaves, taken apart by its only caller
    fn run_forward(
        &self,
        program: &Differentiated,
        inputs: &[Value],
    ) -> Result<
        (Vec<Value>, BTreeMap<Name, Tensor>, Vec<Saved>, FxHashMap<Symbol, i64>, RandomStream),
        SessionError,
    > {
        let ready = &program.forward;
        let _writing = self.lock_if_writing();
        let (sources, mut numbers) = self.sources(inputs)?;
        let mut stream = self.stream();
        self.begin();
        let done =
            self.execute(ready, &ready.compiled.sizes, &sources, &mut numbers, &mut stream, |left| {
                let outputs = outputs(left)?;
                let saved = left
                    .trace
                    .save
                    .iter()
                    .map(|v| saved_value(left, *v, &sources))
                    .collect::<Result<Vec<_>, _>>()?;
                let written = self.commit(left.instance, &sources)?;
                Ok((outputs, written, saved, left.sizes.clone()))
            })?;
        self.set_stream(stream);
        let (outputs, written, saved, sizes) = done;
        Ok((outputs, written, saved, sizes, stream))
    }
}

fn saved_value(left: &Left<'_>, v: ValueId, sources: &[Option<Source>]) -> Result<Saved, SessionError> {
    if let Some(t) = left.values.get(&v) {
        return Ok(Saved::Tensor(Source { tensor: t.clone(), constant: 0, version: 0 }));
    }
    if let Type::Number(n) = left.trace.ty(v) {
        let known = n.equals.as_ref().and_then(|d| d.eval(&|s| left.sizes.get(&s).copied())).map(Number::Int);
        return known
            .or_else(|| left.numbers.get(&v).copied())
            .map(Saved::Number)
            .ok_or_else(|| RunError::Internal("a saved number is not known".into()).into());
    }
    let at = left.trace.params.iter().position(|p| p.value == v);
    match at.and_then(|at| Some((at, sources.get(at)?.clone()?))) {
        Some((at, source)) if source.constant != 0 => Ok(Saved::Weight { at, version: source.version }),
        Some((_, source)) => Ok(Saved::Tensor(source)),
        None => Err(RunError::Internal(format!("`%{}` was not saved", left.trace.value(v).name)).into()),
    }
}

impl Tape<'_> {
    /// What was run, and what the backward will be.
    pub fn differentiated(&self) -> &Differentiated {
        &self.program
    }

    /// The outputs that take a cotangent, by index.
    pub fn cotangents(&self) -> &[usize] {
        &self.program.traces.cotangents
    }

    /// Gradients of Σ out · cotangent by name, for cotangents by output index; an output without one counts as zero.
    /// The tape can be used again.
    pub fn backward(
        &self,
        cotangents: &FxHashMap<usize, Tensor>,
    ) -> Result<BTreeMap<String, Tensor>, SessionError> {
        let trace = &self.program.traces.backward;
        let weights = self.session.snapshot();
        let mut sources: Vec<Option<Source>> = Vec::with_capacity(trace.params.len());
        let mut numbers = Numbers::default();
        let mut outputs_with = self.program.traces.cotangents.iter();
        let mut saved = self.saved.iter();
        for p in &trace.params {
            let source = match p.role.kind {
                RoleKind::Saved => {
                    let saved =
                        saved.next().ok_or_else(|| RunError::Internal("a saved value is missing".into()))?;
                    self.saved_source(p, saved, &weights, &mut numbers)?
                }
                _ => {
                    let index = outputs_with.next().copied().unwrap_or(usize::MAX);
                    Some(self.cotangent(trace, p, cotangents.get(&index))?)
                }
            };
            sources.push(source);
        }
        let ready = self.compiled(&sources)?;
        let mut stream = self.stream;
        let grads =
            self.session.execute(&ready, &self.sizes, &sources, &mut numbers, &mut stream, outputs)?;
        let names = ready.compiled.lowered.trace.outputs.iter().map(|o| o.name.clone());
        let mut by_name = BTreeMap::new();
        for (name, grad) in names.zip(grads) {
            if let (Some(name), Value::Tensor(t)) = (name, grad) {
                by_name.insert(name.to_string(), t);
            }
        }
        Ok(by_name)
    }

    fn saved_source(
        &self,
        p: &TraceParam,
        saved: &Saved,
        weights: &[Option<Source>],
        numbers: &mut Numbers,
    ) -> Result<Option<Source>, SessionError> {
        match saved {
            Saved::Number(n) => {
                numbers.insert(p.value, *n);
                Ok(None)
            }
            Saved::Tensor(source) => Ok(Some(source.clone())),
            Saved::Weight { at, version } => match weights.get(*at).and_then(Option::as_ref) {
                Some(source) if source.version == *version => Ok(Some(source.clone())),
                _ => {
                    let name = self.session.trace().params[*at].role.name.clone();
                    Err(RunError::Changed(name.unwrap_or_else(|| "?".into())).into())
                }
            },
        }
    }

    /// The cotangent of an output, dense; zeros where none is given.
    fn cotangent(
        &self,
        trace: &Trace,
        p: &TraceParam,
        given: Option<&Tensor>,
    ) -> Result<Source, SessionError> {
        let name = p.role.name.as_deref().unwrap_or("?").to_string();
        let Some(ty) = trace.ty(p.value).tensor() else {
            return Err(RunError::Internal("a cotangent that is a number".into()).into());
        };
        let dims: Option<Vec<i64>> =
            ty.dims.iter().map(|d| d.eval(&|s| self.sizes.get(&s).copied())).collect();
        let dims = dims.ok_or_else(|| RunError::Internal(format!("the sizes of `{name}` are not known")))?;
        let tensor = match given {
            None => Tensor::zeros(ty.dtype, &dims)?,
            Some(t) => {
                check_cotangent(&name, t, ty.dtype, &dims)?;
                super::session::aligned(t.contiguous()?)?
            }
        };
        Ok(Source { tensor, constant: 0, version: 0 })
    }

    fn compiled(&self, sources: &[Option<Source>]) -> Result<Arc<Ready>, SessionError> {
        let fits = |ready: &&Arc<Ready>| ready.compiled.sizes == self.sizes;
        if let Some(ready) = self.program.backward.get().filter(fits) {
            return Ok(ready.clone());
        }
        let mut resized = lock(&self.program.resized);
        if let Some(ready) = self.program.backward.get().filter(fits).or_else(|| resized.iter().find(fits)) {
            return Ok(ready.clone());
        }
        let trace = crate::passes::run(self.program.traces.backward.clone());
        let (nested, counters) = (&self.program.traces.nested, &self.program.forward.counters);
        let ready = self.session.compile_prepared(trace, nested, &self.sizes, sources, counters)?;
        if self.program.backward.set(ready.clone()).is_err() {
            if resized.len() == RESIZED {
                resized.remove(0);
            }
            resized.push(ready.clone());
        }
        Ok(ready)
    }
}

fn check_cotangent(name: &str, t: &Tensor, dtype: Dtype, dims: &[i64]) -> Result<(), InputError> {
    let name = || format!("cotangent {name}");
    if t.dtype() != dtype {
        return Err(InputError::Dtype { name: name(), found: t.dtype(), wanted: dtype });
    }
    if t.dims() != dims {
        return Err(InputError::Rank { name: name(), found: t.dims().to_vec(), wanted: format!("{dims:?}") });
    }
    Ok(())
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}
