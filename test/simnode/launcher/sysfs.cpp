// SPDX-License-Identifier: BSD-3-Clause
#include "test/simnode/launcher/sysfs.hpp"

#include <fstream>
#include <sstream>
#include <string>

#include <unistd.h>

#include "test/simnode/thunk/model.hpp"

namespace simnode {

namespace {

namespace fs = std::filesystem;

void write(const fs::path &path, const std::string &text) {
    fs::create_directories(path.parent_path());
    std::ofstream file;
    file.exceptions(std::ios::failbit | std::ios::badbit);
    file.open(path);
    file << text;
    file.close();
}

std::string hexadecimal(uint64_t value) {
    std::ostringstream text;
    text << "0x" << std::hex << value << '\n';
    return text.str();
}

// Lines "name value", as in the properties files of the topology.
class Properties {
public:
    template <typename T> Properties &add(const char *name, const T &value) {
        text_ << name << ' ' << value << '\n';
        return *this;
    }
    std::string text() const { return text_.str(); }

private:
    std::ostringstream text_;
};

void write_link(const fs::path &node, unsigned number, unsigned from, unsigned to, const Options &options,
                const Gpu_model &model) {
    const bool peers = from > 0 && to > 0;
    uint32_t engines = 0;
    if (peers)
        engines = recommended_engines(model, from - 1, to - 1, options.gpus);
    else if (from > 0)
        engines = recommended_host_engines(model);
    write(node / "io_links" / std::to_string(number) / "properties",
          Properties()
              .add("type", peers ? link_xgmi : link_pcie)
              .add("version_major", 0)
              .add("version_minor", 0)
              .add("node_from", from)
              .add("node_to", to)
              .add("weight", peers ? weight_xgmi : weight_pcie)
              .add("min_latency", 0)
              .add("max_latency", 0)
              .add("min_bandwidth", peers ? 50000 : 32000)
              .add("max_bandwidth", peers ? 50000 : 32000)
              .add("recommended_transfer_size", 0)
              .add("recommended_sdma_engine_id_mask", engines)
              .add("flags", 1)
              .text());
}

void write_node(const fs::path &nodes, unsigned number, const Options &options, const Gpu_model &model) {
    const fs::path node = nodes / std::to_string(number);
    const bool is_gpu = number > 0;
    const unsigned gpu = number - 1;
    Properties properties;
    properties.add("cpu_cores_count", is_gpu ? 0 : sysconf(_SC_NPROCESSORS_ONLN))
        .add("simd_count", is_gpu ? model.compute_units * 4 : 0)
        .add("mem_banks_count", 1)
        .add("caches_count", 0)
        .add("io_links_count", options.gpus)
        .add("p2p_links_count", 0)
        .add("max_waves_per_simd", is_gpu ? 8 : 0)
        .add("lds_size_in_kb", is_gpu ? 64 : 0)
        .add("wave_front_size", is_gpu ? model.lanes : 0)
        .add("gfx_target_version", is_gpu ? model.major * 10000 + model.minor * 100 + model.stepping : 0)
        .add("vendor_id", is_gpu ? 0x1002 : 0)
        .add("device_id", is_gpu ? model.device_id : 0)
        .add("location_id", is_gpu ? location_id(gpu) : 0)
        .add("domain", 0)
        .add("drm_render_minor", is_gpu ? 128 + gpu : 0)
        .add("hive_id", is_gpu ? hive_id : 0)
        .add("num_sdma_engines", is_gpu ? model.ordinary_engines : 0)
        .add("num_sdma_xgmi_engines", is_gpu ? model.xgmi_engines : 0)
        .add("num_sdma_queues_per_engine", is_gpu ? slots_per_engine : 0)
        .add("num_cp_queues", is_gpu ? 24 : 0)
        .add("unique_id", is_gpu ? unique_id(gpu) : 0)
        .add("num_xcc", is_gpu ? model.xccs : 0);
    write(node / "properties", properties.text());
    write(node / "gpu_id", std::to_string(is_gpu ? kfd_gpu_id(gpu) : 0) + "\n");
    write(node / "name", is_gpu ? options.gfx + "\n" : "\n");
    for (unsigned to = 0, link = 0; to <= options.gpus; ++to)
        if (to != number)
            write_link(node, link++, number, to, options, model);
}

} // namespace

void write_sysfs(const fs::path &root, const Options &options) {
    Gpu_model model;
    find_model(options.gfx, model);
    const fs::path topology = root / "class/kfd/kfd/topology";
    write(topology / "generation_id", "1\n");
    write(topology / "system_properties", Properties().add("platform_oem", 0).add("platform_id", 0).text());
    for (unsigned node = 0; node <= options.gpus; ++node)
        write_node(topology / "nodes", node, options, model);
    for (unsigned gpu = 0; gpu < options.gpus; ++gpu) {
        const fs::path device = root / "bus/pci/devices" / pci_name(gpu);
        write(device / "vendor", hexadecimal(0x1002));
        write(device / "device", hexadecimal(model.device_id));
        write(device / "class", hexadecimal(0x038000));
        write(device / "numa_node", "0\n");
        write(device / "xgmi_physical_id", std::to_string(physical_id(gpu, options.gpus)) + "\n");
    }
}

} // namespace simnode
