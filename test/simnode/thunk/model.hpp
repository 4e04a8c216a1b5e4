// SPDX-License-Identifier: BSD-3-Clause
//
// What the simulated node looks like: one CPU node (0) and `gpus` GPU nodes (1...). Pure functions,
// used by the thunk side and by the launcher, which writes the same facts as a sysfs tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace simnode {

constexpr unsigned most_gpus = 16;
constexpr unsigned most_engines = 16;    // SDMA engines of one GPU
constexpr unsigned slots_per_engine = 8; // queues of all processes together

struct Gpu_model {
    unsigned major = 0, minor = 0, stepping = 0;
    uint32_t device_id = 0;
    uint32_t family = 0;
    unsigned compute_units = 0;
    unsigned xccs = 1;
    unsigned lanes = 64;
    unsigned ordinary_engines = 2; // as the driver reports them
    unsigned xgmi_engines = 0;
    unsigned engines() const { return ordinary_engines + xgmi_engines; }
};

// False if `gfx` is not of the form "gfx" + decimal major + hexadecimal minor and stepping.
bool find_model(const std::string &gfx, Gpu_model &model);

// "4294967296", "512M", "4G": false if malformed or zero.
bool parse_bytes(const char *text, size_t &bytes);

// KIND[,rank=R][,at=K], as the launcher takes it; false if malformed.
struct Fault;
bool parse_fault(const std::string &text, Fault &fault);

// Place on the PCI bus: domain 0, a bus of its own, device 0, function 0.
unsigned pci_bus(unsigned gpu);
uint32_t location_id(unsigned gpu);
std::string pci_name(unsigned gpu);
uint64_t unique_id(unsigned gpu);
uint32_t kfd_gpu_id(unsigned gpu);

// The number of the GPU's socket in the hive; not its ordinal.
unsigned physical_id(unsigned gpu, unsigned gpus);

// Engines of `from` that the driver recommends for traffic to the GPU `to`, or to the host.
uint32_t recommended_engines(const Gpu_model &model, unsigned from, unsigned to, unsigned gpus);
uint32_t recommended_host_engines(const Gpu_model &model);

constexpr uint32_t link_pcie = 2;
constexpr uint32_t link_xgmi = 11;
constexpr uint32_t weight_pcie = 20;
constexpr uint32_t weight_xgmi = 15;
constexpr uint64_t hive_id = 0x5d3a000000000001;

} // namespace simnode
