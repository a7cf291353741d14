//! Write executors for Thunderhead: plugins that take ops of tensor programs and run them.
//!
//! A plugin is a `cdylib` with a manifest. The manifest says what is taken; a type says how. This is a whole one:
//!
//! ```toml
#![doc = include_str!("../plugin.toml")]
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
//!         outputs.get(0).map(&inputs.get(0), |x: f32| if x < 0.0 { 0.0 } else { x })
//!     }
//! }
//!
//! export_plugin! {
//!     manifest: include_str!("../plugin.toml"),
//!     executors: { "acme" => Acme },
//! }
//! ```
//! ```toml
//! # Cargo.toml
//! [package]
//! name = "acme-relu"
//! version = "0.1.0"
//! edition = "2024"
//!
//! [dependencies]
//! thunderhead-sdk = "0.1" # or { path = ".../sdk" } of a checkout
//!
//! [lib]
//! crate-type = ["cdylib"]
//! ```
//!
//! That is all: `cargo build --release`, put the library where a config finds it, name `acme` in its order. The kernel
//! runs over any strides; with `layout = "contiguous"` the host copies what is not dense, and [`View::as_slice`] gives
//! plain slices. `thunderhead plugins inspect` shows what a file says, `thunderhead explain` who took which op and why
//! not the others: the sentences of your [`Refusal`]s.
//!
//! # A fusion executor
//!
//! With `kind = "fusion"` an executor is given whole regions of ops and answers with steps: kernels of its own over the
//! region's tensors, and ops that it hands on to the executors behind it. `like = ["pytorch"]` in the manifest makes it claim
//! all that `pytorch` claims.
//!
//! ```
//! use thunderhead_sdk::{Call, Create, Error, Executor, Kernel, Region, Step, Steps};
//!
//! struct Fuser;
//!
//! impl Executor for Fuser {
//!     fn create(_: &Create<'_>) -> Result<Self, Error> {
//!         Ok(Fuser)
//!     }
//!
//!     fn lower_region(&self, region: &Region<'_>, steps: &mut Steps<'_>) -> Result<(), Error> {
//!         for op in region.ops() {
//!             if op.is_view() || op.is_number() {
//!                 continue; // the host's
//!             }
//!             if op.name() == "prims.neg" {
//!                 let step = Step::new("neg").inputs([op.input_values()[0]]).outputs([op.output_values()[0]]);
//!                 steps.kernel(&step, Neg)?;
//!             } else {
//!                 steps.delegate(op.id())?; // to whoever is next; `unsupported` where nobody is
//!             }
//!         }
//!         Ok(())
//!     }
//! }
//!
//! struct Neg;
//!
//! impl Kernel for Neg {
//!     fn run(&self, call: &mut Call<'_>) -> Result<(), Error> {
//!         let (inputs, outputs) = call.io();
//!         outputs.get(0).map(&inputs.get(0), |x: f32| -x)
//!     }
//! }
//! ```
//!
//! [`Region::decomposition`] takes an op apart level by level, down to prims; parts can be computed or handed on like ops of
//! the region. [`Region::taker`] says beforehand who would run an op. [`Steps::temporary`] makes a tensor that only the
//! region's steps see. Steps may come in any order; the host sorts them, plans their memory with everything else, and runs
//! them in its one schedule. Views are the host's: a step reads any, and writes none. What cannot be lowered is answered
//! with [`Error::unsupported`]: the region's ops then go to the executors behind.
//!
//! # Where to look
//!
//! - [`Executor`], [`Kernel`], [`Bound`]: what to implement. [`Op`]: an op with its arguments and tensors, before it has
//!   memory. [`Call`]: a run, with [`View`]s, numbers, scratch memory and the host's threads.
//! - [`Error`] and [`Refusal`]: lower case, no final period, the value found and the one expected.
//! - [`testing`]: a fake host for your own tests. [`dlpack`]: tensors in and out. [`rules`]: what the ABI promises.
//! - [`Region`], [`RegionOp`], [`Value`], [`Steps`]: what a fusion executor is given, and what it answers with.
//! - [`Walk`]: several tensors at once, whatever their strides.
//!
//! Deliberately not here: the host. The same can be had in C with `thunderhead_plugin.h` alone.
#![warn(missing_docs)]

pub mod author;
#[doc(hidden)]
pub use author::__private;
pub use author::*;
pub mod dlpack;
pub mod names;
pub mod rules;
pub mod testing;

pub use half;
pub use log;
pub use num_complex;
