//! Random programs against an evaluator that knows nothing of loops: one element after another, in f64, by index
//! arithmetic of its own. The programs hold every kind of node; seeds are printed.

use half::{bf16, f16};
use std::collections::HashMap;
use thunderhead_loops::*;

/// Xorshift.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n.max(1)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    /// A multiple of 1/16 in [-2, 2), which every dtype holds.
    fn value(&mut self, dtype: Dtype) -> f64 {
        let v = self.below(64) as f64 / 16.0 - 2.0;
        match dtype {
            Dtype::Bool => f64::from(u8::from(v > 0.0)),
            Dtype::U8 | Dtype::U16 | Dtype::U32 => (v.abs() * 8.0).floor(),
            dtype if dtype.is_int() => (v * 8.0).floor(),
            _ => v,
        }
    }
}

/// A tensor of the oracle: row-major.
#[derive(Clone, Debug)]
struct Tensor {
    dims: Vec<usize>,
    values: Vec<f64>,
}

fn indices(dims: &[usize]) -> Vec<Vec<usize>> {
    let n: usize = dims.iter().product();
    let index = |mut at: usize| {
        let mut index = vec![0; dims.len()];
        for d in (0..dims.len()).rev() {
            index[d] = at % dims[d];
            at /= dims[d];
        }
        index
    };
    (0..n).map(index).collect()
}

impl Tensor {
    fn make(dims: &[usize], f: impl Fn(&[usize]) -> f64) -> Tensor {
        Tensor { dims: dims.to_vec(), values: indices(dims).iter().map(|index| f(index)).collect() }
    }

    fn at(&self, index: &[usize]) -> f64 {
        let place = index.iter().zip(&self.dims).fold(0, |place, (i, dim)| place * dim + i);
        assert!(place < self.values.len(), "{index:?} of {:?}", self.dims);
        self.values[place]
    }

    fn size(&self) -> f64 {
        self.values.iter().fold(0.0, |most: f64, v| most.max(v.abs()))
    }
}

/// What a node means.
fn evaluate(prim: &Prim, tensors: &[Tensor], numbers: &[f64], out: &[TensorType]) -> Vec<Tensor> {
    let dims = &out[0].dims;
    let a = tensors.first();
    let whole = |dtype: Dtype, v: f64| match dtype {
        Dtype::U8 => v.rem_euclid(256.0),
        Dtype::I8 => (v + 128.0).rem_euclid(256.0) - 128.0,
        _ => v,
    };
    // Operands in order: tensors and numbers as they come.
    let operand = |i: usize, index: &[usize]| match tensors.get(i) {
        Some(tensor) => tensor.at(index),
        None => numbers[i - tensors.len()],
    };
    let one = match prim {
        Prim::Unary(op) => Tensor::make(dims, |i| {
            let v = operand(0, i);
            match op {
                Unary::Neg => whole(out[0].dtype, -v),
                Unary::Abs => v.abs(),
                Unary::Exp => v.exp(),
                Unary::Tanh => v.tanh(),
                Unary::Erf => libm::erf(v),
                Unary::Sin => v.sin(),
                Unary::Cos => v.cos(),
                Unary::Sqrt => v.sqrt(),
                Unary::Floor => v.floor(),
                Unary::Expm1 => v.exp_m1(),
                Unary::Isfinite => f64::from(u8::from(v.is_finite())),
                Unary::BitwiseNot => 1.0 - v,
                other => panic!("the oracle has no {other:?}"),
            }
        }),
        Prim::Binary(op) => Tensor::make(dims, |i| {
            let (x, y) = (operand(0, i), operand(1, i));
            let truth = |holds: bool| f64::from(u8::from(holds));
            let dtype = out[0].dtype;
            let v = match op {
                Binary::Add if dtype == Dtype::Bool => x.max(y),
                Binary::Add => x + y,
                Binary::Sub => x - y,
                Binary::Mul => x * y,
                Binary::Div if dtype.is_int() => (x / y).trunc(),
                Binary::Div => x / y,
                Binary::Maximum => larger(x, y),
                Binary::Minimum => -larger(-x, -y),
                Binary::Lt => truth(x < y),
                Binary::Ge => truth(x >= y),
                Binary::Eq => truth(x == y),
                Binary::Remainder => x - (x / y).floor() * y,
                Binary::BitwiseAnd => x.min(y),
                other => panic!("the oracle has no {other:?}"),
            };
            if dtype.is_int() { whole(dtype, v) } else { v }
        }),
        Prim::Where => {
            Tensor::make(dims, |i| if operand(0, i) != 0.0 { operand(1, i) } else { operand(2, i) })
        }
        Prim::Ternary(Ternary::Lerp) => {
            Tensor::make(dims, |i| operand(0, i) + operand(2, i) * (operand(1, i) - operand(0, i)))
        }
        Prim::Ternary(Ternary::Fma) => Tensor::make(dims, |i| operand(0, i) * operand(1, i) + operand(2, i)),
        Prim::Convert(to) => Tensor::make(dims, |i| {
            let v = operand(0, i);
            match to {
                Dtype::Bool => f64::from(u8::from(v != 0.0)),
                to if to.is_int() => whole(*to, v.trunc()),
                _ => v,
            }
        }),
        Prim::Copy => a.expect("a tensor").clone(),
        Prim::Reshape(dims) => Tensor { dims: dims.clone(), values: a.expect("a tensor").values.clone() },
        Prim::Transpose(permutation) => Tensor::make(dims, |i| {
            let mut from = vec![0; i.len()];
            permutation.iter().enumerate().for_each(|(d, axis)| from[*axis] = i[d]);
            operand(0, &from)
        }),
        Prim::Broadcast { axes, .. } => Tensor::make(dims, |i| {
            let from: Vec<usize> = axes
                .iter()
                .zip(&tensors[0].dims)
                .map(|(axis, dim)| if *dim == 1 { 0 } else { i[*axis] })
                .collect();
            operand(0, &from)
        }),
        Prim::Slice { start, step, .. } => Tensor::make(dims, |i| {
            let from: Vec<usize> = (0..i.len()).map(|d| start[d] + i[d] * step[d]).collect();
            operand(0, &from)
        }),
        Prim::Squeeze(_) => Tensor { dims: dims.clone(), values: a.expect("a tensor").values.clone() },
        Prim::Flip(axes) => Tensor::make(dims, |i| {
            let from: Vec<usize> =
                (0..i.len()).map(|d| if axes.contains(&d) { dims[d] - 1 - i[d] } else { i[d] }).collect();
            operand(0, &from)
        }),
        Prim::Cat(axis) => Tensor::make(dims, |i| {
            let mut from = i.to_vec();
            for tensor in tensors {
                if from[*axis] < tensor.dims[*axis] {
                    return tensor.at(&from);
                }
                from[*axis] -= tensor.dims[*axis];
            }
            unreachable!("inside")
        }),
        Prim::Pad(config) => Tensor::make(dims, |i| {
            let mut from = Vec::new();
            for (d, (low, _, _)) in config.iter().enumerate() {
                let at = i[d] as i64 - low;
                if at < 0 || at >= tensors[0].dims[d] as i64 {
                    return numbers[0];
                }
                from.push(at as usize);
            }
            operand(0, &from)
        }),
        Prim::SliceScatter { start, .. } => Tensor::make(dims, |i| {
            let mut from = Vec::new();
            for d in 0..i.len() {
                match i[d].checked_sub(start[d]) {
                    Some(at) if at < tensors[1].dims[d] => from.push(at),
                    _ => return operand(0, i),
                }
            }
            operand(1, &from)
        }),
        Prim::Full(_) => Tensor::make(dims, |_| numbers[0]),
        Prim::Iota { .. } => Tensor::make(dims, |i| numbers[0] + i[0] as f64 * numbers[1]),
        Prim::Take(axis) => Tensor::make(dims, |i| {
            let mut from = i.to_vec();
            from[*axis] = tensors[1].values[i[*axis]] as usize;
            operand(0, &from)
        }),
        Prim::TakeAlongAxis(axis) => Tensor::make(dims, |i| {
            let mut from = i.to_vec();
            from[*axis] = operand(1, i) as usize;
            operand(0, &from)
        }),
        Prim::Embedding => Tensor::make(dims, |i| {
            let (row, column) = (tensors[0].at(&i[..i.len() - 1]) as usize, i[i.len() - 1]);
            operand(1, &[row, column])
        }),
        Prim::Reduce { op, axes, .. } => folded(&tensors[0], axes, dims, |values| match op {
            Reduce::Sum if out[0].dtype == Dtype::Bool => values.iter().fold(0.0, |a: f64, v| a.max(*v)),
            Reduce::Sum => whole(out[0].dtype, values.iter().sum()),
            Reduce::Prod => values.iter().product(),
            Reduce::Amax => values.iter().fold(f64::NEG_INFINITY, |a, v| larger(a, *v)),
            Reduce::Amin => values.iter().fold(f64::INFINITY, |a, v| -larger(-a, -*v)),
        }),
        Prim::ArgReduce { largest, axis } => {
            let axes = axis.map_or_else(|| (0..tensors[0].dims.len()).collect(), |axis| vec![axis]);
            folded(&tensors[0], &axes, dims, |values| {
                let mut best = 0;
                for (i, v) in values.iter().enumerate() {
                    if if *largest { *v > values[best] } else { *v < values[best] } {
                        best = i;
                    }
                }
                best as f64
            })
        }
        Prim::Var(axes) => folded(&tensors[0], axes, dims, |values| variance(values, numbers[0])),
        Prim::VarMean(axes) => {
            let var = folded(&tensors[0], axes, dims, |values| variance(values, numbers[0]));
            let mean = folded(&tensors[0], axes, dims, |v| v.iter().sum::<f64>() / v.len() as f64);
            return vec![var, mean];
        }
        Prim::Extern(_) => external(&tensors[0]),
        Prim::Uniform(_) => panic!("drawn numbers have a test of their own"),
    };
    vec![one]
}

/// NaN wins.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

fn variance(values: &[f64], correction: f64) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - correction).max(0.0)
}

/// What the extern nodes of these programs do.
fn external(a: &Tensor) -> Tensor {
    Tensor { dims: a.dims.clone(), values: a.values.iter().rev().copied().collect() }
}

fn folded(a: &Tensor, axes: &[usize], dims: &[usize], f: impl Fn(&[f64]) -> f64) -> Tensor {
    let mut rows: HashMap<Vec<usize>, Vec<f64>> = HashMap::new();
    for index in indices(&a.dims) {
        let kept = (0..index.len()).filter(|d| !axes.contains(d)).map(|d| index[d]).collect();
        rows.entry(kept).or_default().push(a.at(&index));
    }
    Tensor::make(dims, |i| f(rows.get(i).map_or(&[], Vec::as_slice)))
}

/// Elements of a dtype in memory.
fn encode(dtype: Dtype, v: f64) -> Vec<u8> {
    match dtype {
        Dtype::Bool => vec![u8::from(v != 0.0)],
        Dtype::U8 => vec![v as u8],
        Dtype::I8 => vec![v as i8 as u8],
        Dtype::I16 => (v as i16).to_ne_bytes().to_vec(),
        Dtype::U16 => (v as u16).to_ne_bytes().to_vec(),
        Dtype::I32 => (v as i32).to_ne_bytes().to_vec(),
        Dtype::U32 => (v as u32).to_ne_bytes().to_vec(),
        Dtype::I64 => (v as i64).to_ne_bytes().to_vec(),
        Dtype::F16 => f16::from_f64(v).to_ne_bytes().to_vec(),
        Dtype::BF16 => bf16::from_f64(v).to_ne_bytes().to_vec(),
        Dtype::F32 => (v as f32).to_ne_bytes().to_vec(),
        Dtype::F64 => v.to_ne_bytes().to_vec(),
    }
}

fn decode(dtype: Dtype, b: &[u8]) -> f64 {
    let two = || [b[0], b[1]];
    let four = || [b[0], b[1], b[2], b[3]];
    let eight = || b.try_into().expect("eight bytes");
    match dtype {
        Dtype::Bool | Dtype::U8 => f64::from(b[0]),
        Dtype::I8 => f64::from(b[0] as i8),
        Dtype::I16 => f64::from(i16::from_ne_bytes(two())),
        Dtype::U16 => f64::from(u16::from_ne_bytes(two())),
        Dtype::I32 => f64::from(i32::from_ne_bytes(four())),
        Dtype::U32 => f64::from(u32::from_ne_bytes(four())),
        Dtype::I64 => i64::from_ne_bytes(eight()) as f64,
        Dtype::F16 => f16::from_ne_bytes(two()).to_f64(),
        Dtype::BF16 => bf16::from_ne_bytes(two()).to_f64(),
        Dtype::F32 => f64::from(f32::from_ne_bytes(four())),
        Dtype::F64 => f64::from_ne_bytes(eight()),
    }
}

/// Memory aligned for any element.
struct Memory(Vec<u64>, usize);

impl Memory {
    fn new(bytes: usize) -> Memory {
        Memory(vec![0xA5A5_A5A5_A5A5_A5A5; bytes / 8 + 2], bytes)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: bytes of numbers.
        let all = unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast::<u8>(), self.0.len() * 8) };
        &all[..self.1]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: bytes of numbers, and any bytes are numbers.
        let all =
            unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast::<u8>(), self.0.len() * 8) };
        &mut all[..self.1]
    }
}

/// Two threads, with chunks from both ends.
struct Two;

impl Parallel for Two {
    fn threads(&self) -> usize {
        2
    }

    fn for_each(&self, chunks: usize, f: &(dyn Fn(usize) + Sync)) {
        std::thread::scope(|scope| {
            scope.spawn(|| (chunks / 2..chunks).rev().for_each(f));
            (0..chunks / 2).for_each(f);
        });
    }
}

/// A program being made, with the oracle's value of everything in it.
struct Made {
    graph: Graph,
    oracle: HashMap<ValueId, Tensor>,
    memory: HashMap<ValueId, Memory>,
    values: Vec<ValueId>,
    /// Values that are exact in any dtype: comparisons and searches look at these only.
    exact: Vec<ValueId>,
    numbers: Vec<Scalar>,
}

impl Made {
    fn push(&mut self, prim: Prim, operands: &[Operand]) -> Option<ValueId> {
        let results = self.graph.push(prim.clone(), operands).ok()?;
        let types: Vec<TensorType> = results.iter().map(|r| self.graph.ty(*r).clone()).collect();
        let mut tensors = Vec::new();
        let mut numbers = Vec::new();
        for operand in operands {
            match operand {
                Operand::Value(value) => tensors.push(self.oracle[value].clone()),
                Operand::Number(number) => numbers.push(number.to_f64()),
                Operand::Slot(slot) => numbers.push(self.numbers[*slot as usize].to_f64()),
            }
        }
        for (result, tensor) in results.iter().zip(evaluate(&prim, &tensors, &numbers, &types)) {
            assert_eq!(tensor.dims, self.graph.ty(*result).dims, "{}", prim.name());
            self.oracle.insert(*result, tensor);
            self.values.push(*result);
        }
        Some(results[0])
    }

    fn ty(&self, value: ValueId) -> TensorType {
        self.graph.ty(value).clone()
    }

    fn input(&mut self, rng: &mut Rng, ty: TensorType, below: Option<usize>) -> ValueId {
        let rank = ty.dims.len();
        // Row-major in some order of dims, with gaps; or repeated.
        let mut order: Vec<usize> = (0..rank).collect();
        if rng.chance(3) {
            (1..rank).for_each(|i| order.swap(i, rng.below(i + 1)));
        }
        let mut strides = vec![0; rank];
        let mut next = if rng.chance(6) { 2 } else { 1 };
        for d in order.into_iter().rev() {
            strides[d] = if rng.chance(12) { 0 } else { next };
            next = next * ty.dims[d].max(1) + usize::from(rng.chance(8));
        }
        let size = ty.dtype.size_bytes();
        let reach: usize =
            ty.dims.iter().zip(&strides).map(|(dim, stride)| dim.saturating_sub(1) * stride).sum();
        let mut memory = Memory::new((reach + 1) * size);
        for at in 0..reach + 1 {
            let v = match below {
                Some(n) => rng.below(n) as f64,
                None => rng.value(ty.dtype),
            };
            memory.bytes_mut()[at * size..][..size].copy_from_slice(&encode(ty.dtype, v));
        }
        let id = self.graph.input(ty.clone(), &strides).expect("small");
        let at = |i: &[usize]| {
            let place: usize = i.iter().zip(&strides).map(|(i, stride)| i * stride).sum();
            decode(ty.dtype, &memory.bytes()[place * size..][..size])
        };
        let tensor = Tensor::make(&ty.dims, at);
        self.oracle.insert(id, tensor);
        self.memory.insert(id, memory);
        if below.is_none() {
            self.values.push(id);
            self.exact.push(id);
        }
        id
    }
}

fn random_dims(rng: &mut Rng) -> Vec<usize> {
    let rank = rng.below(5);
    let size = |rng: &mut Rng| match rng.below(16) {
        0 => 0,
        1..=3 => 1,
        4 => 33,
        5 => 70,
        6 => 300,
        _ => 2 + rng.below(7),
    };
    let mut dims: Vec<usize> = (0..rank).map(|_| size(rng)).collect();
    while dims.iter().product::<usize>() > 6000 {
        let d = rng.below(rank);
        dims[d] = 1 + rng.below(3);
    }
    dims
}

/// One more node.
fn grow(made: &mut Made, rng: &mut Rng) -> Option<ValueId> {
    let a = if rng.chance(2) { *made.values.last()? } else { rng.pick(&made.values) };
    let ty = made.ty(a);
    let rank = ty.dims.len();
    let value = Operand::Value(a);
    let size = made.oracle[&a].size();
    let float = ty.dtype.is_float();
    match rng.below(26) {
        0..=2 if float => {
            let mut ops = vec![Unary::Neg, Unary::Abs, Unary::Tanh, Unary::Erf];
            if size < 20.0 {
                ops.extend([Unary::Sin, Unary::Cos]);
            }
            if size < 4.0 {
                ops.extend([Unary::Exp, Unary::Expm1]);
            }
            made.push(Prim::Unary(rng.pick(&ops)), &[value])
        }
        0..=2 if ty.dtype == Dtype::Bool => made.push(Prim::Unary(Unary::BitwiseNot), &[value]),
        0..=2 => made.push(Prim::Unary(rng.pick(&[Unary::Neg, Unary::Abs])), &[value]),
        3..=8 => {
            let alike: Vec<ValueId> =
                made.values.iter().copied().filter(|v| *made.graph.ty(*v) == ty).collect();
            let b = rng.pick(&alike);
            let number = match rng.below(3) {
                0 => Some(Operand::Number(Scalar::Float(rng.value(Dtype::F32)))),
                1 => Some(Operand::Slot(0)),
                _ => None,
            };
            let number = number.filter(|_| float);
            let b_operand = number.unwrap_or(Operand::Value(b));
            let small = size * made.oracle[&b].size() < 1e3;
            let mut ops = vec![Binary::Add];
            if ty.dtype != Dtype::Bool {
                ops.extend([Binary::Sub, Binary::Maximum, Binary::Minimum]);
            }
            if small {
                ops.push(Binary::Mul);
            }
            let unsigned = matches!(ty.dtype, Dtype::U8 | Dtype::U16 | Dtype::U32);
            if unsigned {
                ops.retain(|op| *op != Binary::Sub);
            }
            made.push(Prim::Binary(rng.pick(&ops)), &[value, b_operand])
        }
        9 => {
            let exact: Vec<ValueId> =
                made.exact.iter().copied().filter(|v| made.graph.ty(*v).dims == ty.dims).collect();
            let x = *exact.first()?;
            if made.ty(x).dtype == Dtype::Bool {
                return None;
            }
            let limit = if made.ty(x).dtype.is_float() { Scalar::Float(0.5) } else { Scalar::Int(1) };
            let op = rng.pick(&[Binary::Lt, Binary::Ge, Binary::Eq]);
            let mask = made.push(Prim::Binary(op), &[x.into(), Operand::Number(limit)])?;
            let other = if float { Operand::Number(Scalar::Float(-0.5)) } else { value };
            made.push(Prim::Where, &[mask.into(), value, other])
        }
        10 => {
            let n = ty.dims.iter().product::<usize>();
            let mut dims = Vec::new();
            let mut left = n;
            for factor in [2, 3, 4, 5, 7] {
                if left > 0 && left % factor == 0 && rng.chance(2) {
                    dims.push(factor);
                    left /= factor;
                }
            }
            let at = rng.below(dims.len() + 1);
            dims.insert(at, left);
            made.push(Prim::Reshape(dims), &[value])
        }
        11 => {
            let mut permutation: Vec<usize> = (0..rank).collect();
            (1..rank).for_each(|i| permutation.swap(i, rng.below(i + 1)));
            made.push(Prim::Transpose(permutation), &[value])
        }
        12 | 13 => {
            // To the dims of something else, where they fit.
            let b = rng.pick(&made.values);
            let to = made.ty(b).dims;
            if rank > to.len() || to.iter().product::<usize>() > 6000 {
                return None;
            }
            let axes: Vec<usize> = (to.len() - rank..to.len()).collect();
            let axes = if rng.chance(3) { (0..rank).collect() } else { axes };
            made.push(Prim::Broadcast { dims: to, axes }, &[value])
        }
        14 => {
            let start: Vec<usize> = ty.dims.iter().map(|dim| rng.below(*dim)).collect();
            let step: Vec<usize> = ty.dims.iter().map(|_| 1 + rng.below(2)).collect();
            made.push(Prim::Slice { start, end: ty.dims.clone(), step }, &[value])
        }
        15 => {
            let axes: Vec<usize> = (0..rank).filter(|_| rng.chance(2)).collect();
            made.push(Prim::Flip(axes), &[value])
        }
        16 => {
            if rank == 0 {
                return None;
            }
            let axis = rng.below(rank);
            let fits = |v: &ValueId| {
                let other = made.graph.ty(*v);
                other.dtype == ty.dtype
                    && other.dims.len() == rank
                    && (0..rank).all(|d| d == axis || other.dims[d] == ty.dims[d])
            };
            let alike: Vec<ValueId> = made.values.iter().copied().filter(fits).collect();
            let parts: Vec<Operand> = (0..1 + rng.below(3)).map(|_| rng.pick(&alike).into()).collect();
            made.push(Prim::Cat(axis), &[vec![value], parts].concat())
        }
        17 => {
            let config: Vec<(i64, i64, usize)> =
                ty.dims.iter().map(|_| (rng.below(4) as i64 - 1, rng.below(4) as i64 - 1, 0)).collect();
            let number = if ty.dtype.is_float() { Scalar::Float(0.5) } else { Scalar::Int(1) };
            made.push(Prim::Pad(config), &[value, Operand::Number(number)])
        }
        18 => {
            let fits = |v: &ValueId| {
                let other = made.graph.ty(*v);
                other.dtype == ty.dtype
                    && other.dims.len() == rank
                    && other.dims.iter().zip(&ty.dims).all(|(x, y)| x <= y)
            };
            let inner: Vec<ValueId> = made.values.iter().copied().filter(fits).collect();
            let src = rng.pick(&inner);
            let dims = made.ty(src).dims;
            let start: Vec<usize> = (0..rank).map(|d| rng.below(ty.dims[d] - dims[d] + 1)).collect();
            made.push(Prim::SliceScatter { start, step: vec![1; rank] }, &[value, src.into()])
        }
        19..=21 => {
            let axes: Vec<usize> = match rng.below(3) {
                0 => (0..rank).filter(|_| rng.chance(2)).collect(),
                1 => (rank.saturating_sub(1)..rank).collect(),
                _ => (0..rank.min(1)).collect(),
            };
            if float && rng.chance(4) {
                return made.push(Prim::VarMean(axes), &[value, Operand::Number(Scalar::Int(0))]);
            }
            let op = if float { rng.pick(&[Reduce::Sum, Reduce::Amax, Reduce::Amin]) } else { Reduce::Sum };
            if op == Reduce::Sum && ty.dtype != Dtype::Bool && size > 1e3 {
                return None;
            }
            let out = (ty.dtype.is_int() || ty.dtype == Dtype::Bool).then_some(Dtype::I64);
            let folded = made.push(Prim::Reduce { op, axes: axes.clone(), out }, &[value])?;
            if float && rng.chance(2) {
                // As norms and softmax do.
                let kept: Vec<usize> = (0..rank).filter(|d| !axes.contains(d)).collect();
                let spread =
                    made.push(Prim::Broadcast { dims: ty.dims.clone(), axes: kept }, &[folded.into()])?;
                return made.push(Prim::Binary(Binary::Sub), &[value, spread.into()]);
            }
            Some(folded)
        }
        22 => {
            let exact: Vec<ValueId> =
                made.exact.iter().copied().filter(|v| made.graph.ty(*v).dtype.is_float()).collect();
            exact.first()?;
            let x = rng.pick(&exact);
            let rank = made.ty(x).dims.len();
            let axis = if rank > 0 && rng.chance(2) { Some(rng.below(rank)) } else { None };
            made.push(Prim::ArgReduce { largest: rng.chance(2), axis }, &[x.into()])
        }
        23 => {
            if rank == 0 {
                return None;
            }
            let axis = rng.below(rank);
            let n = ty.dims[axis];
            if n == 0 {
                return None;
            }
            match rng.below(3) {
                0 => {
                    let m = 1 + rng.below(5);
                    let index = made.input(rng, TensorType::new(Dtype::I64, &[m]), Some(n));
                    made.push(Prim::Take(axis), &[value, index.into()])
                }
                1 => {
                    let index = made.input(rng, TensorType::new(Dtype::I32, &ty.dims), Some(n));
                    made.push(Prim::TakeAlongAxis(axis), &[value, index.into()])
                }
                _ if rank == 2 && ty.dims[0] > 0 => {
                    let index = made.input(rng, TensorType::new(Dtype::I64, &[3, 2]), Some(ty.dims[0]));
                    made.push(Prim::Embedding, &[index.into(), value])
                }
                _ => None,
            }
        }
        24 => {
            let to = rng.pick(&[Dtype::F32, Dtype::F64, Dtype::BF16, Dtype::F16]);
            if ty.dtype.is_int() || ty.dtype == Dtype::Bool || size < 100.0 {
                return made.push(Prim::Convert(to), &[value]);
            }
            None
        }
        _ => made.push(Prim::Extern(vec![ty]), &[value]),
    }
}

fn program(seed: u64) -> Made {
    let mut rng = Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    (0..8).for_each(|_| {
        rng.next();
    });
    let mut made = Made {
        graph: Graph::new(),
        oracle: HashMap::new(),
        memory: HashMap::new(),
        values: Vec::new(),
        exact: Vec::new(),
        numbers: vec![Scalar::Float(rng.value(Dtype::F32))],
    };
    let dims = random_dims(&mut rng);
    let float =
        rng.pick(&[Dtype::F32, Dtype::F32, Dtype::F32, Dtype::F64, Dtype::BF16, Dtype::BF16, Dtype::F16]);
    for i in 0..2 + rng.below(3) {
        let mut own = dims.clone();
        if i > 0 && rng.chance(3) {
            own.iter_mut().for_each(|dim| *dim = if rng.chance(2) { 1 } else { *dim });
        }
        let dtype = if i > 0 && rng.chance(5) {
            rng.pick(&[Dtype::I64, Dtype::I32, Dtype::I8, Dtype::U8, Dtype::Bool, Dtype::I16])
        } else {
            float
        };
        made.input(&mut rng, TensorType::new(dtype, &own), None);
    }
    let n = 3 + rng.below(14);
    for _ in 0..n * 2 {
        if made.graph.n_nodes() >= n {
            break;
        }
        grow(&mut made, &mut rng);
    }
    let last = *made.values.last().expect("inputs at least");
    made.graph.output(last);
    for value in made.values.clone() {
        if rng.chance(6) {
            made.graph.output(value);
        }
    }
    made
}

/// Runs a program; gives the bytes of its outputs.
fn run(made: &mut Made, program: &Program, parallel: &dyn Parallel) -> Result<Vec<Vec<u8>>, RunError> {
    let mut written: HashMap<ValueId, Memory> = HashMap::new();
    for step in program.steps() {
        match step {
            Step::Kernel(kernel) => {
                let mut outputs: Vec<Memory> = kernel
                    .outputs()
                    .iter()
                    .map(|value| {
                        let ty = program.ty(*value);
                        Memory::new(ty.numel() * ty.dtype.size_bytes())
                    })
                    .collect();
                {
                    let find = |value: &ValueId| {
                        let memory = written.get(value).or_else(|| made.memory.get(value));
                        let memory = memory.unwrap_or_else(|| panic!("{value} is read before it is written"));
                        // SAFETY: the memory outlives the run.
                        unsafe { View::from_raw(memory.bytes().as_ptr(), memory.bytes().len()) }
                    };
                    let views: Vec<View<'_>> = kernel.inputs().iter().map(find).collect();
                    let mut targets: Vec<ViewMut<'_>> = outputs
                        .iter_mut()
                        .map(|memory| {
                            let bytes = memory.bytes_mut();
                            // SAFETY: nobody else has this memory.
                            unsafe { ViewMut::from_raw(bytes.as_mut_ptr(), bytes.len()) }
                        })
                        .collect();
                    kernel.run(&views, &mut targets, &made.numbers, parallel)?;
                }
                written.extend(kernel.outputs().iter().copied().zip(outputs));
            }
            Step::Extern(node) => {
                let [Operand::Value(operand)] = *made.graph.operands(*node) else { panic!("one operand") };
                let result = made.graph.results(*node)[0];
                let ty = made.graph.ty(operand).clone();
                let size = ty.dtype.size_bytes();
                let mut out = Memory::new(ty.numel() * size);
                if ty.numel() > 0 {
                    match written.get(&operand) {
                        Some(memory) => {
                            let elements = memory.bytes().chunks(size).rev();
                            out.bytes_mut()
                                .chunks_mut(size)
                                .zip(elements)
                                .for_each(|(to, from)| to.copy_from_slice(from));
                        }
                        // An input, which may have strides.
                        None => {
                            let tensor = external(&made.oracle[&operand]);
                            let to = out.bytes_mut().chunks_mut(size).zip(&tensor.values);
                            to.for_each(|(to, v)| to.copy_from_slice(&encode(ty.dtype, *v)));
                        }
                    }
                }
                written.insert(result, out);
            }
        }
    }
    let bytes = |value: &ValueId| written.get(value).map_or_else(Vec::new, |memory| memory.bytes().to_vec());
    Ok(made.graph.outputs().iter().map(bytes).collect())
}

fn tolerance(dtype: Dtype, narrowest: Dtype) -> f64 {
    match (dtype, narrowest) {
        (Dtype::BF16, _) | (_, Dtype::BF16) => 4e-2,
        (Dtype::F16, _) | (_, Dtype::F16) => 6e-3,
        (Dtype::F64, Dtype::F64) => 1e-11,
        _ => 3e-5,
    }
}

fn check(seed: u64, isa: Option<Isa>) {
    let mut made = program(seed);
    if std::env::var_os("SHOW").is_some() {
        eprintln!("seed {seed}\n{}", made.graph);
    }
    let mut options = Options::default();
    options.isa = isa;
    let compiled = compile(&made.graph, &options).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let results = run(&mut made, &compiled, &Serial).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let again = run(&mut made, &compiled, &Two).expect("ran before");
    assert_eq!(results, again, "seed {seed}: threads change the bits\n{compiled}");
    let dtypes = (0..made.oracle.len()).map(|v| made.graph.ty(ValueId(v as u32)).dtype);
    let width = |dtype: &Dtype| match dtype {
        Dtype::BF16 => 0,
        Dtype::F16 => 1,
        Dtype::F32 => 2,
        _ => 3,
    };
    let narrowest = dtypes.min_by_key(width).unwrap_or(Dtype::F64);
    let narrowest = if width(&narrowest) == 3 { Dtype::F64 } else { narrowest };
    for (value, bytes) in made.graph.outputs().iter().zip(&results) {
        if matches!(made.graph.source(*value), Source::Input(_)) {
            continue;
        }
        let ty = made.graph.ty(*value);
        let expected = &made.oracle[value];
        let found: Vec<f64> = bytes.chunks(ty.dtype.size_bytes()).map(|b| decode(ty.dtype, b)).collect();
        assert_eq!(found.len(), expected.values.len(), "seed {seed}: {value}\n{compiled}");
        let allowed = if ty.dtype.is_float() {
            // Differences of large numbers keep the error of these.
            let largest =
                made.oracle.values().map(Tensor::size).filter(|size| size.is_finite()).fold(1.0, f64::max);
            tolerance(ty.dtype, narrowest) * largest.max(expected.size())
        } else {
            // Integers are made of floats only by conversions that these programs do not have.
            0.0
        };
        for (i, (found, expected)) in found.iter().zip(&expected.values).enumerate() {
            let same = (found - expected).abs() <= allowed
                || found == expected
                || (found.is_nan() && expected.is_nan());
            assert!(same, "seed {seed}: {value} {ty} element {i} is {found}, not {expected}\n{compiled}");
        }
    }
}

#[test]
fn random_programs_agree_with_the_oracle() {
    let first = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let last = std::env::var("LAST").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1500);
    (first..last).for_each(|seed| check(seed, None));
}

#[test]
fn so_they_do_without_vector_instructions() {
    (1..300).for_each(|seed| check(seed, Some(Isa::Portable)));
    (300..600).for_each(|seed| check(seed, Some(Isa::Avx2)));
}

#[test]
#[ignore = "by hand: hours of programs"]
fn many_more_programs() {
    (1500..1_000_000).for_each(|seed| check(seed, None));
}
