# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# sdma_bench and sdma_info as programs.

bench_finds_wrong_byte() {
    local corrupt=(mpirun --mca coll sdma -np 2 -x "LD_PRELOAD=$build/test/tools/.libs/libcorrupt.so")
    expect_failure 'alltoall of 128 bytes, iteration 5: block from rank 1, byte 72 is' \
        "${corrupt[@]}" -x SDMA_CORRUPT_CALL=5 -x SDMA_CORRUPT_OFFSET=200 sdma_bench alltoall -m 128:128 -i 9 -x 1 -c
    expect_failure 'allgather of 128 bytes, iteration 3: byte 0 behind the buffer is' \
        "${corrupt[@]}" -x SDMA_CORRUPT_CALL=3 -x SDMA_CORRUPT_OFFSET=256 sdma_bench allgather -m 128:128 -i 9 -x 1 -c
    # Call 1 is the bench's own allgather of addresses.
    expect_failure 'put_bw of 128 bytes, iteration 3: operation 1, byte 72 is' \
        "${corrupt[@]}" -x SDMA_CORRUPT_CALL=11 -x SDMA_CORRUPT_OFFSET=72 sdma_bench put_bw -m 128:128 -W 4 -i 9 -x 1 -c
    expect_failure 'put_lat of 128 bytes, iteration 3: byte 5 behind the buffer is' \
        "${corrupt[@]}" -x SDMA_CORRUPT_CALL=4 -x SDMA_CORRUPT_OFFSET=133 sdma_bench put_lat -m 128:128 -i 9 -x 1 -c
    expect_failure 'get_bw of 128 bytes, iteration 3: operation 3, byte 1 is' \
        "${corrupt[@]}" -x SDMA_CORRUPT_CALL=13 -x SDMA_CORRUPT_OFFSET=1 sdma_bench get_bw -m 128:128 -W 4 -i 9 -x 1 -c
    # The same job with nothing spoiled passes.
    "${corrupt[@]}" sdma_bench alltoall -m 128:128 -i 9 -x 1 -c
    "${corrupt[@]}" sdma_bench put_bibw -m 128:128 -i 9 -x 1 -c
}

# Every one-sided operation, synchronisation and window, on host memory and with Open MPI's own components.
bench_onesided() {
    local verb window sync verbs='put_bw put_bibw put_lat get_bw get_lat'
    for window in create allocate dynamic; do
        for sync in flush fence pscw lock lock_all flush_local; do
            for verb in $verbs; do
                expect '^65536 .* host *Pass$' mpirun --mca osc ^sdma -np 2 \
                    sdma_bench "$verb" -w "$window" -s "$sync" -m 32K:64K -W 3 -i 20 -x 1 -c
            done
        done
        verbs='put_bibw get_lat'
    done
}

bench_refuses() {
    expect_failure 'sdma_bench: -m 4:2: not MIN:MAX' mpirun -np 2 sdma_bench alltoall -m 4:2
    expect_failure 'sdma_bench: rank 0: -w allocate: this MPI gives host memory only' sdma_simnode --gpus 2 -- \
        mpirun --mca osc ^sdma -np 2 sdma_bench put_bw -d rocm -w allocate
    expect_failure 'sdma_bench: D: which device memory' mpirun -np 2 sdma_bench put_bw D H
    expect_failure 'sdma_bench: put_lat needs two ranks, not 3' mpirun -np 3 sdma_bench put_lat
    expect_failure 'sdma_bench: foo: unknown argument' mpirun -np 2 sdma_bench alltoall foo
    expect_failure 'sdma_bench: -i 0: must be at least 1' mpirun -np 2 sdma_bench alltoall -i 0
    expect_failure 'sdma_bench: rank 0: Malloc of 10737418[0-9]* bytes failed: .*; a smaller -m needs less' \
        sdma_simnode --gpus 1 --vram 512M -- mpirun -np 1 sdma_bench alltoall -d rocm -m 1G:1G
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

# Between memories of every kind, with the path that is expected of osc/sdma.
bench_onesided_paths() {
    local job=(sdma_simnode --gpus 2 -- mpirun --mca coll sdma -np 2 sdma_bench)
    local few=(-d rocm -W 4 -i 3 -x 1 -c)
    expect '^1048576 .* sdma *Pass$' "${job[@]}" put_bw "${few[@]}" -m 1M:1M
    expect '^8 .* loadstore *Pass$' "${job[@]}" put_bibw "${few[@]}" -m 8:8 -s fence D D
    expect '^1048576 .* sdma *Pass$' "${job[@]}" get_bw "${few[@]}" -m 1M:1M -w dynamic -s pscw D D
    expect '^64 .* sdma *Pass$' "${job[@]}" put_lat "${few[@]}" -m 64:64 -s lock H D
    expect '^64 .* sdma *Pass$' "${job[@]}" get_lat "${few[@]}" -m 64:64 -s lock_all H D
    expect '^64 .* staged *Pass$' "${job[@]}" put_bw "${few[@]}" -m 64:64 -s flush_local D H
    expect '^64 .* host *Pass$' "${job[@]}" put_bw "${few[@]}" -m 64:64 H H
    expect '^64 .* staged *Pass$' "${job[@]}" get_bw "${few[@]}" -m 64:64 -w allocate D H
    expect '^1048576 .* sdma *Pass$' "${job[@]}" put_bw "${few[@]}" -m 1M:1M -w allocate D D
}

bench_help() {
    local output
    output=$(mpirun -np 3 sdma_bench --help) || return
    [ "$(grep -c '^usage:' <<<"$output")" = 1 ] || return
    # No line of counters where there are none.
    output=$(mpirun --mca coll ^sdma --mca osc ^sdma -np 2 sdma_bench alltoall -m 64:64 -i 1 -x 0 -f) || return
    ! grep counters <<<"$output"
}

info() {
    expect 'target: gfx90a' sdma_simnode --gfx gfx90a --gpus 3 -- sdma_info
    expect 'user: in use' sdma_simnode --gpus 1 -- sdma_info
    expect 'proxy: available, after user' sdma_simnode --gpus 1 -- sdma_info
    expect '"user": "in use"' sdma_simnode --gpus 1 -- sdma_info --json
    expect 'user: the SDMA engines have no free queue' sdma_simnode --gpus 1 --fault slots -- sdma_info
    expect 'proxy: in use' sdma_simnode --gpus 1 --fault slots -- sdma_info
    expect 'user: .*doorbell cannot be rung' sdma_simnode --gpus 1 --fault no-ring-doorbell -- sdma_info
    expect 'no GPU runtime could be started' sdma_info
    sdma_simnode --gpus 3 -- sdma_info --json 2>/dev/null | python3 -m json.tool
    sdma_info --json 2>/dev/null | python3 -m json.tool
    expect_failure 'unknown argument' sdma_info --yaml
}

register tools/bench-finds-wrong-byte 60 bench_finds_wrong_byte
register tools/bench-onesided 240 bench_onesided
register tools/bench-onesided-paths 120 bench_onesided_paths
register tools/bench-help 60 bench_help
register tools/bench-refuses 60 bench_refuses
register tools/bench-names-paths 120 bench_names_paths
register tools/info 60 info
