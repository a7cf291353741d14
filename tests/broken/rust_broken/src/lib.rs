//! Executors that each panic, or err, at one place. `tests/faults.rs` lists what becomes of each.
#![forbid(unsafe_code)]

use thunderhead_sdk::{Binding, Bound, Call, Create, Error, Executor, Kernel, Op, Refusal, export_plugin};

struct Broken {
    name: String,
}

impl Broken {
    fn falls(&self, at: &str) {
        assert!(self.name != at, "{at}, as it should");
    }
}

impl Executor for Broken {
    fn create(ctx: &Create<'_>) -> Result<Self, Error> {
        let broken = Broken { name: ctx.name().to_owned() };
        broken.falls("panics_in_create");
        Ok(broken)
    }

    fn check(&self, _: &Op<'_>) -> Result<(), Refusal> {
        self.falls("panics_in_check");
        Ok(())
    }

    fn kernel(&self, _: &Op<'_>) -> Result<Box<dyn Kernel>, Error> {
        self.falls("panics_in_make");
        Ok(Box::new(Neg(Broken { name: self.name.clone() })))
    }
}

struct Neg(Broken);

impl Kernel for Neg {
    fn run(&self, call: &mut Call<'_>) -> Result<(), Error> {
        self.0.falls("panics_in_run");
        if self.0.name == "other_index" {
            call.output(3);
        }
        let (inputs, outputs) = call.io();
        if self.0.name == "other_dtype" {
            outputs.get(0).as_mut_slice::<f64>()?.fill(1.0);
        }
        outputs.get(0).map(&inputs.get(0), |x: f32| -x)
    }

    fn bind(&self, _: &Binding<'_>) -> Result<Option<Box<dyn Bound>>, Error> {
        self.0.falls("panics_in_bind");
        Ok(None)
    }
}

impl Drop for Neg {
    fn drop(&mut self) {
        self.0.falls("panics_in_drop");
    }
}

export_plugin! {
    manifest: include_str!("../plugin.toml"),
    executors: {
        "panics_in_create" => Broken,
        "panics_in_check" => Broken,
        "panics_in_make" => Broken,
        "panics_in_bind" => Broken,
        "panics_in_run" => Broken,
        "panics_in_drop" => Broken,
        "other_dtype" => Broken,
        "other_index" => Broken,
    },
}
