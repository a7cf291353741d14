//! A plugin that somebody else could have written: takes `torch.relu`, on the SDK alone.
#![forbid(unsafe_code)]

use thunderhead_sdk::{Call, Create, Dtype, Error, Executor, Kernel, Op, Refusal, export_plugin};

struct RustRelu {
    leak: f64,
}

impl Executor for RustRelu {
    fn create(ctx: &Create<'_>) -> Result<Self, Error> {
        let leak = ctx.options().float("leak")?;
        ctx.log().debug(format_args!("{} runs with leak {leak}", ctx.name()));
        Ok(RustRelu { leak })
    }

    fn check(&self, op: &Op<'_>) -> Result<(), Refusal> {
        match op.input(0).dims().iter().position(|dim| *dim == 13) {
            Some(dim) => Err(Refusal::new("unlucky", "a dim of 13 is not taken").attribute("a").dim(dim, 13)),
            None => Ok(()),
        }
    }

    fn kernel(&self, op: &Op<'_>) -> Result<Box<dyn Kernel>, Error> {
        Ok(Box::new(Relu { leak: self.leak, dtype: op.input(0).dtype() }))
    }
}

struct Relu {
    leak: f64,
    dtype: Dtype,
}

impl Kernel for Relu {
    fn run(&self, call: &mut Call<'_>) -> Result<(), Error> {
        let (inputs, outputs) = call.io();
        let (x, mut out) = (inputs.get(0), outputs.get(0));
        match self.dtype {
            Dtype::F64 => out.map(&x, |x: f64| if x > 0.0 { x } else { x * self.leak }),
            _ => out.map(&x, |x: f32| if x > 0.0 { x } else { x * self.leak as f32 }),
        }
    }

    fn in_place(&self) -> Vec<(usize, usize)> {
        vec![(0, 0)]
    }

    fn size_independent(&self) -> bool {
        true
    }
}

export_plugin! {
    manifest: include_str!("../plugin.toml"),
    executors: { "rust_relu" => RustRelu },
}
