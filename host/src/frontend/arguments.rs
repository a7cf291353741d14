//! The file's arguments as arguments of a trace, by ATen's types.
//!
//! Matching is by name; what is not given has ATen's default. A number in a tensor's place stays a number, an integer in
//! a float's place becomes a float, one integer for `int[2]` stands for both.

use super::import::{Entity, Importer};
use super::pt2::graph::{Argument, Complex, Float, Node, NumberArg, OptionalTensor};
use super::{ModelError, ModelResult};
use crate::ir::{Arg, Type};
use crate::ops::AtenArg;
use crate::ops::aten_schema::{AtenBase, AtenParam, AtenSchema, AtenType, ListLength};

impl<'a> Importer<'a> {
    /// All arguments of a call, in ATen's order, defaults filled in.
    pub(super) fn arguments(&mut self, node: &'a Node, schema: &AtenSchema) -> ModelResult<Vec<AtenArg>> {
        if let Some(stray) =
            node.inputs.iter().find(|input| !schema.params.iter().any(|p| p.name == input.name))
        {
            return Err(self.argument_error(&stray.name, "is not in the operator's schema"));
        }
        schema.params.iter().map(|param| self.argument(node, param)).collect()
    }

    fn argument(&mut self, node: &'a Node, param: &AtenParam) -> ModelResult<AtenArg> {
        let given = node.inputs.iter().find(|input| input.name == param.name);
        let value = match given {
            Some(input) => self.typed_argument(param.name, &input.arg, param.ty)?,
            None => {
                let absent = param.ty.optional || carries_nothing(param.ty.base);
                let default = param.default.clone().or_else(|| absent.then_some(Arg::None));
                default.ok_or_else(|| self.argument_error(param.name, "is missing and has no default"))?
            }
        };
        Ok(AtenArg { name: param.name.to_owned(), value })
    }

    fn typed_argument(&mut self, name: &str, argument: &'a Argument, ty: AtenType) -> ModelResult<Arg> {
        if carries_nothing(ty.base) {
            return Ok(Arg::None);
        }
        let value = match argument {
            Argument::Tensor(name) => self.tensor_argument(name)?,
            Argument::Tensors(names) => Arg::List(self.tensor_arguments(names)?),
            Argument::OptionalTensor(tensor) => self.optional_tensor(name, tensor)?,
            Argument::OptionalTensors(tensors) => Arg::List(
                tensors.iter().map(|tensor| self.optional_tensor(name, tensor)).collect::<Result<_, _>>()?,
            ),
            other => self.plain_argument(name, other)?,
        };
        self.shaped(name, value, ty)
    }

    /// Lists of one, floats for integers, and a check that the kind is right.
    fn shaped(&self, name: &str, value: Arg, ty: AtenType) -> ModelResult<Arg> {
        if value.is_none() {
            let allowed = ty.optional || ty.base == AtenBase::Tensor;
            return if allowed { Ok(value) } else { Err(self.argument_error(name, "must not be absent")) };
        }
        match (ty.list, value) {
            (None, Arg::List(_)) => Err(self.argument_error(name, "is a list where one value is needed")),
            (None, one) => self.element(name, one, ty),
            (Some(ListLength::Fixed(n)), Arg::List(items)) if items.len() == 1 && n > 1 => {
                let one = self.element(name, items.into_iter().next().unwrap_or(Arg::None), ty)?;
                Ok(Arg::List(vec![one; usize::from(n)]))
            }
            (_, Arg::List(items)) => {
                let items =
                    items.into_iter().map(|item| self.element(name, item, ty)).collect::<Result<_, _>>()?;
                Ok(Arg::List(items))
            }
            (Some(ListLength::Fixed(n)), one) => {
                Ok(Arg::List(vec![self.element(name, one, ty)?; usize::from(n)]))
            }
            (Some(ListLength::Any), one) => Ok(Arg::List(vec![self.element(name, one, ty)?])),
        }
    }

    fn element(&self, name: &str, value: Arg, ty: AtenType) -> ModelResult<Arg> {
        if let Arg::Value(value) = value
            && ty.base != AtenBase::Tensor
            && matches!(self.trace.ty(value), Type::Tensor(_))
        {
            return Err(self.argument_error(name, "is a tensor where a number is needed"));
        }
        let right = match (ty.base, &value) {
            (AtenBase::Float, Arg::Int(n)) => return Ok(Arg::Float(*n as f64)),
            (AtenBase::Bool, Arg::Int(n @ 0..=1)) => return Ok(Arg::Bool(*n == 1)),
            (AtenBase::Tensor, Arg::None) => ty.gaps || ty.optional,
            (AtenBase::Tensor, Arg::Value(_)) => true,
            (AtenBase::Tensor, _) => ty.list.is_none() && is_number(&value),
            (AtenBase::Scalar, _) => is_number(&value),
            (AtenBase::Int | AtenBase::SymInt, Arg::Int(_) | Arg::Dim(_) | Arg::Value(_)) => true,
            (AtenBase::Float, Arg::Float(_) | Arg::Dim(_) | Arg::Value(_)) => true,
            (AtenBase::Bool, Arg::Bool(_) | Arg::Value(_)) => true,
            (AtenBase::Str, Arg::Str(_)) => true,
            (AtenBase::Dtype, Arg::Dtype(_)) => true,
            (AtenBase::Device, Arg::Device(_)) => true,
            (AtenBase::MemoryFormat, Arg::Int(_)) => true,
            _ => false,
        };
        if right {
            Ok(value)
        } else {
            Err(self.argument_error(name, format!("is of the wrong kind: {value:?}")))
        }
    }

    fn tensor_argument(&mut self, name: &str) -> ModelResult<Arg> {
        let tensor = self.lookup_tensor(name)?;
        self.read(tensor).map(Arg::Value)
    }

    fn tensor_arguments(&mut self, names: &[String]) -> ModelResult<Vec<Arg>> {
        names.iter().map(|name| self.tensor_argument(name)).collect()
    }

    fn optional_tensor(&mut self, name: &str, tensor: &OptionalTensor) -> ModelResult<Arg> {
        match tensor {
            OptionalTensor::Tensor(tensor) => self.tensor_argument(tensor),
            OptionalTensor::None => Ok(Arg::None),
            OptionalTensor::Unknown(tag) => {
                Err(self.argument_error(name, format!("is of an unknown kind `{tag}`")))
            }
        }
    }

    /// Everything that is no tensor.
    pub(super) fn plain_argument(&mut self, name: &str, argument: &Argument) -> ModelResult<Arg> {
        Ok(match argument {
            Argument::None => Arg::None,
            Argument::Int(n) => Arg::Int(*n),
            Argument::Ints(list) => Arg::ints(list.iter().copied()),
            Argument::IntLists(lists) => {
                Arg::List(lists.iter().map(|list| Arg::ints(list.iter().copied())).collect())
            }
            Argument::Float(x) => Arg::Float(*x),
            Argument::Floats(list) => floats(list),
            Argument::FloatLists(lists) => Arg::List(lists.iter().map(|list| floats(list)).collect()),
            Argument::Bool(b) => Arg::Bool(*b),
            Argument::Bools(list) => Arg::List(list.iter().copied().map(Arg::Bool).collect()),
            Argument::Str(text) => Arg::str(text),
            Argument::Strs(list) => Arg::List(list.iter().map(|text| Arg::str(text)).collect()),
            Argument::Complex(Complex { real: Float(real), imag: Float(imag) }) => Arg::Complex(*real, *imag),
            Argument::SymInt(number) => self.number(name, number, Arg::Int)?,
            Argument::SymFloat(number) => self.number(name, number, Arg::Float)?,
            Argument::SymBool(number) => self.number(name, number, Arg::Bool)?,
            Argument::SymInts(list) => self.numbers(name, list, Arg::Int)?,
            Argument::SymFloats(list) => self.numbers(name, list, Arg::Float)?,
            Argument::SymBools(list) => self.numbers(name, list, Arg::Bool)?,
            Argument::ScalarType(number) => Arg::Dtype(self.dtype(name, *number)?),
            Argument::Device(device) => Arg::Device(self.device(name, device)?),
            // Channels last and its three-dimensional form have the numbers that ATen gives them.
            Argument::MemoryFormat(number) => Arg::Int(*number),
            Argument::Layout(_) => Arg::None,
            // An empty list of whatever kind is spelled as one of tensors where there is no schema.
            Argument::Tensors(names) if names.is_empty() => Arg::List(Vec::new()),
            Argument::Unknown(tag) => {
                return Err(self.argument_error(name, format!("is of an unknown kind `{tag}`")));
            }
            other => {
                return Err(self
                    .argument_error(name, format!("is of kind `{}`, which is not supported", other.tag())));
            }
        })
    }

    fn numbers<T: Copy>(
        &mut self,
        name: &str,
        list: &[NumberArg<T>],
        known: fn(T) -> Arg,
    ) -> ModelResult<Arg> {
        list.iter().map(|number| self.number(name, number, known)).collect::<Result<_, _>>().map(Arg::List)
    }

    fn number<T: Copy>(
        &mut self,
        name: &str,
        number: &NumberArg<T>,
        known: fn(T) -> Arg,
    ) -> ModelResult<Arg> {
        match number {
            NumberArg::Value(value) => Ok(known(*value)),
            NumberArg::Name(name) => self.number_value(name),
            NumberArg::Unknown(tag) => {
                Err(self.argument_error(name, format!("is of an unknown kind `{tag}`")))
            }
        }
    }

    /// The number of that name, emitted now where it was only a closed form so far.
    pub(super) fn number_value(&mut self, name: &str) -> ModelResult<Arg> {
        match self.lookup(name)?.clone() {
            Entity::Number(arg) => Ok(arg),
            Entity::Closed(expr) => self.emit_closed(&expr),
            Entity::Tensor(_) => Err(self.argument_error(name, "is a tensor where a number is needed")),
        }
    }

    /// The names of the tensors in an argument, in order.
    pub(super) fn tensor_names(argument: &'a Argument) -> Vec<&'a str> {
        match argument {
            Argument::Tensor(name) | Argument::OptionalTensor(OptionalTensor::Tensor(name)) => vec![name],
            Argument::Tensors(names) => names.iter().map(String::as_str).collect(),
            _ => Vec::new(),
        }
    }

    /// An argument that must be there.
    pub(super) fn input_named(&self, node: &'a Node, name: &str) -> ModelResult<&'a Argument> {
        let found = node.inputs.iter().find(|input| input.name == name).map(|input| &input.arg);
        found.ok_or_else(|| ModelError::Argument {
            place: self.place(),
            name: name.to_owned(),
            why: "is missing".to_owned(),
        })
    }
}

/// Layouts and generators say nothing here.
fn carries_nothing(base: AtenBase) -> bool {
    matches!(base, AtenBase::Layout | AtenBase::Generator | AtenBase::Other)
}

fn is_number(value: &Arg) -> bool {
    matches!(
        value,
        Arg::Int(_) | Arg::Float(_) | Arg::Bool(_) | Arg::Complex(..) | Arg::Dim(_) | Arg::Value(_)
    )
}

fn floats(list: &[f64]) -> Arg {
    Arg::List(list.iter().copied().map(Arg::Float).collect())
}
