//! Calls against the op table: arguments against signatures, types of results against meta rules (rule 4 of the trace
//! format). What the table does not know (opaque `aten.*`, plugins' ops, regions) is believed.
//!
//! Structure comes first: a module must have passed `ir::verify` before its calls can be checked.

use super::{build, find, schemas, table};
use crate::ir::fault::{Code, Fault, Faults, Part, Place};
use crate::ir::text::{self, Parsed};
use crate::ir::verify::{range_of, types_agree, verify};
use crate::ir::{
    Arg, Bsym, Module, NumKind, ParamBase, ParamType, Schema, Stmt, Symbol, Trace, Type, ValueId,
};

/// Reads trace text that is a program: it parses, its structure holds, and its calls are what the op table says.
/// `file` is named in faults.
pub fn read(text: &str, file: Option<&str>) -> Result<Module, Faults> {
    let named = |faults: Faults| match file {
        Some(file) => faults.in_file(file),
        None => faults,
    };
    let Parsed { module, source } = text::parse(text, schemas()).map_err(named)?;
    match source.locate_all(text, faults(&module)) {
        Some(faults) => Err(named(faults)),
        None => Ok(module),
    }
}

/// Reads a program from its JSON. `file` is named in faults.
pub fn read_json(json: &str, file: Option<&str>) -> Result<Module, Faults> {
    let named = |faults: Faults| match file {
        Some(file) => faults.in_file(file),
        None => faults,
    };
    let module = text::from_json(json, schemas()).map_err(named)?;
    match Faults::of(faults(&module)) {
        Some(faults) => Err(named(faults)),
        None => Ok(module),
    }
}

/// Everything that is wrong with the module: its structure and, where that holds, its calls.
pub fn faults(module: &Module) -> Vec<Fault> {
    let structure = verify(module);
    if structure.is_empty() { check(module) } else { structure }
}

/// All calls that the op table does not allow, in the order of the text. The module's structure must hold.
pub fn check(module: &Module) -> Vec<Fault> {
    let range = range_of(module);
    let mut faults = Vec::new();
    for (idx, trace) in module.traces.iter().enumerate() {
        // Meta rules that go through a decomposition emit into the table and cut it off again, so they need one to write to.
        let scratch = trace.clone();
        let mut check = Check { idx, scratch, range: &range, next_stmt: 0, faults: &mut faults };
        check.body(&trace.body);
    }
    faults
}

struct Check<'a> {
    idx: usize,
    scratch: Trace,
    range: &'a dyn Fn(Symbol) -> (i64, i64),
    next_stmt: usize,
    faults: &'a mut Vec<Fault>,
}

impl Check<'_> {
    fn body(&mut self, body: &[Stmt]) {
        for s in body {
            let stmt = self.next_stmt;
            self.next_stmt += 1;
            if let Stmt::Op(b) = s {
                self.call(b, stmt);
                if let Some(block) = &b.block {
                    self.body(&block.body);
                }
            }
        }
    }

    fn fault(&mut self, code: Code, stmt: usize, part: Part, message: String) -> &mut Fault {
        let place = Place::of_stmt(self.idx, stmt, part);
        let at = format!("statement {stmt} of {}", self.scratch.name);
        self.faults.push(Fault::new(code, message, Some(place), at));
        self.faults.last_mut().expect("just pushed")
    }

    fn call(&mut self, b: &Bsym, stmt: usize) {
        let Some(op) = find(&b.op) else { return self.unknown(b, stmt) };
        let schema = super::table::schema_of(op);
        if !self.args(b, schema, stmt) {
            return;
        }
        let recorded: Vec<Option<Type>> =
            b.results.iter().map(|r| r.map(|v| self.scratch.ty(v).clone())).collect();
        let given = build::ruled_types(op, &mut self.scratch, &b.args, recorded);
        match given {
            Ok(types) => self.results(b, &types, stmt),
            Err(e) => drop(self.fault(Code::Call, stmt, Part::Head, format!("`{}` {}", b.op, e.what))),
        }
    }

    /// A name in a namespace of the table that the table does not have. Other namespaces are somebody else's.
    fn unknown(&mut self, b: &Bsym, stmt: usize) {
        let Some((namespace, _)) = b.op.split_once('.') else { return };
        let ours = |op: &&&super::Op| op.name.split_once('.').is_some_and(|(n, _)| n == namespace);
        if !table().iter().any(|op| ours(&op)) {
            return;
        }
        let fault = self.fault(Code::Op, stmt, Part::Head, format!("there is no op `{}`", b.op));
        *fault = fault.clone().nearest(&b.op, table().iter().filter(ours).map(|op| op.name));
    }

    /// Arguments against the signature; false where the call cannot be looked at further.
    fn args(&mut self, b: &Bsym, schema: &Schema, stmt: usize) -> bool {
        if b.args.len() != schema.params.len() || !b.named.is_empty() {
            let n = b.args.len() + b.named.len();
            let message = format!("`{}` has {n} arguments, it takes {}", b.op, schema.params.len());
            self.fault(Code::Call, stmt, Part::Head, message);
            return false;
        }
        let mut good = true;
        for (i, (p, arg)) in schema.params.iter().zip(&b.args).enumerate() {
            if !accepts(&p.ty, arg, &self.scratch) {
                let found = describe(arg, &self.scratch);
                let message = format!("`{}` of `{}` must be {}, found {found}", p.name, b.op, wanted(&p.ty));
                self.fault(Code::Call, stmt, Part::Arg(i as u32), message);
                good = false;
            }
        }
        good
    }

    fn agrees(&self, given: &Option<Type>, printed: &Option<Type>) -> bool {
        match (given, printed) {
            (Some(a), Some(b)) => types_agree(a, b, self.range),
            // What nobody uses may be left out of the print.
            (_, None) => true,
            (None, Some(_)) => false,
        }
    }

    /// The results that the op gives against those that the trace says.
    fn results(&mut self, b: &Bsym, types: &[Option<Type>], stmt: usize) {
        if types.len() != b.results.len() {
            let message = format!("`{}` gives {} results, found {}", b.op, types.len(), b.results.len());
            self.fault(Code::Type, stmt, Part::Result(0), message);
            return;
        }
        for (i, (given, result)) in types.iter().zip(&b.results).enumerate() {
            let printed = result.map(|v| self.scratch.ty(v).clone());
            if self.agrees(given, &printed) {
                continue;
            }
            let name = result.map_or_else(|| "_".to_string(), |v| format!("%{}", self.scratch.value(v).name));
            let given = given.as_ref().map_or_else(|| "absent (`_`)".to_string(), |t| format!("`{t}`"));
            let printed = printed.map_or_else(String::new, |t| t.to_string());
            let message = format!("`{name}` is `{printed}`, `{}` gives {given}", b.op);
            self.fault(Code::Type, stmt, Part::Result(i as u32), message);
        }
    }
}

/// Is it one of the alternatives?
fn accepts(ty: &ParamType, arg: &Arg, trace: &Trace) -> bool {
    if arg.is_none() {
        return ty.optional || ty.any_of.contains(&ParamBase::Any);
    }
    ty.any_of.iter().any(|base| accepts_base(base, arg, trace))
}

fn accepts_base(base: &ParamBase, arg: &Arg, trace: &Trace) -> bool {
    let every = |want: &ParamBase| match arg {
        Arg::List(items) => items.iter().all(|a| accepts_base(want, a, trace)),
        _ => false,
    };
    match base {
        ParamBase::Tensor(_) => arg.value().is_some_and(|v| is_tensor(v, trace)),
        ParamBase::Tensors { gaps, .. } => match arg {
            Arg::List(items) => items.iter().all(|a| match a {
                Arg::None => *gaps,
                _ => a.value().is_some_and(|v| is_tensor(v, trace)),
            }),
            _ => false,
        },
        ParamBase::Num => match arg {
            Arg::Int(_) | Arg::Float(_) | Arg::Bool(_) | Arg::Complex(..) | Arg::Dim(_) => true,
            _ => number_kind(arg, trace).is_some(),
        },
        ParamBase::Nums => every(&ParamBase::Num),
        ParamBase::Int | ParamBase::Dim => match arg {
            Arg::Int(_) | Arg::Dim(_) => true,
            _ => number_kind(arg, trace) == Some(NumKind::Int),
        },
        ParamBase::Bool => matches!(arg, Arg::Bool(_)) || number_kind(arg, trace) == Some(NumKind::Bool),
        ParamBase::Str(choices) => match arg {
            Arg::Str(s) => choices.is_empty() || choices.contains(s),
            _ => false,
        },
        // One size stands for a list of one.
        ParamBase::Dims => every(&ParamBase::Dim) || accepts_base(&ParamBase::Dim, arg, trace),
        ParamBase::Ints => every(&ParamBase::Int) || accepts_base(&ParamBase::Int, arg, trace),
        ParamBase::Lists => matches!(arg, Arg::List(_)),
        ParamBase::Dtype => matches!(arg, Arg::Dtype(_)),
        ParamBase::Device => matches!(arg, Arg::Device(_)),
        ParamBase::Trace => matches!(arg, Arg::Trace(_)),
        ParamBase::Any => true,
    }
}

fn is_tensor(v: ValueId, trace: &Trace) -> bool {
    trace.ty(v).tensor().is_some()
}

fn number_kind(arg: &Arg, trace: &Trace) -> Option<NumKind> {
    match trace.ty(arg.value()?) {
        Type::Number(n) => Some(n.kind),
        Type::Tensor(_) => None,
    }
}

/// What a parameter takes, in words.
fn wanted(ty: &ParamType) -> String {
    let base = |b: &ParamBase| match b {
        ParamBase::Tensor(_) => "a tensor".to_string(),
        ParamBase::Tensors { .. } => "a list of tensors".to_string(),
        ParamBase::Num => "a number".to_string(),
        ParamBase::Nums => "a list of numbers".to_string(),
        ParamBase::Int => "an integer".to_string(),
        ParamBase::Bool => "a bool".to_string(),
        ParamBase::Str(choices) if choices.is_empty() => "text".to_string(),
        ParamBase::Str(choices) => choices.iter().map(|c| format!("{c:?}")).collect::<Vec<_>>().join(" or "),
        ParamBase::Dim => "a size".to_string(),
        ParamBase::Dims => "a list of sizes".to_string(),
        ParamBase::Ints => "a list of integers".to_string(),
        ParamBase::Lists => "a list".to_string(),
        ParamBase::Dtype => "a dtype".to_string(),
        ParamBase::Device => "a device".to_string(),
        ParamBase::Trace => "a nested trace".to_string(),
        ParamBase::Any => "anything".to_string(),
    };
    let mut all: Vec<String> = ty.any_of.iter().map(base).collect();
    if ty.optional {
        all.push("none".to_string());
    }
    all.join(" or ")
}

/// An argument in words: a value with its type, a literal as it prints.
fn describe(arg: &Arg, trace: &Trace) -> String {
    match arg {
        Arg::Value(v) => format!("`%{}: {}`", trace.value(*v).name, trace.ty(*v)),
        _ => format!("`{}`", text::print_arg(trace, arg)),
    }
}
