//! `thunderhead explain`: who takes each op, who was asked before, and why those do not take it.

use std::sync::Arc;

use serde_json::json;
use thunderhead::plan::{PlanFile, PlannedOp};
use thunderhead_manifest::Glob;
use thunderhead_manifest::document::nearest;

use super::args::ExplainArgs;
use super::failure::Failure;
use super::program::Opened;
use super::render::{Paint, Screen};

pub fn run(args: &ExplainArgs, screen: &Screen) -> Result<(), Failure> {
    let opened = Opened::new(&args.model, &args.inputs, screen)?;
    let plans = opened.plans_with_nested(args.grad.wanted().as_ref())?;
    let glob = args.op.as_deref().map(Glob::new);
    if let Some(glob) = &glob {
        check_matches(glob, &plans)?;
    }
    let shown = plans.iter().map(|(name, plan)| (&**name, shown(plan, glob.as_ref()).collect()));
    let shown: Vec<(&str, Vec<&PlannedOp>)> = shown.collect();
    if args.json {
        let mut report = json!({});
        for (name, ops) in shown {
            match name {
                "forward" => report["ops"] = json!(ops),
                "backward" => report["backward_ops"] = json!(ops),
                nested => report["nested_ops"][nested] = json!(ops),
            }
        }
        report["like_not_found"] = json!(opened.skipped_likes());
        report["plugin_warnings"] = json!(opened.host.plugin_warnings());
        return screen.data(&format!("{report:#}\n"));
    }
    let mut text = String::new();
    for (at, (name, ops)) in shown.iter().enumerate() {
        if shown.len() > 1 {
            let gap = if at > 0 { "\n" } else { "" };
            text.push_str(&format!("{gap}{}\n", screen.out.bold(name)));
        }
        text.extend(ops.iter().map(|op| entry(op, screen.out)));
    }
    for (who, like) in opened.skipped_likes() {
        text.push_str(&format!("`{who}` is like `{like}`, which no plugin brings: left out\n"));
    }
    screen.data(&text)
}

fn shown<'p>(plan: &'p PlanFile, glob: Option<&Glob>) -> impl Iterator<Item = &'p PlannedOp> {
    plan.ops.iter().filter(move |op| glob.is_none_or(|glob| names(op).any(|name| glob.matches(name))))
}

/// What an op can be asked for by: its name, its id (the value that it makes), and where it stands in the model.
fn names(op: &PlannedOp) -> impl Iterator<Item = &str> {
    [op.op.as_str(), op.id.as_str(), op.at.as_str()].into_iter()
}

/// Nothing to show is a mistake, not an answer.
fn check_matches(glob: &Glob, plans: &[(Arc<str>, PlanFile)]) -> Result<(), Failure> {
    let ops = || plans.iter().flat_map(|(_, plan)| &plan.ops);
    if ops().any(|op| names(op).any(|name| glob.matches(name))) {
        return Ok(());
    }
    let text = glob.as_str();
    let bare =
        ops().map(|op| op.op.as_str()).find(|op| op.split_once('.').is_some_and(|(_, rest)| rest == text));
    let advice = match bare.or_else(|| nearest(text, ops().flat_map(names))) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "leave --op out to see all; names of ops, ids of values and globs can be given".to_owned(),
    };
    Err(Failure::Usage { message: format!("the program has no op that `{text}` matches"), advice })
}

/// The op and its owner on a line, a line for each refusal below it; parts stand below what they are parts of.
fn entry(op: &PlannedOp, paint: Paint) -> String {
    let indent = "    ".repeat(op.depth as usize);
    let owner = match &op.executor {
        Some(executor) => {
            let run_by = op.run_by.as_ref().map(|by| format!(" -> {by}")).unwrap_or_default();
            let region = op.region.as_ref().map(|region| format!("  in {region}")).unwrap_or_default();
            let parts = match op.parts_run_by.as_slice() {
                [] => String::new(),
                names => format!(" (parts -> {})", names.join(", ")),
            };
            paint.good(&format!("@{executor}{run_by}{parts}{region}"))
        }
        None => paint.dim("taken apart"),
    };
    let opaque = if op.opaque { "  opaque" } else { "" };
    let at = if op.at == op.id || op.at.is_empty() { String::new() } else { format!("  ({})", op.at) };
    let mut text = format!("{indent}{}  {}  {owner}{opaque}{}\n", op.id, op.op, paint.dim(&at));
    let names = op.refusals.iter().map(|refusal| refusal.executor.len()).max().unwrap_or(0);
    let codes = op.refusals.iter().map(|refusal| refusal.code.len()).max().unwrap_or(0);
    for refusal in &op.refusals {
        let at = refusal.at.as_ref().map(|at| format!(" [{at}]")).unwrap_or_default();
        let (who, code, sentence) = (&refusal.executor, &refusal.code, &refusal.sentence);
        text.push_str(&format!("{indent}  - {who:<names$}  {code:<codes$}  {sentence}{at}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use thunderhead::plan::PlannedRefusal;

    #[test]
    fn refusals_stand_below_their_op() {
        let refusal = |executor: &str, code: &str, sentence: &str, at: Option<&str>| PlannedRefusal {
            executor: executor.to_owned(),
            code: code.to_owned(),
            sentence: sentence.to_owned(),
            at: at.map(str::to_owned),
        };
        let op = PlannedOp {
            id: "att/0".to_owned(),
            op: "prims.exp".to_owned(),
            at: "att".to_owned(),
            depth: 1,
            executor: Some("reference".to_owned()),
            region: None,
            run_by: None,
            parts_run_by: Vec::new(),
            opaque: false,
            refusals: vec![
                refusal("sdpa", "claim::op_unknown", "not in its manifest", None),
                refusal("acme_blas", "acme::rank", "too many dims", Some("input 0")),
            ],
        };
        let expected = "    att/0  prims.exp  @reference  (att)
      - sdpa       claim::op_unknown  not in its manifest
      - acme_blas  acme::rank         too many dims [input 0]
";
        assert_eq!(entry(&op, Paint::PLAIN), expected);
    }
}
