# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What our own code costs, counted: instructions, and what a put needs.

counts() {
    command -v valgrind >/dev/null || skip "valgrind is not installed"
    PYTHONDONTWRITEBYTECODE=1 "$top/test/counts/run" --check "$1"
}

register counts/growth 300 counts growth
register counts/host 300 counts host
register counts/puts 120 python3 "$top/test/counts/puts.py" --check
