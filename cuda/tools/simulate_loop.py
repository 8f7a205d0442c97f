#!/usr/bin/env python3
"""Cycles a token of the scan's loop as compiled, by counting: what docs/lab/cuda-gdn.md ranks forms of gdn_scan_128 by.

    cuobjdump -sass FILE.o > scan.sass
    cuda/tools/simulate_loop.py scan.sass 'gdn_scan_128ILi3ELi16'

One warp a scheduler issues in order. Each instruction waits for the barriers that its control bits name; operands that the
reuse cache does not hold are read at two ports, one for even registers and one for odd; loads, shuffles and stores of the four
warps, which run in step, queue for one unit. The constants fit thirteen forms measured on an H200 with a standard deviation of
4.6 cycles, measured = printed + 22.
"""
import re
import sys
from collections import namedtuple

SLACK = 2           # operands that a port may be behind
SERVICE = {"LDS": 2, "SHFL": 2, "STS": 4}  # cycles of the shared unit
WARPS, LATENCY, STORE_READS, BRANCH = 4, 30, 4, 11
ROUNDS = 4

Instruction = namedtuple("Instruction", "address text stall write read waits")


def parse(path, function):
    """The function's instructions, with the control bits of sm_90's second word."""
    found, inside, first = [], False, None
    for line in open(path):
        if "Function :" in line:
            inside = re.search(function, line) is not None
        elif inside and (m := re.match(r"\s+/\*([0-9a-f]{4,5})\*/\s+(.*?);\s+/\* 0x[0-9a-f]{16} \*/", line)):
            first = (int(m[1], 16), m[2].strip())
        elif inside and first and (m := re.match(r"\s+/\* 0x([0-9a-f]{16}) \*/", line)):
            bits = int(m[1], 16) >> 41
            found.append(Instruction(*first, bits & 15, bits >> 5 & 7, bits >> 8 & 7, bits >> 11 & 63))
            first = None
    return found


def token_loop(code):
    """The shortest loop with the products of at least a token."""
    loops = []
    for last, i in enumerate(code):
        m = re.search(r"BRA (0x[0-9a-f]+)", i.text)
        if m and int(m[1], 16) < i.address:
            body = [x for x in code if int(m[1], 16) <= x.address <= i.address]
            if sum("FFMA" in x.text for x in body) > 140:
                loops.append(body)
    if not loops:
        sys.exit("there is no loop with 140 FFMA: wanted the SASS of a scanning kernel")
    return min(loops, key=len)


def registers(text):
    """Name and register operands: (slot, register, kept by the reuse cache)."""
    name, _, rest = re.sub(r"@!?U?P\d\s+", "", text).partition(" ")
    slots = enumerate(part.strip() for part in rest.split(",")[1:])
    return name, [(i, int(m[1]), bool(m[2])) for i, p in slots if (m := re.match(r"-?\|?R(\d+)(\.reuse)?", p))]


def simulate(body):
    """Cycles of one turn."""
    now, unit, ports, kept, ready, turns = 0.0, 0.0, [0.0, 0.0], {}, [0.0] * 6, []
    for _ in range(ROUNDS):
        begin = now
        for i in body:
            name, operands = registers(i.text)
            waited = max([now] + [ready[b] for b in range(6) if i.waits >> b & 1]) - now
            now += waited
            ports = [max(0, p - waited) for p in ports]
            new = {r for slot, r, _ in operands if kept.get(slot) != r}
            kept = {slot: r for slot, r, keep in operands if keep}
            behind = max(0, max(ports) - SLACK)
            now += behind
            ports = [max(0, p - behind) for p in ports]
            ports = [p + sum(r % 2 == odd for r in new) for odd, p in enumerate(ports)]
            service = SERVICE.get(name.split(".")[0], 0)
            if service:
                unit = max(unit, now) + service * WARPS
            done = (unit if service else now) + LATENCY
            if i.write < 6:
                ready[i.write] = max(ready[i.write], done)
            if service and i.read < 6:
                ready[i.read] = max(ready[i.read], unit + STORE_READS)
            step = max(1, i.stall)
            now += step
            ports = [max(0, p - step) for p in ports]
        now += BRANCH
        kept = {}
        turns.append(now - begin)
    return turns[-1]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    body = token_loop(parse(sys.argv[1], sys.argv[2]))
    tokens = sum("SHFL" in i.text for i in body) / 9
    print(f"{simulate(body) / tokens:.1f} cycles a token, {len(body) / tokens:.1f} instructions, {tokens:.0f} tokens a turn")


if __name__ == "__main__":
    main()
