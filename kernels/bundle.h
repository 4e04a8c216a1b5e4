// SPDX-License-Identifier: BSD-3-Clause
//
// The compiled kernels, one code object per GPU target, in the library's read-only data as a clang
// offload bundle (the container HIP and ROCm tools read: magic, u64 count, per entry u64 offset,
// u64 size, u64 length of the id, id; bodies at page boundaries).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

extern "C" {
extern const std::byte sdma_kernel_bundle[];
extern const std::byte sdma_kernel_bundle_end[];
}

namespace sdma::kernels {

// The ELF (amdgcn) or cubin (NVIDIA) for a target: "gfx942", "gfx90a:sramecc+:xnack-" (features
// are ignored: ours are built for any), "sm_90". Empty if the bundle has none, or is no bundle.
std::span<const std::byte> code_object(std::span<const std::byte> bundle, std::string_view target);

// The same from the library's own bundle; lives as long as the library.
std::span<const std::byte> code_object(std::string_view target);

} // namespace sdma::kernels
