//! Write executors for Thunderhead: plugins that take ops of tensor programs and run them.
//!
//! A plugin is a `cdylib` with a manifest. The manifest says what is taken; a type says how. This is a whole one:
//!
//! ```toml
//! # plugin.toml
//! manifest = 1
//! id = "acme-relu"
//! version = "0.1.0"
//! abi = "0.1"
//! ir = "1"
//! needs = ["executor/1", "kernel/1"]
//!
//! [[executor]]
//! name = "acme"
//! kind = "op"
//! label = "Acme"
//!
//! [[executor.claim]]
//! ops = ["torch.relu"]
//! dtypes = ["f32"]
//! layout = "contiguous"
//! ```
//! ```
//! // src/lib.rs
//! #![forbid(unsafe_code)]
//! use thunderhead_sdk::{Call, Create, Error, Executor, Kernel, Op, Refusal, export_plugin};
//!
//! struct Acme;
//!
//! impl Executor for Acme {
//!     fn create(ctx: &Create<'_>) -> Result<Self, Error> {
//!         ctx.log().debug("ready");
//!         Ok(Acme)
//!     }
//!
//!     fn check(&self, op: &Op<'_>) -> Result<(), Refusal> {
//!         if op.input(0).rank() == 0 {
//!             return Err(Refusal::new("scalar", "x is a scalar; one dim at least is taken").attribute("x"));
//!         }
//!         Ok(())
//!     }
//!
//!     fn kernel(&self, _: &Op<'_>) -> Result<Box<dyn Kernel>, Error> {
//!         Ok(Box::new(Relu))
//!     }
//! }
//!
//! struct Relu;
//!
//! impl Kernel for Relu {
//!     fn run(&self, call: &mut Call<'_>) -> Result<(), Error> {
//!         let (inputs, outputs) = call.io();
//!         outputs.get(0).map(&inputs.get(0), |x: f32| x.max(0.0))
//!     }
//! }
//!
//! export_plugin! {
//!     manifest: "manifest = 1", // include_str!("../plugin.toml")
//!     executors: { "acme" => Acme },
//! }
//! ```

pub mod author;
#[doc(hidden)]
pub use author::__private;
pub use author::*;
pub mod dlpack;
pub mod testing;

pub use half;
pub use log;
pub use num_complex;
