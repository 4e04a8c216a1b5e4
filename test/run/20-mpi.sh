# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# The rows of test/mpi/tests.list: name|ranks|gpus|simnode options|mca options|program args

mpi_row() { grep "^$1|" "$top/test/mpi/tests.list"; }

mpi_test() {
    local name ranks gpus simnode mca program
    IFS='|' read -r name ranks gpus simnode mca program < <(mpi_row "$1")
    # shellcheck disable=SC2086 # the fields are words
    sdma_simnode --gpus "$gpus" $simnode -- mpirun --mca coll sdma -np "$ranks" $mca "$build/test/mpi/"$program
}

while IFS='|' read -r name _; do
    case $name in '' | '#'*) continue ;; esac
    register "mpi/$name" 240 mpi_test "$name"
done <"$top/test/mpi/tests.list"
unset name

# What returns too early is noticed. The job may crash afterwards, as late gets come into memory that has been freed.
rma_finds_missing_flush() {
    local sync output
    for sync in flush flush_all flush_local; do
        output=$(sdma_simnode --gpus 2 -- mpirun --mca osc sdma -np 2 \
            -x "LD_PRELOAD=$build/test/mpi/.libs/libnoflush.so" \
            "$build/test/mpi/rma" windows=create-device sync="$sync" epochs=3 max=300001 2>&1) || true
        printf '%s\n' "$output"
        grep -q "FAILED: create-device $sync seed=.*: get of .* result buffer" <<<"$output"
    done
}

register mpi/rma-finds-missing-flush 240 rma_finds_missing_flush
