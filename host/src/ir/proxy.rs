//! Types of values: what is known of a tensor or number before anything runs.

use super::{Device, Dim, Dtype};
use std::sync::Arc;

/// Dims, dtype and device of a tensor. Strides are no part of the type: they are the plan's.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorType {
    /// Sizes, outermost first; empty for a zero-dim tensor.
    pub dims: Vec<Dim>,
    /// Element type.
    pub dtype: Dtype,
    /// Where it lives.
    pub device: Device,
}

impl TensorType {
    /// A CPU tensor.
    pub fn new(dims: impl Into<Vec<Dim>>, dtype: Dtype) -> TensorType {
        TensorType { dims: dims.into(), dtype, device: Device::Cpu }
    }

    /// Number of dims.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Number of elements.
    pub fn numel(&self) -> Dim {
        Dim::product(&self.dims)
    }

    /// The dims as numbers, where all are known.
    pub fn known_dims(&self) -> Option<Vec<i64>> {
        self.dims.iter().map(Dim::known).collect()
    }
}

/// Kind of a number value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NumKind {
    /// i64, printed `int`.
    Int,
    /// f64, printed `float`.
    Float,
    /// Printed `boolean`, to tell it from the dtype.
    Bool,
}

impl NumKind {
    /// The word of the trace format.
    pub fn name(self) -> &'static str {
        match self {
            NumKind::Int => "int",
            NumKind::Float => "float",
            NumKind::Bool => "boolean",
        }
    }
}

/// A number: its kind and, where it is known to equal one, its dim expression.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NumberType {
    /// Kind.
    pub kind: NumKind,
    /// The expression that it equals; none: known only when run.
    pub equals: Option<Dim>,
}

/// The type of a value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Type {
    /// A tensor; shared, since decompositions pass types around.
    Tensor(Arc<TensorType>),
    /// A number.
    Number(NumberType),
}

impl Type {
    /// The tensor type, if it is one.
    pub fn tensor(&self) -> Option<&Arc<TensorType>> {
        match self {
            Type::Tensor(t) => Some(t),
            Type::Number(_) => None,
        }
    }
}

impl From<TensorType> for Type {
    fn from(t: TensorType) -> Type {
        Type::Tensor(Arc::new(t))
    }
}
