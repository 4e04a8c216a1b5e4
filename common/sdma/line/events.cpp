// SPDX-License-Identifier: BSD-3-Clause
#include "events.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <system_error>

#include <sys/eventfd.h>
#include <unistd.h>

#include "../base/base.hpp"
#include "line.hpp"

namespace sdma::line {

namespace {

// Between two looks: with copies on their way, and with none (then only new ones could move).
// Unmeasured on AMD hardware.
constexpr std::chrono::microseconds busy_interval{20}, idle_interval{5000};

} // namespace

Events::~Events() {
    stop();
    if (fd_ >= 0)
        close(fd_);
}

void Events::stop() {
    if (getpid() != process_)
        return; // the thread may have had the lock, and is not there to be joined
    {
        std::lock_guard lock(mutex_);
        stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable())
        thread_.join();
}

void Events::add(Line &line) {
    std::lock_guard lock(mutex_);
    lines_.insert(&line);
}

void Events::remove(Line &line) {
    std::lock_guard lock(mutex_);
    lines_.erase(&line);
}

void Events::progress() {
    std::lock_guard lock(mutex_);
    for (Line *line : lines_)
        line->progress();
}

int Events::fd() {
    std::lock_guard lock(mutex_);
    if (fd_ < 0)
        fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return fd_;
}

bool Events::arm() {
    if (fd() < 0)
        return false;
    std::lock_guard lock(mutex_);
    bool busy;
    if (stop_ || moved(busy)) {
        raise(); // it may be another's line, who sleeps
        return false;
    }
    uint64_t events;
    while (read(fd_, &events, sizeof events) < 0 && errno == EINTR)
        ;
    if (!thread_.joinable()) {
        try {
            thread_ = std::thread([this] { watch(); });
        } catch (const std::system_error &error) {
            log(0, "no thread to watch for events: %s", error.what());
            return false;
        }
    }
    armed_ = true;
    changed_.notify_all();
    return true;
}

// With the lock held, which keeps the lines.
bool Events::moved(bool &busy) {
    busy = false;
    for (Line *line : lines_) {
        if (line->moved())
            return true;
        busy = busy || line->busy();
    }
    return false;
}

void Events::watch() {
    using namespace std::chrono;
    std::unique_lock lock(mutex_);
    while (!stop_) {
        if (!armed_) {
            changed_.wait(lock);
            continue;
        }
        // Also when nothing moves: whoever polls a line notices that hardware is stuck.
        const auto start = steady_clock::now();
        const milliseconds longest(std::max(params().hardware_timeout / 4, 1));
        bool busy, seen;
        while (!stop_ && !(seen = moved(busy)) && !(busy && steady_clock::now() - start >= longest))
            changed_.wait_for(lock, busy ? busy_interval : idle_interval);
        armed_ = false;
        raise();
    }
}

void Events::raise() {
    const uint64_t one = 1;
    while (write(fd_, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

} // namespace sdma::line
