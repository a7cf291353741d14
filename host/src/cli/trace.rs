//! `thunderhead trace`: the program as text at one stage of its life.

use std::collections::BTreeMap;

use thunderhead::ir::text::{PrintOptions, print, to_json};
use thunderhead::ir::{Block, Bsym, Module, Stmt, Trace};
use thunderhead::lower::with_dels;
use thunderhead::plan::PlanFile;

use super::args::{StageArg, TraceArgs};
use super::failure::Failure;
use super::program::{Opened, open_program};
use super::render::Screen;

pub fn run(args: &TraceArgs, screen: &Screen) -> Result<(), Failure> {
    let depth = args.depth.map(|depth| depth as usize);
    // The acquired trace is the model's alone: no plugin is asked for it.
    if args.stage == StageArg::Acquired {
        let program = open_program(&args.model, screen)?;
        let mut module = Module::clone(program.module());
        module.traces.iter_mut().for_each(|trace| expand_trace(trace, depth.unwrap_or(usize::MAX)));
        return shown(&module, depth, args, None, screen);
    }
    let opened = Opened::new(&args.model, &args.inputs, screen)?;
    let compiled = opened.compiled()?;
    let trace = match args.stage {
        StageArg::Claimed => compiled.claimed.clone(),
        _ => with_dels(&compiled.lowered.trace),
    };
    let mut module = opened.session.module().clone();
    module.dims.retain(|dim| dim.symbol.kind == thunderhead::ir::SymKind::Data);
    match module.traces.first_mut() {
        Some(first) => *first = trace,
        None => module.traces.push(trace),
    }
    let plan = args.notes.then(|| opened.plan()).transpose()?;
    shown(&module, depth, args, plan.as_ref(), screen)
}

/// With a plan, refusals stand behind their ops as comments.
fn shown(
    module: &Module,
    depth: Option<usize>,
    args: &TraceArgs,
    plan: Option<&PlanFile>,
    screen: &Screen,
) -> Result<(), Failure> {
    let schemas = thunderhead::ops::schemas();
    if args.json {
        return screen.data(&format!("{:#}\n", to_json(module, schemas)));
    }
    let refusals = plan.map(refusals_by_id).unwrap_or_default();
    let comment = move |trace: &Trace, bsym: &Bsym| {
        let first = bsym.defined().next()?;
        refusals.get(&*trace.value(first).name).cloned()
    };
    let options = PrintOptions { depth, notes: args.notes, comment: Some(&comment) };
    screen.data(&print(module, schemas, &options))
}

/// `sdpa refused: input 0 is f64; it takes f32`, by the op's id.
fn refusals_by_id(plan: &PlanFile) -> BTreeMap<String, String> {
    let said = |op: &thunderhead::plan::PlannedOp| {
        let refusals = op.refusals.iter().map(|r| format!("{} refused: {}", r.executor, r.sentence));
        refusals.collect::<Vec<_>>().join("; ")
    };
    let refused = plan.ops.iter().filter(|op| !op.refusals.is_empty());
    refused.map(|op| (op.id.clone(), said(op))).collect()
}

/// Puts the decompositions of composites below them, `depth` levels in all, the program's own included.
fn expand_trace(trace: &mut Trace, depth: usize) {
    if depth <= 1 {
        return;
    }
    let mut body = std::mem::take(&mut trace.body);
    expand_body(trace, &mut body, depth - 1);
    trace.body = body;
}

fn expand_body(trace: &mut Trace, body: &mut [Stmt], depth: usize) {
    for stmt in body {
        let Stmt::Op(bsym) = stmt else { continue };
        // What cannot be taken apart with these sizes is shown whole; running it would say why.
        let Ok(Some(Block { mut body, yields })) = thunderhead::ops::build::decompose(trace, bsym) else {
            continue;
        };
        if depth > 1 {
            expand_body(trace, &mut body, depth - 1);
        }
        bsym.block = Some(Box::new(Block { body, yields }));
    }
}
