//! Training as the façade gives it: a program with a loss, its session, and an optimiser.
//!
//! A step runs the forward with its loss, the backward, and the updates, all of them through the executors of the host.
//! Not here: where data comes from, and when a checkpoint is written.

use std::collections::BTreeMap;

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
}

/// A program being trained.
pub struct Trainer {
    session: Session,
    program: Program,
    updater: Updater,
    evaluated: Vec<String>,
}

/// What names begin with in a checkpoint.
const MODEL: &str = "model.";
const OPTIMIZER: &str = "optimizer.";
const STEP: &str = "train.step";
const RANDOM: &str = "train.random";

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
        Ok(Trainer { session, program, updater, evaluated })
    }
}

impl Trainer {
    /// The inputs of a step, from those given by name: the program's (`in0`, …), and `target` where the loss takes one.
    pub fn arrange(&self, given: BTreeMap<String, Value>) -> Result<Vec<Value>, Error> {
        self.program.arrange(given, &mut |_, _| None)
    }

    /// One step on the inputs that [`Trainer::arrange`] gave; the loss before it.
    pub fn step(&mut self, inputs: &[Value]) -> Result<f64, Error> {
        let (outputs, _, tape) = self.session.forward(inputs, self.updater.request())?;
        let Some(Value::Tensor(loss)) = outputs.first() else {
            return Err(TrainError::Loss("it is no tensor".to_owned()).into());
        };
        let cotangents: FxHashMap<usize, Tensor> = [(0, one_like(loss)?)].into_iter().collect();
        let grads = tape.backward(&cotangents)?;
        drop(tape);
        self.updater.apply(self.session.inner(), &grads)?;
        number_of(loss)
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
