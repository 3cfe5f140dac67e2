"""Check that training gives identical networks on processors of different vendors, with emulated processors.

    python benchmarks/processors.py

Needs Linux on x86-64 and QEMU's user emulation (Debian: `apt-get install qemu-user`). Both networks of the reproduction
are trained for a few steps with the kernels of `flipproof.runtime.processor`, on this processor and under QEMU as an
Intel Haswell, an Intel Skylake and an AMD EPYC; a checksum of their weights and outputs is printed. QEMU does not
support AVX-512, which these kernels do not use. Its approximate square roots and reciprocals differ from those of all
vendors, so a dependence on them becomes visible. The networks are narrow and the batches small, but QEMU still takes a
minute or two for each processor.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys

from flipproof.runtime.processor import SAME_KERNELS

EMULATED = ("Haswell", "Skylake-Server", "EPYC")
#: Number of images, batch size, channels of the first stage of the ResNet.
N_IMAGES, BATCH_SIZE, WIDTH = 24, 8, 4
STEPS_OPTION = "--steps-here"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(STEPS_OPTION, action="store_true", help=argparse.SUPPRESS)
    if parser.parse_args().steps_here:
        some_steps()
        return 0
    emulator = shutil.which("qemu-x86_64")
    if emulator is None:
        raise SystemExit("qemu-x86_64 is not installed: apt-get install qemu-user")
    script = [os.path.realpath(sys.executable), __file__, STEPS_OPTION]
    processors = {"this one": [], **{model: [emulator, "-cpu", model] for model in EMULATED}}
    environment = {**os.environ, **SAME_KERNELS, "PYTHONPATH": os.pathsep.join(sys.path)}
    digests = set()
    for name, prefix in processors.items():
        ran = subprocess.run([*prefix, *script], env=environment, capture_output=True, text=True)
        if ran.returncode:
            raise SystemExit(f"{name}: failed\n{ran.stderr}")
        digests.add(ran.stdout)
        print(f"{name:15} {ran.stdout}", flush=True)
    print("all identical" if len(digests) == 1 else "NOT identical")
    return 0 if len(digests) == 1 else 1


def some_steps():
    import numpy as np
    from threadpoolctl import threadpool_limits

    from flipproof.features import CNNFeatures, SimCLRFeatures
    from flipproof.features.training import torch_for

    torch_for("This benchmark")  # imported first: the limit does not apply to later imports
    rng = np.random.default_rng(0)
    digits, classes = rng.integers(0, 256, (N_IMAGES, 28 * 28)), np.arange(N_IMAGES) % 8
    photographs = rng.integers(0, 256, (N_IMAGES, 32 * 32 * 3))
    networks = {
        "CNN": (CNNFeatures(digits, classes, epochs=1, batch_size=BATCH_SIZE), digits),
        "SimCLR": (SimCLRFeatures((32, 32, 3), width=WIDTH, epochs=1, batch_size=BATCH_SIZE), photographs),
    }
    with threadpool_limits(limits=1):
        for name, (network, images) in networks.items():
            network.fit(images)
            digest = hashlib.sha256(network.transform(images[:BATCH_SIZE]).tobytes())
            for part in sorted(network.weights_):
                digest.update(network.weights_[part].tobytes())
            print(f"{name} {digest.hexdigest()[:16]}", end="  ")


if __name__ == "__main__":
    sys.exit(main())
