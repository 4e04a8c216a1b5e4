// SPDX-License-Identifier: BSD-3-Clause
//
// A checked exchange whose counters must say what became of it.
#pragma once

#include "test/mpi/exchange.hpp"

enum class Outcome { served, declined, any };

class Ledger {
public:
    // Options: expect=served, declined (nothing can be served in this job) or any; stages=0 where device buffers of
    // declined operations are handed down as they are.
    explicit Ledger(Job &job)
        : job_(job), expect_(job.option("expect", "served")), alltoall_max_("coll_sdma_loadstore_max_alltoall"),
          allgather_max_("coll_sdma_loadstore_max_allgather"), stages_(job.number("stages", 1) != 0) {}

    // What becomes of an operation whose buffers are all device memory and that has a served form.
    Outcome eligible() const {
        return expect_ == "served" ? Outcome::served : expect_ == "declined" ? Outcome::declined : Outcome::any;
    }
    // ... and of one that must be declined on every rank.
    Outcome refused() const { return expect_ == "any" ? Outcome::any : Outcome::declined; }

    int run(MPI_Comm comm, Kind kind, const Side &send, const Side &recv, Outcome outcome) {
        const Sample before(job_.counters);
        const int code = Exchange(job_, comm, kind).run(send, recv, ++iteration_);
        const Sample after(job_.counters);
        job_.check(code == MPI_SUCCESS, "MPI error %d", code);
        int size = 0;
        int element = 0;
        MPI_Comm_size(comm, &size);
        MPI_Type_size(recv.type, &element);
        const auto block = static_cast<unsigned long long>(element) * static_cast<unsigned>(recv.count);
        if (outcome == Outcome::served && size > 1) {
            const auto peers = block * static_cast<unsigned>(size - 1);
            const bool sdma = block > (kind == Kind::alltoall ? alltoall_max_ : allgather_max_).read();
            expect("served", after.served - before.served, 1, block);
            expect("bytes_sdma", after.sdma - before.sdma, sdma ? peers : 0, block);
            expect("bytes_loadstore", after.loadstore - before.loadstore, sdma ? 0 : peers, block);
            expect("staged", after.staged - before.staged, 0, block);
        } else if (outcome == Outcome::declined && size > 1) {
            const bool staged = stages_ && (on_device(send) || on_device(recv));
            expect("served", after.served - before.served, 0, block);
            expect("bytes_sdma", after.sdma - before.sdma, 0, block);
            expect("staged", after.staged - before.staged, staged ? 1 : 0, block);
        }
        return code;
    }

private:
    struct Sample {
        explicit Sample(const Counters &counters)
            : served(counters["served"]), sdma(counters["bytes_sdma"]), loadstore(counters["bytes_loadstore"]),
              staged(counters["staged"]) {}
        unsigned long long served;
        unsigned long long sdma;
        unsigned long long loadstore;
        unsigned long long staged;
    };

    static bool on_device(const Side &side) {
        return side.buffer != nullptr && side.buffer->memory() == Memory::device;
    }
    void expect(const char *name, unsigned long long got, unsigned long long wanted, unsigned long long block) {
        job_.check(job_.counters.known(name) && got == wanted, "%s rose by %llu, not %llu, for %llu bytes per peer",
                   name, got, wanted, block);
    }

    Job &job_;
    std::string expect_;
    Control<size_t> alltoall_max_, allgather_max_;
    bool stages_;
    uint64_t iteration_ = 0;
};
