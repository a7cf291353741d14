//! What reading a trace needs besides grammar: which value a name means, and which parameter an argument is for.
//! Shared by text and JSON.

use super::super::{Arg, Name, Schema, Trace, ValueId};
use std::collections::HashMap;

/// The values that can be seen, by name. Hashed with a keyed hash: names come from files.
#[derive(Default)]
pub struct Scope {
    seen: HashMap<Name, ValueId>,
    undo: Vec<(Name, Option<ValueId>)>,
}

impl Scope {
    /// Makes the name mean the value, until the block that began at the last mark ends.
    pub fn bind(&mut self, name: Name, id: ValueId) {
        let before = self.seen.insert(name.clone(), id);
        self.undo.push((name, before));
    }

    /// The value that the name means here.
    pub fn get(&self, name: &str) -> Option<ValueId> {
        self.seen.get(name).copied()
    }

    /// The names of the trace's values that can be seen, the latest first.
    pub fn names<'a>(&'a self, trace: &'a Trace) -> impl Iterator<Item = &'a str> {
        let ids = (0..trace.values.len() as u32).rev().map(ValueId);
        ids.map(|id| (id, &*trace.value(id).name)).filter(|(id, n)| self.get(n) == Some(*id)).map(|(_, n)| n)
    }

    /// Where a block begins.
    pub fn mark(&self) -> usize {
        self.undo.len()
    }

    /// Ends the block that began at the mark: what it defined cannot be seen any more.
    pub fn rollback(&mut self, mark: usize) {
        for (name, before) in self.undo.drain(mark..).rev() {
            match before {
                Some(id) => self.seen.insert(name, id),
                None => self.seen.remove(&name),
            };
        }
    }
}

/// An argument as written, with the index under which its position is known.
#[derive(Debug)]
pub struct Written {
    /// The name, if it was given by name.
    pub name: Option<Name>,
    /// The value.
    pub value: Arg,
    /// Its offset in the text (0 for JSON).
    pub at: u32,
}

/// Arguments as a bound symbol stores them.
#[derive(Debug, Default)]
pub struct Complete {
    /// By position.
    pub args: Vec<Arg>,
    /// By name.
    pub named: Vec<(Name, Arg)>,
    /// Offsets: of `args`, then of `named`; those of arguments that were not written are the call's own.
    pub at: Vec<u32>,
}

/// What is wrong with a call's arguments.
#[derive(Debug, PartialEq)]
pub struct ArgError {
    /// Where.
    pub at: u32,
    /// What.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

/// Are all the op's arguments given by position? So it is for arithmetic on numbers, whose parameters mean nothing by name.
pub fn by_position_only(op: &str) -> bool {
    op.starts_with("num.")
}

/// Puts arguments in schema order and fills in what was left out; without a schema they stay as they are.
pub fn complete(
    op: &str,
    schema: Option<&Schema>,
    written: Vec<Written>,
    head: u32,
) -> Result<Complete, ArgError> {
    let mut out = Complete::default();
    let Some(schema) = schema else {
        for (i, w) in written.iter().enumerate() {
            if let Some(name) = &w.name {
                let first = written[..i].iter().rev().take(MAX_NAMED).any(|o| o.name.as_ref() == Some(name));
                if first {
                    return Err(twice(op, name, w.at));
                }
                if i >= MAX_NAMED && written[i - MAX_NAMED].name.is_some() {
                    let message = format!("`{op}` has more than {MAX_NAMED} arguments by name");
                    return Err(ArgError { at: w.at, message, help: None });
                }
            }
        }
        for w in written {
            out.at.push(w.at);
            match w.name {
                Some(name) => out.named.push((name, w.value)),
                None => out.args.push(w.value),
            }
        }
        return Ok(out);
    };
    complete_by(op, schema, written, head)
}

/// Most arguments by name of an op that nobody knows; what PyTorch has ends below 30.
const MAX_NAMED: usize = 256;

fn twice(op: &str, name: &str, at: u32) -> ArgError {
    ArgError { at, message: format!("`{op}` is given `{name}` twice"), help: None }
}

fn complete_by(op: &str, schema: &Schema, written: Vec<Written>, head: u32) -> Result<Complete, ArgError> {
    let all = by_position_only(op);
    let mut places = schema.params.iter().enumerate().filter(|(_, p)| all || p.ty.takes_tensor());
    let mut slots: Vec<Option<(Arg, u32)>> = schema.params.iter().map(|_| None).collect();
    let mut extra = Complete::default();
    let mut extra_at = (Vec::new(), Vec::new());
    for w in written {
        let slot = match &w.name {
            Some(name) => schema.index(name),
            None => places.next().map(|(i, _)| i),
        };
        match (slot, w.name) {
            (Some(i), name) if slots[i].is_some() => {
                return Err(twice(op, name.as_deref().unwrap_or(&schema.params[i].name), w.at));
            }
            (Some(i), _) => slots[i] = Some((w.value, w.at)),
            (None, Some(name)) if schema.variadic && extra.named.iter().all(|(n, _)| *n != name) => {
                extra.named.push((name, w.value));
                extra_at.1.push(w.at);
            }
            (None, Some(name)) => return Err(unknown(op, schema, &name, w.at)),
            (None, None) if schema.variadic => {
                extra.args.push(w.value);
                extra_at.0.push(w.at);
            }
            (None, None) => return Err(too_many(op, schema, all, w.at)),
        }
    }
    let mut out = Complete::default();
    for (p, slot) in schema.params.iter().zip(slots) {
        let (value, at) = match slot {
            Some(s) => s,
            None => (p.absent_value().ok_or_else(|| missing(op, &p.name, head))?, head),
        };
        out.args.push(value);
        out.at.push(at);
    }
    out.args.append(&mut extra.args);
    out.at.append(&mut extra_at.0);
    out.named = extra.named;
    out.at.append(&mut extra_at.1);
    Ok(out)
}

fn unknown(op: &str, schema: &Schema, name: &str, at: u32) -> ArgError {
    let names = || schema.params.iter().map(|p| &*p.name);
    let nearest = super::super::nearest::nearest(name, names());
    let help = match nearest {
        Some(n) => format!("did you mean `{n}`?"),
        None => format!("it has: {}", names().collect::<Vec<_>>().join(", ")),
    };
    ArgError { at, message: format!("`{op}` has no argument `{name}`"), help: Some(help) }
}

fn too_many(op: &str, schema: &Schema, all: bool, at: u32) -> ArgError {
    let is_placed = |p: &&super::super::Param| all || p.ty.takes_tensor();
    let placed = schema.params.iter().filter(is_placed).count();
    let by_name: Vec<&str> = schema.params.iter().filter(|p| !is_placed(p)).map(|p| &*p.name).collect();
    let help = (!by_name.is_empty()).then(|| format!("by name: {}", by_name.join(", ")));
    ArgError { at, message: format!("`{op}` takes {placed} arguments by position, found more"), help }
}

fn missing(op: &str, name: &str, at: u32) -> ArgError {
    ArgError { at, message: format!("`{op}` is not given `{name}`"), help: None }
}
