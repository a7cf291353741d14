//! A size expression: parsed and evaluated.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thunderhead::frontend::pt2::expr::Expr;

fuzz_target!(|text: &str| {
    if let Ok(expr) = Expr::parse(text) {
        let _ = expr.eval(&|name| i64::try_from(name.len()).ok());
    }
});
