// SPDX-License-Identifier: BSD-3-Clause
#include "report.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "simnode_api.h"
#include "test/simnode/simnode.hpp"

namespace simnode {
namespace {

// Set by sdma_simnode_reseed; until then the seed is the launcher's.
std::atomic<bool> reseeded{false};
std::atomic<uint64_t> new_seed{0};

uint64_t current_seed() {
    return reseeded.load(std::memory_order_acquire) ? new_seed.load(std::memory_order_relaxed) : options().chaos;
}

// splitmix64 (public domain, S. Vigna): one step of the state, and the mix of it.
uint64_t next(uint64_t &state) {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

int trace_file() {
    static const int file =
        options().trace.empty() ? -1 : open(options().trace.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    return file;
}

} // namespace

Counts &counts() {
    static Counts all;
    return all;
}

bool tracing() { return trace_file() >= 0; }

void trace(const std::string &line) {
    if (!tracing())
        return;
    // One write per line: O_APPEND keeps lines of several processes whole.
    std::string text = "pid=" + std::to_string(getpid()) + " " + line + "\n";
    if (write(trace_file(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
        static std::atomic<bool> said{false};
        if (!said.exchange(true))
            complain("trace file %s: cannot write", options().trace.c_str());
    }
}

void maybe_die() {
    static std::atomic<int64_t> number{0};
    static const Fault *const die = fault("die");
    if (!die || number.fetch_add(1) + 1 != die->at)
        return;
    complain("fault die: killing the process at packet or dispatch %lld", static_cast<long long>(die->at));
    kill(getpid(), SIGKILL);
}

Chaos::Chaos(uint64_t worker) : worker_(worker) {}

bool Chaos::on() {
    uint64_t seed = current_seed();
    if (seed != seed_) {
        seed_ = seed;
        state_ = seed ^ (worker_ * 0xd1342543de82ef95);
        next(state_);
    }
    return seed_ != 0;
}

uint64_t Chaos::pick(uint64_t below) { return next(state_) % below; }

void Chaos::delay() {
    uint64_t die = pick(64);
    if (die < 32)
        return;
    if (die < 48) {
        for (uint64_t turns = pick(8); turns; turns--)
            sched_yield();
        return;
    }
    timespec time{0, static_cast<long>(1000 * (die < 63 ? pick(200) : pick(3000)))};
    nanosleep(&time, nullptr);
}

} // namespace simnode

void sdma_simnode_counts(struct sdma_simnode_counts *result, uint64_t bytes) {
    using simnode::Op;
    simnode::Counts &all = simnode::counts();
    auto of = [&](Op op) { return all.packets[static_cast<size_t>(op)].load(); };
    struct sdma_simnode_counts now {};
    now.nop = of(Op::nop);
    now.copy = of(Op::copy);
    now.copy_rect = of(Op::copy_rect);
    now.write = of(Op::write);
    now.fence = of(Op::fence);
    now.trap = of(Op::trap);
    now.poll = of(Op::poll);
    now.hdp_flush = of(Op::hdp_flush);
    now.atomic = of(Op::atomic);
    now.fill = of(Op::fill);
    now.timestamp = of(Op::timestamp);
    now.cache = of(Op::cache);
    now.copied_bytes = all.copied_bytes;
    now.doorbells = all.doorbells;
    now.refused = all.refused;
    now.dispatches = all.dispatches;
    now.barriers = all.barriers;
    now.vendor = all.vendor;
    now.own_copy = all.own_copy;
    now.own_fence = all.own_fence;
    now.own_atomic = all.own_atomic;
    now.own_doorbells = all.own_doorbells;
    now.own_copied_bytes = all.own_copied_bytes;
    memcpy(result, &now, std::min<uint64_t>(bytes, sizeof now));
}

void sdma_simnode_reseed(uint64_t seed) {
    simnode::new_seed.store(seed, std::memory_order_relaxed);
    simnode::reseeded.store(true, std::memory_order_release);
}
