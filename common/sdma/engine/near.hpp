// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "../gpu/gpu.hpp"

namespace sdma::engine {

// Let the calling thread run on the CPUs of the NUMA node of the device at `pci`, but on none that
// the creating thread is bound to, if others are left: MPI ranks are bound to single cores and
// poll there. Does nothing where the topology is unknown; starts no GPU runtime.
void run_near(const gpu::Pci_address &pci);

} // namespace sdma::engine
