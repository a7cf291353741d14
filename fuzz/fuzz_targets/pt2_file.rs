//! A whole `.pt2`: whatever the bytes, an error or a program whose every weight can be looked at, and whose graph
//! imports as a trace that obeys the rules or is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thunderhead::frontend::import;
use thunderhead::frontend::pt2::Pt2;
use thunderhead::frontend::pt2::weights::StorageId;
use thunderhead::memory::FileBytes;

fuzz_target!(|data: &[u8]| {
    let Ok(pt2) = Pt2::from_bytes(FileBytes::from_vec(data.to_vec())) else { return };
    for id in 0..pt2.weights.storages().len() {
        if let Ok(bytes) = pt2.weights.bytes(StorageId(id as u32)) {
            std::hint::black_box(bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)));
        }
    }
    if let Ok(imported) = import(&pt2) {
        assert!(thunderhead::ir::verify::verify(&imported.module).is_empty());
    }
});
