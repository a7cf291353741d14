//! Symbolic sizes: the file's expressions as dims, with the ranges of their symbols.
//!
//! An expression that a dim cannot say (powers, true division, conditions) is no error: it becomes a fresh `u` symbol,
//! and [`Symbols::unsayable`] tells the importer to define it with `num.*` ops.
//! Invariant: dims stay small. A product of sums grows exponentially when it is written out, so what would have more
//! than [`MAX_TERMS`] terms counts as unsayable.

use std::collections::{BTreeMap, HashMap};

use super::pt2::expr::{Expr, Func, MAX_DEPTH};
use super::pt2::graph::{IntHint, RangeConstraint, SymInt};
use super::{ModelError, ModelResult};
use crate::ir::{Dim, SymDecl, SymKind, Symbol};

/// Terms of a dim that is still written out.
pub(super) const MAX_TERMS: usize = 16;
/// Integers from here on mean "no upper bound": PyTorch writes the largest ones for infinity.
const UNBOUNDED: i64 = i64::MAX - 1;

/// The symbols of a program.
pub(super) struct Symbols {
    ranges: HashMap<String, RangeConstraint>,
    declared: BTreeMap<Symbol, SymDecl>,
    next_data: u32,
    /// Expressions that became a symbol of their own, by their text.
    unsayable: HashMap<String, Symbol>,
}

/// A size of the file.
pub(super) enum Size {
    /// A dim.
    Dim(Dim),
    /// An expression that `num.*` ops must compute: `symbol` stands for it. `new`: it has not been met before.
    Unsayable { symbol: Symbol, expr: Expr, new: bool },
}

impl Symbols {
    /// Symbols with these ranges. `u` symbols of our own are numbered behind all that the program names.
    pub(super) fn new(ranges: &HashMap<String, RangeConstraint>, texts: &[&str]) -> Self {
        let mut next_data = 0;
        for text in texts.iter().copied().chain(ranges.keys().map(String::as_str)) {
            for number in data_symbols(text) {
                next_data = next_data.max(number.saturating_add(1));
            }
        }
        let declared = BTreeMap::new();
        Self { ranges: ranges.clone(), declared, next_data, unsayable: HashMap::new() }
    }

    /// Every symbol that a dim names so far, in order.
    pub(super) fn declarations(&self) -> Vec<SymDecl> {
        self.declared.values().cloned().collect()
    }

    /// A size or stride of the file.
    pub(super) fn size(&mut self, value: &SymInt) -> ModelResult<Size> {
        match value {
            SymInt::Int(n) => Ok(Size::Dim(Dim::Known(*n))),
            SymInt::Expr(sym) => {
                let expr = Expr::parse(&sym.expr_str)?;
                Ok(self.size_of(&sym.expr_str, expr))
            }
            SymInt::Unknown(tag) => Err(ModelError::Expression {
                text: tag.clone(),
                at: 0,
                why: "an unknown kind of symbolic integer".to_owned(),
            }),
        }
    }

    fn size_of(&mut self, text: &str, expr: Expr) -> Size {
        if let Some(dim) = self.dim(&expr) {
            return Size::Dim(dim);
        }
        if let Some(symbol) = self.unsayable.get(text) {
            return Size::Unsayable { symbol: *symbol, expr, new: false };
        }
        let symbol = Symbol { kind: SymKind::Data, number: self.next_data };
        self.next_data = self.next_data.saturating_add(1);
        self.declared.insert(symbol, SymDecl { symbol, low: 0, high: None, step: 1 });
        self.unsayable.insert(text.to_owned(), symbol);
        Size::Unsayable { symbol, expr, new: true }
    }

    /// The expression as a dim, where a dim can say it.
    pub(super) fn dim(&mut self, expr: &Expr) -> Option<Dim> {
        if terms(expr, 0)? > MAX_TERMS {
            return None;
        }
        self.convert(expr)
    }

    fn convert(&mut self, expr: &Expr) -> Option<Dim> {
        Some(match expr {
            Expr::Int(n) => Dim::Known(*n),
            Expr::Symbol(name) => Dim::symbol(self.symbol(name)?),
            Expr::Call(func, args) => {
                let dims = args.iter().map(|arg| self.convert(arg)).collect::<Option<Vec<_>>>();
                match (func, args.as_slice()) {
                    // `x ** 2` is a product; PyTorch's own division writes `x * y ** -1` only for exact quotients.
                    (Func::Pow | Func::PowByNatural, [base, Expr::Int(times @ 0..=4)]) => {
                        let base = self.convert(base)?;
                        (0..*times).fold(Dim::Known(1), |product, _| product.mul(&base))
                    }
                    _ => call(*func, &dims?)?,
                }
            }
            Expr::Ratio(..) | Expr::Float(_) | Expr::Bool(_) => return None,
        })
    }

    /// The symbol `s77` or `u0`, declared with its range when first met.
    pub(super) fn symbol(&mut self, name: &str) -> Option<Symbol> {
        let kind = match name.as_bytes().first()? {
            b's' => SymKind::Input,
            b'u' => SymKind::Data,
            _ => return None,
        };
        let digits = &name[1..];
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let symbol = Symbol { kind, number: digits.parse().ok()? };
        let range = self.ranges.get(name).copied().unwrap_or_default();
        self.declared.entry(symbol).or_insert_with(|| declaration(symbol, range));
        Some(symbol)
    }

    /// A dynamic Python integer has no lower bound of its own, unlike a size.
    pub(super) fn declare_integer(&mut self, symbol: Symbol) {
        let range = self.ranges.get(&symbol.to_string()).copied().unwrap_or_default();
        if let Some(decl) = self.declared.get_mut(&symbol) {
            decl.low = range.min_val.unwrap_or(i64::MIN);
        }
    }

    /// Whether the relation holds for all values in range (`Some(true)`), for none (`Some(false)`), or is open. What
    /// depends on data is always open: an assertion on it is the model's promise, not the range's.
    pub(super) fn decide(&mut self, condition: &Expr) -> Option<bool> {
        match condition {
            Expr::Bool(value) => Some(*value),
            Expr::Call(Func::Not, args) => args.first().and_then(|arg| self.decide(arg)).map(|value| !value),
            Expr::Call(Func::And, args) => {
                let all: Vec<Option<bool>> = args.iter().map(|arg| self.decide(arg)).collect();
                match (all.contains(&Some(false)), all.contains(&None)) {
                    (true, _) => Some(false),
                    (false, true) => None,
                    (false, false) => Some(true),
                }
            }
            Expr::Call(Func::Or, args) => {
                let any: Vec<Option<bool>> = args.iter().map(|arg| self.decide(arg)).collect();
                match (any.contains(&Some(true)), any.contains(&None)) {
                    (true, _) => Some(true),
                    (false, true) => None,
                    (false, false) => Some(false),
                }
            }
            Expr::Call(func, args) => match args.as_slice() {
                [a, b] => self.decide_relation(*func, a, b),
                _ => None,
            },
            _ => None,
        }
    }

    fn decide_relation(&mut self, func: Func, a: &Expr, b: &Expr) -> Option<bool> {
        let difference = self.dim(a)?.sub(&self.dim(b)?);
        let (low, high) = self.bounds(&difference)?;
        let (surely, never) = match func {
            Func::Equality => (low == 0 && high == 0, low > 0 || high < 0),
            Func::Unequality => (low > 0 || high < 0, low == 0 && high == 0),
            Func::StrictLessThan => (high < 0, low >= 0),
            Func::LessThan => (high <= 0, low > 0),
            Func::StrictGreaterThan => (low > 0, high <= 0),
            Func::GreaterThan => (low >= 0, high < 0),
            _ => return None,
        };
        match (surely, never) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    /// Inclusive bounds; none for what depends on data.
    fn bounds(&self, dim: &Dim) -> Option<(i64, i64)> {
        let range = |symbol: Symbol| {
            let decl = self.declared.get(&symbol);
            decl.map_or((i64::MIN, i64::MAX), |decl| (decl.low, decl.high.unwrap_or(i64::MAX)))
        };
        (!dim.depends_on_data()).then(|| dim.bounds(&range))
    }
}

/// A lower bound of 2 on an input's size only says that export specialises 0 and 1: the program takes both.
fn declaration(symbol: Symbol, range: RangeConstraint) -> SymDecl {
    let low = match (symbol.kind, range.min_val) {
        (SymKind::Input, Some(2)) | (_, None) => 0,
        (_, Some(low)) => low,
    };
    let high = range.max_val.filter(|high| *high < UNBOUNDED && *high >= low);
    SymDecl { symbol, low, high, step: 1 }
}

fn call(func: Func, dims: &[Dim]) -> Option<Dim> {
    let (first, rest) = dims.split_first()?;
    let fold = |combine: fn(&Dim, &Dim) -> Dim| {
        rest.iter().fold(first.clone(), |so_far, next| combine(&so_far, next))
    };
    match (func, dims) {
        (Func::Add, _) => Some(fold(Dim::add)),
        (Func::Mul, _) => Some(fold(Dim::mul)),
        (Func::Max, _) => Some(fold(Dim::max_with)),
        (Func::Min, _) => Some(fold(Dim::min_with)),
        (Func::Identity, [a]) => Some(a.clone()),
        (Func::FloorDiv | Func::CleanDiv, [a, b]) => a.floordiv(b),
        (Func::Mod | Func::PythonMod, [a, b]) => a.modulo(b),
        (Func::CeilDiv, [a, b]) => Some(a.neg().floordiv(b)?.neg()),
        (Func::ModularIndexing, [a, b, c]) => a.floordiv(b)?.modulo(c),
        _ => None,
    }
}

/// How many terms the expression has when it is written out; none where that is beyond all measure.
fn terms(expr: &Expr, depth: usize) -> Option<usize> {
    let Expr::Call(func, args) = expr else { return Some(1) };
    if depth > MAX_DEPTH {
        return None;
    }
    let counts = args.iter().map(|arg| terms(arg, depth + 1)).collect::<Option<Vec<_>>>()?;
    if counts.iter().any(|count| *count > MAX_TERMS) {
        return None;
    }
    match func {
        Func::Add => Some(counts.iter().sum()),
        Func::Mul => counts.iter().try_fold(1usize, |product, count| {
            let product = product.checked_mul(*count)?;
            (product <= MAX_TERMS).then_some(product)
        }),
        Func::Pow | Func::PowByNatural => counts.first()?.checked_pow(4),
        _ => Some(1),
    }
}

/// Numbers of the `u` symbols that a text names.
fn data_symbols(text: &str) -> impl Iterator<Item = u32> + '_ {
    text.split(|c: char| !c.is_ascii_alphanumeric())
        .filter_map(|word| word.strip_prefix('u').and_then(|digits| digits.parse::<u32>().ok()))
}

/// The value that a size had at export, where the file says.
pub(super) fn hint(value: &SymInt) -> Option<i64> {
    match value {
        SymInt::Int(n) => Some(*n),
        SymInt::Expr(sym) => match sym.hint {
            Some(IntHint::Int(n)) => Some(n),
            _ => None,
        },
        SymInt::Unknown(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols() -> Symbols {
        let ranges = HashMap::from([
            ("s0".to_owned(), RangeConstraint { min_val: Some(2), max_val: Some(16) }),
            ("s1".to_owned(), RangeConstraint { min_val: Some(4), max_val: Some(i64::MAX) }),
            ("4*s0".to_owned(), RangeConstraint { min_val: Some(8), max_val: None }),
        ]);
        Symbols::new(&ranges, &["Symbol('u7', integer=True)"])
    }

    fn dim(text: &str) -> Option<String> {
        symbols().dim(&Expr::parse(text).expect("parses")).map(|dim| dim.to_string())
    }

    #[test]
    fn expressions_become_canonical_dims() {
        let s = |n: u32| format!("Symbol('s{n}', positive=True, integer=True)");
        assert_eq!(dim(&format!("Add(Integer(-1), Mul(Integer(2), {}))", s(0))).as_deref(), Some("2*s0 - 1"));
        assert_eq!(dim(&format!("Pow({}, Integer(2))", s(0))).as_deref(), Some("s0*s0"));
        assert_eq!(dim(&format!("FloorDiv({}, Integer(2))", s(1))).as_deref(), Some("s1 // 2"));
        assert_eq!(dim(&format!("Pow({}, Integer(-1))", s(0))), None);
        assert_eq!(dim(&format!("TruncToInt(IntTrueDiv({}, Integer(2)))", s(0))), None);
        assert_eq!(dim("Symbol('zuf0')"), None);
    }

    #[test]
    fn products_of_sums_do_not_explode() {
        let sum = |i: u32| format!("Add(Symbol('s{i}'), Symbol('s{}'))", i + 1);
        let product = (0..40).map(|i| sum(2 * i)).collect::<Vec<_>>().join(", ");
        assert_eq!(dim(&format!("Mul({product})")), None);
    }

    #[test]
    fn ranges_are_those_of_the_reloaded_program() {
        let mut symbols = symbols();
        for name in ["s0", "s1", "s2", "u3"] {
            symbols.symbol(name).expect("a symbol");
        }
        let shown: Vec<(String, i64, Option<i64>)> =
            symbols.declarations().iter().map(|d| (d.symbol.to_string(), d.low, d.high)).collect();
        let expected = [("s0", 0, Some(16)), ("s1", 4, None), ("s2", 0, None), ("u3", 0, None)];
        assert_eq!(shown, expected.map(|(name, low, high)| (name.to_owned(), low, high)));
    }

    #[test]
    fn what_cannot_be_said_gets_a_symbol_once() {
        let mut symbols = symbols();
        let text = "TruncToInt(FloatTrueDiv(Symbol('s0'), Float('1.5', precision=53)))";
        let mut met = Vec::new();
        for _ in 0..2 {
            let Size::Unsayable { symbol, new, .. } =
                symbols.size_of(text, Expr::parse(text).expect("parses"))
            else {
                panic!("a dim");
            };
            met.push((symbol.to_string(), new));
        }
        assert_eq!(met, [("u8".to_owned(), true), ("u8".to_owned(), false)]);
    }

    #[test]
    fn relations_are_decided_by_ranges_of_inputs_only() {
        let mut symbols = symbols();
        let mut decide = |text: &str| symbols.decide(&Expr::parse(text).expect("parses"));
        assert_eq!(decide("LessThan(Symbol('s0'), Integer(16))"), Some(true));
        assert_eq!(decide("StrictGreaterThan(Symbol('s0'), Integer(16))"), Some(false));
        assert_eq!(decide("LessThan(Symbol('s0'), Integer(15))"), None);
        assert_eq!(decide("GreaterThan(Symbol('u7'), Integer(0))"), None);
        assert_eq!(decide("And(true, LessThan(Symbol('s0'), Integer(99)))"), Some(true));
        assert_eq!(decide("Equality(Symbol('s0'), Symbol('s0'))"), Some(true));
    }
}
