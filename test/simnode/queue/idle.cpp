// SPDX-License-Identifier: BSD-3-Clause
#include "idle.hpp"

#include <mutex>
#include <sys/prctl.h>
#include <thread>

namespace simnode {

// Plain statics without destructors: workers outlive static destruction when a process exits
// without destroying its queues.
struct Watcher {
    static inline std::mutex lock;
    static inline Bell *bells = nullptr;
    static inline bool running = false;

    // True if some queue had work.
    static bool look() {
        bool rung = false;
        for (Bell *bell = bells; bell; bell = bell->next_) {
            if (!bell->parked_.load(std::memory_order_acquire) || bell->read() == bell->seen_)
                continue;
            bell->parked_.store(0, std::memory_order_release);
            bell->parked_.notify_one();
            rung = true;
        }
        return rung;
    }

    // Ends when the last queue is gone.
    static void run() {
        prctl(PR_SET_TIMERSLACK, 1000UL);
        constexpr long shortest = 10'000, longest = 1'000'000; // ns
        long sleep = shortest;
        for (;;) {
            {
                std::lock_guard guard(lock);
                if (!bells) {
                    running = false;
                    return;
                }
                sleep = look() ? shortest : sleep + sleep / 4;
            }
            timespec time{0, sleep < longest ? sleep : sleep = longest};
            nanosleep(&time, nullptr);
        }
    }
};

Bell::Bell(const uint64_t *doorbell) : doorbell_(doorbell) {
    std::lock_guard guard(Watcher::lock);
    next_ = Watcher::bells;
    Watcher::bells = this;
    if (!Watcher::running) {
        std::thread(Watcher::run).detach();
        Watcher::running = true;
    }
}

Bell::~Bell() {
    std::lock_guard guard(Watcher::lock);
    for (Bell **at = &Watcher::bells; *at; at = &(*at)->next_)
        if (*at == this) {
            *at = next_;
            return;
        }
}

void Bell::wait(uint64_t seen) {
    for (int spin = 0; spin < 256; spin++)
        if (read() != seen || stopped())
            return;
    seen_ = seen;
    parked_.store(1);
    // Sequentially consistent, as in stop(): either it sees us parked or we see it.
    if (!stopped_.load())
        parked_.wait(1, std::memory_order_acquire);
    parked_.store(0, std::memory_order_release);
}

void Bell::wait_stopped() {
    while (!stopped())
        stopped_.wait(false, std::memory_order_acquire);
}

void Bell::stop() {
    stopped_.store(true);
    stopped_.notify_all();
    parked_.store(0);
    parked_.notify_all();
}

} // namespace simnode
