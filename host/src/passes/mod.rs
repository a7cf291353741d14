//! Passes: each takes a trace and gives a new one that computes the same, with fewer or simpler calls.
//!
//! Invariants: names never change, provenance is kept, effects stay in their order, what is returned or saved keeps
//! its value; linear in the size of the trace. What a pass must know of an op it asks the op table (traits, meta,
//! decomposition), never its name. In debug builds each result is verified. Deliberately absent: executors.
//!
//! Traces whose executors are known (`claimed`, `execution`) are run as they say, so passes leave them alone.

pub mod specialise;

pub mod cse;
pub mod dce;
pub mod fold;
mod replace;

use crate::ir::{Stage, Trace};

/// What a trace is for: some rewrites keep values but not gradients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Values only: inference, or a forward and a backward that autodiff has made already.
    Values,
    /// Autodiff comes after.
    Gradients,
}

/// A pass, under the name by which it is traced and bisected.
pub struct Pass {
    /// `fold`, `cse`, `dce`.
    pub name: &'static str,
    /// What it does.
    pub run: fn(Trace, Purpose) -> Trace,
}

/// All passes, in order. Folding first: what it makes equal can merge, and both leave dead calls behind.
pub static PASSES: &[Pass] = &[
    Pass { name: "fold", run: fold::fold },
    Pass { name: "cse", run: |trace, _| cse::cse(trace) },
    Pass { name: "dce", run: |trace, _| dce::dce(trace) },
];

/// All passes, in order, for values only.
pub fn run(trace: Trace) -> Trace {
    run_each(trace, Purpose::Values, &mut |_, _| {})
}

/// All passes, in order; `after` sees each one's result.
pub fn run_each(trace: Trace, purpose: Purpose, after: &mut dyn FnMut(&'static str, &Trace)) -> Trace {
    if matches!(trace.stage, Stage::Claimed | Stage::Execution) {
        return trace;
    }
    // A trace that is wrong before says nothing about a pass.
    let verify = cfg!(debug_assertions) && crate::ir::verify::verify_alone(&trace).is_empty();
    PASSES.iter().fold(trace, |trace, pass| {
        let out = (pass.run)(trace, purpose);
        if verify {
            let faults = crate::ir::verify::verify_alone(&out);
            assert!(faults.is_empty(), "the pass `{}` broke the trace: {}", pass.name, faults[0]);
        }
        after(pass.name, &out);
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Arg, Bsym, Dtype, Stmt, TensorType, text};
    use crate::ops;

    /// `n` statements, two thirds of which are dead, equal to others, or pass their argument on.
    fn long(n: usize) -> Trace {
        let text = "thunderhead trace 1.0\n\ntrace forward(\n    %x: f32[4, 8] input \"in0\",\n) stage acquired {\n    return %x as \"out0\"\n}\n";
        let mut module = text::parse(text, ops::schemas()).expect("a trace").module;
        let mut trace = module.traces.remove(0);
        let mut last = trace.params[0].value;
        for i in 0..n {
            let id =
                trace.add_value(format!("t{i}"), TensorType::new([4.into(), 8.into()], Dtype::F32).into());
            let (op, args) = match i % 3 {
                0 => ("torch.relu", vec![Arg::Value(last)]),
                1 => ("torch.reshape", vec![Arg::Value(last), Arg::ints([4, 8])]),
                _ => ("torch.add", vec![Arg::Value(last), Arg::Value(trace.params[0].value), Arg::Int(1)]),
            };
            trace.body.push(Stmt::Op(Bsym::new(op, args, vec![Some(id)])));
            last = if i % 9 == 4 { trace.params[0].value } else { id };
        }
        trace.outputs[0].value = Arg::Value(last);
        trace
    }

    /// Long traces are done in time that a person does not notice; a quadratic pass would take hours.
    #[test]
    fn a_hundred_thousand_statements_are_no_matter() {
        let out = run(long(100_000));
        assert!(out.body.len() < 20, "{} statements are left", out.body.len());
        assert_eq!(run(out.clone()), out);
    }

    /// Running the passes again changes nothing.
    #[test]
    fn once_is_enough() {
        let once = run(long(100));
        assert_eq!(run(once.clone()), once);
    }
}
