//! Prims that make tensors out of numbers.

use super::convert::{Load, convert};
use super::run::{Args, Made};
use super::strided::{Src, copy, fill, numel};
use super::value::Scalar;
use super::{Entry, class};
use thunderhead_sdk::{ArgRef, Error, Op};

pub const KERNELS: &[Entry] = &[
    Entry { name: "prims.empty", dtypes: class::NONE, make: empty },
    Entry { name: "prims.full", dtypes: class::NONE, make: full },
    Entry { name: "prims.iota", dtypes: class::NONE, make: iota },
    Entry { name: "prims.tensor_from_sequence", dtypes: class::NONE, make: tensor_from_sequence },
];

/// Contents are not specified; zeros make runs repeatable.
fn empty(op: &Op<'_>) -> Result<Made, Error> {
    with_bits!(op.output(0).dtype(), T => Ok(Made::new(|run| {
        let out = run.dst_bits::<T>(0)?;
        fill(run.pool(), &out, |_| <T as Default>::default())
    })
    .for_any_size()))
}

fn full(op: &Op<'_>) -> Result<Made, Error> {
    let value = op.num("value")?;
    let dtype = op.output(0).dtype();
    with_bits!(dtype, T => Ok(Made::new(move |run| {
        let (out, value) = (run.dst_bits::<T>(0)?, run.bits::<T>(value, dtype)?);
        fill(run.pool(), &out, |_| value)
    })))
}

/// `start + i * step`, in integers where both are, else in `f64`, rounded once.
fn iota(op: &Op<'_>) -> Result<Made, Error> {
    let (start, step) = (op.num("start")?, op.num("step")?);
    Ok(Made::new(move |run| {
        let out = run.store(0)?;
        let n = numel(out.dims());
        let values: Box<dyn Load> = match (run.number(start), run.number(step)) {
            (Scalar::Int(start), Scalar::Int(step)) => {
                let at = |i: usize| start.wrapping_add(step.wrapping_mul(i as i64));
                Box::new(Src::from_vec((0..n).map(at).collect(), out.dims()))
            }
            (start, step) => {
                let (start, step): (f64, f64) = (start.to(), step.to());
                let at = |i: usize| start + i as f64 * step;
                Box::new(Src::from_vec((0..n).map(at).collect(), out.dims()))
            }
        };
        convert(run.pool(), &*out, &*values)
    }))
}

fn tensor_from_sequence(op: &Op<'_>) -> Result<Made, Error> {
    let values: Vec<Scalar> = match op.arg("values") {
        Some(ArgRef::Ints(ints)) => {
            let known = ints.known().ok_or_else(|| Error::unsupported("`values` known only at run"))?;
            known.iter().map(|v| Scalar::Int(*v)).collect()
        }
        Some(ArgRef::Floats(floats)) => floats.iter().map(|v| Scalar::Float(*v)).collect(),
        Some(ArgRef::Bools(bools)) => bools.iter().map(|v| Scalar::Bool(*v != 0)).collect(),
        other => return Err(Error::invalid(format!("argument `values` is {other:?}; expected numbers"))),
    };
    with_every!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let out = run.dst::<T>(0)?;
        let found = values.len();
        if found != out.numel() {
            return Err(Error::invalid(format!("{found} values for dims {:?}", out.dims())));
        }
        let values = values.iter().map(|v| v.to()).collect();
        copy(run.pool(), &out, &Src::from_vec(values, out.dims()))
    })))
}

#[cfg(test)]
mod tests {
    use super::super::harness::*;
    use thunderhead_sdk::testing::Arg;
    use thunderhead_sdk::{Device, Dtype, Number, half::bf16};

    #[test]
    fn full_and_iota_take_numbers_known_at_run() {
        let on = Arg::Device(Device::CPU);
        let spec = op("prims.full").ints("dims", &[2]).slot("value", Number::Float(0.5));
        let out = run1(spec.dtype("dtype", Dtype::BF16).arg("device", on.clone()).output(Dtype::BF16, &[2]));
        assert_eq!(out.to_vec::<bf16>(), [bf16::from_f32(0.5); 2]);
        let spec = op("prims.iota").int("n", 4).slot("start", Number::Int(3)).int("step", -2);
        let out = run1(spec.dtype("dtype", Dtype::I64).arg("device", on.clone()).output(Dtype::I64, &[4]));
        assert_eq!(out.to_vec::<i64>(), [3, 1, -1, -3]);
        let spec = op("prims.iota").int("n", 3).float("start", 0.0).float("step", 0.1);
        let out = run1(spec.dtype("dtype", Dtype::F32).arg("device", on).output(Dtype::F32, &[3]));
        assert_eq!(out.to_vec::<f32>(), [0.0, 0.1, 0.2]);
    }

    #[test]
    fn a_sequence_fills_its_dims() {
        let spec =
            op("prims.tensor_from_sequence").floats("values", &[1.0, 2.0, 3.0, 4.0]).ints("dims", &[2, 2]);
        let spec = spec.dtype("dtype", Dtype::I8).arg("device", Arg::Device(Device::CPU));
        assert_eq!(run1(spec.output(Dtype::I8, &[2, 2])).to_vec::<i8>(), [1, 2, 3, 4]);
    }
}
