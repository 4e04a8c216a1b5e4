// SPDX-License-Identifier: BSD-3-Clause
//
// User-mode SDMA queues: ring, pointers and doorbell belong to this process, an SDMA engine of the
// GPU reads them, and no driver is involved after creation.
#pragma once

#include <memory>

#include "engine.hpp"
#include "thunk.hpp"
#include "topology.hpp"

namespace sdma::engine {

// Uses the thunk that is loaded in this process; without one every device is refused.
std::unique_ptr<Back_end> make_user_back_end(std::shared_ptr<gpu::Runtime> runtime, const Topology &topology);

// The same on any thunk, for tests.
std::unique_ptr<Back_end> make_user_back_end(std::shared_ptr<gpu::Runtime> runtime, const Topology &topology,
                                             const thunk::Functions *functions);

} // namespace sdma::engine
