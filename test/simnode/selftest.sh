#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The launcher, and under it the programs that test the simulated node. Run in the build folder.
# Usage: selftest.sh [FOLDER with sdma_simnode, selftest_thunk and perhaps selftest_hip]
folder=${1:-test/simnode}
simnode=$folder/sdma_simnode
TMPDIR=$(mktemp -d) || exit 1
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
passed=0
failed=0

# check NAME EXPECTED_STATUS COMMAND...; its output is in $TMPDIR/output.
check() {
    name=$1 expected=$2
    shift 2
    timeout 120 "$@" >"$TMPDIR/output" 2>&1 </dev/null
    status=$?
    if [ "$status" -eq "$expected" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "failed: $name: status $status, expected $expected"
        sed 's/^/    /' "$TMPDIR/output"
    fi
}

# says NAME TEXT: the output of the last check has TEXT.
says() {
    if grep -q -e "$2" "$TMPDIR/output"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "failed: $1: no \"$2\" in"
        sed 's/^/    /' "$TMPDIR/output"
    fi
}

check "help" 0 "$simnode" --help
says "help" "--fault KIND"
check "exit status" 7 "$simnode" -- sh -c 'exit 7'
check "status of a killed command" 137 "$simnode" -- sh -c 'kill -9 $$'
check "no such command" 127 "$simnode" -- "$TMPDIR/none"
check "too many GPUs" 125 "$simnode" --gpus 17 -- true
says "too many GPUs" "1 to 16"
check "GPU name" 125 "$simnode" --gfx card -- true
check "GPU that the runtime does not know" 125 "$simnode" --gfx gfx9ff -- true
says "GPU that the runtime does not know" "does not know gfx9ff"
for fault in attach,when=3 foo attach,at=x attach,at= slots,rank=-1 ""; do
    check "fault \"$fault\"" 125 "$simnode" --fault "$fault" -- true
    says "fault \"$fault\"" "--fault cannot read"
done
for seed in 0 -1 x ""; do
    check "chaos \"$seed\"" 125 "$simnode" --chaos "$seed" -- true
    says "chaos \"$seed\"" "--chaos takes a number above 0"
done

check "sysfs" 0 "$simnode" --gfx gfx90a --gpus 3 -- sh -c '
    cd "$OMPI_MCA_coll_sdma_sysfs" || exit 1
    cat class/kfd/kfd/topology/nodes/*/io_links/*/properties bus/pci/devices/*/xgmi_physical_id'
links=$(grep -c '^recommended_sdma_engine_id_mask 28$' "$TMPDIR/output")
check "each GPU's two links to its peers name the xGMI engines" 0 test "$links" -eq 6

# A signal to the launcher reaches the command, whose end is the launcher's.
check "signals" 5 sh -c '
    "$1" -- sh -c "trap \"exit 5\" TERM; echo up >\"\$TMPDIR/up\"; while :; do sleep 0.05; done" &
    launcher=$!
    until [ -s "$TMPDIR/up" ]; do sleep 0.05; done
    kill -TERM $launcher
    wait $launcher' sh "$simnode"

check "thunk" 0 "$simnode" --gpus 4 --vram 256M -- "$folder/selftest_thunk"
says "thunk" "selftest_thunk: passed"
check "device open refused" 1 "$simnode" --gpus 4 --vram 256M --fault device-open -- "$folder/selftest_thunk"
check "attach refused" 1 "$simnode" --gpus 4 --vram 256M --fault attach -- "$folder/selftest_thunk"
says "attach refused" "fault attach"
check "attach refused in another rank" 0 "$simnode" --gpus 4 --vram 256M --fault attach,rank=3 -- \
    "$folder/selftest_thunk"
check "slots refused" 1 "$simnode" --gpus 4 --vram 256M --fault slots -- "$folder/selftest_thunk"
says "slots refused" "fault slots"
if [ -x "$folder/selftest_hip" ]; then
    check "HIP" 0 "$simnode" --gpus 4 --vram 256M -- "$folder/selftest_hip"
    says "HIP" "selftest_hip: passed"
    check "HIP without SDMA queues" 0 "$simnode" --gpus 4 --vram 256M --fault slots -- "$folder/selftest_hip"
    check "HIP without a device" 1 "$simnode" --gpus 4 --vram 256M --fault device-open -- "$folder/selftest_hip"
fi
rest=$(ls -d "$TMPDIR"/sdma_simnode.* 2>/dev/null | wc -l)
check "run directories are removed" 0 test "$rest" -eq 0

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
