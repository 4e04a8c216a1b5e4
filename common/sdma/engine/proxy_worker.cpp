// SPDX-License-Identifier: BSD-3-Clause
#include "proxy_worker.hpp"

#include <algorithm>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <vector>

#include <linux/futex.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../base/base.hpp"
#include "near.hpp"

namespace sdma::engine::proxy {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr microseconds longest_sleep{5000};
constexpr microseconds shortest_sleep{20};
constexpr microseconds end_timeout{1000000};

void futex_wait(std::atomic<uint32_t> &word, uint32_t expected, const microseconds *timeout) {
    timespec limit{};
    if (timeout)
        limit = {.tv_sec = timeout->count() / 1000000, .tv_nsec = timeout->count() % 1000000 * 1000};
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, timeout ? &limit : nullptr, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t> &word) {
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

} // namespace

struct Worker::Shared {
    uint32_t device = 0;
    gpu::Pci_address pci;
    const pid_t process = getpid(); // a child of fork() has no such thread
    std::atomic<uint32_t> calls{0}; // the futex: grows with each wake()
    std::atomic<bool> asleep{false};
    std::atomic<bool> stop{false};
    std::atomic<uint32_t> ended{0}; // a futex too
    std::atomic<bool> arrived{false};
    std::mutex mutex;
    std::vector<std::shared_ptr<Line>> arriving; // guarded by mutex
    std::vector<std::shared_ptr<Line>> lines;    // the thread's; here, so that a forked child still knows them

    void wake() {
        calls.fetch_add(1);
        if (asleep.load())
            futex_wake(calls);
    }

    // The thread's only wait. A wake between the caller's look at `seen` and here returns at once.
    void sleep(uint32_t seen, const microseconds *timeout) {
        asleep.store(true);
        if (calls.load() == seen && !stop.load())
            futex_wait(calls, seen, timeout);
        asleep.store(false);
    }

    bool end() {
        if (getpid() != process)
            return true;
        stop.store(true);
        calls.fetch_add(1);
        futex_wake(calls);
        const Clock::time_point deadline = Clock::now() + end_timeout;
        while (!ended.load() && Clock::now() < deadline)
            futex_wait(ended, 0, &longest_sleep);
        return ended.load();
    }

    void run();
};

namespace {

// Threads must not look at rings any more when the process exits and the GPU runtime takes its
// memory down, also where nobody destroys the back end.
std::mutex live_mutex;
std::vector<std::weak_ptr<Worker::Shared>> &live() {
    static auto *workers = new std::vector<std::weak_ptr<Worker::Shared>>; // outlives static destructors
    return *workers;
}

void end_all() {
    std::lock_guard guard(live_mutex);
    for (const std::weak_ptr<Worker::Shared> &worker : live())
        if (const std::shared_ptr<Worker::Shared> shared = worker.lock())
            shared->end();
}

void remember(const std::shared_ptr<Worker::Shared> &shared) {
    std::lock_guard guard(live_mutex);
    static const bool registered = std::atexit(end_all) == 0;
    if (!registered)
        log(1, "proxy: no exit handler");
    std::erase_if(live(), [](const auto &worker) { return worker.expired(); });
    live().push_back(shared);
}

void *thread_main(void *argument) {
    const std::unique_ptr<std::shared_ptr<Worker::Shared>> held(
        static_cast<std::shared_ptr<Worker::Shared> *>(argument));
    Worker::Shared &shared = **held;
    char name[16];
    std::snprintf(name, sizeof name, "sdma-proxy-%u", shared.device);
    pthread_setname_np(pthread_self(), name);
    prctl(PR_SET_TIMERSLACK, 1000ul, 0, 0, 0); // nanoseconds; the default would add 50 us to each sleep
    run_near(shared.pci);
    shared.run();
    shared.ended.store(1);
    futex_wake(shared.ended);
    return nullptr;
}

} // namespace

void Worker::Shared::run() {
    Clock::time_point last_work = Clock::now();
    uint32_t seen = calls.load();
    for (uint32_t turn = 0; !stop.load(std::memory_order_relaxed); turn++) {
        if (arrived.exchange(false)) {
            std::lock_guard guard(mutex);
            lines.insert(lines.end(), arriving.begin(), arriving.end());
            arriving.clear();
        }
        bool worked = false, closed = false;
        for (const std::shared_ptr<Line> &line : lines) {
            worked |= line->serve();
            closed |= line->closing();
        }
        if (closed)
            std::erase_if(lines, [](const auto &line) { return line->closing(); });
        if (lines.empty()) {
            sleep(seen, nullptr);
        } else if (!worked && turn % 16 == 0) {
            const auto idle = std::chrono::duration_cast<microseconds>(Clock::now() - last_work);
            if (idle.count() > params().proxy_spin) {
                const microseconds nap = std::clamp(idle / 8, shortest_sleep, longest_sleep);
                sleep(seen, &nap);
            }
        }
        if (const uint32_t now = calls.load(); worked || now != seen) {
            seen = now;
            last_work = Clock::now();
        }
        pause();
    }
}

std::unique_ptr<Worker> Worker::start(uint32_t device, const gpu::Pci_address &pci) {
    auto shared = std::make_shared<Shared>();
    shared->device = device;
    shared->pci = pci;
    remember(shared);
    // The application's signal handlers must not run in a thread it does not know.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    auto held = std::make_unique<std::shared_ptr<Shared>>(shared);
    pthread_t thread;
    const int error = pthread_create(&thread, nullptr, thread_main, held.get());
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (error) {
        log(0, "proxy: no thread for gpu %s: error %d", gpu::to_string(pci).c_str(), error);
        return nullptr;
    }
    held.release(); // the thread's now
    pthread_detach(thread);
    return std::unique_ptr<Worker>(new Worker(std::move(shared)));
}

Worker::Worker(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

Worker::~Worker() {
    if (!shared_->end())
        log(0, "proxy: the thread of gpu %s does not end", gpu::to_string(shared_->pci).c_str());
}

void Worker::add(std::shared_ptr<Line> line) {
    {
        std::lock_guard guard(shared_->mutex);
        shared_->arriving.push_back(std::move(line));
    }
    shared_->arrived.store(true);
    shared_->wake();
}

void Worker::wake() { shared_->wake(); }

} // namespace sdma::engine::proxy
