// SPDX-License-Identifier: BSD-3-Clause
//
// What operations hold, and give back.
//   mode=buffers       rounds=N (default 200) operations, each with new buffers of bytes=N per rank; the sum must be
//                      more than the GPU has, so that memory that does not return is missed
//   mode=kept          rounds=N operations with new small buffers of bytes=N per rank: what ROCr keeps is bounded
//   mode=dups          rounds=N communicators, made, used and freed
//   mode=alive         count=N communicators in use at the same time, then none
//   mode=vram          percent=N of a GPU's memory: collective, free, and the same again in another shape
//   mode=descriptors   spare=N more descriptors than are open before the first operation: served or declined, no errors
//   mode=same-address  memory that comes back at the address of another one, larger and smaller
#include <sys/resource.h>

#include <algorithm>
#include <memory>

#include "test/depth/process.hpp"
#include "test/mpi/ledger.hpp"

namespace {

// What may come and go without being a leak: caches of allocators, of MPI and of HIP that are still filling.
constexpr size_t slack_descriptors = 4;
constexpr size_t slack_mappings = 24;
constexpr size_t slack_bytes = size_t{2} << 20U;

class Flat {
public:
    explicit Flat(Job &job) : job_(job) {}
    void begin() { before_ = Held(); }
    void end(const char *what) {
        const Held after;
        const bool flat = after.descriptors <= before_.descriptors + slack_descriptors &&
                          after.threads <= before_.threads && after.mappings <= before_.mappings + slack_mappings &&
                          after.segments <= before_.segments &&
                          after.host_bytes() <= before_.host_bytes() + slack_bytes;
        job_.check(flat, "%s: %s, before: %s", what, after.text().c_str(), before_.text().c_str());
        if (job_.rank == 0) {
            std::printf("%s: %s, before: %s\n", what, after.text().c_str(), before_.text().c_str());
        }
    }

private:
    Job &job_;
    Held before_;
};

// Peers let go of what was freed at their next progress, which a few barriers give everybody.
void let_peers_progress() {
    for (int i = 0; i < 50; ++i) {
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

struct Gpu_memory {
    Gpu_memory() {
        if (hipMemGetInfo(&available, &total) != hipSuccess) {
            available = total = 0;
        }
    }
    size_t available = 0;
    size_t total = 0;
};

void buffers(Job &job) {
    Ledger ledger(job);
    Flat flat(job);
    const uint64_t rounds = job.number("rounds", 200);
    const auto bytes = static_cast<int>(job.number("bytes", 700000));
    const size_t all = static_cast<size_t>(bytes) * static_cast<size_t>(job.size);
    const bool enough = job.check(2 * all * rounds > 2 * Gpu_memory().total,
                                  "%" PRIu64 " rounds of 2 x %zu bytes prove nothing on a GPU of %zu bytes", rounds,
                                  all, Gpu_memory().total);
    for (uint64_t round = 0; enough && round < rounds; ++round) {
        // Every third allocation has a neighbour that stays, so that addresses do not repeat.
        Buffer from(all, Memory::device);
        Buffer between(round % 3 == 0 ? all / 2 + 1 : 1, Memory::device);
        Buffer to(all + round % 5 * 4096, Memory::device);
        // Checked on the way: every byte of some rounds, that it was served in all.
        const Kind kind = round % 2 == 0 ? Kind::alltoall : Kind::allgather;
        ledger.run(MPI_COMM_WORLD, kind, {&from, 0, MPI_BYTE, bytes}, {&to, 0, MPI_BYTE, bytes}, ledger.eligible());
        if (round == rounds / 4) {
            let_peers_progress();
            flat.begin();
        }
    }
    let_peers_progress();
    flat.end("after new buffers in each operation");
    const auto mapped = job.counters["attached"] - job.counters["detached"];
    job.check(mapped <= 4ULL * static_cast<unsigned>(job.size), "%llu registrations of peers are still mapped", mapped);
}

void kept(Job &job) {
    Ledger ledger(job);
    const Control<size_t> bound("coll_sdma_kept_max");
    const auto bytes = static_cast<int>(job.number("bytes", 200000));
    const size_t all = static_cast<size_t>(bytes) * static_cast<size_t>(job.size);
    const size_t before = Gpu_memory().available;
    for (uint64_t round = 0; round < job.number("rounds", 300); ++round) {
        const Buffer between(all / 2, Memory::device); // in the block of another one
        Buffer from(all, Memory::device);
        Buffer to(all, Memory::device);
        ledger.run(MPI_COMM_WORLD, Kind::alltoall, {&from, 0, MPI_BYTE, bytes}, {&to, 0, MPI_BYTE, bytes},
                   Outcome::any);
    }
    let_peers_progress();
    const size_t lost = before - std::min(before, Gpu_memory().available);
    constexpr size_t blocks_in_use = size_t{8} << 20U;
    job.check(lost <= bound.read() + blocks_in_use, "%zu bytes of GPU memory are lost, more than %zu", lost,
              bound.read());
    job.check(job.counters["served"] > 0 && job.counters["declined_kept"] + job.counters["declined_peer_declined"] > 0,
              "nothing was served or nothing declined: %s", job.counters.text("declined").c_str());
}

class Work {
public:
    explicit Work(Job &job)
        : ledger_(job), from_(bytes * static_cast<size_t>(job.size), Memory::device),
          to_(from_.bytes(), Memory::device) {}
    void operator()(MPI_Comm comm) {
        const Kind kind = ++turns_ % 2 == 0 ? Kind::alltoall : Kind::allgather;
        ledger_.run(comm, kind, {&from_, 0, MPI_BYTE, bytes}, {&to_, 0, MPI_BYTE, bytes}, ledger_.eligible());
    }
    // What MPI and HIP need for themselves.
    void host(MPI_Comm comm) {
        to_.store(0, from_.load(0, from_.bytes()));
        std::vector<uint8_t> from(from_.bytes());
        std::vector<uint8_t> to(to_.bytes());
        MPI_Scatter(from.data(), bytes, MPI_BYTE, to.data(), bytes, MPI_BYTE, 0, comm);
        MPI_Gather(from.data(), bytes, MPI_BYTE, to.data(), bytes, MPI_BYTE, 0, comm);
        MPI_Barrier(comm);
    }

private:
    static constexpr int bytes = 140000;
    Ledger ledger_;
    Buffer from_;
    Buffer to_;
    uint64_t turns_ = 0;
};

void dups(Job &job) {
    Work work(job);
    Flat flat(job);
    const uint64_t rounds = job.number("rounds", 200);
    for (uint64_t round = 0; round < rounds; ++round) {
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        work(comm);
        MPI_Comm_free(&comm);
        if (round == rounds / 4) {
            flat.begin();
        }
    }
    flat.end("after communicators made and freed");
}

void alive(Job &job) {
    Work work(job);
    Flat flat(job);
    const uint64_t count = job.number("count", 40);
    std::vector<MPI_Comm> comms(count);
    work(MPI_COMM_WORLD);
    for (int again = 0; again < 2; ++again) {
        const Held none;
        for (MPI_Comm &comm : comms) {
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
            work(comm);
        }
        for (const MPI_Comm comm : comms) {
            work(comm);
        }
        const Held all;
        if (job.rank == 0) {
            std::printf("%" PRIu64 " communicators: %s, none: %s\n", count, all.text().c_str(), none.text().c_str());
        }
        // A communicator has one small segment per rank, mapped by the CPU and for GPUs, and nothing else of its own.
        job.check(all.descriptors <= none.descriptors + slack_descriptors, "%zu descriptors after %zu", all.descriptors,
                  none.descriptors);
        job.check(all.threads <= none.threads, "%zu threads after %zu", all.threads, none.threads);
        job.check(all.segments <= none.segments + 2 * count * static_cast<size_t>(job.size), "%zu segments after %zu",
                  all.segments, none.segments);
        for (MPI_Comm &comm : comms) {
            MPI_Comm_free(&comm);
        }
        // What the first round leaves is what MPI and ROCr keep for the next one.
        if (again == 0) {
            flat.begin();
        }
    }
    flat.end("after many communicators at once");
}

// A piece that fits once peers have let go of what was freed: they do at their next progress.
std::unique_ptr<Buffer> must_return(Job &job, size_t bytes) {
    for (int turns = 0; turns < 200; ++turns) {
        void *memory = nullptr;
        const bool good = hipMalloc(&memory, bytes) == hipSuccess;
        if (good) {
            (void)hipFree(memory);
        }
        int mine = good ? 1 : 0;
        int all = 0;
        MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        if (all == 1) {
            return std::make_unique<Buffer>(bytes, Memory::device);
        }
    }
    job.check(false, "%zu bytes cannot be allocated again", bytes);
    return nullptr;
}

// Every rank has a GPU of its own.
void vram(Job &job) {
    Ledger ledger(job);
    const size_t part = Gpu_memory().total / 100 * job.number("percent", 60);
    const size_t ranks = static_cast<size_t>(job.size);
    for (int round = 0; round < 3; ++round) {
        if (must_return(job, part) == nullptr) {
            return;
        }
        {
            const auto bytes = static_cast<int>(part / 2 / ranks);
            Buffer from(part / 2, Memory::device);
            Buffer to(part / 2, Memory::device);
            ledger.run(MPI_COMM_WORLD, Kind::alltoall, {&from, 0, MPI_BYTE, bytes}, {&to, 0, MPI_BYTE, bytes},
                       ledger.eligible());
        }
        // In one piece, which does not fit beside half of it.
        const std::unique_ptr<Buffer> whole = must_return(job, part);
        if (whole == nullptr) {
            return;
        }
        const auto bytes = static_cast<int>(std::min<size_t>(part / 2 / ranks, 300000));
        ledger.run(MPI_COMM_WORLD, Kind::alltoall, {whole.get(), 0, MPI_BYTE, bytes},
                   {whole.get(), part / 2, MPI_BYTE, bytes}, ledger.eligible());
    }
}

void descriptors(Job &job) {
    Work work(job);
    work.host(MPI_COMM_WORLD);
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    // The folder's own two entries, and the descriptor that counts them, are in the count.
    limit.rlim_cur = entries("/proc/self/fd") - 3 + job.number("spare", 0);
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int i = 0; i < 4; ++i) {
        work(MPI_COMM_WORLD);
    }
    if (job.rank == 0) {
        std::printf("%llu of 4 operations served;%s\n", job.counters["served"], job.counters.text("declined").c_str());
    }
}

void same_address(Job &job) {
    Ledger ledger(job);
    const size_t ranks = static_cast<size_t>(job.size);
    Buffer from(1100000 * ranks, Memory::device);
    uint64_t same = 0;
    const void *last = nullptr;
    for (const int bytes : {500000, 500000, 1100000, 200000, 500000, 1000, 1100000, 500000, 499999, 500001}) {
        Buffer to(static_cast<size_t>(bytes) * ranks, Memory::device);
        same += to.data() == last ? 1 : 0;
        last = to.data();
        for (const Kind kind : {Kind::alltoall, Kind::allgather}) {
            ledger.run(MPI_COMM_WORLD, kind, {&from, 0, MPI_BYTE, bytes}, {&to, 0, MPI_BYTE, bytes}, ledger.eligible());
        }
    }
    job.check(same > 0, "no allocation came back at the same address: nothing was tested");
}

} // namespace

int main(int argc, char **argv) {
    Job job(argc, argv);
    Device::get().select(job.rank);
    const struct {
        const char *name;
        void (*run)(Job &);
    } modes[] = {
        {"buffers", buffers},           {"dups", dups}, {"alive", alive}, {"descriptors", descriptors}, {"vram", vram},
        {"same-address", same_address}, {"kept", kept}};
    const std::string wanted = job.option("mode", "");
    const auto *mode =
        std::find_if(std::begin(modes), std::end(modes), [&](const auto &m) { return wanted == m.name; });
    if (job.check(mode != std::end(modes), "no such mode: \"%s\"", wanted.c_str())) {
        mode->run(job);
    }
    return job.finish("resources");
}
