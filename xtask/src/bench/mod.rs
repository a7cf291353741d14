//! `cargo xtask bench`: the bench models under each set of executors, at one thread and at all, beside PyTorch where a
//! python with torch is given; writes `BENCHMARKS.md`.
//!
//! Each model's runs stand side by side in time: the product times its configs in turns in one process, and python times
//! eager and compiled in turns right before and right after. Only ratios inside one run mean anything.

mod models;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value as Json;

use crate::dist::{self, Profile, Torch};
use crate::tool::{self, Failure};
use models::{MODELS, Model};

/// What is timed: a column's heading, and the config. The first is what the others are compared with.
const CONFIGS: &[(&str, &str)] = &[
    ("pytorch", "pytorch"),
    ("sdpa", "sdpa,pytorch"),
    ("concat_inductor", "concat_inductor,sdpa,pytorch"),
    ("full_fusion", "full_fusion,sdpa,pytorch"),
];

/// The built-in executor, timed apart: its calls are so long that the others would hardly have turns beside it.
const LAST: &str = "reference";

/// How to measure.
pub struct Options {
    python: Option<PathBuf>,
    seconds: f64,
    only: Vec<String>,
}

impl Options {
    /// Of the command line's words: `--python PATH`, `--seconds S`, names of models.
    pub fn parse(words: &[&str]) -> Option<Options> {
        let mut options = Options { python: None, seconds: 4.0, only: Vec::new() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--python" => options.python = Some(PathBuf::from(words.next()?)),
                "--seconds" => options.seconds = words.next()?.parse().ok().filter(|s| *s > 0.0)?,
                name if MODELS.iter().any(|model| model.name == name) => options.only.push(name.into()),
                _ => return None,
            }
        }
        Some(options)
    }

    fn wants(&self, model: &Model) -> bool {
        if self.only.is_empty() { !model.large } else { self.only.iter().any(|name| name == model.name) }
    }
}

/// `cargo xtask bench`.
pub fn command(options: &Options) -> Result<(), Failure> {
    let program = dist::build(Torch::Fetch, Profile::Release)?.join("bin/thunderhead");
    let folder = tool::target_folder().join("bench");
    let machine = machine(&folder)?;
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if all > 1 { vec![1, all] } else { vec![1] };
    let mut rows = Vec::new();
    for model in MODELS.iter().filter(|model| options.wants(model)) {
        let (trace, weights) = models::write(model, &folder)?;
        for &threads in &threads {
            for grad in [false, true] {
                if grad && !model.trains {
                    continue;
                }
                eprintln!(
                    "# {}, {} threads{}",
                    model.name,
                    threads,
                    if grad { ", with gradients" } else { "" }
                );
                let case = Case { model: model.name, trace: &trace, weights: &weights, threads, grad };
                rows.push(case.measure(&program, options)?);
            }
        }
    }
    let text = report(&machine, &rows, options);
    let target = tool::root().join("BENCHMARKS.md");
    if options.only.is_empty() {
        tool::io("write", &target, fs::write(&target, &text))?;
    }
    print!("{text}");
    Ok(())
}

/// `cargo xtask model NAME`: a bench model's files.
pub fn write_model(name: &str) -> Result<(), Failure> {
    let model = MODELS.iter().find(|model| model.name == name).ok_or_else(|| {
        let names: Vec<&str> = MODELS.iter().map(|model| model.name).collect();
        Failure::new(format!("there is no bench model `{name}`"), format!("one of {}", names.join(", ")))
    })?;
    let (trace, weights) = models::write(model, &tool::target_folder().join("bench"))?;
    println!("{} --weights {}", trace.display(), weights.display());
    Ok(())
}

/// One line of the report.
struct Case<'a> {
    model: &'a str,
    trace: &'a Path,
    weights: &'a Path,
    threads: usize,
    grad: bool,
}

/// What was measured: seconds by column, median and least.
struct Row {
    name: String,
    threads: usize,
    medians: BTreeMap<String, f64>,
    compile: BTreeMap<String, f64>,
}

impl Case<'_> {
    fn measure(&self, program: &Path, options: &Options) -> Result<Row, Failure> {
        let mode = if self.grad { "forward+backward" } else { "forward" };
        let mut row = Row {
            name: format!("{}/{mode}", self.model),
            threads: self.threads,
            medians: BTreeMap::new(),
            compile: BTreeMap::new(),
        };
        let before = self.python(options)?;
        let configs: Vec<&str> = CONFIGS.iter().map(|(_, config)| *config).collect();
        let report = self.product(program, &configs, options.seconds)?;
        let after = self.python(options)?;
        let alone = self.product(program, &[LAST], options.seconds / 4.0)?;
        for (lane, first) in before {
            let second = after.get(&lane).copied().unwrap_or(first);
            row.medians.insert(lane.clone(), (first.0 + second.0) / 2.0);
            row.compile.insert(lane, first.1);
        }
        let columns = CONFIGS.iter().map(|(column, _)| *column).chain([LAST]);
        let timed = [&report, &alone].into_iter().filter_map(|report| report["configs"].as_array());
        for (column, config) in columns.zip(timed.flatten()) {
            row.medians.insert(column.into(), config["median_s"].as_f64().unwrap_or(f64::NAN));
            row.compile.insert(column.into(), config["compile_s"].as_f64().unwrap_or(f64::NAN));
        }
        Ok(row)
    }

    fn product(&self, program: &Path, configs: &[&str], seconds: f64) -> Result<Json, Failure> {
        let mut command = Command::new(program);
        command.args(["bench", "--json", "--quiet"]).arg(self.trace).arg("--weights").arg(self.weights);
        command.args(["--threads", &self.threads.to_string(), "--seconds", &seconds.to_string()]);
        for (at, config) in configs.iter().enumerate() {
            command.args([if at == 0 { "--executors" } else { "--vs" }, config]);
        }
        if self.grad {
            command.arg("--grad");
        }
        parsed(&tool::output(&mut command, "time the model")?)
    }

    /// Median and first call of each of PyTorch's ways; nothing without a python.
    fn python(&self, options: &Options) -> Result<BTreeMap<String, (f64, f64)>, Failure> {
        let Some(python) = &options.python else { return Ok(BTreeMap::new()) };
        let mut command = Command::new(python);
        command.arg(tool::root().join("xtask/bench/models.py")).arg(self.model);
        command.arg("--weights").arg(self.weights.parent().unwrap_or(Path::new(".")));
        command.args(["--threads", &self.threads.to_string()]);
        command.args(["--seconds", &(options.seconds / 2.0).to_string()]);
        if self.grad {
            command.arg("--grad");
        }
        let report = parsed(&tool::output(&mut command, "time PyTorch")?)?;
        let lanes = report["lanes"].as_object().cloned().unwrap_or_default();
        let number = |lane: &Json, key: &str| lane[key].as_f64().unwrap_or(f64::NAN);
        Ok(lanes
            .into_iter()
            .map(|(name, lane)| (name, (number(&lane, "median_s"), number(&lane, "compile_s"))))
            .collect())
    }
}

fn parsed(text: &str) -> Result<Json, Failure> {
    serde_json::from_str(text).map_err(|error| Failure::new(format!("a report is no JSON: {error}"), ""))
}

/// What the machine can do at most.
fn machine(folder: &Path) -> Result<Json, Failure> {
    tool::io("create", folder, fs::create_dir_all(folder))?;
    let program = folder.join("machine");
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition", "2024", "-Copt-level=3", "-Ctarget-cpu=native", "-o"]).arg(&program);
    rustc.arg(tool::root().join("xtask/bench/machine.rs"));
    tool::run_to_stderr(&mut rustc, "compile the measurement of the machine")?;
    let mut found = parsed(&tool::output(&mut Command::new(&program), "measure the machine")?)?;
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    found["cpu"] = model.map_or("unknown", |(_, name)| name.trim()).into();
    Ok(found)
}

fn report(machine: &Json, rows: &[Row], options: &Options) -> String {
    let mut text = String::from(
        "# Benchmarks\n\nWritten by `cargo xtask bench`. Milliseconds are medians of one run on one machine and mean \
         nothing elsewhere; what\nmeans something is the ratio of two numbers in one line.\n\n",
    );
    let _ = writeln!(
        text,
        "Machine: {}; {} GFLOP/s of f32 multiply-adds a core, {} GB/s read and {} GB/s copied by one core.\n",
        machine["cpu"].as_str().unwrap_or("unknown"),
        machine["fma_gflops"],
        machine["read_gb_s"],
        machine["copy_gb_s"],
    );
    let python = options.python.is_some();
    let mut columns: Vec<&str> = Vec::new();
    if python {
        columns.extend(["eager", "compiled", "compiled_given"]);
    }
    columns.extend(CONFIGS.iter().map(|(column, _)| *column).chain([LAST]));
    let mut ratios = vec![("pytorch", "full_fusion")];
    if python {
        ratios.extend([
            ("eager", "full_fusion"),
            ("compiled", "full_fusion"),
            ("compiled_given", "full_fusion"),
        ]);
    }
    let heads: Vec<String> = ratios.iter().map(|(a, b)| format!("{a} ÷ {b}")).collect();
    let _ = writeln!(text, "| bench | threads | {} | {} |", columns.join(" | "), heads.join(" | "));
    let _ = writeln!(text, "|---|---|{}", "---|".repeat(columns.len() + heads.len()));
    let mut logs: Vec<Vec<f64>> = vec![Vec::new(); ratios.len()];
    for row in rows {
        let time =
            |column: &&str| row.medians.get(*column).map_or("–".into(), |s| format!("{:.3}", s * 1e3));
        let mut cells: Vec<String> = columns.iter().map(time).collect();
        for ((a, b), logs) in ratios.iter().zip(&mut logs) {
            cells.push(match (row.medians.get(*a), row.medians.get(*b)) {
                (Some(a), Some(b)) if a.is_finite() && b.is_finite() => {
                    logs.push((a / b).ln());
                    format!("{:.2}", a / b)
                }
                _ => "–".into(),
            });
        }
        let _ = writeln!(text, "| {} | {} | {} |", row.name, row.threads, cells.join(" | "));
    }
    let mean =
        |logs: &Vec<f64>| format!("{:.2}", (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp());
    let means: Vec<String> =
        heads.iter().zip(&logs).map(|(head, logs)| format!("{head} {}", mean(logs))).collect();
    let _ = writeln!(text, "\nGeometric means: {}.\n", means.join(", "));
    let _ = writeln!(
        text,
        "`compiled` is torch.compile as called; `compiled_given` writes into a tensor that is there already. `{LAST}` was \
         timed by itself. Kernels\nalone, beside those that Inductor generates: `plugins/loops/benches/README.md`.\n\n\
         First call, compiling included, in seconds:\n"
    );
    let _ = writeln!(text, "| bench | threads | {} |", columns.join(" | "));
    let _ = writeln!(text, "|---|---|{}", "---|".repeat(columns.len()));
    for row in rows {
        let cells: Vec<String> =
            columns.iter().map(|c| row.compile.get(*c).map_or("–".into(), |s| format!("{s:.3}"))).collect();
        let _ = writeln!(text, "| {} | {} | {} |", row.name, row.threads, cells.join(" | "));
    }
    text
}
