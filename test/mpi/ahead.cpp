// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks that run far ahead of a slow one: operations without bytes, or declined on this rank, need no answer of the
// peers, so a rank may finish many of them before the slow rank starts the first. Served operations in between and
// after must find their slots untouched.
//   operations=N  (default 1000)   slow=MICROSECONDS per operation of the last rank (default 100)
#include <chrono>

#include "test/mpi/ledger.hpp"

namespace {

// Computes for a while.
void be_slow(uint64_t microseconds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
    while (std::chrono::steady_clock::now() < end) {
    }
}

} // namespace

int main(int argc, char **argv) {
    Job job(argc, argv);
    Device::get().select(job.rank);
    Ledger ledger(job);
    MPI_Datatype nothing = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(0, MPI_INT, &nothing);
    MPI_Type_commit(&nothing);
    MPI_Datatype strided = MPI_DATATYPE_NULL;
    MPI_Type_vector(2, 1, 3, MPI_INT, &strided);
    MPI_Type_commit(&strided);

    const int bytes = 150000;
    Buffer from(static_cast<size_t>(bytes) * static_cast<size_t>(job.size), Memory::device);
    Buffer to(from.bytes(), Memory::device);
    Buffer small_from(4096, Memory::device);
    Buffer small_to(4096, Memory::device);
    const Side large_send{&from, 0, MPI_BYTE, bytes};
    const Side large_recv{&to, 0, MPI_BYTE, bytes};
    ledger.run(MPI_COMM_WORLD, Kind::alltoall, large_send, large_recv, ledger.eligible());

    const bool last = job.rank == job.size - 1;
    const uint64_t operations = job.number("operations", 1000);
    const uint64_t slow = job.number("slow", 100);
    if (last) {
        be_slow(200000);
    }
    for (uint64_t i = 0; i < operations; ++i) {
        if (last) {
            be_slow(slow);
        }
        MPI_Allgather(small_from.data(), 1, nothing, small_to.data(), 1, nothing, MPI_COMM_WORLD);
        if (i % 100 == 50) {
            ledger.run(MPI_COMM_WORLD, Kind::alltoall, {&small_from, 0, strided, 4}, {&small_to, 0, strided, 4},
                       ledger.refused());
        }
        if (i % 250 == 249) {
            ledger.run(MPI_COMM_WORLD, Kind::allgather, large_send, large_recv, ledger.eligible());
        }
    }
    if (ledger.eligible() == Outcome::served) {
        const unsigned long long empty = job.counters["declined_empty"];
        job.check(empty == operations, "declined_empty is %llu, not %" PRIu64, empty, operations);
    }
    MPI_Type_free(&strided);
    MPI_Type_free(&nothing);
    return job.finish("ahead");
}
