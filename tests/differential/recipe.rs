//! A random program as data: which inputs, which calls, what is returned. One recipe gives a program in its own dtypes and
//! the same in f64, and can be cut down to what one output needs.

use thunderhead::ir::{
    Arg, Dim, Dtype, Module, Output, Role, RoleKind, Stage, TensorType, Trace, TraceParam, ValueId,
};
use thunderhead::ops::{Builder, Op};
use thunderhead::{Program, Tensor, Value};

use crate::sample::encoded;

/// An argument of a call.
#[derive(Clone, Debug)]
pub enum Operand {
    /// No tensor in it.
    Plain(Arg),
    /// A value of the recipe, by place.
    Value(usize),
    /// A list of values.
    Values(Vec<usize>),
}

/// How a value comes to be.
#[derive(Clone, Debug)]
pub enum Made {
    /// An input of the program with these elements, each of which every dtype holds exactly.
    Input(Vec<f64>),
    /// The next result of that call.
    By(usize),
}

/// A value of a recipe.
#[derive(Clone, Debug)]
pub struct Fact {
    pub dtype: Dtype,
    pub dims: Vec<i64>,
    pub made: Made,
    /// No executor rounds it: what is not continuous may be asked of it.
    pub exact: bool,
    /// No element is larger, nearly.
    pub bound: f64,
}

/// A call.
#[derive(Clone)]
pub struct Step {
    pub op: &'static Op,
    pub args: Vec<Operand>,
}

/// A random program.
#[derive(Clone, Default)]
pub struct Recipe {
    pub values: Vec<Fact>,
    pub steps: Vec<Step>,
}

/// In which dtypes a recipe is made real.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Precision {
    /// Its own.
    Own,
    /// f64 in place of every other floating dtype.
    Double,
}

impl Precision {
    pub fn of(self, dtype: Dtype) -> Dtype {
        let narrow = matches!(dtype, Dtype::F16 | Dtype::Bf16 | Dtype::F32);
        if self == Precision::Double && narrow { Dtype::F64 } else { dtype }
    }
}

impl Recipe {
    /// The program that returns these values, made of all calls or (`lean`) of what they need, and its inputs.
    pub fn program(&self, precision: Precision, outputs: &[usize], lean: bool) -> (Program, Vec<Value>) {
        let needed = self.needed(outputs);
        let mut trace = Trace::new("forward", Stage::Acquired);
        let mut inputs = Vec::new();
        let mut ids: Vec<Option<ValueId>> = vec![None; self.values.len()];
        for (place, fact) in self.values.iter().enumerate() {
            let Made::Input(elements) = &fact.made else { continue };
            if lean && !needed[place] {
                continue;
            }
            let dtype = precision.of(fact.dtype);
            let name = format!("in{}", inputs.len());
            let dims: Vec<Dim> = fact.dims.iter().map(|n| Dim::Known(*n)).collect();
            let value = trace.add_value(name.as_str(), TensorType::new(dims, dtype).into());
            let role = Role { kind: RoleKind::Input, name: Some(name.into()), frozen: false };
            trace.params.push(TraceParam { value, role });
            let bytes: Vec<u8> = elements.iter().flat_map(|x| encoded(dtype, *x)).collect();
            inputs.push(Value::Tensor(Tensor::from_bytes(dtype, &fact.dims, &bytes).expect("as many bytes")));
            ids[place] = Some(value);
        }
        let mut builder = Builder::top(&mut trace);
        for (at, step) in self.steps.iter().enumerate() {
            let results = self.results(at);
            if lean && !results.iter().any(|place| needed[*place]) {
                continue;
            }
            let args = step.args.iter().map(|operand| argument(operand, &ids, precision)).collect();
            let made = builder.call_op(step.op, args).unwrap_or_else(|why| panic!("{}: {why}", step.op.name));
            for (place, id) in results.into_iter().zip(flat(&made)) {
                ids[place] = Some(id);
            }
        }
        trace.body = builder.finish();
        for (n, place) in outputs.iter().enumerate() {
            let value = Arg::Value(ids[*place].expect("made above"));
            trace.outputs.push(Output { value, name: Some(format!("out{n}").into()) });
        }
        (Program::from_module(Module { dims: Vec::new(), traces: vec![trace] }), inputs)
    }

    /// The places of a call's results, in order.
    fn results(&self, step: usize) -> Vec<usize> {
        let of = |fact: &Fact| matches!(fact.made, Made::By(at) if at == step);
        (0..self.values.len()).filter(|place| of(&self.values[*place])).collect()
    }

    /// What these values are made of, themselves included.
    pub fn needed(&self, outputs: &[usize]) -> Vec<bool> {
        let mut needed = vec![false; self.values.len()];
        let mut open = outputs.to_vec();
        while let Some(place) = open.pop() {
            if std::mem::replace(&mut needed[place], true) {
                continue;
            }
            if let Made::By(step) = self.values[place].made {
                open.extend(self.steps[step].args.iter().flat_map(Operand::values));
            }
        }
        needed
    }

    /// Values that no call takes and that somebody makes.
    pub fn ends(&self) -> Vec<usize> {
        let mut taken = vec![false; self.values.len()];
        self.steps
            .iter()
            .flat_map(|s| &s.args)
            .flat_map(Operand::values)
            .for_each(|place| taken[place] = true);
        let made = |place: &usize| matches!(self.values[*place].made, Made::By(..)) && !taken[*place];
        (0..self.values.len()).filter(made).collect()
    }

    /// The same with a value given by the caller instead of made.
    pub fn with_input(&self, place: usize, elements: Vec<f64>) -> Recipe {
        let mut recipe = self.clone();
        recipe.values[place].made = Made::Input(elements);
        recipe
    }
}

impl Operand {
    /// The values in it.
    pub fn values(&self) -> Vec<usize> {
        match self {
            Operand::Plain(_) => Vec::new(),
            Operand::Value(place) => vec![*place],
            Operand::Values(places) => places.clone(),
        }
    }
}

/// An operand in a trace.
pub fn argument(operand: &Operand, ids: &[Option<ValueId>], precision: Precision) -> Arg {
    let value = |place: &usize| Arg::Value(ids[*place].expect("made before it is taken"));
    match operand {
        Operand::Plain(Arg::Dtype(dtype)) => Arg::Dtype(precision.of(*dtype)),
        Operand::Plain(arg) => arg.clone(),
        Operand::Value(place) => value(place),
        Operand::Values(places) => Arg::List(places.iter().map(value).collect()),
    }
}

/// The tensors among a call's results, lists opened.
pub fn flat(results: &[Arg]) -> Vec<ValueId> {
    let mut ids = Vec::new();
    for result in results {
        match result {
            Arg::Value(id) => ids.push(*id),
            Arg::List(items) => ids.extend(flat(items)),
            _ => {}
        }
    }
    ids
}
