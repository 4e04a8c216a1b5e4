#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Documents that must agree with the code.

documents.py TOP                        write the tables of docs/tuning.md from the .def files
documents.py TOP NAMES PARAMETERS       check: NAMES lists the tests, PARAMETERS is ompi_info's --parsable output
"""
import csv
import re
import sys
from pathlib import Path

BASE = "common/sdma/base"


def rows(path, macro):
    """The arguments of every MACRO(...) line of a .def file, strings unquoted."""
    for line in path.read_text().splitlines():
        line = re.sub(r"SDMA_BY_PLATFORM\((.*?), (.*?)\)", r"\1 / \2", line)
        if match := re.fullmatch(rf"{macro}\((.*)\)", line):
            yield next(csv.reader([match[1]], skipinitialspace=True))


def default_text(kind, text):
    if kind not in ("INT", "SIZE"):
        return f"`{text}`"
    values = [f"`{eval(part.replace('(size_t)', ''))}`" for part in text.split(" / ")]
    return values[0] if len(values) == 1 else f"{values[0]}; NVIDIA: {values[1]}"


def parameter_table(top):
    yield "| parameter | default | unit | at run time | meaning |"
    yield "|---|---|---|---|---|"
    for kind, name, default, unit, settable, text in rows(top / BASE / "params.def", "SDMA_PARAM"):
        yield (f"| `coll_sdma_{name}` | {default_text(kind, default)} | {unit or '-'} "
               f"| {'yes' if settable == '1' else 'no'} | {text} |")


def ucx_table(top):
    yield "| parameter | default | meaning |"
    yield "|---|---|---|"
    for macro in ("TL_MD_PARAM", "TL_IFACE_PARAM"):
        for name, default, _, _, text in rows(top / "ucx_tl_sdma/params.def", macro):
            yield f"| `UCX_SDMA_{name}` | `{default}` | {text} |"


def counter_table(top):
    yield "| counter | counts |"
    yield "|---|---|"
    for name, text in rows(top / BASE / "counters.def", "SDMA_COUNTER"):
        yield f"| `coll_sdma_{name}` | {text} |"


def with_tables(top, text):
    for name, table in (("parameters", parameter_table), ("UCX parameters", ucx_table), ("counters", counter_table)):
        begin, end = f"<!-- {name}: generated -->\n", f"<!-- {name}: end -->\n"
        before, rest = text.split(begin)
        after = rest.split(end)[1]
        text = before + begin + "\n".join(table(top)) + "\n" + end + after
    return text


def cells(path):
    """The rows of all tables of a document, without heads and rules."""
    for line in path.read_text().splitlines():
        if line.startswith("|") and not line.startswith("|---"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def check_tuning(top, parameters):
    text = (top / "docs/tuning.md").read_text()
    if with_tables(top, text) != text:
        yield "docs/tuning.md: its tables are stale; run test/run/documents.py ."
    registered = set(re.findall(r"^mca:coll:sdma:param:(coll_sdma_\w+):value:", parameters, re.MULTILINE))
    onesided = set(re.findall(r"^mca:osc:sdma:param:osc_sdma_(\w+):value:", parameters, re.MULTILINE))
    if not registered or not onesided:
        yield "ompi_info shows no parameter of coll/sdma or osc/sdma"
    library = {row[1] for row in rows(top / BASE / "params.def", "SDMA_PARAM")}
    for name in sorted(library - onesided):
        yield f"osc_sdma_{name} is not a parameter"
    registered |= {f"osc_sdma_{name}" for name in onesided - library}
    for name in sorted(registered):
        if f"`{name}`" not in text:
            yield f"docs/tuning.md: {name} is not documented"


def check_reasons(top):
    known = {row[0] for row in rows(top / BASE / "reasons.def", "SDMA_REASON")} - {"none"}
    found = {row[0].strip("`"): row for row in cells(top / "docs/troubleshooting.md") if row[0].startswith("`")}
    for name in sorted(known ^ found.keys()):
        yield f"docs/troubleshooting.md: reason {name} is {'missing' if name in known else 'unknown'}"
    for name, row in found.items():
        if len(row) != 3 or not all(row):
            yield f"docs/troubleshooting.md: reason {name} needs a meaning and an advice"


def check_mutants(top, names):
    """Each deliberate mistake that the code offers has a row with the tests that find it."""
    sources = [p for folder in ("common", "kernels") for p in (top / folder).rglob("*") if p.suffix in (".h", ".hpp", ".cpp")]
    known = {name for source in sources for name in re.findall(r"SDMA_MUTANT_([A-Z_]+)", source.read_text())}
    found = {row[0].strip("`"): row for row in cells(top / "docs/architecture.md") if len(row) == 3}
    found.pop("mutant", None)
    for name in sorted(known ^ found.keys()):
        yield f"docs/architecture.md: mutant {name} is {'missing' if name in known else 'unknown'}"
    for name, row in found.items():
        tests = re.findall(r"`([^`]+)`", row[2])
        if not tests or not names.issuperset(tests):
            yield f"docs/architecture.md: mutant {name}: {row[2]} are not all tests"


def check_field_bugs(top, names):
    """Each row names tests of ours, or says which later work it belongs to."""
    for row in cells(top / "docs/field-bugs.md"):
        if not re.fullmatch(r"B\d+", row[0]):
            continue
        tests = re.findall(r"`([^`]+)`", row[3])
        if not tests and not row[3].startswith("later:"):
            yield f"docs/field-bugs.md: {row[0]} has no test"
        for test in tests:
            program, _, case = test.partition(":")
            if program not in names:
                yield f"docs/field-bugs.md: {row[0]}: no test is named {program}"
            elif case and not any(case in source.read_text() for source in (top / "test").rglob("*.cpp")):
                yield f"docs/field-bugs.md: {row[0]}: no test case is named {case}"


def check_links(top):
    for document in [*top.glob("*.md"), *top.glob("docs/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text()):
            if not (document.parent / target).exists():
                yield f"{document.relative_to(top)}: {target} does not exist"


def main():
    top = Path(sys.argv[1])
    tuning = top / "docs/tuning.md"
    if len(sys.argv) == 2:
        tuning.write_text(with_tables(top, tuning.read_text()))
        return 0
    names = set(Path(sys.argv[2]).read_text().split())
    parameters = Path(sys.argv[3]).read_text()
    problems = [*check_tuning(top, parameters), *check_reasons(top), *check_mutants(top, names),
                *check_field_bugs(top, names), *check_links(top)]
    print(*problems, sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
