// SPDX-License-Identifier: BSD-3-Clause
//
// The proxy engine: rings in pinned host memory, read by a host thread that has the GPU runtime
// copy what the packets say. Producers cannot tell it from hardware.
//
//   one thread per GPU in use ("sdma-proxy-N"), started with the GPU's first queue, near the GPU
//   one stream per queue
//
// A GPU cannot wake a thread. Who waits for an operation serves the ring itself, by Queue::serve; Queue::wake tells
// the thread that there will be work that nobody waits for. The thread polls the doorbells without pause for
// `proxy_spin` microseconds after the last packet or wake, and sleeps between polls after that: an eighth of the
// time it has been idle, 5 ms at most.
#pragma once

#include <memory>

#include "engine.hpp"

namespace sdma::engine {

std::unique_ptr<Back_end> make_proxy_back_end(std::shared_ptr<gpu::Runtime> runtime);

} // namespace sdma::engine
