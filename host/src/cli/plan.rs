//! `thunderhead plan`: what would run, without running; and what differs between two such plans.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use thunderhead::ir::Name;
use thunderhead::plan::{PlanDiff, PlanFile, PlannedStep, PlannedView};
use thunderhead::tensor_files::write_file;

use super::args::{ModelArgs, PlanArgs};
use super::failure::Failure;
use super::program::Opened;
use super::render::table::Table;
use super::render::units::{bytes, count};
use super::render::{Paint, Screen};

pub fn run(args: &PlanArgs, screen: &Screen) -> Result<(), Failure> {
    if let Some([a, b]) = args.diff.as_deref() {
        return diff(a, b, args.json, screen);
    }
    let Some(model) = args.model.clone() else {
        let message = "no model was named".to_owned();
        return Err(Failure::Usage { message, advice: "name one, or two plans with --diff".to_owned() });
    };
    let model =
        ModelArgs { model, weights: args.weights.clone(), seed: args.seed, config: args.config.clone() };
    let opened = Opened::new(&model, &args.inputs, screen)?;
    if let Some(wanted) = args.grad.wanted() {
        return both(&opened.plans(Some(&wanted))?, args.json, screen);
    }
    let plan = opened.plan()?;
    if let Some(path) = &args.output {
        write_file(path, json_text(&plan).as_bytes()).map_err(|error| Failure::write(path, &error))?;
        screen.say(&format!("wrote the plan to {}", path.display()));
    }
    match (args.json, &args.output) {
        (true, _) => screen.data(&json_text(&plan)),
        (false, Some(_)) => Ok(()),
        (false, None) => screen.data(&words(&plan, screen)),
    }
}

/// The plans of forward and backward, one after the other; as data: by name.
fn both(plans: &[(Name, PlanFile)], json: bool, screen: &Screen) -> Result<(), Failure> {
    if json {
        let named: BTreeMap<&str, &PlanFile> = plans.iter().map(|(name, plan)| (&**name, plan)).collect();
        let value = serde_json::to_value(named).expect("plans are plain data with string keys");
        return screen.data(&format!("{value:#}\n"));
    }
    let text: Vec<String> = plans
        .iter()
        .map(|(name, plan)| format!("{}\n{}", screen.out.bold(name), words(plan, screen)))
        .collect();
    screen.data(&text.join("\n"))
}

fn json_text(plan: &PlanFile) -> String {
    let value = serde_json::to_value(plan).expect("a plan file is plain data with string keys");
    format!("{value:#}\n")
}

fn words(plan: &PlanFile, screen: &Screen) -> String {
    let mut text = format!("{}\n\n", totals(plan, screen.out));
    let mut steps = Table::new(&[">STEP", "KIND", "OP", "EXECUTOR", "INPUTS", "OUTPUTS", ""]);
    for (i, step) in plan.steps.iter().enumerate() {
        let name = step.op.as_ref().or(step.value.as_ref()).cloned().unwrap_or_default();
        let (inputs, outputs) = (views(&step.inputs), views(&step.outputs));
        steps.row([
            i.to_string(),
            step.kind.clone(),
            name,
            step.executor.clone(),
            inputs,
            outputs,
            remark(step),
        ]);
    }
    text.push_str(&steps.render(screen));
    if !plan.copies.is_empty() {
        let mut copies = Table::new(&[">STEP", "COPY OF", ">BYTES", "CODE", "WHY"]);
        for copy in &plan.copies {
            let (step, bytes) = (copy.step.to_string(), bytes(copy.bytes));
            copies.row([step, copy.value.clone(), bytes, copy.code.clone(), copy.reason.clone()]);
        }
        text.push_str(&format!("\n{}", copies.render(screen)));
    }
    text
}

fn totals(plan: &PlanFile, paint: Paint) -> String {
    let n_ops: usize = plan.ops_by_executor.values().sum();
    let by: Vec<String> = plan.ops_by_executor.iter().map(|(name, n)| format!("{name} {n}")).collect();
    let copied: u64 = plan.copies.iter().map(|copy| copy.bytes).sum();
    let handed_on: Vec<String> = plan.handed_on.iter().map(|(name, n)| format!("{name} {n}")).collect();
    let handed_on = match handed_on.as_slice() {
        [] => String::new(),
        by => format!("; handed on: {}", by.join(", ")),
    };
    let mut parts = vec![
        format!("{} ({}{handed_on})", count(n_ops, "op"), by.join(", ")),
        count(plan.steps.len(), "step"),
        format!("{} of {}", count(plan.copies.len(), "copy"), bytes(copied)),
        format!("arena {}, at most {} of it in use", bytes(plan.arena_bytes), bytes(plan.peak_live_bytes)),
        format!("outputs {}", bytes(plan.output_bytes)),
    ];
    if !plan.regions.is_empty() {
        parts.insert(1, count(plan.regions.len(), "region"));
    }
    if plan.n_segments > 1 {
        parts.push(format!("{} parts, of which the first is shown", plan.n_segments));
    }
    let model = plan.model.as_ref().map(|model| format!("{}: ", paint.bold(model))).unwrap_or_default();
    format!("{model}{}", parts.join("; "))
}

/// `x f32[2, 3] arena+64`
fn views(views: &[PlannedView]) -> String {
    let view = |view: &PlannedView| {
        let place = match (view.place.as_str(), view.offset_bytes) {
            ("arena", offset) => format!("arena+{offset}"),
            (place, 0) => place.to_owned(),
            (place, offset) => format!("{place}+{offset}"),
        };
        format!("{} {}{:?} {place}", view.buffer, view.dtype, view.dims)
    };
    views.iter().map(view).collect::<Vec<_>>().join(", ")
}

fn remark(step: &PlannedStep) -> String {
    let in_place = step.in_place.map(|(output, input)| format!("output {output} in place of input {input}"));
    let workspace = (step.workspace_bytes > 0).then(|| format!("workspace {}", bytes(step.workspace_bytes)));
    in_place.into_iter().chain(workspace).collect::<Vec<_>>().join(", ")
}

fn diff(a: &Path, b: &Path, json: bool, screen: &Screen) -> Result<(), Failure> {
    let diff = PlanDiff::of(&read(a)?, &read(b)?);
    if json {
        let value = serde_json::to_value(&diff).expect("a difference is plain data");
        return screen.data(&format!("{value:#}\n"));
    }
    screen.data(&diff_words(&diff, screen))
}

fn read(path: &Path) -> Result<PlanFile, Failure> {
    let named = path.display().to_string();
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::Read { path: named.clone(), reason: error.to_string() })?;
    serde_json::from_str(&text).map_err(|error| Failure::PlanFile { path: named, reason: error.to_string() })
}

fn diff_words(diff: &PlanDiff, screen: &Screen) -> String {
    if diff.is_empty() {
        return "the plans are the same\n".to_owned();
    }
    let mut text = String::new();
    if !diff.ops.is_empty() {
        let mut ops = Table::new(&["ID", "OP", "A", "B", "WHY"]);
        for op in &diff.ops {
            let side = |side: &Option<String>| side.clone().unwrap_or_else(|| "-".to_owned());
            let reason = op.reason.clone().unwrap_or_default();
            ops.row([op.id.clone(), op.op.clone(), side(&op.a), side(&op.b), reason]);
        }
        text.push_str(&ops.render(screen));
    }
    if !diff.totals.is_empty() {
        let mut totals = Table::new(&["TOTAL", ">A", ">B"]);
        for total in &diff.totals {
            totals.row([total.what.clone(), total.a.to_string(), total.b.to_string()]);
        }
        text.push_str(&format!("{}{}", if text.is_empty() { "" } else { "\n" }, totals.render(screen)));
    }
    text
}
