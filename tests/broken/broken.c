/* Plugins that are each wrong in one way, which -DWRONG=<one of the names below> says; tests/faults.rs lists the rule
 * that catches each. Without it this is a good plugin: `broken` takes `prims.neg` of f32 and `prims.nonzero`. */
#include "thunderhead_plugin.h"

#ifndef WRONG
#define WRONG NOTHING
#endif
enum {
    NOTHING,
    NO_KERNEL_TABLE,
    NULL_FUNCTION,
    TABLE_SIZE,
    CREATE_FAILS,
    CREATE_MAKES_NOTHING,
    NOT_AVAILABLE,
    REFUSES_MUTELY,
    REFUSES_WITHOUT_CODE,
    UNKNOWN_STATUS_IN_CHECK,
    MAKE_FAILS,
    MAKES_NO_KERNEL,
    SHARES_WHAT_IS_NOT_THERE,
    STRIDES_OVERLAP,
    WORKSPACE_ABSURD,
    RUN_FAILS,
    UNKNOWN_STATUS_IN_RUN,
    ALLOCATES_OTHER_DTYPE,
    ALLOCATES_OTHER_RANK,
    ALLOCATES_NOTHING,
    ALLOCATES_TWICE,
    PANICS_IN_RUN
};
#define IS(what) (WRONG == what)

static const ThHostV1 *host;

static ThStr text(const char *literal) {
    ThStr out = {(const uint8_t *)literal, 0};
    while (literal[out.len] != 0) out.len++;
    return out;
}

static ThStatus fail(ThStatus status, const char *message) {
    const ThErrorV1 *error = host->get_table(host->ctx, text("error/1"));
    error->set(host->ctx, status, text(message));
    return status;
}

static ThStatus create(const ThHostV1 *given, ThStr name, ThHandle *out) {
    (void)name;
    host = given;
    if (IS(CREATE_FAILS)) return fail(TH_STATUS_INTERNAL, "the cat sat on the GPU");
    if (!IS(CREATE_MAKES_NOTHING)) *out = &host;
    return TH_STATUS_OK;
}

static ThStatus nothing(ThHandle handle) {
    (void)handle;
    return TH_STATUS_OK;
}

static ThStatus available(ThHandle handle) {
    (void)handle;
    return IS(NOT_AVAILABLE) ? fail(TH_STATUS_UNAVAILABLE, "no warp core here") : TH_STATUS_OK;
}

static ThStatus check_op(ThHandle executor, const ThOpDesc *op) {
    const ThErrorV1 *error = host->get_table(host->ctx, text("error/1"));
    ThRefusal refusal = {sizeof refusal, TH_STR("Not a code"), TH_STR("no"), {0, 0}, -1, 0};
    (void)executor;
    (void)op;
    if (IS(REFUSES_WITHOUT_CODE)) error->refuse(host->ctx, &refusal);
    if (IS(REFUSES_WITHOUT_CODE) || IS(REFUSES_MUTELY)) return TH_STATUS_REFUSED;
    return IS(UNKNOWN_STATUS_IN_CHECK) ? 99 : TH_STATUS_OK;
}

typedef struct Kernel {
    int allocates;
} Kernel;

static Kernel kernels[2] = {{0}, {1}};

static ThStatus make(ThHandle executor, const ThOpDesc *op, ThKernelInfo *info) {
    static const ThInPlace shared[] = {{0, 7}};
    static const int64_t strides[] = {1, 1};
    static const ThOutputStrides overlapping[] = {{0, 2, strides}};
    (void)executor;
    if (IS(MAKE_FAILS)) return fail(TH_STATUS_UNSUPPORTED, "not on a Tuesday");
    if (IS(MAKES_NO_KERNEL)) return TH_STATUS_OK;
    if (IS(SHARES_WHAT_IS_NOT_THERE)) info->in_place = (ThArray){shared, 1, sizeof shared[0]};
    if (IS(STRIDES_OVERLAP)) info->output_strides = (ThArray){overlapping, 1, sizeof overlapping[0]};
    info->kernel = &kernels[th_is(op->name, "prims.nonzero")];
    return TH_STATUS_OK;
}

static ThStatus allocate(const ThRunArgs *args) {
    const ThAllocV1 *alloc = host->get_table(host->ctx, text("alloc/1"));
    const ThTensorView *out = 0;
    int64_t dims[3] = {2, 1, 1};
    uint32_t dtype = IS(ALLOCATES_OTHER_DTYPE) ? TH_DTYPE_F32 : TH_DTYPE_I64;
    uint32_t rank = IS(ALLOCATES_OTHER_RANK) ? 3 : 2;
    if (IS(ALLOCATES_NOTHING)) return TH_STATUS_OK;
    ThStatus answer = alloc->alloc_output(args->run, 0, dtype, dims, rank, &out);
    if (answer != TH_STATUS_OK) return TH_STATUS_OK; /* and hopes that nobody notices */
    if (IS(ALLOCATES_TWICE)) alloc->alloc_output(args->run, 0, dtype, dims, rank, &out);
    ((int64_t *)th_data(out))[0] = 0;
    ((int64_t *)th_data(out))[1] = 5;
    return TH_STATUS_OK;
}

static ThStatus run(ThHandle handle, const ThRunArgs *args) {
    const Kernel *kernel = handle;
    const ThTensorView *out = th_at(args->outputs, 0);
    const float *x = th_data(th_at(args->inputs, 0));
    if (IS(RUN_FAILS)) return fail(TH_STATUS_INTERNAL, "the numbers were too sad");
    if (IS(UNKNOWN_STATUS_IN_RUN)) return 4711;
    if (IS(PANICS_IN_RUN)) return fail(TH_STATUS_PANIC, "a C plugin can say so, too");
    if (kernel->allocates) return allocate(args);
    for (int64_t i = 0; i < th_numel(out); i++) ((float *)th_data(out))[i] = -x[i];
    return TH_STATUS_OK;
}

static ThStatus workspace(ThHandle kernel, uint32_t threads, uint64_t *out) {
    (void)kernel;
    (void)threads;
    *out = IS(WORKSPACE_ABSURD) ? UINT64_MAX : 0;
    return TH_STATUS_OK;
}

#if defined(CALLS_NOBODY)
extern int nobody_has_this_function(void);
#endif

static const void *tables(ThStr id) {
    static const ThExecutorV1 executor_1 = {sizeof executor_1, IS(NULL_FUNCTION) ? 0 : create, nothing, available};
    static const ThClaimV1 claim_1 = {sizeof claim_1, check_op};
    static const ThKernelV1 kernel_1 = {sizeof kernel_1 + (IS(TABLE_SIZE) ? 8 : 0), make, run, nothing};
    static const ThWorkspaceV1 workspace_1 = {sizeof workspace_1, workspace};
#if defined(CALLS_NOBODY)
    if (th_is(id, "x")) nobody_has_this_function();
#endif
    if (th_is(id, "executor/1")) return &executor_1;
    if (th_is(id, "claim/1")) return &claim_1;
    if (th_is(id, "kernel/1") && !IS(NO_KERNEL_TABLE)) return &kernel_1;
    if (th_is(id, "workspace/1")) return &workspace_1;
    return 0;
}

/* What the header's macro takes from these names can be falsified here. */
#if defined(FALSE_ABI_MAJOR)
#undef TH_ABI_MAJOR
#define TH_ABI_MAJOR FALSE_ABI_MAJOR
#endif
#if defined(FALSE_ABI_MINOR)
#undef TH_ABI_MINOR
#define TH_ABI_MINOR FALSE_ABI_MINOR
#endif
#if defined(FALSE_PANICS)
#undef TH_PANICS_NONE
#define TH_PANICS_NONE FALSE_PANICS
#endif
#if defined(FALSE_TARGET)
#undef TH_TARGET
#define TH_TARGET FALSE_TARGET
#endif
#if !defined(NAME)
#define NAME "broken"
#endif

#if defined(BARE)
/* Neither probe nor door. */
const void *thunderhead_is_not_here(ThStr id) { return tables(id); }
#elif defined(DOORLESS) || defined(LIAR)
/* A probe and a manifest, and a door of another kind. */
#define thunderhead_entry_v1 static_door
THUNDERHEAD_PLUGIN(MANIFEST, tables, TH_STR(NAME))
#undef thunderhead_entry_v1
#if defined(LIAR)
static const ThDescription *lie(void) {
    static ThDescription description;
    description = *th_describe();
    description.manifest = text("id = \"somebody else\"");
    return &description;
}
TH_EXPORT const ThEntryV1 *thunderhead_entry_v1(void) {
    static ThEntryV1 entry;
    entry = *static_door();
    entry.describe = lie;
    return &entry;
}
#endif
#else
THUNDERHEAD_PLUGIN(MANIFEST, tables, TH_STR(NAME))
#endif
