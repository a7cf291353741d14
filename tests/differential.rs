//! Presets against each other on random programs: what `pytorch` runs op by op, what fusers make regions of, with
//! libtorch's plugins behind them and with `reference` alone, results and gradients.
//!
//! The oracle is `reference` in f64. How far an executor may be from it follows from the program: what nobody rounds is
//! equal, and elsewhere a few times what `reference` itself is away in the program's own dtypes, and a few roundings of
//! the largest value on the way. A program that fails is cut down to the fewest calls that still fail and is printed
//! with its seed; `THUNDERHEAD_SEEDS=17..18` runs that one, and any other range.
//!
//! Needs the tree that `THUNDERHEAD_DIST` names (`cargo xtask test` sets it); without it, the fuser that is built beside
//! the tests is not there and nothing is compared.

#[path = "differential/make.rs"]
mod make;
#[path = "support/random.rs"]
mod random;
#[path = "differential/recipe.rs"]
mod recipe;
#[path = "conformance/sample.rs"]
mod sample;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use recipe::{Made, Precision, Recipe};
use rustc_hash::FxHashMap;
use sample::{decoded, encoded};
use thunderhead::config::{Overlay, Start, Surroundings};
use thunderhead::ir::Dtype;
use thunderhead::ir::text::{PrintOptions, print};
use thunderhead::run::GradRequest;
use thunderhead::{Host, HostOptions, Program, Tensor, Value};

/// Programs of a run of the suite.
const PROGRAMS: u64 = 2_000;

/// Every how manyth program is differentiated, too.
const DIFFERENTIATED: u64 = 3;

#[test]
fn presets_agree_on_random_programs() {
    let Some(dist) = std::env::var_os("THUNDERHEAD_DIST").map(PathBuf::from) else { return };
    let library = "libthunderhead_full_fusion.so";
    if !dist.join("plugins").join(library).exists() {
        return;
    }
    let alone = tempfile::tempdir().expect("a folder");
    std::fs::copy(dist.join("plugins").join(library), alone.path().join(library)).expect("copied");
    let plugins = dist.join("plugins");
    let mut hosts = vec![
        ("full_fusion".to_owned(), preset("full_fusion", &plugins, &dist)),
        ("full_fusion without libtorch".to_owned(), preset("full_fusion", alone.path(), &dist)),
        ("concat_inductor".to_owned(), preset("concat_inductor", &plugins, &dist)),
    ];
    if plugins.join("libthunderhead_pytorch.so").exists() {
        hosts.push(("pytorch".to_owned(), preset("pytorch", &plugins, &dist)));
    }
    let seeds = seeds();
    println!("seeds {seeds:?}");
    let suite = Suite { reference: Host::reference().expect("built in"), hosts, fused: AtomicUsize::new(0) };
    let next = AtomicUsize::new(0);
    let n = (seeds.end - seeds.start) as usize;
    let faults: Vec<String> = std::thread::scope(|scope| {
        let work = || {
            let mut faults = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= n || faults.len() >= 40 {
                    return faults;
                }
                faults.extend(suite.fault(seeds.start + at as u64));
            }
        };
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    });
    assert!(faults.is_empty(), "{} programs:\n{}", faults.len(), faults.join("\n"));
    // Programs that no fuser takes anything of would prove nothing.
    let fused = suite.fused.load(Ordering::Relaxed);
    assert!(n < 100 || fused * 4 > n * 3, "regions in {fused} of {n} programs only");
}

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("THUNDERHEAD_SEEDS") else { return 0..PROGRAMS };
    let range = text.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
    range.unwrap_or_else(|| panic!("THUNDERHEAD_SEEDS is `{text}`, not FIRST..END"))
}

/// A host with the preset's executors and the plugins of a folder.
fn preset(name: &str, plugins: &Path, dist: &Path) -> Host {
    let mut around = Surroundings::of_process();
    around.variables.remove("THUNDERHEAD_PLUGINS");
    around.exe_dir = Some(dist.join("bin"));
    let text =
        format!("config = 1\nbase = \"{name}\"\n[plugins]\npaths = [{plugins:?}]\n[run]\nthreads = 1\n");
    let options = HostOptions { start: Start::Text(text), overlay: Overlay::default(), around };
    Host::open(&options).unwrap_or_else(|error| panic!("{name}: {error}"))
}

struct Suite {
    reference: Host,
    hosts: Vec<(String, Host)>,
    /// Programs in which somebody built a region.
    fused: AtomicUsize,
}

/// What is asked of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Results,
    Gradients,
}

impl Suite {
    /// What is wrong with the program of a seed, cut down.
    fn fault(&self, seed: u64) -> Option<String> {
        let recipe = make::recipe(seed);
        let outputs = recipe.ends();
        let mut asked = vec![What::Results];
        if seed.is_multiple_of(DIFFERENTIATED) {
            asked.push(What::Gradients);
        }
        let (program, inputs) = recipe.program(Precision::Own, &outputs, false);
        let plan = self.hosts[0].1.compile(&program).and_then(|session| session.plan(&inputs));
        if plan.is_ok_and(|plan| !plan.regions.is_empty()) {
            self.fused.fetch_add(1, Ordering::Relaxed);
        }
        for what in asked {
            let oracle = match self.oracle(&recipe, &outputs, false, what) {
                Ok(oracle) => oracle,
                Err(why) => return Some(self.told(seed, &recipe, &outputs, "reference", what, &why)),
            };
            for (name, host) in &self.hosts {
                if let Err(why) = agrees(host, &recipe, &outputs, false, what, &oracle) {
                    let (recipe, outputs, why) = self.reduced(host, &recipe, &outputs, what, why);
                    return Some(self.told(seed, &recipe, &outputs, name, what, &why));
                }
            }
        }
        None
    }

    fn told(
        &self,
        seed: u64,
        recipe: &Recipe,
        outputs: &[usize],
        who: &str,
        what: What,
        why: &str,
    ) -> String {
        let (program, _) = recipe.program(Precision::Own, outputs, true);
        let text = print(program.module(), thunderhead::ops::schemas(), &PrintOptions::default());
        format!("seed {seed}, {who}, {what:?}: {why}\n{text}")
    }

    /// What the results or gradients are, and how far an executor may be away.
    fn oracle(
        &self,
        recipe: &Recipe,
        outputs: &[usize],
        lean: bool,
        what: What,
    ) -> Result<Vec<Expected>, String> {
        let needed = recipe.needed(outputs);
        let all: Vec<usize> = (0..recipe.values.len()).filter(|v| needed[*v]).collect();
        let eps = all.iter().map(|v| rounding(recipe.values[*v].dtype)).fold(0.0, f64::max);
        // Halves are summed in f32.
        let count = |v: &usize| recipe.values[*v].dims.iter().product::<i64>() as f64;
        let many = all.iter().map(count).fold(1.0, f64::max);
        let (program, inputs) = recipe.program(Precision::Double, &all, true);
        let scale = run(&self.reference, &program, &inputs)?.iter().map(largest).fold(0.0, f64::max);
        let (program, inputs) = recipe.program(Precision::Double, outputs, lean);
        let (own, own_inputs) = recipe.program(Precision::Own, outputs, lean);
        let pairs: Vec<(String, Tensor, Tensor, bool)> = match what {
            What::Results => {
                let exact = run(&self.reference, &program, &inputs)?;
                let found = run(&self.reference, &own, &own_inputs)?;
                let pair = |(n, (exact, found)): (usize, (Tensor, Tensor))| {
                    (format!("out{n}"), exact, found, recipe.values[outputs[n]].exact)
                };
                exact.into_iter().zip(found).enumerate().map(pair).collect()
            }
            What::Gradients => {
                let exact = gradients(&self.reference, &program, &inputs)?;
                let mut found: FxHashMap<_, _> =
                    gradients(&self.reference, &own, &own_inputs)?.into_iter().collect();
                let pair = |(name, exact): (String, Tensor)| {
                    let found = found.remove(&name)?;
                    Some((name, exact, found, false))
                };
                exact.into_iter().filter_map(pair).collect()
            }
        };
        let steepest = pairs.iter().map(|(_, exact, ..)| largest(exact)).fold(2.0, f64::max);
        let scale = if what == What::Results { scale } else { scale.max(1.0) * steepest };
        let expected = |(name, exact, found, equal): (String, Tensor, Tensor, bool)| {
            let away = farthest(&exact, &found);
            let rounded = 32.0 * (eps + eps.min(f64::from(f32::EPSILON)) * many.sqrt()) * scale;
            let allowed = if equal { 0.0 } else { 8.0 * away + rounded };
            Expected {
                name,
                dtype: found.dtype(),
                dims: exact.dims().to_vec(),
                values: decoded(&exact),
                allowed,
            }
        };
        Ok(pairs.into_iter().map(expected).collect())
    }

    /// The fewest calls that still fail: one output, then inputs in place of what is made.
    fn reduced(
        &self,
        host: &Host,
        recipe: &Recipe,
        outputs: &[usize],
        what: What,
        why: String,
    ) -> (Recipe, Vec<usize>, String) {
        let fails = |recipe: &Recipe, outputs: &[usize]| -> Option<String> {
            let oracle = self.oracle(recipe, outputs, true, what).ok()?;
            agrees(host, recipe, outputs, true, what, &oracle).err()
        };
        let made = |place: &usize| matches!(recipe.values[*place].made, Made::By(..));
        let places = (0..recipe.values.len()).filter(made);
        let mut single = places.filter_map(|place| Some((vec![place], fails(recipe, &[place])?)));
        let Some((outputs, mut why)) = single.next() else { return (recipe.clone(), outputs.to_vec(), why) };
        let mut recipe = recipe.clone();
        for place in 0..recipe.values.len() {
            let fact = &recipe.values[place];
            if outputs.contains(&place)
                || matches!(fact.made, Made::Input(_))
                || !recipe.needed(&outputs)[place]
            {
                continue;
            }
            let n = fact.dims.iter().product::<i64>() as usize;
            let elements = make::elements(&mut make::Rng::new(place as u64), fact.dtype, n, None);
            let smaller = recipe.with_input(place, elements);
            if let Some(still) = fails(&smaller, &outputs) {
                (recipe, why) = (smaller, still);
            }
        }
        (recipe, outputs, why)
    }
}

/// What a tensor must be.
struct Expected {
    name: String,
    dtype: Dtype,
    dims: Vec<i64>,
    values: Vec<f64>,
    allowed: f64,
}

fn agrees(
    host: &Host,
    recipe: &Recipe,
    outputs: &[usize],
    lean: bool,
    what: What,
    expected: &[Expected],
) -> Result<(), String> {
    let (program, inputs) = recipe.program(Precision::Own, outputs, lean);
    let found: FxHashMap<String, Tensor> = match what {
        What::Results => {
            let found = run(host, &program, &inputs)?;
            found.into_iter().enumerate().map(|(n, found)| (format!("out{n}"), found)).collect()
        }
        What::Gradients => gradients(host, &program, &inputs)?.into_iter().collect(),
    };
    for expected in expected {
        let name = &expected.name;
        let found = found.get(name).ok_or_else(|| format!("no `{name}`"))?;
        if found.dtype() != expected.dtype || found.dims() != expected.dims {
            let (a, b) = ((found.dtype(), found.dims()), (expected.dtype, &expected.dims));
            return Err(format!("`{name}` is {a:?} instead of {b:?}"));
        }
        let found = decoded(found);
        let far = |(a, b): (&f64, &f64)| {
            !(a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= expected.allowed)
        };
        if let Some(at) = found.iter().zip(&expected.values).position(far) {
            let (a, b, allowed) = (found[at], expected.values[at], expected.allowed);
            return Err(format!("`{name}` at {at} is {a:e} instead of {b:e}; {allowed:e} allowed"));
        }
    }
    Ok(())
}

fn run(host: &Host, program: &Program, inputs: &[Value]) -> Result<Vec<Tensor>, String> {
    let outputs = host.compile(program).and_then(|session| session.run(inputs)).map_err(|e| told(&e))?;
    Ok(outputs.iter().filter_map(Value::tensor).cloned().collect())
}

/// The gradients of all floating inputs for cotangents that depend on the place alone.
fn gradients(host: &Host, program: &Program, inputs: &[Value]) -> Result<Vec<(String, Tensor)>, String> {
    let session = host.compile(program).map_err(|e| told(&e))?;
    let (outputs, _, tape) = session.forward(inputs, &GradRequest::default()).map_err(|e| told(&e))?;
    let cotangent = |n: &usize| {
        let tensor = outputs[*n].tensor().expect("a floating output");
        let count = tensor.dims().iter().product::<i64>() as usize;
        let bytes: Vec<u8> = (0..count)
            .flat_map(|at| encoded(tensor.dtype(), ((at * 7 + n) % 16) as f64 / 8.0 - 1.0))
            .collect();
        (*n, Tensor::from_bytes(tensor.dtype(), tensor.dims(), &bytes).expect("as many bytes"))
    };
    let cotangents = tape.cotangents().iter().map(cotangent).collect();
    Ok(tape.backward(&cotangents).map_err(|e| told(&e))?.into_iter().collect())
}

/// What one rounding may be of a number.
fn rounding(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F64 => f64::EPSILON,
        Dtype::F32 => f64::from(f32::EPSILON),
        Dtype::F16 => 1.0 / 1024.0,
        Dtype::Bf16 => 1.0 / 128.0,
        _ => 0.0,
    }
}

fn largest(tensor: &Tensor) -> f64 {
    decoded(tensor).into_iter().filter(|x| x.is_finite()).fold(0.0, |most, x| most.max(x.abs()))
}

fn farthest(a: &Tensor, b: &Tensor) -> f64 {
    let away = |(a, b): (f64, f64)| (a - b).abs();
    let away = decoded(a).into_iter().zip(decoded(b)).map(away);
    away.filter(|x| x.is_finite()).fold(0.0, f64::max)
}

/// An error in one line, with what caused it.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause: Option<&dyn std::error::Error> = error.source();
    while let Some(inner) = cause {
        text += &format!(": {inner}");
        cause = inner.source();
    }
    text.replace('\n', " ")
}
