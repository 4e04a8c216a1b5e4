# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Late, unordered, stopping engines: every byte must be right with every seed.

chaos() {
    sdma_simnode --gpus 4 --chaos "$1" -- mpirun --mca coll sdma -np 4 "$build/test/mpi/chaos" first="$1" seeds="$2"
}

# The same with a program that knows nothing of it, on GPUs that ranks share.
chaos_bench() {
    local seed
    for seed in 1 2 3; do
        sdma_simnode --gpus 2 --chaos $seed -- mpirun --mca coll sdma -np 4 \
            sdma_bench alltoall -d rocm -m 64K:1M -i 2 -x 0 -c || return
    done
}

# Neither job may see the other's GPUs, segments or queues.
two_jobs() {
    local first
    sdma_simnode --gpus 2 -- mpirun --mca coll sdma -np 2 sdma_bench alltoall -d rocm -m 1M:1M -i 10 -x 1 -c &
    first=$!
    sdma_simnode --gpus 2 -- mpirun --mca coll sdma -np 2 sdma_bench allgather -d rocm -m 1M:1M -i 10 -x 1 -c
    wait $first
}

for first in 1 11 21 31 41; do
    register "chaos/$first-$((first + 9))" 240 chaos $first 10
done
register chaos/bench 120 chaos_bench
register simnode/two-jobs 120 two_jobs
if [ -n "$soak" ]; then
    register chaos/soak 7200 chaos 51 950
fi
unset first
