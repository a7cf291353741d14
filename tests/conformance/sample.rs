//! Sample calls of the op table made real: the text of a sample, for one dtype, becomes a program of one op with its
//! inputs.
//!
//! Values are drawn from a counter, so that a case is the same in every run.

#![allow(dead_code)] // each test crate uses a part

use thunderhead::ir::{
    Arg, Device, Dim, Dtype, Module, Name, Output, Role, RoleKind, Stage, TensorType, Trace, TraceParam,
};
use thunderhead::ops::{Builder, Op, OpError};
use thunderhead::{Program, Tensor, Value};

/// A program of one op, and what it is run on.
pub struct Case {
    /// The program.
    pub program: Program,
    /// Its inputs.
    pub inputs: Vec<Value>,
}

/// Whether the sample leaves a dtype open.
pub fn is_generic(text: &str) -> bool {
    text.match_indices("T[").any(|(at, _)| !text[..at].ends_with(|c: char| c.is_alphanumeric()))
}

/// The sample for that dtype. An error is the op's: it does not take that dtype.
pub fn case(op: &'static Op, text: &str, dtype: Dtype) -> Result<Case, OpError> {
    let mut reader =
        Reader { rest: text, dtype, trace: Trace::new("forward", Stage::Acquired), inputs: Vec::new() };
    let args = reader.arguments(op);
    let Reader { mut trace, inputs, .. } = reader;
    let mut builder = Builder::top(&mut trace);
    let results = builder.call_op(op, args)?;
    trace.body = builder.finish();
    for (n, value) in results.into_iter().filter(|result| !result.is_none()).enumerate() {
        trace.outputs.push(Output { value, name: Some(format!("out{n}").into()) });
    }
    Ok(Case { program: Program::from_module(Module { dims: Vec::new(), traces: vec![trace] }), inputs })
}

/// Reads a sample from left to right; a text that it cannot read is the table's fault and ends the test.
struct Reader<'a> {
    rest: &'a str,
    dtype: Dtype,
    trace: Trace,
    inputs: Vec<Value>,
}

impl<'a> Reader<'a> {
    /// All arguments in the schema's order, defaults filled in.
    fn arguments(&mut self, op: &'static Op) -> Vec<Arg> {
        let schema = thunderhead::ops::table::schema_of(op);
        let mut args: Vec<Option<Arg>> = vec![None; schema.params.len()];
        // By position come those that may be tensors; all others have names.
        let mut positions = (0..schema.params.len()).filter(|place| schema.params[*place].ty.takes_tensor());
        while !self.at_end() {
            let place = match self.name_before_equals() {
                Some(name) => {
                    schema.index(name).unwrap_or_else(|| panic!("{}: no parameter `{name}`", op.name))
                }
                None => positions
                    .next()
                    .or_else(|| args.iter().position(Option::is_none))
                    .expect("a parameter for it"),
            };
            args[place] = Some(self.value());
            self.skip(",");
        }
        let complete = |(given, param): (Option<Arg>, &thunderhead::ir::schema::Param)| {
            given
                .or_else(|| param.absent_value())
                .unwrap_or_else(|| panic!("{}: `{}` is missing", op.name, param.name))
        };
        args.into_iter().zip(&schema.params).map(complete).collect()
    }

    fn at_end(&mut self) -> bool {
        self.rest = self.rest.trim_start();
        self.rest.is_empty()
    }

    /// Goes over `token` if it is next.
    fn skip(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn take_while(&mut self, holds: impl Fn(char) -> bool) -> &'a str {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c| !holds(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn name_before_equals(&mut self) -> Option<&'a str> {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c: char| !(c.is_alphanumeric() || c == '_'))?;
        let rest = self.rest[end..].strip_prefix('=')?;
        let name = &self.rest[..end];
        self.rest = rest;
        Some(name)
    }

    fn value(&mut self) -> Arg {
        if self.skip("[") || self.skip("(") {
            let mut items = Vec::new();
            while !(self.skip("]") || self.skip(")")) {
                items.push(self.value());
                self.skip(",");
            }
            return Arg::List(items);
        }
        if self.skip("\"") {
            let text = self.take_while(|c| c != '"');
            self.skip("\"");
            return Arg::str(text);
        }
        let word = self.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '+'));
        if self.rest.starts_with('[') {
            let dtype = if word == "T" { Some(self.dtype) } else { Dtype::from_name(word) };
            return self.tensor(dtype.unwrap_or_else(|| panic!("`{word}` is no dtype")));
        }
        match word {
            "none" => return Arg::None,
            "true" => return Arg::Bool(true),
            "false" => return Arg::Bool(false),
            "T" => return Arg::Dtype(self.dtype),
            "cpu" => return Arg::Device(Device::Cpu),
            _ => {}
        }
        if let Some(dtype) = Dtype::from_name(word) {
            return Arg::Dtype(dtype);
        }
        if let Ok(int) = word.parse::<i64>() {
            return Arg::Int(int);
        }
        Arg::Float(word.parse().unwrap_or_else(|_| panic!("`{word}` is no value; then `{}`", self.rest)))
    }

    /// `[2, 3]{pos}` behind a dtype: an input of the program.
    fn tensor(&mut self, dtype: Dtype) -> Arg {
        self.skip("[");
        let mut dims = Vec::new();
        while !self.skip("]") {
            let dim = self.take_while(|c| c.is_ascii_digit());
            dims.push(dim.parse::<i64>().unwrap_or_else(|_| panic!("`{dim}` is no dim")));
            self.skip(",");
        }
        let filling = if self.rest.starts_with('{') {
            self.skip("{");
            let filling = self.take_while(|c| c != '}');
            self.skip("}");
            filling
        } else {
            ""
        };
        let n = self.inputs.len();
        self.inputs.push(Value::Tensor(filled(dtype, &dims, filling, n as u64)));
        let ty = TensorType::new(dims.into_iter().map(Dim::Known).collect::<Vec<_>>(), dtype);
        let name: Name = format!("in{n}").into();
        let value = self.trace.add_value(name.clone(), ty.into());
        let role = Role { kind: RoleKind::Input, name: Some(name), frozen: false };
        self.trace.params.push(TraceParam { value, role });
        Arg::Value(value)
    }
}

/// A tensor of that filling; complex elements have the filling in both parts.
pub fn filled(dtype: Dtype, dims: &[i64], filling: &str, salt: u64) -> Tensor {
    if filling == "posdef" {
        return positive_definite(dtype, dims, salt);
    }
    let n = dims.iter().product::<i64>() as usize;
    let parts = if dtype.is_complex() { 2 } else { 1 };
    let mut values: Vec<f64> = (0..n * parts).map(|at| element(dtype, filling, salt, at as u64)).collect();
    if filling == "sorted" {
        values.sort_by(f64::total_cmp);
    }
    let bytes: Vec<u8> = values.into_iter().flat_map(|value| encoded(dtype, value)).collect();
    Tensor::from_bytes(dtype, dims, &bytes).expect("as many bytes as the dims ask for")
}

/// Hermitian matrices in the last two dims whose diagonal outweighs the rest.
fn positive_definite(dtype: Dtype, dims: &[i64], salt: u64) -> Tensor {
    let n = *dims.last().expect("a matrix") as usize;
    let count = dims.iter().product::<i64>() as usize;
    let mut bytes = Vec::new();
    for at in 0..count {
        let (matrix, row, column) = (at / (n * n), at / n % n, at % n);
        // One number for both sides of the diagonal, turned on one of them.
        let place = (matrix * n * n + row.min(column) * n + row.max(column)) as u64;
        let draw = |part: u64| unit(salt * 0x1_0001 + 2 * place + part) - 0.5;
        let diagonal = if row == column { n as f64 } else { 0.0 };
        bytes.extend(encoded(dtype, draw(0) + diagonal));
        if dtype.is_complex() {
            let sign = [0.0, 1.0, -1.0][usize::from(row < column) + 2 * usize::from(row > column)];
            bytes.extend(encoded(dtype, sign * draw(1)));
        }
    }
    Tensor::from_bytes(dtype, dims, &bytes).expect("as many bytes as the dims ask for")
}

fn element(dtype: Dtype, filling: &str, salt: u64, at: u64) -> f64 {
    let unit = unit(salt * 0x1_0001 + at);
    let inexact = dtype.is_inexact();
    if let Some((lo, hi)) = filling.split_once("..") {
        let (lo, hi): (f64, f64) = (lo.parse().expect("a number"), hi.parse().expect("a number"));
        return (lo + unit * (hi - lo)).floor();
    }
    let unsigned = matches!(dtype, Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64);
    match filling {
        "unit" if inexact => 0.025 + unit * 0.95,
        "pos" if inexact => 0.1 + unit * 2.0,
        "pos" => 1.0 + (unit * 4.0).floor(),
        "nonzero" if inexact => {
            if unit < 0.5 {
                -0.5 - unit
            } else {
                0.5 + unit
            }
        }
        "nonzero" => 1.0 + (unit * 4.0).floor(),
        "nonfinite" if inexact => match at % 5 {
            1 => f64::NAN,
            2 => f64::INFINITY,
            3 => f64::NEG_INFINITY,
            _ => unit * 4.0 - 2.0,
        },
        _ if dtype == Dtype::Bool => f64::from(u8::from(unit < 0.5)),
        _ if inexact => unit * 4.0 - 2.0,
        _ if unsigned => (unit * 8.0).floor(),
        _ => (unit * 9.0).floor() - 4.0,
    }
}

/// SplitMix64, as a number in [0, 1).
fn unit(counter: u64) -> f64 {
    let mut z = counter.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// One element (or one part of a complex one) as bytes.
pub fn encoded(dtype: Dtype, value: f64) -> Vec<u8> {
    match dtype {
        Dtype::Bool => vec![u8::from(value != 0.0)],
        Dtype::U8 => vec![value as u8],
        Dtype::I8 => vec![(value as i8) as u8],
        Dtype::I16 => (value as i16).to_ne_bytes().to_vec(),
        Dtype::U16 => (value as u16).to_ne_bytes().to_vec(),
        Dtype::I32 => (value as i32).to_ne_bytes().to_vec(),
        Dtype::U32 => (value as u32).to_ne_bytes().to_vec(),
        Dtype::I64 => (value as i64).to_ne_bytes().to_vec(),
        Dtype::U64 => (value as u64).to_ne_bytes().to_vec(),
        Dtype::F16 => half::f16::from_f64(value).to_ne_bytes().to_vec(),
        Dtype::Bf16 => half::bf16::from_f64(value).to_ne_bytes().to_vec(),
        Dtype::F32 | Dtype::C64 => (value as f32).to_ne_bytes().to_vec(),
        Dtype::F64 | Dtype::C128 => value.to_ne_bytes().to_vec(),
        other => panic!("samples of {} are not made", other.name()),
    }
}

/// The elements as numbers; complex ones as two.
pub fn decoded(tensor: &Tensor) -> Vec<f64> {
    let bytes = tensor.to_bytes().expect("a dense copy fits in memory");
    let dtype = tensor.dtype();
    let size = if dtype.is_complex() { dtype.size_bytes() / 2 } else { dtype.size_bytes() };
    bytes.chunks_exact(size).map(|raw| number(dtype, raw)).collect()
}

fn number(dtype: Dtype, raw: &[u8]) -> f64 {
    macro_rules! of {
        ($t:ty) => {
            <$t>::from_ne_bytes(raw.try_into().expect("an element's bytes"))
        };
    }
    match dtype {
        Dtype::Bool | Dtype::U8 => f64::from(raw[0]),
        Dtype::I8 => f64::from(raw[0] as i8),
        Dtype::I16 => f64::from(of!(i16)),
        Dtype::U16 => f64::from(of!(u16)),
        Dtype::I32 => f64::from(of!(i32)),
        Dtype::U32 => f64::from(of!(u32)),
        Dtype::I64 => of!(i64) as f64,
        Dtype::U64 => of!(u64) as f64,
        Dtype::F16 => f64::from(of!(half::f16)),
        Dtype::Bf16 => f64::from(of!(half::bf16)),
        Dtype::F32 | Dtype::C64 => f64::from(of!(f32)),
        Dtype::F64 | Dtype::C128 => of!(f64),
        other => panic!("results of {} are not compared", other.name()),
    }
}
