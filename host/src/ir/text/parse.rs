//! Reads traces as text: the grammar of the format, and what its names mean.
//!
//! The text is read once, without backtracking, two tokens ahead. What a fault of grammar leaves behind cannot be
//! trusted, so reading stops there; faults of meaning (a value that is not defined, an argument that the op does not
//! have) are collected and reading goes on. Whether a module that could be read *is* a program is `verify`'s business.
//! Types, arguments and dim expressions are read in `value`.

use super::lex::{self, Kind, Lexer, Token};
use super::scope::{self, Scope, Written};
use super::source::{SourceMap, StmtMap, TraceMap};
use crate::ir::fault::{Code, Fault, Faults, MAX_FAULTS};
use crate::ir::nearest::nearest;
use crate::ir::{
    Arg, Block, Bsym, Device, Dim, Dtype, Module, Name, Notes, NumKind, NumberType, Output, Role, RoleKind,
    Schemas, Stage, Stmt, SymDecl, Symbol, TensorType, Trace, TraceParam, Type, ValueId, Who,
};
use std::collections::HashMap;

/// The version of the format that this reads and writes.
pub const VERSION: (u32, u32) = (1, 0);

/// Blocks nest this deep at most, and so do lists and dim expressions.
pub const MAX_NESTING: usize = 64;

/// A module and where its parts stand in the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// What was read.
    pub module: Module,
    /// Where from.
    pub source: SourceMap,
}

/// Reads a module. Arguments of ops that `schemas` knows are completed and put in schema order.
pub fn parse(text: &str, schemas: &dyn Schemas) -> Result<Parsed, Faults> {
    let mut p = Parser::new(text, schemas);
    let module = p.module();
    match (module, Faults::of(std::mem::take(&mut p.faults))) {
        (Ok(module), None) => Ok(Parsed { module, source: p.source }),
        (_, Some(faults)) => Err(faults),
        (Err(Stop), None) => unreachable!("whoever stops has said why"),
    }
}

/// Reading cannot go on; the fault is recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop;

pub(super) type Read<T> = Result<T, Stop>;

/// The state of reading.
pub(super) struct Parser<'a> {
    text: &'a str,
    schemas: &'a dyn Schemas,
    lexer: Lexer<'a>,
    /// The next token and the one behind it.
    ahead: [Option<Token>; 2],
    /// Behind the last token that was taken.
    last_end: u32,
    source: SourceMap,
    faults: Vec<Fault>,
    scope: Scope,
    words: HashMap<&'a str, Name>,
    /// A newer minor version than ours, if the header says one: named when something unknown is met.
    newer: Option<String>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str, schemas: &'a dyn Schemas) -> Parser<'a> {
        Parser {
            text,
            schemas,
            lexer: Lexer::new(text),
            ahead: [None, None],
            last_end: 0,
            source: SourceMap::new(text),
            faults: Vec::new(),
            scope: Scope::default(),
            words: HashMap::new(),
            newer: None,
        }
    }

    // ---- tokens ------------------------------------------------------------------------------------------------

    fn fill(&mut self, n: usize) -> Read<Token> {
        for i in 0..=n {
            if self.ahead[i].is_none() {
                match self.lexer.token() {
                    Ok(t) => self.ahead[i] = Some(t),
                    Err(e) => return self.stop(e.code, e.at, e.message),
                }
            }
        }
        Ok(self.ahead[n].expect("filled above"))
    }

    /// The next token, which stays.
    pub(super) fn peek(&mut self) -> Read<Token> {
        self.fill(0)
    }

    /// The token behind the next.
    pub(super) fn peek_second(&mut self) -> Read<Token> {
        self.fill(1)
    }

    /// Takes the next token.
    pub(super) fn take(&mut self) -> Read<Token> {
        let t = self.fill(0)?;
        self.ahead[0] = self.ahead[1].take();
        self.last_end = t.end;
        Ok(t)
    }

    pub(super) fn at(&mut self) -> Read<u32> {
        Ok(self.peek()?.start)
    }

    pub(super) fn str(&self, t: Token) -> &'a str {
        &self.text[t.start as usize..t.end as usize]
    }

    pub(super) fn is_mark(&mut self, mark: &str) -> Read<bool> {
        Ok(matches!(self.peek()?.kind, Kind::Mark(m) if m == mark))
    }

    pub(super) fn is_word(&mut self, word: &str) -> Read<bool> {
        let t = self.peek()?;
        Ok(t.kind == Kind::Word && self.str(t) == word)
    }

    /// Takes the mark if it is next.
    pub(super) fn eat(&mut self, mark: &str) -> Read<bool> {
        let is = self.is_mark(mark)?;
        if is {
            self.take()?;
        }
        Ok(is)
    }

    fn eat_word(&mut self, word: &str) -> Read<bool> {
        let is = self.is_word(word)?;
        if is {
            self.take()?;
        }
        Ok(is)
    }

    pub(super) fn want(&mut self, mark: &str) -> Read<u32> {
        let at = self.at()?;
        if self.eat(mark)? { Ok(at) } else { self.unexpected(&format!("`{mark}`")) }
    }

    fn want_word(&mut self, word: &str) -> Read<u32> {
        let at = self.at()?;
        if self.eat_word(word)? { Ok(at) } else { self.unexpected(&format!("`{word}`")) }
    }

    fn want_newline(&mut self) -> Read<()> {
        match self.peek()?.kind {
            Kind::Newline => self.take().map(|_| ()),
            Kind::End => Ok(()),
            _ => self.unexpected("the end of the line"),
        }
    }

    pub(super) fn want_kind(&mut self, kind: Kind, what: &str) -> Read<Token> {
        if self.peek()?.kind == kind { self.take() } else { self.unexpected(what) }
    }

    /// A word that may be anything, also one that is a literal elsewhere.
    fn any_word(&mut self, what: &str) -> Read<Token> {
        let t = self.peek()?;
        let named = t.kind == Kind::Word || t.kind == Kind::Float && lex::is_name(self.str(t));
        if named { self.take() } else { self.unexpected(what) }
    }

    // ---- faults ------------------------------------------------------------------------------------------------

    /// Records a fault at that byte.
    pub(super) fn fault(&mut self, code: Code, at: u32, message: String, help: Option<String>) {
        let mut fault = Fault::new(code, message, None, "");
        fault.position = Some(self.source.position(self.text, at));
        let newer = self.newer.as_ref().map(|version| {
            let (major, minor) = VERSION;
            format!("the file is of version {version}, this reads {major}.{minor}: what is new in it is not known here")
        });
        fault.help = match (help, newer) {
            (Some(help), Some(newer)) => Some(format!("{help}\n  {newer}")),
            (help, newer) => help.or(newer),
        };
        self.faults.push(fault);
    }

    /// What the first fault says, for texts that are no files.
    pub(super) fn first_message(&self) -> String {
        self.faults.first().map_or_else(String::new, |f| f.message.clone())
    }

    pub(super) fn stop<T>(&mut self, code: Code, at: u32, message: String) -> Read<T> {
        self.fault(code, at, message, None);
        Err(Stop)
    }

    /// The next token is not what the grammar wants here.
    pub(super) fn unexpected<T>(&mut self, want: &str) -> Read<T> {
        let t = self.peek()?;
        let found = match t.kind {
            Kind::Newline => "the end of the line".to_string(),
            Kind::End => "the end of the file".to_string(),
            _ => format!("`{}`", shortened(self.str(t))),
        };
        let message = format!("expected {want}, found {found}");
        let glued = matches!(t.kind, Kind::Int | Kind::Float) && self.str(t).starts_with('-');
        let help = glued.then(|| "a minus between two operands needs a space behind it".to_string());
        self.fault(Code::Syntax, t.start, message, help);
        Err(Stop)
    }

    // ---- names -------------------------------------------------------------------------------------------------

    /// The name, shared with all others of the same spelling.
    pub(super) fn intern(&mut self, word: &'a str) -> Name {
        self.words.entry(word).or_insert_with(|| word.into()).clone()
    }

    /// Takes a value's name and says where it stands.
    fn value_name(&mut self) -> Read<(&'a str, u32)> {
        let t = self.want_kind(Kind::Value, "a value (`%name`)")?;
        Ok((&self.str(t)[1..], t.start))
    }

    /// Takes the name of a value that is defined.
    pub(super) fn value_use(&mut self, trace: &mut Trace) -> Read<ValueId> {
        let (name, at) = self.value_name()?;
        if let Some(id) = self.scope.get(name) {
            return Ok(id);
        }
        if self.faults.len() < MAX_FAULTS {
            let help = nearest(name, self.scope.names(trace)).map(|n| format!("did you mean `%{n}`?"));
            let message = format!("`%{}` is not defined here", shortened(name));
            self.fault(Code::UndefinedValue, at, message, help);
        }
        // Defined from here on, so that it is reported once.
        let id = trace.add_value(name, Type::Number(NumberType { kind: NumKind::Int, equals: None }));
        self.scope.bind(name.into(), id);
        Ok(id)
    }

    fn string(&mut self) -> Read<Name> {
        let t = self.want_kind(Kind::Str, "a string")?;
        match serde_json::from_str::<String>(self.str(t)) {
            Ok(s) => Ok(s.into()),
            Err(e) => {
                // The column within the string; serde's own wording of it would mislead.
                let at = t.start + (e.column() as u32).saturating_sub(1).min(t.end - t.start - 1);
                let what = e.to_string();
                let what = what.split(" at line ").next().unwrap_or_default();
                self.stop(Code::Token, at, format!("not a JSON string: {what}"))
            }
        }
    }

    pub(super) fn string_name(&mut self) -> Read<Name> {
        self.string()
    }

    /// `a.b.c`, the name of an op.
    fn op_name(&mut self) -> Read<(Name, u32)> {
        let first = self.want_kind(Kind::Word, "an op")?;
        let mut parts = vec![first];
        while self.eat(".")? {
            parts.push(self.any_word("a name")?);
        }
        let last = parts[parts.len() - 1];
        let points = parts.len() as u32 - 1;
        let written: u32 = parts.iter().map(|t| t.end - t.start).sum();
        // One slice of the text, unless somebody put spaces around the points.
        let name = if written + points == last.end - first.start {
            self.intern(&self.text[first.start as usize..last.end as usize])
        } else {
            parts.iter().map(|t| self.str(*t)).collect::<Vec<_>>().join(".").into()
        };
        if lex::is_reserved(&name) {
            return self.stop(Code::Syntax, first.start, format!("`{name}` cannot be the name of an op"));
        }
        Ok((name, first.start))
    }

    // ---- the file ----------------------------------------------------------------------------------------------

    fn module(&mut self) -> Read<Module> {
        if u32::try_from(self.text.len()).is_err() {
            let message = format!("the file has {} bytes, 4 GiB is the most", self.text.len());
            return self.stop(Code::Limit, 0, message);
        }
        self.header()?;
        let mut module = Module::default();
        while self.is_word("dim")? {
            let decl = self.dim_decl()?;
            module.dims.push(decl);
        }
        loop {
            let trace = self.trace()?;
            module.traces.push(trace);
            if self.peek()?.kind == Kind::End {
                return Ok(module);
            }
        }
    }

    fn header(&mut self) -> Read<()> {
        let at = self.at()?;
        if !self.is_word("thunderhead")? {
            return self.stop(
                Code::Version,
                at,
                "the file does not begin with `thunderhead trace 1.0`".to_string(),
            );
        }
        self.take()?;
        self.want_word("trace")?;
        let t = self.want_kind(Kind::Float, "a version (`1.0`)")?;
        let text = self.str(t);
        let version =
            text.split_once('.').and_then(|(a, b)| Some((a.parse::<u32>().ok()?, b.parse::<u32>().ok()?)));
        let Some((major, minor)) = version else {
            return self.stop(Code::Version, t.start, format!("`{}` is no version", shortened(text)));
        };
        if major != VERSION.0 {
            let message =
                format!("the file is of version {major}.{minor}, this reads {}.{}", VERSION.0, VERSION.1);
            return self.stop(Code::Version, t.start, message);
        }
        if minor > VERSION.1 {
            self.newer = Some(format!("{major}.{minor}"));
        }
        self.want_newline()
    }

    fn dim_decl(&mut self) -> Read<SymDecl> {
        self.want_word("dim")?;
        let at = self.at()?;
        let symbol = self.symbol()?;
        self.want_word("in")?;
        let low = self.int()?;
        self.want("..")?;
        let high = match self.peek()?.kind {
            Kind::Int => Some(self.int()?),
            _ => None,
        };
        let step = if self.eat_word("step")? { self.int()? } else { 1 };
        self.want_newline()?;
        self.source.declarations.push(at);
        Ok(SymDecl { symbol, low, high, step })
    }

    fn symbol(&mut self) -> Read<Symbol> {
        let t = self.peek()?;
        match (t.kind, super::value::symbol_of(self.str(t))) {
            (Kind::Word, Some(s)) => self.take().map(|_| s),
            _ => self.unexpected("a symbol (`s0`, `u0`)"),
        }
    }

    fn trace(&mut self) -> Read<Trace> {
        self.want_word("trace")?;
        let t = self.want_kind(Kind::Word, "the trace's name")?;
        if lex::is_reserved(self.str(t)) {
            let message = format!("`{}` cannot be the name of a trace", self.str(t));
            return self.stop(Code::Syntax, t.start, message);
        }
        let mut trace = Trace::new(self.intern(self.str(t)), Stage::Acquired);
        self.scope = Scope::default();
        self.source.traces.push(TraceMap { head: t.start, ..TraceMap::default() });
        self.params(&mut trace)?;
        self.want_word("stage")?;
        trace.stage = self.stage()?;
        if self.eat_word("model")? {
            trace.model = Some(self.string()?);
        }
        self.want("{")?;
        self.want_newline()?;
        trace.body = self.statements(&mut trace, "return", 0)?;
        self.outputs(&mut trace)?;
        if self.eat_word("save")? {
            self.saves(&mut trace)?;
        }
        self.want("}")?;
        self.want_newline()?;
        Ok(trace)
    }

    fn map(&mut self) -> &mut TraceMap {
        self.source.traces.last_mut().expect("pushed when the trace began")
    }

    fn params(&mut self, trace: &mut Trace) -> Read<()> {
        self.want("(")?;
        while !self.eat(")")? {
            let (name, at) = self.value_name()?;
            self.want(":")?;
            let ty = self.ty()?;
            let role = self.role()?;
            let name: Name = name.into();
            let value = trace.add_value(name.clone(), ty);
            self.scope.bind(name, value);
            trace.params.push(TraceParam { value, role });
            self.map().params.push(at);
            if !self.eat(",")? {
                self.want(")")?;
                break;
            }
        }
        Ok(())
    }

    fn role(&mut self) -> Read<Role> {
        let t = self.want_kind(Kind::Word, "a role (`input`, `param`, …)")?;
        let word = self.str(t);
        let Some(kind) = RoleKind::ALL.into_iter().find(|k| k.name() == word) else {
            let help = nearest(word, RoleKind::ALL.iter().map(|k| k.name()));
            let help = help.map(|n| format!("did you mean `{n}`?"));
            self.fault(Code::Syntax, t.start, format!("`{}` is no role", shortened(word)), help);
            return Err(Stop);
        };
        let name = if kind.has_name() { Some(self.string()?) } else { None };
        let frozen = kind.has_name() && self.eat_word("frozen")?;
        Ok(Role { kind, name, frozen })
    }

    fn stage(&mut self) -> Read<Stage> {
        let t = self.want_kind(Kind::Word, "a stage")?;
        let word = self.str(t);
        if let Some(stage) = Stage::ALL.into_iter().find(|s| s.name() == word) {
            return Ok(stage);
        }
        let names = Stage::ALL.map(Stage::name);
        let help = nearest(word, names)
            .map_or_else(|| format!("one of: {}", names.join(", ")), |n| format!("did you mean `{n}`?"));
        self.fault(Code::Syntax, t.start, format!("`{}` is no stage", shortened(word)), Some(help));
        Err(Stop)
    }

    fn outputs(&mut self, trace: &mut Trace) -> Read<()> {
        while self.peek()?.kind != Kind::Newline {
            let at = self.at()?;
            let value = self.output(trace)?;
            let name = if self.eat_word("as")? { Some(self.string()?) } else { None };
            trace.outputs.push(Output { value, name });
            self.map().outputs.push(at);
            if !self.eat(",")? {
                break;
            }
        }
        self.want_newline()
    }

    /// A value or a literal.
    fn output(&mut self, trace: &mut Trace) -> Read<Arg> {
        match self.peek()?.kind {
            Kind::Value => Ok(Arg::Value(self.value_use(trace)?)),
            _ => self.literal(),
        }
    }

    fn saves(&mut self, trace: &mut Trace) -> Read<()> {
        loop {
            let at = self.at()?;
            let id = self.value_use(trace)?;
            trace.save.push(id);
            self.map().saves.push(at);
            if !self.eat(",")? {
                return self.want_newline();
            }
        }
    }

    // ---- statements --------------------------------------------------------------------------------------------

    /// Statements up to the word that ends them, which is taken.
    fn statements(&mut self, trace: &mut Trace, end: &str, depth: usize) -> Read<Vec<Stmt>> {
        let mut body = Vec::new();
        loop {
            let t = self.peek()?;
            let second = self.peek_second()?.kind;
            // A literal in parentheses may follow `return`, so an op that is called so needs a point in its name.
            if second != Kind::Mark(".") && self.eat_word(end)? {
                return Ok(body);
            }
            if second == Kind::Value && self.eat_word("del")? {
                body.push(self.del(trace, t.start)?);
                self.want_newline()?;
                continue;
            }
            if !matches!(t.kind, Kind::Word | Kind::Value) {
                return self.unexpected(&format!("a statement or `{end}`"));
            }
            let bsym = self.call_stmt(trace, depth)?;
            body.push(Stmt::Op(bsym));
            self.want_newline()?;
        }
    }

    fn del(&mut self, trace: &mut Trace, head: u32) -> Read<Stmt> {
        let mut map = StmtMap { head, ..StmtMap::default() };
        let mut dead = Vec::new();
        loop {
            map.results.push(self.at()?);
            dead.push(self.value_use(trace)?);
            if !self.eat(",")? {
                break;
            }
        }
        self.map().stmts.push(map);
        Ok(Stmt::Del(dead))
    }

    fn call_stmt(&mut self, trace: &mut Trace, depth: usize) -> Read<Bsym> {
        let mut map = StmtMap::default();
        let results = self.results(&mut map)?;
        let (op, head) = self.op_name()?;
        map.head = head;
        let complete = self.args(trace, &op, head)?;
        map.args = complete.at;
        // Results take their places in the table before what the block defines, as they stand in the text.
        let ids = results.iter().map(|r| r.as_ref().map(|(n, ty)| trace.add_value(n.clone(), ty.clone())));
        let mut bsym = Bsym::new(op, complete.args, ids.collect());
        bsym.named = complete.named;
        bsym.who = self.who()?;
        bsym.notes = self.notes()?;
        let stmt = self.map().stmts.len();
        self.map().stmts.push(map);
        if self.is_mark("{")? {
            bsym.block = Some(Box::new(self.block(trace, stmt, depth + 1)?));
        }
        for (id, result) in bsym.results.iter().zip(results) {
            if let (Some(id), Some((name, _))) = (id, result) {
                self.scope.bind(name, *id);
            }
        }
        Ok(bsym)
    }

    /// Results with their types, and the `=` behind them; none where the statement has none.
    fn results(&mut self, map: &mut StmtMap) -> Read<Vec<Option<(Name, Type)>>> {
        let mut results = Vec::new();
        let t = self.peek()?;
        let second = self.peek_second()?.kind;
        let absent = t.kind == Kind::Word && self.str(t) == "_" && matches!(second, Kind::Mark("," | "="));
        if t.kind != Kind::Value && !absent {
            return Ok(results);
        }
        loop {
            map.results.push(self.at()?);
            if self.eat_word("_")? {
                results.push(None);
            } else {
                let (name, _) = self.value_name()?;
                self.want(":")?;
                results.push(Some((name.into(), self.ty()?)));
            }
            if !self.eat(",")? {
                break;
            }
        }
        self.want("=")?;
        Ok(results)
    }

    fn args(&mut self, trace: &mut Trace, op: &Name, head: u32) -> Read<scope::Complete> {
        let mut written = Vec::new();
        self.want("(")?;
        if !self.is_mark(")")? {
            loop {
                written.push(self.arg(trace, written.last())?);
                if !self.eat(",")? {
                    break;
                }
            }
        }
        self.want(")")?;
        scope::complete(op, self.schemas.schema(op), written, head).or_else(|e| {
            self.fault(Code::Argument, e.at, e.message, e.help);
            Ok(scope::Complete::default())
        })
    }

    fn arg(&mut self, trace: &mut Trace, before: Option<&Written>) -> Read<Written> {
        let at = self.at()?;
        let by_name = matches!(self.peek_second()?.kind, Kind::Mark("="));
        if !by_name {
            if let Some(Written { name: Some(name), .. }) = before {
                let message =
                    format!("an argument by position stands behind `{name}`, which is given by name");
                return self.stop(Code::Syntax, at, message);
            }
            let value = self.value(trace, 0)?;
            return Ok(Written { name: None, value, at });
        }
        let t = self.any_word("an argument's name")?;
        let name = self.intern(self.str(t));
        self.want("=")?;
        let value = self.value(trace, 0)?;
        Ok(Written { name: Some(name), value, at })
    }

    fn who(&mut self) -> Read<Option<Who>> {
        if !self.eat("@")? {
            return Ok(None);
        }
        let executor = self.executor()?;
        let delegate = if self.eat("->")? { Some(self.executor()?) } else { None };
        Ok(Some(Who { executor, delegate }))
    }

    fn executor(&mut self) -> Read<Name> {
        let t = self.want_kind(Kind::Word, "an executor")?;
        Ok(self.intern(self.str(t)))
    }

    fn notes(&mut self) -> Read<Notes> {
        let mut notes = Notes::new();
        if !self.eat("!")? {
            return Ok(notes);
        }
        self.want("{")?;
        while !self.eat("}")? {
            let t = self.any_word("a note's name")?;
            let name = self.intern(self.str(t));
            self.want("=")?;
            notes.push((name, self.literal()?));
            if !self.eat(",")? {
                self.want("}")?;
                break;
            }
        }
        Ok(notes)
    }

    fn block(&mut self, trace: &mut Trace, stmt: usize, depth: usize) -> Read<Block> {
        let at = self.want("{")?;
        if depth > MAX_NESTING {
            return self.stop(Code::Limit, at, format!("blocks nest deeper than {MAX_NESTING}"));
        }
        self.want_newline()?;
        let mark = self.scope.mark();
        let body = self.statements(trace, "yield", depth)?;
        let mut yields = Vec::new();
        while !matches!(self.peek()?.kind, Kind::Newline) {
            let at = self.at()?;
            yields.push(self.output(trace)?);
            self.map().stmts[stmt].yields.push(at);
            if !self.eat(",")? {
                break;
            }
        }
        self.want_newline()?;
        self.want("}")?;
        self.scope.rollback(mark);
        Ok(Block { body, yields })
    }

    // ---- types -------------------------------------------------------------------------------------------------

    fn ty(&mut self) -> Read<Type> {
        let device = self.device_or_cpu()?;
        let t = self.want_kind(Kind::Word, "a type")?;
        let word = self.str(t);
        if let Some(kind) =
            [NumKind::Int, NumKind::Float, NumKind::Bool].into_iter().find(|k| k.name() == word)
        {
            if device.is_some() {
                return self.stop(Code::Syntax, t.start, format!("a number (`{word}`) has no device"));
            }
            let equals = if self.eat("(")? { Some(self.number_expr()?) } else { None };
            return Ok(Type::Number(NumberType { kind, equals }));
        }
        let Some(dtype) = Dtype::from_name(word) else {
            let names = Dtype::ALL.map(Dtype::name).into_iter().chain(["int", "float", "boolean"]);
            let help = nearest(word, names).map(|n| format!("did you mean `{n}`?"));
            self.fault(Code::Syntax, t.start, format!("`{}` is no type", shortened(word)), help);
            return Err(Stop);
        };
        let dims = self.dims()?;
        Ok(TensorType { dims, dtype, device: device.unwrap_or(Device::Cpu) }.into())
    }

    fn number_expr(&mut self) -> Read<Dim> {
        let dim = self.dim()?;
        self.want(")")?;
        Ok(dim)
    }

    fn dims(&mut self) -> Read<Vec<Dim>> {
        let mut dims = Vec::new();
        self.want("[")?;
        if self.eat("]")? {
            return Ok(dims);
        }
        loop {
            dims.push(self.dim()?);
            if !self.eat(",")? {
                self.want("]")?;
                return Ok(dims);
            }
        }
    }

    fn device_or_cpu(&mut self) -> Read<Option<Device>> {
        if self.peek()?.kind == Kind::Device {
            return self.device().map(Some);
        }
        Ok(self.eat_word("cpu")?.then_some(Device::Cpu))
    }
}

/// At most 60 characters of it: what is quoted in a message may be as long as the file.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_string(),
    }
}
