// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks that see other GPUs than their peers, or the same ones by other names, and that change from one to the next.
//   visible=N    so many GPUs this rank must see (default: at least one)
//   expect=served or declined   rounds=N (default 6)   bytes=BYTES per peer (default 200000)
//   path=loadstore              load/store kernels must have moved all bytes, whatever their number
#include "test/mpi/ledger.hpp"

int main(int argc, char **argv) {
    Job job(argc, argv);
    int visible = 0;
    (void)hipGetDeviceCount(&visible);
    const auto wanted = static_cast<int>(job.number("visible", static_cast<uint64_t>(visible)));
    job.check(visible > 0 && visible == wanted, "%d GPUs are visible, not %d", visible, wanted);
    Ledger ledger(job);
    const auto bytes = static_cast<int>(job.number("bytes", 200000));
    const size_t all = static_cast<size_t>(bytes) * static_cast<size_t>(job.size);
    const uint64_t rounds = visible > 0 ? job.number("rounds", 6) : 0;
    const bool loadstore = job.option("path", "") == "loadstore";
    const Outcome outcome = loadstore ? Outcome::any : ledger.eligible();
    std::string names;
    for (uint64_t round = 0; round < rounds; ++round) {
        // Another GPU at each round, ranks out of step.
        const int device = static_cast<int>((round + static_cast<uint64_t>(job.rank)) % static_cast<uint64_t>(visible));
        job.check(hipSetDevice(device) == hipSuccess, "no GPU %d", device);
        char name[32] = "";
        (void)hipDeviceGetPCIBusId(name, sizeof(name), device);
        names += std::string(" ") + name;
        Buffer from(all, Memory::device);
        Buffer to(all, Memory::device);
        for (const Kind kind : {Kind::alltoall, Kind::allgather}) {
            ledger.run(MPI_COMM_WORLD, kind, {&from, 0, MPI_BYTE, bytes}, {&to, 0, MPI_BYTE, bytes}, outcome);
        }
    }
    if (loadstore) {
        const auto moved = 2 * rounds * static_cast<unsigned>(bytes) * static_cast<unsigned>(job.size - 1);
        job.check(job.counters["bytes_loadstore"] == moved, "load/store kernels moved %llu bytes, not %" PRIu64,
                  job.counters["bytes_loadstore"], moved);
    }
    std::printf("rank %d: GPUs%s\n", job.rank, names.c_str());
    return job.finish("gpus");
}
