//! `thunderhead train`: steps on batches from files; weights, checkpoints and a log written, Ctrl-C a pause.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use thunderhead::tensor_files::{read_inputs, read_tensors, write_file, write_tensors};
use thunderhead::{AdamNumbers, Glob, Loss, Optimizer, Rule, TrainOptions, Trainer, Value};

use super::args::{LossArg, OptimizerArg, TrainArgs};
use super::failure::Failure;
use super::outputs::check_folders;
use super::program::open_for_training;
use super::render::Screen;
use super::render::units::count;

pub fn run(args: &TrainArgs, screen: &Screen) -> Result<(), Failure> {
    let options = options(args)?;
    check_folders([Some(&args.out), args.resume.as_ref(), args.log.as_ref()])?;
    let mut trainer = open_for_training(&args.model, &options, screen)?;
    say_what_is_odd(&trainer, screen);
    let batches = batches(args, &trainer)?;
    trainer.describe("data", data(args));
    if let Some(path) = args.resume.as_ref().filter(|path| path.exists()) {
        let checkpoint = read_tensors(path)?;
        trainer.restore(&checkpoint)?;
        screen.say(&format!("going on after step {}, from {}", trainer.n_steps(), path.display()));
        for change in trainer.changes_since(&checkpoint) {
            let note = screen.err.warning("note");
            screen.say(&format!(
                "{note}: {} was {} so far, and is {} now",
                change.what, change.before, change.now
            ));
        }
        if trainer.n_steps() >= args.steps {
            screen.say(&format!(
                "{}: --steps {} counts the steps before the checkpoint, too, and {} are done: nothing is trained",
                screen.err.warning("note"),
                args.steps,
                trainer.n_steps()
            ));
        }
    }
    let mut log = match &args.log {
        Some(path) => Some(Log::open(path, trainer.n_steps())?),
        None => None,
    };
    let stop = stop_at_interrupt(screen);
    let mut pace = Pace::new(trainer.n_steps(), args.steps);
    while trainer.n_steps() < args.steps && !stop.load(Ordering::Relaxed) {
        // In order, begun again when they end; a pause does not change which batch is next.
        let batch = &batches[(trainer.n_steps() % batches.len() as u64) as usize];
        let loss = match trainer.step(batch) {
            Ok(loss) => loss,
            // Nothing is written: what was saved before is the last that is any good.
            Err(error) => {
                pace.clear(screen);
                if let Some(log) = &log {
                    log.save()?;
                }
                return Err(error.into());
            }
        };
        pace.step(loss, screen);
        if let Some(log) = &mut log {
            log.row(trainer.n_steps(), loss, pace.begun.elapsed())?;
        }
        if args.save_every.is_some_and(|n| trainer.n_steps().is_multiple_of(n)) {
            save(args, &trainer, log.as_ref())?;
        }
    }
    pace.clear(screen);
    save(args, &trainer, log.as_ref())?;
    let weights = trainer.weights()?;
    write_tensors(&args.out, &weights).map_err(|error| Failure::write(&args.out, &error))?;
    screen.say(&format!("{}; {} in {}", pace.summary(), count(weights.len(), "tensor"), args.out.display()));
    match trainer.n_steps() < args.steps {
        true => Err(Failure::Stopped {
            done: trainer.n_steps(),
            wanted: args.steps,
            advice: match &args.resume {
                Some(path) => format!("the same command goes on from {}", path.display()),
                None => "with --resume FILE the same command would go on from here".to_owned(),
            },
        }),
        false => Ok(()),
    }
}

/// What the arguments mean together.
fn options(args: &TrainArgs) -> Result<TrainOptions, Failure> {
    let usage = |message: String, advice: &str| Failure::Usage { message, advice: advice.to_owned() };
    let of_sgd = [
        ("--momentum", args.momentum.is_some()),
        ("--dampening", args.dampening.is_some()),
        ("--nesterov", args.nesterov),
    ];
    let of_adam =
        [("--betas", args.betas.is_some()), ("--eps", args.eps.is_some()), ("--amsgrad", args.amsgrad)];
    let (foreign, owner) = match args.optimizer {
        OptimizerArg::Sgd => (&of_adam, "adam and adamw"),
        OptimizerArg::Adam | OptimizerArg::Adamw => (&of_sgd, "sgd"),
    };
    if let Some((name, _)) = foreign.iter().find(|(_, given)| *given) {
        return Err(usage(format!("{name} is an option of {owner}"), "leave it out, or take that optimizer"));
    }
    let (beta1, beta2) = args.betas.unwrap_or((0.9, 0.999));
    let adam = AdamNumbers { beta1, beta2, eps: args.eps.unwrap_or(1e-8), amsgrad: args.amsgrad };
    let rule = match args.optimizer {
        OptimizerArg::Sgd => Rule::Sgd {
            momentum: args.momentum.unwrap_or(0.0),
            dampening: args.dampening.unwrap_or(0.0),
            nesterov: args.nesterov,
        },
        OptimizerArg::Adam => Rule::Adam(adam),
        OptimizerArg::Adamw => Rule::AdamW(adam),
    };
    // The defaults are PyTorch's.
    let default_decay = if args.optimizer == OptimizerArg::Adamw { 0.01 } else { 0.0 };
    let weight_decay = args.weight_decay.unwrap_or(default_decay);
    Ok(TrainOptions {
        loss: match args.loss {
            LossArg::Out0 => Loss::Output,
            LossArg::Mse => Loss::Mse,
            LossArg::CrossEntropy => Loss::CrossEntropy,
        },
        optimizer: Optimizer { rule, lr: args.lr, weight_decay, maximize: args.maximize },
        no_decay: args.no_decay.iter().map(|text| Glob::new(text.as_str())).collect(),
        seed: args.model.seed.cast_signed(),
    })
}

fn say_what_is_odd(trainer: &Trainer, screen: &Screen) {
    if !trainer.evaluated().is_empty() {
        let ops = trainer.evaluated().join(", ");
        screen.say(&format!(
            "{}: the model was exported in evaluation mode and is trained as it is: {ops} with `train` false",
            screen.err.warning("note")
        ));
    }
    screen.detail(&format!("trained: {}", trainer.trained().join(", ")));
}

/// Every file is one batch, looked at before anything runs.
fn batches(args: &TrainArgs, trainer: &Trainer) -> Result<Vec<Vec<Value>>, Failure> {
    args.data.iter().map(|path| Ok(trainer.arrange(read_inputs(path)?)?)).collect()
}

/// The batches as a checkpoint remembers them: names and sizes, in order.
fn data(args: &TrainArgs) -> String {
    let file = |path: &std::path::PathBuf| {
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let bytes = std::fs::metadata(path).map_or(0, |meta| meta.len());
        format!("{name} ({bytes} bytes)")
    };
    args.data.iter().map(file).collect::<Vec<_>>().join(", ")
}

/// Set when somebody presses Ctrl-C; the second time ends the process.
fn stop_at_interrupt(screen: &Screen) -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = stop.clone();
    let handler = move || {
        if asked.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        let _ = writeln!(io::stderr().lock(), "\nstopping after this step; again: at once, without saving");
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        screen.say(&format!("{}: Ctrl-C will not save: {error}", screen.err.warning("note")));
    }
    stop
}

/// Writes the checkpoint, whole or not at all, and a log that is written whole.
fn save(args: &TrainArgs, trainer: &Trainer, log: Option<&Log>) -> Result<(), Failure> {
    trainer.check_weights()?;
    if let Some(path) = &args.resume {
        write_tensors(path, &trainer.checkpoint()?).map_err(|error| Failure::write(path, &error))?;
    }
    match log {
        Some(log) => log.save(),
        None => Ok(()),
    }
}

/// Loss and speed, on a line that is written over where somebody watches.
struct Pace {
    begun: Instant,
    shown: Option<Instant>,
    first: u64,
    now: u64,
    wanted: u64,
    losses: Option<(f64, f64)>,
}

impl Pace {
    fn new(first: u64, wanted: u64) -> Pace {
        Pace { begun: Instant::now(), shown: None, first, now: first, wanted, losses: None }
    }

    fn step(&mut self, loss: f64, screen: &Screen) {
        self.now += 1;
        self.losses = Some((self.losses.map_or(loss, |(first, _)| first), loss));
        let is_due = self.shown.is_none_or(|shown| shown.elapsed() > Duration::from_millis(100));
        if screen.is_watched() && is_due {
            self.shown = Some(Instant::now());
            let (now, wanted, speed) = (self.now, self.wanted, self.per_second());
            // A line that cannot be shown is not worth an error.
            let _ = write!(
                io::stderr().lock(),
                "\rstep {now} of {wanted}: loss {loss:.6}, {speed:.2} steps/s\x1b[K"
            );
        }
    }

    fn per_second(&self) -> f64 {
        (self.now - self.first) as f64 / self.begun.elapsed().as_secs_f64().max(1e-9)
    }

    fn clear(&self, screen: &Screen) {
        if self.shown.is_some() && screen.is_watched() {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }

    fn summary(&self) -> String {
        match self.losses {
            Some((first, last)) => format!(
                "{}: loss {first:.6} to {last:.6}, {:.2} steps/s",
                count((self.now - self.first) as usize, "step"),
                self.per_second()
            ),
            None => "0 steps".to_owned(),
        }
    }
}

/// Step, loss and seconds since the command began, as CSV (a line is written with its step) or JSON (written whole with
/// every checkpoint and at the end), by the file's ending. What an earlier command logged of the same run is kept.
struct Log<'a> {
    path: &'a Path,
    /// For CSV.
    lines: Option<File>,
    /// For JSON.
    rows: Vec<serde_json::Value>,
}

impl Log<'_> {
    fn open(path: &Path, n_done: u64) -> Result<Log<'_>, Failure> {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let before = match n_done {
            0 => String::new(),
            _ => std::fs::read_to_string(path).unwrap_or_default(),
        };
        match extension {
            Some("csv") => {
                let is_kept = |line: &&str| {
                    let step = line.split(',').next().and_then(|step| step.parse::<u64>().ok());
                    step.is_some_and(|step| step <= n_done)
                };
                let mut kept = "step,loss,seconds\n".to_owned();
                before.lines().filter(is_kept).for_each(|line| kept.extend([line, "\n"]));
                let opened = write_file(path, kept.as_bytes())
                    .and_then(|()| File::options().append(true).open(path))
                    .map_err(|error| Failure::write(path, &error))?;
                Ok(Log { path, lines: Some(opened), rows: Vec::new() })
            }
            Some("json") => {
                let mut rows: Vec<serde_json::Value> = serde_json::from_str(&before).unwrap_or_default();
                rows.retain(|row| row["step"].as_u64().is_some_and(|step| step <= n_done));
                Ok(Log { path, lines: None, rows })
            }
            _ => Err(Failure::Usage {
                message: format!("a log is CSV or JSON, `{}` says neither", path.display()),
                advice: "let the name end in .csv or .json".to_owned(),
            }),
        }
    }

    fn row(&mut self, step: u64, loss: f64, since: Duration) -> Result<(), Failure> {
        let seconds = since.as_secs_f64();
        match &mut self.lines {
            Some(file) => writeln!(file, "{step},{loss},{seconds:.6}")
                .map_err(|error| Failure::write(self.path, &error)),
            None => {
                self.rows.push(json!({ "step": step, "loss": loss, "seconds": seconds }));
                Ok(())
            }
        }
    }

    fn save(&self) -> Result<(), Failure> {
        if self.lines.is_some() {
            return Ok(());
        }
        let text = format!("{:#}\n", serde_json::Value::Array(self.rows.clone()));
        write_file(self.path, text.as_bytes()).map_err(|error| Failure::write(self.path, &error))
    }
}
