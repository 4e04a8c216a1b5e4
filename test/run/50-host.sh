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

# Median over five runs of on - off, for 8 bytes: at most a microsecond.
host_costs_nothing() {
    local output='' _
    for _ in 1 2 3 4 5; do
        output+=$(mpirun --mca coll sdma -np 2 sdma_bench alltoall -m 8:8 -i 20000 -x 1000 --ab)$'\n'
    done
    printf '%s' "$output"
    awk '$1 == 8 { print $2 - $3 }' <<<"$output" | sort -g | awk '
        { difference[NR] = $1 }
        END {
            print "median of on - off:", difference[3], "us"
            exit !(NR == 5 && difference[3] <= 1)
        }'
}

register host/loads-no-gpu-runtime 60 host_loads_no_gpu_runtime
register host/costs-nothing 120 host_costs_nothing
