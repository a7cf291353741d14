//! Updating a session's parameters from their gradients, in place.
//!
//! Each distinct parameter (ties are one: the same memory, dims and strides) is updated by a small trace of its own that
//! the optimiser writes; traces are compiled once for each kind of parameter and run by the executors like any other.
//! An update reads everything before it writes, so a parameter and its state always belong together; a failure between
//! two parameters leaves a mixture, after which nothing can be done but to begin again from a checkpoint.
//!
//! Not here: losses, data and files.

use super::instance::{RunError, Source};
use super::numbers::Numbers;
use super::session::{Ready, Session, SessionError, StateError, aligned};
use super::tape::GradRequest;
use crate::autodiff::NestedTraces;
use crate::ir::{RoleKind, TensorType};
use crate::lower::Counters;
use crate::memory::{Tensor, copy_operand};
use crate::ops::OpError;
use crate::ops::optim::Optimizer;
use crate::plan::Number;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What training keeps beside the session: the state of the optimiser for each parameter, and the number of steps.
pub struct Updater {
    optimizer: Optimizer,
    targets: Vec<Target>,
    compiled: Vec<(Kind, Arc<Compiled>)>,
    request: GradRequest,
    n_steps: u64,
    is_mixed: bool,
}

/// A parameter that is trained.
struct Target {
    /// The first of its names, by which its gradient is known.
    name: String,
    /// Its place among the session's parameters.
    at: usize,
    decays: bool,
    /// As the optimiser names them.
    state: Vec<Tensor>,
}

/// What an update depends on.
#[derive(Clone, PartialEq, Eq)]
struct Kind {
    ty: TensorType,
    strides: Vec<i64>,
    decays: bool,
    first: bool,
}

struct Compiled {
    ready: Arc<Ready>,
    step: Option<crate::ir::ValueId>,
}

impl Updater {
    /// For every floating parameter that is not frozen. `decays` says by name which take part in weight decay. The
    /// session must hold its parameters in memory of its own (`SessionOptions::copy_weights`).
    pub fn new(
        session: &Session,
        optimizer: Optimizer,
        decays: &dyn Fn(&str) -> bool,
    ) -> Result<Updater, SessionError> {
        let params = session.snapshot();
        let ties = session.ties();
        let mut targets = Vec::new();
        for (at, (p, source)) in session.trace().params.iter().zip(&params).enumerate() {
            let (Some(name), Some(source)) = (&p.role.name, source) else { continue };
            let trains = p.role.kind == RoleKind::Param && !p.role.frozen && source.tensor.dtype().is_float();
            let tied = ties.iter().find(|names| names.contains(&p.value));
            // The first name stands for all that are tied, unless it is frozen and they are not.
            let is_known = tied.is_some_and(|names| {
                targets.iter().any(|t: &Target| names.contains(&session.trace().params[t.at].value))
            });
            if !trains || is_known {
                continue;
            }
            if source.tensor.operand().bytes().is_file() {
                return Err(
                    RunError::Internal(format!("`{name}` lies in a file and cannot be trained")).into()
                );
            }
            let zeros = || Tensor::zeros(source.tensor.dtype(), source.tensor.dims());
            let state = optimizer.state_names().iter().map(|_| zeros()).collect::<Result<_, _>>()?;
            targets.push(Target { name: name.to_string(), at, decays: decays(name), state });
        }
        let mut wrt: Vec<String> = targets.iter().map(|t| t.name.clone()).collect();
        wrt.sort_unstable();
        let request = GradRequest { wrt: Some(wrt), remat: true };
        Ok(Updater { optimizer, targets, compiled: Vec::new(), request, n_steps: 0, is_mixed: false })
    }

    /// The gradients that [`Updater::apply`] wants.
    pub fn request(&self) -> &GradRequest {
        &self.request
    }

    /// Steps done.
    pub fn n_steps(&self) -> u64 {
        self.n_steps
    }

    /// The optimiser.
    pub fn optimizer(&self) -> &Optimizer {
        &self.optimizer
    }

    /// Names of the parameters that are trained (the first of those that are tied).
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.targets.iter().map(|t| t.name.as_str())
    }

    /// One step: every parameter follows its gradient.
    pub fn apply(&mut self, session: &Session, grads: &BTreeMap<String, Tensor>) -> Result<(), SessionError> {
        if self.is_mixed {
            return Err(RunError::Mixed.into());
        }
        for at in 0..self.targets.len() {
            if let Err(error) = self.update(session, at, grads) {
                self.is_mixed = at > 0;
                return Err(error);
            }
        }
        self.n_steps += 1;
        Ok(())
    }

    fn update(
        &mut self,
        session: &Session,
        at: usize,
        grads: &BTreeMap<String, Tensor>,
    ) -> Result<(), SessionError> {
        let target = &self.targets[at];
        let missing = |what: &str| RunError::Internal(format!("`{}` has no {what}", target.name));
        let grad = grads.get(&target.name).ok_or_else(|| missing("gradient"))?;
        let grad = aligned(grad.contiguous()?)?;
        let parameter = session.snapshot()[target.at].take().ok_or_else(|| missing("memory"))?.tensor;
        let source = |tensor: &Tensor| Some(Source { tensor: tensor.clone(), constant: 0, version: 0 });
        let mut sources = vec![source(&parameter)];
        sources.extend(target.state.iter().map(source));
        sources.push(source(&grad));
        // The step, which is a number.
        sources.push(None);
        let kind = Kind {
            ty: TensorType::new(
                parameter.dims().iter().map(|n| (*n).into()).collect::<Vec<_>>(),
                parameter.dtype(),
            ),
            strides: parameter.strides_elems().to_vec(),
            decays: target.decays,
            first: self.n_steps == 0 && self.optimizer.begins_without_state(),
        };
        let compiled = self.compiled(session, kind, &sources)?;
        let mut numbers = Numbers::default();
        if let Some(step) = compiled.step {
            numbers.insert(step, Number::Int(i64::try_from(self.n_steps + 1).unwrap_or(i64::MAX)));
        }
        let mut stream = session.stream();
        session.execute(
            &compiled.ready,
            &FxHashMap::default(),
            &sources,
            &mut numbers,
            &mut stream,
            |left| {
                for (param, from) in left.instance.written()? {
                    let to = sources.get(param).and_then(Option::as_ref);
                    let to = to.ok_or_else(|| RunError::Internal("a write without a target".into()))?;
                    copy_operand(to.tensor.operand(), &from);
                }
                Ok(())
            },
        )?;
        session.has_written(self.targets[at].at);
        Ok(())
    }

    fn compiled(
        &mut self,
        session: &Session,
        kind: Kind,
        sources: &[Option<Source>],
    ) -> Result<Arc<Compiled>, SessionError> {
        if let Some((_, compiled)) = self.compiled.iter().find(|(k, _)| *k == kind) {
            return Ok(compiled.clone());
        }
        // The only step without state is over.
        self.compiled.retain(|(k, _)| k.first == kind.first);
        let failed = |e: OpError| SessionError::Run(RunError::Number(e));
        let update = self.optimizer.update(&kind.ty, kind.decays, kind.first).map_err(failed)?;
        let trace = crate::passes::run(update.trace);
        let (nested, counters) = (NestedTraces::default(), Counters::default());
        let ready = session.compile_prepared(trace, &nested, &FxHashMap::default(), sources, &counters)?;
        let compiled = Arc::new(Compiled { ready, step: update.step });
        self.compiled.push((kind, compiled.clone()));
        Ok(compiled)
    }

    /// Compiles anew at the next step.
    pub fn forget_plans(&mut self) {
        self.compiled.clear();
    }

    /// A copy of the optimiser's state: `NAME.m` for each parameter.
    pub fn state(&self) -> Result<Vec<(String, Tensor)>, SessionError> {
        let mut all = Vec::new();
        for target in &self.targets {
            for (name, tensor) in self.optimizer.state_names().iter().zip(&target.state) {
                all.push((format!("{}.{name}", target.name), tensor.to_owned_copy()?));
            }
        }
        Ok(all)
    }

    /// Goes on from there: the optimiser's state by the names that [`Updater::state`] gives, all of it, and the number of
    /// steps done. Nothing changes where any of it does not fit.
    pub fn set_state(&mut self, state: &BTreeMap<String, Tensor>, n_steps: u64) -> Result<(), SessionError> {
        let mut copies = Vec::new();
        for target in &self.targets {
            for (name, to) in self.optimizer.state_names().iter().zip(&target.state) {
                let name = format!("{}.{name}", target.name);
                let from = state.get(&name).ok_or_else(|| StateError::Missing(name.clone()))?;
                super::session::check_like(&name, to, from)?;
                copies.push((to.clone(), from.clone()));
            }
        }
        if let Some(unknown) = state.keys().find(|k| !self.has_state(k)) {
            return Err(StateError::Unknown(unknown.clone()).into());
        }
        for (to, from) in copies {
            copy_operand(to.operand(), from.operand());
        }
        self.n_steps = n_steps;
        self.is_mixed = false;
        Ok(())
    }

    fn has_state(&self, name: &str) -> bool {
        name.rsplit_once('.').is_some_and(|(of, slot)| {
            self.optimizer.state_names().contains(&slot) && self.targets.iter().any(|t| t.name == of)
        })
    }
}
