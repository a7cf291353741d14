/* A tape is a short list of ATen calls over numbered registers, made once from one op of a program. Binding it wraps
 * the tensors it reads and writes and runs what depends on nothing else (views); running it makes the remaining calls.
 *
 * Registers: the inputs first, then the outputs, then what calls leave behind.
 *
 * Every function returns 0, or 1 after writing a message (at most `error_bytes`, zero-terminated) to `error`. No C++
 * exception leaves. Mirrored in `src/aten/ffi.rs`.
 */
#ifndef THUNDERHEAD_TAPE_H
#define THUNDERHEAD_TAPE_H

#include <cstdint>

extern "C" {

enum th_arg_kind : uint32_t {
  TH_DEFAULT = 0, /* what ATen's schema says */
  TH_NONE = 1,
  TH_REG = 2,     /* register `index` */
  TH_REGS = 3,    /* list of registers `items` (u32); UINT32_MAX is a gap */
  TH_INT = 4,
  TH_FLOAT = 5,
  TH_BOOL = 6,
  TH_COMPLEX = 7, /* `f`, `g` */
  TH_STR = 8,     /* `items`: bytes */
  TH_INTS = 9,    /* `items`: i64 */
  TH_FLOATS = 10, /* `items`: f64 */
  TH_BOOLS = 11,  /* `items`: u8 */
  TH_CPU = 12,    /* the device */
  TH_SLOT = 13,   /* number `index` of the run; its kind in `i` (TH_INT, TH_FLOAT, TH_BOOL) */
};

struct th_arg {
  uint32_t kind;
  uint32_t index;
  int64_t i;
  double f;
  double g;
  const void* items;
  uint64_t n_items;
};

enum th_instr_kind : uint32_t {
  TH_CALL = 0,   /* the overload `op` (`add.out`, without `aten::`; another namespace in full) */
  TH_UNPACK = 1, /* args[0], a list of tensors, to the registers `results` */
  TH_STORE = 2,  /* args[0] into the memory of args[1]: dims and dtype must agree */
  TH_COPY = 3,   /* the same, broadcast and converted; nothing where both are the same memory */
  TH_VJP = 4,    /* the gradients of the overload `op`: cotangents first, then its arguments; a result for each floating or
                    complex tensor among those, dropped where it is not wanted */
};

enum th_when : uint32_t { TH_AT_BIND = 0, TH_AT_RUN = 1 };

struct th_instr {
  uint32_t kind;
  uint32_t when;
  const char* op;
  const th_arg* args;
  uint64_t n_args;
  const uint32_t* results; /* UINT32_MAX: dropped */
  uint64_t n_results;
  uint64_t n_cotangents; /* of TH_VJP: how many of `args` */
};

struct th_tensor {
  void* data;
  const int64_t* dims;
  const int64_t* strides; /* in elements */
  uint32_t rank;
  int32_t scalar_type; /* c10::ScalarType */
};

struct th_number {
  uint32_t kind; /* TH_INT, TH_FLOAT, TH_BOOL */
  int64_t i;
  double f;
};

struct th_tape;
struct th_bound;

/* Where ATen's warnings go; before this is called, nowhere. Once, before anything else. */
void th_on_warning(void (*to)(const char* text, uint64_t bytes));

/* What ATen's dispatcher knows of an overload. The schema as text, and the name of the variant that writes to given
 * outputs ("" when there is none). Buffers of the given sizes; texts are cut. */
int th_describe(const char* op, char* schema, uint64_t schema_bytes, char* out_variant, uint64_t out_bytes,
                char* error, uint64_t error_bytes);

/* Which derivative libtorch lacks for `instr` (TH_VJP without cotangents, whose registers are the inputs), as text; "" when none
 * is missing, or when that shows only when it runs. The tensors' data is not looked at. */
int th_derivative_missing(const th_instr* instr, const th_tensor* inputs, uint32_t n_inputs, char* missing,
                          uint64_t missing_bytes, char* error, uint64_t error_bytes);

int th_tape_new(const th_instr* instrs, uint64_t n_instrs, uint32_t n_inputs, uint32_t n_outputs, uint32_t n_regs,
                th_tape** tape, char* error, uint64_t error_bytes);
void th_tape_free(th_tape* tape);

/* The tensors stay where they are until unbind. A null `data` with dims that hold elements leaves that output to
 * `th_take`. The tape must outlive what is bound. */
int th_bind(const th_tape* tape, const th_tensor* inputs, const th_tensor* outputs, int32_t threads, th_bound** bound,
            char* error, uint64_t error_bytes);
int th_run(th_bound* bound, const th_number* numbers, uint64_t n_numbers, int32_t threads, char* error,
           uint64_t error_bytes);
void th_unbind(th_bound* bound);

/* Dims of a register that holds a tensor after the run, for outputs whose size the run decides. */
int th_result_dims(const th_bound* bound, uint32_t reg, int64_t* dims, uint32_t* rank, uint32_t max_rank, char* error,
                   uint64_t error_bytes);
/* Copies that register to `target`. */
int th_take(th_bound* bound, uint32_t reg, const th_tensor* target, int32_t threads, char* error, uint64_t error_bytes);
}

#endif
