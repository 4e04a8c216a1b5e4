// SPDX-License-Identifier: BSD-3-Clause
//
// How workers wait. Idle loops of the simulator only: no test synchronises by them.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>
#include <sched.h>

namespace simnode {

// For waits on memory that anybody may write: spin, yield, then sleep up to a millisecond.
class Backoff {
public:
    explicit Backoff(unsigned spins = 64) : spins_(spins) {}
    void pause() {
        turn_++;
        if (turn_ <= spins_)
            return;
        constexpr unsigned yields = 32;
        unsigned turn = turn_ - spins_ - 1;
        if (turn < yields) {
            sched_yield();
            return;
        }
        unsigned doubled = turn - yields < 7 ? turn - yields : 7;
        timespec time{0, 8000L << doubled};
        nanosleep(&time, nullptr);
    }
    void reset() { turn_ = 0; }

private:
    unsigned spins_;
    unsigned turn_ = 0;
};

// The doorbell of one queue. All parked queues of a process are watched by one thread, so that an
// idle node costs one poller per process and not one per queue.
class Bell {
public:
    explicit Bell(const uint64_t *doorbell);
    ~Bell();
    Bell(const Bell &) = delete;
    Bell &operator=(const Bell &) = delete;

    uint64_t read() const { return __atomic_load_n(doorbell_, __ATOMIC_ACQUIRE); }
    // Returns when the doorbell is not `seen` any more, or stopped. The worker's thread only.
    void wait(uint64_t seen);
    // Returns when stopped: a hung engine.
    void wait_stopped();
    void stop();
    bool stopped() const { return stopped_.load(std::memory_order_acquire); }

private:
    friend struct Watcher;
    const uint64_t *doorbell_;
    std::atomic<bool> stopped_{false};
    std::atomic<uint32_t> parked_{0};
    uint64_t seen_ = 0; // written before parked_, read by the watcher after it
    Bell *next_ = nullptr;
};

} // namespace simnode
