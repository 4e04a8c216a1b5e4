// SPDX-License-Identifier: BSD-3-Clause
#include "test/simnode/thunk/model.hpp"

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <limits>

namespace simnode {

namespace {

struct Known {
    const char *gfx;
    uint32_t device_id, family;
    unsigned compute_units, xccs, xgmi_engines;
};

// Engines as the driver reports them: MI250X 2 + 3 per die, MI300X-class 2 + 14.
constexpr Known known[] = {
    {"gfx908", 0x738c, 141, 120, 1, 6},  {"gfx90a", 0x7408, 141, 110, 1, 3},  {"gfx940", 0x74a0, 141, 228, 6, 14},
    {"gfx942", 0x74a1, 141, 304, 8, 14}, {"gfx950", 0x75a0, 141, 256, 8, 14},
};

// The driver's table for eight GPUs with fourteen xGMI engines each: the engine of the source (row)
// for the destination (column), by physical id. Linux drivers/gpu/drm/amd/amdkfd/kfd_topology.c.
constexpr uint8_t eight_gpu_engines[8][8] = {
    {0, 14, 12, 2, 4, 8, 10, 6}, {14, 0, 2, 10, 8, 4, 6, 12}, {10, 2, 0, 12, 14, 6, 4, 8}, {2, 12, 10, 0, 6, 14, 8, 4},
    {4, 8, 14, 6, 0, 10, 12, 2}, {8, 4, 6, 14, 12, 0, 2, 10}, {10, 6, 4, 8, 12, 2, 0, 14}, {6, 12, 8, 4, 2, 10, 14, 0},
};

int hexadecimal(char digit) {
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

} // namespace

bool find_model(const std::string &gfx, Gpu_model &model) {
    if (gfx.size() < 6 || gfx.size() > 7 || gfx.compare(0, 3, "gfx") != 0)
        return false;
    unsigned major = 0;
    for (size_t i = 3; i < gfx.size() - 2; ++i) {
        if (!isdigit(static_cast<unsigned char>(gfx[i])))
            return false;
        major = major * 10 + static_cast<unsigned>(gfx[i] - '0');
    }
    const int minor = hexadecimal(gfx[gfx.size() - 2]), stepping = hexadecimal(gfx[gfx.size() - 1]);
    if (minor < 0 || stepping < 0)
        return false;
    model = Gpu_model{};
    model.major = major;
    model.minor = static_cast<unsigned>(minor);
    model.stepping = static_cast<unsigned>(stepping);
    model.lanes = major >= 10 ? 32 : 64;
    model.device_id = 0x744c;
    model.family = major >= 11 ? 145 : major == 10 ? 143 : 141;
    model.compute_units = 64;
    for (const Known &row : known) {
        if (gfx != row.gfx)
            continue;
        model.device_id = row.device_id;
        model.family = row.family;
        model.compute_units = row.compute_units;
        model.xccs = row.xccs;
        model.xgmi_engines = row.xgmi_engines;
    }
    return true;
}

bool parse_bytes(const char *text, size_t &bytes) {
    char *end = nullptr;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    if (end == text || *text == '-' || errno != 0 || number == 0)
        return false;
    unsigned shift = 0;
    switch (toupper(static_cast<unsigned char>(*end))) {
    case 'K':
        shift = 10;
        break;
    case 'M':
        shift = 20;
        break;
    case 'G':
        shift = 30;
        break;
    case 'T':
        shift = 40;
        break;
    }
    if (end[shift ? 1 : 0] != '\0' || number > std::numeric_limits<size_t>::max() >> shift)
        return false;
    bytes = static_cast<size_t>(number) << shift;
    return true;
}

unsigned pci_bus(unsigned gpu) { return 0x11 + 0x0c * gpu; }
uint32_t location_id(unsigned gpu) { return pci_bus(gpu) << 8; }
uint64_t unique_id(unsigned gpu) { return 0x5d3a0000000001a0 + gpu; }
uint32_t kfd_gpu_id(unsigned gpu) { return 0x4d00 + 0x11 * (gpu + 1); }

std::string pci_name(unsigned gpu) {
    char name[32];
    snprintf(name, sizeof name, "0000:%02x:00.0", pci_bus(gpu));
    return name;
}

unsigned physical_id(unsigned gpu, unsigned gpus) { return gpus == 8 ? (3 * gpu + 1) % 8 : gpu; }

uint32_t recommended_engines(const Gpu_model &model, unsigned from, unsigned to, unsigned gpus) {
    if (gpus == 8 && model.xgmi_engines >= 14)
        return 1u << eight_gpu_engines[physical_id(from, gpus)][physical_id(to, gpus)];
    if (model.xgmi_engines == 0)
        return recommended_host_engines(model);
    return ((1u << model.xgmi_engines) - 1) << model.ordinary_engines;
}

uint32_t recommended_host_engines(const Gpu_model &model) { return (1u << model.ordinary_engines) - 1; }

} // namespace simnode
