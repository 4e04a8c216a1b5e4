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

# two_nodes ARGUMENTS of mpirun...: two ranks on each of two nodes, which are namespaces with names of their own.
two_nodes() {
    unshare --uts true 2>/dev/null || skip "unshare is not allowed here"
    local agent status=0
    agent=$(mktemp)
    cat >"$agent" <<'END'
#!/bin/bash
# HOST COMMAND...: as ssh does it.
host=$1
shift
exec unshare --uts bash -c 'hostname "$1"; shift; exec bash -c "$*"' - "$host" "$@"
END
    chmod +x "$agent"
    PRTE_MCA_plm_ssh_agent=$agent sdma_simnode --gpus 4 -- mpirun --mca plm_rsh_agent "$agent" \
        --mca oob_tcp_if_include lo --mca btl_tcp_if_include lo --host box1:2,box2:2 -x OMPI_MCA_mca_base_component_path \
        -x PATH -x LD_LIBRARY_PATH "$@" || status=$?
    rm "$agent"
    return "$status"
}

# Communicators with ranks on other nodes are left to the components below, device buffers copied through the host.
mpi_two_nodes() {
    two_nodes -np 4 hostname | sort | uniq -c | grep -c '2 box[12]$' | grep -qx 2
    two_nodes --mca coll sdma -np 4 "$build/test/mpi/collectives" expect=any max=70000
}

register mpi/two-nodes 120 mpi_two_nodes
while IFS='|' read -r name _; do
    case $name in '' | '#'*) continue ;; esac
    register "mpi/$name" 240 mpi_test "$name"
done <"$top/test/mpi/tests.list"
unset name

# What returns too early is noticed. The job may crash afterwards, as late gets come into memory that has been freed.
rma_finds_missing_flush() {
    local sync output
    for sync in flush flush_all flush_local; do
        output=$(sdma_simnode --gpus 2 -- mpirun --mca osc sdma -np 2 \
            -x "LD_PRELOAD=$build/test/mpi/.libs/libnoflush.so" \
            "$build/test/mpi/rma" windows=create-device sync="$sync" epochs=3 max=300001 2>&1) || true
        printf '%s\n' "$output"
        grep -q "FAILED: create-device $sync seed=.*: get of .* result buffer" <<<"$output"
    done
}

register mpi/rma-finds-missing-flush 240 rma_finds_missing_flush
