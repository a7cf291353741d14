//! Element types and devices as they cross: plain numbers.
//!
//! Invariant: a number once given is never given another meaning. Names are the ones that manifests, traces and
//! messages use.

/// The element type of a tensor.
pub type DtypeCode = u32;

macro_rules! dtypes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal, $size:literal;)*) => {
        $($(#[$doc])* pub const $name: DtypeCode = $code;)*

        /// All codes with their names and bytes an element.
        pub const ALL: &[(DtypeCode, &str, usize)] = &[$(($code, $text, $size)),*];
    };
}

dtypes! {
    /// One byte, 0 or 1.
    BOOL = 1, "bool", 1;
    /// Unsigned, 8 bits.
    U8 = 2, "u8", 1;
    /// Signed, 8 bits.
    I8 = 3, "i8", 1;
    /// Signed, 16 bits.
    I16 = 4, "i16", 2;
    /// Signed, 32 bits.
    I32 = 5, "i32", 4;
    /// Signed, 64 bits.
    I64 = 6, "i64", 8;
    /// IEEE binary16.
    F16 = 7, "f16", 2;
    /// The upper half of an IEEE binary32.
    BF16 = 8, "bf16", 2;
    /// IEEE binary32.
    F32 = 9, "f32", 4;
    /// IEEE binary64.
    F64 = 10, "f64", 8;
    /// Two `f32`, real then imaginary.
    C64 = 11, "c64", 8;
    /// Two `f64`, real then imaginary.
    C128 = 12, "c128", 16;
    /// Unsigned, 16 bits.
    U16 = 13, "u16", 2;
    /// Unsigned, 32 bits.
    U32 = 14, "u32", 4;
    /// Unsigned, 64 bits.
    U64 = 15, "u64", 8;
    /// Float of 8 bits: 4 exponent, 3 fraction, finite and NaN only.
    F8E4M3FN = 16, "f8e4m3fn", 1;
    /// Float of 8 bits: 5 exponent, 2 fraction.
    F8E5M2 = 17, "f8e5m2", 1;
    /// Float of 8 bits: 4 exponent, 3 fraction, no negative zero.
    F8E4M3FNUZ = 18, "f8e4m3fnuz", 1;
    /// Float of 8 bits: 5 exponent, 2 fraction, no negative zero.
    F8E5M2FNUZ = 19, "f8e5m2fnuz", 1;
    /// Float of 8 bits: 8 exponent, no fraction, no sign.
    F8E8M0FNU = 20, "f8e8m0fnu", 1;
}

/// The kind of a device.
pub type DeviceKind = u32;

/// Main memory.
pub const DEVICE_CPU: DeviceKind = 1;
