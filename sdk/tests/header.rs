//! `thunderhead_plugin.h` says what `thunderhead-abi` says: names, sizes, offsets, constants.
//!
//! The Rust side lists each struct with all of its fields (a pattern without `..` proves that none is forgotten), writes a C program that
//! prints the same from the header, and compares.

use std::fmt::Write;
use std::mem::{offset_of, size_of};
use std::process::Command;
use thunderhead_abi::*;

/// `Name { fields }` of Rust as lines `ThName size` and `ThName.field offset`.
macro_rules! structs {
    ($lines:ident, $($module:ident :: $name:ident { $($field:ident),* })*) => {$(
        // All fields are listed, or this does not compile.
        let _ = |all: $module::$name| { let $module::$name { $($field: _),* } = all; };
        $lines.push((concat!("Th", stringify!($name)).to_owned(), None, size_of::<$module::$name>()));
        $($lines.push((
            concat!("Th", stringify!($name)).to_owned(),
            Some(stringify!($field)),
            offset_of!($module::$name, $field),
        ));)*
    )*};
}

type Line = (String, Option<&'static str>, usize);

fn structs_of_rust() -> Vec<Line> {
    type Array = basic::Array<u8>;
    let mut lines: Vec<Line> = Vec::new();
    let _ = |all: Array| {
        let basic::Array { ptr: _, len: _, stride_bytes: _ } = all;
    };
    lines.push(("ThArray".to_owned(), None, size_of::<Array>()));
    lines.push(("ThArray".to_owned(), Some("ptr"), offset_of!(Array, ptr)));
    lines.push(("ThArray".to_owned(), Some("len"), offset_of!(Array, len)));
    lines.push(("ThArray".to_owned(), Some("stride_bytes"), offset_of!(Array, stride_bytes)));
    structs! { lines,
        basic::Str { ptr, len }
        tensor::TensorView {
            data, byte_offset, dtype, device_kind, device_index, rank, dims, strides, flags, constant_id,
            constant_version, owner, retain, release
        }
        op::Arg { name, kind, reserved, value, imag, text, list, list_len, slots }
        op::TensorDesc {
            dtype, device_kind, device_index, rank, dims, dims_lo, dims_hi, strides, flags, constant_id,
            constant_version, data
        }
        op::NumberDesc { kind, reserved, lo, hi }
        op::OpDesc { size, name, origin, args, inputs, outputs, numbers }
        host::HostV1 { size, abi_major, abi_minor, ctx, get_table, name, threads, reserved }
        log_1::LogV1 { size, max_level, log }
        error_1::Refusal { size, code, sentence, attribute, dim, dim_value }
        error_1::ErrorV1 { size, set, refuse }
        ir_1::IrV1 { size, version, op_schema, op_text, decompose, taker }
        region::RegionValue { tensor, base, reserved, offset_elems, flags }
        region::RegionOp { op, inputs, outputs, flags }
        region::RegionDesc { size, name, values, ops, inputs, outputs, numbers }
        region::BlockDesc { size, first_op, first_value, ops, values, yields, numbers }
        lower_1::KernelStep { size, name, inputs, outputs, numbers, info }
        lower_1::LowerV1 { size, temporary, kernel_step, delegate }
        compile_1::CompileV1 { size, lower }
        region_1::RegionV1 { size, propose }
        alloc_1::AllocV1 { size, alloc_output }
        parallel_1::ParallelV1 { size, parallel_for }
        options_1::OptionValue { kind, reserved, value, text, list }
        options_1::OptionsV1 { size, get }
        cancel_1::CancelV1 { size, cancelled }
        clock_1::ClockV1 { size, now_ns }
        executor_1::ExecutorV1 { size, create, destroy, available }
        claim_1::ClaimV1 { size, check_op }
        kernel_1::InPlace { output, input }
        kernel_1::OutputStrides { output, rank, strides }
        kernel_1::KernelInfo { size, kernel, flags, in_place, output_strides }
        kernel_1::Number { kind, reserved, value }
        kernel_1::RunArgs {
            size, inputs, outputs, numbers, workspace, workspace_bytes, threads, reserved, run
        }
        kernel_1::KernelV1 { size, make, run, free }
        bind_1::BindArgs { size, inputs, outputs, workspace, workspace_bytes, threads, reserved }
        bind_1::BindV1 { size, bind, run, unbind }
        workspace_1::WorkspaceV1 { size, bytes }
        lifecycle_1::LifecycleV1 { size, quiesce }
        selftest_1::SelftestV1 { size, run }
        entry::Description { size, manifest, executors, sdk_version }
        entry::EntryV1 { size, abi_major, abi_minor, describe, get_table }
        probe::Probe { magic, size, abi_major, abi_minor, panics, sdk_version, compiler, target }
        probe::ManifestHead { magic, len }
    }
    lines
}

fn constants_of_rust() -> Vec<(String, i128)> {
    let mut constants: Vec<(String, i128)> = Vec::new();
    macro_rules! constants {
        ($($prefix:literal $module:path { $($name:ident),* })*) => {$({
            use $module::*;
            $(constants.push((format!("TH_{}{}", $prefix, stringify!($name)), $name as i128));)*
        })*};
    }
    constants! {
        "" thunderhead_abi { ABI_MAJOR, ABI_MINOR, IR_MAJOR, IR_MINOR }
        "STATUS_" basic::status {
            OK, INVALID_ARGUMENT, UNSUPPORTED, OUT_OF_MEMORY, UNAVAILABLE, VERSION, INTERNAL, PANIC, TIMEOUT,
            CANCELLED, REFUSED, BAD_DATA
        }
        "" tensor { UNKNOWN }
        "VIEW_" tensor::view_flags { READ_ONLY, CONTIGUOUS }
        "ARG_" op::arg_kind {
            NONE, TENSOR, TENSORS, INT, FLOAT, BOOL, STR, COMPLEX, DTYPE, DEVICE, INTS, FLOATS, BOOLS, LISTS,
            NUMBER, STRS, UNKNOWN
        }
        "" op { NO_SLOT, UNKNOWN_INT }
        "DESC_" op::desc_flags { CONTIGUOUS, CONSTANT }
        "" dtype { DEVICE_CPU }
        "VALUE_" region::value_flags { INPUT, OUTPUT, VIEW }
        "REGION_OP_" region::region_op_flags { VIEW, NUMBER, COMPOSITE }
        "LOG_" log_1::level { ERROR, WARN, INFO, DEBUG, TRACE }
        "OPTION_" options_1::option_kind { BOOL, INT, FLOAT, STRING, LIST }
        "KERNEL_" kernel_1::kernel_flags { SIZE_INDEPENDENT }
        "PANICS_" probe::panics { UNWIND, ABORT, NONE }
    }
    constants.extend(
        dtype::ALL
            .iter()
            .map(|(code, name, _)| (format!("TH_DTYPE_{}", name.to_uppercase()), i128::from(*code))),
    );
    constants
}

fn header() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("abi/include/thunderhead_plugin.h")
}

#[test]
fn header_and_crate_agree() {
    let (structs, constants) = (structs_of_rust(), constants_of_rust());
    let mut program =
        String::from("#include <stdio.h>\n#include \"thunderhead_plugin.h\"\nint main(void) {\n");
    let mut expected = String::new();
    for (name, field, value) in &structs {
        let (c, shown) = match field {
            Some(field) => (format!("offsetof({name}, {field})"), format!("{name}.{field}")),
            None => (format!("sizeof({name})"), name.clone()),
        };
        writeln!(program, "printf(\"{shown} %zu\\n\", {c});").expect("a string");
        writeln!(expected, "{shown} {value}").expect("a string");
    }
    for (name, value) in &constants {
        writeln!(program, "printf(\"{name} %lld\\n\", (long long){name});").expect("a string");
        writeln!(expected, "{name} {value}").expect("a string");
    }
    program.push_str("return 0; }\n");
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, binary) = (dir.join("header.c"), dir.join("header"));
    std::fs::write(&source, program).expect("Cargo's folder for tests");
    let include = header().parent().expect("in a folder").to_owned();
    let cc = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let built = Command::new(cc)
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(include)
        .arg(&source)
        .arg("-o")
        .arg(&binary)
        .status();
    assert!(built.expect("a C compiler runs").success());
    let found = Command::new(&binary).output().expect("just built").stdout;
    let found = String::from_utf8(found).expect("text");
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.lines().count(), expected.lines().count());
}

/// Each struct and constant of the header is one that Rust has: nothing stands there alone.
#[test]
fn the_header_has_nothing_of_its_own() {
    let text = std::fs::read_to_string(header()).expect("checked in");
    let structs = structs_of_rust();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("typedef struct ").and_then(|rest| rest.split(' ').next()) {
            assert!(structs.iter().any(|(known, ..)| known == name), "{name}");
        }
    }
    let constants = constants_of_rust();
    let conveniences = [
        "TH_STR",
        "TH_TARGET",
        "TH_SECTION_PROBE",
        "TH_SECTION_MANIFEST",
        "TH_EXTERN",
        "TH_EXPORT",
        "TH_LE4",
        "TH_LE8",
    ];
    for line in text.lines() {
        let Some(name) = line.strip_prefix("#define TH_") else { continue };
        let name = format!("TH_{}", name.split([' ', '(']).next().unwrap_or(""));
        let known =
            constants.iter().any(|(known, _)| *known == name) || conveniences.contains(&name.as_str());
        assert!(known, "{name}");
    }
}

/// Sections, symbols and magic numbers are spelled in the header as Rust has them.
#[test]
fn names_in_files_are_the_same() {
    let text = std::fs::read_to_string(header()).expect("checked in");
    for name in [probe::PROBE_SECTION, probe::MANIFEST_SECTION] {
        assert!(text.contains(&format!("\"{name}\"")), "{name}");
    }
    for name in [probe::PROBE_SYMBOL, probe::MANIFEST_SYMBOL, entry::ENTRY_SYMBOL] {
        assert!(text.contains(&format!(" {name}")) || text.contains(&format!("*{name}")), "{name}");
    }
    for magic in [probe::PROBE_MAGIC, probe::MANIFEST_MAGIC] {
        let spelled: Vec<String> = magic.iter().map(|byte| format!("'{}'", *byte as char)).collect();
        assert!(text.contains(&spelled.join(", ")), "{spelled:?}");
    }
    for id in [
        log_1::ID,
        error_1::ID,
        ir_1::ID,
        lower_1::ID,
        alloc_1::ID,
        parallel_1::ID,
        options_1::ID,
        cancel_1::ID,
        clock_1::ID,
    ] {
        assert!(text.contains(&format!("/* \"{id}\"")), "{id}");
    }
    for id in [
        executor_1::ID,
        claim_1::ID,
        kernel_1::ID,
        bind_1::ID,
        workspace_1::ID,
        compile_1::ID,
        region_1::ID,
        lifecycle_1::ID,
        selftest_1::ID,
    ] {
        assert!(text.contains(&format!("/* \"{id}\"")), "{id}");
    }
}
