#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Bus bandwidth against size from compare's JSON: plot.py FILE.json FILE.png"""
import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def size_name(size):
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def main(source, target):
    with open(source, encoding="utf-8") as file:
        data = json.load(file)
    collectives = sorted({row["collective"] for row in data["rows"]})
    figure, axes = plt.subplots(1, len(collectives), figsize=(8 * len(collectives), 5.5), squeeze=False)
    for axis, collective in zip(axes[0], collectives):
        rows = [row for row in data["rows"] if row["collective"] == collective]
        for way in dict.fromkeys(row["way"] for row in rows):
            points = sorted((row["bytes"], row["bus_gbps"]) for row in rows if row["way"] == way)
            style = "--" if way.startswith("nccl") else ":" if way == "copy-engine" else "-"
            axis.plot(*zip(*points), style, marker=".", label=way)
        sizes = sorted({row["bytes"] for row in rows})
        axis.set_xscale("log", base=2)
        axis.set_xticks(sizes, [size_name(size) for size in sizes], rotation=60)
        axis.set_xlabel("bytes per peer")
        axis.set_ylabel("bus bandwidth, GB/s")
        axis.set_title(f"{collective}, {data['ranks']} ranks on {data['gpus']} x {data['gpu']}, NCCL {data['nccl']}")
        axis.grid(alpha=0.3)
        axis.legend()
    figure.tight_layout()
    figure.savefig(target, dpi=110)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
