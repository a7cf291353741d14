//! A loaded kernel, and its arguments bound.
//!
//! Invariant: a kernel holds its executor's instance and is freed before that goes; a bound object holds its kernel
//! and is unbound first. After a panic neither happens.

use super::guard;
use super::instance::Instance;
use super::services::{self, Allocated, Run};
use crate::claim::{OpSpec, TensorSpec};
use crate::ir::{Dtype, Name};
use crate::memory::{Operand, Tensor};
use crate::plan::{Bound, Fault, FaultKind, Io, Kernel, KernelInfo, Number, RunContext};
use std::cell::RefCell;
use std::sync::Arc;
use thunderhead_abi::basic::{Array, Handle};
use thunderhead_abi::bind_1::{BindArgs, BindV1};
use thunderhead_abi::kernel_1::{self, RunArgs};
use thunderhead_abi::op::arg_kind;
use thunderhead_abi::tensor::{TensorView, UNKNOWN, view_flags};

/// What an operand of the op must be.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    pub dtype: Dtype,
    /// None: the kernel decides.
    pub dims: Option<Vec<i64>>,
    pub rank: usize,
}

impl Expected {
    pub fn of(tensor: &TensorSpec) -> Expected {
        let dims = tensor.dims.iter().map(|dim| dim.known()).collect();
        Expected { dtype: tensor.dtype, dims, rank: tensor.dims.len() }
    }
}

/// A kernel of a plugin.
pub(super) struct LoadedKernel {
    instance: Arc<Instance>,
    handle: Handle,
    op: Name,
    origin: Name,
    info: KernelInfo,
    outputs: Vec<Expected>,
}

// SAFETY: `run` and `bind` may overlap, `free` comes last; see the ABI.
unsafe impl Send for LoadedKernel {}
// SAFETY: as above.
unsafe impl Sync for LoadedKernel {}

impl LoadedKernel {
    pub fn new(
        instance: Arc<Instance>,
        op: &OpSpec,
        handle: Handle,
        info: KernelInfo,
        outputs: Vec<Expected>,
    ) -> LoadedKernel {
        LoadedKernel { instance, handle, op: op.op.clone(), origin: op.origin.clone(), info, outputs }
    }

    /// Leaves the kernel to the plugin: it is not freed here.
    pub fn give_back(mut self) {
        self.handle = std::ptr::null_mut();
    }

    /// Asks how much scratch it needs.
    pub fn ask_workspace(&mut self, threads: usize) -> Result<(), Fault> {
        let Some(table) = self.instance.tables.workspace else { return Ok(()) };
        let mut bytes = 0;
        services::forget_said();
        // SAFETY: the kernel is alive; `bytes` is writable during the call.
        let answer = unsafe { (table.bytes)(self.handle, threads as u32, &mut bytes) };
        self.instance.judge(answer).map_err(|(kind, message)| self.fault(kind, message))?;
        self.info.workspace_bytes =
            guard::workspace_bytes(bytes).map_err(|why| self.fault(FaultKind::BadAnswer, why))?;
        Ok(())
    }

    fn fault(&self, kind: FaultKind, message: impl Into<String>) -> Fault {
        self.instance.who.fault(&self.op, &self.origin, kind, message)
    }

    fn quarantine_fault(&self) -> Fault {
        self.instance.quarantine_fault(&self.op, &self.origin)
    }
}

impl Drop for LoadedKernel {
    fn drop(&mut self) {
        if !self.instance.is_quarantined() && !self.handle.is_null() {
            // SAFETY: alive, nothing is bound to it (that would hold it), and used for the last time.
            let answer = unsafe { (self.instance.tables.kernel.free)(self.handle) };
            let _ = self.instance.judge(answer);
        }
    }
}

impl Kernel for LoadedKernel {
    fn info(&self) -> &KernelInfo {
        &self.info
    }

    fn bind(self: Arc<Self>, io: &Io) -> Result<Box<dyn Bound>, Fault> {
        if self.instance.is_quarantined() {
            return Err(self.quarantine_fault());
        }
        let mut bound = LoadedBound::new(self, io);
        bound.bind()?;
        Ok(Box::new(bound))
    }
}

/// A kernel with its arguments.
struct LoadedBound {
    kernel: Arc<LoadedKernel>,
    /// Present where the plugin has `bind/1`.
    table: Option<&'static BindV1>,
    /// What the plugin keeps; null: nothing.
    bound: Handle,
    /// Whether an argument moved since `bound` was made.
    stale: bool,
    inputs: Vec<TensorView>,
    outputs: Vec<TensorView>,
    numbers: Vec<kernel_1::Number>,
    workspace: (*mut u8, u64),
    threads: u32,
    allocated: Vec<Option<Tensor>>,
    /// What the views point into.
    held_inputs: Vec<Operand>,
    held_outputs: Vec<Option<Operand>>,
    _workspace: Option<Operand>,
    _unknown_dims: Vec<Vec<i64>>,
}

// SAFETY: used by one run at a time; views point into operands that it holds.
unsafe impl Send for LoadedBound {}

impl LoadedBound {
    fn new(kernel: Arc<LoadedKernel>, io: &Io) -> LoadedBound {
        let held_inputs: Vec<Operand> = io.inputs.iter().map(|(_, operand)| operand.clone()).collect();
        let held_outputs: Vec<Option<Operand>> =
            io.outputs.iter().map(|(_, operand)| operand.clone()).collect();
        let inputs = io.inputs.iter().zip(&held_inputs).enumerate().map(|(idx, ((dtype, _), operand))| {
            let (id, version) = io.constants.get(idx).copied().unwrap_or((0, 0));
            let view = view_of(*dtype, operand);
            let flags = view.flags | view_flags::READ_ONLY;
            TensorView { flags, constant_id: id, constant_version: version, ..view }
        });
        let inputs = inputs.collect();
        let mut unknown_dims: Vec<Vec<i64>> = Vec::new();
        let outputs =
            io.outputs.iter().zip(&held_outputs).enumerate().map(
                |(idx, ((dtype, _), operand))| match operand {
                    Some(operand) => view_of(*dtype, operand),
                    None => {
                        unknown_dims
                            .push(vec![UNKNOWN; kernel.outputs.get(idx).map_or(0, |output| output.rank)]);
                        let dims = unknown_dims.last().map_or(&[][..], |dims| &dims[..]);
                        view(*dtype, std::ptr::null_mut(), dims, None)
                    }
                },
            );
        let outputs: Vec<TensorView> = outputs.collect();
        let workspace = io.workspace.as_ref();
        let workspace_view = workspace.map_or((std::ptr::null_mut(), 0), |operand| {
            (operand.addr(), (operand.numel() * operand.elem_bytes()) as u64)
        });
        LoadedBound {
            table: kernel.instance.tables.bind,
            kernel,
            bound: std::ptr::null_mut(),
            stale: false,
            allocated: vec![None; outputs.len()],
            inputs,
            outputs,
            numbers: vec![kernel_1::Number { kind: arg_kind::INT, reserved: 0, value: 0 }; io.n_numbers],
            workspace: workspace_view,
            threads: 0,
            held_inputs,
            held_outputs,
            _workspace: workspace.cloned(),
            _unknown_dims: unknown_dims,
        }
    }

    fn bind(&mut self) -> Result<(), Fault> {
        self.stale = false;
        let Some(table) = self.table else { return Ok(()) };
        let args = BindArgs {
            size: std::mem::size_of::<BindArgs>() as u64,
            inputs: Array::new(&self.inputs),
            outputs: Array::new(&self.outputs),
            workspace: self.workspace.0,
            workspace_bytes: self.workspace.1,
            threads: self.threads,
            reserved: 0,
        };
        let mut bound: Handle = std::ptr::null_mut();
        services::forget_said();
        // SAFETY: the kernel is alive; the arguments are readable and `bound` writable during the call.
        let answer = unsafe { (table.bind)(self.kernel.handle, &args, &mut bound) };
        let judged = self.kernel.instance.judge(answer);
        judged.map_err(|(kind, message)| self.kernel.fault(kind, message))?;
        self.bound = bound;
        if bound.is_null() {
            // It keeps nothing, so nothing gets stale: it is not asked again.
            self.table = None;
        }
        Ok(())
    }

    fn unbind(&mut self) -> Result<(), Fault> {
        let bound = std::mem::replace(&mut self.bound, std::ptr::null_mut());
        let Some(table) = self.table.filter(|_| !bound.is_null()) else { return Ok(()) };
        if self.kernel.instance.is_quarantined() {
            return Err(self.kernel.quarantine_fault());
        }
        // SAFETY: alive, not in use, and used for the last time.
        let answer = unsafe { (table.unbind)(bound) };
        let judged = self.kernel.instance.judge(answer);
        judged.map_err(|(kind, message)| self.kernel.fault(kind, message))
    }

    /// What a run left behind, once it answered OK.
    fn settle(&mut self, allocated: Vec<Allocated>, bad_request: Option<String>) -> Result<(), Fault> {
        if let Some(why) = bad_request {
            return Err(self.kernel.fault(FaultKind::BadAnswer, why));
        }
        for given in allocated {
            let output = given.output;
            if let Some(slot) = self.allocated.get_mut(output) {
                *slot = Some(given.into_tensor());
            }
        }
        let missing = self
            .held_outputs
            .iter()
            .zip(&self.allocated)
            .position(|(had, got)| had.is_none() && got.is_none());
        match missing {
            Some(output) => {
                let why =
                    format!("it answered OK and asked no memory for output {output}, whose size it decides");
                Err(self.kernel.fault(FaultKind::BadAnswer, why))
            }
            None => Ok(()),
        }
    }

    /// A failed run, in words.
    #[cold]
    fn failed(&self, answer: u32, bad_request: Option<String>) -> Fault {
        match self.kernel.instance.judge(answer) {
            Err((FaultKind::Panic, message)) => self.kernel.fault(FaultKind::Panic, message),
            Err((kind, message)) => {
                let message = bad_request.map_or(message.clone(), |why| format!("{message}; {why}"));
                self.kernel.fault(kind, message)
            }
            Ok(()) => self.kernel.fault(FaultKind::Internal, "an answer that was OK was taken for none"),
        }
    }
}

impl Drop for LoadedBound {
    fn drop(&mut self) {
        // A fault here has nobody left to concern; a panic has quarantined the executor.
        let _ = self.unbind();
    }
}

impl Bound for LoadedBound {
    fn set_input(&mut self, index: usize, operand: &Operand, version: u64) {
        let (Some(view), Some(held)) = (self.inputs.get_mut(index), self.held_inputs.get_mut(index)) else {
            return;
        };
        self.stale |= view.data != operand.addr() || view.constant_version != version;
        *held = operand.clone();
        view.data = address(held);
        view.dims = held.dims().as_ptr();
        view.strides = held.strides_elems().as_ptr();
        view.constant_version = version;
    }

    fn set_output(&mut self, index: usize, operand: &Operand) {
        let (Some(view), Some(held)) = (self.outputs.get_mut(index), self.held_outputs.get_mut(index)) else {
            return;
        };
        self.stale |= view.data != operand.addr();
        let held = held.insert(operand.clone());
        view.data = address(held);
        view.dims = held.dims().as_ptr();
        view.strides = held.strides_elems().as_ptr();
    }

    fn set_number(&mut self, slot: usize, number: Number) {
        if let Some(to) = self.numbers.get_mut(slot) {
            (to.kind, to.value) = match number {
                Number::Int(value) => (arg_kind::INT, value as u64),
                Number::Float(value) => (arg_kind::FLOAT, value.to_bits()),
                Number::Bool(value) => (arg_kind::BOOL, u64::from(value)),
            };
        }
    }

    fn run(&mut self, context: &RunContext<'_>) -> Result<(), Fault> {
        if self.kernel.instance.is_quarantined() {
            return Err(self.kernel.quarantine_fault());
        }
        self.threads = context.threads as u32;
        if self.stale {
            self.unbind()?;
            self.bind()?;
        }
        let run = Run {
            context,
            outputs: &self.kernel.outputs,
            allocated: RefCell::new(Vec::new()),
            bad_request: RefCell::new(None),
        };
        let args = RunArgs {
            size: std::mem::size_of::<RunArgs>() as u64,
            inputs: Array::new(&self.inputs),
            outputs: Array::new(&self.outputs),
            numbers: Array::new(&self.numbers),
            workspace: self.workspace.0,
            workspace_bytes: self.workspace.1,
            threads: self.threads,
            reserved: 0,
            run: std::ptr::from_ref(&run).cast_mut().cast(),
        };
        let answer = match self.table.filter(|_| !self.bound.is_null()) {
            // SAFETY: bound to these tensors, used by this run alone; the arguments are readable during the call.
            Some(table) => unsafe { (table.run)(self.bound, &args) },
            // SAFETY: the kernel is alive; the arguments are readable during the call.
            None => unsafe { (self.kernel.instance.tables.kernel.run)(self.kernel.handle, &args) },
        };
        let (allocated, bad_request) = (run.allocated.into_inner(), run.bad_request.into_inner());
        if answer != 0 {
            return Err(self.failed(answer, bad_request));
        }
        // A call beside this one may have panicked: then this run fails, too.
        if self.kernel.instance.is_quarantined() {
            return Err(self.kernel.quarantine_fault());
        }
        self.settle(allocated, bad_request)
    }

    fn take_allocated(&mut self, index: usize) -> Option<Tensor> {
        self.allocated.get_mut(index)?.take()
    }
}

/// An empty tensor's memory need not be anywhere; all others' is where the operand says.
fn address(operand: &Operand) -> *mut u8 {
    operand.addr()
}

fn view_of(dtype: Dtype, operand: &Operand) -> TensorView {
    let mut view = view(dtype, address(operand), operand.dims(), Some(operand.strides_elems()));
    if operand.is_contiguous() {
        view.flags |= view_flags::CONTIGUOUS;
    }
    view
}

fn view(dtype: Dtype, data: *mut u8, dims: &[i64], strides: Option<&[i64]>) -> TensorView {
    TensorView {
        data,
        byte_offset: 0,
        dtype: super::desc::dtype_to_abi(dtype),
        device_kind: thunderhead_abi::dtype::DEVICE_CPU,
        device_index: 0,
        rank: dims.len() as u32,
        dims: dims.as_ptr(),
        strides: strides.map_or(std::ptr::null(), <[i64]>::as_ptr),
        flags: 0,
        constant_id: 0,
        constant_version: 0,
        owner: std::ptr::null_mut(),
        retain: None,
        release: None,
    }
}
