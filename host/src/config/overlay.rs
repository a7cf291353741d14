//! What the command line says about the config: `--executors`, `--set`, `--threads`.
//!
//! Each argument becomes a source of its own, so that faults in it have a place like those in files.

use std::sync::Arc;

use thunderhead_manifest::document::Document;
use thunderhead_manifest::{Located, Place, Plain};

use super::fault::{ConfigFault, Problem, Source, Spot};

/// Arguments that change a config, as typed.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    /// `--executors a,b,c`: replaces the order. Who is named here is required, whatever a config says.
    pub executors: Option<String>,
    /// `--set executor.option=value`, in order; later ones win.
    pub set: Vec<String>,
    /// `--threads N`.
    pub threads: Option<u32>,
}

/// One understood `--set`.
pub(crate) struct SetOption {
    pub source: Arc<Source>,
    pub executor: Located<String>,
    pub option: Located<String>,
    /// The value as text, and as TOML if it is any: which of the two is meant depends on the option's type.
    pub text: String,
    pub plain: Option<Plain>,
    pub value_place: Place,
}

impl Overlay {
    /// The names of `--executors` with their places. Empty parts are left out, so `--executors ""` is an empty
    /// order.
    pub(crate) fn order(&self) -> Option<(Arc<Source>, Vec<Located<String>>)> {
        let text = self.executors.as_ref()?;
        let mut names = Vec::new();
        let mut start = 0;
        for part in text.split(',') {
            let name = part.trim();
            if !name.is_empty() {
                let begin = start + (part.len() - part.trim_start().len());
                names.push(Located {
                    value: name.to_owned(),
                    place: place_in(text, begin, begin + name.len()),
                });
            }
            start += part.len() + 1;
        }
        Some((Source::new("--executors", None, text.clone()), names))
    }

    /// Every `--set` in order, or what is wrong with its form.
    pub(crate) fn options(&self) -> impl Iterator<Item = Result<SetOption, Problem>> {
        self.set.iter().map(|text| {
            let source = Source::new("--set", None, text.clone());
            parse_set(&source).ok_or_else(|| {
                let spot = Spot { place: place_in(text, 0, text.len()), source };
                Problem::new(ConfigFault::BadSet { found: text.clone() }, "", Some(spot))
            })
        })
    }
}

fn parse_set(source: &Arc<Source>) -> Option<SetOption> {
    let text = source.text();
    let equals = text.find('=')?;
    let dot = text[..equals].find('.')?;
    let (executor, option, value) = (&text[..dot], &text[dot + 1..equals], &text[equals + 1..]);
    let located = |word: &str, start| Located {
        value: word.to_owned(),
        place: place_in(text, start, start + word.len()),
    };
    (!executor.is_empty() && !option.is_empty()).then(|| SetOption {
        executor: located(executor, 0),
        option: located(option, dot + 1),
        text: value.to_owned(),
        plain: plain_value(value),
        value_place: place_in(text, equals + 1, text.len()),
        source: source.clone(),
    })
}

/// The text read as a TOML value, if it is one.
fn plain_value(text: &str) -> Option<Plain> {
    let line = format!("v = {text}");
    let document = Document::parse(&line);
    let (mut reader, mut root) = document.reader();
    let plain = reader.value(&mut root, "v").and_then(|value| value.scalar_or_list());
    let (faults, _) = reader.into_faults();
    plain.filter(|_| faults.is_empty() && !text.contains('\n'))
}

/// Arguments are one line.
fn place_in(text: &str, start: usize, end: usize) -> Place {
    let column = text[..start].chars().count() as u32 + 1;
    Place { start, end, line: 1, column }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_places() {
        let overlay = Overlay { executors: Some("sdpa, pytorch,,x".to_owned()), ..Overlay::default() };
        let (_, names) = overlay.order().expect("given");
        let found: Vec<_> = names.iter().map(|name| (name.value.as_str(), name.place.column)).collect();
        assert_eq!(found, [("sdpa", 1), ("pytorch", 7), ("x", 16)]);
    }

    #[test]
    fn values_are_toml_where_they_can_be() {
        assert_eq!(plain_value("4"), Some(Plain::Int(4)));
        assert_eq!(plain_value("true"), Some(Plain::Bool(true)));
        assert_eq!(
            plain_value("[\"a\", \"b\"]").map(|list| list.to_string()),
            Some(r#"["a", "b"]"#.to_owned())
        );
        assert_eq!(plain_value("many"), None);
        assert_eq!(plain_value("1\nw = 2"), None);
    }

    #[test]
    fn the_form_is_checked() {
        let set = ["a.b=1", "a.b", "ab=1", ".b=1", "a.=1"].map(str::to_owned).to_vec();
        let overlay = Overlay { set, ..Overlay::default() };
        let good: Vec<bool> = overlay.options().map(|set| set.is_ok()).collect();
        assert_eq!(good, [true, false, false, false, false]);
    }
}
