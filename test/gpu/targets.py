#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the project wants to reach on GPUs, against compare's JSON files of one run: targets.py DIRECTORY

One line per target, and all of them in DIRECTORY/targets.json. What was not measured is not mentioned.
"""
import itertools
import json
import statistics
import sys
from pathlib import Path

KIB, MIB = 1 << 10, 1 << 20


class Run:
    """One of compare's files."""

    def __init__(self, path):
        self.data = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"rows": [], "gemm": []}
        self.us = {(row["collective"], row["bytes"], row["way"]): row["us"] for row in self.data["rows"]}

    def pairs(self, way, other):
        """(collective, bytes, us, us of the other way) wherever both were measured."""
        for (collective, size, name), us in sorted(self.us.items()):
            if name == way and (collective, size, other) in self.us:
                yield collective, size, us, self.us[collective, size, other]

    def slowdown(self, way):
        """Percent by which a product is slower beside `way`; None if not measured."""
        for entry in self.data["gemm"]:
            if entry["way"] == way:
                return statistics.median(
                    100 * (beside / alone - 1) for beside, alone in zip(entry["beside_us"], entry["alone_us"]))
        return None


def size_name(size):
    for unit, name in ((1 << 30, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def at_most(what, value, limit, unit):
    return {"target": what, "value": round(value, 3), "limit": round(limit, 3), "unit": unit, "met": value <= limit}


def puts(directory):
    path = directory / "put.json"
    return json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []


def targets(directory):
    latency, bench, large, shared, pair, gemm = (
        Run(directory / f"{name}.json") for name in ("latency", "bench", "large", "shared", "shared-pair", "gemm"))
    for run in (latency, bench):
        for collective, size, us, nccl in run.pairs("auto", "nccl-blocking"):
            if size >= KIB:
                yield at_most(f"{collective} {size_name(size)}: auto, NCCL blocking", us, nccl, "us")
    for way, limit in (("auto", 11), ("resident", 7.5)):
        for (collective, size, name), us in sorted(latency.us.items()):
            if name == way and 16 <= size <= 4 * KIB:
                yield at_most(f"{collective} {size_name(size)}: {way}", us, limit, "us")
    for row in puts(directory):
        if row["verb"] == "put_lat" and row["way"] == "loadstore, resident":
            yield at_most("put of 8 B, resident", row["us"], 7.5, "us")
        if row["verb"] == "put_bw" and row["way"].startswith("one workgroup"):
            whole = next(bare["us"] for bare in puts(directory)
                         if bare["verb"] == "put_bw" and bare["way"] == "copy engine" and bare["bytes"] == row["bytes"])
            yield at_most(f"put {size_name(row['bytes'])}: {row['way']}, copy engine / 0.97", row["us"], whole / 0.97, "us")
    for run, way in itertools.product((bench, large), ("auto", "engine", "engine-resident")):
        for collective, size, us, bare in run.pairs(way, "copy-engine"):
            if size >= 128 * MIB:
                yield at_most(f"{collective} {size_name(size)}: {way}, copy engine / 0.98", us, bare / 0.98, "us")
    # Twice the ranks on the same GPUs: a quarter of the block is the same number of bytes between the GPUs.
    for (collective, size, way), us in sorted(shared.us.items()):
        if (whole := pair.us.get((collective, 4 * size, way))) is not None:
            what = f"{collective} {size_name(4 * size)}: {way} by twice the ranks, by one per GPU + 10 %"
            yield at_most(what, us, 1.1 * whole, "us")
    ours, bare = gemm.slowdown("engine"), gemm.slowdown("copy-engine")
    if ours is not None and bare is not None:
        yield at_most("GEMM: slower beside engine, beside copy engine + 0.5", ours, bare + 0.5, "%")


def main(directory):
    found = list(targets(directory))
    for entry in found:
        verdict = "met" if entry["met"] else "missed"
        print(f"target {entry['target']}: {entry['value']:.2f} {entry['unit']}, {entry['limit']:.2f} {verdict}")
    print(f"targets: {sum(entry['met'] for entry in found)} of {len(found)} met")
    (directory / "targets.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
