// SPDX-License-Identifier: BSD-3-Clause
//
// Parameters at run time, by MPI_T. coll_sdma_enable: off everywhere, off on one rank only (then every rank declines),
// on again. coll_sdma_initiator, a string: with "host" engines move the bytes and no kernel is launched. A parameter
// must have its effect at the next operation, and no data may be wrong at any setting.
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

    Text_control initiator("coll_sdma_initiator");
    Control<size_t> alltoall_max("coll_sdma_loadstore_max_alltoall"),
        allgather_max("coll_sdma_loadstore_max_allgather");
    job.check(initiator.read() == "auto", "coll_sdma_initiator is \"%s\"", initiator.read().c_str());
    job.check(alltoall_max.write(0) && allgather_max.write(0), "the load/store thresholds cannot be written");
    for (const char *who : {"host", "gpu", "host", "gpu"}) {
        job.check(initiator.write(who) && initiator.read() == who, "coll_sdma_initiator cannot be written");
        const unsigned long long bytes_before = job.counters["bytes_sdma"], before = job.counters["launches"];
        both(ledger.eligible());
        const unsigned long long launches = job.counters["launches"] - before;
        job.check(job.counters["bytes_sdma"] > bytes_before, "no bytes by engines with initiator %s", who);
        job.check((launches == 0) == (std::string(who) == "host"), "%llu launches with initiator %s", launches, who);
    }
    return job.finish("enable");
}
