//! Sizes: known numbers, or canonical integer expressions over named symbols.
//!
//! Invariant: two expressions that are equal after the rewriting of rule 11 of the trace format (a sum of products,
//! ordered) have one representation, so `==` decides it. Arithmetic saturates at i64: a size that large is refused
//! long before by whoever would allocate it.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Whether a symbol is bound by the inputs or by data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum SymKind {
    /// `s…`: bound from the sizes of the inputs before a run.
    Input,
    /// `u…`: known at run time only.
    Data,
}

/// A named size: `s0`, `u3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Symbol {
    /// Who binds it.
    pub kind: SymKind,
    /// Its number.
    pub number: u32,
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            SymKind::Input => write!(f, "s{}", self.number),
            SymKind::Data => write!(f, "u{}", self.number),
        }
    }
}

/// A size: an i64 or a canonical expression.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Dim {
    /// A number.
    Known(i64),
    /// An expression with at least one symbol.
    Expr(Arc<Sum>),
}

/// `coeff * factor * … + … + constant`; terms are ordered, without zero coefficients, and at least one.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Sum {
    terms: Vec<Term>,
    constant: i64,
}

/// A product: its factors are ordered and at least one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Term {
    factors: Vec<Atom>,
    coeff: i64,
}

/// What cannot be expanded further.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
enum Atom {
    Sym(Symbol),
    FloorDiv(Dim, Dim),
    Mod(Dim, Dim),
    Min(Dim, Dim),
    Max(Dim, Dim),
}

impl Term {
    /// Plain products of symbols stand before those with `//`, `mod`, `min`, `max` (rule 11).
    fn is_plain(&self) -> bool {
        self.factors.iter().all(|a| matches!(a, Atom::Sym(_)))
    }
}

impl PartialOrd for Term {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Term {
    fn cmp(&self, other: &Self) -> Ordering {
        (!self.is_plain(), &self.factors, self.coeff).cmp(&(!other.is_plain(), &other.factors, other.coeff))
    }
}

impl PartialOrd for Dim {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Dim {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Dim::Known(a), Dim::Known(b)) => a.cmp(b),
            (Dim::Known(_), Dim::Expr(_)) => Ordering::Less,
            (Dim::Expr(_), Dim::Known(_)) => Ordering::Greater,
            (Dim::Expr(a), Dim::Expr(b)) => a.cmp(b),
        }
    }
}

impl From<i64> for Dim {
    fn from(n: i64) -> Dim {
        Dim::Known(n)
    }
}

impl From<Symbol> for Dim {
    fn from(s: Symbol) -> Dim {
        Dim::symbol(s)
    }
}

impl Dim {
    /// The dim that is just this symbol.
    pub fn symbol(symbol: Symbol) -> Dim {
        Dim::atom(Atom::Sym(symbol))
    }

    /// The number, where it is known.
    pub fn known(&self) -> Option<i64> {
        match self {
            Dim::Known(n) => Some(*n),
            Dim::Expr(_) => None,
        }
    }

    /// The symbol, where the dim is one and nothing else.
    pub fn as_symbol(&self) -> Option<Symbol> {
        match self {
            Dim::Expr(s) if s.constant == 0 => match s.terms.as_slice() {
                [Term { factors, coeff: 1 }] => match factors.as_slice() {
                    [Atom::Sym(s)] => Some(*s),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }

    /// Is it the number `n`?
    pub fn is(&self, n: i64) -> bool {
        self.known() == Some(n)
    }

    /// `Some(true)` where both are equal for all values of the symbols, `Some(false)` where they differ for all,
    /// none where it depends (rule 4: such an equality is assumed and checked with concrete sizes).
    pub fn same(&self, other: &Dim) -> Option<bool> {
        if self == other {
            return Some(true);
        }
        self.sub(other).known().map(|d| d == 0)
    }

    /// `self + other`.
    pub fn add(&self, other: &Dim) -> Dim {
        if let (Dim::Known(a), Dim::Known(b)) = (self, other) {
            return Dim::Known(a.saturating_add(*b));
        }
        let (mut terms, c) = self.parts();
        let (more, d) = other.parts();
        terms.extend(more);
        Dim::sum(terms, c.saturating_add(d))
    }

    /// `-self`.
    pub fn neg(&self) -> Dim {
        self.scale(-1)
    }

    /// `self - other`.
    pub fn sub(&self, other: &Dim) -> Dim {
        if let (Dim::Known(a), Dim::Known(b)) = (self, other) {
            return Dim::Known(a.saturating_sub(*b));
        }
        self.add(&other.neg())
    }

    /// `self * other`.
    pub fn mul(&self, other: &Dim) -> Dim {
        match (self, other) {
            (Dim::Known(a), Dim::Known(b)) => Dim::Known(a.saturating_mul(*b)),
            (Dim::Known(k), x) | (x, Dim::Known(k)) => x.scale(*k),
            (a, b) => {
                let (ta, ca) = a.parts();
                let (tb, cb) = b.parts();
                let mut terms = Vec::with_capacity((ta.len() + 1) * (tb.len() + 1));
                for x in &ta {
                    for y in &tb {
                        let mut factors = x.factors.clone();
                        factors.extend(y.factors.iter().cloned());
                        factors.sort();
                        terms.push(Term { factors, coeff: x.coeff.saturating_mul(y.coeff) });
                    }
                    terms.push(Term { factors: x.factors.clone(), coeff: x.coeff.saturating_mul(cb) });
                }
                for y in &tb {
                    terms.push(Term { factors: y.factors.clone(), coeff: y.coeff.saturating_mul(ca) });
                }
                Dim::sum(terms, ca.saturating_mul(cb))
            }
        }
    }

    /// `self // other`, rounding to minus infinity; none where the divisor is zero.
    pub fn floordiv(&self, other: &Dim) -> Option<Dim> {
        match (self, other) {
            (_, Dim::Known(0)) => None,
            (x, Dim::Known(1)) => Some(x.clone()),
            (Dim::Known(a), Dim::Known(b)) => Some(Dim::Known(floor_div(*a, *b))),
            (Dim::Expr(s), Dim::Known(k)) if s.divisible_by(*k) => Some(Dim::sum(
                s.terms.iter().map(|t| Term { factors: t.factors.clone(), coeff: t.coeff / k }).collect(),
                s.constant / k,
            )),
            (a, b) if a == b => Some(Dim::Known(1)),
            (a, b) => match a.exact_quotient(b) {
                Some(q) => Some(q),
                None => Some(Dim::atom(Atom::FloorDiv(a.clone(), b.clone()))),
            },
        }
    }

    /// `self mod other`, with the sign of the divisor; none where it is zero.
    pub fn modulo(&self, other: &Dim) -> Option<Dim> {
        match (self, other) {
            (_, Dim::Known(0)) => None,
            (_, Dim::Known(1)) => Some(Dim::Known(0)),
            (Dim::Known(a), Dim::Known(b)) => Some(Dim::Known(floor_mod(*a, *b))),
            (Dim::Expr(s), Dim::Known(k)) if s.divisible_by(*k) => Some(Dim::Known(0)),
            (a, b) if a == b || a.exact_quotient(b).is_some() => Some(Dim::Known(0)),
            (a, b) => Some(Dim::atom(Atom::Mod(a.clone(), b.clone()))),
        }
    }

    /// The smaller of both.
    pub fn min_with(&self, other: &Dim) -> Dim {
        match self.sub(other).known() {
            Some(d) if d <= 0 => self.clone(),
            Some(_) => other.clone(),
            None => {
                let (a, b) = ordered(self, other);
                Dim::atom(Atom::Min(a, b))
            }
        }
    }

    /// The larger of both.
    pub fn max_with(&self, other: &Dim) -> Dim {
        match self.sub(other).known() {
            Some(d) if d >= 0 => self.clone(),
            Some(_) => other.clone(),
            None => {
                let (a, b) = ordered(self, other);
                Dim::atom(Atom::Max(a, b))
            }
        }
    }

    /// The sum of dims; 0 for none. One sort for all, where adding in turn would sort each time.
    pub fn sum_of(dims: impl IntoIterator<Item = Dim>) -> Dim {
        let (mut terms, mut constant) = (Vec::new(), 0i64);
        for d in dims {
            match d {
                Dim::Known(n) => constant = constant.saturating_add(n),
                Dim::Expr(s) => {
                    constant = constant.saturating_add(s.constant);
                    terms.extend(s.terms.iter().cloned());
                }
            }
        }
        Dim::sum(terms, constant)
    }

    /// How many products the sum has, its constant counted; what a multiplication by it costs.
    pub fn n_terms(&self) -> usize {
        match self {
            Dim::Known(_) => 1,
            Dim::Expr(s) => s.terms.len() + usize::from(s.constant != 0),
        }
    }

    /// Lowest and highest value where each symbol has the given (inclusive) range. Each occurrence of a symbol is
    /// taken on its own, so the true range may be narrower, never wider.
    pub fn bounds(&self, range: &dyn Fn(Symbol) -> (i64, i64)) -> (i64, i64) {
        let Dim::Expr(sum) = self else {
            let n = self.known().expect("a dim is known or an expression");
            return (n, n);
        };
        sum.terms.iter().fold((sum.constant, sum.constant), |(low, high), t| {
            let start = (t.coeff, t.coeff);
            let (l, h) = t.factors.iter().fold(start, |acc, a| product_bounds(acc, a.bounds(range)));
            (low.saturating_add(l), high.saturating_add(h))
        })
    }

    /// Is there no value of the symbols (in their ranges, step ignored) for which both are equal?
    pub fn contradicts(&self, other: &Dim, range: &dyn Fn(Symbol) -> (i64, i64)) -> bool {
        let difference = self.sub(other);
        let (low, high) = difference.bounds(range);
        low > 0 || high < 0 || difference.never_zero_by_divisor()
    }

    /// `2*s0 - 3`: all products share a divisor that the constant has not.
    fn never_zero_by_divisor(&self) -> bool {
        let Dim::Expr(sum) = self else { return false };
        let divisor = sum.terms.iter().fold(0u64, |g, t| gcd(g, t.coeff.unsigned_abs()));
        divisor > 1 && !sum.constant.unsigned_abs().is_multiple_of(divisor)
    }

    /// The product of dims; 1 for none.
    pub fn product<'a>(dims: impl IntoIterator<Item = &'a Dim>) -> Dim {
        dims.into_iter().fold(Dim::Known(1), |acc, d| acc.mul(d))
    }

    /// Every symbol of `env` replaced by its value.
    pub fn substitute(&self, env: &dyn Fn(Symbol) -> Option<Dim>) -> Dim {
        let Dim::Expr(sum) = self else { return self.clone() };
        let mut out = Dim::Known(sum.constant);
        for term in &sum.terms {
            let mut product = Dim::Known(term.coeff);
            for atom in &term.factors {
                product = product.mul(&atom.substitute(env));
            }
            out = out.add(&product);
        }
        out
    }

    /// The number that the dim has under `env`; none where a symbol is unbound or a divisor zero.
    pub fn eval(&self, env: &dyn Fn(Symbol) -> Option<i64>) -> Option<i64> {
        match self {
            Dim::Known(n) => Some(*n),
            Dim::Expr(_) => self.substitute(&|s| env(s).map(Dim::Known)).known(),
        }
    }

    /// Calls `f` with each symbol of the expression (more than once where it stands more than once).
    pub fn for_each_symbol(&self, f: &mut dyn FnMut(Symbol)) {
        let Dim::Expr(sum) = self else { return };
        for atom in sum.terms.iter().flat_map(|t| &t.factors) {
            match atom {
                Atom::Sym(s) => f(*s),
                Atom::FloorDiv(a, b) | Atom::Mod(a, b) | Atom::Min(a, b) | Atom::Max(a, b) => {
                    a.for_each_symbol(f);
                    b.for_each_symbol(f);
                }
            }
        }
    }

    /// Does it hold a symbol that is known at run time only?
    pub fn depends_on_data(&self) -> bool {
        let mut found = false;
        self.for_each_symbol(&mut |s| found |= s.kind == SymKind::Data);
        found
    }

    /// `(coefficient, symbol, constant)` where the dim is linear in one symbol and nothing else.
    pub fn as_linear(&self) -> Option<(i64, Symbol, i64)> {
        let Dim::Expr(sum) = self else { return None };
        match sum.terms.as_slice() {
            [Term { factors, coeff }] => match factors.as_slice() {
                [Atom::Sym(s)] => Some((*coeff, *s, sum.constant)),
                _ => None,
            },
            _ => None,
        }
    }

    fn atom(atom: Atom) -> Dim {
        Dim::Expr(Arc::new(Sum { terms: vec![Term { factors: vec![atom], coeff: 1 }], constant: 0 }))
    }

    fn parts(&self) -> (Vec<Term>, i64) {
        match self {
            Dim::Known(n) => (Vec::new(), *n),
            Dim::Expr(s) => (s.terms.clone(), s.constant),
        }
    }

    fn scale(&self, k: i64) -> Dim {
        let (mut terms, c) = self.parts();
        for t in &mut terms {
            t.coeff = t.coeff.saturating_mul(k);
        }
        Dim::sum(terms, c.saturating_mul(k))
    }

    /// Orders, merges equal products and drops zeros.
    fn sum(mut terms: Vec<Term>, constant: i64) -> Dim {
        terms.sort();
        let mut merged: Vec<Term> = Vec::with_capacity(terms.len());
        for t in terms {
            match merged.last_mut() {
                Some(last) if last.factors == t.factors => last.coeff = last.coeff.saturating_add(t.coeff),
                _ => merged.push(t),
            }
        }
        merged.retain(|t| t.coeff != 0);
        if merged.is_empty() {
            Dim::Known(constant)
        } else {
            Dim::Expr(Arc::new(Sum { terms: merged, constant }))
        }
    }

    /// `self / divisor` where the divisor is a single product that divides every term.
    fn exact_quotient(&self, divisor: &Dim) -> Option<Dim> {
        let (Dim::Expr(a), Dim::Expr(b)) = (self, divisor) else { return None };
        let [d] = b.terms.as_slice() else { return None };
        if b.constant != 0 || a.constant != 0 || d.coeff == 0 {
            return None;
        }
        let mut terms = Vec::with_capacity(a.terms.len());
        let mut constant = 0i64;
        for t in &a.terms {
            // Checked: i64's minimum has no quotient by -1.
            if t.coeff.checked_rem(d.coeff)? != 0 {
                return None;
            }
            let mut factors = t.factors.clone();
            for f in &d.factors {
                let at = factors.iter().position(|x| x == f)?;
                factors.remove(at);
            }
            let coeff = t.coeff / d.coeff;
            if factors.is_empty() {
                constant = constant.saturating_add(coeff);
            } else {
                terms.push(Term { factors, coeff });
            }
        }
        Some(Dim::sum(terms, constant))
    }
}

impl Sum {
    fn divisible_by(&self, k: i64) -> bool {
        k > 0 && self.constant % k == 0 && self.terms.iter().all(|t| t.coeff % k == 0)
    }
}

impl Atom {
    fn bounds(&self, range: &dyn Fn(Symbol) -> (i64, i64)) -> (i64, i64) {
        let pair = |a: &Dim, b: &Dim| (a.bounds(range), b.bounds(range));
        match self {
            Atom::Sym(s) => range(*s),
            Atom::Min(a, b) => {
                let (a, b) = pair(a, b);
                (a.0.min(b.0), a.1.min(b.1))
            }
            Atom::Max(a, b) => {
                let (a, b) = pair(a, b);
                (a.0.max(b.0), a.1.max(b.1))
            }
            Atom::FloorDiv(a, b) => match pair(a, b) {
                // Monotonic in both where the divisor keeps its sign; else anything.
                (a, b) if b.0 > 0 => {
                    let all = [(a.0, b.0), (a.0, b.1), (a.1, b.0), (a.1, b.1)].map(|(x, y)| floor_div(x, y));
                    (all.into_iter().fold(i64::MAX, i64::min), all.into_iter().fold(i64::MIN, i64::max))
                }
                _ => (i64::MIN, i64::MAX),
            },
            Atom::Mod(_, b) => match b.bounds(range) {
                (low, high) if low > 0 => (0, high - 1),
                _ => (i64::MIN, i64::MAX),
            },
        }
    }

    fn substitute(&self, env: &dyn Fn(Symbol) -> Option<Dim>) -> Dim {
        let pair = |a: &Dim, b: &Dim| (a.substitute(env), b.substitute(env));
        match self {
            Atom::Sym(s) => env(*s).unwrap_or_else(|| Dim::symbol(*s)),
            Atom::FloorDiv(a, b) => {
                let (a, b) = pair(a, b);
                a.floordiv(&b).unwrap_or_else(|| Dim::atom(Atom::FloorDiv(a, b)))
            }
            Atom::Mod(a, b) => {
                let (a, b) = pair(a, b);
                a.modulo(&b).unwrap_or_else(|| Dim::atom(Atom::Mod(a, b)))
            }
            Atom::Min(a, b) => {
                let (a, b) = pair(a, b);
                a.min_with(&b)
            }
            Atom::Max(a, b) => {
                let (a, b) = pair(a, b);
                a.max_with(&b)
            }
        }
    }
}

/// `a // b` rounding to minus infinity; `b` is not zero.
pub fn floor_div(a: i64, b: i64) -> i64 {
    let q = a.wrapping_div(b);
    if a.wrapping_rem(b) != 0 && ((a < 0) != (b < 0)) { q - 1 } else { q }
}

/// `a mod b` with the sign of `b`; `b` is not zero.
pub fn floor_mod(a: i64, b: i64) -> i64 {
    let r = a.wrapping_rem(b);
    if r != 0 && ((r < 0) != (b < 0)) { r + b } else { r }
}

fn product_bounds(a: (i64, i64), b: (i64, i64)) -> (i64, i64) {
    let all = [(a.0, b.0), (a.0, b.1), (a.1, b.0), (a.1, b.1)].map(|(x, y)| x.saturating_mul(y));
    (all.into_iter().fold(i64::MAX, i64::min), all.into_iter().fold(i64::MIN, i64::max))
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn ordered(a: &Dim, b: &Dim) -> (Dim, Dim) {
    if a <= b { (a.clone(), b.clone()) } else { (b.clone(), a.clone()) }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = match self {
            Dim::Known(n) => return write!(f, "{n}"),
            Dim::Expr(sum) => sum,
        };
        for (i, t) in sum.terms.iter().enumerate() {
            let magnitude = t.coeff.unsigned_abs();
            match (i, t.coeff < 0) {
                // A leading minus belongs to the number (`-1*s0`): the grammar has no unary minus.
                (0, true) => write!(f, "{}*", t.coeff)?,
                (0, false) if magnitude != 1 => write!(f, "{magnitude}*")?,
                (0, false) => {}
                (_, negative) => {
                    f.write_str(if negative { " - " } else { " + " })?;
                    if magnitude != 1 {
                        write!(f, "{magnitude}*")?;
                    }
                }
            }
            for (j, atom) in t.factors.iter().enumerate() {
                if j > 0 {
                    f.write_str("*")?;
                }
                atom.write(f, t.factors.len() > 1 || t.coeff != 1)?;
            }
        }
        match sum.constant {
            0 => Ok(()),
            c if c < 0 => write!(f, " - {}", c.unsigned_abs()),
            c => write!(f, " + {c}"),
        }
    }
}

impl Atom {
    fn write(&self, f: &mut fmt::Formatter<'_>, in_product: bool) -> fmt::Result {
        match self {
            Atom::Sym(s) => write!(f, "{s}"),
            Atom::FloorDiv(a, b) if in_product => write!(f, "({} // {})", Wrapped(a), Wrapped(b)),
            Atom::FloorDiv(a, b) => write!(f, "{} // {}", Wrapped(a), Wrapped(b)),
            Atom::Mod(a, b) => write!(f, "mod({a}, {b})"),
            Atom::Min(a, b) => write!(f, "min({a}, {b})"),
            Atom::Max(a, b) => write!(f, "max({a}, {b})"),
        }
    }
}

/// A dim as an operand of `//`: bare when it is a number or a symbol, else in parentheses.
struct Wrapped<'a>(&'a Dim);

impl fmt::Display for Wrapped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.known().is_some() || self.0.as_symbol().is_some() {
            write!(f, "{}", self.0)
        } else {
            write!(f, "({})", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(n: u32) -> Dim {
        Dim::symbol(Symbol { kind: SymKind::Input, number: n })
    }

    #[test]
    fn sums_are_canonical() {
        let a = s(0).add(&s(1)).mul(&Dim::Known(2));
        let b = s(1).scale(2).add(&s(0)).add(&s(0));
        assert_eq!(a, b);
        assert_eq!(a.to_string(), "2*s0 + 2*s1");
        assert_eq!(a.sub(&b), Dim::Known(0));
        assert_eq!(s(0).mul(&Dim::Known(-1)).add(&Dim::Known(3)).to_string(), "-1*s0 + 3");
        assert_eq!(s(2).mul(&s(1)).sub(&Dim::Known(1)).to_string(), "s1*s2 - 1");
    }

    #[test]
    fn division_simplifies_and_rounds_down() {
        assert_eq!(s(0).scale(4).floordiv(&Dim::Known(2)), Some(s(0).scale(2)));
        assert_eq!(s(0).mul(&s(1)).floordiv(&s(1)), Some(s(0)));
        assert_eq!(Dim::Known(-7).floordiv(&Dim::Known(2)), Some(Dim::Known(-4)));
        assert_eq!(Dim::Known(-7).modulo(&Dim::Known(2)), Some(Dim::Known(1)));
        assert_eq!(s(0).floordiv(&Dim::Known(0)), None);
        let half = s(1).floordiv(&Dim::Known(2)).expect("divisor is not zero");
        assert_eq!(half.to_string(), "s1 // 2");
        assert_eq!(half.scale(3).add(&s(0)).to_string(), "s0 + 3*(s1 // 2)");
        assert_eq!(half.eval(&|_| Some(7)), Some(3));
    }

    #[test]
    fn equality_is_decided_or_left_open() {
        assert_eq!(s(0).same(&s(0)), Some(true));
        assert_eq!(s(0).add(&Dim::Known(1)).same(&s(0)), Some(false));
        assert_eq!(s(0).same(&s(1)), None);
    }

    #[test]
    fn a_contradiction_needs_ranges_or_divisors() {
        let range = |_: Symbol| (1, 64);
        assert!(!s(0).contradicts(&Dim::Known(64), &range));
        assert!(s(0).contradicts(&Dim::Known(65), &range));
        assert!(s(0).scale(2).contradicts(&Dim::Known(7), &range));
        assert!(!s(0).contradicts(&s(1), &range));
        let half = s(0).floordiv(&Dim::Known(8)).expect("divisor is not zero");
        assert_eq!(half.bounds(&range), (0, 8));
        assert_eq!(Dim::sum_of([s(1), Dim::Known(2), s(0), s(1)]).to_string(), "s0 + 2*s1 + 2");
    }
}
