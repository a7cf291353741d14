//! Functions of rows, which have kernels of their own with some instructions, against the same graphs compiled for those
//! without: odd lengths, rows with gaps, f32 and bf16, NaN and infinities.

use half::bf16;
use thunderhead_loops::*;

struct Build {
    graph: Graph,
    dtype: Dtype,
    dims: Vec<usize>,
}

impl Build {
    fn on(&mut self, prim: Prim, operands: &[Operand]) -> ValueId {
        self.graph.push1(prim, operands).expect("fits")
    }

    fn bin(&mut self, op: Binary, a: ValueId, b: impl Into<Operand>) -> ValueId {
        self.on(Prim::Binary(op), &[a.into(), b.into()])
    }

    fn un(&mut self, op: Unary, a: ValueId) -> ValueId {
        self.on(Prim::Unary(op), &[a.into()])
    }

    /// A tensor of rows that begin `gap` elements further apart than they are long.
    fn rows(&mut self, gap: usize) -> ValueId {
        let strides = [self.dims[1] + gap, 1];
        let x = self.graph.input(TensorType::new(self.dtype, &self.dims), &strides).expect("small");
        self.on(Prim::Convert(Dtype::F32), &[x.into()])
    }

    fn weight(&mut self) -> ValueId {
        let w = self.graph.dense_input(TensorType::new(self.dtype, &self.dims[1..])).expect("small");
        let w = self.on(Prim::Convert(Dtype::F32), &[w.into()]);
        self.spread(w, 1)
    }

    fn spread(&mut self, a: ValueId, axis: usize) -> ValueId {
        self.on(Prim::Broadcast { dims: self.dims.clone(), axes: vec![axis] }, &[a.into()])
    }

    fn fold(&mut self, op: Reduce, a: ValueId) -> ValueId {
        let folded = self.on(Prim::Reduce { op, axes: vec![1], out: None }, &[a.into()]);
        self.spread(folded, 0)
    }

    fn root_of_mean(&mut self, square: ValueId) -> ValueId {
        let n = self.dims[1] as f64;
        let sum = self.on(Prim::Reduce { op: Reduce::Sum, axes: vec![1], out: None }, &[square.into()]);
        let mean = self.bin(Binary::Div, sum, n);
        let shifted = self.bin(Binary::Add, mean, 1e-5);
        let r = self.un(Unary::Rsqrt, shifted);
        self.spread(r, 0)
    }

    fn function(&mut self, name: &str) -> ValueId {
        let x = self.rows(3);
        match name {
            "softmax" | "log_softmax" => {
                let most = self.fold(Reduce::Amax, x);
                let off = self.bin(Binary::Sub, x, most);
                let e = self.un(Unary::Exp, off);
                let sum = self.fold(Reduce::Sum, e);
                if name == "softmax" {
                    return self.bin(Binary::Div, e, sum);
                }
                let log = self.un(Unary::Log, sum);
                self.bin(Binary::Sub, off, log)
            }
            "rms_norm" => {
                let square = self.bin(Binary::Mul, x, x);
                let r = self.root_of_mean(square);
                let w = self.weight();
                let n = self.bin(Binary::Mul, x, r);
                self.bin(Binary::Mul, n, w)
            }
            "layer_norm" | "residual" => {
                let x = if name == "residual" {
                    let y = self.rows(0);
                    self.bin(Binary::Add, x, y)
                } else {
                    x
                };
                let sum = self.fold(Reduce::Sum, x);
                let mean = self.bin(Binary::Div, sum, self.dims[1] as f64);
                let off = self.bin(Binary::Sub, x, mean);
                let square = self.bin(Binary::Mul, off, off);
                let r = self.root_of_mean(square);
                let (w, b) = (self.weight(), self.weight());
                let n = self.bin(Binary::Mul, off, r);
                let scaled = self.bin(Binary::Mul, n, w);
                self.bin(Binary::Add, scaled, b)
            }
            "swiglu" => {
                let y = self.rows(1);
                let minus = self.un(Unary::Neg, x);
                let e = self.un(Unary::Exp, minus);
                let sum = self.bin(Binary::Add, e, 1.0);
                let gate = self.un(Unary::Reciprocal, sum);
                let act = self.bin(Binary::Mul, x, gate);
                self.bin(Binary::Mul, act, y)
            }
            "mul_add" => {
                let (y, w) = (self.weight(), self.rows(1));
                let product = self.bin(Binary::Mul, x, y);
                self.bin(Binary::Add, product, w)
            }
            "turn" => {
                let (y, w, b) = (self.rows(0), self.weight(), self.rows(2));
                let minus = self.un(Unary::Neg, b);
                let (p, q) = (self.bin(Binary::Mul, x, y), self.bin(Binary::Mul, w, minus));
                self.bin(Binary::Add, p, q)
            }
            "gelu_mul" => {
                let (b, y) = (self.weight(), self.rows(0));
                let sum = self.bin(Binary::Add, x, b);
                let inner = self.bin(Binary::Mul, sum, std::f64::consts::FRAC_1_SQRT_2);
                let erf = self.un(Unary::Erf, inner);
                let gate = self.bin(Binary::Add, erf, 1.0);
                let half = self.bin(Binary::Mul, sum, 0.5);
                let act = self.bin(Binary::Mul, half, gate);
                self.bin(Binary::Mul, act, y)
            }
            _ => x,
        }
    }
}

/// Bytes of the result with these instructions.
fn run(graph: &Graph, isa: Isa, inputs: &[Vec<u8>], bytes: usize) -> (Vec<u8>, String) {
    let mut options = Options::default();
    options.isa = Some(isa);
    let program = compile(graph, &options).expect("taken");
    let [Step::Kernel(kernel)] = program.steps() else { panic!("one kernel\n{program}") };
    let place = |input: &ValueId| graph.inputs().iter().position(|known| known == input).expect("an input");
    let views: Vec<View<'_>> = kernel.inputs().iter().map(|input| View::of(&inputs[place(input)])).collect();
    let mut output = vec![0u8; bytes];
    kernel.run(&views, &mut [ViewMut::of(&mut output)], &[], &Serial).expect("large enough");
    (output, program.to_string())
}

fn numbers(dtype: Dtype, bytes: &[u8]) -> Vec<f32> {
    match dtype {
        Dtype::F32 => bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().expect("four"))).collect(),
        _ => bytes.chunks(2).map(|b| bf16::from_le_bytes(b.try_into().expect("two")).to_f32()).collect(),
    }
}

fn bytes(dtype: Dtype, numbers: impl Iterator<Item = f32>) -> Vec<u8> {
    match dtype {
        Dtype::F32 => numbers.flat_map(f32::to_le_bytes).collect(),
        _ => numbers.flat_map(|v| bf16::from_f32(v).to_le_bytes()).collect(),
    }
}

#[test]
fn kernels_of_rows_agree_with_the_interpreter() {
    let functions = [
        "softmax",
        "log_softmax",
        "rms_norm",
        "layer_norm",
        "residual",
        "swiglu",
        "mul_add",
        "turn",
        "gelu_mul",
        "copy",
    ];
    let mut state = 7u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 22) as f32 - 2.0
    };
    let mut recognised = 0;
    for (name, dtype, n) in functions.iter().flat_map(|name| {
        [Dtype::F32, Dtype::BF16].into_iter().flat_map(move |dtype| {
            [7, 16, 33, 64, 77, 128, 200, 1000, 3001].into_iter().map(move |n| (*name, dtype, n))
        })
    }) {
        let mut build = Build { graph: Graph::new(), dtype, dims: vec![5, n] };
        let wide = build.function(name);
        let out = build.on(Prim::Convert(dtype), &[wide.into()]);
        build.graph.output(out);
        let inputs: Vec<Vec<u8>> = (0..4)
            .map(|at| {
                let special = |i: usize, v: f32| match (at, i) {
                    (0, 3) => f32::INFINITY,
                    (0, i) if i == n + 5 => f32::NAN,
                    (0, i) if i == 2 * (n + 3) + 1 => f32::NEG_INFINITY,
                    (0, i) if (3 * (n + 3)..4 * (n + 3)).contains(&i) => v * 1e-20,
                    _ => v,
                };
                bytes(dtype, (0..5 * (n + 3)).map(|i| special(i, next())))
            })
            .collect();
        let size = 5 * n * dtype.size_bytes();
        let (expected, _) = run(&build.graph, Isa::Portable, &inputs, size);
        let (found, text) = run(&build.graph, Isa::Avx512, &inputs, size);
        recognised += usize::from(text.contains("of rows of"));
        let unit = if dtype == Dtype::F32 { 4e-6 } else { 1.0 / 128.0 };
        for (i, (a, b)) in numbers(dtype, &expected).into_iter().zip(numbers(dtype, &found)).enumerate() {
            let close = (a - b).abs() <= unit * (1.0 + a.abs());
            assert!(
                a == b || close || (a.is_nan() && b.is_nan()),
                "{name} {dtype} {n}: {i} is {b}, not {a}\n{text}"
            );
        }
    }
    // With AVX-512 each of them has a kernel; without there is nothing to compare.
    println!("{recognised} recognised");
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512dq") && is_x86_feature_detected!("avx512vl") {
        assert_eq!(recognised, functions.len() * 18);
    }
}
