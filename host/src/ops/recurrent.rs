//! Recurrent networks: cells, and stacks of layers over time.
//!
//! Gates stand in the weights as PyTorch has them: input, forget, cell, output (LSTM); reset, update, new (GRU). The
//! decomposition unrolls time, so it exists for known lengths only; executors may take the whole op. Dropout stands
//! between layers: layer `l` draws from `offset + l n`, `n` the elements of one layer's result rounded up to words of
//! four.

use super::arith::Built;
use super::aten::{Aten, AtenCall, FixedArg, Import};
use super::build::{Builder, Tensor};
use super::linalg::is_number;
use super::{Call, Level, Meta, Op, OpError, Sample, import, meta};
use crate::ir::{Arg, Dim, Type};

/// Every op of this family.
pub static OPS: &[&Op] =
    &[&TORCH_LSTM, &TORCH_GRU, &TORCH_RNN, &TORCH_LSTM_CELL, &TORCH_GRU_CELL, &TORCH_RNN_CELL];

pub static TORCH_LSTM: Op = Op {
    name: "torch.lstm",
    doc: "Long short-term memory over time: outputs, then last hidden and cell states of each layer and direction. A \
          third weight of a layer projects its hidden state.",
    schema: "(a: Tensor, h: Tensor[], params: Tensor[], has_biases: bool, layers: int, dropout: num, train: bool, \
             bidirectional: bool, batch_first: bool, *, seed: int?, offset: int?) -> (Tensor, Tensor, Tensor)",
    level: Level::Composite(|b, call| network(b, call, Cell::Lstm)),
    meta: Meta::Fn(|call| network_meta(call, Cell::Lstm)),
    aten: &[Aten {
        overloads: &["lstm.input"],
        import: Import::With(|b, c| import_network(b, c, "torch.lstm", None)),
    }],
    samples: &[
        Sample(
            "T[3, 2, 4], [T[1, 2, 5], T[1, 2, 5]], [T[20, 4], T[20, 5], T[20], T[20]], has_biases=true, layers=1, \
             dropout=0.0, train=false, bidirectional=false, batch_first=false",
        ),
        Sample(
            "T[2, 3, 4], [T[2, 2, 5], T[2, 2, 5]], [T[20, 4], T[20, 5], T[20, 4], T[20, 5]], has_biases=false, \
             layers=1, dropout=0.0, train=false, bidirectional=true, batch_first=true",
        ),
        Sample(
            "T[3, 2, 4], [T[2, 2, 5], T[2, 2, 5]], [T[20, 4], T[20, 5], T[20], T[20], T[20, 5], T[20, 5], T[20], \
             T[20]], has_biases=true, layers=2, dropout=0.5, train=true, bidirectional=false, batch_first=false, \
             seed=7, offset=8",
        ),
        Sample(
            "T[3, 2, 4], [T[1, 2, 3], T[1, 2, 5]], [T[20, 4], T[20, 3], T[3, 5]], has_biases=false, layers=1, \
             dropout=0.0, train=false, bidirectional=false, batch_first=false",
        ),
    ],
    ..Op::BASE
};

pub static TORCH_GRU: Op = Op {
    name: "torch.gru",
    doc: "Gated recurrent units over time: outputs and last hidden states.",
    schema: "(a: Tensor, h: Tensor, params: Tensor[], has_biases: bool, layers: int, dropout: num, train: bool, \
             bidirectional: bool, batch_first: bool, *, seed: int?, offset: int?) -> (Tensor, Tensor)",
    level: Level::Composite(|b, call| network(b, call, Cell::Gru)),
    meta: Meta::Fn(|call| network_meta(call, Cell::Gru)),
    aten: &[Aten {
        overloads: &["gru.input"],
        import: Import::With(|b, c| import_network(b, c, "torch.gru", None)),
    }],
    samples: &[
        Sample(
            "T[3, 2, 4], T[1, 2, 5], [T[15, 4], T[15, 5], T[15], T[15]], has_biases=true, layers=1, dropout=0.0, \
             train=false, bidirectional=false, batch_first=false",
        ),
        Sample(
            "T[2, 3, 4], T[2, 2, 5], [T[15, 4], T[15, 5], T[15, 4], T[15, 5]], has_biases=false, layers=1, \
             dropout=0.0, train=false, bidirectional=true, batch_first=true",
        ),
    ],
    ..Op::BASE
};

pub static TORCH_RNN: Op = Op {
    name: "torch.rnn",
    doc: "Elman network over time: outputs and last hidden states.",
    schema: "(a: Tensor, h: Tensor, params: Tensor[], has_biases: bool, layers: int, dropout: num, train: bool, \
             bidirectional: bool, batch_first: bool, *, nonlinearity: str{tanh|relu} = tanh, seed: int?, \
             offset: int?) -> (Tensor, Tensor)",
    level: Level::Composite(|b, call| network(b, call, simple_cell(call)?)),
    meta: Meta::Fn(|call| network_meta(call, Cell::Tanh)),
    aten: &[
        Aten {
            overloads: &["rnn_tanh.input"],
            import: Import::With(|b, c| import_network(b, c, "torch.rnn", Some("tanh"))),
        },
        Aten {
            overloads: &["rnn_relu.input"],
            import: Import::With(|b, c| import_network(b, c, "torch.rnn", Some("relu"))),
        },
    ],
    samples: &[
        Sample(
            "T[3, 2, 4], T[1, 2, 5], [T[5, 4], T[5, 5], T[5], T[5]], has_biases=true, layers=1, dropout=0.0, \
             train=false, bidirectional=false, batch_first=false",
        ),
        Sample(
            "T[2, 3, 4], T[2, 2, 5], [T[5, 4], T[5, 5], T[5, 4], T[5, 5]], has_biases=false, layers=1, dropout=0.0, \
             train=false, bidirectional=true, batch_first=true, nonlinearity=\"relu\"",
        ),
    ],
    ..Op::BASE
};

pub static TORCH_LSTM_CELL: Op = Op {
    name: "torch.lstm_cell",
    doc: "One step of an LSTM: new hidden and cell state.",
    schema: "(a: Tensor, h: Tensor[], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor?, b_hh: Tensor?) -> (Tensor, Tensor)",
    level: Level::Composite(|b, call| cell(b, call, Cell::Lstm)),
    aten: &[Aten {
        overloads: &["lstm_cell.default"],
        import: Import::Map("a=input h=hx w_ih w_hh b_ih b_hh"),
    }],
    samples: &[
        Sample("T[2, 4], [T[2, 5], T[2, 5]], T[20, 4], T[20, 5], T[20], T[20]"),
        Sample("T[2, 4], [T[2, 5], T[2, 5]], T[20, 4], T[20, 5], none, none"),
    ],
    ..Op::BASE
};

pub static TORCH_GRU_CELL: Op = Op {
    name: "torch.gru_cell",
    doc: "One step of a GRU: the new hidden state.",
    schema: "(a: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor?, b_hh: Tensor?) -> Tensor",
    level: Level::Composite(|b, call| cell(b, call, Cell::Gru)),
    aten: &[Aten {
        overloads: &["gru_cell.default"],
        import: Import::Map("a=input h=hx w_ih w_hh b_ih b_hh"),
    }],
    samples: &[
        Sample("T[2, 4], T[2, 5], T[15, 4], T[15, 5], T[15], T[15]"),
        Sample("T[2, 4], T[2, 5], T[15, 4], T[15, 5], none, none"),
    ],
    ..Op::BASE
};

pub static TORCH_RNN_CELL: Op = Op {
    name: "torch.rnn_cell",
    doc: "One step of an Elman network: the new hidden state.",
    schema: "(a: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor?, b_hh: Tensor?, *, \
             nonlinearity: str{tanh|relu} = tanh) -> Tensor",
    level: Level::Composite(|b, call| cell(b, call, simple_cell(call)?)),
    aten: &[
        Aten {
            overloads: &["rnn_tanh_cell.default"],
            import: Import::Map("a=input h=hx w_ih w_hh b_ih b_hh"),
        },
        Aten {
            overloads: &["rnn_relu_cell.default"],
            import: Import::MapWith(
                "a=input h=hx w_ih w_hh b_ih b_hh",
                &[("nonlinearity", FixedArg::Str("relu"))],
            ),
        },
    ],
    samples: &[
        Sample("T[2, 4], T[2, 5], T[5, 4], T[5, 5], T[5], T[5]"),
        Sample("T[2, 4], T[2, 5], T[5, 4], T[5, 5], none, none, nonlinearity=\"relu\""),
    ],
    ..Op::BASE
};

/// What one step computes.
#[derive(Clone, Copy, PartialEq)]
enum Cell {
    Lstm,
    Gru,
    Tanh,
    Relu,
}

fn simple_cell(call: &Call) -> Result<Cell, OpError> {
    Ok(if call.str("nonlinearity")? == "relu" { Cell::Relu } else { Cell::Tanh })
}

impl Cell {
    fn gates(self) -> i64 {
        match self {
            Cell::Lstm => 4,
            Cell::Gru => 3,
            Cell::Tanh | Cell::Relu => 1,
        }
    }

    /// The new state from the gates of the input and the weights of the hidden state.
    fn step(self, b: &mut Builder<'_>, gates: &Tensor, state: &State, w: &Weights) -> Result<State, OpError> {
        let hidden = projected(b, &state.h, &w.hh, w.b_hh.as_ref())?;
        let new = match (self, &state.c) {
            (Cell::Lstm, Some(c)) => lstm_step(b, gates, &hidden, c)?,
            (Cell::Gru, _) => State { h: gru_step(b, gates, &hidden, &state.h)?, c: None },
            (Cell::Relu, _) => {
                let sum = b.add(gates, &hidden)?;
                State { h: b.tensor("torch.relu", vec![sum.arg()])?, c: None }
            }
            _ => {
                let sum = b.add(gates, &hidden)?;
                State { h: b.unary("prims.tanh", &sum)?, c: None }
            }
        };
        Ok(match &w.hr {
            Some(hr) => State { h: projected(b, &new.h, hr, None)?, c: new.c },
            None => new,
        })
    }
}

/// Hidden state, and cell state of an LSTM.
#[derive(Clone)]
struct State {
    h: Tensor,
    c: Option<Tensor>,
}

/// Weights of one layer and direction.
struct Weights {
    ih: Tensor,
    hh: Tensor,
    b_ih: Option<Tensor>,
    b_hh: Option<Tensor>,
    /// Projection of the hidden state.
    hr: Option<Tensor>,
}

fn projected(b: &mut Builder<'_>, x: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> Built {
    b.tensor("torch.linear", vec![x.arg(), w.arg(), bias.map_or(Arg::None, Tensor::arg)])
}

/// The gates, equal parts of the last dim.
fn split(b: &mut Builder<'_>, gates: &Tensor, n: i64) -> Result<Vec<Tensor>, OpError> {
    let axis = gates.rank() - 1;
    let each = gates.dims()[axis].floordiv(&Dim::Known(n)).expect("there is at least one gate");
    (0..n).map(|i| b.narrow(gates, axis, &each.mul(&Dim::Known(i)), &each.mul(&Dim::Known(i + 1)))).collect()
}

fn sigmoid(b: &mut Builder<'_>, x: &Tensor) -> Built {
    b.tensor("torch.sigmoid", vec![x.arg()])
}

fn lstm_step(b: &mut Builder<'_>, gates: &Tensor, hidden: &Tensor, c: &Tensor) -> Result<State, OpError> {
    let sum = b.add(gates, hidden)?;
    let parts = split(b, &sum, 4)?;
    let (i, f, o) = (sigmoid(b, &parts[0])?, sigmoid(b, &parts[1])?, sigmoid(b, &parts[3])?);
    let g = b.unary("prims.tanh", &parts[2])?;
    let (kept, added) = (b.mul(&f, c)?, b.mul(&i, &g)?);
    let c = b.add(&kept, &added)?;
    let t = b.unary("prims.tanh", &c)?;
    Ok(State { h: b.mul(&o, &t)?, c: Some(c) })
}

/// `new + update * (h - new)`, where `new` sees the hidden state through the reset gate.
fn gru_step(b: &mut Builder<'_>, gates: &Tensor, hidden: &Tensor, h: &Tensor) -> Built {
    let (x, y) = (split(b, gates, 3)?, split(b, hidden, 3)?);
    let r = b.add(&x[0], &y[0])?;
    let r = sigmoid(b, &r)?;
    let z = b.add(&x[1], &y[1])?;
    let z = sigmoid(b, &z)?;
    let seen = b.mul(&r, &y[2])?;
    let n = b.add(&x[2], &seen)?;
    let n = b.unary("prims.tanh", &n)?;
    let d = b.sub(h, &n)?;
    let d = b.mul(&z, &d)?;
    b.add(&n, &d)
}

fn cell(b: &mut Builder<'_>, call: &Call, cell: Cell) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let state = match cell {
        Cell::Lstm => match call.tensors("h")?.as_slice() {
            [h, c] => State { h: h.clone(), c: Some(c.clone()) },
            other => {
                return Err(
                    call.error(format!("`h` has {} tensors, hidden and cell state are wanted", other.len()))
                );
            }
        },
        _ => State { h: call.tensor("h")?, c: None },
    };
    let w = Weights {
        ih: call.tensor("w_ih")?,
        hh: call.tensor("w_hh")?,
        b_ih: call.opt_tensor("b_ih")?,
        b_hh: call.opt_tensor("b_hh")?,
        hr: None,
    };
    let gates = projected(b, &a, &w.ih, w.b_ih.as_ref()).map_err(|e| call.error(e.what))?;
    let new = cell.step(b, &gates, &state, &w).map_err(|e| call.error(e.what))?;
    Ok(std::iter::once(new.h.arg()).chain(new.c.map(|c| c.arg())).collect())
}

/// The shape of a network.
struct Network {
    layers: usize,
    directions: usize,
    /// For each layer and direction.
    weights: Vec<Weights>,
    /// Initial states, `[layers * directions, batch, size]`.
    h: Tensor,
    c: Option<Tensor>,
}

impl Network {
    fn of(call: &Call, cell: Cell) -> Result<Network, OpError> {
        let a = call.tensor("a")?;
        if a.rank() != 3 {
            return Err(
                call.error(format!("`a` is {}, time, batch and features are wanted", meta::show(a.dims())))
            );
        }
        let dtype = a.dtype();
        if let Some(t) = call.all_tensors().iter().find(|t| !dtype.is_float() || t.dtype() != dtype) {
            return Err(call.error(format!("`a` is {dtype}, another is {}: one floating dtype", t.dtype())));
        }
        let layers = usize::try_from(call.int("layers")?).unwrap_or(0);
        let directions = 1 + usize::from(call.bool("bidirectional")?);
        let params = call.tensors("params")?;
        let biased = call.bool("has_biases")?;
        let n = layers * directions;
        let plain = if biased { 4 } else { 2 };
        let each = match params.len() {
            m if n > 0 && m == n * plain => plain,
            m if n > 0 && cell == Cell::Lstm && m == n * (plain + 1) => plain + 1,
            m => {
                return Err(
                    call.error(format!("{m} `params` for {layers} layers in {directions} directions"))
                );
            }
        };
        let weights = params.chunks(each).map(|p| Weights {
            ih: p[0].clone(),
            hh: p[1].clone(),
            b_ih: biased.then(|| p[2].clone()),
            b_hh: biased.then(|| p[3].clone()),
            hr: (each > plain).then(|| p[plain].clone()),
        });
        let weights: Vec<Weights> = weights.collect();
        let (h, c) = match cell {
            Cell::Lstm => match call.tensors("h")?.as_slice() {
                [h, c] => (h.clone(), Some(c.clone())),
                other => return Err(call.error(format!("`h` has {} tensors, 2 are wanted", other.len()))),
            },
            _ => (call.tensor("h")?, None),
        };
        let gates = Dim::Known(cell.gates());
        let size = weights[0].hh.dims().first().and_then(|g| g.floordiv(&gates));
        let fits = h.rank() == 3
            && h.dims()[0].same(&Dim::Known(n as i64)) != Some(false)
            && size.is_some_and(|s| {
                c.as_ref().unwrap_or(&h).dims().last().is_some_and(|x| x.same(&s) != Some(false))
            });
        if !fits {
            let (h, w) = (meta::show(h.dims()), meta::show(weights[0].hh.dims()));
            return Err(
                call.error(format!("states {h} do not go with hidden weights {w} of {layers} layers"))
            );
        }
        Ok(Network { layers, directions, weights, h, c })
    }

    /// Size of one direction's output.
    fn output(&self) -> &Dim {
        &self.h.dims()[2]
    }
}

/// Outputs `[time, batch, directions * size]` (or batch first) and the last states.
fn network_meta(call: &Call, cell: Cell) -> Result<Vec<Option<Type>>, OpError> {
    let n = Network::of(call, cell)?;
    let a = call.tensor("a")?;
    let width = n.output().mul(&Dim::Known(n.directions as i64));
    let mut types = meta::one(vec![a.dims()[0].clone(), a.dims()[1].clone(), width], a.dtype(), &a.ty)?;
    types.push(Some(Type::Tensor(n.h.ty.clone())));
    types.extend(n.c.map(|c| Some(Type::Tensor(c.ty.clone()))));
    Ok(types)
}

fn network(b: &mut Builder<'_>, call: &Call, cell: Cell) -> Result<Vec<Arg>, OpError> {
    let net = Network::of(call, cell)?;
    let a = call.tensor("a")?;
    let batch_first = call.bool("batch_first")?;
    let swap = [1, 0, 2];
    let mut x = if batch_first { b.permute(&a, &swap)? } else { a };
    let Some(steps) = x.dims()[0].known() else {
        return Err(
            call.error(format!("its length {} is known only when run: it cannot be unrolled", x.dims()[0]))
        );
    };
    let mut last = Vec::new();
    for layer in 0..net.layers {
        let mut outputs = Vec::new();
        for direction in 0..net.directions {
            let at = layer * net.directions + direction;
            let (out, state) = one_layer(b, cell, &x, steps, &net, at, direction == 1)?;
            outputs.push(out);
            last.push(state);
        }
        x = b.cat(&outputs, 2)?;
        if layer + 1 < net.layers {
            x = dropped(b, call, &x, layer as i64)?;
        }
    }
    let x = if batch_first { b.permute(&x, &swap)? } else { x };
    let mut results = vec![x.arg()];
    let h: Vec<Tensor> = last.iter().map(|s| s.h.clone()).collect();
    results.push(stacked(b, &h)?.arg());
    let c: Option<Vec<Tensor>> = last.into_iter().map(|s| s.c).collect();
    if let Some(c) = c {
        results.push(stacked(b, &c)?.arg());
    }
    Ok(results)
}

/// One direction of one layer: its outputs over time, and its last state.
fn one_layer(
    b: &mut Builder<'_>,
    cell: Cell,
    x: &Tensor,
    steps: i64,
    net: &Network,
    at: usize,
    backwards: bool,
) -> Result<(Tensor, State), OpError> {
    let w = &net.weights[at];
    let first = |b: &mut Builder<'_>, t: &Tensor| b.pick(t, 0, at as i64);
    let mut state = State { h: first(b, &net.h)?, c: net.c.as_ref().map(|c| first(b, c)).transpose()? };
    // The input's share of all gates is one product over all of time.
    let gates = projected(b, x, &w.ih, w.b_ih.as_ref())?;
    let mut outputs = Vec::new();
    for step in 0..steps {
        let t = if backwards { steps - 1 - step } else { step };
        let now = b.pick(&gates, 0, t)?;
        state = cell.step(b, &now, &state, w)?;
        outputs.push(state.h.clone());
    }
    if backwards {
        outputs.reverse();
    }
    let out = if outputs.is_empty() {
        let mut dims = x.dims().to_vec();
        dims[2] = state.h.dims()[1].clone();
        b.full(&dims, 0.0, x.dtype(), &x.ty.device)?
    } else {
        stacked(b, &outputs)?
    };
    Ok((out, state))
}

fn stacked(b: &mut Builder<'_>, parts: &[Tensor]) -> Built {
    let rows = parts.iter().map(|p| b.unsqueeze(p, 0)).collect::<Result<Vec<_>, _>>()?;
    b.cat(&rows, 0)
}

/// Words that the dropout of one layer draws: its elements rounded up to a multiple of 4.
fn words(dims: &[Dim]) -> Dim {
    let four = Dim::Known(4);
    Dim::product(dims).add(&Dim::Known(3)).floordiv(&four).expect("4 is not zero").mul(&four)
}

fn dropped(b: &mut Builder<'_>, call: &Call, x: &Tensor, layer: i64) -> Built {
    let p = call.num("dropout")?;
    if !call.bool("train")? || is_number(&p, 0.0) {
        return Ok(x.clone());
    }
    let (seed, mut offset) = (call.raw("seed")?, call.raw("offset")?);
    if seed.is_none() || offset.is_none() {
        return Err(call.error("dropout between layers needs `seed` and `offset`"));
    }
    if layer > 0 {
        let before = Arg::dim(words(x.dims()).mul(&Dim::Known(layer)));
        offset = match (&offset, &before) {
            (Arg::Int(a), Arg::Int(b)) => Arg::Int(a + b),
            _ => {
                let sum = b.call("num.add", vec![offset, before])?;
                sum.into_iter().next().ok_or_else(|| call.error("`num.add` has one result"))?
            }
        };
    }
    b.tensor("torch.dropout", vec![x.arg(), p.to_arg(), Arg::Bool(true), Arg::str("element"), seed, offset])
}

fn import_network(
    b: &mut Builder<'_>,
    c: &AtenCall,
    op: &str,
    nonlinearity: Option<&str>,
) -> Result<Vec<Arg>, OpError> {
    let mut args = import::args(c, &["input", "hx", "params", "has_biases", "num_layers"])?;
    args.push(import::float(c, "dropout")?);
    args.extend(import::args(c, &["train", "bidirectional", "batch_first"])?);
    args.extend(nonlinearity.map(Arg::str));
    args.extend(philox(b, c)?);
    b.call(op, args)
}

/// Seed and offset for the dropout between layers, drawn before the op; absent where it drops nothing.
fn philox(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let layers = import::int(c, "num_layers")?;
    let drops = !matches!(import::float(c, "dropout")?, Arg::Float(p) if p == 0.0);
    if !import::flag(c, "train")? || !drops || layers < 2 {
        return Ok(vec![Arg::None, Arg::None]);
    }
    let a = import::tensor(b, c, "input")?;
    let h = match c.arg("hx")? {
        Arg::List(states) => states.first().and_then(Arg::value),
        one => one.value(),
    };
    let h = b.as_tensor(h.ok_or_else(|| c.error("`hx` must be a tensor or a list of them"))?)?;
    let directions = 1 + i64::from(import::flag(c, "bidirectional")?);
    let width = h.dims().last().map(|d| d.mul(&Dim::Known(directions)));
    let (Some(width), [time, batch, _]) = (width, a.dims()) else {
        return Err(c.error("`input` must have 3 dims"));
    };
    let n = words(&[time.clone(), batch.clone(), width]).mul(&Dim::Known(layers - 1));
    b.call("prims.next_philox", vec![Arg::dim(n)])
}
