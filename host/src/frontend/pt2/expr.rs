//! Symbolic numbers of the model file: SymPy's constructor notation, read into a tree of our own.
//!
//! `Add(Mul(Integer(2), Symbol('s77', positive=True, integer=True)), Integer(1))` is parsed, never evaluated as code.
//! Nesting is limited to [`MAX_DEPTH`]; the tree has at most as many nodes as the text has bytes. [`Expr::eval`] computes
//! with exact rationals until a float appears, and rounds like Python: `//` and `mod` to −∞.
//! Deliberately not here: the IR's dim expressions, which know fewer functions; the importer converts.

use crate::frontend::{ModelError, ModelResult};

/// Deeper nesting is refused: as deep as the trace grammar allows.
pub const MAX_DEPTH: usize = 64;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    Int(i64),
    /// Numerator and denominator; the latter is positive.
    Ratio(i64, i64),
    Float(f64),
    Bool(bool),
    /// `s77`, `u0`, `zuf3`.
    Symbol(String),
    Call(Func, Vec<Expr>),
}

macro_rules! spelled {
    ($name:ident) => {
        stringify!($name)
    };
    ($name:ident $text:literal) => {
        $text
    };
}

macro_rules! functions {
    ($($name:ident $(= $text:literal)?),* $(,)?) => {
        /// The functions that PyTorch's shape arithmetic uses, under SymPy's names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Func { $($name),* }

        impl Func {
            fn parse(name: &str) -> Option<Self> {
                match name {
                    $(spelled!($name $($text)?) => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// The name as the file spells it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => spelled!($name $($text)?)),* }
            }
        }
    };
}

functions! {
    Add, Mul, Pow, Max, Min, FloorDiv, Mod, PythonMod, ModularIndexing, CeilDiv, CleanDiv, IntTrueDiv, FloatTrueDiv,
    FloatPow, PowByNatural, ToFloat, TruncToInt, FloorToInt, CeilToInt, RoundToInt, TruncToFloat, RoundDecimal, LShift,
    RShift, Where, Identity, Equality, Unequality, StrictLessThan, LessThan, StrictGreaterThan, GreaterThan, And, Or, Not,
    // Python's `math`, of a float.
    Sqrt = "OpaqueUnaryFn_sqrt",
    Cos = "OpaqueUnaryFn_cos",
    Cosh = "OpaqueUnaryFn_cosh",
    Sin = "OpaqueUnaryFn_sin",
    Sinh = "OpaqueUnaryFn_sinh",
    Tan = "OpaqueUnaryFn_tan",
    Tanh = "OpaqueUnaryFn_tanh",
    Asin = "OpaqueUnaryFn_asin",
    Acos = "OpaqueUnaryFn_acos",
    Atan = "OpaqueUnaryFn_atan",
    Asinh = "OpaqueUnaryFn_asinh",
    Exp = "OpaqueUnaryFn_exp",
    Log = "OpaqueUnaryFn_log",
    Log2 = "OpaqueUnaryFn_log2",
}

/// A number that an expression can have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Int(i64),
    Float(f64),
    Bool(bool),
}

impl Expr {
    /// Parses `text`.
    ///
    /// # Errors
    /// `model::expression`, with the byte at which reading stopped.
    pub fn parse(text: &str) -> ModelResult<Self> {
        let mut parser = Parser { text, at: 0 };
        let expr = parser.expr(0).map_err(|why| parser.error(why))?;
        parser.space();
        if parser.at != text.len() {
            return Err(parser.error("text behind the expression"));
        }
        Ok(expr)
    }

    /// The value under `symbols`; `None` where a symbol is unknown, a result does not fit i64, or the arithmetic has no
    /// answer (division by zero, a function applied to the wrong kind or number of arguments).
    pub fn eval(&self, symbols: &impl Fn(&str) -> Option<i64>) -> Option<Number> {
        match self.value(symbols)? {
            Value::Ratio(n, 1) => i64::try_from(n).ok().map(Number::Int),
            Value::Ratio(n, d) => Some(Number::Float(n as f64 / d as f64)),
            Value::Float(value) => Some(Number::Float(value)),
            Value::Bool(value) => Some(Number::Bool(value)),
        }
    }

    /// Calls `visit` with each symbol, repetitions included.
    pub fn for_each_symbol<'a>(&'a self, visit: &mut impl FnMut(&'a str)) {
        match self {
            Self::Symbol(name) => visit(name),
            Self::Call(_, args) => args.iter().for_each(|arg| arg.for_each_symbol(visit)),
            _ => {}
        }
    }

    fn value(&self, symbols: &impl Fn(&str) -> Option<i64>) -> Option<Value> {
        Some(match self {
            Self::Int(value) => Value::int(*value),
            Self::Ratio(n, d) => Value::ratio(i128::from(*n), i128::from(*d))?,
            Self::Float(value) => Value::Float(*value),
            Self::Bool(value) => Value::Bool(*value),
            Self::Symbol(name) => Value::int(symbols(name)?),
            Self::Call(func, args) => {
                let args: Vec<Value> = args.iter().map(|arg| arg.value(symbols)).collect::<Option<_>>()?;
                apply(*func, &args)?
            }
        })
    }
}

/// What arithmetic runs on: rationals in lowest terms (denominator positive), floats, bools.
#[derive(Clone, Copy, Debug)]
enum Value {
    Ratio(i128, i128),
    Float(f64),
    Bool(bool),
}

impl Value {
    fn int(value: i64) -> Self {
        Self::Ratio(i128::from(value), 1)
    }

    fn ratio(n: i128, d: i128) -> Option<Self> {
        if d == 0 || n == i128::MIN || d == i128::MIN {
            return None;
        }
        let (mut a, mut b) = (n.unsigned_abs(), d.unsigned_abs());
        while b != 0 {
            (a, b) = (b, a % b);
        }
        let by = i128::try_from(a.max(1)).ok()?;
        let sign = d.signum();
        Some(Self::Ratio(sign * n / by, sign * d / by))
    }

    fn to_f64(self) -> Option<f64> {
        match self {
            Self::Ratio(n, d) => Some(n as f64 / d as f64),
            Self::Float(value) => Some(value),
            Self::Bool(_) => None,
        }
    }

    fn to_int(self) -> Option<i128> {
        match self {
            Self::Ratio(n, 1) => Some(n),
            _ => None,
        }
    }

    fn from_f64_int(value: f64) -> Option<Self> {
        // 2^63 is exact in f64; what lies beyond does not fit an i64.
        (value.abs() < 9_223_372_036_854_775_808.0).then_some(Self::Ratio(value as i128, 1))
    }

    fn to_bool(self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(value),
            _ => None,
        }
    }

    fn add(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Ratio(a, b), Self::Ratio(c, d)) => {
                let n = a.checked_mul(d)?.checked_add(c.checked_mul(b)?)?;
                Self::ratio(n, b.checked_mul(d)?)
            }
            _ => Some(Self::Float(self.to_f64()? + other.to_f64()?)),
        }
    }

    fn mul(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Ratio(a, b), Self::Ratio(c, d)) => Self::ratio(a.checked_mul(c)?, b.checked_mul(d)?),
            _ => Some(Self::Float(self.to_f64()? * other.to_f64()?)),
        }
    }

    fn pow(self, exponent: Self) -> Option<Self> {
        let (Self::Ratio(n, d), Some(e)) = (self, exponent.to_int()) else {
            return Some(Self::Float(self.to_f64()?.powf(exponent.to_f64()?)));
        };
        let times = u32::try_from(e.unsigned_abs()).ok()?;
        let (n, d) = (n.checked_pow(times)?, d.checked_pow(times)?);
        if e < 0 { Self::ratio(d, n) } else { Self::ratio(n, d) }
    }

    fn compare(self, other: Self) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (Self::Ratio(a, b), Self::Ratio(c, d)) => Some(a.checked_mul(d)?.cmp(&c.checked_mul(b)?)),
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(&b)),
            _ => self.to_f64()?.partial_cmp(&other.to_f64()?),
        }
    }

    /// `floor(self / other)` of exact numbers.
    fn floor_div(self, other: Self) -> Option<i128> {
        match self.mul(other.pow(Self::int(-1))?)? {
            Self::Ratio(n, d) => Some(n.div_euclid(d)),
            _ => None,
        }
    }

    fn modulo(self, other: Self) -> Option<Self> {
        let times = self.floor_div(other)?;
        self.add(other.mul(Self::ratio(times.checked_neg()?, 1)?)?)
    }
}

fn fold(args: &[Value], combine: impl Fn(Value, Value) -> Option<Value>) -> Option<Value> {
    let (first, rest) = args.split_first()?;
    rest.iter().try_fold(*first, |so_far, next| combine(so_far, *next))
}

fn larger(a: Value, b: Value) -> Option<Value> {
    Some(if a.compare(b)?.is_ge() { a } else { b })
}

fn smaller(a: Value, b: Value) -> Option<Value> {
    Some(if a.compare(b)?.is_le() { a } else { b })
}

fn apply(func: Func, args: &[Value]) -> Option<Value> {
    match func {
        Func::Add => return fold(args, Value::add),
        Func::Mul => return fold(args, Value::mul),
        Func::Max => return fold(args, larger),
        Func::Min => return fold(args, smaller),
        Func::And => {
            return args.iter().try_fold(true, |all, arg| Some(all & arg.to_bool()?)).map(Value::Bool);
        }
        Func::Or => {
            return args.iter().try_fold(false, |any, arg| Some(any | arg.to_bool()?)).map(Value::Bool);
        }
        _ => {}
    }
    match *args {
        [a] => apply1(func, a),
        [a, b] => apply2(func, a, b),
        [a, b, c] => match func {
            Func::ModularIndexing => Value::ratio(a.floor_div(b)?, 1)?.modulo(c),
            Func::Where => Some(if a.to_bool()? { b } else { c }),
            _ => None,
        },
        _ => None,
    }
}

fn apply1(func: Func, a: Value) -> Option<Value> {
    let rounded = |exact: fn(i128, i128) -> i128, float: fn(f64) -> f64| match a {
        Value::Ratio(n, d) => Value::ratio(exact(n, d), 1),
        Value::Float(value) => Value::from_f64_int(float(value)),
        Value::Bool(_) => None,
    };
    match func {
        Func::Identity => Some(a),
        Func::Not => a.to_bool().map(|value| Value::Bool(!value)),
        Func::ToFloat => a.to_f64().map(Value::Float),
        Func::TruncToFloat => a.to_f64().map(|value| Value::Float(value.trunc())),
        Func::TruncToInt => rounded(|n, d| n / d, f64::trunc),
        Func::FloorToInt => rounded(i128::div_euclid, f64::floor),
        Func::CeilToInt => rounded(|n, d| -(-n).div_euclid(d), f64::ceil),
        Func::RoundToInt => Value::from_f64_int(a.to_f64()?.round_ties_even()),
        _ => Some(Value::Float(float_function(func)?(a.to_f64()?))),
    }
}

fn float_function(func: Func) -> Option<fn(f64) -> f64> {
    Some(match func {
        Func::Sqrt => f64::sqrt,
        Func::Cos => f64::cos,
        Func::Cosh => f64::cosh,
        Func::Sin => f64::sin,
        Func::Sinh => f64::sinh,
        Func::Tan => f64::tan,
        Func::Tanh => f64::tanh,
        Func::Asin => f64::asin,
        Func::Acos => f64::acos,
        Func::Atan => f64::atan,
        Func::Asinh => f64::asinh,
        Func::Exp => f64::exp,
        Func::Log => f64::ln,
        Func::Log2 => f64::log2,
        _ => return None,
    })
}

fn apply2(func: Func, a: Value, b: Value) -> Option<Value> {
    let truth = |hold: fn(std::cmp::Ordering) -> bool| a.compare(b).map(|order| Value::Bool(hold(order)));
    match func {
        Func::Pow | Func::PowByNatural => a.pow(b),
        Func::FloatPow => Some(Value::Float(a.to_f64()?.powf(b.to_f64()?))),
        Func::FloorDiv => Value::ratio(a.floor_div(b)?, 1),
        Func::CeilDiv => {
            let minus = Value::int(-1);
            Value::ratio(a.mul(minus)?.floor_div(b)?, 1)?.mul(minus)
        }
        Func::CleanDiv => a.mul(b.pow(Value::int(-1))?),
        Func::IntTrueDiv | Func::FloatTrueDiv => {
            let divisor = b.to_f64()?;
            (divisor != 0.0).then_some(Value::Float(a.to_f64()? / divisor))
        }
        Func::Mod | Func::PythonMod => a.modulo(b),
        Func::LShift => a.mul(Value::int(2).pow(Value::ratio(b.to_int().filter(|n| *n >= 0)?, 1)?)?),
        Func::RShift => {
            let by = Value::int(2).pow(Value::ratio(b.to_int().filter(|n| *n >= 0)?, 1)?)?;
            Value::ratio(a.floor_div(by)?, 1)
        }
        Func::Equality => truth(std::cmp::Ordering::is_eq),
        Func::Unequality => truth(std::cmp::Ordering::is_ne),
        Func::StrictLessThan => truth(std::cmp::Ordering::is_lt),
        Func::LessThan => truth(std::cmp::Ordering::is_le),
        Func::StrictGreaterThan => truth(std::cmp::Ordering::is_gt),
        Func::GreaterThan => truth(std::cmp::Ordering::is_ge),
        _ => None,
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

type Parsed<T> = Result<T, &'static str>;

impl<'a> Parser<'a> {
    fn error(&self, why: &str) -> ModelError {
        // A hostile text may be long: the message shows its beginning.
        let shown: String = self.text.chars().take(120).collect();
        ModelError::Expression { text: shown, at: self.at, why: why.to_owned() }
    }

    fn space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start_matches(' ').len();
    }

    fn take(&mut self, token: char) -> bool {
        self.space();
        let taken = self.text[self.at..].starts_with(token);
        if taken {
            self.at += token.len_utf8();
        }
        taken
    }

    fn expect(&mut self, token: char, why: &'static str) -> Parsed<()> {
        if self.take(token) { Ok(()) } else { Err(why) }
    }

    fn word(&mut self) -> Parsed<&'a str> {
        self.space();
        let rest = &self.text[self.at..];
        let len = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        if len == 0 {
            return Err("a name is missing");
        }
        self.at += len;
        Ok(&rest[..len])
    }

    fn expr(&mut self, depth: usize) -> Parsed<Expr> {
        if depth >= MAX_DEPTH {
            return Err("nested too deeply");
        }
        let word = self.word()?;
        match word {
            "true" => return Ok(Expr::Bool(true)),
            "false" => return Ok(Expr::Bool(false)),
            _ => self.expect('(', "`(` is missing")?,
        }
        match word {
            "Integer" => {
                let value = self.int()?;
                self.expect(')', "`)` is missing")?;
                Ok(Expr::Int(value))
            }
            "Rational" => {
                let n = self.int()?;
                self.expect(',', "a rational has two integers")?;
                let d = self.int()?;
                self.expect(')', "`)` is missing")?;
                if d <= 0 {
                    return Err("a denominator must be positive");
                }
                Ok(Expr::Ratio(n, d))
            }
            "Float" => {
                let value = self.quoted()?.parse().map_err(|_| "not a float")?;
                self.options()?;
                Ok(Expr::Float(value))
            }
            "Symbol" => {
                let name = self.quoted()?.to_owned();
                self.options()?;
                Ok(Expr::Symbol(name))
            }
            _ => {
                let func = Func::parse(word).ok_or("unknown function")?;
                self.args(depth).map(|args| Expr::Call(func, args))
            }
        }
    }

    fn args(&mut self, depth: usize) -> Parsed<Vec<Expr>> {
        let mut args = Vec::new();
        loop {
            if self.take(')') {
                return Ok(args);
            }
            // `Add(x, y, evaluate=False)`: how it was built says nothing of its value.
            let start = self.at;
            if self.word().is_ok() && self.take('=') {
                self.word()?;
            } else {
                self.at = start;
                args.push(self.expr(depth + 1)?);
            }
            if !self.take(',') {
                self.expect(')', "`,` or `)` is missing")?;
                return Ok(args);
            }
        }
    }

    /// `, positive=True, integer=True)`.
    fn options(&mut self) -> Parsed<()> {
        while self.take(',') {
            self.word()?;
            self.expect('=', "`=` is missing")?;
            self.word()?;
        }
        self.expect(')', "`)` is missing")
    }

    fn quoted(&mut self) -> Parsed<&'a str> {
        self.expect('\'', "a quote is missing")?;
        let rest = &self.text[self.at..];
        let len = rest.find('\'').ok_or("a quote is not closed")?;
        self.at += len + 1;
        Ok(&rest[..len])
    }

    fn int(&mut self) -> Parsed<i64> {
        self.space();
        let rest = &self.text[self.at..];
        let len = rest.find(|c: char| !(c.is_ascii_digit() || c == '-')).unwrap_or(rest.len());
        let value = rest[..len].parse().map_err(|_| "not an integer of 64 bits")?;
        self.at += len;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eval(text: &str) -> Option<Number> {
        let expr = Expr::parse(text).expect("parses");
        expr.eval(&|name| match name {
            "s77" => Some(7),
            "s3" => Some(-7),
            _ => None,
        })
    }

    #[test]
    fn sizes_of_real_files() {
        let s77 = "Symbol('s77', positive=True, integer=True)";
        assert_eq!(eval(s77), Some(Number::Int(7)));
        assert_eq!(eval(&format!("Add(Mul(Integer(2), {s77}), Integer(-1))")), Some(Number::Int(13)));
        assert_eq!(eval(&format!("FloorDiv({s77}, Integer(2))")), Some(Number::Int(3)));
        assert_eq!(eval(&format!("Mul(Rational(1, 7), {s77})")), Some(Number::Int(1)));
        assert_eq!(eval(&format!("Mul({s77}, Pow(Integer(2), Integer(-1)))")), Some(Number::Float(3.5)));
        assert_eq!(eval(&format!("Max(Integer(1), {s77})")), Some(Number::Int(7)));
        assert_eq!(
            eval(&format!("FloatPow(ToFloat({s77}), Float('0.5', precision=53))")),
            Some(Number::Float(7f64.powf(0.5)))
        );
        assert_eq!(eval(&format!("StrictLessThan({s77}, Integer(7))")), Some(Number::Bool(false)));
        assert_eq!(eval(&format!("OpaqueUnaryFn_sqrt(ToFloat({s77}))")), Some(Number::Float(7f64.sqrt())));
    }

    #[test]
    fn division_rounds_down() {
        let s3 = "Symbol('s3', integer=True)";
        assert_eq!(eval(&format!("FloorDiv({s3}, Integer(2))")), Some(Number::Int(-4)));
        assert_eq!(eval(&format!("PythonMod({s3}, Integer(2))")), Some(Number::Int(1)));
        assert_eq!(eval(&format!("Mod({s3}, Integer(-4))")), Some(Number::Int(-3)));
        assert_eq!(eval(&format!("CeilDiv({s3}, Integer(2))")), Some(Number::Int(-3)));
        assert_eq!(eval(&format!("TruncToInt(IntTrueDiv({s3}, Integer(2)))")), Some(Number::Int(-3)));
        assert_eq!(eval("ModularIndexing(Integer(100), Integer(7), Integer(5))"), Some(Number::Int(4)));
    }

    #[test]
    fn no_answer_is_none() {
        for text in [
            "FloorDiv(Integer(1), Integer(0))",
            "Symbol('u0', integer=True)",
            "Mul(Integer(9223372036854775807), Integer(2))",
            "Pow(Integer(10), Integer(400))",
            "Add()",
            "Not(Integer(1))",
            "LShift(Integer(1), Integer(-1))",
            "IntTrueDiv(Integer(1), Integer(0))",
        ] {
            assert_eq!(eval(text), None, "{text}");
        }
    }

    #[test]
    fn broken_texts_are_errors() {
        let deep = format!("{}Integer(1){}", "Identity(".repeat(100_000), ")".repeat(100_000));
        for text in [
            "",
            "(",
            "Integer(",
            "Integer(1",
            "Integer(1))",
            "Integer(99999999999999999999)",
            "Integer(1-2)",
            "Symbol(s0)",
            "Symbol('s0",
            "Rational(1, 0)",
            "Float('x', precision=53)",
            "Frobnicate(Integer(1))",
            "Add(Integer(1) Integer(2))",
            "é",
            "__import__('os').system('true')",
            &deep,
        ] {
            let error = Expr::parse(text).expect_err(text);
            assert_eq!(error.code_text(), "model::expression");
        }
    }
}
