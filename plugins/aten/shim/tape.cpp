// Boxed calls through ATen's dispatcher. See tape.h for the contract.
//
// Why boxed: one path serves every overload, known or not, at 50 to 100 ns a call more than the typed one (measured:
// add.out 342 against 286 ns, addmm.out of 8x64x64 2017 against 1888 ns).
//
// Autograd is left out of every call but those of TH_VJP, which work out an op's gradients by calling it once more.
//
// Not here: which overload an op becomes, and with which arguments (the Rust side).

#include "tape.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>
#include <omp.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

using c10::IValue;
using c10::OperatorHandle;

namespace {

constexpr uint32_t kDropped = UINT32_MAX;

void put(char* buffer, uint64_t bytes, const std::string& text) {
  if (!buffer || bytes == 0) return;
  const auto n = std::min<uint64_t>(text.size(), bytes - 1);
  std::memcpy(buffer, text.data(), n);
  buffer[n] = 0;
}

// Runs `work`, turning every exception into a message.
template <class Work>
int guarded(char* error, uint64_t error_bytes, Work work) {
  try {
    work();
    return 0;
  } catch (const c10::Error& e) {
    put(error, error_bytes, e.what_without_backtrace());
  } catch (const std::exception& e) {
    put(error, error_bytes, e.what());
  } catch (...) {
    put(error, error_bytes, "an exception of unknown type");
  }
  return 1;
}

// OpenMP's thread count belongs to the calling thread; it is put back, because that thread is not ours.
class ThreadCount {
 public:
  explicit ThreadCount(int32_t wanted) {
    at::internal::lazy_init_num_threads();  // else ATen's first call on this thread would set its own count
    before_ = omp_get_max_threads();
    changed_ = wanted > 0 && wanted != before_;
    if (changed_) omp_set_num_threads(wanted);
  }
  ~ThreadCount() {
    if (changed_) omp_set_num_threads(before_);
  }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

void (*on_warning)(const char*, uint64_t) = nullptr;

// ATen's warnings of this thread go to the host's log instead of stderr, for as long as this lives.
class Warnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    if (on_warning) on_warning(warning.msg().data(), warning.msg().size());
  }
};

Warnings warnings;

// What holds for every call into ATen: autograd's keys are left out, warnings are collected, and so many threads.
struct Inside {
  explicit Inside(int32_t threads) : count(threads) {}
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  c10::WarningUtils::WarningHandlerGuard guard{&warnings};
  ThreadCount count;
};

c10::OperatorName operator_name(const std::string& text) {
  const auto space = text.find("::");
  const auto dot = text.find('.', space == std::string::npos ? 0 : space);
  std::string name = text.substr(0, dot);
  std::string overload = dot == std::string::npos ? "" : text.substr(dot + 1);
  if (overload == "default") overload.clear();
  if (space == std::string::npos) name = "aten::" + name;
  return {name, overload};
}

OperatorHandle find(const std::string& text) {
  auto op = c10::Dispatcher::singleton().findSchema(operator_name(text));
  TORCH_CHECK(op.has_value(), "libtorch has no operator `", text, "`");
  return *op;
}

bool is_written(const c10::Argument& arg) { return arg.alias_info() && arg.alias_info()->isWrite(); }

// Is `out` the same call as `plain`, with one written argument behind for each result?
bool is_out_variant(const c10::FunctionSchema& plain, const c10::FunctionSchema& out) {
  const auto& from = plain.arguments();
  const auto& to = out.arguments();
  const auto n_results = plain.returns().size();
  if (n_results == 0 || to.size() != from.size() + n_results) return false;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i].name() != to[i].name() || *from[i].type() != *to[i].type() || is_written(to[i])) return false;
  }
  for (size_t i = from.size(); i < to.size(); ++i) {
    if (!is_written(to[i]) || to[i].type()->kind() != c10::TypeKind::TensorType) return false;
  }
  return true;
}

// Overloads by operator. Walking all of them takes a millisecond, so it is done once; ops registered later are found by
// name all the same, only their variants for given outputs are not looked for.
const std::vector<std::string>& overloads_of(const std::string& op) {
  static const auto all = [] {
    std::unordered_map<std::string, std::vector<std::string>> overloads;
    for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
      overloads[name.name].push_back(name.overload_name);
    }
    for (auto& [name, list] : overloads) std::sort(list.begin(), list.end());
    return overloads;
  }();
  static const std::vector<std::string> none;
  const auto found = all.find(op);
  return found == all.end() ? none : found->second;
}

std::string out_variant(const OperatorHandle& op) {
  const auto& plain = op.schema();
  for (const auto& result : plain.returns()) {
    if (result.type()->kind() != c10::TypeKind::TensorType || result.alias_info()) return "";
  }
  const auto& own = plain.operator_name();
  for (const auto& overload : overloads_of(own.name)) {
    const auto found = c10::Dispatcher::singleton().findSchema({own.name, overload});
    if (found && is_out_variant(plain, found->schema())) return own.name + "." + overload;
  }
  return "";
}

// `flipped`: the axes along which the memory runs backwards; the tensor is then the memory forwards.
at::Tensor wrap(const th_tensor& t, std::vector<int64_t>& flipped) {
  const auto options = at::TensorOptions().dtype(static_cast<at::ScalarType>(t.scalar_type));
  const at::IntArrayRef dims(t.dims, t.rank);
  std::vector<int64_t> strides(t.strides, t.strides + t.rank);
  char* data = static_cast<char*>(t.data);
  const auto item = static_cast<int64_t>(c10::elementSize(static_cast<at::ScalarType>(t.scalar_type)));
  flipped.clear();
  for (uint32_t d = 0; d < t.rank; ++d) {
    if (strides[d] >= 0) continue;
    // ATen has no negative strides: begin at the other end and flip when running.
    if (dims[d] > 0) data += strides[d] * (dims[d] - 1) * item;
    strides[d] = -strides[d];
    flipped.push_back(d);
  }
  return at::from_blob(data, dims, strides, options);
}

// A number where ATen takes a tensor: does not raise the dtype within its category, as in Python.
at::Tensor wrapped_number(const at::Scalar& number) {
  auto tensor = at::scalar_tensor(number, at::TensorOptions().dtype(number.type()));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

struct Slot {
  uint32_t arg;
  uint32_t number;
  c10::TypePtr type;
};

struct RegArg {
  uint32_t arg;
  uint32_t reg;
};

struct RegsArg {
  uint32_t arg;
  std::vector<uint32_t> regs;
  bool optional;
};

struct Instr {
  th_instr_kind kind;
  bool at_bind;
  std::optional<OperatorHandle> op;
  std::vector<IValue> args;  // constants in place, the rest empty
  std::vector<RegArg> regs;
  std::vector<RegsArg> lists;
  std::vector<Slot> slots;
  std::vector<uint32_t> results;
  std::vector<uint32_t> cotangents;  // registers; kDropped: zero
};

c10::TypePtr inner(c10::TypePtr type) {
  while (type->kind() == c10::TypeKind::OptionalType) type = type->castRaw<c10::OptionalType>()->getElementType();
  return type;
}

c10::TypePtr element(const c10::TypePtr& type) {
  const auto list = inner(type);
  TORCH_CHECK(list->kind() == c10::TypeKind::ListType, "a list was given for an argument of type ", type->str());
  return list->castRaw<c10::ListType>()->getElementType();
}

IValue number_for(const at::Scalar& number, const c10::TypePtr& type) {
  switch (inner(type)->kind()) {
    case c10::TypeKind::TensorType:
      return wrapped_number(number);
    case c10::TypeKind::FloatType:
      return number.toDouble();
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return number.toLong();
    case c10::TypeKind::BoolType:
      return number.toBool();
    case c10::TypeKind::ListType:
      // A number for `int[2]` stands for a list of one.
      if (element(type)->kind() == c10::TypeKind::FloatType) return c10::List<double>({number.toDouble()});
      return c10::List<int64_t>({number.toLong()});
    default:
      return number;
  }
}

template <class T>
std::vector<T> items(const th_arg& arg) {
  const auto* first = static_cast<const T*>(arg.items);
  return std::vector<T>(first, first + arg.n_items);
}

IValue ints_for(const std::vector<int64_t>& ints, const c10::TypePtr& type) {
  const auto kind = element(type)->kind();
  if (kind == c10::TypeKind::FloatType) return c10::List<double>(std::vector<double>(ints.begin(), ints.end()));
  if (kind == c10::TypeKind::NumberType) {
    c10::List<at::Scalar> list;
    for (const auto i : ints) list.push_back(at::Scalar(i));
    return list;
  }
  return c10::List<int64_t>(c10::ArrayRef<int64_t>(ints));
}

IValue constant(const th_arg& arg, const c10::Argument& formal) {
  const auto& type = formal.type();
  switch (arg.kind) {
    case TH_DEFAULT:
      TORCH_CHECK(formal.default_value().has_value(), "argument `", formal.name(), "` has no default");
      return *formal.default_value();
    case TH_NONE:
      return IValue();
    case TH_INT:
      return number_for(at::Scalar(arg.i), type);
    case TH_FLOAT:
      return number_for(at::Scalar(arg.f), type);
    case TH_BOOL:
      return number_for(at::Scalar(arg.i != 0), type);
    case TH_COMPLEX:
      return number_for(at::Scalar(c10::complex<double>(arg.f, arg.g)), type);
    case TH_STR:
      return std::string(static_cast<const char*>(arg.items), arg.n_items);
    case TH_INTS:
      return ints_for(items<int64_t>(arg), type);
    case TH_FLOATS:
      return c10::List<double>(c10::ArrayRef<double>(items<double>(arg)));
    case TH_BOOLS: {
      c10::List<bool> list;
      for (const auto b : items<uint8_t>(arg)) list.push_back(b != 0);
      return list;
    }
    case TH_CPU:
      return at::Device(at::kCPU);
    default:
      TORCH_CHECK(false, "an argument of kind ", arg.kind, " is unknown");
  }
}

void add_arg(Instr& instr, const th_arg& arg, const c10::Argument* formal, uint32_t n_regs) {
  const auto at = static_cast<uint32_t>(instr.args.size());
  switch (arg.kind) {
    case TH_REG:
      TORCH_CHECK(arg.index < n_regs, "register out of range");
      instr.regs.push_back({at, arg.index});
      instr.args.emplace_back();
      return;
    case TH_REGS: {
      TORCH_CHECK(formal, "a list of registers needs a call");
      auto regs = items<uint32_t>(arg);
      for (const auto reg : regs) TORCH_CHECK(reg < n_regs || reg == kDropped, "register out of range");
      const bool optional = element(formal->type())->kind() == c10::TypeKind::OptionalType;
      instr.lists.push_back({at, std::move(regs), optional});
      instr.args.emplace_back();
      return;
    }
    case TH_SLOT:
      TORCH_CHECK(formal, "a slot needs a call");
      instr.slots.push_back({at, arg.index, formal->type()});
      instr.args.emplace_back();
      return;
    default:
      TORCH_CHECK(formal, "a constant needs a call");
      instr.args.push_back(constant(arg, *formal));
  }
}

Instr read(const th_instr& from, uint32_t n_regs) {
  Instr instr;
  instr.kind = static_cast<th_instr_kind>(from.kind);
  instr.at_bind = from.when == TH_AT_BIND;
  instr.results.assign(from.results, from.results + from.n_results);
  for (const auto reg : instr.results) TORCH_CHECK(reg < n_regs || reg == kDropped, "register out of range");
  if (instr.kind != TH_CALL && instr.kind != TH_VJP) {
    for (uint64_t i = 0; i < from.n_args; ++i) add_arg(instr, from.args[i], nullptr, n_regs);
    return instr;
  }
  instr.op = find(from.op);
  const auto n_cotangents = instr.kind == TH_VJP ? from.n_cotangents : 0;
  TORCH_CHECK(n_cotangents <= from.n_args, "more cotangents than arguments");
  for (uint64_t i = 0; i < n_cotangents; ++i) {
    const auto& arg = from.args[i];
    TORCH_CHECK(arg.kind == TH_NONE || (arg.kind == TH_REG && arg.index < n_regs), "a cotangent is no tensor");
    instr.cotangents.push_back(arg.kind == TH_NONE ? kDropped : arg.index);
  }
  const auto& formals = instr.op->schema().arguments();
  const auto n_args = from.n_args - n_cotangents;
  TORCH_CHECK(n_args <= formals.size(), "`", from.op, "` takes ", formals.size(), " arguments, not ", n_args);
  for (size_t i = 0; i < formals.size(); ++i) {
    th_arg absent{};
    add_arg(instr, i < n_args ? from.args[n_cotangents + i] : absent, &formals[i], n_regs);
  }
  return instr;
}

// Autograd for as long as this lives, in a thread where it is left out.
struct WithAutograd {
  c10::impl::LocalDispatchKeySet before = c10::impl::tls_local_dispatch_key_set();
  c10::impl::ForceDispatchKeyGuard keys{before.included_,
                                        before.excluded_ - c10::autograd_dispatch_keyset_with_ADInplaceOrView};
  c10::AutoGradMode records{true};
};

bool has_gradient(const at::Tensor& t) { return t.defined() && (t.is_floating_point() || t.is_complex()); }

// The arguments of a call, those whose gradients are asked for as leaves.
struct Leaves {
  // One entry for each floating or complex tensor argument; dropped: nobody wants its gradient.
  const std::vector<uint32_t>& wanted;
  std::vector<at::Tensor> all;
  std::vector<size_t> index;  // of each leaf, among the entries
  size_t seen = 0;

  explicit Leaves(const std::vector<uint32_t>& wanted) : wanted(wanted) {}

  // What is written must be no leaf.
  at::Tensor of(const at::Tensor& t, bool written) {
    if (!has_gradient(t)) return written ? t.clone() : t;
    const auto at = seen++;
    TORCH_CHECK(at < wanted.size(), "the call takes more tensors than gradients are asked of");
    if (wanted[at] == kDropped) return written ? t.clone() : t;
    all.push_back(t.detach().requires_grad_(true));
    index.push_back(at);
    return written ? all.back().clone() : all.back();
  }

  IValue of(const IValue& value, bool written) {
    if (value.isTensor()) return of(value.toTensor(), written);
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const auto& t : value.toTensorVector()) list.push_back(of(t, written));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& t : value.toOptionalTensorVector()) {
        list.push_back(t ? std::optional<at::Tensor>(of(*t, written)) : std::nullopt);
      }
      return list;
    }
    return value;
  }
};

// Is the written argument one of the results?
bool is_returned(const c10::FunctionSchema& schema, const c10::Argument& arg) {
  for (const auto& result : schema.returns()) {
    if (result.alias_info() && result.alias_info()->beforeSets() == arg.alias_info()->beforeSets()) return true;
  }
  return false;
}

void flatten(const IValue& value, std::vector<at::Tensor>& tensors) {
  if (value.isTensor()) {
    tensors.push_back(value.toTensor());
  } else if (value.isTensorList()) {
    for (const auto& t : value.toTensorVector()) tensors.push_back(t);
  } else {
    tensors.emplace_back();
  }
}

// Calls `instr` under autograd on `stack`; gives the tensors that cotangents are of, in their order.
std::vector<at::Tensor> recorded_call(const Instr& instr, torch::jit::Stack& stack, Leaves& leaves) {
  const auto& schema = instr.op->schema();
  std::vector<bool> is_reg(stack.size());
  for (const auto& arg : instr.regs) is_reg[arg.arg] = true;
  for (const auto& list : instr.lists) is_reg[list.arg] = true;
  std::vector<at::Tensor> written;
  for (size_t i = 0; i < stack.size(); ++i) {
    const bool writes = is_written(schema.arguments()[i]);
    if (is_reg[i]) stack[i] = leaves.of(stack[i], writes);
    if (writes && !is_returned(schema, schema.arguments()[i])) flatten(stack[i], written);
  }
  instr.op->callBoxed(stack);
  std::vector<at::Tensor> results;
  for (const auto& result : stack) flatten(result, results);
  results.insert(results.end(), written.begin(), written.end());
  return results;
}

// The gradients of a call to the registers that want them.
void differentiate(const Instr& instr, torch::jit::Stack& stack, std::vector<IValue>& regs) {
  WithAutograd with;
  Leaves leaves(instr.results);
  const auto results = recorded_call(instr, stack, leaves);
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> cotangents;
  for (size_t i = 0; i < instr.cotangents.size(); ++i) {
    if (instr.cotangents[i] == kDropped) continue;
    TORCH_CHECK(i < results.size(), "the call gave ", results.size(), " results, not ", instr.cotangents.size());
    if (!results[i].defined() || !results[i].requires_grad()) continue;
    outputs.push_back(results[i]);
    cotangents.push_back(regs[instr.cotangents[i]].toTensor());
  }
  std::vector<at::Tensor> found(leaves.all.size());
  if (!outputs.empty()) {
    found = torch::autograd::grad(outputs, leaves.all, cotangents, /*retain_graph=*/false, /*create_graph=*/false,
                                  /*allow_unused=*/true);
  }
  for (size_t i = 0; i < found.size(); ++i) {
    auto& gradient = found[i];
    // What no cotangent reaches has none.
    if (!gradient.defined()) gradient = at::zeros_like(leaves.all[i].detach());
    if (gradient.layout() != at::kStrided) gradient = gradient.to_dense();
    regs[instr.results[leaves.index[i]]] = gradient.detach();
  }
}

}  // namespace

struct th_tape {
  std::vector<Instr> instrs;
  uint32_t n_inputs;
  uint32_t n_outputs;
  uint32_t n_regs;
};

// An input along some of whose axes the memory runs backwards, which ATen's tensors cannot say.
struct Reversed {
  at::Tensor forwards;
  std::vector<int64_t> axes;  // empty: an ordinary input
};

struct Output {
  uint32_t reg;
  const void* data;
  std::vector<int64_t> dims;
};

struct th_bound {
  const th_tape* tape;
  std::vector<IValue> regs;
  std::vector<Reversed> reversed;         // per input
  std::vector<Output> outputs;            // those with memory of their own
  std::vector<std::vector<IValue>> args;  // per instruction: everything that does not change between runs
  std::vector<uint8_t> varies;            // per register: written when running
  std::vector<uint32_t> at_run;           // indices of instructions
  torch::jit::Stack stack;
  bool everything_at_run = false;
  bool takes = false;  // some output waits for th_take
};

namespace {

IValue list_of(const th_bound& bound, const RegsArg& list) {
  if (list.optional) {
    c10::List<std::optional<at::Tensor>> tensors;
    for (const auto reg : list.regs) {
      tensors.push_back(reg == kDropped ? std::nullopt : std::optional<at::Tensor>(bound.regs[reg].toTensor()));
    }
    return tensors;
  }
  c10::List<at::Tensor> tensors;
  for (const auto reg : list.regs) {
    TORCH_CHECK(reg != kDropped, "a list of tensors has no gaps");
    tensors.push_back(bound.regs[reg].toTensor());
  }
  return tensors;
}

bool list_varies(const th_bound& bound, const RegsArg& list) {
  for (const auto reg : list.regs) {
    if (reg != kDropped && bound.varies[reg]) return true;
  }
  return false;
}

at::Scalar scalar(const th_number& number) {
  switch (number.kind) {
    case TH_INT:
      return number.i;
    case TH_BOOL:
      return number.i != 0;
    default:
      return number.f;
  }
}

void store(const at::Tensor& from, const at::Tensor& to) {
  TORCH_CHECK(from.sizes() == to.sizes(), "the result has dims ", from.sizes(), ", not ", to.sizes());
  TORCH_CHECK(from.scalar_type() == to.scalar_type(), "the result is ", from.scalar_type(), ", not ", to.scalar_type());
  to.copy_(from);
}

// An output that was given an input's memory needs no copy of that input.
bool same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.const_data_ptr() == b.const_data_ptr() && a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

void execute(th_bound& bound, size_t index, const th_number* numbers, uint64_t n_numbers) {
  const Instr& instr = bound.tape->instrs[index];
  auto& stack = bound.stack;
  stack.clear();
  const auto& proto = bound.args[index];
  stack.insert(stack.end(), proto.begin(), proto.end());
  for (const auto& arg : instr.regs) {
    if (bound.varies[arg.reg]) stack[arg.arg] = bound.regs[arg.reg];
  }
  for (const auto& list : instr.lists) {
    if (list_varies(bound, list)) stack[list.arg] = list_of(bound, list);
  }
  for (const auto& slot : instr.slots) {
    TORCH_CHECK(slot.number < n_numbers, "the run passes too few numbers");
    stack[slot.arg] = number_for(scalar(numbers[slot.number]), slot.type);
  }
  switch (instr.kind) {
    case TH_CALL: {
      instr.op->callBoxed(stack);
      for (size_t i = 0; i < instr.results.size(); ++i) {
        if (instr.results[i] != kDropped) bound.regs[instr.results[i]] = std::move(stack.at(i));
      }
      break;
    }
    case TH_VJP:
      differentiate(instr, stack, bound.regs);
      break;
    case TH_UNPACK: {
      const auto list = stack.at(0).toTensorVector();
      TORCH_CHECK(list.size() == instr.results.size(), "the call gave ", list.size(), " tensors, not ",
                  instr.results.size());
      for (size_t i = 0; i < list.size(); ++i) {
        if (instr.results[i] != kDropped) bound.regs[instr.results[i]] = list[i];
      }
      break;
    }
    case TH_STORE:
      store(stack.at(0).toTensor(), stack.at(1).toTensor());
      break;
    case TH_COPY: {
      const auto to = stack.at(1).toTensor();
      const auto from = stack.at(0).toTensor();
      if (!same_memory(from, to)) to.copy_(from);
      break;
    }
  }
  stack.clear();
}

// What does not change between runs is put in place once.
void prepare(th_bound& bound, size_t index) {
  const Instr& instr = bound.tape->instrs[index];
  auto args = instr.args;
  for (const auto& arg : instr.regs) {
    if (!bound.varies[arg.reg]) args[arg.arg] = bound.regs[arg.reg];
  }
  for (const auto& list : instr.lists) {
    if (!list_varies(bound, list)) args[list.arg] = list_of(bound, list);
  }
  bound.args[index] = std::move(args);
}

// ATen resizes an output whose dims it does not like; ours lie in the arena and must stay as they are.
void check_outputs(const th_bound& bound) {
  for (const auto& [reg, data, dims] : bound.outputs) {
    const auto& tensor = bound.regs[reg].toTensor();
    TORCH_CHECK(tensor.sizes() == at::IntArrayRef(dims) && tensor.const_data_ptr() == data, "libtorch gave result ",
                reg - bound.tape->n_inputs, " dims ", tensor.sizes(), ", not ", at::IntArrayRef(dims));
  }
}

void bind_inputs(th_bound& bound, const th_tensor* inputs) {
  const auto n = bound.tape->n_inputs;
  bound.reversed.resize(n);
  for (uint32_t i = 0; i < n; ++i) {
    Reversed& reversed = bound.reversed[i];
    auto tensor = wrap(inputs[i], reversed.axes);
    if (reversed.axes.empty()) {
      bound.regs[i] = std::move(tensor);
    } else {
      reversed.forwards = std::move(tensor);
      bound.varies[i] = 1;
      bound.everything_at_run = true;
    }
  }
}

void bind_outputs(th_bound& bound, const th_tensor* outputs) {
  for (uint32_t i = 0; i < bound.tape->n_outputs; ++i) {
    const th_tensor& output = outputs[i];
    const std::vector<int64_t> dims(output.dims, output.dims + output.rank);
    const bool unknown = std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < 0; });
    const bool holds = std::find(dims.begin(), dims.end(), 0) == dims.end();
    if (unknown || (!output.data && holds)) {
      bound.takes = true;
      continue;
    }
    std::vector<int64_t> axes;
    auto tensor = wrap(output, axes);
    TORCH_CHECK(axes.empty(), "an output runs backwards");
    bound.outputs.push_back({bound.tape->n_inputs + i, tensor.const_data_ptr(), dims});
    bound.regs[bound.tape->n_inputs + i] = std::move(tensor);
  }
}

}  // namespace

extern "C" {

void th_on_warning(void (*to)(const char* text, uint64_t bytes)) { on_warning = to; }

int th_describe(const char* op, char* schema, uint64_t schema_bytes, char* out, uint64_t out_bytes, char* error,
                uint64_t error_bytes) {
  return guarded(error, error_bytes, [&] {
    const auto handle = find(op);
    put(schema, schema_bytes, c10::toString(handle.schema()));
    put(out, out_bytes, out_variant(handle));
  });
}

int th_derivative_missing(const th_instr* from, const th_tensor* inputs, uint32_t n_inputs, char* missing,
                          uint64_t missing_bytes, char* error, uint64_t error_bytes) {
  put(missing, missing_bytes, "");
  return guarded(error, error_bytes, [&] {
    Inside inside(0);
    th_bound bound;
    const auto instr = read(*from, n_inputs);
    for (uint32_t i = 0; i < n_inputs; ++i) {
      const auto options =
          at::TensorOptions().dtype(static_cast<at::ScalarType>(inputs[i].scalar_type)).device(at::kMeta);
      bound.regs.emplace_back(at::empty(at::IntArrayRef(inputs[i].dims, inputs[i].rank), options));
    }
    torch::jit::Stack stack = instr.args;
    for (const auto& arg : instr.regs) stack[arg.arg] = bound.regs[arg.reg];
    for (const auto& list : instr.lists) stack[list.arg] = list_of(bound, list);
    for (const auto& slot : instr.slots) stack[slot.arg] = number_for(at::Scalar(1), slot.type);
    std::vector<at::Tensor> results;
    try {
      WithAutograd with;
      Leaves leaves(instr.results);
      results = recorded_call(instr, stack, leaves);
    } catch (const std::exception&) {
      return;  // no kernel that needs no data: it shows when it runs
    }
    for (const auto& result : results) {
      if (result.defined() && result.grad_fn() && result.grad_fn()->name() == "NotImplemented") {
        put(missing, missing_bytes, result.grad_fn()->name());
      }
    }
  });
}

int th_tape_new(const th_instr* instrs, uint64_t n_instrs, uint32_t n_inputs, uint32_t n_outputs, uint32_t n_regs,
                th_tape** tape, char* error, uint64_t error_bytes) {
  return guarded(error, error_bytes, [&] {
    auto made = std::make_unique<th_tape>();
    made->n_inputs = n_inputs;
    made->n_outputs = n_outputs;
    made->n_regs = n_regs;
    for (uint64_t i = 0; i < n_instrs; ++i) made->instrs.push_back(read(instrs[i], n_regs));
    *tape = made.release();
  });
}

void th_tape_free(th_tape* tape) { delete tape; }

int th_bind(const th_tape* tape, const th_tensor* inputs, const th_tensor* outputs, int32_t threads, th_bound** bound,
            char* error, uint64_t error_bytes) {
  return guarded(error, error_bytes, [&] {
    Inside inside(threads);
    auto made = std::make_unique<th_bound>();
    made->tape = tape;
    made->regs.resize(tape->n_regs);
    made->varies.resize(tape->n_regs);
    made->args.resize(tape->instrs.size());
    bind_inputs(*made, inputs);
    bind_outputs(*made, outputs);
    for (uint32_t i = 0; i < tape->instrs.size(); ++i) {
      const Instr& instr = tape->instrs[i];
      if (instr.at_bind && !made->everything_at_run) continue;
      made->at_run.push_back(i);
      for (const auto reg : instr.results) {
        if (reg != kDropped) made->varies[reg] = 1;
      }
    }
    for (uint32_t i = 0; i < tape->instrs.size(); ++i) {
      prepare(*made, i);
      if (tape->instrs[i].at_bind && !made->everything_at_run) execute(*made, i, nullptr, 0);
    }
    *bound = made.release();
  });
}

int th_run(th_bound* bound, const th_number* numbers, uint64_t n_numbers, int32_t threads, char* error,
           uint64_t error_bytes) {
  return guarded(error, error_bytes, [&] {
    Inside inside(threads);
    for (size_t i = 0; i < bound->reversed.size(); ++i) {
      const Reversed& reversed = bound->reversed[i];
      if (!reversed.axes.empty()) bound->regs[i] = reversed.forwards.flip(reversed.axes);
    }
    for (const auto index : bound->at_run) execute(*bound, index, numbers, n_numbers);
    check_outputs(*bound);
    if (bound->takes) return;
    for (uint32_t reg = 0; reg < bound->regs.size(); ++reg) {
      if (bound->varies[reg]) bound->regs[reg] = IValue();
    }
  });
}

void th_unbind(th_bound* bound) { delete bound; }

int th_result_dims(const th_bound* bound, uint32_t reg, int64_t* dims, uint32_t* rank, uint32_t max_rank, char* error,
                   uint64_t error_bytes) {
  return guarded(error, error_bytes, [&] {
    const auto& tensor = bound->regs.at(reg).toTensor();
    TORCH_CHECK(tensor.dim() <= max_rank, "the result has ", tensor.dim(), " dims");
    *rank = static_cast<uint32_t>(tensor.dim());
    std::copy(tensor.sizes().begin(), tensor.sizes().end(), dims);
  });
}

int th_take(th_bound* bound, uint32_t reg, const th_tensor* target, int32_t threads, char* error, uint64_t error_bytes) {
  return guarded(error, error_bytes, [&] {
    Inside inside(threads);
    std::vector<int64_t> axes;
    const auto to = wrap(*target, axes);
    TORCH_CHECK(axes.empty(), "an output runs backwards");
    store(bound->regs.at(reg).toTensor(), to);
    bound->regs[reg] = IValue();
  });
}
}
