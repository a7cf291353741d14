//! One ATen call as calls of the trace: through the op table's import entries, else as an opaque symbol.
//!
//! The table's meta rules infer every type; what the file records must not contradict them, and then is what the trace
//! prints. For opaque symbols the file's record is the truth. An opaque symbol has its arguments complete in ATen's
//! order; behind the results of its schema stand the new values of the arguments that it writes, unless a result
//! already is one (`foo_` returns what it wrote).
//! Deliberately not here: who shares memory with whom (`functionalize`).

use super::import::Importer;
use super::pt2::graph::{Argument, Node, NumberArg};
use super::{ModelError, ModelResult};
use crate::ir::{Arg, Bsym, NumKind, NumberType, Stmt, TensorType, Type, ValueId};
use crate::ops::{self, Aten, AtenArg, AtenCall, Op};

impl<'a> Importer<'a> {
    /// Emits the call; `types` are those that the file records for its results, lists flattened.
    pub(super) fn call(
        &mut self,
        overload: &str,
        args: Vec<AtenArg>,
        types: Vec<Option<Type>>,
    ) -> ModelResult<Vec<Arg>> {
        self.call_writes.clear();
        match ops::aten_owner(overload) {
            Some((op, aten)) => {
                self.table_call(op, aten, AtenCall { overload: overload.to_owned(), args, results: types })
            }
            None => {
                let args = args.into_iter().map(|arg| arg.value).collect();
                Ok(self.opaque_call(&format!("aten.{overload}"), args, Vec::new(), types))
            }
        }
    }

    fn table_call(&mut self, op: &'static Op, aten: &Aten, mut call: AtenCall) -> ModelResult<Vec<Arg>> {
        fill_factory_dtype(&mut call);
        let first_new = self.trace.values.len();
        let (given, writes) = self.emit(|b| {
            let given = ops::aten::import(b, op, aten, &call)?;
            Ok((given, b.take_written()))
        })?;
        self.call_writes = writes;
        let given: Vec<Arg> = given.into_iter().flat_map(flattened).collect();
        if given.len() < call.results.len() {
            let why =
                format!("`{}` gives {} results, the file has {}", op.name, given.len(), call.results.len());
            return Err(ModelError::Call { place: self.place(), why });
        }
        for (arg, recorded) in given.iter().zip(&call.results) {
            if let (Arg::Value(value), Some(recorded)) = (arg, recorded) {
                self.agree(*value, recorded, value.index() >= first_new)?;
            }
        }
        Ok(given)
    }

    /// A symbol that the table does not know.
    pub(super) fn opaque_call(
        &mut self,
        name: &str,
        args: Vec<Arg>,
        named: Vec<(crate::ir::Name, Arg)>,
        types: Vec<Option<Type>>,
    ) -> Vec<Arg> {
        let results: Vec<Option<ValueId>> = types.into_iter().map(|ty| ty.map(|ty| self.fresh(ty))).collect();
        let given = results.iter().map(|result| result.map_or(Arg::None, Arg::Value)).collect();
        let mut bsym = Bsym::new(name, args, results);
        bsym.named = named;
        bsym.notes = self.notes.clone();
        self.body.push(Stmt::Op(bsym));
        given
    }

    /// The op's type against the file's: a contradiction that no sizes can satisfy is an error; else a new value gets
    /// the file's dims, in whose symbols all later ones are written.
    fn agree(&mut self, value: ValueId, recorded: &Type, is_new: bool) -> ModelResult<()> {
        let found = self.trace.ty(value).clone();
        let agreed = match (&found, recorded) {
            (Type::Tensor(found), Type::Tensor(recorded)) => same_tensor(found, recorded),
            (Type::Number(found), Type::Number(recorded)) => found.kind == recorded.kind,
            _ => false,
        };
        if !agreed {
            return Err(ModelError::ResultMismatch {
                place: self.place(),
                name: self.trace.value(value).name.to_string(),
                found: show(&found),
                expected: show(recorded),
            });
        }
        if is_new {
            self.trace.values[value.index()].ty = match (found, recorded) {
                (Type::Tensor(found), Type::Tensor(recorded)) => Type::from(TensorType {
                    dims: recorded.dims.clone(),
                    dtype: found.dtype,
                    device: found.device.clone(),
                }),
                (_, recorded) => recorded.clone(),
            };
        }
        Ok(())
    }

    /// The recorded types of a node's results, lists flattened, with their names.
    pub(super) fn recorded(&mut self, node: &'a Node) -> ModelResult<Vec<Option<(&'a str, Type)>>> {
        let mut types = Vec::with_capacity(node.outputs.len());
        for output in &node.outputs {
            match output {
                Argument::None => types.push(None),
                Argument::Tensor(name) => types.push(Some(self.recorded_tensor(name)?)),
                Argument::Tensors(names) => {
                    for name in names {
                        types.push(Some(self.recorded_tensor(name)?));
                    }
                }
                Argument::SymInt(NumberArg::Name(name)) => {
                    let value = self.scope().graph.sym_int_values.get(name);
                    let value = value.ok_or_else(|| self.type_error(name, "the file has no entry for it"))?;
                    let equals = Some(self.size(value)?);
                    types.push(Some((name, Type::Number(NumberType { kind: NumKind::Int, equals }))));
                }
                Argument::SymFloat(NumberArg::Name(name)) => {
                    types.push(Some((name, Type::Number(NumberType { kind: NumKind::Float, equals: None }))));
                }
                Argument::SymBool(NumberArg::Name(name)) => {
                    types.push(Some((name, Type::Number(NumberType { kind: NumKind::Bool, equals: None }))));
                }
                other => {
                    let why = format!("of kind `{}` is not supported as a result", other.tag());
                    return Err(self.argument_error("result", why));
                }
            }
        }
        Ok(types)
    }

    fn recorded_tensor(&mut self, name: &'a str) -> ModelResult<(&'a str, Type)> {
        let meta = self.meta(name)?;
        Ok((name, self.tensor_type(name, meta)?.into()))
    }
}

/// A factory without a dtype makes what the file records: the default dtype was the exporting process's.
fn fill_factory_dtype(call: &mut AtenCall) {
    let takes_tensors = call.args.iter().any(|arg| {
        let mut any = false;
        arg.value.for_each_value(&mut |_| any = true);
        any
    });
    let Some(Some(Type::Tensor(result))) = call.results.first() else { return };
    let dtype = result.dtype;
    if let Some(arg) = call.args.iter_mut().find(|arg| arg.name == "dtype")
        && arg.value.is_none()
        && !takes_tensors
    {
        arg.value = Arg::Dtype(dtype);
    }
}

fn flattened(arg: Arg) -> Vec<Arg> {
    match arg {
        Arg::List(items) => items,
        one => vec![one],
    }
}

fn same_tensor(a: &TensorType, b: &TensorType) -> bool {
    a.dtype == b.dtype
        && a.dims.len() == b.dims.len()
        && a.dims.iter().zip(&b.dims).all(|(a, b)| a.same(b) != Some(false))
}

fn show(ty: &Type) -> String {
    match ty {
        Type::Tensor(ty) => format!("{}{}", ty.dtype, ops::meta::show(&ty.dims)),
        Type::Number(number) => number.kind.name().to_owned(),
    }
}
