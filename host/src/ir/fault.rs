//! What is wrong with a trace, and where: the faults of the parser, the verifier and the checks against the op table.
//!
//! Each names a code (a stable path), both values that disagree, and where known the nearest right name. Checks
//! collect, in source order. Invariant: a fault's place is complete without the text, so that a trace that was never
//! text gets messages as good; a position in a text is added where there is one.

use std::fmt;

/// What kind of fault. The doc comment of each is its page in the list of error codes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Code {
    /// A character that no token begins with, or a number, string or device that ends wrongly.
    Token,
    /// The text does not follow the grammar at this token.
    Syntax,
    /// The header is missing, or its major version is not ours.
    Version,
    /// A limit of the format: file size, nesting, or size of a dim expression.
    Limit,
    /// An integer that does not fit i64, a float that does not fit f64, or a division by zero in a dim expression.
    Number,
    /// An argument that the op's signature does not have, has twice, or misses.
    Argument,
    /// JSON that is no trace: a member is missing or of the wrong kind.
    Json,
    /// A value is used before it is defined, or where it cannot be seen.
    UndefinedValue,
    /// A value's name is defined again where the first can be seen.
    Redefined,
    /// A name that the text form cannot say.
    Name,
    /// Two traces of one name, or a nested trace that does not exist.
    Trace,
    /// A dim symbol that is not declared, declared twice, or with an impossible range.
    Symbol,
    /// A block yields other than its statement's results.
    Yield,
    /// What is returned or yielded is neither a value nor a literal, or its user name is taken.
    Output,
    /// Blocks or lists nested deeper than the format allows.
    Nesting,
    /// A region's name is not unique or does not count up.
    Region,
    /// A parameter's role does not fit its trace, or its user name is taken.
    Role,
    /// What `forward` saves is not what `backward` takes.
    Save,
    /// A write other than `prims.copy_` of a value to a writable parameter, at the end and once.
    Write,
    /// `del` outside of execution, of what is not the run's, before the last use, or missing.
    Del,
    /// A result's type is not what the op gives.
    Type,
    /// The op does not take these arguments.
    Call,
    /// No op of that name is known.
    Op,
}

impl Code {
    /// Every code, in the order of the documentation.
    pub const ALL: [Code; 23] = [
        Code::Token,
        Code::Syntax,
        Code::Version,
        Code::Limit,
        Code::Number,
        Code::Argument,
        Code::Json,
        Code::UndefinedValue,
        Code::Redefined,
        Code::Name,
        Code::Trace,
        Code::Symbol,
        Code::Yield,
        Code::Output,
        Code::Nesting,
        Code::Region,
        Code::Role,
        Code::Save,
        Code::Write,
        Code::Del,
        Code::Type,
        Code::Call,
        Code::Op,
    ];

    /// The stable path, as users see it.
    pub fn name(self) -> &'static str {
        match self {
            Code::Token => "parse::token",
            Code::Syntax => "parse::syntax",
            Code::Version => "parse::version",
            Code::Limit => "parse::limit",
            Code::Number => "parse::number",
            Code::Argument => "parse::argument",
            Code::Json => "parse::json",
            Code::UndefinedValue => "verify::undefined_value",
            Code::Redefined => "verify::redefined",
            Code::Name => "verify::name",
            Code::Trace => "verify::trace",
            Code::Symbol => "verify::symbol",
            Code::Yield => "verify::yield",
            Code::Output => "verify::output",
            Code::Nesting => "verify::nesting",
            Code::Region => "verify::region",
            Code::Role => "verify::role",
            Code::Save => "verify::save",
            Code::Write => "verify::write",
            Code::Del => "verify::del",
            Code::Type => "verify::type",
            Code::Call => "verify::call",
            Code::Op => "verify::op",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A part of a statement, or of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Part {
    /// The name at the head: of the trace, or of the op (`del` has none).
    Head,
    /// A parameter of the trace.
    Param(u32),
    /// A result of the call, or a value that `del` names.
    Result(u32),
    /// An argument: positional ones first, then those by name, as the bound symbol stores them.
    Arg(u32),
    /// What the block yields.
    Yield(u32),
    /// What the trace returns.
    Output(u32),
    /// What the trace saves.
    Save(u32),
}

/// A place in a module. Ordered as in its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Index of the trace; none: the module's declarations.
    pub trace: Option<u32>,
    /// Statements count from 0 in the order of the text, those of blocks included; none: the trace itself.
    pub stmt: Option<u32>,
    /// Which part of it.
    pub part: Part,
}

impl Place {
    /// The declaration of the symbol of that index.
    pub fn declaration(idx: usize) -> Place {
        Place { trace: None, stmt: None, part: Part::Param(idx as u32) }
    }

    /// A part of a trace.
    pub fn of_trace(trace: usize, part: Part) -> Place {
        Place { trace: Some(trace as u32), stmt: None, part }
    }

    /// A part of a statement.
    pub fn of_stmt(trace: usize, stmt: usize, part: Part) -> Place {
        Place { trace: Some(trace as u32), stmt: Some(stmt as u32), part }
    }

    /// Sorts as the text does: parameters, statements, what is returned and saved.
    pub fn order(&self) -> impl Ord + use<> {
        let late = matches!(self.part, Part::Output(_) | Part::Save(_));
        (self.trace, late, self.stmt, self.part)
    }
}

/// Line and column, both from 1; columns count characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub struct Position {
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// One fault.
#[derive(Clone, PartialEq, Debug)]
pub struct Fault {
    /// What kind.
    pub code: Code,
    /// What is wrong, with both values.
    pub message: String,
    /// What to do, where there is something to say.
    pub help: Option<String>,
    /// Where in words, without a text: `%relu in forward`.
    pub at: String,
    /// Where in the module; none for faults of the text itself.
    pub place: Option<Place>,
    /// Where in the text, if there is one.
    pub position: Option<Position>,
}

impl Fault {
    /// A fault without a position.
    pub fn new(code: Code, message: impl Into<String>, place: Option<Place>, at: impl Into<String>) -> Fault {
        Fault { code, message: message.into(), help: None, at: at.into(), place, position: None }
    }

    /// With what to do.
    pub fn help(mut self, help: impl Into<String>) -> Fault {
        self.help = Some(help.into());
        self
    }

    /// With the nearest right name, where there is one.
    pub fn nearest<'a>(self, name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Fault {
        match super::nearest::nearest(name, candidates) {
            Some(c) => self.help(format!("did you mean `{c}`?")),
            None => self,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.code, self.message)?;
        if self.position.is_none() && !self.at.is_empty() {
            write!(f, " (at {})", self.at)?;
        }
        match &self.help {
            Some(h) => write!(f, "\n  help: {h}"),
            None => Ok(()),
        }
    }
}

/// Everything that is wrong with a module, in source order.
#[derive(Clone, PartialEq, Debug)]
pub struct Faults {
    /// The file, where the module was read from one.
    pub file: Option<String>,
    /// At least one.
    pub faults: Vec<Fault>,
    /// How many more there are than are kept.
    pub more: usize,
}

/// So many are kept; a file that is no trace at all has no use for more.
pub const MAX_FAULTS: usize = 100;

impl Faults {
    /// Of these, those that are kept; none where there are none.
    pub fn of(mut faults: Vec<Fault>) -> Option<Faults> {
        let more = faults.len().saturating_sub(MAX_FAULTS);
        faults.truncate(MAX_FAULTS);
        (!faults.is_empty()).then_some(Faults { file: None, faults, more })
    }

    /// With the file's name.
    pub fn in_file(mut self, file: impl Into<String>) -> Faults {
        self.file = Some(file.into());
        self
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.faults.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            match (&self.file, fault.position) {
                (Some(file), Some(p)) => write!(f, "{file}:{p}: ")?,
                (None, Some(p)) => write!(f, "{p}: ")?,
                (Some(file), None) => write!(f, "{file}: ")?,
                (None, None) => {}
            }
            write!(f, "{fault}")?;
        }
        if self.more > 0 {
            write!(f, "\n… and {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique() {
        let mut names: Vec<&str> = Code::ALL.iter().map(|c| c.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
    }
}
