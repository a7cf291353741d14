"""Copies what a CPU program needs out of PyTorch's wheels: python unpack.py WHEELS TREE."""
import fnmatch
import os
import shutil
import sys
import zipfile

# member of a wheel -> place in the tree; `*` keeps what it stands for
KEEP = [
    ("torch/lib/libtorch_cpu.so", "lib/libtorch_cpu.so"),
    ("torch/lib/libc10.so", "lib/libc10.so"),
    ("torch/lib/libgomp*.so.1", "lib/"),
    ("nvidia/cu13/lib/libcudart.so.13", "lib/libcudart.so.13"),
    ("nvidia/cu13/lib/libcupti.so.13", "lib/libcupti.so.13"),
    ("torch/include/*", "include/"),
    ("torch-*.dist-info/licenses/*", "licenses/"),
]

wheels, tree = sys.argv[1:3]
found = {pattern: 0 for pattern, _ in KEEP}
for wheel in sorted(os.listdir(wheels)):
    with zipfile.ZipFile(os.path.join(wheels, wheel)) as archive:
        for member in archive.infolist():
            for pattern, place in KEEP:
                if member.is_dir() or not fnmatch.fnmatchcase(member.filename, pattern):
                    continue
                found[pattern] += 1
                if place.endswith("/"):
                    place += os.path.relpath(member.filename, os.path.dirname(pattern.split("*")[0] + "x"))
                target = os.path.normpath(os.path.join(tree, place))
                if not target.startswith(os.path.normpath(tree) + os.sep):
                    sys.exit(f"{wheel}: member {member.filename!r} points outside")
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with archive.open(member) as source, open(target, "wb") as sink:
                    shutil.copyfileobj(source, sink, 1 << 20)
                break
missing = [pattern for pattern, count in found.items() if not count and not pattern.startswith("torch-")]
if missing:
    sys.exit(f"the wheels lack {', '.join(missing)}")
