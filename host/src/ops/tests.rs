//! The table held against itself and against ATen's schemas: what any entry must obey, whoever wrote it.

use super::aten::{FixedArg, map_pairs};
use super::build::{decompose, result_types};
use super::samples::SampleArg;
use super::{Aten, Import, Level, Op, Traits, Vjp, aten_schema, find, table};
use crate::ir::{Arg, Block, Bsym, Dtype, Schema, Stage, Stmt, Trace, Type, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// The dtypes that samples are tried with, the usual one first.
const DTYPES: [Dtype; 7] =
    [Dtype::F32, Dtype::I64, Dtype::Bool, Dtype::C64, Dtype::Bf16, Dtype::F64, Dtype::U8];

#[test]
fn names_are_unique_and_levels_agree_with_them() {
    let mut seen = BTreeSet::new();
    for op in table() {
        assert!(seen.insert(op.name), "{} stands twice", op.name);
        let prim = ["prims.", "num.", "dist."].iter().any(|p| op.name.starts_with(p));
        assert_eq!(prim, matches!(op.level, Level::Prim), "{}", op.name);
        assert!(op.view.is_none() || prim && op.is(Traits::VIEW), "{}: only view prims map strides", op.name);
        assert!(op.view.is_some() || !prim || !op.is(Traits::VIEW), "{} maps no strides", op.name);
        assert!(!op.doc.is_empty(), "{} says nothing", op.name);
    }
}

/// Ops of the contract that another room brings, and why they are not here yet.
const ELSEWHERE: &[&str] = &["torch.map", "torch.scan"];

#[test]
fn the_table_holds_what_the_contract_names() {
    let lines =
        include_str!("contract.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let is_missing = |name: &&str| match name.strip_prefix("aten.") {
        Some(overload) => super::table::aten_owner(overload).is_none(),
        None => find(name).is_none() && !ELSEWHERE.contains(name),
    };
    let missing: Vec<&str> = lines.filter(is_missing).collect();
    assert!(missing.is_empty(), "{} missing: {missing:?}", missing.len());
}

/// Files outside of this room that may name ops, with what for.
const NAMES_OPS: &[(&str, &str)] = &[
    (
        "frontend/numbers.rs",
        "Python's arithmetic of sizes becomes `num.*`, the model's asserts `prims.check`",
    ),
    ("frontend/autocast.rs", "casts of a region become `prims.convert_element_type`"),
    ("frontend/nested.rs", "control flow of the file becomes `prims.cond`, `prims.while_loop`, `prims.scan`"),
    ("autodiff/nested.rs", "the gradient of control flow is control flow"),
    ("frontend/functionalize.rs", "writes become `prims.copy_` and `prims.set_data`, which no ATen op is"),
    ("ir/verify/mod.rs", "where a trace may write: `prims.copy_`"),
];

#[test]
fn no_other_room_names_ops() {
    let src = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut faults = Vec::new();
    let mut folders = vec![src.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let file = path.strip_prefix(&src).expect("below").to_string_lossy().replace('\\', "/");
            let tests = ["ops/", "frontend/tests/"].iter().any(|room| file.starts_with(room))
                || ["tests.rs", "roundtrip.rs"].iter().any(|name| file.ends_with(name));
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let program = text.split("#[cfg(test)]").next().unwrap_or_default();
            let allowed = NAMES_OPS.iter().any(|(name, _)| *name == file);
            let names = if tests { Vec::new() } else { op_names(program) };
            faults.extend(names.iter().filter(|_| !allowed).map(|name| format!("{file} names `{name}`")));
            faults.extend(
                names
                    .iter()
                    .filter(|name| find(name).is_none())
                    .map(|name| format!("{file}: no op `{name}`")),
            );
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// String literals of a source that look like names of ops; what follows `//` does not count.
fn op_names(source: &str) -> Vec<&str> {
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let literals = code.flat_map(|line| line.split('"').skip(1).step_by(2));
    let is_name = |text: &&str| {
        let rest = ["prims.", "torch.", "num.", "optim.", "dist."].iter().find_map(|p| text.strip_prefix(p));
        rest.is_some_and(|rest| {
            !rest.is_empty() && rest.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        })
    };
    // Modules of PyTorch's, in what its pickles name, and the head of its names of functions.
    let python = ["torch.storage", "torch._utils"];
    literals.filter(is_name).filter(|text| !python.contains(text) && !text.ends_with('_')).collect()
}

#[test]
fn every_static_is_listed() {
    let room = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ops");
    let files = std::fs::read_dir(room).expect("the room is a folder");
    let sources: Vec<String> =
        files.map(|f| std::fs::read_to_string(f.expect("an entry").path())).filter_map(Result::ok).collect();
    let is_entry = |line: &&str| line.starts_with("pub static ") && line.contains(": Op =");
    let entries: usize = sources.iter().map(|s| s.lines().filter(is_entry).count()).sum();
    assert_eq!(entries, table().len());
}

#[test]
fn schemas_parse() {
    for op in table() {
        if let Err(what) = Schema::parse(op.schema) {
            panic!("{}: {what}", op.name);
        }
    }
}

#[test]
fn samples_agree_with_schemas_meta_and_decomposition() {
    let mut faults = Vec::new();
    for op in table() {
        let text_only = op.is(Traits::HOST) || op.schema.starts_with("(...)") || op.schema.contains("trace");
        if op.samples.is_empty() && !text_only {
            faults.push(format!("{}: has no sample", op.name));
        }
        for sample in op.samples {
            let args = match sample.read(super::table::schema_of(op)) {
                Ok(args) => args,
                Err(what) => {
                    faults.push(format!("{}: {what}", op.name));
                    continue;
                }
            };
            let outcomes: Vec<_> = DTYPES.iter().map(|d| (d, try_sample(op, &args, *d))).collect();
            let taken = outcomes.iter().any(|(_, o)| matches!(o, Outcome::Agrees));
            for (dtype, outcome) in &outcomes {
                let at = format!("{}({}) with T = {dtype}", op.name, sample.0);
                match outcome {
                    Outcome::Agrees => {}
                    Outcome::Refused(_) if taken => {}
                    Outcome::Refused(what) => faults.push(format!("{at}: no dtype is taken: {what}")),
                    Outcome::Fault(what) => faults.push(format!("{at}: {what}")),
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

enum Outcome {
    /// Meta and the decomposition, down to prims, agree.
    Agrees,
    /// Both refuse the call.
    Refused(String),
    /// They disagree, or the decomposition does not end in prims.
    Fault(String),
}

fn try_sample(op: &'static Op, args: &[SampleArg], dtype: Dtype) -> Outcome {
    let mut trace = Trace::new("sample", Stage::Acquired);
    let args: Vec<Arg> = args
        .iter()
        .map(|a| {
            a.to_arg(dtype, &mut |t| {
                let name = format!("in{}", trace.values.len());
                trace.add_value(name, t.ty(dtype).into())
            })
        })
        .collect();
    let before = trace.values.len();
    let types = match result_types(op, &mut trace, &args) {
        Ok(types) => types,
        Err(refused) => {
            // What meta refuses must not decompose either: the values made up here have no types to agree with.
            let bsym = Bsym::new(op.name, args, vec![]);
            return match decompose(&mut trace, &bsym) {
                Ok(Some(block)) if !block.yields.is_empty() => {
                    Outcome::Fault(format!("meta refuses ({refused}), the decomposition does not"))
                }
                _ => Outcome::Refused(refused.to_string()),
            };
        }
    };
    assert_eq!(trace.values.len(), before, "{}: a meta rule leaves values behind", op.name);
    let results: Vec<Option<ValueId>> =
        types.into_iter().enumerate().map(|(i, t)| t.map(|t| trace.add_value(format!("r{i}"), t))).collect();
    let bsym = Bsym::new(op.name, args, results);
    match to_prims(&mut trace, &bsym, 0) {
        Ok(()) => Outcome::Agrees,
        Err(what) => Outcome::Fault(what),
    }
}

/// Takes the call apart down to prims and checks each block against the results it stands for.
fn to_prims(trace: &mut Trace, bsym: &Bsym, depth: usize) -> Result<(), String> {
    if depth > 12 {
        return Err("decomposes without an end".into());
    }
    let op = find(&bsym.op).ok_or_else(|| format!("`{}` is not in the table", bsym.op))?;
    if matches!(op.level, Level::Prim) {
        return Ok(());
    }
    let block = decompose(trace, bsym).map_err(|e| format!("the decomposition fails: {e}"))?;
    let Some(block) = block else { return Err(format!("{} gives no block", op.name)) };
    check_yields(trace, bsym, &block)?;
    for stmt in &block.body {
        let Stmt::Op(inner) = stmt else { return Err("a block holds `del`".into()) };
        let inferred = result_types(find(&inner.op).ok_or("unknown op")?, trace, &inner.args)
            .map_err(|e| format!("in its decomposition: {e}"))?;
        if inferred.len() != inner.results.len() {
            return Err(format!("{} has {} results", inner.op, inner.results.len()));
        }
        to_prims(trace, inner, depth + 1).map_err(|e| format!("{} > {e}", inner.op))?;
    }
    Ok(())
}

fn check_yields(trace: &Trace, bsym: &Bsym, block: &Block) -> Result<(), String> {
    let mine: BTreeSet<u32> =
        block.body.iter().filter_map(Stmt::op).flat_map(Bsym::defined).map(|v| v.0).collect();
    for (result, y) in bsym.results.iter().zip(&block.yields) {
        match (result, y) {
            (None, _) => {}
            (Some(r), Arg::Value(v)) => {
                if !mine.contains(&v.0) {
                    return Err(format!(
                        "{} yields %{}, which its block does not define",
                        bsym.op,
                        trace.value(*v).name
                    ));
                }
                let (want, found) = (trace.ty(*r), trace.ty(*v));
                if !agree(want, found) {
                    return Err(format!("meta says {}, the decomposition {}", show(want), show(found)));
                }
            }
            (Some(_), other) => return Err(format!("{} yields {other:?} for a value", bsym.op)),
        }
    }
    Ok(())
}

fn agree(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Tensor(a), Type::Tensor(b)) => {
            let dims =
                a.rank() == b.rank() && a.dims.iter().zip(&b.dims).all(|(x, y)| x.same(y) != Some(false));
            dims && a.dtype == b.dtype && a.device == b.device
        }
        (a, b) => a == b,
    }
}

fn show(ty: &Type) -> String {
    match ty {
        Type::Tensor(t) => format!("{}{}", t.dtype, super::meta::show(&t.dims)),
        Type::Number(n) => format!("{n:?}"),
    }
}

#[test]
fn each_prim_has_a_rule_or_says_that_it_needs_none() {
    let mut faults = Vec::new();
    for op in table().iter().filter(|op| matches!(op.level, Level::Prim)) {
        let without = matches!(op.vjp, Vjp::Through) && op.host.is_none() && !op.is(Traits::WRITES);
        if without {
            faults.push(op.name);
        }
    }
    assert!(faults.is_empty(), "without a rule: {faults:?}");
}

#[test]
fn overloads_exist_and_have_one_owner() {
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    let mut faults = Vec::new();
    for op in table() {
        for aten in op.aten {
            for overload in aten.overloads {
                if let Some(other) = owners.insert(overload, op.name) {
                    faults.push(format!("`{overload}` belongs to {other} and {}", op.name));
                }
                match aten_schema::lookup(overload) {
                    Some(_) => faults.extend(map_faults(op, aten, overload)),
                    None => faults.push(format!("{}: ATen has no `{overload}`", op.name)),
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Names of a map that one side does not have, and parameters that get no value.
fn map_faults(op: &Op, aten: &Aten, overload: &str) -> Vec<String> {
    let (map, fixed): (&str, &[(&str, FixedArg)]) = match &aten.import {
        Import::Map(map) => (map, &[]),
        Import::MapWith(map, fixed) => (map, fixed),
        Import::With(_) => return Vec::new(),
    };
    let ours = super::table::schema_of(op);
    let theirs = aten_schema::lookup(overload).expect("looked up by the caller");
    let mut faults = Vec::new();
    let mut given: BTreeSet<&str> = fixed.iter().map(|(name, _)| *name).collect();
    for (name, _) in fixed {
        if ours.index(name).is_none() {
            faults.push(format!("{}: no parameter `{name}`", op.name));
        }
    }
    for (mine, name) in map_pairs(map) {
        given.insert(mine);
        if ours.index(mine).is_none() {
            faults.push(format!("{}: no parameter `{mine}`", op.name));
        }
        if theirs.param(name).is_none() {
            faults.push(format!("{}: `{overload}` has no argument `{name}`", op.name));
        }
    }
    for p in &ours.params {
        if p.absent_value().is_none() && !given.contains(&*p.name) {
            faults.push(format!("{}: `{overload}` gives no `{}`", op.name, p.name));
        }
    }
    for p in &theirs.params {
        // These say how memory is laid out, or how a result is made, not what it is.
        const SILENT: [&str; 13] = [
            "memory_format",
            "layout",
            "pin_memory",
            "non_blocking",
            "generator",
            "device",
            "implicit",
            "stride",
            "output_size",
            "copy",
            "cudnn_enable",
            "cudnn_enabled",
            "unsafe",
        ];
        let used = map_pairs(map).any(|(_, name)| name == p.name);
        let silent = SILENT.contains(&p.name) || fixed.iter().any(|(name, _)| *name == p.name);
        if !used && !silent && !DROPPED.contains(&(overload, p.name)) {
            faults.push(format!("{}: `{overload}` has `{}`, which the map drops", op.name, p.name));
        }
    }
    faults
}

/// Arguments of ATen's that maps drop on purpose.
const DROPPED: &[(&str, &str)] = &[
    // The order of contraction: any gives the same.
    ("einsum.default", "path"),
    // How a gradient is stored.
    ("embedding.default", "sparse"),
    ("gather.default", "sparse_grad"),
    ("embedding_backward.default", "sparse"),
    // How distances are computed: any way gives them.
    ("cdist.default", "compute_mode"),
    ("_cdist_forward.default", "compute_mode"),
    // What is written is the importer's business; here is only what.
    ("atan2.out", "out"),
    // Which kernel of another library is taken.
    ("_convolution.default", "benchmark"),
    ("_convolution.default", "deterministic"),
    ("_convolution.default", "allow_tf32"),
];
