//! A plan with its memory: an arena, bound steps, and what must be bound anew when something moved.

use super::numbers::{self, Numbers, RandomStream};
use super::session::Machine;
use super::value::Value;
use crate::ir::{Dtype, Name, ValueId};
use crate::memory::{Bytes, Loan, Operand, OperandError, OutOfMemory, Tensor, TensorError, copy_operand};
use crate::ops::{HostOp, OpError};
use crate::plan::build::{BufferId, CheckSource};
use crate::plan::{Bound, Fault, Io, NestedResult, NumberSource, Place, Plan, Step, View};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Why a run stopped. State is as it was before.
#[derive(Clone, Debug, thiserror::Error, miette::Diagnostic)]
pub enum RunError {
    /// A plugin failed.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Fault(#[from] Fault),
    /// A check of the model does not hold.
    #[error("a check of the model failed: {0}")]
    #[diagnostic(code(run::check), help("the model asserts this of its inputs"))]
    Check(Name),
    /// A number op failed.
    #[error(transparent)]
    #[diagnostic(code(run::number), help("a number op of the model cannot be worked out"))]
    Number(#[from] OpError),
    /// No memory.
    #[error(transparent)]
    #[diagnostic(code(run::out_of_memory), help("use smaller inputs, or fewer runs at one time"))]
    Memory(#[from] OutOfMemory),
    /// An operand would leave its memory: the plan or a plugin's answer is wrong.
    #[error(transparent)]
    #[diagnostic(
        code(internal::operand),
        help("please report this with the trace (`thunderhead trace --stage execution`)")
    )]
    Operand(#[from] OperandError),
    /// A tensor could not be made.
    #[error(transparent)]
    #[diagnostic(code(run::tensor))]
    Tensor(#[from] TensorError),
    /// Somebody asked the run to stop.
    #[error("the run was cancelled")]
    #[diagnostic(code(run::cancelled))]
    Cancelled,
    /// A parameter was written between a forward and its backward.
    #[error("`{0}` was written after the forward that this backward belongs to")]
    #[diagnostic(
        code(run::changed),
        help("call backward before anything writes the parameter, or run the forward again")
    )]
    Changed(Name),
    /// Some parameters are a step ahead of the others.
    #[error("a step failed after some parameters were updated: they do not belong together any more")]
    #[diagnostic(code(run::mixed), help("begin again from the last checkpoint (`--resume`)"))]
    Mixed,
    /// A nested trace cannot be compiled for what it is given.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Compile(Box<super::CompileError>),
    /// A value that a step needs is not there: a fault of this program.
    #[error("internal: {0}")]
    #[diagnostic(
        code(internal::run),
        help("please report this with the trace (`thunderhead trace --stage execution`)")
    )]
    Internal(String),
}

/// A parameter of the trace as a run finds it.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its memory.
    pub tensor: Tensor,
    /// Id of a constant; 0: none.
    pub constant: u64,
    /// One up at each write.
    pub version: u64,
}

/// What a run is given.
pub struct RunIo<'a> {
    /// Tensor parameters of the trace by index; none for numbers.
    pub params: &'a [Option<Source>],
    /// What earlier segments left.
    pub earlier: &'a FxHashMap<ValueId, Tensor>,
}

/// A bound plan; used by one run at a time.
pub struct Instance {
    plan: Arc<Plan>,
    arena: Bytes,
    slots: Vec<Slot>,
    steps: Vec<BoundStep>,
    uses: Vec<Vec<(usize, End)>>,
    /// Buffers that can lie elsewhere at the next run.
    movable: Vec<BufferId>,
    /// Outputs whose size a kernel said.
    allocated: FxHashMap<BufferId, Tensor>,
}

/// Where a buffer lies now.
#[derive(Clone, Debug, Default)]
struct Slot {
    bytes: Option<Bytes>,
    offset_bytes: i64,
    constant: u64,
    version: u64,
    /// Of memory that leaves with the results: who had them last.
    loan: Option<Loan>,
}

impl Slot {
    /// Is there memory of this instance that nobody else holds?
    fn is_free(&self) -> bool {
        self.bytes.is_some() && self.loan.as_ref().is_none_or(Loan::is_over)
    }
}

/// Which operand of a step looks at a buffer.
#[derive(Clone, Copy, Debug)]
enum End {
    Input(usize),
    Output(usize),
    From,
    To,
}

enum BoundStep {
    Kernel {
        bound: Box<dyn Bound>,
        slots: Vec<NumberSource>,
        by_kernel: Vec<(usize, BufferId)>,
    },
    Copy {
        from: Operand,
        to: Operand,
    },
    Number {
        op: HostOp,
        args: Vec<NumberSource>,
        results: Vec<ValueId>,
        name: Name,
    },
    Item {
        dtype: Dtype,
        from: Operand,
        result: ValueId,
    },
    CheckNumber {
        condition: NumberSource,
        message: Name,
    },
    CheckTensor {
        dtype: Dtype,
        from: Operand,
        message: Name,
    },
    /// Its operands are looked up when it runs: what happens inside costs more.
    Nested,
}

impl Instance {
    /// Memory for `plan`; steps are bound at the first run, when everything's place is known.
    pub fn new(plan: Arc<Plan>) -> Result<Instance, OutOfMemory> {
        let bytes = usize::try_from(plan.arena_bytes).map_err(|_| OutOfMemory { bytes: usize::MAX })?;
        let arena = Bytes::zeroed(bytes)?;
        let mut slots = Vec::with_capacity(plan.buffers.len());
        let mut movable = Vec::new();
        for (id, b) in plan.buffers.iter().enumerate() {
            slots.push(match b.place {
                Place::Arena(offset) => {
                    Slot { bytes: Some(arena.clone()), offset_bytes: offset as i64, ..Slot::default() }
                }
                _ => {
                    movable.push(id);
                    Slot::default()
                }
            });
        }
        let uses = vec![Vec::new(); plan.buffers.len()];
        Ok(Instance { plan, arena, slots, steps: Vec::new(), uses, movable, allocated: FxHashMap::default() })
    }

    /// Bytes of its arena.
    pub fn arena_bytes(&self) -> usize {
        self.arena.len()
    }

    /// Runs every step; gives what leaves the segment.
    pub(super) fn run(
        &mut self,
        io: &RunIo<'_>,
        numbers: &mut Numbers,
        stream: &mut RandomStream,
        machine: &Machine<'_>,
    ) -> Result<FxHashMap<ValueId, Tensor>, RunError> {
        let moved = self.find_places(io)?;
        if self.steps.is_empty() {
            if let Err(e) = self.bind() {
                self.steps.clear();
                return Err(e);
            }
        } else {
            for id in moved {
                self.follow(id)?;
            }
        }
        for at in 0..self.steps.len() {
            self.step(at, numbers, stream, machine)?;
        }
        self.results()
    }

    /// The values to be written into state, for the session to carry out.
    pub fn written(&self) -> Result<Vec<(usize, Operand)>, RunError> {
        self.plan.writes.iter().map(|w| Ok((w.param, self.operand(&w.from)?))).collect()
    }

    /// Looks where every movable buffer lies in this run; gives those that are somewhere else than before.
    fn find_places(&mut self, io: &RunIo<'_>) -> Result<Vec<BufferId>, RunError> {
        let mut moved = Vec::new();
        for &id in &self.movable {
            let slot = match self.plan.buffers[id].place {
                Place::Param(p) => {
                    let source = io.params.get(p).and_then(Option::as_ref).ok_or_else(|| {
                        RunError::Internal(format!(
                            "parameter {p} (`{}`) has no tensor",
                            self.plan.buffers[id].name
                        ))
                    })?;
                    slot_of(&source.tensor, source.constant, source.version)
                }
                Place::Earlier(v) => {
                    let tensor = io.earlier.get(&v).ok_or_else(|| {
                        RunError::Internal(format!(
                            "`{}` did not come from an earlier segment",
                            self.plan.buffers[id].name
                        ))
                    })?;
                    slot_of(tensor, 0, 0)
                }
                // The last run's memory again, once nobody looks at its results any more.
                Place::Fresh if self.slots[id].is_free() => continue,
                Place::Fresh => {
                    let bytes = Bytes::for_results(self.plan.buffers[id].bytes as usize)?;
                    Slot { bytes: Some(bytes), ..Slot::default() }
                }
                Place::ByKernel | Place::Arena(_) | Place::Unplaced => continue,
            };
            let old = &self.slots[id];
            let same = match (&old.bytes, &slot.bytes) {
                (Some(a), Some(b)) => {
                    a.same(b) && old.offset_bytes == slot.offset_bytes && old.version == slot.version
                }
                _ => false,
            };
            if !same {
                self.slots[id] = slot;
                moved.push(id);
            }
        }
        Ok(moved)
    }

    fn operand(&self, view: &View) -> Result<Operand, RunError> {
        let slot = &self.slots[view.buffer];
        let bytes = slot.bytes.clone().ok_or_else(|| {
            RunError::Internal(format!("`{}` has no memory yet", self.plan.buffers[view.buffer].name))
        })?;
        let offset = slot.offset_bytes + view.offset_bytes;
        Ok(Operand::new(bytes, offset, view.dtype.size_bytes(), view.dims.clone(), view.strides.clone())?)
    }

    /// A whole parameter is copied as the caller's strides say; anything else as the plan says.
    fn bind(&mut self) -> Result<(), RunError> {
        let plan = self.plan.clone();
        self.uses.iter_mut().for_each(Vec::clear);
        for (at, step) in plan.steps.iter().enumerate() {
            let bound = match step {
                Step::Kernel(k) => {
                    let mut by_kernel = Vec::new();
                    let mut outputs = Vec::with_capacity(k.outputs.len());
                    for (i, v) in k.outputs.iter().enumerate() {
                        if plan.buffers[v.buffer].place == Place::ByKernel {
                            by_kernel.push((i, v.buffer));
                            outputs.push((v.dtype, None));
                        } else {
                            outputs.push((v.dtype, Some(self.operand(v)?)));
                        }
                        self.uses[v.buffer].push((at, End::Output(i)));
                    }
                    let mut inputs = Vec::with_capacity(k.inputs.len());
                    let mut constants = Vec::with_capacity(k.inputs.len());
                    for (i, v) in k.inputs.iter().enumerate() {
                        inputs.push((v.dtype, self.operand(v)?));
                        let slot = &self.slots[v.buffer];
                        constants.push((slot.constant, slot.version));
                        self.uses[v.buffer].push((at, End::Input(i)));
                    }
                    let workspace = match k.workspace {
                        Some(b) => {
                            let n = plan.buffers[b].bytes as i64;
                            let slot = &self.slots[b];
                            let bytes = slot
                                .bytes
                                .clone()
                                .ok_or_else(|| RunError::Internal("workspace without memory".into()))?;
                            Some(Operand::new(bytes, slot.offset_bytes, 1, vec![n], vec![1])?)
                        }
                        None => None,
                    };
                    let slots = k.spec.slots.iter().map(|(v, _)| NumberSource::Value(*v)).collect::<Vec<_>>();
                    let io = Io { inputs, outputs, constants, workspace, n_numbers: slots.len() };
                    BoundStep::Kernel { bound: k.kernel.clone().bind(&io)?, slots, by_kernel }
                }
                Step::Copy { from, to } => {
                    self.uses[from.buffer].push((at, End::From));
                    self.uses[to.buffer].push((at, End::To));
                    BoundStep::Copy { from: self.operand(from)?, to: self.operand(to)? }
                }
                Step::Number { op, args, results, name } => BoundStep::Number {
                    op: *op,
                    args: args.clone(),
                    results: results.clone(),
                    name: name.clone(),
                },
                Step::Item { from, result } => {
                    self.uses[from.buffer].push((at, End::From));
                    BoundStep::Item { dtype: from.dtype, from: self.operand(from)?, result: *result }
                }
                Step::Check { condition: CheckSource::Number(n), message } => {
                    BoundStep::CheckNumber { condition: n.clone(), message: message.clone() }
                }
                Step::Check { condition: CheckSource::Tensor(v), message } => {
                    self.uses[v.buffer].push((at, End::From));
                    BoundStep::CheckTensor {
                        dtype: v.dtype,
                        from: self.operand(v)?,
                        message: message.clone(),
                    }
                }
                Step::Nested(_) => BoundStep::Nested,
            };
            self.steps.push(bound);
        }
        Ok(())
    }

    /// Tells the steps that look at a buffer where it lies now.
    fn follow(&mut self, id: BufferId) -> Result<(), RunError> {
        let plan = self.plan.clone();
        for u in 0..self.uses[id].len() {
            let (at, end) = self.uses[id][u];
            let view = match (&plan.steps[at], end) {
                (Step::Kernel(k), End::Input(i)) => &k.inputs[i],
                (Step::Kernel(k), End::Output(i)) => &k.outputs[i],
                (Step::Copy { from, .. } | Step::Item { from, .. }, End::From) => from,
                (Step::Check { condition: CheckSource::Tensor(from), .. }, End::From) => from,
                (Step::Copy { to, .. }, End::To) => to,
                _ => return Err(RunError::Internal("a step has no such operand".into())),
            };
            let operand = self.operand(view)?;
            let version = self.slots[id].version;
            match (&mut self.steps[at], end) {
                (BoundStep::Kernel { bound, .. }, End::Input(i)) => bound.set_input(i, &operand, version),
                (BoundStep::Kernel { bound, .. }, End::Output(i)) => bound.set_output(i, &operand),
                (BoundStep::Copy { to, .. }, End::To) => *to = operand,
                (
                    BoundStep::Copy { from, .. }
                    | BoundStep::Item { from, .. }
                    | BoundStep::CheckTensor { from, .. },
                    End::From,
                ) => *from = operand,
                _ => return Err(RunError::Internal("a bound step has no such operand".into())),
            }
        }
        Ok(())
    }

    fn step(
        &mut self,
        at: usize,
        numbers: &mut Numbers,
        stream: &mut RandomStream,
        machine: &Machine<'_>,
    ) -> Result<(), RunError> {
        let context = machine.context;
        match &mut self.steps[at] {
            BoundStep::Nested => self.nested(at, numbers, machine),
            BoundStep::Kernel { bound, slots, by_kernel } => {
                for (slot, from) in slots.iter().enumerate() {
                    let n = numbers::source(numbers, from).ok_or_else(|| {
                        RunError::Internal("a number that a kernel needs is not known".into())
                    })?;
                    bound.set_number(slot, n);
                }
                if context.cancel.load(Ordering::Relaxed) {
                    return Err(RunError::Cancelled);
                }
                bound.run(context)?;
                for &(output, buffer) in by_kernel.iter() {
                    let tensor = bound.take_allocated(output).ok_or_else(|| {
                        RunError::Internal("a kernel left an output of unknown size without memory".into())
                    })?;
                    self.allocated.insert(buffer, tensor);
                }
                Ok(())
            }
            BoundStep::Copy { from, to } => {
                copy_operand(to, from);
                Ok(())
            }
            BoundStep::Number { op, args, results, name } => {
                numbers::host_op(numbers, stream, *op, args, results, name).map_err(RunError::Number)
            }
            BoundStep::Item { dtype, from, result } => {
                let n = numbers::item(*dtype, from).ok_or_else(|| {
                    RunError::Internal(format!("an item of {dtype} cannot be read as a number"))
                })?;
                numbers.insert(*result, n);
                Ok(())
            }
            BoundStep::CheckNumber { condition, message } => match numbers::source(numbers, condition) {
                Some(n) if numbers::truth(n) => Ok(()),
                _ => Err(RunError::Check(message.clone())),
            },
            BoundStep::CheckTensor { dtype, from, message } => {
                if numbers::all_true(*dtype, from) {
                    Ok(())
                } else {
                    Err(RunError::Check(message.clone()))
                }
            }
        }
    }

    /// Runs nested traces on operands as they lie now; results are copied to where the plan wants them.
    fn nested(&mut self, at: usize, numbers: &mut Numbers, machine: &Machine<'_>) -> Result<(), RunError> {
        let plan = self.plan.clone();
        let Step::Nested(step) = &plan.steps[at] else {
            return Err(RunError::Internal("a bound step of another kind".into()));
        };
        let mut operands = FxHashMap::default();
        for (v, view) in &step.operands {
            operands.insert(*v, Value::Tensor(Tensor::of_operand(view.dtype, self.operand(view)?)));
        }
        for (v, from) in &step.numbers {
            let number = numbers::source(numbers, from).ok_or_else(|| {
                RunError::Internal("a number that a nested trace takes is not known".into())
            })?;
            operands.insert(*v, Value::from(number));
        }
        let results = machine.nested.run(step, &operands, machine)?;
        drop(operands);
        for (result, value) in step.results.iter().zip(results) {
            match (result, value) {
                (NestedResult::Absent, _) => {}
                (NestedResult::Number(v), value) => {
                    let number = value
                        .number()
                        .ok_or_else(|| RunError::Internal("a nested trace gives no number".into()))?;
                    numbers.insert(*v, number);
                }
                (NestedResult::Tensor(view), Value::Tensor(tensor)) => {
                    if plan.buffers[view.buffer].place == Place::ByKernel {
                        self.allocated.insert(view.buffer, tensor);
                        continue;
                    }
                    if tensor.dims() != view.dims || tensor.dtype() != view.dtype {
                        let (found, wanted) = (tensor.dims(), &view.dims);
                        let what = format!("a nested trace gives dims {found:?}, not {wanted:?}");
                        return Err(RunError::Internal(what));
                    }
                    copy_operand(&self.operand(view)?, tensor.operand());
                }
                (NestedResult::Tensor(_), _) => {
                    return Err(RunError::Internal("a nested trace gives no tensor".into()));
                }
            }
        }
        Ok(())
    }

    /// What leaves; memory that this run owned is lent, all looks at one buffer together.
    fn results(&mut self) -> Result<FxHashMap<ValueId, Tensor>, RunError> {
        let plan = self.plan.clone();
        let mut out = FxHashMap::default();
        let mut lent: FxHashMap<BufferId, Bytes> = FxHashMap::default();
        for (v, view) in &plan.results {
            if let Some(tensor) = self.allocated.get(&view.buffer) {
                out.insert(*v, tensor.clone());
                continue;
            }
            let mut operand = self.operand(view)?;
            if plan.buffers[view.buffer].place == Place::Fresh {
                let bytes = lent.entry(view.buffer).or_insert_with(|| {
                    let (bytes, loan) = operand.bytes().lend();
                    self.slots[view.buffer].loan = Some(loan);
                    bytes
                });
                operand = operand.lent(bytes.clone());
            }
            out.insert(*v, Tensor::of_operand(view.dtype, operand));
        }
        Ok(out)
    }
}

fn slot_of(tensor: &Tensor, constant: u64, version: u64) -> Slot {
    let offset_bytes = (tensor.operand().addr() as i64).wrapping_sub(tensor.operand().bytes().addr() as i64);
    Slot { bytes: Some(tensor.operand().bytes().clone()), offset_bytes, constant, version, loan: None }
}
