//! Building a plan for one segment.

use super::arena::Arena;
use super::fuse::{RegionPlan, RegionStep};
use super::port::{Constant, Fault, Kernel, KernelMaker};
use crate::claim::spec::{SpecArg, SpecInt};
use crate::claim::walk::HOST;
use crate::claim::{LayoutNeed, OpSpec, Refusal, TensorSpec};
use crate::ir::trace::origin;
use crate::ir::{Arg, Bsym, Dim, Dtype, Name, NumKind, RoleKind, Schemas, Stmt, Symbol, Trace, ValueId};
use crate::lower::Lowered;
use crate::memory::operand::{contiguous_strides, is_contiguous};
use crate::ops::{self, HostOp};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::Arc;

/// User inputs up to this many bytes are copied into the arena: that costs less than binding kernels anew.
pub const STAGED_BYTES: u64 = 64 << 10;

/// Index of a buffer of a plan.
pub type BufferId = usize;

/// A plan.
pub struct Plan {
    /// What is done, in order.
    pub steps: Vec<Step>,
    /// For each step: the statement of the trace that it belongs to; none for copies of inputs and outputs.
    pub step_stmts: Vec<Option<usize>>,
    /// Memory.
    pub buffers: Vec<BufferPlan>,
    /// Bytes of the arena.
    pub arena_bytes: u64,
    /// Most bytes of the arena in use at one time.
    pub peak_live_bytes: u64,
    /// Copies that a layout forced.
    pub copies: Vec<CopyRecord>,
    /// Values that leave the segment: outputs of the trace and what later segments need, each in a buffer of its own
    /// ([`Place::Fresh`]) or as it came in.
    pub results: FxHashMap<ValueId, View>,
    /// Writes to carry out when the whole run has succeeded.
    pub writes: Vec<Write>,
}

/// Memory that steps use.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferPlan {
    /// Where it lies.
    pub place: Place,
    /// How long it is.
    pub bytes: u64,
    /// The value that it was made for, for people.
    pub name: Name,
    /// First and last step that touches it.
    pub lifetime: Range<usize>,
}

/// Where a buffer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At this offset of the arena, in bytes.
    Arena(u64),
    /// A parameter of the trace, by index: the caller's, the model's or the session's memory. Never written.
    Param(usize),
    /// A value of an earlier segment.
    Earlier(ValueId),
    /// An allocation of its own that outlives the segment, made anew for each run.
    Fresh,
    /// Allocated by its kernel, when the size is known.
    ByKernel,
    /// Not placed yet; in no finished plan.
    Unplaced,
}

/// A strided tensor in a buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The buffer.
    pub buffer: BufferId,
    /// Element type.
    pub dtype: Dtype,
    /// Sizes.
    pub dims: Vec<i64>,
    /// Strides in elements.
    pub strides: Vec<i64>,
    /// Offset of the first element from the buffer's first byte.
    pub offset_bytes: i64,
}

/// One thing to do.
pub enum Step {
    /// Run a kernel.
    Kernel(KernelStep),
    /// Copy, element by element.
    Copy {
        /// From.
        from: View,
        /// To.
        to: View,
    },
    /// Work out a number.
    Number {
        /// How.
        op: HostOp,
        /// Arguments.
        args: Vec<NumberSource>,
        /// Results.
        results: Vec<ValueId>,
        /// Name of the op, for messages.
        name: Name,
    },
    /// Read one element as a number.
    Item {
        /// The tensor of one element.
        from: View,
        /// The number.
        result: ValueId,
    },
    /// Stop unless it holds.
    Check {
        /// A number or a tensor of one element.
        condition: CheckSource,
        /// What to say.
        message: Name,
    },
    /// Run nested traces.
    Nested(Box<NestedStep>),
}

/// Control flow with its operands.
#[derive(Clone, Debug, PartialEq)]
pub struct NestedStep {
    /// What is run on what.
    pub flow: ops::Flow,
    /// Tensors that it uses.
    pub operands: FxHashMap<ValueId, View>,
    /// Numbers that it uses.
    pub numbers: Vec<(ValueId, NumberSource)>,
    /// What it makes, in order.
    pub results: Vec<NestedResult>,
    /// Sizes that its operands and results mention.
    pub sizes: FxHashMap<Symbol, i64>,
    /// The model's node, or the value.
    pub origin: Name,
}

/// A result of nested traces.
#[derive(Clone, Debug, PartialEq)]
pub enum NestedResult {
    /// Nobody wants it.
    Absent,
    /// A tensor; one in a [`Place::ByKernel`] buffer has no size yet.
    Tensor(View),
    /// A number.
    Number(ValueId),
}

impl NestedStep {
    /// Its result tensors.
    pub fn outputs(&self) -> impl Iterator<Item = &View> {
        self.results.iter().filter_map(|r| if let NestedResult::Tensor(view) = r { Some(view) } else { None })
    }
}

/// What a check looks at.
#[derive(Clone, Debug, PartialEq)]
pub enum CheckSource {
    /// A number.
    Number(NumberSource),
    /// Every element of a tensor.
    Tensor(View),
}

/// A number argument.
#[derive(Clone, Debug, PartialEq)]
pub enum NumberSource {
    /// Known.
    Known(super::Number),
    /// A value of the run.
    Value(ValueId),
    /// Absent or no number; host ops that take none ignore it.
    Other(Arg),
}

/// A kernel with its operands.
pub struct KernelStep {
    /// The executor.
    pub executor: Name,
    /// The question that it answered, with strides.
    pub spec: OpSpec,
    /// The kernel.
    pub kernel: Arc<dyn Kernel>,
    /// Operands in order.
    pub inputs: Vec<View>,
    /// Results in order; those in a [`Place::ByKernel`] buffer have no size yet.
    pub outputs: Vec<View>,
    /// Scratch, in the arena.
    pub workspace: Option<BufferId>,
    /// (output, input) that the plan put in one place.
    pub in_place: Option<(usize, usize)>,
    /// The region that it belongs to.
    pub region: Option<usize>,
}

/// A copy that a layout forced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyRecord {
    /// The step.
    pub step: usize,
    /// The value copied.
    pub value: Name,
    /// Bytes.
    pub bytes: u64,
    /// A stable code.
    pub code: &'static str,
    /// Why, in a sentence.
    pub reason: String,
}

/// A write of state, carried out when the run has succeeded.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// The parameter of the trace.
    pub param: usize,
    /// Its new value.
    pub from: View,
}

/// Why no plan could be made.
#[derive(Clone, Debug, thiserror::Error, miette::Diagnostic)]
pub enum PlanError {
    /// A size that should be known is not.
    #[error("size `{dim}` of `%{value}` is not known when it is needed")]
    #[diagnostic(
        code(plan::unknown_size),
        help("please report this with the trace (`thunderhead trace --stage claimed`)")
    )]
    Unknown {
        /// The value.
        value: Name,
        /// The expression.
        dim: String,
    },
    /// A size that makes no sense (negative, or too large to address).
    #[error("`%{value}` would have dims {dims:?} of {dtype}, which cannot be allocated")]
    #[diagnostic(code(plan::size), help("use smaller inputs"))]
    Size {
        /// The value.
        value: Name,
        /// Its dims.
        dims: Vec<i64>,
        /// Its dtype.
        dtype: Dtype,
    },
    /// An executor failed to make a kernel for an op that it took.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Make(#[from] Fault),
    /// An executor of the trace is not loaded.
    #[error("`{executor}`, which the trace gives `{op}`, is not loaded")]
    #[diagnostic(code(plan::not_loaded), help("put the executor in the order, or run the acquired trace"))]
    NotLoaded {
        /// The executor.
        executor: Name,
        /// The op.
        op: Name,
    },
    /// A trace that is run as it says gives an op to an executor that refuses it.
    #[error("`{}` refuses `{op}` at {origin}: {}", refusal.executor, refusal.sentence)]
    #[diagnostic(code(plan::refused), help("run the acquired trace, so that somebody else can take it"))]
    Refused {
        /// The op.
        op: Name,
        /// Where.
        origin: Name,
        /// Its reason.
        refusal: Box<Refusal>,
    },
    /// What cannot be put as a question to an executor.
    #[error(transparent)]
    #[diagnostic(code(plan::argument))]
    Spec(#[from] crate::claim::spec::SpecError),
    /// The trace itself is wrong.
    #[error("{0}")]
    #[diagnostic(code(plan::trace), help("the trace is no program as it stands"))]
    Trace(String),
}

/// What a plan is made from.
pub struct PlanInput<'a> {
    /// The execution trace.
    pub lowered: &'a Lowered,
    /// For each region of the trace its steps; none where it is not in `range`.
    pub regions: &'a [Option<Arc<RegionPlan>>],
    /// The statements to plan.
    pub range: Range<usize>,
    /// Sizes that are known.
    pub sizes: &'a dyn Fn(Symbol) -> Option<i64>,
    /// Executors by name.
    pub executor: &'a dyn Fn(&str) -> Option<Arc<dyn KernelMaker>>,
    /// Schemas, for the questions.
    pub schemas: &'a dyn Schemas,
    /// Id of a parameter's constant; 0: none.
    pub constant_of: &'a dyn Fn(ValueId) -> u64,
    /// Data behind a constant's id.
    pub constant: &'a dyn Fn(u64) -> Option<Constant>,
    /// Views of what earlier segments left, with dims and strides (buffer ignored).
    pub earlier: &'a FxHashMap<ValueId, View>,
    /// Values that later segments need.
    pub needed_later: &'a [ValueId],
    /// Is it the last segment, which returns the outputs and records the writes?
    pub last: bool,
}

/// A kernel of a region's own.
struct OwnStep<'a> {
    region: &'a Name,
    executor: &'a Name,
    name: &'a Name,
    inputs: &'a [ValueId],
    outputs: &'a [ValueId],
    numbers: &'a [(ValueId, NumKind)],
}

/// Builds the plan of one segment.
pub fn build(input: &PlanInput<'_>) -> Result<Plan, PlanError> {
    let mut b = Build {
        input,
        trace: &input.lowered.trace,
        params: input.lowered.trace.params.iter().enumerate().map(|(i, p)| (p.value, i)).collect(),
        plan: Plan {
            steps: Vec::with_capacity(input.range.len() + 8),
            step_stmts: Vec::with_capacity(input.range.len() + 8),
            buffers: Vec::new(),
            arena_bytes: 0,
            peak_live_bytes: 0,
            copies: Vec::new(),
            results: FxHashMap::default(),
            writes: Vec::new(),
        },
        buffer_of: FxHashMap::default(),
        dense_of: FxHashMap::default(),
        stmt: None,
        region: None,
    };
    for at in input.range.clone() {
        b.stmt = Some(at);
        match input.lowered.region_of.get(at).copied().flatten() {
            Some(region) => b.region(region, at)?,
            None => {
                if let Stmt::Op(bsym) = &b.trace.body[at] {
                    b.statement(at, bsym)?;
                }
            }
        }
    }
    b.stmt = None;
    b.leave()?;
    place(&mut b.plan);
    Ok(b.plan)
}

struct Build<'a> {
    input: &'a PlanInput<'a>,
    trace: &'a Trace,
    params: FxHashMap<ValueId, usize>,
    plan: Plan,
    /// Buffers of values that have memory of their own.
    buffer_of: FxHashMap<ValueId, BufferId>,
    /// Dense copies of values, made for one kernel and good for the next.
    dense_of: FxHashMap<ValueId, View>,
    stmt: Option<usize>,
    /// The region that is being planned.
    region: Option<usize>,
}

impl Build<'_> {
    /// All steps of a region, where its first statement stands.
    fn region(&mut self, number: usize, at: usize) -> Result<(), PlanError> {
        let region = &self.input.lowered.regions[number];
        if region.stmts.start != at {
            return Ok(());
        }
        let plan = self.input.regions.get(number).cloned().flatten().ok_or_else(|| {
            PlanError::Trace(format!("region `{}` is not lowered where it is needed", region.name))
        })?;
        self.region = Some(number);
        for stmt in region.stmts.clone() {
            // What the host does itself: numbers; views cost nothing.
            if let Stmt::Op(bsym) = &self.trace.body[stmt]
                && bsym.who.as_ref().is_some_and(|who| &*who.executor == HOST)
            {
                self.statement(stmt, bsym)?;
            }
        }
        for bsym in &plan.numbers {
            self.number_step(bsym);
        }
        for step in &plan.steps {
            match step {
                RegionStep::Own { executor, name, kernel, inputs, outputs, numbers } => {
                    let own = OwnStep { region: &region.name, executor, name, inputs, outputs, numbers };
                    self.own_kernel(&own, kernel.clone())?;
                }
                RegionStep::Op { bsym, layout } => {
                    let who = bsym.who.as_ref().ok_or_else(|| {
                        PlanError::Trace(format!("`{}`, which was handed on, has no executor", bsym.op))
                    })?;
                    self.kernel(*layout, bsym, &who.executor)?;
                }
                RegionStep::Copy { from, to } => self.copy_out(*from, *to, &region.executor)?,
            }
        }
        self.region = None;
        Ok(())
    }

    /// A kernel that a fusion executor has made already.
    fn own_kernel(&mut self, own: &OwnStep<'_>, kernel: Arc<dyn Kernel>) -> Result<(), PlanError> {
        let tensor = |v: &ValueId| {
            let ty = self.trace.ty(*v).tensor().cloned();
            let ty = ty.ok_or_else(|| PlanError::Trace(format!("step `{}` reads a number", own.name)))?;
            Ok(TensorSpec {
                value: *v,
                dtype: ty.dtype,
                device: ty.device.clone(),
                dims: ty.dims.clone(),
                strides: None,
                constant: 0,
            })
        };
        let mut spec = OpSpec {
            op: own.region.clone(),
            origin: own.name.clone(),
            args: Vec::new(),
            inputs: own.inputs.iter().map(tensor).collect::<Result<_, PlanError>>()?,
            outputs: own.outputs.iter().map(tensor).collect::<Result<_, PlanError>>()?,
            slots: own.numbers.to_vec(),
        };
        let mut inputs = Vec::with_capacity(spec.inputs.len());
        for t in &mut spec.inputs {
            t.constant = (self.input.constant_of)(t.value);
            let view = self.view(t.value)?;
            t.dims = view.dims.iter().copied().map(Dim::Known).collect();
            t.strides = Some(view.strides.clone());
            inputs.push(view);
        }
        self.add_kernel(spec, inputs, own.executor, |_| Ok(kernel))
    }

    /// A result of a region that is a view, dense in memory of its own.
    fn copy_out(&mut self, from: ValueId, to: ValueId, executor: &Name) -> Result<(), PlanError> {
        let from = self.view(from)?;
        let name = self.trace.value(to).name.clone();
        let bytes = self.bytes_of(&from.dims, from.dtype, to)?;
        let buffer = self.buffer(Place::Unplaced, bytes, name.clone());
        self.buffer_of.insert(to, buffer);
        let dense = View { buffer, strides: contiguous_strides(&from.dims), offset_bytes: 0, ..from.clone() };
        let reason = format!("{executor} leaves it as a view with strides {:?}", from.strides);
        self.record_copy(name, bytes, "copy::region_view", reason);
        self.step(Step::Copy { from, to: dense });
        Ok(())
    }

    fn number_step(&mut self, bsym: &Bsym) {
        if let Some(how @ HostOp::Number(_)) = ops::find(&bsym.op).and_then(|op| op.host) {
            let args = bsym.args.iter().map(|a| self.number(a)).collect();
            let results = bsym.defined().collect();
            self.step(Step::Number { op: how, args, results, name: bsym.op.clone() });
        }
    }

    fn statement(&mut self, at: usize, bsym: &Bsym) -> Result<(), PlanError> {
        let who =
            bsym.who.as_ref().ok_or_else(|| PlanError::Trace(format!("`{}` has no executor", bsym.op)))?;
        if &*who.executor != HOST {
            return self.kernel(self.input.lowered.origins[at].layout, bsym, &who.executor);
        }
        let op = ops::find(&bsym.op)
            .ok_or_else(|| PlanError::Trace(format!("the host cannot run `{}`", bsym.op)))?;
        if op.is(ops::Traits::WRITES) {
            return self.write(bsym);
        }
        match op.host {
            // Views cost nothing: their strides are in the layouts.
            None => Ok(()),
            Some(HostOp::Check) => self.check(bsym),
            Some(HostOp::Item) => {
                let from = self.view(first_value(bsym)?)?;
                let result =
                    bsym.defined().next().ok_or_else(|| PlanError::Trace("item without a result".into()))?;
                self.step(Step::Item { from, result });
                Ok(())
            }
            Some(HostOp::Text) => Ok(()),
            Some(HostOp::Nested(_)) => self.nested(op, bsym),
            Some(how) => {
                let args = bsym.args.iter().map(|a| self.number(a)).collect();
                let results = bsym.defined().collect();
                self.step(Step::Number { op: how, args, results, name: bsym.op.clone() });
                Ok(())
            }
        }
    }

    fn kernel(&mut self, need: LayoutNeed, bsym: &Bsym, executor: &Name) -> Result<(), PlanError> {
        let maker = (self.input.executor)(executor)
            .ok_or_else(|| PlanError::NotLoaded { executor: executor.clone(), op: bsym.op.clone() })?;
        let mut spec = OpSpec::of(self.trace, bsym, self.input.schemas)?;
        self.known_sizes(&mut spec, bsym)?;
        let mut inputs = Vec::with_capacity(spec.inputs.len());
        for t in &mut spec.inputs {
            t.constant = (self.input.constant_of)(t.value);
            let mut view = self.view(t.value)?;
            if !fits(&view, need) {
                view = self.dense_copy(t.value, view, executor, need)?;
                t.constant = 0;
            }
            t.dims = view.dims.iter().copied().map(Dim::Known).collect();
            t.strides = Some(view.strides.clone());
            inputs.push(view);
        }
        let constant = self.input.constant;
        self.add_kernel(spec, inputs, executor, |spec| Ok(maker.make(spec, constant)?))
    }

    /// A kernel step, its outputs in memory of their own.
    fn add_kernel(
        &mut self,
        mut spec: OpSpec,
        inputs: Vec<View>,
        executor: &Name,
        make: impl FnOnce(&OpSpec) -> Result<Arc<dyn Kernel>, PlanError>,
    ) -> Result<(), PlanError> {
        let mut outputs = Vec::with_capacity(spec.outputs.len());
        for t in &mut spec.outputs {
            let view = self.own(t)?;
            t.strides = (!matches!(self.plan.buffers[view.buffer].place, Place::ByKernel))
                .then(|| view.strides.clone());
            if t.strides.is_some() {
                t.dims = view.dims.iter().copied().map(Dim::Known).collect();
            }
            outputs.push(view);
        }
        let kernel = make(&spec)?;
        let info = kernel.info();
        let workspace = (info.workspace_bytes > 0).then(|| {
            self.buffer(
                Place::Unplaced,
                info.workspace_bytes as u64,
                format!("workspace of {}", spec.origin).into(),
            )
        });
        let restrided = self.restrided_outputs(&mut outputs, &info.output_strides);
        self.step(Step::Kernel(KernelStep {
            executor: executor.clone(),
            spec,
            kernel,
            inputs,
            outputs,
            workspace,
            in_place: None,
            region: self.region,
        }));
        for (from, to) in restrided {
            let bytes = view_bytes(&to);
            let name = self.plan.buffers[to.buffer].name.clone();
            let reason = format!("{executor} writes strides {:?}", from.strides);
            self.record_copy(name, bytes, "copy::output_strides", reason);
            self.step(Step::Copy { from, to });
        }
        Ok(())
    }

    /// Outputs that the kernel writes in an order of its own go through a buffer of that order.
    fn restrided_outputs(&mut self, outputs: &mut [View], stated: &[(usize, Vec<i64>)]) -> Vec<(View, View)> {
        let mut copies = Vec::new();
        for (index, strides) in stated {
            let Some(out) = outputs.get_mut(*index) else { continue };
            if out.strides == *strides {
                continue;
            }
            let span: i64 = out.dims.iter().zip(strides).map(|(d, s)| (d - 1).max(0) * s).sum::<i64>() + 1;
            let bytes = span.max(0) as u64 * out.dtype.size_bytes() as u64;
            let name = self.plan.buffers[out.buffer].name.clone();
            let buffer = self.buffer(Place::Unplaced, bytes, name);
            let own = View { buffer, strides: strides.clone(), offset_bytes: 0, ..out.clone() };
            copies.push((own.clone(), std::mem::replace(out, own)));
        }
        copies
    }

    /// Sizes inside arguments that the claim left open.
    fn known_sizes(&self, spec: &mut OpSpec, bsym: &Bsym) -> Result<(), PlanError> {
        for (i, (name, arg)) in spec.args.iter_mut().enumerate() {
            let raw = bsym.args.get(i).or_else(|| bsym.named.iter().find(|(n, _)| n == name).map(|(_, a)| a));
            let Some(raw) = raw else { continue };
            match arg {
                SpecArg::Unknown => *arg = SpecArg::Int(self.size_of_arg(raw, bsym)?),
                SpecArg::Ints(ints) => {
                    let Arg::List(items) = raw else { continue };
                    for (slot, item) in ints.iter_mut().zip(items) {
                        if *slot == SpecInt::Unknown {
                            *slot = SpecInt::Known(self.size_of_arg(item, bsym)?);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn size_of_arg(&self, arg: &Arg, bsym: &Bsym) -> Result<i64, PlanError> {
        let dim = match arg {
            Arg::Int(n) => return Ok(*n),
            Arg::Dim(d) => d.clone(),
            Arg::Value(v) => match self.trace.ty(*v) {
                crate::ir::Type::Number(n) => n
                    .equals
                    .clone()
                    .ok_or_else(|| PlanError::Trace("a number in a slot was taken for a size".into()))?,
                crate::ir::Type::Tensor(_) => {
                    return Err(PlanError::Trace("a tensor was taken for a size".into()));
                }
            },
            _ => return Err(PlanError::Trace(format!("an argument of `{}` is no size", bsym.op))),
        };
        self.size(&dim, &origin(self.trace, bsym))
    }

    fn size(&self, dim: &Dim, value: &Name) -> Result<i64, PlanError> {
        dim.eval(self.input.sizes)
            .ok_or_else(|| PlanError::Unknown { value: value.clone(), dim: dim.to_string() })
    }

    fn sizes(&self, dims: &[Dim], value: ValueId) -> Result<Vec<i64>, PlanError> {
        let name = &self.trace.value(value).name;
        dims.iter().map(|d| self.size(d, name)).collect()
    }

    /// How a value lies in memory.
    fn view(&mut self, v: ValueId) -> Result<View, PlanError> {
        if let Some(earlier) = self.input.earlier.get(&v) {
            let buffer = self.earlier_buffer(v, earlier);
            return Ok(View { buffer, ..earlier.clone() });
        }
        let ty = self.trace.ty(v).tensor().cloned().ok_or_else(|| {
            PlanError::Trace(format!("%{} is a number where a tensor is wanted", self.trace.value(v).name))
        })?;
        let strided = self.input.lowered.layouts.of(self.trace, v);
        let dims = self.sizes(&ty.dims, v)?;
        let strides = self.sizes(&strided.strides, v)?;
        let elem = ty.dtype.size_bytes() as i64;
        let offset_elems = self.size(&strided.offset, &self.trace.value(v).name)?;
        let mut offset_bytes = offset_elems * elem;
        // A view of a value from an earlier segment may itself be first used here.
        let buffer = if let Some(earlier) = self.input.earlier.get(&strided.base) {
            offset_bytes += earlier.offset_bytes;
            self.earlier_buffer(strided.base, earlier)
        } else {
            self.base_buffer(strided.base)?
        };
        Ok(View { buffer, dtype: ty.dtype, dims, strides, offset_bytes })
    }

    fn earlier_buffer(&mut self, v: ValueId, view: &View) -> BufferId {
        if let Some(b) = self.buffer_of.get(&v) {
            return *b;
        }
        let name = self.trace.value(v).name.clone();
        let b = self.buffer(Place::Earlier(v), view_bytes(view), name);
        self.buffer_of.insert(v, b);
        b
    }

    /// The buffer of a value with memory of its own: made by a kernel before, or a parameter.
    fn base_buffer(&mut self, v: ValueId) -> Result<BufferId, PlanError> {
        if let Some(b) = self.buffer_of.get(&v) {
            return Ok(*b);
        }
        let name = self.trace.value(v).name.clone();
        let Some(&param) = self.params.get(&v) else {
            return Err(PlanError::Trace(format!("%{name} is used before anything makes it")));
        };
        let ty = self
            .trace
            .ty(v)
            .tensor()
            .cloned()
            .ok_or_else(|| PlanError::Trace(format!("%{name} is a number")))?;
        let dims = self.sizes(&ty.dims, v)?;
        let bytes = self.bytes_of(&dims, ty.dtype, v)?;
        let role = self.trace.params[param].role.kind;
        let from_user = matches!(role, RoleKind::Input | RoleKind::Inout | RoleKind::Cotangent);
        let b = self.buffer(Place::Param(param), bytes, name.clone());
        if !from_user || bytes > STAGED_BYTES {
            self.buffer_of.insert(v, b);
            return Ok(b);
        }
        let staged = self.buffer(Place::Unplaced, bytes, name);
        let view = |buffer| View {
            buffer,
            dtype: ty.dtype,
            dims: dims.clone(),
            strides: contiguous_strides(&dims),
            offset_bytes: 0,
        };
        let (from, to) = (view(b), view(staged));
        let stmt = self.stmt.take();
        self.step(Step::Copy { from, to });
        self.stmt = stmt;
        self.buffer_of.insert(v, staged);
        Ok(staged)
    }

    /// New memory for a kernel's result.
    fn own(&mut self, t: &TensorSpec) -> Result<View, PlanError> {
        let name = self.trace.value(t.value).name.clone();
        let known: Option<Vec<i64>> = t.dims.iter().map(|d| d.eval(self.input.sizes)).collect();
        let (place, dims, bytes) = match known {
            Some(dims) => {
                let bytes = self.bytes_of(&dims, t.dtype, t.value)?;
                (Place::Unplaced, dims, bytes)
            }
            // Its size is the kernel's to say.
            None => (Place::ByKernel, vec![0; t.dims.len()], 0),
        };
        let buffer = self.buffer(place, bytes, name);
        self.buffer_of.insert(t.value, buffer);
        Ok(View { buffer, dtype: t.dtype, strides: contiguous_strides(&dims), dims, offset_bytes: 0 })
    }

    /// A result made here whose size is the kernel's to say.
    fn sized_by_kernel(&self, v: ValueId) -> Option<View> {
        let buffer = *self.buffer_of.get(&v)?;
        let ty = self.trace.ty(v).tensor()?;
        let dims = vec![0; ty.dims.len()];
        (self.plan.buffers[buffer].place == Place::ByKernel).then(|| View {
            buffer,
            dtype: ty.dtype,
            strides: contiguous_strides(&dims),
            dims,
            offset_bytes: 0,
        })
    }

    fn bytes_of(&self, dims: &[i64], dtype: Dtype, v: ValueId) -> Result<u64, PlanError> {
        crate::memory::tensor::checked_numel(dims)
            .and_then(|n| n.checked_mul(dtype.size_bytes()))
            .filter(|n| *n < (1 << 46))
            .map(|n| n as u64)
            .ok_or_else(|| PlanError::Size {
                value: self.trace.value(v).name.clone(),
                dims: dims.to_vec(),
                dtype,
            })
    }

    fn dense_copy(
        &mut self,
        v: ValueId,
        from: View,
        executor: &Name,
        need: LayoutNeed,
    ) -> Result<View, PlanError> {
        if let Some(dense) = self.dense_of.get(&v) {
            return Ok(dense.clone());
        }
        let name = self.trace.value(v).name.clone();
        let bytes = self.bytes_of(&from.dims, from.dtype, v)?;
        let buffer = self.buffer(Place::Unplaced, bytes, name.clone());
        let to = View { buffer, strides: contiguous_strides(&from.dims), offset_bytes: 0, ..from.clone() };
        let want = match need {
            LayoutNeed::Rows => "rows of stride 1",
            _ => "contiguous tensors",
        };
        self.record_copy(
            name,
            bytes,
            "copy::layout",
            format!("{executor} takes {want}, strides are {:?}", from.strides),
        );
        self.step(Step::Copy { from, to: to.clone() });
        self.dense_of.insert(v, to.clone());
        Ok(to)
    }

    fn record_copy(&mut self, value: Name, bytes: u64, code: &'static str, reason: String) {
        self.plan.copies.push(CopyRecord { step: self.plan.steps.len(), value, bytes, code, reason });
    }

    fn write(&mut self, bsym: &Bsym) -> Result<(), PlanError> {
        let (Some(source), Some(target)) =
            (bsym.args.first().and_then(Arg::value), bsym.args.get(1).and_then(Arg::value))
        else {
            return Err(PlanError::Trace(format!("`{}` needs a value and a target", bsym.op)));
        };
        let Some(&param) = self.params.get(&target) else {
            return Err(PlanError::Trace(format!(
                "`{}` writes %{}, which is no parameter",
                bsym.op,
                self.trace.value(target).name
            )));
        };
        let mut from = self.view(source)?;
        // What is read from a parameter may be written by another write: it is kept as it is now.
        if matches!(self.plan.buffers[from.buffer].place, Place::Param(_)) {
            let name = self.trace.value(source).name.clone();
            let buffer = self.buffer(Place::Unplaced, view_bytes(&from), name);
            let to =
                View { buffer, strides: contiguous_strides(&from.dims), offset_bytes: 0, ..from.clone() };
            self.step(Step::Copy { from, to: to.clone() });
            from = to;
        }
        self.plan.writes.push(Write { param, from });
        Ok(())
    }

    fn check(&mut self, bsym: &Bsym) -> Result<(), PlanError> {
        let message = match bsym.args.get(1) {
            Some(Arg::Str(s)) => s.clone(),
            _ => "a check of the model failed".into(),
        };
        let condition = match bsym.args.first() {
            Some(Arg::Value(v)) if self.trace.ty(*v).tensor().is_some() => {
                CheckSource::Tensor(self.view(*v)?)
            }
            Some(a) => CheckSource::Number(self.number(a)),
            None => return Err(PlanError::Trace("a check without a condition".into())),
        };
        self.step(Step::Check { condition, message });
        Ok(())
    }

    /// Control flow: operands as they lie, results in memory of their own. What runs inside is planned when sizes and
    /// strides are known, by whoever runs it.
    fn nested(&mut self, op: &ops::Op, bsym: &Bsym) -> Result<(), PlanError> {
        let flow = ops::Flow::of(op, &bsym.args).ok_or_else(|| {
            PlanError::Trace(format!("the arguments of `{}` are not what it takes", bsym.op))
        })?;
        let mut operands = FxHashMap::default();
        let mut sizes = FxHashMap::default();
        let mut used = Vec::new();
        bsym.for_each_use(&mut |v| used.push(v));
        let mut known = |s: Symbol| {
            if let Some(n) = (self.input.sizes)(s) {
                sizes.insert(s, n);
            }
        };
        bsym.args.iter().for_each(|a| dims_of(a, &mut |d| d.for_each_symbol(&mut known)));
        for v in used.iter().copied().chain(bsym.defined()) {
            match self.trace.ty(v) {
                crate::ir::Type::Tensor(t) => t.dims.iter().for_each(|d| d.for_each_symbol(&mut known)),
                crate::ir::Type::Number(n) => n.equals.iter().for_each(|d| d.for_each_symbol(&mut known)),
            }
        }
        for v in used {
            if self.trace.ty(v).tensor().is_some() {
                let view = self.view(v)?;
                operands.insert(v, view);
            }
        }
        let numbers: Vec<(ValueId, NumberSource)> = {
            let mut all = Vec::new();
            bsym.for_each_use(&mut |v| {
                if self.trace.ty(v).tensor().is_none() {
                    all.push((v, self.number(&Arg::Value(v))));
                }
            });
            all
        };
        let mut results = Vec::with_capacity(bsym.results.len());
        for result in &bsym.results {
            results.push(match result {
                None => NestedResult::Absent,
                Some(v) => match self.trace.ty(*v).tensor() {
                    None => NestedResult::Number(*v),
                    Some(ty) => {
                        let spec = TensorSpec {
                            value: *v,
                            dtype: ty.dtype,
                            device: ty.device.clone(),
                            dims: ty.dims.clone(),
                            strides: None,
                            constant: 0,
                        };
                        NestedResult::Tensor(self.own(&spec)?)
                    }
                },
            });
        }
        let origin = origin(self.trace, bsym);
        self.step(Step::Nested(Box::new(NestedStep { flow, operands, numbers, results, sizes, origin })));
        Ok(())
    }

    fn number(&self, arg: &Arg) -> NumberSource {
        use super::Number;
        let known = |d: &Dim| d.eval(self.input.sizes).map(|n| NumberSource::Known(Number::Int(n)));
        match arg {
            Arg::Int(n) => NumberSource::Known(Number::Int(*n)),
            Arg::Float(x) => NumberSource::Known(Number::Float(*x)),
            Arg::Bool(b) => NumberSource::Known(Number::Bool(*b)),
            Arg::Dim(d) => known(d).unwrap_or_else(|| NumberSource::Other(arg.clone())),
            Arg::Value(v) => match self.trace.ty(*v) {
                crate::ir::Type::Number(n) => {
                    n.equals.as_ref().and_then(known).unwrap_or(NumberSource::Value(*v))
                }
                crate::ir::Type::Tensor(_) => NumberSource::Other(arg.clone()),
            },
            other => NumberSource::Other(other.clone()),
        }
    }

    /// What leaves the segment: outputs, and what later segments need.
    fn leave(&mut self) -> Result<(), PlanError> {
        let mut leaving: Vec<ValueId> = self.input.needed_later.to_vec();
        if self.input.last {
            leaving.extend(self.trace.outputs.iter().filter_map(|o| o.value.value()));
            // A parameter that the run does not write is held by reference.
            let by_reference = |v: &ValueId| {
                self.params.get(v).is_some_and(|p| !self.plan.writes.iter().any(|w| w.param == *p))
            };
            leaving.extend(self.trace.save.iter().filter(|v| !by_reference(v)));
        }
        leaving.retain(|v| self.trace.ty(*v).tensor().is_some());
        let mut taken: Vec<BufferId> = Vec::new();
        for v in leaving {
            if self.plan.results.contains_key(&v) {
                continue;
            }
            let view = match self.sized_by_kernel(v) {
                Some(view) => view,
                None => self.view(v)?,
            };
            let result = self.result(v, view, &mut taken)?;
            self.plan.results.insert(v, result);
        }
        Ok(())
    }

    /// A large dense result becomes an allocation of its own, which the kernel writes; anything else is copied out.
    fn result(&mut self, v: ValueId, view: View, taken: &mut Vec<BufferId>) -> Result<View, PlanError> {
        let buffer = &self.plan.buffers[view.buffer];
        let whole = view.offset_bytes == 0
            && is_contiguous(&view.dims, &view.strides)
            && view_bytes(&view) == buffer.bytes;
        let is_written_state = self.plan.writes.iter().any(|w| w.from.buffer == view.buffer);
        match buffer.place {
            Place::ByKernel if !taken.contains(&view.buffer) => {
                taken.push(view.buffer);
                return Ok(view);
            }
            Place::Unplaced
                if whole
                    && buffer.bytes > STAGED_BYTES
                    && !is_written_state
                    && !taken.contains(&view.buffer) =>
            {
                self.plan.buffers[view.buffer].place = Place::Fresh;
                taken.push(view.buffer);
                return Ok(view);
            }
            _ => {}
        }
        let name = self.trace.value(v).name.clone();
        let buffer = self.buffer(Place::Fresh, view_bytes(&view), name);
        let to = View { buffer, strides: contiguous_strides(&view.dims), offset_bytes: 0, ..view.clone() };
        self.step(Step::Copy { from: view, to: to.clone() });
        Ok(to)
    }

    fn buffer(&mut self, place: Place, bytes: u64, name: Name) -> BufferId {
        self.plan.buffers.push(BufferPlan { place, bytes, name, lifetime: UNTOUCHED });
        self.plan.buffers.len() - 1
    }

    fn step(&mut self, step: Step) {
        self.plan.steps.push(step);
        self.plan.step_stmts.push(self.stmt);
    }
}

fn dims_of(arg: &Arg, f: &mut dyn FnMut(&Dim)) {
    match arg {
        Arg::Dim(d) => f(d),
        Arg::List(items) => items.iter().for_each(|a| dims_of(a, f)),
        _ => {}
    }
}

fn first_value(bsym: &Bsym) -> Result<ValueId, PlanError> {
    bsym.args
        .first()
        .and_then(Arg::value)
        .ok_or_else(|| PlanError::Trace(format!("`{}` needs a tensor", bsym.op)))
}

/// Does the view satisfy the need?
fn fits(view: &View, need: LayoutNeed) -> bool {
    match need {
        LayoutNeed::Any => true,
        LayoutNeed::Contiguous => is_contiguous(&view.dims, &view.strides),
        LayoutNeed::Rows => match (view.dims.last(), view.strides.last()) {
            (Some(d), Some(s)) => *d <= 1 || *s == 1,
            _ => true,
        },
    }
}

/// Bytes of the view's elements, were they dense.
pub fn view_bytes(view: &View) -> u64 {
    view.dims.iter().map(|d| (*d).max(0) as u64).product::<u64>() * view.dtype.size_bytes() as u64
}

/// The lifetime of a buffer before any step has touched it: the first step takes the minimum and the maximum.
const UNTOUCHED: Range<usize> = Range { start: usize::MAX, end: 0 };

/// Lifetimes, in-place reuse and offsets.
fn place(plan: &mut Plan) {
    let n = plan.steps.len();
    let mut touched: Vec<Range<usize>> = vec![UNTOUCHED; plan.buffers.len()];
    for (at, step) in plan.steps.iter().enumerate() {
        for_each_buffer(step, &mut |b| {
            touched[b].start = touched[b].start.min(at);
            touched[b].end = at;
        });
    }
    for w in &plan.writes {
        touched[w.from.buffer].end = n;
    }
    for r in plan.results.values() {
        touched[r.buffer].end = n;
    }
    for (b, t) in plan.buffers.iter_mut().zip(&touched) {
        b.lifetime = t.clone();
    }
    let mut dying: Vec<Vec<BufferId>> = vec![Vec::new(); n + 1];
    let mut born: Vec<Vec<BufferId>> = vec![Vec::new(); n + 1];
    for (id, b) in plan.buffers.iter().enumerate() {
        if b.place == Place::Unplaced && b.lifetime.start != usize::MAX {
            born[b.lifetime.start].push(id);
            dying[b.lifetime.end].push(id);
        }
    }
    let mut arena = Arena::default();
    // Buffers that took over another's memory: freed in its stead.
    let mut handed_on = vec![false; plan.buffers.len()];
    for at in 0..n {
        let shared = in_place_pair(plan, at, &handed_on);
        if let (Some((out, inp)), Step::Kernel(k)) = (shared, &mut plan.steps[at]) {
            let (to, from) = (k.outputs[out].buffer, k.inputs[inp].buffer);
            k.in_place = Some((out, inp));
            plan.buffers[to].place = plan.buffers[from].place;
            // Sizes are equal, so freeing the new one frees exactly the old one's space.
            handed_on[from] = true;
        }
        for &id in &born[at] {
            if plan.buffers[id].place == Place::Unplaced {
                plan.buffers[id].place = Place::Arena(arena.allocate(plan.buffers[id].bytes));
            }
        }
        for &id in &dying[at] {
            if let (Place::Arena(offset), false) = (plan.buffers[id].place, handed_on[id]) {
                arena.free(offset, plan.buffers[id].bytes);
            }
        }
    }
    for b in &mut plan.buffers {
        // Never touched by a step: it needs no space, but a place.
        if b.place == Place::Unplaced {
            b.place = Place::Arena(0);
        }
    }
    plan.arena_bytes = arena.bytes();
    plan.peak_live_bytes = arena.peak_live();
}

/// An output that may take over the memory of an input which dies at this step: both whole, equal in strides and size.
fn in_place_pair(plan: &Plan, at: usize, handed_on: &[bool]) -> Option<(usize, usize)> {
    let Step::Kernel(k) = &plan.steps[at] else { return None };
    k.kernel.info().in_place.iter().copied().find(|&(out, inp)| {
        let (Some(o), Some(i)) = (k.outputs.get(out), k.inputs.get(inp)) else { return false };
        let (ob, ib) = (&plan.buffers[o.buffer], &plan.buffers[i.buffer]);
        let once = k.inputs.iter().filter(|x| x.buffer == i.buffer).count() == 1;
        once && ob.place == Place::Unplaced
            && matches!(ib.place, Place::Arena(_))
            && !handed_on[i.buffer]
            && ib.lifetime.end == at
            && ob.lifetime.start == at
            && ib.bytes == ob.bytes
            && (i.offset_bytes, &i.dims, &i.strides) == (o.offset_bytes, &o.dims, &o.strides)
            && i.dtype.size_bytes() == o.dtype.size_bytes()
    })
}

fn for_each_buffer(step: &Step, f: &mut dyn FnMut(BufferId)) {
    match step {
        Step::Kernel(k) => {
            k.inputs.iter().chain(&k.outputs).for_each(|v| f(v.buffer));
            k.workspace.into_iter().for_each(f);
        }
        Step::Copy { from, to } => {
            f(from.buffer);
            f(to.buffer);
        }
        Step::Item { from, .. } => f(from.buffer),
        Step::Check { condition: CheckSource::Tensor(v), .. } => f(v.buffer),
        Step::Check { .. } | Step::Number { .. } => {}
        Step::Nested(nested) => nested.operands.values().chain(nested.outputs()).for_each(|v| f(v.buffer)),
    }
}
