// SPDX-License-Identifier: BSD-3-Clause
//
// The command line of sdma_bench. Pure: no MPI, no GPU.
#pragma once

#include <cstddef>
#include <string>

#include "device_memory.hpp"

namespace tools {

// One-sided operations: -w and -s.
enum class Window_kind : unsigned char { create, allocate, dynamic };
enum class Sync : unsigned char { flush, fence, pscw, lock, lock_all, flush_local };
const char *to_string(Window_kind kind);
const char *to_string(Sync sync);

struct Options {
    std::string verb;
    std::string places; // of one-sided operations: origin's letter and window's, D or H; empty: as -d
    Window_kind window = Window_kind::create;
    Sync sync = Sync::flush;
    int messages = 64; // -W: operations before each synchronisation
    Memory memory = Memory::host;
    size_t smallest = 1; // bytes per peer, or per one-sided operation
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

// Where the buffer of the origin and where the window is. True: in memory of -d.
bool origin_on_device(const Options &options);
bool window_on_device(const Options &options);
// Empty, or why an operation cannot run like this.
std::string check_collective(const Options &options);
std::string check_onesided(const Options &options);

} // namespace tools
