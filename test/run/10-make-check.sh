# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Every program of "make check", by its own name.

make_variable() {
    make -s -C "$build" Makefile >/dev/null 2>&1 # an old one would be made anew with words of its own
    printf 'include Makefile\nprint:\n\t@echo $(%s)\n' "$1" | make -s -C "$build" -f - print
}

check_program() {
    if [ -x "$build/$1" ]; then "$build/$1"; else srcdir=$top "$top/$1"; fi
}

for program in $(make_variable TESTS); do
    short=${program#test/}
    short=${short%.*}
    register "${short%_test}" 300 check_program "$program"
done
unset program short

# 10^8 packets of 64 producers, through rings of four sizes.
ring_long() {
    local seed
    for ((seed = 1; seed <= 20; seed++)); do
        "$build/test/stress/ring_stress" 39100 64 $((1024 << seed % 4 * 2)) $seed || return
    done
}

[ -z "$soak" ] || register stress/ring-soak 7200 ring_long
