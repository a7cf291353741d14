//! Whether tensors are what was expected: `|got - expected| <= atol + rtol * |expected|`, element by element.
//!
//! Dtype and sizes must always agree; integers, booleans and 8-bit floats exactly; equal NaNs and equal infinities
//! count as equal. Differences of complex numbers are distances in the plane.

use std::collections::BTreeMap;

use crate::ir::Dtype;
use crate::memory::{Tensor, TensorError};

/// Limits of what may differ; `None`: by dtype.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tolerance {
    pub rtol: Option<f64>,
    pub atol: Option<f64>,
}

impl Tolerance {
    /// The limits for a dtype: relative, absolute.
    fn of(self, dtype: Dtype) -> (f64, f64) {
        let by_dtype = match dtype {
            Dtype::F64 | Dtype::C128 => 1e-8,
            Dtype::F32 | Dtype::C64 => 1e-4,
            Dtype::F16 => 1e-2,
            Dtype::Bf16 => 2e-2,
            _ => return (0.0, 0.0),
        };
        let rtol = self.rtol.unwrap_or(by_dtype);
        (rtol, self.atol.unwrap_or(rtol))
    }
}

/// What was found for one tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Within the limits; the largest difference of all elements.
    Same { largest: f64 },
    /// Another dtype or other sizes.
    OtherType { got: String, expected: String },
    /// Too far off.
    Differs(Worst),
}

/// The element that is farthest beyond its limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Worst {
    pub index: Vec<i64>,
    pub got: String,
    pub expected: String,
    pub difference: f64,
    pub allowed: f64,
    /// How many elements are beyond their limits, and how many there are.
    pub n_differing: usize,
    pub n_elements: usize,
}

impl Verdict {
    /// Whether it is what was expected.
    pub fn is_same(&self) -> bool {
        matches!(self, Verdict::Same { .. })
    }

    /// One sentence.
    pub fn sentence(&self) -> String {
        match self {
            Verdict::Same { largest } => format!("same, largest difference {largest:.3e}"),
            Verdict::OtherType { got, expected } => format!("got {got}, expected {expected}"),
            Verdict::Differs(worst) => format!(
                "{} of {} elements differ, worst at {:?}: got {}, expected {}, difference {:.3e}, allowed {:.3e}",
                worst.n_differing,
                worst.n_elements,
                worst.index,
                worst.got,
                worst.expected,
                worst.difference,
                worst.allowed
            ),
        }
    }
}

/// Compares two tensors. The error is that of running out of memory.
pub fn compare(got: &Tensor, expected: &Tensor, tolerance: Tolerance) -> Result<Verdict, TensorError> {
    if got.dtype() != expected.dtype() || got.dims() != expected.dims() {
        return Ok(Verdict::OtherType { got: described(got), expected: described(expected) });
    }
    let dtype = got.dtype();
    let (rtol, atol) = tolerance.of(dtype);
    let (got_bytes, expected_bytes) = (got.to_bytes()?, expected.to_bytes()?);
    let size = dtype.size_bytes();
    let mut tally = Tally { largest: 0.0, n_differing: 0, worst: None };
    for (i, (g, e)) in got_bytes.chunks_exact(size).zip(expected_bytes.chunks_exact(size)).enumerate() {
        if g != e {
            let (g, e) = (Element::of(dtype, g), Element::of(dtype, e));
            // An infinity allows nothing beside itself, or it would allow everything.
            let relative = if e.magnitude().is_finite() { rtol * e.magnitude() } else { 0.0 };
            tally.add(i, g.distance(e), atol + relative);
        }
    }
    let Some((i, difference, allowed)) = tally.worst else {
        return Ok(Verdict::Same { largest: tally.largest });
    };
    let at = i * size..(i + 1) * size;
    Ok(Verdict::Differs(Worst {
        index: index_of(i, got.dims()),
        got: Element::of(dtype, &got_bytes[at.clone()]).to_string(),
        expected: Element::of(dtype, &expected_bytes[at]).to_string(),
        difference,
        allowed,
        n_differing: tally.n_differing,
        n_elements: got.numel(),
    }))
}

/// The largest magnitude of the elements that are finite; 0 where there is none. The error is that of running out of
/// memory.
pub fn largest_magnitude(tensor: &Tensor) -> Result<f64, TensorError> {
    let (bytes, dtype) = (tensor.to_bytes()?, tensor.dtype());
    let magnitudes =
        bytes.chunks_exact(dtype.size_bytes()).map(|element| Element::of(dtype, element).magnitude());
    Ok(magnitudes.filter(|magnitude| magnitude.is_finite()).fold(0.0, f64::max))
}

/// Compares gradients by name: no element of a tensor may differ by more than `rtol` times its scale, which is the largest
/// magnitude in the expected tensor, or a thousandth of the largest in all expected tensors, if that is more: some
/// gradients are zero but for rounding. One that `expected` does not have counts as zero. What only `expected`
/// has is left to the caller.
pub fn compare_gradients(
    got: &BTreeMap<String, Tensor>,
    expected: &BTreeMap<String, Tensor>,
    rtol: f64,
) -> Result<BTreeMap<String, Verdict>, TensorError> {
    let mut largest: f64 = 0.0;
    for tensor in expected.values() {
        largest = largest.max(largest_magnitude(tensor)?);
    }
    let verdict = |name: &String, got: &Tensor| {
        let zeros;
        let wanted = match expected.get(name) {
            Some(wanted) => wanted,
            None => {
                zeros = Tensor::zeros(got.dtype(), got.dims())?;
                &zeros
            }
        };
        let scale = largest_magnitude(wanted)?.max(largest / 1000.0);
        compare(got, wanted, Tolerance { rtol: Some(0.0), atol: Some(rtol * scale) })
    };
    got.iter().map(|(name, tensor)| Ok((name.clone(), verdict(name, tensor)?))).collect()
}

struct Tally {
    largest: f64,
    n_differing: usize,
    /// Position, difference, what was allowed.
    worst: Option<(usize, f64, f64)>,
}

impl Tally {
    fn add(&mut self, i: usize, difference: f64, allowed: f64) {
        self.largest = self.largest.max(difference);
        // Written so that a difference that is no number is beyond every limit.
        if difference <= allowed {
            return;
        }
        self.n_differing += 1;
        let excess = |difference: f64, allowed: f64| {
            let excess = difference - allowed;
            if excess.is_nan() { f64::INFINITY } else { excess }
        };
        if self.worst.is_none_or(|(_, d, a)| excess(difference, allowed) > excess(d, a)) {
            self.worst = Some((i, difference, allowed));
        }
    }
}

/// One element, in a form in which it can be compared and printed.
#[derive(Clone, Copy, Debug)]
enum Element {
    Int(i128),
    Real(f64),
    Complex(f64, f64),
}

impl Element {
    /// The element in these little-endian bytes. 8-bit floats count as their bits: they are compared exactly.
    fn of(dtype: Dtype, bytes: &[u8]) -> Element {
        let mut wide = [0; 16];
        wide[..bytes.len()].copy_from_slice(bytes);
        let bits = u128::from_le_bytes(wide);
        let f32_at = |shift: u32| f64::from(f32::from_bits((bits >> shift) as u32));
        match dtype {
            Dtype::I8 => Element::Int(i128::from(bits as u8 as i8)),
            Dtype::I16 => Element::Int(i128::from(bits as u16 as i16)),
            Dtype::I32 => Element::Int(i128::from(bits as u32 as i32)),
            Dtype::I64 => Element::Int(i128::from(bits as u64 as i64)),
            Dtype::F16 => Element::Real(half::f16::from_bits(bits as u16).to_f64()),
            Dtype::Bf16 => Element::Real(half::bf16::from_bits(bits as u16).to_f64()),
            Dtype::F32 => Element::Real(f32_at(0)),
            Dtype::F64 => Element::Real(f64::from_bits(bits as u64)),
            Dtype::C64 => Element::Complex(f32_at(0), f32_at(32)),
            Dtype::C128 => Element::Complex(f64::from_bits(bits as u64), f64::from_bits((bits >> 64) as u64)),
            _ => Element::Int(bits as i128),
        }
    }

    fn magnitude(self) -> f64 {
        match self {
            Element::Int(int) => int as f64,
            Element::Real(real) => real.abs(),
            Element::Complex(re, im) => re.hypot(im),
        }
    }

    /// 0 for equal elements, NaNs and infinities included; NaN or infinite where only one of them is one.
    fn distance(self, other: Element) -> f64 {
        let along = |a: f64, b: f64| if a == b || (a.is_nan() && b.is_nan()) { 0.0 } else { (a - b).abs() };
        match (self, other) {
            (Element::Int(a), Element::Int(b)) => (a - b).unsigned_abs() as f64,
            (Element::Real(a), Element::Real(b)) => along(a, b),
            (Element::Complex(re, im), Element::Complex(other_re, other_im)) => {
                along(re, other_re).hypot(along(im, other_im))
            }
            _ => f64::NAN,
        }
    }
}

impl std::fmt::Display for Element {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Element::Int(int) => write!(f, "{int}"),
            Element::Real(real) => write!(f, "{real}"),
            Element::Complex(re, im) => write!(f, "({re}, {im})"),
        }
    }
}

/// One element as text; reals short enough for a line.
pub fn element_text(dtype: Dtype, bytes: &[u8]) -> String {
    match Element::of(dtype, bytes) {
        _ if dtype == Dtype::Bool => (bytes != [0]).to_string(),
        Element::Real(real) => short(real),
        Element::Complex(re, im) => format!("({}, {})", short(re), short(im)),
        element => element.to_string(),
    }
}

/// Six significant digits or so: `12.5`, `0.333333`, `1.5e-9`.
fn short(real: f64) -> String {
    if real == 0.0 || !real.is_finite() {
        return real.to_string();
    }
    if (1e-4..1e6).contains(&real.abs()) {
        let text = format!("{real:.6}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let text = format!("{real:.5e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            format!("{}e{exponent}", digits.trim_end_matches('0').trim_end_matches('.'))
        }
        None => text,
    }
}

/// `f32[2, 3]`
pub fn described(tensor: &Tensor) -> String {
    format!("{}{:?}", tensor.dtype(), tensor.dims())
}

/// Row-major position to index.
fn index_of(mut i: usize, dims: &[i64]) -> Vec<i64> {
    let mut index = vec![0; dims.len()];
    for (at, &size) in index.iter_mut().zip(dims).rev() {
        let size = size.max(1) as usize;
        *at = (i % size) as i64;
        i /= size;
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Element as Plain;

    fn tensor<T: Plain>(data: &[T], dims: &[i64]) -> Tensor {
        Tensor::from_slice(data, dims).expect("dims of the data")
    }

    #[track_caller]
    fn verdict<T: Plain>(got: &[T], expected: &[T]) -> Verdict {
        let dims = [got.len() as i64];
        compare(&tensor(got, &dims), &tensor(expected, &dims), Tolerance::default()).expect("enough memory")
    }

    #[test]
    fn close_enough_is_the_same() {
        assert!(verdict(&[1.0f32, 100.0], &[1.0001, 100.009]).is_same());
        assert!(!verdict(&[1.0f32], &[1.001]).is_same());
        assert!(!verdict(&[1.0f64], &[1.0001]).is_same());
        assert!(verdict(&[half::bf16::from_f32(1.0)], &[half::bf16::from_f32(1.0078)]).is_same());
    }

    #[test]
    fn integers_are_compared_exactly() {
        assert!(verdict(&[i64::MAX], &[i64::MAX]).is_same());
        assert!(!verdict(&[i64::MAX], &[i64::MAX - 1]).is_same());
        assert!(!verdict(&[255u8], &[254]).is_same());
        assert!(!verdict(&[true], &[false]).is_same());
    }

    #[test]
    fn nans_and_infinities_are_themselves() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        assert!(verdict(&[nan, inf, -0.0], &[-nan, inf, 0.0]).is_same());
        for (got, expected) in [(nan, 1.0), (1.0, nan), (inf, 1.0), (1.0, inf), (inf, -inf), (nan, inf)] {
            assert!(!verdict(&[got], &[expected]).is_same(), "{got} {expected}");
        }
    }

    #[test]
    fn the_worst_element_is_named() {
        let got = tensor(&[0.0f32, 5.0, 0.0, 0.5, 0.0, f32::NAN], &[2, 3]);
        let expected = tensor(&[0.0f32; 6], &[2, 3]);
        let verdict = compare(&got, &expected, Tolerance::default()).expect("enough memory");
        let Verdict::Differs(worst) = &verdict else { panic!("{verdict:?}") };
        assert_eq!((worst.index.as_slice(), worst.n_differing), (&[1, 2][..], 3));
        let got = tensor(&[0.0f32, 5.0, 0.0, 0.5, 0.0, 0.0], &[2, 3]);
        let verdict =
            compare(&got, &expected, Tolerance { rtol: None, atol: Some(1.0) }).expect("enough memory");
        let sentence =
            "1 of 6 elements differ, worst at [0, 1]: got 5, expected 0, difference 5.000e0, allowed 1.000e0";
        assert_eq!(verdict.sentence(), sentence);
    }

    #[test]
    fn gradients_are_compared_by_the_scale_of_their_tensor_and_of_all() {
        let named = |list: &[(&str, &[f32])]| -> BTreeMap<String, Tensor> {
            let one =
                |(name, data): &(&str, &[f32])| ((*name).to_owned(), tensor(data, &[data.len() as i64]));
            list.iter().map(one).collect()
        };
        let expected = named(&[("a", &[1000.0, 0.0]), ("b", &[1e-6]), ("c", &[10.0])]);
        let same = |got: &[(&str, &[f32])]| -> Vec<bool> {
            let verdicts = compare_gradients(&named(got), &expected, 1e-3).expect("enough memory");
            verdicts.values().map(Verdict::is_same).collect()
        };
        // `b` is nothing but rounding beside 1000; `d` is not expected and so is zero.
        assert_eq!(
            same(&[("a", &[1000.0, 0.9]), ("b", &[9e-4]), ("c", &[10.009]), ("d", &[9e-4])]),
            [true; 4]
        );
        assert_eq!(
            same(&[("a", &[1000.0, 1.1]), ("b", &[2e-3]), ("c", &[10.02]), ("d", &[2e-3])]),
            [false; 4]
        );
        assert_eq!(same(&[("a", &[f32::NAN, 0.0]), ("c", &[f32::INFINITY])]), [false; 2]);
    }

    #[test]
    fn reals_are_short() {
        let shown = [12.5, 1.0 / 3.0, 1.5e-9, -2e7, 0.0, f64::INFINITY, 100.0].map(short);
        assert_eq!(shown, ["12.5", "0.333333", "1.5e-9", "-2e7", "0", "inf", "100"]);
    }

    #[test]
    fn types_must_agree() {
        let verdict = compare(&tensor(&[1.0f32], &[1]), &tensor(&[1.0f64], &[1]), Tolerance::default());
        assert_eq!(verdict.expect("enough memory").sentence(), "got f32[1], expected f64[1]");
    }
}
