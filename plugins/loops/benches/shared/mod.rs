//! What the benches of this crate share: element types, graphs with shorter words, and the clock.

use half::bf16;
use thunderhead_loops::*;

/// Elements as the naive loops see them.
pub trait Number: Element + Default + 'static {
    const DTYPE: Dtype;
    fn get(self) -> f32;
    fn put(v: f32) -> Self;
}

impl Number for f32 {
    const DTYPE: Dtype = Dtype::F32;
    fn get(self) -> f32 {
        self
    }
    fn put(v: f32) -> f32 {
        v
    }
}

impl Number for bf16 {
    const DTYPE: Dtype = Dtype::BF16;
    fn get(self) -> f32 {
        self.to_f32()
    }
    fn put(v: f32) -> bf16 {
        bf16::from_f32(v)
    }
}

/// A graph with shorter words.
pub struct Build {
    pub graph: Graph,
    pub half: Option<Dtype>,
}

impl Build {
    pub fn input<T: Number>(&mut self, dims: &[usize]) -> ValueId {
        self.half = (T::DTYPE != Dtype::F32).then_some(T::DTYPE);
        self.graph.dense_input(TensorType::new(T::DTYPE, dims)).expect("small")
    }

    pub fn on(&mut self, prim: Prim, operands: &[Operand]) -> ValueId {
        self.graph.push1(prim, operands).expect("fits")
    }

    /// As decompositions do with halves.
    pub fn wide(&mut self, a: ValueId) -> ValueId {
        if self.half.is_some() { self.on(Prim::Convert(Dtype::F32), &[a.into()]) } else { a }
    }

    pub fn narrow(&mut self, a: ValueId) -> ValueId {
        match self.half {
            Some(dtype) => self.on(Prim::Convert(dtype), &[a.into()]),
            None => a,
        }
    }

    pub fn bin(&mut self, op: Binary, a: ValueId, b: impl Into<Operand>) -> ValueId {
        self.on(Prim::Binary(op), &[a.into(), b.into()])
    }

    pub fn un(&mut self, op: Unary, a: ValueId) -> ValueId {
        self.on(Prim::Unary(op), &[a.into()])
    }

    pub fn fold(&mut self, op: Reduce, a: ValueId) -> ValueId {
        let axes = vec![self.graph.ty(a).dims.len() - 1];
        self.on(Prim::Reduce { op, axes, out: None }, &[a.into()])
    }

    pub fn spread(&mut self, a: ValueId, dims: &[usize], axes: &[usize]) -> ValueId {
        self.on(Prim::Broadcast { dims: dims.to_vec(), axes: axes.to_vec() }, &[a.into()])
    }

    pub fn silu(&mut self, x: ValueId) -> ValueId {
        let minus = self.un(Unary::Neg, x);
        let e = self.un(Unary::Exp, minus);
        let sum = self.bin(Binary::Add, e, 1.0);
        let gate = self.un(Unary::Reciprocal, sum);
        self.bin(Binary::Mul, x, gate)
    }

    pub fn gelu(&mut self, x: ValueId) -> ValueId {
        let inner = self.bin(Binary::Mul, x, std::f64::consts::FRAC_1_SQRT_2);
        let erf = self.un(Unary::Erf, inner);
        let gate = self.bin(Binary::Add, erf, 1.0);
        let half = self.bin(Binary::Mul, x, 0.5);
        self.bin(Binary::Mul, half, gate)
    }
}

/// Seconds that this thread has computed: waiting for a processor does not count.
pub fn now() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the struct it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
