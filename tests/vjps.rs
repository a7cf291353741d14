//! Every differentiable op of the table, its own samples in f64: its gradients against central differences.
//!
//! A sample becomes a program of one op whose floating inputs want gradients; its outputs get random cotangents. The
//! derivative of Re Σ out · conj(cotangent) in each element of each input is what PyTorch calls the gradient, complex
//! ones included. With and without rematerialisation every bit must be the same. Samples with NaN and infinities, and
//! empty ones, are run, not compared. Only sound where the function is smooth at the sample: an exception is data with a
//! reason, and one that passes fails the test.

#[path = "conformance/sample.rs"]
mod sample;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use sample::{Case, case, decoded, is_generic};
use thunderhead::ir::Dtype;
use thunderhead::ops::{self, Op, Traits, Vjp};
use thunderhead::run::GradRequest;
use thunderhead::{Host, Program, Session, Tensor, Value};

/// Where the gradient is not to be the derivative, or nothing runs: op, part of the case's name (empty: all), why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("prims.device_put", "", "the host moves tensors; no executor is asked"),
    ("prims.set_data", "", "its gradient is that of another tensor: that is what it is for"),
    ("prims.index_copy", "i64[5]", REPEATED),
    ("prims.index_copy", "i64[3]", REPEATED),
    ("torch.setitem", "T[4, 3], f64[3], key=[i64[2]", REPEATED),
    ("torch.embedding", "padding_idx=0", "the padding row has no gradient, whatever the function does"),
    ("prims.var_mean", "T[2, 1]", "its variance is 0 / 0, and the slope of that, too, in PyTorch"),
    ("torch.kl_div", "c128 (T[2, 3], T[2, 3]{0..2}", "at 0 the logarithm of the target has no slope"),
    ("torch.fake_quantize_per_tensor", "f64 (T[2, 3], 0.1", STRAIGHT),
    ("torch.fake_quantize_per_tensor", "f64 (T[4], f64[1]{pos}", STRAIGHT),
];

const REPEATED: &str = "of sources for one place, all get its cotangent, as in PyTorch";
const STRAIGHT: &str = "its gradient is that of what it rounds, where that is not clamped: what it is for";

/// Inputs whose gradient is not asked for, by op and parameter.
const CONSTANT: &[(&str, &str, &str)] = &[
    ("prims.zeta", "a", "no formula gives it; asking is an error, in PyTorch too"),
    ("torch.zeta", "a", "as prims.zeta"),
    ("torch.batch_norm", "mean", RUNNING),
    ("torch.batch_norm", "var", RUNNING),
    ("torch.instance_norm", "mean", RUNNING),
    ("torch.instance_norm", "var", RUNNING),
    ("torch.native_batch_norm", "mean", RUNNING),
    ("torch.native_batch_norm", "var", RUNNING),
];

/// Results that have no gradient, by op and index.
const WITHOUT: &[(&str, usize, &str)] = &[
    ("torch.scaled_dot_product_attention_lse", 1, KEPT),
    ("torch.native_layer_norm", 1, KEPT),
    ("torch.native_layer_norm", 2, KEPT),
    ("torch.native_group_norm", 1, KEPT),
    ("torch.native_group_norm", 2, KEPT),
    ("torch.native_batch_norm", 1, KEPT),
    ("torch.native_batch_norm", 2, KEPT),
    ("torch.native_batch_norm", 3, KEPT),
    ("torch.native_batch_norm", 4, KEPT),
];

const KEPT: &str = "kept for the backward, or a running statistic; constant in PyTorch too";

/// Differentiable ops whose gradients are tested elsewhere, or that are no function of their tensors alone.
const UNTESTED: &[(&str, &str, &str)] = &[];

const RUNNING: &str = "a running statistic: constant in PyTorch, too";

/// Inputs of which one triangle is read: an element is moved together with its mirror image, and has both gradients.
const HERMITIAN: &[&str] = &["prims.cholesky", "torch.cholesky", "torch.cholesky_ex"];

/// Elements of one case that are moved one by one.
const MOVED: usize = 48;
const SEED: i64 = 7;

#[test]
fn gradients_agree_with_differences() {
    let host = Host::reference().expect("the built-in executor loads");
    let mut report = Report::default();
    let only = std::env::var("THUNDERHEAD_TEST_OP").ok();
    let chosen = |op: &&&Op| only.as_deref().is_none_or(|name| op.name == name);
    for op in ops::table().iter().filter(chosen).filter(|op| is_differentiable(op)) {
        for sample in op.samples {
            let text = in_f64(sample.0);
            let dtypes: &[Dtype] = if is_generic(&text) { &[Dtype::F64, Dtype::C128] } else { &[Dtype::F64] };
            for &dtype in dtypes {
                // The table refuses what the op does not take.
                let Ok(case) = case(op, &text, dtype) else { continue };
                let case = with_gradients(op, case);
                let id = format!("{} {} ({text})", op.name, dtype.name());
                report.add(op.name, &id, check(&host, op, case, &text));
            }
        }
    }
    report.finish(only.is_none());
}

fn is_differentiable(op: &Op) -> bool {
    let not_run = [Traits::HOST, Traits::EFFECT, Traits::WRITES];
    !matches!(op.vjp, Vjp::Zero | Vjp::NonDiff)
        && !not_run.iter().any(|traits| op.is(*traits))
        && !op.name.starts_with("num.")
}

/// Whether its results have gradients: those of control flow are the business of their traces.
fn has_gradient(op: &Op) -> bool {
    !op.schema.contains(": trace") && !op.samples.is_empty()
}

/// The sample with its own floating dtypes replaced by the widest.
fn in_f64(text: &str) -> String {
    text.replace("bf16", "f64").replace("f16", "f64").replace("f32", "f64").replace("c64", "c128")
}

/// The case without outputs that have no gradient.
fn with_gradients(op: &Op, case: Case) -> Case {
    let without = |n: usize| WITHOUT.iter().any(|(name, at, _)| *name == op.name && *at == n);
    let mut traces = case.program.module().traces.clone();
    for trace in &mut traces {
        let mut n = 0..;
        trace.outputs.retain(|_| n.next().is_none_or(|n| !without(n)));
    }
    let module = thunderhead::ir::Module { dims: Vec::new(), traces };
    Case { program: Program::from_module(module), ..case }
}

/// What came of a case: how many derivatives were compared, or what is wrong.
type Outcome = Result<usize, String>;

fn check(host: &Host, op: &Op, case: Case, text: &str) -> Outcome {
    let constant = |n: &usize| {
        let parameter = parameter(op, &case, *n);
        CONSTANT.iter().any(|(name, of, _)| *name == op.name && parameter == Some(*of))
    };
    let all: Vec<usize> =
        (0..case.inputs.len()).filter(|n| is_moved(&case.inputs[*n]) && !constant(n)).collect();
    if all.is_empty() {
        return Ok(0);
    }
    let mut wrt: Vec<String> = all.iter().map(|n| format!("in{n}")).collect();
    wrt.sort();
    let function = Function::new(host, &case, wrt)?;
    let gradients = function.gradients(&case.inputs, true)?;
    let Some((cotangents, gradients)) = gradients else { return Ok(0) };
    let again = function.gradients(&case.inputs, false)?.ok_or("no gradient without rematerialisation")?.1;
    for (name, gradient) in &gradients {
        let other = again.get(name).ok_or("fewer gradients without rematerialisation")?;
        if bits(gradient) != bits(other) {
            return Err(format!("rematerialisation changes the gradient of {name}"));
        }
    }
    if text.contains("{nonfinite}") {
        return Ok(0);
    }
    let mut n_compared = 0;
    let total: usize = all.iter().map(|n| parts(&case.inputs[*n]).len()).sum();
    let step = total.div_ceil(MOVED).max(1);
    let mut at = 0;
    for n in all {
        let values = parts(&case.inputs[n]);
        let gradient = gradients.get(&format!("in{n}")).ok_or_else(|| format!("no gradient of in{n}"))?;
        let found = decoded(gradient);
        if found.len() != values.len() {
            return Err(format!("the gradient of in{n} has {} elements, not {}", found.len(), values.len()));
        }
        for (i, value) in values.iter().enumerate() {
            at += 1;
            if at % step != 0 {
                continue;
            }
            let mirror = if HERMITIAN.contains(&op.name) { Some(mirrored(&case.inputs[n], i)) } else { None };
            if mirror == Some((i, -1.0)) {
                // The diagonal of a Hermitian matrix is real.
                continue;
            }
            let mirror = mirror.filter(|(at, _)| *at != i);
            let h = 1e-6 * value.abs().max(1.0);
            let sum = |value: f64| {
                let mut inputs = case.inputs.clone();
                let mut moved = values.clone();
                moved[i] = value;
                if let Some((at, sign)) = mirror {
                    moved[at] = sign * value;
                }
                inputs[n] = remade(&case.inputs[n], &moved);
                function.value(&inputs, &cotangents)
            };
            let (above, below) = (sum(value + h)?, sum(value - h)?);
            let expected = (above - below) / ((value + h) - (value - h));
            if expected.is_nan() {
                // Not defined on both sides.
                continue;
            }
            let found = found[i] + mirror.map_or(0.0, |(at, sign)| sign * found[at]);
            let scale = expected.abs().max(above.abs()).max(1.0);
            let off = (expected - found).abs();
            if off.is_nan() || off > 2e-7 * scale + 1e-9 {
                return Err(format!(
                    "d in{n}[{i}] (at {value:.6}) is {found:.9e}, differences give {expected:.9e}"
                ));
            }
            n_compared += 1;
        }
    }
    Ok(n_compared)
}

/// The parameter of the op that an input of the case is given to.
fn parameter<'a>(op: &'a Op, case: &Case, input: usize) -> Option<&'a str> {
    let trace = &case.program.module().traces[0];
    let value = thunderhead::ir::Arg::Value(trace.params.get(input)?.value);
    let call = trace.body.iter().filter_map(|stmt| stmt.op()).find(|call| &*call.op == op.name)?;
    let at = call.args.iter().position(|arg| *arg == value)?;
    ops::table::schema_of(op).params.get(at).map(|param| &*param.name)
}

fn is_moved(value: &Value) -> bool {
    value.tensor().is_some_and(|t| t.dtype().is_inexact())
}

/// The elements of a tensor, complex ones as two.
fn parts(value: &Value) -> Vec<f64> {
    value.tensor().map(decoded).unwrap_or_default()
}

/// Where the part at `at` of a matrix has its mirror image, and with which sign.
fn mirrored(value: &Value, at: usize) -> (usize, f64) {
    let tensor = value.tensor().expect("only tensors are moved");
    let parts = if tensor.dtype().is_complex() { 2 } else { 1 };
    let n = *tensor.dims().last().expect("a matrix") as usize;
    let (element, part) = (at / parts, at % parts);
    let (matrix, row, column) = (element / (n * n), element / n % n, element % n);
    let image = (matrix * n * n + column * n + row) * parts + part;
    (image, if part == 1 { -1.0 } else { 1.0 })
}

fn remade(like: &Value, values: &[f64]) -> Value {
    let like = like.tensor().expect("only tensors are moved");
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
    Value::Tensor(Tensor::from_bytes(like.dtype(), like.dims(), &bytes).expect("as many as before"))
}

fn bits(tensor: &Tensor) -> Vec<u8> {
    tensor.to_bytes().expect("a dense copy fits in memory")
}

type Gradients = BTreeMap<String, Tensor>;

/// Cotangents by output, and the gradients that they gave.
type Backward = (FxHashMap<usize, Tensor>, Gradients);

/// A program as a function of its inputs. One that draws random numbers begins anew, from one seed, at each call.
struct Function<'a> {
    host: &'a Host,
    program: &'a Program,
    session: Session,
    is_random: bool,
    /// The inputs that want gradients.
    wrt: Vec<String>,
}

impl<'a> Function<'a> {
    fn new(host: &'a Host, case: &'a Case, wrt: Vec<String>) -> Result<Function<'a>, String> {
        let program = &case.program;
        let session = host.compile_seeded(program, SEED).map_err(|e| e.to_string())?;
        let draws = |op: &thunderhead::ir::Bsym| {
            ops::find(&op.op).is_some_and(|op| op.is(Traits::RANDOM) || op.name.contains("dropout"))
        };
        let is_random =
            program.module().traces.iter().any(|t| t.body.iter().filter_map(|s| s.op()).any(draws));
        Ok(Function { host, program, session, is_random, wrt })
    }

    fn fresh(&self) -> Result<Option<Session>, String> {
        if !self.is_random {
            return Ok(None);
        }
        self.host.compile_seeded(self.program, SEED).map(Some).map_err(|e| e.to_string())
    }

    /// Cotangents and gradients; none where no output has a gradient.
    fn gradients(&self, inputs: &[Value], remat: bool) -> Result<Option<Backward>, String> {
        let fresh = self.fresh()?;
        let session = fresh.as_ref().unwrap_or(&self.session);
        let request = GradRequest { wrt: Some(self.wrt.clone()), remat };
        let (outputs, _, tape) = session.forward(inputs, &request).map_err(|e| format!("forward: {e}"))?;
        let plain = self.run(inputs)?;
        // An augmented forward may compute in another order.
        let near = |(a, b): (&f64, &f64)| {
            a == b || a.is_nan() && b.is_nan() || (a - b).abs() < 1e-12 * a.abs().max(1.0)
        };
        let same = |(a, b): (&Value, &Value)| match (a.tensor(), b.tensor()) {
            (Some(a), Some(b)) => bits(a) == bits(b) || decoded(a).iter().zip(&decoded(b)).all(near),
            (a, b) => a.is_none() && b.is_none(),
        };
        if let Some(n) = outputs.iter().zip(&plain).position(|pair| !same(pair)) {
            return Err(format!("output {n} is another where a gradient is wanted"));
        }
        let cotangents: FxHashMap<usize, Tensor> = tape
            .cotangents()
            .iter()
            .filter_map(|n| Some((*n, cotangent(outputs.get(*n)?.tensor()?, *n))))
            .collect();
        let reached =
            |n: &usize| outputs[*n].tensor().is_some_and(|t| decoded(t).iter().any(|y| y.is_finite()));
        if !cotangents.keys().any(reached) {
            return Ok(None);
        }
        let gradients = tape.backward(&cotangents).map_err(|e| format!("backward: {e}"))?;
        Ok(Some((cotangents, gradients)))
    }

    fn run(&self, inputs: &[Value]) -> Result<Vec<Value>, String> {
        let fresh = self.fresh()?;
        fresh.as_ref().unwrap_or(&self.session).run(inputs).map_err(|e| e.to_string())
    }

    /// Re Σ out · conj(cotangent).
    fn value(&self, inputs: &[Value], cotangents: &FxHashMap<usize, Tensor>) -> Result<f64, String> {
        let outputs = self.run(inputs)?;
        let mut sum = 0.0;
        for (n, g) in cotangents {
            let out = outputs.get(*n).and_then(Value::tensor).ok_or("an output is missing")?;
            let terms = decoded(out).into_iter().zip(decoded(g)).filter(|(_, g)| *g != 0.0);
            sum += terms.map(|(y, g)| y * g).sum::<f64>();
        }
        Ok(sum)
    }
}

/// Ordinary numbers in the dtype and dims of an output; 0 where that is not finite.
fn cotangent(out: &Tensor, n: usize) -> Tensor {
    let g = sample::filled(out.dtype(), out.dims(), "", 1000 + n as u64);
    let values: Vec<f64> =
        decoded(&g).iter().zip(decoded(out)).map(|(g, y)| if y.is_finite() { *g } else { 0.0 }).collect();
    match out.dtype() {
        Dtype::F64 | Dtype::C128 => remade(&Value::Tensor(g), &values).tensor().cloned().expect("a tensor"),
        _ => g,
    }
}

#[derive(Default)]
struct Report {
    n_cases: usize,
    n_derivatives: usize,
    faults: Vec<String>,
    used: Vec<usize>,
    passed: Vec<(usize, String)>,
    by_op: BTreeMap<&'static str, usize>,
}

impl Report {
    fn add(&mut self, op: &'static str, id: &str, outcome: Outcome) {
        let exception = EXCEPTIONS.iter().position(|(name, part, _)| *name == op && id.contains(part));
        self.n_cases += 1;
        match (outcome, exception) {
            (Ok(n), None) => {
                self.n_derivatives += n;
                *self.by_op.entry(op).or_default() += n;
            }
            (Ok(n), Some(e)) => {
                if n > 0 {
                    self.passed.push((e, id.to_owned()));
                }
            }
            (Err(_), Some(e)) => self.used.push(e),
            (Err(what), None) => {
                let what = what.lines().next().unwrap_or_default();
                self.faults.push(format!("{id}: {what}"));
            }
        }
    }

    /// Differentiable ops of which no derivative was compared.
    fn untested(&self) -> Vec<&'static str> {
        let compared = |op: &Op| self.by_op.get(op.name).is_some_and(|n| *n > 0);
        let excepted = |op: &Op| EXCEPTIONS.iter().chain(UNTESTED).any(|(name, _, _)| *name == op.name);
        let all = ops::table().iter().filter(|op| is_differentiable(op) && has_gradient(op));
        all.filter(|op| !compared(op) && !excepted(op)).map(|op| op.name).collect()
    }

    fn finish(self, whole: bool) {
        println!("{} cases, {} derivatives, seed {SEED}", self.n_cases, self.n_derivatives);
        let mut text = self.faults.join("\n");
        if whole {
            for op in self.untested() {
                text += &format!("\nno derivative of {op} was compared");
            }
            for (n, (op, part, _)) in EXCEPTIONS.iter().enumerate() {
                if !self.used.contains(&n) {
                    let by = self.passed.iter().find(|(e, _)| *e == n).map_or("nothing", |(_, id)| id);
                    text += &format!("\nthe exception for {op} ({part}) no longer applies: {by} passes");
                }
            }
        }
        assert!(text.is_empty(), "{} faults\n{text}", self.faults.len());
    }
}
