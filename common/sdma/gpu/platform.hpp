// SPDX-License-Identifier: BSD-3-Clause
//
// What the one GPU platform that configure chose (rocr/ or hip_nvidia/) defines for gpu.cpp.
#pragma once

#include <memory>

#include "gpu.hpp"

namespace sdma::gpu {

// See runtime_loaded(). Called often, also in jobs that never touch a GPU: must be cheap.
bool platform_loaded();

// A new runtime object with its own reference to the GPU library; nullptr with the reason. gpu.cpp
// calls it under a lock and keeps the first one for the life of the process.
std::shared_ptr<Runtime> platform_open(sdma_reason_t &reason);

} // namespace sdma::gpu
