/* thunderhead_plugin.h: the ABI of Thunderhead plugins, version 0.2, for C.
 *
 * This file says what the Rust crate thunderhead-abi says; a test proves that names, sizes and offsets agree. What
 * each function promises is written at the Rust type of the same name (ThKernelV1 is KernelV1), and in short here.
 *
 * A plugin is a shared library with one THUNDERHEAD_PLUGIN(...) line, at the end of this file.
 *
 *   cc -shared -fPIC -O2 -I include my_plugin.c -o libmy_plugin.so
 *
 * Threads:  [any] from any thread, also beside itself; [serial per executor], [serial per object] never beside
 *           another such call with the same one; [may overlap] calls with one object may run side by side.
 * Pointers: unless said otherwise, what is passed in is readable during the call only, and is not null.
 */
#ifndef THUNDERHEAD_PLUGIN_H
#define THUNDERHEAD_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TH_ABI_MAJOR 0
#define TH_ABI_MINOR 2
#define TH_IR_MAJOR 1
#define TH_IR_MINOR 0

/* ---- text, arrays, handles, statuses ------------------------------------------------------------------------- */

typedef void *ThHandle;
typedef uint32_t ThStatus;

/* UTF-8, not terminated; ptr may be null where len is 0. */
typedef struct ThStr {
    const uint8_t *ptr;
    uint64_t len;
} ThStr;

/* len elements, stride_bytes apart: step by stride_bytes, never by the size that you know. */
typedef struct ThArray {
    const void *ptr;
    uint64_t len;
    uint64_t stride_bytes;
} ThArray;

#define TH_STATUS_OK 0u
#define TH_STATUS_INVALID_ARGUMENT 1u
#define TH_STATUS_UNSUPPORTED 2u
#define TH_STATUS_OUT_OF_MEMORY 3u
#define TH_STATUS_UNAVAILABLE 4u
#define TH_STATUS_VERSION 5u
#define TH_STATUS_INTERNAL 6u
#define TH_STATUS_PANIC 7u
#define TH_STATUS_TIMEOUT 8u
#define TH_STATUS_CANCELLED 9u
#define TH_STATUS_REFUSED 10u /* check_op only, after error/1's refuse */
#define TH_STATUS_BAD_DATA 11u /* run only: what the run was given cannot be worked on, as an index outside its axis */

/* ---- dtypes and devices -------------------------------------------------------------------------------------- */

#define TH_DTYPE_BOOL 1u
#define TH_DTYPE_U8 2u
#define TH_DTYPE_I8 3u
#define TH_DTYPE_I16 4u
#define TH_DTYPE_I32 5u
#define TH_DTYPE_I64 6u
#define TH_DTYPE_F16 7u
#define TH_DTYPE_BF16 8u
#define TH_DTYPE_F32 9u
#define TH_DTYPE_F64 10u
#define TH_DTYPE_C64 11u
#define TH_DTYPE_C128 12u
#define TH_DTYPE_U16 13u
#define TH_DTYPE_U32 14u
#define TH_DTYPE_U64 15u
#define TH_DTYPE_F8E4M3FN 16u
#define TH_DTYPE_F8E5M2 17u
#define TH_DTYPE_F8E4M3FNUZ 18u
#define TH_DTYPE_F8E5M2FNUZ 19u
#define TH_DTYPE_F8E8M0FNU 20u

#define TH_DEVICE_CPU 1u

/* ---- tensors in memory --------------------------------------------------------------------------------------- */

#define TH_UNKNOWN ((int64_t)-1) /* a dim that is not known yet */

#define TH_VIEW_READ_ONLY 1u
#define TH_VIEW_CONTIGUOUS 2u

/* Element i lies at data + byte_offset + sum of i[k] * strides[k] * element size. */
typedef struct ThTensorView {
    uint8_t *data;
    uint64_t byte_offset;
    uint32_t dtype;
    uint32_t device_kind;
    uint32_t device_index;
    uint32_t rank;
    const int64_t *dims;
    const int64_t *strides; /* in elements; null: dense row-major */
    uint64_t flags;
    uint64_t constant_id;
    uint64_t constant_version;
    ThHandle owner; /* null: borrowed for the call */
    ThStatus (*retain)(ThHandle owner);
    ThStatus (*release)(ThHandle owner);
} ThTensorView;

/* ---- ops before they have memory ----------------------------------------------------------------------------- */

#define TH_ARG_NONE 0u
#define TH_ARG_TENSOR 1u  /* value: index into inputs */
#define TH_ARG_TENSORS 2u /* list of int64_t: indices into inputs, -1 for a gap */
#define TH_ARG_INT 3u     /* value: int64_t */
#define TH_ARG_FLOAT 4u   /* value: bits of a double */
#define TH_ARG_BOOL 5u    /* value: 0 or 1 */
#define TH_ARG_STR 6u     /* text */
#define TH_ARG_COMPLEX 7u /* value, imag: bits of doubles */
#define TH_ARG_DTYPE 8u   /* value: a code */
#define TH_ARG_DEVICE 9u  /* value: kind, imag: index */
#define TH_ARG_INTS 10u   /* list of int64_t, TH_UNKNOWN_INT where not known, slots where known only at run */
#define TH_ARG_FLOATS 11u /* list of double */
#define TH_ARG_BOOLS 12u  /* list of uint8_t */
#define TH_ARG_LISTS 13u  /* list of ThArray of int64_t */
#define TH_ARG_NUMBER 14u /* value: slot of a number known only at run */
#define TH_ARG_STRS 15u   /* list of ThStr */
#define TH_ARG_UNKNOWN 16u /* check_op only: an integer known before a kernel is made, not now */

#define TH_NO_SLOT UINT32_MAX
#define TH_UNKNOWN_INT INT64_MIN

typedef struct ThArg {
    ThStr name;
    uint32_t kind;
    uint32_t reserved;
    uint64_t value;
    uint64_t imag;
    ThStr text;
    const void *list;
    uint64_t list_len;
    const uint32_t *slots;
} ThArg;

#define TH_DESC_CONTIGUOUS 2u
#define TH_DESC_CONSTANT 4u

typedef struct ThTensorDesc {
    uint32_t dtype;
    uint32_t device_kind;
    uint32_t device_index;
    uint32_t rank;
    const int64_t *dims;
    const int64_t *dims_lo;
    const int64_t *dims_hi;
    const int64_t *strides; /* null where not known: always in check_op */
    uint64_t flags;
    uint64_t constant_id;
    uint64_t constant_version;
    const uint8_t *data; /* constants, in make only */
} ThTensorDesc;

typedef struct ThNumberDesc {
    uint32_t kind;
    uint32_t reserved;
    int64_t lo;
    int64_t hi;
} ThNumberDesc;

/* args in the schema's order, complete; inputs: each tensor present, in the same order, lists expanded. */
typedef struct ThOpDesc {
    uint64_t size;
    ThStr name;
    ThStr origin;
    ThArray args;    /* of ThArg */
    ThArray inputs;  /* of ThTensorDesc */
    ThArray outputs; /* of ThTensorDesc */
    ThArray numbers; /* of ThNumberDesc */
} ThOpDesc;

/* ---- regions: what compile/1 and region/1 see; numbers of values and ops count from 0 within one region -------- */

#define TH_VALUE_INPUT 1u  /* made outside */
#define TH_VALUE_OUTPUT 2u /* wanted outside: some step writes its base */
#define TH_VALUE_VIEW 4u   /* a view of base: never written by a step */
#define TH_REGION_OP_VIEW 1u      /* only a view, the host's */
#define TH_REGION_OP_NUMBER 2u    /* works out numbers, the host's */
#define TH_REGION_OP_COMPOSITE 4u /* ir/1 decomposes it */

typedef struct ThRegionValue {
    const ThTensorDesc *tensor;
    uint32_t base; /* whose memory; itself where it is no view */
    uint32_t reserved;
    int64_t offset_elems; /* from base's first element, in elements of its own dtype */
    uint64_t flags;
} ThRegionValue;

typedef struct ThRegionOp {
    const ThOpDesc *op;
    ThArray inputs;  /* of uint32_t: the value of each of op.inputs */
    ThArray outputs; /* of uint32_t */
    uint64_t flags;
} ThRegionOp;

typedef struct ThRegionDesc {
    uint64_t size;
    ThStr name;      /* FullFusion0; empty for a single op that was handed on */
    ThArray values;  /* of ThRegionValue */
    ThArray ops;     /* of ThRegionOp */
    ThArray inputs;  /* of uint32_t */
    ThArray outputs; /* of uint32_t */
    ThArray numbers; /* of ThNumberDesc */
} ThRegionDesc;

typedef struct ThBlockDesc { /* what an op decomposes into, one level down */
    uint64_t size;
    uint32_t first_op;
    uint32_t first_value;
    ThArray ops;     /* of ThRegionOp */
    ThArray values;  /* of ThRegionValue: those that are new */
    ThArray yields;  /* of uint32_t: for each tensor result the value that stands for it */
    ThArray numbers; /* of ThNumberDesc: the region's, as far as known */
} ThBlockDesc;

/* ---- the host, as one executor sees it; lives as long as the process ------------------------------------------ */

typedef struct ThHostV1 {
    uint64_t size;
    uint32_t abi_major;
    uint32_t abi_minor;
    ThHandle ctx; /* first argument of the host's functions */
    const void *(*get_table)(ThHandle ctx, ThStr id); /* [any] null where absent */
    ThStr name;
    uint32_t threads;
    uint32_t reserved;
} ThHostV1;

#define TH_LOG_ERROR 1u
#define TH_LOG_WARN 2u
#define TH_LOG_INFO 3u
#define TH_LOG_DEBUG 4u
#define TH_LOG_TRACE 5u

typedef struct ThLogV1 { /* "log/1" */
    uint64_t size;
    uint32_t (*max_level)(ThHandle ctx);                                       /* [any] */
    void (*log)(ThHandle ctx, uint32_t level, ThStr target, ThStr message);    /* [any] */
} ThLogV1;

typedef struct ThRefusal {
    uint64_t size;
    ThStr code;      /* [a-z][a-z0-9_]* */
    ThStr sentence;  /* lower case, no period, what was found and what is taken */
    ThStr attribute; /* the argument at fault, or empty */
    int64_t dim;     /* the dim at fault, or -1 */
    int64_t dim_value;
} ThRefusal;

typedef struct ThErrorV1 { /* "error/1": call before returning the status; texts are copied */
    uint64_t size;
    void (*set)(ThHandle ctx, ThStatus status, ThStr message);   /* [any] */
    void (*refuse)(ThHandle ctx, const ThRefusal *refusal);      /* [any] */
} ThErrorV1;

typedef void (*ThWriteText)(void *to, ThStr text);

typedef struct ThIrV1 { /* "ir/1" */
    uint64_t size;
    uint64_t (*version)(ThHandle ctx);                                                     /* [any] */
    ThStatus (*op_schema)(ThHandle ctx, ThStr name, ThStr *out);                           /* [any] */
    ThStatus (*op_text)(ThHandle ctx, const ThOpDesc *op, ThWriteText write, void *to);    /* [any] */
    ThStatus (*decompose)(ThHandle lowering, uint32_t op, const ThBlockDesc **out); /* [serial per object] */
    ThStatus (*taker)(ThHandle lowering, uint32_t op, ThStr *out);                  /* [serial per object] */
} ThIrV1;

typedef struct ThAllocV1 { /* "alloc/1": outputs whose size the kernel decides; dtype 0: as described */
    uint64_t size;
    ThStatus (*alloc_output)(ThHandle run, uint32_t output, uint32_t dtype, const int64_t *dims, uint32_t rank,
                             const ThTensorView **out); /* [serial per object] */
} ThAllocV1;

typedef ThStatus (*ThChunkBody)(void *ctx, uint64_t chunk);

typedef struct ThParallelV1 { /* "parallel/1" */
    uint64_t size;
    ThStatus (*parallel_for)(ThHandle run, uint64_t n_chunks, ThChunkBody body, void *ctx); /* [serial per object] */
} ThParallelV1;

#define TH_OPTION_BOOL 1u
#define TH_OPTION_INT 2u
#define TH_OPTION_FLOAT 3u
#define TH_OPTION_STRING 4u
#define TH_OPTION_LIST 5u

typedef struct ThOptionValue {
    uint32_t kind;
    uint32_t reserved;
    uint64_t value;
    ThStr text;
    ThArray list; /* of ThStr */
} ThOptionValue;

typedef struct ThOptionsV1 { /* "options/1": checked, defaults filled in; values live as long as the process */
    uint64_t size;
    ThStatus (*get)(ThHandle ctx, ThStr key, const ThOptionValue **out); /* [any] */
} ThOptionsV1;

typedef struct ThCancelV1 { /* "cancel/1" */
    uint64_t size;
    uint32_t (*cancelled)(ThHandle run); /* [any] */
} ThCancelV1;

typedef struct ThClockV1 { /* "clock/1" */
    uint64_t size;
    uint64_t (*now_ns)(ThHandle ctx); /* [any] */
} ThClockV1;

/* ---- tables of a plugin --------------------------------------------------------------------------------------- */

typedef struct ThExecutorV1 { /* "executor/1" */
    uint64_t size;
    ThStatus (*create)(const ThHostV1 *host, ThStr name, ThHandle *out); /* [serial per executor] */
    ThStatus (*destroy)(ThHandle executor);                             /* [serial per executor] */
    ThStatus (*available)(ThHandle executor);                           /* [serial per executor] */
} ThExecutorV1;

typedef struct ThClaimV1 { /* "claim/1"; absent: the manifest is the whole truth */
    uint64_t size;
    ThStatus (*check_op)(ThHandle executor, const ThOpDesc *op); /* [may overlap] */
} ThClaimV1;

#define TH_KERNEL_SIZE_INDEPENDENT 1u

typedef struct ThInPlace {
    uint32_t output;
    uint32_t input;
} ThInPlace;

typedef struct ThOutputStrides {
    uint32_t output;
    uint32_t rank;
    const int64_t *strides;
} ThOutputStrides;

typedef struct ThKernelInfo {
    uint64_t size; /* set by the host: write no more */
    ThHandle kernel;
    uint64_t flags;
    ThArray in_place;       /* of ThInPlace; lives as long as the kernel */
    ThArray output_strides; /* of ThOutputStrides; lives as long as the kernel */
} ThKernelInfo;

typedef struct ThKernelStep {
    uint64_t size;
    ThStr name;
    ThArray inputs;  /* of uint32_t: values, in the order of ThRunArgs.inputs */
    ThArray outputs; /* of uint32_t: no views, no inputs of the region */
    ThArray numbers; /* of uint32_t: slots of the region's numbers */
    const ThKernelInfo *info;
} ThKernelStep;

typedef struct ThLowerV1 { /* "lower/1": steps in any order, the host sorts them */
    uint64_t size;
    ThStatus (*temporary)(ThHandle lowering, uint32_t dtype, const int64_t *dims, uint32_t rank,
                          uint32_t *value);                                   /* [serial per object] */
    ThStatus (*kernel_step)(ThHandle lowering, const ThKernelStep *step); /* [serial per object]; OK: the kernel is the host's */
    ThStatus (*delegate)(ThHandle lowering, uint32_t op); /* [serial per object]; UNSUPPORTED: nobody takes it */
} ThLowerV1;

typedef struct ThNumber {
    uint32_t kind;
    uint32_t reserved;
    uint64_t value;
} ThNumber;

typedef struct ThRunArgs {
    uint64_t size;
    ThArray inputs;  /* of ThTensorView */
    ThArray outputs; /* of ThTensorView */
    ThArray numbers; /* of ThNumber */
    uint8_t *workspace;
    uint64_t workspace_bytes;
    uint32_t threads;
    uint32_t reserved;
    ThHandle run; /* for alloc/1, parallel/1, cancel/1 */
} ThRunArgs;

typedef struct ThKernelV1 { /* "kernel/1" */
    uint64_t size;
    ThStatus (*make)(ThHandle executor, const ThOpDesc *op, ThKernelInfo *info); /* [may overlap] */
    ThStatus (*run)(ThHandle kernel, const ThRunArgs *args);                     /* [may overlap] */
    ThStatus (*free)(ThHandle kernel);                                           /* [any] */
} ThKernelV1;

typedef struct ThBindArgs {
    uint64_t size;
    ThArray inputs;
    ThArray outputs;
    uint8_t *workspace;
    uint64_t workspace_bytes;
    uint32_t threads;
    uint32_t reserved;
} ThBindArgs;

typedef struct ThBindV1 { /* "bind/1"; absent: the kernel's own run is called */
    uint64_t size;
    ThStatus (*bind)(ThHandle kernel, const ThBindArgs *args, ThHandle *out); /* [may overlap]; null: nothing kept */
    ThStatus (*run)(ThHandle bound, const ThRunArgs *args);                   /* [serial per object] */
    ThStatus (*unbind)(ThHandle bound);                                       /* [serial per object] */
} ThBindV1;

typedef struct ThWorkspaceV1 { /* "workspace/1"; absent: no scratch */
    uint64_t size;
    ThStatus (*bytes)(ThHandle kernel, uint32_t threads, uint64_t *out); /* [any] */
} ThWorkspaceV1;

typedef struct ThCompileV1 { /* "compile/1": kind fusion; UNSUPPORTED: the region's ops are released */
    uint64_t size;
    ThStatus (*lower)(ThHandle executor, const ThRegionDesc *region, ThHandle lowering); /* [may overlap] */
} ThCompileV1;

typedef ThStatus (*ThTakeProposal)(void *to, ThArray ops); /* of uint32_t */

typedef struct ThRegionV1 { /* "region/1"; absent: regions are taken as the host made them */
    uint64_t size;
    ThStatus (*propose)(ThHandle executor, const ThRegionDesc *region, ThTakeProposal take,
                        void *to); /* [may overlap] */
} ThRegionV1;

typedef struct ThLifecycleV1 { /* "lifecycle/1"; absent: nothing to do at the end */
    uint64_t size;
    ThStatus (*quiesce)(ThHandle executor); /* [serial per executor] */
} ThLifecycleV1;

typedef struct ThSelftestV1 { /* "selftest/1"; absent: nothing to check */
    uint64_t size;
    ThStatus (*run)(ThHandle executor); /* [serial per executor] */
} ThSelftestV1;

/* ---- the door -------------------------------------------------------------------------------------------------- */

typedef struct ThDescription {
    uint64_t size;
    ThStr manifest;    /* byte for byte what is embedded */
    ThArray executors; /* of ThStr: the names that create knows */
    ThStr sdk_version;
} ThDescription;

typedef struct ThEntryV1 {
    uint64_t size;
    uint32_t abi_major;
    uint32_t abi_minor;
    const ThDescription *(*describe)(void);   /* [any] */
    const void *(*get_table)(ThStr id);       /* [any] null where absent */
} ThEntryV1;

/* ---- the probe: read from the file without loading it; integers little-endian --------------------------------- */

#define TH_PANICS_UNWIND 1u
#define TH_PANICS_ABORT 2u
#define TH_PANICS_NONE 3u

typedef struct ThProbe {
    uint8_t magic[8];
    uint8_t size[4];
    uint8_t abi_major[4];
    uint8_t abi_minor[4];
    uint8_t panics[4];
    char sdk_version[32];
    char compiler[96];
    char target[64];
} ThProbe;

typedef struct ThManifestHead {
    uint8_t magic[8];
    uint8_t len[8];
} ThManifestHead;

/* ---- what a C plugin writes ------------------------------------------------------------------------------------ */

#define TH_STR(literal) {(const uint8_t *)(literal), sizeof(literal) - 1}

/* Compares a text with a literal. */
static inline int th_is(ThStr text, const char *literal) {
    uint64_t i = 0;
    while (i < text.len && literal[i] != 0 && (char)text.ptr[i] == literal[i]) i++;
    return i == text.len && literal[i] == 0;
}

/* Element i of an array. */
static inline const void *th_at(ThArray array, uint64_t i) {
    return (const char *)array.ptr + i * array.stride_bytes;
}

/* Number of elements of a tensor. */
static inline int64_t th_numel(const ThTensorView *view) {
    int64_t n = 1;
    for (uint32_t i = 0; i < view->rank; i++) n *= view->dims[i];
    return n;
}

/* First element of a tensor. */
static inline void *th_data(const ThTensorView *view) { return view->data + view->byte_offset; }

#if !defined(TH_TARGET)
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__)
#define TH_TARGET "x86_64-unknown-linux-gnu"
#elif defined(__aarch64__) && defined(__linux__) && defined(__GLIBC__)
#define TH_TARGET "aarch64-unknown-linux-gnu"
#elif defined(__x86_64__) && defined(__linux__)
#define TH_TARGET "x86_64-unknown-linux-musl"
#elif defined(__aarch64__) && defined(__linux__)
#define TH_TARGET "aarch64-unknown-linux-musl"
#elif defined(__aarch64__) && defined(__APPLE__)
#define TH_TARGET "aarch64-apple-darwin"
#elif defined(__x86_64__) && defined(__APPLE__)
#define TH_TARGET "x86_64-apple-darwin"
#else
#error "define TH_TARGET as the target triple of the host, for example \"x86_64-unknown-linux-gnu\""
#endif
#endif

#if defined(__APPLE__)
#define TH_SECTION_PROBE "__DATA,__th_probe"
#define TH_SECTION_MANIFEST "__DATA,__th_manifest"
#else
#define TH_SECTION_PROBE ".thunderhead.probe"
#define TH_SECTION_MANIFEST ".thunderhead.manifest"
#endif

#if defined(__cplusplus)
#define TH_EXTERN extern "C"
#else
#define TH_EXTERN
#endif
#define TH_EXPORT TH_EXTERN __attribute__((visibility("default"), used))
#define TH_LE4(value) {(value) & 255, ((value) >> 8) & 255, ((value) >> 16) & 255, ((value) >> 24) & 255}
#define TH_LE8(value)                                                                                  \
    {(uint8_t)(value),                                                                                 \
     (uint8_t)((uint64_t)(value) >> 8),                                                                \
     (uint8_t)((uint64_t)(value) >> 16),                                                               \
     (uint8_t)((uint64_t)(value) >> 24),                                                               \
     0,                                                                                                \
     0,                                                                                                \
     0,                                                                                                \
     0}

/* Once a plugin, at file scope. manifest: the text of plugin.toml as a string literal. tables: the function that
 * returns the plugin's tables. After these the names of its executors:
 *
 *   THUNDERHEAD_PLUGIN(MANIFEST, tables, TH_STR("acme"), TH_STR("acme_blas"))
 */
#define THUNDERHEAD_PLUGIN(manifest, tables, ...)                                                         \
    TH_EXPORT __attribute__((section(TH_SECTION_PROBE))) const ThProbe thunderhead_probe = {              \
        {'T', 'H', 'U', 'N', 'D', 'R', 'p', 'b'},                                                         \
        TH_LE4(sizeof(ThProbe)),                                                                          \
        TH_LE4(TH_ABI_MAJOR),                                                                             \
        TH_LE4(TH_ABI_MINOR),                                                                             \
        TH_LE4(TH_PANICS_NONE),                                                                           \
        "c 0.2",                                                                                          \
        "C " __VERSION__,                                                                                 \
        TH_TARGET};                                                                                       \
    typedef struct ThEmbeddedManifest {                                                                   \
        ThManifestHead head;                                                                              \
        char text[sizeof(manifest)];                                                                      \
    } ThEmbeddedManifest;                                                                                 \
    TH_EXPORT __attribute__((section(TH_SECTION_MANIFEST))) const ThEmbeddedManifest thunderhead_manifest = { \
        {{'T', 'H', 'U', 'N', 'D', 'R', 'm', 'f'}, TH_LE8(sizeof(manifest) - 1)}, manifest};              \
    static const ThDescription *th_describe(void) {                                                       \
        static const ThStr executors[] = {__VA_ARGS__};                                                   \
        static const ThDescription description = {                                                        \
            sizeof(ThDescription),                                                                        \
            {(const uint8_t *)thunderhead_manifest.text, sizeof(manifest) - 1},                           \
            {executors, sizeof(executors) / sizeof(executors[0]), sizeof(ThStr)},                         \
            TH_STR("c 0.2")};                                                                             \
        return &description;                                                                              \
    }                                                                                                     \
    TH_EXPORT const ThEntryV1 *thunderhead_entry_v1(void) {                                               \
        static const ThEntryV1 entry = {                                                                  \
            sizeof(ThEntryV1), TH_ABI_MAJOR, TH_ABI_MINOR, th_describe, tables};                          \
        return &entry;                                                                                    \
    }

#ifdef __cplusplus
}
#endif

#endif /* THUNDERHEAD_PLUGIN_H */
