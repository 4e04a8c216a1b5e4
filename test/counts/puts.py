#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What an MPI_Put costs, counted on the simulated node. Run in the build folder of an installed build.

puts.py          the table of docs/performance.md
puts.py --check  the counts are what they must be
"""
import subprocess
import sys

COMMAND = ["sdma_simnode", "--gpus", "2", "--", "mpirun", "--mca", "coll", "sdma", "-np", "2", "test/counts/puts"]
COLUMNS = ("packets", "doorbells", "launches", "copies", "calls")
SIZES = {8: "8 B", 65536: "64 KiB", 1 << 20: "1 MiB"}
MANY = 32

# The most of each per put, in the order of COLUMNS.
MOST = {("device", 8, 1): (0, 0, 1, 0, 0), ("device", 8, MANY): (0, 0, 1 / 8, 0, 0),
        ("device", 65536, 1): (0, 0, 1, 0, 0), ("device", 65536, MANY): (0, 0, 1, 0, 0),
        ("device", 1 << 20, 1): (2, 1, 1, 0, 0), ("device", 1 << 20, MANY): (2, 1, 1, 0, 0),
        ("host", 8, 1): (2, 1, 1, 0, 8), ("host", 8, MANY): (1.25, 1 / 8, 1 / 8, 0, 1)}


def counts():
    """{(memory, bytes, puts before a flush): counts per put}"""
    result = subprocess.run(COMMAND, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(COMMAND)}: status {result.returncode}\n{result.stdout}{result.stderr}")
    rows = [line.split() for line in result.stdout.splitlines() if line.startswith(("device ", "host "))]
    return {(memory, int(size), int(puts)): tuple(map(float, values)) for memory, size, puts, *values in rows}


def print_table(found):
    print("| origin | size | puts before a flush | SDMA packets | doorbells | kernel launches | other copies | "
          "system calls |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for (memory, size, puts), values in found.items():
        print("|", " | ".join([memory, SIZES[size], str(puts), *(f"{value:.3g}" for value in values)]), "|")


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    found = counts()
    print_table(found)
    if not sys.argv[1:]:
        return 0
    wrong = 0
    for row, most in MOST.items():
        for name, value, limit in zip(COLUMNS, found.get(row, [float("inf")] * len(most)), most):
            if value > limit:
                print(f"{row}: {value} {name} per put, the most is {limit}")
                wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
