//! A region over the border: its description, and what a plugin may ask and say while it lowers one.
//!
//! Invariant: what was handed out during a call of `compile/1` stays where it is until the call returns: descriptions live in
//! boxes that are only added to. Nothing that a plugin says is used before [`Lowering`] or the guard has looked at it.

use super::desc::{ConstantOf, Desc, kind_to_abi};
use super::guard;
use super::instance::Instance;
use super::kernel::{Expected, LoadedKernel};
use crate::claim::OpSpec;
use crate::ir::{Dtype, Name};
use crate::lower::{HostPart, Lowering, Parts, Refused, RegionOp, RegionSpec};
use crate::plan::{Fault, FaultKind, Kernel};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::Arc;
use thunderhead_abi::basic::{Array, Handle, Status, Str, is_understood, status};
use thunderhead_abi::lower_1::KernelStep;
use thunderhead_abi::op as raw_op;
use thunderhead_abi::region::{self as raw, region_op_flags, value_flags};
use thunderhead_abi::region_1::TakeProposal;

/// What a description points at. Never changes once it is made.
struct Held {
    _tensors: Box<[raw_op::TensorDesc]>,
    _descs: Vec<Desc<'static>>,
    _op_descs: Box<[raw_op::OpDesc]>,
    _lists: Vec<Box<[u32]>>,
    numbers: Box<[raw_op::NumberDesc]>,
    values: Box<[raw::RegionValue]>,
    ops: Box<[raw::RegionOp]>,
    /// What the descriptions borrow from. Declared last, so that it goes last.
    _region: Box<(Vec<OpSpec>, OpSpec)>,
}

impl Held {
    /// Describes values and ops of `region`, from the given numbers on.
    fn new(region: &RegionSpec, values: &[u32], ops: &[RegionOp], constant: Option<ConstantOf<'_>>) -> Held {
        // Descriptions borrow: from copies that live as long as they do.
        let tensors = OpSpec {
            op: "".into(),
            origin: "".into(),
            args: Vec::new(),
            inputs: values.iter().map(|v| region.values[*v as usize].tensor.clone()).collect(),
            outputs: Vec::new(),
            slots: Vec::new(),
        };
        let specs = Box::new((ops.iter().map(|op| op.spec.clone()).collect::<Vec<_>>(), tensors));
        // SAFETY: the box is never moved out of nor changed, and is dropped after what borrows from it.
        let (op_specs, tensors) = unsafe { (&*std::ptr::from_ref(&specs.0), &*std::ptr::from_ref(&specs.1)) };
        let of_tensors = Desc::new(tensors, constant);
        let tensors: Box<[raw_op::TensorDesc]> = of_tensors.input_descs().into();
        let raw_values: Box<[raw::RegionValue]> = values
            .iter()
            .zip(&tensors)
            .map(|(v, tensor)| {
                let value = &region.values[*v as usize];
                let mut flags = 0;
                flags |= if value.is_input { value_flags::INPUT } else { 0 };
                flags |= if value.is_output { value_flags::OUTPUT } else { 0 };
                flags |= if value.base != *v { value_flags::VIEW } else { 0 };
                raw::RegionValue {
                    tensor,
                    base: value.base,
                    reserved: 0,
                    offset_elems: value.offset_elems,
                    flags,
                }
            })
            .collect();
        let number = |(_, kind): &(_, _)| raw_op::NumberDesc {
            kind: kind_to_abi(*kind),
            reserved: 0,
            lo: i64::MIN,
            hi: i64::MAX,
        };
        let numbers: Box<[raw_op::NumberDesc]> = region.numbers.iter().map(number).collect();
        let mut descs: Vec<Desc<'static>> = op_specs.iter().map(|spec| Desc::new(spec, constant)).collect();
        let op_descs: Box<[raw_op::OpDesc]> =
            descs.iter().map(|desc| raw_op::OpDesc { numbers: Array::new(&numbers), ..desc.raw() }).collect();
        let mut lists: Vec<Box<[u32]>> = Vec::with_capacity(ops.len() * 2);
        let raw_ops = ops
            .iter()
            .zip(&op_descs)
            .map(|(op, desc)| {
                lists.push(op.inputs.clone().into());
                lists.push(op.outputs.clone().into());
                let mut flags = match op.host {
                    HostPart::No => 0,
                    HostPart::View => region_op_flags::VIEW,
                    HostPart::Number => region_op_flags::NUMBER,
                };
                if op.host == HostPart::No && op.is_composite() {
                    flags |= region_op_flags::COMPOSITE;
                }
                raw::RegionOp {
                    op: desc,
                    inputs: Array::new(&lists[lists.len() - 2]),
                    outputs: Array::new(&lists[lists.len() - 1]),
                    flags,
                }
            })
            .collect();
        descs.push(of_tensors);
        Held {
            _tensors: tensors,
            _descs: descs,
            _op_descs: op_descs,
            _lists: lists,
            numbers,
            values: raw_values,
            ops: raw_ops,
            _region: specs,
        }
    }
}

/// A region in its form for the border.
pub(super) struct RegionText {
    held: Held,
    name: Name,
    inputs: Vec<u32>,
    outputs: Vec<u32>,
}

impl RegionText {
    pub fn new(region: &RegionSpec, constant: Option<ConstantOf<'_>>) -> RegionText {
        let values: Vec<u32> = (0..region.values.len() as u32).collect();
        let held = Held::new(region, &values, &region.ops, constant);
        let (inputs, outputs) = (region.inputs.clone(), region.outputs.clone());
        RegionText { held, name: region.name.clone(), inputs, outputs }
    }

    /// The description; good as long as `self`.
    pub fn raw(&self) -> raw::RegionDesc {
        raw::RegionDesc {
            size: std::mem::size_of::<raw::RegionDesc>() as u64,
            name: Str::new(&self.name),
            values: Array::new(&self.held.values),
            ops: Array::new(&self.held.ops),
            inputs: Array::new(&self.inputs),
            outputs: Array::new(&self.outputs),
            numbers: Array::new(&self.held.numbers),
        }
    }
}

/// What a `lowering` handle points at; lives as long as the call.
pub(super) struct LoweringCall<'a, 'b, 'c> {
    inner: RefCell<Inner<'a, 'b, 'c>>,
}

struct Inner<'a, 'b, 'c> {
    lowering: &'a mut Lowering<'b, 'c, Arc<dyn Kernel>>,
    instance: Arc<Instance>,
    constant: ConstantOf<'a>,
    threads: usize,
    /// By op: what `decompose` has given.
    blocks: FxHashMap<u32, Box<Block>>,
    /// Names that `taker` has given.
    names: Vec<Name>,
    /// A fault that came up while a kernel was looked at.
    fault: Option<Fault>,
}

struct Block {
    _held: Held,
    _yields: Box<[u32]>,
    raw: raw::BlockDesc,
}

impl<'a, 'b, 'c> LoweringCall<'a, 'b, 'c> {
    pub fn new(
        lowering: &'a mut Lowering<'b, 'c, Arc<dyn Kernel>>,
        instance: Arc<Instance>,
        constant: ConstantOf<'a>,
        threads: usize,
    ) -> LoweringCall<'a, 'b, 'c> {
        let (blocks, names, fault) = (FxHashMap::default(), Vec::new(), None);
        LoweringCall {
            inner: RefCell::new(Inner { lowering, instance, constant, threads, blocks, names, fault }),
        }
    }

    pub fn handle(&self) -> Handle {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// A fault that came up during the call.
    pub fn into_fault(self) -> Option<Fault> {
        self.inner.into_inner().fault
    }
}

/// Runs `f` on the call behind `lowering`; a call inside a call is the plugin's fault.
///
/// # Safety
/// `lowering` is null, or a handle within the call that it was handed to.
unsafe fn with(lowering: Handle, f: impl FnOnce(&mut Inner<'_, '_, '_>) -> Result<(), Status>) -> Status {
    if lowering.is_null() {
        return status::INVALID_ARGUMENT;
    }
    // SAFETY: by the caller's word.
    let call = unsafe { &*lowering.cast::<LoweringCall<'_, '_, '_>>() };
    let Ok(mut inner) = call.inner.try_borrow_mut() else { return status::INTERNAL };
    match f(&mut inner) {
        Ok(()) => status::OK,
        Err(status) => status,
    }
}

fn status_of(refused: Refused) -> Status {
    match refused {
        Refused::Wrong(_) => status::INVALID_ARGUMENT,
        Refused::Unsupported(_) => status::UNSUPPORTED,
    }
}

pub(super) unsafe extern "C" fn decompose(
    lowering: Handle,
    op: u32,
    out: *mut *const raw::BlockDesc,
) -> Status {
    let give = |inner: &mut Inner<'_, '_, '_>| {
        let raw: *const raw::BlockDesc = match inner.blocks.get(&op) {
            Some(block) => &raw const block.raw,
            None => {
                let parts = inner.lowering.decompose(op).map_err(status_of)?;
                let block = Box::new(block_of(inner.lowering.region(), &parts, inner.constant));
                let raw = &raw const block.raw;
                inner.blocks.insert(op, block);
                raw
            }
        };
        // SAFETY: writable during the call by the table's contract.
        unsafe { out.write(raw) };
        Ok(())
    };
    // SAFETY: the plugin passes its handle on.
    unsafe { with(lowering, give) }
}

fn block_of(region: &RegionSpec, parts: &Parts, constant: ConstantOf<'_>) -> Block {
    let values: Vec<u32> = parts.values.clone().collect();
    let ops = &region.ops[parts.ops.start as usize..parts.ops.end as usize];
    let held = Held::new(region, &values, ops, Some(constant));
    let yields: Box<[u32]> = parts.yields.clone().into();
    let raw = raw::BlockDesc {
        size: std::mem::size_of::<raw::BlockDesc>() as u64,
        first_op: parts.ops.start,
        first_value: parts.values.start,
        ops: Array::new(&held.ops),
        values: Array::new(&held.values),
        yields: Array::new(&yields),
        numbers: Array::new(&held.numbers),
    };
    Block { _held: held, _yields: yields, raw }
}

pub(super) unsafe extern "C" fn taker(lowering: Handle, op: u32, out: *mut Str) -> Status {
    let give = |inner: &mut Inner<'_, '_, '_>| {
        let name = inner.lowering.taker(op).map_err(status_of)?;
        inner.names.push(name);
        let text = inner.names.last().map_or(Str::EMPTY, |name| Str::new(name));
        // SAFETY: writable during the call by the table's contract; the name is kept until `lower` returns.
        unsafe { out.write(text) };
        Ok(())
    };
    // SAFETY: the plugin passes its handle on.
    unsafe { with(lowering, give) }
}

pub(super) unsafe extern "C" fn temporary(
    lowering: Handle,
    dtype: u32,
    dims: *const i64,
    rank: u32,
    value: *mut u32,
) -> Status {
    let give = |inner: &mut Inner<'_, '_, '_>| {
        // SAFETY: `rank` dims, readable during the call.
        let dims = unsafe { super::services::ints(dims, rank) };
        let known = Dtype::ALL.into_iter().find(|d| super::desc::dtype_to_abi(*d) == dtype);
        let (Some(dims), Some(known)) = (dims, known) else {
            let wrong =
                inner.lowering.wrong(format!("it wants a temporary of dtype {dtype} and rank {rank}"));
            return Err(status_of(wrong));
        };
        let number = inner.lowering.temporary(known, dims).map_err(status_of)?;
        // SAFETY: writable during the call by the table's contract.
        unsafe { value.write(number) };
        Ok(())
    };
    // SAFETY: the plugin passes its handle on.
    unsafe { with(lowering, give) }
}

pub(super) unsafe extern "C" fn kernel_step(lowering: Handle, step: *const KernelStep) -> Status {
    // SAFETY: the plugin passes its handle on.
    unsafe { with(lowering, |inner| take_step(inner, step)) }
}

fn take_step(inner: &mut Inner<'_, '_, '_>, step: *const KernelStep) -> Result<(), Status> {
    let malformed = |inner: &mut Inner<'_, '_, '_>, what: &str| {
        status_of(inner.lowering.wrong(format!("it gives a step that is malformed: {what}")))
    };
    if step.is_null() {
        return Err(malformed(inner, "null"));
    }
    // SAFETY: readable during the call by the table's contract.
    let raw = unsafe { &*step };
    // SAFETY: the plugin's struct has the bytes that it says.
    if !unsafe { is_understood(step, raw.size) } {
        return Err(malformed(inner, "its size"));
    }
    // SAFETY: readable during the call.
    let (inputs, outputs) = unsafe { (numbers_of(&raw.inputs), numbers_of(&raw.outputs)) };
    // SAFETY: as above.
    let slots = unsafe { numbers_of(&raw.numbers) };
    // SAFETY: as above.
    let name = unsafe { raw.name.text() };
    let (Some(inputs), Some(outputs), Some(slots), Some(name)) = (inputs, outputs, slots, name) else {
        return Err(malformed(inner, "its lists"));
    };
    let name: String = name.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
    let name = if name.is_empty() { inner.lowering.region().name.to_string() } else { name };
    if raw.info.is_null() {
        return Err(malformed(inner, "no kernel"));
    }
    // SAFETY: readable during the call.
    let info = unsafe { &*raw.info };
    let (reads, writes) = inner.lowering.operands(inputs, outputs, slots, &name).map_err(status_of)?;
    let expected: Vec<Expected> = reads.iter().map(Expected::of).collect();
    let written: Vec<Expected> = writes.iter().map(Expected::of).collect();
    // SAFETY: the plugin has just filled it in; its kernel is alive.
    let checked = unsafe { guard::kernel_info(info, &expected, &written) };
    let checked = match checked {
        Ok(checked) => checked,
        Err(why) => return Err(status_of(inner.lowering.wrong(format!("step `{name}`: {why}")))),
    };
    let spec = OpSpec {
        op: inner.lowering.region().name.clone(),
        origin: name.as_str().into(),
        args: Vec::new(),
        inputs: reads,
        outputs: writes,
        slots: Vec::new(),
    };
    let mut kernel = LoadedKernel::new(inner.instance.clone(), &spec, info.kernel, checked, written);
    if let Err(fault) = kernel.ask_workspace(inner.threads) {
        inner.fault = Some(fault);
        // The kernel is the plugin's again.
        kernel.give_back();
        return Err(status::INTERNAL);
    }
    inner.lowering.kernel_step(&name, inputs, outputs, slots, Arc::new(kernel));
    Ok(())
}

/// A name longer than this is a mistake.
const MAX_NAME: usize = 256;

/// # Safety
/// The elements are readable for `'a`.
unsafe fn numbers_of<'a>(array: &Array<u32>) -> Option<&'a [u32]> {
    // SAFETY: by the caller's word.
    unsafe { array.items() }.and_then(|items| items.as_slice())
}

pub(super) unsafe extern "C" fn delegate(lowering: Handle, op: u32) -> Status {
    // SAFETY: the plugin passes its handle on.
    unsafe { with(lowering, |inner| inner.lowering.delegate(op).map_err(status_of)) }
}

/// Takes proposals: `to` points at the list.
pub(super) fn take_proposal() -> TakeProposal {
    TakeProposal { call: take }
}

unsafe extern "C" fn take(to: *mut c_void, ops: Array<u32>) -> Status {
    // SAFETY: ours, within the call that it was passed to.
    let lists = unsafe { &mut *to.cast::<Vec<Vec<u32>>>() };
    // SAFETY: readable during the call.
    match unsafe { numbers_of(&ops) } {
        Some(ops) => {
            lists.push(ops.to_vec());
            status::OK
        }
        None => status::INVALID_ARGUMENT,
    }
}

/// The fault behind what a lowering answered.
pub(super) fn fault_of(instance: &Instance, region: &RegionSpec, found: (FaultKind, String)) -> Fault {
    let first = region.ops.iter().find(|op| op.host == HostPart::No);
    let op = match (&first, region.name.is_empty()) {
        (Some(op), true) => op.spec.op.clone(),
        _ => region.name.clone(),
    };
    let origin = first.map_or_else(|| region.name.clone(), |op| op.spec.origin.clone());
    instance.who.fault(&op, &origin, found.0, found.1)
}
