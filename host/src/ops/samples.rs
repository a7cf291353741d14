//! Sample calls: text that the conformance suite multiplies by dtypes, layouts and sizes.
//!
//! A sample is an argument list as in the trace format (what may be a tensor by position, all else by name; where
//! nothing may be a tensor, by position), with tensors written by their type and filling:
//! `T[2, 3]` has the case's dtype, `i64[4]{0..10}` integers from 0 up to 10, 10 not included, `T[3]{pos}` positive
//! values, `T[3, 3]{posdef}` a Hermitian positive-definite matrix, `T[0]` no element, `T[]` zero-dim, `T[2, 3]{nonfinite}` NaN and infinities among the values. Absent: `none`.
//! This file reads the text into a description; whoever runs a sample makes the data (no tensor lives in this room).

use crate::ir::{Arg, Device, Dtype, Schema, TensorType, ValueId};

/// A sample call.
#[derive(Clone, Copy, Debug)]
pub struct Sample(pub &'static str);

/// One argument of a sample.
#[derive(Clone, PartialEq, Debug)]
pub enum SampleArg {
    /// A tensor to be made.
    Tensor(SampleTensor),
    /// A list with tensors in it.
    List(Vec<SampleArg>),
    /// The case's dtype.
    CaseDtype,
    /// Anything else, as it stands in a trace.
    Plain(Arg),
}

/// A tensor of a sample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SampleTensor {
    /// Its dtype; none: the case's.
    pub dtype: Option<Dtype>,
    /// Sizes.
    pub dims: Vec<i64>,
    /// Which values it holds.
    pub fill: Fill,
}

/// Values of a tensor. Where a dtype cannot hold what is asked for (NaN in integers) the nearest it can is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fill {
    /// Ordinary values around zero, of both signs.
    Any,
    /// `pos`: above zero.
    Positive,
    /// `nonzero`: of both signs, none near zero.
    NonZero,
    /// `unit`: from 0 to 1.
    Unit,
    /// `sorted`: not falling along the last dim.
    Sorted,
    /// `posdef`: matrices in the last two dims that are Hermitian and positive-definite.
    PositiveDefinite,
    /// `nonfinite`: NaN, infinities and zeros of both signs among ordinary values.
    NonFinite,
    /// `lo..hi`: integers, `hi` not included.
    Range(i64, i64),
}

impl SampleTensor {
    /// Its type where the case's dtype is `case`.
    pub fn ty(&self, case: Dtype) -> TensorType {
        let dims: Vec<_> = self.dims.iter().map(|n| (*n).into()).collect();
        TensorType::new(dims, self.dtype.unwrap_or(case))
    }
}

impl SampleArg {
    /// The argument in a case of that dtype, with a value for each tensor as `value` gives it, in order.
    pub fn to_arg(&self, case: Dtype, value: &mut dyn FnMut(&SampleTensor) -> ValueId) -> Arg {
        match self {
            SampleArg::Tensor(t) => Arg::Value(value(t)),
            SampleArg::List(items) => Arg::List(items.iter().map(|i| i.to_arg(case, value)).collect()),
            SampleArg::CaseDtype => Arg::Dtype(case),
            SampleArg::Plain(a) => a.clone(),
        }
    }
}

impl Sample {
    /// The arguments in schema order, complete: those that the text leaves out have their default.
    pub fn read(&self, schema: &Schema) -> Result<Vec<SampleArg>, String> {
        let mut args: Vec<Option<SampleArg>> = vec![None; schema.params.len()];
        let mut reader = Reader { rest: self.0.trim() };
        let no_tensor = !schema.params.iter().any(|p| p.ty.takes_tensor());
        let mut places = (0..args.len()).filter(|i| no_tensor || schema.params[*i].ty.takes_tensor());
        while !reader.rest.is_empty() {
            let at = match reader.argument_name() {
                Some(name) => {
                    schema.index(name).ok_or_else(|| format!("`{}`: no parameter `{name}`", self.0))?
                }
                None => places.next().ok_or_else(|| format!("`{}`: too many by position", self.0))?,
            };
            args[at] = Some(reader.value().map_err(|what| format!("`{}`: {what}", self.0))?);
            if !reader.rest.is_empty() {
                reader.expect(',').map_err(|what| format!("`{}`: {what}", self.0))?;
            }
        }
        schema
            .params
            .iter()
            .zip(args)
            .map(|(p, arg)| {
                arg.or_else(|| p.absent_value().map(SampleArg::Plain))
                    .ok_or_else(|| format!("`{}`: `{}` is missing", self.0, p.name))
            })
            .collect()
    }
}

struct Reader {
    rest: &'static str,
}

impl Reader {
    /// `axis=` at the head, taken.
    fn argument_name(&mut self) -> Option<&'static str> {
        let (name, rest) = self.rest.split_once('=')?;
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name {
            return None;
        }
        self.rest = rest;
        Some(name)
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        self.rest = self
            .rest
            .trim_start()
            .strip_prefix(wanted)
            .ok_or_else(|| format!("`{wanted}` is wanted before `{}`", self.rest))?
            .trim_start();
        Ok(())
    }

    fn value(&mut self) -> Result<SampleArg, String> {
        if self.rest.starts_with('[') {
            return self.list();
        }
        if self.rest.starts_with('"') {
            return self.string().map(SampleArg::Plain);
        }
        let end = self.rest.find([',', ']', '[', '(', ')']).unwrap_or(self.rest.len());
        let word = self.take(end).trim_end();
        let dtype = Dtype::from_name(word);
        if self.rest.starts_with('[') && (dtype.is_some() || word == "T") {
            return self.tensor(dtype).map(SampleArg::Tensor);
        }
        if word == "T" {
            return Ok(SampleArg::CaseDtype);
        }
        if word == "complex" {
            return self.complex().map(SampleArg::Plain);
        }
        Ok(SampleArg::Plain(match word {
            "none" => Arg::None,
            "true" => Arg::Bool(true),
            "false" => Arg::Bool(false),
            "cpu" => Arg::Device(Device::Cpu),
            _ => match (dtype, word.parse::<i64>(), word.parse::<f64>()) {
                (Some(d), ..) => Arg::Dtype(d),
                (None, Ok(n), _) => Arg::Int(n),
                (None, _, Ok(x)) => Arg::Float(x),
                _ => return Err(format!("`{word}` is no value")),
            },
        }))
    }

    fn take(&mut self, end: usize) -> &'static str {
        let (head, rest) = self.rest.split_at(end);
        self.rest = rest;
        head
    }

    /// A list; of literals only it is one literal.
    fn list(&mut self) -> Result<SampleArg, String> {
        self.expect('[')?;
        let mut items = Vec::new();
        while !self.rest.starts_with(']') {
            items.push(self.value()?);
            if !self.rest.starts_with(']') {
                self.expect(',')?;
            }
        }
        self.expect(']')?;
        let plain: Option<Vec<Arg>> = items
            .iter()
            .map(|i| match i {
                SampleArg::Plain(a) => Some(a.clone()),
                _ => None,
            })
            .collect();
        Ok(plain.map_or(SampleArg::List(items), |l| SampleArg::Plain(Arg::List(l))))
    }

    fn string(&mut self) -> Result<Arg, String> {
        let body = &self.rest[1..];
        let end = body.find('"').ok_or_else(|| format!("`{}` does not end", self.rest))?;
        let text = &body[..end];
        self.rest = body[end + 1..].trim_start();
        Ok(Arg::str(text))
    }

    /// `(re, im)`.
    fn complex(&mut self) -> Result<Arg, String> {
        let (inside, rest) = self
            .rest
            .strip_prefix('(')
            .and_then(|r| r.split_once(')'))
            .ok_or_else(|| format!("`(re, im)` is wanted at `{}`", self.rest))?;
        self.rest = rest.trim_start();
        let parts: Option<Vec<f64>> = inside.split(',').map(|p| p.trim().parse().ok()).collect();
        match parts.as_deref() {
            Some([re, im]) => Ok(Arg::Complex(*re, *im)),
            _ => Err(format!("`({inside})` is no complex number")),
        }
    }

    /// Dims and filling, behind the dtype.
    fn tensor(&mut self, dtype: Option<Dtype>) -> Result<SampleTensor, String> {
        let (sizes, rest) = self.rest[1..].split_once(']').ok_or("`]` is missing")?;
        let dims = sizes
            .split(',')
            .map(str::trim)
            .filter(|s| !s.is_empty())
            .map(|s| s.parse().map_err(|_| format!("`{s}` is no size")))
            .collect::<Result<_, _>>()?;
        self.rest = rest.trim_start();
        let mut fill = Fill::Any;
        if let Some(r) = self.rest.strip_prefix('{') {
            let (word, rest) = r.split_once('}').ok_or("`}` is missing")?;
            fill = fill_of(word)?;
            self.rest = rest.trim_start();
        }
        Ok(SampleTensor { dtype, dims, fill })
    }
}

fn fill_of(word: &str) -> Result<Fill, String> {
    Ok(match word {
        "pos" => Fill::Positive,
        "nonzero" => Fill::NonZero,
        "unit" => Fill::Unit,
        "sorted" => Fill::Sorted,
        "posdef" => Fill::PositiveDefinite,
        "nonfinite" => Fill::NonFinite,
        _ => {
            let bounds =
                word.split_once("..").and_then(|(lo, hi)| Some((lo.parse().ok()?, hi.parse().ok()?)));
            match bounds {
                Some((lo, hi)) if lo < hi => Fill::Range(lo, hi),
                _ => return Err(format!("`{{{word}}}` is no filling")),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_arguments_in_schema_order() {
        let schema = Schema::parse(
            "(xs: Tensor[], a: Tensor|num, *, mode: str{x|y} = x, dims: dims? = None, dtype: dtype? = None) -> Tensor",
        )
        .expect("a valid signature");
        let sample = Sample("[T[2, 3]{pos}, none], complex(1.5, -inf), dims=[2, -1], dtype=T");
        let args = sample.read(&schema).expect("a valid sample");
        let tensor = SampleTensor { dtype: None, dims: vec![2, 3], fill: Fill::Positive };
        let list = SampleArg::List(vec![SampleArg::Tensor(tensor), SampleArg::Plain(Arg::None)]);
        assert_eq!(args[0], list);
        assert_eq!(args[1], SampleArg::Plain(Arg::Complex(1.5, f64::NEG_INFINITY)));
        assert_eq!(args[2], SampleArg::Plain(Arg::str("x")));
        assert_eq!(args[3], SampleArg::Plain(Arg::ints([2, -1])));
        assert_eq!(args[4], SampleArg::CaseDtype);
        let ranged = Sample("[], i64[]{-4..9}, mode=\"y\"").read(&schema).expect("a valid sample");
        let want = SampleTensor { dtype: Some(Dtype::I64), dims: vec![], fill: Fill::Range(-4, 9) };
        assert_eq!(ranged[1], SampleArg::Tensor(want));
        assert_eq!(ranged[2], SampleArg::Plain(Arg::str("y")));
    }

    #[test]
    fn faults_say_what_they_are() {
        let schema = Schema::parse("(a: Tensor, axis: int) -> Tensor").expect("a valid signature");
        for bad in
            ["T[2]", "T[2], 3", "T[x], axis=1", "T[2]{huge}, axis=1", "T[2], axis=what", "T[2], axes=1"]
        {
            assert!(Sample(bad).read(&schema).is_err(), "{bad}");
        }
    }
}
