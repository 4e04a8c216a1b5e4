// SPDX-License-Identifier: BSD-3-Clause
//
// The proxy back end with its threads.
#include "common/sdma/engine/proxy.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/sdma/base/base.hpp"
#include "test/support/late_runtime.hpp"

namespace {

using namespace sdma;

template <typename Condition> bool within(int ms, Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
    while (!condition())
        if (std::chrono::steady_clock::now() > deadline)
            return false;
        else
            std::this_thread::yield();
    return true;
}

uint64_t &at(uint64_t address) { return *reinterpret_cast<uint64_t *>(address); }
std::atomic_ref<uint64_t> shared(uint64_t address) { return std::atomic_ref<uint64_t>(at(address)); }

void publish_fence(const struct sdma_ring &ring, uint64_t &word, uint32_t value) {
    const uint64_t start = at(ring.write_pointer);
    auto *packet = reinterpret_cast<uint32_t *>(ring.base + (start & (ring.bytes - 1)));
    const auto address = reinterpret_cast<uint64_t>(&word);
    packet[0] = 5;
    packet[1] = static_cast<uint32_t>(address);
    packet[2] = static_cast<uint32_t>(address >> 32);
    packet[3] = value;
    shared(ring.write_pointer).store(start + 16, std::memory_order_release);
    shared(ring.doorbell).store(start + 16, std::memory_order_release);
}

int proxy_threads() {
    int threads = 0;
    for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::string name;
        std::getline(std::ifstream(task.path() / "comm"), name);
        threads += name.starts_with("sdma-proxy-");
    }
    return threads;
}

TEST(Proxy, serves_rings_of_both_kinds_of_producer) {
    auto runtime = std::make_shared<Late_runtime>();
    auto proxy = engine::make_proxy_back_end(runtime);
    EXPECT_STREQ(proxy->name(), "proxy");
    EXPECT_EQ(proxy->available(0), SDMA_REASON_none);
    EXPECT_EQ(proxy->available(1), SDMA_REASON_no_gpu);
    EXPECT_EQ(proxy_threads(), 0) << "no thread before there is a queue";
    for (const auto producer : {engine::Producer::device, engine::Producer::host}) {
        std::unique_ptr<engine::Queue> queue;
        ASSERT_EQ(proxy->create(0, 3, producer, queue), SDMA_REASON_none);
        EXPECT_EQ(queue->engine, 3u);
        EXPECT_EQ(queue->back_end, "proxy");
        EXPECT_EQ(queue->ring->bytes, queue->bytes);
        EXPECT_NE(queue->ring->cursors, 0u);
        EXPECT_TRUE(within(5000, [] { return proxy_threads() == 1; }));
        auto *stream = runtime->last_stream;
        uint64_t word = 0;
        for (uint32_t i = 1; i <= 100; i++) {
            publish_fence(*queue->ring, word, i);
            queue->wake();
            ASSERT_TRUE(within(5000, [&] {
                return shared(queue->ring->read_pointer).load(std::memory_order_acquire) == i * 16;
            })) << i;
        }
        while (stream->step())
            ;
        EXPECT_EQ(word, 100u);
        proxy->destroy(*queue);
        EXPECT_EQ(queue->ring, nullptr);
    }
    EXPECT_EQ(runtime->in_use, 0);
    proxy.reset();
    EXPECT_TRUE(within(5000, [] { return proxy_threads() == 0; })) << "the thread ends with its back end";
}

TEST(Proxy, finds_packets_that_nobody_announced) {
    const int spin = params().proxy_spin;
    params().proxy_spin = -1; // the thread sleeps whenever it finds nothing
    auto runtime = std::make_shared<Late_runtime>();
    auto proxy = engine::make_proxy_back_end(runtime);
    std::unique_ptr<engine::Queue> queue;
    ASSERT_EQ(proxy->create(0, 0, engine::Producer::device, queue), SDMA_REASON_none);
    uint64_t word = 0;
    for (uint32_t i = 1; i <= 20; i++) {
        publish_fence(*queue->ring, word, i);
        EXPECT_TRUE(
            within(5000, [&] { return shared(queue->ring->read_pointer).load(std::memory_order_acquire) == i * 16; }));
    }
    proxy->destroy(*queue);
    EXPECT_EQ(word, 20u);
    params().proxy_spin = spin;
}

TEST(Proxy, says_why_there_is_no_queue) {
    auto runtime = std::make_shared<Late_runtime>();
    runtime->streams = false;
    auto proxy = engine::make_proxy_back_end(runtime);
    std::unique_ptr<engine::Queue> queue;
    EXPECT_EQ(proxy->create(0, 0, engine::Producer::device, queue), SDMA_REASON_no_stream);
    EXPECT_EQ(proxy->create(7, 0, engine::Producer::device, queue), SDMA_REASON_no_gpu);
    EXPECT_EQ(queue, nullptr);
    EXPECT_EQ(runtime->in_use, 0);
}

TEST(Proxy, who_waits_serves_the_ring) {
    auto runtime = std::make_shared<Late_runtime>();
    auto proxy = engine::make_proxy_back_end(runtime);
    for (const auto producer : {engine::Producer::device, engine::Producer::host}) {
        std::unique_ptr<engine::Queue> queue;
        ASSERT_EQ(proxy->create(0, 0, producer, queue), SDMA_REASON_none);
        auto *stream = runtime->last_stream;
        EXPECT_FALSE(queue->serve()) << "nothing is there";
        uint64_t word = 0;
        publish_fence(*queue->ring, word, 1);
        // The thread may have been faster.
        EXPECT_TRUE(queue->serve() || within(5000, [&] { return shared(queue->ring->read_pointer).load() == 16; }));
        while (stream->step())
            ;
        EXPECT_EQ(word, 1u);
        proxy->destroy(*queue);
        EXPECT_FALSE(queue->serve) << "a queue out of use has nobody to serve it";
    }
    EXPECT_EQ(proxy->producer(), engine::Producer::host);
}

// A child has no such thread: its exit does not wait for one.
TEST(Proxy, a_forked_child_exits_at_once) {
    auto runtime = std::make_shared<Late_runtime>();
    auto proxy = engine::make_proxy_back_end(runtime);
    std::unique_ptr<engine::Queue> queue;
    ASSERT_EQ(proxy->create(0, 0, engine::Producer::host, queue), SDMA_REASON_none);
    auto fastest = std::chrono::steady_clock::duration::max();
    for (int i = 0; i < 3; i++) {
        const auto start = std::chrono::steady_clock::now();
        const pid_t child = fork();
        if (child == 0)
            std::exit(0);
        int status = -1;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
        fastest = std::min(fastest, std::chrono::steady_clock::now() - start);
    }
    EXPECT_LT(fastest, std::chrono::milliseconds(900));
    uint64_t word = 0;
    publish_fence(*queue->ring, word, 1);
    EXPECT_TRUE(within(5000, [&] { return queue->serve() || shared(queue->ring->read_pointer).load() == 16; }));
    proxy->destroy(*queue);
}

TEST(Proxy, keeps_the_ring_of_a_runtime_that_hangs) {
    sdma_log_to([](int, const char *) {});
    auto runtime = std::make_shared<Late_runtime>();
    auto proxy = engine::make_proxy_back_end(runtime);
    std::unique_ptr<engine::Queue> queue;
    ASSERT_EQ(proxy->create(0, 0, engine::Producer::host, queue), SDMA_REASON_none);
    static uint64_t word;
    runtime->stuck = true;
    publish_fence(*queue->ring, word, 1);
    EXPECT_TRUE(within(5000, [&] { return queue->serve() || shared(queue->ring->read_pointer).load() == 16; }));
    const int held = runtime->in_use, timeout = params().hardware_timeout;
    params().hardware_timeout = 20;
    proxy->destroy(*queue);
    params().hardware_timeout = timeout;
    EXPECT_EQ(runtime->in_use, held);
    sdma_log_to(nullptr);
}

} // namespace
