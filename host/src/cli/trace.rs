//! `thunderhead trace`: the program as text at one stage of its life.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thunderhead::ir::text::{PrintOptions, print, to_json};
use thunderhead::ir::{Block, Bsym, Dim, Module, Name, Stmt, SymDecl, SymKind, Trace, Type};
use thunderhead::lower::with_dels;
use thunderhead::plan::PlanFile;
use thunderhead::run::{Compiled, GradRequest};

use super::args::{StageArg, TraceArgs, WantedArgs};
use super::failure::Failure;
use super::program::{Opened, look_at_config, open_program};
use super::render::Screen;

pub fn run(args: &TraceArgs, screen: &Screen) -> Result<(), Failure> {
    let depth = args.depth.map(|depth| depth as usize);
    // What else could be meant by these stages?
    let grad = args.grad.grad || matches!(args.stage, Some(StageArg::Forward | StageArg::Backward));
    let stage = args.stage.unwrap_or(if grad { StageArg::Forward } else { StageArg::Acquired });
    if stage == StageArg::Acquired {
        if grad {
            let message = "an acquired trace has no gradients yet".to_owned();
            let advice = "leave --grad out, or take one of the stages after it".to_owned();
            return Err(Failure::Usage { message, advice });
        }
        // The acquired trace is the model's alone: no plugin is asked for it. A config that was typed is looked at all the same,
        // since whoever names one wants it to be right.
        let program = open_program(&args.model, screen)?;
        look_at_config(&args.model.config, screen)?;
        let mut module = Module::clone(program.module());
        module.traces.iter_mut().for_each(|trace| expand_trace(trace, depth.unwrap_or(usize::MAX)));
        return shown(&module, depth, args, &[], screen);
    }
    let opened = Opened::new(&args.model, &args.inputs, screen)?;
    let wanted = grad.then(|| WantedArgs { wrt: args.grad.wrt.clone(), no_remat: args.grad.no_remat });
    let traces = match &wanted {
        None => all_at_stage(&[opened.compiled()?], stage),
        Some(wanted) => with_gradients(&opened, &opened.request(wanted)?, stage, depth)?,
    };
    let mut module = opened.session.module().clone();
    // Sizes of inputs are known; what is left is known when it runs.
    module.dims.retain(|dim| dim.symbol.kind == SymKind::Data);
    module.traces = traces;
    declare(&mut module);
    let asked = args.notes && !matches!(stage, StageArg::Forward | StageArg::Backward);
    let plans = if asked { opened.plans_with_nested(wanted.as_ref())? } else { Vec::new() };
    shown(&module, depth, args, &plans, screen)
}

/// Declares symbols that only the traces know: how many trips a loop makes whose gradient is wanted.
fn declare(module: &mut Module) {
    let mut used = BTreeSet::new();
    let mut see = |d: &Dim| d.for_each_symbol(&mut |s| _ = used.insert(s));
    for value in module.traces.iter().flat_map(|trace| &trace.values) {
        match &value.ty {
            Type::Tensor(t) => t.dims.iter().for_each(&mut see),
            Type::Number(n) => n.equals.iter().for_each(&mut see),
        }
    }
    used.retain(|symbol| symbol.kind == SymKind::Data && module.dims.iter().all(|dim| dim.symbol != *symbol));
    module.dims.extend(used.into_iter().map(|symbol| SymDecl { symbol, low: 0, high: None, step: 1 }));
}

/// The augmented forward and the backward, and the nested traces that they reach.
fn with_gradients(
    opened: &Opened,
    request: &GradRequest,
    stage: StageArg,
    depth: Option<usize>,
) -> Result<Vec<Trace>, Failure> {
    if matches!(stage, StageArg::Forward | StageArg::Backward) {
        let program = opened.session.differentiated(&opened.inputs, request)?;
        let mut traces = vec![program.traces.forward.clone(), program.traces.backward.clone()];
        traces.extend(program.traces.nested.all().map(|trace| Trace::clone(trace)));
        traces.iter_mut().for_each(|trace| expand_trace(trace, depth.unwrap_or(usize::MAX)));
        return Ok(traces);
    }
    let (forward, backward) = opened.compiled_grad(request)?;
    Ok(all_at_stage(&[forward, backward], stage))
}

/// The programs, then the nested traces that any of them reaches; those whose sizes only a run knows as they were
/// before claiming.
fn all_at_stage(programs: &[Arc<Compiled>], stage: StageArg) -> Vec<Trace> {
    let mut traces: Vec<Trace> = programs.iter().map(|program| at_stage(program, stage)).collect();
    for nested in programs.iter().flat_map(|program| &program.nested) {
        if traces.iter().any(|trace| trace.name == nested.trace.name) {
            continue;
        }
        traces.push(match &nested.compiled {
            Some(compiled) => at_stage(compiled, stage),
            None => Trace::clone(&nested.trace),
        });
    }
    traces
}

fn at_stage(compiled: &Compiled, stage: StageArg) -> Trace {
    match stage {
        StageArg::Claimed => compiled.claimed.clone(),
        _ => with_dels(&compiled.execution()),
    }
}

/// With plans, by the name of their trace, refusals stand behind their ops as comments.
fn shown(
    module: &Module,
    depth: Option<usize>,
    args: &TraceArgs,
    plans: &[(Name, PlanFile)],
    screen: &Screen,
) -> Result<(), Failure> {
    let schemas = thunderhead::ops::schemas();
    if args.json {
        return screen.data(&format!("{:#}\n", to_json(module, schemas)));
    }
    let refusals: BTreeMap<Name, _> =
        plans.iter().map(|(name, plan)| (name.clone(), refusals_by_id(plan))).collect();
    let comment = move |trace: &Trace, bsym: &Bsym| {
        let first = bsym.defined().next()?;
        refusals.get(&trace.name)?.get(&*trace.value(first).name).cloned()
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
