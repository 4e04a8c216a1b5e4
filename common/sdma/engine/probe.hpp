// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "engine.hpp"

namespace sdma::engine {

// Have a kernel put one signal into a new queue of a device producer and see whether the engine
// raises it. The thunk falls back silently to a doorbell that only the host can ring when its page
// cannot be mapped to the GPU; nothing but a try tells.
//   none           the signal was raised
//   not_ringable   the kernel ended but no signal came
//   no_kernel      no kernel of ours runs on this GPU
//   no_memory
// Bounded: hardware_timeout for the kernel, and at most two seconds more for the engine. `kernel_left`: the kernel has
// not ended, and may still write to the ring, its pointers and its doorbell.
sdma_reason_t probe(gpu::Runtime &runtime, const Queue &queue, bool &kernel_left);

} // namespace sdma::engine
