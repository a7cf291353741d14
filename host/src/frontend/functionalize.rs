//! Writes made functional: who shares memory with whom, and what a write means for all of them.
//!
//! Every tensor of the file's graph is a *base* (memory of its own, with a current value in the trace) or a chain of
//! *links* away from one: views, each of them a call that can be repeated. Reading a tensor gives its last known value,
//! or repeats its views on the base's current value where the base was written meanwhile. Writing one puts the new value
//! back through the views (`select_scatter`, `slice_scatter`, …) into a new value of the base. At the end, bases that are
//! parameters of the trace and have a new value get a `prims.copy_`.
//!
//! Which calls share memory says ATen's schema, with three corrections: some calls share only where PyTorch found that
//! strides and dtypes allow it (decided here from the recorded ones), some share though their schema does not say so, and
//! some write though theirs does not. Where it cannot be decided, a later write to either side is an error.
//!
//! A write through `detach` or in a region without gradient changes the value and leaves the old gradient:
//! `prims.set_data`.

use std::rc::Rc;

use super::import::Importer;
use super::pt2::graph::{Argument, Node, TensorMeta};
use super::symbols::hint;
use super::{ModelError, ModelResult};
use crate::ir::{Arg, Type, ValueId};
use crate::ops::aten_schema::{self, AtenSchema};
use crate::ops::{self, AtenArg};

/// Memory of its own.
pub(super) struct Base {
    /// What it holds now.
    pub value: ValueId,
    /// How often it was written.
    pub version: u32,
    /// The graph input that it is.
    pub param: Option<usize>,
    /// Something else may share it, and that could not be decided: it must not be written.
    pub undecided: bool,
}

/// A view of a base or of another view.
pub(super) struct Link {
    parent: TensorRef,
    /// Shared by all results of the call.
    call: Rc<ViewCall>,
    /// Which of the call's results.
    result: usize,
    inverse: Inverse,
    /// The last known value, and the base's version that it belongs to. None: it must be worked out.
    value: Option<(ValueId, u32)>,
    /// Does a write through it leave the gradient behind?
    cuts_gradient: bool,
}

/// A call that can be repeated on another base value; its first argument is the base.
struct ViewCall {
    overload: String,
    args: Vec<(String, Arg)>,
    types: Vec<Option<Type>>,
}

/// A tensor: a base, or the end of a chain of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TensorRef {
    pub base: usize,
    pub link: Option<usize>,
}

/// How a written view goes back into what it is a view of.
#[derive(Clone, Debug, PartialEq)]
enum Inverse {
    /// It has the same elements in the same dims.
    Same,
    /// It has the same elements in the same order.
    Reshape,
    /// A call whose first argument is the written view.
    Call(&'static str, Vec<(&'static str, Arg)>),
    /// A call whose first two arguments are what it is a view of, and the written view.
    Scatter(&'static str, Vec<(&'static str, Arg)>),
    /// Not known; the reason.
    None(&'static str),
}

/// What a call does with its first argument's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Its results are new memory.
    Fresh,
    /// Its results are views of the argument of that index.
    View(usize),
    /// Nobody can say.
    Undecided(usize),
}

impl<'a> Importer<'a> {
    /// Memory of its own, holding `value`.
    pub(super) fn new_base(&mut self, value: ValueId, param: Option<usize>) -> usize {
        self.bases.push(Base { value, version: 0, param, undecided: false });
        self.bases.len() - 1
    }

    /// A new tensor that is no view.
    pub(super) fn fresh_tensor(&mut self, value: ValueId) -> TensorRef {
        TensorRef { base: self.new_base(value, None), link: None }
    }

    /// The tensor's value now.
    pub(super) fn read(&mut self, tensor: TensorRef) -> ModelResult<ValueId> {
        let Base { value, version, .. } = self.bases[tensor.base];
        // From the end of the chain back to the last link that is up to date, then forward again.
        let mut stale = Vec::new();
        let mut at = tensor.link;
        let mut current = loop {
            let Some(link) = at else { break value };
            match self.links[link].value {
                Some((value, of)) if of == version => break value,
                _ => stale.push(link),
            }
            at = self.links[link].parent.link;
        };
        for link in stale.into_iter().rev() {
            current = self.repeat(link, current)?;
            self.links[link].value = Some((current, version));
        }
        Ok(current)
    }

    fn repeat(&mut self, link: usize, base: ValueId) -> ModelResult<ValueId> {
        let call = self.links[link].call.clone();
        let overload = call.overload.as_str();
        self.spend(call.types.len())?;
        let result = self.links[link].result;
        let again = |(name, value): &(String, Arg)| AtenArg { name: name.clone(), value: value.clone() };
        let mut args: Vec<AtenArg> = call.args.iter().map(again).collect();
        if let Some(first) = args.first_mut() {
            first.value = Arg::Value(base);
        }
        let results = self.call(overload, args, call.types.clone())?;
        match results.get(result) {
            Some(Arg::Value(value)) => Ok(*value),
            _ => {
                Err(self
                    .mutation_error(format!("the view `{overload}` of written memory cannot be repeated")))
            }
        }
    }

    /// Views that are repeated or undone cost something that the file's size does not pay for: real models need few.
    fn spend(&mut self, n_results: usize) -> ModelResult<()> {
        let left = self.replay_budget.checked_sub(n_results.max(1));
        let too_often =
            || ModelError::TooLarge { why: "memory is written through too many views".to_owned() };
        self.replay_budget = left.ok_or_else(too_often)?;
        Ok(())
    }

    /// Emits a view of `parent`, whose current value is the first of `args`; gives a tensor for each result.
    pub(super) fn view_of(
        &mut self,
        parent: TensorRef,
        overload: &str,
        args: Vec<AtenArg>,
        types: Vec<Option<Type>>,
    ) -> ModelResult<Vec<TensorRef>> {
        let base_value = args.first().and_then(|arg| arg.value.value());
        let kept: Vec<(String, Arg)> = args.iter().map(|arg| (arg.name.clone(), arg.value.clone())).collect();
        let call = Rc::new(ViewCall { overload: overload.to_owned(), args: kept, types: types.clone() });
        let results = self.call(overload, args, types)?;
        let version = self.bases[parent.base].version;
        let mut tensors = Vec::with_capacity(results.len());
        let mut at = 0;
        for (index, result) in results.iter().enumerate() {
            let Arg::Value(value) = result else { continue };
            let base_type = base_value.map(|value| self.trace.ty(value).clone());
            let inverse = inverse(&call, index, at, base_type.as_ref());
            at += piece_len(self.trace.ty(*value), &call);
            let cuts_gradient = call.overload.starts_with("detach") || self.grad_off > 0;
            self.links.push(Link {
                parent,
                call: call.clone(),
                result: index,
                inverse,
                value: Some((*value, version)),
                cuts_gradient,
            });
            tensors.push(TensorRef { base: parent.base, link: Some(self.links.len() - 1) });
        }
        Ok(tensors)
    }

    /// Gives the tensor's memory a new value, of the tensor's own type.
    pub(super) fn write(&mut self, tensor: TensorRef, value: ValueId) -> ModelResult<()> {
        self.check_writable(tensor)?;
        let mut current = value;
        let mut cuts_gradient = self.grad_off > 0;
        let mut at = tensor.link;
        while let Some(link) = at {
            let parent = self.links[link].parent;
            cuts_gradient |= self.links[link].cuts_gradient;
            let into = self.read(parent)?;
            current = self.put_back(link, into, current)?;
            at = parent.link;
        }
        let old = self.bases[tensor.base].value;
        let kept = self.keep_gradient(old, current, cuts_gradient)?;
        let base = &mut self.bases[tensor.base];
        base.value = kept;
        base.version += 1;
        let version = base.version;
        if let Some(link) = tensor.link.filter(|_| kept == current) {
            self.links[link].value = Some((value, version));
        }
        Ok(())
    }

    fn check_writable(&mut self, tensor: TensorRef) -> ModelResult<()> {
        let Base { param, undecided, .. } = self.bases[tensor.base];
        if undecided {
            return Err(self
                .mutation_error("it writes memory of which the file does not say who shares it".to_owned()));
        }
        let Some(param) = param else { return Ok(()) };
        let (storage, sharers) = self.sharers(param);
        match storage {
            Some(storage) if sharers.len() > 1 && !self.based.contains(&storage) => {
                let error = self.overlap_error(sharers);
                self.needs_base = Some(storage);
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// `into` with the part that the link looks at replaced by `value`.
    fn put_back(&mut self, link: usize, into: ValueId, value: ValueId) -> ModelResult<ValueId> {
        self.spend(1)?;
        let ty = self.trace.ty(into).clone();
        let Type::Tensor(tensor) = &ty else { return Ok(value) };
        let named = |list: Vec<(&str, Arg)>| -> Vec<(String, Arg)> {
            list.into_iter().map(|(name, arg)| (name.to_owned(), arg)).collect()
        };
        let (overload, mut args, rest) = match self.links[link].inverse.clone() {
            Inverse::Same => return Ok(value),
            Inverse::None(why) => return Err(self.mutation_error(why.to_owned())),
            Inverse::Reshape => {
                let dims = Arg::dims(&tensor.dims);
                (
                    "reshape.default",
                    vec![("self".to_owned(), Arg::Value(value))],
                    named(vec![("shape", dims)]),
                )
            }
            Inverse::Call(overload, rest) => {
                (overload, vec![("self".to_owned(), Arg::Value(value))], named(rest))
            }
            Inverse::Scatter(overload, rest) => {
                let both = vec![("self".to_owned(), Arg::Value(into)), ("src".to_owned(), Arg::Value(value))];
                (overload, both, named(rest))
            }
        };
        args.extend(rest);
        let args = self.completed(overload, args)?;
        match self.call(overload, args, vec![Some(ty)])?.first() {
            Some(Arg::Value(value)) => Ok(*value),
            _ => Err(self.mutation_error(format!("`{overload}` gives no tensor"))),
        }
    }

    /// The arguments in the schema's order, defaults filled in.
    fn completed(&self, overload: &str, given: Vec<(String, Arg)>) -> ModelResult<Vec<AtenArg>> {
        let schema = aten_schema::lookup(overload);
        let schema = schema.ok_or_else(|| self.mutation_error(format!("`{overload}` is unknown")))?;
        let value =
            |name: &str| given.iter().find(|(given, _)| given == name).map(|(_, value)| value.clone());
        let args = schema.params.iter().map(|param| AtenArg {
            name: param.name.to_owned(),
            value: value(param.name).or_else(|| param.default.clone()).unwrap_or(Arg::None),
        });
        Ok(args.collect())
    }

    /// The new value with the old one's gradient, where a write is not to be seen by the gradient.
    fn keep_gradient(&mut self, old: ValueId, new: ValueId, cuts_gradient: bool) -> ModelResult<ValueId> {
        let has_gradient = self.trace.ty(old).tensor().is_some_and(|ty| ty.dtype.is_inexact());
        if !cuts_gradient || !has_gradient {
            return Ok(new);
        }
        if ops::find("prims.set_data").is_none() {
            let place = self.place();
            self.warnings
                .push(format!("{place}: a write without gradient is seen by gradients of this program"));
            return Ok(new);
        }
        self.emit(|b| b.tensor("prims.set_data", vec![Arg::Value(old), Arg::Value(new)]))
            .map(|tensor| tensor.id)
    }

    pub(super) fn mutation_error(&self, why: String) -> ModelError {
        ModelError::Mutation { place: self.place(), why }
    }

    /// A value cast to the type of what it is written to: an in-place result has its operand's dtype.
    pub(super) fn as_written(&mut self, target: ValueId, value: ValueId) -> ModelResult<ValueId> {
        let (Type::Tensor(target), Type::Tensor(found)) =
            (self.trace.ty(target).clone(), self.trace.ty(value).clone())
        else {
            return Err(self.mutation_error("a number is written to a tensor".to_owned()));
        };
        let differ = target.dims.len() != found.dims.len()
            || target.dims.iter().zip(&found.dims).any(|(a, b)| a.same(b) == Some(false));
        if differ {
            let (found, target) = (ops::meta::show(&found.dims), ops::meta::show(&target.dims));
            return Err(
                self.mutation_error(format!("a value of dims {found} is written to memory of dims {target}"))
            );
        }
        if target.dtype == found.dtype {
            return Ok(value);
        }
        let dtype = Arg::Dtype(target.dtype);
        let cast = self.emit(|b| b.tensor("prims.convert_element_type", vec![Arg::Value(value), dtype]))?;
        Ok(cast.id)
    }

    /// A write that a core program's signature states: the parameter holds `name`'s value afterwards.
    pub(super) fn signature_write(&mut self, name: &str, fqn: &str) -> ModelResult<()> {
        let wanted = super::signature::user_name(fqn);
        let param = self.params.iter().position(|param| param.name == wanted && param.weight.is_some());
        let param =
            param.ok_or_else(|| ModelError::Signature { why: format!("`{fqn}` is written but no input") })?;
        self.signature_write_param(name, param)
    }

    /// The same for an input, named by its placeholder.
    pub(super) fn signature_write_input(&mut self, name: &str, input: &str) -> ModelResult<()> {
        let target = self.lookup_tensor(input)?;
        match self.bases[target.base].param {
            Some(param) => self.signature_write_param(name, param),
            None => Err(ModelError::Signature { why: format!("`{input}` is written but no input") }),
        }
    }

    fn signature_write_param(&mut self, name: &str, param: usize) -> ModelResult<()> {
        let source = self.lookup_tensor(name)?;
        let source = self.read(source)?;
        // All sources are read before anything is written: two buffers may change places.
        self.params[param].written = Some(source);
        Ok(())
    }

    /// The writes that are seen from outside, at the end of the trace.
    pub(super) fn write_back(&mut self) -> ModelResult<()> {
        for param in 0..self.params.len() {
            let (Some(base), Some(written)) = (self.params[param].base, self.params[param].written) else {
                continue;
            };
            let tensor = self.input_tensor(param, base)?;
            let target = self.read(tensor)?;
            if target != written {
                let written = self.as_written(target, written)?;
                self.write(tensor, written)?;
            }
        }
        for param in 0..self.params.len() {
            let (Some(base), Some(declared)) = (self.params[param].base, self.params[param].declared.clone())
            else {
                continue;
            };
            let value = self.bases[base].value;
            if self.bases[base].version > 0 && value != declared.value {
                self.mark_written(param);
                let results = self
                    .emit(|b| b.call("prims.copy_", vec![Arg::Value(value), Arg::Value(declared.value)]))?;
                if let Some(Arg::Value(result)) = results.first() {
                    let name = format!("{}.1", self.trace.value(declared.value).name);
                    self.set_name(*result, name.into());
                }
            }
        }
        Ok(())
    }

    /// The tensor behind a graph input: its base, or where another input is its base, the view that it is.
    fn input_tensor(&self, param: usize, base: usize) -> ModelResult<TensorRef> {
        match self.pt2.program.graph_module.graph.inputs.get(param) {
            Some(Argument::Tensor(name)) => self.lookup_tensor(name),
            _ => Ok(TensorRef { base, link: None }),
        }
    }

    /// What a call that writes nothing does with its arguments' memory.
    pub(super) fn sharing(&self, node: &'a Node, schema: &AtenSchema, args: &[AtenArg]) -> Sharing {
        let overload = schema.overload;
        let op = overload.split('.').next().unwrap_or(overload);
        let declared = schema.params.iter().position(|p| p.alias.is_some_and(|alias| !alias.written));
        let declared = declared.filter(|_| schema.returns.iter().any(|r| r.alias.is_some()));
        match op {
            "reshape" | "reshape_as" | "flatten" | "contiguous" | "ravel" | "resolve_conj"
            | "resolve_neg" => self.by_strides(node, op),
            "to" | "type_as" => self.by_cast(node, args),
            "dropout" | "feature_dropout" | "alpha_dropout" | "feature_alpha_dropout" => {
                if draws_nothing(args) { Sharing::View(0) } else { Sharing::Fresh }
            }
            "sum_to_size" | "einsum" | "broadcast_tensors" | "meshgrid" | "atleast_1d" | "atleast_2d"
            | "atleast_3d" => self.undeclared(node, op),
            _ => declared.map_or(Sharing::Fresh, Sharing::View),
        }
    }

    /// Calls that share where the recorded strides allow it, and copy where they don't.
    fn by_strides(&self, node: &'a Node, op: &str) -> Sharing {
        let Some((from, to)) = self.metas(node, 0) else { return Sharing::Undecided(0) };
        let (Some(from), Some(to)) = (Strided::at_export(from), Strided::at_export(to)) else {
            return Sharing::Undecided(0);
        };
        let shares = match op {
            // It gives the tensor itself where the layout is the wanted one already, so strides tell.
            "contiguous" => from.strides == to.strides,
            "ravel" => from.is_contiguous(),
            "resolve_conj" | "resolve_neg" => return Sharing::Undecided(0),
            _ => from.sizes == to.sizes || can_view(&from, &to.sizes),
        };
        if shares { Sharing::View(0) } else { Sharing::Fresh }
    }

    /// Casts give the tensor itself where nothing changes.
    fn by_cast(&self, node: &'a Node, args: &[AtenArg]) -> Sharing {
        let copies = args.iter().any(|arg| arg.name == "copy" && arg.value == Arg::Bool(true));
        match self.metas(node, 0) {
            _ if copies => Sharing::Fresh,
            // Another memory format copies, too; the recorded strides tell.
            Some((from, to)) if from.dtype == to.dtype && same_device(from, to) && same_strides(from, to) => {
                Sharing::View(0)
            }
            Some(_) => Sharing::Fresh,
            None => Sharing::Undecided(0),
        }
    }

    /// Calls that give views though their schema does not say so.
    fn undeclared(&self, node: &'a Node, op: &str) -> Sharing {
        let tensors: usize = node.inputs.iter().map(|input| Self::tensor_names(&input.arg).len()).sum();
        match op {
            // One operand may be permuted or its diagonal taken; a sum is new memory in any case.
            "einsum" if tensors != 1 => Sharing::Fresh,
            "sum_to_size" => match self.metas(node, 0) {
                Some((from, to)) if from.sizes.len() == to.sizes.len() && same_numel(from, to) => {
                    Sharing::Undecided(0)
                }
                _ => Sharing::Fresh,
            },
            _ => Sharing::Undecided(0),
        }
    }

    /// What the file records of the input of that index and of the first result.
    fn metas(&self, node: &'a Node, input: usize) -> Option<(&'a TensorMeta, &'a TensorMeta)> {
        let values = &self.scope().graph.tensor_values;
        let from = Self::tensor_names(&node.inputs.get(input)?.arg).first().copied()?;
        let to = node.outputs.iter().find_map(|output| Self::tensor_names(output).first().copied())?;
        Some((values.get(from)?, values.get(to)?))
    }
}

/// Dropout that keeps everything gives its input.
fn draws_nothing(args: &[AtenArg]) -> bool {
    args.iter().any(|arg| match (arg.name.as_str(), &arg.value) {
        ("train", Arg::Bool(train)) => !train,
        ("p", Arg::Float(p)) => *p == 0.0,
        _ => false,
    })
}

fn same_device(a: &TensorMeta, b: &TensorMeta) -> bool {
    a.device == b.device
}

fn same_strides(a: &TensorMeta, b: &TensorMeta) -> bool {
    match (Strided::at_export(a), Strided::at_export(b)) {
        (Some(a), Some(b)) => a.strides == b.strides,
        _ => true,
    }
}

fn same_numel(a: &TensorMeta, b: &TensorMeta) -> bool {
    let numel = |meta: &TensorMeta| -> Option<i128> {
        meta.sizes.iter().try_fold(1i128, |product, size| product.checked_mul(i128::from(hint(size)?)))
    };
    match (numel(a), numel(b)) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    }
}

/// Sizes and strides as they were at export.
struct Strided {
    sizes: Vec<i64>,
    strides: Vec<i64>,
}

impl Strided {
    fn at_export(meta: &TensorMeta) -> Option<Self> {
        let sizes: Vec<i64> = meta.sizes.iter().map(hint).collect::<Option<_>>()?;
        let strides: Vec<i64> = meta.strides.iter().map(hint).collect::<Option<_>>()?;
        (sizes.len() == strides.len()).then_some(Self { sizes, strides })
    }

    fn is_contiguous(&self) -> bool {
        let mut expected = 1i64;
        for (size, stride) in self.sizes.iter().zip(&self.strides).rev() {
            if *size != 1 && *stride != expected {
                return self.sizes.contains(&0);
            }
            expected = expected.saturating_mul((*size).max(1));
        }
        true
    }
}

/// Can elements at these strides be seen in the new sizes without copying? Runs of dims that follow one another densely
/// can be cut anew; each run must be used up by whole new dims.
fn can_view(from: &Strided, sizes: &[i64]) -> bool {
    if from.sizes.contains(&0) {
        return true;
    }
    // Runs from the innermost dim outwards: number of elements in each.
    let dims: Vec<(i64, i64)> =
        from.sizes.iter().copied().zip(from.strides.iter().copied()).filter(|(size, _)| *size != 1).collect();
    let mut runs: Vec<i64> = Vec::new();
    let mut expected = None;
    for (size, stride) in dims.into_iter().rev() {
        match (expected, runs.last_mut()) {
            (Some(next), Some(run)) if next == stride => *run = run.saturating_mul(size),
            _ => runs.push(size),
        }
        expected = Some(stride.saturating_mul(size));
    }
    let mut runs = runs.into_iter();
    let mut left = 1i64;
    for size in sizes.iter().rev().filter(|size| **size != 1) {
        if left == 1 {
            match runs.next() {
                Some(run) => left = run,
                None => return false,
            }
        }
        if *size == 0 || left % size != 0 {
            return false;
        }
        left /= size;
    }
    left == 1 && runs.next().is_none()
}

/// How many elements of the cut dim a result takes, for calls that cut a tensor into pieces.
fn piece_len(result: &Type, call: &ViewCall) -> i64 {
    let Type::Tensor(ty) = result else { return 0 };
    let axis = axis_of(call, "dim", ty.dims.len()).unwrap_or(0);
    ty.dims.get(axis).and_then(crate::ir::Dim::known).unwrap_or(0)
}

fn arg_of<'c>(call: &'c ViewCall, name: &str) -> Option<&'c Arg> {
    call.args.iter().find(|(given, _)| given == name).map(|(_, value)| value)
}

fn axis_of(call: &ViewCall, name: &str, rank: usize) -> Option<usize> {
    match arg_of(call, name)? {
        Arg::Int(axis) if *axis < 0 => usize::try_from(axis + rank as i64).ok(),
        Arg::Int(axis) => usize::try_from(*axis).ok(),
        _ => None,
    }
}

/// How a write to result `index` of the call, which begins `at` elements into the cut dim, goes back into the base.
fn inverse(call: &ViewCall, index: usize, at: i64, base: Option<&Type>) -> Inverse {
    const UNKNOWN: Inverse = Inverse::None("a write through this view is not supported");
    let arg = |name: &'static str| (name, arg_of(call, name).cloned().unwrap_or(Arg::None));
    let op = call.overload.split('.').next().unwrap_or(&call.overload);
    match op {
        "alias"
        | "detach"
        | "lift_fresh"
        | "contiguous"
        | "to"
        | "type_as"
        | "dropout"
        | "feature_dropout"
        | "alpha_dropout"
        | "feature_alpha_dropout"
        | "positive" => Inverse::Same,
        "view" if call.overload == "view.dtype" => UNKNOWN,
        "view" | "reshape" | "reshape_as" | "view_as" | "_unsafe_view" | "_reshape_alias" | "flatten"
        | "unflatten" | "squeeze" | "unsqueeze" | "ravel" => Inverse::Reshape,
        "t" | "numpy_T" | "mT" => Inverse::Call(
            match op {
                "t" => "t.default",
                "mT" => "mT.default",
                _ => "numpy_T.default",
            },
            Vec::new(),
        ),
        "transpose" if call.overload == "transpose.int" => {
            Inverse::Call("transpose.int", vec![arg("dim0"), arg("dim1")])
        }
        "swapaxes" => Inverse::Call("swapaxes.default", vec![arg("axis0"), arg("axis1")]),
        "swapdims" => Inverse::Call("swapdims.default", vec![arg("dim0"), arg("dim1")]),
        "permute" => match inverse_permutation(arg_of(call, "dims")) {
            Some(dims) => Inverse::Call("permute.default", vec![("dims", dims)]),
            None => UNKNOWN,
        },
        "movedim" | "moveaxis" if call.overload.ends_with(".int") || call.overload.ends_with(".intlist") => {
            let there = [("source", arg("destination").1), ("destination", arg("source").1)];
            let overload = if call.overload.ends_with(".int") { "movedim.int" } else { "movedim.intlist" };
            Inverse::Call(overload, there.into())
        }
        "select" if call.overload == "select.int" => {
            Inverse::Scatter("select_scatter.default", vec![arg("dim"), arg("index")])
        }
        "slice" if call.overload == "slice.Tensor" => {
            Inverse::Scatter("slice_scatter.default", vec![arg("dim"), arg("start"), arg("end"), arg("step")])
        }
        "narrow" if call.overload == "narrow.default" => match (arg("start").1, arg("length").1) {
            (Arg::Int(start), Arg::Int(length)) if start >= 0 => Inverse::Scatter(
                "slice_scatter.default",
                vec![arg("dim"), ("start", Arg::Int(start)), ("end", Arg::Int(start.saturating_add(length)))],
            ),
            _ => UNKNOWN,
        },
        "unbind" => {
            Inverse::Scatter("select_scatter.default", vec![arg("dim"), ("index", Arg::Int(index as i64))])
        }
        "split" | "split_with_sizes" | "chunk" | "tensor_split" => match piece_end(call, index, at, base) {
            Some(end) => Inverse::Scatter(
                "slice_scatter.default",
                vec![arg("dim"), ("start", Arg::Int(at)), ("end", Arg::Int(end))],
            ),
            None => UNKNOWN,
        },
        "diagonal" if call.overload == "diagonal.default" => {
            Inverse::Scatter("diagonal_scatter.default", vec![arg("offset"), arg("dim1"), arg("dim2")])
        }
        "as_strided" => Inverse::Scatter(
            "as_strided_scatter.default",
            vec![arg("size"), arg("stride"), arg("storage_offset")],
        ),
        "expand" | "expand_as" => Inverse::None("it writes an expanded tensor, whose elements share memory"),
        _ => UNKNOWN,
    }
}

/// Where a piece ends in the cut dim; known sizes only.
fn piece_end(call: &ViewCall, index: usize, at: i64, base: Option<&Type>) -> Option<i64> {
    let base = base?.tensor()?;
    let axis = axis_of(call, "dim", base.dims.len())?;
    base.dims.get(axis)?.known()?;
    let len = call.types.get(index)?.as_ref()?.tensor()?.dims.get(axis)?.known()?;
    at.checked_add(len)
}

fn inverse_permutation(dims: Option<&Arg>) -> Option<Arg> {
    let Some(Arg::List(dims)) = dims else { return None };
    let rank = dims.len() as i64;
    let mut inverse = vec![0; dims.len()];
    for (to, dim) in dims.iter().enumerate() {
        let Arg::Int(from) = dim else { return None };
        let from = if *from < 0 { from.checked_add(rank)? } else { *from };
        *inverse.get_mut(usize::try_from(from).ok()?)? = to as i64;
    }
    Some(Arg::ints(inverse))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strided(sizes: &[i64], strides: &[i64]) -> Strided {
        Strided { sizes: sizes.to_vec(), strides: strides.to_vec() }
    }

    #[test]
    fn reshapes_share_where_strides_allow_it() {
        let dense = strided(&[2, 3, 4], &[12, 4, 1]);
        assert!(dense.is_contiguous());
        assert!(can_view(&dense, &[6, 4]) && can_view(&dense, &[24]) && can_view(&dense, &[2, 1, 2, 6]));
        let transposed = strided(&[4, 3], &[1, 4]);
        assert!(!transposed.is_contiguous());
        assert!(
            !can_view(&transposed, &[12])
                && can_view(&transposed, &[2, 2, 3])
                && can_view(&transposed, &[4, 1, 3])
        );
        let sliced = strided(&[2, 3], &[5, 1]);
        assert!(!can_view(&sliced, &[6]) && can_view(&sliced, &[2, 3, 1]));
        assert!(can_view(&strided(&[0, 3], &[3, 1]), &[7, 0]));
        assert!(can_view(&strided(&[], &[]), &[1, 1]));
        assert!(!can_view(&strided(&[3, 2], &[0, 1]), &[6]));
        assert!(can_view(&strided(&[1, 6], &[99, 1]), &[2, 3]));
    }

    #[test]
    fn permutations_are_undone() {
        assert_eq!(inverse_permutation(Some(&Arg::ints([2, 0, -2]))), Some(Arg::ints([1, 2, 0])));
        assert_eq!(inverse_permutation(Some(&Arg::ints([5, 0]))), None);
    }
}
