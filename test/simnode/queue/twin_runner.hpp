// SPDX-License-Identifier: BSD-3-Clause
//
// Runs the host twin of a kernel: every lane of every workgroup is a coroutine, as far as it needs
// to be (a lane that never yields costs a call). Under chaos lanes start and resume in random order.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "report.hpp"

namespace simnode {

using Twin = void (*)(const void *kernarg);

// The twin of this kernel: the project's own, or a function sdma_twin_<name>(const void *kernarg)
// that the program exports (for kernels of tests). nullptr if there is none.
Twin find_twin(const std::string &name);

// On `gpu`: a doorbell that is not mapped to it cannot be rung.
// False if `stopped` became true first: the lanes were dropped where they stood.
bool run_twin(unsigned gpu, Twin twin, const void *kernarg, uint64_t grid, uint32_t workgroup, Chaos &chaos,
              const std::function<bool()> &stopped);

} // namespace simnode
