// SPDX-License-Identifier: BSD-3-Clause
#include "topology.hpp"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>

namespace sdma::engine {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t io_link_xgmi = 11; // type of an io_link; 2 is PCIe

using Properties = std::map<std::string, uint64_t>;

// "name value" lines. Empty if the file cannot be read (KFD hides nodes of other containers).
Properties read_properties(const fs::path &path) {
    Properties properties;
    std::ifstream file(path);
    std::string name;
    uint64_t value = 0;
    while (file >> name >> value)
        properties[name] = value;
    return properties;
}

uint64_t get(const Properties &properties, const char *name) {
    const auto found = properties.find(name);
    return found == properties.end() ? 0 : found->second;
}

std::vector<fs::path> folders(const fs::path &path) {
    std::vector<fs::path> found;
    std::error_code error;
    for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
        found.push_back(entry->path());
    return found;
}

std::map<uint32_t, Link> read_links(const fs::path &node) {
    std::map<uint32_t, Link> links;
    for (const char *kind : {"io_links", "p2p_links"})
        for (const fs::path &folder : folders(node / kind)) {
            const Properties properties = read_properties(folder / "properties");
            if (properties.contains("node_to"))
                links.try_emplace(static_cast<uint32_t>(get(properties, "node_to")),
                                  Link{static_cast<uint32_t>(get(properties, "recommended_sdma_engine_id_mask")),
                                       get(properties, "type") == io_link_xgmi});
        }
    return links;
}

} // namespace

Topology Topology::read(const std::string &sysfs) {
    Topology topology;
    for (const fs::path &folder : folders(fs::path(sysfs) / "class/kfd/kfd/topology/nodes")) {
        const Properties properties = read_properties(folder / "properties");
        if (get(properties, "simd_count") == 0) // a CPU node
            continue;
        Gpu_node node;
        node.node = static_cast<uint32_t>(std::strtoul(folder.filename().c_str(), nullptr, 10));
        node.pci = gpu::pci_of_location(static_cast<uint32_t>(get(properties, "domain")),
                                        static_cast<uint32_t>(get(properties, "location_id")));
        node.counts.ordinary = static_cast<uint32_t>(get(properties, "num_sdma_engines"));
        node.counts.xgmi = static_cast<uint32_t>(get(properties, "num_sdma_xgmi_engines"));
        node.links = read_links(folder);
        topology.gpus_.push_back(std::move(node));
    }
    std::sort(topology.gpus_.begin(), topology.gpus_.end(),
              [](const Gpu_node &a, const Gpu_node &b) { return a.pci < b.pci; });
    return topology;
}

const Gpu_node *Topology::find(const gpu::Pci_address &pci) const {
    for (const Gpu_node &node : gpus_)
        if (node.pci == pci)
            return &node;
    return nullptr;
}

uint32_t Topology::engine(const gpu::Pci_address &source, const gpu::Pci_address &peer) const {
    const Gpu_node *from = find(source), *to = find(peer);
    if (!from || !to)
        return 0;
    if (from == to) // between ranks on one GPU: no link at all
        return choose_engine(from->counts, {}, 0);
    const auto link = from->links.find(to->node);
    // Number among the other GPUs.
    const auto index = static_cast<uint32_t>((to - gpus_.data()) - (to > from ? 1 : 0));
    return choose_engine(from->counts, link == from->links.end() ? Link{} : link->second, index);
}

// Engine ids: [0, ordinary) are the ordinary ones, [ordinary, ordinary + xgmi) serve xGMI links.
uint32_t choose_engine(const Engine_counts &counts, const Link &link, uint32_t peer_index) {
    const uint32_t total = std::min(counts.ordinary + counts.xgmi, 32u);
    uint32_t mask = link.recommended_mask;
    if (total < 32)
        mask &= (1u << total) - 1;
    if (mask) {
        // One bit: the driver knows the engine next to the link. Several: it does not care, so
        // peers are spread over them.
        for (uint32_t skip = peer_index % static_cast<uint32_t>(std::popcount(mask)); skip > 0; skip--)
            mask &= mask - 1;
        return static_cast<uint32_t>(std::countr_zero(mask));
    }
    if (!link.xgmi || counts.xgmi == 0)
        return counts.ordinary ? peer_index % counts.ordinary : 0;
    // With two engines per compute die (MI300 and later: six xGMI engines or more) the driver's own
    // table uses one engine per die, and on MI308X the others do not exist.
    const uint32_t step = counts.xgmi >= 6 && counts.xgmi % 2 == 0 ? 2 : 1;
    return counts.ordinary + peer_index % (counts.xgmi / step) * step;
}

} // namespace sdma::engine
