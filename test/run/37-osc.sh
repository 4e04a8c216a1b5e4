# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Windows on device memory: the rows of test/mpi/windows.list, and what needs more than one line.

window_test() {
    local name seconds ranks gpus simnode mca program
    IFS='|' read -r name seconds ranks gpus simnode mca program < <(grep "^$1|" "$top/test/mpi/windows.list")
    # shellcheck disable=SC2086 # the fields are words
    sdma_simnode --gpus "$gpus" $simnode -- mpirun --mca osc sdma -np "$ranks" $mca "$build/test/mpi/"$program
}

while IFS='|' read -r name seconds _; do
    case $name in '' | '#'*) continue ;; esac
    register "osc/$name" "$seconds" window_test "$name"
done <"$top/test/mpi/windows.list"
unset name seconds

# An unchanged command line.
osc_no_options() {
    sdma_simnode --gpus 2 -- mpirun -np 2 "$build/test/mpi/windows" mode=many
}

# Host memory in windows is Open MPI's own component's, with what it does wrong there. So whatever is wrong with ours must
# be wrong without us, too: on the simulated node, whose GPU memory CPUs can access, all of it runs without us.
osc_mixed() {
    local kind right=0
    for kind in create-host create-pinned create-mixed allocate dynamic-host dynamic-pinned dynamic-mixed; do
        local job=("$build/test/mpi/rma" "windows=$kind" max=100001 epochs=2)
        if sdma_simnode --gpus 2 -- mpirun --mca osc sdma -np 2 "${job[@]}"; then
            right=$((right + 1))
        elif sdma_simnode --gpus 2 -- mpirun --mca osc ^sdma,ucx,pt2pt -np 2 "${job[@]}" origins=host,device,pinned; then
            echo "$kind: wrong only with us"
            return 1
        fi
    done
    echo "$right of 7 kinds are right"
}

# Whoever switches it off gets Open MPI's own components, with nothing of ours. On a machine that lets the CPU have GPU
# memory, as the simulated node does, these work too.
osc_switched_off() {
    local way
    for way in '--mca osc ^sdma,ucx,pt2pt' '--mca osc_sdma_enable 0'; do
        # shellcheck disable=SC2086
        sdma_simnode --gpus 2 -- mpirun $way -np 2 "$build/test/mpi/rma" windows=create-host origins=host \
            max=5001 epochs=1
    done
    # shellcheck disable=SC2251
    ! sdma_simnode --gpus 2 -- mpirun --mca osc sdma --mca osc_sdma_fallback none -np 2 \
        "$build/test/mpi/windows" mode=host
}

# osc_seeds FIRST LAST: engines late, unordered and stopping.
osc_seeds() {
    local seed
    for ((seed = $1; seed <= $2; seed++)); do
        echo "chaos $seed"
        sdma_simnode --gpus 2 --chaos "$seed" -- mpirun --mca osc sdma -np 2 \
            --mca osc_sdma_put_loadstore_max $((seed % 2 * 1000)) "$build/test/mpi/windows" mode=message rounds=12 seed="$seed"
        sdma_simnode --gpus 2 --chaos "$seed" -- mpirun --mca osc sdma -np 2 \
            --mca osc_sdma_put_loadstore_max $((seed % 2 * 1000)) "$build/test/mpi/rma" windows=create-device \
            max=20001 epochs=1 seed=$((seed * 100)) served=1
    done
}

# A flush that does not wait is noticed: the same job, with a library that has this mistake.
osc_early_flush() {
    local job=(sdma_simnode --gpus 2 --chaos 1 -- mpirun --mca osc sdma --mca osc_sdma_put_loadstore_max 0 -np 2)
    "${job[@]}" "$build/test/mpi/windows" mode=message
    if "${job[@]}" -x LD_PRELOAD="$build/.libs/libearlyflush.so" "$build/test/mpi/windows" mode=message; then
        echo "the mistake was NOT noticed"
        return 1
    fi
}

# The death of a target ends the job, and nothing of it stays. mpirun's code is that of the rank.
osc_kill() {
    local status=0
    sdma_simnode --gpus 3 -- timeout 60 mpirun --mca osc sdma -np 3 "$build/test/mpi/windows" mode=kill || status=$?
    echo "status $status"
    [ $status = 137 ]
}

# Peers' memory cannot be mapped: an error of MPI's with a line that says why, nothing worse.
osc_cannot_attach() {
    local output status=0
    output=$(sdma_simnode --gpus 2 --fault attach,rank=0 -- timeout 60 mpirun --mca osc sdma -np 2 \
        "$build/test/mpi/windows" mode=many 2>&1) || status=$?
    printf '%s\n' "$output"
    [ $status != 0 ] && [ $status != 124 ] && grep -q "cannot be .*: a peer's buffer could not be mapped here" <<<"$output"
}

# refusing VARIABLE=NAMES OSC MCA... PROGRAM: with --mca osc OSC components refuse as test/mpi/refuse.c says.
refusing() {
    sdma_simnode --gpus 2 -- timeout 60 mpirun --mca osc "$2" -np 2 -x "$1" \
        -x LD_PRELOAD="$build/test/mpi/.libs/librefuse.so" --mca osc_sdma_verbose 2 "${@:3}"
}

fails() { ! "$@"; }

# A GPU-aware Open MPI has an osc/rdma that does not take GPU memory, and often nobody else.
osc_refused_gpu() {
    refusing REFUSE_GPU=rdma sdma,rdma "$build/test/mpi/windows" mode=many
    refusing REFUSE_GPU=rdma sdma,rdma "$build/test/mpi/rma" windows=create-device,create-mixed max=5001 epochs=1 \
        origins=host
    # Without us this Open MPI builds no such window. (Its own text of that is lost at times: Open MPI 4.1.4's mpirun
    # cannot read the second of two ranks' equal ones.)
    expect 'no other one-sided component builds this window' \
        fails refusing REFUSE_GPU=rdma sdma,rdma --mca osc_sdma_enable 0 "$build/test/mpi/windows" mode=many
}

# The best one fails: the next best is asked. All fail: an error and a line of each rank.
osc_refused() {
    if [ -n "$(ompi_info --parsable --param osc pt2pt)" ]; then
        expect 'rdma does not build the window' refusing REFUSE_ALL=rdma sdma \
            "$build/test/mpi/rma" windows=create-device served=1 max=5001 epochs=1
    fi
    expect 'no other one-sided component builds this window' \
        fails refusing REFUSE_ALL=rdma,pt2pt,sm sdma "$build/test/mpi/windows" mode=many
}

# A host copy that fails, here the origin's after that of the value compared with, is an error of MPI's and nothing worse.
osc_refused_copy() {
    ! command -v prterun >/dev/null || skip "with Open MPI 5 these accesses come to no compare and swap"
    expect 'compare and swap: an error' fails refusing REFUSE_COPY=2 sdma --mca osc_sdma_stage always \
        "$build/test/mpi/rma" windows=create-host origins=device max=5001 epochs=5
}

# The other component is pt2pt here.
osc_nodes() { two_nodes 90 --mca osc sdma -np 4 "$build/test/mpi/windows" mode=nodes; }

register osc/no-options 60 osc_no_options
register osc/mixed 240 osc_mixed
register osc/switched-off 120 osc_switched_off
register osc/chaos 240 osc_seeds 1 4
register osc/early-flush 120 osc_early_flush
register osc/kill 90 osc_kill
register osc/cannot-attach 90 osc_cannot_attach
register osc/refused-gpu 120 osc_refused_gpu
register osc/refused 120 osc_refused
register osc/refused-copy 90 osc_refused_copy
register osc/nodes 210 osc_nodes
if [ -n "$soak" ]; then
    register osc/chaos-soak 14400 osc_seeds 1 200
fi
