//! Parameters of the trace: what each graph input is, where its data lies, and which of them share memory.
//!
//! Each input spec gives one parameter, in file order. Tensors that share a storage are parameters of their own while
//! the program only reads them (their bytes are shared, not copied). A storage that is written is one base: the tensor
//! that covers all the others is the parameter, the others are views of it inside the trace.

use super::functionalize::TensorRef;
use super::import::{Entity, Importer, InputKind, UserInput};
use super::pt2::graph::{Argument, InputSpec, NumberArg, ScalarType, SymInt, TensorMeta};
use super::pt2::weights::{Section, StorageId, WeightTensor};
use super::symbols::Size;
use super::{ModelError, ModelResult};
use crate::ir::{
    Arg, Device, Dim, Dtype, NumKind, NumberType, Role, RoleKind, TensorType, TraceParam, Type, ValueId,
};
use crate::memory::{Bytes, Tensor};
use crate::ops::AtenArg;

/// More dims than any tensor library takes; hostile ranks end here.
const MAX_RANK: usize = 64;
/// Terms of the product of all dims, written out.
const MAX_NUMEL_TERMS: usize = 4096;

/// A graph input.
pub(super) struct ParamInfo {
    /// Its place in the trace; none where it is a view of another one.
    pub declared: Option<TraceParam>,
    /// Its data, for parameters, buffers and constants.
    pub weight: Option<WeightTensor>,
    /// For messages: the FQN, or `in0`.
    pub name: String,
    /// What was written to it by the signature (core programs).
    pub written: Option<ValueId>,
    /// Its base.
    pub base: Option<usize>,
}

impl<'a> Importer<'a> {
    /// All graph inputs.
    pub(super) fn signature_inputs(&mut self) -> ModelResult<()> {
        let module = &self.pt2.program.graph_module;
        let (graph, specs) = (&module.graph, &module.signature.input_specs);
        if graph.inputs.len() != specs.len() {
            let why = format!("{} inputs, {} input specs", graph.inputs.len(), specs.len());
            return Err(ModelError::Signature { why });
        }
        for (input, spec) in graph.inputs.iter().zip(specs) {
            self.signature_input(input, spec)?;
        }
        self.share_written_storages()
    }

    fn signature_input(&mut self, input: &'a Argument, spec: &'a InputSpec) -> ModelResult<()> {
        match spec {
            InputSpec::Parameter { name, fqn } => {
                let weight = self.pt2.weights.tensor(Section::States, fqn, "parameter")?.clone();
                let frozen = !weight.requires_grad;
                self.weight_param(input, name, fqn, RoleKind::Param, frozen, weight)
            }
            InputSpec::Buffer { name, fqn, persistent } => {
                let section = if *persistent { Section::States } else { Section::Constants };
                let weight = self.pt2.weights.tensor(section, fqn, "buffer")?.clone();
                self.weight_param(input, name, fqn, RoleKind::Buffer, false, weight)
            }
            InputSpec::TensorConstant { name, fqn } => {
                let weight = self.pt2.weights.tensor(Section::Constants, fqn, "constant")?.clone();
                self.weight_param(input, name, fqn, RoleKind::Const, false, weight)
            }
            InputSpec::UserInput { arg } => self.user_input(arg),
            InputSpec::ConstantInput { name, value } => {
                let value = self.plain_argument(name, value)?;
                self.inputs.push(UserInput { name: name.as_str().into(), kind: InputKind::Constant(value) });
                Ok(())
            }
            // Ordering tokens carry nothing; whoever uses one is a higher-order op that is refused by name.
            InputSpec::Token { .. } => Ok(()),
            InputSpec::CustomObj { fqn, .. } => {
                let why = "it is a custom object, stored as a pickle".to_owned();
                Err(ModelError::WeightUnsupported { fqn: fqn.clone(), why })
            }
            InputSpec::Unknown(tag) => {
                Err(ModelError::SignatureUnsupported { what: format!("an input of kind `{tag}`") })
            }
        }
    }

    fn weight_param(
        &mut self,
        input: &'a Argument,
        name: &'a str,
        fqn: &'a str,
        kind: RoleKind,
        frozen: bool,
        weight: WeightTensor,
    ) -> ModelResult<()> {
        if !matches!(input, Argument::Tensor(found) if found == name) {
            let why = format!("`{name}` (`{fqn}`) is not the graph's input at its place");
            return Err(ModelError::Signature { why });
        }
        let meta = self.meta(name)?;
        let ty = self.tensor_type(name, meta)?;
        self.check_weight(fqn, &ty, &weight)?;
        let tensor = self.map_weight(fqn, &weight)?;
        let user_name = user_name(fqn);
        if self.tensors.insert(user_name.as_str().into(), tensor).is_some() {
            return Err(ModelError::Signature { why: format!("`{fqn}` is an input twice") });
        }
        let wanted = self.unique_name(fqn);
        let value = self.trace.add_value(wanted, ty.into());
        let role = Role { kind, name: Some(user_name.as_str().into()), frozen };
        self.add_param(name, &user_name, value, role, Some(weight), Some(meta))
    }

    fn add_param(
        &mut self,
        name: &'a str,
        shown: &str,
        value: ValueId,
        role: Role,
        weight: Option<WeightTensor>,
        meta: Option<&'a TensorMeta>,
    ) -> ModelResult<()> {
        let index = self.params.len();
        if let Some(weight) = &weight {
            self.storage_members.entry(weight.storage).or_default().push(index);
        }
        let base = meta.map(|_| self.new_base(value, Some(index)));
        let entity = match base {
            Some(base) => Entity::Tensor(TensorRef { base, link: None }),
            None => Entity::Number(Arg::Value(value)),
        };
        self.define(name, entity)?;
        let declared = Some(TraceParam { value, role });
        self.params.push(ParamInfo { declared, weight, name: shown.to_owned(), written: None, base });
        Ok(())
    }

    fn user_input(&mut self, arg: &'a Argument) -> ModelResult<()> {
        let position = self.inputs.len();
        let shown = format!("in{position}");
        let role = Role { kind: RoleKind::Input, name: Some(shown.as_str().into()), frozen: false };
        let (name, ty, meta) = match arg {
            Argument::Tensor(name) => {
                let meta = self.meta(name)?;
                (name, Type::from(self.tensor_type(name, meta)?), Some(meta))
            }
            Argument::SymInt(NumberArg::Name(name)) => (name, self.integer_input(name)?, None),
            Argument::SymFloat(NumberArg::Name(name)) => {
                (name, Type::Number(NumberType { kind: NumKind::Float, equals: None }), None)
            }
            Argument::SymBool(NumberArg::Name(name)) => {
                (name, Type::Number(NumberType { kind: NumKind::Bool, equals: None }), None)
            }
            Argument::Int(_) | Argument::Float(_) | Argument::Bool(_) | Argument::Str(_) | Argument::None => {
                let value = self.plain_argument(&shown, arg)?;
                self.inputs.push(UserInput { name: shown.into(), kind: InputKind::Constant(value) });
                return Ok(());
            }
            other => {
                return Err(ModelError::SignatureUnsupported {
                    what: format!("an input of kind `{}`", other.tag()),
                });
            }
        };
        self.inputs.push(UserInput { name: name.as_str().into(), kind: InputKind::Traced });
        let value = self.fresh(ty);
        self.rename(value, name);
        if matches!(arg, Argument::SymFloat(_)) {
            self.name_float_input(name, value)?;
        }
        self.add_param(name, &shown, value, role, None, meta)
    }

    /// A dynamic Python int: the number of which the file's symbol is the value.
    fn integer_input(&mut self, name: &str) -> ModelResult<Type> {
        let value = self.scope().graph.sym_int_values.get(name);
        let value = value.ok_or_else(|| self.type_error(name, "the file has no entry for it"))?;
        let equals = match self.symbols.size(value)? {
            Size::Dim(dim) => dim,
            Size::Unsayable { .. } => return Err(self.type_error(name, "an input cannot be an expression")),
        };
        if let Some(symbol) = equals.as_symbol() {
            self.symbols.declare_integer(symbol);
        }
        Ok(Type::Number(NumberType { kind: NumKind::Int, equals: Some(equals) }))
    }

    /// The data of `fqn` where it lies; tensors of one storage share its bytes.
    fn map_weight(&mut self, fqn: &str, weight: &WeightTensor) -> ModelResult<Tensor> {
        let bytes = match self.storage_bytes.get(&weight.storage) {
            Some(bytes) => bytes.clone(),
            None => Bytes::of_file(self.pt2.weights.bytes(weight.storage)?),
        };
        self.storage_bytes.insert(weight.storage, bytes.clone());
        let dtype = self.dtype(fqn, weight.dtype)?;
        // An empty tensor may have any offset; an operand wants one inside its bytes.
        let offset = if weight.sizes.contains(&0) { 0 } else { weight.offset_elems };
        Tensor::over(bytes, dtype, weight.sizes.clone(), weight.strides_elems.clone(), offset).map_err(
            |error| {
                let entry = self.pt2.weights.storages()[weight.storage.0 as usize].entry.clone();
                ModelError::WeightBounds { fqn: fqn.to_owned(), entry, why: error.to_string() }
            },
        )
    }

    fn check_weight(&self, fqn: &str, ty: &TensorType, weight: &WeightTensor) -> ModelResult<()> {
        let dtype = self.dtype(fqn, weight.dtype)?;
        let dims: Vec<Dim> = weight.sizes.iter().map(|size| Dim::Known(*size)).collect();
        if ty.dtype == dtype && ty.dims == dims {
            return Ok(());
        }
        let found = show(&TensorType { dims, dtype, device: Device::Cpu });
        Err(ModelError::WeightMismatch { fqn: fqn.to_owned(), found, expected: show(ty) })
    }

    /// The IR's dtype for the schema's number.
    pub(super) fn dtype(&self, name: &str, number: ScalarType) -> ModelResult<Dtype> {
        dtype_of(number)
            .ok_or_else(|| self.type_error(name, format!("dtype number {} is not supported", number.0)))
    }

    /// A tensor's type as the file records it. Sizes that no dim can say are defined by `num.*` ops here and now.
    pub(super) fn tensor_type(&mut self, name: &str, meta: &TensorMeta) -> ModelResult<TensorType> {
        if meta.sizes.len() > MAX_RANK {
            let why = format!("it has {} dims, at most {MAX_RANK} are read", meta.sizes.len());
            return Err(self.type_error(name, why));
        }
        let dims = meta.sizes.iter().map(|size| self.size(size)).collect::<ModelResult<Vec<Dim>>>()?;
        if dims.iter().any(|dim| dim.known().is_some_and(|n| n < 0)) {
            return Err(
                self.type_error(name, format!("sizes {} are negative", crate::ops::meta::show(&dims)))
            );
        }
        let mut n_terms = 1usize;
        for dim in &dims {
            n_terms = n_terms.saturating_mul(dim.n_terms());
        }
        if n_terms > MAX_NUMEL_TERMS {
            return Err(self.type_error(name, "its sizes are too complex"));
        }
        Ok(TensorType {
            dims,
            dtype: self.dtype(name, meta.dtype)?,
            device: self.device(name, &meta.device)?,
        })
    }

    /// A size of the file as a dim.
    pub(super) fn size(&mut self, value: &SymInt) -> ModelResult<Dim> {
        match self.symbols.size(value)? {
            Size::Dim(dim) => Ok(dim),
            Size::Unsayable { symbol, expr, new } => {
                if new {
                    self.define_symbol(symbol, &expr)?;
                }
                Ok(Dim::symbol(symbol))
            }
        }
    }

    pub(super) fn device(&self, name: &str, device: &super::pt2::graph::Device) -> ModelResult<Device> {
        match device.r#type.as_str() {
            "cpu" | "" => Ok(Device::Cpu),
            kind if kind.bytes().all(|byte| byte.is_ascii_lowercase()) => {
                let index = u32::try_from(device.index.unwrap_or(0));
                let index = index.map_err(|_| self.type_error(name, "its device has a negative index"))?;
                Ok(Device::Other { kind: kind.into(), index })
            }
            other => Err(self.type_error(name, format!("device `{other}` is unknown"))),
        }
    }

    /// Makes one parameter the base of each storage that is known to be written.
    fn share_written_storages(&mut self) -> ModelResult<()> {
        for storage in self.based.clone() {
            let members: Vec<usize> = (0..self.params.len())
                .filter(|i| self.params[*i].weight.as_ref().is_some_and(|weight| weight.storage == storage))
                .collect();
            let cover = self.covering(&members).ok_or_else(|| self.overlap_error(&members))?;
            for member in members.into_iter().filter(|member| *member != cover) {
                self.make_view(member, cover)?;
            }
        }
        Ok(())
    }

    /// The dense member that holds all elements of the others.
    fn covering(&self, members: &[usize]) -> Option<usize> {
        let weight = |i: &usize| self.params[*i].weight.as_ref();
        members.iter().copied().find(|candidate| {
            let Some(base) = weight(candidate) else { return false };
            let Some(tensor) = self.tensors.get(self.params[*candidate].name.as_str()) else { return false };
            let start = base.offset_elems;
            let stop = start.saturating_add(tensor.numel() as i64);
            tensor.is_contiguous()
                && members.iter().filter_map(weight).all(|other| {
                    let (low, high) = extent(other);
                    other.dtype == base.dtype && start <= low && high <= stop
                })
        })
    }

    pub(super) fn overlap_error(&self, members: &[usize]) -> ModelError {
        let names: Vec<String> = members.iter().map(|i| format!("`{}`", self.params[*i].name)).collect();
        let fqn = members.first().map(|i| self.params[*i].name.clone()).unwrap_or_default();
        ModelError::StorageOverlap { fqn, others: names.join(", ") }
    }

    /// From here on the parameter is a view of `cover` and none of its own.
    fn make_view(&mut self, member: usize, cover: usize) -> ModelResult<()> {
        let name = self.pt2.program.graph_module.graph.inputs.get(member).and_then(|input| match input {
            Argument::Tensor(name) => Some(name.as_str()),
            _ => None,
        });
        let (Some(name), Some(weight), Some(base)) =
            (name, self.params[member].weight.clone(), self.params[cover].weight.clone())
        else {
            return Err(self.overlap_error(&[member, cover]));
        };
        self.params[member].declared = None;
        self.views.push((self.params[member].name.as_str().into(), self.params[cover].name.as_str().into()));
        let cover_base = self.params[cover].base.expect("weights are tensors, which have a base");
        let root = TensorRef { base: cover_base, link: None };
        let same = (&weight.sizes, &weight.strides_elems, weight.offset_elems)
            == (&base.sizes, &base.strides_elems, base.offset_elems);
        let view = if same {
            root
        } else {
            let args = vec![
                AtenArg { name: "self".into(), value: Arg::Value(self.bases[cover_base].value) },
                AtenArg { name: "size".into(), value: Arg::ints(weight.sizes.iter().copied()) },
                AtenArg { name: "stride".into(), value: Arg::ints(weight.strides_elems.iter().copied()) },
                AtenArg {
                    name: "storage_offset".into(),
                    value: Arg::Int(weight.offset_elems - base.offset_elems),
                },
            ];
            let meta = self.meta(name)?;
            let ty = self.tensor_type(name, meta)?;
            self.view_of(root, "as_strided.default", args, vec![Some(ty.into())])?.remove(0)
        };
        let scope = self.scopes.last_mut().expect("the outermost scope is never popped");
        scope.values.insert(name, Entity::Tensor(view));
        Ok(())
    }

    /// The parameters that share a storage with this one, itself included.
    pub(super) fn sharers(&self, param: usize) -> (Option<StorageId>, &[usize]) {
        let storage = self.params[param].weight.as_ref().map(|weight| weight.storage);
        let members = storage.and_then(|storage| self.storage_members.get(&storage));
        (storage, members.map(Vec::as_slice).unwrap_or_default())
    }
}

/// What users call a parameter or buffer: its FQN, marked where it looks like an input or output.
pub(super) fn user_name(fqn: &str) -> String {
    let looks_like = ["in", "out"].iter().any(|prefix| {
        let digits = fqn.strip_prefix(prefix);
        digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    });
    if looks_like { format!("fqn:{fqn}") } else { fqn.to_owned() }
}

/// First element of the storage that a tensor uses, and the one behind its last. Bounds were checked when it was read.
fn extent(weight: &WeightTensor) -> (i64, i64) {
    if weight.sizes.contains(&0) {
        return (weight.offset_elems, weight.offset_elems);
    }
    let reach: i64 =
        weight.sizes.iter().zip(&weight.strides_elems).map(|(size, stride)| (size - 1) * stride).sum();
    (weight.offset_elems, weight.offset_elems + reach + 1)
}

fn show(ty: &TensorType) -> String {
    format!("{}{}", ty.dtype, crate::ops::meta::show(&ty.dims))
}

/// The IR's dtype for the schema's number; none for those that the IR does not carry.
pub(super) fn dtype_of(number: ScalarType) -> Option<Dtype> {
    Some(match number.0 {
        1 => Dtype::U8,
        2 => Dtype::I8,
        3 => Dtype::I16,
        4 => Dtype::I32,
        5 => Dtype::I64,
        6 => Dtype::F16,
        7 => Dtype::F32,
        8 => Dtype::F64,
        10 => Dtype::C64,
        11 => Dtype::C128,
        12 => Dtype::Bool,
        13 => Dtype::Bf16,
        28 => Dtype::U16,
        29 => Dtype::F8E4M3Fn,
        30 => Dtype::F8E5M2,
        31 => Dtype::F8E4M3Fnuz,
        32 => Dtype::F8E5M2Fnuz,
        33 => Dtype::F8E8M0Fnu,
        34 => Dtype::U32,
        35 => Dtype::U64,
        _ => return None,
    })
}
