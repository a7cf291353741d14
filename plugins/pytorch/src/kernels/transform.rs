//! Fourier transforms.

use thunderhead_sdk::{ArgRef, Refusal};

use thunderhead_aten::recipe::{Recipe, Row, call, form, with};

/// What this family runs.
pub static ROWS: &[Row] = &[
    call("prims.fft_c2c", "_fft_c2c", "a axes norm forward"),
    call("prims.fft_c2r", "_fft_c2r", "a axes norm last"),
    call("prims.fft_r2c", "_fft_r2c", "a axes norm onesided"),
    with("torch.fft", |recipe| match recipe.op.bool("inverse")? {
        true => by_axes(recipe, "fft_ifft"),
        false => by_axes(recipe, "fft_fft"),
    }),
    with("torch.irfft", |recipe| by_axes(recipe, "fft_irfft")),
    with("torch.rfft", |recipe| by_axes(recipe, "fft_rfft")),
    call("torch.stft", "stft", "a n_fft hop win window normalized onesided return_complex"),
];

/// Along one axis, or along several, whose overloads end in `n`.
fn by_axes(recipe: &mut Recipe<'_>, aten: &str) -> Result<(), Refusal> {
    let one = |arg: Option<ArgRef<'_>>| matches!(arg, Some(ArgRef::Int(_)));
    match (one(recipe.op.arg("axis")), one(recipe.op.arg("n"))) {
        (true, _) if matches!(recipe.op.arg("n"), Some(ArgRef::Int(_) | ArgRef::None)) => {
            recipe.call(aten, "a n axis norm")
        }
        (false, false) => recipe.call(&format!("{aten}n"), "a n axis norm"),
        _ => Err(form("`n` and `axis` are not both lists".into()).attribute("n")),
    }
}
