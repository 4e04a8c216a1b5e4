// SPDX-License-Identifier: BSD-3-Clause
//
// What the kernel driver says in sysfs about GPUs, their SDMA engines and their links:
// class/kfd/kfd/topology/nodes/N/properties, .../io_links/M/properties, .../p2p_links/M/properties.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine.hpp"

namespace sdma::engine {

struct Gpu_node {
    uint32_t node = 0; // KFD's number
    gpu::Pci_address pci;
    Engine_counts counts;
    std::map<uint32_t, Link> links; // by the other node
};

class Topology {
public:
    // Unreadable parts are missing parts: on a machine without KFD the topology is empty.
    static Topology read(const std::string &sysfs);

    // GPUs in the order of their PCI addresses.
    const std::vector<Gpu_node> &gpus() const { return gpus_; }
    const Gpu_node *find(const gpu::Pci_address &pci) const; // nullptr: not known

    // Which engine of `source` moves bytes to `peer`. GPUs that are not known use engine 0.
    uint32_t engine(const gpu::Pci_address &source, const gpu::Pci_address &peer) const;

private:
    std::vector<Gpu_node> gpus_;
};

} // namespace sdma::engine
