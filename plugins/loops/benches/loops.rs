//! Fused kernels against the loops one would write by hand without thinking of caches or vectors, on one thread.
//!
//! `cargo bench -p thunderhead-loops [NAME…] [-- --show]` prints for each case the best of many rounds: microseconds and
//! GB/s of the tensors read and written, for the naive loop and for the kernel, and their ratio. `--show` prints kernels.
//! Only ratios within one run mean anything.

use half::bf16;
use std::hint::black_box;
use std::time::Instant;
use thunderhead_loops::*;

mod shared;
use shared::{Build, Number, now};

type Naive<'a, T> = dyn Fn(&[Vec<T>], &mut [T]) + 'a;

struct Case<'a, T> {
    name: &'a str,
    build: &'a dyn Fn(&mut Build) -> ValueId,
    inputs: Vec<Vec<T>>,
    n_out: usize,
    naive: &'a Naive<'a, T>,
}

/// The least of many rounds, each of as many calls as the clock can tell apart.
fn best(mut f: impl FnMut()) -> f64 {
    let start = now();
    f();
    let once = (now() - start).max(1e-8);
    let calls = (2e-5 / once).ceil().min(100.0) as usize;
    let rounds = ((0.3 / (once * calls as f64)) as usize).clamp(7, 4000);
    (0..rounds).fold(f64::INFINITY, |best, _| {
        let start = now();
        (0..calls).for_each(|_| f());
        best.min((now() - start) / calls as f64)
    })
}

fn measure<T: Number>(case: &Case<'_, T>) {
    let mut build = Build { graph: Graph::new(), half: None };
    let out = (case.build)(&mut build);
    build.graph.output(out);
    let start = Instant::now();
    let program = compile(&build.graph, &Options::default()).expect("all is taken");
    let compiled = start.elapsed().as_secs_f64() * 1e6;
    let kernels: Vec<&Kernel> = program
        .steps()
        .iter()
        .map(|step| match step {
            Step::Kernel(kernel) => kernel,
            Step::Extern(_) => unreachable!("nothing is extern here"),
        })
        .collect();
    assert_eq!(kernels.len(), 1, "{}: one kernel\n{program}", case.name);
    if std::env::args().any(|arg| arg == "--show") {
        println!("{program}");
    }
    let mut expected = vec![T::default(); case.n_out];
    let mut found = vec![T::default(); case.n_out];
    let naive = best(|| (case.naive)(black_box(&case.inputs), black_box(&mut expected)));
    let views: Vec<View<'_>> =
        kernels[0].inputs().iter().map(|input| View::of(&case.inputs[input.0 as usize])).collect();
    let fused = best(|| {
        let mut outputs = [ViewMut::of(&mut found)];
        kernels[0].run(black_box(&views), &mut outputs, &[], &Serial).expect("the views are large enough");
    });
    let off = expected.iter().zip(&found).map(|(a, b)| (a.get() - b.get()).abs()).fold(0.0, f32::max);
    let limit = if T::DTYPE == Dtype::F32 { 1e-4 } else { 0.07 };
    assert!(off <= limit, "{}: off by {off}", case.name);
    let elements: usize = case.inputs.iter().map(Vec::len).sum::<usize>() + case.n_out;
    let gb = (elements * size_of::<T>()) as f64 / 1e9;
    println!(
        "{:<34} {:>5} {:>10.1} {:>7.2} {:>10.1} {:>7.2} {:>6.2} {:>9.0}",
        case.name,
        T::DTYPE.name(),
        naive * 1e6,
        gb / naive,
        fused * 1e6,
        gb / fused,
        naive / fused,
        compiled
    );
}

fn wanted(name: &str) -> bool {
    let mut names = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).peekable();
    names.peek().is_none() || names.any(|wanted| name.contains(&wanted))
}

fn filled<T: Number>(n: usize, salt: usize) -> Vec<T> {
    (0..n).map(|i| T::put(((i * 37 + salt * 101) % 257) as f32 / 64.0 - 2.0)).collect()
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

fn pointwise<T: Number>() {
    for n in [1 << 10, 1 << 16, 1 << 20, 1 << 24] {
        let cols = 1024.min(n);
        let name = format!("gelu(x+b)*y {n}");
        if wanted(&name) {
            measure::<T>(&Case {
                name: &name,
                build: &|b| {
                    let dims = [n / cols, cols];
                    let (x, bias, y) = (b.input::<T>(&dims), b.input::<T>(&[cols]), b.input::<T>(&dims));
                    let (x, bias, y) = (b.wide(x), b.wide(bias), b.wide(y));
                    let bias = b.spread(bias, &dims, &[1]);
                    let sum = b.bin(Binary::Add, x, bias);
                    let act = b.gelu(sum);
                    let out = b.bin(Binary::Mul, act, y);
                    b.narrow(out)
                },
                inputs: vec![filled(n, 1), filled(cols, 2), filled(n, 3)],
                n_out: n,
                naive: &|inputs, out| {
                    for (i, out) in out.iter_mut().enumerate() {
                        let v = inputs[0][i].get() + inputs[1][i % cols].get();
                        let gate = 1.0 + libm::erff(v * std::f32::consts::FRAC_1_SQRT_2);
                        *out = T::put(0.5 * v * gate * inputs[2][i].get());
                    }
                },
            });
        }
    }
    for n in [512 * 1376, 512 * 11008] {
        let name = format!("SwiGLU {n}");
        if wanted(&name) {
            measure::<T>(&Case {
                name: &name,
                build: &|b| {
                    let (x, y) = (b.input::<T>(&[n]), b.input::<T>(&[n]));
                    let (x, y) = (b.wide(x), b.wide(y));
                    let act = b.silu(x);
                    let out = b.bin(Binary::Mul, act, y);
                    b.narrow(out)
                },
                inputs: vec![filled(n, 1), filled(n, 2)],
                n_out: n,
                naive: &|inputs, out| {
                    for (i, out) in out.iter_mut().enumerate() {
                        let x = inputs[0][i].get();
                        *out = T::put(x * sigmoid(x) * inputs[1][i].get());
                    }
                },
            });
        }
    }
}

fn softmax<T: Number>(rows: usize, cols: usize) {
    let name = format!("softmax {rows}x{cols}");
    if !wanted(&name) {
        return;
    }
    measure::<T>(&Case {
        name: &name,
        build: &|b| {
            let dims = [rows, cols];
            let x = b.input::<T>(&dims);
            let x = b.wide(x);
            let m = b.fold(Reduce::Amax, x);
            let m = b.spread(m, &dims, &[0]);
            let off = b.bin(Binary::Sub, x, m);
            let e = b.un(Unary::Exp, off);
            let sum = b.fold(Reduce::Sum, e);
            let sum = b.spread(sum, &dims, &[0]);
            let out = b.bin(Binary::Div, e, sum);
            b.narrow(out)
        },
        inputs: vec![filled(rows * cols, 1)],
        n_out: rows * cols,
        naive: &|inputs, out| {
            for (row, out) in inputs[0].chunks(cols).zip(out.chunks_mut(cols)) {
                let m = row.iter().fold(f32::NEG_INFINITY, |m, v| m.max(v.get()));
                let sum: f32 = row.iter().map(|v| (v.get() - m).exp()).sum();
                row.iter().zip(out).for_each(|(v, out)| *out = T::put((v.get() - m).exp() / sum));
            }
        },
    });
}

fn rms_norm<T: Number>(rows: usize, cols: usize) {
    let name = format!("rms_norm {rows}x{cols}");
    if !wanted(&name) {
        return;
    }
    measure::<T>(&Case {
        name: &name,
        build: &|b| {
            let dims = [rows, cols];
            let (x, w) = (b.input::<T>(&dims), b.input::<T>(&[cols]));
            let (x, w) = (b.wide(x), b.wide(w));
            let square = b.bin(Binary::Mul, x, x);
            let sum = b.fold(Reduce::Sum, square);
            let mean = b.bin(Binary::Div, sum, cols as f64);
            let shifted = b.bin(Binary::Add, mean, 1e-5);
            let r = b.un(Unary::Rsqrt, shifted);
            let r = b.spread(r, &dims, &[0]);
            let n = b.bin(Binary::Mul, x, r);
            let w = b.spread(w, &dims, &[1]);
            let out = b.bin(Binary::Mul, n, w);
            b.narrow(out)
        },
        inputs: vec![filled(rows * cols, 1), filled(cols, 2)],
        n_out: rows * cols,
        naive: &|inputs, out| {
            for (row, out) in inputs[0].chunks(cols).zip(out.chunks_mut(cols)) {
                let sum: f32 = row.iter().map(|v| v.get() * v.get()).sum();
                let r = 1.0 / (sum / cols as f32 + 1e-5).sqrt();
                for ((v, w), out) in row.iter().zip(&inputs[1]).zip(out) {
                    *out = T::put(v.get() * r * w.get());
                }
            }
        },
    });
}

fn layer_norm<T: Number>(rows: usize, cols: usize) {
    let name = format!("residual+layer_norm {rows}x{cols}");
    if !wanted(&name) {
        return;
    }
    measure::<T>(&Case {
        name: &name,
        build: &|b| {
            let dims = [rows, cols];
            let (x, y) = (b.input::<T>(&dims), b.input::<T>(&dims));
            let (w, bias) = (b.input::<T>(&[cols]), b.input::<T>(&[cols]));
            let (x, y, w, bias) = (b.wide(x), b.wide(y), b.wide(w), b.wide(bias));
            let x = b.bin(Binary::Add, x, y);
            let moments =
                b.graph.push(Prim::VarMean(vec![1]), &[x.into(), Operand::from(0i64)]).expect("fits");
            let shifted = b.bin(Binary::Add, moments[0], 1e-5);
            let r = b.un(Unary::Rsqrt, shifted);
            let (mean, r) = (b.spread(moments[1], &dims, &[0]), b.spread(r, &dims, &[0]));
            let off = b.bin(Binary::Sub, x, mean);
            let n = b.bin(Binary::Mul, off, r);
            let (w, bias) = (b.spread(w, &dims, &[1]), b.spread(bias, &dims, &[1]));
            let scaled = b.bin(Binary::Mul, n, w);
            let out = b.bin(Binary::Add, scaled, bias);
            b.narrow(out)
        },
        inputs: vec![filled(rows * cols, 1), filled(rows * cols, 2), filled(cols, 3), filled(cols, 4)],
        n_out: rows * cols,
        naive: &|inputs, out| {
            let rows = inputs[0].chunks(cols).zip(inputs[1].chunks(cols));
            for ((row, more), out) in rows.zip(out.chunks_mut(cols)) {
                let sum = |i: usize| row[i].get() + more[i].get();
                let mean = (0..cols).map(sum).sum::<f32>() / cols as f32;
                let var = (0..cols).map(|i| (sum(i) - mean) * (sum(i) - mean)).sum::<f32>() / cols as f32;
                let r = 1.0 / (var + 1e-5).sqrt();
                for (i, out) in out.iter_mut().enumerate() {
                    *out = T::put((sum(i) - mean) * r * inputs[2][i].get() + inputs[3][i].get());
                }
            }
        },
    });
}

fn rope<T: Number>(batch: usize, heads: usize, length: usize, width: usize) {
    let name = format!("rope with cat {batch}x{heads}x{length}x{width}");
    if !wanted(&name) {
        return;
    }
    let n = batch * heads * length * width;
    measure::<T>(&Case {
        name: &name,
        build: &|b| {
            // Heads lie within rows, as a packed projection gives them.
            let dims = [batch, heads, length, width];
            let x = b.input::<T>(&[batch, length, heads, width]);
            let (cos, sin) = (b.input::<T>(&[length, width]), b.input::<T>(&[length, width]));
            let x = b.on(Prim::Transpose(vec![0, 2, 1, 3]), &[x.into()]);
            let half = width / 2;
            let slice = |from: usize, to: usize| Prim::Slice {
                start: vec![0, 0, 0, from],
                end: vec![batch, heads, length, to],
                step: vec![1; 4],
            };
            let (low, high) = (b.on(slice(0, half), &[x.into()]), b.on(slice(half, width), &[x.into()]));
            let minus = b.un(Unary::Neg, high);
            let turned = b.on(Prim::Cat(3), &[minus.into(), low.into()]);
            let (cos, sin) = (b.spread(cos, &dims, &[2, 3]), b.spread(sin, &dims, &[2, 3]));
            let (a, c) = (b.bin(Binary::Mul, x, cos), b.bin(Binary::Mul, turned, sin));
            b.bin(Binary::Add, a, c)
        },
        inputs: vec![filled(n, 1), filled(length * width, 2), filled(length * width, 3)],
        n_out: n,
        naive: &|inputs, out| {
            for (i, out) in out.iter_mut().enumerate() {
                let (d, t) = (i % width, i / width % length);
                let (h, b) = (i / (width * length) % heads, i / (width * length * heads));
                let at = |d: usize| inputs[0][((b * length + t) * heads + h) * width + d].get();
                let turned = if d < width / 2 { -at(d + width / 2) } else { at(d - width / 2) };
                let (cos, sin) = (inputs[1][t * width + d].get(), inputs[2][t * width + d].get());
                *out = T::put(at(d) * cos + turned * sin);
            }
        },
    });
}

fn all<T: Number>() {
    pointwise::<T>();
    softmax::<T>(64, 128);
    softmax::<T>(8192, 1024);
    rms_norm::<T>(16, 512);
    rms_norm::<T>(2048, 4096);
    layer_norm::<T>(512, 768);
    layer_norm::<T>(2048, 4096);
    rope::<T>(2, 16, 256, 64);
}

/// What this thread can do just now: GFLOP/s of multiply-and-add in its vectors, GB/s of a copy (each way).
fn machine() {
    let model = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model.lines().find(|line| line.starts_with("model name")).unwrap_or("unknown processor");
    let from = vec![1f32; 1 << 24];
    let mut to = vec![0f32; 1 << 24];
    let copy = best(|| black_box(&mut to).copy_from_slice(black_box(&from)));
    println!(
        "{model}; copy {:.1} GB/s; FMA {:.0} GFLOP/s",
        0.067_108_864 / copy,
        2.0 * 64e6 / best(multiply) / 1e9
    );
}

/// 64 million multiply-and-adds.
fn multiply() {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        #[target_feature(enable = "avx512f")]
        fn wide() {
            black_box(chains::<256>());
        }
        // SAFETY: the processor has it.
        return unsafe { wide() };
    }
    black_box(chains::<256>());
}

#[inline(always)]
fn chains<const N: usize>() -> [f32; N] {
    let (mut state, by) = ([1f32; N], black_box(0.999f32));
    for _ in 0..64_000_000 / N {
        state.iter_mut().for_each(|v| *v = v.mul_add(by, by));
    }
    state
}

fn main() {
    machine();
    println!(
        "{:<34} {:>5} {:>10} {:>7} {:>10} {:>7} {:>6} {:>9}",
        "case", "dtype", "naive us", "GB/s", "fused us", "GB/s", "ratio", "comp. us"
    );
    all::<f32>();
    all::<bf16>();
}
