//! Sessions: a compiled program with its state.
//!
//! A session can be used from many threads. Runs that write state are one after another; all others run side by side,
//! each with an instance (arena and bound kernels) of its own from a small pool.

use super::compile::{
    CompileError, Compiled, Executors, ParamInfo, SegmentInput, compile_prepared, prepare, segment_plan,
};
use super::inputs::{Bindings, InputError, bind_inputs, number_input};
use super::instance::{Instance, RunError, RunIo, Source};
use super::nested::NestedPrograms;
use super::numbers::{Numbers, RandomStream};
use super::tape::{Differentiated, GradRequest};
use super::value::Value;
use crate::autodiff::NestedTraces;
use crate::ir::{Arg, Dtype, Module, Name, RoleKind, Schemas, Stage, Symbol, Trace, Type, ValueId};
use crate::lower::Counters;
use crate::memory::{Bytes, Tensor, TensorError, copy_operand};
use crate::passes::Purpose;
use crate::plan::{Constant, Number, Parallel, PlanError, RunContext, View};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Plans kept for different sizes.
const CACHED_PLANS: usize = 16;
/// Instances kept for one plan.
const IDLE_INSTANCES: usize = 4;

/// Settings of a session.
#[derive(Clone)]
pub struct SessionOptions {
    /// Threads a run may use.
    pub threads: usize,
    /// Seed of the random stream.
    pub seed: i64,
    /// Copy weights into memory instead of mapping them.
    pub copy_weights: bool,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions { threads: 1, seed: 0, copy_weights: false }
    }
}

/// What can go wrong with state.
#[derive(Clone, Debug, thiserror::Error, miette::Diagnostic)]
pub enum StateError {
    /// No such buffer.
    #[error("the program has no state called `{0}`")]
    #[diagnostic(code(state::unknown), help("state files hold the buffers that the program writes, by name"))]
    Unknown(String),
    /// State that must be given is not.
    #[error("there is no `{0}` in the state that was given")]
    #[diagnostic(code(state::missing), help("give a file that the same model and optimiser have written"))]
    Missing(String),
    /// Another shape or dtype.
    #[error("state `{name}` is {wanted}, {found} was given")]
    #[diagnostic(code(state::differs), help("give a tensor of the same dims and dtype"))]
    Differs {
        /// The buffer.
        name: String,
        /// What the program has.
        wanted: String,
        /// What was given.
        found: String,
    },
}

/// Why a session could not do what was asked.
#[derive(Clone, Debug, thiserror::Error, miette::Diagnostic)]
pub enum SessionError {
    /// The inputs do not fit (exit 10).
    #[error(transparent)]
    #[diagnostic(transparent)]
    Input(#[from] InputError),
    /// It cannot be compiled.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Compile(CompileError),
    /// The run stopped.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Run(RunError),
    /// State.
    #[error(transparent)]
    #[diagnostic(transparent)]
    State(#[from] StateError),
    /// It has no gradient.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Autodiff(#[from] crate::autodiff::AutodiffError),
}

impl From<RunError> for SessionError {
    fn from(e: RunError) -> SessionError {
        match e {
            RunError::Compile(e) => SessionError::from(*e),
            other => SessionError::Run(other),
        }
    }
}

impl From<CompileError> for SessionError {
    fn from(e: CompileError) -> SessionError {
        match e {
            CompileError::Input(e) => SessionError::Input(e),
            CompileError::Guard(e) => {
                SessionError::Input(InputError::Guard { what: e.what, origin: e.origin })
            }
            other => SessionError::Compile(other),
        }
    }
}

impl From<PlanError> for SessionError {
    fn from(e: PlanError) -> SessionError {
        SessionError::Compile(CompileError::Plan(e))
    }
}

impl From<TensorError> for SessionError {
    fn from(e: TensorError) -> SessionError {
        SessionError::Run(RunError::Tensor(e))
    }
}

/// A program with state, ready to be run.
pub struct Session {
    module: Arc<Module>,
    executors: Executors,
    schemas: &'static (dyn Schemas + Sync),
    pool: Arc<dyn Parallel>,
    options: SessionOptions,
    /// Parameters, buffers, constants and state by index of the trace's parameter; none for user inputs.
    params: RwLock<Vec<Option<Source>>>,
    writes_state: bool,
    stream: Mutex<RandomStream>,
    /// Held by a run that writes state.
    writing: Mutex<()>,
    plans: Mutex<Vec<(Key, Arc<Ready>)>>,
    grads: Mutex<Vec<(Key, GradRequest, Arc<Differentiated>)>>,
    cancel: AtomicBool,
    n_compiles: AtomicU64,
}

/// What a compiled program depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key(Vec<(Dtype, Vec<i64>)>, Vec<(Symbol, i64)>);

/// A compiled program and its idle instances.
pub(super) struct Ready {
    pub(super) compiled: Arc<Compiled>,
    /// What it may call. A nested program has none of its own: it is given its caller's.
    pub(super) nested: Arc<NestedPrograms>,
    /// Regions so far, those of nested programs included.
    pub(super) counters: Counters,
    idle: Mutex<Vec<Instance>>,
}

impl Ready {
    /// Without instances yet.
    pub(super) fn new(compiled: Compiled, nested: Arc<NestedPrograms>, counters: Counters) -> Ready {
        Ready { compiled: Arc::new(compiled), nested, counters, idle: Mutex::new(Vec::new()) }
    }
}

/// What programs are run with.
pub(super) struct Machine<'a> {
    pub(super) executors: &'a Executors,
    pub(super) schemas: &'static (dyn Schemas + Sync),
    pub(super) context: &'a RunContext<'a>,
    pub(super) nested: &'a NestedPrograms,
    /// Parameters by their constants' ids less one.
    pub(super) weights: &'a [Option<Source>],
}

impl Machine<'_> {
    /// Runs all segments of `ready`; `finish` is given what they left before the instance is used again.
    pub(super) fn execute<R>(
        &self,
        ready: &Ready,
        sizes: &FxHashMap<Symbol, i64>,
        sources: &[Option<Source>],
        numbers: &mut Numbers,
        stream: &mut RandomStream,
        finish: impl FnOnce(&Left<'_>) -> Result<R, SessionError>,
    ) -> Result<R, SessionError> {
        let compiled = &ready.compiled;
        let trace = &compiled.lowered.trace;
        let mut sizes = sizes.clone();
        let mut values: FxHashMap<ValueId, Tensor> = FxHashMap::default();
        let mut instance = match lock(&ready.idle).pop() {
            Some(instance) => instance,
            None => Instance::new(compiled.first.clone()).map_err(RunError::from)?,
        };
        let mut later: Option<Instance> = None;
        for (at, segment) in compiled.segments.iter().enumerate() {
            let current = match at {
                0 => &mut instance,
                _ => later.insert(self.later(compiled, at, &sizes, &values, sources)?),
            };
            let made = current.run(&RunIo { params: sources, earlier: &values }, numbers, stream, self)?;
            bind_data_sizes(trace, &segment.binds, &made, numbers, &mut sizes);
            values.extend(made);
        }
        let last = later.as_ref().unwrap_or(&instance);
        let done = finish(&Left { trace, values: &values, numbers, sizes: &sizes, instance: last })?;
        // An instance whose run failed is dropped: a kernel may have left its bound object half done.
        let mut idle = lock(&ready.idle);
        if idle.len() < IDLE_INSTANCES {
            idle.push(instance);
        }
        Ok(done)
    }

    /// Plans and makes an instance for a segment whose sizes are known now.
    fn later(
        &self,
        compiled: &Compiled,
        at: usize,
        sizes: &FxHashMap<Symbol, i64>,
        left: &FxHashMap<ValueId, Tensor>,
        sources: &[Option<Source>],
    ) -> Result<Instance, SessionError> {
        let earlier = left.iter().map(|(v, t)| (*v, view_of(t))).collect();
        let input = SegmentInput {
            lowered: &compiled.lowered,
            regions: &compiled.regions,
            segments: &compiled.segments,
            carried: &compiled.carried,
            sizes,
            earlier: &earlier,
        };
        let trace = &compiled.lowered.trace;
        let plan = with_params(trace, sources, self.weights, |info| {
            segment_plan(&input, at, self.executors, self.schemas, info)
        })?;
        Ok(Instance::new(Arc::new(plan)).map_err(RunError::from)?)
    }
}

/// Gives `f` what a compile may know of the parameters of `trace`, whose tensors are in `sources`; `weights` has those
/// behind constants' ids.
pub(super) fn with_params<R>(
    trace: &Trace,
    sources: &[Option<Source>],
    weights: &[Option<Source>],
    f: impl FnOnce(&ParamInfo<'_>) -> R,
) -> R {
    let index: FxHashMap<ValueId, usize> =
        trace.params.iter().enumerate().map(|(i, p)| (p.value, i)).collect();
    let source = |v: ValueId| index.get(&v).and_then(|i| sources.get(*i)?.as_ref());
    f(&ParamInfo {
        strides: &|v| {
            source(v).filter(|s| !s.tensor.is_contiguous()).map(|s| s.tensor.strides_elems().to_vec())
        },
        constant_of: &|v| source(v).map_or(0, |s| s.constant),
        constant: &|id| {
            let source = weights.get(usize::try_from(id).ok()?.checked_sub(1)?)?.as_ref()?;
            Some(Constant { operand: source.tensor.operand().clone(), version: source.version })
        },
    })
}

/// What all segments of a run left.
pub(super) struct Left<'a> {
    pub(super) trace: &'a Trace,
    pub(super) values: &'a FxHashMap<ValueId, Tensor>,
    pub(super) numbers: &'a Numbers,
    pub(super) sizes: &'a FxHashMap<Symbol, i64>,
    pub(super) instance: &'a Instance,
}

impl Session {
    /// A session for `module`'s first trace. `weights` has the tensors of the model by FQN; tensors that share bytes
    /// share them here, too. State is copied, so that the file is never written.
    pub fn new(
        module: Arc<Module>,
        weights: &FxHashMap<Name, Tensor>,
        executors: Executors,
        schemas: &'static (dyn Schemas + Sync),
        pool: Arc<dyn Parallel>,
        options: SessionOptions,
    ) -> Result<Session, SessionError> {
        let trace = first_trace(&module)?;
        let mut own_copies: Vec<(Bytes, Bytes)> = Vec::new();
        let written = written_params(trace);
        // Bytes that the program writes are copied first, so that every tensor that shares them follows.
        for (i, p) in trace.params.iter().enumerate() {
            if (written.contains(&i) || options.copy_weights)
                && let Some(t) = p.role.name.as_ref().and_then(|n| weights.get(n))
            {
                let old = t.operand().bytes().clone();
                if !own_copies.iter().any(|(o, _)| o.same(&old)) {
                    let copy = Bytes::copy_of(old.as_slice()).map_err(RunError::from)?;
                    own_copies.push((old, copy));
                }
            }
        }
        let mut params = Vec::with_capacity(trace.params.len());
        for (i, p) in trace.params.iter().enumerate() {
            if !is_weight(p.role.kind) {
                params.push(None);
                continue;
            }
            let name = p.role.name.clone().unwrap_or_else(|| "".into());
            let tensor = weights.get(&name).ok_or_else(|| InputError::MissingWeight {
                role: p.role.kind.name(),
                name: name.to_string(),
            })?;
            check_weight(trace, p.value, &name, tensor)?;
            let tensor = moved(tensor, &own_copies)?;
            let tensor = aligned(tensor)?;
            params.push(Some(Source { tensor, constant: i as u64 + 1, version: 0 }));
        }
        Ok(Session {
            writes_state: !written.is_empty(),
            stream: Mutex::new(RandomStream { seed: options.seed, offset: 0 }),
            module,
            executors,
            schemas,
            pool,
            options,
            params: RwLock::new(params),
            writing: Mutex::new(()),
            plans: Mutex::new(Vec::new()),
            grads: Mutex::new(Vec::new()),
            cancel: AtomicBool::new(false),
            n_compiles: AtomicU64::new(0),
        })
    }

    /// The trace that runs.
    pub fn trace(&self) -> &Trace {
        &self.module.traces[0]
    }

    /// The module.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// How many times the session compiled for new sizes.
    pub fn n_compiles(&self) -> u64 {
        self.n_compiles.load(Ordering::Relaxed)
    }

    /// Compiles anew at the next run: kernels of a plugin that has failed stand in the old plans.
    pub fn forget_plans(&self) {
        lock(&self.plans).clear();
        lock(&self.grads).clear();
    }

    /// Asks runs in progress to stop at the next step.
    pub fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }

    /// The names of the user's inputs, in order.
    pub fn input_names(&self) -> Vec<Name> {
        self.user_params().map(|(_, p)| p.role.name.clone().unwrap_or_else(|| "".into())).collect()
    }

    fn user_params(&self) -> impl Iterator<Item = (usize, &crate::ir::TraceParam)> {
        self.trace()
            .params
            .iter()
            .enumerate()
            .filter(|(_, p)| matches!(p.role.kind, RoleKind::Input | RoleKind::Inout))
    }

    /// The program compiled for inputs like these.
    pub fn compiled(&self, inputs: &[Value]) -> Result<Arc<Compiled>, SessionError> {
        let bindings = bind_inputs(&self.module, self.trace(), inputs)?;
        Ok(self.ready(inputs, &bindings)?.compiled.clone())
    }

    /// Runs. Inputs are never written; outputs are the caller's own. On an error state is as before.
    pub fn run(&self, inputs: &[Value]) -> Result<Vec<Value>, SessionError> {
        self.run_written(inputs).map(|(outputs, _)| outputs)
    }

    /// Runs, and gives the new values of inputs that the program writes, by the input's name.
    pub fn run_written(
        &self,
        inputs: &[Value],
    ) -> Result<(Vec<Value>, BTreeMap<Name, Tensor>), SessionError> {
        let bindings = bind_inputs(&self.module, self.trace(), inputs)?;
        let ready = self.ready(inputs, &bindings)?;
        let _writing = self.writes_state.then(|| lock(&self.writing));
        let (sources, mut numbers) = self.sources(inputs)?;
        let mut stream = *lock(&self.stream);
        self.begin();
        let done = self.execute(&ready, &bindings.sizes, &sources, &mut numbers, &mut stream, |left| {
            let outputs = outputs(left)?;
            Ok((outputs, self.commit(left.instance, &sources)?))
        })?;
        *lock(&self.stream) = stream;
        Ok(done)
    }

    /// Where the parameters of a run lie: weights, and the user's inputs, dense and aligned; and its numbers.
    pub(super) fn sources(&self, inputs: &[Value]) -> Result<(Vec<Option<Source>>, Numbers), SessionError> {
        let mut sources = self.snapshot();
        let mut numbers = Numbers::default();
        for ((at, p), given) in self.user_params().zip(inputs) {
            match (self.trace().ty(p.value), given) {
                (Type::Tensor(_), Value::Tensor(t)) => {
                    sources[at] = Some(Source { tensor: aligned(t.contiguous()?)?, constant: 0, version: 0 });
                }
                (Type::Number(n), given) => {
                    if let Some(n) = number_input(n.kind, given) {
                        numbers.insert(p.value, n);
                    }
                }
                _ => {}
            }
        }
        Ok((sources, numbers))
    }

    /// Runs all segments of `ready`; `finish` is given what they left before the instance is used again.
    pub(super) fn execute<R>(
        &self,
        ready: &Ready,
        sizes: &FxHashMap<Symbol, i64>,
        sources: &[Option<Source>],
        numbers: &mut Numbers,
        stream: &mut RandomStream,
        finish: impl FnOnce(&Left<'_>) -> Result<R, SessionError>,
    ) -> Result<R, SessionError> {
        let context = RunContext { threads: self.options.threads, pool: &*self.pool, cancel: &self.cancel };
        let weights = self.snapshot();
        let machine = Machine {
            executors: &self.executors,
            schemas: self.schemas,
            context: &context,
            nested: &ready.nested,
            weights: &weights,
        };
        machine.execute(ready, sizes, sources, numbers, stream, finish)
    }

    /// The weights as they are now.
    pub(super) fn snapshot(&self) -> Vec<Option<Source>> {
        self.params.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A new run: whoever cancelled meant those before it.
    pub(super) fn begin(&self) {
        self.cancel.store(false, Ordering::Relaxed);
    }

    /// Held while a run writes state; nothing where the program writes none.
    pub(super) fn lock_if_writing(&self) -> Option<MutexGuard<'_, ()>> {
        self.writes_state.then(|| lock(&self.writing))
    }

    /// The random stream as it stands.
    pub(super) fn stream(&self) -> RandomStream {
        *lock(&self.stream)
    }

    /// The stream after a run that succeeded.
    pub(super) fn set_stream(&self, stream: RandomStream) {
        *lock(&self.stream) = stream;
    }

    /// The differentiated program for inputs like these, if it is known.
    pub(super) fn cached_grad(
        &self,
        inputs: &[Value],
        bindings: &Bindings,
        request: &GradRequest,
    ) -> Option<Arc<Differentiated>> {
        let key = key_of(inputs, bindings);
        let mut grads = lock(&self.grads);
        let at = grads.iter().position(|(k, r, _)| *k == key && r == request)?;
        let found = grads.remove(at);
        let program = found.2.clone();
        grads.push(found);
        Some(program)
    }

    /// Keeps a differentiated program; the least recently used one goes.
    pub(super) fn cache_grad(
        &self,
        inputs: &[Value],
        bindings: &Bindings,
        request: &GradRequest,
        program: Arc<Differentiated>,
    ) {
        self.n_compiles.fetch_add(1, Ordering::Relaxed);
        let mut grads = lock(&self.grads);
        if grads.len() == CACHED_PLANS {
            grads.remove(0);
        }
        grads.push((key_of(inputs, bindings), request.clone(), program));
    }

    /// Compiles a trace with concrete sizes whose parameters are in `sources`, and which may call `nested`.
    pub(super) fn compile_prepared(
        &self,
        trace: Trace,
        nested: &NestedTraces,
        sizes: &FxHashMap<Symbol, i64>,
        sources: &[Option<Source>],
        counters: &Counters,
    ) -> Result<Arc<Ready>, SessionError> {
        let params = trace.clone();
        let mut compiled = with_params(&params, sources, &self.snapshot(), |info| {
            compile_prepared(trace, sizes, &self.executors, self.schemas, info, counters)
        })?;
        let nested = NestedPrograms::new(nested, &compiled.lowered.trace);
        // Who cannot be claimed is said now, not in the middle of a run.
        let counters = nested.compile_known(&self.executors, self.schemas, sizes, &compiled.counters)?;
        compiled.nested = nested.reached();
        Ok(Arc::new(Ready::new(compiled, Arc::new(nested), counters)))
    }

    /// The module's nested traces with concrete sizes, after the passes that may come before `purpose`.
    pub(super) fn nested(&self, bindings: &Bindings, purpose: Purpose) -> Result<NestedTraces, SessionError> {
        let mut nested = NestedTraces::default();
        for trace in self.module.traces.iter().skip(1).filter(|t| t.stage != Stage::Backward) {
            nested.insert(prepare(trace, bindings, purpose)?);
        }
        Ok(nested)
    }

    fn ready(&self, inputs: &[Value], bindings: &Bindings) -> Result<Arc<Ready>, SessionError> {
        let key = key_of(inputs, bindings);
        let mut plans = lock(&self.plans);
        if let Some(at) = plans.iter().position(|(k, _)| *k == key) {
            // Most recently used at the end.
            let found = plans.remove(at);
            let ready = found.1.clone();
            plans.push(found);
            return Ok(ready);
        }
        let ready = self.compile_prepared(
            prepare(self.trace(), bindings, Purpose::Values)?,
            &self.nested(bindings, Purpose::Values)?,
            &bindings.sizes,
            &self.snapshot(),
            &Counters::default(),
        )?;
        self.n_compiles.fetch_add(1, Ordering::Relaxed);
        if plans.len() == CACHED_PLANS {
            plans.remove(0);
        }
        plans.push((key, ready.clone()));
        Ok(ready)
    }

    /// The whole run has succeeded: writes state; gives the new values of written inputs.
    pub(super) fn commit(
        &self,
        instance: &Instance,
        sources: &[Option<Source>],
    ) -> Result<BTreeMap<Name, Tensor>, SessionError> {
        let mut written = BTreeMap::new();
        let mut params = None;
        for (param, from) in instance.written()? {
            let p = &self.trace().params[param];
            let target = sources[param]
                .as_ref()
                .ok_or_else(|| RunError::Internal("a write without a target".into()))?;
            if p.role.kind == RoleKind::Inout {
                let new = Tensor::of_operand(target.tensor.dtype(), from).to_owned_copy()?;
                written.insert(p.role.name.clone().unwrap_or_else(|| "".into()), new);
                continue;
            }
            copy_operand(target.tensor.operand(), &from);
            let params =
                params.get_or_insert_with(|| self.params.write().unwrap_or_else(PoisonError::into_inner));
            if let Some(source) = params[param].as_mut() {
                source.version += 1;
            }
        }
        Ok(written)
    }

    /// State by name, as it is now: buffers that the program writes, and `rng.offset`.
    pub fn state(&self) -> Result<BTreeMap<String, Tensor>, SessionError> {
        let _writing = lock(&self.writing);
        let params = self.params.read().unwrap_or_else(PoisonError::into_inner);
        let mut state = BTreeMap::new();
        for i in written_params(self.trace()) {
            let p = &self.trace().params[i];
            if let (Some(source), Some(name)) = (&params[i], &p.role.name) {
                state.insert(name.to_string(), source.tensor.to_owned_copy()?);
            }
        }
        if uses_random(self.trace()) {
            let offset = lock(&self.stream).offset;
            state.insert("rng.offset".into(), Tensor::from_slice(&[offset], &[])?);
        }
        Ok(state)
    }

    /// Replaces state by name; nothing changes where any of it does not fit.
    pub fn set_state(&self, state: &BTreeMap<String, Tensor>) -> Result<(), SessionError> {
        let _writing = lock(&self.writing);
        let mut state = state.clone();
        let offset = match state.remove("rng.offset") {
            Some(tensor) => tensor.to_vec::<i64>()?.first().copied(),
            None => None,
        };
        let written = written_params(self.trace());
        self.replace(&state, &|at| written.contains(&at))?;
        if let Some(offset) = offset {
            lock(&self.stream).offset = offset;
        }
        Ok(())
    }

    /// Parameters and buffers by name, as they are now, sharing nothing.
    pub fn parameters(&self) -> Result<BTreeMap<String, Tensor>, SessionError> {
        let _writing = lock(&self.writing);
        let mut parameters = BTreeMap::new();
        for (p, source) in self.trace().params.iter().zip(self.snapshot()) {
            if let (true, Some(source), Some(name)) = (is_trained(p.role.kind), source, &p.role.name) {
                parameters.insert(name.to_string(), source.tensor.to_owned_copy()?);
            }
        }
        Ok(parameters)
    }

    /// Replaces parameters and buffers by name; nothing changes where any of it does not fit. The session must hold
    /// them in memory of its own ([`SessionOptions::copy_weights`]). A tape made before cannot be used any more where it
    /// needs what was replaced.
    pub fn set_parameters(&self, parameters: &BTreeMap<String, Tensor>) -> Result<(), SessionError> {
        let _writing = lock(&self.writing);
        self.replace(parameters, &|at| is_trained(self.trace().params[at].role.kind))
    }

    /// Writes tensors over those weights of the same names that `may` be written.
    fn replace(
        &self,
        tensors: &BTreeMap<String, Tensor>,
        may: &dyn Fn(usize) -> bool,
    ) -> Result<(), SessionError> {
        let params = self.snapshot();
        let mut copies = Vec::new();
        for (name, tensor) in tensors {
            let named =
                |(at, p): (usize, &crate::ir::TraceParam)| p.role.name.as_deref() == Some(name) && may(at);
            let at = self.trace().params.iter().enumerate().position(named);
            let Some((at, source)) = at.and_then(|at| Some((at, params[at].as_ref()?))) else {
                return Err(StateError::Unknown(name.clone()).into());
            };
            check_like(name, &source.tensor, tensor)?;
            if source.tensor.operand().bytes().is_file() {
                return Err(
                    RunError::Internal(format!("`{name}` lies in a file and cannot be written")).into()
                );
            }
            copies.push((at, source.tensor.operand().clone(), tensor.operand().clone()));
        }
        for (at, to, from) in copies {
            copy_operand(&to, &from);
            self.has_written(at);
        }
        Ok(())
    }

    /// Says that the memory of a parameter was written: everything that shares it has a new version.
    pub(super) fn has_written(&self, at: usize) {
        let mut params = self.params.write().unwrap_or_else(PoisonError::into_inner);
        let Some(bytes) = params[at].as_ref().map(|source| source.tensor.operand().bytes().clone()) else {
            return;
        };
        for source in params.iter_mut().flatten().filter(|s| s.tensor.operand().bytes().same(&bytes)) {
            source.version += 1;
        }
    }

    /// Seed and offset of the random stream.
    pub fn random(&self) -> (i64, i64) {
        let stream = lock(&self.stream);
        (stream.seed, stream.offset)
    }

    /// Sets seed and offset of the random stream.
    pub fn set_random(&self, seed: i64, offset: i64) {
        self.set_stream(RandomStream { seed, offset });
    }
}

/// Refuses a tensor of another dtype or other dims.
pub(super) fn check_like(name: &str, wanted: &Tensor, given: &Tensor) -> Result<(), StateError> {
    if wanted.dtype() == given.dtype() && wanted.dims() == given.dims() {
        return Ok(());
    }
    Err(StateError::Differs { name: name.to_owned(), wanted: described(wanted), found: described(given) })
}

/// The trace's outputs.
pub(super) fn outputs(left: &Left<'_>) -> Result<Vec<Value>, SessionError> {
    let Left { trace, values, numbers, sizes, .. } = left;
    let mut given: Vec<ValueId> = Vec::new();
    trace
        .outputs
        .iter()
        .map(|o| match &o.value {
            Arg::Value(v) => match trace.ty(*v) {
                Type::Tensor(_) => {
                    let t =
                        values.get(v).ok_or_else(|| RunError::Internal("an output was not made".into()))?;
                    // The same value returned twice is two tensors.
                    let again = given.contains(v);
                    given.push(*v);
                    Ok(Value::Tensor(if again { t.to_owned_copy()? } else { t.clone() }))
                }
                Type::Number(n) => {
                    let known = n.equals.as_ref().and_then(|d| d.eval(&|s| sizes.get(&s).copied()));
                    match known {
                        Some(n) => Ok(Value::Int(n)),
                        None => numbers
                            .get(v)
                            .map(|n| Value::from(*n))
                            .ok_or_else(|| RunError::Internal("an output number is not known".into()).into()),
                    }
                }
            },
            Arg::Int(n) => Ok(Value::Int(*n)),
            Arg::Float(x) => Ok(Value::Float(*x)),
            Arg::Bool(b) => Ok(Value::Bool(*b)),
            Arg::Str(s) => Ok(Value::Str(s.to_string())),
            Arg::Dim(d) => d.eval(&|s| sizes.get(&s).copied()).map(Value::Int).ok_or_else(|| {
                RunError::Internal(format!("the size `{d}` of an output is not known")).into()
            }),
            _ => Ok(Value::None),
        })
        .collect()
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

fn first_trace(module: &Module) -> Result<&Trace, SessionError> {
    module.traces.first().ok_or_else(|| RunError::Internal("a module without a trace".into()).into())
}

fn is_weight(kind: RoleKind) -> bool {
    matches!(kind, RoleKind::Param | RoleKind::Buffer | RoleKind::State | RoleKind::Const)
}

/// What a model learns, on purpose or by the way.
fn is_trained(kind: RoleKind) -> bool {
    matches!(kind, RoleKind::Param | RoleKind::Buffer | RoleKind::State)
}

/// Indices of parameters that the trace writes.
fn written_params(trace: &Trace) -> Vec<usize> {
    let mut written: Vec<usize> = trace
        .ops()
        .filter(|b| crate::ops::find(&b.op).is_some_and(|op| op.is(crate::ops::Traits::WRITES)))
        .filter_map(|b| b.args.get(1).and_then(Arg::value))
        .filter_map(|v| trace.params.iter().position(|p| p.value == v))
        .filter(|i| trace.params[*i].role.kind != RoleKind::Inout)
        .collect();
    written.sort_unstable();
    written.dedup();
    written
}

fn uses_random(trace: &Trace) -> bool {
    trace.ops().any(|b| {
        crate::ops::find(&b.op).is_some_and(|op| matches!(op.host, Some(crate::ops::HostOp::NextPhilox)))
    })
}

fn check_weight(trace: &Trace, v: ValueId, name: &str, tensor: &Tensor) -> Result<(), StateError> {
    let Some(ty) = trace.ty(v).tensor() else { return Ok(()) };
    let same_dims = ty.dims.len() == tensor.dims().len()
        && ty.dims.iter().zip(tensor.dims()).all(|(d, n)| d.known().is_none_or(|d| d == *n));
    if ty.dtype == tensor.dtype() && same_dims {
        return Ok(());
    }
    Err(StateError::Differs {
        name: name.into(),
        wanted: format!("{}{}", ty.dtype, crate::ops::meta::show(&ty.dims)),
        found: described(tensor),
    })
}

/// `f32[2, 3]`.
fn described(t: &Tensor) -> String {
    format!("{}{:?}", t.dtype(), t.dims())
}

/// The tensor over the session's own copy of its bytes, where there is one.
fn moved(tensor: &Tensor, own_copies: &[(Bytes, Bytes)]) -> Result<Tensor, SessionError> {
    let bytes = tensor.operand().bytes();
    match own_copies.iter().find(|(old, _)| old.same(bytes)) {
        None => Ok(tensor.clone()),
        Some((old, copy)) => {
            let offset = (tensor.operand().addr() as i64).wrapping_sub(old.addr() as i64);
            let operand = tensor.operand().moved_to(copy.clone(), offset).map_err(RunError::from)?;
            Ok(Tensor::of_operand(tensor.dtype(), operand))
        }
    }
}

/// Kernels see data aligned to its element size; what is not is copied.
pub(super) fn aligned(tensor: Tensor) -> Result<Tensor, SessionError> {
    let align = tensor.dtype().size_bytes().min(16);
    if (tensor.operand().addr() as usize).is_multiple_of(align) {
        Ok(tensor)
    } else {
        Ok(tensor.to_owned_copy()?)
    }
}

fn key_of(inputs: &[Value], bindings: &Bindings) -> Key {
    let shapes = inputs.iter().filter_map(Value::tensor).map(|t| (t.dtype(), t.dims().to_vec())).collect();
    let mut sizes: Vec<(Symbol, i64)> = bindings.sizes.iter().map(|(s, n)| (*s, *n)).collect();
    sizes.sort_unstable();
    Key(shapes, sizes)
}

fn view_of(t: &Tensor) -> View {
    View {
        buffer: 0,
        dtype: t.dtype(),
        dims: t.dims().to_vec(),
        strides: t.strides_elems().to_vec(),
        offset_bytes: 0,
    }
}

/// Binds the symbols that the segment's last statement made known: sizes of its results, or numbers.
fn bind_data_sizes(
    trace: &Trace,
    binds: &[Symbol],
    made: &FxHashMap<ValueId, Tensor>,
    numbers: &Numbers,
    sizes: &mut FxHashMap<Symbol, i64>,
) {
    if binds.is_empty() {
        return;
    }
    for (v, t) in made {
        let Some(ty) = trace.ty(*v).tensor() else { continue };
        for (d, n) in ty.dims.iter().zip(t.dims()) {
            if let Some(s) = d.as_symbol() {
                sizes.entry(s).or_insert(*n);
            }
        }
    }
    for (v, n) in numbers {
        if let (Type::Number(ty), Number::Int(n)) = (trace.ty(*v), n)
            && let Some(s) = ty.equals.as_ref().and_then(crate::ir::Dim::as_symbol)
        {
            sizes.entry(s).or_insert(*n);
        }
    }
}
