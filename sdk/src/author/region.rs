//! What a fusion executor sees of a region, and the steps that it answers with.
//!
//! A region's tensors and ops are numbered ([`ValueId`], [`OpId`]). An op can be taken apart level by level
//! ([`Region::decomposition`]); parts and their tensors get the next numbers. [`Steps`] takes own kernels over any of these
//! tensors, and ops handed on to whoever runs them.
//!
//! Invariant: everything here was checked once, when it came over the border, and ends with the call.

use super::dtype::Dtype;
use super::error::{Error, ErrorKind};
use super::executor::Kernel;
use super::op::{NumberDesc, Op, TensorDesc, number_desc};
use super::services::Services;
use std::cell::RefCell;
use std::ops::Deref;
use std::sync::Arc;
use thunderhead_abi::basic::{Array, Handle, Items, Str, is_understood, status};
use thunderhead_abi::kernel_1::KernelInfo;
use thunderhead_abi::lower_1::{KernelStep, LowerV1};
use thunderhead_abi::op as raw_op;
use thunderhead_abi::region::{self as raw, region_op_flags, value_flags};

/// A tensor of a region, by number: 0, 1, …; what a decomposition or a temporary adds comes behind.
pub type ValueId = u32;
/// An op of a region, by number: 0, 1, …; parts of decompositions come behind.
pub type OpId = u32;

/// A region to be lowered.
pub struct Region<'a> {
    name: &'a str,
    values: RefCell<Vec<Value<'a>>>,
    ops: RefCell<Vec<RegionOp<'a>>>,
    n_ops: usize,
    inputs: &'a [ValueId],
    outputs: &'a [ValueId],
    numbers: RefCell<Items<'a, raw_op::NumberDesc>>,
    services: &'a Services,
    /// Null where only proposals are wanted.
    lowering: Handle,
}

/// A tensor of a region. Derefs to [`TensorDesc`]: dtype, dims, strides, constants.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    id: ValueId,
    raw: &'a raw::RegionValue,
    tensor: TensorDesc<'a>,
}

/// An op of a region or of a decomposition. Derefs to [`Op`]: name, arguments, tensors. The slots of its arguments are
/// those of the region ([`Region::number_desc`]).
#[derive(Clone, Copy)]
pub struct RegionOp<'a> {
    id: OpId,
    op: Op<'a>,
    inputs: &'a [ValueId],
    outputs: &'a [ValueId],
    flags: u64,
}

/// What an op decomposes into, one level down.
#[derive(Clone, Debug)]
pub struct Decomposition<'a> {
    /// The parts, in order.
    pub ops: Vec<RegionOp<'a>>,
    /// For each tensor result of the op, the value that stands for it: the result itself where a part makes it, else a
    /// value that the result is a copy of.
    pub yields: &'a [ValueId],
}

impl<'a> Deref for Value<'a> {
    type Target = TensorDesc<'a>;

    fn deref(&self) -> &TensorDesc<'a> {
        &self.tensor
    }
}

impl<'a> Value<'a> {
    /// Its number.
    pub fn id(&self) -> ValueId {
        self.id
    }

    /// Dtype, dims, strides, constant.
    pub fn desc(&self) -> TensorDesc<'a> {
        self.tensor
    }

    /// The value whose memory it lies in; itself where it is no view.
    pub fn base(&self) -> ValueId {
        self.raw.base
    }

    /// From the first element of the base to its own, in elements of its own dtype.
    pub fn offset_elems(&self) -> i64 {
        self.raw.offset_elems
    }

    /// A view of its base, which no step writes.
    pub fn is_view(&self) -> bool {
        self.raw.flags & value_flags::VIEW != 0
    }

    /// Made outside of the region.
    pub fn is_input(&self) -> bool {
        self.raw.flags & value_flags::INPUT != 0
    }

    /// Wanted outside of the region: its base must be written.
    pub fn is_output(&self) -> bool {
        self.raw.flags & value_flags::OUTPUT != 0
    }
}

impl std::fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "v{}: {:?}", self.id, self.tensor)
    }
}

impl<'a> Deref for RegionOp<'a> {
    type Target = Op<'a>;

    fn deref(&self) -> &Op<'a> {
        &self.op
    }
}

impl<'a> RegionOp<'a> {
    /// Its number.
    pub fn id(&self) -> OpId {
        self.id
    }

    /// Name, arguments, tensors.
    pub fn op(&self) -> Op<'a> {
        self.op
    }

    /// The values that go in, in the order of `Op::input`.
    pub fn input_values(&self) -> &'a [ValueId] {
        self.inputs
    }

    /// The values that come out, in the order of `Op::output`.
    pub fn output_values(&self) -> &'a [ValueId] {
        self.outputs
    }

    /// The value of the tensor argument of that name, `None` where absent.
    pub fn tensor_value(&self, name: &str) -> Option<ValueId> {
        self.inputs.get(self.op.tensor(name)?).copied()
    }

    /// Only a view, as strides stand: the host's, nothing has to be done for it.
    pub fn is_view(&self) -> bool {
        self.flags & region_op_flags::VIEW != 0
    }

    /// Works out numbers: the host's.
    pub fn is_number(&self) -> bool {
        self.flags & region_op_flags::NUMBER != 0
    }

    /// Has a decomposition.
    pub fn is_composite(&self) -> bool {
        self.flags & region_op_flags::COMPOSITE != 0
    }
}

impl std::fmt::Debug for RegionOp<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "op{}: {:?} -> {:?} = {:?}", self.id, self.inputs, self.outputs, self.op)
    }
}

impl<'a> Region<'a> {
    /// # Safety
    /// `desc` must be filled in as `thunderhead-abi` asks, and live for `'a`; `lowering` is null, or the handle that came
    /// with it.
    pub(crate) unsafe fn read(
        desc: &'a raw::RegionDesc,
        services: &'a Services,
        lowering: Handle,
    ) -> Result<Region<'a>, Error> {
        // SAFETY: the host's struct has the bytes that it says.
        if !unsafe { is_understood(desc, desc.size) } {
            let known = std::mem::size_of::<raw::RegionDesc>();
            return Err(Error::version_of("RegionDesc", desc.size, known));
        }
        // SAFETY: readable for `'a` by the caller's word, as all below.
        let name = unsafe { desc.name.text() }.ok_or_else(malformed)?;
        // SAFETY: as above.
        let (values, ops) = unsafe { (desc.values.items(), desc.ops.items()) };
        // SAFETY: as above.
        let (inputs, outputs) = unsafe { (ids(&desc.inputs)?, ids(&desc.outputs)?) };
        // SAFETY: as above.
        let numbers = unsafe { desc.numbers.items() }.ok_or_else(malformed)?;
        // SAFETY: as above.
        let values = unsafe { read_values(values.ok_or_else(malformed)?, 0) }?;
        // SAFETY: as above.
        let ops = unsafe { read_ops(ops.ok_or_else(malformed)?, 0, values.len()) }?;
        let known = |id: &&ValueId| (**id as usize) < values.len();
        if inputs.iter().chain(outputs).filter(known).count() != inputs.len() + outputs.len() {
            return Err(malformed());
        }
        let (n_ops, ops) = (ops.len(), RefCell::new(ops));
        let (values, numbers) = (RefCell::new(values), RefCell::new(numbers));
        Ok(Region { name, values, ops, n_ops, inputs, outputs, numbers, services, lowering })
    }

    /// `FullFusion0`; empty for a single op that another executor has handed on.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Its ops (parts of decompositions not among them), each behind those whose results it takes.
    pub fn ops(&self) -> Vec<RegionOp<'a>> {
        self.ops.borrow()[..self.n_ops].to_vec()
    }

    /// How many ops it has, parts of decompositions not counted.
    pub fn n_ops(&self) -> usize {
        self.n_ops
    }

    /// An op, or a part that some decomposition has given. Panics for a number that does not exist.
    pub fn op(&self, id: OpId) -> RegionOp<'a> {
        self.ops.borrow()[id as usize]
    }

    /// How many tensors are known: those of the region, and of all decompositions asked for.
    pub fn n_values(&self) -> usize {
        self.values.borrow().len()
    }

    /// A tensor. Panics for a number that does not exist, and for temporaries, which only [`Steps`] knows.
    pub fn value(&self, id: ValueId) -> Value<'a> {
        let values = self.values.borrow();
        let at = values.binary_search_by_key(&id, |value| value.id).expect("the region has that value");
        values[at]
    }

    /// Tensors made outside, each once.
    pub fn inputs(&self) -> &'a [ValueId] {
        self.inputs
    }

    /// Tensors wanted outside, each once. Some step must write the base of each.
    pub fn outputs(&self) -> &'a [ValueId] {
        self.outputs
    }

    /// How many numbers are known only at run.
    pub fn n_numbers(&self) -> usize {
        self.numbers.borrow().len()
    }

    /// What is known of the number in `slot`. Panics past the end.
    pub fn number_desc(&self, slot: usize) -> NumberDesc {
        number_desc(self.numbers.borrow().get(slot).expect("the region has that many numbers"))
            .expect("checked when the region was read")
    }

    /// What an op decomposes into, one level down; `None` for an op without a decomposition. Asking again gives the same.
    /// Only while the region is lowered.
    pub fn decomposition(&self, op: OpId) -> Result<Option<Decomposition<'a>>, Error> {
        let table = self.services.ir.filter(|_| !self.lowering.is_null());
        let Some(table) = table else { return Err(Error::unsupported("the host has no ir/1 here")) };
        let mut block: *const raw::BlockDesc = std::ptr::null();
        // SAFETY: the handle of this call; `block` is writable during the call.
        match unsafe { (table.decompose)(self.lowering, op, &mut block) } {
            status::OK if !block.is_null() => {}
            status::UNSUPPORTED => return Ok(None),
            other => {
                return Err(Error::new(
                    ErrorKind::from_status(other),
                    format!("op {op} cannot be taken apart"),
                ));
            }
        }
        // SAFETY: the host keeps it until `lower` returns.
        let block: &'a raw::BlockDesc = unsafe { &*block };
        // SAFETY: the host's struct has the bytes that it says.
        if !unsafe { is_understood(block, block.size) } {
            let known = std::mem::size_of::<raw::BlockDesc>();
            return Err(Error::version_of("BlockDesc", block.size, known));
        }
        self.add(block).map(Some)
    }

    fn add(&self, block: &'a raw::BlockDesc) -> Result<Decomposition<'a>, Error> {
        let mut values = self.values.borrow_mut();
        // SAFETY: readable until `lower` returns, which is what `'a` stands for; as all below.
        let new = unsafe { block.values.items() }.ok_or_else(malformed)?;
        // Numbers between are temporaries.
        if values.last().is_none_or(|last| last.id < block.first_value) {
            // SAFETY: as above.
            values.extend(unsafe { read_values(new, block.first_value) }?);
        }
        let end = values.last().map_or(0, |last| last.id as usize + 1);
        // SAFETY: as above.
        let parts = unsafe { block.ops.items() }.ok_or_else(malformed)?;
        let mut ops = self.ops.borrow_mut();
        if block.first_op as usize == ops.len() {
            // SAFETY: as above.
            ops.extend(unsafe { read_ops(parts, block.first_op, end) }?);
        }
        let range = block.first_op as usize..block.first_op as usize + parts.len();
        let parts = ops.get(range).ok_or_else(malformed)?.to_vec();
        // SAFETY: as above.
        let numbers = unsafe { block.numbers.items() }.ok_or_else(malformed)?;
        if numbers.iter().any(|number| number_desc(number).is_none()) {
            return Err(malformed());
        }
        if numbers.len() > self.numbers.borrow().len() {
            self.numbers.replace(numbers);
        }
        // SAFETY: as above.
        Ok(Decomposition { ops: parts, yields: unsafe { ids(&block.yields)? } })
    }

    /// Who would run the op (or part) if it were handed on; `None`: nobody. Only while the region is lowered.
    pub fn taker(&self, op: OpId) -> Result<Option<&'a str>, Error> {
        let table = self.services.ir.filter(|_| !self.lowering.is_null());
        let Some(table) = table else { return Err(Error::unsupported("the host has no ir/1 here")) };
        let mut name = Str::EMPTY;
        // SAFETY: the handle of this call; `name` is writable during the call.
        match unsafe { (table.taker)(self.lowering, op, &mut name) } {
            // SAFETY: lives until `lower` returns.
            status::OK => unsafe { name.text() }.map(Some).ok_or_else(malformed),
            status::UNSUPPORTED => Ok(None),
            other => {
                Err(Error::new(ErrorKind::from_status(other), format!("nobody can be asked for op {op}")))
            }
        }
    }
}

/// A step that is a kernel of the executor's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    name: String,
    inputs: Vec<ValueId>,
    outputs: Vec<ValueId>,
    numbers: Vec<u32>,
}

impl Step {
    /// A step that is called `name` in plans and profiles.
    pub fn new(name: impl Into<String>) -> Step {
        Step { name: name.into(), ..Step::default() }
    }

    /// What it reads, in the order of `Call::input`: any value or temporary, views too.
    pub fn inputs(mut self, inputs: impl IntoIterator<Item = ValueId>) -> Step {
        self.inputs.extend(inputs);
        self
    }

    /// What it writes, in the order of `Call::output`: no views, no inputs of the region.
    pub fn outputs(mut self, outputs: impl IntoIterator<Item = ValueId>) -> Step {
        self.outputs.extend(outputs);
        self
    }

    /// Slots of the region's numbers that it needs; `Call::number(0)` is the first of these.
    pub fn numbers(mut self, slots: impl IntoIterator<Item = usize>) -> Step {
        self.numbers.extend(slots.into_iter().map(|slot| slot as u32));
        self
    }
}

/// Takes the steps of a region. They may come in any order; the host sorts them by what they read and write.
pub struct Steps<'a> {
    table: &'static LowerV1,
    services: &'a Arc<Services>,
    lowering: Handle,
}

impl<'a> Steps<'a> {
    /// `lowering` is the handle of the call that is under way.
    pub(crate) fn new(services: &'a Arc<Services>, lowering: Handle) -> Result<Steps<'a>, Error> {
        let table = services.lower.ok_or_else(|| Error::unsupported("the host has no lower/1"))?;
        Ok(Steps { table, services, lowering })
    }

    /// A tensor that only this region's steps see: dense row-major, its memory the host's to plan.
    pub fn temporary(&mut self, dtype: Dtype, dims: &[i64]) -> Result<ValueId, Error> {
        let rank = u32::try_from(dims.len()).map_err(|_| Error::invalid("too many dims"))?;
        let mut value = 0;
        // SAFETY: the handle of this call; dims are readable and `value` writable during the call.
        let answer =
            unsafe { (self.table.temporary)(self.lowering, dtype.code(), dims.as_ptr(), rank, &mut value) };
        match answer {
            status::OK => Ok(value),
            other => {
                let message = format!("the host makes no temporary of {dtype}{dims:?}");
                Err(Error::new(ErrorKind::from_status(other), message))
            }
        }
    }

    /// One more step: an own kernel. Its workspace, in-place pairs and output strides are those of [`Kernel`], where the
    /// places in pairs and strides are those of the step's outputs and inputs.
    pub fn kernel(&mut self, step: &Step, kernel: impl Kernel + 'static) -> Result<(), Error> {
        self.boxed(step, Box::new(kernel))
    }

    /// As [`Steps::kernel`], for a kernel that is boxed already.
    pub fn boxed(&mut self, step: &Step, kernel: Box<dyn Kernel>) -> Result<(), Error> {
        let size = std::mem::size_of::<KernelInfo>() as u64;
        let info = super::border::describe_kernel(kernel, self.services.clone(), size);
        let raw = KernelStep {
            size: std::mem::size_of::<KernelStep>() as u64,
            name: Str::new(&step.name),
            inputs: Array::new(&step.inputs),
            outputs: Array::new(&step.outputs),
            numbers: Array::new(&step.numbers),
            info: &info,
        };
        // SAFETY: the handle of this call; the step and all that it points at are readable during the call.
        let answer = unsafe { (self.table.kernel_step)(self.lowering, &raw) };
        if answer == status::OK {
            return Ok(());
        }
        // SAFETY: just made, and the host has not taken it.
        unsafe { super::border::drop_kernel(info.kernel) };
        let message = format!("the host does not take the step `{}`", step.name);
        Err(Error::new(ErrorKind::from_status(answer), message))
    }

    /// One more step: the op (of the region or of a decomposition) as it stands, run by the next executor that takes it.
    pub fn delegate(&mut self, op: OpId) -> Result<(), Error> {
        // SAFETY: the handle of this call.
        match unsafe { (self.table.delegate)(self.lowering, op) } {
            status::OK => Ok(()),
            other => Err(Error::new(
                ErrorKind::from_status(other),
                format!("op {op} cannot be handed on to anybody"),
            )),
        }
    }
}

fn malformed() -> Error {
    Error::invalid("the region is malformed")
}

/// # Safety
/// The array's elements are readable for `'a`.
unsafe fn ids<'a>(array: &Array<u32>) -> Result<&'a [u32], Error> {
    // SAFETY: by the caller's word.
    unsafe { array.items() }.and_then(|items| items.as_slice()).ok_or_else(malformed)
}

/// # Safety
/// All that the elements point at is readable for `'a`.
unsafe fn read_values<'a>(
    values: Items<'a, raw::RegionValue>,
    first: ValueId,
) -> Result<Vec<Value<'a>>, Error> {
    if !values.are_understood() {
        return Err(malformed());
    }
    let end = first as usize + values.len();
    let read = |(at, raw): (usize, &'a raw::RegionValue)| {
        if raw.tensor.is_null() || raw.base as usize >= end {
            return Err(malformed());
        }
        // SAFETY: not null, readable by the caller's word.
        let tensor = unsafe { &*raw.tensor };
        // SAFETY: as above.
        Ok(Value { id: first + at as u32, raw, tensor: unsafe { TensorDesc::read(tensor) }? })
    };
    values.iter().enumerate().map(read).collect()
}

/// # Safety
/// All that the elements point at is readable for `'a`.
unsafe fn read_ops<'a>(
    ops: Items<'a, raw::RegionOp>,
    first: OpId,
    n_values: usize,
) -> Result<Vec<RegionOp<'a>>, Error> {
    if !ops.are_understood() {
        return Err(malformed());
    }
    let read = |(at, raw): (usize, &'a raw::RegionOp)| {
        if raw.op.is_null() {
            return Err(malformed());
        }
        // SAFETY: not null, readable by the caller's word.
        let op = unsafe { Op::read(&*raw.op) }?;
        // SAFETY: as above.
        let (inputs, outputs) = unsafe { (ids(&raw.inputs)?, ids(&raw.outputs)?) };
        let known = inputs.iter().chain(outputs).all(|id| (*id as usize) < n_values);
        if !known || inputs.len() != op.n_inputs() || outputs.len() != op.n_outputs() {
            return Err(malformed());
        }
        Ok(RegionOp { id: first + at as u32, op, inputs, outputs, flags: raw.flags })
    };
    ops.iter().enumerate().map(read).collect()
}
