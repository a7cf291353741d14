//! Writes traces as text, in the one layout of the format.
//!
//! Invariant: what is printed in full reads back as the same module, and prints as the same bytes again. Arguments of
//! ops that the schemas know are written as rule 6 of the format says: what may be a tensor by position, the rest by
//! name, nothing that equals its default.

use super::scope::by_position_only;
use crate::ir::{
    Arg, Block, Bsym, Device, Module, NumberType, Output, Param, Role, Schemas, Stmt, SymDecl, TensorType,
    Trace, TraceParam, Type, ValueId,
};
use std::fmt::{self, Write};

/// What is printed besides the program.
#[derive(Clone, Copy, Default)]
pub struct PrintOptions<'a> {
    /// Levels of statements that are printed, 1: no blocks; none: all.
    pub depth: Option<usize>,
    /// Notes (`!{…}`), too.
    pub notes: bool,
    /// A comment for a statement, printed behind it. Line breaks become spaces.
    pub comment: Option<&'a Comment>,
}

/// What stands behind a statement as a comment.
pub type Comment = dyn Fn(&Trace, &Bsym) -> Option<String>;

impl PrintOptions<'_> {
    /// Everything that the module holds.
    pub const FULL: PrintOptions<'static> = PrintOptions { depth: None, notes: true, comment: None };
}

/// The module as text.
pub fn print(module: &Module, schemas: &dyn Schemas, options: &PrintOptions<'_>) -> String {
    let mut p = Printer { out: String::new(), schemas, options };
    p.module(module);
    p.out
}

/// One statement as text, without its block: for messages.
pub fn print_stmt(trace: &Trace, bsym: &Bsym, schemas: &dyn Schemas) -> String {
    let options = PrintOptions { depth: Some(1), ..PrintOptions::default() };
    let mut p = Printer { out: String::new(), schemas, options: &options };
    p.bsym(trace, bsym, 0);
    p.out.truncate(p.out.trim_end().len());
    p.out
}

/// The argument as text.
pub fn print_arg(trace: &Trace, arg: &Arg) -> String {
    let mut out = String::new();
    write_arg(&mut out, trace, arg);
    out
}

struct Printer<'a> {
    out: String,
    schemas: &'a dyn Schemas,
    options: &'a PrintOptions<'a>,
}

/// `write!` into a `String` cannot fail.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => { write!($out, $($arg)*).expect("a string takes everything") };
}

impl Printer<'_> {
    fn module(&mut self, module: &Module) {
        put!(self.out, "thunderhead trace {}.{}\n\n", super::VERSION.0, super::VERSION.1);
        for d in &module.dims {
            put!(self.out, "{d}\n");
        }
        if !module.dims.is_empty() {
            self.out.push('\n');
        }
        for (i, t) in module.traces.iter().enumerate() {
            if i > 0 {
                self.out.push('\n');
            }
            self.trace(t);
        }
    }

    fn trace(&mut self, t: &Trace) {
        put!(self.out, "trace {}(\n", t.name);
        for p in &t.params {
            self.param(t, p);
        }
        put!(self.out, ") stage {}", t.stage.name());
        if let Some(model) = &t.model {
            put!(self.out, " model {}", Quoted(model));
        }
        self.out.push_str(" {\n");
        self.body(t, &t.body, 1);
        self.out.push_str("    return");
        self.list(&t.outputs, |p, o| p.output(t, o));
        self.out.push('\n');
        if !t.save.is_empty() {
            self.out.push_str("    save");
            self.list(&t.save, |p, v| p.value(t, *v));
            self.out.push('\n');
        }
        self.out.push_str("}\n");
    }

    fn param(&mut self, t: &Trace, p: &TraceParam) {
        self.out.push_str("    ");
        self.value(t, p.value);
        put!(self.out, ": {} {},\n", t.ty(p.value), p.role);
    }

    fn output(&mut self, t: &Trace, o: &Output) {
        write_arg(&mut self.out, t, &o.value);
        if let Some(name) = &o.name {
            put!(self.out, " as {}", Quoted(name));
        }
    }

    fn value(&mut self, t: &Trace, id: ValueId) {
        put!(self.out, "%{}", t.value(id).name);
    }

    /// Items behind a word, commas between them; nothing for none.
    fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        for (i, item) in items.iter().enumerate() {
            self.out.push_str(if i == 0 { " " } else { ", " });
            write(self, item);
        }
    }

    fn body(&mut self, t: &Trace, body: &[Stmt], level: usize) {
        for s in body {
            self.indent(level);
            match s {
                Stmt::Op(b) => self.bsym(t, b, level),
                Stmt::Del(dead) => {
                    self.out.push_str("del");
                    self.list(dead, |p, v| p.value(t, *v));
                    self.out.push('\n');
                }
            }
        }
    }

    fn indent(&mut self, level: usize) {
        for _ in 0..level {
            self.out.push_str("    ");
        }
    }

    fn bsym(&mut self, t: &Trace, b: &Bsym, level: usize) {
        for (i, r) in b.results.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            match r {
                Some(v) => put!(self.out, "%{}: {}", t.value(*v).name, t.ty(*v)),
                None => self.out.push('_'),
            }
        }
        if !b.results.is_empty() {
            self.out.push_str(" = ");
        }
        put!(self.out, "{}(", b.op);
        self.args(t, b);
        self.out.push(')');
        if let Some(who) = &b.who {
            put!(self.out, " @{}", who.executor);
            if let Some(d) = &who.delegate {
                put!(self.out, " -> {d}");
            }
        }
        if self.options.notes && !b.notes.is_empty() {
            self.notes(t, b);
        }
        let block = b.block.as_deref().filter(|_| self.options.depth.is_none_or(|d| level < d.max(1)));
        if block.is_some() {
            self.out.push_str(" {");
        }
        if let Some(comment) = self.options.comment.and_then(|c| c(t, b)) {
            let flat: String = comment.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            put!(self.out, "  # {flat}");
        }
        self.out.push('\n');
        if let Some(block) = block {
            self.block(t, block, level);
        }
    }

    fn notes(&mut self, t: &Trace, b: &Bsym) {
        self.out.push_str(" !{");
        for (i, (key, value)) in b.notes.iter().enumerate() {
            put!(self.out, "{}{key}=", if i > 0 { ", " } else { "" });
            write_arg(&mut self.out, t, value);
        }
        self.out.push('}');
    }

    fn block(&mut self, t: &Trace, block: &Block, level: usize) {
        self.body(t, &block.body, level + 1);
        self.indent(level + 1);
        self.out.push_str("yield");
        self.list(&block.yields, |p, a| write_arg(&mut p.out, t, a));
        self.out.push('\n');
        self.indent(level);
        self.out.push_str("}\n");
    }

    fn args(&mut self, t: &Trace, b: &Bsym) {
        let mut comma = "";
        for (name, arg) in written_args(self.schemas, b) {
            self.out.push_str(comma);
            comma = ", ";
            if let Some(name) = name {
                put!(self.out, "{name}=");
            }
            write_arg(&mut self.out, t, arg);
        }
    }
}

/// The arguments that are written, in their order, with the name of those that go by name (rule 6).
pub(super) fn written_args<'b>(schemas: &'b dyn Schemas, b: &'b Bsym) -> Vec<(Option<&'b str>, &'b Arg)> {
    let named = b.named.iter().map(|(n, a)| (Some(&**n), a));
    let schema = schemas.schema(&b.op).filter(|s| s.params.len() <= b.args.len());
    let Some(schema) = schema else {
        return b.args.iter().map(|a| (None, a)).chain(named).collect();
    };
    let all = by_position_only(&b.op);
    let params: Vec<_> = schema.params.iter().zip(&b.args).collect();
    let placed = |p: &Param| all || p.ty.takes_tensor();
    let extra = &b.args[schema.params.len()..];
    let needed = |p: &Param, a: &Arg| p.absent_value().as_ref() != Some(a);
    let is_last = |(p, a): &(&Param, &Arg)| placed(p) && (needed(p, a) || !extra.is_empty());
    let last = params.iter().rposition(is_last);
    let by_place = params.iter().take(last.map_or(0, |l| l + 1)).filter(|(p, _)| placed(p));
    let by_name = params.iter().filter(|(p, a)| !placed(p) && needed(p, a));
    let mut out: Vec<_> = by_place.map(|(_, a)| (None, *a)).collect();
    out.extend(extra.iter().map(|a| (None, a)));
    out.extend(by_name.map(|(p, a)| (Some(&*p.name), *a)));
    out.extend(named);
    out
}

fn write_arg(out: &mut String, t: &Trace, arg: &Arg) {
    match arg {
        Arg::Value(v) => put!(out, "%{}", t.value(*v).name),
        Arg::None => out.push_str("none"),
        Arg::Int(n) => put!(out, "{n}"),
        Arg::Float(x) => write_float(out, *x),
        Arg::Bool(b) => put!(out, "{b}"),
        Arg::Str(s) => put!(out, "{}", Quoted(s)),
        Arg::Complex(re, im) => {
            out.push_str("complex(");
            write_float(out, *re);
            out.push_str(", ");
            write_float(out, *im);
            out.push(')');
        }
        Arg::Dtype(d) => put!(out, "{d}"),
        Arg::Device(d) => put!(out, "{d}"),
        Arg::Dim(d) => put!(out, "{d}"),
        Arg::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_arg(out, t, item);
            }
            out.push(']');
        }
        Arg::Trace(name) => put!(out, "&{name}"),
    }
}

/// The shortest decimal that reads back as the same f64, with a point or an exponent: `1.0`, `1e-05`, `2.5e16`.
pub(super) fn write_float(out: &mut String, x: f64) {
    if !x.is_finite() {
        out.push_str(if x.is_nan() {
            "nan"
        } else if x > 0.0 {
            "inf"
        } else {
            "-inf"
        });
        return;
    }
    let shortest = format!("{x:e}");
    let (digits, exponent) = shortest.split_once('e').expect("`{:e}` writes an exponent");
    let exponent: i32 = exponent.parse().expect("`{:e}` writes a decimal exponent");
    if (-4..16).contains(&exponent) {
        put!(out, "{x:?}");
    } else {
        put!(out, "{digits}e{}{:02}", if exponent < 0 { "-" } else { "" }, exponent.abs());
    }
}

/// A JSON string.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self.0).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Display for SymDecl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dim {} in {}..", self.symbol, self.low)?;
        if let Some(high) = self.high {
            write!(f, "{high}")?;
        }
        if self.step != 1 {
            write!(f, " step {}", self.step)?;
        }
        Ok(())
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        if let Some(name) = self.name.as_ref().filter(|_| self.kind.has_name()) {
            write!(f, " {}", Quoted(name))?;
        }
        if self.frozen { f.write_str(" frozen") } else { Ok(()) }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.device != Device::Cpu {
            write!(f, "{} ", self.device)?;
        }
        write!(f, "{}[", self.dtype)?;
        for (i, d) in self.dims.iter().enumerate() {
            write!(f, "{}{d}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str("]")
    }
}

impl fmt::Display for NumberType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.equals {
            Some(d) => write!(f, "{}({d})", self.kind.name()),
            None => f.write_str(self.kind.name()),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Tensor(t) => write!(f, "{t}"),
            Type::Number(n) => write!(f, "{n}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::write_float;

    #[test]
    fn floats_are_the_shortest_that_read_back() {
        for (x, want) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (1e-5, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e-4, "0.0001"),
            (0.35355339059327373, "0.35355339059327373"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e16"),
            (f64::MAX, "1.7976931348623157e308"),
            (5e-324, "5e-324"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            let mut out = String::new();
            write_float(&mut out, x);
            assert_eq!(out, want);
        }
    }
}
