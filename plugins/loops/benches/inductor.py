"""Inductor's kernels for the cases of `inductor_cases.json`, as shared libraries that the bench `inductor` calls.

    python inductor.py FOLDER [--only NAME]

Each function is compiled with static shapes, for one thread. What Inductor would have compiled as an extension of Python is
compiled as a plain library with the same flags: then a kernel is called as C is, which at small sizes is fairer than
through Python, with its output and what lies in between given, so that no allocation counts. FOLDER gets a line of JSON a
case (`kernels.jsonl`): its libraries in the order of their calls, and what each argument is: an input, the output or a
buffer in between, by its number, and an offset in bytes. Cases that are there already are skipped.
"""

import argparse
import itertools
import json
import os
import pathlib

import torch
import torch.nn.functional as F
from torch._inductor import config
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.codecache import CppCodeCache

HERE = pathlib.Path(__file__).parent
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def rms_norm(x, w):
    wide = x.float()
    scale = torch.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-5)
    return (wide * scale * w.float()).to(x.dtype)


def rope(x, cos, sin):
    length, width = cos.shape
    x = x.view(length, -1, width).transpose(0, 1)
    low, high = x[..., : width // 2], x[..., width // 2 :]
    # As attention reads it, and as the kernel here writes it: head after head.
    return (x * cos + torch.cat([-high, low], -1) * sin).contiguous()


# Each function, and the dims of its operands for a size.
FUNCTIONS = {
    "mul_add": (lambda x, y, z: x * y + z, lambda r, c: [[r, c]] * 3),
    "gelu_mul": (lambda x, b, y: F.gelu(x + b) * y, lambda r, c: [[r, c], [c], [r, c]]),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), lambda r, c: [[r, c]]),
    "swiglu": (lambda x, y: F.silu(x) * y, lambda r, c: [[r, c]] * 2),
    "softmax": (lambda x: torch.softmax(x, -1), lambda r, c: [[r, c]]),
    "log_softmax": (lambda x: torch.log_softmax(x, -1), lambda r, c: [[r, c]]),
    "rms_norm": (rms_norm, lambda r, c: [[r, c], [c]]),
    "residual_layer_norm": (
        lambda x, y, w, b: F.layer_norm(x + y, w.shape, w, b),
        lambda r, c: [[r, c], [r, c], [c], [c]],
    ),
    "rope": (rope, lambda r, c: [[r, c], [r, 64], [r, 64]]),
    "cat": (lambda x, y: torch.cat([x, y], 1), lambda r, c: [[r, c // 2], [r, c // 2]]),
}

sources, calls = [], []


def record(self, argtypes, source):
    """Instead of an extension of Python: a library, and a callable that notes what it was called with."""
    library = CppCodeCache.load(source)
    entry = {"library": library._name}
    sources.append(source)

    def call(*args):
        calls.append((entry, args))

    return call


def compiled(name, rows, cols, dtype):
    f, shapes = FUNCTIONS[name]
    inputs = [torch.randn(dims).to(dtype) for dims in shapes(rows, cols)]
    torch._dynamo.reset()
    sources.clear()
    calls.clear()
    out = torch.compile(f, dynamic=False)(*inputs)
    known = {tensor.untyped_storage().data_ptr(): ["input", i] for i, tensor in enumerate(inputs)}
    known[out.untyped_storage().data_ptr()] = ["output", 0]
    kernels = []
    for entry, args in calls:
        found = []
        for arg in args:
            assert isinstance(arg, torch.Tensor), "shapes are static"
            storage = arg.untyped_storage()
            kind, which = known.setdefault(storage.data_ptr(), ["buffer", len(known)])
            offset = arg.data_ptr() - storage.data_ptr()
            found.append({"kind": kind, "at": which, "offset": offset, "bytes": storage.nbytes()})
        kernels.append({**entry, "args": found})
    return kernels


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    config.cpp_wrapper = False
    config.fx_graph_cache = False
    AsyncCompile.cpp_pybinding = record
    listed = json.loads((HERE / "inductor_cases.json").read_text())
    path = args.folder / "kernels.jsonl"
    done = set()
    if path.exists():
        done = {json.loads(line)["case"] for line in path.read_text().splitlines()}
    for (rows, cols), dtype, name in itertools.product(listed["sizes"], listed["dtypes"], listed["functions"]):
        case = f"{name} {rows}x{cols} {dtype}"
        if case in done or (args.only and args.only not in case):
            continue
        kernels = compiled(name, rows, cols, DTYPES[dtype])
        (args.folder / (case.replace(" ", "_") + ".cpp")).write_text("\n".join(sources))
        with path.open("a") as file:
            file.write(json.dumps({"case": case, "kernels": kernels, "torch": torch.__version__}) + "\n")
        print(case, len(kernels), flush=True)


os.environ.setdefault("OMP_NUM_THREADS", "1")
if __name__ == "__main__":
    main()
