//! The C side, as `shim/tape.h` declares it. Field by field the same; nothing else.

use std::ffi::{c_char, c_void};

pub const DEFAULT: u32 = 0;
pub const NONE: u32 = 1;
pub const REG: u32 = 2;
pub const REGS: u32 = 3;
pub const INT: u32 = 4;
pub const FLOAT: u32 = 5;
pub const BOOL: u32 = 6;
pub const COMPLEX: u32 = 7;
pub const STR: u32 = 8;
pub const INTS: u32 = 9;
pub const FLOATS: u32 = 10;
pub const BOOLS: u32 = 11;
pub const CPU: u32 = 12;
pub const SLOT: u32 = 13;

pub const CALL: u32 = 0;
pub const UNPACK: u32 = 1;
pub const STORE: u32 = 2;
pub const COPY: u32 = 3;
pub const VJP: u32 = 4;

pub const AT_BIND: u32 = 0;
pub const AT_RUN: u32 = 1;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Arg {
    pub kind: u32,
    pub index: u32,
    pub i: i64,
    pub f: f64,
    pub g: f64,
    pub items: *const c_void,
    pub n_items: u64,
}

#[repr(C)]
pub struct Instr {
    pub kind: u32,
    pub when: u32,
    pub op: *const c_char,
    pub args: *const Arg,
    pub n_args: u64,
    pub results: *const u32,
    pub n_results: u64,
    pub n_cotangents: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Tensor {
    pub data: *mut c_void,
    pub dims: *const i64,
    pub strides: *const i64,
    pub rank: u32,
    pub scalar_type: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Number {
    pub kind: u32,
    pub i: i64,
    pub f: f64,
}

/// Opaque: a tape.
#[repr(C)]
pub struct RawTape {
    _opaque: [u8; 0],
}

/// Opaque: a bound tape.
#[repr(C)]
pub struct RawBound {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    pub fn th_on_warning(to: unsafe extern "C" fn(text: *const c_char, bytes: u64));
    pub fn th_describe(
        op: *const c_char,
        schema: *mut c_char,
        schema_bytes: u64,
        out_variant: *mut c_char,
        out_bytes: u64,
        error: *mut c_char,
        error_bytes: u64,
    ) -> i32;
    pub fn th_derivative_missing(
        instr: *const Instr,
        inputs: *const Tensor,
        n_inputs: u32,
        missing: *mut c_char,
        missing_bytes: u64,
        error: *mut c_char,
        error_bytes: u64,
    ) -> i32;
    pub fn th_tape_new(
        instrs: *const Instr,
        n_instrs: u64,
        n_inputs: u32,
        n_outputs: u32,
        n_regs: u32,
        tape: *mut *mut RawTape,
        error: *mut c_char,
        error_bytes: u64,
    ) -> i32;
    pub fn th_tape_free(tape: *mut RawTape);
    pub fn th_bind(
        tape: *const RawTape,
        inputs: *const Tensor,
        outputs: *const Tensor,
        threads: i32,
        bound: *mut *mut RawBound,
        error: *mut c_char,
        error_bytes: u64,
    ) -> i32;
    pub fn th_run(
        bound: *mut RawBound,
        numbers: *const Number,
        n_numbers: u64,
        threads: i32,
        error: *mut c_char,
        error_bytes: u64,
    ) -> i32;
    pub fn th_unbind(bound: *mut RawBound);
    pub fn th_result_dims(
        bound: *const RawBound,
        reg: u32,
        dims: *mut i64,
        rank: *mut u32,
        max_rank: u32,
        error: *mut c_char,
        error_bytes: u64,
    ) -> i32;
    pub fn th_take(
        bound: *mut RawBound,
        reg: u32,
        target: *const Tensor,
        threads: i32,
        error: *mut c_char,
        error_bytes: u64,
    ) -> i32;
}
