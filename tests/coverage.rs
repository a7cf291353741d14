//! `docs/coverage.md`: which executor takes which op of the table at its own level, in which dtypes, and why not the rest.
//!
//! Asked is what a user would be told: each sample of each op becomes a program of one op, and its plan says who has it and
//! who refused it with which reason. The page is compared with the one that is checked in, and written anew with
//! `THUNDERHEAD_BLESS`. It needs a tree with the plugin (`THUNDERHEAD_DIST`; `cargo xtask test` sets it); without one
//! nothing is compared. Deliberately not here: whether the results are right, which is `conformance`.

#[path = "conformance/sample.rs"]
mod sample;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use sample::{Case, case, is_generic};
use thunderhead::config::{Overlay, Start};
use thunderhead::ir::Dtype;
use thunderhead::ops::{self, Level, Op, Traits};
use thunderhead::{Host, HostOptions};

const BOOL: Dtype = Dtype::Bool;
const INTS: [Dtype; 5] = [Dtype::U8, Dtype::I8, Dtype::I16, Dtype::I32, Dtype::I64];
const FLOATS: [Dtype; 4] = [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64];
const COMPLEX: [Dtype; 2] = [Dtype::C64, Dtype::C128];

/// What came of the samples of an op in one dtype.
#[derive(Default)]
struct Answer {
    taken: usize,
    /// Code and sentence of each refusal.
    refused: BTreeSet<(String, String)>,
}

/// By dtype.
type Answers = BTreeMap<Dtype, Answer>;

#[test]
fn the_coverage_page_is_what_executors_answer() {
    let Some(plugin) = plugin() else { return };
    let (reference, torch) = (Host::reference().expect("the built-in executor loads"), open(&plugin));
    let mut page = Page::default();
    for op in ops::table().iter().filter(|op| is_run(op)) {
        let (mut own, mut theirs) = (Answers::new(), Answers::new());
        for sample in op.samples {
            let dtypes: Vec<Dtype> =
                if is_generic(sample.0) { all().collect() } else { vec![own_dtype(sample.0)] };
            for dtype in dtypes {
                // The table refuses what the op does not take.
                let Ok(case) = case(op, sample.0, dtype) else { continue };
                ask(&reference, op, &case, "reference", own.entry(dtype).or_default());
                ask(&torch, op, &case, "pytorch", theirs.entry(dtype).or_default());
            }
        }
        page.row(op, &own, &theirs);
    }
    let text = page.finish();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/coverage.md");
    if std::env::var_os("THUNDERHEAD_BLESS").is_some() {
        std::fs::write(&file, text).expect("the docs can be written");
        return;
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    let differs = found.lines().zip(text.lines()).find(|(a, b)| a != b);
    assert!(
        found == text,
        "docs/coverage.md is stale (write it with THUNDERHEAD_BLESS=1): {:?}",
        differs.unwrap_or(("", "another length"))
    );
}

fn all() -> impl Iterator<Item = Dtype> {
    [BOOL].into_iter().chain(INTS).chain(FLOATS).chain(COMPLEX)
}

/// The dtype that a sample names first, where it leaves none open.
fn own_dtype(sample: &str) -> Dtype {
    let words = sample.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter_map(Dtype::from_name).next().unwrap_or(Dtype::F32)
}

/// Ops that an executor may be asked for.
fn is_run(op: &Op) -> bool {
    // The host moves tensors between devices.
    let not_run = [Traits::HOST, Traits::EFFECT, Traits::WRITES];
    !not_run.iter().any(|traits| op.is(*traits))
        && !op.name.starts_with("num.")
        && op.name != "prims.device_put"
        && !op.samples.is_empty()
}

/// Who has the op in the plan, and what the executor in question said.
fn ask(host: &Host, op: &Op, case: &Case, executor: &str, answer: &mut Answer) {
    let plan = host.compile(&case.program).and_then(|session| session.plan(&case.inputs));
    let plan = match plan {
        Ok(plan) => plan,
        Err(error) => {
            let code = miette::Diagnostic::code(&error).map(|code| code.to_string()).unwrap_or_default();
            let sentence = error.to_string().lines().next().unwrap_or_default().to_owned();
            answer.refused.insert((code, sentence.replace(" at t0", "").replace(" at t1", "")));
            return;
        }
    };
    let Some(planned) = plan.ops.iter().find(|planned| planned.depth == 0 && planned.op == op.name) else {
        // Folded away: nothing is left to be taken.
        answer.taken += 1;
        return;
    };
    let refusals = planned.refusals.iter().filter(|refusal| refusal.executor == executor);
    let refusals: BTreeSet<_> = refusals.map(|r| (r.code.clone(), r.sentence.clone())).collect();
    let through_parts = executor == "reference" && matches!(op.level, Level::Composite(_));
    if refusals.is_empty() || through_parts {
        answer.taken += 1;
    } else {
        answer.refused.extend(refusals);
    }
}

fn plugin() -> Option<PathBuf> {
    let tree = std::env::var_os("THUNDERHEAD_DIST")?;
    let name = format!("{}thunderhead_pytorch{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let plugin = Path::new(&tree).join("plugins").join(name);
    plugin.is_file().then_some(plugin)
}

fn open(plugin: &Path) -> Host {
    let libraries = plugin.with_file_name("../share/libraries.toml");
    let libraries = std::fs::read_to_string(libraries).unwrap_or_default();
    let text = format!(
        "config = 1\nexecutors = [\"pytorch\"]\n[plugins]\npaths = [{:?}]\n[libraries]\n{libraries}\n[run]\nthreads = 1\n",
        plugin.display().to_string()
    );
    let options =
        HostOptions { start: Start::Text(text), overlay: Overlay::default(), ..HostOptions::default() };
    Host::open(&options).expect("the plugin of the tree loads")
}

/// The page in the making.
#[derive(Default)]
struct Page {
    rows: String,
    refusals: String,
    n_ops: usize,
    n_whole: usize,
    n_part: usize,
}

impl Page {
    fn row(&mut self, op: &Op, own: &Answers, theirs: &Answers) {
        self.n_ops += 1;
        let taken = theirs.values().filter(|answer| answer.taken > 0).count();
        if theirs.values().all(|answer| answer.refused.is_empty()) {
            self.n_whole += 1;
        } else if taken > 0 {
            self.n_part += 1;
        }
        let level = if matches!(op.level, Level::Prim) { "prim" } else { "composite" };
        let _ = writeln!(self.rows, "| `{}` | {level} | {} | {} |", op.name, cell(own), cell(theirs));
        for (executor, answers) in [("reference", own), ("pytorch", theirs)] {
            let mut by_reason: BTreeMap<(&str, &str), Vec<Dtype>> = BTreeMap::new();
            for (dtype, answer) in answers {
                for (code, sentence) in &answer.refused {
                    by_reason.entry((code, general(code, sentence))).or_default().push(*dtype);
                }
            }
            for ((code, sentence), dtypes) in by_reason {
                let sentence = sentence.replace('|', "\\|");
                let dtypes = names(&dtypes);
                let _ = writeln!(
                    self.refusals,
                    "| `{}` | {executor} | {dtypes} | `{code}` | {sentence} |",
                    op.name
                );
            }
        }
    }

    fn finish(self) -> String {
        let Page { rows, refusals, n_ops, n_whole, n_part } = self;
        format!(
            "# Coverage\n\n\
             Written by the test `coverage` from what executors answer; not edited by hand. Asked are the samples of the op\n\
             table, in every dtype that the op takes: {n_ops} ops. `reference` runs every prim, and composites through their\n\
             parts. `pytorch` takes {n_whole} ops at their own level in every form asked, {n_part} in some; what it refuses is\n\
             taken apart, and its parts are asked.\n\n\
             `ints`: u8 i8 i16 i32 i64. `floats`: f16 bf16 f32 f64. `complex`: c64 c128. *some*: some forms are refused. Ops that\n\
             only the host runs (numbers, checks, control flow) and writes to state are not listed.\n\n\
             | Op | Level | `reference` | `pytorch` |\n|---|---|---|---|\n{rows}\n\
             ## Refused, and why\n\n\
             | Op | Executor | Dtypes | Code | Reason |\n|---|---|---|---|---|\n{refusals}"
        )
    }
}

/// The reason without what only one sample says: for a limit of the manifest the code is all.
fn general<'a>(code: &str, sentence: &'a str) -> &'a str {
    if code == "claim::dtype_unsupported" {
        "libtorch has no CPU kernel of it for these dtypes"
    } else {
        sentence
    }
}

/// The dtypes that are taken, then those of which some forms are.
fn cell(answers: &Answers) -> String {
    let of = |holds: &dyn Fn(&Answer) -> bool| -> Vec<Dtype> {
        answers.iter().filter(|(_, answer)| holds(answer)).map(|(dtype, _)| *dtype).collect()
    };
    let whole = of(&|answer| answer.taken > 0 && answer.refused.is_empty());
    let part = of(&|answer| answer.taken > 0 && !answer.refused.is_empty());
    match (whole.is_empty(), part.is_empty()) {
        (true, true) => "no".to_owned(),
        (false, true) => names(&whole),
        (true, false) => format!("*some* {}", names(&part)),
        (false, false) => format!("{}; *some* {}", names(&whole), names(&part)),
    }
}

/// Dtypes in words, whole classes by their name.
fn names(dtypes: &[Dtype]) -> String {
    let mut words = Vec::new();
    for (word, class) in
        [("bool", &[BOOL][..]), ("ints", &INTS[..]), ("floats", &FLOATS[..]), ("complex", &COMPLEX[..])]
    {
        if class.iter().all(|dtype| dtypes.contains(dtype)) {
            words.push(word);
        } else {
            words.extend(class.iter().filter(|dtype| dtypes.contains(dtype)).map(|dtype| dtype.name()));
        }
    }
    words.join(" ")
}
