//! A region as an executor is asked about it: tensors and ops by number.
//!
//! Invariants: values and ops are numbered from 0 in the order in which they became known, so a number never changes its
//! meaning; ops that a decomposition brings come behind those of the region. Slots of arguments index `numbers`.

use crate::claim::spec::SpecError;
use crate::claim::spec::SpecInt;
use crate::claim::{Layouts, OpSpec, SpecArg, TensorSpec};
use crate::ir::{Bsym, Dim, Name, NumKind, Schemas, Stmt, Trace, Type, ValueId};
use crate::ops::{self, Level, Traits};
use rustc_hash::FxHashMap;

/// A region.
#[derive(Clone, Debug, Default)]
pub struct RegionSpec {
    /// `FullFusion0`; empty for an op that was handed on.
    pub name: Name,
    /// All tensors that are known.
    pub values: Vec<RegionValue>,
    /// All ops that are known.
    pub ops: Vec<RegionOp>,
    /// The first so many ops are the region's own; the others are parts.
    pub n_ops: usize,
    /// Tensors made outside.
    pub inputs: Vec<u32>,
    /// Tensors wanted outside.
    pub outputs: Vec<u32>,
    /// Numbers known only at run, by slot.
    pub numbers: Vec<(ValueId, NumKind)>,
    pub(super) number_of: FxHashMap<ValueId, u32>,
    pub(super) slot_of: FxHashMap<ValueId, usize>,
}

/// A tensor of a region.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionValue {
    /// Dims and, when it is lowered, strides.
    pub tensor: TensorSpec,
    /// The tensor whose memory it lies in; itself where it is no view.
    pub base: u32,
    /// From the base's first element, in elements of its own dtype.
    pub offset_elems: i64,
    /// Made outside.
    pub is_input: bool,
    /// Wanted outside.
    pub is_output: bool,
    /// A tensor that only steps see.
    pub is_temporary: bool,
}

/// What the host does of an op by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPart {
    /// Nothing.
    No,
    /// It is a view.
    View,
    /// It works out numbers.
    Number,
}

/// An op of a region, or a part.
#[derive(Clone, Debug)]
pub struct RegionOp {
    /// As the trace has it; for a part, with the results of what it is a part of.
    pub bsym: Bsym,
    /// The question.
    pub spec: OpSpec,
    /// For each of its inputs the tensor.
    pub inputs: Vec<u32>,
    /// For each of its outputs the tensor.
    pub outputs: Vec<u32>,
    /// Is it the host's?
    pub host: HostPart,
    /// The op of the region that it is a part of, directly or not; itself for one of those.
    pub whole: u32,
}

/// What a spec with sizes needs to know.
pub struct Sizes<'a> {
    /// Value of a dim; none where only a run knows.
    pub size: &'a dyn Fn(&Dim) -> Option<i64>,
    /// Id of a parameter's constant; 0: none.
    pub constant_of: &'a dyn Fn(ValueId) -> u64,
    /// Schemas of ops.
    pub schemas: &'a dyn Schemas,
}

/// Why a region cannot be described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegionError {
    /// An argument that no executor can be given.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A size that only a run knows.
    #[error("size `{dim}` of `%{value}` is not known")]
    Unknown {
        /// The value.
        value: Name,
        /// The expression.
        dim: String,
    },
}

impl RegionSpec {
    /// A region before sizes and strides are known.
    pub fn unsized_of(
        trace: &Trace,
        stmts: &[usize],
        inputs: &[ValueId],
        outputs: &[ValueId],
        schemas: &dyn Schemas,
    ) -> Result<RegionSpec, SpecError> {
        let mut spec = RegionSpec::default();
        for v in inputs.iter().filter(|v| trace.ty(**v).tensor().is_some()) {
            let tensor = unsized_tensor(trace, *v);
            let at = spec.add(*v, tensor, None, 0);
            spec.values[at as usize].is_input = true;
            spec.inputs.push(at);
        }
        for at in stmts {
            let Stmt::Op(bsym) = &trace.body[*at] else { continue };
            let host =
                host_part(bsym, bsym.who.as_ref().is_some_and(|w| &*w.executor == crate::claim::walk::HOST));
            for v in bsym.defined().filter(|v| trace.ty(*v).tensor().is_some()) {
                let base = match host {
                    HostPart::View => first_tensor(trace, bsym).and_then(|v| spec.number_of.get(&v)).copied(),
                    _ => None,
                };
                let base = base.map(|b| spec.values[b as usize].base);
                let tensor = unsized_tensor(trace, v);
                spec.add(v, tensor, base, 0);
            }
            let whole = spec.ops.len() as u32;
            spec.add_op(trace, bsym, host, whole, schemas)?;
        }
        spec.n_ops = spec.ops.len();
        spec.wants(outputs);
        Ok(spec)
    }

    /// A region with all sizes and strides.
    pub fn sized(
        name: Name,
        trace: &Trace,
        layouts: &Layouts,
        bsyms: &[Bsym],
        inputs: &[ValueId],
        outputs: &[ValueId],
        sizes: &Sizes<'_>,
    ) -> Result<RegionSpec, RegionError> {
        let mut spec = RegionSpec { name, ..RegionSpec::default() };
        for v in inputs.iter().filter(|v| trace.ty(**v).tensor().is_some()) {
            let tensor = sized_tensor(trace, layouts, *v, sizes)?;
            let at = spec.add(*v, tensor, None, 0);
            spec.values[at as usize].is_input = true;
            spec.inputs.push(at);
        }
        for bsym in bsyms {
            let of_host = bsym.who.as_ref().is_some_and(|w| &*w.executor == crate::claim::walk::HOST);
            let host = host_part(bsym, of_host);
            let whole = spec.ops.len() as u32;
            spec.add_sized(trace, layouts, bsym, host, whole, sizes)?;
        }
        spec.n_ops = spec.ops.len();
        spec.wants(outputs);
        Ok(spec)
    }

    /// The number of a tensor.
    pub fn number_of(&self, v: ValueId) -> Option<u32> {
        self.number_of.get(&v).copied()
    }

    /// Adds an op and its results.
    pub(super) fn add_sized(
        &mut self,
        trace: &Trace,
        layouts: &Layouts,
        bsym: &Bsym,
        host: HostPart,
        whole: u32,
        sizes: &Sizes<'_>,
    ) -> Result<(), RegionError> {
        for v in bsym.defined().filter(|v| trace.ty(*v).tensor().is_some()) {
            if self.number_of.contains_key(&v) {
                // A part makes the result of what it is a part of.
                continue;
            }
            let tensor = sized_tensor(trace, layouts, v, sizes)?;
            let mut base = None;
            let mut offset_elems = 0;
            if host == HostPart::View
                && let Some(source) = first_tensor(trace, bsym).and_then(|v| self.number_of.get(&v)).copied()
            {
                let of = self.values[source as usize].base;
                base = Some(of);
                let own = place_bytes(trace, layouts, v, sizes)?;
                let of_base = place_bytes(trace, layouts, self.values[of as usize].tensor.value, sizes)?;
                offset_elems = (own - of_base) / tensor.dtype.size_bytes() as i64;
            }
            self.add(v, tensor, base, offset_elems);
        }
        self.add_op(trace, bsym, host, whole, sizes.schemas)?;
        let at = self.ops.len() - 1;
        let (op, values) = (&mut self.ops[at], &self.values);
        known_arguments(op, trace, sizes);
        for (tensor, number) in op.spec.inputs.iter_mut().zip(&op.inputs) {
            *tensor = values[*number as usize].tensor.clone();
        }
        for (tensor, number) in op.spec.outputs.iter_mut().zip(&op.outputs) {
            *tensor = values[*number as usize].tensor.clone();
        }
        Ok(())
    }

    /// Adds a tensor that only steps see.
    pub(super) fn add_temporary(&mut self, tensor: TensorSpec) -> u32 {
        let at = self.add(tensor.value, tensor, None, 0);
        self.values[at as usize].is_temporary = true;
        at
    }

    fn add(&mut self, v: ValueId, tensor: TensorSpec, base: Option<u32>, offset_elems: i64) -> u32 {
        let at = self.values.len() as u32;
        self.values.push(RegionValue {
            tensor,
            base: base.unwrap_or(at),
            offset_elems,
            is_input: false,
            is_output: false,
            is_temporary: false,
        });
        self.number_of.insert(v, at);
        at
    }

    fn wants(&mut self, outputs: &[ValueId]) {
        for at in outputs.iter().filter_map(|v| self.number_of.get(v)).copied() {
            self.values[at as usize].is_output = true;
            self.outputs.push(at);
        }
    }

    fn add_op(
        &mut self,
        trace: &Trace,
        bsym: &Bsym,
        host: HostPart,
        whole: u32,
        schemas: &dyn Schemas,
    ) -> Result<(), SpecError> {
        let mut spec = OpSpec::of(trace, bsym, schemas)?;
        // Slots count through the region.
        let own: Vec<usize> = spec.slots.iter().map(|(v, kind)| self.slot(*v, *kind)).collect();
        for (_, arg) in &mut spec.args {
            match arg {
                SpecArg::Number(slot) => *slot = own[*slot],
                SpecArg::Ints(ints) => {
                    for int in ints {
                        if let SpecInt::Slot(slot) = int {
                            *slot = own[*slot];
                        }
                    }
                }
                _ => {}
            }
        }
        spec.slots.clear();
        let number = |t: &TensorSpec| self.number_of.get(&t.value).copied();
        // Whatever a region uses is among its inputs, or made in it.
        let inputs: Option<Vec<u32>> = spec.inputs.iter().map(number).collect();
        let outputs: Option<Vec<u32>> = spec.outputs.iter().map(number).collect();
        let (Some(inputs), Some(outputs)) = (inputs, outputs) else {
            return Err(SpecError {
                op: bsym.op.to_string(),
                arg: String::new(),
                why: "a tensor comes from nowhere".to_owned(),
            });
        };
        self.ops.push(RegionOp { bsym: bsym.clone(), spec, inputs, outputs, host, whole });
        Ok(())
    }

    fn slot(&mut self, v: ValueId, kind: NumKind) -> usize {
        let next = self.numbers.len();
        let slot = *self.slot_of.entry(v).or_insert(next);
        if slot == next {
            self.numbers.push((v, kind));
        }
        slot
    }
}

impl RegionOp {
    /// Can it be taken apart?
    pub fn is_composite(&self) -> bool {
        self.bsym.block.is_some()
            || ops::find(&self.bsym.op).is_some_and(|op| matches!(op.level, Level::Composite(_)))
    }
}

/// What the host does of an op that is its own.
pub(super) fn host_part(bsym: &Bsym, of_host: bool) -> HostPart {
    match ops::find(&bsym.op) {
        Some(op) if op.host.is_some() => HostPart::Number,
        Some(op) if of_host && !op.is(Traits::WRITES) => HostPart::View,
        _ => HostPart::No,
    }
}

/// The tensor that a view looks at.
fn first_tensor(trace: &Trace, bsym: &Bsym) -> Option<ValueId> {
    let mut first = None;
    bsym.for_each_use(&mut |v| {
        if first.is_none() && trace.ty(v).tensor().is_some() {
            first = Some(v);
        }
    });
    first
}

fn unsized_tensor(trace: &Trace, v: ValueId) -> TensorSpec {
    let ty = trace.ty(v).tensor().expect("callers ask for tensors only");
    TensorSpec {
        value: v,
        dtype: ty.dtype,
        device: ty.device.clone(),
        dims: ty.dims.clone(),
        strides: None,
        constant: 0,
    }
}

fn sized_tensor(
    trace: &Trace,
    layouts: &Layouts,
    v: ValueId,
    sizes: &Sizes<'_>,
) -> Result<TensorSpec, RegionError> {
    let mut tensor = unsized_tensor(trace, v);
    let strided = layouts.of(trace, v);
    for d in &mut tensor.dims {
        *d = Dim::Known(size(trace, v, d, sizes)?);
    }
    tensor.strides =
        Some(strided.strides.iter().map(|d| size(trace, v, d, sizes)).collect::<Result<_, _>>()?);
    tensor.constant = (sizes.constant_of)(v);
    Ok(tensor)
}

/// Where a value begins, in bytes from the memory that it lies in.
fn place_bytes(trace: &Trace, layouts: &Layouts, v: ValueId, sizes: &Sizes<'_>) -> Result<i64, RegionError> {
    let elem = trace.ty(v).tensor().map_or(1, |t| t.dtype.size_bytes() as i64);
    Ok(size(trace, v, &layouts.of(trace, v).offset, sizes)? * elem)
}

fn size(trace: &Trace, v: ValueId, dim: &Dim, sizes: &Sizes<'_>) -> Result<i64, RegionError> {
    (sizes.size)(dim)
        .ok_or_else(|| RegionError::Unknown { value: trace.value(v).name.clone(), dim: dim.to_string() })
}

/// Sizes inside arguments that the claim left open.
fn known_arguments(op: &mut RegionOp, trace: &Trace, sizes: &Sizes<'_>) {
    use crate::ir::Arg;
    let of = |arg: &Arg| match arg {
        Arg::Int(n) => Some(*n),
        Arg::Dim(d) => (sizes.size)(d),
        Arg::Value(v) => match trace.ty(*v) {
            Type::Number(n) => n.equals.as_ref().and_then(|d| (sizes.size)(d)),
            Type::Tensor(_) => None,
        },
        _ => None,
    };
    let RegionOp { bsym, spec, .. } = op;
    for (i, (name, arg)) in spec.args.iter_mut().enumerate() {
        let raw = bsym.args.get(i).or_else(|| bsym.named.iter().find(|(n, _)| n == name).map(|(_, a)| a));
        match (arg, raw) {
            (arg @ SpecArg::Unknown, Some(raw)) => {
                if let Some(n) = of(raw) {
                    *arg = SpecArg::Int(n);
                }
            }
            (SpecArg::Ints(ints), Some(Arg::List(items))) => {
                for (int, item) in ints.iter_mut().zip(items) {
                    if let (SpecInt::Unknown, Some(n)) = (*int, of(item)) {
                        *int = SpecInt::Known(n);
                    }
                }
            }
            _ => {}
        }
    }
}
