//! Traces as JSON: the same content as the text, one object a statement, for programs that read traces.
//!
//! Literals keep their kind. Integers and floats are JSON numbers (floats always with a point or an exponent), bools,
//! strings, `null` and lists are themselves; all else is an object of one member: `{"value": "x"}`, `{"dim": "2*s0"}`,
//! `{"dtype": "f32"}`, `{"device": "cuda:0"}`, `{"trace": "branch_0"}`, `{"complex": [1.0, -2.0]}`, `{"float": "nan"}`.
//! Members that are absent mean what their absence means in text. Reading stops at the first fault.

use super::lex;
use super::parse::{MAX_NESTING, VERSION, shortened};
use super::print::written_args;
use super::scope::{self, Scope, Written};
use super::value;
use crate::ir::fault::{Code, Fault, Faults, Position};
use crate::ir::{
    Arg, Block, Bsym, Device, Dim, Dtype, Module, Name, NumKind, NumberType, Output, Role, RoleKind, Schemas,
    Stage, Stmt, SymDecl, TensorType, Trace, TraceParam, Type, ValueId, Who,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The module as JSON.
pub fn to_json(module: &Module, schemas: &dyn Schemas) -> Value {
    let dims: Vec<Value> = module.dims.iter().map(decl_to_json).collect();
    let traces: Vec<Value> = module.traces.iter().map(|t| Writer { trace: t, schemas }.trace()).collect();
    json!({ "thunderhead": "trace", "version": format!("{}.{}", VERSION.0, VERSION.1), "dims": dims, "traces": traces })
}

/// An object of the members that have a value.
fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    Value::Object(members.into_iter().filter_map(|(k, v)| Some((k.to_string(), v?))).collect())
}

fn some_list(items: Vec<Value>) -> Option<Value> {
    (!items.is_empty()).then_some(Value::Array(items))
}

fn text(s: &str) -> Value {
    Value::String(s.to_string())
}

fn decl_to_json(d: &SymDecl) -> Value {
    object([
        ("symbol", Some(text(&d.symbol.to_string()))),
        ("low", Some(d.low.into())),
        ("high", d.high.map(Value::from)),
        ("step", (d.step != 1).then(|| d.step.into())),
    ])
}

fn dim_to_json(d: &Dim) -> Value {
    d.known().map_or_else(|| text(&d.to_string()), Value::from)
}

fn type_to_json(ty: &Type) -> Value {
    match ty {
        Type::Tensor(t) => object([
            ("dtype", Some(text(t.dtype.name()))),
            ("dims", Some(t.dims.iter().map(dim_to_json).collect())),
            ("device", (t.device != Device::Cpu).then(|| text(&t.device.to_string()))),
        ]),
        Type::Number(n) => {
            object([("number", Some(text(n.kind.name()))), ("equals", n.equals.as_ref().map(dim_to_json))])
        }
    }
}

struct Writer<'a> {
    trace: &'a Trace,
    schemas: &'a dyn Schemas,
}

impl Writer<'_> {
    fn trace(&self) -> Value {
        let t = self.trace;
        object([
            ("name", Some(text(&t.name))),
            ("stage", Some(text(t.stage.name()))),
            ("model", t.model.as_deref().map(text)),
            ("params", Some(t.params.iter().map(|p| self.param(p)).collect())),
            ("body", Some(self.body(&t.body))),
            ("outputs", Some(t.outputs.iter().map(|o| self.output(o)).collect())),
            ("save", some_list(t.save.iter().map(|v| self.name(*v)).collect())),
        ])
    }

    fn name(&self, id: ValueId) -> Value {
        text(&self.trace.value(id).name)
    }

    fn typed(&self, id: ValueId) -> Value {
        object([("value", Some(self.name(id))), ("type", Some(type_to_json(self.trace.ty(id))))])
    }

    fn param(&self, p: &TraceParam) -> Value {
        let mut param = self.typed(p.value);
        param["role"] = text(p.role.kind.name());
        if let Some(name) = &p.role.name {
            param["name"] = text(name);
        }
        if p.role.frozen {
            param["frozen"] = true.into();
        }
        param
    }

    fn output(&self, o: &Output) -> Value {
        object([("output", Some(self.arg(&o.value))), ("as", o.name.as_deref().map(text))])
    }

    fn body(&self, body: &[Stmt]) -> Value {
        body.iter()
            .map(|s| match s {
                Stmt::Op(b) => self.bsym(b),
                Stmt::Del(dead) => {
                    object([("del", Some(dead.iter().map(|v| self.name(*v)).collect::<Value>()))])
                }
            })
            .collect()
    }

    fn bsym(&self, b: &Bsym) -> Value {
        let results = b.results.iter().map(|r| r.map_or(Value::Null, |v| self.typed(v))).collect();
        let (mut args, mut named) = (Vec::new(), Map::new());
        for (name, arg) in written_args(self.schemas, b) {
            match name {
                Some(name) => drop(named.insert(name.to_string(), self.arg(arg))),
                None => args.push(self.arg(arg)),
            }
        }
        let notes: Map<String, Value> = b.notes.iter().map(|(k, v)| (k.to_string(), self.arg(v))).collect();
        object([
            ("results", some_list(results)),
            ("op", Some(text(&b.op))),
            ("args", some_list(args)),
            ("named", (!named.is_empty()).then_some(Value::Object(named))),
            ("executor", b.who.as_ref().map(|w| text(&w.executor))),
            ("delegate", b.who.as_ref().and_then(|w| w.delegate.as_deref()).map(text)),
            ("notes", (!notes.is_empty()).then_some(Value::Object(notes))),
            ("block", b.block.as_ref().map(|block| self.block(block))),
        ])
    }

    fn block(&self, block: &Block) -> Value {
        let yields: Vec<Value> = block.yields.iter().map(|a| self.arg(a)).collect();
        object([("body", Some(self.body(&block.body))), ("yield", Some(Value::Array(yields)))])
    }

    fn arg(&self, arg: &Arg) -> Value {
        match arg {
            Arg::Value(v) => json!({ "value": self.name(*v) }),
            Arg::None => Value::Null,
            Arg::Int(n) => (*n).into(),
            Arg::Float(x) => float_to_json(*x),
            Arg::Bool(b) => (*b).into(),
            Arg::Str(s) => text(s),
            Arg::Complex(re, im) => json!({ "complex": [float_to_json(*re), float_to_json(*im)] }),
            Arg::Dtype(d) => json!({ "dtype": d.name() }),
            Arg::Device(d) => json!({ "device": d.to_string() }),
            Arg::Dim(d) => json!({ "dim": dim_to_json(d) }),
            Arg::List(items) => items.iter().map(|a| self.arg(a)).collect(),
            Arg::Trace(name) => json!({ "trace": &**name }),
        }
    }
}

fn float_to_json(x: f64) -> Value {
    serde_json::Number::from_f64(x).map_or_else(
        || {
            let mut s = String::new();
            super::print::write_float(&mut s, x);
            json!({ "float": s })
        },
        Value::Number,
    )
}

// ---- reading ---------------------------------------------------------------------------------------------------

/// Deepest nesting of brackets: a level of blocks is four of them, a list one.
const MAX_BRACKETS: usize = 4 * MAX_NESTING + MAX_NESTING + 16;

/// Reads a module from JSON. Arguments are completed as in [`super::parse()`].
pub fn from_json(json: &str, schemas: &dyn Schemas) -> Result<Module, Faults> {
    let fail = |fault: Fault| Faults { file: None, faults: vec![fault], more: 0 };
    if brackets(json) > MAX_BRACKETS {
        let message = format!("brackets nest deeper than {MAX_BRACKETS}");
        return Err(fail(Fault::new(Code::Limit, message, None, "")));
    }
    let mut de = serde_json::Deserializer::from_str(json);
    // The depth was counted above; serde's own limit is too low for the deepest blocks.
    de.disable_recursion_limit();
    let document = Value::deserialize(&mut de).and_then(|v| de.end().map(|()| v)).map_err(|e| {
        let mut fault = Fault::new(Code::Json, format!("not JSON: {e}"), None, "");
        fault.position = Some(Position { line: e.line() as u32, column: e.column() as u32 });
        fail(fault)
    })?;
    read_module(&document, schemas).map_err(fail)
}

/// How deep brackets nest outside of strings.
fn brackets(json: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0usize, 0, false, false);
    for b in json.bytes() {
        match b {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

type Read<T> = Result<T, Fault>;

fn bad(at: &str, want: &str, found: &Value) -> Fault {
    let found = match found {
        Value::Object(_) => "an object".to_string(),
        Value::Array(_) => "an array".to_string(),
        other => format!("`{}`", shortened(&other.to_string())),
    };
    Fault::new(Code::Json, format!("expected {want}, found {found}"), None, at)
}

/// A member that must be there.
fn member<'a>(of: &'a Value, key: &str, at: &str) -> Read<&'a Value> {
    of.get(key).ok_or_else(|| Fault::new(Code::Json, format!("`{key}` is missing"), None, at))
}

fn string_of<'a>(v: &'a Value, at: &str) -> Read<&'a str> {
    v.as_str().ok_or_else(|| bad(at, "a string", v))
}

fn list_of<'a>(v: &'a Value, at: &str) -> Read<&'a [Value]> {
    v.as_array().map(Vec::as_slice).ok_or_else(|| bad(at, "an array", v))
}

/// The items of a list that may be absent.
fn items<'a>(of: &'a Value, key: &str, at: &str) -> Read<&'a [Value]> {
    of.get(key).map_or(Ok(&[]), |v| list_of(v, &format!("{at}.{key}")))
}

fn opt_name(of: &Value, key: &str, at: &str) -> Read<Option<Name>> {
    of.get(key).map(|v| string_of(v, &format!("{at}.{key}")).map(Name::from)).transpose()
}

fn int_of(v: &Value, at: &str) -> Read<i64> {
    v.as_i64().ok_or_else(|| bad(at, "an integer", v))
}

fn known<T>(v: &Value, at: &str, what: &str, find: impl Fn(&str) -> Option<T>) -> Read<T> {
    find(string_of(v, at)?).ok_or_else(|| bad(at, what, v))
}

fn dim_of(v: &Value, at: &str) -> Read<Dim> {
    match v {
        Value::String(s) => value::parse_dim(s).map_err(|why| Fault::new(Code::Json, why, None, at)),
        _ => int_of(v, at).map(Dim::Known),
    }
}

fn read_module(document: &Value, schemas: &dyn Schemas) -> Read<Module> {
    if document.get("thunderhead").and_then(Value::as_str) != Some("trace") {
        return Err(Fault::new(Code::Version, "the document has no `\"thunderhead\": \"trace\"`", None, ""));
    }
    let version = member(document, "version", "")?;
    let major = version.as_str().and_then(|v| v.split_once('.')).and_then(|(a, _)| a.parse::<u32>().ok());
    if major != Some(VERSION.0) {
        let message = format!("the document is of version {version}, this reads {}.{}", VERSION.0, VERSION.1);
        return Err(Fault::new(Code::Version, message, None, ""));
    }
    let mut module = Module::default();
    for (i, d) in items(document, "dims", "")?.iter().enumerate() {
        module.dims.push(read_decl(d, &format!("dims[{i}]"))?);
    }
    for (i, t) in list_of(member(document, "traces", "")?, "traces")?.iter().enumerate() {
        module.traces.push(read_trace(t, &format!("traces[{i}]"), schemas)?);
    }
    match module.traces.is_empty() {
        true => Err(Fault::new(Code::Json, "there is no trace in it", None, "traces")),
        false => Ok(module),
    }
}

fn read_decl(d: &Value, at: &str) -> Read<SymDecl> {
    Ok(SymDecl {
        symbol: known(member(d, "symbol", at)?, at, "a symbol", value::symbol_of)?,
        low: int_of(member(d, "low", at)?, at)?,
        high: d.get("high").map(|h| int_of(h, at)).transpose()?,
        step: d.get("step").map_or(Ok(1), |s| int_of(s, at))?,
    })
}

fn read_type(v: &Value, at: &str) -> Read<Type> {
    if let Some(kind) = v.get("number") {
        let kinds = [NumKind::Int, NumKind::Float, NumKind::Bool];
        let kind = known(kind, at, "a kind of number", |s| kinds.into_iter().find(|k| k.name() == s))?;
        let equals = v.get("equals").map(|d| dim_of(d, at)).transpose()?;
        return Ok(Type::Number(NumberType { kind, equals }));
    }
    let dtype = known(member(v, "dtype", at)?, at, "a dtype", Dtype::from_name)?;
    let dims = list_of(member(v, "dims", at)?, at)?;
    let dims = dims.iter().map(|d| dim_of(d, at)).collect::<Read<Vec<_>>>()?;
    let device = v.get("device").map_or(Ok(Device::Cpu), |d| read_device(d, at))?;
    Ok(TensorType { dims, dtype, device }.into())
}

fn read_device(v: &Value, at: &str) -> Read<Device> {
    known(v, at, "a device", |s| {
        if s == "cpu" {
            return Some(Device::Cpu);
        }
        let (kind, index) = s.split_once(':').filter(|(k, _)| lex::is_name(k) && *k != "cpu")?;
        Some(Device::Other { kind: kind.into(), index: index.parse().ok()? })
    })
}

fn read_trace(v: &Value, at: &str, schemas: &dyn Schemas) -> Read<Trace> {
    let name = string_of(member(v, "name", at)?, at)?;
    let stage = member(v, "stage", at)?;
    let stage = known(stage, at, "a stage", |s| Stage::ALL.into_iter().find(|k| k.name() == s))?;
    let mut r = Reader { trace: Trace::new(name, stage), scope: Scope::default(), schemas };
    r.trace.model = opt_name(v, "model", at)?;
    for (i, p) in items(v, "params", at)?.iter().enumerate() {
        r.param(p, &format!("{at}.params[{i}]"))?;
    }
    r.trace.body = r.body(list_of(member(v, "body", at)?, at)?, at, 0)?;
    for (i, o) in items(v, "outputs", at)?.iter().enumerate() {
        let at = format!("{at}.outputs[{i}]");
        let value = r.arg(member(o, "output", &at)?, &at, 0)?;
        r.trace.outputs.push(Output { value, name: opt_name(o, "as", &at)? });
    }
    for (i, s) in items(v, "save", at)?.iter().enumerate() {
        let id = r.used(s, &format!("{at}.save[{i}]"))?;
        r.trace.save.push(id);
    }
    Ok(r.trace)
}

struct Reader<'a> {
    trace: Trace,
    scope: Scope,
    schemas: &'a dyn Schemas,
}

impl Reader<'_> {
    fn define(&mut self, v: &Value, at: &str) -> Read<ValueId> {
        let name: Name = string_of(member(v, "value", at)?, at)?.into();
        let ty = read_type(member(v, "type", at)?, at)?;
        Ok(self.trace.add_value(name, ty))
    }

    fn used(&self, v: &Value, at: &str) -> Read<ValueId> {
        let name = string_of(v, at)?;
        self.scope.get(name).ok_or_else(|| {
            let message = format!("`%{}` is not defined here", shortened(name));
            Fault::new(Code::UndefinedValue, message, None, at).nearest(name, self.scope.names(&self.trace))
        })
    }

    fn bind(&mut self, id: ValueId) {
        let name = self.trace.value(id).name.clone();
        self.scope.bind(name, id);
    }

    fn param(&mut self, v: &Value, at: &str) -> Read<()> {
        let value = self.define(v, at)?;
        self.bind(value);
        let role = member(v, "role", at)?;
        let kind = known(role, at, "a role", |s| RoleKind::ALL.into_iter().find(|k| k.name() == s))?;
        let name = opt_name(v, "name", at)?;
        if name.is_some() != kind.has_name() {
            let message = format!(
                "a parameter of role `{}` {} a `name`",
                kind.name(),
                if kind.has_name() { "needs" } else { "has no" }
            );
            return Err(Fault::new(Code::Json, message, None, at));
        }
        let frozen = v.get("frozen").and_then(Value::as_bool).unwrap_or(false) && kind.has_name();
        self.trace.params.push(TraceParam { value, role: Role { kind, name, frozen } });
        Ok(())
    }

    fn body(&mut self, body: &[Value], at: &str, depth: usize) -> Read<Vec<Stmt>> {
        let mut stmts = Vec::with_capacity(body.len());
        for (i, s) in body.iter().enumerate() {
            let at = format!("{at}.body[{i}]");
            stmts.push(match s.get("del") {
                Some(dead) => {
                    Stmt::Del(list_of(dead, &at)?.iter().map(|v| self.used(v, &at)).collect::<Read<_>>()?)
                }
                None => Stmt::Op(self.bsym(s, &at, depth)?),
            });
        }
        Ok(stmts)
    }

    fn bsym(&mut self, v: &Value, at: &str, depth: usize) -> Read<Bsym> {
        let op = string_of(member(v, "op", at)?, at)?;
        let complete = self.args(op, v, at)?;
        let mut results = Vec::new();
        for r in items(v, "results", at)? {
            results.push(if r.is_null() { None } else { Some(self.define(r, at)?) });
        }
        let mut bsym = Bsym::new(op, complete.args, results);
        bsym.named = complete.named;
        bsym.who = opt_name(v, "executor", at)?
            .map(|executor| Ok(Who { executor, delegate: opt_name(v, "delegate", at)? }))
            .transpose()?;
        for (key, note) in v.get("notes").and_then(Value::as_object).into_iter().flatten() {
            bsym.notes.push((key.as_str().into(), self.arg(note, at, 0)?));
        }
        if let Some(block) = v.get("block") {
            bsym.block = Some(Box::new(self.block(block, &format!("{at}.block"), depth + 1)?));
        }
        bsym.defined().collect::<Vec<_>>().into_iter().for_each(|id| self.bind(id));
        Ok(bsym)
    }

    fn args(&mut self, op: &str, v: &Value, at: &str) -> Read<scope::Complete> {
        let mut written = Vec::new();
        for a in items(v, "args", at)? {
            written.push(Written { name: None, value: self.arg(a, at, 0)?, at: 0 });
        }
        for (name, a) in v.get("named").and_then(Value::as_object).into_iter().flatten() {
            written.push(Written { name: Some(name.as_str().into()), value: self.arg(a, at, 0)?, at: 0 });
        }
        scope::complete(op, self.schemas.schema(op), written, 0).map_err(|e| {
            let mut fault = Fault::new(Code::Argument, e.message, None, at);
            fault.help = e.help;
            fault
        })
    }

    fn block(&mut self, v: &Value, at: &str, depth: usize) -> Read<Block> {
        if depth > MAX_NESTING {
            return Err(Fault::new(Code::Limit, format!("blocks nest deeper than {MAX_NESTING}"), None, at));
        }
        let mark = self.scope.mark();
        let body = self.body(list_of(member(v, "body", at)?, at)?, at, depth)?;
        let yields = items(v, "yield", at)?.iter().map(|a| self.arg(a, at, 0)).collect::<Read<_>>()?;
        self.scope.rollback(mark);
        Ok(Block { body, yields })
    }

    fn arg(&self, v: &Value, at: &str, depth: usize) -> Read<Arg> {
        Ok(match v {
            Value::Null => Arg::None,
            Value::Bool(b) => Arg::Bool(*b),
            Value::String(s) => Arg::str(s),
            Value::Number(n) => match (n.as_i64(), n.is_f64().then(|| n.as_f64()).flatten()) {
                (Some(i), _) => Arg::Int(i),
                (None, Some(x)) => Arg::Float(x),
                _ => return Err(bad(at, "a number that fits i64 or f64", v)),
            },
            Value::Array(_) if depth >= MAX_NESTING => {
                return Err(Fault::new(
                    Code::Limit,
                    format!("lists nest deeper than {MAX_NESTING}"),
                    None,
                    at,
                ));
            }
            Value::Array(list) => {
                Arg::List(list.iter().map(|a| self.arg(a, at, depth + 1)).collect::<Read<_>>()?)
            }
            Value::Object(o) => match o.iter().next() {
                Some((key, inner)) if o.len() == 1 => self.tagged(key, inner, v, at)?,
                _ => return Err(bad(at, "an object of one member", v)),
            },
        })
    }

    fn tagged(&self, key: &str, inner: &Value, whole: &Value, at: &str) -> Read<Arg> {
        Ok(match key {
            "value" => Arg::Value(self.used(inner, at)?),
            "dim" => Arg::dim(dim_of(inner, at)?),
            "dtype" => Arg::Dtype(known(inner, at, "a dtype", Dtype::from_name)?),
            "device" => Arg::Device(read_device(inner, at)?),
            "trace" => Arg::Trace(string_of(inner, at)?.into()),
            "float" => Arg::Float(read_float(inner, at)?),
            "complex" => match list_of(inner, at)? {
                [re, im] => Arg::Complex(read_part(re, at)?, read_part(im, at)?),
                _ => return Err(bad(at, "two floats", inner)),
            },
            _ => {
                return Err(bad(
                    at,
                    "`value`, `dim`, `dtype`, `device`, `trace`, `float` or `complex`",
                    whole,
                ));
            }
        })
    }
}

/// A part of a complex number: a JSON number or a tagged float.
fn read_part(v: &Value, at: &str) -> Read<f64> {
    match v.get("float") {
        Some(f) => read_float(f, at),
        None => v.as_f64().ok_or_else(|| bad(at, "a float", v)),
    }
}

fn read_float(v: &Value, at: &str) -> Read<f64> {
    known(v, at, "`inf`, `-inf` or `nan`", |s| match s {
        "inf" => Some(f64::INFINITY),
        "-inf" => Some(f64::NEG_INFINITY),
        "nan" => Some(f64::NAN),
        _ => None,
    })
}
