// SPDX-License-Identifier: BSD-3-Clause
#include "phase.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <iterator>

#include "base.hpp"

namespace sdma {

namespace {

constexpr const char *names[] = {"segments", "runtime", "pinning", "exports", "attachments", "queues", "kernels"};
static_assert(std::size(names) == static_cast<size_t>(Phase::count));

constinit std::atomic<int64_t> spent_ns[std::size(names)];
constinit thread_local Timed *innermost = nullptr;

int64_t now_ns() {
    using namespace std::chrono;
    return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

} // namespace

Timed::Timed(Phase phase) : phase_(phase), outer_(innermost), start_(now_ns()) { innermost = this; }

Timed::~Timed() {
    const int64_t passed = now_ns() - start_;
    spent_ns[static_cast<size_t>(phase_)].fetch_add(passed - inner_, std::memory_order_relaxed);
    innermost = outer_;
    if (outer_)
        outer_->inner_ += passed;
}

void report_setup(uint32_t rank) {
    static std::atomic<bool> reported{false};
    if (reported.load(std::memory_order_relaxed) || reported.exchange(true))
        return;
    constexpr double ns_per_ms = 1e6;
    char text[256];
    int length = 0;
    int64_t sum = 0;
    for (size_t i = 0; i < std::size(names); i++) {
        const int64_t spent = spent_ns[i].load(std::memory_order_relaxed);
        sum += spent;
        length += snprintf(text + length, sizeof text - static_cast<size_t>(length), "%s%s %.1f", i > 0 ? ", " : "",
                           names[i], static_cast<double>(spent) / ns_per_ms);
    }
    log(1, "rank %u: set-up of the first operation took %.1f ms: %s", rank, static_cast<double>(sum) / ns_per_ms, text);
}

} // namespace sdma
