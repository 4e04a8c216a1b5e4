// SPDX-License-Identifier: BSD-3-Clause
//
// The operations of sdma_bench. A new one is a file with a run function and a row of the table in
// sdma_bench.cpp.
#pragma once

#include <string>

#include "device_memory.hpp"
#include "options.hpp"

namespace tools {

struct Verb {
    const char *name;
    const char *help;
    // Called between MPI_Init and MPI_Finalize, on every rank, with the device already chosen.
    // Returns the exit code, the same on every rank.
    int (*run)(const Options &options, Device_memory &memory);
    // Why it cannot run with these options; known without MPI and devices. Empty: it can.
    std::string (*check)(const Options &options);
};

int run_alltoall(const Options &options, Device_memory &memory);
int run_allgather(const Options &options, Device_memory &memory);
int run_put_bw(const Options &options, Device_memory &memory);
int run_put_bibw(const Options &options, Device_memory &memory);
int run_put_lat(const Options &options, Device_memory &memory);
int run_get_bw(const Options &options, Device_memory &memory);
int run_get_lat(const Options &options, Device_memory &memory);

// One line from this rank, then the end of the job.
[[noreturn]] void die(const std::string &message);

} // namespace tools
