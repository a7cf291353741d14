//! Training as the façade gives it: a program with a loss, its session, and an optimiser.
//!
//! A step runs the forward with its loss, the backward, and the updates, all of them through the executors of the host.
//! Not here: where data comes from, and when a checkpoint is written.

use std::collections::{BTreeMap, BTreeSet};

use miette::Diagnostic;
use rustc_hash::FxHashMap;
use thiserror::Error;
use thunderhead_manifest::Glob;

use crate::error::Error;
use crate::host::Host;
use crate::ir::{Arg, Dtype, Trace};
use crate::memory::Tensor;
use crate::ops;
pub use crate::ops::objective::Loss;
pub use crate::ops::optim::{AdamNumbers, Optimizer, Rule};
use crate::program::Program;
use crate::run::{SessionError, StateError, Updater, Value};
use crate::session::Session;

/// What is trained how.
#[derive(Clone, Debug)]
pub struct TrainOptions {
    /// What is made small.
    pub loss: Loss,
    /// How parameters follow their gradients.
    pub optimizer: Optimizer,
    /// Parameters, by name, that take no part in weight decay.
    pub no_decay: Vec<Glob>,
    /// Seed of random ops.
    pub seed: i64,
}

/// Why a program cannot be trained so.
#[derive(Debug, Clone, Error, Diagnostic)]
pub enum TrainError {
    /// The loss does not fit the program.
    #[error("this loss cannot be had of the program: {0}")]
    #[diagnostic(
        code(train::loss),
        help("mse and cross_entropy take `out0` and `target`; `out0` must be a single number")
    )]
    Loss(String),
    /// The optimiser's numbers.
    #[error("the optimiser cannot work so: {0}")]
    #[diagnostic(code(train::optimizer), help("the numbers mean what they mean in `torch.optim`"))]
    Optimizer(String),
    /// There is nothing to train.
    #[error("the program has no floating parameter that requires a gradient")]
    #[diagnostic(
        code(train::nothing),
        help(
            "parameters of a `.trace` need the role `param`; those of a model keep `requires_grad` at export"
        )
    )]
    Nothing,
    /// A checkpoint that is none.
    #[error("this is no checkpoint: {0}")]
    #[diagnostic(
        code(train::checkpoint),
        help("give a file that `train --resume` has written for the same model")
    )]
    Checkpoint(String),
    /// The checkpoint holds the state of another optimiser, which nothing can be made of.
    #[error("the checkpoint was made by {held}, and {asked} is asked for")]
    #[diagnostic(
        code(train::other_optimizer),
        help(
            "go on with the optimizer that it was made by, or begin anew from its weights (`--weights` takes what `--out` wrote)"
        )
    )]
    OtherOptimizer {
        /// What the file says, or which state it holds.
        held: String,
        /// What was asked for.
        asked: String,
    },
    /// The loss is NaN or infinite: its gradients would make every parameter so. The parameters are as they were before
    /// this step.
    #[error("the loss at step {step} is {loss}")]
    #[diagnostic(
        code(train::not_finite),
        help("the step was not made; look at its batch, or use a smaller learning rate")
    )]
    NotFinite {
        /// The step that it belongs to, from 1 on.
        step: u64,
        /// NaN or an infinity.
        loss: f64,
    },
    /// A parameter is NaN or infinite: a checkpoint of it is not worth having.
    #[error("after step {step}, `{name}` has elements that are NaN or infinite")]
    #[diagnostic(
        code(train::weights_not_finite),
        help("nothing was written, and the last checkpoint is as it was; use a smaller learning rate")
    )]
    WeightsNotFinite {
        /// Steps done.
        step: u64,
        /// The parameter.
        name: String,
    },
}

/// What is not as it was when a checkpoint was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrainChange {
    /// `lr`, `data`, ….
    pub what: String,
    /// As the checkpoint says.
    pub before: String,
    /// As it is now.
    pub now: String,
}

/// A program being trained.
pub struct Trainer {
    session: Session,
    program: Program,
    updater: Updater,
    evaluated: Vec<String>,
    about: BTreeMap<String, String>,
}

/// What names begin with in a checkpoint.
const MODEL: &str = "model.";
const OPTIMIZER: &str = "optimizer.";
const STEP: &str = "train.step";
const RANDOM: &str = "train.random";
/// Bytes of a JSON object: what [`Trainer::about`] says.
const ABOUT: &str = "train.about";

impl Host {
    /// A trainer of the program. It holds the parameters in memory of its own; the program's are as they were.
    pub fn trainer(&self, program: &Program, options: &TrainOptions) -> Result<Trainer, Error> {
        if let Some(fault) = options.optimizer.fault() {
            return Err(TrainError::Optimizer(fault).into());
        }
        let evaluated = evaluated(program.module().traces.first());
        let program = program.with_loss(options.loss)?;
        let session = self.compile_with(&program, options.seed, true)?;
        let decays = |name: &str| !options.no_decay.iter().any(|glob| glob.matches(name));
        let updater = Updater::new(session.inner(), options.optimizer.clone(), &decays)?;
        if updater.names().next().is_none() {
            return Err(TrainError::Nothing.into());
        }
        Ok(Trainer { session, program, updater, evaluated, about: about(options) })
    }
}

impl Trainer {
    /// The inputs of a step, from those given by name: the program's (`in0`, …), and `target` where the loss takes one.
    pub fn arrange(&self, given: BTreeMap<String, Value>) -> Result<Vec<Value>, Error> {
        self.program.arrange(given, &mut |_, _| None)
    }

    /// One step on the inputs that [`Trainer::arrange`] gave; the loss before it. A loss that is not finite is an error, and
    /// changes no parameter.
    pub fn step(&mut self, inputs: &[Value]) -> Result<f64, Error> {
        let (outputs, _, tape) = self.session.forward(inputs, self.updater.request())?;
        let Some(Value::Tensor(loss)) = outputs.first() else {
            return Err(TrainError::Loss("it is no tensor".to_owned()).into());
        };
        let number = number_of(loss)?;
        if !number.is_finite() {
            return Err(TrainError::NotFinite { step: self.n_steps() + 1, loss: number }.into());
        }
        let cotangents: FxHashMap<usize, Tensor> = [(0, one_like(loss)?)].into_iter().collect();
        let grads = tape.backward(&cotangents)?;
        drop(tape);
        self.updater.apply(self.session.inner(), &grads)?;
        Ok(number)
    }

    /// Steps done, those before a [`Trainer::restore`] included.
    pub fn n_steps(&self) -> u64 {
        self.updater.n_steps()
    }

    /// Names of the parameters that are trained; of those that are one tensor, the first.
    pub fn trained(&self) -> Vec<&str> {
        self.updater.names().collect()
    }

    /// Ops that the model was exported with in evaluation mode, each name once: dropout that drops nothing, batch norm
    /// that uses and keeps its running statistics.
    pub fn evaluated(&self) -> &[String] {
        &self.evaluated
    }

    /// Parameters and buffers by name, as they are now.
    pub fn weights(&self) -> Result<Vec<(String, Tensor)>, Error> {
        Ok(self.session.inner().parameters()?.into_iter().collect())
    }

    /// Fails where a trained parameter is NaN or infinite.
    pub fn check_weights(&self) -> Result<(), Error> {
        let weights = self.session.inner().parameters()?;
        for name in self.updater.names() {
            let Some(tensor) = weights.get(name) else { continue };
            if !is_finite(tensor)? {
                return Err(
                    TrainError::WeightsNotFinite { step: self.n_steps(), name: name.to_owned() }.into()
                );
            }
        }
        Ok(())
    }

    /// What is trained how, as checkpoints keep it: `optimizer`, `lr`, `loss`, ….
    pub fn about(&self) -> &BTreeMap<String, String> {
        &self.about
    }

    /// Something that only the caller knows, for checkpoints to keep: which `data`, say.
    pub fn describe(&mut self, what: &str, text: String) {
        self.about.insert(what.to_owned(), text);
    }

    /// What a checkpoint says of how it was made that is not so now. Empty for one that says nothing.
    pub fn changes_since(&self, checkpoint: &BTreeMap<String, Tensor>) -> Vec<TrainChange> {
        let before = about_of(checkpoint);
        let changed = self.about.iter().filter_map(|(what, now)| {
            let before = before.get(what).filter(|before| *before != now)?;
            Some(TrainChange { what: what.clone(), before: before.clone(), now: now.clone() })
        });
        changed.collect()
    }

    /// Everything that going on needs: model, optimiser, random state and the number of steps.
    pub fn checkpoint(&self) -> Result<Vec<(String, Tensor)>, Error> {
        let inner = self.session.inner();
        let prefixed = |prefix: &'static str| move |(name, tensor)| (format!("{prefix}{name}"), tensor);
        let mut all: Vec<(String, Tensor)> = inner.parameters()?.into_iter().map(prefixed(MODEL)).collect();
        all.extend(self.updater.state()?.into_iter().map(prefixed(OPTIMIZER)));
        let int = |numbers: &[i64]| Tensor::from_slice(numbers, &[numbers.len() as i64]);
        let (seed, offset) = inner.random();
        let n_steps = i64::try_from(self.n_steps()).unwrap_or(i64::MAX);
        all.push((STEP.to_owned(), int(&[n_steps]).map_err(SessionError::from)?));
        all.push((RANDOM.to_owned(), int(&[seed, offset]).map_err(SessionError::from)?));
        let about = serde_json::to_vec(&self.about).expect("a map of text is JSON");
        let about = Tensor::from_slice(&about, &[about.len() as i64]).map_err(SessionError::from)?;
        all.push((ABOUT.to_owned(), about));
        Ok(all)
    }

    /// Goes on from a checkpoint of the same model and optimiser, bit for bit as if there had been no pause. Where it
    /// does not fit, nothing changes.
    pub fn restore(&mut self, checkpoint: &BTreeMap<String, Tensor>) -> Result<(), Error> {
        let ints = |name: &str, n: usize| {
            let read = checkpoint.get(name).and_then(|t| t.to_vec::<i64>().ok()).filter(|v| v.len() == n);
            read.ok_or_else(|| TrainError::Checkpoint(format!("`{name}` is missing or is not {n} integers")))
        };
        let n_steps = ints(STEP, 1)?[0];
        let n_steps =
            u64::try_from(n_steps).map_err(|_| TrainError::Checkpoint(format!("`{STEP}` is {n_steps}")))?;
        let random = ints(RANDOM, 2)?;
        let part = |prefix: &str| -> BTreeMap<String, Tensor> {
            let named = checkpoint.iter().filter_map(|(n, t)| Some((n.strip_prefix(prefix)?, t.clone())));
            named.map(|(n, t)| (n.to_owned(), t)).collect()
        };
        let (model, optimizer) = (part(MODEL), part(OPTIMIZER));
        self.check_optimizer(&about_of(checkpoint), &optimizer)?;
        let inner = self.session.inner();
        let before = inner.parameters()?;
        if let Some(missing) = before.keys().find(|name| !model.contains_key(*name)) {
            return Err(StateError::Missing(missing.clone()).into());
        }
        inner.set_parameters(&model)?;
        if let Err(error) = self.updater.set_state(&optimizer, n_steps) {
            inner.set_parameters(&before)?;
            return Err(error.into());
        }
        inner.set_random(random[0], random[1]);
        Ok(())
    }
}

impl Trainer {
    /// The state must be that of the optimiser asked for. Checkpoints that do not say whose it is are told by its names.
    fn check_optimizer(
        &self,
        about: &BTreeMap<String, String>,
        state: &BTreeMap<String, Tensor>,
    ) -> Result<(), TrainError> {
        let wanted = self.updater.optimizer().state_names();
        let asked = || match wanted {
            [] => format!("`{}` (no state)", self.about["optimizer"]),
            names => format!("`{}` (state {})", self.about["optimizer"], listed(names.iter().copied())),
        };
        let slots: BTreeSet<&str> =
            state.keys().filter_map(|name| name.rsplit_once('.')).map(|(_, slot)| slot).collect();
        let fits = slots.iter().all(|slot| wanted.contains(slot)) && (slots.is_empty() == wanted.is_empty());
        let other = about.get("optimizer").filter(|name| **name != self.about["optimizer"]);
        if fits && other.is_none() {
            return Ok(());
        }
        let kept = if slots.is_empty() {
            "no state".to_owned()
        } else {
            format!("state {}", listed(slots.iter().copied()))
        };
        let maker = about.get("optimizer").map_or("an optimizer".to_owned(), |name| format!("`{name}`"));
        Err(TrainError::OtherOptimizer { held: format!("{maker} ({kept})"), asked: asked() })
    }
}

fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// What a checkpoint says of how it was made; nothing where it is older, or somebody else's.
fn about_of(checkpoint: &BTreeMap<String, Tensor>) -> BTreeMap<String, String> {
    let bytes = checkpoint.get(ABOUT).and_then(|tensor| tensor.to_vec::<u8>().ok()).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn about(options: &TrainOptions) -> BTreeMap<String, String> {
    let Optimizer { rule, lr, weight_decay, maximize } = &options.optimizer;
    let loss = match options.loss {
        Loss::Output => "out0",
        Loss::Mse => "mse",
        Loss::CrossEntropy => "cross_entropy",
    };
    let no_decay: Vec<&str> = options.no_decay.iter().map(Glob::as_str).collect();
    let mut about = vec![
        ("loss", loss.to_owned()),
        ("lr", format!("{lr:?}")),
        ("weight_decay", weight_decay.to_string()),
        ("no_decay", no_decay.join(" ")),
        ("maximize", maximize.to_string()),
    ];
    match rule {
        Rule::Sgd { momentum, dampening, nesterov } => about.extend([
            ("optimizer", "sgd".to_owned()),
            ("momentum", momentum.to_string()),
            ("dampening", dampening.to_string()),
            ("nesterov", nesterov.to_string()),
        ]),
        Rule::Adam(numbers) | Rule::AdamW(numbers) => about.extend([
            ("optimizer", if matches!(rule, Rule::Adam(_)) { "adam" } else { "adamw" }.to_owned()),
            ("betas", format!("{},{}", numbers.beta1, numbers.beta2)),
            ("eps", numbers.eps.to_string()),
            ("amsgrad", numbers.amsgrad.to_string()),
        ]),
    }
    about.into_iter().map(|(what, text)| (what.to_owned(), text)).collect()
}

fn is_finite(tensor: &Tensor) -> Result<bool, Error> {
    let finite = match tensor.dtype() {
        Dtype::F64 => tensor.to_vec::<f64>().map(|v| v.iter().all(|x| x.is_finite())),
        Dtype::F32 => tensor.to_vec::<f32>().map(|v| v.iter().all(|x| x.is_finite())),
        Dtype::F16 => tensor.to_vec::<half::f16>().map(|v| v.iter().all(|x| x.is_finite())),
        Dtype::Bf16 => tensor.to_vec::<half::bf16>().map(|v| v.iter().all(|x| x.is_finite())),
        _ => Ok(true),
    };
    Ok(finite.map_err(SessionError::from)?)
}

/// Names of ops that are told not to train: a bool of the name `train` that is false.
fn evaluated(trace: Option<&Trace>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for bsym in trace.into_iter().flat_map(Trace::ops) {
        let Some(op) = ops::find(&bsym.op) else { continue };
        let at = ops::table::schema_of(op).index("train");
        let off = at.and_then(|at| bsym.args.get(at)) == Some(&Arg::Bool(false));
        if off && !names.iter().any(|name| **name == *bsym.op) {
            names.push(bsym.op.to_string());
        }
    }
    names
}

/// The cotangent of a loss: 1.
fn one_like(loss: &Tensor) -> Result<Tensor, Error> {
    let one: &[u8] = match loss.dtype() {
        Dtype::F64 => &1f64.to_le_bytes(),
        Dtype::F32 => &1f32.to_le_bytes(),
        Dtype::F16 => &half::f16::ONE.to_le_bytes(),
        Dtype::Bf16 => &half::bf16::ONE.to_le_bytes(),
        other => return Err(TrainError::Loss(format!("it is {other}")).into()),
    };
    Ok(Tensor::from_bytes(loss.dtype(), loss.dims(), one).map_err(SessionError::from)?)
}

/// The element of a loss.
fn number_of(loss: &Tensor) -> Result<f64, Error> {
    let first = match loss.dtype() {
        Dtype::F64 => loss.to_vec::<f64>().map(|v| v.first().copied()),
        Dtype::F32 => loss.to_vec::<f32>().map(|v| v.first().map(|x| f64::from(*x))),
        Dtype::F16 => loss.to_vec::<half::f16>().map(|v| v.first().map(|x| x.to_f64())),
        Dtype::Bf16 => loss.to_vec::<half::bf16>().map(|v| v.first().map(|x| x.to_f64())),
        other => return Err(TrainError::Loss(format!("it is {other}")).into()),
    };
    let first = first.map_err(SessionError::from)?;
    first.ok_or_else(|| TrainError::Loss("it has no element".to_owned()).into())
}
