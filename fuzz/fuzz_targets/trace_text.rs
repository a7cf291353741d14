//! Trace text from outside: read or refused, never a panic; what is read prints, and comes back as text and as JSON.
//!
//! `cargo +nightly fuzz run trace_text fuzz/corpus/trace_text tests/traces/format`
#![no_main]

use libfuzzer_sys::fuzz_target;
use thunderhead::ir::text::{PrintOptions, from_json, parse, print, to_json};
use thunderhead::ops::schemas;

fuzz_target!(|text: &str| {
    // JSON has its own reader; whatever it makes of this text, it must not panic.
    let _ = from_json(text, schemas());
    let Ok(parsed) = parse(text, schemas()) else { return };
    let printed = print(&parsed.module, schemas(), &PrintOptions::FULL);
    let back = parse(&printed, schemas()).expect("what was printed can be read");
    assert_eq!(back.module, parsed.module);
    assert_eq!(print(&back.module, schemas(), &PrintOptions::FULL), printed);
    let json = to_json(&parsed.module, schemas()).to_string();
    assert_eq!(from_json(&json, schemas()).expect("what was written can be read"), parsed.module);
});
