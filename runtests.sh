#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# All tests, from nothing: installs packages, builds, runs. One line per test, and one last line with the counts.
#   runtests.sh [--only NAME]... [--soak] [--debian13] [--list]
# NAME may end in * ("mpi/*"). --soak adds the long tests, --debian13 the tests again in a root of Debian 13, without
# --soak only a part of them (test/run/90-debian13.sh). A test is registered by a file in test/run/; it is a function
# that returns 0 (ok), 77 (skipped; the last line it prints is the reason) or anything else (failed). --list prints the
# names; which there are only a configured tree knows, so without one it prepares everything first.

set -u
top=$(cd "$(dirname "$0")" && pwd)
self=runtests
# shellcheck source=scripts/build.sh
. "$top/scripts/build.sh"

names=()
declare -A limits commands

# register NAME SECONDS COMMAND...: SECONDS is the most the test may take.
register() {
    names+=("$1")
    limits[$1]=$2
    commands[$1]=${*:3}
}

skip() {
    echo "$*"
    exit 77
}

# Registered here by file: the lists of tests are known only once the tree is built.
register_all() {
    local file
    for file in "$top"/test/run/*.sh; do
        # shellcheck disable=SC1090
        . "$file"
    done
}

wanted() {
    local pattern
    [ ${#only[@]} -gt 0 ] || return 0
    for pattern in "${only[@]}"; do
        # shellcheck disable=SC2053
        [[ $1 == $pattern ]] && return 0
    done
    return 1
}

# The head of this file.
print_help() { sed -n '4,/^$/ { s/^# \{0,1\}//; p }' "$top/runtests.sh" | sed '$d'; }

# The body of one test, in a process of its own so that a time limit ends all of it.
run_one() {
    register_all
    enter_install
    cd "$build" || exit 1
    set -e
    ${commands[$1]}
}

# Also where only what was printed is left of a run, it must say why a test failed.
show_end_of() { tail -n 12 "$1" | cut -c 1-300 | sed 's/^/    | /'; }

# Runs NAME and prints its line.
report() {
    local name=$1 log start=$EPOCHREALTIME status
    log=$logs/test-${name//\//-}.log
    timeout --kill-after=10 "${limits[$name]}" "$top/runtests.sh" --run-one "$name" ${soak:+--soak} \
        ${use_debian13:+--debian13} >"$log" 2>&1 </dev/null
    status=$?
    local seconds
    seconds=$(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
    case $status in
    0)
        passed=$((passed + 1))
        echo "ok $name ($seconds s)"
        ;;
    77)
        skipped=$((skipped + 1))
        echo "skip $name: $(tail -n 1 "$log")"
        ;;
    124 | 137)
        failed=$((failed + 1))
        echo "FAIL $name: over its limit of ${limits[$name]} s (log: ${log#"$PWD"/})"
        show_end_of "$log"
        ;;
    *)
        failed=$((failed + 1))
        echo "FAIL $name ($seconds s) (log: ${log#"$PWD"/})"
        show_end_of "$log"
        ;;
    esac
}

only=()
soak='' use_debian13='' list='' one=''
while [ $# -gt 0 ]; do
    case $1 in
    --only | --run-one)
        [ $# -ge 2 ] || fail "$1 needs a name"
        if [ "$1" = --only ]; then only+=("$2"); else one=$2; fi
        shift
        ;;
    --soak) soak=1 ;;
    --debian13) use_debian13=1 ;;
    --list) list=1 ;;
    -h | --help)
        print_help
        exit
        ;;
    *) fail "$1: unknown argument; --help lists them" ;;
    esac
    shift
done

if [ -n "$one" ]; then
    run_one "$one"
    exit
fi

if [ -n "$list" ]; then
    [ -f "$build/Makefile" ] || prepare_build >&2
    register_all
    printf '%s\n' "${names[@]}"
    exit
fi

passed=0 failed=0 skipped=0
# Also when the build fails there is a last line to read.
trap 'echo "$passed passed, $failed failed, $skipped skipped"' EXIT
failed=1
prepare_build
step "make check programs" -- make -C "$build" -j"${JOBS:-$(nproc)}" check TESTS=
failed=0
register_all
for name in "${names[@]}"; do
    if wanted "$name"; then report "$name"; fi
done
[ $((passed + failed + skipped)) -gt 0 ] || fail "no test is named ${only[*]}"
[ $failed = 0 ]
