// SPDX-License-Identifier: BSD-3-Clause
//
// The ways in which a process, its GPU runtime and its communicators begin and end.
//   mode=reset           the application resets its GPU before MPI_Finalize
//   mode=atexit          MPI_Finalize runs in an exit handler, after main
//   mode=fork            a child process comes and goes between operations
//   mode=communicators   rounds=N (default 200) communicators over the same live buffers: no descriptor, no mapping
//                        is left behind
//   mode=waits           waits for the whole device right after operations: the fastest of them takes less than
//                        most=MICROSECONDS (default 500000), whatever of ours is on the device
// resident=1: the resident kernel must have issued operations.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "test/depth/process.hpp"
#include "test/mpi/ledger.hpp"

namespace {

size_t mappings() {
    std::ifstream maps("/proc/self/maps");
    size_t count = 0;
    for (std::string line; std::getline(maps, line);) {
        ++count;
    }
    return count;
}

class Work {
public:
    explicit Work(Job &job)
        : ledger_(job), from_(bytes * static_cast<size_t>(job.size), Memory::device),
          to_(from_.bytes(), Memory::device) {}
    void operator()(MPI_Comm comm) {
        for (const Kind kind : {Kind::alltoall, Kind::allgather}) {
            ledger_.run(comm, kind, {&from_, 0, MPI_BYTE, bytes}, {&to_, 0, MPI_BYTE, bytes}, ledger_.eligible());
        }
    }

private:
    static constexpr int bytes = 140000;
    Ledger ledger_;
    Buffer from_;
    Buffer to_;
};

void communicators(Job &job) {
    Work work(job);
    const uint64_t rounds = job.number("rounds", 200);
    size_t fds = 0;
    size_t maps = 0;
    for (uint64_t round = 0; round < rounds; ++round) {
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        work(comm);
        MPI_Comm_free(&comm);
        if (round == rounds / 4) {
            fds = descriptors_held();
            maps = mappings();
        }
    }
    job.check(descriptors_held() <= fds + 4, "%zu file descriptors after %zu", descriptors_held(), fds);
    job.check(mappings() <= maps + 16, "%zu mappings after %zu", mappings(), maps);
}

void fork_between(Job &job) {
    Work work(job);
    for (int i = 0; i < 5; ++i) {
        work(MPI_COMM_WORLD);
        const pid_t child = fork();
        if (child == 0) {
            _exit(0);
        }
        int status = -1;
        waitpid(child, &status, 0);
        job.check(status == 0, "the child ended with %d", status);
    }
    work(MPI_COMM_WORLD);
}

void waits(Job &job) {
    using Clock = std::chrono::steady_clock;
    constexpr int bytes = 140000;
    const auto all = static_cast<size_t>(bytes) * static_cast<size_t>(job.size);
    const Buffer from(all, Memory::device);
    const Buffer to(all, Memory::device);
    auto synchronize = Clock::duration::max();
    auto release = Clock::duration::max();
    for (int round = 0; round < 20; ++round) {
        MPI_Alltoall(from.data(), bytes, MPI_BYTE, to.data(), bytes, MPI_BYTE, MPI_COMM_WORLD);
        auto start = Clock::now();
        job.check(hipDeviceSynchronize() == hipSuccess, "hipDeviceSynchronize failed");
        synchronize = std::min(synchronize, Clock::now() - start);
        void *other = Device::get().alloc(all);
        MPI_Alltoall(from.data(), bytes, MPI_BYTE, to.data(), bytes, MPI_BYTE, MPI_COMM_WORLD);
        start = Clock::now();
        Device::get().free(other);
        release = std::min(release, Clock::now() - start);
    }
    const auto us = [](Clock::duration time) {
        return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(time).count());
    };
    const uint64_t most = job.number("most", 500000);
    job.check(us(synchronize) < most, "hipDeviceSynchronize takes %" PRIu64 " us", us(synchronize));
    job.check(us(release) < most, "hipFree takes %" PRIu64 " us", us(release));
    if (job.rank == 0) {
        std::printf("hipDeviceSynchronize %" PRIu64 " us, hipFree %" PRIu64 " us\n", us(synchronize), us(release));
    }
}

} // namespace

int main(int argc, char **argv) {
    static Job job(argc, argv); // outlives main for the exit handler
    Device::get().select(job.rank);
    const std::string mode = job.option("mode", "");
    if (mode == "communicators") {
        communicators(job);
    } else if (mode == "waits") {
        waits(job);
    } else if (mode == "fork") {
        fork_between(job);
    } else if (mode == "reset") {
        static auto *const work = new Work(job); // its buffers go with the GPU's memory
        (*work)(MPI_COMM_WORLD);
        job.check(hipDeviceReset() == hipSuccess, "hipDeviceReset failed");
    } else if (mode == "atexit") {
        { Work{job}(MPI_COMM_WORLD); }
        return std::atexit([] { std::_Exit(job.finish("lifetime")); });
    } else {
        job.check(false, "no such mode: \"%s\"", mode.c_str());
    }
    if (job.number("resident", 0) != 0) {
        job.check(job.counters["resident"] > 0, "no operation was issued by the resident kernel");
    }
    return job.finish("lifetime");
}
