// SPDX-License-Identifier: BSD-3-Clause
//
// Every one-sided function of MPI, on every kind of window, with every synchronisation, from every kind of memory,
// against a model in host memory: random operations, after which every byte of every window and buffer is checked.
//   windows=NAME,... (rma_window.hpp)   sync=NAME,...   epochs=N per pair of them (default 4)   seed=N
//   max=BYTES of one operation (default 1100001)   origins=host|device|pinned|all
//   component=none: a job without ours, which gets host memory only, unless told otherwise
//   served=1: the library must have counted puts and gets
#include "test/mpi/rma_window.hpp"

namespace {

enum class Sync { fence, pscw, lock, lock_all, flush, flush_all, flush_local, flush_local_all, request };
constexpr const char *sync_names[] = {
    "fence", "pscw", "lock", "lock_all", "flush", "flush_all", "flush_local", "flush_local_all", "request"};

class Test {
public:
    Test(Job &job, const rma::Kind &kind, Sync sync, uint64_t seed, std::vector<Memory> memories)
        : job_(job), sync_(sync), seed_(seed), memories_(std::move(memories)), units_(units(kind)),
          model_(job.size, job.number("max", 1100001), units_), window_(job, kind, model_.bytes(), units_),
          random_(seed * 31 + static_cast<uint64_t>(job.rank)), defects_(defects(kind)) {
        std::snprintf(where_, sizeof where_, "%s %s seed=%" PRIu64, kind.name, sync_names[static_cast<size_t>(sync)],
                      seed);
        window_.store(model_.window(job.rank));
        MPI_Barrier(MPI_COMM_WORLD);
    }

    void epoch(uint64_t number) {
        epoch_ = number;
        round_ = 0;
        synchronise();
        MPI_Barrier(MPI_COMM_WORLD); // all unlocked
        const rma::Bytes now = window_.load();
        const rma::Bytes &image = model_.window(job_.rank);
        const auto at = std::mismatch(now.begin(), now.end(), image.begin());
        job_.check(at.first == now.end(), "%s: epoch %" PRIu64 ": byte %td of %zu of the window is %d, not %d", where_,
                   number, at.first - now.begin(), now.size(), at.first == now.end() ? 0 : *at.first,
                   at.first == now.end() ? 0 : *at.second);
        job_.check(window_.guards_intact(), "%s: epoch %" PRIu64 ": bytes beside the window changed", where_, number);
        MPI_Barrier(MPI_COMM_WORLD); // nobody begins while others still look
    }

private:
    using Flights = std::vector<std::unique_ptr<rma::Flight>>;

    // Host memory is the business of Open MPI's own component.
    static rma::Defects defects(const rma::Kind &kind) {
        if (kind.place == rma::Place::device) {
            return rma::Defects::none;
        }
        return kind.flavor == rma::Flavor::shared     ? rma::Defects::sm
               : OMPI_MAJOR_VERSION >= 5              ? rma::Defects::rdma_5
               : kind.flavor == rma::Flavor::allocate ? rma::Defects::rdma_allocate
                                                      : rma::Defects::rdma;
    }
    // Different ones, where the window allows it.
    std::vector<size_t> units(const rma::Kind &kind) const {
        std::vector<size_t> units(static_cast<size_t>(job_.size), 1);
        for (size_t r = 0; r < units.size() && kind.flavor != rma::Flavor::dynamic; ++r) {
            units[r] = (seed_ + r) % 3 == 0 ? 8 : 1;
        }
        return units;
    }

    // The next round's operations: ours are ready to be issued, everybody's are in the model.
    Flights draw(const std::vector<std::vector<bool>> &pairs = {}) {
        Flights flights;
        const rma::Model::Round round{(seed_ * 1000 + epoch_) * 10 + round_++, epoch_, pairs, memories_, 6, defects_};
        for (rma::Operation &operation : model_.play(round, job_.rank)) {
            flights.push_back(std::make_unique<rma::Flight>(std::move(operation)));
        }
        return flights;
    }
    void issue(const Flights &flights, bool requests = false) {
        for (const auto &flight : flights) {
            flight->issue(window_, requests);
        }
    }
    // The last first: who has come back too early has had the least time for it.
    void check(const Flights &flights) {
        for (auto flight = flights.rbegin(); flight != flights.rend(); ++flight) {
            (*flight)->check(job_, where_);
        }
    }

    void synchronise() {
        switch (sync_) {
        case Sync::fence:
            return fences();
        case Sync::pscw:
            return groups();
        case Sync::lock:
            return locks();
        case Sync::lock_all: {
            MPI_Win_lock_all(epoch_ % 2 == 0 ? 0 : MPI_MODE_NOCHECK, window_.handle);
            const Flights flights = draw();
            issue(flights);
            MPI_Win_unlock_all(window_.handle);
            return check(flights);
        }
        case Sync::flush:
        case Sync::flush_all:
            return flushes();
        case Sync::flush_local:
        case Sync::flush_local_all:
            return local_flushes();
        case Sync::request:
            return requests();
        }
    }

    void fences() {
        MPI_Win_fence(MPI_MODE_NOPRECEDE, window_.handle);
        for (int round = 0; round < 2; ++round) {
            const Flights flights = draw();
            issue(flights);
            MPI_Win_fence(round == 1 ? MPI_MODE_NOSUCCEED : 0, window_.handle);
            check(flights);
        }
    }

    // Everybody opens to some, and accesses those who have opened to it.
    void groups() {
        Random common(seed_ * 77 + epoch_);
        const auto ranks = static_cast<size_t>(job_.size);
        const auto me = static_cast<size_t>(job_.rank);
        std::vector<std::vector<bool>> pairs(ranks, std::vector<bool>(ranks));
        for (size_t i = 0; i < ranks * ranks; ++i) {
            pairs[i / ranks][i % ranks] = common.below(4) != 0;
        }
        std::vector<int> origins;
        std::vector<int> targets;
        for (size_t r = 0; r < ranks; ++r) {
            if (pairs[me][r]) {
                targets.push_back(static_cast<int>(r));
            }
            if (pairs[r][me]) {
                origins.push_back(static_cast<int>(r));
            }
        }
        MPI_Group world = MPI_GROUP_NULL;
        MPI_Group from = MPI_GROUP_NULL;
        MPI_Group to = MPI_GROUP_NULL;
        MPI_Comm_group(MPI_COMM_WORLD, &world);
        MPI_Group_incl(world, static_cast<int>(origins.size()), origins.data(), &from);
        MPI_Group_incl(world, static_cast<int>(targets.size()), targets.data(), &to);
        const Flights flights = draw(pairs);
        MPI_Win_post(from, 0, window_.handle);
        MPI_Win_start(to, 0, window_.handle);
        issue(flights);
        MPI_Win_complete(window_.handle);
        check(flights);
        if (epoch_ % 2 == 0) {
            MPI_Win_wait(window_.handle);
        } else {
            for (int done = 0; done == 0;) {
                MPI_Win_test(window_.handle, &done);
            }
        }
        for (MPI_Group *group : {&world, &from, &to}) {
            MPI_Group_free(group);
        }
    }

    // One target after the other, each rank in an order of its own.
    void locks() {
        const Flights flights = draw();
        const int first = static_cast<int>(random_.below(static_cast<uint64_t>(job_.size)));
        for (int i = 0; i < job_.size; ++i) {
            const int target = (first + i) % job_.size;
            MPI_Win_lock(random_.below(2) == 0 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0, window_.handle);
            for (const auto &flight : flights) {
                if (flight->operation.target == target) {
                    flight->issue(window_, false);
                }
            }
            MPI_Win_unlock(target, window_.handle);
        }
        check(flights);
    }

    // What a round has written the next one reads, with nothing but a flush between them.
    void flushes() {
        MPI_Win_lock_all(0, window_.handle);
        for (int round = 0; round < 3; ++round) {
            const Flights flights = draw();
            issue(flights);
            if (sync_ == Sync::flush_all) {
                MPI_Win_flush_all(window_.handle);
            } else {
                for (int target = 0; target < job_.size; ++target) {
                    MPI_Win_flush(target, window_.handle);
                }
            }
            check(flights);
        }
        MPI_Win_unlock_all(window_.handle);
    }

    // Buffers are reused while operations may still be on their way.
    void local_flushes() {
        MPI_Win_lock_all(0, window_.handle);
        for (int round = 0; round < 2; ++round) {
            const Flights flights = draw();
            issue(flights);
            if (sync_ == Sync::flush_local_all) {
                MPI_Win_flush_local_all(window_.handle);
            } else {
                for (int target = 0; target < job_.size; ++target) {
                    MPI_Win_flush_local(target, window_.handle);
                }
            }
            check(flights);
            for (const auto &flight : flights) {
                flight->spoil();
            }
            MPI_Win_flush_all(window_.handle);
        }
        MPI_Win_unlock_all(window_.handle);
    }

    void requests() {
        MPI_Win_lock_all(0, window_.handle);
        for (int round = 0; round < 2; ++round) {
            const Flights flights = draw();
            issue(flights, true);
            std::vector<bool> waited;
            for (const auto &flight : flights) {
                waited.push_back(flight->wait());
                if (waited.back()) {
                    flight->check(job_, where_);
                    flight->spoil();
                }
            }
            MPI_Win_flush_all(window_.handle);
            for (size_t i = 0; i < flights.size(); ++i) {
                if (!waited[i]) {
                    flights[i]->check(job_, where_);
                }
            }
        }
        MPI_Win_unlock_all(window_.handle);
    }

    Job &job_;
    Sync sync_;
    uint64_t seed_;
    std::vector<Memory> memories_;
    std::vector<size_t> units_;
    rma::Model model_;
    rma::Window window_;
    Random random_; // this rank's own
    rma::Defects defects_;
    char where_[96];
    uint64_t epoch_ = 0, round_ = 0;
};

// Is `name` in a list with commas?
bool listed(const std::string &list, const std::string &name) {
    return list == "all" || ("," + list + ",").find("," + name + ",") != std::string::npos;
}

} // namespace

int main(int argc, char **argv) {
    Job job(argc, argv);
    const bool plain = job.option("component", "loaded") == "none";
    const bool gpu = Device::get().select(job.rank);
    const std::string windows =
        job.option("windows", plain || !gpu ? "create-host,allocate,shared,dynamic-host" : "all");
    const std::string origins = job.option("origins", plain || !gpu ? "host" : "all");
    std::vector<Memory> memories;
    for (const auto &[name, memory] :
         {std::pair{"host", Memory::host}, {"device", Memory::device}, {"pinned", Memory::pinned}}) {
        if (listed(origins, name)) {
            memories.push_back(memory);
        }
    }
    uint64_t seed = job.number("seed", 1);
    size_t tested = 0;
    for (const rma::Kind &kind : rma::kinds) {
        for (size_t sync = 0; sync < std::size(sync_names); ++sync, ++seed) {
            if (!listed(windows, kind.name) || !listed(job.option("sync", "all"), sync_names[sync])) {
                continue;
            }
            Test test(job, kind, static_cast<Sync>(sync), seed, memories);
            for (uint64_t epoch = 0; epoch < job.number("epochs", 4); ++epoch) {
                test.epoch(epoch);
            }
            ++tested;
        }
    }
    job.check(tested > 0 && !memories.empty(), "nothing was tested");
    if (job.number("served", 0) != 0) {
        job.check(job.counters["puts"] > 0 && job.counters["gets"] > 0, "puts %llu, gets %llu", job.counters["puts"],
                  job.counters["gets"]);
    }
    return job.finish("rma");
}
