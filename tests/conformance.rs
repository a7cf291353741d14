//! Every op of the table × dtypes × its samples: executors must agree.
//!
//! Compared are `reference` on the op's decomposition, `pytorch` on the op at its own level, and `pytorch` on the
//! decomposition. The last two need a tree with that plugin: `THUNDERHEAD_DIST` (`cargo xtask test` sets it); without
//! one, what `reference` says is only looked at for errors.
//!
//! An exception is data with a reason. One that no longer applies fails the test.

#[path = "conformance/sample.rs"]
mod sample;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sample::{Case, case, decoded, is_generic};
use thunderhead::config::{Overlay, Start};
use thunderhead::ir::Dtype;
use thunderhead::ops::{self, Op, Traits};
use thunderhead::{Error, Host, HostOptions, Tensor, Value};

const DTYPES: &[Dtype] = &[
    Dtype::Bool,
    Dtype::U8,
    Dtype::I8,
    Dtype::I16,
    Dtype::I32,
    Dtype::I64,
    Dtype::F16,
    Dtype::Bf16,
    Dtype::F32,
    Dtype::F64,
    Dtype::C64,
    Dtype::C128,
];

/// Where executors may differ: op, dtypes (none: all), why.
const EXCEPTIONS: &[(&str, &[Dtype], &str)] = &[
    ("prims.device_put", &[], "the host moves tensors; no executor is asked"),
    ("torch.kthvalue", SIGNED, "of equal values ATen names any, and selects without keeping their order"),
    ("torch.gelu", HALF_AND_SINGLE, "ATen's gelu of an infinity is NaN below f64 (seen in 2.13)"),
    ("torch.grid_sample", &[Dtype::F16, Dtype::Bf16], "ATen computes coordinates in half precision"),
];

const SIGNED: &[Dtype] = &[Dtype::I8, Dtype::I16, Dtype::I32, Dtype::I64];
const HALF_AND_SINGLE: &[Dtype] = &[Dtype::F16, Dtype::Bf16, Dtype::F32];

#[test]
fn executors_agree_on_every_op() {
    let Some(executors) = Executors::find() else { return };
    let mut report = Report::default();
    for op in ops::table().iter().filter(|op| is_run(op)) {
        for sample in op.samples {
            let dtypes: &[Dtype] = if is_generic(sample.0) { DTYPES } else { &[Dtype::F32] };
            for &dtype in dtypes {
                // Libraries of complex functions agree on finite numbers only.
                if dtype.is_complex() && sample.0.contains("{nonfinite}") {
                    continue;
                }
                // The table refuses what the op does not take.
                let Ok(case) = case(op, sample.0, dtype) else { continue };
                executors.compare(op, sample.0, dtype, &case, &mut report);
            }
        }
    }
    report.finish();
}

/// Ops that an executor runs, and whose results its inputs alone decide.
fn is_run(op: &Op) -> bool {
    let not_run = [Traits::HOST, Traits::EFFECT, Traits::WRITES];
    !not_run.iter().any(|traits| op.is(*traits)) && !op.name.starts_with("num.")
}

/// The hosts that are compared.
struct Executors {
    reference: Host,
    /// With their names.
    others: Vec<(&'static str, Host)>,
}

impl Executors {
    fn find() -> Option<Executors> {
        let reference = Host::reference().expect("the built-in executor loads");
        let mut others = Vec::new();
        if let Some(plugin) = pytorch() {
            others.push(("pytorch", open(&plugin, "")));
            others.push(("pytorch on prims", open(&plugin, "allow = [\"prims.*\"]")));
        }
        Some(Executors { reference, others })
    }

    fn compare(&self, op: &Op, sample: &str, dtype: Dtype, case: &Case, report: &mut Report) {
        let id = Id { op: op.name, dtype, sample: sample.to_owned() };
        let expected = run(&self.reference, case);
        if let Err(error) = &expected {
            report.fault(&id, "reference", &error.to_string());
            return;
        }
        for (name, host) in &self.others {
            match (&expected, run(host, case)) {
                (_, Err(error)) if is_unclaimed(&error) => report.refused(&id, name),
                (Ok(expected), Ok(found)) => match difference(op, expected, &found) {
                    None => report.agreed += 1,
                    Some(difference) => report.fault(&id, name, &difference),
                },
                (Ok(_), Err(error)) => report.fault(&id, name, &error.to_string()),
                (Err(_), _) => {}
            }
        }
    }
}

/// The plugin in the tree that the environment names.
fn pytorch() -> Option<PathBuf> {
    let tree = std::env::var_os("THUNDERHEAD_DIST")?;
    let plugin = Path::new(&tree).join("plugins").join(format!(
        "{}thunderhead_pytorch{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    ));
    plugin.is_file().then_some(plugin)
}

fn open(plugin: &Path, rules: &str) -> Host {
    let libraries = plugin.with_file_name("../share/libraries.toml");
    let libraries = std::fs::read_to_string(libraries).unwrap_or_default();
    let text = format!(
        "config = 1\nexecutors = [\"pytorch\"]\nlast_resort = \"none\"\n[plugins]\npaths = [{:?}]\n[libraries]\n{libraries}\n\
         [executor.pytorch]\n{rules}\n[run]\nthreads = 1\n",
        plugin.display().to_string()
    );
    let options =
        HostOptions { start: Start::Text(text), overlay: Overlay::default(), ..HostOptions::default() };
    Host::open(&options).expect("the plugin of the tree loads")
}

fn run(host: &Host, case: &Case) -> Result<Vec<Tensor>, Error> {
    let outputs = host.compile(&case.program)?.run(&case.inputs)?;
    Ok(outputs.iter().filter_map(Value::tensor).cloned().collect())
}

fn is_unclaimed(error: &Error) -> bool {
    let code = miette::Diagnostic::code(error).map(|code| code.to_string());
    code.is_some_and(|code| code == "claim::unclaimed")
}

/// What differs, in words.
fn difference(op: &Op, expected: &[Tensor], found: &[Tensor]) -> Option<String> {
    if expected.len() != found.len() {
        return Some(format!("{} results instead of {}", found.len(), expected.len()));
    }
    expected.iter().zip(found).enumerate().find_map(|(n, (expected, found))| {
        if expected.dtype() != found.dtype() || expected.dims() != found.dims() {
            let of = |tensor: &Tensor| format!("{}{:?}", tensor.dtype().name(), tensor.dims());
            return Some(format!("result {n} is {} instead of {}", of(found), of(expected)));
        }
        let tolerance = tolerance(op, expected.dtype());
        let (expected, found) = (decoded(expected), decoded(found));
        let scale =
            expected.iter().filter(|value| value.is_finite()).fold(1.0f64, |max, value| max.max(value.abs()));
        let far = |(a, b): (&f64, &f64)| {
            !(a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * scale)
        };
        let at = expected.iter().zip(&found).position(far)?;
        Some(format!("result {n} has {:e} instead of {:e} at {at}", found[at], expected[at]))
    })
}

/// f64 1e-9, f32 1e-5, bf16 1.6e-2, f16 1e-3, relative to the largest value, and four times that where many values
/// make one; integers and bools exact.
fn tolerance(op: &Op, dtype: Dtype) -> f64 {
    let of_one = match dtype {
        Dtype::F64 | Dtype::C128 => 1e-9,
        Dtype::F32 | Dtype::C64 => 1e-5,
        Dtype::F16 => 1e-3,
        Dtype::Bf16 => 1.6e-2,
        _ => 0.0,
    };
    if op.is(Traits::POINTWISE) { of_one } else { 4.0 * of_one }
}

struct Id {
    op: &'static str,
    dtype: Dtype,
    sample: String,
}

/// What came of all cases.
#[derive(Default)]
struct Report {
    agreed: usize,
    /// By op and executor, the first faults of each.
    faults: BTreeMap<(&'static str, String), Vec<String>>,
    refused: BTreeMap<&'static str, BTreeSet<&'static str>>,
    used: BTreeSet<usize>,
}

impl Report {
    fn fault(&mut self, id: &Id, executor: &str, what: &str) {
        let applies = |(op, dtypes, _): &(&str, &[Dtype], &str)| {
            *op == id.op && (dtypes.is_empty() || dtypes.contains(&id.dtype))
        };
        if let Some(exception) = EXCEPTIONS.iter().position(applies) {
            self.used.insert(exception);
            return;
        }
        let faults = self.faults.entry((id.op, executor.to_owned())).or_default();
        faults.push(format!(
            "{} ({}): {}",
            id.dtype.name(),
            id.sample,
            what.lines().next().unwrap_or_default()
        ));
    }

    fn refused(&mut self, id: &Id, executor: &'static str) {
        self.refused.entry(id.op).or_default().insert(executor);
    }

    fn finish(self) {
        println!(
            "{} comparisons agree; some form refused of: {:?}",
            self.agreed,
            self.refused.keys().collect::<Vec<_>>()
        );
        let mut text = String::new();
        for ((op, executor), faults) in &self.faults {
            text += &format!("{op} on {executor}, {} cases:\n", faults.len());
            faults.iter().take(4).for_each(|fault| text += &format!("    {fault}\n"));
        }
        let unused = (0..EXCEPTIONS.len()).filter(|n| !self.used.contains(n));
        unused.for_each(|n| text += &format!("exception for {} no longer applies\n", EXCEPTIONS[n].0));
        assert!(text.is_empty(), "\n{text}");
    }
}
