//! From the file's graph to an acquired trace.
//!
//! One walk over the nodes in order. Parameters and inputs become the trace's parameters (`signature`), each node is
//! turned into calls of the op table (`nodes`, `arguments`, `calls`), symbolic numbers into dim expressions or `num.*`
//! ops (`numbers`, `symbols`), and writes into functional ops on the written base (`functionalize`).
//! Invariants: the trace is SSA and functional but for `prims.copy_` at its end; result types are those that the file
//! records, after the op's own rule has agreed; every name is new.
//! Deliberately not here: optimising what comes out. Dead casts and repeated views are for the passes.

use std::collections::{BTreeSet, HashMap, HashSet};

use rustc_hash::FxHashMap;

use super::functionalize::{Base, Link, TensorRef};
use super::pt2::Pt2;
use super::pt2::expr::Expr;
use super::pt2::graph::{Argument, Dialect, Graph, Node, OutputSpec, SymBool, SymFloat, SymInt, TensorMeta};
use super::pt2::weights::StorageId;
use super::signature::ParamInfo;
use super::symbols::Symbols;
use super::{ModelError, ModelResult, Place, PlaceParts};
use crate::ir::{Arg, Dtype, Module, Name, Output, RoleKind, Stage, Stmt, Trace, Type, ValueId};
use crate::memory::{Bytes, Tensor};
use crate::ops::{Builder, OpError};

/// A model as the rest of the host sees it.
#[derive(Debug)]
pub struct Imported {
    /// The trace `forward`, at stage acquired.
    pub module: Module,
    /// Parameters, buffers and constants by FQN: views of the mapped file; tensors that share a storage share its bytes.
    pub tensors: FxHashMap<Name, Tensor>,
    /// FQNs that are no parameter of the trace because another one, named beside it, is their memory's base.
    pub views: Vec<(Name, Name)>,
    /// The caller's inputs, flattened in order: `in0`, `in1`, ….
    pub inputs: Vec<UserInput>,
    /// How the graph was written.
    pub dialect: Dialect,
    /// What is worth saying but no error.
    pub warnings: Vec<String>,
}

/// An input of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct UserInput {
    /// The model's own name for it.
    pub name: Name,
    /// Where it goes.
    pub kind: InputKind,
}

/// What an input is for.
#[derive(Clone, Debug, PartialEq)]
pub enum InputKind {
    /// It is the trace's parameter whose role is named `in<position>`.
    Traced,
    /// Baked into the program: may be left out, and must equal this when given.
    Constant(Arg),
}

/// Imports the program of an opened file.
///
/// # Errors
/// [`ModelError`]: whatever the graph says that cannot be, or that is not supported.
pub fn import(pt2: &Pt2) -> ModelResult<Imported> {
    // Which storages are written is known only at the end of the walk; a storage that several tensors share and the
    // program writes must be one base from the start. Each round adds one such storage, so rounds are few.
    let mut based = BTreeSet::new();
    loop {
        let mut importer = Importer::new(pt2, &based)?;
        let outcome = importer.run();
        let needs_base = importer.needs_base;
        match (outcome, needs_base) {
            (Ok(()), _) => return importer.finish(),
            (Err(_), Some(storage)) if !based.contains(&storage) => {
                drop(importer);
                based.insert(storage);
            }
            (Err(error), _) => return Err(error),
        }
    }
}

/// A value of the file's graph.
#[derive(Clone, Debug)]
pub(super) enum Entity {
    Tensor(TensorRef),
    /// A literal, a dim or a number value of the trace.
    Number(Arg),
    /// A number in closed form that no dim can say; `num.*` ops are emitted when somebody needs it.
    Closed(Box<Expr>),
}

/// A graph being walked: the outermost one, or a region that is inlined.
pub(super) struct Scope<'a> {
    pub graph: &'a Graph,
    pub values: HashMap<&'a str, Entity>,
}

pub(super) struct Importer<'a> {
    pub pt2: &'a Pt2,
    pub based: &'a BTreeSet<StorageId>,
    /// Set when the walk failed because this storage must be one base.
    pub needs_base: Option<StorageId>,
    pub symbols: Symbols,
    pub trace: Trace,
    pub body: Vec<Stmt>,
    pub scopes: Vec<Scope<'a>>,
    pub bases: Vec<Base>,
    pub links: Vec<Link>,
    /// How many view calls may still be repeated because their base was written.
    pub replay_budget: usize,
    pub params: Vec<ParamInfo>,
    pub inputs: Vec<UserInput>,
    pub tensors: FxHashMap<Name, Tensor>,
    pub storage_bytes: FxHashMap<StorageId, Bytes>,
    /// Parameters that look at one storage, by index.
    pub storage_members: FxHashMap<StorageId, Vec<usize>>,
    pub views: Vec<(Name, Name)>,
    /// Number values of the trace by the symbol that they define (`u0`, `zuf3`).
    pub number_values: HashMap<String, ValueId>,
    /// Number values of closed forms that were emitted already, by the form's own print.
    pub closed_values: HashMap<String, Arg>,
    /// What the last call writes besides its results, by ATen's name of the argument.
    pub call_writes: Vec<(Name, Arg)>,
    /// Values that have no name of the model's yet.
    pub unnamed: BTreeSet<ValueId>,
    /// Depth of regions without gradient.
    pub grad_off: usize,
    /// The low dtype of the autocast region that is walked.
    pub autocast: Option<Dtype>,
    /// Traces of control flow so far.
    pub nested: Vec<Trace>,
    pub warnings: Vec<String>,
    pub node: Option<&'a Node>,
    pub notes: crate::ir::Notes,
    pub names: Names,
}

impl<'a> Importer<'a> {
    fn new(pt2: &'a Pt2, based: &'a BTreeSet<StorageId>) -> ModelResult<Self> {
        let graph = &pt2.program.graph_module.graph;
        let texts = expressions(graph);
        let mut trace = Trace::new("forward", Stage::Acquired);
        trace.model = Some(pt2.name.as_str().into());
        let reserved = graph.tensor_values.keys().chain(graph.sym_int_values.keys());
        let reserved = reserved.chain(graph.sym_float_values.keys()).chain(graph.sym_bool_values.keys());
        Ok(Self {
            pt2,
            based,
            needs_base: None,
            symbols: Symbols::new(&pt2.program.range_constraints, &texts),
            trace,
            body: Vec::new(),
            scopes: vec![Scope { graph, values: HashMap::new() }],
            bases: Vec::new(),
            links: Vec::new(),
            replay_budget: 1_000 + 50 * graph.nodes.len(),
            params: Vec::new(),
            inputs: Vec::new(),
            tensors: FxHashMap::default(),
            storage_bytes: FxHashMap::default(),
            storage_members: FxHashMap::default(),
            views: Vec::new(),
            number_values: HashMap::new(),
            closed_values: HashMap::new(),
            call_writes: Vec::new(),
            unnamed: BTreeSet::new(),
            grad_off: 0,
            autocast: None,
            nested: Vec::new(),
            warnings: pt2.warnings.clone(),
            node: None,
            notes: Vec::new(),
            names: Names::reserving(reserved),
        })
    }

    fn run(&mut self) -> ModelResult<()> {
        let module = &self.pt2.program.graph_module;
        self.signature_inputs()?;
        self.walk(&module.graph)?;
        self.node = None;
        self.notes.clear();
        self.outputs()
    }

    /// All nodes of a graph, in order.
    pub(super) fn walk(&mut self, graph: &'a Graph) -> ModelResult<()> {
        for node in &graph.nodes {
            self.enter(node);
            self.import_node(node)?;
        }
        Ok(())
    }

    /// What messages and notes say from here on.
    pub(super) fn enter(&mut self, node: &'a Node) {
        let PlaceParts { node: name, module, source, .. } = *self.place_of(node).0;
        self.notes = vec![("node".into(), Arg::str(&name))];
        if let Some(module) = module {
            self.notes.push(("module".into(), Arg::str(&module)));
        }
        if let Some(source) = source {
            self.notes.push(("src".into(), Arg::str(&source)));
        }
        self.node = Some(node);
    }

    /// Where we are, for messages.
    pub(super) fn place(&self) -> Place {
        self.node.map(|node| self.place_of(node)).unwrap_or_default()
    }

    fn place_of(&self, node: &Node) -> Place {
        let name = node.name.clone().or_else(|| node.outputs.iter().find_map(first_name)).unwrap_or_default();
        let stack = node.metadata.nn_module_stack.as_deref();
        let module = stack
            .and_then(|stack| stack.rsplit(';').next()?.split(',').nth(1))
            .filter(|path| !path.is_empty());
        let source = node.metadata.stack_trace.as_deref().and_then(last_source_line);
        Place(Box::new(PlaceParts {
            node: if name.is_empty() { "?".to_owned() } else { name },
            target: node.target.clone(),
            module: module.map(str::to_owned),
            source,
        }))
    }

    pub(super) fn call_error(&self, error: OpError) -> ModelError {
        ModelError::Call { place: self.place(), why: error.to_string() }
    }

    pub(super) fn scope(&self) -> &Scope<'a> {
        self.scopes.last().expect("the outermost scope is never popped")
    }

    /// The value of that name.
    pub(super) fn lookup(&self, name: &str) -> ModelResult<&Entity> {
        let undefined = || ModelError::ValueUndefined { place: self.place(), name: name.to_owned() };
        self.scope().values.get(name).ok_or_else(undefined)
    }

    /// The tensor of that name.
    pub(super) fn lookup_tensor(&self, name: &str) -> ModelResult<TensorRef> {
        match self.lookup(name)? {
            Entity::Tensor(tensor) => Ok(*tensor),
            _ => Err(self.argument_error(name, "is a number where a tensor is needed")),
        }
    }

    pub(super) fn argument_error(&self, name: &str, why: impl Into<String>) -> ModelError {
        ModelError::Argument { place: self.place(), name: name.to_owned(), why: why.into() }
    }

    /// Defines a value of the file's graph.
    pub(super) fn define(&mut self, name: &'a str, entity: Entity) -> ModelResult<()> {
        let scope = self.scopes.last_mut().expect("the outermost scope is never popped");
        if scope.values.insert(name, entity).is_some() {
            return Err(ModelError::ValueRedefined { place: self.place(), name: name.to_owned() });
        }
        Ok(())
    }

    /// What the file says of a tensor.
    pub(super) fn meta(&self, name: &str) -> ModelResult<&'a TensorMeta> {
        let graph = self.scope().graph;
        graph.tensor_values.get(name).ok_or_else(|| self.type_error(name, "the file has no entry for it"))
    }

    pub(super) fn type_error(&self, name: &str, why: impl Into<String>) -> ModelError {
        ModelError::ValueType { place: self.place(), name: name.to_owned(), why: why.into() }
    }

    /// Runs `emit` on a builder whose statements go to the end of the trace and carry the node's notes.
    pub(super) fn emit<R>(
        &mut self,
        emit: impl FnOnce(&mut Builder<'_>) -> Result<R, OpError>,
    ) -> ModelResult<R> {
        let mark = self.trace.values.len();
        let mut builder = Builder::top(&mut self.trace);
        builder.set_notes(self.notes.clone());
        let result = emit(&mut builder);
        let statements = builder.finish();
        let result = result.map_err(|error| self.call_error(error))?;
        self.body.extend(statements);
        // The builder counts without knowing the model's names; what gets none of these is numbered at the end.
        self.unnamed.extend((mark..self.trace.values.len()).map(value_id));
        Ok(result)
    }

    /// A new value without a name of the model's.
    pub(super) fn fresh(&mut self, ty: Type) -> ValueId {
        let value = self.trace.add_value("t", ty);
        self.unnamed.insert(value);
        value
    }

    /// Gives a value the model's name: the name itself in the outermost graph, a new one like it inside regions.
    pub(super) fn rename(&mut self, value: ValueId, name: &str) {
        let name = if self.scopes.len() == 1 { self.names.reserved(name) } else { self.names.unique(name) };
        self.set_name(value, name);
    }

    pub(super) fn set_name(&mut self, value: ValueId, name: Name) {
        self.trace.values[value.index()].name = name;
        self.unnamed.remove(&value);
    }

    /// A new name like `wanted`.
    pub(super) fn unique_name(&mut self, wanted: &str) -> Name {
        self.names.unique(wanted)
    }

    /// User outputs, and the writes of a core program's signature.
    fn outputs(&mut self) -> ModelResult<()> {
        let module = &self.pt2.program.graph_module;
        let (graph, specs) = (&module.graph, &module.signature.output_specs);
        if graph.outputs.len() != specs.len() {
            let why = format!("{} outputs, {} output specs", graph.outputs.len(), specs.len());
            return Err(ModelError::Signature { why });
        }
        for spec in specs {
            match spec {
                OutputSpec::UserOutput { arg } => {
                    let name = format!("out{}", self.trace.outputs.len());
                    let value = self.output(arg)?;
                    self.trace.outputs.push(Output { value, name: Some(name.into()) });
                }
                OutputSpec::BufferMutation { name, fqn } | OutputSpec::ParameterMutation { name, fqn } => {
                    self.signature_write(name, fqn)?;
                }
                OutputSpec::UserInputMutation { name, input } => self.signature_write_input(name, input)?,
                OutputSpec::Token => {}
                OutputSpec::Unknown(tag) => {
                    return Err(ModelError::SignatureUnsupported {
                        what: format!("an output of kind `{tag}`"),
                    });
                }
            }
        }
        self.write_back()
    }

    fn output(&mut self, arg: &Argument) -> ModelResult<Arg> {
        match arg {
            Argument::Tensor(name) => {
                let tensor = self.lookup_tensor(name)?;
                self.read(tensor).map(Arg::Value)
            }
            Argument::None
            | Argument::Int(_)
            | Argument::Float(_)
            | Argument::Bool(_)
            | Argument::Str(_)
            | Argument::Complex(_)
            | Argument::SymInt(_)
            | Argument::SymFloat(_)
            | Argument::SymBool(_) => self.plain_argument("output", arg),
            other => {
                Err(ModelError::SignatureUnsupported { what: format!("an output of kind `{}`", other.tag()) })
            }
        }
    }

    fn finish(mut self) -> ModelResult<Imported> {
        self.trace.body = std::mem::take(&mut self.body);
        for value in std::mem::take(&mut self.unnamed) {
            self.trace.values[value.index()].name = self.names.temporary();
        }
        self.trace.params = self.params.iter().filter_map(|param| param.declared.clone()).collect();
        let dims = self.symbols.declarations();
        Ok(Imported {
            module: Module { dims, traces: std::iter::once(self.trace).chain(self.nested).collect() },
            tensors: self.tensors,
            views: self.views,
            inputs: self.inputs,
            dialect: self.pt2.program.dialect()?,
            warnings: self.warnings,
        })
    }

    /// Marks a parameter of the trace as written.
    pub(super) fn mark_written(&mut self, param: usize) {
        if let Some(declared) = &mut self.params[param].declared {
            declared.role.kind = match declared.role.kind {
                RoleKind::Input => RoleKind::Inout,
                RoleKind::Buffer | RoleKind::Const => RoleKind::State,
                other => other,
            };
        }
    }
}

/// Every expression text of the outermost graph and its regions' results: where `u` symbols may be named.
fn expressions(graph: &Graph) -> Vec<&str> {
    let mut texts = Vec::new();
    let ints = graph.tensor_values.values().flat_map(|meta| &meta.sizes).chain(graph.sym_int_values.values());
    texts.extend(ints.filter_map(|value| match value {
        SymInt::Expr(sym) => Some(sym.expr_str.as_str()),
        _ => None,
    }));
    texts.extend(graph.sym_float_values.values().filter_map(|value| match value {
        SymFloat::Expr(sym) => Some(sym.expr_str.as_str()),
        _ => None,
    }));
    texts.extend(graph.sym_bool_values.values().filter_map(|value| match value {
        SymBool::Expr(sym) => Some(sym.expr_str.as_str()),
        _ => None,
    }));
    for node in &graph.nodes {
        for input in &node.inputs {
            if let Argument::Graph(sub) = &input.arg {
                texts.extend(expressions(&sub.graph));
            }
        }
    }
    texts
}

fn first_name(argument: &Argument) -> Option<String> {
    match argument {
        Argument::Tensor(name) => Some(name.clone()),
        Argument::Tensors(names) => names.first().cloned(),
        _ => None,
    }
}

fn value_id(index: usize) -> ValueId {
    ValueId(u32::try_from(index).expect("a trace has fewer than 2^32 values"))
}

/// The innermost `File "x.py", line 3, in f` of a Python stack trace, shortened.
fn last_source_line(trace: &str) -> Option<String> {
    let line = trace.lines().rev().find(|line| line.trim_start().starts_with("File "))?.trim();
    let (file, rest) = line.strip_prefix("File \"")?.split_once("\", line ")?;
    let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some(format!("{file}:{number}"))
}

/// Names of values: the model's own are kept, all others are new.
pub(super) struct Names {
    used: HashSet<String>,
    next_temporary: u64,
}

impl Names {
    /// Keeps the model's names for the model's values.
    pub(super) fn reserving<'s>(names: impl Iterator<Item = &'s String>) -> Self {
        Self { used: names.map(|name| identifier(name)).collect(), next_temporary: 0 }
    }

    /// A model's name in the outermost graph: unique there, since names are defined once. Two that differ only in
    /// characters which a trace cannot write would collide; the second gets a new name.
    fn reserved(&mut self, name: &str) -> Name {
        let wanted = identifier(name);
        if wanted == name { wanted.into() } else { self.unique(name) }
    }

    fn unique(&mut self, wanted: &str) -> Name {
        let stem = identifier(wanted);
        if self.used.insert(stem.clone()) {
            return stem.into();
        }
        let mut counter = 1u64;
        loop {
            let name = format!("{stem}_{counter}");
            if self.used.insert(name.clone()) {
                return name.into();
            }
            // Doubling keeps hostile repetitions cheap; real models have a handful.
            counter = if counter < 8 { counter + 1 } else { counter * 2 };
        }
    }

    pub(super) fn temporary(&mut self) -> Name {
        loop {
            let name = format!("t{}", self.next_temporary);
            self.next_temporary += 1;
            if self.used.insert(name.clone()) {
                return name.into();
            }
        }
    }
}

/// `name` with what an identifier cannot hold replaced.
fn identifier(name: &str) -> String {
    let mut text: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    if !text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        text.insert(0, '_');
    }
    text
}
