/* A whole plugin in C, written with nothing but thunderhead_plugin.h: takes `prims.mul` of two f32 tensors.
 *
 * plugin.toml is handed in as a string literal, -DMANIFEST='"..."'; a build system would generate a header. */
#include "thunderhead_plugin.h"

typedef struct Host {
    const ThHostV1 *raw;
    const ThErrorV1 *error;
    const ThLogV1 *log;
    int shout;
} Host;

static Host host; /* one executor of one name: one instance a process is enough here */

static ThStr text(const char *literal) {
    ThStr out = {(const uint8_t *)literal, 0};
    while (literal[out.len] != 0) out.len++;
    return out;
}

static ThStatus fail(ThStatus status, const char *message) {
    if (host.error) host.error->set(host.raw->ctx, status, text(message));
    return status;
}

static ThStatus create(const ThHostV1 *raw, ThStr name, ThHandle *out) {
    const ThOptionsV1 *options = raw->get_table(raw->ctx, text("options/1"));
    const ThOptionValue *shout = 0;
    host.raw = raw;
    host.error = raw->get_table(raw->ctx, text("error/1"));
    host.log = raw->get_table(raw->ctx, text("log/1"));
    if (!th_is(name, "c_square")) return fail(TH_STATUS_INVALID_ARGUMENT, "there is only c_square");
    if (options && options->get(raw->ctx, text("shout"), &shout) == TH_STATUS_OK) host.shout = shout->value != 0;
    *out = &host;
    return TH_STATUS_OK;
}

static ThStatus destroy(ThHandle executor) {
    (void)executor;
    return TH_STATUS_OK;
}

static ThStatus available(ThHandle executor) {
    (void)executor;
    return TH_STATUS_OK;
}

static ThStatus check_op(ThHandle executor, const ThOpDesc *op) {
    const ThTensorDesc *a, *b;
    (void)executor;
    if (op->inputs.len == 2) {
        a = th_at(op->inputs, 0);
        b = th_at(op->inputs, 1);
        if (a->rank == b->rank) return TH_STATUS_OK;
    }
    ThRefusal refusal = {sizeof refusal, TH_STR("not_two_tensors"), TH_STR("two tensors of one rank are taken"),
                         TH_STR("b"), -1, 0};
    host.error->refuse(host.raw->ctx, &refusal);
    return TH_STATUS_REFUSED;
}

static int a_kernel; /* kernels keep nothing */

static ThStatus make(ThHandle executor, const ThOpDesc *op, ThKernelInfo *info) {
    static const ThInPlace in_place[] = {{0, 0}, {0, 1}};
    (void)executor;
    if (!th_is(op->name, "prims.mul")) return fail(TH_STATUS_UNSUPPORTED, "only prims.mul has a kernel");
    if (host.shout && host.log) host.log->log(host.raw->ctx, TH_LOG_INFO, text(""), text("a kernel is made"));
    info->kernel = &a_kernel;
    info->flags = TH_KERNEL_SIZE_INDEPENDENT;
    info->in_place.ptr = in_place;
    info->in_place.len = 2;
    info->in_place.stride_bytes = sizeof(ThInPlace);
    return TH_STATUS_OK;
}

static ThStatus run(ThHandle kernel, const ThRunArgs *args) {
    const ThTensorView *out = th_at(args->outputs, 0);
    const float *a = th_data(th_at(args->inputs, 0));
    const float *b = th_data(th_at(args->inputs, 1));
    float *to = th_data(out);
    int64_t n = th_numel(out);
    (void)kernel;
    for (int64_t i = 0; i < n; i++) to[i] = a[i] * b[i];
    return TH_STATUS_OK;
}

static ThStatus free_kernel(ThHandle kernel) {
    (void)kernel;
    return TH_STATUS_OK;
}

static const void *tables(ThStr id) {
    static const ThExecutorV1 executor_1 = {sizeof executor_1, create, destroy, available};
    static const ThClaimV1 claim_1 = {sizeof claim_1, check_op};
    static const ThKernelV1 kernel_1 = {sizeof kernel_1, make, run, free_kernel};
    if (th_is(id, "executor/1")) return &executor_1;
    if (th_is(id, "claim/1")) return &claim_1;
    if (th_is(id, "kernel/1")) return &kernel_1;
    return 0;
}

THUNDERHEAD_PLUGIN(MANIFEST, tables, TH_STR("c_square"))
