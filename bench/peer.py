#!/usr/bin/env python3
"""Argon beside llama.cpp: the same GGUF file, the same threads, alternating in one run; prints the ratios.

    pip install -r bench/requirements.txt
    bench/peer.py models/argon-tiny/argon-tiny-Q8_0.gguf --threads 2 --prompt 512 --steps 64 --repeat 5

Both read the same number of random token ids in one go, then one by one, after a warm-up that does not count. llama.cpp is
called through llama-cpp-python (build it for the instruction set to compare with: see bench/README.md), Argon through
`argon bench`. A ratio is Argon's tokens per second over llama.cpp's, of neighbouring runs; the median of the ratios is the result.
"""
import argparse
import ctypes
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("model", help="GGUF file")
    p.add_argument("--argon", default="build/release/bin/argon", help="the program (default: %(default)s)")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--prompt", type=int, default=512, help="tokens read in one go (default: %(default)s)")
    p.add_argument("--steps", type=int, default=32, help="tokens read one by one (default: %(default)s)")
    p.add_argument("--repeat", type=int, default=3, help="pairs of runs (default: %(default)s)")
    p.add_argument("--warm-up", type=int, metavar="N",
                   help="tokens of the prompt that llama.cpp reads before the first pair (default: all; fewer where a type has slow code there)")
    p.add_argument("--isa", help="instruction set that Argon may use at most")
    p.add_argument("--json", metavar="FILE", help="write the figures of every run to FILE")
    a = p.parse_args()
    if not os.path.exists(a.model):
        p.error(f"{a.model}: no such file")
    a.warm_up = a.prompt if a.warm_up is None else min(a.warm_up, a.prompt)
    if min(a.threads, a.prompt, a.steps, a.repeat, a.warm_up) < 1:
        p.error("--threads, --prompt, --steps, --repeat and --warm-up are at least 1")
    # Before minutes of measuring.
    if shutil.which(a.argon) is None:
        p.error(f"{a.argon} is not a program: build it (make), or name it with --argon")
    if a.json:
        try:
            open(a.json, "a").close()
        except OSError as e:
            p.error(f"--json {a.json}: {e.strerror}: wanted a file that can be written")
    return a


class Llama:
    """llama.cpp with its key-value cache in f16 and one sequence."""

    def __init__(self, a):
        try:
            import llama_cpp
        except ImportError:
            sys.exit("llama-cpp-python is not installed: pip install -r bench/requirements.txt")
        self.lib = lib = llama_cpp
        self.quiet = lib.llama_log_callback(lambda level, text, data: None)
        lib.llama_log_set(self.quiet, ctypes.c_void_p(0))
        lib.llama_backend_init()
        params = lib.llama_model_default_params()
        params.n_gpu_layers = 0
        self.model = lib.llama_model_load_from_file(a.model.encode(), params)
        if not self.model:
            sys.exit(f"llama.cpp {lib.__version__} cannot load {a.model}")
        context = lib.llama_context_default_params()
        context.n_ctx = a.prompt + a.steps + 64
        context.n_batch = context.n_ubatch = a.prompt
        context.n_threads = context.n_threads_batch = a.threads
        self.context = lib.llama_init_from_model(self.model, context)
        if not self.context:
            sys.exit("llama.cpp cannot make a context")
        vocabulary = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self.model))
        source = random.Random(1)
        self.ids = [source.randrange(vocabulary) for _ in range(a.prompt + a.steps)]
        self.prompt, self.steps = self.ids[: a.prompt], self.ids[a.prompt :]

    def features(self):
        return self.lib.llama_print_system_info().decode()

    def read(self, ids):
        tokens = (self.lib.llama_token * len(ids))(*ids)
        batch = self.lib.llama_batch_get_one(tokens, len(ids))
        if self.lib.llama_decode(self.context, batch) != 0:
            sys.exit("llama_decode failed")
        self.lib.llama_synchronize(self.context)

    def run(self, prompt=None, steps=None):
        """Tokens per second (reading, writing); all tokens, or as many as said."""
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)
        prompt, rest = self.prompt[:prompt], self.steps[:steps]
        start = time.perf_counter()
        self.read(prompt)
        middle = time.perf_counter()
        for i in rest:
            self.read([i])
        end = time.perf_counter()
        return len(prompt) / (middle - start), len(rest) / (end - middle)


def argon(a):
    command = [a.argon, "bench", "-m", a.model, "-t", str(a.threads), "-p", str(a.prompt), "-n", str(a.steps),
               "-r", "1", "--json", "--backend", "cpu"] + (["--isa", a.isa] if a.isa else [])
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    j = json.loads(done.stdout)
    return j["engine"], tuple(j[k]["tokens_per_second"]["median"] for k in ("prompt", "step"))


def main():
    a = arguments()
    llama = Llama(a)
    llama.run(prompt=a.warm_up, steps=2)
    rows = []
    engine = ""
    for i in range(a.repeat):
        engine, ours = argon(a)
        theirs = llama.run()
        rows.append({"argon": ours, "llama": theirs})
        print(f"pair {i + 1} of {a.repeat}: reading {ours[0]:.1f} and {theirs[0]:.1f}, "
              f"writing {ours[1]:.1f} and {theirs[1]:.1f} tokens/s", file=sys.stderr, flush=True)
    print(f"{os.path.basename(a.model)}, {a.threads} threads, prompt {a.prompt}, {a.steps} steps, {a.repeat} pairs")
    print(f"argon: {engine}; llama.cpp: llama-cpp-python {llama.lib.__version__}, {llama.features()}")
    print(f"{'':8}{'argon tok/s':>14}{'llama.cpp tok/s':>17}{'median ratio':>14}{'min':>7}{'max':>7}")
    for k, name in enumerate(("reading", "writing")):
        ratios = [r["argon"][k] / r["llama"][k] for r in rows]
        print(f"{name:8}{statistics.median(r['argon'][k] for r in rows):14.1f}"
              f"{statistics.median(r['llama'][k] for r in rows):17.1f}"
              f"{statistics.median(ratios):14.2f}{min(ratios):7.2f}{max(ratios):7.2f}")
    if a.json:
        with open(a.json, "w") as f:
            json.dump({"engine": engine, "threads": a.threads, "prompt": a.prompt, "steps": a.steps, "runs": rows}, f, indent=1)


if __name__ == "__main__":
    main()
