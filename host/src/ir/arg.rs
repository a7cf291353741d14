//! Arguments of calls.

use super::{Device, Dim, Dtype, Name, ValueId};

/// One argument (or literal) of a call. Integers, floats and bools keep their kind: `1`, `1.0` and `true` differ.
#[derive(Clone, Debug)]
pub enum Arg {
    /// A value of the trace: tensor or number.
    Value(ValueId),
    /// Absent.
    None,
    /// i64.
    Int(i64),
    /// f64; equality is of bits, so that NaN equals NaN and `-0.0` differs from `0.0`.
    Float(f64),
    /// true or false.
    Bool(bool),
    /// Text.
    Str(Name),
    /// A complex number.
    Complex(f64, f64),
    /// A dtype.
    Dtype(Dtype),
    /// A device.
    Device(Device),
    /// A size that is an expression; a known one is `Int` (see [`Arg::dim`]).
    Dim(Dim),
    /// A list.
    List(Vec<Arg>),
    /// A nested trace of the module, by name.
    Trace(Name),
}

impl Arg {
    /// The argument for a dim: `Int` where it is known.
    pub fn dim(dim: impl Into<Dim>) -> Arg {
        match dim.into() {
            Dim::Known(n) => Arg::Int(n),
            d => Arg::Dim(d),
        }
    }

    /// A list of dims.
    pub fn dims(dims: &[Dim]) -> Arg {
        Arg::List(dims.iter().cloned().map(Arg::dim).collect())
    }

    /// A list of integers.
    pub fn ints(ints: impl IntoIterator<Item = i64>) -> Arg {
        Arg::List(ints.into_iter().map(Arg::Int).collect())
    }

    /// Text.
    pub fn str(text: &str) -> Arg {
        Arg::Str(text.into())
    }

    /// The value, if it is one.
    pub fn value(&self) -> Option<ValueId> {
        match self {
            Arg::Value(v) => Some(*v),
            _ => None,
        }
    }

    /// Is it absent?
    pub fn is_none(&self) -> bool {
        matches!(self, Arg::None)
    }

    /// Calls `f` with each value in it, lists included, in order.
    pub fn for_each_value(&self, f: &mut dyn FnMut(ValueId)) {
        match self {
            Arg::Value(v) => f(*v),
            Arg::List(items) => items.iter().for_each(|a| a.for_each_value(f)),
            _ => {}
        }
    }

    /// The argument with each value replaced by what `f` gives for it.
    pub fn map_values(&self, f: &mut dyn FnMut(ValueId) -> Arg) -> Arg {
        match self {
            Arg::Value(v) => f(*v),
            Arg::List(items) => Arg::List(items.iter().map(|a| a.map_values(f)).collect()),
            other => other.clone(),
        }
    }
}

impl PartialEq for Arg {
    fn eq(&self, other: &Arg) -> bool {
        match (self, other) {
            (Arg::Float(a), Arg::Float(b)) => same_float(*a, *b),
            (Arg::Complex(a, b), Arg::Complex(c, d)) => same_float(*a, *c) && same_float(*b, *d),
            (Arg::Value(a), Arg::Value(b)) => a == b,
            (Arg::None, Arg::None) => true,
            (Arg::Int(a), Arg::Int(b)) => a == b,
            (Arg::Bool(a), Arg::Bool(b)) => a == b,
            (Arg::Str(a), Arg::Str(b)) => a == b,
            (Arg::Dtype(a), Arg::Dtype(b)) => a == b,
            (Arg::Device(a), Arg::Device(b)) => a == b,
            (Arg::Dim(a), Arg::Dim(b)) => a == b,
            (Arg::List(a), Arg::List(b)) => a == b,
            (Arg::Trace(a), Arg::Trace(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Arg {}

impl std::hash::Hash for Arg {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Arg::Value(v) => v.hash(state),
            Arg::None => {}
            Arg::Int(n) => n.hash(state),
            Arg::Float(x) => canonical_bits(*x).hash(state),
            Arg::Bool(b) => b.hash(state),
            Arg::Str(s) | Arg::Trace(s) => s.hash(state),
            Arg::Complex(a, b) => (canonical_bits(*a), canonical_bits(*b)).hash(state),
            Arg::Dtype(d) => d.hash(state),
            Arg::Device(d) => d.hash(state),
            Arg::Dim(d) => d.hash(state),
            Arg::List(items) => items.hash(state),
        }
    }
}

fn canonical_bits(x: f64) -> u64 {
    if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }
}

fn same_float(a: f64, b: f64) -> bool {
    canonical_bits(a) == canonical_bits(b)
}

impl From<ValueId> for Arg {
    fn from(v: ValueId) -> Arg {
        Arg::Value(v)
    }
}

impl From<i64> for Arg {
    fn from(n: i64) -> Arg {
        Arg::Int(n)
    }
}

impl From<f64> for Arg {
    fn from(x: f64) -> Arg {
        Arg::Float(x)
    }
}

impl From<bool> for Arg {
    fn from(b: bool) -> Arg {
        Arg::Bool(b)
    }
}

impl From<Dtype> for Arg {
    fn from(d: Dtype) -> Arg {
        Arg::Dtype(d)
    }
}

impl From<Device> for Arg {
    fn from(d: Device) -> Arg {
        Arg::Device(d)
    }
}
