//! What is fused: the kernels of well-known patterns, counted, and what they read and write.

use thunderhead_loops::*;

struct Build(Graph);

impl Build {
    fn input(&mut self, dims: &[usize]) -> ValueId {
        self.0.dense_input(TensorType::new(Dtype::F32, dims)).expect("small")
    }

    fn on(&mut self, prim: Prim, operands: &[Operand]) -> ValueId {
        self.0.push1(prim, operands).expect("fits")
    }

    fn bin(&mut self, op: Binary, a: ValueId, b: impl Into<Operand>) -> ValueId {
        self.on(Prim::Binary(op), &[a.into(), b.into()])
    }

    fn un(&mut self, op: Unary, a: ValueId) -> ValueId {
        self.on(Prim::Unary(op), &[a.into()])
    }

    fn dims(&self, a: ValueId) -> Vec<usize> {
        self.0.ty(a).dims.clone()
    }

    fn fold(&mut self, op: Reduce, a: ValueId, axes: &[usize]) -> ValueId {
        self.on(Prim::Reduce { op, axes: axes.to_vec(), out: None }, &[a.into()])
    }

    /// Back to the dims from before a fold of the last axis.
    fn spread(&mut self, a: ValueId, dims: &[usize]) -> ValueId {
        let axes = (0..dims.len() - 1).collect();
        self.on(Prim::Broadcast { dims: dims.to_vec(), axes }, &[a.into()])
    }

    /// Over all dims but the last.
    fn expand(&mut self, w: ValueId, dims: &[usize]) -> ValueId {
        let from = dims.len() - self.dims(w).len();
        self.on(Prim::Broadcast { dims: dims.to_vec(), axes: (from..dims.len()).collect() }, &[w.into()])
    }

    fn linear(&mut self, a: ValueId, w: ValueId) -> ValueId {
        let mut dims = self.dims(a);
        *dims.last_mut().expect("not a scalar") = self.dims(w)[0];
        self.on(Prim::Extern(vec![TensorType::new(Dtype::F32, &dims)]), &[a.into(), w.into()])
    }

    fn rms_norm(&mut self, x: ValueId, w: ValueId) -> ValueId {
        let dims = self.dims(x);
        let square = self.bin(Binary::Mul, x, x);
        let sum = self.fold(Reduce::Sum, square, &[dims.len() - 1]);
        let mean = self.bin(Binary::Div, sum, *dims.last().expect("not a scalar") as f64);
        let shifted = self.bin(Binary::Add, mean, 1e-5);
        let r = self.un(Unary::Rsqrt, shifted);
        let r = self.spread(r, &dims);
        let n = self.bin(Binary::Mul, x, r);
        let w = self.expand(w, &dims);
        self.bin(Binary::Mul, n, w)
    }

    fn rope(&mut self, x: ValueId, cos: ValueId, sin: ValueId) -> ValueId {
        let dims = self.dims(x);
        let half = dims[3] / 2;
        let slice = |from: usize, to: usize| Prim::Slice {
            start: vec![0, 0, 0, from],
            end: vec![dims[0], dims[1], dims[2], to],
            step: vec![1; 4],
        };
        let (low, high) = (self.on(slice(0, half), &[x.into()]), self.on(slice(half, dims[3]), &[x.into()]));
        let minus = self.un(Unary::Neg, high);
        let turned = self.on(Prim::Cat(3), &[minus.into(), low.into()]);
        let (cos, sin) = (self.expand(cos, &dims), self.expand(sin, &dims));
        let (a, b) = (self.bin(Binary::Mul, x, cos), self.bin(Binary::Mul, turned, sin));
        self.bin(Binary::Add, a, b)
    }
}

fn compiled(build: &Build) -> Program {
    compile(&build.0, &Options::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn kernels(program: &Program) -> Vec<&Kernel> {
    let mut kernels = Vec::new();
    for step in program.steps() {
        if let Step::Kernel(kernel) = step {
            kernels.push(kernel);
        }
    }
    kernels
}

/// One layer, `batch` by `length` by `width` with `heads` heads.
fn llama(b: &mut Build, batch: usize, length: usize, width: usize, heads: usize) {
    let d = width / heads;
    let x = b.input(&[batch, length, width]);
    let (norm1, norm2) = (b.input(&[width]), b.input(&[width]));
    let (cos, sin) = (b.input(&[length, d]), b.input(&[length, d]));
    let qkv_w = b.input(&[3 * width, width]);
    let proj_w = b.input(&[width, width]);
    let inner = width * 3;
    let (w1, w2, w3) = (b.input(&[inner, width]), b.input(&[inner, width]), b.input(&[width, inner]));
    let n = b.rms_norm(x, norm1);
    let qkv = b.linear(n, qkv_w);
    let part = |b: &mut Build, i: usize| {
        let slice = Prim::Slice {
            start: vec![0, 0, i * width],
            end: vec![batch, length, (i + 1) * width],
            step: vec![1; 3],
        };
        let p = b.on(slice, &[qkv.into()]);
        let p = b.on(Prim::Reshape(vec![batch, length, heads, d]), &[p.into()]);
        b.on(Prim::Transpose(vec![0, 2, 1, 3]), &[p.into()])
    };
    let (q, k, v) = (part(b, 0), part(b, 1), part(b, 2));
    let (q, k) = (b.rope(q, cos, sin), b.rope(k, cos, sin));
    let attention = Prim::Extern(vec![TensorType::new(Dtype::F32, &[batch, heads, length, d])]);
    let y = b.on(attention, &[q.into(), k.into(), v.into()]);
    let y = b.on(Prim::Transpose(vec![0, 2, 1, 3]), &[y.into()]);
    let y = b.on(Prim::Reshape(vec![batch, length, width]), &[y.into()]);
    let y = b.linear(y, proj_w);
    let x = b.bin(Binary::Add, x, y);
    let n = b.rms_norm(x, norm2);
    let (g, u) = (b.linear(n, w1), b.linear(n, w2));
    let minus = b.un(Unary::Neg, g);
    let e = b.un(Unary::Exp, minus);
    let sum = b.bin(Binary::Add, e, 1.0);
    let gate = b.un(Unary::Reciprocal, sum);
    let act = b.bin(Binary::Mul, g, gate);
    let h = b.bin(Binary::Mul, act, u);
    let y = b.linear(h, w3);
    let out = b.bin(Binary::Add, x, y);
    b.0.output(out);
}

#[test]
fn a_llama_layer_is_eight_kernels() {
    let mut b = Build(Graph::new());
    llama(&mut b, 2, 16, 64, 4);
    let start = std::time::Instant::now();
    let program = compiled(&b);
    println!("{:?}\n{program}", start.elapsed());
    // norm; q; k; v laid out; heads joined; sum with norm; gate; last sum.
    let found = kernels(&program).len();
    assert!(found <= 8, "{found} kernels\n{program}");
}

#[test]
fn a_norm_and_what_feeds_it_are_one_kernel_with_two_results() {
    let mut b = Build(Graph::new());
    let (x, y, w) = (b.input(&[8, 300]), b.input(&[8, 300]), b.input(&[300]));
    let sum = b.bin(Binary::Add, x, y);
    let n = b.rms_norm(sum, w);
    b.0.output(sum);
    b.0.output(n);
    let program = compiled(&b);
    let kernels = kernels(&program);
    assert_eq!(kernels.len(), 1, "{program}");
    assert_eq!(kernels[0].outputs(), [sum, n]);
    assert!(program.temporaries().is_empty());
}

#[test]
fn the_gradients_of_a_norm_are_a_row_and_a_column_loop() {
    let mut b = Build(Graph::new());
    let dims = [512, 768];
    let (g, x, w) = (b.input(&dims), b.input(&dims), b.input(&[768]));
    let rstd = b.input(&[512, 1]);
    let r = b.on(Prim::Broadcast { dims: dims.to_vec(), axes: vec![0, 1] }, &[rstd.into()]);
    let n = b.bin(Binary::Mul, x, r);
    let we = b.expand(w, &dims);
    let gw = b.bin(Binary::Mul, g, we);
    let gn = b.bin(Binary::Mul, gw, n);
    let m = b.fold(Reduce::Sum, gn, &[1]);
    let m = b.bin(Binary::Div, m, 768.0);
    let m = b.spread(m, &dims);
    let along = b.bin(Binary::Mul, n, m);
    let off = b.bin(Binary::Sub, gw, along);
    let dx = b.bin(Binary::Mul, off, r);
    let product = b.bin(Binary::Mul, g, n);
    let dw = b.fold(Reduce::Sum, product, &[0]);
    b.0.output(dx);
    b.0.output(dw);
    let program = compiled(&b);
    // The column fold is in two parts, so that threads can share it.
    let found = kernels(&program).len();
    assert!(found <= 3, "{program}");
    assert!(program.temporaries().len() <= 1, "{program}");
}

#[test]
fn a_loss_is_a_row_loop_and_a_mean() {
    let mut b = Build(Graph::new());
    let dims = [64, 1000];
    let x = b.input(&dims);
    let target = b.0.dense_input(TensorType::new(Dtype::I64, &[64, 1])).expect("small");
    let m = b.fold(Reduce::Amax, x, &[1]);
    let m = b.spread(m, &dims);
    let off = b.bin(Binary::Sub, x, m);
    let e = b.un(Unary::Exp, off);
    let sum = b.fold(Reduce::Sum, e, &[1]);
    let log = b.un(Unary::Log, sum);
    let log = b.spread(log, &dims);
    let logp = b.bin(Binary::Sub, off, log);
    let picked = b.on(Prim::TakeAlongAxis(1), &[logp.into(), target.into()]);
    let all = b.fold(Reduce::Sum, picked, &[0, 1]);
    let loss = b.bin(Binary::Div, all, -64.0);
    b.0.output(loss);
    let program = compiled(&b);
    let found = kernels(&program).len();
    assert!(found <= 2, "{program}");
}

#[test]
fn independent_chains_over_the_same_input_share_its_loop() {
    let mut b = Build(Graph::new());
    let (x, y) = (b.input(&[1000]), b.input(&[1000]));
    let a = b.un(Unary::Exp, x);
    let c = b.bin(Binary::Mul, x, y);
    b.0.output(a);
    b.0.output(c);
    let program = compiled(&b);
    assert_eq!(kernels(&program).len(), 1, "{program}");
}

#[test]
fn compiling_the_same_graph_gives_the_same_text() {
    let text = || {
        let mut b = Build(Graph::new());
        llama(&mut b, 2, 16, 64, 4);
        compiled(&b).to_string()
    };
    let first = text();
    (0..5).for_each(|_| assert_eq!(text(), first));
}

/// Blocks of a model: a norm, an activation and a residual before each product that is somebody else's.
fn blocks(n: usize) -> Graph {
    let mut graph = Graph::new();
    let ty = TensorType::new(Dtype::F32, &[8, 64]);
    let mut x = graph.dense_input(ty.clone()).expect("small");
    for at in 0..n {
        let push =
            |graph: &mut Graph, prim: Prim, operands: &[Operand]| graph.push1(prim, operands).expect("fits");
        let square = push(&mut graph, Prim::Binary(Binary::Mul), &[x.into(), x.into()]);
        let fold = Prim::Reduce { op: Reduce::Sum, axes: vec![1], out: None };
        let sum = push(&mut graph, fold, &[square.into()]);
        let r = push(&mut graph, Prim::Unary(Unary::Rsqrt), &[sum.into()]);
        let spread = Prim::Broadcast { dims: vec![8, 64], axes: vec![0] };
        let r = push(&mut graph, spread, &[r.into()]);
        let normed = push(&mut graph, Prim::Binary(Binary::Mul), &[x.into(), r.into()]);
        let inner = match at % 2 {
            0 => push(&mut graph, Prim::Extern(vec![ty.clone()]), &[normed.into()]),
            _ => push(&mut graph, Prim::Unary(Unary::Tanh), &[normed.into()]),
        };
        x = push(&mut graph, Prim::Binary(Binary::Add), &[x.into(), inner.into()]);
    }
    graph.output(x);
    graph
}

/// Ops in a chain, each result read by the one after it and by one much later.
fn ladder(n: usize) -> Graph {
    let mut graph = Graph::new();
    let mut values = vec![graph.dense_input(TensorType::new(Dtype::F32, &[64])).expect("small")];
    for at in 0..n {
        let (a, b) = (values[at], values[at / 2]);
        let op = if at % 7 == 6 {
            Prim::Extern(vec![TensorType::new(Dtype::F32, &[64])])
        } else {
            Prim::Binary(Binary::Add)
        };
        let operands: &[Operand] = &[a.into(), b.into()];
        values.push(graph.push1(op, operands).expect("fits"));
    }
    graph.output(values[n]);
    graph
}

/// Nothing but pointwise ops, in one kernel.
fn chain(n: usize) -> Graph {
    let mut graph = Graph::new();
    let x = graph.dense_input(TensorType::new(Dtype::F32, &[64])).expect("small");
    let y = (0..n).fold(x, |y, at| {
        let prim = if at % 3 == 0 { Prim::Unary(Unary::Tanh) } else { Prim::Binary(Binary::Add) };
        let operands: &[Operand] = if at % 3 == 0 { &[y.into()] } else { &[y.into(), x.into()] };
        graph.push1(prim, operands).expect("fits")
    });
    graph.output(y);
    graph
}

/// Every other op is somebody else's, so that there are as many loops as ops.
fn alternating(n: usize) -> Graph {
    let mut graph = Graph::new();
    let ty = TensorType::new(Dtype::F32, &[64]);
    let x = graph.dense_input(ty.clone()).expect("small");
    let y = (0..n).fold(x, |y, at| {
        let prim = if at % 2 == 0 { Prim::Unary(Unary::Tanh) } else { Prim::Extern(vec![ty.clone()]) };
        graph.push1(prim, &[y.into()]).expect("fits")
    });
    graph.output(y);
    graph
}

/// Sixteen times the ops take about eighteen times as long on a quiet machine, 27 times where each op is a loop of its own;
/// the limit leaves room for what else the machine does, and none for a search of all ops for each op. (Thousands of ops in
/// one loop once overflowed the stack.)
#[test]
fn compile_time_grows_with_the_graph() {
    type Made = fn(usize) -> Graph;
    let graphs: [(&str, Made, usize); 4] =
        [("blocks", blocks, 7), ("ladder", ladder, 1), ("chain", chain, 1), ("alternating", alternating, 1)];
    for (name, make, each) in graphs {
        let time = |ops: usize| {
            let graph = make(ops / each);
            let once = |_| {
                let start = std::time::Instant::now();
                compile(&graph, &Options::default()).expect("taken");
                start.elapsed().as_secs_f64()
            };
            (0..3).map(once).fold(f64::INFINITY, f64::min)
        };
        let [small, middle, large] = [1000, 4000, 16_000].map(time);
        println!("{name}: {:.1} ms, {:.1} ms, {:.1} ms", small * 1e3, middle * 1e3, large * 1e3);
        assert!(large <= 100.0 * small, "{name}: {small} s for 1,000 ops, {large} s for 16,000");
    }
}
