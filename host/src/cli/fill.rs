//! Inputs nobody gave: tensors of the model's sizes, filled from a seed. The same seed gives the same inputs everywhere.
//!
//! Floats lie in [-1, 1); integers are 0 or 1, since they may be indices; a symbolic size takes the smallest value
//! from 2 on that its range allows (0 and 1 are often special).

use thunderhead::ir::{Dtype, NumKind, SymDecl, Type};
use thunderhead::memory::{Tensor, TensorError};
use thunderhead::run::Value;

/// A stream of random bits: SplitMix64, which is short and the same on every machine.
pub struct Bits {
    state: u64,
}

impl Bits {
    /// A stream of its own for each seed and input.
    pub fn new(seed: u64, input_idx: usize) -> Bits {
        Bits { state: seed ^ (input_idx as u64).wrapping_mul(0xd134_2543_de82_ef95) }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Puts a list into an order of chance.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, (self.next() % (i as u64 + 1)) as usize);
        }
    }

    /// In [-1, 1), in steps that every float dtype but the 8-bit ones can say.
    fn unit(&mut self) -> f32 {
        (self.next() >> 56) as f32 / 128.0 - 1.0
    }
}

/// The value of a symbolic size: the smallest from 2 on in its range, or the largest below if there is none.
pub fn size_of(decl: &SymDecl) -> i64 {
    let step = decl.step.max(1);
    let up = |n: i64| n.div_euclid(step) * step + if n.rem_euclid(step) == 0 { 0 } else { step };
    let wanted = up(decl.low.max(2));
    match decl.high {
        Some(high) if wanted > high => high.div_euclid(step) * step,
        _ => wanted,
    }
}

/// The value of an integer input: 1 where its range allows, since it may be an index.
pub fn number_of(decl: &SymDecl) -> i64 {
    decl.high.map_or(1, |high| high.min(1)).max(decl.low)
}

/// An input of that type. `dims` are the type's, with symbols replaced.
pub fn filled(ty: &Type, dims: &[i64], bits: &mut Bits) -> Result<Value, TensorError> {
    match ty {
        Type::Tensor(tensor) => Ok(Value::Tensor(tensor_of(tensor.dtype, dims, bits)?)),
        Type::Number(number) => Ok(match number.kind {
            NumKind::Int => Value::Int(1),
            NumKind::Float => Value::Float(f64::from(bits.unit())),
            NumKind::Bool => Value::Bool(bits.next() & 1 == 1),
        }),
    }
}

fn tensor_of(dtype: Dtype, dims: &[i64], bits: &mut Bits) -> Result<Tensor, TensorError> {
    let n_elements: usize = Tensor::zeros(dtype, dims)?.numel();
    let mut raw = Vec::with_capacity(n_elements * dtype.size_bytes());
    for _ in 0..n_elements {
        match dtype {
            Dtype::F16 => raw.extend(half::f16::from_f32(bits.unit()).to_le_bytes()),
            Dtype::Bf16 => raw.extend(half::bf16::from_f32(bits.unit()).to_le_bytes()),
            Dtype::F32 => raw.extend(bits.unit().to_le_bytes()),
            Dtype::F64 => raw.extend(f64::from(bits.unit()).to_le_bytes()),
            Dtype::C64 => (0..2).for_each(|_| raw.extend(bits.unit().to_le_bytes())),
            Dtype::C128 => (0..2).for_each(|_| raw.extend(f64::from(bits.unit()).to_le_bytes())),
            // Zero has the bits 0 in every 8-bit float that has a zero.
            _ if dtype.is_float() => raw.resize(raw.len() + dtype.size_bytes(), 0),
            _ => {
                raw.push((bits.next() >> 63) as u8);
                raw.resize(raw.len() + dtype.size_bytes() - 1, 0);
            }
        }
    }
    Tensor::from_bytes(dtype, dims, &raw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thunderhead::ir::{SymKind, Symbol};

    fn size(low: i64, high: Option<i64>, step: i64) -> i64 {
        size_of(&SymDecl { symbol: Symbol { kind: SymKind::Input, number: 0 }, low, high, step })
    }

    #[test]
    fn sizes_are_small_and_allowed() {
        assert_eq!([size(1, Some(64), 1), size(2, Some(512), 8), size(0, Some(1), 1)], [2, 8, 1]);
        assert_eq!([size(7, None, 3), size(0, None, 0)], [9, 2]);
    }

    #[test]
    fn a_seed_gives_the_same_inputs_and_another_seed_others() {
        let floats = |seed: u64| -> Vec<f32> {
            let tensor = tensor_of(Dtype::F32, &[3, 5], &mut Bits::new(seed, 0)).expect("small");
            tensor.to_vec().expect("f32")
        };
        assert_eq!(floats(7), floats(7));
        assert_ne!(floats(7), floats(8));
        assert!(floats(7).iter().all(|x| (-1.0..1.0).contains(x)));
    }

    #[test]
    fn every_dtype_can_be_filled() {
        for dtype in Dtype::ALL {
            let tensor = tensor_of(dtype, &[4], &mut Bits::new(0, 1)).expect("small");
            assert_eq!((tensor.dtype(), tensor.numel()), (dtype, 4));
        }
    }
}
