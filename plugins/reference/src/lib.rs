//! Stub.
use thunderhead_sdk::{Create, Error, Executor, Kernel, Op};
pub struct Reference;
impl Executor for Reference {
    fn create(_: &Create<'_>) -> Result<Self, Error> { Ok(Reference) }
    fn kernel(&self, op: &Op<'_>) -> Result<Box<dyn Kernel>, Error> { Err(Error::unsupported(op.name().to_owned())) }
}
thunderhead_sdk::define_plugin! { manifest: include_str!("../plugin.toml"), executors: { "reference" => Reference } }
