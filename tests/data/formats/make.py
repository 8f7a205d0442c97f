"""Writes the vectors of formats/tests: blocks of each weight type and the values the PyPI package `gguf` decodes from them.

usage: python3 tests/data/formats/make.py     (run in the repository root; the .bin files are committed)

A file is little endian: u32 type id, block_values, block_bytes, blocks, digest_blocks, 0; u64 digest; the blocks; their values as
float32. The digest covers digest_blocks more blocks, whose bytes are the splitmix64 stream of seed = type id: the sum over all
values of mixed(index, word) of base/tests/checksum.h. Q2_0 is not in the package; its decoder is written out here.
"""
import struct

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants

SIZES = {
    "Q8_0": (32, 34), "Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24), "IQ4_NL": (32, 18),
    "MXFP4": (32, 17), "NVFP4": (64, 36), "Q2_0": (64, 18), "Q2_K": (256, 84), "Q3_K": (256, 110), "Q4_K": (256, 144),
    "Q5_K": (256, 176), "Q6_K": (256, 210), "IQ1_S": (256, 50), "IQ1_M": (256, 56), "IQ2_XXS": (256, 66), "IQ2_XS": (256, 74),
    "IQ2_S": (256, 82), "IQ3_XXS": (256, 98), "IQ3_S": (256, 110), "IQ4_XS": (256, 136),
}
# Where the f16 scales of a block are (IQ1_M spreads its own over nibbles; MXFP4 and NVFP4 have none).
F16_AT = {
    "Q4_1": (0, 2), "Q5_1": (0, 2), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q2_K": (80, 82), "Q3_K": (108,), "Q6_K": (208,),
    "IQ1_M": (), "MXFP4": (), "NVFP4": (),
}
IDS = {name: (42 if name == "Q2_0" else int(T[name])) for name in SIZES}


def splitmix_bytes(seed, n):
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, (n + 7) // 8 + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return z.astype("<u8").view(np.uint8)[:n].copy()


def digest(values):
    words = values.astype(np.float32).view(np.uint32)
    words = np.where((words & 0x7FFFFFFF) > 0x7F800000, np.uint32(0x7FC00000), words)
    with np.errstate(over="ignore"):
        z = np.arange(len(words), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + words.astype(np.uint64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        return int(z.sum(dtype=np.uint64))


def decode(name, blocks):
    values, size = SIZES[name]
    blocks = blocks.reshape(-1, size)
    if name == "Q2_0":
        d = blocks[:, :2].copy().view(np.float16).astype(np.float32)
        q = (blocks[:, 2:, None] >> np.array([0, 2, 4, 6], np.uint8)) & 3
        return ((q.reshape(-1, 64).astype(np.float32) - 1) * d).reshape(-1)
    out = quants.dequantize(blocks, T[name]).astype(np.float32).reshape(-1, values)
    if name == "MXFP4":  # a subnormal step counts as zero here
        small = blocks[:, :1] < 2
        out = np.where(small, np.copysign(np.float32(0), out), out)
    return out.reshape(-1)


def explicit_blocks(name):
    """Random blocks with scales of ordinary size, then the edges: zeros, ones, extreme and negative scales."""
    values, size = SIZES[name]
    random = 24 if values == 32 else 12 if values == 64 else 4
    b = splitmix_bytes(1000 + IDS[name], (random + 5) * size).reshape(-1, size)
    at = F16_AT.get(name, (0,))
    scales = [0.01, -0.003, 1.5, 6e-8, 65504.0, -6.1e-5]
    for i in range(random):
        for k, p in enumerate(at):
            b[i, p : p + 2] = np.array([scales[(i + k) % len(scales)]], np.float16).view(np.uint8)
    b[random] = 0
    b[random + 1] = 0xFF
    for p in at:
        b[random + 1, p : p + 2] = np.array([65504.0], np.float16).view(np.uint8)
        b[random + 2, p : p + 2] = 0
        b[random + 3, p : p + 2] = (1, 0)
        b[random + 4, p : p + 2] = (0xFF, 0xFB)
    if name == "MXFP4":
        b[:6, 0] = (0, 1, 2, 127, 254, 255)
    if name == "Q8_0":
        for i in range(8):
            b[i, 2:] = np.arange(32 * i, 32 * i + 32, dtype=np.uint8)
    if name == "NVFP4":
        b[: random + 5, :4] = ((np.arange((random + 5) * 4) * 3 + 0x70) & 0xFF).reshape(-1, 4)
    return b


np.seterr(all="ignore")
for name, (values, size) in SIZES.items():
    blocks = explicit_blocks(name)
    n = 4096 if values < 256 else 1024
    total = digest(decode(name, splitmix_bytes(IDS[name], n * size)))
    with open(f"tests/data/formats/{name.lower()}.bin", "wb") as f:
        f.write(struct.pack("<6IQ", IDS[name], values, size, len(blocks), n, 0, total))
        f.write(blocks.tobytes() + decode(name, blocks).astype("<f4").tobytes())

# quantize.bin: u32 n, u32 0; n float32 values; their Q8_0 blocks; their Q4_0 blocks, as the package quantises them.
x = splitmix_bytes(99, 64 * 32 * 2).view(np.int16).astype(np.float32).reshape(64, 32)
x *= np.float32(2) ** (np.arange(64, dtype=np.float32)[:, None] % 40 - 36)
x[0] = 0
x[1] = np.arange(-16, 16, dtype=np.float32)  # Q8_0 and Q4_0 codes halfway between two integers
x[2, ::2] = -x[2, 1::2]  # two values of largest size: the first decides the sign of Q4_0's step
x[3] = np.arange(32, dtype=np.float32) / 4 - 4
x = x.reshape(-1)
with open("tests/data/formats/quantize.bin", "wb") as f:
    f.write(struct.pack("<2I", len(x), 0) + x.astype("<f4").tobytes())
    f.write(quants.quantize(x, T.Q8_0).tobytes() + quants.quantize(x, T.Q4_0).tobytes())
