#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The component alone, on the stand-in for libmpisdma: which components a job gets, what is served, declined and
# staged. No GPU, no simulated node. Run by "make check" in the build folder.
set -u

pkglibdir=$(ompi_info --path pkglibdir --parsable | sed -n 's/^path:pkglibdir://p')
export OMPI_MCA_mca_base_component_path=$PWD/.libs:$pkglibdir
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
failed=0
output=$(mktemp) || exit 1
trap 'rm -f "$output"' EXIT

# expect CODE DESCRIPTION STAND-IN-MODE MPIRUN-ARGUMENTS: the job must end with 0 ("ok") or otherwise ("error").
expect() {
    local wanted=$1 what=$2 mode=$3 got=ok
    shift 3
    STANDIN_SDMA=$mode timeout 100 mpirun -x LD_PRELOAD="$PWD/.libs/libstandin.so" "$@" >"$output" 2>&1 || got=error
    if [ "$got" != "$wanted" ]; then
        echo "FAILED: $what"
        head -n 40 "$output"
        failed=1
    fi
}

all_sdma=(--mca coll_sdma_loadstore_max_alltoall 0 --mca coll_sdma_loadstore_max_allgather 0)

# Every collective of every communicator has somebody.
expect ok "sdma as the only component" dormant --mca coll sdma -np 3 test/mpi/others
expect ok "a list with a gap" dormant --mca coll sdma,tuned -np 3 test/mpi/others
expect ok "a complete list" live --mca coll sdma,tuned,basic,libnbc,self -np 3 test/mpi/others
expect ok "no list" live -np 3 test/mpi/others
expect ok "without sdma" live --mca coll ^sdma --mca osc ^sdma -np 3 test/mpi/others component=none
expect error "without sdma, unnoticed" live --mca coll ^sdma --mca osc ^sdma -np 3 test/mpi/others
expect ok "a fallback list" live --mca coll sdma --mca coll_sdma_fallback basic,libnbc,self -np 3 test/mpi/others
expect error "no fallback" dormant --mca coll sdma --mca coll_sdma_fallback none -np 3 test/mpi/others
expect ok "HAN on top, whose sub-communicators re-order components" live \
    --mca coll_han_priority 90 -np 4 test/mpi/others

# Host jobs.
expect ok "host memory, dormant" dormant --mca coll sdma -np 3 test/mpi/hostonly

# The stand-in's device memory kills whoever touches it.
if [ -x test/mpi/collectives ]; then
    expect ok "staging" dormant --mca coll sdma -np 3 test/mpi/collectives expect=declined max=70000
    expect error "staging switched off" dormant --mca coll sdma --mca coll_sdma_stage never -np 2 \
        test/mpi/collectives expect=declined max=8 only=sizes
    expect ok "served" device --mca coll sdma "${all_sdma[@]}" -np 4 test/mpi/collectives max=70000
    expect ok "switched off" device --mca coll sdma --mca coll_sdma_enable 0 -np 2 \
        test/mpi/collectives max=70000 expect=declined
    expect ok "switched at run time" device --mca coll sdma "${all_sdma[@]}" -np 3 test/mpi/enable
    expect ok "threads on two communicators" device --mca coll sdma -np 2 test/mpi/crossed rounds=30
    export STANDIN_SDMA_AT=7
    expect ok "an error becomes MPI's" fault --mca coll sdma -np 2 test/mpi/faults expect=error served=39
    expect error "an exit code becomes mpirun's" device --mca coll sdma -np 2 test/mpi/faults exit=3 rank=1
fi

# Parameters and counters.
if ! ompi_info --param coll sdma --level 9 --parsable 2>&1 | grep -q '^mca:coll:sdma:param:coll_sdma_enable:value:true'; then
    echo "FAILED: ompi_info does not show coll_sdma_enable"
    failed=1
fi
if ! timeout 60 env LD_PRELOAD="$PWD/.libs/libstandin.so" test/mpi/defaults >"$output" 2>&1; then
    echo "FAILED: defaults"
    head -n 40 "$output"
    failed=1
fi

exit $failed
