//! The command line's grammar: commands, options and their help. What a command does is in the file of its name.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::exit_code::Exit;

/// Runs tensor programs through executors chosen by a TOML file.
#[derive(Debug, Parser)]
#[command(name = "thunderhead", version, max_term_width = 100, propagate_version = true)]
#[command(after_help = Exit::listed())]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub screen: ScreenArgs,
}

/// How things are said.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub struct ScreenArgs {
    /// Say more; twice, three times: debug, trace
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub verbose: u8,
    /// Say only errors: no summary line, no warnings
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// When to use colour; the variable NO_COLOR is obeyed too
    #[arg(long, global = true, value_enum, default_value_t = ColorWhen::Auto, value_name = "WHEN")]
    pub color: ColorWhen,
    /// Form of log lines on stderr
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, value_name = "FORM")]
    pub log_format: LogFormat,
}

/// When colour is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    Auto,
    Always,
    Never,
}

/// Form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

/// What there is to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a model once
    Run(RunArgs),
    /// Train a model on batches from files
    Train(TrainArgs),
    /// Gradients of the sum of outputs times cotangents
    Grad(GradArgs),
    /// Print a program at one stage of its life, in the text form of traces
    Trace(TraceArgs),
    /// Say who takes each op, and why the others do not
    Explain(ExplainArgs),
    /// Say what would run, without running: executors, copies, memory; or compare two such plans
    Plan(PlanArgs),
    /// Time a model under several configs, in turns, and compare their results
    Bench(BenchArgs),
    /// Look at plugins
    Plugins {
        #[command(subcommand)]
        command: PluginsCommand,
    },
    /// Look at the config
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Check the installation: folders, plugins, libraries, self-tests
    Doctor(DoctorArgs),
    /// List the ops that programs are made of
    Ops(OpsArgs),
    /// Write a completion script for a shell to stdout
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

impl Command {
    /// Whether it works on a model's inputs and none were given, so that they are filled from the seed.
    pub fn fills_inputs(&self) -> bool {
        let inputs = match self {
            Command::Run(args) => &args.inputs,
            Command::Grad(args) => &args.inputs,
            Command::Trace(args) => &args.inputs,
            Command::Explain(args) => &args.inputs,
            Command::Plan(args) => &args.inputs,
            Command::Bench(args) => &args.inputs,
            _ => return false,
        };
        inputs.inputs.is_empty()
    }
}

/// Which config, and what is changed of it.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Executors")]
pub struct ConfigArgs {
    /// A config file, or the name of a preset
    #[arg(long, value_name = "FILE|PRESET")]
    pub config: Option<String>,
    /// The executors to ask, in this order, instead of the config's; all of them are required
    #[arg(long, value_name = "A,B,C")]
    pub executors: Option<String>,
    /// Set an option of an executor
    #[arg(long, value_name = "EXECUTOR.OPTION=VALUE")]
    pub set: Vec<String>,
    /// Threads to use; 0: one a core
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(0..=4096)
    )]
    pub threads: Option<u32>,
}

/// Which model, and what it is run on.
#[derive(Debug, Clone, Args)]
pub struct ModelArgs {
    /// A `.pt2` that PyTorch exported, or a `.trace`
    pub model: PathBuf,
    /// Parameters, buffers and constants by name, from a `.pt2` or safetensors; replaces the model's
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// Seed of random ops, and of inputs that are not given
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = natural)]
    pub seed: u64,
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// The inputs of a model; their sizes decide what is planned.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Inputs and outputs")]
pub struct InputArgs {
    /// Inputs as safetensors (`in0`, `in1`, … or the model's names), or as JSON for those that are no tensors.
    /// Missing: filled from the seed
    #[arg(long, value_name = "FILE")]
    pub inputs: Vec<PathBuf>,
}

/// `run`
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub inputs: InputArgs,
    /// Where to write the outputs, as safetensors `out0`, `out1`, …
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Compare the outputs with this file; exit code 8 if they differ
    #[arg(long, value_name = "FILE")]
    pub expect: Option<PathBuf>,
    /// Relative tolerance of --expect; absent: by dtype, 1e-8 f64, 1e-4 f32, 1e-2 f16, 2e-2 bf16
    #[arg(long, value_name = "X", requires = "expect", allow_negative_numbers = true, value_parser = tolerance)]
    pub rtol: Option<f64>,
    /// Absolute tolerance of --expect; absent: as --rtol
    #[arg(long, value_name = "X", requires = "expect", allow_negative_numbers = true, value_parser = tolerance)]
    pub atol: Option<f64>,
    /// State before the run, as --state-out writes it
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Where to write the state after the run: buffers by name, written inputs as `in0`, …
    #[arg(long, value_name = "FILE")]
    pub state_out: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// `grad`
#[derive(Debug, Args)]
pub struct GradArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub inputs: InputArgs,
    /// Cotangents as safetensors, `out0`, `out1`, …; those that are left out count as zero.
    /// Missing: 1, where the one floating output has one element
    #[arg(long, value_name = "FILE")]
    pub cotangents: Option<PathBuf>,
    /// Where to write the gradients, as safetensors: by parameter name, and `in0`, … for inputs
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Compare the gradients with this file; exit code 8 if they differ
    #[arg(long, value_name = "FILE")]
    pub expect: Option<PathBuf>,
    /// Tolerance of --expect, against the largest element of each gradient, or a thousandth of the largest of all
    #[arg(long, value_name = "X", requires = "expect", allow_negative_numbers = true, value_parser = tolerance, default_value_t = 1e-3)]
    pub rtol: f64,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub wanted: WantedArgs,
}

/// Which gradients, and how.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Gradients")]
pub struct WantedArgs {
    /// Gradients of the parameters and inputs (`in0`, …) whose names match, frozen ones included, alone.
    /// Missing: of every floating input and every floating parameter that is not frozen
    #[arg(long, value_name = "GLOB")]
    pub wrt: Vec<String>,
    /// Save all that the backward needs, instead of computing cheap values again
    #[arg(long)]
    pub no_remat: bool,
}

/// Whether a command is about gradients.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Gradients")]
pub struct MaybeGradArgs {
    /// The forward and the backward for gradients instead of the program as it is run
    #[arg(long)]
    pub grad: bool,
    /// With --grad: of what, as for `grad`
    #[arg(long, value_name = "GLOB", requires = "grad")]
    pub wrt: Vec<String>,
    /// With --grad: save all that the backward needs, instead of computing cheap values again
    #[arg(long, requires = "grad")]
    pub no_remat: bool,
}

impl MaybeGradArgs {
    /// What is wanted, if gradients are.
    pub fn wanted(&self) -> Option<WantedArgs> {
        self.grad.then(|| WantedArgs { wrt: self.wrt.clone(), no_remat: self.no_remat })
    }
}

fn natural(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "expected a whole number from 0 on".to_owned())
}

fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value >= 0.0 => Ok(value),
        _ => Err("expected a number from 0 on".to_owned()),
    }
}

/// What is made small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LossArg {
    /// The first output, a single number
    Out0,
    /// The mean of the squared differences between the first output and `target`
    Mse,
    /// The mean cross entropy of the classes on the last axis of the first output; -100 in `target` is passed over
    #[value(name = "cross_entropy")]
    CrossEntropy,
}

/// An optimiser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OptimizerArg {
    Sgd,
    Adam,
    Adamw,
}

/// `train`
#[derive(Debug, Args)]
pub struct TrainArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// Batches, one a file, taken in order and begun again: safetensors with `in0`, `in1`, …, and `target` where the loss
    /// takes one
    #[arg(long, value_name = "FILE", required = true, num_args = 1.., help_heading = "Training")]
    pub data: Vec<PathBuf>,
    /// What is made small
    #[arg(long, value_enum, help_heading = "Training")]
    pub loss: LossArg,
    /// Steps in all, those before a --resume included
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = natural,
        help_heading = "Training"
    )]
    pub steps: u64,
    /// Where to write parameters and buffers by name, as safetensors; --weights takes them
    #[arg(long, value_name = "FILE", help_heading = "Training")]
    pub out: PathBuf,
    /// Go on from this checkpoint if it is there; it is written at the end and at Ctrl-C
    #[arg(long, value_name = "FILE", help_heading = "Training")]
    pub resume: Option<PathBuf>,
    /// Write the checkpoint every N steps, too
    #[arg(
        long,
        value_name = "N",
        requires = "resume",
        value_parser = clap::value_parser!(u64).range(1..),
        help_heading = "Training"
    )]
    pub save_every: Option<u64>,
    /// Log step, loss and seconds to a .csv or .json file
    #[arg(long, value_name = "FILE", help_heading = "Training")]
    pub log: Option<PathBuf>,
    /// The optimiser; its numbers mean what they mean in torch.optim
    #[arg(long, value_enum, help_heading = "Optimizer")]
    pub optimizer: OptimizerArg,
    /// Learning rate
    #[arg(long, value_name = "X", default_value_t = 1e-3, help_heading = "Optimizer")]
    pub lr: f64,
    /// Weight decay; absent: 0.01 for adamw, else 0
    #[arg(long, value_name = "X", help_heading = "Optimizer")]
    pub weight_decay: Option<f64>,
    /// Parameters without weight decay, by name
    #[arg(long, value_name = "GLOB", num_args = 1.., help_heading = "Optimizer")]
    pub no_decay: Vec<String>,
    /// Make the loss large instead of small
    #[arg(long, help_heading = "Optimizer")]
    pub maximize: bool,
    /// Momentum (sgd)
    #[arg(long, value_name = "X", help_heading = "Optimizer")]
    pub momentum: Option<f64>,
    /// Dampening of the momentum (sgd)
    #[arg(long, value_name = "X", help_heading = "Optimizer")]
    pub dampening: Option<f64>,
    /// Nesterov's momentum (sgd)
    #[arg(long, help_heading = "Optimizer")]
    pub nesterov: bool,
    /// Decay of the moments (adam, adamw); absent: 0.9,0.999
    #[arg(long, value_name = "X,Y", value_parser = betas, help_heading = "Optimizer")]
    pub betas: Option<(f64, f64)>,
    /// Added to the deviation (adam, adamw); absent: 1e-8
    #[arg(long, value_name = "X", help_heading = "Optimizer")]
    pub eps: Option<f64>,
    /// Divide by the largest second moment so far (adam, adamw)
    #[arg(long, help_heading = "Optimizer")]
    pub amsgrad: bool,
}

fn betas(text: &str) -> Result<(f64, f64), String> {
    let parts =
        text.split_once(',').and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
    parts.ok_or_else(|| "expected two numbers, as in 0.9,0.999".to_owned())
}

/// A stage at which a trace can be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StageArg {
    /// As imported
    Acquired,
    /// With --grad: forward and backward before any executor is asked
    Forward,
    /// The same: the two belong together
    Backward,
    /// After the passes, each op with its executor
    Claimed,
    /// As it will run
    Execution,
}

/// `trace`
#[derive(Debug, Args)]
pub struct TraceArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub inputs: InputArgs,
    /// The stage; absent: acquired, or forward with --grad
    #[arg(long, value_enum)]
    pub stage: Option<StageArg>,
    /// Levels of decomposition to print; absent: all
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub depth: Option<u32>,
    /// Print notes: nodes of the model, source lines
    #[arg(long)]
    pub notes: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub grad: MaybeGradArgs,
}

/// `explain`
#[derive(Debug, Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub inputs: InputArgs,
    /// Only ops whose name (`torch.linear`), id (`t12`, as in the trace) or place in the model matches
    #[arg(long, value_name = "GLOB")]
    pub op: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub grad: MaybeGradArgs,
}

/// `plan`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct PlanArgs {
    /// Compare two plans that `plan -o` wrote
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["model", "output"])]
    pub diff: Option<Vec<PathBuf>>,
    /// A `.pt2` or a `.trace`
    #[arg(required_unless_present = "diff")]
    pub model: Option<PathBuf>,
    /// Parameters, buffers and constants by name; replaces the model's
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// Seed of inputs that are not given
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = natural)]
    pub seed: u64,
    #[command(flatten)]
    pub config: ConfigArgs,
    #[command(flatten)]
    pub inputs: InputArgs,
    /// Where to write the plan as JSON
    #[arg(short, long, value_name = "FILE", conflicts_with = "grad")]
    pub output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub grad: MaybeGradArgs,
}

/// `bench`
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub inputs: InputArgs,
    /// Another config to time: a file, a preset, or an order of executors (`A,B,C`; `A,` for one alone)
    #[arg(long, value_name = "CONFIG", help_heading = "Bench")]
    pub vs: Vec<String>,
    /// How long to measure, all configs together, in seconds; compiling is not counted
    #[arg(long, value_name = "S", default_value_t = 5.0, allow_negative_numbers = true, value_parser = seconds, help_heading = "Bench")]
    pub seconds: f64,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub grad: MaybeGradArgs,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 86_400.0 => Ok(value),
        _ => Err("expected seconds, more than 0 and at most a day".to_owned()),
    }
}

/// `plugins …`
#[derive(Debug, Subcommand)]
pub enum PluginsCommand {
    /// All plugins that were found, and whether they are used
    List {
        #[command(flatten)]
        config: ConfigArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Read one file without loading it: probe, manifest, what it needs
    Inspect {
        /// A plugin file; it may be for another machine
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the digests of the plugins in use, as the config's `[plugins.sha256]`
    Lock {
        #[command(flatten)]
        config: ConfigArgs,
    },
}

/// `config …`
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Report everything that is wrong with the config
    Check {
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Print the config as it is understood, each value with where it came from
    Show {
        #[command(flatten)]
        config: ConfigArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// `doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `ops`
#[derive(Debug, Args)]
pub struct OpsArgs {
    /// Print Markdown
    #[arg(long, conflicts_with = "json")]
    pub md: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    #[test]
    fn the_grammar_is_consistent() {
        Cli::command().debug_assert();
    }
}
