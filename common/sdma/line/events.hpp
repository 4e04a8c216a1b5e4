// SPDX-License-Identifier: BSD-3-Clause
//
// For processes that sleep instead of polling: an eventfd that becomes readable once a line has
// something to do. Engines tell only memory, so a thread looks at the lines' words, at a bounded
// rate, and only between arm() and the event; otherwise it is parked. The thread does not progress anything.
#pragma once

#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

namespace sdma::line {

class Line;

// Thread-safe.
class Events {
public:
    Events() = default;
    ~Events();
    Events(const Events &) = delete;
    Events &operator=(const Events &) = delete;

    // Ends the thread, for good. Nothing in a child of fork(), which has no such thread.
    void stop();

    void add(Line &line);
    void remove(Line &line); // it is not looked at any more when this returns

    // Progress of all lines.
    void progress();

    // The descriptor, made at first use; -1 if the kernel refuses. Closed with the object.
    int fd();
    // True: readable from the next movement on. False: something has moved already, or no thread or
    // descriptor can be had: poll.
    bool arm();

private:
    void watch();
    void raise();
    bool moved(bool &busy);

    const pid_t process_ = getpid();
    std::mutex mutex_;
    std::condition_variable changed_;
    std::set<Line *> lines_;
    std::thread thread_;
    int fd_ = -1;
    bool armed_ = false, stop_ = false;
};

} // namespace sdma::line
