//! Gradients of indexing: right against an f64 oracle of our own, and the same bits in every run and on any number of
//! threads, for f64, f32, bf16 and f16.
//!
//! Reading and writing by index only moves and adds elements, so a form is told by routes: which element of which input
//! arrives in which element of the result. The oracle adds cotangents along them in f64. Cotangents that are small
//! integers (even seeds) make every sum exact in every dtype; others must be within one rounding of the oracle (sums of halves run in
//! f32). No half-precision reference anywhere.

#[path = "support/random.rs"]
mod random;

use random::SplitMix64;
use rustc_hash::FxHashMap;
use thunderhead::config::{Overlay, Start, Surroundings};
use thunderhead::ir::{
    Arg, Dim, Dtype, Module, Name, Output, Role, RoleKind, Stage, TensorType, Trace, TraceParam,
};
use thunderhead::ops::{Builder, OpError, Tensor as Node};
use thunderhead::run::GradRequest;
use thunderhead::{Host, HostOptions, Program, Session, Tensor, Value};

const DTYPES: [Dtype; 4] = [Dtype::F64, Dtype::F32, Dtype::Bf16, Dtype::F16];
/// Each has three runs: one with one thread, two with two.
const SEEDS: u64 = 1000;
/// Seeds for forms whose tensors are large enough to be worth several threads; one of these runs takes as long as
/// hundreds of small ones.
const LARGE_SEEDS: u64 = 10;

/// Element `from` of input `input` arrives in element `to` of the result.
struct Route {
    to: usize,
    input: usize,
    from: usize,
}

/// What an index holds.
#[derive(Clone, Copy)]
enum Index {
    /// Integers from the first up to the second, repeated ones among them.
    Any(i64, i64),
    /// Different integers from 0 up to that.
    Different(i64),
    /// Bools.
    Mask,
}

/// Emits the op under test from its inputs and indices.
type Build = fn(&mut Builder<'_>, &[Node], &[Node]) -> Result<Node, OpError>;

struct Form {
    name: &'static str,
    floats: &'static [&'static [i64]],
    indices: &'static [(&'static [i64], Index)],
    build: Build,
    /// From the values of the indices.
    routes: fn(&[Vec<i64>]) -> Vec<Route>,
    large: bool,
}

const SMALL: Form = Form {
    name: "",
    floats: &[&[5, 4]],
    indices: &[],
    build: |_, _, _| unreachable!("every form says how"),
    routes: |_| Vec::new(),
    large: false,
};

fn ints<const N: usize>(values: [i64; N]) -> Arg {
    Arg::ints(values)
}

/// Routes of a result of `n` elements that come from input 0.
fn reads(n: usize, from: impl Fn(usize) -> usize) -> Vec<Route> {
    (0..n).map(|to| Route { to, input: 0, from: from(to) }).collect()
}

/// Every element of input 0 stays where it is.
fn kept(n: usize) -> Vec<Route> {
    reads(n, |at| at)
}

fn wrap(index: i64, n: i64) -> usize {
    usize::try_from(if index < 0 { index + n } else { index }).expect("indices are in range")
}

/// All forms: `a` is `[5, 4]` unless it says otherwise.
const FORMS: &[Form] = &[
    Form {
        name: "a[-2]",
        build: |b, x, _| b.tensor("torch.select", vec![x[0].arg(), Arg::Int(0), Arg::Int(-2)]),
        routes: |_| reads(4, |at| 12 + at),
        ..SMALL
    },
    Form {
        name: "a[1:5:2, ..., None]",
        build: |b, x, _| {
            let [axis, start, end, step] = [0, 1, 5, 2].map(Arg::Int);
            let part = b.tensor("torch.slice", vec![x[0].arg(), axis, start, end, step])?;
            b.tensor("torch.unsqueeze", vec![part.arg(), Arg::Int(-1)])
        },
        routes: |_| reads(8, |at| (1 + 2 * (at / 4)) * 4 + at % 4),
        ..SMALL
    },
    Form {
        name: "a[:, -3:-1]",
        build: |b, x, _| {
            let [axis, start, end] = [1, -3, -1].map(Arg::Int);
            b.tensor("torch.slice", vec![x[0].arg(), axis, start, end])
        },
        routes: |_| reads(10, |at| (at / 2) * 4 + 1 + at % 2),
        ..SMALL
    },
    Form {
        name: "a[index]",
        indices: &[(&[7], Index::Any(-5, 5))],
        build: |b, x, i| b.tensor("torch.index", vec![x[0].arg(), Arg::List(vec![i[0].arg()])]),
        routes: |i| reads(28, |at| wrap(i[0][at / 4], 5) * 4 + at % 4),
        ..SMALL
    },
    Form {
        name: "a[:, index]",
        indices: &[(&[6], Index::Any(-4, 4))],
        build: |b, x, i| b.tensor("torch.index", vec![x[0].arg(), Arg::List(vec![Arg::None, i[0].arg()])]),
        routes: |i| reads(30, |at| (at / 6) * 4 + wrap(i[0][at % 6], 4)),
        ..SMALL
    },
    Form {
        name: "a[index, index]",
        indices: &[(&[3, 1], Index::Any(-5, 5)), (&[4], Index::Any(-4, 4))],
        build: |b, x, i| b.tensor("torch.index", vec![x[0].arg(), Arg::List(vec![i[0].arg(), i[1].arg()])]),
        routes: |i| reads(12, |at| wrap(i[0][at / 4], 5) * 4 + wrap(i[1][at % 4], 4)),
        ..SMALL
    },
    Form {
        name: "a[index, :, index] of [3, 2, 4]",
        floats: &[&[3, 2, 4]],
        indices: &[(&[5], Index::Any(-3, 3)), (&[5], Index::Any(-4, 4))],
        build: |b, x, i| {
            b.tensor("torch.index", vec![x[0].arg(), Arg::List(vec![i[0].arg(), Arg::None, i[1].arg()])])
        },
        routes: |i| reads(10, |at| wrap(i[0][at / 2], 3) * 8 + (at % 2) * 4 + wrap(i[1][at / 2], 4)),
        ..SMALL
    },
    Form {
        name: "a[mask of rows]",
        indices: &[(&[5], Index::Mask)],
        build: |b, x, i| b.tensor("torch.index", vec![x[0].arg(), Arg::List(vec![i[0].arg()])]),
        routes: |i| {
            let rows: Vec<usize> = (0..5).filter(|r| i[0][*r] != 0).collect();
            reads(rows.len() * 4, |at| rows[at / 4] * 4 + at % 4)
        },
        ..SMALL
    },
    Form {
        name: "a[mask]",
        indices: &[(&[5, 4], Index::Mask)],
        build: |b, x, i| b.tensor("torch.index", vec![x[0].arg(), Arg::List(vec![i[0].arg()])]),
        routes: |i| {
            let all: Vec<usize> = (0..20).filter(|e| i[0][*e] != 0).collect();
            reads(all.len(), |at| all[at])
        },
        ..SMALL
    },
    Form {
        name: "embedding",
        indices: &[(&[3, 4], Index::Any(0, 5))],
        build: |b, x, i| b.tensor("torch.embedding", vec![x[0].arg(), i[0].arg()]),
        routes: |i| reads(48, |at| wrap(i[0][at / 4], 5) * 4 + at % 4),
        ..SMALL
    },
    Form {
        name: "gather",
        indices: &[(&[3, 6], Index::Any(0, 4))],
        build: |b, x, i| b.tensor("torch.gather", vec![x[0].arg(), Arg::Int(1), i[0].arg()]),
        routes: |i| reads(18, |at| (at / 6) * 4 + wrap(i[0][at], 4)),
        ..SMALL
    },
    Form {
        name: "take_along_axis",
        indices: &[(&[6, 1], Index::Any(0, 5))],
        build: |b, x, i| b.tensor("prims.take_along_axis", vec![x[0].arg(), i[0].arg(), Arg::Int(0)]),
        routes: |i| reads(24, |at| wrap(i[0][at / 4], 5) * 4 + at % 4),
        ..SMALL
    },
    Form {
        name: "take",
        indices: &[(&[7], Index::Any(0, 4))],
        build: |b, x, i| b.tensor("torch.index_select", vec![x[0].arg(), Arg::Int(1), i[0].arg()]),
        routes: |i| reads(35, |at| (at / 7) * 4 + wrap(i[0][at % 7], 4)),
        ..SMALL
    },
    Form {
        name: "scatter",
        floats: &[&[5, 4], &[3, 4]],
        indices: &[(&[3, 1], Index::Different(5))],
        build: |b, x, i| {
            let index = b.tensor("torch.expand", vec![i[0].arg(), ints([3, 4])])?;
            b.tensor("torch.scatter", vec![x[0].arg(), Arg::Int(0), index.arg(), x[1].arg()])
        },
        routes: |i| replaced(&i[0]),
        ..SMALL
    },
    Form {
        name: "scatter_add",
        floats: &[&[5, 4], &[6, 4]],
        indices: &[(&[6, 4], Index::Any(0, 5))],
        build: |b, x, i| b.tensor("torch.scatter_add", vec![x[0].arg(), Arg::Int(0), i[0].arg(), x[1].arg()]),
        routes: |i| {
            let mut all = kept(20);
            let place = |from: usize| wrap(i[0][from], 5) * 4 + from % 4;
            all.extend((0..24).map(|from| Route { to: place(from), input: 1, from }));
            all
        },
        ..SMALL
    },
    Form {
        name: "index_add",
        floats: &[&[5, 4], &[6, 4]],
        indices: &[(&[6], Index::Any(0, 5))],
        build: |b, x, i| b.tensor("torch.index_add", vec![x[0].arg(), Arg::Int(0), i[0].arg(), x[1].arg()]),
        routes: |i| added_rows(&i[0]),
        ..SMALL
    },
    Form {
        name: "index_put accumulate",
        floats: &[&[5, 4], &[6, 4]],
        indices: &[(&[6], Index::Any(-5, 5))],
        build: |b, x, i| {
            let index = Arg::List(vec![i[0].arg()]);
            b.tensor("torch.index_put", vec![x[0].arg(), index, x[1].arg(), Arg::Bool(true)])
        },
        routes: |i| added_rows(&i[0]),
        ..SMALL
    },
    Form {
        name: "index_put accumulate one value",
        floats: &[&[5, 4], &[1]],
        indices: &[(&[6], Index::Any(-5, 5)), (&[6], Index::Any(-4, 4))],
        build: |b, x, i| {
            let index = Arg::List(vec![i[0].arg(), i[1].arg()]);
            b.tensor("torch.index_put", vec![x[0].arg(), index, x[1].arg(), Arg::Bool(true)])
        },
        routes: |i| {
            let mut all = kept(20);
            let place = |at: usize| wrap(i[0][at], 5) * 4 + wrap(i[1][at], 4);
            all.extend((0..6).map(|at| Route { to: place(at), input: 1, from: 0 }));
            all
        },
        ..SMALL
    },
    Form {
        name: "index_put",
        floats: &[&[5, 4], &[3, 4]],
        indices: &[(&[3], Index::Different(5))],
        build: |b, x, i| {
            let index = Arg::List(vec![i[0].arg()]);
            b.tensor("torch.index_put", vec![x[0].arg(), index, x[1].arg()])
        },
        routes: |i| replaced(&i[0]),
        ..SMALL
    },
    Form {
        name: "index_copy",
        floats: &[&[5, 4], &[3, 4]],
        indices: &[(&[3], Index::Different(5))],
        build: |b, x, i| b.tensor("torch.index_copy", vec![x[0].arg(), Arg::Int(0), i[0].arg(), x[1].arg()]),
        routes: |i| replaced(&i[0]),
        ..SMALL
    },
    Form {
        name: "large embedding",
        floats: &[&[64, 32]],
        indices: &[(&[4096], Index::Any(0, 64))],
        build: |b, x, i| b.tensor("torch.embedding", vec![x[0].arg(), i[0].arg()]),
        routes: |i| reads(4096 * 32, |at| wrap(i[0][at / 32], 64) * 32 + at % 32),
        large: true,
    },
    Form {
        name: "large a[index]",
        floats: &[&[64, 32]],
        indices: &[(&[4096], Index::Any(-64, 64))],
        build: |b, x, i| b.tensor("torch.index", vec![x[0].arg(), Arg::List(vec![i[0].arg()])]),
        routes: |i| reads(4096 * 32, |at| wrap(i[0][at / 32], 64) * 32 + at % 32),
        large: true,
    },
    Form {
        name: "large gather",
        floats: &[&[64, 32]],
        indices: &[(&[64, 2048], Index::Any(0, 32))],
        build: |b, x, i| b.tensor("torch.gather", vec![x[0].arg(), Arg::Int(1), i[0].arg()]),
        routes: |i| reads(64 * 2048, |at| (at / 2048) * 32 + wrap(i[0][at], 32)),
        large: true,
    },
];

/// Rows of input 1 stand in the rows of input 0 that the index names.
fn replaced(index: &[i64]) -> Vec<Route> {
    let row = |at: usize| index.iter().position(|i| *i == (at / 4) as i64);
    let route = |to: usize| match row(to) {
        Some(r) => Route { to, input: 1, from: r * 4 + to % 4 },
        None => Route { to, input: 0, from: to },
    };
    (0..20).map(route).collect()
}

/// Rows of input 1 are added to the rows of input 0 that the index names.
fn added_rows(index: &[i64]) -> Vec<Route> {
    let mut all = kept(20);
    let rows = index.iter().enumerate();
    all.extend(rows.flat_map(|(r, i)| {
        (0..4).map(move |c| Route { to: wrap(*i, 5) * 4 + c, input: 1, from: r * 4 + c })
    }));
    all
}

#[test]
fn gradients_are_exact_and_the_same_on_each_run_and_thread_count() {
    let hosts = [1, 2].map(host);
    let mut faults = Vec::new();
    for form in FORMS {
        for dtype in DTYPES {
            let program = program(form, dtype).unwrap_or_else(|e| panic!("{}: {e}", form.name));
            let sessions = hosts.each_ref().map(|h| h.compile(&program).expect("reference takes all of it"));
            let seeds = if form.large { LARGE_SEEDS } else { SEEDS };
            let fault = (0..seeds).find_map(|seed| {
                let what = check(form, dtype, &sessions, seed).err()?;
                Some(format!("{} {} seed {seed}: {what}", form.name, dtype.name()))
            });
            faults.extend(fault);
        }
    }
    println!("{} forms, {SEEDS} seeds ({LARGE_SEEDS} large)", FORMS.len());
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

fn host(threads: u32) -> Host {
    let text = format!("config = 1\nexecutors = [\"reference\"]\n[run]\nthreads = {threads}\n");
    let mut around = Surroundings::of_process();
    around.variables.remove("THUNDERHEAD_PLUGINS");
    let options = HostOptions { start: Start::Text(text), overlay: Overlay::default(), around };
    Host::open(&options).expect("reference is linked in")
}

fn program(form: &Form, dtype: Dtype) -> Result<Program, OpError> {
    let mut trace = Trace::new("forward", Stage::Acquired);
    let mut input = |dims: &[i64], dtype: Dtype| {
        let name: Name = format!("in{}", trace.params.len()).into();
        let dims: Vec<Dim> = dims.iter().copied().map(Dim::Known).collect();
        let value = trace.add_value(name.clone(), TensorType::new(dims, dtype).into());
        let role = Role { kind: RoleKind::Input, name: Some(name), frozen: false };
        trace.params.push(TraceParam { value, role });
        value
    };
    let floats: Vec<_> = form.floats.iter().map(|dims| input(dims, dtype)).collect();
    let of = |index: &Index| if matches!(index, Index::Mask) { Dtype::Bool } else { Dtype::I64 };
    let indices: Vec<_> = form.indices.iter().map(|(dims, index)| input(dims, of(index))).collect();
    let mut b = Builder::top(&mut trace);
    let nodes =
        |b: &Builder<'_>, ids: &[_]| ids.iter().map(|id| b.as_tensor(*id)).collect::<Result<Vec<_>, _>>();
    let (floats, indices) = (nodes(&b, &floats)?, nodes(&b, &indices)?);
    let out = (form.build)(&mut b, &floats, &indices)?;
    trace.body = b.finish();
    trace.outputs.push(Output { value: out.arg(), name: Some("out0".into()) });
    Ok(Program::from_module(Module { dims: Vec::new(), traces: vec![trace] }))
}

fn check(form: &Form, dtype: Dtype, sessions: &[Session; 2], seed: u64) -> Result<(), String> {
    let mut draw = Draw(SplitMix64(seed.wrapping_mul(0x1_0001) ^ 0x5EED));
    let mut inputs = Vec::new();
    for dims in form.floats {
        let n = dims.iter().product::<i64>() as usize;
        let values: Vec<f64> = (0..n).map(|_| draw.below(17) as f64 - 8.0).collect();
        inputs.push(Value::Tensor(tensor(dtype, dims, &values)));
    }
    let mut indices = Vec::new();
    for (dims, index) in form.indices {
        let n = dims.iter().product::<i64>() as usize;
        let values = draw.index(*index, n);
        let dtype = if matches!(index, Index::Mask) { Dtype::Bool } else { Dtype::I64 };
        let floats: Vec<f64> = values.iter().map(|v| *v as f64).collect();
        inputs.push(Value::Tensor(tensor(dtype, dims, &floats)));
        indices.push(values);
    }
    let exact = seed.is_multiple_of(2);
    let routes = (form.routes)(&indices);
    let mut first: Option<Vec<Vec<u8>>> = None;
    let [one, two] = sessions;
    for session in [one, two, two] {
        let (outputs, _, tape) =
            session.forward(&inputs, &GradRequest::default()).map_err(|e| e.to_string())?;
        let out = outputs[0].tensor().ok_or("no result")?;
        let n_out = out.dims().iter().product::<i64>() as usize;
        let mut draw = Draw(SplitMix64(seed ^ 0xC07A));
        let cotangent: Vec<f64> = (0..n_out)
            .map(|_| {
                if exact { draw.below(5) as f64 - 2.0 } else { draw.below(1 << 20) as f64 / 524_288.0 - 1.0 }
            })
            .collect();
        let cotangent = tensor(dtype, out.dims(), &cotangent);
        let given = FxHashMap::from_iter([(0, cotangent.clone())]);
        let gradients = tape.backward(&given).map_err(|e| e.to_string())?;
        let names = (0..form.floats.len()).map(|n| format!("in{n}"));
        let found: Vec<&Tensor> = names.map(|n| gradients.get(&n).ok_or(n)).collect::<Result<_, _>>()?;
        let bits: Vec<Vec<u8>> = found.iter().map(|t| t.to_bytes().expect("small")).collect();
        match &first {
            Some(first) if *first != bits => return Err("other bits on another run or thread count".into()),
            Some(_) => continue,
            None => first = Some(bits),
        }
        let g = numbers(&cotangent);
        for (input, found) in found.iter().enumerate() {
            let mut sums = vec![(0.0f64, 0.0f64); numbers(found).len()];
            for route in routes.iter().filter(|r| r.input == input) {
                sums[route.from].0 += g[route.to];
                sums[route.from].1 += g[route.to].abs();
            }
            for (at, (got, (sum, size))) in numbers(found).into_iter().zip(sums).enumerate() {
                // One rounding, and before it sums in f32 (of f64 in f64).
                let slack = if exact { 0.0 } else { sum.abs() * rounding(dtype) + size * accumulated(dtype) };
                let off = (got - sum).abs();
                if off.is_nan() || off > slack {
                    return Err(format!("in{input}[{at}] has {got:e} instead of {sum:e}"));
                }
            }
        }
    }
    Ok(())
}

/// Half the distance of neighbours, relative.
fn rounding(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F64 => f64::EPSILON,
        Dtype::F32 => f64::from(f32::EPSILON),
        Dtype::F16 => f64::powi(2.0, -11),
        _ => f64::powi(2.0, -8),
    }
}

/// What the order of additions may change, of the sum of magnitudes.
fn accumulated(dtype: Dtype) -> f64 {
    let of_one = if dtype == Dtype::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    64.0 * of_one
}

fn tensor(dtype: Dtype, dims: &[i64], values: &[f64]) -> Tensor {
    let bytes: Vec<u8> = match dtype {
        Dtype::Bool => values.iter().map(|v| u8::from(*v != 0.0)).collect(),
        Dtype::I64 => values.iter().flat_map(|v| (*v as i64).to_ne_bytes()).collect(),
        Dtype::F64 => values.iter().flat_map(|v| v.to_ne_bytes()).collect(),
        Dtype::F32 => values.iter().flat_map(|v| (*v as f32).to_ne_bytes()).collect(),
        Dtype::F16 => values.iter().flat_map(|v| half::f16::from_f64(*v).to_ne_bytes()).collect(),
        _ => values.iter().flat_map(|v| half::bf16::from_f64(*v).to_ne_bytes()).collect(),
    };
    Tensor::from_bytes(dtype, dims, &bytes).expect("as many bytes as the dims ask for")
}

fn numbers(t: &Tensor) -> Vec<f64> {
    match t.dtype() {
        Dtype::F64 => t.to_vec::<f64>().expect("checked"),
        Dtype::F32 => t.to_vec::<f32>().expect("checked").into_iter().map(f64::from).collect(),
        Dtype::F16 => t.to_vec::<half::f16>().expect("checked").into_iter().map(f64::from).collect(),
        _ => t.to_vec::<half::bf16>().expect("checked").into_iter().map(f64::from).collect(),
    }
}

/// What a case holds, from its seed.
struct Draw(SplitMix64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0.next()
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn index(&mut self, index: Index, n: usize) -> Vec<i64> {
        match index {
            Index::Any(lo, hi) => (0..n).map(|_| lo + self.below((hi - lo) as u64) as i64).collect(),
            Index::Mask => (0..n).map(|_| self.below(2) as i64).collect(),
            Index::Different(hi) => {
                let mut all: Vec<i64> = (0..hi).collect();
                for at in 0..n {
                    let other = at + self.below((all.len() - at) as u64) as usize;
                    all.swap(at, other);
                }
                all.truncate(n);
                all
            }
        }
    }
}
