//! How ATen overloads become ops of the table: entries (in each op), and ATen's own schemas (all of them, built in).

use super::build::Builder;
use super::error::OpError;
use crate::ir::Arg;

/// Overloads that become one op in one way.
pub struct Aten {
    /// `add.Tensor`, `relu.default`, `relu_.default`, …; without `aten.`.
    pub overloads: &'static [&'static str],
    /// How their arguments become ours.
    pub import: Import,
}

/// From ATen's arguments to a call.
pub enum Import {
    /// `a=self b=other alpha`: ours = ATen's; a name alone is the same in both. Parameters of ours that are not named
    /// keep their default; ATen's that are not named are dropped (they carry nothing: `memory_format`, `layout`, …).
    /// A number where ATen's parameter is `float` becomes a float.
    Map(&'static str),
    /// As `Map`, then with fixed arguments: `mode="floor"` style pairs in trace literal syntax.
    MapWith(&'static str, &'static [(&'static str, FixedArg)]),
    /// Anything else: emits the calls and gives one argument for each of ATen's results.
    With(fn(&mut Builder<'_>, &AtenCall) -> Result<Vec<Arg>, OpError>),
}

/// A literal in an import entry.
#[derive(Clone, Copy, Debug)]
pub enum FixedArg {
    /// i64.
    Int(i64),
    /// f64.
    Float(f64),
    /// true or false.
    Bool(bool),
    /// Text.
    Str(&'static str),
    /// A dtype, by name.
    Dtype(&'static str),
    /// Absent.
    None,
}

/// A call of an ATen overload as the importer read it: arguments by ATen's names, defaults filled in.
pub struct AtenCall {
    /// `add.Tensor`.
    pub overload: String,
    /// Every argument of ATen's schema in its order.
    pub args: Vec<AtenArg>,
    /// Types of the results as the model file records them, in ATen's order, lists flattened; none: absent.
    pub results: Vec<Option<crate::ir::Type>>,
}

/// One argument of an ATen call.
pub struct AtenArg {
    /// ATen's name for it.
    pub name: String,
    /// The value; tensors and symbolic numbers are values of the trace, sizes are `Int` or `Dim`.
    pub value: Arg,
}

impl AtenCall {
    /// The argument of that name.
    pub fn arg(&self, name: &str) -> Result<&Arg, OpError> {
        self.args
            .iter()
            .find(|a| a.name == name)
            .map(|a| &a.value)
            .ok_or_else(|| self.error(format!("has no argument `{name}`")))
    }

    /// An error of this call.
    pub fn error(&self, what: impl Into<String>) -> OpError {
        OpError { op: format!("aten.{}", self.overload), what: what.into() }
    }
}
