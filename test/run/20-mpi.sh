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
