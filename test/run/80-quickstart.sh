# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# The first thing a visitor runs, here on a tree that is already built.

# quickstart_by COMMAND...: it succeeds, and no line is a message of Open MPI or PMIx ("[host:process] ...").
quickstart_by() {
    local output status=0
    output=$(expect '^quickstart: ok, [1-9][0-9]* sizes validated on a simulated node (no GPU used)$' "$@") || status=$?
    printf '%s\n' "$output"
    [ $status = 0 ] && ! grep -q '^\[' <<<"$output"
}

quickstart() { quickstart_by "$top/quickstart.sh"; }

register quickstart 300 quickstart
