// SPDX-License-Identifier: BSD-3-Clause
//
// The CPU as initiator: the same code as the issue kernel, one lane.
#pragma once

#include <cstdint>

#include "../plan/work.h"

namespace sdma {

// Write and publish the packets of `work`, whose rings have host producers (engine::Producer::host).
// Any number of threads, also on the same rings. Waits for ring space, at most work->spin_budget
// polls without progress. Returns enum sdma_work_status, which is in work->status as well.
uint64_t initiate_on_host(struct sdma_work *work);

} // namespace sdma
