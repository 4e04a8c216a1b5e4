# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the other files build their tests from. Both show all output.

# expect PATTERN COMMAND...: the command succeeds and a line of its output matches.
expect() {
    local pattern=$1 output status=0
    shift
    output=$("$@" 2>&1) || status=$?
    printf '%s\n' "$output"
    [ $status = 0 ] || {
        echo "ended with status $status: $*"
        return 1
    }
    grep -q -- "$pattern" <<<"$output" || {
        echo "no line matches: $pattern"
        return 1
    }
}

# expect_failure PATTERN COMMAND...: the command fails and exactly one line of its output matches.
expect_failure() {
    local pattern=$1 output
    shift
    if output=$("$@" 2>&1); then
        printf '%s\nshould have failed: %s\n' "$output" "$*"
        return 1
    fi
    printf '%s\n' "$output"
    [ "$(grep -c -- "$pattern" <<<"$output")" = 1 ] || {
        echo "no line, or several, match: $pattern"
        return 1
    }
}
