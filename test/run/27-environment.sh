# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Ranks that see different GPUs, name them differently, or live in a surrounding that allows little.

# each RANKS GPUS SHELL-WORDS -- PROGRAM...: SHELL-WORDS run in every rank before the program; $rank is its number.
each() {
    local ranks=$1 gpus=$2 before=$3
    shift 4
    # shellcheck disable=SC2016 # expanded in the rank
    sdma_simnode --gpus "$gpus" -- mpirun --mca coll sdma -np "$ranks" \
        bash -c 'rank=$OMPI_COMM_WORLD_RANK; '"$before"'; exec "$@"' - "$@"
}
gpus() { printf '%s\n' "$build/test/depth/gpus"; }

# shellcheck disable=SC2016 # $rank is expanded in the rank
{
    rocr_one_each() { each 4 4 'export ROCR_VISIBLE_DEVICES=$rank' -- "$(gpus)" visible=1; }
    hip_one_each() { each 4 4 'export HIP_VISIBLE_DEVICES=$rank' -- "$(gpus)" visible=1; }
    rocr_permuted() {
        each 3 3 'export ROCR_VISIBLE_DEVICES=$(((rank + 2) % 3)),$(((rank + 1) % 3)),$rank' -- "$(gpus)" visible=3
    }
    hip_permuted() {
        each 3 3 'export HIP_VISIBLE_DEVICES=$(((rank + 2) % 3)),$(((rank + 1) % 3)),$rank' -- "$(gpus)" visible=3
    }
    # Rank 0 sees 0 and 1, rank 1 sees 2, rank 2 sees 3 and 0: some share, most do not see their peers'.
    masked_peers() {
        each 3 4 'masks=(0,1 2 3,0); export ROCR_VISIBLE_DEVICES=${masks[rank]}' -- "$(gpus)"
    }
    masks_mixed() {
        each 2 2 'if [ $rank = 0 ]; then export ROCR_VISIBLE_DEVICES=1; else export HIP_VISIBLE_DEVICES=0; fi' -- \
            "$(gpus)" visible=1
    }
}

# Containers: other hostnames and System V keys are no other node ...
namespaces_uts_ipc() {
    unshare --uts --ipc true 2>/dev/null || skip "unshare is not allowed here"
    # shellcheck disable=SC2016
    sdma_simnode --gpus 3 -- mpirun --mca coll sdma -np 3 unshare --uts --ipc \
        bash -c 'hostname "box$OMPI_COMM_WORLD_RANK"; exec "$@"' - "$(gpus)"
}

# ... while a process of another pid namespace cannot be reached: declined by all, with the reason, and right. By TCP,
# since Open MPI 4.1's shared memory crashes there.
namespaces_pid() {
    unshare --pid --fork true 2>/dev/null || skip "unshare is not allowed here"
    expect 'another pid namespace' sdma_simnode --gpus 2 -- mpirun --mca coll sdma \
        --mca btl tcp,self --mca btl_tcp_if_include lo -np 2 \
        unshare --pid --fork --mount-proc --kill-child "$(gpus)" expect=declined
}

# No packet moves a byte, whatever the back end.
sdma_switched_off() {
    local trace=$logs/sdma-switched-off.trace
    rm -f "$trace"
    HSA_ENABLE_SDMA=0 sdma_simnode --gpus 2 --trace "$trace" -- mpirun --mca coll sdma -np 2 \
        "$(gpus)" rounds=2 expect=any
    echo "$(grep -c DISPATCH "$trace") dispatches, $(grep -c COPY "$trace") copies by SDMA"
    grep -q 'DISPATCH' "$trace" && ! grep 'COPY' "$trace"
}

# The segments of ours are no files. What Open MPI wants there goes elsewhere.
shm() {
    unshare --mount true 2>/dev/null || skip "unshare is not allowed here"
    local folder
    folder=$(mktemp -d)
    # shellcheck disable=SC2016
    sdma_simnode --gpus 2 -- unshare --mount bash -euc "$1"'; shift; exec "$@"' - "$1" \
        mpirun --mca coll sdma --mca btl_vader_backing_directory "$folder" -np 2 "$(gpus)"
    rm -r "$folder"
}
shm_read_only() { shm 'mount -o remount,bind,ro /dev/shm 2>/dev/null || mount -t tmpfs -o ro tmpfs /dev/shm'; }
shm_tiny() { shm 'mount -t tmpfs -o size=16k tmpfs /dev/shm'; }

# Little memory may be locked: pinned by the driver, it does not count.
few_locked_bytes() { each 2 2 'ulimit -l 64' -- "$(gpus)"; }

# Whatever cannot be had for want of descriptors is declined by all, and no byte is wrong. Memory takes descriptors on
# the simulated node only, and ROCr 6.1 ends the process if it has none for a queue: that is not ours to survive.
few_descriptors() {
    local spare output
    for spare in 0 1 2 3 4 6 8 40; do
        if output=$(sdma_simnode --gpus 2 -- mpirun --mca coll sdma -np 2 \
            "$build/test/depth/resources" mode=descriptors expect=any spare=$spare 2>&1); then
            printf '%s\n' "$output"
        elif [ $spare -lt 40 ] && grep -q 'Assertion .*AQL queue memory allocation failure' <<<"$output"; then
            echo "$spare spare descriptors: ROCr ended"
        else
            printf '%s\n' "$output"
            return 1
        fi
    done
}

# Neither job may take the other's segments or queues, on the same GPUs.
two_jobs_on_the_same_gpus() {
    # shellcheck disable=SC2016
    sdma_simnode --gpus 2 -- bash -c '
        mpirun --mca coll sdma -np 2 "$1" & first=$!
        mpirun --mca coll sdma -np 2 "$1"; second=$?
        wait $first && [ $second = 0 ]' - "$(gpus)"
}

# A reason is logged once, not at every operation.
logged_once() {
    local output
    output=$(sdma_simnode --gpus 2 --fault attach,rank=1 -- mpirun --mca coll sdma -np 2 \
        "$build/test/mpi/faults" expect=none served=0 2>&1)
    printf '%s\n' "$output"
    [ "$(grep -c 'coll:sdma: mapping .* bytes of process' <<<"$output")" = 1 ]
}

# Kernels cannot reach the doorbells: the probe finds out, and load/store kernels move the bytes.
doorbells_not_ringable() {
    expect 'doorbell cannot be rung by the GPU' sdma_simnode --gpus 2 --fault no-ring-doorbell -- \
        mpirun --mca coll sdma --mca coll_sdma_engine user -np 2 "$(gpus)" path=loadstore rounds=2
}

register environment/rocr-one-each 60 rocr_one_each
register environment/hip-one-each 60 hip_one_each
register environment/rocr-permuted 60 rocr_permuted
register environment/hip-permuted 60 hip_permuted
register environment/masked-peers 60 masked_peers
register environment/masks-mixed 60 masks_mixed
register environment/namespaces-uts-ipc 60 namespaces_uts_ipc
register environment/namespaces-pid 60 namespaces_pid
register environment/sdma-switched-off 60 sdma_switched_off
register environment/shm-read-only 60 shm_read_only
register environment/shm-tiny 60 shm_tiny
register environment/few-locked-bytes 60 few_locked_bytes
register environment/few-descriptors 240 few_descriptors
register environment/two-jobs-on-the-same-gpus 120 two_jobs_on_the_same_gpus
register environment/logged-once 60 logged_once
register environment/doorbells-not-ringable 60 doorbells_not_ringable
