//! Fusion executors, with a plugin that somebody else could have written: regions, their steps, what is handed on, what
//! is released and why, printed traces that run again, and everything that such a plugin can get wrong.

mod support;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use support::rust_plugin;
use thunderhead::config::{Overlay, Start, Surroundings};
use thunderhead::ir::text::{PrintOptions, print};
use thunderhead::lower::with_dels;
use thunderhead::plan::{PlanFile, PlannedOp};
use thunderhead::run::GradRequest;
use thunderhead::{Error, Host, HostOptions, Program, Session, Tensor, Value};

fn plugin() -> &'static Path {
    static PLUGIN: OnceLock<PathBuf> = OnceLock::new();
    PLUGIN.get_or_init(|| rust_plugin("third_party/rust_fuser", "rust_fuser", &[]))
}

/// A host with the plugin and this order; `more` goes behind.
fn host(order: &str, more: &str) -> Host {
    let path = plugin().display();
    let (keys, tables) = more.split_at(more.find('[').unwrap_or(more.len()));
    let text = format!("config = 1\nexecutors = [{order}]\n{keys}[plugins]\npaths = ['{path}']\n{tables}");
    let (overlay, around) = (Overlay::default(), Surroundings::default());
    Host::open(&HostOptions { start: Start::Text(text), overlay, around }).expect("a good config")
}

fn session(host: &Host, text: &str) -> Session {
    host.compile(&program(text)).expect("a session")
}

fn program(text: &str) -> Program {
    let text = format!("thunderhead trace 1.0\n\n{text}");
    Program::from_trace_text("case", &text).expect("a trace")
}

fn f32s(dims: &[i64], data: &[f32]) -> Value {
    Value::Tensor(Tensor::from_slice(data, dims).expect("as many"))
}

/// Numbers that are no two alike.
fn filled(dims: &[i64]) -> Value {
    let n: i64 = dims.iter().product();
    let data: Vec<f32> = (0..n).map(|i| ((i * 37 % 23) as f32 - 11.0) / 7.0).collect();
    f32s(dims, &data)
}

fn numbers(values: &[Value]) -> Vec<Vec<f32>> {
    let tensor = |v: &Value| v.tensor().expect("a tensor").to_vec::<f32>().expect("f32");
    values.iter().map(tensor).collect()
}

/// The execution trace as it is printed.
fn printed(session: &Session, inputs: &[Value]) -> String {
    let compiled = session.compiled(inputs).expect("compiles");
    let mut module = thunderhead::ir::Module::default();
    module.traces.push(with_dels(&compiled.execution()));
    let options = PrintOptions { depth: None, notes: false, comment: None };
    print(&module, thunderhead::ops::schemas(), &options)
}

/// Runs on the session and on `reference` alone, and compares.
#[track_caller]
fn same_as_reference(session: &Session, text: &str, inputs: &[Value]) -> Vec<Vec<f32>> {
    let reference = Host::reference().expect("always there");
    let expected = numbers(&self::session(&reference, text).run(inputs).expect("runs"));
    // Twice: the second run has its arena from the first.
    let mut found = Vec::new();
    for _ in 0..2 {
        found = numbers(&session.run(inputs).unwrap_or_else(|error| panic!("{error}")));
        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
            assert!((found - expected).abs() <= 1e-5 * expected.abs().max(1.0), "{found} {expected}");
        }
    }
    found
}

const MIXED: &str = "trace forward(
    %x: f32[2, 3] input \"in0\",
    %w: f32[3, 3] input \"in1\",
) stage acquired {
    %h: f32[2, 3] = prims.linear(%x, %w)
    %t: f32[3, 2] = prims.transpose(%h, permutation=[1, 0])
    %n: f32[2, 3] = prims.neg(%h)
    %u: f32[3, 2] = prims.exp(%t)
    %s: f32[2, 3] = torch.softmax(%n, axis=-1)
    %y: f32[2, 3] = prims.add(%s, 1.0)
    return %y as \"out0\", %t as \"out1\", %u as \"out2\"
}
";

fn mixed_inputs() -> Vec<Value> {
    vec![filled(&[2, 3]), filled(&[3, 3])]
}

#[test]
fn a_whole_program_is_one_region() {
    let host = host("'fuser'", "");
    let session = session(&host, MIXED);
    same_as_reference(&session, MIXED, &mixed_inputs());
    let expected = "thunderhead trace 1.0

trace forward(
    %x: f32[2, 3] input \"in0\",
    %w: f32[3, 3] input \"in1\",
) stage execution {
    %t: f32[3, 2], %u: f32[3, 2], %y: f32[2, 3] = Fuser0(%x, %w) @fuser {
        %h: f32[2, 3] = prims.linear(%x, %w) @fuser -> reference
        %t: f32[3, 2] = prims.transpose(%h, permutation=[1, 0]) @host
        %n: f32[2, 3] = prims.neg(%h) @fuser
        %u: f32[3, 2] = prims.exp(%t) @fuser
        %s: f32[2, 3] = torch.softmax(%n, axis=-1) @fuser
        %y: f32[2, 3] = prims.add(%s, 1.0) @fuser
        yield %t, %u, %y
    }
    return %y as \"out0\", %t as \"out1\", %u as \"out2\"
}
";
    assert_eq!(printed(&session, &mixed_inputs()), expected);
    let plan = session.plan(&mixed_inputs()).expect("plans");
    assert_eq!(plan.regions.len(), 1);
    assert_eq!((plan.regions[0].name.as_str(), plan.regions[0].n_ops), ("Fuser0", 5));
    assert_eq!(plan.handed_on.get("reference"), Some(&1));
    assert_eq!(op(&plan, "s").parts_run_by, ["reference"]);
    // The steps inside are the plan's own: who brings each kernel, and for which region.
    let by = &plan.regions[0].kernels_by_executor;
    assert!(by["fuser"] >= 4 && by["reference"] >= 1, "{by:?}");
    assert!(plan.steps.iter().any(|s| s.name.as_deref() == Some("neg") && s.region.is_some()));
}

fn op<'p>(plan: &'p PlanFile, id: &str) -> &'p PlannedOp {
    plan.ops.iter().find(|op| op.id == id).expect("an op of the program")
}

/// An op plugin that knows nothing of the fuser is used inside of its region.
#[test]
fn a_plugin_behind_the_fuser_is_handed_its_ops() {
    let host = host("'fuser', 'matmuls'", "");
    let session = session(&host, MIXED);
    same_as_reference(&session, MIXED, &mixed_inputs());
    assert!(printed(&session, &mixed_inputs()).contains("prims.linear(%x, %w) @fuser -> matmuls"));
    let plan = session.plan(&mixed_inputs()).expect("plans");
    assert_eq!(op(&plan, "h").executor.as_deref(), Some("fuser"));
    assert_eq!(op(&plan, "h").run_by.as_deref(), Some("matmuls"));
    assert_eq!(op(&plan, "h").region.as_deref(), Some("Fuser0"));
}

/// Before the fuser, it has its op itself, and the region stands behind it.
#[test]
fn a_plugin_before_the_fuser_splits() {
    let host = host("'matmuls', 'fuser'", "");
    let session = session(&host, MIXED);
    same_as_reference(&session, MIXED, &mixed_inputs());
    let text = printed(&session, &mixed_inputs());
    assert!(text.contains("%h: f32[2, 3] = prims.linear(%x, %w) @matmuls\n"), "{text}");
    assert!(text.contains("= Fuser0(%h, %t) @fuser {"), "{text}");
}

/// Who is not loaded, or denied, is not followed.
#[test]
fn claims_follow_whom_the_fuser_is_like() {
    let with_reference = host("'fuser'", "");
    assert_eq!(with_reference.skipped_likes(), [("fuser".to_owned(), "nobody".to_owned())]);
    let without = host("'fuser'", "last_resort = 'none'\n[executor.reference]\ndeny = ['prims.linear']\n");
    let error = session(&without, MIXED).run(&mixed_inputs()).expect_err("nobody takes the matmul");
    let text = format!("{error:?}");
    assert!(text.contains("claim::unclaimed") || text.contains("Unclaimed"), "{text}");
    assert!(text.contains("deny"), "{text}");
}

#[test]
fn a_printed_trace_runs_as_it_says() {
    for order in ["'fuser'", "'fuser', 'matmuls'", "'matmuls', 'fuser'"] {
        let host = host(order, "");
        let first = session(&host, MIXED);
        let text = printed(&first, &mixed_inputs());
        let again =
            host.compile(&Program::from_trace_text("again", &text).expect("reads back")).expect("loads");
        assert_eq!(printed(&again, &mixed_inputs()), text);
        let bits = |s: &Session| -> Vec<Vec<u32>> {
            let values = numbers(&s.run(&mixed_inputs()).expect("runs"));
            values.iter().map(|v| v.iter().map(|x| x.to_bits()).collect()).collect()
        };
        assert_eq!(bits(&again), bits(&first));
    }
    let without_content = "trace forward(\n    %x: f32[2] input \"in0\",\n) stage execution {\n    \
                           %y: f32[2] = Fuser0(%x) @fuser\n    return %y as \"out0\"\n}\n";
    let error = session(&host("'fuser'", ""), without_content).run(&[filled(&[2])]).expect_err("no content");
    assert!(error.to_string().contains("--depth"), "{error}");
    let stranger = MIXED.replace("stage acquired", "stage claimed").replace("(%h)\n", "(%h) @nobody\n");
    let error = session(&host("'fuser'", ""), &stranger).run(&mixed_inputs()).expect_err("not loaded");
    assert!(format!("{error:?}").contains("nobody"), "{error:?}");
}

const POINTWISE: &str = "trace forward(
    %x: f32[4] input \"in0\",
) stage acquired {
    %a: f32[4] = prims.add(%x, %x)
    %e: f32[4] = prims.exp(%a)
    %b: f32[4] = prims.add(%e, %x)
    %m: f32[4] = prims.mul(%b, %b)
    return %m as \"out0\"
}
";

#[test]
fn a_region_may_be_one_opaque_step() {
    let host = host("'swallower'", "");
    let session = session(&host, POINTWISE);
    same_as_reference(&session, POINTWISE, &[filled(&[4])]);
    let plan = session.plan(&[filled(&[4])]).expect("plans");
    assert_eq!((plan.regions[0].n_ops, plan.regions[0].n_kernels), (4, Some(1)));
}

#[test]
fn small_regions_are_released_with_the_reason() {
    let one = "trace forward(\n    %x: f32[4] input \"in0\",\n) stage acquired {\n    \
               %a: f32[4] = prims.add(%x, %x)\n    return %a as \"out0\"\n}\n";
    let host_of = |more: &str| host("'swallower', 'fuser'", more);
    let plan = session(&host_of(""), one).plan(&[filled(&[4])]).expect("plans");
    let add = op(&plan, "a");
    assert_eq!(add.executor.as_deref(), Some("fuser"));
    assert_eq!((&*add.refusals[0].executor, &*add.refusals[0].code), ("swallower", "region::min_ops"));
    // The config has the last word on rules.
    let plan = session(&host_of("[executor.swallower]\nregions.min_ops = 1\n"), one).plan(&[filled(&[4])]);
    assert_eq!(op(&plan.expect("plans"), "a").executor.as_deref(), Some("swallower"));
    let needs = "[executor.swallower]\nregions.needs_any = ['prims.cat']\n";
    let plan = session(&host_of(needs), POINTWISE).plan(&[filled(&[4])]).expect("plans");
    assert!(plan.ops.iter().all(|op| op.refusals[0].code == "region::needs_any"));
    assert!(plan.regions.iter().all(|r| r.executor == "fuser"));
}

#[test]
fn large_regions_are_cut() {
    let host = host("'swallower'", "[executor.swallower]\nregions.max_ops = 2\n");
    let session = session(&host, POINTWISE);
    same_as_reference(&session, POINTWISE, &[filled(&[4])]);
    let plan = session.plan(&[filled(&[4])]).expect("plans");
    let sizes: Vec<(&str, usize)> = plan.regions.iter().map(|r| (r.name.as_str(), r.n_ops)).collect();
    assert_eq!(sizes, [("Swallower0", 2), ("Swallower1", 2)]);
}

/// The second does not lower numbers and views: its region is released, and goes to the fuser behind it.
#[test]
fn what_cannot_be_lowered_is_released() {
    let host = host("'fuser', 'matmuls'", "[executor.fuser]\noptions = { fault = 'unsupported' }\n");
    let session = session(&host, MIXED);
    same_as_reference(&session, MIXED, &mixed_inputs());
    let plan = session.plan(&mixed_inputs()).expect("plans");
    assert_eq!(op(&plan, "h").executor.as_deref(), Some("matmuls"));
    let softmax = op(&plan, "s");
    assert_eq!(softmax.executor, None, "taken apart, since nobody behind has it whole");
    let refusal = softmax.refusals.iter().find(|r| r.executor == "fuser").expect("said");
    assert_eq!((&*refusal.code, &*refusal.sentence), ("region::unsupported", "no softmax on Tuesdays"));
}

#[test]
fn proposals_are_followed() {
    let host = host("'picky', 'fuser'", "");
    let session = session(&host, POINTWISE);
    same_as_reference(&session, POINTWISE, &[filled(&[4])]);
    let plan = session.plan(&[filled(&[4])]).expect("plans");
    assert_eq!(op(&plan, "e").region.as_deref(), Some("Picky0"));
    let add = op(&plan, "a");
    assert_eq!((add.executor.as_deref(), &*add.refusals[0].code), (Some("fuser"), "region::left_out"));
    let names: Vec<&str> = plan.regions.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["Fuser0", "Picky0", "Fuser1"]);
}

#[track_caller]
fn fails(host: &Host, text: &str, inputs: &[Value], words: &[&str]) {
    let error: Error = session(host, text).run(inputs).expect_err("is found");
    let said = format!("{error} {error:?}");
    assert!(said.contains("rust-fuser 0.1.0"), "{said}");
    for word in words {
        assert!(said.contains(word), "{word}: {said}");
    }
}

#[test]
fn wrong_proposals_are_named() {
    let cases = [
        ("stranger", "proposal 0 names op 77; the region has 4 ops"),
        ("twice", "op 0 stands in proposal 0 and again in proposal 1"),
        ("empty", "proposal 0 holds no op"),
        ("not_convex", "is not convex"),
    ];
    for (fault, words) in cases {
        let host = host("'picky'", &format!("[executor.picky]\noptions = {{ fault = '{fault}' }}\n"));
        fails(&host, POINTWISE, &[filled(&[4])], &[words, "BadAnswer"]);
    }
}

#[test]
fn wrong_lowerings_are_named() {
    let cases = [
        ("twice", "has been written already"),
        ("writes_input", "which is made outside of its region"),
        ("writes_view", "which is a view"),
        ("strange_value", "names value 999"),
        ("strange_op", "names op 999"),
        ("swallows_fault", "names op 999"),
        ("delegates_view", "which is the host's already"),
        ("unwritten", "which no step writes"),
        ("cyclic", "needs, through others, what it writes itself"),
        ("huge", "which cannot be"),
        ("nothing", "which its region must make"),
    ];
    for (fault, words) in cases {
        let host = host("'fuser'", &format!("[executor.fuser]\noptions = {{ fault = '{fault}' }}\n"));
        fails(&host, MIXED, &mixed_inputs(), &[words, "BadAnswer"]);
    }
}

#[test]
fn a_panic_in_lowering_is_the_plugins() {
    let host = host("'fuser'", "[executor.fuser]\noptions = { fault = 'panic' }\n");
    fails(&host, MIXED, &mixed_inputs(), &["lowering is too hard", "Panic"]);
    // Quarantined: it takes nothing any more, and the last resort has everything.
    let session = session(&host, MIXED);
    same_as_reference(&session, MIXED, &mixed_inputs());
    let plan = session.plan(&mixed_inputs()).expect("plans");
    assert!(plan.regions.is_empty());
    let refusal = &op(&plan, "h").refusals[0];
    assert_eq!((&*refusal.executor, &*refusal.code), ("fuser", "claim::plugin_panicked"));
}

#[test]
fn two_fusers_with_one_label_count_together() {
    let labels = "[executor.fuser]\nlabel = 'Same'\n[executor.picky]\nlabel = 'Same'\n";
    let host = host("'picky', 'fuser'", labels);
    let session = session(&host, POINTWISE);
    same_as_reference(&session, POINTWISE, &[filled(&[4])]);
    let plan = session.plan(&[filled(&[4])]).expect("plans");
    let names: Vec<&str> = plan.regions.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["Same0", "Same1", "Same2"]);
}

/// Numbers that only a run knows reach kernels through slots; a change compiles nothing anew.
#[test]
fn numbers_of_the_run_reach_own_kernels() {
    let text = "trace forward(
    %x: f32[4] input \"in0\",
    %gain: float input \"in1\",
) stage acquired {
    %a: f32[4] = prims.mul(%x, %gain)
    %b: f32[4] = prims.add(%a, %gain)
    return %b as \"out0\"
}
";
    let session = session(&host("'fuser'", ""), text);
    for gain in [0.5, -3.0] {
        let found = numbers(&session.run(&[filled(&[4]), Value::Float(gain)]).expect("runs"));
        let x = numbers(&[filled(&[4])]);
        let expected: Vec<f32> = x[0].iter().map(|x| x * gain as f32 + gain as f32).collect();
        assert_eq!(found[0], expected);
    }
    assert_eq!(session.n_compiles(), 1);
}

/// What has a size that only the run tells stands in no region; what depends on it, in one of its own.
#[test]
fn sizes_of_the_run_make_regions_of_their_own() {
    let text = "dim u0 in 0..

trace forward(
    %x: f32[4] input \"in0\",
) stage acquired {
    %e: f32[4] = prims.exp(%x)
    %m: bool[4] = torch.gt(%x, 0.0)
    %where: i64[u0, 1] = prims.nonzero(%m)
    %f: f32[u0, 1] = torch.to(%where, dtype=f32)
    %g: f32[u0, 1] = prims.exp(%f)
    %h: f32[u0, 1] = prims.neg(%g)
    return %h as \"out0\", %e as \"out1\"
}
";
    let session = session(&host("'fuser'", ""), text);
    for data in [[1.0f32, -1.0, 2.0, 3.0], [-1.0, -1.0, -1.0, 1.0]] {
        same_as_reference(&session, text, &[f32s(&[4], &data)]);
    }
    let plan = session.plan(&[filled(&[4])]).expect("plans");
    let nonzero = plan.ops.iter().find(|op| op.op.contains("nonzero")).expect("an op");
    assert!(nonzero.region.is_none());
    assert!(plan.ops.iter().any(|op| op.refusals.iter().any(|r| r.code == "claim::no_region")));
    assert!(op(&plan, "e").region.is_some() && op(&plan, "e").region != op(&plan, "g").region);
}

/// Names count on through the backward, and gradients are right.
#[test]
fn forward_and_backward_have_regions_of_their_own() {
    let host = host("'fuser'", "");
    let session = session(&host, MIXED);
    let request = GradRequest { wrt: None, remat: true };
    let (forward, backward) = session.compiled_grad(&mixed_inputs(), &request).expect("compiles");
    let names = |c: &thunderhead::run::Compiled| -> Vec<String> {
        c.lowered.regions.iter().map(|r| r.name.to_string()).collect()
    };
    assert_eq!((names(&forward), names(&backward)), (vec!["Fuser0".to_owned()], vec!["Fuser1".to_owned()]));
    let of = |session: &Session| {
        let (outputs, _, tape) = session.forward(&mixed_inputs(), &request).expect("runs");
        let ones = outputs.iter().enumerate().map(|(i, v)| {
            let dims = v.tensor().expect("a tensor").dims().to_vec();
            (i, filled(&dims).tensor().expect("a tensor").clone())
        });
        let grads = tape.backward(&ones.collect()).expect("runs");
        grads.into_iter().map(|(name, t)| (name, t.to_vec::<f32>().expect("f32"))).collect::<Vec<_>>()
    };
    let reference = Host::reference().expect("always there");
    let (found, expected) = (of(&session), of(&self::session(&reference, MIXED)));
    assert_eq!(found.len(), expected.len());
    for ((name, found), (of, expected)) in found.iter().zip(&expected) {
        assert_eq!(name, of);
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() <= 1e-5 * expected.abs().max(1.0), "{name}: {found} {expected}");
        }
    }
}

/// `check` is asked at most once per op, executor and level, whoever asks: the walk, `like`, delegation, another round.
#[test]
fn nobody_is_asked_twice() {
    let text = "trace forward(
    %x: f32[2, 3] input \"in0\",
    %w: f32[3, 3] input \"in1\",
) stage acquired {
    %a: f32[2, 3] = torch.linear(%x, %w)
    %b: f32[2, 3] = torch.relu(%a)
    %c: f32[2, 3] = torch.softmax(%b, axis=-1)
    %d: f32[2, 3] = torch.exp(%c)
    return %d as \"out0\"
}
";
    let session = session(&host("'picky', 'fuser'", ""), text);
    same_as_reference(&session, text, &mixed_inputs());
    let compiled = session.compiled(&mixed_inputs()).expect("compiles");
    // `fuser` is the only one that checks, and it claims four ops of the program with `check = true`.
    assert_eq!(compiled.n_checks, 4);
}

#[test]
fn compiling_twice_gives_the_same_text() {
    let texts: Vec<String> = (0..3)
        .map(|_| printed(&session(&host("'picky', 'fuser', 'matmuls'", ""), MIXED), &mixed_inputs()))
        .collect();
    assert!(texts.windows(2).all(|w| w[0] == w[1]), "{texts:?}");
}

/// An op handed on to another fuser is a region of one op for it: without a name, whatever its `min_ops`.
#[test]
fn fusers_hand_on_to_each_other() {
    let host = host("'fuser', 'swallower'", "[executor.fuser]\noptions = { fault = 'hands_on' }\n");
    let session = session(&host, MIXED);
    same_as_reference(&session, MIXED, &mixed_inputs());
    let text = printed(&session, &mixed_inputs());
    assert!(text.contains("prims.neg(%h) @fuser -> swallower"), "{text}");
    assert!(text.contains("prims.linear(%x, %w) @fuser -> reference"), "{text}");
    let plan = session.plan(&mixed_inputs()).expect("plans");
    let names: Vec<&str> = plan.regions.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["Fuser0"]);
    // The softmax goes to nobody whole: its parts go to whoever takes them.
    let by = &plan.regions[0].kernels_by_executor;
    assert!(by["swallower"] >= 3 && by["reference"] >= 2 && !by.contains_key("fuser"), "{by:?}");
}

/// With `on_error = "next"` a region whose kernel fails is planned again without its executor.
#[test]
fn a_region_that_fails_goes_to_the_next() {
    let fault = "[executor.fuser]\noptions = { fault = 'fails_at_run' }\n";
    let stops = host("'fuser'", fault);
    fails(&stops, MIXED, &mixed_inputs(), &["the moon is wrong", "Fuser0"]);
    let goes_on = host("'fuser', 'matmuls'", &format!("[run]\non_error = 'next'\n{fault}"));
    let session = session(&goes_on, MIXED);
    same_as_reference(&session, MIXED, &mixed_inputs());
    let plan = session.plan(&mixed_inputs()).expect("plans");
    assert!(plan.regions.is_empty());
    assert_eq!(op(&plan, "h").executor.as_deref(), Some("matmuls"));
    assert_eq!(op(&plan, "h").refusals[0].code, "claim::plugin_failed");
}

/// What a region has made before a size was known is there for what comes after.
#[test]
fn regions_reach_over_sizes_that_the_run_tells() {
    let text = "dim u0 in 0..

trace forward(
    %x: f32[2, 3] input \"in0\",
) stage acquired {
    %n: f32[2, 3] = prims.neg(%x)
    %s: f32[2, 3] = torch.softmax(%n, axis=-1)
    %m: bool[2, 3] = torch.gt(%x, 0.0)
    %where: i64[u0, 2] = prims.nonzero(%m)
    %f: f32[u0, 2] = torch.to(%where, dtype=f32)
    %g: f32[u0, 2] = prims.exp(%f)
    %t: f32[3, 2] = prims.transpose(%s, permutation=[1, 0])
    %v: f32[3, 2] = prims.exp(%t)
    return %g as \"out0\", %v as \"out1\", %s as \"out2\"
}
";
    for fault in ["", "hands_on"] {
        let host = host("'fuser'", &format!("[executor.fuser]\noptions = {{ fault = '{fault}' }}\n"));
        let session = session(&host, text);
        same_as_reference(&session, text, &[filled(&[2, 3])]);
    }
}

/// State is written, and read again, around regions.
#[test]
fn state_goes_through_regions() {
    let text = "trace forward(
    %x: f32[4] inout \"in0\",
) stage acquired {
    %a: f32[4] = prims.add(%x, 1.0)
    %b: f32[4] = prims.exp(%a)
    %x.1: f32[4] = prims.copy_(%a, %x)
    return %b as \"out0\"
}
";
    let session = session(&host("'fuser'", ""), text);
    let (outputs, written) = session.run_written(&[f32s(&[4], &[0.0, 1.0, 2.0, 3.0])]).expect("runs");
    let new = written.values().next().expect("one is written").to_vec::<f32>().expect("f32");
    assert_eq!(new, [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(numbers(&outputs)[0][0], 1f32.exp());
}
