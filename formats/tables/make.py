"""Writes the packed codebooks of the IQ types from the PyPI package gguf (MIT licence), whose decoders hold them as data.

usage: python3 formats/tables/make.py     (run in the repository root; the .inc files are committed)

An entry E(x) is 16 bits: eight 2-bit (IQ3: four 3-bit) indices into the levels named in formats/iq_grids.h, lowest bits first.
"""
import importlib.metadata

import numpy as np
from gguf import quants

TABLES = {
    "iq2_xxs": quants.IQ2_XXS,
    "iq2_xs": quants.IQ2_XS,
    "iq2_s": quants.IQ2_S,
    "iq1": quants.IQ1_S,
    "iq3_xxs": quants.IQ3_XXS,
    "iq3_s": quants.IQ3_S,
}

for name, cls in TABLES.items():
    entries, width = cls.grid_shape
    cls.init_grid()
    levels = list(cls.grid_map)
    bits = 2 if width == 8 else 3
    packed = [
        sum(levels.index(int(v)) << (bits * k) for k, v in enumerate(row))
        for row in np.asarray(cls.grid).reshape(entries, width)
    ]
    lines = [
        f"// Codebook {name}: {entries} entries. Numeric data of the published format, taken from the PyPI package gguf",
        f"// {importlib.metadata.version('gguf')} (MIT licence, (c) 2023 Georgi Gerganov). Written by formats/tables/make.py.",
    ]
    for i in range(0, entries, 13):
        lines.append(" ".join(f"E(0x{v:04x})," for v in packed[i : i + 13]))
    with open(f"formats/tables/{name}.inc", "w") as f:
        f.write("\n".join(lines) + "\n")
