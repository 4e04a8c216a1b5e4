# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# The rows of test/depth/tests.list.

depth_test() {
    local name seconds ranks gpus simnode mca program
    IFS='|' read -r name seconds ranks gpus simnode mca program < <(grep "^$1|" "$top/test/depth/tests.list")
    # shellcheck disable=SC2086 # the fields are words
    sdma_simnode --gpus "$gpus" $simnode -- mpirun --mca coll sdma -np "$ranks" $mca "$build/test/depth/"$program
}

while IFS='|' read -r name seconds _; do
    case $name in
    '' | '#'*) continue ;;
    soak/*) [ -n "$soak" ] || continue ;;
    esac
    register "depth/$name" "$seconds" depth_test "$name"
done <"$top/test/depth/tests.list"
unset name seconds

# The slowest rank's own work before the first operation, without the waiting for peers: at most 100 ms. Measured by
# the clock, so a machine that is busy otherwise gets some attempts.
setup_time() {
    local output attempt
    for attempt in 1 2 3 4 5; do
        output=$(sdma_simnode --gpus 2 -- mpirun --mca coll sdma --mca coll_sdma_verbose 1 -np 2 \
            "$build/test/depth/gpus" rounds=1 2>&1)
        printf 'attempt %d\n%s\n' "$attempt" "$output"
        if awk '/set-up of the first operation took/ {
                    for (i = 1; i < NF; i++) if ($i == "took") { count++; if ($(i + 1) > slowest) slowest = $(i + 1) }
                }
                END { print "slowest rank:", slowest, "ms"; exit !(count == 2 && slowest > 0 && slowest < 100) }' \
            <<<"$output"; then
            return 0
        fi
    done
    return 1
}

register depth/setup-time 60 setup_time
