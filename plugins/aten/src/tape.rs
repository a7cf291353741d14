//! A tape: ATen calls over numbered registers, checked against libtorch's own schemas when it is made.
//!
//! Registers: the inputs first, then the outputs, then what calls leave behind. A tape holds no memory of the program's
//! and never changes, so that runs of it may overlap.

use std::ffi::{CString, c_char, c_void};
use std::ptr;
use std::sync::Arc;

use thunderhead_sdk::{Dtype, Error};

use super::ffi;

/// A numbered place for a tensor (or a list of tensors).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reg(pub u32);

/// When an instruction is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Once for each memory it is bound to; for views.
    Bind,
    /// At each run.
    Run,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// What ATen's schema says.
    Default,
    None,
    Reg(Reg),
    Regs(Vec<Option<Reg>>),
    /// For an argument that is a tensor, a number becomes one that raises no dtype within its category, as in Python.
    Int(i64),
    Float(f64),
    Bool(bool),
    Complex(f64, f64),
    Str(String),
    Ints(Vec<i64>),
    Floats(Vec<f64>),
    Bools(Vec<u8>),
    Dtype(Dtype),
    Cpu,
    /// A number that the run passes.
    Slot(usize),
}

/// One instruction.
#[derive(Clone, Debug)]
pub enum Instr {
    /// The overload `op` (`add.out`); results that are not wanted are `None`.
    Call { when: When, op: String, args: Vec<Arg>, results: Vec<Option<Reg>> },
    /// A list of tensors to registers.
    Unpack { when: When, list: Reg, results: Vec<Option<Reg>> },
    /// `from` into the memory of `to`; dims and dtype agree.
    Store { from: Reg, to: Reg },
    /// As `Store`, but broadcast and converted; nothing where both are the same memory.
    Copy { from: Reg, to: Reg },
    /// The gradients of the overload `op`, whose results have these cotangents (none: zero): one for each floating or
    /// complex tensor among `args`, none where it is not wanted.
    Vjp { op: String, cotangents: Vec<Option<Reg>>, args: Vec<Arg>, results: Vec<Option<Reg>> },
}

/// A checked list of instructions.
pub struct Tape {
    pub(super) raw: *mut ffi::RawTape,
    pub(super) n_inputs: usize,
    pub(super) n_outputs: usize,
}

// SAFETY: the C side never changes a tape after it is made.
unsafe impl Send for Tape {}
// SAFETY: as above.
unsafe impl Sync for Tape {}

impl Tape {
    /// Resolves every overload and fits every constant to its schema.
    pub fn new(instrs: &[Instr], n_inputs: usize, n_outputs: usize, n_regs: u32) -> Result<Arc<Tape>, Error> {
        let lowered: Vec<Lowered> = instrs.iter().map(Lowered::new).collect();
        let raw_instrs: Vec<ffi::Instr> = lowered.iter().map(Lowered::raw).collect();
        let (inputs, outputs) = (count(n_inputs)?, count(n_outputs)?);
        let mut raw = ptr::null_mut();
        checked(|error, bytes| {
            // SAFETY: `lowered` holds everything that `raw_instrs` points to, and outlives the call.
            unsafe {
                ffi::th_tape_new(
                    raw_instrs.as_ptr(),
                    raw_instrs.len() as u64,
                    inputs,
                    outputs,
                    n_regs,
                    &raw mut raw,
                    error,
                    bytes,
                )
            }
        })?;
        Ok(Arc::new(Tape { raw, n_inputs, n_outputs }))
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        // SAFETY: made by `th_tape_new`, freed once; whatever is bound holds a share of it.
        unsafe { ffi::th_tape_free(self.raw) }
    }
}

/// What the dispatcher knows of an overload.
#[derive(Clone, Debug)]
pub struct Described {
    /// ATen's schema: `aten::add.Tensor(Tensor self, …) -> Tensor`.
    pub schema: String,
    /// The variant that writes to given outputs, if there is one.
    pub out_variant: Option<String>,
}

/// Asks the dispatcher about an overload (`add.Tensor`, `acme::rope`).
pub fn describe(op: &str) -> Result<Described, Error> {
    let name = CString::new(op).map_err(|_| Error::invalid("an op's name holds a zero byte"))?;
    let mut schema = vec![0u8; 4096];
    let mut variant = vec![0u8; 256];
    checked(|error, bytes| {
        // SAFETY: the buffers have the sizes given.
        unsafe {
            ffi::th_describe(
                name.as_ptr(),
                schema.as_mut_ptr().cast(),
                schema.len() as u64,
                variant.as_mut_ptr().cast(),
                variant.len() as u64,
                error,
                bytes,
            )
        }
    })?;
    let variant = text(&variant);
    Ok(Described { schema: text(&schema), out_variant: (!variant.is_empty()).then_some(variant) })
}

/// Which derivative libtorch lacks for a call, whose registers are the inputs, of these dims and dtypes, with respect to the
/// `wanted` ones of its floating and complex tensors; `None` when none
/// is missing, or when that shows only when it runs.
pub fn derivative_missing(
    op: &str,
    args: &[Arg],
    wanted: &[bool],
    inputs: &[(Vec<i64>, Dtype)],
) -> Result<Option<String>, Error> {
    // Any register will do: nothing is written.
    let results = wanted.iter().map(|wanted| wanted.then_some(Reg(0))).collect();
    let instr = Instr::Vjp { op: op.into(), cotangents: Vec::new(), args: args.to_vec(), results };
    let lowered = Lowered::new(&instr);
    let raw = lowered.raw();
    let tensors: Vec<ffi::Tensor> = inputs
        .iter()
        .map(|(dims, dtype)| ffi::Tensor {
            data: ptr::null_mut(),
            dims: dims.as_ptr(),
            strides: ptr::null(),
            rank: dims.len() as u32,
            scalar_type: scalar_type(*dtype).unwrap_or(-1),
        })
        .collect();
    let n_inputs = count(inputs.len())?;
    let mut missing = vec![0u8; 256];
    checked(|error, bytes| {
        // SAFETY: `lowered` holds what `raw` points to, `inputs` holds the dims; the buffer has the size given.
        unsafe {
            ffi::th_derivative_missing(
                &raw const raw,
                tensors.as_ptr(),
                n_inputs,
                missing.as_mut_ptr().cast(),
                missing.len() as u64,
                error,
                bytes,
            )
        }
    })?;
    let missing = text(&missing);
    Ok((!missing.is_empty()).then_some(missing))
}

/// c10's number for a dtype; `None` for one that it lacks.
pub fn scalar_type(dtype: Dtype) -> Option<i32> {
    Some(match dtype {
        Dtype::U8 => 0,
        Dtype::I8 => 1,
        Dtype::I16 => 2,
        Dtype::I32 => 3,
        Dtype::I64 => 4,
        Dtype::F16 => 5,
        Dtype::F32 => 6,
        Dtype::F64 => 7,
        Dtype::C64 => 9,
        Dtype::C128 => 10,
        Dtype::Bool => 11,
        Dtype::BF16 => 15,
        Dtype::F8E5M2 => 23,
        Dtype::F8E4M3FN => 24,
        Dtype::F8E5M2FNUZ => 25,
        Dtype::F8E4M3FNUZ => 26,
        Dtype::U16 => 27,
        Dtype::U32 => 28,
        Dtype::U64 => 29,
        Dtype::F8E8M0FNU => 44,
        _ => return None,
    })
}

/// Calls the C side with a buffer for its message.
pub(super) fn checked(call: impl FnOnce(*mut c_char, u64) -> i32) -> Result<(), Error> {
    let mut buffer = [0u8; 1024];
    match call(buffer.as_mut_ptr().cast(), buffer.len() as u64) {
        0 => Ok(()),
        _ => Err(failure(text(&buffer).trim_end())),
    }
}

/// Whose fault libtorch's message is: an index, label or divisor is the data's. Its exceptions do not tell, since a dim that
/// does not exist is an `IndexError` too, and an index of `gather` is none.
fn failure(message: &str) -> Error {
    let is_outside = ["out of range", "out of bounds"].iter().any(|words| message.contains(words));
    let is_index = ["index", "Index", "Target", "target"].iter().any(|word| message.contains(word));
    let is_dim = message.starts_with("Dimension out of range");
    let by_zero = message.contains("ZeroDivisionError");
    let said = format!("libtorch: {message}");
    if by_zero || is_outside && is_index && !is_dim { Error::bad_data(said) } else { Error::internal(said) }
}

/// The text before the first zero.
fn text(buffer: &[u8]) -> String {
    let end = buffer.iter().position(|byte| *byte == 0).unwrap_or(buffer.len());
    String::from_utf8_lossy(&buffer[..end]).into_owned()
}

fn count(n: usize) -> Result<u32, Error> {
    u32::try_from(n).map_err(|_| Error::unsupported(format!("{n} tensors in one op")))
}

fn raw_reg(reg: Option<Reg>) -> u32 {
    reg.map_or(u32::MAX, |reg| reg.0)
}

fn raw_when(when: When) -> u32 {
    match when {
        When::Bind => ffi::AT_BIND,
        When::Run => ffi::AT_RUN,
    }
}

/// An instruction with everything that its raw form points to.
struct Lowered {
    kind: u32,
    when: u32,
    op: CString,
    args: Vec<ffi::Arg>,
    results: Vec<u32>,
    n_cotangents: usize,
    /// Registers of lists; the arguments point into them.
    _lists: Vec<Vec<u32>>,
}

impl Lowered {
    fn new(instr: &Instr) -> Lowered {
        let (kind, when, op, args, results): (u32, When, &str, &[Arg], Vec<u32>) = match instr {
            Instr::Call { when, op, args, results } => {
                (ffi::CALL, *when, op, args, results.iter().copied().map(raw_reg).collect())
            }
            Instr::Unpack { when, list, results } => {
                let results = results.iter().copied().map(raw_reg).collect();
                return Lowered::plain(ffi::UNPACK, *when, &[*list], results);
            }
            Instr::Store { from, to } => {
                return Lowered::plain(ffi::STORE, When::Run, &[*from, *to], Vec::new());
            }
            Instr::Copy { from, to } => {
                return Lowered::plain(ffi::COPY, When::Run, &[*from, *to], Vec::new());
            }
            Instr::Vjp { op, cotangents, args, results } => {
                let results = results.iter().copied().map(raw_reg).collect();
                return Lowered::vjp(op, cotangents, args, results);
            }
        };
        let mut lists = Vec::new();
        let args = args.iter().map(|arg| raw_arg(arg, &mut lists)).collect();
        // No overload's name holds a zero byte; one that does is found by nobody.
        let op = CString::new(op).unwrap_or_default();
        Lowered { kind, when: raw_when(when), op, args, results, n_cotangents: 0, _lists: lists }
    }

    fn vjp(op: &str, cotangents: &[Option<Reg>], own: &[Arg], results: Vec<u32>) -> Lowered {
        let mut lists = Vec::new();
        let n_cotangents = cotangents.len();
        let cotangents = cotangents.iter().map(|g| match g {
            Some(reg) => ffi::Arg { index: reg.0, ..blank(ffi::REG) },
            None => blank(ffi::NONE),
        });
        let mut args: Vec<ffi::Arg> = cotangents.collect();
        args.extend(own.iter().map(|arg| raw_arg(arg, &mut lists)));
        let op = CString::new(op).unwrap_or_default();
        let when = raw_when(When::Run);
        Lowered { kind: ffi::VJP, when, op, args, results, n_cotangents, _lists: lists }
    }

    fn plain(kind: u32, when: When, regs: &[Reg], results: Vec<u32>) -> Lowered {
        let args = regs.iter().map(|reg| ffi::Arg { index: reg.0, ..blank(ffi::REG) }).collect();
        Lowered {
            kind,
            when: raw_when(when),
            op: CString::default(),
            args,
            results,
            n_cotangents: 0,
            _lists: Vec::new(),
        }
    }

    fn raw(&self) -> ffi::Instr {
        ffi::Instr {
            kind: self.kind,
            when: self.when,
            op: self.op.as_ptr(),
            args: self.args.as_ptr(),
            n_args: self.args.len() as u64,
            results: self.results.as_ptr(),
            n_results: self.results.len() as u64,
            n_cotangents: self.n_cotangents as u64,
        }
    }
}

fn blank(kind: u32) -> ffi::Arg {
    ffi::Arg { kind, index: 0, i: 0, f: 0.0, g: 0.0, items: ptr::null(), n_items: 0 }
}

fn with_items<T>(kind: u32, items: &[T]) -> ffi::Arg {
    ffi::Arg { items: items.as_ptr().cast::<c_void>(), n_items: items.len() as u64, ..blank(kind) }
}

fn raw_arg(arg: &Arg, lists: &mut Vec<Vec<u32>>) -> ffi::Arg {
    match arg {
        Arg::Default => blank(ffi::DEFAULT),
        Arg::None => blank(ffi::NONE),
        Arg::Reg(reg) => ffi::Arg { index: reg.0, ..blank(ffi::REG) },
        Arg::Regs(regs) => {
            lists.push(regs.iter().copied().map(raw_reg).collect());
            // The vector's memory stays where it is while `lists` grows.
            lists.last().map_or(blank(ffi::REGS), |list| with_items(ffi::REGS, list))
        }
        Arg::Int(value) => ffi::Arg { i: *value, ..blank(ffi::INT) },
        Arg::Float(value) => ffi::Arg { f: *value, ..blank(ffi::FLOAT) },
        Arg::Bool(value) => ffi::Arg { i: i64::from(*value), ..blank(ffi::BOOL) },
        Arg::Complex(re, im) => ffi::Arg { f: *re, g: *im, ..blank(ffi::COMPLEX) },
        Arg::Str(text) => with_items(ffi::STR, text.as_bytes()),
        Arg::Ints(values) => with_items(ffi::INTS, values),
        Arg::Floats(values) => with_items(ffi::FLOATS, values),
        Arg::Bools(values) => with_items(ffi::BOOLS, values),
        // Dtypes are integers in boxed calls; one that c10 lacks is refused before.
        Arg::Dtype(dtype) => ffi::Arg { i: i64::from(scalar_type(*dtype).unwrap_or(-1)), ..blank(ffi::INT) },
        Arg::Cpu => blank(ffi::CPU),
        Arg::Slot(slot) => ffi::Arg { index: u32::try_from(*slot).unwrap_or(u32::MAX), ..blank(ffi::SLOT) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thunderhead_sdk::ErrorKind;

    #[test]
    fn data_is_told_from_what_is_wrong_with_a_call() {
        for (message, kind) in [
            ("index out of range in self", ErrorKind::BadData),
            ("Target 9 is out of bounds.", ErrorKind::BadData),
            ("index 7 is out of bounds for dimension 0 with size 3", ErrorKind::BadData),
            ("ZeroDivisionError", ErrorKind::BadData),
            ("Dimension out of range (expected to be in range of [-1, 0], but got 3)", ErrorKind::Internal),
            ("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)", ErrorKind::Internal),
        ] {
            assert_eq!(failure(message).kind(), kind, "{message}");
        }
    }
}
