//! A fake host, for a plugin's own tests: makes an executor without any file, runs one op on given tensors.
//!
//! It goes through the same C tables as the real host and keeps its promises (aligned memory, complete arguments),
//! and it watches: outputs lie between guard bytes and start out as garbage. Not here: claims by manifest, passes,
//! plans; those are the host's.
//!
//! ```
//! # use thunderhead_sdk::{*, testing::{Host, OpSpec, Tensor}};
//! # struct Twice;
//! # struct Doubling;
//! # impl Executor for Twice {
//! #     fn create(_: &Create<'_>) -> Result<Self, Error> { Ok(Twice) }
//! #     fn kernel(&self, _: &Op<'_>) -> Result<Box<dyn Kernel>, Error> { Ok(Box::new(Doubling)) }
//! # }
//! # impl Kernel for Doubling {
//! #     fn run(&self, call: &mut Call<'_>) -> Result<(), Error> {
//! #         let (inputs, outputs) = call.io();
//! #         outputs.get(0).map(&inputs.get(0), |x: f32| 2.0 * x)
//! #     }
//! # }
//! let host = Host::new::<Twice>("twice").unwrap();
//! let op = OpSpec::new("acme.twice").tensor("x", Tensor::new(&[2, 2], vec![1f32, 2.0, 3.0, 4.0])).output(Dtype::F32, &[2, 2]);
//! let out = host.run(&op).unwrap();
//! assert_eq!(out[0].to_vec::<f32>(), [2.0, 4.0, 6.0, 8.0]);
//! ```

mod tensor;
pub use tensor::Tensor;
mod spec;
pub use spec::{Arg, OpSpec, OutputSpec};
mod services;
pub use services::Value;
mod host;
pub use host::{Host, Kernel, RunOptions};
