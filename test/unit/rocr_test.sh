#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Run rocr_test on the simulated node: as it is, with chaos, and with the faults it knows.
set -eu
simnode=${SDMA_SIMNODE:-test/simnode/sdma_simnode}
test=${1:-test/unit/rocr_test}
"$simnode" --gpus 4 -- "$test" --gtest_filter='-*Fault*'
for seed in 1 2 3; do
    "$simnode" --gpus 4 --chaos $seed -- "$test" --gtest_filter='-*Fault*'
done
"$simnode" --gpus 2 --fault slots -- "$test" --gtest_filter='User_queue.UnderFaultSlots'
"$simnode" --gpus 2 --fault no-ring-doorbell -- "$test" --gtest_filter='User_queue.UnderFaultDoorbell'
"$simnode" --gpus 2 --fault attach -- "$test" --gtest_filter='Rocr.UnderFaultAttach'
