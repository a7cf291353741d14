//! A call as meta rules and decompositions see it: arguments by name, tensors with their types.

use super::build::{Num, Operand, Tensor};
use super::error::OpError;
use crate::ir::{Arg, Device, Dim, Dtype, Param, Schema, Trace, Type};

/// Arguments of one call in schema order, complete, with the types of the values they name.
pub struct Call {
    op: &'static str,
    schema: &'static Schema,
    args: Vec<Resolved>,
    /// The types that the call's results have in the trace, where they are known already (the model file's record, or
    /// the composite's own result while it is decomposed). Empty otherwise.
    pub results: Vec<Option<Type>>,
}

/// An argument with types instead of value ids.
#[derive(Clone, Debug)]
enum Resolved {
    Tensor(Tensor),
    Number(Num),
    Tensors(Vec<Option<Tensor>>),
    Plain(Arg),
}

impl Call {
    /// The call of `op` on `args` (schema order, complete).
    pub fn new(
        op: &'static str,
        schema: &'static Schema,
        trace: &Trace,
        args: &[Arg],
    ) -> Result<Call, OpError> {
        let fits = args.len() == schema.params.len() || schema.variadic && args.len() > schema.params.len();
        if !fits {
            let what = format!("{} arguments, its schema has {}", args.len(), schema.params.len());
            return Err(OpError { op: op.into(), what });
        }
        let args = args.iter().map(|a| resolve(trace, a)).collect();
        Ok(Call { op, schema, args, results: Vec::new() })
    }

    /// Name of the op.
    pub fn op(&self) -> &'static str {
        self.op
    }

    /// An error of this call.
    pub fn error(&self, what: impl Into<String>) -> OpError {
        OpError { op: self.op.into(), what: what.into() }
    }

    fn arg(&self, name: &str) -> Result<&Resolved, OpError> {
        let at = self.schema.index(name).ok_or_else(|| self.error(format!("has no parameter `{name}`")))?;
        Ok(&self.args[at])
    }

    /// Is the argument there?
    pub fn has(&self, name: &str) -> bool {
        self.arg(name).is_ok_and(|a| !matches!(a, Resolved::Plain(Arg::None)))
    }

    /// The argument as it stands in the trace.
    pub fn raw(&self, name: &str) -> Result<Arg, OpError> {
        Ok(self.arg(name)?.to_arg())
    }

    /// All arguments as they stand in the trace, schema order.
    pub fn raw_args(&self) -> Vec<Arg> {
        self.args.iter().map(Resolved::to_arg).collect()
    }

    /// A tensor.
    pub fn tensor(&self, name: &str) -> Result<Tensor, OpError> {
        self.opt_tensor(name)?.ok_or_else(|| self.error(format!("`{name}` is missing")))
    }

    /// A tensor that may be absent.
    pub fn opt_tensor(&self, name: &str) -> Result<Option<Tensor>, OpError> {
        match self.arg(name)? {
            Resolved::Tensor(t) => Ok(Some(t.clone())),
            Resolved::Plain(Arg::None) => Ok(None),
            other => Err(self.wrong(name, "a tensor", other)),
        }
    }

    /// A list of tensors without gaps.
    pub fn tensors(&self, name: &str) -> Result<Vec<Tensor>, OpError> {
        self.opt_tensors(name)?
            .into_iter()
            .map(|t| t.ok_or_else(|| self.error(format!("`{name}` has a gap"))))
            .collect()
    }

    /// A list of tensors with gaps.
    pub fn opt_tensors(&self, name: &str) -> Result<Vec<Option<Tensor>>, OpError> {
        match self.arg(name)? {
            Resolved::Tensors(ts) => Ok(ts.clone()),
            Resolved::Plain(Arg::List(l)) if l.is_empty() => Ok(Vec::new()),
            other => Err(self.wrong(name, "a list of tensors", other)),
        }
    }

    /// The first tensor of the call.
    pub fn first_tensor(&self) -> Result<&Tensor, OpError> {
        let first = self.args.iter().find_map(|a| match a {
            Resolved::Tensor(t) => Some(t),
            Resolved::Tensors(ts) => ts.iter().flatten().next(),
            _ => None,
        });
        first.ok_or_else(|| self.error("needs at least one tensor"))
    }

    /// Every tensor of the call, in schema order, lists flattened, gaps left out.
    pub fn all_tensors(&self) -> Vec<Tensor> {
        let mut all = Vec::new();
        for a in &self.args {
            match a {
                Resolved::Tensor(t) => all.push(t.clone()),
                Resolved::Tensors(ts) => all.extend(ts.iter().flatten().cloned()),
                _ => {}
            }
        }
        all
    }

    /// The dtype of each tensor with the parameter that it stands for, lists flattened.
    pub(super) fn tensor_dtypes(&self) -> impl Iterator<Item = (&'static Param, Dtype)> + '_ {
        self.schema.params.iter().zip(&self.args).flat_map(|(p, a)| {
            let tensors: &[Option<Tensor>] = match a {
                Resolved::Tensors(ts) => ts,
                _ => &[],
            };
            let single = match a {
                Resolved::Tensor(t) => Some(t.dtype()),
                _ => None,
            };
            single.into_iter().chain(tensors.iter().flatten().map(Tensor::dtype)).map(move |d| (p, d))
        })
    }

    /// The numbers that stand where a tensor might.
    pub(super) fn numbers_among_tensors(&self) -> impl Iterator<Item = Num> + '_ {
        self.schema.params.iter().zip(&self.args).filter(|(p, _)| p.ty.takes_tensor()).filter_map(|(_, a)| {
            match a {
                Resolved::Number(n) => Some(n.clone()),
                Resolved::Plain(a) => Num::from_arg(a),
                _ => None,
            }
        })
    }

    /// A tensor or a number.
    pub fn operand(&self, name: &str) -> Result<Operand, OpError> {
        self.opt_operand(name)?.ok_or_else(|| self.error(format!("`{name}` is missing")))
    }

    /// A tensor or a number that may be absent.
    pub fn opt_operand(&self, name: &str) -> Result<Option<Operand>, OpError> {
        match self.arg(name)? {
            Resolved::Tensor(t) => Ok(Some(Operand::Tensor(t.clone()))),
            Resolved::Plain(Arg::None) => Ok(None),
            _ => self.opt_num(name).map(|n| n.map(Operand::Num)),
        }
    }

    /// A number.
    pub fn num(&self, name: &str) -> Result<Num, OpError> {
        self.opt_num(name)?.ok_or_else(|| self.error(format!("`{name}` is missing")))
    }

    /// A number that may be absent.
    pub fn opt_num(&self, name: &str) -> Result<Option<Num>, OpError> {
        match self.arg(name)? {
            Resolved::Number(n) => Ok(Some(n.clone())),
            Resolved::Plain(Arg::None) => Ok(None),
            Resolved::Plain(a) => match Num::from_arg(a) {
                Some(n) => Ok(Some(n)),
                None => Err(self.wrong(name, "a number", &Resolved::Plain(a.clone()))),
            },
            other => Err(self.wrong(name, "a number", other)),
        }
    }

    /// A known integer.
    pub fn int(&self, name: &str) -> Result<i64, OpError> {
        self.opt_int(name)?.ok_or_else(|| self.error(format!("`{name}` is missing")))
    }

    /// A known integer that may be absent.
    pub fn opt_int(&self, name: &str) -> Result<Option<i64>, OpError> {
        match self.arg(name)? {
            Resolved::Plain(Arg::Int(n)) => Ok(Some(*n)),
            Resolved::Plain(Arg::None) => Ok(None),
            other => Err(self.wrong(name, "a known integer", other)),
        }
    }

    /// A bool.
    pub fn bool(&self, name: &str) -> Result<bool, OpError> {
        match self.arg(name)? {
            Resolved::Plain(Arg::Bool(b)) => Ok(*b),
            other => Err(self.wrong(name, "a bool", other)),
        }
    }

    /// Text.
    pub fn str(&self, name: &str) -> Result<&str, OpError> {
        match self.arg(name)? {
            Resolved::Plain(Arg::Str(s)) => Ok(s),
            other => Err(self.wrong(name, "a string", other)),
        }
    }

    /// A known float (an integer is taken as one).
    pub fn float(&self, name: &str) -> Result<f64, OpError> {
        match self.num(name)? {
            Num::Float(x) => Ok(x),
            Num::Int(n) => Ok(n as f64),
            _ => Err(self.error(format!("`{name}` must be a known number"))),
        }
    }

    /// A dtype that may be absent.
    pub fn opt_dtype(&self, name: &str) -> Result<Option<Dtype>, OpError> {
        match self.arg(name)? {
            Resolved::Plain(Arg::Dtype(d)) => Ok(Some(*d)),
            Resolved::Plain(Arg::None) => Ok(None),
            other => Err(self.wrong(name, "a dtype", other)),
        }
    }

    /// A dtype.
    pub fn dtype(&self, name: &str) -> Result<Dtype, OpError> {
        self.opt_dtype(name)?.ok_or_else(|| self.error(format!("`{name}` is missing")))
    }

    /// A device; absent: the CPU.
    pub fn device(&self, name: &str) -> Result<Device, OpError> {
        match self.arg(name)? {
            Resolved::Plain(Arg::Device(d)) => Ok(d.clone()),
            Resolved::Plain(Arg::None) => Ok(Device::Cpu),
            other => Err(self.wrong(name, "a device", other)),
        }
    }

    /// A size. A number value counts where it is known to equal an expression.
    pub fn dim(&self, name: &str) -> Result<Dim, OpError> {
        self.opt_dim(name)?.ok_or_else(|| self.error(format!("`{name}` is missing")))
    }

    /// A size that may be absent.
    pub fn opt_dim(&self, name: &str) -> Result<Option<Dim>, OpError> {
        match self.arg(name)? {
            Resolved::Plain(Arg::None) => Ok(None),
            other => match as_dim(other) {
                Some(d) => Ok(Some(d)),
                None => Err(self.wrong(name, "a size", other)),
            },
        }
    }

    /// A list of sizes (an absent one is an error).
    pub fn dims(&self, name: &str) -> Result<Vec<Dim>, OpError> {
        self.opt_dims(name)?.ok_or_else(|| self.error(format!("`{name}` is missing")))
    }

    /// A list of sizes that may be absent; one size alone is a list of one.
    pub fn opt_dims(&self, name: &str) -> Result<Option<Vec<Dim>>, OpError> {
        let arg = self.arg(name)?;
        let wrong = || self.wrong(name, "a list of sizes", arg);
        match arg {
            Resolved::Plain(Arg::None) => Ok(None),
            Resolved::Plain(Arg::List(items)) => items
                .iter()
                .map(|a| as_dim(&Resolved::Plain(a.clone())).ok_or_else(wrong))
                .collect::<Result<_, _>>()
                .map(Some),
            other => as_dim(other).map(|d| Some(vec![d])).ok_or_else(wrong),
        }
    }

    /// A list of known integers; one alone is a list of one.
    pub fn ints(&self, name: &str) -> Result<Vec<i64>, OpError> {
        self.opt_ints(name)?.ok_or_else(|| self.error(format!("`{name}` is missing")))
    }

    /// A list of known integers that may be absent.
    pub fn opt_ints(&self, name: &str) -> Result<Option<Vec<i64>>, OpError> {
        match self.opt_dims(name)? {
            None => Ok(None),
            Some(dims) => dims
                .iter()
                .map(|d| d.known().ok_or_else(|| self.error(format!("`{name}` must be known integers"))))
                .collect::<Result<_, _>>()
                .map(Some),
        }
    }

    /// An axis of a tensor of `rank` dims, made non-negative; a zero-dim tensor counts as of rank 1.
    pub fn axis(&self, name: &str, rank: usize) -> Result<usize, OpError> {
        self.canonical_axis(self.int(name)?, rank)
    }

    /// The axis made non-negative; a zero-dim tensor counts as of rank 1.
    pub fn canonical_axis(&self, axis: i64, rank: usize) -> Result<usize, OpError> {
        let n = rank.max(1) as i64;
        match axis {
            a if (0..n).contains(&a) => Ok(a as usize),
            a if (-n..0).contains(&a) => Ok((a + n) as usize),
            a => Err(self.error(format!("axis {a} is out of range for {rank} dims"))),
        }
    }

    /// Axes of a reduction, canonical and ascending; absent or empty: all.
    pub fn axes(&self, name: &str, rank: usize) -> Result<Vec<usize>, OpError> {
        let given = self.opt_ints(name)?.unwrap_or_default();
        if given.is_empty() {
            return Ok((0..rank).collect());
        }
        let mut axes = given.iter().map(|a| self.canonical_axis(*a, rank)).collect::<Result<Vec<_>, _>>()?;
        axes.sort_unstable();
        if axes.windows(2).any(|w| w[0] == w[1]) {
            return Err(self.error(format!("axes {given:?} repeat")));
        }
        axes.retain(|a| *a < rank);
        Ok(axes)
    }

    fn wrong(&self, name: &str, want: &str, found: &Resolved) -> OpError {
        let found = match found {
            Resolved::Tensor(_) => "a tensor".to_string(),
            Resolved::Tensors(_) => "a list of tensors".to_string(),
            Resolved::Number(_) => "a number known only at run time".to_string(),
            Resolved::Plain(a) => format!("{a:?}"),
        };
        self.error(format!("`{name}` must be {want}, found {found}"))
    }
}

impl Resolved {
    fn to_arg(&self) -> Arg {
        match self {
            Resolved::Tensor(t) => Arg::Value(t.id),
            Resolved::Number(n) => n.to_arg(),
            Resolved::Tensors(ts) => {
                Arg::List(ts.iter().map(|t| t.as_ref().map_or(Arg::None, |t| Arg::Value(t.id))).collect())
            }
            Resolved::Plain(a) => a.clone(),
        }
    }
}

fn resolve(trace: &Trace, arg: &Arg) -> Resolved {
    match arg {
        Arg::Value(v) => match trace.ty(*v) {
            Type::Tensor(ty) => Resolved::Tensor(Tensor { id: *v, ty: ty.clone() }),
            Type::Number(n) => Resolved::Number(Num::Value(*v, n.clone())),
        },
        Arg::List(items) => match tensor_list(trace, items) {
            Some(ts) => Resolved::Tensors(ts),
            None => Resolved::Plain(Arg::List(items.iter().map(|a| known_number(trace, a)).collect())),
        },
        other => Resolved::Plain(other.clone()),
    }
}

/// A list that holds at least one tensor and else only gaps.
fn tensor_list(trace: &Trace, items: &[Arg]) -> Option<Vec<Option<Tensor>>> {
    let mut any = false;
    let list = items
        .iter()
        .map(|a| match a {
            Arg::None => Some(None),
            Arg::Value(v) => {
                let ty = trace.ty(*v).tensor()?.clone();
                any = true;
                Some(Some(Tensor { id: *v, ty }))
            }
            _ => None,
        })
        .collect::<Option<Vec<_>>>()?;
    any.then_some(list)
}

/// A number value inside a list of sizes counts as the expression that it equals.
fn known_number(trace: &Trace, arg: &Arg) -> Arg {
    match arg {
        Arg::Value(v) => match trace.ty(*v) {
            Type::Number(n) => n.equals.clone().map_or_else(|| arg.clone(), Arg::dim),
            Type::Tensor(_) => arg.clone(),
        },
        Arg::List(items) => Arg::List(items.iter().map(|a| known_number(trace, a)).collect()),
        other => other.clone(),
    }
}

fn as_dim(arg: &Resolved) -> Option<Dim> {
    match arg {
        Resolved::Plain(Arg::Int(n)) => Some(Dim::Known(*n)),
        Resolved::Plain(Arg::Dim(d)) => Some(d.clone()),
        Resolved::Number(Num::Value(_, n)) => n.equals.clone(),
        _ => None,
    }
}
