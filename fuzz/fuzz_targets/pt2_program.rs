//! The program's JSON alone, in an archive without weights: checksums do not stand between the fuzzer and the importer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thunderhead::frontend::import;
use thunderhead::frontend::pt2::Pt2;
use thunderhead::frontend::pt2::graph::ExportedProgram;
use thunderhead::frontend::pt2::weights::Weights;

fuzz_target!(|data: &[u8]| {
    let Ok(program) = ExportedProgram::parse(data, "models/model.json") else { return };
    let pt2 = Pt2 { name: "fuzz".to_owned(), program, weights: Weights::none(), warnings: Vec::new() };
    if let Ok(imported) = import(&pt2) {
        assert!(thunderhead::ir::verify::verify(&imported.module).is_empty());
    }
});
