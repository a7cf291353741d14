//! A question of the host in its form for the border.
//!
//! Invariant: a [`Desc`] owns or borrows everything that the `OpDesc` it gives points at.

use crate::claim::spec::SpecInt;
use crate::claim::{OpSpec, SpecArg, TensorSpec};
use crate::ir::{Device, Dtype, NumKind};
use crate::memory::operand::is_contiguous;
use crate::plan::Constant;
use std::ffi::c_void;
use thunderhead_abi::basic::{Array, Str};
use thunderhead_abi::dtype::{self as code, DEVICE_CPU, DeviceKind, DtypeCode};
use thunderhead_abi::op::{self as raw, NO_SLOT, UNKNOWN_INT, arg_kind, desc_flags};
use thunderhead_abi::tensor::UNKNOWN;

/// The code of a dtype.
pub(super) fn dtype_to_abi(dtype: Dtype) -> DtypeCode {
    match dtype {
        Dtype::Bool => code::BOOL,
        Dtype::U8 => code::U8,
        Dtype::I8 => code::I8,
        Dtype::I16 => code::I16,
        Dtype::I32 => code::I32,
        Dtype::I64 => code::I64,
        Dtype::F16 => code::F16,
        Dtype::Bf16 => code::BF16,
        Dtype::F32 => code::F32,
        Dtype::F64 => code::F64,
        Dtype::C64 => code::C64,
        Dtype::C128 => code::C128,
        Dtype::U16 => code::U16,
        Dtype::U32 => code::U32,
        Dtype::U64 => code::U64,
        Dtype::F8E4M3Fn => code::F8E4M3FN,
        Dtype::F8E5M2 => code::F8E5M2,
        Dtype::F8E4M3Fnuz => code::F8E4M3FNUZ,
        Dtype::F8E5M2Fnuz => code::F8E5M2FNUZ,
        Dtype::F8E8M0Fnu => code::F8E8M0FNU,
    }
}

/// Kind and index of a device. Kinds other than the CPU have no number yet: 0 is none that a plugin knows.
pub(super) fn device_to_abi(device: &Device) -> (DeviceKind, u32) {
    match device {
        Device::Cpu => (DEVICE_CPU, 0),
        Device::Other { index, .. } => (0, *index),
    }
}

/// The kind of a number.
pub(super) fn kind_to_abi(kind: NumKind) -> u32 {
    match kind {
        NumKind::Int => arg_kind::INT,
        NumKind::Float => arg_kind::FLOAT,
        NumKind::Bool => arg_kind::BOOL,
    }
}

/// Data behind the id of a constant.
pub(super) type ConstantOf<'a> = &'a dyn Fn(u64) -> Option<Constant>;

/// Owns what an `OpDesc` points at.
pub(super) struct Desc<'a> {
    spec: &'a OpSpec,
    args: Vec<raw::Arg>,
    inputs: Vec<raw::TensorDesc>,
    outputs: Vec<raw::TensorDesc>,
    numbers: Vec<raw::NumberDesc>,
    ints: Vec<Vec<i64>>,
    slots: Vec<Vec<u32>>,
    bytes: Vec<Vec<u8>>,
    lists: Vec<Vec<Array<i64>>>,
    texts: Vec<Vec<Str>>,
    /// Keeps readable what descriptions point at.
    constants: Vec<Constant>,
}

impl<'a> Desc<'a> {
    /// `constant` is given when a kernel is made; in a check nothing is readable.
    pub fn new(spec: &'a OpSpec, constant: Option<ConstantOf<'_>>) -> Desc<'a> {
        let mut desc = Desc {
            spec,
            args: Vec::with_capacity(spec.args.len()),
            inputs: Vec::with_capacity(spec.inputs.len()),
            outputs: Vec::with_capacity(spec.outputs.len()),
            numbers: Vec::with_capacity(spec.slots.len()),
            ints: Vec::new(),
            slots: Vec::new(),
            bytes: Vec::new(),
            lists: Vec::new(),
            texts: Vec::new(),
            constants: Vec::new(),
        };
        for (name, arg) in &spec.args {
            let arg = desc.arg(name, arg);
            desc.args.push(arg);
        }
        for tensor in &spec.inputs {
            let input = desc.tensor(tensor, constant);
            desc.inputs.push(input);
        }
        for tensor in &spec.outputs {
            let output = desc.tensor(tensor, None);
            desc.outputs.push(output);
        }
        for (_, kind) in &spec.slots {
            let kind = kind_to_abi(*kind);
            desc.numbers.push(raw::NumberDesc { kind, reserved: 0, lo: i64::MIN, hi: i64::MAX });
        }
        desc
    }

    /// The description; good as long as `self`.
    pub fn raw(&self) -> raw::OpDesc {
        raw::OpDesc {
            size: std::mem::size_of::<raw::OpDesc>() as u64,
            name: Str::new(&self.spec.op),
            origin: Str::new(&self.spec.origin),
            args: Array::new(&self.args),
            inputs: Array::new(&self.inputs),
            outputs: Array::new(&self.outputs),
            numbers: Array::new(&self.numbers),
        }
    }

    /// The descriptions of the inputs; good as long as `self`.
    pub fn input_descs(&self) -> &[raw::TensorDesc] {
        &self.inputs
    }

    fn tensor(&mut self, tensor: &TensorSpec, constant: Option<ConstantOf<'_>>) -> raw::TensorDesc {
        let dims: Vec<i64> = tensor.dims.iter().map(|dim| dim.known().unwrap_or(UNKNOWN)).collect();
        let (device_kind, device_index) = device_to_abi(&tensor.device);
        let mut flags = if tensor.constant != 0 { desc_flags::CONSTANT } else { 0 };
        let mut strides = std::ptr::null();
        if let Some(known) = &tensor.strides {
            strides = known.as_ptr();
            if is_contiguous(&dims, known) {
                flags |= desc_flags::CONTIGUOUS;
            }
        }
        let data = constant.filter(|_| tensor.constant != 0).and_then(|constant| constant(tensor.constant));
        let (mut address, mut version) = (std::ptr::null(), 0);
        if let Some(constant) = data {
            version = constant.version;
            // What is described is this operand only where it is seen as it lies.
            if constant.operand.dims() == dims
                && tensor.strides.as_deref() == Some(constant.operand.strides_elems())
            {
                address = constant.operand.addr().cast_const();
            }
            self.constants.push(constant);
        }
        self.ints.push(dims);
        raw::TensorDesc {
            dtype: dtype_to_abi(tensor.dtype),
            device_kind,
            device_index,
            rank: tensor.dims.len() as u32,
            dims: self.last_ints(),
            dims_lo: std::ptr::null(),
            dims_hi: std::ptr::null(),
            strides,
            flags,
            constant_id: tensor.constant,
            constant_version: version,
            data: address,
        }
    }

    fn last_ints(&self) -> *const i64 {
        self.ints.last().map_or(std::ptr::null(), |list| list.as_ptr())
    }

    fn arg(&mut self, name: &'a str, arg: &'a SpecArg) -> raw::Arg {
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
        match arg {
            SpecArg::None => {}
            SpecArg::Tensor(idx) => (out.kind, out.value) = (arg_kind::TENSOR, *idx as u64),
            SpecArg::Tensors(indices) => {
                out.kind = arg_kind::TENSORS;
                let indices = indices.iter().map(|idx| idx.map_or(-1, |idx| idx as i64)).collect();
                self.int_list(&mut out, indices);
            }
            SpecArg::Int(value) => (out.kind, out.value) = (arg_kind::INT, *value as u64),
            SpecArg::Float(value) => (out.kind, out.value) = (arg_kind::FLOAT, value.to_bits()),
            SpecArg::Bool(value) => (out.kind, out.value) = (arg_kind::BOOL, u64::from(*value)),
            SpecArg::Str(text) => (out.kind, out.text) = (arg_kind::STR, Str::new(text)),
            SpecArg::Complex(re, im) => {
                (out.kind, out.value, out.imag) = (arg_kind::COMPLEX, re.to_bits(), im.to_bits());
            }
            SpecArg::Dtype(dtype) => {
                (out.kind, out.value) = (arg_kind::DTYPE, u64::from(dtype_to_abi(*dtype)));
            }
            SpecArg::Device(device) => {
                let (kind, index) = device_to_abi(device);
                (out.kind, out.value, out.imag) = (arg_kind::DEVICE, u64::from(kind), u64::from(index));
            }
            SpecArg::Ints(ints) => self.ints_arg(&mut out, ints),
            SpecArg::Floats(values) => {
                out.kind = arg_kind::FLOATS;
                (out.list, out.list_len) = (values.as_ptr().cast::<c_void>(), values.len() as u64);
            }
            SpecArg::Bools(values) => {
                out.kind = arg_kind::BOOLS;
                let bytes: Vec<u8> = values.iter().map(|value| u8::from(*value)).collect();
                (out.list, out.list_len) = (bytes.as_ptr().cast::<c_void>(), bytes.len() as u64);
                self.bytes.push(bytes);
            }
            SpecArg::Lists(lists) => {
                out.kind = arg_kind::LISTS;
                let arrays: Vec<Array<i64>> = lists.iter().map(|list| Array::new(list)).collect();
                (out.list, out.list_len) = (arrays.as_ptr().cast::<c_void>(), arrays.len() as u64);
                self.lists.push(arrays);
            }
            SpecArg::Strs(texts) => {
                out.kind = arg_kind::STRS;
                let texts: Vec<Str> = texts.iter().map(|text| Str::new(text)).collect();
                (out.list, out.list_len) = (texts.as_ptr().cast::<c_void>(), texts.len() as u64);
                self.texts.push(texts);
            }
            SpecArg::Number(slot) => (out.kind, out.value) = (arg_kind::NUMBER, *slot as u64),
            SpecArg::Unknown => out.kind = arg_kind::UNKNOWN,
        }
        out
    }

    fn ints_arg(&mut self, out: &mut raw::Arg, ints: &[SpecInt]) {
        out.kind = arg_kind::INTS;
        let value = |int: &SpecInt| if let SpecInt::Known(value) = int { *value } else { UNKNOWN_INT };
        self.int_list(out, ints.iter().map(value).collect());
        let slot = |int: &SpecInt| if let SpecInt::Slot(slot) = int { *slot as u32 } else { NO_SLOT };
        if ints.iter().any(|int| matches!(int, SpecInt::Slot(_))) {
            let slots: Vec<u32> = ints.iter().map(slot).collect();
            out.slots = slots.as_ptr();
            self.slots.push(slots);
        }
    }

    fn int_list(&mut self, out: &mut raw::Arg, values: Vec<i64>) {
        (out.list, out.list_len) = (values.as_ptr().cast::<c_void>(), values.len() as u64);
        self.ints.push(values);
    }
}

/// The op as one line of text, for a plugin's messages.
///
/// # Safety
/// `desc` is one that [`Desc::raw`] gave, within its life.
pub(super) unsafe fn text_of(desc: &raw::OpDesc) -> String {
    // SAFETY: ours, alive.
    let name = unsafe { desc.name.text() }.unwrap_or("");
    // SAFETY: as above.
    let (inputs, outputs) = unsafe { (desc.inputs.items(), desc.outputs.items()) };
    let list = |tensors: Option<thunderhead_abi::basic::Items<'_, raw::TensorDesc>>| {
        let texts = tensors.into_iter().flat_map(|tensors| tensors.iter()).map(|tensor| {
            let dtype =
                code::ALL.iter().find(|(code, ..)| *code == tensor.dtype).map_or("?", |(_, name, _)| name);
            // SAFETY: as above.
            let dims = unsafe { super::services::ints(tensor.dims, tensor.rank) }.unwrap_or(&[]);
            format!("{dtype}{dims:?}")
        });
        texts.collect::<Vec<_>>().join(", ")
    };
    format!("{name}({}) -> {}", list(inputs), list(outputs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dtypes_have_one_name_on_both_sides() {
        for dtype in Dtype::ALL {
            let (_, name, size) = code::ALL[dtype_to_abi(dtype) as usize - 1];
            assert_eq!((dtype.name(), dtype.size_bytes()), (name, size));
        }
    }
}
