//! The program's JSON alone: checksums do not stand between the fuzzer and the parser.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thunderhead::frontend::pt2::graph::ExportedProgram;

fuzz_target!(|data: &[u8]| {
    let _ = ExportedProgram::parse(data, "models/model.json");
});
