//! What a caller compiles: prims in SSA with concrete sizes.
//!
//! A graph is valid by construction: [`Graph::push`] works out the dims of every result and refuses what does not fit, so
//! the rest of the crate indexes freely. Nothing here knows how anything is computed, and no memory is touched.

use std::fmt;
use thiserror::Error;

/// Element types that loops compute with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // their names say all
pub enum Dtype {
    Bool,
    U8,
    I8,
    I16,
    I32,
    I64,
    U16,
    U32,
    F16,
    BF16,
    F32,
    F64,
}

impl Dtype {
    /// All of them.
    pub const ALL: [Dtype; 12] = [
        Dtype::Bool,
        Dtype::U8,
        Dtype::I8,
        Dtype::I16,
        Dtype::I32,
        Dtype::I64,
        Dtype::U16,
        Dtype::U32,
        Dtype::F16,
        Dtype::BF16,
        Dtype::F32,
        Dtype::F64,
    ];

    /// Bytes an element.
    pub const fn size_bytes(self) -> usize {
        match self {
            Dtype::Bool | Dtype::U8 | Dtype::I8 => 1,
            Dtype::I16 | Dtype::U16 | Dtype::F16 | Dtype::BF16 => 2,
            Dtype::I32 | Dtype::U32 | Dtype::F32 => 4,
            Dtype::I64 | Dtype::F64 => 8,
        }
    }

    /// As in traces: `f32`.
    pub const fn name(self) -> &'static str {
        match self {
            Dtype::Bool => "bool",
            Dtype::U8 => "u8",
            Dtype::I8 => "i8",
            Dtype::I16 => "i16",
            Dtype::I32 => "i32",
            Dtype::I64 => "i64",
            Dtype::U16 => "u16",
            Dtype::U32 => "u32",
            Dtype::F16 => "f16",
            Dtype::BF16 => "bf16",
            Dtype::F32 => "f32",
            Dtype::F64 => "f64",
        }
    }

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<Dtype> {
        Dtype::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// A float of any width.
    pub const fn is_float(self) -> bool {
        matches!(self, Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64)
    }

    /// An integer; bool is none.
    pub const fn is_int(self) -> bool {
        !self.is_float() && !matches!(self, Dtype::Bool)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A number: an argument, or what a slot holds in a run.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Scalar {
    Bool(bool),
    Int(i64),
    Float(f64),
}

impl Scalar {
    /// As a float.
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Bool(v) => f64::from(u8::from(v)),
            Scalar::Int(v) => v as f64,
            Scalar::Float(v) => v,
        }
    }

    /// As an integer, rounded towards zero; the least integer where it does not fit.
    pub fn to_i64(self) -> i64 {
        match self {
            Scalar::Bool(v) => i64::from(v),
            Scalar::Int(v) => v,
            Scalar::Float(v) => {
                let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&v);
                if fits { v as i64 } else { i64::MIN }
            }
        }
    }

    /// Not zero.
    pub fn truth(self) -> bool {
        match self {
            Scalar::Bool(v) => v,
            Scalar::Int(v) => v != 0,
            Scalar::Float(v) => v != 0.0,
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Bool(v) => write!(f, "{v}"),
            Scalar::Int(v) => write!(f, "{v}"),
            Scalar::Float(v) => write!(f, "{v:?}"),
        }
    }
}

/// Dims and element type of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Element type.
    pub dtype: Dtype,
    /// Sizes, outermost first.
    pub dims: Vec<usize>,
}

impl TensorType {
    /// The type of a tensor.
    pub fn new(dtype: Dtype, dims: &[usize]) -> TensorType {
        TensorType { dtype, dims: dims.to_vec() }
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.dims.iter().product()
    }

    /// Strides, in elements, of the row-major tensor of these dims.
    pub fn dense_strides(&self) -> Vec<usize> {
        dense_strides(&self.dims)
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.dims)
    }
}

/// Strides, in elements, of the row-major tensor of these dims.
pub fn dense_strides(dims: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    for i in (0..dims.len().saturating_sub(1)).rev() {
        strides[i] = strides[i + 1] * dims[i + 1];
    }
    strides
}

/// A value of a graph: `%0`, `%1`, … in the order they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl ValueId {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ValueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

/// A node of a graph, counted from 0 in the order they were pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl NodeId {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

/// What a node takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand {
    /// A tensor.
    Value(ValueId),
    /// A number that is known: stands for a tensor filled with it, in the dtype of the tensors beside it.
    Number(Scalar),
    /// A number that each run gives, by its place in the list that the run passes.
    Slot(u32),
}

impl From<ValueId> for Operand {
    fn from(value: ValueId) -> Operand {
        Operand::Value(value)
    }
}

impl From<f64> for Operand {
    fn from(value: f64) -> Operand {
        Operand::Number(Scalar::Float(value))
    }
}

impl From<i64> for Operand {
    fn from(value: i64) -> Operand {
        Operand::Number(Scalar::Int(value))
    }
}

macro_rules! names {
    ($(#[$doc:meta])* $kind:ident { $($variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)] // the op table describes each
        pub enum $kind { $($variant,)* }

        impl $kind {
            /// All of them.
            pub const ALL: &'static [$kind] = &[$($kind::$variant,)*];

            /// The prim's name without its prefix: `exp` of `prims.exp`.
            pub const fn name(self) -> &'static str {
                match self { $($kind::$variant => $name,)* }
            }

            /// The one of that name.
            pub fn from_name(name: &str) -> Option<$kind> {
                match name { $($name => Some($kind::$variant),)* _ => None }
            }
        }
    };
}

names! {
    /// Pointwise prims of one tensor.
    Unary {
        Abs = "abs",
        Acos = "acos",
        Acosh = "acosh",
        Asin = "asin",
        Asinh = "asinh",
        Atan = "atan",
        Atanh = "atanh",
        BitwiseNot = "bitwise_not",
        Ceil = "ceil",
        Cos = "cos",
        Cosh = "cosh",
        Erf = "erf",
        Erfc = "erfc",
        Exp = "exp",
        Exp2 = "exp2",
        Expm1 = "expm1",
        Floor = "floor",
        Isfinite = "isfinite",
        Log = "log",
        Log10 = "log10",
        Log1p = "log1p",
        Log2 = "log2",
        Neg = "neg",
        Reciprocal = "reciprocal",
        Round = "round",
        Rsqrt = "rsqrt",
        Sign = "sign",
        Signbit = "signbit",
        Sin = "sin",
        Sinh = "sinh",
        Sqrt = "sqrt",
        Tan = "tan",
        Tanh = "tanh",
        Trunc = "trunc",
    }
}

names! {
    /// Pointwise prims of two operands of one dtype, at least one of them a tensor.
    Binary {
        Add = "add",
        Atan2 = "atan2",
        BitwiseAnd = "bitwise_and",
        BitwiseLeftShift = "bitwise_left_shift",
        BitwiseOr = "bitwise_or",
        BitwiseRightShift = "bitwise_right_shift",
        BitwiseXor = "bitwise_xor",
        Copysign = "copysign",
        Div = "div",
        Eq = "eq",
        Fmod = "fmod",
        Ge = "ge",
        Gt = "gt",
        Le = "le",
        Lt = "lt",
        Maximum = "maximum",
        Minimum = "minimum",
        Mul = "mul",
        Ne = "ne",
        Pow = "pow",
        Remainder = "remainder",
        Sub = "sub",
    }
}

impl Binary {
    /// The result is bool whatever the operands are.
    pub const fn compares(self) -> bool {
        matches!(self, Binary::Eq | Binary::Ne | Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge)
    }
}

names! {
    /// Pointwise prims of three operands of one dtype.
    Ternary {
        Fma = "fma",
        Lerp = "lerp",
    }
}

names! {
    /// Prims that fold axes.
    Reduce {
        Sum = "sum",
        Prod = "prod",
        Amax = "amax",
        Amin = "amin",
    }
}

/// What a node does. Operands are listed with each; tensors first unless said.
#[derive(Clone, Debug, PartialEq)]
pub enum Prim {
    /// `(a)`.
    Unary(Unary),
    /// `(a, b)`; either may be a number.
    Binary(Binary),
    /// `(a, b, c)` of `fma`, `(start, end, weight)` of `lerp`; all but the first may be numbers.
    Ternary(Ternary),
    /// `(pred, a, b)`: `pred` is bool, `a` or `b` may be a number.
    Where,
    /// `prims.convert_element_type (a)` to another dtype.
    Convert(Dtype),
    /// `(a)`: `prims.clone`, `prims.shallow_copy`, `prims.set_data`'s new value: the same elements.
    Copy,
    /// `(a)`: the same elements, in row-major order, under these dims.
    Reshape(Vec<usize>),
    /// `(a)`: dim i of the result is dim `permutation[i]`.
    Transpose(Vec<usize>),
    /// `prims.broadcast_in_dim (a)`: dim i of `a` becomes dim `axes[i]` of `dims`, repeated where it is 1.
    Broadcast {
        /// Dims of the result.
        dims: Vec<usize>,
        /// Where each dim of `a` goes.
        axes: Vec<usize>,
    },
    /// `(a)`: per dim the elements from `start` up to `end`, each `step`-th.
    Slice {
        /// First element of each dim.
        start: Vec<usize>,
        /// One past the last element that may be taken.
        end: Vec<usize>,
        /// At least 1.
        step: Vec<usize>,
    },
    /// `(a)`: without these axes, which are 1.
    Squeeze(Vec<usize>),
    /// `(a)`: the order along these axes reversed.
    Flip(Vec<usize>),
    /// `(a, …)`: joined along an axis.
    Cat(usize),
    /// `(a, value)`: for each dim the elements added below and above (negative: taken away) and between neighbours.
    Pad(Vec<(i64, i64, usize)>),
    /// `(a, src)`: `a` with the part that a slice of the same arguments gives replaced by `src`.
    SliceScatter {
        /// First element of each dim.
        start: Vec<usize>,
        /// At least 1.
        step: Vec<usize>,
    },
    /// `(value)`: a tensor filled with a number.
    Full(TensorType),
    /// `(start, step)`: `start + i * step`.
    Iota {
        /// Number of elements.
        n: usize,
        /// Element type of the result.
        dtype: Dtype,
    },
    /// `(a, index)`: slices of `a` along an axis, chosen by a 1-d index.
    Take(usize),
    /// `prims.take_along_axis`, `prims.gather (a, index)`: `out[.., i, ..] = a[.., index[.., i, ..], ..]` along an axis; the
    /// other dims of `index` are at most those of `a` (or either is 1).
    TakeAlongAxis(usize),
    /// `(index, weight)`: rows of a 2-d weight.
    Embedding,
    /// `(a)`: a fold over axes, in f32 for halves and i64 for integers.
    Reduce {
        /// Which.
        op: Reduce,
        /// The axes that go.
        axes: Vec<usize>,
        /// Element type of the result; `None`: that of `a`.
        out: Option<Dtype>,
    },
    /// `(a)`: index (i64) of the largest or smallest along an axis, or in row-major order of all; the first of equals;
    /// NaN is more extreme than anything.
    ArgReduce {
        /// `argmax`, else `argmin`.
        largest: bool,
        /// The axis that goes; `None`: all.
        axis: Option<usize>,
    },
    /// `(a, correction)`: variance over axes, two-pass.
    Var(Vec<usize>),
    /// As [`Prim::Var`]; the second result is the mean.
    VarMean(Vec<usize>),
    /// `(lo, hi, seed, offset)`: Philox uniform numbers of these dims.
    Uniform(TensorType),
    /// Anything that somebody else computes, between kernels: its operands are written to memory, row-major, before it
    /// runs, its results are read from memory, row-major.
    Extern(Vec<TensorType>),
}

impl Prim {
    /// As in traces: `prims.exp`.
    pub fn name(&self) -> String {
        let name = match self {
            Prim::Unary(op) => op.name(),
            Prim::Binary(op) => op.name(),
            Prim::Ternary(op) => op.name(),
            Prim::Where => "where",
            Prim::Convert(_) => "convert_element_type",
            Prim::Copy => "clone",
            Prim::Reshape(_) => "reshape",
            Prim::Transpose(_) => "transpose",
            Prim::Broadcast { .. } => "broadcast_in_dim",
            Prim::Slice { .. } => "slice",
            Prim::Squeeze(_) => "squeeze",
            Prim::Flip(_) => "flip",
            Prim::Cat(_) => "cat",
            Prim::Pad(_) => "pad",
            Prim::SliceScatter { .. } => "slice_scatter",
            Prim::Full(_) => "full",
            Prim::Iota { .. } => "iota",
            Prim::Take(_) => "take",
            Prim::TakeAlongAxis(_) => "take_along_axis",
            Prim::Embedding => "embedding",
            Prim::Reduce { op, .. } => op.name(),
            Prim::ArgReduce { largest: true, .. } => "argmax",
            Prim::ArgReduce { largest: false, .. } => "argmin",
            Prim::Var(_) => "var",
            Prim::VarMean(_) => "var_mean",
            Prim::Uniform(_) => "uniform_philox",
            Prim::Extern(_) => return "extern".to_owned(),
        };
        format!("prims.{name}")
    }

    /// Only another look at the operand's elements.
    pub const fn is_view(&self) -> bool {
        matches!(
            self,
            Prim::Copy
                | Prim::Reshape(_)
                | Prim::Transpose(_)
                | Prim::Broadcast { .. }
                | Prim::Slice { .. }
                | Prim::Squeeze(_)
                | Prim::Flip(_)
        )
    }
}

/// Why a node was refused by [`Graph::push`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{prim}`: {what}")]
pub struct Invalid {
    /// The prim's name.
    pub prim: String,
    /// What does not fit.
    pub what: String,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The graph's input of that place.
    Input(u32),
    /// That result of a node.
    Node(NodeId, u32),
}

pub(crate) struct Node {
    pub prim: Prim,
    pub operands: Vec<Operand>,
    pub results: Vec<ValueId>,
}

pub(crate) struct Value {
    pub ty: TensorType,
    pub source: Source,
    /// Strides in elements of an input; those of all others are dense.
    pub strides: Vec<usize>,
}

/// A program of prims over tensors of known sizes.
#[derive(Default)]
pub struct Graph {
    pub(crate) values: Vec<Value>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) inputs: Vec<ValueId>,
    pub(crate) outputs: Vec<ValueId>,
}

/// Dims and strides beyond this make offsets that might not fit.
const MOST_ELEMENTS: usize = 1 << 46;

impl Graph {
    /// An empty graph.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// A tensor that the caller brings, with its strides in elements (0 where it repeats).
    pub fn input(&mut self, ty: TensorType, strides: &[usize]) -> Result<ValueId, Invalid> {
        let refuse = |what: String| Err(Invalid { prim: "input".into(), what });
        if strides.len() != ty.dims.len() {
            return refuse(format!("strides {strides:?} for dims {:?}", ty.dims));
        }
        let reach = ty.dims.iter().zip(strides).try_fold(1usize, |sum, (dim, stride)| {
            dim.saturating_sub(1).checked_mul(*stride)?.checked_add(sum)
        });
        let numel = ty.dims.iter().try_fold(1usize, |n, dim| n.checked_mul(*dim));
        if reach.is_none_or(|n| n > MOST_ELEMENTS) || numel.is_none_or(|n| n > MOST_ELEMENTS) {
            return refuse(format!("dims {:?} with strides {strides:?} reach too far", ty.dims));
        }
        let id = ValueId(self.values.len() as u32);
        let source = Source::Input(self.inputs.len() as u32);
        self.values.push(Value { ty, source, strides: strides.to_vec() });
        self.inputs.push(id);
        Ok(id)
    }

    /// A tensor that the caller brings, row-major.
    pub fn dense_input(&mut self, ty: TensorType) -> Result<ValueId, Invalid> {
        let strides = ty.dense_strides();
        self.input(ty, &strides)
    }

    /// A node behind all others; gives its results.
    pub fn push(&mut self, prim: Prim, operands: &[Operand]) -> Result<Vec<ValueId>, Invalid> {
        let types =
            super::meta::infer(self, &prim, operands).map_err(|what| Invalid { prim: prim.name(), what })?;
        for ty in &types {
            let numel = ty.dims.iter().try_fold(1usize, |n, dim| n.checked_mul(*dim));
            if numel.is_none_or(|n| n > MOST_ELEMENTS) {
                return Err(Invalid { prim: prim.name(), what: format!("{ty} is too large") });
            }
        }
        let node = NodeId(self.nodes.len() as u32);
        let results: Vec<ValueId> = types
            .into_iter()
            .enumerate()
            .map(|(i, ty)| {
                let id = ValueId(self.values.len() as u32);
                let strides = ty.dense_strides();
                self.values.push(Value { ty, source: Source::Node(node, i as u32), strides });
                id
            })
            .collect();
        self.nodes.push(Node { prim, operands: operands.to_vec(), results: results.clone() });
        Ok(results)
    }

    /// [`Graph::push`] for a prim of one result.
    pub fn push1(&mut self, prim: Prim, operands: &[Operand]) -> Result<ValueId, Invalid> {
        let name = prim.name();
        let results = self.push(prim, operands)?;
        match results.as_slice() {
            [one] => Ok(*one),
            _ => Err(Invalid { prim: name, what: format!("has {} results", results.len()) }),
        }
    }

    /// Marks a value that must be in memory, row-major, when the program has run.
    pub fn output(&mut self, value: ValueId) {
        assert!(value.at() < self.values.len(), "{value} is a value of this graph");
        self.outputs.push(value);
    }

    /// Inputs in the order they were declared.
    pub fn inputs(&self) -> &[ValueId] {
        &self.inputs
    }

    /// Outputs in the order they were marked.
    pub fn outputs(&self) -> &[ValueId] {
        &self.outputs
    }

    /// Dims and dtype of a value.
    pub fn ty(&self, value: ValueId) -> &TensorType {
        &self.values[value.at()].ty
    }

    /// Where a value comes from.
    pub fn source(&self, value: ValueId) -> Source {
        self.values[value.at()].source
    }

    /// Strides in elements with which a value lies in memory.
    pub fn strides(&self, value: ValueId) -> &[usize] {
        &self.values[value.at()].strides
    }

    /// Number of values.
    pub fn n_values(&self) -> usize {
        self.values.len()
    }

    /// Number of nodes.
    pub fn n_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// What a node does.
    pub fn prim(&self, node: NodeId) -> &Prim {
        &self.nodes[node.at()].prim
    }

    /// What a node takes.
    pub fn operands(&self, node: NodeId) -> &[Operand] {
        &self.nodes[node.at()].operands
    }

    /// What a node gives.
    pub fn results(&self, node: NodeId) -> &[ValueId] {
        &self.nodes[node.at()].results
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for input in &self.inputs {
            let value = &self.values[input.at()];
            writeln!(f, "{input}: {} = input strides {:?}", value.ty, value.strides)?;
        }
        for node in &self.nodes {
            for result in &node.results {
                write!(f, "{result}: {} ", self.ty(*result))?;
            }
            write!(f, "= {:?}", node.prim)?;
            for operand in &node.operands {
                match operand {
                    Operand::Value(value) => write!(f, " {value}")?,
                    Operand::Number(number) => write!(f, " {number}")?,
                    Operand::Slot(slot) => write!(f, " slot{slot}")?,
                }
            }
            writeln!(f)?;
        }
        let outputs: Vec<String> = self.outputs.iter().map(ValueId::to_string).collect();
        writeln!(f, "outputs {}", outputs.join(" "))
    }
}
