// SPDX-License-Identifier: BSD-3-Clause
//
// Runs twin kernels in tests: every lane of a grid is a coroutine on the calling thread.
#pragma once

#include <ucontext.h>

#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "kernels/twin.h"

namespace lanes {

struct Lane {
    ucontext_t context;
    ucontext_t *scheduler = nullptr;
    std::unique_ptr<char[]> stack;
    sdma_twin_position position{};
    const std::function<void()> *kernel = nullptr;
    bool ended = false;
};

inline constexpr size_t stack_bytes = 64 << 10;
inline constexpr uint64_t most_turns = 200'000'000; // far beyond what any test takes

inline void leave(void *lane) {
    auto *self = static_cast<Lane *>(lane);
    swapcontext(&self->context, self->scheduler);
}

inline void enter(unsigned high, unsigned low) {
    auto *self = reinterpret_cast<Lane *>(uint64_t{high} << 32 | low);
    (*self->kernel)();
    self->ended = true;
    swapcontext(&self->context, self->scheduler);
}

// What may return twice stands apart: compilers warn of variables around it.
[[gnu::noinline]] inline void prepare(Lane &lane) {
    getcontext(&lane.context);
    lane.context.uc_stack.ss_sp = lane.stack.get();
    lane.context.uc_stack.ss_size = stack_bytes;
    lane.context.uc_link = nullptr;
    auto address = reinterpret_cast<uint64_t>(&lane);
    makecontext(&lane.context, reinterpret_cast<void (*)()>(enter), 2, unsigned(address >> 32), unsigned(address));
}

[[gnu::noinline]] inline void resume(Lane &lane, ucontext_t &scheduler) {
    sdma_twin_here = &lane.position;
    swapcontext(&scheduler, &lane.context);
    sdma_twin_here = nullptr;
}

// Run `kernel` in workgroups x lanes coroutines until all have ended. `seed` 0: in turn; else in
// random order. `between` (an engine) runs after every turn.
inline void run(
    uint32_t workgroups, uint32_t lanes, const std::function<void()> &kernel, uint64_t seed = 0,
    const std::function<void()> &between = [] {}) {
    ucontext_t scheduler;
    std::vector<Lane> all(size_t{workgroups} * lanes);
    for (size_t i = 0; i < all.size(); ++i) {
        Lane &lane = all[i];
        lane.scheduler = &scheduler;
        lane.kernel = &kernel;
        lane.stack.reset(new char[stack_bytes]);
        lane.position = {uint32_t(i / lanes), workgroups, uint32_t(i % lanes), lanes, leave, &lane, nullptr};
        prepare(lane);
    }
    std::mt19937_64 random(seed);
    std::vector<size_t> live(all.size());
    for (size_t i = 0; i < live.size(); ++i) {
        live[i] = i;
    }
    for (uint64_t turn = 0; !live.empty(); ++turn) {
        if (turn == most_turns) {
            throw std::runtime_error("the kernel does not end");
        }
        size_t pick = (seed != 0 ? random() : turn) % live.size();
        Lane &lane = all[live[pick]];
        resume(lane, scheduler);
        if (turn % live.size() == 0) {
            std::this_thread::yield();
        }
        if (lane.ended) {
            live.erase(live.begin() + ptrdiff_t(pick));
        }
        between();
    }
}

} // namespace lanes
