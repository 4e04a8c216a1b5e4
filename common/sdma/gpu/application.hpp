// SPDX-License-Identifier: BSD-3-Clause
//
// Device memory as the application itself would allocate it: by the HIP or CUDA runtime that it has loaded, on its
// current device, so that its own calls know the memory.
#pragma once

#include <cstddef>

namespace sdma::gpu {

// nullptr: no such library is loaded, or it refuses. 0 bytes: the least it gives.
void *application_allocate(size_t bytes);
void application_free(void *memory);

} // namespace sdma::gpu
