//! What a run gave: printed, written, compared.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;
use thunderhead::compare::{Tolerance, Verdict, compare, compare_gradients, described, element_text};
use thunderhead::ir::Dtype;
use thunderhead::memory::{Tensor, TensorError};
use thunderhead::run::{RunError, Value};
use thunderhead::tensor_files::{read_tensors, write_tensors};

use super::failure::Failure;
use super::render::summary::Summary;
use super::render::table::Table;
use super::render::units::count;
use super::render::{Paint, Screen};

/// Elements of a tensor that are shown.
const N_SHOWN: usize = 6;

/// The outputs by name, in order; or gradients.
pub struct Outputs {
    /// What one is called.
    pub what: &'static str,
    pub named: Vec<(String, Value)>,
}

/// What was found of one output.
pub struct Compared {
    pub name: String,
    pub verdict: Result<Verdict, String>,
}

impl Compared {
    fn is_same(&self) -> bool {
        self.verdict.as_ref().is_ok_and(Verdict::is_same)
    }

    fn sentence(&self) -> String {
        match &self.verdict {
            Ok(verdict) => verdict.sentence(),
            Err(why) => why.clone(),
        }
    }
}

impl Outputs {
    /// `out0`, `out1`, ….
    pub fn new(values: Vec<Value>) -> Outputs {
        let named = values.into_iter().enumerate().map(|(i, value)| (format!("out{i}"), value));
        Outputs { what: "output", named: named.collect() }
    }

    /// Writes those that are tensors; the others are said to be left out.
    pub fn write(&self, path: &Path, screen: &Screen) -> Result<(), Failure> {
        let tensors: Vec<_> = self
            .named
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), value.tensor()?.clone())))
            .collect();
        write_tensors(path, &tensors).map_err(|error| Failure::write(path, &error))?;
        let others = self.named.iter().filter(|(_, value)| value.tensor().is_none());
        let others: Vec<String> =
            others.map(|(name, value)| format!("{name} = {}", preview(value))).collect();
        if !others.is_empty() {
            screen.say(&format!("not in {}, being no tensors: {}", path.display(), others.join(", ")));
        }
        Ok(())
    }

    /// Compares with what the file has.
    pub fn compare(
        &self,
        path: &Path,
        tolerance: Tolerance,
        screen: &Screen,
    ) -> Result<Vec<Compared>, Failure> {
        let expected = read_tensors(path)?;
        let tensors: BTreeMap<&str, &Tensor> =
            self.named.iter().filter_map(|(name, value)| Some((name.as_str(), value.tensor()?))).collect();
        for name in tensors.keys().filter(|name| !expected.contains_key(**name)) {
            screen.say(&format!("{} has no {name}: not compared", path.display()));
        }
        // `out10` stands after `out9`.
        let mut names: Vec<&String> = expected.keys().collect();
        names.sort_by_key(|name| (name.len(), *name));
        let compared = names.into_iter().map(|name| {
            let verdict = match tensors.get(name.as_str()) {
                Some(got) => compare(got, &expected[name], tolerance).map_err(|error| error.to_string()),
                None => Err("the program has no such tensor output".to_owned()),
            };
            Compared { name: name.clone(), verdict }
        });
        Ok(compared.collect())
    }

    /// Compares gradients with what the file has; one that it does not have counts as zero. `partial`: not all
    /// gradients were asked for, so the file may have more.
    pub fn compare_gradients(
        &self,
        path: &Path,
        rtol: f64,
        partial: bool,
        screen: &Screen,
    ) -> Result<Vec<Compared>, Failure> {
        let expected = read_tensors(path)?;
        let tensors: BTreeMap<String, Tensor> = self
            .named
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), value.tensor()?.clone())))
            .collect();
        let out_of_memory =
            |error: TensorError| Failure::from(thunderhead::Error::Run(Box::new(RunError::Tensor(error))));
        let verdicts = compare_gradients(&tensors, &expected, rtol).map_err(out_of_memory)?;
        let mut compared: Vec<Compared> =
            verdicts.into_iter().map(|(name, verdict)| Compared { name, verdict: Ok(verdict) }).collect();
        let (others, n_others): (Vec<&String>, _) = {
            let others = expected.keys().filter(|name| !tensors.contains_key(*name));
            (others.clone().collect(), others.count())
        };
        if partial && n_others > 0 {
            screen.say(&format!("not compared: {} that --wrt leaves out", count(n_others, "gradient")));
        } else {
            let why = || Err("the program has no such gradient".to_owned());
            compared.extend(others.into_iter().map(|name| Compared { name: name.clone(), verdict: why() }));
        }
        Ok(compared)
    }

    /// The end of a command: the outputs as data, how they compare with the file `expected`, the summary line. Fails where
    /// they differ.
    pub fn report(
        &self,
        json: bool,
        expected: Option<&Path>,
        compared: &[Compared],
        summary: &Summary,
        screen: &Screen,
    ) -> Result<(), Failure> {
        let plural = format!("{}s", self.what);
        let data = match json {
            true => format!("{:#}\n", json!({ plural: self.json(compared), "summary": summary })),
            false => self.words(compared, screen),
        };
        screen.data(&data)?;
        if let Some(path) = expected {
            screen.say(&verdict_line(self.what, compared, path, screen.err));
        }
        screen.say(&summary.line());
        expected.map_or(Ok(()), |path| mismatch(self.what, compared, path))
    }

    /// A line for each output: its type, and how it compares or how it begins.
    fn words(&self, compared: &[Compared], screen: &Screen) -> String {
        let said = if compared.is_empty() { "VALUE" } else { "VERDICT" };
        let mut table = Table::new(&[&self.what.to_uppercase(), "TYPE", said]);
        for (name, value) in &self.named {
            let verdict = compared.iter().find(|compared| compared.name == *name);
            let said = verdict.map_or_else(|| preview(value), Compared::sentence);
            table.row([name.clone(), type_of(value), said]);
        }
        for missing in compared.iter().filter(|c| self.named.iter().all(|(name, _)| *name != c.name)) {
            table.row([missing.name.clone(), "-".to_owned(), missing.sentence()]);
        }
        table.render(screen)
    }

    /// The same as data.
    fn json(&self, compared: &[Compared]) -> serde_json::Value {
        let outputs = self.named.iter().map(|(name, value)| {
            let mut entry = json!({ "name": name, "type": type_of(value) });
            match value {
                Value::Tensor(_) => {}
                Value::Int(int) => entry["value"] = json!(int),
                Value::Float(float) => entry["value"] = json!(float),
                Value::Bool(flag) => entry["value"] = json!(flag),
                Value::Str(text) => entry["value"] = json!(text),
                Value::None => entry["value"] = serde_json::Value::Null,
            }
            if let Some(compared) = compared.iter().find(|compared| compared.name == *name) {
                entry["same"] = json!(compared.is_same());
                entry["verdict"] = json!(compared.sentence());
            }
            entry
        });
        outputs.collect()
    }
}

/// The failure that differing outputs (`what`) are, if any differ.
fn mismatch(what: &'static str, compared: &[Compared], path: &Path) -> Result<(), Failure> {
    let differing: Vec<&Compared> = compared.iter().filter(|compared| !compared.is_same()).collect();
    let Some(first) = differing.first() else { return Ok(()) };
    // The farthest off says most; what could not be compared at all says more still.
    let excess = |compared: &Compared| match &compared.verdict {
        Ok(Verdict::Differs(worst)) => worst.difference - worst.allowed,
        _ => f64::INFINITY,
    };
    let worst = differing.iter().max_by(|a, b| excess(a).total_cmp(&excess(b))).unwrap_or(first);
    Err(Failure::Mismatch {
        what,
        path: path.display().to_string(),
        n_differing: differing.len(),
        n_compared: compared.len(),
        worst: format!("{}: {}", worst.name, worst.sentence()),
    })
}

/// Folders of files that are to be written: one that is not there is found before the work, not after it.
pub fn check_folders<'a>(paths: impl IntoIterator<Item = Option<&'a PathBuf>>) -> Result<(), Failure> {
    for path in paths.into_iter().flatten() {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if folder.is_some_and(|folder| !folder.is_dir()) {
            let missing = io::Error::new(io::ErrorKind::NotFound, "its folder does not exist");
            return Err(Failure::write(path, &missing));
        }
    }
    Ok(())
}

fn type_of(value: &Value) -> String {
    match value {
        Value::Tensor(tensor) => described(tensor),
        Value::Int(_) => "int".to_owned(),
        Value::Float(_) => "float".to_owned(),
        Value::Bool(_) => "boolean".to_owned(),
        Value::Str(_) => "string".to_owned(),
        Value::None => "none".to_owned(),
    }
}

/// The first elements, or the value.
fn preview(value: &Value) -> String {
    match value {
        Value::Tensor(tensor) => match tensor.to_bytes() {
            Ok(bytes) => elements(tensor.dtype(), &bytes),
            Err(error) => error.to_string(),
        },
        Value::Int(int) => int.to_string(),
        Value::Float(float) => format!("{float:?}"),
        Value::Bool(flag) => flag.to_string(),
        Value::Str(text) => format!("{text:?}"),
        Value::None => "none".to_owned(),
    }
}

fn elements(dtype: Dtype, bytes: &[u8]) -> String {
    let size = dtype.size_bytes();
    let mut shown: Vec<String> =
        bytes.chunks_exact(size).take(N_SHOWN).map(|element| element_text(dtype, element)).collect();
    if bytes.len() > N_SHOWN * size {
        shown.push("…".to_owned());
    }
    shown.join(" ")
}

/// One line about whether all is as expected.
fn verdict_line(what: &str, compared: &[Compared], path: &Path, paint: Paint) -> String {
    let n_same = compared.iter().filter(|compared| compared.is_same()).count();
    let text = format!("{n_same} of {} {what}s as in {}", compared.len(), path.display());
    if n_same == compared.len() { paint.good(&text) } else { paint.error(&text) }
}
