# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# The UCX transport `sdma`. The UCT programs are ours; ucx_perftest, ucx_info and Open MPI's pml/ucx and osc/ucx use it
# as anybody's program does.

need_transport() { [ -e "$prefix/lib/libuct_sdma.so.0" ] || skip "built without UCX"; }

# Whether UCX has its own ROCm modules; without them ucx_perftest gets its GPU memory from a library of ours.
ucx_has_rocm() { [ -n "$(find /usr/lib -name 'libuct_rocm.so.0')" ]; }

uct() {
    need_transport
    local simnode=()
    while [ "${1#--}" != "$1" ]; do
        simnode+=("$1" "$2")
        shift 2
    done
    sdma_simnode --gpus 2 "${simnode[@]}" -- "$build/test/ucx/uct" "$@"
}

tiny_queue() { UCX_SDMA_TX_QUEUE_LEN=2 uct "$@"; }
short_queue() { UCX_SDMA_TX_QUEUE_LEN=16 uct "$@"; }
short_timeout() { UCX_SDMA_HARDWARE_TIMEOUT=500 uct "$@"; }

register ucx-transport/uct-pending 90 short_queue pending
register ucx-transport/uct-invalidate-bound 90 short_timeout invalidate-bound
for name in data order fence event keys invalidate own kill; do
    register "ucx-transport/uct-$name" 90 uct "$name"
done
for name in data pending order fence own kill; do
    register "ucx-transport/uct-$name-queue-of-2" 90 tiny_queue --chaos 7 "$name"
done
unset name

# By UCP with error handling. Late engines: puts are on their way when the target is killed.
# UCX 1.18's ROCm module at times waits for ever at its start, before anything of ours, for a lock of libucm (3 of 150 runs,
# most of them with others beside them): after 20 s it gets another try.
ucp_kill_job() {
    local status tries
    for tries in 1 2; do
        status=0
        UCX_SDMA_TX_QUEUE_LEN=$1 UCX_TLS=all UCX_PROTO_ENABLE=y UCX_MEMTYPE_CACHE=n UCX_KEEPALIVE_INTERVAL=1s \
            timeout 20 sdma_simnode --gpus 2 --chaos "$1" -- "$build/test/ucx/ucp" "${@:2}" || status=$?
        if [ $status != 124 ] || ! ucx_has_rocm; then break; fi
        echo "try $tries ended with the time limit"
    done
    return $status
}
export -f ucp_kill_job ucx_has_rocm
ucp_kill() {
    need_transport
    clean_end 0 bash -c "ucp_kill_job $*"
}
register ucx-transport/ucp-kill 120 ucp_kill 2 64 300000
register ucx-transport/ucp-kill-long-queue 120 ucp_kill 256 128 300000

# UCX's own ROCm module fills its cache of memory types from what it intercepts and from the mappings of /dev/dri, of
# which a simulated node has none: without the cache it asks the runtime.
perftest() {
    need_transport
    export UCX_MEMTYPE_CACHE=n
    local preload=$prefix/lib/libuct_sdma.so.0
    if [ "${UCX_MODULES:-}" = ^rocm ] || ! ucx_has_rocm; then
        preload=$preload:$build/.libs/libperftest_rocm.so
    fi
    UCX_PROTO_ENABLE=y SDMA_PRELOAD=$preload sdma_simnode --gpus 2 -- "$top/test/ucx/perftest" "$@"
}

perftest_uct() { perftest -x sdma -d sdma0 -m rocm -n 100 -w 5 "$@"; }

register ucx-transport/put-short 120 perftest_uct -t put_lat -D short -s 1000
register ucx-transport/put-bcopy 120 perftest_uct -t put_bw -D bcopy -s 9000
register ucx-transport/put-zcopy 120 perftest_uct -t put_bw -D zcopy -s 200000 -O 32
register ucx-transport/get-bcopy 120 perftest_uct -t get -D bcopy -s 9000
register ucx-transport/get-zcopy 120 perftest_uct -t get -D zcopy -s 200000
register ucx-transport/host-memory 120 perftest_uct -t put_bw -D zcopy -s 200000 -m host

# By UCP, with every transport of the machine beside ours: ours must be seen among the protocols that it chose.
perftest_ucp() { UCX_TLS=all UCX_PROTO_INFO=y expect 'zero-copy.*sdma/sdma0' perftest -m rocm -n 50 -w 2 "$@"; }
perftest_tiny() { UCX_SDMA_TX_QUEUE_LEN=2 perftest_ucp "$@"; }

register ucx-transport/ucp-put 120 perftest_ucp -t ucp_put_bw -s 100000
register ucx-transport/ucp-put-small 120 perftest_ucp -t ucp_put_lat -s 8
register ucx-transport/ucp-get 120 perftest_ucp -t ucp_get -s 100000
register ucx-transport/ucp-tag 120 perftest_ucp -t tag_bw -s 100000
register ucx-transport/ucp-tag-small 120 perftest_ucp -t tag_lat -s 100
register ucx-transport/ucp-tag-host-to-gpu 120 perftest_ucp -t tag_lat -s 100000 -m host,rocm
# UCX's own ROCm module aborts then on the simulated node, without our transport too (1.18 and 1.23): "Assertion
# `perf_attr.recv_overhead < UCP_PROTO_PERF_EPSILON' failed".
sleeping() { UCX_MODULES=^rocm perftest_ucp -t tag_lat -s 100000 -E sleep; }
register ucx-transport/ucp-tag-sleeping 120 sleeping
register ucx-transport/ucp-tag-error-handling 120 perftest_ucp -t tag_bw -s 100000 -e
register ucx-transport/ucp-put-queue-of-2 120 perftest_tiny -t ucp_put_bw -s 20000 -O 64

# ucx_info itself loads no GPU runtime, so the transport is asked to show itself all the same.
listed() {
    need_transport
    expect 'Transport: sdma' env UCX_SDMA_ALWAYS=y sdma_ucx ucx_info -d
    ucx_has_rocm || expect 'no supported devices found' sdma_ucx ucx_info -d
    expect '^UCX_SDMA_TX_QUEUE_LEN=256$' sdma_ucx ucx_info -c
    expect '^UCX_SDMA_HARDWARE_TIMEOUT=10000$' sdma_ucx ucx_info -c
}
deselected() {
    need_transport
    expect 'sdma' env UCX_SDMA_ALWAYS=y UCX_TLS=sdma,sm,self sdma_ucx ucx_info -e -u r -D shm
    expect_not 'sdma' env UCX_SDMA_ALWAYS=y UCX_TLS=^sdma sdma_ucx ucx_info -e -u r -D shm
}
register ucx-transport/listed 60 listed
register ucx-transport/selected-by-UCX_TLS 60 deselected

expect_not() {
    local pattern=$1 output
    shift
    output=$("$@" 2>&1) || return
    printf '%s\n' "$output"
    ! grep -q -- "$pattern" <<<"$output"
}

# Another release of UCX, or a UCX with other tables: one line, and everything goes on without us.
wrong_release() {
    need_transport
    expect 'sdma: built for UCX .* the transport is not used' \
        env LD_PRELOAD="$build/.libs/libother_release.so:$prefix/lib/libuct_sdma.so.0" ucx_info -d
    expect_not 'Component: sdma' \
        env LD_PRELOAD="$build/.libs/libother_release.so:$prefix/lib/libuct_sdma.so.0" ucx_info -d
    "$build/test/ucx/layout"
}
register ucx-transport/wrong-release 60 wrong_release

# Open MPI on UCX: the hook component loads the transport, and MPI_Put is its zero-copy.
mpi_on_ucx() {
    need_transport
    export UCX_MEMTYPE_CACHE=n
    OMPI_MCA_mca_base_param_files=$prefix/share/mpi-sdma/mca-params-ucx.conf \
        sdma_simnode --gpus 2 -- mpirun -np "$1" "${@:2}"
}
register ucx-transport/mpi-put 120 mpi_on_ucx 2 "$build/test/ucx/mpi_put" zcopy=1
register ucx-transport/mpi-put-three-ranks 120 mpi_on_ucx 3 "$build/test/ucx/mpi_put"
