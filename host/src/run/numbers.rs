//! Numbers of a run: host ops on them, items read from tensors, checks.

use crate::ir::{Arg, Dtype, ValueId};
use crate::memory::Operand;
use crate::ops::{HostOp, Num, OpError};
use crate::plan::{Number, NumberSource};
use rustc_hash::FxHashMap;

/// Numbers by value.
pub type Numbers = FxHashMap<ValueId, Number>;

/// The random stream of a session: a seed, and how many 32-bit words were drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RandomStream {
    /// `--seed`.
    pub seed: i64,
    /// `rng.offset`, a multiple of 4.
    pub offset: i64,
}

/// The number that a source has.
pub fn source(numbers: &Numbers, from: &NumberSource) -> Option<Number> {
    match from {
        NumberSource::Known(n) => Some(*n),
        NumberSource::Value(v) => numbers.get(v).copied(),
        NumberSource::Other(_) => None,
    }
}

/// Carries out a host op on numbers.
pub fn host_op(
    numbers: &mut Numbers,
    stream: &mut RandomStream,
    op: HostOp,
    args: &[NumberSource],
    results: &[ValueId],
    name: &str,
) -> Result<(), OpError> {
    let error = |what: &str| OpError { op: name.into(), what: what.into() };
    match op {
        HostOp::Number(f) => {
            let known = args
                .iter()
                .map(|a| match source(numbers, a) {
                    Some(n) => Ok(to_num(n)),
                    None => match a {
                        NumberSource::Other(arg @ (Arg::None | Arg::Str(_) | Arg::Dtype(_))) => {
                            Num::from_arg(arg).ok_or_else(|| error("an argument is no number"))
                        }
                        _ => Err(error("an argument is not known")),
                    },
                })
                .collect::<Result<Vec<_>, _>>()?;
            let result = from_num(&f(&known)?).ok_or_else(|| error("gives no plain number"))?;
            if let [v] = results {
                numbers.insert(*v, result);
            }
            Ok(())
        }
        HostOp::NextPhilox => {
            let Some(Some(Number::Int(words))) = args.first().map(|a| source(numbers, a)) else {
                return Err(error("the number of words is not known"));
            };
            if let [seed, offset] = results {
                numbers.insert(*seed, Number::Int(stream.seed));
                numbers.insert(*offset, Number::Int(stream.offset));
            }
            let rounded = words.max(0).saturating_add(3) / 4 * 4;
            stream.offset = stream.offset.wrapping_add(rounded);
            Ok(())
        }
        HostOp::Item | HostOp::Check | HostOp::Text | HostOp::Nested(_) => Ok(()),
    }
}

fn to_num(n: Number) -> Num {
    match n {
        Number::Int(n) => Num::Int(n),
        Number::Float(x) => Num::Float(x),
        Number::Bool(b) => Num::Bool(b),
    }
}

fn from_num(n: &Num) -> Option<Number> {
    Some(match n {
        Num::Int(n) => Number::Int(*n),
        Num::Float(x) => Number::Float(*x),
        Num::Bool(b) => Number::Bool(*b),
        Num::Dim(d) => Number::Int(d.known()?),
        Num::Complex(..) | Num::Value(..) => return None,
    })
}

/// Is the number true, as Python says?
pub fn truth(n: Number) -> bool {
    match n {
        Number::Int(n) => n != 0,
        Number::Float(x) => x != 0.0,
        Number::Bool(b) => b,
    }
}

/// The first element of an operand as a number; none for an empty or complex one.
pub fn item(dtype: Dtype, from: &Operand) -> Option<Number> {
    let one = crate::memory::Tensor::of_operand(dtype, from.clone());
    let raw = one.to_bytes().ok()?;
    let raw = raw.get(..dtype.size_bytes())?;
    fn le<const N: usize>(raw: &[u8]) -> Option<[u8; N]> {
        raw.try_into().ok()
    }
    Some(match dtype {
        Dtype::Bool => Number::Bool(raw[0] != 0),
        Dtype::U8 => Number::Int(i64::from(raw[0])),
        Dtype::I8 => Number::Int(i64::from(raw[0] as i8)),
        Dtype::I16 => Number::Int(i64::from(i16::from_le_bytes(le(raw)?))),
        Dtype::U16 => Number::Int(i64::from(u16::from_le_bytes(le(raw)?))),
        Dtype::I32 => Number::Int(i64::from(i32::from_le_bytes(le(raw)?))),
        Dtype::U32 => Number::Int(i64::from(u32::from_le_bytes(le(raw)?))),
        Dtype::I64 => Number::Int(i64::from_le_bytes(le(raw)?)),
        Dtype::U64 => Number::Int(i64::try_from(u64::from_le_bytes(le(raw)?)).ok()?),
        Dtype::F16 => Number::Float(half::f16::from_le_bytes(le(raw)?).to_f64()),
        Dtype::Bf16 => Number::Float(half::bf16::from_le_bytes(le(raw)?).to_f64()),
        Dtype::F32 => Number::Float(f64::from(f32::from_le_bytes(le(raw)?))),
        Dtype::F64 => Number::Float(f64::from_le_bytes(le(raw)?)),
        _ => return None,
    })
}

/// Is every element true?
pub fn all_true(dtype: Dtype, from: &Operand) -> bool {
    let size = dtype.size_bytes();
    match crate::memory::Tensor::of_operand(dtype, from.clone()).to_bytes() {
        Ok(raw) => raw.chunks(size).all(|c| c.iter().any(|b| *b != 0)),
        Err(_) => false,
    }
}
