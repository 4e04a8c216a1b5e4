#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# From a fresh Debian to both operations validated on eight simulated GPUs. Run again, it does only what is not
# done yet. Everything it writes is under build/ but for the packages it installs and what autogen.sh makes.
set -u
top=$(cd "$(dirname "$0")" && pwd)
self=quickstart
# shellcheck source=scripts/build.sh
. "$top/scripts/build.sh"

# bench LOG RANKS ARGUMENTS...: sdma_bench as a user starts it, on the simulated node. Its line can be copied.
bench() {
    local log=$logs/$1 ranks=$2
    shift 2
    local command=(sdma_simnode --gpus 8 -- mpirun --mca coll sdma -np "$ranks" sdma_bench "$@")
    echo "$ ${command[*]}"
    timeout 300 "${command[@]}" >"$log" 2>&1 </dev/null
    local status=$?
    cat "$log"
    [ $status = 0 ] || fail "sdma_bench $* ended with status $status (log: ${log#"$PWD"/})"
}

prepare_build
enter_install
echo "$ . ${env_script#"$PWD"/}"

validated=0
for operation in alltoall allgather; do
    for ranks in 4 8; do
        log=quickstart-$operation-$ranks.log
        bench "$log" $ranks $operation -d rocm -m 1:4M -i 1 -x 1 -c -f
        passed=$(grep -c 'Pass$' "$logs/$log")
        [ "$passed" = 23 ] || fail "$operation with $ranks ranks validated $passed sizes, not 23"
        grep -q '^4194304 .* sdma ' "$logs/$log" || fail "$operation of 4 MiB was not served by SDMA engines"
        grep -q 'counters of rank 0: .*served=' "$logs/$log" || fail "the counters do not show any operation as served"
        validated=$((validated + passed))
    done
done

echo
echo "The same operation with the component on and off. The GPUs are simulated by threads on this machine's cores:"
echo "these times say nothing about any GPU."
bench quickstart-ab.log 4 alltoall -d rocm -m 4K:1M -i 5 -x 5 --ab

echo "quickstart: ok, $validated sizes validated on a simulated node (no GPU used)"
