//! A compiled program with its state, as the façade gives it: what `run` has, and what the config adds to it, which is
//! expectations and what becomes of a run in which a plugin fails.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::claim::{Refusal, codes};
use crate::config::{Expect, LastResort, Resolved};
use crate::error::{Error, ExpectationErrors, Violation};
use crate::host::Bans;
use crate::ir::{Module, Name};
use crate::loader::LoadedExecutor;
use crate::memory::{Bytes, Tensor, copy_operand};
use crate::plan::{Fault, FaultKind, PlanError, PlanFile};
use crate::program::Program;
use crate::run::{self, CompileError, Compiled, RunError, SessionError, Value};

/// A program with state, ready to be run, from many threads at once. Runs that write state are one after another.
pub struct Session {
    inner: run::Session,
    config: Arc<Resolved>,
    bans: Bans,
    /// `on_error = "next"`.
    retry: bool,
    /// Who may fail while it is asked.
    executors: Vec<Arc<LoadedExecutor>>,
    /// Compiled programs whose expectations hold.
    checked: Mutex<Vec<Weak<Compiled>>>,
    views: StateViews,
}

/// Buffers that share the memory of one that the program writes. The trace has only that one; state files carry every
/// name.
#[derive(Debug, Default)]
pub(crate) struct StateViews(Vec<StateView>);

#[derive(Debug)]
struct StateView {
    name: String,
    base: String,
    /// As they lie in the model: same memory, each its own dims, strides and offset.
    of_name: Tensor,
    of_base: Tensor,
}

impl StateViews {
    pub(crate) fn of(program: &Program) -> StateViews {
        let weight = |name: &Name| program.weights().get(name).cloned();
        let views = program.views().iter().filter_map(|(name, base)| {
            let (of_name, of_base) = (weight(name)?, weight(base)?);
            Some(StateView { name: name.to_string(), base: base.to_string(), of_name, of_base })
        });
        StateViews(views.collect())
    }

    /// Adds the views of the bases that are there.
    fn complete(&self, state: &mut BTreeMap<String, Tensor>) -> Result<(), RunError> {
        for view in &self.0 {
            if let Some(base) = state.get(&view.base) {
                let value = view.value(base)?;
                state.insert(view.name.clone(), value);
            }
        }
        Ok(())
    }

    /// Without the views whose base is there as well: that says all.
    fn reduced(&self, state: &BTreeMap<String, Tensor>) -> BTreeMap<String, Tensor> {
        let mut reduced = state.clone();
        for view in self.0.iter().filter(|view| state.contains_key(&view.base)) {
            reduced.remove(&view.name);
        }
        reduced
    }
}

impl StateView {
    /// The view's elements, where the base has that value: it is laid out as in the model and looked at as the view does.
    fn value(&self, base: &Tensor) -> Result<Tensor, RunError> {
        let memory = Bytes::copy_of(self.of_base.operand().bytes().as_slice())?;
        let offset_in =
            |tensor: &Tensor| tensor.operand().addr() as i64 - tensor.operand().bytes().addr() as i64;
        let laid_out = self.of_base.operand().moved_to(memory.clone(), offset_in(&self.of_base))?;
        copy_operand(&laid_out, base.operand());
        let seen = self.of_name.operand().moved_to(memory, offset_in(&self.of_name))?;
        Ok(Tensor::of_operand(self.of_name.dtype(), seen).to_owned_copy()?)
    }
}

impl Session {
    pub(crate) fn new(
        inner: run::Session,
        config: Arc<Resolved>,
        bans: Bans,
        retry: bool,
        executors: Vec<Arc<LoadedExecutor>>,
        views: StateViews,
    ) -> Session {
        Session { inner, config, bans, retry, executors, checked: Mutex::new(Vec::new()), views }
    }

    /// The session without the config's policies, for what has policies of its own.
    pub(crate) fn inner(&self) -> &run::Session {
        &self.inner
    }

    /// The program.
    pub fn module(&self) -> &Module {
        self.inner.module()
    }

    /// The names of the inputs, in the order in which a run takes them.
    pub fn input_names(&self) -> Vec<Name> {
        self.inner.input_names()
    }

    /// The program compiled for inputs like these, without running it.
    pub fn compiled(&self, inputs: &[Value]) -> Result<Arc<Compiled>, Error> {
        let compiled = self.again_without_failing(|| self.inner.compiled(inputs))?;
        self.check_expectations(&compiled)?;
        Ok(compiled)
    }

    /// The plan for inputs like these, as plain data.
    pub fn plan(&self, inputs: &[Value]) -> Result<PlanFile, Error> {
        let compiled = self.compiled(inputs)?;
        Ok(compiled.plan_file())
    }

    /// The plans of forward and backward for inputs like these, as plain data.
    pub fn plan_grad(
        &self,
        inputs: &[Value],
        request: &run::GradRequest,
    ) -> Result<(PlanFile, PlanFile), Error> {
        let (forward, backward) = self.compiled_grad(inputs, request)?;
        Ok((forward.plan_file(), backward.plan_file()))
    }

    /// Runs. Inputs are never written; outputs are the caller's own. On an error state is as before.
    pub fn run(&self, inputs: &[Value]) -> Result<Vec<Value>, Error> {
        self.run_written(inputs).map(|(outputs, _)| outputs)
    }

    /// Runs, and gives the new values of inputs that the program writes, by the input's name.
    pub fn run_written(&self, inputs: &[Value]) -> Result<(Vec<Value>, BTreeMap<Name, Tensor>), Error> {
        // A run in steady state pays nothing for expectations that there are none of.
        if has_any(&self.config.expect) {
            self.compiled(inputs)?;
        }
        self.again_without_failing(|| self.inner.run_written(inputs))
    }

    /// Runs the forward for gradients: outputs, new values of written inputs, and the tape for the backward.
    pub fn forward(&self, inputs: &[Value], request: &run::GradRequest) -> Result<run::Forward<'_>, Error> {
        if has_any(&self.config.expect) {
            self.compiled_grad(inputs, request)?;
        }
        self.again_without_failing(|| self.inner.forward(inputs, request))
    }

    /// Forward and backward for inputs like these, compiled without running them.
    pub fn compiled_grad(
        &self,
        inputs: &[Value],
        request: &run::GradRequest,
    ) -> Result<(Arc<Compiled>, Arc<Compiled>), Error> {
        let (forward, backward) = self.again_without_failing(|| self.inner.compiled_grad(inputs, request))?;
        self.check_expectations(&forward)?;
        self.check_expectations(&backward)?;
        Ok((forward, backward))
    }

    /// The augmented forward and the backward for inputs like these, without running them.
    pub fn differentiated(
        &self,
        inputs: &[Value],
        request: &run::GradRequest,
    ) -> Result<Arc<run::Differentiated>, Error> {
        self.again_without_failing(|| self.inner.differentiated(inputs, request))
    }

    /// State by name, as it is now: what the program writes, and buffers that share its memory.
    pub fn state(&self) -> Result<BTreeMap<String, Tensor>, Error> {
        let mut state = self.inner.state()?;
        self.views.complete(&mut state).map_err(|error| Error::Run(Box::new(error)))?;
        Ok(state)
    }

    /// Replaces state by name; nothing changes where any of it does not fit.
    pub fn set_state(&self, state: &BTreeMap<String, Tensor>) -> Result<(), Error> {
        Ok(self.inner.set_state(&self.views.reduced(state))?)
    }

    /// Asks runs in progress to stop at the next step.
    pub fn cancel(&self) {
        self.inner.cancel();
    }

    /// How many times the session compiled for new sizes.
    pub fn n_compiles(&self) -> u64 {
        self.inner.n_compiles()
    }

    /// Does it; where a plugin fails and `on_error` is `next`, bans it from that op, says so, and does it again.
    /// Each round bans one executor from one op, so there are only so many.
    fn again_without_failing<T>(&self, work: impl Fn() -> Result<T, SessionError>) -> Result<T, Error> {
        loop {
            let outcome = work();
            // A plugin that failed when it was asked for a claim counts as one that refused; that is an answer only where failing is not
            // to be the end.
            if let Some(fault) = self.executors.iter().find_map(|executor| executor.take_check_fault())
                && !self.retry
            {
                self.inner.forget_plans();
                return Err(SessionError::Run(RunError::Fault(fault)).into());
            }
            let error = match outcome {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let Some(fault) = plugin_fault(&error) else { return Err(error.into()) };
            if fault.kind == FaultKind::Panic {
                // Its kernels are in plans that nobody may use again.
                self.inner.forget_plans();
            }
            let banned = self.retry && self.bans.add(&fault.executor, &fault.op, refusal_of(fault));
            if !banned || !self.can_do_without(&fault.executor) {
                return Err(error.into());
            }
            log::warn!(target: "thunderhead", "{fault}; planned again without it there (on_error = \"next\")");
            self.inner.forget_plans();
        }
    }

    /// Is it in the order, or there because another is like it? The last resort is nobody's to leave out.
    fn can_do_without(&self, executor: &str) -> bool {
        let in_order = self.config.order.iter().any(|name| name.value == executor);
        in_order || executor != "reference"
    }

    /// Looks at each compiled program once.
    fn check_expectations(&self, compiled: &Arc<Compiled>) -> Result<(), Error> {
        if !has_any(&self.config.expect) {
            return Ok(());
        }
        let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if checked.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(compiled))) {
            return Ok(());
        }
        let violations = violations(&self.config, &self.executors, &compiled.plan_file());
        if !violations.is_empty() {
            return Err(ExpectationErrors { violations }.into());
        }
        checked.retain(|known| known.strong_count() > 0);
        checked.push(Arc::downgrade(compiled));
        Ok(())
    }
}

fn has_any(expect: &Expect) -> bool {
    !expect.claims.is_empty() || expect.max_last_resort.is_some() || expect.max_copies.is_some()
}

/// The plugin's failure that an error is, if it is one; cancelling and data that nobody could work on are no plugin's fault.
fn plugin_fault(error: &SessionError) -> Option<&Fault> {
    let fault = match error {
        SessionError::Run(RunError::Fault(fault)) => fault,
        SessionError::Compile(CompileError::Plan(PlanError::Make(fault))) => fault,
        _ => return None,
    };
    (!matches!(fault.kind, FaultKind::Cancelled | FaultKind::BadData)).then_some(fault)
}

fn refusal_of(fault: &Fault) -> Refusal {
    let code = match fault.kind {
        FaultKind::Panic => codes::PLUGIN_PANICKED,
        _ => codes::PLUGIN_FAILED,
    };
    Refusal::new(&fault.executor, code, format!("it failed at {}: {}", fault.origin, fault.message))
}

/// Everything that the config expects and the plan does not keep.
fn violations(config: &Resolved, executors: &[Arc<LoadedExecutor>], plan: &PlanFile) -> Vec<Violation> {
    let expect = &config.expect;
    let mut violations = Vec::new();
    for expected in &expect.claims {
        let (glob, by) = (&expected.value.op, &expected.value.by);
        for op in plan.ops.iter().filter(|op| glob.matches(&op.op) && op.executor.as_ref() != Some(by)) {
            let refusal = op.refusals.iter().find(|refusal| refusal.executor == *by);
            violations.push(Violation::Claim {
                op: op.op.clone(),
                at: op.at.clone(),
                owner: op
                    .executor
                    .as_ref()
                    .map_or("taken apart".to_owned(), |who| format!("claimed by `{who}`")),
                expected: by.clone(),
                from: expected.from.to_string(),
                why: match refusal {
                    Some(refusal) => format!("`{by}` refused ({}): {}", refusal.code, refusal.sentence),
                    None if by != "host"
                        && executors.iter().all(|executor| executor.declaration().name != *by) =>
                    {
                        format!("`{by}` is not loaded; `thunderhead doctor` says why")
                    }
                    None => format!("`{by}` was not asked before; see its place in the order"),
                },
            });
        }
    }
    if let Some(max) = &expect.max_last_resort
        && config.last_resort.value == LastResort::Reference
        && config.order.iter().all(|name| name.value != "reference")
    {
        let fell = || plan.ops.iter().filter(|op| op.executor.as_deref() == Some("reference"));
        let found = fell().count();
        if let Some(first) = fell().next().filter(|_| found as u64 > max.value) {
            let first = format!("{} at {}", first.op, first.at);
            violations.push(Violation::LastResort {
                found,
                allowed: max.value,
                from: max.from.to_string(),
                first,
            });
        }
    }
    if let Some(max) = &expect.max_copies
        && let Some(first) = plan.copies.first().filter(|_| plan.copies.len() as u64 > max.value)
    {
        violations.push(Violation::Copies {
            found: plan.copies.len(),
            allowed: max.value,
            from: max.from.to_string(),
            first: first.value.clone(),
            why: first.reason.clone(),
        });
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 2x3 matrix of which the base sees the transpose, and the view the middle column from the second row on.
    #[test]
    fn views_of_written_buffers_follow_their_base() {
        let memory = Bytes::copy_of(&[0; 24]).expect("small");
        let over = |dims: &[i64], strides: &[i64], offset| {
            let made =
                Tensor::over(memory.clone(), crate::ir::Dtype::F32, dims.to_vec(), strides.to_vec(), offset);
            made.expect("inside the memory")
        };
        let view = StateView {
            name: "column".to_owned(),
            base: "matrix_t".to_owned(),
            of_base: over(&[3, 2], &[1, 3], 0),
            of_name: over(&[1], &[3], 4),
        };
        // The transpose of [[1, 2, 3], [4, 5, 6]].
        let new = Tensor::from_slice(&[1.0f32, 4.0, 2.0, 5.0, 3.0, 6.0], &[3, 2]).expect("six elements");
        let mut state = BTreeMap::from([("matrix_t".to_owned(), new)]);
        let views = StateViews(vec![view]);
        views.complete(&mut state).expect("small");
        assert_eq!(state["column"].to_vec::<f32>().expect("f32"), [5.0]);
        assert_eq!(views.reduced(&state).keys().collect::<Vec<_>>(), ["matrix_t"]);
    }
}
