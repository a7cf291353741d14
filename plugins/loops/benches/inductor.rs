//! Fused kernels against those that Inductor generates for the same functions, with outputs given, on one thread.
//!
//! ```text
//! OMP_NUM_THREADS=1 python benches/inductor.py FOLDER
//! LD_LIBRARY_PATH=…/torch/lib INDUCTOR=FOLDER cargo bench -p thunderhead-loops --bench inductor [-- PART_OF_A_NAME… --show]
//! ```
//!
//! The script leaves Inductor's kernels as libraries, which are called here as C is, in turns with ours on the same
//! tensors; results are compared. Times are the least of many rounds of the thread's own CPU time, so that other work on
//! the machine counts little. Without `INDUCTOR` nothing is measured. Only ratios within one run mean anything.

use half::bf16;
use serde_json::Value;
use std::cell::RefCell;
use std::ffi::{CString, c_void};
use std::hint::black_box;
use std::path::Path;
use thunderhead_loops::*;

mod shared;
use shared::{Build, Number, now};

/// What one call of a kernel gets: of which tensor, from which byte on.
#[derive(Clone, Copy)]
enum Arg {
    Input(usize, usize),
    Output(usize),
    Buffer(usize, usize),
}

/// Inductor's kernels of one case, in the order in which they are called.
struct Theirs {
    calls: Vec<(*mut c_void, Vec<Arg>)>,
    buffers: Vec<Vec<u64>>,
}

/// How many arguments a kernel may have.
const MOST_ARGS: usize = 8;

impl Theirs {
    fn of(case: &Value) -> Theirs {
        let mut theirs = Theirs { calls: vec![], buffers: vec![] };
        let mut known: Vec<usize> = vec![];
        for kernel in case["kernels"].as_array().expect("a list") {
            let mut args = Vec::new();
            for arg in kernel["args"].as_array().expect("a list") {
                let number = |key: &str| arg[key].as_u64().expect("a number") as usize;
                let (id, offset) = (number("at"), number("offset"));
                args.push(match arg["kind"].as_str() {
                    Some("input") => Arg::Input(id, offset),
                    Some("output") => Arg::Output(offset),
                    _ => {
                        let at = known.iter().position(|known| *known == id).unwrap_or_else(|| {
                            known.push(id);
                            theirs.buffers.push(vec![0; number("bytes").div_ceil(8)]);
                            known.len() - 1
                        });
                        Arg::Buffer(at, offset)
                    }
                });
            }
            assert!(args.len() <= MOST_ARGS);
            theirs.calls.push((symbol(kernel["library"].as_str().expect("a path")), args));
        }
        theirs
    }

    fn run<T: Number>(&mut self, inputs: &[Aligned<T>], output: &mut [T]) {
        for (f, args) in &self.calls {
            let mut all = [std::ptr::null_mut::<c_void>(); MOST_ARGS];
            for (all, arg) in all.iter_mut().zip(args) {
                *all = match *arg {
                    Arg::Input(at, offset) => {
                        inputs[at].all().as_ptr().cast_mut().wrapping_byte_add(offset).cast()
                    }
                    Arg::Output(offset) => output.as_mut_ptr().wrapping_byte_add(offset).cast(),
                    Arg::Buffer(at, offset) => self.buffers[at].as_mut_ptr().wrapping_byte_add(offset).cast(),
                };
            }
            type P = *mut c_void;
            // SAFETY: a kernel takes as many pointers as the script has seen, and ignores those behind them, which the C
            // calling conventions of 64-bit processors allow.
            unsafe {
                let f: unsafe extern "C" fn(P, P, P, P, P, P, P, P) = std::mem::transmute(*f);
                let [a, b, c, d, e, g, h, i] = all;
                f(a, b, c, d, e, g, h, i);
            }
        }
    }
}

fn symbol(path: &str) -> *mut c_void {
    let path = CString::new(path).expect("a path");
    // SAFETY: a library that the script has compiled; its initialisers are libtorch's.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!library.is_null(), "{path:?} loads only where the loader finds libtorch's libraries");
        let symbol = libc::dlsym(library, c"kernel".as_ptr());
        assert!(!symbol.is_null(), "the library has a kernel");
        symbol
    }
}

/// The functions of `inductor.py`, on rows and columns: dims of the operands, and the graph.
fn graph<T: Number>(name: &str, rows: usize, cols: usize) -> (Build, Vec<Vec<usize>>) {
    let mut b = Build { graph: Graph::new(), half: None };
    let dims = [rows, cols];
    let full = dims.to_vec();
    let shapes: Vec<Vec<usize>> = match name {
        "mul_add" => vec![full; 3],
        "gelu_mul" => vec![full.clone(), vec![cols], full],
        "swiglu" => vec![full; 2],
        "rms_norm" => vec![full, vec![cols]],
        "residual_layer_norm" => vec![full.clone(), full, vec![cols], vec![cols]],
        "rope" => vec![vec![rows, cols / WIDTH, WIDTH], vec![rows, WIDTH], vec![rows, WIDTH]],
        "cat" => vec![vec![rows, cols / 2]; 2],
        _ => vec![full],
    };
    let v: Vec<ValueId> = shapes.iter().map(|dims| b.input::<T>(dims)).collect();
    let out = match name {
        "mul_add" => {
            let product = b.bin(Binary::Mul, v[0], v[1]);
            b.bin(Binary::Add, product, v[2])
        }
        "gelu_mul" => {
            let bias = b.wide(v[1]);
            let (x, bias, y) = (b.wide(v[0]), b.spread(bias, &dims, &[1]), b.wide(v[2]));
            let sum = b.bin(Binary::Add, x, bias);
            let act = b.gelu(sum);
            let out = b.bin(Binary::Mul, act, y);
            b.narrow(out)
        }
        "gelu_tanh" => {
            let x = b.wide(v[0]);
            let out = gelu_tanh(&mut b, x);
            b.narrow(out)
        }
        "swiglu" => {
            let (x, y) = (b.wide(v[0]), b.wide(v[1]));
            let act = b.silu(x);
            let out = b.bin(Binary::Mul, act, y);
            b.narrow(out)
        }
        "softmax" | "log_softmax" => {
            let x = b.wide(v[0]);
            let m = b.fold(Reduce::Amax, x);
            let m = b.spread(m, &dims, &[0]);
            let off = b.bin(Binary::Sub, x, m);
            let e = b.un(Unary::Exp, off);
            let sum = b.fold(Reduce::Sum, e);
            let out = if name == "softmax" {
                let sum = b.spread(sum, &dims, &[0]);
                b.bin(Binary::Div, e, sum)
            } else {
                let log = b.un(Unary::Log, sum);
                let log = b.spread(log, &dims, &[0]);
                b.bin(Binary::Sub, off, log)
            };
            b.narrow(out)
        }
        "rms_norm" => {
            let (x, w) = (b.wide(v[0]), b.wide(v[1]));
            let square = b.bin(Binary::Mul, x, x);
            let sum = b.fold(Reduce::Sum, square);
            let mean = b.bin(Binary::Div, sum, cols as f64);
            let shifted = b.bin(Binary::Add, mean, 1e-5);
            let r = b.un(Unary::Rsqrt, shifted);
            let (r, w) = (b.spread(r, &dims, &[0]), b.spread(w, &dims, &[1]));
            let n = b.bin(Binary::Mul, x, r);
            let out = b.bin(Binary::Mul, n, w);
            b.narrow(out)
        }
        "residual_layer_norm" => {
            let [x, y, w, bias] = [0, 1, 2, 3].map(|i| b.wide(v[i]));
            layer_norm(&mut b, [x, y, w, bias], &dims)
        }
        "rope" => rope(&mut b, [v[0], v[1], v[2]], [cols / WIDTH, rows, WIDTH]),
        "cat" => b.on(Prim::Cat(1), &[v[0].into(), v[1].into()]),
        name => panic!("{name} is no function of this bench"),
    };
    b.graph.output(out);
    (b, shapes)
}

/// Of the heads of a rotary embedding.
const WIDTH: usize = 64;

fn gelu_tanh(b: &mut Build, x: ValueId) -> ValueId {
    let square = b.bin(Binary::Mul, x, x);
    let cube = b.bin(Binary::Mul, square, x);
    let scaled = b.bin(Binary::Mul, cube, 0.044_715);
    let sum = b.bin(Binary::Add, x, scaled);
    let inner = b.bin(Binary::Mul, sum, (2.0 / std::f64::consts::PI).sqrt());
    let tanh = b.un(Unary::Tanh, inner);
    let gate = b.bin(Binary::Add, tanh, 1.0);
    let half = b.bin(Binary::Mul, x, 0.5);
    b.bin(Binary::Mul, half, gate)
}

fn layer_norm(b: &mut Build, [x, y, w, bias]: [ValueId; 4], dims: &[usize]) -> ValueId {
    let x = b.bin(Binary::Add, x, y);
    let moments = b.graph.push(Prim::VarMean(vec![1]), &[x.into(), Operand::from(0i64)]).expect("fits");
    let shifted = b.bin(Binary::Add, moments[0], 1e-5);
    let r = b.un(Unary::Rsqrt, shifted);
    let (mean, r) = (b.spread(moments[1], dims, &[0]), b.spread(r, dims, &[0]));
    let off = b.bin(Binary::Sub, x, mean);
    let n = b.bin(Binary::Mul, off, r);
    let (w, bias) = (b.spread(w, dims, &[1]), b.spread(bias, dims, &[1]));
    let scaled = b.bin(Binary::Mul, n, w);
    let out = b.bin(Binary::Add, scaled, bias);
    b.narrow(out)
}

/// Heads lie within rows, as a packed projection gives them.
fn rope(b: &mut Build, [x, cos, sin]: [ValueId; 3], dims: [usize; 3]) -> ValueId {
    let [heads, length, width] = dims;
    let x = b.on(Prim::Transpose(vec![1, 0, 2]), &[x.into()]);
    let half = width / 2;
    let slice = |from: usize, to: usize| Prim::Slice {
        start: vec![0, 0, from],
        end: vec![heads, length, to],
        step: vec![1; 3],
    };
    let (low, high) = (b.on(slice(0, half), &[x.into()]), b.on(slice(half, width), &[x.into()]));
    let minus = b.un(Unary::Neg, high);
    let turned = b.on(Prim::Cat(2), &[minus.into(), low.into()]);
    let (cos, sin) = (b.spread(cos, &dims, &[1, 2]), b.spread(sin, &dims, &[1, 2]));
    let (a, c) = (b.bin(Binary::Mul, x, cos), b.bin(Binary::Mul, turned, sin));
    b.bin(Binary::Add, a, c)
}

/// Elements that begin at a line of the cache, as tensors do on both sides.
struct Aligned<T> {
    elements: Vec<T>,
    from: usize,
    n: usize,
}

impl<T: Number> Aligned<T> {
    fn of(n: usize, numbers: impl Iterator<Item = T>) -> Aligned<T> {
        let mut elements = vec![T::default(); n + 64];
        let from = elements.as_ptr().align_offset(64);
        elements[from..from + n].iter_mut().zip(numbers).for_each(|(element, number)| *element = number);
        Aligned { elements, from, n }
    }

    fn all(&self) -> &[T] {
        &self.elements[self.from..self.from + self.n]
    }

    fn all_mut(&mut self) -> &mut [T] {
        &mut self.elements[self.from..self.from + self.n]
    }
}

/// Some numbers without a pattern that vectors could share.
fn filled<T: Number>(n: usize, salt: usize) -> Aligned<T> {
    let mut state = salt as u64 * 0x9e37_79b9_7f4a_7c15 + 1;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        T::put((state >> 40) as f32 / (1 << 22) as f32 - 2.0)
    };
    Aligned::of(n, (0..n).map(next))
}

/// The least seconds of a call of each, in turns.
fn duel(mut ours: impl FnMut(), mut theirs: impl FnMut(), seconds: f64) -> (f64, f64) {
    ours();
    theirs();
    let start = now();
    (0..4).for_each(|_| ours());
    (0..4).for_each(|_| theirs());
    let once = ((now() - start) / 8.0).max(1e-8);
    // Reading the clock is a call of the system.
    let calls = (4e-5 / once).ceil().min(1000.0) as usize;
    let rounds = ((seconds / 2.0 / (once * calls as f64)) as usize).clamp(6, 3000);
    let time = |f: &mut dyn FnMut()| {
        let start = now();
        (0..calls).for_each(|_| f());
        (now() - start) / calls as f64
    };
    (0..rounds)
        .fold((f64::INFINITY, f64::INFINITY), |(a, b), _| (a.min(time(&mut ours)), b.min(time(&mut theirs))))
}

fn measure<T: Number>(name: &str, (rows, cols): (usize, usize), case: &Value) -> f64 {
    let (build, shapes) = graph::<T>(name, rows, cols);
    let program = compile(&build.graph, &Options::default()).expect("all is taken");
    let [Step::Kernel(kernel)] = program.steps() else { panic!("{name}: one kernel\n{program}") };
    if std::env::args().any(|arg| arg == "--show") {
        println!("{program}");
    }
    let inputs: Vec<Aligned<T>> =
        shapes.iter().enumerate().map(|(i, dims)| filled(dims.iter().product(), i)).collect();
    let views: Vec<View<'_>> =
        kernel.inputs().iter().map(|input| View::of(inputs[input.0 as usize].all())).collect();
    // Both write to the same memory, so that neither has a better place in the caches.
    let output = RefCell::new(Aligned::of(rows * cols, std::iter::empty()));
    let mut theirs = Theirs::of(case);
    let seconds = std::env::var("SECONDS_A_CASE").ok().and_then(|v| v.parse().ok()).unwrap_or(0.4);
    let run = || {
        let mut output = output.borrow_mut();
        let mut outputs = [ViewMut::of(output.all_mut())];
        kernel.run(black_box(&views), &mut outputs, &[], &Serial).expect("the views are large enough");
    };
    run();
    let found = output.borrow().all().to_vec();
    theirs.run(&inputs, output.borrow_mut().all_mut());
    let expected = output.borrow().all().to_vec();
    let (us, they) =
        duel(run, || theirs.run(black_box(&inputs), black_box(output.borrow_mut().all_mut())), seconds);
    let off = expected.iter().zip(&found).map(|(a, b)| (a.get() - b.get()).abs()).fold(0.0, f32::max);
    let limit = if T::DTYPE == Dtype::F32 { 1e-4 } else { 0.07 };
    assert!(off <= limit, "{name}: off by {off}");
    let elements: usize = inputs.iter().map(|input| input.n).sum::<usize>() + rows * cols;
    let gb = (elements * size_of::<T>()) as f64 / 1e9;
    let ratio = they / us;
    println!(
        "{:<40} {:>10.3} {:>10.3} {:>7.2} {:>7.2}",
        case["case"].as_str().unwrap_or(name),
        they * 1e6,
        us * 1e6,
        gb / us,
        ratio
    );
    ratio
}

fn main() {
    let Ok(folder) = std::env::var("INDUCTOR") else {
        println!(
            "INDUCTOR names the folder that benches/inductor.py has filled; without it nothing is measured"
        );
        return;
    };
    let path = Path::new(&folder).join("kernels.jsonl");
    let listed = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let model = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    println!("{}", model.lines().find(|line| line.starts_with("model name")).unwrap_or("unknown processor"));
    println!("{:<40} {:>10} {:>10} {:>7} {:>7}", "case", "theirs us", "ours us", "GB/s", "ratio");
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let mut cases: Vec<Value> =
        listed.lines().map(|line| serde_json::from_str(line).expect("the script writes JSON")).collect();
    cases.sort_by_key(|case| case["case"].as_str().map(str::to_owned));
    let mut ratios = Vec::new();
    for case in &cases {
        let label = case["case"].as_str().expect("a name");
        if !wanted.is_empty() && !wanted.iter().any(|wanted| label.contains(wanted.as_str())) {
            continue;
        }
        let [name, size, dtype] = label.split(' ').collect::<Vec<_>>()[..] else { panic!("{label}") };
        let (rows, cols) = size.split_once('x').expect("rows and columns");
        let size = (rows.parse().expect("a number"), cols.parse().expect("a number"));
        ratios.push(match dtype {
            "f32" => measure::<f32>(name, size, case),
            _ => measure::<bf16>(name, size, case),
        });
    }
    let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    println!("{} cases: geometric mean {mean:.2}, least {least:.2}", ratios.len());
}
