// SPDX-License-Identifier: BSD-3-Clause
//
// A loop of collectives for jobs in which hardware, set-up or a peer fails. Every MPI error is printed; data of
// operations without an error must be right; after an error the job goes on through the components below.
//   operations=N   (default 40)     bytes=BYTES   (default 300000)
//   expect=error   some rank must see an MPI error, and go on; none: no rank may; any (default)
//   served=N       so many operations must have been served on every rank
//   exit=CODE rank=R   leaves with that code in the middle of the loop, on that rank
#include "test/mpi/exchange.hpp"

int main(int argc, char **argv) {
    Job job(argc, argv);
    // A rank whose GPU cannot be opened takes part with host memory.
    const Memory memory = Device::get().select(job.rank) ? Memory::device : Memory::host;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const auto bytes = static_cast<int>(job.number("bytes", 300000));
    const uint64_t operations = job.number("operations", 40);
    const std::string expect = job.option("expect", "any");
    const bool leaves = !job.option("exit", "").empty() && job.number("rank", 0) == static_cast<uint64_t>(job.rank);
    Buffer from(static_cast<size_t>(bytes) * static_cast<size_t>(job.size), memory);
    Buffer to(from.bytes(), memory);
    uint64_t errors = 0;
    uint64_t good_after_error = 0;
    for (uint64_t i = 0; i < operations; ++i) {
        if (leaves && i == operations / 2) {
            std::_Exit(static_cast<int>(job.number("exit", 0)));
        }
        const int code = Exchange(job, MPI_COMM_WORLD, (i & 1U) == 0 ? Kind::alltoall : Kind::allgather)
                             .run({&from, 0, MPI_BYTE, bytes}, {&to, 0, MPI_BYTE, bytes}, i);
        if (code == MPI_SUCCESS) {
            good_after_error += errors > 0 ? 1 : 0;
            continue;
        }
        ++errors;
        char text[MPI_MAX_ERROR_STRING];
        int length = 0;
        MPI_Error_string(code, text, &length);
        std::printf("rank %d: operation %" PRIu64 ": %s\n", job.rank, i, text);
    }
    if (expect == "error") {
        uint64_t all = 0;
        MPI_Allreduce(&errors, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        job.check(all > 0, "no MPI error in %" PRIu64 " operations", operations);
        job.check(errors == 0 || good_after_error > 0, "no operation succeeded after the error");
    } else if (expect == "none") {
        job.check(errors == 0, "%" PRIu64 " MPI errors", errors);
    }
    const uint64_t served = job.number("served", job.counters["served"]);
    job.check(job.counters["served"] == served, "%llu operations served, not %" PRIu64, job.counters["served"], served);
    std::printf("rank %d: %" PRIu64 " errors, served %llu\n", job.rank, errors, job.counters["served"]);
    return job.finish("faults");
}
