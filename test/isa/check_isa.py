#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compiles the kernels for every target with every clang found and checks the instructions.

  check_isa.py [--clang CLANG]... [--target gfxNNN]...

What is checked (sources of the rules: LLVM's AMDGPU memory model; the ring protocol, ring/producer.h):
  - packet stores, drain, write pointer, drain, doorbell, drain, commit, in this order and all there
  - the doorbell is one 64-bit store; packets, write pointer and doorbell have system scope
  - no cache write-back is followed by a store or an atomic without a drain between
  - reservation and publication are in the same loop, which no lane leaves alone
  - the resident kernel: caches are invalidated between its look at the mailbox and the record; behind CLOSING its next
    look waits for the store; nothing that changes is read through the scalar cache, which nobody invalidates
  - the resident kernel pauses between two looks at the mailbox
  - no scratch, no spills
The checker must also reject kernels with deliberate mistakes (kernels/mutants.h), else it fails.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
TARGETS = ["gfx90a", "gfx942", "gfx950"]
CLANGS = ["clang-22", "clang-19", "clang-15", "clang-14"]
FLAGS = ["-x", "hip", "--cuda-device-only", "-nogpulib", "-nogpuinc", "-O3", "-std=c++20", "-mcode-object-version=4",
         "-S", f"-I{TOP}"]

# Constants of probe.cpp.
BASE, WRITE_POINTER, DOORBELL = 0x111100001000, 0x333300003000, 0x444400004000
COMMIT = 0x555500005000 + 64
HEAD, STATE, RECORD = 0x666600006000, 0x666600006000 + 72, 0x777700007000
PACKET = {BASE + 64 + 4 * i for i in range(7)}


def assembly(clang, target, source, defines=()):
    """The assembly text, or None if this clang does not know the target."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.s"
        command = [clang, *FLAGS, f"--offload-arch={target}", *(f"-D{d}" for d in defines), str(TOP / source),
                   "-o", str(out)]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=300)
        if done.returncode == 0:
            return out.read_text()
        if re.search(r"invalid target ID|unsupported HIP gpu architecture", done.stderr):
            return None
        raise SystemExit(f"check_isa: {' '.join(command)}:\n{done.stderr}")


class Instruction:
    """One line of a function: mnemonic, operands, and the header of the innermost loop of its block (or None)."""

    def __init__(self, text, loop):
        self.text = text
        self.loop = loop
        self.name, _, rest = text.partition(" ")
        self.operands = [o.strip() for o in rest.split(",")]

    @property
    def stores(self):
        return bool(re.match(r"(global|flat|buffer|scratch)_(store|atomic)", self.name))

    @property
    def loads(self):
        return bool(re.match(r"(global|flat|buffer|scratch)_load", self.name))

    @property
    def drains(self):
        return self.name == "s_waitcnt" and "vmcnt(0)" in self.text

    @property
    def system_scope(self):
        return " sc0 sc1" in self.text


def functions(text):
    """Name -> instructions, from assembly with the compiler's comments."""
    found, name, block, loop = {}, None, None, None
    for line in text.splitlines():
        label = re.match(r"(\w+):\s", line + " ")
        if label and f"; @{label[1]}" in line:
            name, loop = label[1], None
            found[name] = []
            continue
        if line.startswith(".Lfunc_end"):
            name = None
        if name is None:
            continue
        if re.match(r"\.LBB|; %bb\.", line):
            header = re.search(r"in Loop: Header=(\w+)", line)
            block = line[2:].split(":")[0]
            loop = header[1] if header else None
        if re.search(r";\s*=>\s*This (Inner )?Loop Header: Depth=", line):
            loop = block
        code = line.split(";")[0].strip()
        if code and not re.match(r"\.|\w+:", code):
            found[name].append(Instruction(re.sub(r"\s+", " ", code), loop))
    return found


class Registers:
    """Follows constants through moves, as far as the probes need it."""

    def __init__(self):
        self.values = {}

    @staticmethod
    def names(operand):
        pair = re.fullmatch(r"([vs])\[(\d+):(\d+)\]", operand)
        if pair:
            return [f"{pair[1]}{n}" for n in range(int(pair[2]), int(pair[3]) + 1)]
        return [operand] if re.fullmatch(r"[vs]\d+", operand) else []

    def read(self, operand, width):
        if re.fullmatch(r"-?(0x[0-9a-f]+|\d+)", operand):
            number = int(operand, 0)
            return [(number >> (32 * i)) & 0xffffffff for i in range(width)]
        return [self.values.get(name) for name in self.names(operand)]

    def step(self, instruction):
        targets = self.names(instruction.operands[0]) if instruction.operands else []
        if instruction.stores:
            return
        values = [None] * len(targets)
        if re.match(r"[vs]_mov(k_i32)?_?(b32|b64)?", instruction.name) and len(instruction.operands) > 1:
            values = self.read(instruction.operands[1], len(targets))
        for target, value in zip(targets, values):
            self.values[target] = value

    def address(self, access):
        """Where a store or a load goes, or None."""
        base, scalar = self.operand_pair(access)
        offset = re.search(r"offset:(-?\d+)", access.text)
        if None in base or not base:
            return None
        total = base[0] + ((base[1] << 32) if len(base) > 1 else 0) + (int(offset[1]) if offset else 0)
        if scalar:
            if None in scalar:
                return None
            total += scalar[0] + (scalar[1] << 32)
        return total

    def operand_pair(self, access):
        where = access.operands[2].split(" ")[0] if len(access.operands) > 2 else "off"
        base = self.read(access.operands[0 if access.stores else 1], 2)
        return base, (self.read(where, 2) if where != "off" else None)


def check_publish(code, target):
    """The probe's stores and drains, in order, against what the protocol wants."""
    problems, registers, seen = [], Registers(), []
    for instruction in code:
        if instruction.drains:
            seen.append("drain")
        elif instruction.stores:
            address = registers.address(instruction)
            kind = ("packet" if address in PACKET else "write pointer" if address == WRITE_POINTER else
                    "doorbell" if address == DOORBELL else "half doorbell" if address == DOORBELL + 4 else
                    "commit" if address == COMMIT else f"unknown {instruction.text}")
            seen.append(kind)
            wanted = "dword" if kind == "packet" else "dwordx2"
            if not re.search(rf"_store_{wanted}$", instruction.name):
                problems.append(f"{kind}: {instruction.name}")
            if target != "gfx90a" and kind != "commit" and not instruction.system_scope:
                problems.append(f"{kind} without system scope: {instruction.text}")
        registers.step(instruction)
    shape = []
    for kind in seen:
        if not (shape and shape[-1] == kind and kind in ("packet", "drain")):
            shape.append(kind)
    if shape[:1] == ["drain"]:
        shape = shape[1:]
    if seen.count("packet") != 7:
        problems.append(f"{seen.count('packet')} packet dwords")
    if shape != ["packet", "drain", "write pointer", "drain", "doorbell", "drain", "commit"]:
        problems.append(f"order is {', '.join(shape)}")
    return problems


def check_write_backs(code):
    """No cache write-back may be followed by a store or an atomic before a drain."""
    pending = None
    for instruction in code:
        if instruction.name.startswith("buffer_wbl2"):
            pending = instruction.text
        elif instruction.drains:
            pending = None
        elif instruction.stores and pending:
            return [f"no drain between {pending} and {instruction.text}"]
    return []


def trail(code):
    """What a probe does to the mailbox and the record, in program order."""
    names = {HEAD: "head", STATE: "state", RECORD: "record"}
    registers, seen = Registers(), []
    for instruction in code:
        if instruction.drains:
            seen.append("drain")
        elif re.match(r"buffer_(inv|wbinvl1)", instruction.name):
            seen.append("invalidate")
        elif instruction.stores or instruction.loads:
            kind = "store" if instruction.stores else "load"
            seen.append(f"{kind} {names.get(registers.address(instruction), 'elsewhere')}")
        elif instruction.name.startswith("s_load") and "s[" in instruction.text and seen:
            seen.append(f"scalar {instruction.text}")
        registers.step(instruction)
    return seen


def in_order(seen, *wanted):
    """Whether `wanted` occurs in `seen`, other things between allowed."""
    rest = iter(seen)
    return all(item in rest for item in wanted)


def check_resident(code, target):
    """The probes of the handshake."""
    problems = []
    close, acquire = trail(code["probe_close"]), trail(code["probe_acquire"])
    first = close.index("load head") if "load head" in close else 0
    if not in_order(close[:first], "store state", "drain"):
        problems.append(f"close: {', '.join(close)}")
    # Its last word behind all others.
    if not in_order(close[first:], "drain", "drain", "store state"):
        problems.append(f"end: {', '.join(close)}")
    if not in_order(acquire, "load head", "drain", "invalidate", "load record") or "load record" in acquire[:3]:
        problems.append(f"acquire: {', '.join(acquire)}")
    if target == "gfx90a" and not any(i.name == "buffer_invl2" for i in code["probe_acquire"]):
        problems.append("acquire: the second-level cache is not invalidated")
    if target != "gfx90a" and not any(i.name == "buffer_inv" and i.system_scope for i in code["probe_acquire"]):
        problems.append("acquire: not of system scope")
    return problems


def check_scalar_loads(code):
    return [f"scalar load in a loop: {i.text}" for i in code if i.loop and i.name.startswith("s_load")]


def check_rest(resident, issue):
    """Beside the pause of issuing there is one between two looks at the mailbox, which lies behind the bus."""
    sleeps = [sum(1 for i in code if i.loop and i.name == "s_sleep") for code in (resident, issue)]
    return [] if sleeps[0] > sleeps[1] else ["no pause between looks"]


def check_issue(name, code, target):
    issue = [i for i in code if i.stores or i.drains]
    shape = ["d" if i.drains else "c" if "cmpswap" in i.name else "2" if i.name.endswith("x2") else "1" for i in issue]
    at = "".join(shape).find("d2d2d2")
    if at < 0 or "".join(shape).count("d2d2d2") != 1:
        return [f"{name}: not exactly one publication"]
    problems = []
    publication, swaps = issue[at + 1], [i for i in issue if "cmpswap" in i.name]
    if not (issue[at + 1].system_scope and issue[at + 3].system_scope) and target != "gfx90a":
        problems.append(f"{name}: publication without system scope")
    if len(swaps) != 1 or publication.loop is None or swaps[0].loop != publication.loop:
        problems.append(f"{name}: publication in loop {publication.loop}, reservation in "
                        f"{[s.loop for s in swaps]}")
    return problems


def check_kernels(text, target):
    problems = []
    code = functions(text)
    for name in ("sdma_issue_kernel", "sdma_copy_kernel", "sdma_resident_kernel"):
        if name not in code:
            return [f"{name} is missing"]
        if not any(i.name.startswith("buffer_wbl2") for i in code[name]):
            problems.append(f"{name}: no system release")
        problems += [f"{name}: {p}" for p in check_write_backs(code[name])]
        problems += [f"{name}: flat access {i.text}" for i in code[name] if i.name.startswith("flat_")]
    for name in ("sdma_issue_kernel", "sdma_resident_kernel"):
        problems += check_issue(name, code[name], target)
    problems += [f"sdma_resident_kernel: {p}" for p in check_scalar_loads(code["sdma_resident_kernel"]) +
                 check_rest(code["sdma_resident_kernel"], code["sdma_issue_kernel"])]
    for count in re.findall(r"\.(?:private_segment_fixed_size|vgpr_spill_count|sgpr_spill_count):\s*(\d+)", text):
        if count != "0":
            problems.append("scratch or spills")
    return problems


def check_probe(text, target):
    code = functions(text)
    problems = check_publish(code["probe_publish"], target)
    release = code["probe_release"]
    if not any(i.name.startswith("buffer_wbl2") for i in release):
        problems.append("release: no write-back")
    return problems + [f"release: {p}" for p in check_write_backs(release)] + check_resident(code, target)


def check_checker():
    """The rule on write-backs, on text that breaks it: a good compiler would not let a mutant do so."""
    write_back, drain, store = (Instruction(t, None) for t in (
        "buffer_wbl2 sc0 sc1", "s_waitcnt vmcnt(0)", "global_store_dwordx2 v[0:1], v[2:3], off sc0 sc1"))
    return bool(check_write_backs([write_back, store])) and bool(check_write_backs([drain, write_back, store])) and \
        not check_write_backs([write_back, drain, store])


# Mistake -> targets where it shows in the instructions.
MUTANTS = {"DOORBELL_FIRST": TARGETS, "NO_DRAIN": TARGETS, "HALF_DOORBELL": TARGETS,
           "NARROW_SCOPE": ["gfx942", "gfx950"], "NO_RELEASE_DRAIN": TARGETS, "NO_CLOSING_DRAIN": TARGETS,
           "BLIND_END": TARGETS}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--clang", action="append")
    parser.add_argument("--target", action="append")
    chosen = parser.parse_args()
    clangs = [c for c in chosen.clang or CLANGS if shutil.which(c)]
    if not clangs:
        print("no clang for AMD GPUs")
        return 77
    if not check_checker():
        print("the rule on write-backs is not checked")
        return 1
    bad = checked = 0
    dropped = []  # compilers that need the explicit drain
    for clang in clangs:
        for target in chosen.target or TARGETS:
            text = assembly(clang, target, "kernels/kernels.cpp")
            if text is None:
                print(f"{clang} {target}: not known to this compiler")
                continue
            checked += 1
            problems = check_kernels(text, target) + check_probe(assembly(clang, target, "test/isa/probe.cpp"), target)
            for mutant, where in MUTANTS.items():
                if target not in where:
                    continue
                spoiled = assembly(clang, target, "test/isa/probe.cpp", ["SDMA_TEST_BUILD", f"SDMA_MUTANT_{mutant}"])
                caught = check_probe(spoiled, target)
                if mutant == "NO_RELEASE_DRAIN":  # right where the compiler waits by itself
                    dropped += [f"{clang} {target}"] if caught else []
                elif not caught:
                    problems.append(f"mutant {mutant} was not noticed")
            print(f"{clang} {target}: {'; '.join(problems) or 'ok'}")
            bad += bool(problems)
    print(f"compilers that drop the wait after a write-back: {', '.join(dropped) or 'none'}")
    if not checked:
        print("no compiler knows a target")
        return 77
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
