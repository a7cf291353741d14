//! The program's JSON as types: PyTorch's export schema, major 8.
//!
//! Reads like PyTorch's own reader: unknown fields of records are ignored, missing ones have defaults, integers are i64
//! exactly, floats that are not finite are strings. One difference: an unknown *union tag* is kept as `Unknown` and is
//! an error only where the importer meets it, so that a newer file whose graph is plain still loads.
//! Deliberately not here: whether names are defined, whether arguments fit an op. That is the importer's.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{self, DeserializeOwned, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::SCHEMA_MAJOR;
use crate::frontend::{ModelError, ModelResult};

/// The whole program.
#[derive(Clone, Debug, Deserialize)]
pub struct ExportedProgram {
    pub graph_module: GraphModule,
    #[serde(default)]
    pub opset_version: HashMap<String, i64>,
    /// By expression text in infix form; bare symbols (`s77`) are what counts.
    #[serde(default)]
    pub range_constraints: HashMap<String, RangeConstraint>,
    #[serde(default)]
    pub schema_version: SchemaVersion,
    #[serde(default)]
    pub verifiers: Vec<String>,
    #[serde(default)]
    pub torch_version: String,
    #[serde(default)]
    pub guards_code: Vec<String>,
}

/// How the graph is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// From `export`: composites, in-place ops, views.
    Training,
    /// From `run_decompositions`: functional core ATen, mutations in the signature.
    Aten,
}

impl ExportedProgram {
    /// Parses `json`, which is the content of `entry`.
    ///
    /// # Errors
    /// `model::schema_major` before anything else, then `model::json`.
    pub fn parse(json: &[u8], entry: &str) -> ModelResult<Self> {
        let program: Result<Self, _> = serde_json::from_slice(json);
        match program {
            Ok(program) => {
                program.schema_version.check()?;
                Ok(program)
            }
            Err(error) => {
                // Another major version explains every other difference, so it is named first.
                if let Ok(probe) = serde_json::from_slice::<VersionProbe>(json) {
                    probe.schema_version.check()?;
                }
                Err(json_error(&error, entry))
            }
        }
    }

    /// Which of the two dialects the graph is in. A file that does not say is a training graph, as `export` gives.
    ///
    /// # Errors
    /// `model::dialect` for any other verifier.
    pub fn dialect(&self) -> ModelResult<Dialect> {
        match self.verifiers.first().map(String::as_str) {
            None | Some("TRAINING") => Ok(Dialect::Training),
            Some("ATEN") => Ok(Dialect::Aten),
            Some(other) => Err(ModelError::Dialect { found: other.to_owned() }),
        }
    }
}

/// A serde error with the entry's name and serde's position.
pub(super) fn json_error(error: &serde_json::Error, entry: &str) -> ModelError {
    let text = error.to_string();
    let why = text.split(" at line ").next().unwrap_or(&text).to_owned();
    ModelError::Json { entry: entry.to_owned(), line: error.line(), column: error.column(), why }
}

#[derive(Deserialize)]
struct VersionProbe {
    #[serde(default)]
    schema_version: SchemaVersion,
}

/// Version of the schema; 0.0 where a file does not say, which PyTorch accepts.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct SchemaVersion {
    pub major: i64,
    pub minor: i64,
}

impl SchemaVersion {
    fn check(self) -> ModelResult<()> {
        if self.major == SCHEMA_MAJOR || self == Self::default() {
            return Ok(());
        }
        Err(ModelError::SchemaMajor {
            found: format!("{}.{}", self.major, self.minor),
            expected: SCHEMA_MAJOR,
        })
    }
}

/// Inclusive range of a symbol; `None` is open.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct RangeConstraint {
    pub min_val: Option<i64>,
    pub max_val: Option<i64>,
}

/// A graph with its signature and the tree of modules it came from.
#[derive(Clone, Debug, Deserialize)]
pub struct GraphModule {
    pub graph: Graph,
    pub signature: GraphSignature,
    #[serde(default)]
    pub module_call_graph: Vec<ModuleCallEntry>,
}

/// Nodes in execution order, and what is known of each value.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Graph {
    pub inputs: Vec<Argument>,
    pub outputs: Vec<Argument>,
    pub nodes: Vec<Node>,
    pub tensor_values: HashMap<String, TensorMeta>,
    pub sym_int_values: HashMap<String, SymInt>,
    pub sym_bool_values: HashMap<String, SymBool>,
    pub sym_float_values: HashMap<String, SymFloat>,
    pub is_single_tensor_return: bool,
}

/// One call.
#[derive(Clone, Debug, Deserialize)]
pub struct Node {
    /// `torch.ops.aten.add.Tensor`, `_operator.mul`, `torch.ops.higher_order.cond`.
    pub target: String,
    #[serde(default)]
    pub inputs: Vec<NamedArgument>,
    #[serde(default)]
    pub outputs: Vec<Argument>,
    #[serde(default)]
    pub metadata: NodeMetadata,
    #[serde(default)]
    pub is_hop_single_tensor_return: Option<bool>,
    #[serde(default)]
    pub name: Option<String>,
}

/// What helps messages, never meaning.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeMetadata {
    /// `key,path,type` entries joined by `;`, outermost module first.
    pub nn_module_stack: Option<String>,
    /// Python source lines, where they were not stripped.
    pub stack_trace: Option<String>,
}

/// An argument with its schema name; higher-order ops leave the name empty.
#[derive(Clone, Debug, Deserialize)]
pub struct NamedArgument {
    #[serde(default)]
    pub name: String,
    pub arg: Argument,
}

/// What a tensor is. `strides` are those of PyTorch's own kernels: reliable for weights only.
#[derive(Clone, Debug, Deserialize)]
pub struct TensorMeta {
    pub dtype: ScalarType,
    pub sizes: Vec<SymInt>,
    #[serde(default)]
    pub requires_grad: bool,
    #[serde(default)]
    pub device: Device,
    pub strides: Vec<SymInt>,
    #[serde(default)]
    pub storage_offset: SymInt,
    #[serde(default = "strided")]
    pub layout: Layout,
}

fn strided() -> Layout {
    Layout::STRIDED
}

/// A device as text and number.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Device {
    pub r#type: String,
    pub index: Option<i64>,
}

/// The schema's own dtype number (f32 is 7), checked only where it is used: unknown numbers may come with newer files.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Hash)]
#[serde(transparent)]
pub struct ScalarType(pub i64);

impl ScalarType {
    /// Size of an element in bytes; `None` for numbers that no dtype has.
    pub fn element_bytes(self) -> Option<usize> {
        Some(match self.0 {
            1 | 2 | 12 | 29..=33 => 1,
            3 | 6 | 13 | 28 => 2,
            4 | 7 | 9 | 34 => 4,
            5 | 8 | 10 | 35 => 8,
            11 => 16,
            _ => return None,
        })
    }
}

/// The schema's layout number.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(transparent)]
pub struct Layout(pub i64);

impl Layout {
    /// Dense with strides: the only layout that is read.
    pub const STRIDED: Self = Self(7);
}

/// Either half of a symbolic number's record: a value or an expression.
#[derive(Clone, Debug, Deserialize)]
pub struct SymExpr<H> {
    /// SymPy constructor notation; see [`super::expr`].
    pub expr_str: String,
    /// The value at export; none for numbers that depend on data.
    #[serde(default = "none")]
    pub hint: Option<H>,
}

fn none<H>() -> Option<H> {
    None
}

/// The integer's value at export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntHint {
    Int(i64),
    Unknown,
}

/// A size, stride or symbolic integer.
#[derive(Clone, Debug)]
pub enum SymInt {
    Int(i64),
    Expr(SymExpr<IntHint>),
    Unknown(String),
}

impl Default for SymInt {
    fn default() -> Self {
        Self::Int(0)
    }
}

/// A symbolic float.
#[derive(Clone, Debug)]
pub enum SymFloat {
    Float(f64),
    Expr(SymExpr<IgnoredAny>),
    Unknown(String),
}

/// A symbolic bool.
#[derive(Clone, Debug)]
pub enum SymBool {
    Bool(bool),
    Expr(SymExpr<IgnoredAny>),
    Unknown(String),
}

/// A named or known number among an op's arguments.
#[derive(Clone, Debug, PartialEq)]
pub enum NumberArg<T> {
    Name(String),
    Value(T),
    Unknown(String),
}

/// An entry of `as_optional_tensors`.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionalTensor {
    Tensor(String),
    None,
    Unknown(String),
}

/// `{"name": …}`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Named {
    pub name: String,
}

/// A Python complex number.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
pub struct Complex {
    pub real: Float,
    pub imag: Float,
}

/// A subgraph.
#[derive(Clone, Debug, Deserialize)]
pub struct SubGraph {
    pub name: String,
    pub graph: Box<Graph>,
}

/// A custom object: named, never loaded.
#[derive(Clone, Debug, Deserialize)]
pub struct CustomObj {
    pub name: String,
    #[serde(default)]
    pub class_fqn: String,
}

/// An argument or result.
#[derive(Clone, Debug)]
pub enum Argument {
    None,
    Tensor(String),
    Tensors(Vec<String>),
    OptionalTensor(OptionalTensor),
    OptionalTensors(Vec<OptionalTensor>),
    NestedTensors(Vec<Vec<String>>),
    Int(i64),
    Ints(Vec<i64>),
    IntLists(Vec<Vec<i64>>),
    Float(f64),
    Floats(Vec<f64>),
    FloatLists(Vec<Vec<f64>>),
    Bool(bool),
    Bools(Vec<bool>),
    Str(String),
    Strs(Vec<String>),
    Complex(Complex),
    SymInt(NumberArg<i64>),
    SymInts(Vec<NumberArg<i64>>),
    SymFloat(NumberArg<f64>),
    SymFloats(Vec<NumberArg<f64>>),
    SymBool(NumberArg<bool>),
    SymBools(Vec<NumberArg<bool>>),
    ScalarType(ScalarType),
    MemoryFormat(i64),
    Layout(Layout),
    Device(Device),
    Graph(SubGraph),
    Operator(String),
    CustomObj(CustomObj),
    Map(HashMap<String, Argument>),
    /// A tag younger than this reader.
    Unknown(String),
}

impl Argument {
    /// The tag as the file spells it.
    pub fn tag(&self) -> &str {
        match self {
            Self::None => "as_none",
            Self::Tensor(_) => "as_tensor",
            Self::Tensors(_) => "as_tensors",
            Self::OptionalTensor(_) => "as_optional_tensor",
            Self::OptionalTensors(_) => "as_optional_tensors",
            Self::NestedTensors(_) => "as_nested_tensors",
            Self::Int(_) => "as_int",
            Self::Ints(_) => "as_ints",
            Self::IntLists(_) => "as_int_lists",
            Self::Float(_) => "as_float",
            Self::Floats(_) => "as_floats",
            Self::FloatLists(_) => "as_float_lists",
            Self::Bool(_) => "as_bool",
            Self::Bools(_) => "as_bools",
            Self::Str(_) => "as_string",
            Self::Strs(_) => "as_strings",
            Self::Complex(_) => "as_complex",
            Self::SymInt(_) => "as_sym_int",
            Self::SymInts(_) => "as_sym_ints",
            Self::SymFloat(_) => "as_sym_float",
            Self::SymFloats(_) => "as_sym_floats",
            Self::SymBool(_) => "as_sym_bool",
            Self::SymBools(_) => "as_sym_bools",
            Self::ScalarType(_) => "as_scalar_type",
            Self::MemoryFormat(_) => "as_memory_format",
            Self::Layout(_) => "as_layout",
            Self::Device(_) => "as_device",
            Self::Graph(_) => "as_graph",
            Self::Operator(_) => "as_operator",
            Self::CustomObj(_) => "as_custom_obj",
            Self::Map(_) => "as_string_to_argument",
            Self::Unknown(tag) => tag,
        }
    }
}

/// What each graph input and output is, by position.
#[derive(Clone, Debug, Deserialize)]
pub struct GraphSignature {
    pub input_specs: Vec<InputSpec>,
    pub output_specs: Vec<OutputSpec>,
}

/// Where a graph input's value comes from.
#[derive(Clone, Debug)]
pub enum InputSpec {
    /// An ordering token: nothing.
    Token {
        name: String,
    },
    Parameter {
        name: String,
        fqn: String,
    },
    Buffer {
        name: String,
        fqn: String,
        persistent: bool,
    },
    TensorConstant {
        name: String,
        fqn: String,
    },
    CustomObj {
        name: String,
        fqn: String,
    },
    UserInput {
        arg: Argument,
    },
    /// Baked into the program; the caller may give only this value.
    ConstantInput {
        name: String,
        value: Argument,
    },
    Unknown(String),
}

/// What a graph output is for.
#[derive(Clone, Debug)]
pub enum OutputSpec {
    UserOutput {
        arg: Argument,
    },
    BufferMutation {
        name: String,
        fqn: String,
    },
    UserInputMutation {
        name: String,
        input: String,
    },
    ParameterMutation {
        name: String,
        fqn: String,
    },
    Token,
    /// `loss_output`, `gradient_to_…`: joint graphs only.
    Unknown(String),
}

/// A module that was called, with the nesting of its arguments.
#[derive(Clone, Debug, Deserialize)]
pub struct ModuleCallEntry {
    pub fqn: String,
    #[serde(default)]
    pub signature: Option<ModuleCallSignature>,
}

/// Nesting of arguments and results as PyTorch's tree specs (JSON texts).
#[derive(Clone, Debug, Deserialize)]
pub struct ModuleCallSignature {
    #[serde(default)]
    pub in_spec: String,
    #[serde(default)]
    pub out_spec: String,
    #[serde(default)]
    pub forward_arg_names: Option<Vec<String>>,
}

/// An f64 that may be spelled as text where it is not finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Float(pub f64);

impl<'de> Deserialize<'de> for Float {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FloatVisitor;
        impl Visitor<'_> for FloatVisitor {
            type Value = Float;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a float, \"Infinity\", \"-Infinity\" or \"NaN\"")
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Float, E> {
                Ok(Float(value))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Float, E> {
                Ok(Float(value as f64))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Float, E> {
                Ok(Float(value as f64))
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<Float, E> {
                match value {
                    "Infinity" => Ok(Float(f64::INFINITY)),
                    "-Infinity" => Ok(Float(f64::NEG_INFINITY)),
                    "NaN" => Ok(Float(f64::NAN)),
                    _ => Err(E::invalid_value(de::Unexpected::Str(value), &self)),
                }
            }
        }
        deserializer.deserialize_any(FloatVisitor)
    }
}

/// A union: an object with exactly one key, its tag.
trait Union: Sized {
    /// Reads the value behind `tag`; unknown tags skip it.
    fn read<'de, A: MapAccess<'de>>(tag: &str, map: &mut A) -> Result<Self, A::Error>;
}

fn deserialize_union<'de, U: Union, D: Deserializer<'de>>(deserializer: D) -> Result<U, D::Error> {
    struct UnionVisitor<U>(PhantomData<U>);
    impl<'de, U: Union> Visitor<'de> for UnionVisitor<U> {
        type Value = U;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object with one key")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<U, A::Error> {
            let Some(tag) = map.next_key::<std::borrow::Cow<'_, str>>()? else {
                return Err(de::Error::invalid_length(0, &self));
            };
            let value = U::read(&tag, &mut map)?;
            if map.next_key::<IgnoredAny>()?.is_some() {
                return Err(de::Error::custom("a union with two tags"));
            }
            Ok(value)
        }
    }
    deserializer.deserialize_map(UnionVisitor(PhantomData))
}

macro_rules! unions {
    ($($name:ident),* $(,)?) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserialize_union(deserializer)
            }
        }
    )*};
}

unions!(IntHint, SymInt, SymFloat, SymBool, OptionalTensor, Argument, InputSpec, OutputSpec);

impl<'de, T: NumberKind> Deserialize<'de> for NumberArg<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_union(deserializer)
    }
}

/// Skips the value of an unknown tag, keeping the tag for the message.
fn skip<'de, A: MapAccess<'de>>(tag: &str, map: &mut A) -> Result<String, A::Error> {
    map.next_value::<IgnoredAny>()?;
    Ok(tag.to_owned())
}

impl Union for IntHint {
    fn read<'de, A: MapAccess<'de>>(tag: &str, map: &mut A) -> Result<Self, A::Error> {
        match tag {
            "as_int" => map.next_value().map(Self::Int),
            _ => skip(tag, map).map(|_| Self::Unknown),
        }
    }
}

impl Union for SymInt {
    fn read<'de, A: MapAccess<'de>>(tag: &str, map: &mut A) -> Result<Self, A::Error> {
        match tag {
            "as_int" => map.next_value().map(Self::Int),
            "as_expr" => map.next_value().map(Self::Expr),
            _ => skip(tag, map).map(Self::Unknown),
        }
    }
}

impl Union for SymFloat {
    fn read<'de, A: MapAccess<'de>>(tag: &str, map: &mut A) -> Result<Self, A::Error> {
        match tag {
            "as_float" => map.next_value::<Float>().map(|value| Self::Float(value.0)),
            "as_expr" => map.next_value().map(Self::Expr),
            _ => skip(tag, map).map(Self::Unknown),
        }
    }
}

impl Union for SymBool {
    fn read<'de, A: MapAccess<'de>>(tag: &str, map: &mut A) -> Result<Self, A::Error> {
        match tag {
            "as_bool" => map.next_value().map(Self::Bool),
            "as_expr" => map.next_value().map(Self::Expr),
            _ => skip(tag, map).map(Self::Unknown),
        }
    }
}

/// The three kinds of number that have a symbolic form.
trait NumberKind: Sized {
    const TAG: &'static str;
    fn value<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Self, A::Error>;
}

impl NumberKind for i64 {
    const TAG: &'static str = "as_int";

    fn value<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Self, A::Error> {
        map.next_value()
    }
}

impl NumberKind for f64 {
    const TAG: &'static str = "as_float";

    fn value<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Self, A::Error> {
        map.next_value::<Float>().map(|value| value.0)
    }
}

impl NumberKind for bool {
    const TAG: &'static str = "as_bool";

    fn value<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Self, A::Error> {
        map.next_value()
    }
}

impl<T: NumberKind> Union for NumberArg<T> {
    fn read<'de, A: MapAccess<'de>>(tag: &str, map: &mut A) -> Result<Self, A::Error> {
        match tag {
            "as_name" => map.next_value().map(Self::Name),
            _ if tag == T::TAG => T::value(map).map(Self::Value),
            _ => skip(tag, map).map(Self::Unknown),
        }
    }
}

impl Union for OptionalTensor {
    fn read<'de, A: MapAccess<'de>>(tag: &str, map: &mut A) -> Result<Self, A::Error> {
        match tag {
            "as_tensor" => map.next_value::<Named>().map(|tensor| Self::Tensor(tensor.name)),
            "as_none" => map.next_value::<IgnoredAny>().map(|_| Self::None),
            _ => skip(tag, map).map(Self::Unknown),
        }
    }
}

fn names(list: Vec<Named>) -> Vec<String> {
    list.into_iter().map(|named| named.name).collect()
}

fn floats(list: Vec<Float>) -> Vec<f64> {
    list.into_iter().map(|value| value.0).collect()
}

fn next<'de, T: DeserializeOwned, A: MapAccess<'de>>(map: &mut A) -> Result<T, A::Error> {
    map.next_value()
}

impl Union for Argument {
    fn read<'de, A: MapAccess<'de>>(tag: &str, map: &mut A) -> Result<Self, A::Error> {
        match tag {
            "as_none" => next::<IgnoredAny, A>(map).map(|_| Self::None),
            "as_tensor" => next::<Named, A>(map).map(|tensor| Self::Tensor(tensor.name)),
            "as_tensors" => next(map).map(names).map(Self::Tensors),
            "as_optional_tensor" => next(map).map(Self::OptionalTensor),
            "as_optional_tensors" => next(map).map(Self::OptionalTensors),
            "as_nested_tensors" => next::<Vec<Vec<Named>>, A>(map)
                .map(|lists| Self::NestedTensors(lists.into_iter().map(names).collect())),
            "as_int" => next(map).map(Self::Int),
            "as_ints" => next(map).map(Self::Ints),
            "as_int_lists" => next(map).map(Self::IntLists),
            "as_float" => next::<Float, A>(map).map(|value| Self::Float(value.0)),
            "as_floats" => next(map).map(floats).map(Self::Floats),
            "as_float_lists" => next::<Vec<Vec<Float>>, A>(map)
                .map(|lists| Self::FloatLists(lists.into_iter().map(floats).collect())),
            "as_bool" => next(map).map(Self::Bool),
            "as_bools" => next(map).map(Self::Bools),
            "as_string" => next(map).map(Self::Str),
            "as_strings" => next(map).map(Self::Strs),
            "as_complex" => next(map).map(Self::Complex),
            "as_sym_int" => next(map).map(Self::SymInt),
            "as_sym_ints" => next(map).map(Self::SymInts),
            "as_sym_float" => next(map).map(Self::SymFloat),
            "as_sym_floats" => next(map).map(Self::SymFloats),
            "as_sym_bool" => next(map).map(Self::SymBool),
            "as_sym_bools" => next(map).map(Self::SymBools),
            "as_scalar_type" => next(map).map(Self::ScalarType),
            "as_memory_format" => next(map).map(Self::MemoryFormat),
            "as_layout" => next(map).map(Self::Layout),
            "as_device" => next(map).map(Self::Device),
            "as_graph" => next(map).map(Self::Graph),
            "as_operator" => next(map).map(Self::Operator),
            "as_custom_obj" => next(map).map(Self::CustomObj),
            "as_string_to_argument" => next(map).map(Self::Map),
            _ => skip(tag, map).map(Self::Unknown),
        }
    }
}

impl Union for InputSpec {
    fn read<'de, A: MapAccess<'de>>(tag: &str, map: &mut A) -> Result<Self, A::Error> {
        #[derive(Deserialize)]
        struct Token {
            arg: Named,
        }
        #[derive(Deserialize)]
        struct Parameter {
            arg: Named,
            parameter_name: String,
        }
        #[derive(Deserialize)]
        struct Buffer {
            arg: Named,
            buffer_name: String,
            #[serde(default = "yes")]
            persistent: bool,
        }
        fn yes() -> bool {
            true
        }
        #[derive(Deserialize)]
        struct TensorConstant {
            arg: Named,
            tensor_constant_name: String,
        }
        #[derive(Deserialize)]
        struct CustomObject {
            arg: Named,
            custom_obj_name: String,
        }
        #[derive(Deserialize)]
        struct UserInput {
            arg: Argument,
        }
        #[derive(Deserialize)]
        struct ConstantInput {
            name: String,
            value: Argument,
        }
        Ok(match tag {
            "token" => Self::Token { name: next::<Token, A>(map)?.arg.name },
            "parameter" => {
                let spec: Parameter = next(map)?;
                Self::Parameter { name: spec.arg.name, fqn: spec.parameter_name }
            }
            "buffer" => {
                let spec: Buffer = next(map)?;
                Self::Buffer { name: spec.arg.name, fqn: spec.buffer_name, persistent: spec.persistent }
            }
            "tensor_constant" => {
                let spec: TensorConstant = next(map)?;
                Self::TensorConstant { name: spec.arg.name, fqn: spec.tensor_constant_name }
            }
            "custom_obj" => {
                let spec: CustomObject = next(map)?;
                Self::CustomObj { name: spec.arg.name, fqn: spec.custom_obj_name }
            }
            "user_input" => Self::UserInput { arg: next::<UserInput, A>(map)?.arg },
            "constant_input" => {
                let spec: ConstantInput = next(map)?;
                Self::ConstantInput { name: spec.name, value: spec.value }
            }
            _ => Self::Unknown(skip(tag, map)?),
        })
    }
}

impl Union for OutputSpec {
    fn read<'de, A: MapAccess<'de>>(tag: &str, map: &mut A) -> Result<Self, A::Error> {
        #[derive(Deserialize)]
        struct UserOutput {
            arg: Argument,
        }
        #[derive(Deserialize)]
        struct BufferMutation {
            arg: Named,
            buffer_name: String,
        }
        #[derive(Deserialize)]
        struct UserInputMutation {
            arg: Named,
            user_input_name: String,
        }
        #[derive(Deserialize)]
        struct ParameterMutation {
            arg: Named,
            parameter_name: String,
        }
        Ok(match tag {
            "user_output" => Self::UserOutput { arg: next::<UserOutput, A>(map)?.arg },
            "buffer_mutation" => {
                let spec: BufferMutation = next(map)?;
                Self::BufferMutation { name: spec.arg.name, fqn: spec.buffer_name }
            }
            "user_input_mutation" => {
                let spec: UserInputMutation = next(map)?;
                Self::UserInputMutation { name: spec.arg.name, input: spec.user_input_name }
            }
            "parameter_mutation" => {
                let spec: ParameterMutation = next(map)?;
                Self::ParameterMutation { name: spec.arg.name, fqn: spec.parameter_name }
            }
            "token" => {
                next::<IgnoredAny, A>(map)?;
                Self::Token
            }
            _ => Self::Unknown(skip(tag, map)?),
        })
    }
}
