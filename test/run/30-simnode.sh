# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Late, unordered, stopping engines: every byte must be right with every seed.

chaos() {
    local seed operation
    for ((seed = $1; seed <= $2; ++seed)); do
        operation=alltoall
        [ $((seed % 2)) = 0 ] || operation=allgather
        echo "seed $seed"
        sdma_simnode --gpus 4 --chaos $seed -- mpirun --mca coll sdma -np 4 \
            sdma_bench $operation -d rocm -m 4K:1M -i 1 -x 1 -c || return
    done
}

for first in 1 11 21 31 41; do
    register "chaos/$first-$((first + 9))" 240 chaos $first $((first + 9))
done
if [ -n "$soak" ]; then
    register chaos/soak 3600 chaos 51 400
fi
unset first
