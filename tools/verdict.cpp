// SPDX-License-Identifier: BSD-3-Clause
#include "verdict.hpp"

#include <cinttypes>
#include <cstdio>

#include <mpi.h>

namespace tools {

namespace {

int own_rank() {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

} // namespace

void Verdict::complain(size_t bytes, uint32_t iteration, const std::string &where, unsigned found, unsigned expected) {
    if (wrong_++ == 0)
        std::fprintf(stderr,
                     "sdma_bench: rank %d: wrong data: %s of %zu bytes, iteration %" PRIu32
                     ": %s is 0x%02x, expected 0x%02x\n",
                     own_rank(), options_.verb.c_str(), bytes, iteration, where.c_str(), found, expected);
}

bool Verdict::all_correct() const {
    int wrong = 0;
    MPI_Allreduce(&wrong_, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (options_.check && own_rank() == 0) {
        std::printf("%12s\n", wrong ? "Fail" : "Pass");
        std::fflush(stdout);
    }
    return wrong == 0;
}

} // namespace tools
