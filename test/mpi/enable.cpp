// SPDX-License-Identifier: BSD-3-Clause
//
// coll_sdma_enable at run time, by MPI_T: off everywhere, off on one rank only (then every rank declines), on again.
// The parameter must have its effect at the next operation, and no data may be wrong at any setting.
#include "test/mpi/ledger.hpp"

int main(int argc, char **argv) {
    Job job(argc, argv);
    Device::get().select(job.rank);
    Ledger ledger(job);
    Control<int> enable("coll_sdma_enable");
    job.check(enable.good() && enable.read() == 1, "coll_sdma_enable is missing or off at the start");

    const int bytes = 200000;
    Buffer from(static_cast<size_t>(bytes) * static_cast<size_t>(job.size), Memory::device);
    Buffer to(from.bytes(), Memory::device);
    const auto both = [&](Outcome outcome) {
        ledger.run(MPI_COMM_WORLD, Kind::alltoall, {&from, 0, MPI_BYTE, bytes}, {&to, 0, MPI_BYTE, bytes}, outcome);
        ledger.run(MPI_COMM_WORLD, Kind::allgather, {&from, 0, MPI_BYTE, bytes}, {&to, 0, MPI_BYTE, bytes}, outcome);
    };
    for (int round = 0; round < 4; ++round) {
        both(ledger.eligible());
        job.check(enable.write(0), "coll_sdma_enable cannot be written");
        both(Outcome::declined);
        enable.write(job.rank == round % job.size ? 0 : 1);
        both(Outcome::declined);
        enable.write(1);
        both(ledger.eligible());
    }
    const unsigned long long disabled = job.counters["declined_disabled"];
    job.check(disabled >= 8, "declined_disabled is only %llu", disabled);
    return job.finish("enable");
}
