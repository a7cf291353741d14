//! From an op of a program to a tape: a small language for the rows of `kernels`, and what rows cannot say, in code.
//!
//! A row names an overload and, in order, what stands for each of its arguments. Tokens:
//!
//! | token | stands for |
//! |---|---|
//! | `a` | the op's argument `a`; a number where ATen takes a tensor raises no dtype within its category |
//! | `_` | ATen's default |
//! | `=1`, `=0.5`, `=true`, `=none`, `='tanh'` | itself |
//! | `%o0` | the memory of output 0; the call then writes it, and nothing else is done about outputs |
//! | `%dtype` | the dtype of output 0 |
//! | `%i32` | whether output 0 is `i32` |
//! | `%reduction` | the op's `reduction` (`none`, `mean`, `sum`) as ATen's number |
//!
//! Where the dispatcher has a variant that writes to given outputs, that one is called; else the results are copied.
//!
//! Deliberately not here: ops by name (`kernels`), pointers (`bound`).

use thunderhead_sdk::{ArgRef, Dtype, Error, Number, Op, Refusal, TensorDesc};

use crate::{Arg, Instr, Reg, Tape, When, describe, scalar_type};
use std::sync::Arc;

/// How one op is run.
pub struct Row {
    /// The op's name.
    pub op: &'static str,
    /// What it becomes.
    pub how: How,
    /// Whether outputs may lie in the memory of inputs of the same dtype, dims and strides.
    pub in_place: InPlace,
}

impl Row {
    /// What is wrong with the row, if anything: an overload that libtorch lacks, more arguments than it has.
    pub fn fault(&self) -> Option<String> {
        let (How::Call(aten, args) | How::View(aten, args) | How::Views(aten, args)) = &self.how else {
            return None;
        };
        let described = match describe(aten) {
            Ok(described) => described,
            Err(error) => return Some(error.message().into()),
        };
        let (given, taken) = (args.split_whitespace().count(), n_args(&described.schema));
        (given > taken).then(|| format!("`{aten}` takes {taken} arguments, not {given}"))
    }
}

/// What an op becomes.
pub enum How {
    /// One call, results to outputs.
    Call(&'static str, &'static str),
    /// A view, taken once, copied at each run.
    View(&'static str, &'static str),
    /// A list of views, one for each output.
    Views(&'static str, &'static str),
    /// The first input with the output's dtype, broadcast to its dims.
    Copy,
    /// The first input's elements in the output's dims.
    Reshape,
    /// Anything else.
    With(fn(&mut Recipe<'_>) -> Result<(), Refusal>),
}

/// Which inputs' memory outputs may be given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum InPlace {
    /// None.
    No,
    /// Any: element `i` is read before it is written (pointwise calls).
    Any,
    /// The first one: the call writes into a copy of it.
    First,
    /// Output `i` that of the tensor so named: the call writes into copies of them.
    Named(&'static [&'static str]),
}

/// One call; output memory of its own.
pub const fn call(op: &'static str, aten: &'static str, args: &'static str) -> Row {
    Row { op, how: How::Call(aten, args), in_place: InPlace::No }
}

/// One elementwise call.
pub const fn pointwise(op: &'static str, aten: &'static str, args: &'static str) -> Row {
    Row { op, how: How::Call(aten, args), in_place: InPlace::Any }
}

/// A view that is copied.
pub const fn view(op: &'static str, aten: &'static str, args: &'static str) -> Row {
    Row { op, how: How::View(aten, args), in_place: InPlace::No }
}

/// A list of views that are copied.
pub const fn views(op: &'static str, aten: &'static str, args: &'static str) -> Row {
    Row { op, how: How::Views(aten, args), in_place: InPlace::No }
}

/// A copy with conversion and broadcast.
pub const fn copy(op: &'static str) -> Row {
    Row { op, how: How::Copy, in_place: InPlace::Any }
}

/// A copy into other dims.
pub const fn reshape(op: &'static str) -> Row {
    Row { op, how: How::Reshape, in_place: InPlace::No }
}

/// A function.
pub const fn with(op: &'static str, build: fn(&mut Recipe<'_>) -> Result<(), Refusal>) -> Row {
    Row { op, how: How::With(build), in_place: InPlace::No }
}

/// A function whose calls are elementwise.
pub const fn pointwise_with(op: &'static str, build: fn(&mut Recipe<'_>) -> Result<(), Refusal>) -> Row {
    Row { op, how: How::With(build), in_place: InPlace::Any }
}

/// A function that copies the first input and writes into the copy.
pub const fn updates_with(op: &'static str, build: fn(&mut Recipe<'_>) -> Result<(), Refusal>) -> Row {
    Row { op, how: How::With(build), in_place: InPlace::First }
}

/// Bytes of operands up to which one thread is done about when a second one is awake: OpenMP's threads sleep between calls,
/// and waking one was measured to take 8 us. The largest product of two square matrices that fits takes no longer.
const SMALL_BYTES: usize = 64 << 10;

/// Too little work to share.
fn is_small(op: &Op<'_>) -> bool {
    let bytes = |tensor: TensorDesc<'_>| tensor.numel()?.checked_mul(tensor.dtype().size_bytes());
    let sum = op.inputs().chain(op.outputs()).try_fold(0usize, |sum, tensor| sum.checked_add(bytes(tensor)?));
    sum.is_some_and(|sum| sum <= SMALL_BYTES)
}

/// A function that copies the tensors so named to the outputs, in order, and writes into the copies.
pub const fn renews_with(
    op: &'static str,
    tensors: &'static [&'static str],
    build: fn(&mut Recipe<'_>) -> Result<(), Refusal>,
) -> Row {
    Row { op, how: How::With(build), in_place: InPlace::Named(tensors) }
}

/// A tape in the making.
pub struct Recipe<'a> {
    /// The op.
    pub op: &'a Op<'a>,
    instrs: Vec<Instr>,
    n_regs: u32,
    /// Outputs whose size the run decides, with the register that holds them.
    pub deferred: Vec<(usize, Reg)>,
    /// Several elements may be written to one place: one thread keeps their order.
    pub serial: bool,
    deterministic: bool,
    /// Prims of several operands: a number stands for a tensor of this dtype, so it is cut to it.
    number_dtype: Option<Dtype>,
}

/// A finished recipe.
pub struct Made {
    /// What is run.
    pub tape: Arc<Tape>,
    /// Outputs whose size the run decides.
    pub deferred: Vec<(usize, Reg)>,
    /// Whether it must run on one thread.
    pub serial: bool,
    /// How many numbers a run passes.
    pub n_numbers: usize,
    /// (output, input) pairs that may share memory.
    pub in_place: Vec<(usize, usize)>,
}

impl<'a> Recipe<'a> {
    /// Carries out a row. Refused is what the row cannot express of this op.
    pub fn build(op: &'a Op<'a>, row: &Row, deterministic: bool) -> Result<Recipe<'a>, Refusal> {
        let tensors = op.n_inputs() + op.n_outputs();
        let n_regs = u32::try_from(tensors)
            .map_err(|_| Refusal::new("too_many_tensors", "more tensors than a tape numbers"))?;
        for tensor in op.inputs().chain(op.outputs()) {
            if scalar_type(tensor.dtype()).is_none() {
                return Err(Refusal::new(
                    "dtype_unsupported",
                    format!("libtorch has no dtype {}", tensor.dtype()),
                ));
            }
        }
        let operands = op.name().starts_with("prims.") && row.in_place == InPlace::Any;
        let mut recipe = Recipe {
            op,
            instrs: Vec::new(),
            n_regs,
            deferred: Vec::new(),
            serial: false,
            deterministic,
            // The last one: a condition comes first.
            number_dtype: op.inputs().last().filter(|_| operands).map(|tensor| tensor.dtype()),
        };
        match &row.how {
            How::Call(aten, args) => recipe.call(aten, args)?,
            How::View(aten, args) => {
                let view = recipe.bind(aten, args)?;
                recipe.copy(view, recipe.out(0));
            }
            How::Views(aten, args) => recipe.copy_views(aten, args)?,
            How::Copy => recipe.copy(recipe.input(0)?, recipe.out(0)),
            How::Reshape => recipe.reshape()?,
            How::With(build) => build(&mut recipe)?,
        }
        Ok(recipe)
    }

    /// Checks the calls against libtorch's schemas and makes the tape.
    pub fn finish(self, row: &Row) -> Result<Made, Error> {
        let tape = Tape::new(&self.instrs, self.op.n_inputs(), self.op.n_outputs(), self.n_regs)?;
        Ok(Made {
            tape,
            deferred: self.deferred,
            serial: self.serial || is_small(self.op),
            n_numbers: self.op.n_numbers(),
            in_place: sharing(self.op, row.in_place),
        })
    }

    /// The register of an input.
    pub fn input(&self, idx: usize) -> Result<Reg, Refusal> {
        if idx < self.op.n_inputs() {
            Ok(Reg(idx as u32))
        } else {
            Err(form(format!("it has no tensor {idx}")))
        }
    }

    /// The register of the tensor that an argument names.
    pub fn tensor(&self, name: &str) -> Result<Reg, Refusal> {
        let idx =
            self.op.tensor(name).ok_or_else(|| form(format!("`{name}` is no tensor")).attribute(name))?;
        self.input(idx)
    }

    /// What is known of the tensor that an argument names.
    pub fn desc(&self, name: &str) -> Result<TensorDesc<'a>, Refusal> {
        let idx =
            self.op.tensor(name).ok_or_else(|| form(format!("`{name}` is no tensor")).attribute(name))?;
        Ok(self.op.input(idx))
    }

    /// Refused unless the tensor that an argument names holds floats or complex numbers; for ops whose claim names
    /// integers for the sake of other arguments.
    pub fn inexact(&self, name: &str) -> Result<(), Refusal> {
        let dtype = self.desc(name)?.dtype();
        if dtype.is_float() || dtype.is_complex() {
            return Ok(());
        }
        Err(Refusal::new("dtype_unsupported", format!("`{name}` is {dtype}; floats are taken"))
            .attribute(name))
    }

    /// The register of an output.
    pub fn out(&self, idx: usize) -> Reg {
        Reg((self.op.n_inputs() + idx) as u32)
    }

    /// What is known of output 0; refused where there is none.
    pub fn result(&self) -> Result<TensorDesc<'a>, Refusal> {
        if self.op.n_outputs() == 0 { Err(form("it has no result".into())) } else { Ok(self.op.output(0)) }
    }

    /// A fresh register.
    pub fn temporary(&mut self) -> Reg {
        let reg = Reg(self.n_regs);
        self.n_regs += 1;
        reg
    }

    /// One call with the op's results as its own.
    pub fn call(&mut self, aten: &str, args: &str) -> Result<(), Refusal> {
        let args = self.args(args)?;
        self.call_to_outputs(aten, args)
    }

    /// One call whose first results are the op's, in order.
    pub fn call_to_outputs(&mut self, aten: &str, args: Vec<Arg>) -> Result<(), Refusal> {
        let outputs: Vec<Option<usize>> = (0..self.op.n_outputs()).map(Some).collect();
        self.call_with_results(aten, args, &outputs)
    }

    /// One call; its results go to the outputs named, in order. Results beyond are dropped.
    pub fn call_with_results(
        &mut self,
        aten: &str,
        mut args: Vec<Arg>,
        outputs: &[Option<usize>],
    ) -> Result<(), Refusal> {
        if args.iter().any(|arg| matches!(arg, Arg::Reg(reg) if self.is_output(*reg))) {
            self.instrs.push(Instr::Call { when: When::Run, op: aten.into(), args, results: Vec::new() });
            return Ok(());
        }
        let unsized_output =
            |output: &Option<usize>| output.is_some_and(|idx| self.op.output(idx).dims().contains(&-1));
        let decided_at_run = outputs.iter().any(unsized_output);
        let wanted: Option<Vec<Reg>> = outputs.iter().map(|output| output.map(|idx| self.out(idx))).collect();
        let described = describe(aten)?;
        if let (Some(variant), Some(wanted), false) = (&described.out_variant, wanted, decided_at_run)
            && n_results(&described.schema) == wanted.len()
        {
            args.resize(n_args(&described.schema), Arg::Default);
            args.extend(wanted.into_iter().map(Arg::Reg));
            self.instrs.push(Instr::Call { when: When::Run, op: variant.clone(), args, results: Vec::new() });
            return Ok(());
        }
        let results: Vec<Option<Reg>> =
            outputs.iter().map(|output| output.is_some().then(|| self.temporary())).collect();
        self.instrs.push(Instr::Call { when: When::Run, op: aten.into(), args, results: results.clone() });
        for (output, result) in outputs.iter().zip(results) {
            let (Some(output), Some(result)) = (output, result) else { continue };
            self.store(result, *output);
        }
        Ok(())
    }

    /// One call whose result is copied to output 0, for overloads whose own variant for given outputs resizes them.
    pub fn call_and_store(&mut self, aten: &str, args: &str) -> Result<(), Refusal> {
        let result = self.run(aten, args)?;
        self.store(result, 0);
        Ok(())
    }

    /// A result to an output; one whose size was not known waits until the host has made room for it.
    pub fn store(&mut self, from: Reg, output: usize) {
        if self.op.output(output).dims().contains(&-1) {
            self.deferred.push((output, from));
        } else {
            self.instrs.push(Instr::Store { from, to: self.out(output) });
        }
    }

    /// A call at each run whose first result is kept.
    pub fn run(&mut self, aten: &str, args: &str) -> Result<Reg, Refusal> {
        let args = self.args(args)?;
        Ok(self.run_with(aten, args))
    }

    /// The same, arguments given.
    pub fn run_with(&mut self, aten: &str, args: Vec<Arg>) -> Reg {
        self.push(When::Run, aten, args)
    }

    /// A call once for each memory, for views; its first result is kept.
    pub fn bind(&mut self, aten: &str, args: &str) -> Result<Reg, Refusal> {
        let args = self.args(args)?;
        Ok(self.bind_with(aten, args))
    }

    /// The same, arguments given. With numbers that only a run knows, at each run.
    pub fn bind_with(&mut self, aten: &str, args: Vec<Arg>) -> Reg {
        let known = !args.iter().any(|arg| matches!(arg, Arg::Slot(_)));
        self.push(if known { When::Bind } else { When::Run }, aten, args)
    }

    /// A call at each run whose first `n` results are kept.
    pub fn call_results(&mut self, aten: &str, args: Vec<Arg>, n: usize) -> Vec<Reg> {
        let regs: Vec<Reg> = (0..n).map(|_| self.temporary()).collect();
        let results = regs.iter().copied().map(Some).collect();
        self.instrs.push(Instr::Call { when: When::Run, op: aten.into(), args, results });
        regs
    }

    /// Are forms refused whose results change from run to run?
    pub fn deterministic(&self) -> bool {
        self.deterministic
    }

    /// The gradients of a call, one register for each `wanted` one of its floating and complex tensors.
    pub fn vjp(
        &mut self,
        aten: &str,
        args: Vec<Arg>,
        cotangents: Vec<Option<Reg>>,
        wanted: &[bool],
    ) -> Vec<Reg> {
        let results: Vec<Option<Reg>> =
            wanted.iter().map(|wanted| wanted.then(|| self.temporary())).collect();
        let regs = results.iter().flatten().copied().collect();
        self.instrs.push(Instr::Vjp { op: aten.into(), cotangents, args, results });
        regs
    }

    /// Refused unless results may depend on the order of additions, and on the dtype that they are done in.
    pub fn accumulates(&self) -> Result<(), Refusal> {
        if !self.deterministic {
            return Ok(());
        }
        Err(Refusal::new(
            "not_deterministic",
            "several values may meet in one element, and ATen adds them in no fixed order; the option `deterministic = false` takes it",
        ))
    }

    /// A call at each run for its effect on an output.
    pub fn effect(&mut self, aten: &str, args: Vec<Arg>) {
        self.instrs.push(Instr::Call { when: When::Run, op: aten.into(), args, results: Vec::new() });
    }

    fn push(&mut self, when: When, aten: &str, args: Vec<Arg>) -> Reg {
        let reg = self.temporary();
        self.instrs.push(Instr::Call { when, op: aten.into(), args, results: vec![Some(reg)] });
        reg
    }

    /// Broadcasts and converts `from` into the memory of `to`.
    pub fn copy(&mut self, from: Reg, to: Reg) {
        self.instrs.push(Instr::Copy { from, to });
    }

    /// A list of tensors in a register, one register each.
    pub fn unpack(&mut self, when: When, list: Reg, n: usize) -> Vec<Reg> {
        let regs: Vec<Reg> = (0..n).map(|_| self.temporary()).collect();
        self.instrs.push(Instr::Unpack { when, list, results: regs.iter().copied().map(Some).collect() });
        regs
    }

    /// A call that gives a list of tensors, one for each output.
    pub fn call_list(&mut self, aten: &str, args: &str) -> Result<(), Refusal> {
        let list = self.run(aten, args)?;
        for (output, reg) in self.unpack(When::Run, list, self.op.n_outputs()).into_iter().enumerate() {
            self.store(reg, output);
        }
        Ok(())
    }

    /// A list of views, taken once; each is copied to its output.
    pub fn copy_views(&mut self, aten: &str, args: &str) -> Result<(), Refusal> {
        let list = self.bind(aten, args)?;
        for (output, reg) in self.unpack(When::Bind, list, self.op.n_outputs()).into_iter().enumerate() {
            self.copy(reg, self.out(output));
        }
        Ok(())
    }

    /// The first input's elements in the output's dims: the dense output is seen in the input's dims, which costs no copy.
    fn reshape(&mut self) -> Result<(), Refusal> {
        let dims = self.op.input(self.input(0)?.0 as usize).dims().to_vec();
        let seen = self.bind_with("view", vec![Arg::Reg(self.out(0)), Arg::Ints(dims)]);
        self.copy(self.input(0)?, seen);
        Ok(())
    }

    fn is_output(&self, reg: Reg) -> bool {
        let first = self.op.n_inputs();
        (first..first + self.op.n_outputs()).contains(&(reg.0 as usize))
    }

    /// A row's tokens as arguments.
    pub fn args(&self, tokens: &str) -> Result<Vec<Arg>, Refusal> {
        tokens.split_whitespace().map(|token| self.token(token)).collect()
    }

    fn token(&self, token: &str) -> Result<Arg, Refusal> {
        match token {
            "_" => return Ok(Arg::Default),
            "%dtype" => return Ok(Arg::Dtype(self.result()?.dtype())),
            "%i32" => return Ok(Arg::Bool(self.result()?.dtype() == Dtype::I32)),
            "%reduction" => return self.reduction(),
            _ => {}
        }
        if let Some(output) = token.strip_prefix("%o") {
            let idx: usize = output.parse().map_err(|_| form(format!("`{token}` names no output")))?;
            return Ok(Arg::Reg(self.out(idx)));
        }
        match token.strip_prefix('=') {
            Some(literal) => literal_arg(literal),
            None => self.arg(token),
        }
    }

    /// An argument of the op as ATen's.
    pub fn arg(&self, name: &str) -> Result<Arg, Refusal> {
        let Some(arg) = self.op.arg(name) else {
            return Err(form(format!("`{}` has no argument `{name}`", self.op.name())).attribute(name));
        };
        self.convert(arg).map_err(|refusal| refusal.attribute(name))
    }

    /// A value of the op as ATen's.
    pub fn convert(&self, arg: ArgRef<'_>) -> Result<Arg, Refusal> {
        Ok(match arg {
            ArgRef::None => Arg::None,
            ArgRef::Tensor(idx) => Arg::Reg(self.input(idx)?),
            ArgRef::Tensors(list) => Arg::Regs(
                list.iter()
                    .map(|idx| usize::try_from(*idx).ok().map(|idx| self.input(idx)).transpose())
                    .collect::<Result<_, _>>()?,
            ),
            ArgRef::Int(value) => self.number(Number::Int(value)),
            ArgRef::Float(value) => self.number(Number::Float(value)),
            ArgRef::Bool(value) => self.number(Number::Bool(value)),
            ArgRef::Str(text) => Arg::Str(text.into()),
            ArgRef::Complex(re, im) => Arg::Complex(re, im),
            ArgRef::Dtype(dtype) if scalar_type(dtype).is_some() => Arg::Dtype(dtype),
            ArgRef::Dtype(dtype) => {
                return Err(Refusal::new("dtype_unsupported", format!("libtorch has no dtype {dtype}")));
            }
            ArgRef::Device(device) if device.is_cpu() => Arg::Cpu,
            ArgRef::Device(_) => return Err(Refusal::new("device_unsupported", "only the CPU is taken")),
            ArgRef::Ints(ints) => match ints.known() {
                Some(known) => Arg::Ints(known.to_vec()),
                None => return Err(form("a list holds numbers that are known only at run".into())),
            },
            ArgRef::Floats(values) => Arg::Floats(values.to_vec()),
            ArgRef::Bools(values) => Arg::Bools(values.to_vec()),
            ArgRef::Slot(slot) => Arg::Slot(slot),
            other => return Err(form(format!("ATen takes no {other:?}"))),
        })
    }

    fn number(&self, value: Number) -> Arg {
        match (self.number_dtype, value) {
            (Some(Dtype::Bool), value) => Arg::Bool(value.as_bool()),
            (Some(dtype), value) if dtype.is_int() => Arg::Int(value.as_i64()),
            (_, Number::Int(value)) => Arg::Int(value),
            (_, Number::Float(value)) => Arg::Float(value),
            (_, Number::Bool(value)) => Arg::Bool(value),
        }
    }

    fn reduction(&self) -> Result<Arg, Refusal> {
        match self.op.str("reduction")? {
            "none" => Ok(Arg::Int(0)),
            "mean" => Ok(Arg::Int(1)),
            "sum" => Ok(Arg::Int(2)),
            other => {
                Err(form(format!("reduction is `{other}`, expected none, mean or sum"))
                    .attribute("reduction"))
            }
        }
    }
}

/// Whether the op drops elements at random: it is given a seed, and nothing says that it is not in training or that
/// nothing is dropped. ATen's generators take no offset, so it is refused.
pub fn drops(op: &Op<'_>) -> bool {
    let given = |name: &str| op.arg(name).is_some_and(|arg| arg != ArgRef::None);
    let off = |name: &str| op.arg(name) == Some(ArgRef::Bool(false));
    let none =
        |name: &str| matches!(op.arg(name), Some(ArgRef::Int(0))) || op.arg(name) == Some(ArgRef::Float(0.0));
    let in_training = !["train", "training"].iter().any(|name| off(name));
    let drops = !["p", "dropout", "dropout_p"].iter().any(|name| none(name));
    given("seed") && in_training && drops
}

/// A refusal of a form that the op has and this plugin does not take.
pub fn form(sentence: String) -> Refusal {
    Refusal::new("form_unsupported", sentence)
}

fn literal_arg(text: &str) -> Result<Arg, Refusal> {
    if let Some(text) = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        return Ok(Arg::Str(text.into()));
    }
    match text {
        "none" => return Ok(Arg::None),
        "true" => return Ok(Arg::Bool(true)),
        "false" => return Ok(Arg::Bool(false)),
        _ => {}
    }
    if let Ok(value) = text.parse::<i64>() {
        return Ok(Arg::Int(value));
    }
    text.parse::<f64>().map(Arg::Float).map_err(|_| form(format!("`={text}` is no literal")))
}

/// How many results ATen's schema has: `… -> Tensor`, `… -> (Tensor, Tensor)`, `… -> ()`.
fn n_results(schema: &str) -> usize {
    let results = schema.rsplit_once("->").map_or("", |(_, results)| results.trim());
    match results.strip_prefix('(') {
        Some(list) => list.trim_end_matches(')').split(',').filter(|part| !part.trim().is_empty()).count(),
        None => 1,
    }
}

/// How many arguments ATen's schema has.
fn n_args(schema: &str) -> usize {
    args_of(schema).count()
}

/// The arguments of ATen's schema, each as written there: `Tensor(a!) self`, `Scalar alpha=1`.
pub fn args_of(schema: &str) -> impl Iterator<Item = &str> {
    let inside = schema.find('(').map_or("", |start| &schema[start + 1..]);
    let end = inside.rfind(") ->").unwrap_or(inside.len());
    let inside = &inside[..end];
    let (mut depth, mut start, mut parts) = (0i32, 0, Vec::new());
    for (at, c) in inside.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inside[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inside[start..]);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty() && *part != "*")
}

/// Pairs of outputs and the inputs whose memory they may be given.
fn sharing(op: &Op<'_>, in_place: InPlace) -> Vec<(usize, usize)> {
    let is_like = |(output, input): &(usize, usize)| {
        let (output, input) = (op.output(*output), op.input(*input));
        input.dtype() == output.dtype() && input.dims() == output.dims()
    };
    let of_first = |n: usize| if op.n_outputs() == 1 { n } else { 0 };
    let candidates: Vec<(usize, usize)> = match in_place {
        InPlace::No => Vec::new(),
        InPlace::Any => (0..of_first(op.n_inputs())).map(|idx| (0, idx)).collect(),
        InPlace::First => (0..of_first(op.n_inputs().min(1))).map(|idx| (0, idx)).collect(),
        InPlace::Named(names) => {
            let inputs = names.iter().map(|name| op.tensor(name));
            (0..op.n_outputs()).zip(inputs).filter_map(|(output, input)| Some((output, input?))).collect()
        }
    };
    candidates.into_iter().filter(is_like).collect()
}
