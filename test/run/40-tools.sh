# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# sdma_bench and sdma_info as programs.

bench_finds_wrong_byte() {
    local corrupt=(mpirun --mca coll sdma -np 2 -x "LD_PRELOAD=$build/test/tools/.libs/libcorrupt.so")
    expect_failure 'alltoall of 128 bytes, iteration 5: block from rank 1, byte 72 is' \
        "${corrupt[@]}" -x SDMA_CORRUPT_CALL=5 -x SDMA_CORRUPT_OFFSET=200 sdma_bench alltoall -m 128:128 -i 9 -x 1 -c
    expect_failure 'allgather of 128 bytes, iteration 3: byte 0 behind the buffer is' \
        "${corrupt[@]}" -x SDMA_CORRUPT_CALL=3 -x SDMA_CORRUPT_OFFSET=256 sdma_bench allgather -m 128:128 -i 9 -x 1 -c
    # The same job with nothing spoiled passes.
    "${corrupt[@]}" sdma_bench alltoall -m 128:128 -i 9 -x 1 -c
}

bench_refuses() {
    expect_failure 'sdma_bench: -m 4:2: not MIN:MAX' mpirun -np 2 sdma_bench alltoall -m 4:2
    expect_failure 'sdma_bench: put: no such operation' mpirun -np 2 sdma_bench put
    expect_failure 'sdma_bench: --ab needs coll/sdma' mpirun --mca coll ^sdma -np 2 sdma_bench alltoall --ab
    expect_failure 'sdma_bench: the GPU runtime sees no device\|sdma_bench: no GPU runtime library' \
        mpirun -np 2 sdma_bench alltoall -d rocm
}

# Each path is named for the operations it serves, and switching off is seen.
bench_names_paths() {
    local job=(sdma_simnode --gpus 2 -- mpirun --mca coll sdma -np 2)
    expect '^1024 .* loadstore$' "${job[@]}" sdma_bench alltoall -d rocm -m 1K:1K -i 2 -x 1
    expect '^1048576 .* sdma$' "${job[@]}" sdma_bench alltoall -d rocm -m 1M:1M -i 2 -x 1
    expect '^1048576 .* staged *Pass$' "${job[@]}" --mca coll_sdma_enable 0 \
        sdma_bench alltoall -d rocm -m 1M:1M -i 2 -x 1 -c
    expect '^1048576 .* sdma *Pass$' "${job[@]}" sdma_bench alltoall -d rocm -m 1M:1M -i 5 -x 5 --ab -c
}

info() {
    expect 'target: gfx90a' sdma_simnode --gfx gfx90a --gpus 3 -- sdma_info
    expect 'no GPU runtime could be started' sdma_info
    sdma_simnode --gpus 3 -- sdma_info --json 2>/dev/null | python3 -m json.tool
    sdma_info --json 2>/dev/null | python3 -m json.tool
    expect_failure 'unknown argument' sdma_info --yaml
}

register tools/bench-finds-wrong-byte 60 bench_finds_wrong_byte
register tools/bench-refuses 60 bench_refuses
register tools/bench-names-paths 120 bench_names_paths
register tools/info 60 info
