//! Thunderhead: a plugin host for tensor programs.
//!
//! A program that PyTorch exported is run by executors: plugins, built by anyone, that a TOML file selects and orders.
//! The host owns the program, who runs which op, when, and where in memory.
//!
//! ```no_run
//! use thunderhead::{Host, Program, Tensor, Value};
//!
//! thunderhead::prepare_process();
//! let host = Host::from_config("thunderhead.toml")?;
//! let program = Program::open("model.pt2")?;
//! let session = host.compile(&program)?;
//! let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[1, 4]).expect("four elements");
//! let outputs = session.run(&[Value::Tensor(x)])?;
//! # Ok::<(), thunderhead::Error>(())
//! ```
//!
//! A session keeps the program's state (buffers, caches, the random offset) from run to run, and changes it only when
//! a run has succeeded. Every error has a code (`claim::unclaimed`) and says what to do.
//!
//! The rooms below are public for tools and tests; [`Host`], [`Program`] and [`Session`] are what programs need.
#![deny(unsafe_code)]

pub mod compare;
mod error;
mod host;
mod program;
mod session;
pub mod tensor_files;
mod trainer;

pub mod autodiff;
pub mod claim;
pub mod config;
pub mod frontend;
pub mod ir;
pub mod loader;
pub mod lower;
pub mod memory;
pub mod ops;
pub mod passes;
pub mod plan;
pub mod region;
pub mod run;
pub mod threads;

pub use error::{
    Error, ExpectationErrors, LoadErrors, NamedInputError, OpenError, TensorFileError, TraceErrors,
    TraceProblem, Violation,
};
pub use host::{Host, HostOptions, Look, Refused, liked, look};
pub use loader::prepare_process;
pub use memory::Tensor;
pub use program::Program;
pub use run::Value;
pub use session::Session;
pub use thunderhead_manifest::Glob;
pub use trainer::{AdamNumbers, Loss, Optimizer, Rule, TrainChange, TrainError, TrainOptions, Trainer};
