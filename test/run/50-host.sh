# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Jobs without GPU memory: nothing is loaded, nothing gets slower.

host_loads_no_gpu_runtime() {
    local output
    output=$(mpirun --mca coll sdma -np 2 env LD_DEBUG=files sdma_bench alltoall -m 1:64 -i 5 -x 1 -c 2>&1)
    grep -q 'calling init: .*/mca_coll_sdma.so' <<<"$output" || {
        echo "the component was not loaded"
        return 1
    }
    if grep -E 'calling init: .*(libamdhip64|libhsa-runtime64|libhsakmt|libcudart|libcuda)\.so' <<<"$output"; then
        return 1
    fi
}

# For 8 bytes: at most a microsecond between the fastest of many short runs with the component on and those with it off.
# Whatever else the machine does makes some of them slower, and none faster.
host_costs_nothing() {
    local output='' _
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        output+=$(mpirun --mca coll sdma -np 2 sdma_bench alltoall -m 8:8 -i 2000 -x 500 --ab)$'\n'
    done
    printf '%s' "$output"
    awk '
        $1 == 8 { if (++runs == 1 || $2 < on) on = $2; if (runs == 1 || $3 < off) off = $3 }
        END {
            print "fastest with it on:", on, "us, off:", off, "us"
            exit !(runs == 10 && on - off <= 1)
        }' <<<"$output"
}

register host/loads-no-gpu-runtime 60 host_loads_no_gpu_runtime
register host/costs-nothing 120 host_costs_nothing
