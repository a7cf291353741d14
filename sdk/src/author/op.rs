//! An op as `check` and `kernel` see it: a view of `OpDesc` in which everything was checked once.
//!
//! Invariant: an [`Op`] exists only where every pointer with its length, enum, text and index was found in order, so
//! its accessors index freely. It borrows the host's memory and cannot outlive the call.

use super::dtype::{Device, Dtype};
use super::error::{Error, ErrorKind};
use std::fmt;
use thunderhead_abi::basic::{Array, Items, Str, is_understood};
use thunderhead_abi::op::{self as raw, NO_SLOT, UNKNOWN_INT, arg_kind, desc_flags};
use thunderhead_abi::tensor::UNKNOWN;

/// One op.
#[derive(Clone, Copy)]
pub struct Op<'a> {
    name: &'a str,
    origin: &'a str,
    args: Items<'a, raw::Arg>,
    inputs: Items<'a, raw::TensorDesc>,
    outputs: Items<'a, raw::TensorDesc>,
    numbers: Items<'a, raw::NumberDesc>,
}

/// A tensor as it is known before it has memory.
#[derive(Clone, Copy)]
pub struct TensorDesc<'a> {
    raw: &'a raw::TensorDesc,
    dtype: Dtype,
    dims: &'a [i64],
}

/// One argument.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ArgRef<'a> {
    /// Absent, or Python's `None`.
    None,
    /// A tensor, by its index among the inputs.
    Tensor(usize),
    /// Tensors, by their indices among the inputs; -1 for a gap.
    Tensors(&'a [i64]),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A bool.
    Bool(bool),
    /// Text.
    Str(&'a str),
    /// A complex number, real and imaginary part.
    Complex(f64, f64),
    /// An element type.
    Dtype(Dtype),
    /// A device.
    Device(Device),
    /// Integers.
    Ints(Ints<'a>),
    /// Floats.
    Floats(&'a [f64]),
    /// Bools, each 0 or 1.
    Bools(&'a [u8]),
    /// Lists of integers.
    Lists(Lists<'a>),
    /// A number known only at run, by its slot: `Call::number(slot)`.
    Slot(usize),
    /// Texts.
    Strs(Strs<'a>),
    /// In `check` only: an integer that is known before a kernel is made, and not now.
    Unknown,
}

/// A list of integers, some of which may be known only at run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ints<'a> {
    /// The values; `i64::MIN` where not known yet, or only at run.
    pub values: &'a [i64],
    slots: Option<&'a [u32]>,
}

impl<'a> Ints<'a> {
    /// The values, where all are known.
    pub fn known(&self) -> Option<&'a [i64]> {
        (!self.values.contains(&UNKNOWN_INT)).then_some(self.values)
    }

    /// The slot of element `idx`, where it is known only at run.
    pub fn slot(&self, idx: usize) -> Option<usize> {
        let slot = *self.slots?.get(idx)?;
        (slot != NO_SLOT).then_some(slot as usize)
    }
}

/// Lists of integers.
#[derive(Clone, Copy)]
pub struct Lists<'a>(Option<Items<'a, Array<i64>>>);

impl<'a> Lists<'a> {
    /// How many lists.
    pub fn len(&self) -> usize {
        self.0.map_or(0, |lists| lists.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The lists.
    pub fn iter(&self) -> impl Iterator<Item = &'a [i64]> + use<'a> {
        // SAFETY: `Op::read` has checked each list; it lives as long as the op.
        self.0
            .into_iter()
            .flat_map(|lists| lists.iter())
            .filter_map(|list| unsafe { list.items() }?.as_slice())
    }
}

impl fmt::Debug for Lists<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for Lists<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

/// Texts.
#[derive(Clone, Copy)]
pub struct Strs<'a>(Items<'a, Str>);

impl<'a> Strs<'a> {
    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The texts.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        // SAFETY: `Op::read` has checked each text; it lives as long as the op.
        self.0.iter().filter_map(|text| unsafe { text.text() })
    }
}

impl fmt::Debug for Strs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for Strs<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

/// A number that keeps its kind: `1`, `1.0` and `True` differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Python's `int`.
    Int(i64),
    /// Python's `float`.
    Float(f64),
    /// Python's `bool`.
    Bool(bool),
}

impl Number {
    /// As a float.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Int(value) => value as f64,
            Number::Float(value) => value,
            Number::Bool(value) => f64::from(u8::from(value)),
        }
    }

    /// As an integer; a float is cut towards zero.
    pub fn as_i64(self) -> i64 {
        match self {
            Number::Int(value) => value,
            Number::Float(value) => value as i64,
            Number::Bool(value) => i64::from(value),
        }
    }

    /// As a bool: anything but zero.
    pub fn as_bool(self) -> bool {
        match self {
            Number::Int(value) => value != 0,
            Number::Float(value) => value != 0.0,
            Number::Bool(value) => value,
        }
    }
}

/// What is known beforehand of a number known only at run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumberDesc {
    /// A value of the kind it will have.
    pub kind: NumberKind,
    /// Ints: least and greatest value.
    pub range: (i64, i64),
}

/// The kind of a [`Number`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    /// Python's `int`.
    Int,
    /// Python's `float`.
    Float,
    /// Python's `bool`.
    Bool,
}

impl NumberKind {
    pub(crate) fn from_code(kind: u32) -> Option<NumberKind> {
        match kind {
            arg_kind::INT => Some(NumberKind::Int),
            arg_kind::FLOAT => Some(NumberKind::Float),
            arg_kind::BOOL => Some(NumberKind::Bool),
            _ => None,
        }
    }
}

impl<'a> Op<'a> {
    /// Checks what the host says.
    ///
    /// # Safety
    /// `desc` must be filled in as `thunderhead-abi` asks; its pointers must be readable for `'a`.
    pub(crate) unsafe fn read(desc: &'a raw::OpDesc) -> Result<Op<'a>, Error> {
        // SAFETY: the host's struct has the bytes that it says.
        if !unsafe { is_understood(desc, desc.size) } {
            return Err(Error::version_of("OpDesc", desc.size, std::mem::size_of::<raw::OpDesc>()));
        }
        let bad = |what: &'static str| move || Error::invalid(what);
        // SAFETY: the caller vouches for the pointers.
        let name = unsafe { desc.name.text() }.ok_or_else(bad("the op's name is not text"))?;
        // SAFETY: as above.
        let origin = unsafe { desc.origin.text() }.ok_or_else(bad("the op's origin is not text"))?;
        // SAFETY: as above.
        let args = unsafe { desc.args.items() }.ok_or_else(bad("the op's arguments are malformed"))?;
        // SAFETY: as above.
        let inputs = unsafe { desc.inputs.items() }.ok_or_else(bad("the op's inputs are malformed"))?;
        // SAFETY: as above.
        let outputs = unsafe { desc.outputs.items() }.ok_or_else(bad("the op's outputs are malformed"))?;
        // SAFETY: as above.
        let numbers = unsafe { desc.numbers.items() }.ok_or_else(bad("the op's numbers are malformed"))?;
        let understood = args.are_understood()
            && inputs.are_understood()
            && outputs.are_understood()
            && numbers.are_understood();
        if !understood {
            return Err(Error::new(ErrorKind::Version, "the op says things that this SDK does not know"));
        }
        let op = Op { name, origin, args, inputs, outputs, numbers };
        for tensor in inputs.iter().chain(outputs.iter()) {
            // SAFETY: as above.
            unsafe { TensorDesc::read(tensor) }?;
        }
        for arg in args.iter() {
            // SAFETY: as above.
            unsafe { op.check_arg(arg) }?;
        }
        if numbers.iter().any(|number| NumberKind::from_code(number.kind).is_none()) {
            return Err(Error::invalid("a number is neither int, float nor bool"));
        }
        Ok(op)
    }

    /// # Safety
    /// As [`Op::read`].
    unsafe fn check_arg(&self, arg: &'a raw::Arg) -> Result<(), Error> {
        // SAFETY: passed on.
        let name =
            unsafe { arg.name.text() }.ok_or_else(|| Error::invalid("an argument's name is not text"))?;
        // SAFETY: passed on.
        let value = unsafe { read_arg(arg) }.ok_or_else(|| {
            Error::unsupported(format!(
                "argument `{name}` is of a kind ({}) or form not known here",
                arg.kind
            ))
        })?;
        let in_order = match value {
            ArgRef::Tensor(idx) => idx < self.inputs.len(),
            ArgRef::Tensors(list) => {
                list.iter().all(|idx| *idx == -1 || (*idx >= 0 && (*idx as u64) < self.inputs.len() as u64))
            }
            ArgRef::Slot(slot) => slot < self.numbers.len(),
            ArgRef::Ints(ints) => {
                (0..ints.values.len()).filter_map(|idx| ints.slot(idx)).all(|slot| slot < self.numbers.len())
            }
            ArgRef::Lists(lists) => lists.iter().count() == lists.len(),
            ArgRef::Strs(strs) => strs.iter().count() == strs.len(),
            _ => true,
        };
        if in_order {
            Ok(())
        } else {
            Err(Error::invalid(format!("argument `{name}` points outside the op")))
        }
    }

    /// As in traces: `torch.softmax`.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Where it stands in the program, for messages; may be empty.
    pub fn origin(&self) -> &'a str {
        self.origin
    }

    /// How many tensors go in.
    pub fn n_inputs(&self) -> usize {
        self.inputs.len()
    }

    /// How many tensors come out.
    pub fn n_outputs(&self) -> usize {
        self.outputs.len()
    }

    /// Input `idx`, in the order in which a run gets them. Panics past the end.
    pub fn input(&self, idx: usize) -> TensorDesc<'a> {
        let raw = self.inputs.get(idx).expect("the op has that many inputs");
        // SAFETY: `read` has checked it.
        unsafe { TensorDesc::read(raw) }.expect("checked when the op was read")
    }

    /// Output `idx`. Panics past the end.
    pub fn output(&self, idx: usize) -> TensorDesc<'a> {
        let raw = self.outputs.get(idx).expect("the op has that many outputs");
        // SAFETY: `read` has checked it.
        unsafe { TensorDesc::read(raw) }.expect("checked when the op was read")
    }

    /// All inputs.
    pub fn inputs(&self) -> impl Iterator<Item = TensorDesc<'a>> + use<'a> {
        let op = *self;
        (0..op.n_inputs()).map(move |idx| op.input(idx))
    }

    /// All outputs.
    pub fn outputs(&self) -> impl Iterator<Item = TensorDesc<'a>> + use<'a> {
        let op = *self;
        (0..op.n_outputs()).map(move |idx| op.output(idx))
    }

    /// What is known of the number in `slot`. Panics past the end.
    pub fn number_desc(&self, slot: usize) -> NumberDesc {
        number_desc(self.numbers.get(slot).expect("the op has that many numbers"))
            .expect("checked when the op was read")
    }

    /// How many numbers are known only at run.
    pub fn n_numbers(&self) -> usize {
        self.numbers.len()
    }

    /// The argument of that name in the op's schema; `None` where the schema has none.
    pub fn arg(&self, name: &str) -> Option<ArgRef<'a>> {
        self.args().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// All arguments, in the schema's order.
    pub fn args(&self) -> impl Iterator<Item = (&'a str, ArgRef<'a>)> + use<'a> {
        self.args.iter().filter_map(|arg| {
            // SAFETY: `read` has checked each.
            let name = unsafe { arg.name.text() }?;
            // SAFETY: as above.
            Some((name, unsafe { read_arg(arg) }?))
        })
    }

    /// Whether the argument is there and not `None`.
    pub fn has(&self, name: &str) -> bool {
        !matches!(self.arg(name), None | Some(ArgRef::None))
    }

    fn must<T>(&self, name: &str, wanted: &str, take: impl Fn(ArgRef<'a>) -> Option<T>) -> Result<T, Error> {
        let Some(found) = self.arg(name) else {
            return Err(Error::invalid(format!("`{}` has no argument `{name}`", self.name)));
        };
        take(found).ok_or_else(|| match found {
            ArgRef::Unknown => {
                Error::unsupported(format!("argument `{name}` is not known yet; expected {wanted}"))
            }
            ArgRef::Slot(_) => {
                Error::unsupported(format!("argument `{name}` is known only at run; expected {wanted}"))
            }
            _ => Error::invalid(format!("argument `{name}` is {found:?}; expected {wanted}")),
        })
    }

    /// An integer.
    pub fn int(&self, name: &str) -> Result<i64, Error> {
        self.must(name, "an int", |arg| match arg {
            ArgRef::Int(value) => Some(value),
            _ => None,
        })
    }

    /// A float; an integer is taken as one.
    pub fn float(&self, name: &str) -> Result<f64, Error> {
        self.must(name, "a float", |arg| match arg {
            ArgRef::Float(value) => Some(value),
            ArgRef::Int(value) => Some(value as f64),
            _ => None,
        })
    }

    /// An int, float or bool, with its kind.
    pub fn number(&self, name: &str) -> Result<Number, Error> {
        self.must(name, "a number", |arg| match arg {
            ArgRef::Int(value) => Some(Number::Int(value)),
            ArgRef::Float(value) => Some(Number::Float(value)),
            ArgRef::Bool(value) => Some(Number::Bool(value)),
            _ => None,
        })
    }

    /// A bool.
    pub fn bool(&self, name: &str) -> Result<bool, Error> {
        self.must(name, "a bool", |arg| match arg {
            ArgRef::Bool(value) => Some(value),
            _ => None,
        })
    }

    /// Text.
    pub fn str(&self, name: &str) -> Result<&'a str, Error> {
        self.must(name, "text", |arg| match arg {
            ArgRef::Str(value) => Some(value),
            _ => None,
        })
    }

    /// An element type.
    pub fn dtype(&self, name: &str) -> Result<Dtype, Error> {
        self.must(name, "a dtype", |arg| match arg {
            ArgRef::Dtype(value) => Some(value),
            _ => None,
        })
    }

    /// A device.
    pub fn device(&self, name: &str) -> Result<Device, Error> {
        self.must(name, "a device", |arg| match arg {
            ArgRef::Device(value) => Some(value),
            _ => None,
        })
    }

    /// Integers, all known.
    pub fn ints(&self, name: &str) -> Result<&'a [i64], Error> {
        self.must(name, "known ints", |arg| match arg {
            ArgRef::Ints(ints) => ints.known(),
            _ => None,
        })
    }

    /// Floats.
    pub fn floats(&self, name: &str) -> Result<&'a [f64], Error> {
        self.must(name, "floats", |arg| match arg {
            ArgRef::Floats(values) => Some(values),
            _ => None,
        })
    }

    /// Lists of integers.
    pub fn lists(&self, name: &str) -> Result<Lists<'a>, Error> {
        self.must(name, "lists of ints", |arg| match arg {
            ArgRef::Lists(lists) => Some(lists),
            // An empty list does not say of what.
            ArgRef::Ints(ints) if ints.values.is_empty() => Some(Lists(None)),
            _ => None,
        })
    }

    /// An integer, or `None` where absent.
    pub fn opt_int(&self, name: &str) -> Result<Option<i64>, Error> {
        if self.has(name) { self.int(name).map(Some) } else { Ok(None) }
    }

    /// A float, or `None` where absent.
    pub fn opt_float(&self, name: &str) -> Result<Option<f64>, Error> {
        if self.has(name) { self.float(name).map(Some) } else { Ok(None) }
    }

    /// A number, or `None` where absent.
    pub fn opt_number(&self, name: &str) -> Result<Option<Number>, Error> {
        if self.has(name) { self.number(name).map(Some) } else { Ok(None) }
    }

    /// A bool, or `None` where absent.
    pub fn opt_bool(&self, name: &str) -> Result<Option<bool>, Error> {
        if self.has(name) { self.bool(name).map(Some) } else { Ok(None) }
    }

    /// Text, or `None` where absent.
    pub fn opt_str(&self, name: &str) -> Result<Option<&'a str>, Error> {
        if self.has(name) { self.str(name).map(Some) } else { Ok(None) }
    }

    /// An element type, or `None` where absent.
    pub fn opt_dtype(&self, name: &str) -> Result<Option<Dtype>, Error> {
        if self.has(name) { self.dtype(name).map(Some) } else { Ok(None) }
    }

    /// Integers, or `None` where absent.
    pub fn opt_ints(&self, name: &str) -> Result<Option<&'a [i64]>, Error> {
        if self.has(name) { self.ints(name).map(Some) } else { Ok(None) }
    }

    /// The index of the tensor among the inputs, or `None` where absent.
    pub fn tensor(&self, name: &str) -> Option<usize> {
        match self.arg(name)? {
            ArgRef::Tensor(idx) => Some(idx),
            _ => None,
        }
    }

    /// The indices of the tensors among the inputs, `None` for a gap; empty where absent.
    pub fn tensors(&self, name: &str) -> Vec<Option<usize>> {
        match self.arg(name) {
            Some(ArgRef::Tensors(list)) => list.iter().map(|idx| usize::try_from(*idx).ok()).collect(),
            Some(ArgRef::Tensor(idx)) => vec![Some(idx)],
            _ => Vec::new(),
        }
    }

    /// The slot of a number known only at run, or `None` where the argument is known.
    pub fn slot(&self, name: &str) -> Option<usize> {
        match self.arg(name)? {
            ArgRef::Slot(slot) => Some(slot),
            _ => None,
        }
    }
}

impl fmt::Debug for Op<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Op")
            .field("name", &self.name)
            .field("args", &self.args().collect::<Vec<_>>())
            .field("inputs", &self.inputs().collect::<Vec<_>>())
            .field("outputs", &self.outputs().collect::<Vec<_>>())
            .finish()
    }
}

impl<'a> TensorDesc<'a> {
    /// # Safety
    /// `raw`'s pointers must be null or readable for `'a`.
    pub(crate) unsafe fn read(raw: &'a raw::TensorDesc) -> Result<TensorDesc<'a>, Error> {
        let dtype = Dtype::from_code(raw.dtype)
            .ok_or_else(|| Error::unsupported(format!("dtype {} is not known here", raw.dtype)))?;
        // SAFETY: `rank` dims by the caller's word.
        let dims = unsafe { ints(raw.dims, raw.rank) }
            .ok_or_else(|| Error::invalid("a tensor's dims are missing"))?;
        if dims.iter().any(|dim| *dim < UNKNOWN) {
            return Err(Error::invalid(format!("a tensor has dims {dims:?}")));
        }
        Ok(TensorDesc { raw, dtype, dims })
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Where it lives.
    pub fn device(&self) -> Device {
        Device { kind: self.raw.device_kind, index: self.raw.device_index }
    }

    /// Its dims; -1 where not known yet (only in `check`, and for outputs that the kernel allocates).
    pub fn dims(&self) -> &'a [i64] {
        self.dims
    }

    /// Number of dims.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Least and greatest value of a dim: the dim itself where known.
    pub fn dim_range(&self, dim: usize) -> (i64, i64) {
        let known = self.dims[dim];
        if known != UNKNOWN {
            return (known, known);
        }
        // SAFETY: null, or `rank` values, as the host has filled it in.
        let lo = unsafe { ints(self.raw.dims_lo, self.raw.rank) };
        // SAFETY: as above.
        let hi = unsafe { ints(self.raw.dims_hi, self.raw.rank) };
        (lo.map_or(0, |lo| lo[dim]), hi.map_or(i64::MAX, |hi| hi[dim]))
    }

    /// Whether all dims are known.
    pub fn is_known(&self) -> bool {
        self.dims.iter().all(|dim| *dim != UNKNOWN)
    }

    /// Strides in elements; `None` where not known (always in `check`).
    pub fn strides(&self) -> Option<&'a [i64]> {
        if self.raw.strides.is_null() && self.raw.rank > 0 {
            return None;
        }
        // SAFETY: `rank` values where not null, as the host has filled it in.
        unsafe { ints(self.raw.strides, self.raw.rank) }
    }

    /// Whether it is dense row-major, as far as known.
    pub fn is_contiguous(&self) -> bool {
        self.raw.flags & desc_flags::CONTIGUOUS != 0
    }

    /// Number of elements, where all dims are known.
    pub fn numel(&self) -> Option<usize> {
        if !self.is_known() {
            return None;
        }
        self.dims.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim as usize))
    }

    /// Id and version, for a parameter, buffer or constant.
    pub fn constant(&self) -> Option<(u64, u64)> {
        (self.raw.constant_id != 0).then_some((self.raw.constant_id, self.raw.constant_version))
    }

    /// The bytes of a dense constant, when a kernel is made.
    pub fn data(&self) -> Option<&'a [u8]> {
        let bytes = self.numel()?.checked_mul(self.dtype.size_bytes())?;
        if self.raw.data.is_null() || !self.is_contiguous() {
            return None;
        }
        // SAFETY: dense, so its elements are these bytes; readable during the call that `'a` stands for.
        Some(unsafe { std::slice::from_raw_parts(self.raw.data, bytes) })
    }
}

impl fmt::Debug for TensorDesc<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.dims)
    }
}

/// What is known of a number; `None` for a kind that there is not.
pub(crate) fn number_desc(raw: &raw::NumberDesc) -> Option<NumberDesc> {
    Some(NumberDesc { kind: NumberKind::from_code(raw.kind)?, range: (raw.lo, raw.hi) })
}

/// # Safety
/// `ptr` is null or has `len` values that are readable for `'a`.
pub(crate) unsafe fn ints<'a>(ptr: *const i64, len: u32) -> Option<&'a [i64]> {
    if len == 0 {
        return Some(&[]);
    }
    // SAFETY: not null, `len` values by the caller's word.
    (!ptr.is_null()).then(|| unsafe { std::slice::from_raw_parts(ptr, len as usize) })
}

/// # Safety
/// The list of `arg`, if any, has the elements that its kind says, readable for `'a`.
unsafe fn list<'a, T>(arg: &raw::Arg) -> Option<Items<'a, T>> {
    let array =
        Array { ptr: arg.list.cast::<T>(), len: arg.list_len, stride_bytes: std::mem::size_of::<T>() as u64 };
    // SAFETY: passed on.
    unsafe { array.items() }
}

/// # Safety
/// As [`list`], and the same for the text.
unsafe fn read_arg<'a>(arg: &'a raw::Arg) -> Option<ArgRef<'a>> {
    let as_bool = |value: u64| (value <= 1).then_some(value == 1);
    Some(match arg.kind {
        arg_kind::NONE => ArgRef::None,
        arg_kind::TENSOR => ArgRef::Tensor(usize::try_from(arg.value).ok()?),
        // SAFETY: passed on.
        arg_kind::TENSORS => ArgRef::Tensors(unsafe { list(arg) }?.as_slice()?),
        arg_kind::INT => ArgRef::Int(arg.value as i64),
        arg_kind::FLOAT => ArgRef::Float(f64::from_bits(arg.value)),
        arg_kind::BOOL => ArgRef::Bool(as_bool(arg.value)?),
        // SAFETY: as above.
        arg_kind::STR => ArgRef::Str(unsafe { arg.text.text() }?),
        arg_kind::COMPLEX => ArgRef::Complex(f64::from_bits(arg.value), f64::from_bits(arg.imag)),
        arg_kind::DTYPE => ArgRef::Dtype(Dtype::from_code(u32::try_from(arg.value).ok()?)?),
        arg_kind::DEVICE => ArgRef::Device(Device {
            kind: u32::try_from(arg.value).ok()?,
            index: u32::try_from(arg.imag).ok()?,
        }),
        arg_kind::INTS => {
            // SAFETY: as above.
            let values: &[i64] = unsafe { list(arg) }?.as_slice()?;
            let slots = (!arg.slots.is_null() && !values.is_empty()).then(|| {
                // SAFETY: one slot an element, where there are slots.
                unsafe { std::slice::from_raw_parts(arg.slots, values.len()) }
            });
            ArgRef::Ints(Ints { values, slots })
        }
        // SAFETY: as above.
        arg_kind::FLOATS => ArgRef::Floats(unsafe { list(arg) }?.as_slice()?),
        arg_kind::BOOLS => {
            // SAFETY: as above.
            let values: &[u8] = unsafe { list(arg) }?.as_slice()?;
            values.iter().all(|value| *value <= 1).then_some(ArgRef::Bools(values))?
        }
        // SAFETY: as above.
        arg_kind::LISTS => ArgRef::Lists(Lists(Some(unsafe { list(arg) }?))),
        arg_kind::NUMBER => ArgRef::Slot(usize::try_from(arg.value).ok()?),
        // SAFETY: as above.
        arg_kind::STRS => ArgRef::Strs(Strs(unsafe { list(arg) }?)),
        arg_kind::UNKNOWN => ArgRef::Unknown,
        _ => return None,
    })
}
