//! One node of the file's graph: what kind of call it is, and what its results are afterwards.
//!
//! Numbers and assertions go to `numbers`; ATen calls are emitted by `calls`, and what they share and write is kept by
//! `functionalize`. Operators of other namespaces become opaque symbols under their own names. Regions with gradients
//! switched off and under autocast are inlined, control flow becomes calls of nested traces (`nested`); other
//! higher-order operators are refused by name.

use super::functionalize::{Sharing, TensorRef};
use super::import::{Entity, Importer, Scope};
use super::pt2::graph::{Argument, Node, SubGraph};
use super::{ModelError, ModelResult};
use crate::ir::{Arg, Name, Type, ValueId};
use crate::ops::aten_schema::{self, AtenParam, AtenSchema};
use crate::ops::{self, AtenArg};
use std::collections::HashMap;

/// A recorded result: its name and type.
type Recorded<'a> = Vec<Option<(&'a str, Type)>>;

impl<'a> Importer<'a> {
    pub(super) fn import_node(&mut self, node: &'a Node) -> ModelResult<()> {
        let target = node.target.as_str();
        if let Some(op) = target.strip_prefix("torch.ops.higher_order.") {
            return self.higher_order(node, op);
        }
        if let Some(rest) = target.strip_prefix("torch.ops.") {
            let Some((namespace, overload)) = rest.split_once('.') else {
                return Err(self.unknown_operator());
            };
            if !overload.split('.').all(is_identifier)
                || overload.split('.').count() != 2
                || !is_identifier(namespace)
            {
                return Err(self.unknown_operator());
            }
            return if namespace == "aten" { self.aten(node, overload) } else { self.foreign(node, rest) };
        }
        let symbolic = ["_operator.", "torch.sym_", "torch._sym_", "math."];
        if symbolic.iter().any(|prefix| target.starts_with(prefix)) {
            return self.define_closed_forms(node);
        }
        Err(self.unknown_operator())
    }

    fn unknown_operator(&self) -> ModelError {
        ModelError::OperatorUnknown { place: self.place() }
    }

    fn aten(&mut self, node: &'a Node, overload: &str) -> ModelResult<()> {
        if self.assertion(node, overload)? {
            return Ok(());
        }
        let reads_data = matches!(overload, "item.default" | "_local_scalar_dense.default");
        if !reads_data && !node.outputs.is_empty() && node.outputs.iter().all(is_number) {
            return self.define_closed_forms(node);
        }
        let schema = aten_schema::lookup(overload).ok_or_else(|| self.unknown_operator())?;
        if schema.tagged("inplace_view") {
            return self.metadata_write(node, schema);
        }
        let args = self.arguments(node, schema)?;
        let recorded = self.recorded(node)?;
        let args = self.autocast(overload, args, &types_of(&recorded))?;
        self.check_pieces(&args, overload, &recorded)?;
        if schema.params.iter().any(writes) {
            return self.in_place(node, schema, args, recorded);
        }
        match self.sharing(node, schema, &args) {
            Sharing::View(param) => self.view(node, schema, param, args, recorded),
            Sharing::Fresh => self.plain(node, overload, args, &recorded).map(|_| ()),
            Sharing::Undecided(param) => {
                let results = self.plain(node, overload, args, &recorded)?;
                self.mark_undecided(node, param, &results)
            }
        }
    }

    /// A call whose results are new memory.
    fn plain(
        &mut self,
        node: &'a Node,
        overload: &str,
        args: Vec<AtenArg>,
        recorded: &Recorded<'a>,
    ) -> ModelResult<Vec<TensorRef>> {
        let first_new = self.trace.values.len();
        let results = self.call(overload, args, types_of(recorded))?;
        self.apply_writes(node)?;
        let mut tensors = Vec::new();
        for (result, recorded) in results.iter().zip(recorded) {
            let Some((name, ty)) = recorded else { continue };
            let Arg::Value(value) = result else {
                return Err(self.type_error(name, "the operator gives no such result"));
            };
            self.name_result(*value, name, first_new);
            if let Type::Number(_) = ty {
                self.define_number_result(name, *value)?;
                continue;
            }
            let tensor = self.fresh_tensor(*value);
            tensors.push(tensor);
            self.define(name, Entity::Tensor(tensor))?;
        }
        Ok(tensors)
    }

    pub(super) fn define_number_result(&mut self, name: &'a str, value: ValueId) -> ModelResult<()> {
        let output = self.node.and_then(|node| {
            node.outputs.iter().find(|output| is_number(output) && number_name(output) == Some(name))
        });
        match output {
            Some(output) => self.define_data_number(output, value),
            None => self.define(name, Entity::Number(Arg::Value(value))),
        }
    }

    /// A new value takes the model's name; one that was there before keeps its own.
    fn name_result(&mut self, value: ValueId, name: &str, first_new: usize) {
        if value.index() >= first_new && self.unnamed.contains(&value) {
            self.rename(value, name);
        }
    }

    fn view(
        &mut self,
        node: &'a Node,
        schema: &AtenSchema,
        param: usize,
        args: Vec<AtenArg>,
        recorded: Recorded<'a>,
    ) -> ModelResult<()> {
        let viewed = schema.params.get(param).map_or("self", |param| param.name);
        // A view of a number in a tensor's place, or one whose base is not the first argument, is new memory for us.
        let parent = match self.written_tensor(node, viewed) {
            Ok(parent) if param == 0 => parent,
            _ => return self.plain(node, schema.overload, args, &recorded).map(|_| ()),
        };
        let first_new = self.trace.values.len();
        let views = self.view_of(parent, schema.overload, args, types_of(&recorded))?;
        let names: Vec<&'a str> = recorded.iter().flatten().map(|(name, _)| *name).collect();
        if views.len() != names.len() {
            let why = format!("it gives {} views, the file has {}", views.len(), names.len());
            return Err(ModelError::Call { place: self.place(), why });
        }
        for (name, view) in names.into_iter().zip(views) {
            let value = self.read(view)?;
            self.name_result(value, name, first_new);
            self.define(name, Entity::Tensor(view))?;
        }
        Ok(())
    }

    /// `t_`, `squeeze_`, `detach_`: the tensor itself becomes a view of what it was.
    fn metadata_write(&mut self, node: &'a Node, schema: &AtenSchema) -> ModelResult<()> {
        let functional = schema.overload.replacen("_.", ".", 1);
        let is_view = |s: &&AtenSchema| s.params.first().is_some_and(|p| p.alias.is_some_and(|a| !a.written));
        // `detach` is known by name: its schema in older lists of operators is not tagged as a view.
        let found = aten_schema::lookup(&functional).filter(|s| is_view(s) || functional == "detach.default");
        let found = found.ok_or_else(|| {
            self.mutation_error("it changes a tensor's sizes or storage, which is not supported".to_owned())
        })?;
        let args = self.arguments(node, schema)?;
        let recorded = self.recorded(node)?;
        let parent = self.written_tensor(node, "self")?;
        let first_new = self.trace.values.len();
        let view = self.view_of(parent, found.overload, args, types_of(&recorded))?;
        let [view] = view[..] else { return Err(self.mutation_error("it gives no tensor".to_owned())) };
        let changed = Self::tensor_names(self.input_named(node, "self")?);
        let scope = self.scopes.last_mut().expect("the outermost scope is never popped");
        for name in changed {
            scope.values.insert(name, Entity::Tensor(view));
        }
        if let Some((name, _)) = recorded.into_iter().flatten().next() {
            let value = self.read(view)?;
            self.name_result(value, name, first_new);
            self.define(name, Entity::Tensor(view))?;
        }
        Ok(())
    }

    /// A call that writes arguments: its functional result becomes their new value.
    fn in_place(
        &mut self,
        node: &'a Node,
        schema: &AtenSchema,
        args: Vec<AtenArg>,
        recorded: Recorded<'a>,
    ) -> ModelResult<()> {
        let written: Vec<&AtenParam> = schema.params.iter().filter(|param| writes(param)).collect();
        let mut targets = Vec::with_capacity(written.len());
        for param in &written {
            targets.push(self.written_tensor(node, param.name)?);
        }
        // Which result is the new value of which written argument; those that are not returned stand behind all results
        // of an opaque symbol, and rules of the table name them.
        let by_position = schema.returns.len() == recorded.len();
        let returned = |param: &AtenParam| {
            let same_set = |r: &aten_schema::AtenReturn| r.alias.map(|a| a.set) == param.alias.map(|a| a.set);
            schema.returns.iter().position(same_set).filter(|_| by_position)
        };
        let mut sources: Vec<Option<usize>> = written.iter().map(|param| returned(param)).collect();
        let first_new = self.trace.values.len();
        let results = if ops::aten_owner(schema.overload).is_some() {
            // The record is that of the cast result, which the rule of the op knows nothing of.
            self.call(schema.overload, args, Vec::new())?
        } else {
            let mut types = types_of(&recorded);
            for (source, target) in sources.iter_mut().zip(&targets).filter(|(source, _)| source.is_none()) {
                let value = self.read(*target)?;
                types.push(Some(self.trace.ty(value).clone()));
                *source = Some(types.len() - 1);
            }
            self.call(schema.overload, args, types)?
        };
        for ((param, source), target) in written.iter().zip(&sources).zip(&targets) {
            let Some(source) = *source else { continue };
            let Some(Arg::Value(value)) = results.get(source) else {
                return Err(self.mutation_error(format!("it gives no new value for `{}`", param.name)));
            };
            let before = self.read(*target)?;
            let value = self.as_written(before, *value)?;
            if let Some(Some((name, _))) = recorded.get(source) {
                self.name_result(value, name, first_new);
            }
            self.write(*target, value)?;
        }
        self.apply_writes(node)?;
        for (index, (result, recorded)) in results.iter().zip(&recorded).enumerate() {
            let Some((name, _)) = recorded else { continue };
            let tensor = match (sources.iter().position(|source| *source == Some(index)), result) {
                (Some(at), _) => targets[at],
                (None, Arg::Value(value)) => {
                    self.name_result(*value, name, first_new);
                    self.fresh_tensor(*value)
                }
                (None, _) => return Err(self.type_error(name, "the operator gives no such result")),
            };
            self.define(name, Entity::Tensor(tensor))?;
        }
        Ok(())
    }

    /// What the op's rule says the call writes beyond its results: running statistics, whatever ATen's schema says.
    fn apply_writes(&mut self, node: &'a Node) -> ModelResult<()> {
        for (name, value) in std::mem::take(&mut self.call_writes) {
            let Arg::Value(value) = value else { continue };
            let target = self.written_tensor(node, &name)?;
            let before = self.read(target)?;
            let value = self.as_written(before, value)?;
            self.write(target, value)?;
        }
        Ok(())
    }

    /// The tensor that an argument names, which must be one alone.
    fn written_tensor(&self, node: &'a Node, name: &str) -> ModelResult<TensorRef> {
        match Self::tensor_names(self.input_named(node, name)?)[..] {
            [tensor] => self.lookup_tensor(tensor),
            _ => Err(self.mutation_error(format!("it writes `{name}`, which is no single tensor"))),
        }
    }

    fn mark_undecided(&mut self, node: &'a Node, param: usize, results: &[TensorRef]) -> ModelResult<()> {
        let inputs = node.inputs.get(param).map(|input| Self::tensor_names(&input.arg)).unwrap_or_default();
        for name in inputs {
            let base = self.lookup_tensor(name)?.base;
            self.bases[base].undecided = true;
        }
        for result in results {
            self.bases[result.base].undecided = true;
        }
        Ok(())
    }

    /// An operator of another namespace: its plugin knows what it is; nothing is known of what it writes.
    fn foreign(&mut self, node: &'a Node, name: &str) -> ModelResult<()> {
        let recorded = self.recorded(node)?;
        let (mut tensors, mut named): (Vec<Arg>, Vec<(Name, Arg)>) = (Vec::new(), Vec::new());
        for input in &node.inputs {
            match &input.arg {
                Argument::Tensor(tensor) => {
                    let tensor = self.lookup_tensor(tensor)?;
                    tensors.push(Arg::Value(self.read(tensor)?));
                }
                Argument::Tensors(list) if !list.is_empty() => {
                    let mut items = Vec::with_capacity(list.len());
                    for tensor in list {
                        let tensor = self.lookup_tensor(tensor)?;
                        items.push(Arg::Value(self.read(tensor)?));
                    }
                    tensors.push(Arg::List(items));
                }
                other if is_identifier(&input.name) => {
                    let value = self.plain_argument(&input.name, other)?;
                    named.push((input.name.as_str().into(), value));
                }
                other => tensors.push(self.plain_argument("argument", other)?),
            }
        }
        let first_new = self.trace.values.len();
        let results = self.opaque_call(name, tensors, named, types_of(&recorded));
        for (result, recorded) in results.iter().zip(recorded) {
            let (Arg::Value(value), Some((name, ty))) = (result, recorded) else { continue };
            self.name_result(*value, name, first_new);
            if let Type::Number(_) = ty {
                self.define_number_result(name, *value)?;
                continue;
            }
            let tensor = self.fresh_tensor(*value);
            self.define(name, Entity::Tensor(tensor))?;
        }
        Ok(())
    }

    /// Calls that cut a tensor into pieces must give as many as the file records: the op's rule makes one value for
    /// each, so a hostile number of pieces is refused before it is asked.
    fn check_pieces(&self, args: &[AtenArg], overload: &str, recorded: &Recorded<'a>) -> ModelResult<()> {
        let op = overload.split('.').next().unwrap_or(overload);
        if !matches!(op, "split" | "chunk" | "unbind" | "tensor_split" | "unsafe_split" | "unsafe_chunk") {
            return Ok(());
        }
        let int = |name: &str| {
            args.iter().find(|arg| arg.name == name).and_then(|arg| match arg.value {
                Arg::Int(n) => Some(n),
                _ => None,
            })
        };
        let base =
            args.first().and_then(|arg| arg.value.value()).and_then(|value| self.trace.ty(value).tensor());
        let Some(base) = base else { return Ok(()) };
        let axis = int("dim").unwrap_or(0);
        let axis = if axis < 0 { axis.saturating_add(base.dims.len() as i64) } else { axis };
        let len =
            usize::try_from(axis).ok().and_then(|axis| base.dims.get(axis)).and_then(crate::ir::Dim::known);
        let n = recorded.len() as i64;
        let too_many = match (op, len, int("split_size"), int("chunks").or(int("sections"))) {
            ("unbind", Some(len), ..) => len != n,
            ("split" | "unsafe_split", Some(len), Some(size), _) => size > 0 && len / size > n,
            ("tensor_split", _, _, Some(sections)) => sections != n,
            // At most `chunks` pieces, fewer where the size does not divide.
            ("chunk" | "unsafe_chunk", Some(len), _, Some(chunks)) => {
                chunks.min(len) > n.saturating_mul(2).max(1)
            }
            _ => false,
        };
        if too_many {
            let why = format!("it gives another number of pieces than the {n} that the file records");
            return Err(ModelError::Call { place: self.place(), why });
        }
        Ok(())
    }

    fn higher_order(&mut self, node: &'a Node, op: &str) -> ModelResult<()> {
        match op {
            "wrap_with_set_grad_enabled" => self.set_grad_region(node),
            "wrap_with_autocast" => self.autocast_region(node),
            "cond" => self.cond(node),
            "while_loop" => self.while_loop(node),
            "scan" => self.scan(node, false),
            "map_impl" => self.scan(node, true),
            "with_effects" => self.with_effects(node),
            _ => Err(ModelError::HigherOrder { place: self.place() }),
        }
    }

    /// `torch.no_grad()` inside the model: its nodes are walked where they stand, its results lose their gradient.
    fn set_grad_region(&mut self, node: &'a Node) -> ModelResult<()> {
        let (enabled, region, operands) = match &node.inputs[..] {
            [enabled, region, operands @ ..] => match (&enabled.arg, &region.arg) {
                (Argument::Bool(enabled), Argument::Graph(region)) => (*enabled, region, operands),
                _ => return Err(self.argument_error("region", "must be a bool and a graph")),
            },
            _ => return Err(self.argument_error("region", "is missing")),
        };
        if enabled && self.grad_off > 0 {
            let place = self.place();
            self.warnings
                .push(format!("{place}: a region with gradients inside one without is taken as without"));
        }
        let mut entities = Vec::with_capacity(operands.len());
        for operand in operands {
            for entity in self.entities(&operand.arg)? {
                entities.push(entity);
            }
        }
        let off = usize::from(!enabled);
        self.grad_off += off;
        let results = self.inline(region, entities.clone());
        self.grad_off -= off;
        let results = results?;
        self.enter(node);
        // What was written in place is still the tensor that went in, whose gradient is that of the old value.
        let came_in = |tensor: &TensorRef| {
            entities.iter().any(|entity| matches!(entity, Entity::Tensor(given) if given == tensor))
        };
        self.define_region_results(node, results, &|tensor| enabled || came_in(tensor))
    }

    /// The values that an argument names.
    pub(super) fn entities(&self, argument: &'a Argument) -> ModelResult<Vec<Entity>> {
        let names = match argument {
            Argument::Tensor(_) | Argument::Tensors(_) | Argument::OptionalTensor(_) => {
                Self::tensor_names(argument)
            }
            other => match number_name(other) {
                Some(name) => vec![name],
                None => {
                    let why = format!("of kind `{}` is not supported for a region", other.tag());
                    return Err(self.argument_error("operand", why));
                }
            },
        };
        names.into_iter().map(|name| self.lookup(name).cloned()).collect()
    }

    /// Walks a region's graph with its inputs bound to `operands`; gives its outputs.
    pub(super) fn inline(&mut self, region: &'a SubGraph, operands: Vec<Entity>) -> ModelResult<Vec<Entity>> {
        let graph = &*region.graph;
        if graph.inputs.len() != operands.len() {
            let why = format!("has {} inputs and is given {}", graph.inputs.len(), operands.len());
            return Err(self.argument_error(&region.name, why));
        }
        let mut values = HashMap::with_capacity(graph.tensor_values.len());
        for (input, operand) in graph.inputs.iter().zip(operands) {
            let name = Self::tensor_names(input).first().copied().or_else(|| number_name(input));
            let name =
                name.ok_or_else(|| self.argument_error(&region.name, "has an input that is no value"))?;
            values.insert(name, operand);
        }
        self.scopes.push(Scope { graph, values });
        let walked = self.walk(graph).and_then(|()| {
            let mut results = Vec::new();
            for output in &graph.outputs {
                results.extend(self.entities(output)?);
            }
            Ok(results)
        });
        self.scopes.pop();
        walked
    }

    pub(super) fn define_region_results(
        &mut self,
        node: &'a Node,
        results: Vec<Entity>,
        keeps_gradient: &dyn Fn(&TensorRef) -> bool,
    ) -> ModelResult<()> {
        let names = node.outputs.iter().flat_map(|output| {
            let tensors = Self::tensor_names(output);
            if tensors.is_empty() { number_name(output).into_iter().collect() } else { tensors }
        });
        let names: Vec<&'a str> = names.collect();
        if names.len() != results.len() {
            let why = format!("has {} results, its region gives {}", names.len(), results.len());
            return Err(self.argument_error("region", why));
        }
        for (name, result) in names.into_iter().zip(results) {
            let result = match result {
                Entity::Tensor(tensor) if !keeps_gradient(&tensor) => {
                    Entity::Tensor(self.detached(tensor, name)?)
                }
                other => other,
            };
            self.define(name, result)?;
        }
        Ok(())
    }

    /// The same memory without its gradient.
    fn detached(&mut self, tensor: TensorRef, name: &str) -> ModelResult<TensorRef> {
        let value = self.read(tensor)?;
        let ty = self.trace.ty(value).clone();
        if !ty.tensor().is_some_and(|ty| ty.dtype.is_inexact()) {
            return Ok(tensor);
        }
        let first_new = self.trace.values.len();
        let args = vec![AtenArg { name: "self".into(), value: Arg::Value(value) }];
        let views = self.view_of(tensor, "detach.default", args, vec![Some(ty)])?;
        let [view] = views[..] else {
            return Err(self.mutation_error("`detach` gives no tensor".to_owned()));
        };
        let value = self.read(view)?;
        self.name_result(value, name, first_new);
        Ok(view)
    }
}

fn types_of(recorded: &Recorded<'_>) -> Vec<Option<Type>> {
    recorded.iter().map(|result| result.as_ref().map(|(_, ty)| ty.clone())).collect()
}

/// Is the parameter's memory written?
fn writes(param: &AtenParam) -> bool {
    param.alias.is_some_and(|alias| alias.written)
}

fn is_number(argument: &Argument) -> bool {
    matches!(argument, Argument::SymInt(_) | Argument::SymFloat(_) | Argument::SymBool(_))
}

fn number_name(argument: &Argument) -> Option<&str> {
    use super::pt2::graph::NumberArg;
    match argument {
        Argument::SymInt(NumberArg::Name(name))
        | Argument::SymFloat(NumberArg::Name(name))
        | Argument::SymBool(NumberArg::Name(name)) => Some(name),
        _ => None,
    }
}

fn is_identifier(text: &str) -> bool {
    let first = text.bytes().next();
    first.is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
