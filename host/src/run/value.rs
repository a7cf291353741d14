//! What goes into and comes out of a run.

use crate::memory::Tensor;
use crate::plan::Number;

/// An input or output.
#[derive(Clone, Debug)]
pub enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A bool.
    Bool(bool),
    /// Text.
    Str(String),
    /// Python's None; as an input: left out.
    None,
}

impl Value {
    /// The tensor, if it is one.
    pub fn tensor(&self) -> Option<&Tensor> {
        match self {
            Value::Tensor(t) => Some(t),
            _ => None,
        }
    }

    /// The number, if it is one.
    pub fn number(&self) -> Option<Number> {
        Some(match self {
            Value::Int(n) => Number::Int(*n),
            Value::Float(x) => Number::Float(*x),
            Value::Bool(b) => Number::Bool(*b),
            Value::Tensor(_) | Value::Str(_) | Value::None => return None,
        })
    }

    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Tensor(_) => "a tensor",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a float",
            Value::Bool(_) => "a bool",
            Value::Str(_) => "a string",
            Value::None => "none",
        }
    }
}

impl From<Tensor> for Value {
    fn from(t: Tensor) -> Value {
        Value::Tensor(t)
    }
}

impl From<Number> for Value {
    fn from(n: Number) -> Value {
        match n {
            Number::Int(n) => Value::Int(n),
            Number::Float(x) => Value::Float(x),
            Number::Bool(b) => Value::Bool(b),
        }
    }
}
