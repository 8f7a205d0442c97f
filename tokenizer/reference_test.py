"""Compares tokenizer_probe with the reference tokenizer (PyPI `tokenizers`) on random Unicode strings.

usage: reference_test.py PROBE FIXTURE_DIR [COUNT [SEED]]; exit code 77 means skipped, with the reason on standard output.
Characters that are unassigned in Unicode 14 are left out: the two sides know different later versions.
"""
import json, os, random, subprocess, sys, tempfile, unicodedata

try:
    from tokenizers import Regex, Tokenizer, pre_tokenizers
except ImportError:
    print("skipped: the Python package `tokenizers` is not installed")
    sys.exit(77)

probe, fixtures = sys.argv[1:3]
count = int(sys.argv[3]) if len(sys.argv) > 3 else 2000
rng = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 1)

ASSIGNED = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
MARKS = [c for c in ASSIGNED if unicodedata.category(c)[0] == "M"]
COMBINING = [c for c in MARKS if unicodedata.combining(c)]
SPACES = [c for c in ASSIGNED if c.isspace()] + ["\r\n", "\n\n", "   "]
JAMO = [chr(c) for r in ((0x1100, 0x1115), (0x1160, 0x1178), (0x11A6, 0x11C5), (0xAC00, 0xAC40)) for c in range(*r)]
COMPOSED = [c for c in ASSIGNED if unicodedata.decomposition(c) and not unicodedata.decomposition(c).startswith("<")]
WORDS = ["'s", "'S", "'\u017f", "'LL", "'lL", "'re", "'Ve", "'m", "'D", "'t", "'x", "''", "hello", "World", " the", "12", "3.14",
         "<think>", "</think>", "<|im_start|>", "<|im_end|>", "<|im_", "<thi", "\u00e9", "e\u0301", ">\u0338", "=\u0338"]
ASCII = [chr(c) for c in range(128)]
POOLS = [ASSIGNED, MARKS, COMBINING, SPACES, JAMO, COMPOSED, WORDS, ASCII, [" "], ["\n"], list("aeiouAEIOU")]


def text():
    pools = rng.choices(POOLS, k=rng.randint(1, 4))
    parts = [rng.choice(rng.choice(pools)) for _ in range(rng.randint(0, 24))]
    joined = "".join(parts)
    return unicodedata.normalize("NFD", joined) if rng.random() < 0.2 else joined


SPLITS = {
    "qwen35": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
              r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
             r"|\s*[\r\n]+|\s+(?!\S)|\s+",
}
texts = [text() for _ in range(count)] + ["a" * 5000, "ab" * 3000, " " * 999, "\u0301\u0316" * 2000, "\u1100\u1161\u11a8" * 500]
failures = 0
for name in ("argon-tiny-tokenizer.json", "qwen3-tokenizer.json"):
    path = os.path.join(fixtures, name)
    for pre, pattern in SPLITS.items():
        reference = Tokenizer.from_file(path)
        split = pre_tokenizers.Split(Regex(pattern), "isolated")
        reference.pre_tokenizer = pre_tokenizers.Sequence(
            [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        with tempfile.TemporaryFile("w+") as file:
            file.writelines(json.dumps(t) + "\n" for t in texts)
            file.seek(0)
            lines = subprocess.run([probe, path, pre], stdin=file, stdout=subprocess.PIPE, check=True, text=True).stdout
        answers = [json.loads(line) for line in lines.split("\n") if line]
        assert len(answers) == len(texts), (len(answers), len(texts))
        for t, answer in zip(texts, answers):
            ids = reference.encode(t, add_special_tokens=False).ids
            pieces = [p for p, _ in split.pre_tokenize_str(reference.normalizer.normalize_str(t))]
            if ids != answer["ids"] or pieces != answer["pieces"]:
                failures += 1
                if failures <= 10:
                    print(f"{name} {pre}: {t!r}\n  reference {pieces} {ids}\n  argon     {answer['pieces']} {answer['ids']}")
        print(f"{name} {pre}: {len(texts)} texts, {failures} differences so far")
sys.exit(1 if failures else 0)
