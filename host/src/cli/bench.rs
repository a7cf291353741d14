//! `thunderhead bench`: one model under several configs in one process, timed in turns, results compared.
//!
//! Rounds visit the configs in an order that is shuffled anew each time, so that a machine that slows down slows all of
//! them; ratios are of samples of the same round. Only ratios inside one run mean anything.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use serde_json::{Value as Json, json};
use thunderhead::compare::{Tolerance, compare, compare_gradients};
use thunderhead::ir::Dtype;
use thunderhead::run::GradRequest;
use thunderhead::{Error, Tensor, Value};

use super::args::{BenchArgs, ConfigArgs, WantedArgs};
use super::failure::Failure;
use super::fill::Bits;
use super::grad::ones;
use super::program::Opened;
use super::render::Screen;
use super::render::progress::Progress;
use super::render::table::Table;
use super::render::units::{bytes, count, time};

/// A sample is at least this long, so that the clock's own cost is nothing.
const LEAST_SAMPLE: Duration = Duration::from_millis(1);
/// Rounds before the time is looked at.
const LEAST_ROUNDS: usize = 5;
const MOST_ROUNDS: usize = 2000;

pub fn run(args: &BenchArgs, screen: &Screen) -> Result<(), Failure> {
    let wanted = args.grad.wanted();
    let mut names = vec![own_name(&args.model.config)];
    names.extend(args.vs.iter().cloned());
    let mut lanes: Vec<Lane> = Vec::with_capacity(names.len());
    for (i, name) in names.into_iter().enumerate() {
        let progress = Progress::start("compiling", screen);
        let mut model = args.model.clone();
        if i > 0 {
            model.config = other(&name, &args.model.config);
        }
        // What is said of model and inputs is the same for all: the first says it.
        let quiet = screen.quiet();
        let screen = if i == 0 { screen } else { &quiet };
        let mut lane = Lane::new(name, Opened::new(&model, &args.inputs, screen)?, wanted.as_ref())?;
        if let Some(first) = lanes.first() {
            lane.share(first);
        }
        drop(progress);
        lanes.push(lane);
    }
    let results = lanes.iter_mut().map(Lane::first).collect::<Result<Vec<_>, _>>()?;
    let mismatches = compared(&lanes, &results)?;

    let progress = Progress::start("measuring", screen);
    let n_rounds = measure(&mut lanes, Duration::from_secs_f64(args.seconds))?;
    drop(progress);

    let medians: Vec<Stats> = lanes.iter().map(|lane| Stats::of(&lane.samples, &lanes[0].samples)).collect();
    let mode = if wanted.is_some() { "forward+backward" } else { "forward" };
    let threads = lanes[0].opened.host.threads();
    if args.json {
        let report = json!({
            "bench": bench_name(&args.model.model, mode),
            "model": args.model.model,
            "mode": mode,
            "cpu": cpu_model(),
            "threads": threads,
            "rounds": n_rounds,
            "same_results": mismatches.is_empty(),
            "mismatches": mismatches,
            "configs": lanes.iter().zip(&medians).map(|(lane, stats)| lane.json(stats)).collect::<Vec<_>>(),
        });
        screen.data(&format!("{report:#}\n"))?;
    } else {
        let mut table =
            Table::new(&["CONFIG", ">MEDIAN", ">LEAST", ">SPREAD", ">SPEED", ">COMPILE", ">PEAK", "OPS"]);
        for (lane, stats) in lanes.iter().zip(&medians) {
            table.row([
                lane.name.clone(),
                time(stats.median),
                time(stats.least),
                format!("{:.0} %", stats.spread * 100.0),
                format!("{:.2}x", stats.speed),
                time(lane.compile),
                bytes(lane.peak_bytes),
                lane.ops(),
            ]);
        }
        screen.data(&table.render(screen))?;
    }
    screen.say(&format!(
        "{}: {}, {} on {}{}",
        bench_name(&args.model.model, mode),
        count(n_rounds, "round"),
        count(threads, "thread"),
        cpu_model(),
        match (lanes.len(), mismatches.is_empty()) {
            (1, _) => "",
            (_, true) => "; results agree; speed is against the first",
            (_, false) => "; results differ; speed is against the first",
        },
    ));
    match mismatches.as_slice() {
        [] => Ok(()),
        all => Err(Failure::ResultsDiffer { differences: all.join("; ") }),
    }
}

/// One config with its session and what was measured of it.
struct Lane {
    name: String,
    opened: Opened,
    gradients: Option<(GradRequest, FxHashMap<usize, Tensor>)>,
    compile: Duration,
    peak_bytes: u64,
    ops_by_executor: BTreeMap<String, usize>,
    handed_on: BTreeMap<String, usize>,
    /// Runs in a sample.
    n_runs: u32,
    /// Seconds of one run, a sample a round.
    samples: Vec<f64>,
}

/// Outputs, or gradients, by name.
type Results = BTreeMap<String, Tensor>;

impl Lane {
    fn new(name: String, opened: Opened, wanted: Option<&WantedArgs>) -> Result<Lane, Failure> {
        let begun = Instant::now();
        let gradients = match wanted {
            None => {
                opened.compiled()?;
                None
            }
            Some(wanted) => {
                let request = opened.request(wanted)?;
                let differentiated = opened.session.differentiated(&opened.inputs, &request)?;
                Some((request, ones(&differentiated)?))
            }
        };
        let compile = begun.elapsed();
        let plans: Vec<_> = opened.plans(wanted)?.into_iter().map(|(_, plan)| plan).collect();
        let summary = opened.summary_of(&plans, compile, Duration::ZERO);
        Ok(Lane {
            name,
            gradients,
            compile,
            peak_bytes: summary.peak_bytes,
            ops_by_executor: summary.ops_by_executor,
            handed_on: summary.handed_on,
            opened,
            n_runs: 1,
            samples: Vec::new(),
        })
    }

    /// Takes the first one's inputs and cotangents, which are the same: else each would push the other's out of the caches.
    fn share(&mut self, first: &Lane) {
        self.opened.inputs.clone_from(&first.opened.inputs);
        self.gradients.clone_from(&first.gradients);
    }

    /// One run, from the state as it is.
    fn once(&self) -> Result<Results, Failure> {
        let (session, inputs) = (&self.opened.session, &self.opened.inputs);
        let Some((request, cotangents)) = &self.gradients else {
            let outputs = session.run(inputs)?.into_iter().enumerate();
            return Ok(outputs.filter_map(|(i, value)| tensor(i, &value)).collect());
        };
        let (_, _, tape) = session.forward(inputs, request)?;
        Ok(tape
            .backward(cotangents)
            .map_err(Error::from)?
            .into_iter()
            .map(|(name, t)| (name.to_string(), t))
            .collect())
    }

    /// The first run's results; how many runs a sample needs.
    fn first(&mut self) -> Result<Results, Failure> {
        let state = self.opened.session.state()?;
        let results = self.once()?;
        let begun = Instant::now();
        self.once()?;
        let once = begun.elapsed().max(Duration::from_nanos(1));
        self.n_runs = LEAST_SAMPLE.as_nanos().div_ceil(once.as_nanos()).clamp(1, 1 << 20) as u32;
        self.opened.session.set_state(&state)?;
        Ok(results)
    }

    /// The first run finds the caches as another config has left them: it does not count.
    fn sample(&mut self) -> Result<(), Failure> {
        self.once()?;
        let begun = Instant::now();
        for _ in 0..self.n_runs {
            self.once()?;
        }
        self.samples.push(begun.elapsed().as_secs_f64() / f64::from(self.n_runs));
        Ok(())
    }

    fn ops(&self) -> String {
        let parts: Vec<String> = self.ops_by_executor.iter().map(|(name, n)| format!("{name} {n}")).collect();
        match self.handed_on.values().sum::<usize>() {
            0 => parts.join(", "),
            n => {
                let to: Vec<String> = self.handed_on.iter().map(|(name, n)| format!("{name} {n}")).collect();
                format!("{}; {n} handed on: {}", parts.join(", "), to.join(", "))
            }
        }
    }

    fn json(&self, stats: &Stats) -> Json {
        json!({
            "config": self.name,
            "median_s": stats.median.as_secs_f64(),
            "least_s": stats.least.as_secs_f64(),
            "spread": stats.spread,
            "speed": stats.speed,
            "compile_s": self.compile.as_secs_f64(),
            "peak_bytes": self.peak_bytes,
            "ops_by_executor": self.ops_by_executor,
            "handed_on": self.handed_on,
        })
    }
}

fn tensor(i: usize, value: &Value) -> Option<(String, Tensor)> {
    Some((format!("out{i}"), value.tensor()?.clone()))
}

/// Rounds until the time is over; how many there were.
fn measure(lanes: &mut [Lane], length: Duration) -> Result<usize, Failure> {
    let begun = Instant::now();
    let mut bits = Bits::new(0, 0);
    let mut order: Vec<usize> = (0..lanes.len()).collect();
    let mut n_rounds = 0;
    while n_rounds < LEAST_ROUNDS || (begun.elapsed() < length && n_rounds < MOST_ROUNDS) {
        bits.shuffle(&mut order);
        for i in &order {
            lanes[*i].sample()?;
        }
        n_rounds += 1;
    }
    Ok(n_rounds)
}

/// Where a config's results are not the first's.
fn compared(lanes: &[Lane], results: &[Results]) -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    let out_of_memory = |error: thunderhead::memory::TensorError| Failure::Fill { reason: error.to_string() };
    for (lane, own) in lanes.iter().zip(results).skip(1) {
        let gradients = lane.gradients.is_some();
        let verdicts: BTreeMap<String, _> = if gradients {
            compare_gradients(own, &results[0], gradient_tolerance(&results[0]))
                .map_err(out_of_memory)?
                .into_iter()
                .collect()
        } else {
            let mut verdicts = BTreeMap::new();
            for (name, expected) in &results[0] {
                let Some(got) = own.get(name) else { continue };
                let verdict =
                    compare(got, expected, Tolerance { rtol: None, atol: None }).map_err(out_of_memory)?;
                verdicts.insert(name.clone(), verdict);
            }
            verdicts
        };
        for (name, verdict) in verdicts.into_iter().filter(|(_, verdict)| !verdict.is_same()) {
            found.push(format!("`{}`, {name}: {}", lane.name, verdict.sentence()));
        }
    }
    Ok(found)
}

/// Relative to the largest element, as `grad --expect` allows.
fn gradient_tolerance(results: &Results) -> f64 {
    let halves = results.values().any(|tensor| matches!(tensor.dtype(), Dtype::F16 | Dtype::Bf16));
    if halves { 5e-2 } else { 1e-3 }
}

/// What samples say.
struct Stats {
    median: Duration,
    least: Duration,
    /// Between the quartiles, as a part of the median.
    spread: f64,
    /// The first config's time over this one's: the median of the rounds' ratios.
    speed: f64,
}

impl Stats {
    fn of(samples: &[f64], first: &[f64]) -> Stats {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |part: f64| sorted[((sorted.len() - 1) as f64 * part).round() as usize];
        let mut ratios: Vec<f64> = first.iter().zip(samples).map(|(first, own)| first / own).collect();
        ratios.sort_by(f64::total_cmp);
        Stats {
            median: Duration::from_secs_f64(at(0.5)),
            least: Duration::from_secs_f64(at(0.0)),
            spread: (at(0.75) - at(0.25)) / at(0.5),
            speed: ratios[ratios.len() / 2],
        }
    }
}

/// What the command line's own config is called.
fn own_name(config: &ConfigArgs) -> String {
    match (&config.executors, &config.config) {
        (Some(executors), _) => executors.clone(),
        (None, Some(name)) => name.clone(),
        (None, None) => "default".to_owned(),
    }
}

/// The config that `--vs` names, with the threads of the first.
fn other(name: &str, first: &ConfigArgs) -> ConfigArgs {
    let threads = first.threads;
    if name.contains(',') {
        let executors = Some(name.trim_end_matches(',').to_owned());
        return ConfigArgs { config: first.config.clone(), executors, threads, ..ConfigArgs::default() };
    }
    ConfigArgs { config: Some(name.to_owned()), threads, ..ConfigArgs::default() }
}

/// `lit_llama2/forward`: the same for the same model and mode, wherever the file lies.
fn bench_name(model: &std::path::Path, mode: &str) -> String {
    let stem = model.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    // Exports are often called `model.pt2`, in a folder that says which.
    let folder = model.parent().and_then(|folder| folder.file_name());
    match folder.filter(|_| stem == "model" || stem == "core") {
        Some(folder) if stem == "model" => format!("{}/{mode}", folder.to_string_lossy()),
        Some(folder) => format!("{}.{stem}/{mode}", folder.to_string_lossy()),
        None => format!("{stem}/{mode}"),
    }
}

/// The processor's own name.
fn cpu_model() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(':'))
        .map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}
