//! Prims that move or reinterpret values: copies, conversions, layouts.
//!
//! Most are views, which the host resolves by itself; the kernels here copy, for when strides cannot say it.

use super::convert::convert;
use super::run::{Args, Made};
use super::strided::{Src, copy, map1};
use super::value::{Bool, Value, bytes_of, from_bytes};
use super::{Entry, class};
use half::{bf16, f16};
use thunderhead_sdk::{Dtype, Error, Op};

pub const KERNELS: &[Entry] = &[
    Entry { name: "prims.bitcast", dtypes: class::EVERY, make: bitcast },
    Entry { name: "prims.check", dtypes: &[Dtype::Bool], make: check },
    Entry { name: "prims.clone", dtypes: class::EVERY, make: |op| copy_of(op, "a") },
    Entry { name: "prims.convert_element_type", dtypes: class::EVERY, make: convert_element_type },
    Entry { name: "prims.copy_", dtypes: class::EVERY, make: |op| copy_of(op, "src") },
    Entry { name: "prims.set_data", dtypes: class::EVERY, make: |op| copy_of(op, "new") },
    Entry { name: "prims.shallow_copy", dtypes: class::EVERY, make: |op| copy_of(op, "a") },
    Entry { name: "prims.stride_order", dtypes: class::EVERY, make: stride_order },
];

fn copy_of(op: &Op<'_>, name: &str) -> Result<Made, Error> {
    let input = op.must(name)?;
    with_bits!(op.output(0).dtype(), T => {
        let made = Made::new(move |run| {
            let (a, out) = (run.src_bits::<T>(input)?, run.dst_bits::<T>(0)?);
            copy(run.pool(), &out, &a)
        });
        // The written tensor of `prims.copy_` may be written where it lies.
        let written = op.tensor("dst");
        Ok(made.for_any_size().in_place(written.into_iter().chain([input])))
    })
}

fn convert_element_type(op: &Op<'_>) -> Result<Made, Error> {
    let (input, to) = (op.must("a")?, op.dtype("dtype")?);
    // The pairs that models are full of have loops of their own.
    let made = match (op.input(input).dtype(), to) {
        (Dtype::F32, Dtype::BF16) => converted::<f32, bf16>(input),
        (Dtype::BF16, Dtype::F32) => converted::<bf16, f32>(input),
        (Dtype::F32, Dtype::F16) => converted::<f32, f16>(input),
        (Dtype::F16, Dtype::F32) => converted::<f16, f32>(input),
        (Dtype::Bool, Dtype::F32) => converted::<Bool, f32>(input),
        (Dtype::I64, Dtype::F32) => converted::<i64, f32>(input),
        _ => Made::new(move |run| {
            let (a, out) = (run.load(input)?, run.store(0)?);
            convert(run.pool(), &*out, &*a)
        }),
    };
    let shares = op.input(input).dtype().size_bytes() == to.size_bytes();
    Ok(made.for_any_size().in_place(shares.then_some(input)))
}

fn converted<A: Value, R: Value>(input: usize) -> Made {
    Made::new(move |run| {
        let (a, out) = (run.src::<A>(input)?, run.dst::<R>(0)?);
        map1(run.pool(), &out, &a, |v: A| v.convert::<R>())
    })
}

/// The same bits in another dtype. Where sizes differ, the last dim is that of the bytes.
fn bitcast(op: &Op<'_>) -> Result<Made, Error> {
    let (input, to) = (op.must("a")?, op.dtype("dtype")?);
    let from = op.input(input).dtype();
    Ok(Made::new(move |run| {
        let bytes: Vec<u8> = with_bits!(from, A => {
            let each = run.src_bits::<A>(input)?.to_vec().into_iter().map(bytes_of);
            Ok::<_, Error>(each.flat_map(|bytes| bytes.into_iter().take(size_of::<A>())).collect())
        })?;
        with_bits!(to, R => {
            let out = run.dst_bits::<R>(0)?;
            if bytes.len() != out.numel() * size_of::<R>() {
                let what = format!("{} bytes do not fill dims {:?} of {to}", bytes.len(), out.dims());
                return Err(Error::invalid(what));
            }
            let values: Vec<R> = bytes.chunks_exact(size_of::<R>()).map(from_bytes).collect();
            copy(run.pool(), &out, &Src::from_vec(values, out.dims()))
        })
    })
    .for_any_size())
}

/// The same values in other strides: dense, with the axes of `order` from the outermost to the innermost.
fn stride_order(op: &Op<'_>) -> Result<Made, Error> {
    let input = op.must("a")?;
    let desc = op.output(0);
    let order = op.sizes("order")?;
    if op.axes("order", desc.rank())?.len() != desc.rank() {
        return Err(Error::invalid(format!("order {order:?} of a tensor with {} dims", desc.rank())));
    }
    let mut strides = vec![0; desc.rank()];
    let mut step = 1;
    for axis in order.into_iter().rev() {
        strides[axis] = step;
        step *= desc.dims()[axis].max(1);
    }
    with_bits!(desc.dtype(), T => Ok(Made::new(move |run| {
        let (a, out) = (run.src_bits::<T>(input)?, run.dst_bits::<T>(0)?);
        copy(run.pool(), &out, &a)
    })
    .with_strides(strides)))
}

/// Fails with the model's own message unless every element holds.
fn check(op: &Op<'_>) -> Result<Made, Error> {
    let message = op.str("message")?.to_owned();
    let cond = op.operand("cond")?;
    Ok(Made::new(move |run| {
        let holds = match cond.tensor() {
            Some(input) => run.src::<Bool>(input)?.to_vec().into_iter().all(Bool::get),
            None => run.operand::<Bool>(cond, &[])?.get(&[]).get(),
        };
        if holds { Ok(()) } else { Err(Error::bad_data(format!("the model's check failed: {message}"))) }
    }))
}

#[cfg(test)]
mod tests {
    use super::super::harness::*;
    use super::*;
    use thunderhead_sdk::testing::Tensor;

    fn converted(a: Tensor, to: Dtype) -> Tensor {
        let dims = a.dims().to_vec();
        run1(op("prims.convert_element_type").tensor("a", a).dtype("dtype", to).output(to, &dims))
    }

    #[test]
    fn floats_become_integers_as_x86_cuts_them() {
        let values = vec![3e9, 5e9, f32::NAN, f32::INFINITY, 300.0, -300.5, -2.9, 70000.0];
        let a = Tensor::new(&[8], values);
        assert_eq!(converted(a.clone(), Dtype::U8).to_vec::<u8>(), [0, 0, 0, 0, 44, 212, 254, 112]);
        assert_eq!(converted(a.clone(), Dtype::I8).to_vec::<i8>(), [0, 0, 0, 0, 44, -44, -2, 112]);
        let least = i32::MIN;
        let i32s = [least, least, least, least, 300, -300, -2, 70000];
        assert_eq!(converted(a.clone(), Dtype::I32).to_vec::<i32>(), i32s);
        let least = i64::MIN;
        let i64s = [3_000_000_000, 5_000_000_000, least, least, 300, -300, -2, 70000];
        assert_eq!(converted(a.clone(), Dtype::I64).to_vec::<i64>(), i64s);
        assert_eq!(converted(a, Dtype::Bool).to_vec::<bool>(), [true; 8]);
    }

    #[test]
    fn wide_values_round_once_into_halves() {
        // Just above the middle of two f16: rounding through f32 first would lose the last bit and round to even.
        let v = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        let a = Tensor::new(&[1], vec![v]);
        assert_eq!(converted(a.clone(), Dtype::F16).to_vec::<f16>()[0].to_bits(), f16::ONE.to_bits() + 1);
        let v = 1.0 + 2f64.powi(-8) + 2f64.powi(-40);
        let a = Tensor::new(&[1], vec![v]);
        assert_eq!(converted(a, Dtype::BF16).to_vec::<bf16>()[0].to_bits(), bf16::ONE.to_bits() + 1);
    }

    #[test]
    fn integers_of_any_width_convert() {
        let a = Tensor::new(&[2], vec![-1i64, 1 << 40]);
        assert_eq!(converted(a.clone(), Dtype::U64).to_vec::<u64>(), [u64::MAX, 1 << 40]);
        assert_eq!(converted(a.clone(), Dtype::U16).to_vec::<u16>(), [65535, 0]);
        assert_eq!(converted(a, Dtype::F32).to_vec::<f32>(), [-1.0, (1u64 << 40) as f32]);
        let a = Tensor::new(&[1], vec![u64::MAX]);
        assert_eq!(converted(a.clone(), Dtype::F64).to_vec::<f64>(), [u64::MAX as f64]);
        assert_eq!(converted(a, Dtype::F8E5M2).bytes(), [0x7c]);
    }

    #[test]
    fn bits_are_kept_when_the_last_dim_changes() {
        let a = Tensor::new(&[2], vec![0x0403_0201i32, 0x0807_0605]);
        let out = run1(op("prims.bitcast").tensor("a", a).dtype("dtype", Dtype::U8).output(Dtype::U8, &[8]));
        assert_eq!(out.to_vec::<u8>(), [1, 2, 3, 4, 5, 6, 7, 8]);
        let a = Tensor::new(&[2, 2], vec![1f32, 2.0, 3.0, 4.0]).transposed(0, 1);
        let out =
            run1(op("prims.bitcast").tensor("a", a).dtype("dtype", Dtype::C64).output(Dtype::C64, &[2, 1]));
        let c = |re, im| num_complex::Complex::new(re, im);
        assert_eq!(out.to_vec::<num_complex::Complex<f32>>(), [c(1.0, 3.0), c(2.0, 4.0)]);
    }

    #[test]
    fn a_layout_is_written_in_its_strides() {
        let a = Tensor::new(&[1, 2, 1, 3], vec![1i32, 2, 3, 4, 5, 6]);
        let spec = op("prims.stride_order").tensor("a", a).ints("order", &[0, 2, 3, 1]);
        let out = run1(spec.output(Dtype::I32, &[1, 2, 1, 3]));
        assert_eq!(out.to_vec::<i32>(), [1, 2, 3, 4, 5, 6]);
        let memory: Vec<i32> =
            out.bytes().chunks(4).map(|b| i32::from_le_bytes(b.try_into().unwrap_or_default())).collect();
        assert_eq!(memory, [1, 4, 2, 5, 3, 6]);
    }

    #[test]
    fn a_failed_check_says_the_models_words() {
        let spec =
            |v| op("prims.check").tensor("cond", Tensor::new(&[2], vec![true, v])).str("message", "too long");
        assert!(host().run(&spec(true)).is_ok());
        let error = host().run(&spec(false)).expect_err("the check does not hold");
        assert!(error.message().contains("too long"), "{error}");
    }
}
