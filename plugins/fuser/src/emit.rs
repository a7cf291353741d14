//! Loops' program as steps of the region.

use crate::build::{Built, Outside};
use crate::kernels::{Loop, Nothing};
use crate::prims;
use std::collections::{BTreeMap, HashMap, HashSet};
use thunderhead_loops::{
    Graph, Kernel, NodeId, Operand, Options, Prim, Program, Source, Step as LoopStep, TensorType,
    ValueId as Node, compile,
};
use thunderhead_sdk::{Dtype, Error, OpId, Region, Step, Steps, ValueId};

/// Gives the host all steps of a program.
pub fn emit(
    region: &Region<'_>,
    steps: &mut Steps<'_>,
    built: &Built,
    program: Program,
) -> Result<(), Error> {
    let mut emitter = Emitter { region, steps, built, places: HashMap::new(), written: HashSet::new() };
    let types: HashMap<Node, TensorType> = stored(&program).map(|v| (v, program.ty(v).clone())).collect();
    for step in program.into_steps() {
        match step {
            LoopStep::Kernel(kernel) => emitter.kernel(kernel, &types)?,
            LoopStep::Extern(node) => emitter.outside(node)?,
        }
    }
    emitter.empty()
}

/// Values that kernels write.
fn stored(program: &Program) -> impl Iterator<Item = Node> + '_ {
    program
        .steps()
        .iter()
        .flat_map(|step| match step {
            LoopStep::Kernel(kernel) => kernel.outputs(),
            LoopStep::Extern(_) => &[],
        })
        .copied()
}

struct Emitter<'e, 'r, 's> {
    region: &'e Region<'r>,
    steps: &'e mut Steps<'s>,
    built: &'e Built,
    /// Temporaries of values that are no tensor of the region.
    places: HashMap<Node, ValueId>,
    written: HashSet<Node>,
}

impl Emitter<'_, '_, '_> {
    fn place(&self, value: Node) -> Result<ValueId, Error> {
        let place = self.built.places.get(&value).or_else(|| self.places.get(&value));
        place
            .copied()
            .ok_or_else(|| Error::internal(format!("a kernel reads {value}, which nobody has written")))
    }

    fn temporary(&mut self, ty: &TensorType) -> Result<ValueId, Error> {
        let dtype = Dtype::from_name(ty.dtype.name())
            .ok_or_else(|| Error::internal(format!("no dtype is called {}", ty.dtype)))?;
        let dims: Vec<i64> = ty.dims.iter().map(|dim| *dim as i64).collect();
        self.steps.temporary(dtype, &dims)
    }

    fn kernel(&mut self, kernel: Kernel, types: &HashMap<Node, TensorType>) -> Result<(), Error> {
        let inputs = kernel.inputs().iter().map(|v| self.place(*v)).collect::<Result<Vec<_>, _>>()?;
        let mut outputs = Vec::with_capacity(kernel.outputs().len());
        for value in kernel.outputs() {
            self.written.insert(*value);
            let place = match self.place(*value) {
                Ok(place) => place,
                Err(_) => {
                    let place = self.temporary(&types[value])?;
                    self.places.insert(*value, place);
                    place
                }
            };
            outputs.push(place);
        }
        let step = Step::new(self.name(kernel.outputs()));
        let step = step.inputs(inputs).outputs(outputs).numbers(0..kernel.n_slots());
        let indexing = self.indexing(&kernel);
        self.steps.kernel(&step, Loop::new(kernel, indexing))
    }

    /// The ops of a kernel that take indices, as messages name them; empty where there is none. A loop knows the index at
    /// fault, but not whose it is.
    fn indexing(&self, kernel: &Kernel) -> String {
        let read: HashSet<Node> = kernel.inputs().iter().copied().collect();
        let mut seen: HashSet<Node> = HashSet::new();
        let mut todo: Vec<Node> = kernel.outputs().to_vec();
        let mut found: Vec<OpId> = Vec::new();
        while let Some(value) = todo.pop() {
            // Loops add values of their own, which stand for no op.
            if (value.0 as usize) >= self.built.n_values() || !seen.insert(value) {
                continue;
            }
            let Source::Node(node, _) = self.built.graph.source(value) else { continue };
            let prim = self.built.graph.prim(node);
            let indexes = matches!(prim, Prim::Take(_) | Prim::TakeAlongAxis(_) | Prim::Embedding);
            let origin = self.built.origins[node.0 as usize];
            if indexes && !found.contains(&origin) {
                found.push(origin);
            }
            let operands = self.built.graph.operands(node).iter();
            todo.extend(operands.filter_map(|operand| match operand {
                Operand::Value(value) if !read.contains(value) => Some(*value),
                _ => None,
            }));
        }
        let mut names: Vec<String> = found
            .into_iter()
            .map(|op| (self.region.op(op).op().name(), self.region.op(op).op().origin()))
            .map(|(name, origin)| format!("`{name}` ({origin})"))
            .collect();
        names.sort();
        names.join(" or ")
    }

    /// What makes the results: `add`, `rms_norm+mul`.
    fn name(&self, outputs: &[Node]) -> String {
        let known = outputs.iter().filter(|value| (value.0 as usize) < self.built.n_values());
        let mut names: Vec<&str> = Vec::new();
        for value in known {
            let Source::Node(node, _) = self.built.graph.source(*value) else { continue };
            let name = self.region.op(self.built.origins[node.0 as usize]).op().name();
            let name = name.rsplit('.').next().unwrap_or(name);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        match (names.len(), names.first(), names.last()) {
            (1..=3, ..) => names.join("+"),
            (_, Some(first), Some(last)) => format!("{first}+…+{last}"),
            // Loops have cut a fold in two.
            _ => "part".to_owned(),
        }
    }

    fn outside(&mut self, node: NodeId) -> Result<(), Error> {
        match self.built.outside.get(&node) {
            Some(Outside::Handed(op)) => self.steps.delegate(*op),
            Some(Outside::Gathered(v)) => self.gather(node, *v),
            None => Err(Error::internal("an extern node that nobody has made")),
        }
    }

    /// A kernel of its own that makes a strided view row-major.
    fn gather(&mut self, node: NodeId, v: ValueId) -> Result<(), Error> {
        let result = self.built.graph.results(node)[0];
        let ty = self.built.graph.ty(result).clone();
        let place = self.temporary(&ty)?;
        self.places.insert(result, place);
        let refused = |what: String| Error::unsupported(format!("a view cannot be read: {what}"));
        let strides = self.region.value(v).strides().and_then(prims::sizes);
        let strides = strides.ok_or_else(|| refused("its strides are negative".into()))?;
        let mut graph = Graph::new();
        let input = graph.input(ty, &strides).map_err(|e| refused(e.to_string()))?;
        let copy = graph.push1(Prim::Copy, &[input.into()]).map_err(|e| refused(e.to_string()))?;
        graph.output(copy);
        let program = compile(&graph, &Options::default()).map_err(|e| refused(e.to_string()))?;
        let mut written = false;
        for step in program.into_steps() {
            let LoopStep::Kernel(kernel) = step else { continue };
            let step = Step::new("gather").inputs([v]).outputs([place]);
            self.steps.kernel(&step, Loop::new(kernel, String::new()))?;
            written = true;
        }
        if written { Ok(()) } else { self.steps.kernel(&Step::new("empty").outputs([place]), Nothing) }
    }

    /// Tensors without elements have no kernel, but the host wants to know who writes them.
    fn empty(&mut self) -> Result<(), Error> {
        let is_empty =
            |node: &&Node| self.built.graph.ty(**node).numel() == 0 && !self.written.contains(node);
        let places: BTreeMap<ValueId, Node> =
            self.built.primary.iter().filter(is_empty).map(|node| (self.built.places[node], *node)).collect();
        if places.is_empty() {
            return Ok(());
        }
        self.steps.kernel(&Step::new("empty").outputs(places.into_keys()), Nothing)
    }
}
