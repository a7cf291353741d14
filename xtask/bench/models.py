"""The bench models in PyTorch, eager and compiled, timed in turns: one JSON line a model.

    python models.py NAME… --weights FOLDER --threads N --seconds S [--grad]

Each is the module whose exported form `src/bench/models.rs` writes. Times are of one call, the median and the least of the
samples; `compiled_given` is the compiled function writing into a tensor that is there already.
"""

import argparse
import json
import random
import struct
import time

import torch
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("names", nargs="+")
parser.add_argument("--weights", required=True)
parser.add_argument("--threads", type=int, required=True)
parser.add_argument("--seconds", type=float, required=True)
parser.add_argument("--grad", action="store_true")
args = parser.parse_args()
torch.set_num_threads(args.threads)


def read_safetensors(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = bytearray(file.read())
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = torch.frombuffer(data, dtype=torch.float32, count=(end - begin) // 4, offset=begin).view(
            entry["shape"]
        )
    return tensors


def rms_norm(x, w):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * w


def rope(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def llama(w, idx, heads):
    x = F.embedding(idx, w["wte.weight"])
    b, t, c = x.shape
    qkv = F.linear(rms_norm(x, w["norm_1.weight"]), w["qkv.weight"])
    q, k, v = (part.reshape(b, t, heads, c // heads).transpose(1, 2) for part in qkv.split(c, -1))
    q, k = rope(q, w["cos"], w["sin"]), rope(k, w["cos"], w["sin"])
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
    x = F.linear(y, w["proj.weight"]) + x
    n = rms_norm(x, w["norm_2.weight"])
    x = F.linear(F.silu(F.linear(n, w["fc_1.weight"])) * F.linear(n, w["fc_2.weight"]), w["down.weight"]) + x
    return F.linear(rms_norm(x, w["norm_f.weight"]), w["lm_head.weight"])


def mlp(w, x):
    for layer in range(4):
        x = F.gelu(F.linear(x, w[f"layers.{layer}.weight"], w[f"layers.{layer}.bias"]))
    return x


def rows(*dims):
    return torch.rand(*dims) * 2 - 1


MODELS = {
    "mlp_64": (mlp, lambda: (rows(8, 64),)),
    "gelu_bias_mul_1m": (lambda w, x, y: F.gelu(x + w["bias"]) * y, lambda: (rows(1024, 1024), rows(1024, 1024))),
    "softmax_512x1024": (lambda w, x: torch.softmax(x, -1), lambda: (rows(512, 1024),)),
    "rms_norm_512x4096": (lambda w, x: rms_norm(x, w["weight"]), lambda: (rows(512, 4096),)),
    "layer_norm_512x768": (
        lambda w, x, y: F.layer_norm(x + y, (768,), w["weight"], w["bias"]),
        lambda: (rows(512, 768), rows(512, 768)),
    ),
    "swiglu_512x1376": (lambda w, x, y: F.silu(x) * y, lambda: (rows(512, 1376), rows(512, 1376))),
    "rope_2x16x256x64": (lambda w, x: rope(x, w["cos"], w["sin"]), lambda: (rows(2, 16, 256, 64),)),
    "llama_512": (lambda w, i: llama(w, i, 8), lambda: (torch.randint(0, 2, (2, 256)),)),
    "llama_7b": (lambda w, i: llama(w, i, 32), lambda: (torch.randint(0, 2, (1, 128)),)),
}


def lanes(name):
    function, make = MODELS[name]
    weights = read_safetensors(f"{args.weights}/{name}.safetensors")
    inputs = make()
    if args.grad:
        wanted = [w.requires_grad_() for key, w in weights.items() if key not in ("cos", "sin")]
        wanted += [x.requires_grad_() for x in inputs if x.is_floating_point()]

        def run(call):
            out = call(weights, *inputs)
            return torch.autograd.grad(out, wanted, torch.ones_like(out))

        compiled = torch.compile(function)
        return {"eager": lambda: run(function), "compiled": lambda: run(compiled)}
    compiled = torch.compile(function)
    out = function(weights, *inputs)
    given = torch.compile(lambda w, o, *xs: o.copy_(function(w, *xs)))

    def quiet(call):
        def run():
            with torch.no_grad():
                return call()

        return run

    return {
        "eager": quiet(lambda: function(weights, *inputs)),
        "compiled": quiet(lambda: compiled(weights, *inputs)),
        "compiled_given": quiet(lambda: given(weights, out, *inputs)),
    }


for name in args.names:
    timed = lanes(name)
    compile_s, runs, samples = {}, {}, {}
    for lane, call in timed.items():
        begun = time.perf_counter()
        call()
        compile_s[lane] = time.perf_counter() - begun
        call()
        begun = time.perf_counter()
        call()
        runs[lane] = max(1, int(1e-3 / (time.perf_counter() - begun) + 1))
        samples[lane] = []
    begun, order = time.perf_counter(), list(timed)
    while time.perf_counter() - begun < args.seconds or len(samples["eager"]) < 5:
        random.shuffle(order)
        for lane in order:
            # Finds the caches as another has left them: does not count.
            timed[lane]()
            start = time.perf_counter()
            for _ in range(runs[lane]):
                timed[lane]()
            samples[lane].append((time.perf_counter() - start) / runs[lane])
    report = {}
    for lane, values in samples.items():
        values.sort()
        report[lane] = {"median_s": values[len(values) // 2], "least_s": values[0], "compile_s": compile_s[lane]}
    print(json.dumps({"name": name, "lanes": report}), flush=True)
