// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks as threads: each has a context, a GPU runtime of a fake node and a bootstrap.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "common/sdma/base/base.hpp"
#include "common/sdma/op/context.hpp"
#include "common/sdma/op/op.hpp"
#include "fake_node.hpp"

namespace ranks {

// Generous: sanitizers, few cores, many threads. A test that needs it has failed.
inline constexpr std::chrono::seconds patience{30};

// Calls `test` until it is true.
template <class Test> void until(Test test) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!test()) {
        if (std::chrono::steady_clock::now() > end)
            throw std::runtime_error("a wait did not end");
        std::this_thread::yield();
    }
}

// Allgathers among threads, one board per team.
class Board {
public:
    explicit Board(int size) : size_(size), posts_(static_cast<size_t>(size)) {}

    struct Place {
        Board *board;
        int rank;
        size_t round = 0;
        void *all = nullptr;
        size_t bytes = 0;
    };
    sdma_bootstrap_t bootstrap(Place &place) { return {place.rank, size_, &place, allgather, test}; }
    size_t exchanges() {
        std::lock_guard lock(mutex_);
        return posts_[0].size();
    }
    std::function<void(int rank, void *message)> spoil; // changes what a rank announces

private:
    static int allgather(void *context, const void *mine, void *all, size_t bytes) {
        auto &place = *static_cast<Place *>(context);
        place.all = all;
        place.bytes = bytes;
        std::lock_guard lock(place.board->mutex_);
        auto &posts = place.board->posts_[static_cast<size_t>(place.rank)];
        posts.emplace_back(static_cast<const char *>(mine), static_cast<const char *>(mine) + bytes);
        if (place.board->spoil)
            place.board->spoil(place.rank, posts.back().data());
        place.round = posts.size();
        return 0;
    }
    static int test(void *context) {
        auto &place = *static_cast<Place *>(context);
        std::lock_guard lock(place.board->mutex_);
        for (auto &posts : place.board->posts_)
            if (posts.size() < place.round)
                return 0;
        for (size_t p = 0; p < place.board->posts_.size(); p++)
            memcpy(static_cast<char *>(place.all) + p * place.bytes, place.board->posts_[p][place.round - 1].data(),
                   place.bytes);
        return 1;
    }

    int size_;
    std::mutex mutex_;
    std::vector<std::vector<std::vector<char>>> posts_;
};

class Barrier {
public:
    explicit Barrier(int size) : size_(size) {}
    void wait() {
        std::unique_lock lock(mutex_);
        const uint64_t round = round_;
        if (++here_ == size_) {
            here_ = 0;
            round_++;
            all_here_.notify_all();
        } else if (!all_here_.wait_for(lock, patience, [&] { return round_ != round; })) {
            throw std::runtime_error("a rank did not come to the barrier");
        }
    }

private:
    std::mutex mutex_;
    std::condition_variable all_here_;
    int size_, here_ = 0;
    uint64_t round_ = 0;
};

struct Team {
    Board::Place place{};
    std::optional<sdma::team::Team> team;
};

class World;

// What one thread has.
class Rank {
public:
    Rank(World &world, int rank);
    ~Rank();

    int rank, size;
    World &world;
    std::shared_ptr<fake::Runtime> gpu;
    std::atomic<bool> loaded{true}, started{true}; // the runtime, in this "process"
    std::optional<sdma::op::Context> context;
    Team main; // of all ranks

    // Set up to the end; the team's status.
    sdma_status_t set_up(Team &team, Board &board, int rank_in_team);
    void take_down(Team &team);

    std::unique_ptr<sdma::op::Op> start(const sdma_desc_t &desc) { return start(main, desc); }
    std::unique_ptr<sdma::op::Op> start(Team &team, const sdma_desc_t &desc) {
        return std::make_unique<sdma::op::Op>(*context, *team.team, desc);
    }
    static sdma_status_t finish(sdma::op::Op &op) {
        until([&] { return op.test() != SDMA_PENDING; });
        return op.test();
    }
    sdma_status_t run(const sdma_desc_t &desc) { return finish(*start(desc)); }
};

class World {
public:
    explicit World(int size, int devices = 1) : size(size), devices(devices), board(size), barrier(size) {}

    // Runs `body` on every rank after the set-up of its main team, all in threads.
    void run(const std::function<void(Rank &)> &body) {
        run_raw([&](Rank &rank) {
            ASSERT_EQ(SDMA_OK, rank.set_up(rank.main, board, rank.rank));
            body(rank);
            barrier.wait(); // nobody's memory goes before all are done
        });
    }
    void run_raw(const std::function<void(Rank &)> &body) {
        std::vector<std::thread> threads;
        for (int r = 0; r < size; r++)
            threads.emplace_back([&, r] {
                try {
                    Rank rank(*this, r);
                    body(rank);
                } catch (const std::exception &error) {
                    ADD_FAILURE() << "rank " << r << ": " << error.what();
                }
            });
        for (auto &thread : threads)
            thread.join();
    }

    const int size, devices;
    fake::Node node;
    Board board;
    Barrier barrier;
};

inline Rank::Rank(World &world, int rank) : rank(rank), size(world.size), world(world) {
    gpu = std::make_shared<fake::Runtime>(world.node, rank, world.devices);
    sdma::op::Platform platform;
    platform.gpu.loaded = [this] { return loaded.load(); };
    platform.gpu.open = [this](sdma_reason_t &reason) -> std::shared_ptr<sdma::gpu::Runtime> {
        reason = SDMA_REASON_no_runtime;
        return loaded && started ? gpu : nullptr;
    };
    platform.has_kernels = [](const std::string &) { return true; };
    context.emplace(platform);
}

inline Rank::~Rank() { take_down(main); }

inline sdma_status_t Rank::set_up(Team &team, Board &board, int rank_in_team) {
    team.place = {&board, rank_in_team};
    team.team.emplace(context->memory(), board.bootstrap(team.place), SDMA_REASON_none);
    sdma_status_t status = SDMA_PENDING;
    until([&] { return (status = team.team->test()) != SDMA_PENDING; });
    if (status == SDMA_OK)
        context->add(*team.team);
    return status;
}

inline void Rank::take_down(Team &team) {
    if (!team.team)
        return;
    context->remove(*team.team);
    team.team.reset();
}

// ---- data ----------------------------------------------------------------------------------------

// Byte `i` of what `from` sends to `to` in round `round`.
inline unsigned char pattern(int from, int to, size_t i, uint64_t round) {
    return static_cast<unsigned char>(i * 7 + i / 251 + static_cast<size_t>(from) * 31 + static_cast<size_t>(to) * 17 +
                                      round * 13 + 1);
}

inline void fill(char *block, int from, int to, size_t bytes, uint64_t round) {
    for (size_t i = 0; i < bytes; i++)
        block[i] = static_cast<char>(pattern(from, to, i, round));
}

inline bool matches(const char *block, int from, int to, size_t bytes, uint64_t round) {
    for (size_t i = 0; i < bytes; i++)
        if (static_cast<unsigned char>(block[i]) != pattern(from, to, i, round)) {
            ADD_FAILURE() << "round " << round << ": byte " << i << " of " << bytes << " from " << from << " to " << to
                          << " is wrong";
            return false;
        }
    return true;
}

inline sdma_desc_t alltoall(const void *send, void *recv, size_t bytes) {
    sdma_desc_t desc{};
    desc.kind = SDMA_ALLTOALL;
    desc.send = send;
    desc.recv = recv;
    desc.block_bytes = bytes;
    return desc;
}

inline sdma_desc_t allgather(const void *send, void *recv, size_t bytes) {
    sdma_desc_t desc = alltoall(send, recv, bytes);
    desc.kind = SDMA_ALLGATHER;
    return desc;
}

// One alltoall with check of every byte; returns its status.
inline sdma_status_t checked_alltoall(Rank &rank, char *send, char *recv, size_t bytes, uint64_t round) {
    for (int p = 0; p < rank.size; p++)
        fill(send + static_cast<size_t>(p) * bytes, rank.rank, p, bytes, round);
    memset(recv, 0x55, static_cast<size_t>(rank.size) * bytes);
    const sdma_status_t status = rank.run(alltoall(send, recv, bytes));
    if (status == SDMA_OK)
        for (int p = 0; p < rank.size; p++)
            matches(recv + static_cast<size_t>(p) * bytes, p, rank.rank, bytes, round);
    return status;
}

// A parameter, for the length of a test.
template <class T> class With {
public:
    With(T &parameter, T value) : parameter_(parameter), old_(parameter) { parameter = value; }
    ~With() { parameter_ = old_; }

private:
    T &parameter_;
    T old_;
};
template <class T, class U> With(T &, U) -> With<T>;

// Up to this size collectives go by load/store.
class With_loadstore_max {
public:
    explicit With_loadstore_max(size_t most)
        : alltoall_(sdma::params().loadstore_max_alltoall, most),
          allgather_(sdma::params().loadstore_max_allgather, most) {}

private:
    With<size_t> alltoall_, allgather_;
};

inline uint64_t counter(const char *name) {
    size_t count;
    const sdma_counter_t *rows = sdma_counters(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].name, name) == 0)
            return __atomic_load_n(rows[i].value, __ATOMIC_RELAXED);
    throw std::runtime_error("no such counter");
}

} // namespace ranks
