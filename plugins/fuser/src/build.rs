//! Leaves as a loops graph.
//!
//! Invariants: `primary` values are written to the region's tensor of the same number where loops store them; values that
//! lie in memory (what comes from outside, results of ops handed on) are read there; all other values of the graph, if
//! stored, are temporaries.

use crate::flat::Leaf;
use crate::prims::{self, Arg, Call};
use crate::views::{Lie, chain};
use std::collections::{HashMap, HashSet};
use thunderhead_loops::{Dtype, Graph, NodeId, Operand, Prim, Source, TensorType, ValueId as Node};
use thunderhead_sdk::{Error, OpId, Region, RegionOp, ValueId};

/// What an extern node stands for.
#[derive(Clone, Copy, Debug)]
pub enum Outside {
    /// An op handed on.
    Handed(OpId),
    /// A view that is read from memory by its strides, made row-major.
    Gathered(ValueId),
}

/// A graph, and how its values and the region's belong together.
pub struct Built {
    pub graph: Graph,
    /// For each node of the graph, the op that it belongs to.
    pub origins: Vec<OpId>,
    /// What the extern nodes are.
    pub outside: HashMap<NodeId, Outside>,
    /// Where values of the graph lie: tensors of the region.
    pub places: HashMap<Node, ValueId>,
    /// Of those, the ones that steps have to write, in order.
    pub primary: Vec<Node>,
}

/// The graph; `Err` in `Ok` names an op that loops do not take after all.
pub fn build<'a>(region: &Region<'a>, leaves: &[Leaf<'a>]) -> Result<Result<Built, OpId>, Error> {
    let mut builder = Builder {
        region,
        built: Built {
            graph: Graph::new(),
            origins: Vec::new(),
            outside: HashMap::new(),
            places: HashMap::new(),
            primary: Vec::new(),
        },
        nodes: HashMap::new(),
        looks: HashMap::new(),
        now: 0,
    };
    for leaf in leaves {
        match builder.leaf(leaf) {
            Ok(()) => {}
            Err(Trouble::Refused) => return Ok(Err(builder.now)),
            Err(Trouble::Error(error)) => return Err(error),
        }
    }
    match builder.outputs() {
        Ok(()) => Ok(Ok(builder.built)),
        Err(Trouble::Refused) => Ok(Err(builder.now)),
        Err(Trouble::Error(error)) => Err(error),
    }
}

enum Trouble {
    /// Loops do not take the op at hand.
    Refused,
    Error(Error),
}

struct Builder<'r, 'a> {
    region: &'r Region<'a>,
    built: Built,
    /// The graph's value for a tensor of the region.
    nodes: HashMap<ValueId, Node>,
    /// Results that are only looks at another value's memory, though the host does not say so.
    looks: HashMap<ValueId, (ValueId, OpId)>,
    /// The op at hand.
    now: OpId,
}

impl Built {
    /// How many values the graph has; loops add their own behind.
    pub fn n_values(&self) -> usize {
        self.graph.n_values()
    }
}

impl<'a> Builder<'_, 'a> {
    fn leaf(&mut self, leaf: &Leaf<'a>) -> Result<(), Trouble> {
        match leaf {
            Leaf::View { .. } => Ok(()),
            Leaf::Ours { op, call } => {
                self.now = op.id();
                let results = self.call(call, op)?;
                for (v, node) in op.output_values().iter().zip(results) {
                    self.is_primary(*v, node);
                }
                Ok(())
            }
            Leaf::Look { op, call } => {
                self.now = op.id();
                let results = self.call(call, op)?;
                let [of, ..] = *op.input_values() else { return Err(Trouble::Refused) };
                for (v, node) in op.output_values().iter().zip(results) {
                    self.nodes.insert(*v, node);
                    self.looks.insert(*v, (of, op.id()));
                }
                Ok(())
            }
            Leaf::Yield { op, from, to } => {
                self.now = *op;
                // A tensor that loops have no dtype for can only be where it is.
                let from = self.node(*from)?;
                let node = self.push(Prim::Copy, &[from.into()])?;
                self.is_primary(*to, node[0]);
                Ok(())
            }
            Leaf::Handed { op } => self.hand(op),
        }
    }

    fn is_primary(&mut self, v: ValueId, node: Node) {
        self.nodes.insert(v, node);
        self.built.places.insert(node, v);
        self.built.primary.push(node);
    }

    fn push(&mut self, prim: Prim, operands: &[Operand]) -> Result<Vec<Node>, Trouble> {
        let results = self.built.graph.push(prim, operands).map_err(|_| Trouble::Refused)?;
        self.built.origins.push(self.now);
        Ok(results)
    }

    /// A prim, whose results must be what the op table says.
    fn call(&mut self, call: &Call, op: &RegionOp<'a>) -> Result<Vec<Node>, Trouble> {
        let mut operands = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            operands.push(match arg {
                Arg::Tensor(v) => Operand::Value(self.node(*v)?),
                Arg::Number(operand) => *operand,
            });
        }
        let results = self.push(call.prim.clone(), &operands)?;
        let as_said = results.len() == op.n_outputs()
            && results.iter().zip(op.outputs()).all(|(node, desc)| {
                prims::tensor_type(&desc).is_some_and(|ty| ty == *self.built.graph.ty(*node))
            });
        if as_said { Ok(results) } else { Err(Trouble::Refused) }
    }

    fn hand(&mut self, op: &RegionOp<'a>) -> Result<(), Trouble> {
        self.now = op.id();
        let mut operands = Vec::new();
        let mut seen = HashSet::new();
        for v in op.input_values() {
            self.settle(*v)?;
            let memory = self.memory(*v);
            if !self.region.value(memory).is_input() && seen.insert(memory) {
                operands.push(Operand::Value(self.node(memory)?));
            }
        }
        let types = op.outputs().map(|desc| {
            let dims = prims::sizes(desc.dims())?;
            // Nothing in the graph looks at elements of a type that loops do not know; only its place in the order counts.
            Some(TensorType { dtype: prims::dtype(desc.dtype()).unwrap_or(Dtype::U8), dims })
        });
        let types: Option<Vec<TensorType>> = types.collect();
        let types = types.ok_or_else(|| unknown_size(op))?;
        let node = NodeId(self.built.graph.n_nodes() as u32);
        let results = self.push(Prim::Extern(types), &operands).map_err(|_| unknown_size(op))?;
        self.built.outside.insert(node, Outside::Handed(op.id()));
        for (v, result) in op.output_values().iter().zip(results) {
            self.nodes.insert(*v, result);
            self.built.places.insert(result, *v);
        }
        Ok(())
    }

    /// The value whose memory holds `v`, as the host sees it.
    fn held(&self, mut v: ValueId) -> ValueId {
        while !self.region.value(v).is_input()
            && self.region.value(v).is_view()
            && self.region.value(v).base() != v
        {
            v = self.region.value(v).base();
        }
        v
    }

    /// Gives memory of its own to what is only a look at another value but not to the host, where somebody outside of
    /// loops reads it.
    fn settle(&mut self, v: ValueId) -> Result<(), Trouble> {
        let held = self.held(v);
        let Some((_, op)) = self.looks.remove(&held) else { return Ok(()) };
        let from = self.node(held)?;
        let now = std::mem::replace(&mut self.now, op);
        let node = self.push(Prim::Copy, &[from.into()])?[0];
        self.now = now;
        self.is_primary(held, node);
        Ok(())
    }

    /// The value whose memory holds `v`.
    fn memory(&self, mut v: ValueId) -> ValueId {
        loop {
            let value = self.region.value(v);
            let next = if value.is_input() {
                return v;
            } else if value.is_view() {
                value.base()
            } else {
                match self.looks.get(&v) {
                    Some((of, _)) => *of,
                    None => return v,
                }
            };
            if next == v {
                return v;
            }
            v = next;
        }
    }

    /// The graph's value for a tensor, made where there is none yet.
    fn node(&mut self, v: ValueId) -> Result<Node, Trouble> {
        if let Some(node) = self.nodes.get(&v) {
            return Ok(*node);
        }
        let value = self.region.value(v);
        let node = if value.is_input() || self.region.value(self.memory(v)).is_input() {
            self.input(v)?
        } else if value.is_view() {
            self.view(v)?
        } else {
            return Err(Trouble::Error(Error::internal(format!(
                "value {v} of the region is made by nobody"
            ))));
        };
        self.nodes.insert(v, node);
        Ok(node)
    }

    /// What lies outside, with its strides.
    fn input(&mut self, v: ValueId) -> Result<Node, Trouble> {
        let value = self.region.value(v);
        let ty = prims::tensor_type(&value.desc()).ok_or(Trouble::Refused)?;
        let strides = value.strides().and_then(prims::sizes).ok_or(Trouble::Refused)?;
        let node = self.built.graph.input(ty, &strides).map_err(|_| Trouble::Refused)?;
        self.built.places.insert(node, v);
        Ok(node)
    }

    fn view(&mut self, v: ValueId) -> Result<Node, Trouble> {
        let value = self.region.value(v);
        let ty = prims::tensor_type(&value.desc()).ok_or(Trouble::Refused)?;
        let base = self.node(value.base())?;
        let of = self.region.value(value.base());
        let lie = value.strides().and_then(prims::sizes).zip(usize::try_from(value.offset_elems()).ok());
        let lie = lie.map(|(strides, offset)| Lie { dims: ty.dims.clone(), strides, offset });
        // An offset that is worked out in each run says nothing here; the host then gives the least i64.
        let prims = lie.filter(|_| of.dtype() == value.dtype() && of.is_contiguous());
        match prims.and_then(|lie| chain(&self.built.graph.ty(base).dims, &lie)) {
            Some(prims) => {
                let mut node = base;
                for prim in prims {
                    node = self.push(prim, &[node.into()])?[0];
                }
                Ok(node)
            }
            None => self.gather(v, ty, base),
        }
    }

    /// Read from memory, by a kernel of its own.
    fn gather(&mut self, v: ValueId, ty: TensorType, base: Node) -> Result<Node, Trouble> {
        let memory = self.memory(v);
        let memory = if self.region.value(memory).is_input() { base } else { self.node(memory)? };
        let node = NodeId(self.built.graph.n_nodes() as u32);
        let results = self.push(Prim::Extern(vec![ty]), &[memory.into()])?;
        self.built.outside.insert(node, Outside::Gathered(v));
        Ok(results[0])
    }

    /// What must be in memory when the region has run.
    fn outputs(&mut self) -> Result<(), Trouble> {
        let mut seen = HashSet::new();
        for v in self.region.outputs() {
            self.settle(*v)?;
            let memory = self.memory(*v);
            if self.region.value(memory).is_input() || !seen.insert(memory) {
                continue;
            }
            let node = self.node(memory)?;
            if let Source::Node(made, _) = self.built.graph.source(node)
                && !self.built.outside.contains_key(&made)
            {
                self.built.graph.output(node);
            }
        }
        Ok(())
    }
}

fn unknown_size(op: &RegionOp<'_>) -> Trouble {
    Trouble::Error(Error::unsupported(format!("the sizes of `{}` are not known", op.name())))
}
