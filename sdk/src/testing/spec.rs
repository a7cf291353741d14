//! An op as a test writes it, and its form for the border.

use super::tensor::Tensor;
use crate::{Device, Dtype, Number};
use std::ffi::c_void;
use thunderhead_abi::basic::{Array, Str};
use thunderhead_abi::dtype::DEVICE_CPU;
use thunderhead_abi::kernel_1;
use thunderhead_abi::op::{self as raw, arg_kind, desc_flags};
use thunderhead_abi::tensor::UNKNOWN;

/// The value of an argument.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Arg {
    /// Absent, or `None`.
    None,
    /// A tensor, by its index among the inputs.
    Tensor(usize),
    /// Tensors, by their indices among the inputs, with gaps.
    Tensors(Vec<Option<usize>>),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A bool.
    Bool(bool),
    /// Text.
    Str(String),
    /// A complex number.
    Complex(f64, f64),
    /// An element type.
    Dtype(Dtype),
    /// A device.
    Device(Device),
    /// Integers.
    Ints(Vec<i64>),
    /// Floats.
    Floats(Vec<f64>),
    /// Bools.
    Bools(Vec<bool>),
    /// Lists of integers.
    Lists(Vec<Vec<i64>>),
    /// A number known only at run, by its slot.
    Slot(usize),
}

/// An output as a test expects it.
#[derive(Clone, Debug)]
pub struct OutputSpec {
    /// Its dtype.
    pub dtype: Dtype,
    /// Its dims; -1 where the kernel decides.
    pub dims: Vec<i64>,
}

/// An op with its tensors.
#[derive(Clone, Debug)]
pub struct OpSpec {
    pub(super) name: String,
    pub(super) args: Vec<(String, Arg)>,
    pub(super) inputs: Vec<Tensor>,
    pub(super) outputs: Vec<OutputSpec>,
    pub(super) numbers: Vec<Number>,
}

macro_rules! plain_args {
    ($($(#[$doc:meta])* $name:ident($value:ty) = $build:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(self, name: &str, value: $value) -> OpSpec {
            let build: fn($value) -> Arg = $build;
            self.arg(name, build(value))
        }
    )*};
}

impl OpSpec {
    /// An op without arguments yet; add them in the schema's order, all of them.
    pub fn new(name: &str) -> OpSpec {
        OpSpec { name: name.to_owned(), args: vec![], inputs: vec![], outputs: vec![], numbers: vec![] }
    }

    /// Adds any argument.
    pub fn arg(mut self, name: &str, value: Arg) -> OpSpec {
        self.args.push((name.to_owned(), value));
        self
    }

    /// Adds a tensor argument.
    pub fn tensor(mut self, name: &str, value: Tensor) -> OpSpec {
        self.inputs.push(value);
        let idx = self.inputs.len() - 1;
        self.arg(name, Arg::Tensor(idx))
    }

    /// Adds a list of tensors, `None` for a gap.
    pub fn tensors(mut self, name: &str, values: Vec<Option<Tensor>>) -> OpSpec {
        let mut indices = Vec::new();
        for value in values {
            indices.push(value.map(|tensor| {
                self.inputs.push(tensor);
                self.inputs.len() - 1
            }));
        }
        self.arg(name, Arg::Tensors(indices))
    }

    /// Adds a number known only at run; `value` is what the run gets.
    pub fn slot(mut self, name: &str, value: Number) -> OpSpec {
        self.numbers.push(value);
        let slot = self.numbers.len() - 1;
        self.arg(name, Arg::Slot(slot))
    }

    plain_args! {
        /// Adds an integer.
        int(i64) = Arg::Int;
        /// Adds a float.
        float(f64) = Arg::Float;
        /// Adds a bool.
        bool(bool) = Arg::Bool;
        /// Adds a text.
        str(&str) = |text| Arg::Str(text.to_owned());
        /// Adds an element type.
        dtype(Dtype) = Arg::Dtype;
        /// Adds integers.
        ints(&[i64]) = |values| Arg::Ints(values.to_vec());
        /// Adds floats.
        floats(&[f64]) = |values| Arg::Floats(values.to_vec());
    }

    /// Adds an argument that is absent.
    pub fn none(self, name: &str) -> OpSpec {
        self.arg(name, Arg::None)
    }

    /// Adds an output; a dim of -1 is for the kernel to decide.
    pub fn output(mut self, dtype: Dtype, dims: &[i64]) -> OpSpec {
        self.outputs.push(OutputSpec { dtype, dims: dims.to_vec() });
        self
    }

    /// The inputs, to be looked at or exchanged.
    pub fn inputs_mut(&mut self) -> &mut Vec<Tensor> {
        &mut self.inputs
    }

    pub(super) fn raw_numbers(&self) -> Vec<kernel_1::Number> {
        self.numbers
            .iter()
            .map(|number| {
                let (kind, value) = number_to_abi(*number);
                kernel_1::Number { kind, reserved: 0, value }
            })
            .collect()
    }
}

fn number_to_abi(number: Number) -> (u32, u64) {
    match number {
        Number::Int(value) => (arg_kind::INT, value as u64),
        Number::Float(value) => (arg_kind::FLOAT, value.to_bits()),
        Number::Bool(value) => (arg_kind::BOOL, u64::from(value)),
    }
}

/// What is known of the op at the border.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// Strides and data are not known.
    Check,
    /// They are.
    Make,
}

/// Owns what an `OpDesc` points at.
pub(super) struct Desc<'a> {
    name: &'a str,
    args: Vec<raw::Arg>,
    inputs: Vec<raw::TensorDesc>,
    outputs: Vec<raw::TensorDesc>,
    numbers: Vec<raw::NumberDesc>,
    _lists: Vec<Kept>,
    _strides: Vec<Vec<i64>>,
}

/// What argument lists point at.
enum Kept {
    Ints(#[allow(dead_code)] Vec<i64>),
    Bools(#[allow(dead_code)] Vec<u8>),
    Arrays(#[allow(dead_code)] Vec<Array<i64>>),
}

impl<'a> Desc<'a> {
    pub fn new(spec: &'a OpSpec, when: When) -> Desc<'a> {
        let mut lists = Vec::new();
        let args = spec.args.iter().map(|(name, arg)| arg_to_abi(name, arg, &mut lists)).collect();
        let mut strides = Vec::new();
        let inputs = spec.inputs.iter().map(|tensor| input_to_abi(tensor, when)).collect();
        let outputs = spec.outputs.iter().map(|output| output_to_abi(output, when, &mut strides)).collect();
        let numbers = spec
            .numbers
            .iter()
            .map(|number| raw::NumberDesc {
                kind: number_to_abi(*number).0,
                reserved: 0,
                lo: i64::MIN,
                hi: i64::MAX,
            })
            .collect();
        Desc { name: &spec.name, args, inputs, outputs, numbers, _lists: lists, _strides: strides }
    }

    pub fn raw(&self) -> raw::OpDesc {
        raw::OpDesc {
            size: std::mem::size_of::<raw::OpDesc>() as u64,
            name: Str::new(self.name),
            origin: Str::new("test"),
            args: Array::new(&self.args),
            inputs: Array::new(&self.inputs),
            outputs: Array::new(&self.outputs),
            numbers: Array::new(&self.numbers),
        }
    }
}

fn input_to_abi(tensor: &Tensor, when: When) -> raw::TensorDesc {
    let known = when == When::Make;
    let view = tensor.raw();
    let constant = if tensor.constant.is_some() { desc_flags::CONSTANT } else { 0 };
    raw::TensorDesc {
        dtype: view.dtype,
        device_kind: view.device_kind,
        device_index: 0,
        rank: view.rank,
        dims: view.dims,
        dims_lo: std::ptr::null(),
        dims_hi: std::ptr::null(),
        strides: if known { view.strides } else { std::ptr::null() },
        flags: constant | if known { view.flags & desc_flags::CONTIGUOUS } else { 0 },
        constant_id: view.constant_id,
        constant_version: view.constant_version,
        data: if known && tensor.constant.is_some() { view.data } else { std::ptr::null() },
    }
}

fn output_to_abi(output: &OutputSpec, when: When, keep: &mut Vec<Vec<i64>>) -> raw::TensorDesc {
    let known = when == When::Make && !output.dims.contains(&UNKNOWN);
    keep.push(crate::dense_strides(&output.dims));
    let strides = keep.last().map_or(std::ptr::null(), |strides| strides.as_ptr());
    raw::TensorDesc {
        dtype: output.dtype.code(),
        device_kind: DEVICE_CPU,
        device_index: 0,
        rank: output.dims.len() as u32,
        dims: output.dims.as_ptr(),
        dims_lo: std::ptr::null(),
        dims_hi: std::ptr::null(),
        strides: if known { strides } else { std::ptr::null() },
        flags: if known { desc_flags::CONTIGUOUS } else { 0 },
        constant_id: 0,
        constant_version: 0,
        data: std::ptr::null(),
    }
}

fn arg_to_abi(name: &str, arg: &Arg, keep: &mut Vec<Kept>) -> raw::Arg {
    let mut out = raw::Arg {
        name: Str::new(name),
        kind: arg_kind::NONE,
        reserved: 0,
        value: 0,
        imag: 0,
        text: Str::EMPTY,
        list: std::ptr::null(),
        list_len: 0,
        slots: std::ptr::null(),
    };
    let mut list = |out: &mut raw::Arg, values: Vec<i64>| {
        (out.list, out.list_len) = (values.as_ptr().cast::<c_void>(), values.len() as u64);
        keep.push(Kept::Ints(values));
    };
    match arg {
        Arg::None => {}
        Arg::Tensor(idx) => (out.kind, out.value) = (arg_kind::TENSOR, *idx as u64),
        Arg::Tensors(indices) => {
            out.kind = arg_kind::TENSORS;
            list(&mut out, indices.iter().map(|idx| idx.map_or(-1, |idx| idx as i64)).collect());
        }
        Arg::Int(value) => (out.kind, out.value) = (arg_kind::INT, *value as u64),
        Arg::Float(value) => (out.kind, out.value) = (arg_kind::FLOAT, value.to_bits()),
        Arg::Bool(value) => (out.kind, out.value) = (arg_kind::BOOL, u64::from(*value)),
        Arg::Str(text) => (out.kind, out.text) = (arg_kind::STR, Str::new(text)),
        Arg::Complex(re, im) => {
            (out.kind, out.value, out.imag) = (arg_kind::COMPLEX, re.to_bits(), im.to_bits());
        }
        Arg::Dtype(dtype) => (out.kind, out.value) = (arg_kind::DTYPE, u64::from(dtype.code())),
        Arg::Device(device) => {
            (out.kind, out.value, out.imag) =
                (arg_kind::DEVICE, u64::from(device.kind), u64::from(device.index));
        }
        Arg::Ints(values) => {
            out.kind = arg_kind::INTS;
            list(&mut out, values.clone());
        }
        Arg::Floats(values) => {
            out.kind = arg_kind::FLOATS;
            (out.list, out.list_len) = (values.as_ptr().cast(), values.len() as u64);
        }
        Arg::Bools(values) => {
            let bytes: Vec<u8> = values.iter().map(|value| u8::from(*value)).collect();
            out.kind = arg_kind::BOOLS;
            (out.list, out.list_len) = (bytes.as_ptr().cast(), bytes.len() as u64);
            keep.push(Kept::Bools(bytes));
        }
        Arg::Lists(lists) => {
            let arrays: Vec<Array<i64>> = lists.iter().map(|list| Array::new(list)).collect();
            out.kind = arg_kind::LISTS;
            (out.list, out.list_len) = (arrays.as_ptr().cast(), arrays.len() as u64);
            keep.push(Kept::Arrays(arrays));
        }
        Arg::Slot(slot) => (out.kind, out.value) = (arg_kind::NUMBER, *slot as u64),
    }
    out
}
