//! Which exit code a failure is: the one match below. The codes themselves are in `exit_code`.

use thunderhead::claim::ClaimError;
use thunderhead::plan::{FaultKind, PlanError};
use thunderhead::run::{CompileError, RunError};
use thunderhead::{Error, TrainError};

use super::exit_code::Exit;
use super::failure::Failure;

impl Failure {
    /// The exit code that this failure is.
    pub fn exit(&self) -> Exit {
        let error = match self {
            Failure::Host(error) => error,
            Failure::Usage { .. } => return Exit::Usage,
            Failure::Mismatch { .. } | Failure::ResultsDiffer { .. } => return Exit::Mismatch,
            Failure::Fill { .. } => return Exit::Inputs,
            Failure::Doctor { config: true, .. } => return Exit::Config,
            Failure::Doctor { config: false, .. } => return Exit::PluginLoad,
            Failure::Read { .. }
            | Failure::Write { .. }
            | Failure::PlanFile { .. }
            | Failure::Stopped { .. } => return Exit::Other,
        };
        match error {
            Error::Config(_) => Exit::Config,
            Error::Load(_) => Exit::PluginLoad,
            Error::Model(_) | Error::Trace(_) => Exit::Model,
            Error::TensorFile(_) | Error::Input(_) | Error::Named(_) | Error::State(_) => Exit::Inputs,
            Error::Autodiff(_) => Exit::Unclaimed,
            Error::Train(TrainError::Checkpoint(_) | TrainError::OtherOptimizer { .. }) => Exit::Inputs,
            Error::Train(TrainError::NotFinite { .. } | TrainError::WeightsNotFinite { .. }) => Exit::Other,
            Error::Train(_) => Exit::Usage,
            Error::Expectation(_) => Exit::Expectation,
            Error::Compile(error) => match &**error {
                CompileError::Claim(ClaimError::Unclaimed { .. }) => Exit::Unclaimed,
                CompileError::Claim(_) => Exit::Model,
                CompileError::Plan(PlanError::Make(_)) => Exit::PluginFailed,
                CompileError::Plan(PlanError::NotLoaded { .. }) => Exit::PluginLoad,
                CompileError::Plan(PlanError::Refused { .. }) => Exit::Unclaimed,
                CompileError::Plan(PlanError::Trace(_)) => Exit::Model,
                CompileError::Plan(PlanError::Size { .. }) => Exit::Inputs,
                CompileError::Plan(_) => Exit::Other,
                CompileError::Guard(_) | CompileError::Input(_) => Exit::Inputs,
            },
            Error::Run(error) => match &**error {
                RunError::Fault(fault) if fault.kind == FaultKind::BadData => Exit::Inputs,
                RunError::Fault(_) => Exit::PluginFailed,
                RunError::Check(_) => Exit::Inputs,
                _ => Exit::Other,
            },
            _ => Exit::Other,
        }
    }
}
