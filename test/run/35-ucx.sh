# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# UCX with its own ROCm transports (Debian 13 has them) as the path below us: device buffers are passed down as they
# are, and UCX's own transports must be seen to move them.

# ucx_below RANKS ARGUMENTS of mpirun and program...
ucx_below() {
    local ranks=$1
    shift
    [ -n "$(find /usr/lib -name 'libuct_rocm.so.0')" ] || skip "this release's UCX has no ROCm transports"
    expect 'zero-copy read from remote .*rocm_ipc' sdma_simnode --gpus "$ranks" -- mpirun --mca coll sdma -np "$ranks" \
        --mca pml ucx --mca osc ucx --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any \
        --mca coll_sdma_stage never --mca hook_sdma_enable 0 -x UCX_LOG_LEVEL=info -x UCX_PROTO_INFO=y "$@" stages=0
}

# Declined operations are UCX's, and served ones do not disturb it.
register ucx/below-when-disabled 120 ucx_below 3 --mca coll_sdma_enable 0 \
    "$build/test/mpi/collectives" expect=declined max=1100000
register ucx/beside 120 ucx_below 3 "$build/test/mpi/collectives" max=1100000
