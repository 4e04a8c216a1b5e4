// SPDX-License-Identifier: BSD-3-Clause
//
// AMD's own kernels, which HIP and ROCr dispatch for hipMemcpy, hipMemset and stream operations:
// what they do, done by the host on the whole grid at once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "code_object.hpp"

namespace simnode {

struct Dispatch {
    unsigned gpu = 0;
    uint64_t grid[3]{}; // work-items
    const uint8_t *kernarg = nullptr;
    std::function<bool()> stopped;
};

enum class Served : uint8_t { yes, unknown, failed };

// HIP's kernels (by name; the argument layout from the metadata, which differs between releases).
// On failed, `error` says why.
Served run_hip_kernel(const Kernel &kernel, const Dispatch &dispatch, std::string &error);

// ROCr's blit kernels, raw instructions behind an amd_kernel_code_t.
Served run_rocr_kernel(uint64_t kernel_object, const Dispatch &dispatch, std::string &error);

} // namespace simnode
