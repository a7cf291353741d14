//! Arguments, literals and dim expressions, as text.
//!
//! Dim expressions are made canonical while they are read. A short text can stand for a very large sum of products
//! (`(s0 + s1)*(s0 + s1)*…`), so what is built is measured and bounded, and work stays linear in the text.

use super::lex::Kind;
use super::parse::{MAX_NESTING, Parser, Read, shortened};
use crate::ir::fault::Code;
use crate::ir::{Arg, Device, Dim, Dtype, NoSchemas, SymKind, Symbol, Trace};

/// Most leaves that an expression may have when written out.
const MAX_WEIGHT: u32 = 1024;
/// Most work on one expression: terms made or moved.
const MAX_WORK: u32 = 1 << 16;
/// Most open parentheses: each level of `//` may print with two pairs of them.
const MAX_PARENS: usize = 2 * MAX_NESTING;

/// An expression with a bound on its size and its nesting when written out.
struct Measured {
    dim: Dim,
    weight: u32,
    depth: usize,
}

impl Measured {
    fn leaf(dim: Dim) -> Measured {
        Measured { dim, weight: 1, depth: 0 }
    }
}

/// `s0`, `u12`.
pub(super) fn symbol_of(word: &str) -> Option<Symbol> {
    let kind = match word.as_bytes().first()? {
        b's' => SymKind::Input,
        b'u' => SymKind::Data,
        _ => return None,
    };
    let digits = &word[1..];
    // `s01` is not how a symbol prints.
    let canonical = digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    canonical.then(|| digits.parse().ok()).flatten().map(|number| Symbol { kind, number })
}

/// A dim expression that stands alone; the error says what is wrong with it.
pub(super) fn parse_dim(text: &str) -> Result<Dim, String> {
    let mut p = Parser::new(text, &NoSchemas);
    let dim = p.dim().and_then(|d| p.want_kind(Kind::End, "the end of the expression").map(|_| d));
    dim.map_err(|_| p.first_message())
}

impl Parser<'_> {
    /// An argument: a value, a list, a nested trace, or a literal.
    pub(super) fn value(&mut self, trace: &mut Trace, depth: usize) -> Read<Arg> {
        let t = self.peek()?;
        match t.kind {
            Kind::Value => Ok(Arg::Value(self.value_use(trace)?)),
            Kind::Mark("&") => {
                self.take()?;
                let name = self.want_kind(Kind::Word, "a trace's name")?;
                Ok(Arg::Trace(self.intern(self.str(name))))
            }
            Kind::Mark("[") => self.list(depth, &mut |p, d| p.value(trace, d)),
            _ => self.scalar(),
        }
    }

    /// A literal.
    pub(super) fn literal(&mut self) -> Read<Arg> {
        self.literal_at(0)
    }

    fn literal_at(&mut self, depth: usize) -> Read<Arg> {
        match self.is_mark("[")? {
            true => self.list(depth, &mut |p, d| p.literal_at(d)),
            false => self.scalar(),
        }
    }

    fn list(&mut self, depth: usize, item: &mut dyn FnMut(&mut Self, usize) -> Read<Arg>) -> Read<Arg> {
        let at = self.want("[")?;
        if depth >= MAX_NESTING {
            return self.stop(Code::Limit, at, format!("lists nest deeper than {MAX_NESTING}"));
        }
        let mut items = Vec::new();
        if self.eat("]")? {
            return Ok(Arg::List(items));
        }
        loop {
            items.push(item(self, depth + 1)?);
            if !self.eat(",")? {
                self.want("]")?;
                return Ok(Arg::List(items));
            }
        }
    }

    /// A literal that is no list.
    fn scalar(&mut self) -> Read<Arg> {
        let t = self.peek()?;
        match t.kind {
            Kind::Float => self.float().map(Arg::Float),
            Kind::Str => self.string_name().map(Arg::Str),
            Kind::Device => self.device().map(Arg::Device),
            Kind::Word => match self.keyword()? {
                Some(arg) => Ok(arg),
                None => self.dim().map(Arg::dim),
            },
            Kind::Int | Kind::Mark("(") => self.dim().map(Arg::dim),
            _ => self.unexpected("a value"),
        }
    }

    /// A literal that is a word.
    fn keyword(&mut self) -> Read<Option<Arg>> {
        let t = self.peek()?;
        let arg = match self.str(t) {
            "true" => Arg::Bool(true),
            "false" => Arg::Bool(false),
            "none" => Arg::None,
            "cpu" => Arg::Device(Device::Cpu),
            "complex" => return self.complex().map(Some),
            word => match Dtype::from_name(word) {
                Some(d) => Arg::Dtype(d),
                None => return Ok(None),
            },
        };
        self.take()?;
        Ok(Some(arg))
    }

    fn complex(&mut self) -> Read<Arg> {
        self.take()?;
        self.want("(")?;
        let re = self.float()?;
        self.want(",")?;
        let im = self.float()?;
        self.want(")")?;
        Ok(Arg::Complex(re, im))
    }

    fn float(&mut self) -> Read<f64> {
        let t = self.want_kind(Kind::Float, "a float (`1.0`)")?;
        let text = self.str(t);
        match text {
            "inf" => return Ok(f64::INFINITY),
            "-inf" => return Ok(f64::NEG_INFINITY),
            "nan" => return Ok(f64::NAN),
            _ => {}
        }
        match text.parse::<f64>() {
            Ok(x) if x.is_finite() => Ok(x),
            _ => self.stop(Code::Number, t.start, format!("`{}` does not fit f64", shortened(text))),
        }
    }

    /// An integer.
    pub(super) fn int(&mut self) -> Read<i64> {
        let t = self.want_kind(Kind::Int, "an integer")?;
        let text = self.str(t);
        match text.parse() {
            Ok(n) => Ok(n),
            Err(_) => self.stop(Code::Number, t.start, format!("`{}` does not fit i64", shortened(text))),
        }
    }

    /// `cuda:0`.
    pub(super) fn device(&mut self) -> Read<Device> {
        let t = self.want_kind(Kind::Device, "a device")?;
        let text = self.str(t);
        let (kind, index) = text.split_once(':').expect("the lexer saw the colon");
        match index.parse() {
            Ok(index) if kind != "cpu" => Ok(Device::Other { kind: self.intern(kind), index }),
            Ok(_) => {
                self.stop(Code::Number, t.start, format!("`{}`: the host's memory is `cpu`", shortened(text)))
            }
            Err(_) => self.stop(Code::Number, t.start, format!("`{}` is no device", shortened(text))),
        }
    }

    // ---- dim expressions ---------------------------------------------------------------------------------------

    /// A dim expression, canonical.
    pub(super) fn dim(&mut self) -> Read<Dim> {
        let mut work = 0;
        Ok(self.sum(0, &mut work)?.dim)
    }

    /// `a + b - c`.
    fn sum(&mut self, parens: usize, work: &mut u32) -> Read<Measured> {
        let at = self.at()?;
        let first = self.product(parens, work)?;
        let (mut weight, mut depth) = (first.weight, first.depth);
        let mut all = vec![first.dim];
        loop {
            let minus = self.is_mark("-")?;
            if !minus && !self.is_mark("+")? {
                break;
            }
            self.take()?;
            if minus && self.eat_lowest()? {
                all.push(Dim::Known(i64::MIN).mul(&self.rest_of_product(parens, work)?));
                weight += 1;
                continue;
            }
            let next = self.product(parens, work)?;
            weight = weight.saturating_add(next.weight);
            depth = depth.max(next.depth);
            self.charge(at, next.weight, weight, depth, work)?;
            all.push(if minus { next.dim.neg() } else { next.dim });
        }
        let dim = if all.len() == 1 { all.remove(0) } else { Dim::sum_of(all) };
        Ok(Measured { dim, weight, depth })
    }

    /// After a minus: 2^63, which only its negative fits into i64. It prints so, as a magnitude behind ` - `.
    fn eat_lowest(&mut self) -> Read<bool> {
        let t = self.peek()?;
        let is = t.kind == Kind::Int && self.str(t) == "9223372036854775808";
        if is {
            self.take()?;
        }
        Ok(is)
    }

    fn rest_of_product(&mut self, parens: usize, work: &mut u32) -> Read<Dim> {
        if self.eat("*")? { Ok(self.product(parens, work)?.dim) } else { Ok(Dim::Known(1)) }
    }

    /// `a * b // c`.
    fn product(&mut self, parens: usize, work: &mut u32) -> Read<Measured> {
        let at = self.at()?;
        let mut left = self.factor(parens, work)?;
        loop {
            let divide = self.is_mark("//")?;
            if !divide && !self.is_mark("*")? {
                return Ok(left);
            }
            self.take()?;
            let right = self.factor(parens, work)?;
            let (a, b) = (left.dim.n_terms() as u32, right.dim.n_terms() as u32);
            let (dim, weight, depth) = if divide {
                let weight = left.weight + right.weight;
                let depth = left.depth.max(right.depth) + 1;
                self.charge(at, weight, weight, depth, work)?;
                (left.dim.floordiv(&right.dim), weight, depth)
            } else {
                // Each term meets each: what is multiplied out is this large at most.
                let weight = left.weight.saturating_mul(b).saturating_add(right.weight.saturating_mul(a));
                let known = left.dim.known().is_some() || right.dim.known().is_some();
                let weight = if known { left.weight.max(right.weight) + a.max(b) } else { weight };
                let depth = left.depth.max(right.depth);
                self.charge(at, weight, weight, depth, work)?;
                (Some(left.dim.mul(&right.dim)), weight, depth)
            };
            let Some(dim) = dim else {
                return self.stop(Code::Number, at, "a division by zero".to_string());
            };
            left = Measured { dim, weight, depth };
        }
    }

    fn factor(&mut self, parens: usize, work: &mut u32) -> Read<Measured> {
        let t = self.peek()?;
        if parens > MAX_PARENS {
            return self.stop(
                Code::Limit,
                t.start,
                format!("dim expressions nest deeper than {MAX_NESTING}"),
            );
        }
        match t.kind {
            Kind::Int => Ok(Measured::leaf(Dim::Known(self.int()?))),
            Kind::Mark("(") => {
                self.take()?;
                let inner = self.sum(parens + 1, work)?;
                self.want(")")?;
                Ok(inner)
            }
            Kind::Word => self.named_factor(parens, work),
            _ => self.unexpected("a size (an integer, a symbol, an expression)"),
        }
    }

    /// A symbol, or a function of two expressions.
    fn named_factor(&mut self, parens: usize, work: &mut u32) -> Read<Measured> {
        let t = self.peek()?;
        let word = self.str(t);
        if let Some(symbol) = symbol_of(word) {
            self.take()?;
            return Ok(Measured::leaf(Dim::symbol(symbol)));
        }
        if !matches!(word, "min" | "max" | "mod") {
            return self.unexpected("a value (text stands between quotes)");
        }
        self.take()?;
        self.want("(")?;
        let a = self.sum(parens + 1, work)?;
        self.want(",")?;
        let b = self.sum(parens + 1, work)?;
        self.want(")")?;
        let (weight, depth) = (a.weight + b.weight, a.depth.max(b.depth) + 1);
        self.charge(t.start, weight, weight, depth, work)?;
        let dim = match word {
            "min" => Some(a.dim.min_with(&b.dim)),
            "max" => Some(a.dim.max_with(&b.dim)),
            _ => a.dim.modulo(&b.dim),
        };
        match dim {
            Some(dim) => Ok(Measured { dim, weight, depth }),
            None => self.stop(Code::Number, t.start, "a division by zero".to_string()),
        }
    }

    /// Refuses what is or would become too large, before it is built.
    fn charge(&mut self, at: u32, cost: u32, weight: u32, depth: usize, work: &mut u32) -> Read<()> {
        *work = work.saturating_add(cost);
        if weight > MAX_WEIGHT || *work > MAX_WORK {
            let message = format!("the dim expression has more than {MAX_WEIGHT} terms when written out");
            return self.stop(Code::Limit, at, message);
        }
        if depth > MAX_NESTING {
            return self.stop(Code::Limit, at, format!("dim expressions nest deeper than {MAX_NESTING}"));
        }
        Ok(())
    }
}
