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

# two_nodes SECONDS ARGUMENTS of mpirun...: two ranks here and two on another node, a namespace with a name of its own.
# mpirun of Open MPI 5.0.7 at times sleeps on after its job, whatever that was, the order to end not sent to the daemons
# (3 of 170 runs of "hostname" with one daemon, one of 5 with two): after SECONDS it gets another try.
two_nodes() {
    unshare --uts true 2>/dev/null || skip "unshare is not allowed here"
    local seconds=$1 agent status tries=1
    shift
    if command -v prterun >/dev/null; then
        # Its daemons on other nodes never use the loopback interface.
        [ -n "$(hostname -I)" ] || skip "no network interface but loopback"
        tries=2
    fi
    agent=$(mktemp)
    cat >"$agent" <<'END'
#!/bin/bash
# HOST COMMAND...: as ssh does it.
host=$1
shift
exec unshare --uts bash -c 'hostname "$1"; shift; exec bash -c "$*"' - "$host" "$@"
END
    chmod +x "$agent"
    while true; do
        status=0
        PRTE_MCA_plm_ssh_agent=$agent timeout "$seconds" sdma_simnode --gpus 4 -- mpirun --mca plm_rsh_agent "$agent" \
            --mca btl_tcp_if_include lo --host localhost:2,elsewhere:2 --map-by ppr:2:node \
            -x OMPI_MCA_mca_base_component_path -x PATH -x LD_LIBRARY_PATH "$@" || status=$?
        tries=$((tries - 1))
        if [ "$status" != 124 ] || [ $tries = 0 ]; then break; fi
    done
    rm "$agent"
    return "$status"
}

# Communicators with ranks on other nodes are left to the components below, device buffers copied through the host.
# Open MPI 5.0.7 would take coll/han, whose MPI_Allgather gets vectors wrong (docs/troubleshooting.md).
mpi_two_nodes() {
    [ "$(two_nodes 20 -np 4 hostname | sort -u | wc -l)" = 2 ]
    two_nodes 180 --mca coll sdma --mca coll_han_priority 0 -np 4 "$build/test/mpi/collectives" expect=any max=70000
}

register mpi/two-nodes 420 mpi_two_nodes
while IFS='|' read -r name _; do
    case $name in '' | '#'*) continue ;; esac
    register "mpi/$name" 240 mpi_test "$name"
done <"$top/test/mpi/tests.list"
unset name

# What returns too early is noticed. The job may crash or stand afterwards, as late gets come into memory that has been
# freed.
rma_finds_missing_flush() {
    local sync output
    for sync in flush flush_all flush_local; do
        output=$(sdma_simnode --gpus 2 -- mpirun --mca osc sdma --mca coll_sdma_hardware_timeout 1000 -np 2 \
            -x "LD_PRELOAD=$build/test/mpi/.libs/libnoflush.so" \
            "$build/test/mpi/rma" windows=create-device sync="$sync" epochs=3 max=300001 2>&1) || true
        printf '%s\n' "$output"
        grep -q "FAILED: create-device $sync seed=.*: get of .* result buffer" <<<"$output"
    done
}

register mpi/rma-finds-missing-flush 240 rma_finds_missing_flush
