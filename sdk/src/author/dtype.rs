//! Element types and devices, checked.

use std::fmt;
use thunderhead_abi::dtype::{self as code, DeviceKind, DtypeCode};

macro_rules! dtypes {
    ($($name:ident = $code:ident;)*) => {
        /// The element type of a tensor.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        #[repr(u32)]
        #[allow(missing_docs)] // `thunderhead_abi::dtype` describes each
        pub enum Dtype { $($name = code::$code,)* }

        impl Dtype {
            /// All of them.
            pub const ALL: &[Dtype] = &[$(Dtype::$name,)*];

            /// The type behind a code, or `None` for one that this SDK does not know.
            pub const fn from_code(code: DtypeCode) -> Option<Dtype> {
                match code {
                    $(code::$code => Some(Dtype::$name),)*
                    _ => None,
                }
            }
        }
    };
}

dtypes! {
    Bool = BOOL;
    U8 = U8;
    I8 = I8;
    I16 = I16;
    I32 = I32;
    I64 = I64;
    F16 = F16;
    BF16 = BF16;
    F32 = F32;
    F64 = F64;
    C64 = C64;
    C128 = C128;
    U16 = U16;
    U32 = U32;
    U64 = U64;
    F8E4M3FN = F8E4M3FN;
    F8E5M2 = F8E5M2;
    F8E4M3FNUZ = F8E4M3FNUZ;
    F8E5M2FNUZ = F8E5M2FNUZ;
    F8E8M0FNU = F8E8M0FNU;
}

impl Dtype {
    /// The code that crosses.
    pub const fn code(self) -> DtypeCode {
        self as DtypeCode
    }

    /// Bytes an element.
    pub const fn size_bytes(self) -> usize {
        code::ALL[self as usize - 1].2
    }

    /// As in manifests and traces: `f32`.
    pub const fn name(self) -> &'static str {
        code::ALL[self as usize - 1].1
    }

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<Dtype> {
        Dtype::ALL.iter().copied().find(|dtype| dtype.name() == name)
    }

    /// A real float, of any width.
    pub const fn is_float(self) -> bool {
        self.is_f8() || matches!(self, Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64)
    }

    /// A float of 8 bits.
    pub const fn is_f8(self) -> bool {
        matches!(
            self,
            Dtype::F8E4M3FN | Dtype::F8E5M2 | Dtype::F8E4M3FNUZ | Dtype::F8E5M2FNUZ | Dtype::F8E8M0FNU
        )
    }

    /// A float of 16 bits.
    pub const fn is_half(self) -> bool {
        matches!(self, Dtype::F16 | Dtype::BF16)
    }

    /// Complex.
    pub const fn is_complex(self) -> bool {
        matches!(self, Dtype::C64 | Dtype::C128)
    }

    /// An integer, signed or not; `bool` is none.
    pub const fn is_int(self) -> bool {
        self.is_signed_int() || matches!(self, Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64)
    }

    /// A signed integer.
    pub const fn is_signed_int(self) -> bool {
        matches!(self, Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a tensor lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Device {
    /// `thunderhead_abi::dtype::DEVICE_CPU`, ….
    pub kind: DeviceKind,
    /// Which of them.
    pub index: u32,
}

impl Device {
    /// Main memory.
    pub const CPU: Device = Device { kind: code::DEVICE_CPU, index: 0 };

    /// Whether it is main memory.
    pub fn is_cpu(self) -> bool {
        self.kind == code::DEVICE_CPU
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_index_the_table_of_names() {
        for dtype in Dtype::ALL {
            assert_eq!(code::ALL[dtype.code() as usize - 1].0, dtype.code());
            assert_eq!(Dtype::from_name(dtype.name()), Some(*dtype));
        }
        assert_eq!(Dtype::ALL.len(), code::ALL.len());
        assert_eq!(Dtype::from_code(0), None);
        assert_eq!(Dtype::from_code(9999), None);
    }
}
