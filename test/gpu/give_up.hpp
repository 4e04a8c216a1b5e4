// SPDX-License-Identifier: BSD-3-Clause
//
// How programs that measure end when something is not as it should be.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include <cuda_runtime_api.h>
#include <errno.h>
#include <mpi.h>

// Aborts the whole job with one line: a number measured on half a machine is no number.
[[noreturn]] inline void give_up(const std::string &what) {
    std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, what.c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::abort();
}

inline void must(cudaError_t status, const char *what) {
    if (status != cudaSuccess)
        give_up(std::string(what) + ": " + cudaGetErrorString(status));
}
