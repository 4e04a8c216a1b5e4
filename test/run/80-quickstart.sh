# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# The first thing a visitor runs, here on a tree that is already built.

quickstart() {
    expect '^quickstart: ok, [1-9][0-9]* sizes validated on a simulated node (no GPU used)$' "$top/quickstart.sh"
}

register quickstart 300 quickstart
