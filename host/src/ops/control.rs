//! Checks of the model, nested traces, and what is only text or lives only inside autodiff.
//!
//! The host runs control flow itself; a branch is a trace of its own, which an op's rules cannot see from here, so the
//! result types of those calls are the recorded ones. [`Flow`] is such a call taken apart; how it is differentiated is
//! autodiff's business, since a rule here could not make traces.
//!
//! Nested traces draw no random stream: seed and offset are operands (`next_philox` stands in the outermost trace only).

use super::aten::{Aten, AtenCall, Import};
use super::build::{Builder, Operand};
use super::meta::show;
use super::{Call, HostOp, Level, Meta, Op, OpError, Sample, Traits, Vjp};
use crate::ir::{Arg, Dtype, Name, Type};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &CHECK,
    &COMMENT,
    &COND,
    &GET_GRAD,
    &PUT_GRAD,
    &RETURN,
    &SCAN,
    &WHILE_LOOP,
    &WHILE_LOOP_STACKED,
    &TORCH_ASSERT_ASYNC,
    &TORCH_ASSERT_TENSOR_METADATA,
    &TORCH_AUTOCAST,
    &TORCH_CHECKPOINT,
    &TORCH_COND,
    &TORCH_MAP,
    &TORCH_SCAN,
    &TORCH_SET_GRAD_ENABLED,
    &TORCH_WHILE_LOOP,
    &SINK,
    &TORCH_ASSERT_SCALAR,
    &TORCH_CONSTRAIN_RANGE,
    &TORCH_WITH_EFFECTS,
];

const HOST: Op = Op { traits: Traits::HOST.and(Traits::EFFECT), ..Op::BASE };
const NESTED: Op = Op { meta: Meta::Fn(recorded), traits: Traits::HOST, ..Op::BASE };
const INLINED: Op = Op { meta: Meta::Fn(recorded), ..Op::BASE };

pub static CHECK: Op = Op {
    name: "prims.check",
    doc: "An assert of the model: an error with the message where `cond` is false. Never removed.",
    schema: "(cond: num|Tensor<b>, message: str) -> ()",
    meta: Meta::Fn(check_meta),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Check),
    samples: &[Sample("true, message=\"holds\""), Sample("bool[], message=\"may not hold\"")],
    ..HOST
};

pub static COMMENT: Op = Op {
    name: "prims.comment",
    doc: "In text, a comment.",
    schema: "(text: str) -> ()",
    meta: Meta::Fn(|_| Ok(vec![])),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Text),
    samples: &[Sample("text=\"a comment\"")],
    ..HOST
};

pub static COND: Op = Op {
    name: "prims.cond",
    doc: "One of two nested traces on the operands.",
    schema: "(pred: Tensor<b>|num, then: trace, else: trace, operands: any[]) -> any[]",
    host: Some(HostOp::Nested(Nested::Cond)),
    samples: &[],
    ..NESTED
};

pub static GET_GRAD: Op = Op {
    name: "prims.get_grad",
    doc: "The gradient of a value: only between the two halves of autodiff, never in a finished trace.",
    schema: "(a: Tensor) -> Tensor",
    meta: Meta::Fn(|call| Ok(vec![Some(Type::Tensor(call.tensor("a")?.ty))])),
    vjp: Vjp::NonDiff,
    samples: &[Sample("T[2, 3]")],
    ..HOST
};

pub static PUT_GRAD: Op = Op {
    name: "prims.put_grad",
    doc: "Adds to the gradient of a value: only between the two halves of autodiff, never in a finished trace.",
    schema: "(a: Tensor, g: Tensor) -> ()",
    meta: Meta::Fn(|_| Ok(vec![])),
    vjp: Vjp::NonDiff,
    samples: &[Sample("T[2, 3], T[2, 3]")],
    ..HOST
};

pub static RETURN: Op = Op {
    name: "prims.return",
    doc: "In text, the `return` line; never a call.",
    schema: "(...) -> ()",
    meta: Meta::Fn(|_| Ok(vec![])),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Text),
    samples: &[],
    ..HOST
};

pub static SCAN: Op = Op {
    name: "prims.scan",
    doc: "A nested trace for each slice of `xs` along axis 0, in order or from the last to the first. It takes the carried values, a slice of each of `xs`, and `extra`; where it has one operand more, the number of the slice. It gives the next carried values, then what is stacked. Results: the last carried values, then the stacks, in the order of the slices.",
    schema: "(body: trace, init: any[], xs: any[], extra: any[], reverse: bool = false) -> any[]",
    host: Some(HostOp::Nested(Nested::Scan)),
    samples: &[],
    ..NESTED
};

pub static WHILE_LOOP: Op = Op {
    name: "prims.while_loop",
    doc: "A nested trace on the carried values, again and again while another says so.",
    schema: "(cond: trace, body: trace, carried: any[], extra: any[]) -> any[]",
    host: Some(HostOp::Nested(Nested::While { stacked: false })),
    samples: &[],
    ..NESTED
};

pub static WHILE_LOOP_STACKED: Op = Op {
    name: "prims.while_loop_stacked",
    doc: "As `prims.while_loop`, for its gradient: behind the last carried values stand, for each carried value, those that the trips began with, stacked (numbers as tensors without dims).",
    schema: "(cond: trace, body: trace, carried: any[], extra: any[]) -> any[]",
    host: Some(HostOp::Nested(Nested::While { stacked: true })),
    traits: Traits::HOST.and(Traits::DATA_SIZED),
    samples: &[],
    ..NESTED
};

pub static TORCH_ASSERT_ASYNC: Op = Op {
    name: "torch.assert_async",
    doc: "An error with the message where `cond` is false when it runs.",
    schema: "(cond: Tensor<b>, message: str = \"\") -> ()",
    level: Level::Composite(checked),
    meta: Meta::Fn(check_meta),
    vjp: Vjp::NonDiff,
    traits: Traits::EFFECT,
    aten: &[
        Aten {
            overloads: &["_assert_async.default"],
            import: Import::With(|b, call| assert_tensor(b, call, Arg::str(""))),
        },
        Aten {
            overloads: &["_assert_async.msg", "_functional_assert_async.msg"],
            import: Import::With(|b, call| {
                let message = call.arg("assert_msg")?.clone();
                assert_tensor(b, call, message)
            }),
        },
    ],
    samples: &[Sample("bool[]"), Sample("bool[], message=\"may not hold\"")],
    ..HOST
};

pub static TORCH_ASSERT_TENSOR_METADATA: Op = Op {
    name: "torch.assert_tensor_metadata",
    doc: "Dims, dtype and device of a tensor are as given; proved at import, then gone. Sizes that symbols leave open are checked with the concrete ones.",
    schema: "(a: Tensor, dims: dims?, strides: dims?, dtype: dtype?, *, device: device?) -> ()",
    level: Level::Composite(|b, call| {
        metadata_holds(call)?;
        let dims = call.tensor("a")?.dims().to_vec();
        for (d, wanted) in dims.iter().zip(call.opt_dims("dims")?.unwrap_or_default()) {
            if d.same(&wanted).is_none() {
                let equal = b.call("num.eq", vec![Arg::dim(d.clone()), Arg::dim(wanted.clone())])?.remove(0);
                b.call("prims.check", vec![equal, Arg::str(&format!("a dim must be {wanted}"))])?;
            }
        }
        Ok(vec![])
    }),
    meta: Meta::Fn(|call| {
        metadata_holds(call)?;
        Ok(vec![])
    }),
    vjp: Vjp::NonDiff,
    aten: &[Aten {
        overloads: &["_assert_tensor_metadata.default"],
        import: Import::With(|b, call| {
            let a = call.tensor(b, "a")?;
            if let Arg::Dtype(d) = call.arg("dtype")?
                && *d != a.dtype()
            {
                return Err(call.error(format!("the tensor is {}, the model wants {d}", a.dtype())));
            }
            // Strides are PyTorch's own and hold nothing here; dims are checked where they are bound.
            Ok(vec![])
        }),
    }],
    samples: &[
        Sample("T[2, 3], dims=[2, 3], strides=none, dtype=none"),
        Sample("f32[2], dims=none, strides=none, dtype=f32"),
    ],
    ..HOST
};

pub static TORCH_AUTOCAST: Op = Op {
    name: "torch.autocast",
    doc: "A nested trace under autocast; inlined at import, with the casts.",
    schema: "(device: str, dtype: dtype?, enabled: bool, body: trace, operands: any[]) -> any[]",
    level: Level::Composite(nested_only),
    samples: &[],
    ..INLINED
};

pub static TORCH_CHECKPOINT: Op = Op {
    name: "torch.checkpoint",
    doc: "A nested trace to be recomputed in the backward; inlined at import, with marks.",
    schema: "(body: trace, operands: any[]) -> any[]",
    level: Level::Composite(nested_only),
    samples: &[],
    ..INLINED
};

pub static TORCH_COND: Op = Op {
    name: "torch.cond",
    doc: "One of two nested traces on the operands.",
    schema: "(pred: Tensor<b>|num, then: trace, else: trace, operands: any[]) -> any[]",
    level: Level::Composite(|b, call| same_call(b, call, &COND)),
    samples: &[],
    ..INLINED
};

pub static TORCH_MAP: Op = Op {
    name: "torch.map",
    doc: "A nested trace for each slice of `xs` along axis 0; results stacked.",
    schema: "(body: trace, xs: Tensor[], extra: any[]) -> any[]",
    level: Level::Composite(|b, call| {
        let args = vec![call.raw("body")?, Arg::List(vec![]), call.raw("xs")?, call.raw("extra")?];
        scan_call(b, call, args)
    }),
    samples: &[],
    ..INLINED
};

pub static TORCH_SCAN: Op = Op {
    name: "torch.scan",
    doc: "A nested trace on carried values and each slice of `xs` along axis 0 in turn. Results: the last carried values, then the stacks.",
    schema: "(body: trace, init: any[], xs: Tensor[], extra: any[]) -> any[]",
    level: Level::Composite(|b, call| {
        let args = vec![call.raw("body")?, call.raw("init")?, call.raw("xs")?, call.raw("extra")?];
        scan_call(b, call, args)
    }),
    samples: &[],
    ..INLINED
};

pub static TORCH_SET_GRAD_ENABLED: Op = Op {
    name: "torch.set_grad_enabled",
    doc: "A nested trace with or without gradients; inlined at import, results detached.",
    schema: "(enabled: bool, body: trace, operands: any[]) -> any[]",
    level: Level::Composite(nested_only),
    samples: &[],
    ..INLINED
};

pub static TORCH_WHILE_LOOP: Op = Op {
    name: "torch.while_loop",
    doc: "A nested trace on the carried values, again and again while another says so.",
    schema: "(cond: trace, body: trace, carried: any[], extra: any[]) -> any[]",
    level: Level::Composite(|b, call| same_call(b, call, &WHILE_LOOP)),
    samples: &[],
    ..INLINED
};

/// Control flow, by what becomes of the nested traces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nested {
    /// One of two.
    Cond,
    /// One again and again while another says so.
    While {
        /// Also gives what each trip began with.
        stacked: bool,
    },
    /// One for each slice.
    Scan,
}

/// A call of control flow taken apart.
#[derive(Clone, PartialEq, Debug)]
pub enum Flow {
    /// `prims.cond`.
    Cond {
        /// A bool.
        pred: Arg,
        /// The trace where it is true.
        then: Name,
        /// The trace where it is not.
        otherwise: Name,
        /// What both take.
        operands: Vec<Arg>,
    },
    /// `prims.while_loop` and its stacked form.
    While {
        /// Gives a bool.
        cond: Name,
        /// Gives the next carried values.
        body: Name,
        /// What the first trip begins with.
        carried: Vec<Arg>,
        /// What each trip takes besides.
        extra: Vec<Arg>,
        /// Also gives what each trip began with.
        stacked: bool,
    },
    /// `prims.scan`.
    Scan {
        /// Gives the next carried values and what is stacked.
        body: Name,
        /// What the first trip begins with.
        init: Vec<Arg>,
        /// Tensors, of which each trip takes a slice.
        xs: Vec<Arg>,
        /// What each trip takes besides.
        extra: Vec<Arg>,
        /// From the last slice to the first?
        reverse: bool,
    },
}

impl Flow {
    /// The call of an op on `args` (schema order, complete); none for an op that runs no nested traces.
    pub fn of(op: &Op, args: &[Arg]) -> Option<Flow> {
        let Some(HostOp::Nested(kind)) = op.host else { return None };
        let trace = |at: usize| match args.get(at) {
            Some(Arg::Trace(name)) => Some(name.clone()),
            _ => None,
        };
        let list = |at: usize| match args.get(at) {
            Some(Arg::List(items)) => Some(items.clone()),
            _ => None,
        };
        Some(match kind {
            Nested::Cond => Flow::Cond {
                pred: args.first()?.clone(),
                then: trace(1)?,
                otherwise: trace(2)?,
                operands: list(3)?,
            },
            Nested::While { stacked } => {
                Flow::While { cond: trace(0)?, body: trace(1)?, carried: list(2)?, extra: list(3)?, stacked }
            }
            Nested::Scan => Flow::Scan {
                body: trace(0)?,
                init: list(1)?,
                xs: list(2)?,
                extra: list(3)?,
                reverse: args.get(4) == Some(&Arg::Bool(true)),
            },
        })
    }

    /// The nested traces, each with what it is given.
    pub fn traces(&self) -> Vec<&Name> {
        match self {
            Flow::Cond { then, otherwise, .. } => vec![then, otherwise],
            Flow::While { cond, body, .. } => vec![cond, body],
            Flow::Scan { body, .. } => vec![body],
        }
    }
}

/// The scan of these arguments and the call's results.
fn scan_call(b: &mut Builder<'_>, call: &Call, args: Vec<Arg>) -> Result<Vec<Arg>, OpError> {
    b.call_recorded(&SCAN, args, &call.results)
}
pub static TORCH_WITH_EFFECTS: Op = Op {
    name: "torch.with_effects",
    doc: "A call that is kept in order by a token; at import the call alone stays, where it stood.",
    schema: "(token: any, op: str, args: any[]) -> any[]",
    level: Level::Composite(nested_only),
    samples: &[],
    traits: Traits::HOST,
    ..INLINED
};

/// Types known from elsewhere only: those of the nested trace's results.
fn recorded(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    if call.results.is_empty() {
        return Err(call.error("its result types are those of its nested traces, and must be given"));
    }
    Ok(call.results.clone())
}

/// The prim of the same arguments and results.
fn same_call(b: &mut Builder<'_>, call: &Call, prim: &'static Op) -> Result<Vec<Arg>, OpError> {
    b.call_recorded(prim, call.raw_args(), &call.results)
}

/// What the importer inlines has no decomposition of its own: its body is another trace.
fn nested_only(_: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    Err(call.error("is inlined at import; it cannot stand in a trace that is taken apart"))
}

/// The op's own condition and message, checked when it runs.
fn checked(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    b.call("prims.check", vec![call.raw("cond")?, call.raw("message")?])?;
    Ok(vec![])
}

fn check_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    call.str("message")?;
    match call.operand("cond")? {
        Operand::Tensor(t)
            if t.dtype() != Dtype::Bool || !t.dims().iter().all(|d| d.same(&1.into()) != Some(false)) =>
        {
            Err(call.error(format!("`cond` must be one bool, found {}{}", t.dtype(), show(t.dims()))))
        }
        _ => Ok(vec![]),
    }
}

/// An error where the tensor is surely not as given.
fn metadata_holds(call: &Call) -> Result<(), OpError> {
    let a = call.tensor("a")?;
    if let Some(dtype) = call.opt_dtype("dtype")?
        && dtype != a.dtype()
    {
        return Err(call.error(format!("the tensor is {}, {dtype} is wanted", a.dtype())));
    }
    if let Some(dims) = call.opt_dims("dims")? {
        let fits = dims.len() == a.rank() && dims.iter().zip(a.dims()).all(|(x, y)| x.same(y) != Some(false));
        if !fits {
            return Err(call.error(format!("the tensor is {}, {} is wanted", show(a.dims()), show(&dims))));
        }
    }
    if call.has("device") && call.device("device")? != a.ty.device {
        return Err(call.error(format!(
            "the tensor is on {}, {} is wanted",
            a.ty.device,
            call.device("device")?
        )));
    }
    Ok(())
}

/// `_assert_async`: one element, asked whether it is zero.
fn assert_tensor(b: &mut Builder<'_>, call: &AtenCall, message: Arg) -> Result<Vec<Arg>, OpError> {
    let mut cond = call.tensor(b, "self")?;
    if cond.dtype() != Dtype::Bool {
        cond = b.tensor("torch.ne", vec![cond.arg(), Arg::Int(0)])?;
    }
    b.call("torch.assert_async", vec![cond.arg(), message])?;
    // The functional form gives its ordering token back.
    Ok(call.args.iter().filter(|a| a.name == "dep_token").map(|a| a.value.clone()).collect())
}

pub static SINK: Op = Op {
    name: "prims.sink",
    doc: "Keeps its arguments alive; never removed.",
    schema: "(...) -> ()",
    meta: Meta::Fn(|_| Ok(vec![])),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Text),
    ..HOST
};

pub static TORCH_ASSERT_SCALAR: Op = Op {
    name: "torch.assert_scalar",
    doc: "An assert of the model on a number: an error with the message where it is false.",
    schema: "(cond: num, message: str) -> ()",
    level: Level::Composite(checked),
    meta: Meta::Fn(check_meta),
    vjp: Vjp::NonDiff,
    traits: Traits::EFFECT,
    aten: &[
        Aten { overloads: &["_assert_scalar.default"], import: Import::Map("cond=self message=assert_msg") },
        Aten {
            overloads: &["_functional_assert_scalar.default"],
            import: Import::With(|b, call| {
                b.call(
                    "torch.assert_scalar",
                    vec![call.arg("self")?.clone(), call.arg("assert_msg")?.clone()],
                )?;
                Ok(vec![call.arg("dep_token")?.clone()])
            }),
        },
    ],
    samples: &[Sample("true, message=\"holds\"")],
    ..Op::BASE
};

pub static TORCH_CONSTRAIN_RANGE: Op = Op {
    name: "torch.constrain_range",
    doc: "An assert that a number lies between bounds, both included.",
    schema: "(n: num, *, min: int? = None, max: int? = None) -> ()",
    level: Level::Composite(|b, call| {
        for (bound, op, word) in [("min", "num.ge", "at least"), ("max", "num.le", "at most")] {
            if call.has(bound) {
                let holds = b.call(op, vec![call.raw("n")?, call.raw(bound)?])?;
                let limit = call.int(bound)?;
                b.call(
                    "prims.check",
                    vec![
                        holds.first().cloned().unwrap_or(Arg::Bool(true)),
                        Arg::str(&format!("a size must be {word} {limit}")),
                    ],
                )?;
            }
        }
        Ok(vec![])
    }),
    meta: Meta::Fn(|call| {
        call.num("n")?;
        call.opt_int("min")?;
        call.opt_int("max")?;
        Ok(vec![])
    }),
    vjp: Vjp::NonDiff,
    traits: Traits::EFFECT,
    aten: &[Aten {
        overloads: &["sym_constrain_range.default", "sym_constrain_range_for_size.default"],
        import: Import::Map("n=size min max"),
    }],
    samples: &[Sample("3, min=0"), Sample("3, min=2, max=7")],
    ..Op::BASE
};
