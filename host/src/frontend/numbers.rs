//! Symbolic numbers: `sym_size`, `_operator.*` and their like, and the model's assertions.
//!
//! The file gives the closed form of every symbolic number, so the nodes that compute one are not followed: a form that
//! a dim can say is one, any other stays a form and becomes `num.*` ops when somebody needs its value.
//! An assertion that the ranges of the inputs prove is dropped; what depends on data is kept as `prims.check`.

use super::import::{Entity, Importer};
use super::pt2::expr::{Expr, Func};
use super::pt2::graph::{Argument, Node, NumberArg, SymBool, SymFloat, SymInt};
use super::{ModelError, ModelResult};
use crate::ir::{Arg, Device, Dim, Dtype, NumKind, NumberType, Symbol, Type};

impl<'a> Importer<'a> {
    /// Defines the number results of a node by their closed forms.
    pub(super) fn define_closed_forms(&mut self, node: &'a Node) -> ModelResult<()> {
        for output in &node.outputs {
            let (name, entity) = match output {
                Argument::SymInt(NumberArg::Name(name)) => (name, self.closed_int(name)?),
                Argument::SymFloat(NumberArg::Name(name)) => (name, self.closed_float(name)?),
                Argument::SymBool(NumberArg::Name(name)) => (name, self.closed_bool(name)?),
                other => {
                    let why = format!("of kind `{}` is not a number", other.tag());
                    return Err(self.argument_error("result", why));
                }
            };
            self.define(name, entity)?;
        }
        Ok(())
    }

    fn closed_int(&mut self, name: &str) -> ModelResult<Entity> {
        let value = self.scope().graph.sym_int_values.get(name);
        let value = value.ok_or_else(|| self.type_error(name, "the file has no entry for it"))?;
        // One that no dim can say becomes a symbol of its own at once: sizes may be made of it.
        self.size(value).map(|dim| Entity::Number(Arg::dim(dim)))
    }

    fn closed_float(&mut self, name: &str) -> ModelResult<Entity> {
        let value = self.scope().graph.sym_float_values.get(name);
        match value.ok_or_else(|| self.type_error(name, "the file has no entry for it"))? {
            SymFloat::Float(x) => Ok(Entity::Number(Arg::Float(*x))),
            SymFloat::Expr(sym) => Ok(Entity::Closed(Box::new(Expr::parse(&sym.expr_str)?))),
            SymFloat::Unknown(tag) => Err(self.type_error(name, format!("its kind `{tag}` is unknown"))),
        }
    }

    fn closed_bool(&mut self, name: &str) -> ModelResult<Entity> {
        let value = self.scope().graph.sym_bool_values.get(name);
        match value.ok_or_else(|| self.type_error(name, "the file has no entry for it"))? {
            SymBool::Bool(b) => Ok(Entity::Number(Arg::Bool(*b))),
            SymBool::Expr(sym) => Ok(Entity::Closed(Box::new(Expr::parse(&sym.expr_str)?))),
            SymBool::Unknown(tag) => Err(self.type_error(name, format!("its kind `{tag}` is unknown"))),
        }
    }

    /// The value of a closed form, by `num.*` ops; forms met before are not computed again.
    pub(super) fn emit_closed(&mut self, expr: &Expr) -> ModelResult<Arg> {
        match expr {
            Expr::Int(n) => return Ok(Arg::Int(*n)),
            Expr::Float(x) => return Ok(Arg::Float(*x)),
            Expr::Bool(b) => return Ok(Arg::Bool(*b)),
            Expr::Symbol(name) => return self.symbol_value(name),
            Expr::Ratio(n, d) => return self.num("num.truediv", vec![Arg::Int(*n), Arg::Int(*d)]),
            Expr::Call(..) => {}
        }
        if let Some(dim) = self.symbols.dim(expr) {
            return Ok(Arg::dim(dim));
        }
        let key = format!("{expr:?}");
        if let Some(known) = self.closed_values.get(&key) {
            return Ok(known.clone());
        }
        let Expr::Call(func, args) = expr else { return Err(self.no_number_op("a literal")) };
        let args = args.iter().map(|arg| self.emit_closed(arg)).collect::<ModelResult<Vec<Arg>>>()?;
        let value = self.emit_function(*func, args)?;
        self.closed_values.insert(key, value.clone());
        Ok(value)
    }

    fn symbol_value(&mut self, name: &str) -> ModelResult<Arg> {
        if let Some(value) = self.number_values.get(name) {
            return Ok(Arg::Value(*value));
        }
        let symbol = self.symbols.symbol(name);
        symbol
            .map(|symbol| Arg::dim(Dim::symbol(symbol)))
            .ok_or_else(|| ModelError::ValueUndefined { place: self.place(), name: name.to_owned() })
    }

    fn emit_function(&mut self, func: Func, args: Vec<Arg>) -> ModelResult<Arg> {
        let op = match func {
            Func::Add => return self.fold_num("num.add", args),
            Func::Mul => return self.fold_num("num.mul", args),
            Func::Max => return self.fold_num("num.max", args),
            Func::Min => return self.fold_num("num.min", args),
            Func::And => return self.fold_num("num.and", args),
            Func::Or => return self.fold_num("num.or", args),
            Func::Identity => return args.into_iter().next().ok_or_else(|| self.no_number_op("Identity")),
            Func::CeilDiv => return self.ceil_div(args),
            Func::ModularIndexing => {
                let [a, b, c] =
                    <[Arg; 3]>::try_from(args).map_err(|_| self.no_number_op("ModularIndexing"))?;
                let quotient = self.num("num.floordiv", vec![a, b])?;
                return self.num("num.mod", vec![quotient, c]);
            }
            Func::TruncToFloat => {
                let whole = self.num("num.int", args)?;
                return self.num("num.float", vec![whole]);
            }
            Func::Pow | Func::FloatPow | Func::PowByNatural => "num.pow",
            Func::FloorDiv | Func::CleanDiv => "num.floordiv",
            Func::Mod | Func::PythonMod => "num.mod",
            Func::IntTrueDiv | Func::FloatTrueDiv => "num.truediv",
            Func::ToFloat => "num.float",
            Func::TruncToInt => "num.int",
            Func::FloorToInt => "num.floor",
            Func::CeilToInt => "num.ceil",
            Func::LShift => "num.lshift",
            Func::RShift => "num.rshift",
            Func::Where => "num.ite",
            Func::Equality => "num.eq",
            Func::Unequality => "num.ne",
            Func::StrictLessThan => "num.lt",
            Func::LessThan => "num.le",
            Func::StrictGreaterThan => "num.gt",
            Func::GreaterThan => "num.ge",
            Func::Not => "num.not",
            Func::Sqrt => "num.sqrt",
            Func::RoundToInt => {
                let whole = self.of_tensor("prims.round", args)?;
                return self.num("num.int", vec![whole]);
            }
            Func::Cos => return self.of_tensor("prims.cos", args),
            Func::Cosh => return self.of_tensor("prims.cosh", args),
            Func::Sin => return self.of_tensor("prims.sin", args),
            Func::Sinh => return self.of_tensor("prims.sinh", args),
            Func::Tan => return self.of_tensor("prims.tan", args),
            Func::Tanh => return self.of_tensor("prims.tanh", args),
            Func::Asin => return self.of_tensor("prims.asin", args),
            Func::Acos => return self.of_tensor("prims.acos", args),
            Func::Atan => return self.of_tensor("prims.atan", args),
            Func::Asinh => return self.of_tensor("prims.asinh", args),
            Func::Exp => return self.of_tensor("prims.exp", args),
            Func::Log => return self.of_tensor("prims.log", args),
            Func::Log2 => return self.of_tensor("prims.log2", args),
            Func::RoundDecimal => return Err(self.no_number_op(func.name())),
        };
        self.num(op, args)
    }

    fn fold_num(&mut self, op: &str, args: Vec<Arg>) -> ModelResult<Arg> {
        let mut args = args.into_iter();
        let mut value = args.next().ok_or_else(|| self.no_number_op(op))?;
        for next in args {
            value = self.num(op, vec![value, next])?;
        }
        Ok(value)
    }

    /// `-(-a // b)`.
    fn ceil_div(&mut self, args: Vec<Arg>) -> ModelResult<Arg> {
        let [a, b] = <[Arg; 2]>::try_from(args).map_err(|_| self.no_number_op("CeilDiv"))?;
        let negative = self.num("num.mul", vec![a, Arg::Int(-1)])?;
        let quotient = self.num("num.floordiv", vec![negative, b])?;
        self.num("num.mul", vec![quotient, Arg::Int(-1)])
    }

    fn num(&mut self, op: &str, args: Vec<Arg>) -> ModelResult<Arg> {
        let mut results = self.emit(|b| b.call(op, args))?;
        match results.len() {
            1 => Ok(results.remove(0)),
            _ => Err(self.no_number_op(op)),
        }
    }

    /// A function that numbers do not have, of a tensor without dims, and its element.
    fn of_tensor(&mut self, op: &str, args: Vec<Arg>) -> ModelResult<Arg> {
        let [value] = <[Arg; 1]>::try_from(args).map_err(|_| self.no_number_op(op))?;
        let value = self.num("num.float", vec![value])?;
        self.emit(|b| {
            let args = vec![Arg::dims(&[]), value, Arg::Dtype(Dtype::F64), Arg::Device(Device::Cpu)];
            let tensor = b.tensor("prims.full", args)?;
            let tensor = b.tensor(op, vec![tensor.arg()])?;
            Ok(b.call("prims.item", vec![tensor.arg()])?.remove(0))
        })
    }

    fn no_number_op(&self, what: &str) -> ModelError {
        ModelError::Call {
            place: self.place(),
            why: format!("symbolic arithmetic with `{what}` is not supported"),
        }
    }

    /// Ties a fresh `u` symbol to the expression that a dim cannot say: its value is an integer that equals the symbol.
    pub(super) fn define_symbol(&mut self, symbol: Symbol, expr: &Expr) -> ModelResult<()> {
        let value = self.emit_closed(expr)?;
        let equals = Some(Dim::symbol(symbol));
        let ty = Type::Number(NumberType { kind: NumKind::Int, equals });
        match value {
            Arg::Value(value) if is_number_of(self.trace.ty(value), NumKind::Int) => {
                self.trace.values[value.index()].ty = ty;
            }
            other => {
                let whole = self.num("num.int", vec![other])?;
                let Arg::Value(value) = whole else { return Err(self.no_number_op("num.int")) };
                self.trace.values[value.index()].ty = ty;
            }
        }
        Ok(())
    }

    /// The number results of a node that reads them from data: the symbols that the file gives them are theirs.
    pub(super) fn define_data_number(
        &mut self,
        output: &'a Argument,
        value: crate::ir::ValueId,
    ) -> ModelResult<()> {
        let graph = self.scope().graph;
        let (name, text) = match output {
            Argument::SymInt(NumberArg::Name(name)) => match graph.sym_int_values.get(name) {
                Some(SymInt::Expr(sym)) => (name, Some(&sym.expr_str)),
                _ => (name, None),
            },
            Argument::SymFloat(NumberArg::Name(name)) => match graph.sym_float_values.get(name) {
                Some(SymFloat::Expr(sym)) => (name, Some(&sym.expr_str)),
                _ => (name, None),
            },
            Argument::SymBool(NumberArg::Name(name)) => match graph.sym_bool_values.get(name) {
                Some(SymBool::Expr(sym)) => (name, Some(&sym.expr_str)),
                _ => (name, None),
            },
            other => {
                return Err(
                    self.argument_error("result", format!("is `{}`, a number is needed", other.tag()))
                );
            }
        };
        if let Some(text) = text
            && let Expr::Symbol(symbol) = Expr::parse(text)?
        {
            self.number_values.insert(symbol, value);
        }
        self.define(name, Entity::Number(Arg::Value(value)))
    }

    /// A float that the program takes: its symbol, by which closed forms know it, is that value.
    pub(super) fn name_float_input(&mut self, name: &str, value: crate::ir::ValueId) -> ModelResult<()> {
        let text = match self.scope().graph.sym_float_values.get(name) {
            Some(SymFloat::Expr(sym)) => &sym.expr_str,
            _ => return Ok(()),
        };
        if let Expr::Symbol(symbol) = Expr::parse(text)? {
            self.number_values.insert(symbol, value);
        }
        Ok(())
    }

    /// `_assert_scalar`, `_assert_async`, `sym_constrain_range`, …: true where the node was one of them.
    pub(super) fn assertion(&mut self, node: &'a Node, overload: &str) -> ModelResult<bool> {
        match overload {
            "_assert_tensor_metadata.default" => self.assert_metadata(node)?,
            "_assert_scalar.default" => {
                let message = self.message(node, "assert_msg");
                let condition = self.input_named(node, "self")?;
                self.assert_condition(condition, &message)?;
            }
            "_assert_async.default" | "_assert_async.msg" => {
                let message = self.message(node, "assert_msg");
                let condition = self.checked_tensor(node, "self")?;
                self.check(condition, &message)?;
            }
            "_linalg_check_errors.default" => {
                let (info, what) = (self.checked_tensor(node, "info")?, self.message(node, "api_name"));
                self.assert_no_error_codes(info, &what)?;
            }
            "sym_constrain_range.default" | "sym_constrain_range_for_size.default" => {
                self.assert_range(node, overload)?
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn message(&self, node: &Node, name: &str) -> String {
        let given = node.inputs.iter().find(|input| input.name == name);
        match given.map(|input| &input.arg) {
            Some(Argument::Str(text)) => text.clone(),
            _ => "an assertion of the model failed".to_owned(),
        }
    }

    /// Types are part of the trace, so this is proved or refuted now; sizes against sizes that are only assumed equal
    /// are checked with all others when sizes are known.
    fn assert_metadata(&mut self, node: &'a Node) -> ModelResult<()> {
        let Argument::Tensor(name) = self.input_named(node, "a")? else {
            return Err(self.argument_error("a", "must be a tensor"));
        };
        let tensor = self.lookup_tensor(name)?;
        let value = self.read(tensor)?;
        let Type::Tensor(ty) = self.trace.ty(value).clone() else { return Ok(()) };
        for input in &node.inputs {
            match (input.name.as_str(), &input.arg) {
                ("dtype", Argument::ScalarType(number)) => {
                    let expected = self.dtype(name, *number)?;
                    if expected != ty.dtype {
                        return Err(self.refuted(format!("`{name}` is {}, not {expected}", ty.dtype)));
                    }
                }
                ("size", argument @ (Argument::Ints(_) | Argument::SymInts(_))) => {
                    let Arg::List(sizes) = self.plain_argument("size", argument)? else { continue };
                    let differ = sizes.len() != ty.dims.len()
                        || sizes.iter().zip(&ty.dims).any(|(size, dim)| match size {
                            Arg::Int(n) => dim.known().is_some_and(|known| known != *n),
                            Arg::Dim(size) => size.same(dim) == Some(false),
                            _ => false,
                        });
                    if differ {
                        return Err(self.refuted(format!("`{name}` has other sizes")));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn refuted(&self, message: String) -> ModelError {
        ModelError::Assertion { place: self.place(), message }
    }

    fn assert_condition(&mut self, condition: &'a Argument, message: &str) -> ModelResult<()> {
        let entity = match condition {
            Argument::Bool(b) | Argument::SymBool(NumberArg::Value(b)) => Entity::Number(Arg::Bool(*b)),
            Argument::Int(n) | Argument::SymInt(NumberArg::Value(n)) => Entity::Number(Arg::Bool(*n != 0)),
            Argument::SymBool(NumberArg::Name(name))
            | Argument::SymInt(NumberArg::Name(name))
            | Argument::SymFloat(NumberArg::Name(name)) => self.lookup(name)?.clone(),
            other => {
                return Err(self.argument_error("self", format!("is `{}`, a number is needed", other.tag())));
            }
        };
        match entity {
            Entity::Number(Arg::Bool(true)) => Ok(()),
            Entity::Number(Arg::Bool(false)) => Err(self.refuted(message.to_owned())),
            Entity::Number(number) => self.check(number, message),
            Entity::Tensor(_) => Err(self.argument_error("self", "is a tensor where a number is needed")),
            Entity::Closed(expr) => self.assert_closed(&expr, message),
        }
    }

    fn assert_closed(&mut self, condition: &Expr, message: &str) -> ModelResult<()> {
        match self.symbols.decide(condition) {
            Some(true) => Ok(()),
            Some(false) => Err(self.refuted(message.to_owned())),
            None => {
                let value = self.emit_closed(condition)?;
                self.check(value, message)
            }
        }
    }

    /// `min <= size <= max`. The range of an input's symbol is checked when it is bound; one that depends on data is
    /// kept here.
    fn assert_range(&mut self, node: &'a Node, overload: &str) -> ModelResult<()> {
        let size = self.input_named(node, "size")?;
        let size = self.plain_argument("size", size)?;
        let depends_on_data = match &size {
            Arg::Dim(dim) => dim.depends_on_data(),
            Arg::Value(_) => true,
            _ => false,
        };
        if !depends_on_data {
            return Ok(());
        }
        let for_size = overload.starts_with("sym_constrain_range_for_size");
        let bound =
            |name: &str| match node.inputs.iter().find(|input| input.name == name).map(|input| &input.arg) {
                Some(Argument::Int(n)) => Some(*n),
                _ => None,
            };
        let low = bound("min").or(for_size.then_some(0));
        for (op, limit) in [("num.ge", low), ("num.le", bound("max"))] {
            if let Some(limit) = limit.filter(|limit| *limit != i64::MAX && *limit != i64::MIN) {
                let holds = self.num(op, vec![size.clone(), Arg::Int(limit)])?;
                let sign = if op == "num.ge" { ">=" } else { "<=" };
                self.check(holds, &format!("a size that depends on data must be {sign} {limit}"))?;
            }
        }
        Ok(())
    }

    fn assert_no_error_codes(&mut self, info: Arg, what: &str) -> ModelResult<()> {
        let fine = self.emit(|b| {
            let equal = b.tensor("torch.eq", vec![info, Arg::Int(0)])?;
            b.tensor("torch.all", vec![equal.arg()])
        })?;
        self.check(fine.arg(), &format!("{what} failed: the matrix is singular or not positive definite"))
    }

    /// A call that a token keeps in order: nodes are walked in order anyway, so the token is nothing. Met around the
    /// check of error codes; any other call is refused by name.
    pub(super) fn with_effects(&mut self, node: &'a Node) -> ModelResult<()> {
        let [_, operator, operands @ ..] = &node.inputs[..] else {
            return Err(self.argument_error("operator", "is missing"));
        };
        let checks = |name: &String| name == "torch.ops.aten._linalg_check_errors.default";
        match (&operator.arg, operands) {
            (Argument::Operator(name), [info, what, ..]) if checks(name) => match (&info.arg, &what.arg) {
                (Argument::Tensor(info), Argument::Str(what)) => {
                    let tensor = self.lookup_tensor(info)?;
                    let info = Arg::Value(self.read(tensor)?);
                    self.assert_no_error_codes(info, what)
                }
                _ => Err(self.argument_error("info", "must be a tensor, and a name behind it")),
            },
            _ => Err(ModelError::HigherOrder { place: self.place() }),
        }
    }

    fn checked_tensor(&mut self, node: &'a Node, name: &str) -> ModelResult<Arg> {
        let Argument::Tensor(tensor) = self.input_named(node, name)? else {
            return Err(self.argument_error(name, "must be a tensor"));
        };
        let tensor = self.lookup_tensor(tensor)?;
        self.read(tensor).map(Arg::Value)
    }

    fn check(&mut self, condition: Arg, message: &str) -> ModelResult<()> {
        self.emit(|b| b.call("prims.check", vec![condition, Arg::str(message)])).map(|_| ())
    }
}

fn is_number_of(ty: &Type, kind: NumKind) -> bool {
    matches!(ty, Type::Number(number) if number.kind == kind)
}
