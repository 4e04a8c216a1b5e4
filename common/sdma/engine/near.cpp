// SPDX-License-Identifier: BSD-3-Clause
#include "near.hpp"

#include <hwloc.h>

#include "../base/base.hpp"

namespace sdma::engine {

namespace {

struct Topology {
    hwloc_topology_t handle = nullptr;
    Topology() {
        // Only PCI devices: discovery of operating-system devices would start GPU runtimes.
        if (hwloc_topology_init(&handle) == 0 &&
            (hwloc_topology_set_type_filter(handle, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_ALL) != 0 ||
             hwloc_topology_load(handle) != 0)) {
            hwloc_topology_destroy(handle);
            handle = nullptr;
        }
    }
    ~Topology() {
        if (handle)
            hwloc_topology_destroy(handle);
    }
    Topology(const Topology &) = delete;
    Topology &operator=(const Topology &) = delete;
};

} // namespace

void run_near(const gpu::Pci_address &pci) {
    const Topology topology;
    if (!topology.handle)
        return;
    hwloc_obj_t object = hwloc_get_pcidev_by_busid(topology.handle, pci.domain, pci.bus, pci.device, pci.function);
    object = object ? hwloc_get_non_io_ancestor_obj(topology.handle, object) : hwloc_get_root_obj(topology.handle);
    hwloc_bitmap_t near = hwloc_bitmap_dup(object->cpuset);
    hwloc_bitmap_t rest = hwloc_bitmap_alloc();
    if (near && rest && hwloc_get_cpubind(topology.handle, rest, HWLOC_CPUBIND_THREAD) == 0) {
        hwloc_bitmap_andnot(rest, near, rest);
        if (hwloc_set_cpubind(topology.handle, hwloc_bitmap_iszero(rest) ? near : rest, HWLOC_CPUBIND_THREAD) != 0)
            log(1, "proxy: the thread of gpu %s cannot be bound", gpu::to_string(pci).c_str());
    }
    hwloc_bitmap_free(near);
    hwloc_bitmap_free(rest);
}

} // namespace sdma::engine
