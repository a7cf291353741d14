//! Element types and devices, under the names that traces, manifests and the command line share.

use std::fmt;
use std::sync::Arc;

/// Element type of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Dtype {
    Bool,
    U8,
    I8,
    I16,
    I32,
    I64,
    F16,
    Bf16,
    F32,
    F64,
    C64,
    C128,
    U16,
    U32,
    U64,
    F8E4M3Fn,
    F8E5M2,
    F8E4M3Fnuz,
    F8E5M2Fnuz,
    F8E8M0Fnu,
}

/// PyTorch's four promotion categories, in order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Category {
    Bool,
    Integer,
    Float,
    Complex,
}

impl Dtype {
    /// Every dtype, in the order of the enum.
    pub const ALL: [Dtype; 20] = [
        Dtype::Bool,
        Dtype::U8,
        Dtype::I8,
        Dtype::I16,
        Dtype::I32,
        Dtype::I64,
        Dtype::F16,
        Dtype::Bf16,
        Dtype::F32,
        Dtype::F64,
        Dtype::C64,
        Dtype::C128,
        Dtype::U16,
        Dtype::U32,
        Dtype::U64,
        Dtype::F8E4M3Fn,
        Dtype::F8E5M2,
        Dtype::F8E4M3Fnuz,
        Dtype::F8E5M2Fnuz,
        Dtype::F8E8M0Fnu,
    ];

    /// The name used in traces, manifests and messages.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::Bool => "bool",
            Dtype::U8 => "u8",
            Dtype::I8 => "i8",
            Dtype::I16 => "i16",
            Dtype::I32 => "i32",
            Dtype::I64 => "i64",
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
            Dtype::F32 => "f32",
            Dtype::F64 => "f64",
            Dtype::C64 => "c64",
            Dtype::C128 => "c128",
            Dtype::U16 => "u16",
            Dtype::U32 => "u32",
            Dtype::U64 => "u64",
            Dtype::F8E4M3Fn => "f8e4m3fn",
            Dtype::F8E5M2 => "f8e5m2",
            Dtype::F8E4M3Fnuz => "f8e4m3fnuz",
            Dtype::F8E5M2Fnuz => "f8e5m2fnuz",
            Dtype::F8E8M0Fnu => "f8e8m0fnu",
        }
    }

    /// The dtype of that name, if there is one.
    pub fn from_name(name: &str) -> Option<Dtype> {
        Dtype::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Bytes of one element.
    pub fn size_bytes(self) -> usize {
        match self {
            Dtype::Bool
            | Dtype::U8
            | Dtype::I8
            | Dtype::F8E4M3Fn
            | Dtype::F8E5M2
            | Dtype::F8E4M3Fnuz
            | Dtype::F8E5M2Fnuz
            | Dtype::F8E8M0Fnu => 1,
            Dtype::I16 | Dtype::F16 | Dtype::Bf16 | Dtype::U16 => 2,
            Dtype::I32 | Dtype::F32 | Dtype::U32 => 4,
            Dtype::I64 | Dtype::F64 | Dtype::C64 | Dtype::U64 => 8,
            Dtype::C128 => 16,
        }
    }

    /// The promotion category.
    pub fn category(self) -> Category {
        match self {
            Dtype::Bool => Category::Bool,
            Dtype::U8
            | Dtype::I8
            | Dtype::I16
            | Dtype::I32
            | Dtype::I64
            | Dtype::U16
            | Dtype::U32
            | Dtype::U64 => Category::Integer,
            Dtype::C64 | Dtype::C128 => Category::Complex,
            _ => Category::Float,
        }
    }

    /// An integer, bool not counted.
    pub fn is_integer(self) -> bool {
        self.category() == Category::Integer
    }

    /// A real floating dtype.
    pub fn is_float(self) -> bool {
        self.category() == Category::Float
    }

    /// A complex dtype.
    pub fn is_complex(self) -> bool {
        self.category() == Category::Complex
    }

    /// Floating or complex.
    pub fn is_inexact(self) -> bool {
        self.category() >= Category::Float
    }

    /// The dtype in which reductions and matmuls of this one accumulate: f64 for f64, f32 for the other floats.
    pub fn acc(self) -> Dtype {
        match self {
            Dtype::F64 => Dtype::F64,
            d if d.is_float() => Dtype::F32,
            d => d,
        }
    }

    /// The dtype of the real and imaginary parts; a real dtype is its own.
    pub fn real(self) -> Dtype {
        match self {
            Dtype::C64 => Dtype::F32,
            Dtype::C128 => Dtype::F64,
            d => d,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a tensor lives.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Device {
    /// The host's own memory.
    Cpu,
    /// A device of an executor, as `cuda:0`.
    Other {
        /// The kind, an identifier.
        kind: Arc<str>,
        /// Which one of that kind.
        index: u32,
    },
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Other { kind, index } => write!(f, "{kind}:{index}"),
        }
    }
}
