//! Errors and warnings as text: code, message, where with the source line, why, help.
//!
//! ```text
//! error[config::unknown_key]: executor.blas: unknown key `polcy`
//!   where  thunderhead.toml:5:1
//!          5 | polcy = "optional"
//!            | ^^^^^
//!   help   did you mean `policy`?
//! ```

use std::error::Error;
use std::fmt::Write;

use miette::{Diagnostic, LabeledSpan, Severity, SourceCode};
use thunderhead::claim::{ClaimError, Refusal};

use super::Paint;

/// The diagnostic and those related to it, each on lines of its own. One that is only a heading for related ones
/// (it has neither code nor place) comes last, as a sum.
pub fn render(diagnostic: &dyn Diagnostic, paint: Paint) -> String {
    let mut text = String::new();
    let related: Vec<&dyn Diagnostic> = diagnostic.related().into_iter().flatten().collect();
    let is_heading = diagnostic.code().is_none() && !related.is_empty();
    if !is_heading {
        one(diagnostic, paint, &mut text);
    }
    for related in &related {
        text.push_str(&render(*related, paint));
    }
    if is_heading && related.len() > 1 {
        let _ = writeln!(text, "{}: {} errors", paint.error("error"), related.len());
    }
    text
}

/// An op that nobody takes: everybody's reason in columns, then what to do.
pub fn unclaimed(error: &ClaimError, paint: Paint) -> Option<String> {
    let ClaimError::Unclaimed { origin, source_line, refusals, parts_of, .. } = error else { return None };
    let mut text = format!("{}[claim::unclaimed]: {error}\n", paint.error("error"));
    let source = source_line.as_ref().map(|line| format!("\n{line}")).unwrap_or_default();
    field("where", &format!("{origin}{source}"), paint, &mut text);
    field("why", &reasons(refusals), paint, &mut text);
    for (whole, refusals) in parts_of.iter().filter(|(_, refusals)| !refusals.is_empty()) {
        field("of", &format!("`{whole}`, which nobody takes whole\n{}", reasons(refusals)), paint, &mut text);
    }
    // The library's help repeats the reasons, for who has no columns; the advice is its last line.
    let help = error.help().map(|help| help.to_string()).unwrap_or_default();
    field("help", help.lines().last().unwrap_or(""), paint, &mut text);
    Some(text)
}

/// Refusals in columns.
fn reasons(refusals: &[Refusal]) -> String {
    let names = refusals.iter().map(|refusal| refusal.executor.len()).max().unwrap_or(0);
    let codes = refusals.iter().map(|refusal| refusal.code.len()).max().unwrap_or(0);
    let reason = |refusal: &Refusal| {
        let at = refusal.at.as_ref().map(|at| format!(" [{at}]")).unwrap_or_default();
        let (who, code, sentence) = (&refusal.executor, &refusal.code, &refusal.sentence);
        format!("{who:<names$}  {code:<codes$}  {sentence}{at}")
    };
    refusals.iter().map(reason).collect::<Vec<_>>().join("\n")
}

/// The diagnostic as a warning, whatever it says of itself: an error that stops nothing here.
pub fn warning(diagnostic: &dyn Diagnostic, paint: Paint) -> String {
    let mut text = String::new();
    one_as(&paint.warning("warning"), diagnostic, paint, &mut text);
    text
}

fn one(diagnostic: &dyn Diagnostic, paint: Paint, text: &mut String) {
    let word = match diagnostic.severity() {
        Some(Severity::Warning) => paint.warning("warning"),
        Some(Severity::Advice) => paint.good("note"),
        _ => paint.error("error"),
    };
    one_as(&word, diagnostic, paint, text);
}

fn one_as(word: &str, diagnostic: &dyn Diagnostic, paint: Paint, text: &mut String) {
    let code = diagnostic.code().map(|code| format!("[{code}]")).unwrap_or_default();
    let _ = writeln!(text, "{word}{code}: {diagnostic}");
    for label in diagnostic.labels().into_iter().flatten() {
        if let Some(source) = diagnostic.source_code() {
            place(source, &label, paint, text);
        }
    }
    for cause in causes(diagnostic) {
        field("why", &cause, paint, text);
    }
    if let Some(help) = diagnostic.help().map(|help| help.to_string()).filter(|help| !help.is_empty()) {
        field("help", &help, paint, text);
    }
}

/// The messages of the sources that say something new: wrappers often repeat what they wrap.
fn causes(diagnostic: &dyn Diagnostic) -> Vec<String> {
    let mut said = diagnostic.to_string();
    let mut causes = Vec::new();
    let mut next: Option<&dyn Error> = diagnostic.source();
    while let Some(cause) = next {
        let message = cause.to_string();
        if !said.contains(&message) {
            said.push_str(&message);
            causes.push(message);
        }
        next = cause.source();
    }
    causes
}

/// A named field; further lines of its text stand below the first.
pub fn field(name: &str, value: &str, paint: Paint, text: &mut String) {
    let mut lines = value.lines();
    let _ = writeln!(text, "  {}  {}", paint.label(&format!("{name:<5}")), lines.next().unwrap_or(""));
    for line in lines {
        let _ = writeln!(text, "         {line}");
    }
}

/// File, line and column, and the line with a mark under what is meant.
fn place(source: &dyn SourceCode, label: &LabeledSpan, paint: Paint, text: &mut String) {
    let Ok(found) = source.read_span(label.inner(), 0, 0) else { return };
    let (line, column) = (found.line() + 1, found.column() + 1);
    let name = found.name().map(|name| format!("{name}:")).unwrap_or_default();
    field("where", &format!("{name}{line}:{column}"), paint, text);
    let line_text = whole_line(source, label);
    if line_text.trim().is_empty() {
        return;
    }
    let number = line.to_string();
    let marked: String = line_text.chars().take(found.column()).map(blank).collect();
    let n_marked = line_text.chars().skip(found.column()).count().min(label.len());
    let said = label.label().map(|said| format!(" {said}")).unwrap_or_default();
    let bar = paint.dim("|");
    let _ = writeln!(text, "         {} {bar} {}", paint.dim(&number), line_text.trim_end());
    let mark = paint.error(&"^".repeat(n_marked.max(1)));
    let _ = writeln!(text, "         {} {bar} {marked}{mark}{said}", " ".repeat(number.len()));
}

/// Tabs stay tabs, so that the mark stands under what it marks.
fn blank(c: char) -> char {
    if c == '\t' { '\t' } else { ' ' }
}

/// The line in which the label begins: with context 0 the answer starts at the label itself, with context 1 it
/// starts a line earlier, if there is one.
fn whole_line(source: &dyn SourceCode, label: &LabeledSpan) -> String {
    let start = miette::SourceSpan::from((label.offset(), 0));
    let (Ok(here), Ok(around)) = (source.read_span(&start, 0, 0), source.read_span(&start, 1, 1)) else {
        return String::new();
    };
    let text = String::from_utf8_lossy(around.data()).into_owned();
    text.lines().nth(here.line() - around.line()).unwrap_or("").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use thunderhead::config::{Chain, Overlay, Start, Surroundings};

    fn shown(config: &str) -> String {
        let around = Surroundings::default();
        let nothing = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
        let chain = Chain::load(&Start::Text(config.to_owned()), &around, &nothing);
        let errors = chain.resolve(&Overlay::default(), &[], &around, &[]).expect_err("a faulty config");
        render(&errors, Paint::PLAIN)
    }

    #[test]
    fn one_error_shows_its_line() {
        let expected = "\
error[config::unknown_key]: unknown key `executor_order`
  where  config:2:1
         2 | executor_order = []
           | ^^^^^^^^^^^^^^
  help   valid here: `config`, `base`, `executors`, `prepend`, `append`, `remove`, `last_resort`, `plugins`, `libraries`, `executor`, `run`, `expect` or `log`
";
        assert_eq!(shown("config = 1\nexecutor_order = []\n"), expected);
    }

    #[test]
    fn several_errors_are_summed_up() {
        let text = shown("config = 1\n\tlast_resort = 'no'\nrun = 3\n");
        let expected = "\
error[config::unknown_word]: last_resort: found `no`, expected `reference` or `none`
  where  config:2:16
         2 | \tlast_resort = 'no'
           | \t              ^^^^
error[config::wrong_type]: run: found an integer, expected a table
  where  config:3:7
         3 | run = 3
           |       ^
error: 2 errors
";
        assert_eq!(text, expected, "\n{text}");
    }
}
