//! An op as executors are asked about it: arguments by name and in full, tensors flattened.
//!
//! Invariants: `args` has one entry for each parameter of the schema, in its order; `inputs` lists each tensor that is
//! present in the same order, lists expanded; `outputs` each result that is present. A kernel's run gets its operands
//! in exactly this order, and its numbers in the order of `slots`.

use crate::ir::trace::origin;
use crate::ir::{Arg, Bsym, Device, Dim, Dtype, Name, NumKind, Schemas, Trace, Type, ValueId};

/// A question: this op, on these tensors.
#[derive(Clone, Debug, PartialEq)]
pub struct OpSpec {
    /// `torch.softmax`.
    pub op: Name,
    /// Where it stands: the model's node, or the value's name.
    pub origin: Name,
    /// Arguments by name.
    pub args: Vec<(Name, SpecArg)>,
    /// Tensors among them.
    pub inputs: Vec<TensorSpec>,
    /// Results that are present.
    pub outputs: Vec<TensorSpec>,
    /// Numbers known only when run: the value and its kind.
    pub slots: Vec<(ValueId, NumKind)>,
}

/// An argument.
#[derive(Clone, Debug, PartialEq)]
pub enum SpecArg {
    /// Absent.
    None,
    /// A tensor: index into `inputs`.
    Tensor(usize),
    /// Tensors: indices into `inputs`, with gaps.
    Tensors(Vec<Option<usize>>),
    /// i64.
    Int(i64),
    /// f64.
    Float(f64),
    /// A bool.
    Bool(bool),
    /// Text.
    Str(Name),
    /// A complex number.
    Complex(f64, f64),
    /// A dtype.
    Dtype(Dtype),
    /// A device.
    Device(Device),
    /// Integers: known, or as dims that are not known yet, or in a slot.
    Ints(Vec<SpecInt>),
    /// Floats.
    Floats(Vec<f64>),
    /// Bools.
    Bools(Vec<bool>),
    /// Lists of integers.
    Lists(Vec<Vec<i64>>),
    /// Texts.
    Strs(Vec<Name>),
    /// A number known only when run: index into `slots`.
    Number(usize),
    /// A size that is not known yet.
    Unknown,
}

/// One integer of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecInt {
    /// Known.
    Known(i64),
    /// Known before a kernel is made, not now.
    Unknown,
    /// Known when run: index into `slots`.
    Slot(usize),
}

/// A tensor operand.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorSpec {
    /// The value.
    pub value: ValueId,
    /// Element type.
    pub dtype: Dtype,
    /// Where it lives.
    pub device: Device,
    /// Sizes.
    pub dims: Vec<Dim>,
    /// Strides in elements, once they are decided.
    pub strides: Option<Vec<i64>>,
    /// The id of the parameter, buffer or constant that it is; 0: none.
    pub constant: u64,
}

/// What cannot be put as a question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("argument `{arg}` of `{op}` cannot be given to an executor: {why}")]
pub struct SpecError {
    /// The op.
    pub op: String,
    /// The argument.
    pub arg: String,
    /// The reason.
    pub why: String,
}

impl OpSpec {
    /// The question for `bsym`. Strides are left open; whoever knows them fills them in.
    pub fn of(trace: &Trace, bsym: &Bsym, schemas: &dyn Schemas) -> Result<OpSpec, SpecError> {
        let mut spec = OpSpec {
            op: bsym.op.clone(),
            origin: origin(trace, bsym),
            args: Vec::with_capacity(bsym.args.len() + bsym.named.len()),
            inputs: Vec::new(),
            outputs: Vec::with_capacity(bsym.results.len()),
            slots: Vec::new(),
        };
        let schema = schemas.schema(&bsym.op);
        for (i, arg) in bsym.args.iter().enumerate() {
            let name =
                schema.and_then(|s| s.params.get(i)).map_or_else(|| Name::from(""), |p| p.name.clone());
            let arg = spec.arg(trace, &name, arg)?;
            spec.args.push((name, arg));
        }
        for (name, arg) in &bsym.named {
            let arg = spec.arg(trace, name, arg)?;
            spec.args.push((name.clone(), arg));
        }
        for v in bsym.defined() {
            if let Type::Tensor(_) = trace.ty(v) {
                let t = tensor_spec(trace, v);
                spec.outputs.push(t);
            }
        }
        Ok(spec)
    }

    fn arg(&mut self, trace: &Trace, name: &Name, arg: &Arg) -> Result<SpecArg, SpecError> {
        Ok(match arg {
            Arg::None => SpecArg::None,
            Arg::Int(n) => SpecArg::Int(*n),
            Arg::Float(x) => SpecArg::Float(*x),
            Arg::Bool(b) => SpecArg::Bool(*b),
            Arg::Str(s) => SpecArg::Str(s.clone()),
            Arg::Complex(a, b) => SpecArg::Complex(*a, *b),
            Arg::Dtype(d) => SpecArg::Dtype(*d),
            Arg::Device(d) => SpecArg::Device(d.clone()),
            Arg::Dim(_) => SpecArg::Unknown,
            Arg::Value(v) => match trace.ty(*v) {
                Type::Tensor(_) => SpecArg::Tensor(self.input(trace, *v)),
                Type::Number(n) => match n.equals.as_ref().map(Dim::known) {
                    Some(Some(k)) => SpecArg::Int(k),
                    Some(None) => SpecArg::Unknown,
                    None => SpecArg::Number(self.slot(*v, n.kind)),
                },
            },
            Arg::List(items) => self.list(trace, name, items)?,
            Arg::Trace(t) => return Err(self.error(name, format!("it is the nested trace `{t}`"))),
        })
    }

    fn list(&mut self, trace: &Trace, name: &Name, items: &[Arg]) -> Result<SpecArg, SpecError> {
        let is_tensor = |a: &Arg| a.value().is_some_and(|v| trace.ty(v).tensor().is_some());
        if items.iter().any(is_tensor) {
            return items
                .iter()
                .map(|a| match a {
                    Arg::None => Ok(None),
                    Arg::Value(v) if is_tensor(a) => Ok(Some(self.input(trace, *v))),
                    _ => Err(self.error(name, "tensors stand beside other things in a list".into())),
                })
                .collect::<Result<Vec<_>, _>>()
                .map(SpecArg::Tensors);
        }
        Ok(match items.first() {
            Some(Arg::Float(_)) => SpecArg::Floats(
                items.iter().map(as_float).collect::<Option<_>>().ok_or_else(|| self.mixed(name))?,
            ),
            Some(Arg::Bool(_)) => SpecArg::Bools(
                items
                    .iter()
                    .map(|a| if let Arg::Bool(b) = a { Some(*b) } else { None })
                    .collect::<Option<_>>()
                    .ok_or_else(|| self.mixed(name))?,
            ),
            Some(Arg::Str(_)) => SpecArg::Strs(
                items
                    .iter()
                    .map(|a| if let Arg::Str(s) = a { Some(s.clone()) } else { None })
                    .collect::<Option<_>>()
                    .ok_or_else(|| self.mixed(name))?,
            ),
            Some(Arg::List(_)) => SpecArg::Lists(
                items.iter().map(known_ints).collect::<Option<_>>().ok_or_else(|| self.mixed(name))?,
            ),
            _ => {
                let mut ints = Vec::with_capacity(items.len());
                for a in items {
                    ints.push(match self.arg(trace, name, a)? {
                        SpecArg::Int(n) => SpecInt::Known(n),
                        SpecArg::Unknown => SpecInt::Unknown,
                        SpecArg::Number(slot) => SpecInt::Slot(slot),
                        SpecArg::Float(_) => return self.list_of_floats(name, items),
                        _ => return Err(self.mixed(name)),
                    });
                }
                SpecArg::Ints(ints)
            }
        })
    }

    fn list_of_floats(&self, name: &Name, items: &[Arg]) -> Result<SpecArg, SpecError> {
        items.iter().map(as_float).collect::<Option<_>>().map(SpecArg::Floats).ok_or_else(|| self.mixed(name))
    }

    fn input(&mut self, trace: &Trace, v: ValueId) -> usize {
        self.inputs.push(tensor_spec(trace, v));
        self.inputs.len() - 1
    }

    fn slot(&mut self, v: ValueId, kind: NumKind) -> usize {
        if let Some(at) = self.slots.iter().position(|(w, _)| *w == v) {
            return at;
        }
        self.slots.push((v, kind));
        self.slots.len() - 1
    }

    fn mixed(&self, name: &Name) -> SpecError {
        self.error(name, "things of several kinds stand in one list".into())
    }

    fn error(&self, name: &Name, why: String) -> SpecError {
        SpecError { op: self.op.to_string(), arg: name.to_string(), why }
    }
}

fn tensor_spec(trace: &Trace, v: ValueId) -> TensorSpec {
    let ty = trace.ty(v).tensor().expect("callers ask for tensors only");
    TensorSpec {
        value: v,
        dtype: ty.dtype,
        device: ty.device.clone(),
        dims: ty.dims.clone(),
        strides: None,
        constant: 0,
    }
}

fn as_float(a: &Arg) -> Option<f64> {
    match a {
        Arg::Float(x) => Some(*x),
        Arg::Int(n) => Some(*n as f64),
        _ => None,
    }
}

fn known_ints(a: &Arg) -> Option<Vec<i64>> {
    let Arg::List(items) = a else { return None };
    items.iter().map(|a| if let Arg::Int(n) = a { Some(*n) } else { None }).collect()
}
