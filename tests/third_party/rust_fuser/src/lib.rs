//! A fusion plugin that somebody else could have written, on the SDK alone: own kernels for pointwise ops, all else handed
//! on; and, by an option, each thing that a fuser can get wrong.
#![forbid(unsafe_code)]

use thunderhead_sdk::{
    Call, Create, Error, Executor, Kernel, Number, Op, OpId, Refusal, Region, RegionOp, Step, Steps, ValueId,
    export_plugin,
};

/// What its kernels compute, element by element.
#[derive(Clone, Copy, PartialEq)]
enum Fun {
    Add,
    Mul,
    Neg,
    Exp,
    Copy,
}

impl Fun {
    fn of(name: &str) -> Option<Fun> {
        Some(match name {
            "prims.add" => Fun::Add,
            "prims.mul" => Fun::Mul,
            "prims.neg" => Fun::Neg,
            "prims.exp" => Fun::Exp,
            _ => return None,
        })
    }

    fn of_two(self, a: f32, b: f32) -> f32 {
        match self {
            Fun::Add => a + b,
            Fun::Mul => a * b,
            Fun::Neg => -a,
            Fun::Exp => a.exp(),
            Fun::Copy => a,
        }
    }
}

/// The second operand of an op that has one.
#[derive(Clone, Copy)]
enum Second {
    Tensor,
    Known(f32),
    /// The first of the step's numbers.
    AtRun,
    None,
}

struct Pointwise {
    fun: Fun,
    second: Second,
    fails: bool,
}

impl Kernel for Pointwise {
    fn run(&self, call: &mut Call<'_>) -> Result<(), Error> {
        if self.fails {
            return Err(Error::internal("the moon is wrong"));
        }
        let at_run = match self.second {
            Second::AtRun => call.number(0).as_f64() as f32,
            _ => 0.0,
        };
        let (inputs, outputs) = call.io();
        let a: Vec<f32> = inputs.get(0).iter::<f32>()?.collect();
        let b: Vec<f32> = match self.second {
            Second::Tensor => inputs.get(1).iter::<f32>()?.collect(),
            Second::Known(value) => vec![value; a.len()],
            Second::AtRun => vec![at_run; a.len()],
            Second::None => vec![0.0; a.len()],
        };
        let results: Vec<f32> = a.iter().zip(&b).map(|(a, b)| self.fun.of_two(*a, *b)).collect();
        write(call, 0, &results)
    }

    fn in_place(&self) -> Vec<(usize, usize)> {
        vec![(0, 0)]
    }

    fn workspace_bytes(&self, _: usize) -> usize {
        64
    }
}

/// Writes an output, whether or not it shares an input's memory.
fn write(call: &mut Call<'_>, output: usize, results: &[f32]) -> Result<(), Error> {
    let (_, outputs) = call.io();
    let mut out = outputs.get(output);
    for (to, from) in out.as_cells::<f32>()?.iter().zip(results) {
        to.set(*from);
    }
    Ok(())
}

struct Fuser {
    fault: String,
}

impl Executor for Fuser {
    fn create(ctx: &Create<'_>) -> Result<Self, Error> {
        Ok(Fuser { fault: ctx.options().string("fault")? })
    }

    fn check(&self, op: &Op<'_>) -> Result<(), Refusal> {
        match op.input(0).rank() {
            0 => Err(Refusal::new("scalar", "the first operand is a scalar")),
            _ => Ok(()),
        }
    }

    fn lower_region(&self, region: &Region<'_>, steps: &mut Steps<'_>) -> Result<(), Error> {
        match self.fault.as_str() {
            "unsupported" if region.ops().iter().any(|op| op.name() == "torch.softmax") => {
                return Err(Error::unsupported("no softmax on Tuesdays"));
            }
            "panic" => panic!("lowering is too hard"),
            "nothing" => return Ok(()),
            _ => {}
        }
        for op in region.ops() {
            self.lower_op(region, &op, steps)?;
        }
        self.do_wrong(region, steps)
    }
}

impl Fuser {
    fn lower_op(&self, region: &Region<'_>, op: &RegionOp<'_>, steps: &mut Steps<'_>) -> Result<(), Error> {
        if op.is_view() || op.is_number() {
            return Ok(());
        }
        let own = self.fault != "hands_on" && is_known(region, op);
        if let Some(fun) = Fun::of(op.name()).filter(|_| own) {
            return self.pointwise(region, op, fun, steps);
        }
        if self.fault.is_empty() && self.is_mine_in_part(op.name()) && op.is_composite() {
            if let Some(parts) = region.decomposition(op.id())? {
                return parts.ops.iter().try_for_each(|part| self.lower_op(region, part, steps));
            }
        }
        match region.taker(op.id())? {
            Some(_) => steps.delegate(op.id()),
            None => Err(Error::unsupported(format!("nobody runs `{}`", op.name()))),
        }
    }

    fn is_mine_in_part(&self, name: &str) -> bool {
        matches!(name, "torch.add" | "torch.mul" | "torch.exp" | "torch.softmax")
    }

    fn pointwise(
        &self,
        region: &Region<'_>,
        op: &RegionOp<'_>,
        fun: Fun,
        steps: &mut Steps<'_>,
    ) -> Result<(), Error> {
        let out = op.output_values()[0];
        let (second, numbers) = second_of(op);
        let fails = self.fault == "fails_at_run";
        if fun == Fun::Neg {
            // Through a temporary, so that there is one.
            let dims = region.value(out).dims().to_vec();
            let between = steps.temporary(region.value(out).dtype(), &dims)?;
            let copy = Step::new("copy").inputs([op.input_values()[0]]).outputs([between]);
            steps.kernel(&copy, Pointwise { fun: Fun::Copy, second: Second::None, fails })?;
            let neg = Step::new("neg").inputs([between]).outputs([out]);
            return steps.kernel(&neg, Pointwise { fun, second, fails });
        }
        let step = Step::new(op.name().rsplit('.').next().unwrap_or("step"));
        let step = step.inputs(op.input_values().iter().copied()).outputs([out]).numbers(numbers);
        steps.kernel(&step, Pointwise { fun, second, fails })
    }

    /// One thing too many.
    fn do_wrong(&self, region: &Region<'_>, steps: &mut Steps<'_>) -> Result<(), Error> {
        let noop = || Pointwise { fun: Fun::Copy, second: Second::None, fails: false };
        let first_in = region.inputs()[0];
        let own = region.outputs().iter().copied().find(|v| !region.value(*v).is_view());
        let first_out = own.ok_or_else(|| Error::internal("the region has views alone"))?;
        let step = |inputs: &[ValueId], outputs: &[ValueId]| {
            Step::new("wrong").inputs(inputs.iter().copied()).outputs(outputs.iter().copied())
        };
        match self.fault.as_str() {
            "twice" => steps.kernel(&step(&[first_in], &[first_out]), noop()),
            "writes_input" => steps.kernel(&step(&[first_out], &[first_in]), noop()),
            "writes_view" => {
                let view = (0..region.n_values() as u32).find(|v| region.value(*v).is_view());
                steps.kernel(&step(&[first_in], &[view.unwrap_or(0)]), noop())
            }
            "strange_value" => steps.kernel(&step(&[999], &[first_out]), noop()),
            "strange_op" => steps.delegate(999),
            "delegates_view" => {
                let view = region.ops().iter().find(|op| op.is_view()).map_or(0, |op| op.id());
                steps.delegate(view)
            }
            "unwritten" => {
                let (dtype, dims) = (region.value(first_out).dtype(), region.value(first_out).dims().to_vec());
                let (a, b) = (steps.temporary(dtype, &dims)?, steps.temporary(dtype, &dims)?);
                steps.kernel(&step(&[a], &[b]), noop())
            }
            "cyclic" => {
                let (dtype, dims) = (region.value(first_out).dtype(), region.value(first_out).dims().to_vec());
                let (a, b) = (steps.temporary(dtype, &dims)?, steps.temporary(dtype, &dims)?);
                steps.kernel(&step(&[a], &[b]), noop())?;
                steps.kernel(&step(&[b], &[a]), noop())
            }
            "huge" => steps.temporary(region.value(first_out).dtype(), &[1 << 40, 1 << 40]).map(|_| ()),
            // The host's answer does not make it right.
            "swallows_fault" => {
                let _ = steps.delegate(999);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn is_known(region: &Region<'_>, op: &RegionOp<'_>) -> bool {
    let dims = region.value(op.output_values()[0]).dims().to_vec();
    op.inputs().all(|input| input.dims() == dims && input.dtype() == thunderhead_sdk::Dtype::F32)
}

/// The second operand, and the slots that the step needs for it.
fn second_of(op: &RegionOp<'_>) -> (Second, Vec<usize>) {
    if op.n_inputs() > 1 {
        return (Second::Tensor, Vec::new());
    }
    match (op.number("b"), op.slot("b")) {
        (Ok(Number::Int(n)), _) => (Second::Known(n as f32), Vec::new()),
        (Ok(Number::Float(x)), _) => (Second::Known(x as f32), Vec::new()),
        (_, Some(slot)) => (Second::AtRun, vec![slot]),
        _ => (Second::None, Vec::new()),
    }
}

/// Everything in one kernel.
struct Swallower;

impl Executor for Swallower {
    fn create(_: &Create<'_>) -> Result<Self, Error> {
        Ok(Swallower)
    }

    fn lower_region(&self, region: &Region<'_>, steps: &mut Steps<'_>) -> Result<(), Error> {
        let mut program = Vec::new();
        for op in region.ops() {
            let Some(fun) = Fun::of(op.name()).filter(|_| is_known(region, &op)) else {
                return Err(Error::unsupported(format!("`{}` is too much for one kernel", op.name())));
            };
            let (second, _) = second_of(&op);
            if matches!(second, Second::AtRun) {
                return Err(Error::unsupported("a number that is known only at run"));
            }
            program.push((fun, op.input_values().to_vec(), second, op.output_values()[0]));
        }
        let (inputs, outputs) = (region.inputs().to_vec(), region.outputs().to_vec());
        let step = Step::new("all").inputs(inputs.iter().copied()).outputs(outputs.iter().copied());
        steps.kernel(&step, Whole { program, inputs, outputs })
    }
}

struct Whole {
    program: Vec<(Fun, Vec<ValueId>, Second, ValueId)>,
    inputs: Vec<ValueId>,
    outputs: Vec<ValueId>,
}

impl Kernel for Whole {
    fn run(&self, call: &mut Call<'_>) -> Result<(), Error> {
        let mut known: Vec<(ValueId, Vec<f32>)> = Vec::new();
        for (at, value) in self.inputs.iter().enumerate() {
            known.push((*value, call.input(at).iter::<f32>()?.collect()));
        }
        let find = |known: &Vec<(ValueId, Vec<f32>)>, v: ValueId| {
            known.iter().find(|(of, _)| *of == v).map(|(_, data)| data.clone()).unwrap_or_default()
        };
        for (fun, inputs, second, out) in &self.program {
            let a = find(&known, inputs[0]);
            let b = match second {
                Second::Tensor => find(&known, inputs[1]),
                Second::Known(value) => vec![*value; a.len()],
                _ => vec![0.0; a.len()],
            };
            known.push((*out, a.iter().zip(&b).map(|(a, b)| fun.of_two(*a, *b)).collect()));
        }
        for (at, value) in self.outputs.iter().enumerate() {
            let data = find(&known, *value);
            write(call, at, &data)?;
        }
        Ok(())
    }
}

/// Wants exponentials by themselves, additions together, and nothing else.
struct Picky {
    fault: String,
}

impl Executor for Picky {
    fn create(ctx: &Create<'_>) -> Result<Self, Error> {
        Ok(Picky { fault: ctx.options().string("fault")? })
    }

    fn propose_regions(&self, region: &Region<'_>) -> Result<Option<Vec<Vec<OpId>>>, Error> {
        let named = |name: &str| -> Vec<OpId> {
            region.ops().iter().filter(|op| op.name() == name).map(|op| op.id()).collect()
        };
        let (adds, exps) = (named("prims.add"), named("prims.exp"));
        Ok(Some(match self.fault.as_str() {
            "stranger" => vec![vec![0, 77]],
            "twice" => vec![vec![0], vec![0]],
            "empty" => vec![vec![]],
            "not_convex" => vec![adds, exps],
            _ => exps.into_iter().map(|op| vec![op]).collect(),
        }))
    }

    fn lower_region(&self, region: &Region<'_>, steps: &mut Steps<'_>) -> Result<(), Error> {
        Swallower.lower_region(region, steps)
    }
}

/// A plain op plugin beside them.
struct Matmuls;

impl Executor for Matmuls {
    fn create(_: &Create<'_>) -> Result<Self, Error> {
        Ok(Matmuls)
    }

    fn check(&self, _: &Op<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    fn kernel(&self, op: &Op<'_>) -> Result<Box<dyn Kernel>, Error> {
        if op.input(0).rank() != 2 || op.input(1).rank() != 2 || op.n_inputs() > 2 {
            return Err(Error::unsupported("two matrices are taken"));
        }
        Ok(Box::new(Matmul { transposed: op.name() == "prims.linear" }))
    }
}

struct Matmul {
    transposed: bool,
}

impl Kernel for Matmul {
    fn run(&self, call: &mut Call<'_>) -> Result<(), Error> {
        let (a, b) = (call.input(0), call.input(1));
        let (m, k) = (a.dims()[0] as usize, a.dims()[1] as usize);
        let n = if self.transposed { b.dims()[0] } else { b.dims()[1] } as usize;
        let (a, b): (Vec<f32>, Vec<f32>) = (a.iter()?.collect(), b.iter()?.collect());
        let of_b = |l: usize, j: usize| if self.transposed { b[j * k + l] } else { b[l * n + j] };
        let mut results = Vec::with_capacity(m * n);
        for i in 0..m {
            for j in 0..n {
                results.push((0..k).map(|l| a[i * k + l] * of_b(l, j)).sum::<f32>());
            }
        }
        write(call, 0, &results)
    }
}

export_plugin! {
    manifest: include_str!("../plugin.toml"),
    executors: {
        "fuser" => Fuser,
        "swallower" => Swallower,
        "picky" => Picky,
        "matmuls" => Matmuls,
    },
}
