// SPDX-License-Identifier: BSD-3-Clause
//
// From the kernel object of a dispatch packet back to the kernel: its code object is loaded in GPU
// memory (GPU address = CPU address), complete with ELF header, dynamic symbols and metadata note.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace simnode {

struct Argument {
    std::string name; // "" where the compiler dropped it
    uint32_t offset = 0, bytes = 0;
};
struct Kernel {
    std::string name;
    std::vector<Argument> arguments; // explicit ones, as the metadata lists them
};

// Finds the kernel whose descriptor is at `kernel_object`; "" or why not. Only dereferences memory
// that is accessible to `gpu`.
std::string find_kernel(unsigned gpu, uint64_t kernel_object, Kernel &kernel);

// The explicit arguments of the kernel with this descriptor symbol ("name.kd") in a code object's
// metadata (msgpack, as in note NT_AMDGPU_METADATA). False if malformed or not there.
bool parse_arguments(const uint8_t *metadata, size_t bytes, const std::string &symbol,
                     std::vector<Argument> &arguments);

} // namespace simnode
