//! A program: what a `.pt2` or `.trace` holds, with its weights, before anybody is asked to run it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::error::{Error, NamedInputError, OpenError, TraceErrors};
use crate::frontend::pt2::{Pt2, graph::Dialect};
use crate::frontend::{self, Imported, InputKind, UserInput};
use crate::ir::{self, Arg, Faults, Module, Name, RoleKind, Trace, TraceParam, Type};
use crate::memory::Tensor;
use crate::run::Value;
use crate::tensor_files::read_tensors;
use crate::trainer::{Loss, TrainError};
use thunderhead_manifest::{Glob, document};

/// A program that can be compiled. Cloning shares the weights.
#[derive(Clone, Debug)]
pub struct Program {
    path: Option<PathBuf>,
    module: Arc<Module>,
    weights: FxHashMap<Name, Tensor>,
    /// Buffers that are no parameters of the trace because another one is their memory's base: name, then base.
    views: Vec<(Name, Name)>,
    inputs: Vec<UserInput>,
    dialect: Option<Dialect>,
    warnings: Vec<String>,
}

impl Program {
    /// Opens a `.trace` (by its ending) or a `.pt2`. Weights are mapped, not read.
    pub fn open(path: impl AsRef<Path>) -> Result<Program, Error> {
        let path = path.as_ref();
        let failed = |error| Error::Model(Box::new(OpenError { path: path.to_owned(), error }));
        let mut program = if is_trace(path) {
            let text = std::fs::read_to_string(path)
                .map_err(|source| failed(frontend::ModelError::Io { path: path.to_owned(), source }))?;
            Program::from_trace_text(&path.to_string_lossy(), &text)?
        } else {
            let imported = Pt2::open(path).and_then(|pt2| frontend::import(&pt2)).map_err(failed)?;
            Program::from_imported(imported)
        };
        program.path = Some(path.to_owned());
        Ok(program)
    }

    /// A program from the text of a trace; `name` is what errors call it. It has no weights of its own.
    pub fn from_trace_text(name: &str, text: &str) -> Result<Program, Error> {
        let bad = |faults: Faults| Error::Trace(TraceErrors::new(name, text, faults));
        let parsed = ir::text::parse(text, crate::ops::schemas()).map_err(bad)?;
        let faults = crate::ops::check::faults(&parsed.module);
        if let Some(faults) = parsed.source.locate_all(text, faults) {
            return Err(bad(faults));
        }
        Ok(Program::from_module(parsed.module))
    }

    /// A program from a module, as `ops::Builder` makes them. It has no weights of its own.
    pub fn from_module(module: Module) -> Program {
        let inputs = module.traces.first().map(inputs_of).unwrap_or_default();
        Program {
            path: None,
            module: Arc::new(module),
            weights: FxHashMap::default(),
            views: Vec::new(),
            inputs,
            dialect: None,
            warnings: Vec::new(),
        }
    }

    fn from_imported(imported: Imported) -> Program {
        Program {
            path: None,
            module: Arc::new(imported.module),
            weights: imported.tensors,
            views: imported.views,
            inputs: imported.inputs,
            dialect: Some(imported.dialect),
            warnings: imported.warnings,
        }
    }

    /// With parameters, buffers and constants by FQN from a `.pt2` or safetensors file instead of its own. Names that
    /// the program does not have are said in [`warnings`](Program::warnings).
    pub fn with_weights(mut self, path: impl AsRef<Path>) -> Result<Program, Error> {
        let path = path.as_ref();
        let given: Vec<(Name, Tensor)> = if path.extension().is_some_and(|extension| extension == "pt2") {
            let failed = |error| Error::Model(Box::new(OpenError { path: path.to_owned(), error }));
            let imported = Pt2::open(path).and_then(|pt2| frontend::import(&pt2)).map_err(failed)?;
            imported.tensors.into_iter().collect()
        } else {
            read_tensors(path)?.into_iter().map(|(name, tensor)| (fqn(&name), tensor)).collect()
        };
        let known: Vec<Name> =
            self.trace().params.iter().filter_map(|param| param.role.name.clone()).collect();
        let mut unknown: Vec<&str> = given
            .iter()
            .map(|(name, _)| &**name)
            .filter(|name| known.iter().all(|k| **k != **name))
            .collect();
        if !unknown.is_empty() {
            unknown.sort_unstable();
            let n = unknown.len();
            unknown.truncate(3);
            let more = if n > 3 { ", …" } else { "" };
            self.warnings.push(format!(
                "{} has {n} tensors that the program does not take: {}{more}",
                path.display(),
                unknown.join(", ")
            ));
        }
        let own = self.weights.clone();
        let given: FxHashMap<Name, Tensor> = given.into_iter().collect();
        self.weights.extend(given.iter().map(|(name, tensor)| (name.clone(), tensor.clone())));
        keep_ties(&own, &given, &mut self.weights);
        Ok(self)
    }

    /// The program whose only output is that loss of its first output. Weights are shared; a loss with a target takes it
    /// as an input of that name.
    pub fn with_loss(&self, loss: Loss) -> Result<Program, Error> {
        let mut module = Module::clone(&self.module);
        let fault = |what: &str| Error::from(TrainError::Loss(what.to_owned()));
        let trace = module.traces.first_mut().ok_or_else(|| fault("there is no trace"))?;
        loss.append(trace).map_err(|what| fault(&what))?;
        Ok(Program { module: Arc::new(module), ..self.clone() })
    }

    /// The file, if it came from one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Its traces and symbols; the first trace is the one that runs.
    pub fn module(&self) -> &Arc<Module> {
        &self.module
    }

    /// Parameters, buffers and constants by FQN.
    pub fn weights(&self) -> &FxHashMap<Name, Tensor> {
        &self.weights
    }

    /// Buffers that share the memory of another one which the program writes: name, then that one's.
    pub(crate) fn views(&self) -> &[(Name, Name)] {
        &self.views
    }

    /// The caller's inputs, flattened in order: `in0`, `in1`, ….
    pub fn inputs(&self) -> &[UserInput] {
        &self.inputs
    }

    /// How PyTorch wrote the graph; none for a trace.
    pub fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }

    /// What is worth saying of the file, but no error.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn trace(&self) -> &Trace {
        static EMPTY: std::sync::OnceLock<Trace> = std::sync::OnceLock::new();
        self.module
            .traces
            .first()
            .unwrap_or_else(|| EMPTY.get_or_init(|| Trace::new("forward", ir::Stage::Acquired)))
    }

    /// Inputs given by name (`in0`, …, or the model's own), put in the order in which a session takes them. Constants
    /// of the export may be left out, and must equal the model's where they are given. `missing` gives what is not there
    /// (by its place among the inputs that are taken), or nothing, which is an error.
    pub fn arrange(
        &self,
        given: BTreeMap<String, Value>,
        missing: &mut dyn FnMut(usize, &Type) -> Option<Value>,
    ) -> Result<Vec<Value>, Error> {
        let mut by_role: BTreeMap<String, (String, Value)> = BTreeMap::new();
        for (name, value) in given {
            let role = self.role_of(&name)?;
            if let Some((first, _)) = by_role.get(&role) {
                let (first, second) = (first.clone(), name);
                return Err(NamedInputError::Twice { name: role, first, second }.into());
            }
            by_role.insert(role, (name, value));
        }
        for (position, input) in self.inputs.iter().enumerate() {
            if let InputKind::Constant(wanted) = &input.kind {
                let name = format!("in{position}");
                let found = by_role.remove(&name).map(|(_, value)| value);
                check_constant(name, wanted, found.as_ref())?;
            }
        }
        let mut values = Vec::new();
        for (i, param) in self.user_params().enumerate() {
            let role = param.role.name.as_deref().unwrap_or_default();
            let ty = self.trace().ty(param.value);
            let found = by_role.remove(role).map(|(_, value)| value);
            values.push(found.or_else(|| missing(i, ty)).ok_or_else(|| NamedInputError::Missing {
                name: role.to_owned(),
                wanted: described(&self.trace().value(param.value).name, ty),
            })?);
        }
        Ok(values)
    }

    /// Whether it has an input of that name: by position, or the model's own.
    pub fn has_input(&self, name: &str) -> bool {
        self.role_of(name).is_ok()
    }

    /// What wants a gradient, by globs over the names of parameters, frozen ones included, and of inputs (`in0`, …).
    /// An exact name may be that of a floating buffer or constant, too. Sorted; numbers and integer tensors that a glob meets are
    /// passed over.
    pub fn names_wrt(&self, globs: &[String]) -> Result<Vec<String>, Error> {
        let known: Vec<(&str, RoleKind, &Type)> = self
            .trace()
            .params
            .iter()
            .filter_map(|p| Some((p.role.name.as_deref()?, p.role.kind, self.trace().ty(p.value))))
            .collect();
        let mut names = std::collections::BTreeSet::new();
        for text in globs {
            let glob = Glob::new(text.as_str());
            let is_meant = |kind: RoleKind| {
                glob.is_exact() || matches!(kind, RoleKind::Param | RoleKind::Input | RoleKind::Inout)
            };
            let met: Vec<_> =
                known.iter().filter(|(name, kind, _)| is_meant(*kind) && glob.matches(name)).collect();
            let floating = |ty: &Type| ty.tensor().is_some_and(|tensor| tensor.dtype.is_inexact());
            names.extend(met.iter().filter(|(_, _, ty)| floating(ty)).map(|(name, _, _)| (*name).to_owned()));
            match met.as_slice() {
                [] => {
                    let near = document::nearest(text, known.iter().map(|(name, _, _)| *name));
                    let advice = near.map_or_else(
                        || "`thunderhead trace MODEL` lists parameters and inputs".to_owned(),
                        |near| format!("did you mean `{near}`?"),
                    );
                    return Err(NamedInputError::Wrt { name: text.clone(), advice }.into());
                }
                met if met.iter().all(|(_, _, ty)| !floating(ty)) => {
                    let (name, _, ty) = met[0];
                    let wanted = described(name, ty);
                    return Err(NamedInputError::NotFloating { name: text.clone(), wanted }.into());
                }
                _ => {}
            }
        }
        Ok(names.into_iter().collect())
    }

    /// Cotangents by name (`out0`, …) as cotangents by the output's index.
    pub fn arrange_cotangents(
        &self,
        given: BTreeMap<String, Tensor>,
    ) -> Result<FxHashMap<usize, Tensor>, Error> {
        let outputs = self.floating_outputs();
        let mut by_index = FxHashMap::default();
        for (name, tensor) in given {
            let Some((index, _)) = outputs.iter().find(|(_, output)| *output == name) else {
                let names: Vec<String> = outputs.into_iter().map(|(_, output)| output).collect();
                let advice = match document::nearest(&name, names.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if names.is_empty() => "none of its outputs is floating".to_owned(),
                    None => format!("cotangents are those of {}", document::one_of(&names)),
                };
                return Err(NamedInputError::Cotangent { name, advice }.into());
            };
            by_index.insert(*index, tensor);
        }
        Ok(by_index)
    }

    /// Outputs that can take a cotangent: index and name.
    pub fn floating_outputs(&self) -> Vec<(usize, String)> {
        let trace = self.trace();
        let floating = |value: Option<ir::ValueId>| {
            value.is_some_and(|value| trace.ty(value).tensor().is_some_and(|t| t.dtype.is_inexact()))
        };
        let named = trace.outputs.iter().enumerate().filter(|(_, output)| floating(output.value.value()));
        named
            .map(|(i, output)| (i, output.name.as_deref().map_or_else(|| format!("out{i}"), str::to_owned)))
            .collect()
    }

    fn user_params(&self) -> impl Iterator<Item = &TraceParam> {
        self.trace().params.iter().filter(|param| is_user(param))
    }

    /// The name by position that is meant: it itself, or the model's own.
    fn role_of(&self, name: &str) -> Result<String, Error> {
        let roles: Vec<&str> = self.user_params().filter_map(|param| param.role.name.as_deref()).collect();
        let constants = self.inputs.iter().enumerate().filter(|(_, input)| input.kind != InputKind::Traced);
        let constants: Vec<String> = constants.map(|(position, _)| format!("in{position}")).collect();
        let by_position = roles.iter().copied().chain(constants.iter().map(String::as_str));
        if by_position.clone().any(|role| role == name) {
            return Ok(name.to_owned());
        }
        if let Some(position) = self.inputs.iter().position(|input| &*input.name == name) {
            return Ok(format!("in{position}"));
        }
        let own = self.inputs.iter().map(|input| &*input.name);
        let near = document::nearest(name, by_position.clone().chain(own));
        let all: Vec<String> = by_position.map(str::to_owned).collect();
        let advice = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None if all.is_empty() => "it takes no inputs".to_owned(),
            None => format!("it takes {}", document::one_of(&all)),
        };
        Err(NamedInputError::Unknown { name: name.to_owned(), advice }.into())
    }
}

/// Names of one tensor in the model stay names of one tensor: those that a file leaves out (such files hold a tensor
/// once) follow the one that it has, and those that it gives the same elements share them, so that training sees one.
fn keep_ties(
    own: &FxHashMap<Name, Tensor>,
    given: &FxHashMap<Name, Tensor>,
    weights: &mut FxHashMap<Name, Tensor>,
) {
    let lies =
        |t: &Tensor| (t.operand().addr() as usize, t.dtype(), t.dims().to_vec(), t.strides_elems().to_vec());
    let mut groups: BTreeMap<_, Vec<&Name>> = BTreeMap::new();
    for (name, tensor) in own.iter().filter(|(_, t)| t.numel() > 0) {
        groups.entry(format!("{:?}", lies(tensor))).or_default().push(name);
    }
    for mut names in groups.into_values().filter(|names| names.len() > 1) {
        names.sort_unstable();
        let Some(first) = names.iter().find_map(|name| given.get(*name)) else { continue };
        for name in names {
            if given.get(name).is_none_or(|tensor| same_elements(first, tensor)) {
                weights.insert(name.clone(), first.clone());
            }
        }
    }
}

fn same_elements(a: &Tensor, b: &Tensor) -> bool {
    let alike = a.dtype() == b.dtype() && a.dims() == b.dims();
    let one = || a.operand().addr() == b.operand().addr() && a.strides_elems() == b.strides_elems();
    alike && (one() || a.to_bytes().is_ok_and(|x| b.to_bytes().is_ok_and(|y| x == y)))
}

fn is_trace(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "trace")
}

fn is_user(param: &TraceParam) -> bool {
    matches!(param.role.kind, RoleKind::Input | RoleKind::Inout)
}

/// An FQN that looks like an input or output is written `fqn:in3` where names share a file.
fn fqn(name: &str) -> Name {
    name.strip_prefix("fqn:").unwrap_or(name).into()
}

/// A trace lists the inputs that it takes; positions that it does not have were constants.
fn inputs_of(trace: &Trace) -> Vec<UserInput> {
    let mut inputs: Vec<UserInput> = Vec::new();
    for param in trace.params.iter().filter(|param| is_user(param)) {
        let role = param.role.name.as_deref().unwrap_or("");
        let Some(position) = role.strip_prefix("in").and_then(|digits| digits.parse::<usize>().ok()) else {
            continue;
        };
        // A trace that names `in4000000000` has not that many inputs: positions are looked up, not allocated.
        if position > trace.params.len() + MAX_CONSTANTS {
            continue;
        }
        while inputs.len() <= position {
            let name: Name = format!("in{}", inputs.len()).into();
            inputs.push(UserInput { name, kind: InputKind::Constant(Arg::None) });
        }
        inputs[position] = UserInput { name: trace.value(param.value).name.clone(), kind: InputKind::Traced };
    }
    inputs
}

/// So many inputs of a trace may be constants that it does not list.
const MAX_CONSTANTS: usize = 10_000;

fn check_constant(name: String, wanted: &Arg, found: Option<&Value>) -> Result<(), NamedInputError> {
    let Some(found) = found else { return Ok(()) };
    let same = match (wanted, found) {
        (Arg::None, Value::None) => true,
        (Arg::Int(a), Value::Int(b)) => a == b,
        (Arg::Float(a), Value::Float(b)) => a == b || (a.is_nan() && b.is_nan()),
        (Arg::Float(a), Value::Int(b)) => *a == *b as f64,
        (Arg::Bool(a), Value::Bool(b)) => a == b,
        (Arg::Str(a), Value::Str(b)) => **a == **b,
        _ => false,
    };
    if same {
        return Ok(());
    }
    let empty = Trace::new("constant", ir::Stage::Acquired);
    Err(NamedInputError::Constant { name, wanted: ir::text::print_arg(&empty, wanted), found: shown(found) })
}

fn shown(value: &Value) -> String {
    match value {
        Value::Int(int) => int.to_string(),
        Value::Float(float) => format!("{float:?}"),
        Value::Bool(flag) => flag.to_string(),
        Value::Str(text) => format!("{text:?}"),
        other => other.kind().to_owned(),
    }
}

/// `x: f32[4, 16]`
fn described(name: &str, ty: &Type) -> String {
    match ty {
        Type::Tensor(tensor) => {
            let dims: Vec<String> = tensor.dims.iter().map(ToString::to_string).collect();
            format!("`{name}`, {}[{}]", tensor.dtype, dims.join(", "))
        }
        Type::Number(number) => format!("`{name}`, {}", number.kind.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
thunderhead trace 1.0

dim s0 in 1..64

trace forward(
    %x: f32[s0, 2] input \"in0\",
    %gain: float input \"in2\",
) stage acquired model \"small\" {
    %y: f32[s0, 2] = torch.mul(%x, %gain)
    return %y as \"out0\"
}
";

    #[test]
    fn names_of_one_tensor_stay_that_with_other_weights() {
        let tensor = |x: f32| Tensor::from_slice(&[x], &[1]).expect("one element");
        let named = |all: &[(&str, &Tensor)]| -> FxHashMap<Name, Tensor> {
            all.iter().map(|(name, t)| (Name::from(*name), (*t).clone())).collect()
        };
        let (old, new, again, other) = (tensor(1.0), tensor(2.0), tensor(2.0), tensor(3.0));
        let own = named(&[("a", &old), ("b", &old), ("c", &tensor(1.0))]);
        let tied = |given: &[(&str, &Tensor)]| {
            let given = named(given);
            let mut weights = own.clone();
            weights.extend(given.clone());
            keep_ties(&own, &given, &mut weights);
            let first = |name: &str| weights[name].to_vec::<f32>().expect("f32")[0];
            assert_eq!(first("c"), 1.0);
            let one = weights["a"].operand().addr() == weights["b"].operand().addr();
            (one, first("a"), first("b"))
        };
        assert_eq!(tied(&[("b", &new)]), (true, 2.0, 2.0));
        assert_eq!(tied(&[("a", &new), ("b", &again)]), (true, 2.0, 2.0));
        assert_eq!(tied(&[("a", &new), ("b", &other)]), (false, 2.0, 3.0));
        assert_eq!(tied(&[]), (true, 1.0, 1.0));
    }

    fn program() -> Program {
        Program::from_trace_text("small.trace", TEXT).expect("a good trace")
    }

    fn arrange(given: &[(&str, Value)]) -> Result<Vec<Value>, String> {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        program().arrange(given, &mut |_, _| None).map_err(|error| error.to_string())
    }

    fn matrix() -> Value {
        Value::Tensor(Tensor::from_slice(&[1.0f32, 2.0], &[1, 2]).expect("two elements"))
    }

    #[test]
    fn inputs_go_by_position_or_by_the_models_names() {
        for names in [["in0", "in2"], ["x", "gain"], ["in0", "gain"]] {
            let values =
                arrange(&[(names[0], matrix()), (names[1], Value::Float(2.0))]).expect("both are given");
            assert!(matches!(&values[..], [Value::Tensor(_), Value::Float(_)]), "{names:?}");
        }
    }

    #[test]
    fn inputs_that_do_not_fit_are_named() {
        let missing = arrange(&[("in0", matrix())]).expect_err("in2 is missing");
        assert_eq!(missing, "input `in2` is missing: `gain`, float");
        let twice = arrange(&[("in0", matrix()), ("x", matrix())]).expect_err("one of them");
        assert_eq!(twice, "input `in0` is given twice, as `in0` and as `x`");
        let unknown = arrange(&[("in9", Value::None)]).expect_err("there is none");
        assert_eq!(unknown, "the program has no input `in9`");
    }

    #[test]
    fn positions_that_a_trace_does_not_take_are_constants() {
        let all = [("in0", matrix()), ("in1", Value::None), ("in2", Value::Float(2.0))];
        assert_eq!(arrange(&all).expect("none is none").len(), 2);
        let wrong = [("in0", matrix()), ("in1", Value::Int(3)), ("in2", Value::Float(2.0))];
        let error = arrange(&wrong).expect_err("it is not none");
        assert_eq!(error, "input `in1` was exported as the constant none, 3 was given");
    }

    #[test]
    fn faults_of_a_trace_have_their_place() {
        use miette::Diagnostic;
        let error = Program::from_trace_text("t.trace", &TEXT.replace("(%x, %gain)", "(%x, %gian)"));
        let error = error.expect_err("an undefined value");
        let first = error.related().into_iter().flatten().next().expect("one fault");
        let label = first.labels().into_iter().flatten().next().expect("a place");
        assert_eq!(&TEXT.replace("gain)", "gian)")[label.offset()..label.offset() + label.len()], "%gian");
    }
}
