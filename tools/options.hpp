// SPDX-License-Identifier: BSD-3-Clause
//
// The command line of sdma_bench. Pure: no MPI, no GPU.
#pragma once

#include <cstddef>
#include <string>

#include "device_memory.hpp"

namespace tools {

struct Options {
    std::string verb;
    Memory memory = Memory::host;
    size_t smallest = 1; // bytes per peer
    size_t largest = size_t{1} << 20;
    int iterations = 0; // 0: OSU's defaults by size
    int warmup = -1;    // -1: likewise
    bool check = false;
    bool full = false;
    bool compare = false; // --ab
    bool help = false;
};

// Empty if the arguments make sense, else one line that says what does not.
std::string parse(int argc, const char *const *argv, Options &options);

// How often a size is run: OSU's numbers unless the user gave others.
int iterations_for(const Options &options, size_t bytes);
int warmup_for(const Options &options, size_t bytes);

} // namespace tools
