// SPDX-License-Identifier: BSD-3-Clause
#include "common/sdma/engine/proxy.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/sdma/base/base.hpp"
#include "common/sdma/engine/proxy_decode.hpp"
#include "common/sdma/engine/proxy_line.hpp"

namespace {

using namespace sdma;
using engine::proxy::Action;
using engine::proxy::decode;

// ---- decoder: words written down by hand from the hardware's layout ------------------------------

TEST(Proxy_decode, serves_the_packets_of_the_design) {
    const std::array<uint32_t, 7> copy{1, 0xfff, 0, 0x11223344, 0x5566, 0x99aabbcc, 0x7788};
    auto c = decode(copy.data(), copy.size());
    EXPECT_EQ(c.action, Action::copy);
    EXPECT_EQ(c.dwords, 7u);
    EXPECT_EQ(c.bytes, 4096u);
    EXPECT_EQ(c.source, 0x556611223344u);
    EXPECT_EQ(c.address, 0x778899aabbccu);

    const std::array<uint32_t, 4> fence{5, 0x1000, 0x7, 42};
    c = decode(fence.data(), fence.size());
    EXPECT_EQ(c.action, Action::store);
    EXPECT_EQ(c.dwords, 4u);
    EXPECT_EQ(c.address, 0x700001000u);
    EXPECT_EQ(c.value, 42u);

    const std::array<uint32_t, 8> atomic{0x5e00000a, 0x2008, 0x7, 3, 1, 0, 0, 0};
    c = decode(atomic.data(), atomic.size());
    EXPECT_EQ(c.action, Action::add);
    EXPECT_EQ(c.dwords, 8u);
    EXPECT_EQ(c.address, 0x700002008u);
    EXPECT_EQ(c.value, 0x100000003u);

    const std::array<uint32_t, 3> nop{0x00020000, 0xffffffff, 0xffffffff};
    EXPECT_EQ(decode(nop.data(), nop.size()).action, Action::skip);
    EXPECT_EQ(decode(nop.data(), nop.size()).dwords, 3u);
    const uint32_t zero = 0;
    EXPECT_EQ(decode(&zero, 1).dwords, 1u);
}

TEST(Proxy_decode, takes_the_largest_copy_and_hints) {
    std::array<uint32_t, 7> copy{1, 0x3fffffff, 0, 0, 1, 0, 2};
    EXPECT_EQ(decode(copy.data(), 7).bytes, size_t{1} << 30);
    copy[0] = 0x10000001; // not-posted hint of gfx125x
    copy[2] = 0x0c0c0000; // scopes of gfx125x
    EXPECT_EQ(decode(copy.data(), 7).action, Action::copy);
    const std::array<uint32_t, 4> fence{0x00030005, 0x1000, 0, 1}; // memory type of gfx10
    EXPECT_EQ(decode(fence.data(), 4).action, Action::store);
}

TEST(Proxy_decode, refuses_everything_else) {
    const std::array<std::array<uint32_t, 8>, 17> packets{{
        {0x00000002, 0x1000, 0, 0, 7},              // WRITE
        {0x00000004, 0x1000, 0, 1, 0, 0},           // INDIRECT
        {0x00000006, 1},                            // TRAP
        {0xb0000008, 0x1000, 0, 1, 1, 0xfff0001},   // POLL
        {0x8000000b, 0x1000, 0, 0, 7},              // FILL
        {0x0000020d, 0x1000, 0},                    // TIMESTAMP
        {0x00000111, 0, 0, 0, 0},                   // GCR
        {0x80000401, 0, 1, 0, 0, 0, 0, 1},          // sub-window copy
        {0x08000001, 15, 0, 0, 1, 0, 2, 0},         // broadcast
        {0x00040001, 15, 0, 0, 1, 0, 2, 0},         // trusted memory zone
        {0x00000001, 0x40000000, 0, 0, 1, 0, 2, 0}, // count too wide
        {0x00000001, 15, 0x00010000, 0, 1, 0, 2},   // endian swap
        {0x00000005, 0x1002, 0, 1},                 // fence, unaligned
        {0x1e00000a, 0x1000, 0, 1},                 // 32-bit add
        {0x5e01000a, 0x1000, 0, 1},                 // atomic that loops
        {0x5e00000a, 0x1004, 0, 1},                 // atomic, unaligned
        {0x40000000, 0, 0, 0},                      // NOP with stray bits
    }};
    for (const auto &packet : packets) {
        EXPECT_EQ(decode(packet.data(), packet.size()).action, Action::refuse) << std::hex << packet[0];
        EXPECT_EQ(decode(packet.data(), packet.size()).dwords, 0u);
    }
}

TEST(Proxy_decode, never_reads_past_what_is_published) {
    const std::array<uint32_t, 8> copy{1, 15, 0, 0, 1, 0, 2}, fence{5, 0x1000, 0, 1}, atomic{0x5e00000a, 0x1000},
        nop{0x00070000};
    EXPECT_EQ(decode(copy.data(), 0).action, Action::refuse);
    EXPECT_EQ(decode(copy.data(), 6).action, Action::refuse);
    EXPECT_EQ(decode(fence.data(), 3).action, Action::refuse);
    EXPECT_EQ(decode(atomic.data(), 7).action, Action::refuse);
    EXPECT_EQ(decode(nop.data(), 7).action, Action::refuse);
    EXPECT_EQ(decode(nop.data(), 8).action, Action::skip);
}

// ---- a runtime on host memory whose streams are as late as they are allowed to be -----------------

struct Late_runtime : gpu::Runtime {
    bool stores = true;  // streams can store
    bool streams = true; // there are streams
    bool stuck = false;  // nothing on a stream ever completes
    gpu::Status copies = gpu::Status::ok;
    int in_use = 0; // allocations
    std::vector<gpu::Device> gpus{{.pci = {0, 0xc1, 0, 0}, .target = "none", .wave_lanes = 32, .workgroups = 1}};

    struct Late_stream : gpu::Stream {
        explicit Late_stream(Late_runtime &owner) : owner(owner) {}
        Late_runtime &owner;
        std::mutex mutex;
        std::deque<std::function<void()>> work;
        uint64_t given = 0, done = 0;

        gpu::Status give(std::function<void()> action) {
            std::lock_guard guard(mutex);
            work.push_back(std::move(action));
            given++;
            return gpu::Status::ok;
        }
        gpu::Status copy(void *dst, const void *src, size_t bytes) override {
            if (owner.copies != gpu::Status::ok)
                return owner.copies;
            return give([=] { std::memcpy(dst, src, bytes); });
        }
        gpu::Status store(uint64_t address, uint64_t value, uint32_t width) override {
            if (!owner.stores)
                return gpu::Status::unsupported;
            return give([=] { std::memcpy(reinterpret_cast<void *>(address), &value, width); });
        }
        gpu::Status mark(uint64_t &mark) override {
            std::lock_guard guard(mutex);
            mark = given;
            return gpu::Status::ok;
        }
        // Time passes when somebody looks: one step each.
        gpu::Status reached(uint64_t mark) override {
            step();
            std::lock_guard guard(mutex);
            return done >= mark ? gpu::Status::ok : gpu::Status::pending;
        }
        bool step() {
            std::lock_guard guard(mutex);
            if (owner.stuck || work.empty())
                return false;
            work.front()();
            work.pop_front();
            done++;
            return true;
        }
    };
    Late_stream *last_stream = nullptr;

    const char *name() const override { return "late"; }
    std::string version() const override { return "0"; }
    const std::vector<gpu::Device> &devices() const override { return gpus; }
    gpu::Range classify(const void *) override { return {}; }
    gpu::Status export_memory(void *, size_t, gpu::Handle &) override { return gpu::Status::unsupported; }
    gpu::Status attach(int, const gpu::Handle &, size_t, void *&) override { return gpu::Status::unsupported; }
    void detach(void *) override {}
    gpu::Status pin(void *, size_t, void *&) override { return gpu::Status::unsupported; }
    void unpin(void *) override {}
    void *allocate_shared(size_t bytes) override {
        in_use++;
        void *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
        return std::memset(memory, 0, bytes);
    }
    void free_shared(void *address) override {
        in_use--;
        std::free(address);
    }
    void *allocate_device(int, size_t bytes) override { return allocate_shared(bytes); }
    void free_device(void *address) override { free_shared(address); }
    gpu::Status launch(int, gpu::Kernel, uint32_t, const void *, gpu::Launch &) override {
        return gpu::Status::unsupported;
    }
    gpu::Status finished(gpu::Launch) override { return gpu::Status::failed; }
    void release(gpu::Launch) override {}
    std::unique_ptr<gpu::Stream> stream(int) override {
        if (!streams)
            return nullptr;
        auto made = std::make_unique<Late_stream>(*this);
        last_stream = made.get();
        return made;
    }
    bool host_atomics() const override { return false; }
    gpu::Status copy(void *dst, const void *src, size_t bytes) override {
        std::memcpy(dst, src, bytes);
        return gpu::Status::ok;
    }
    void on_free(std::function<void(void *, uint64_t)>) override {}
};

// ---- a line without its thread -----------------------------------------------------------------------

class Proxy_line : public testing::Test {
protected:
    static constexpr uint64_t bytes = 4096;
    std::shared_ptr<Late_runtime> runtime = std::make_shared<Late_runtime>();
    alignas(64) uint64_t read = 0, written = 0, doorbell = 0;
    alignas(64) std::array<uint32_t, bytes / 4> words{};
    struct sdma_ring ring = {reinterpret_cast<uint64_t>(words.data()), bytes,
                             reinterpret_cast<uint64_t>(&read),        reinterpret_cast<uint64_t>(&written),
                             reinterpret_cast<uint64_t>(&doorbell),    0};
    std::unique_ptr<engine::proxy::Line> line;
    Late_runtime::Late_stream *stream = nullptr;

    void open() {
        auto made = runtime->stream(0);
        stream = runtime->last_stream;
        line = std::make_unique<engine::proxy::Line>(runtime, std::move(made), &ring, "queue under test");
    }
    void put(std::initializer_list<uint32_t> packet) {
        for (uint32_t word : packet) {
            words[written % bytes / 4] = word;
            written += 4;
        }
    }
    static uint32_t low(const void *p) { return static_cast<uint32_t>(reinterpret_cast<uint64_t>(p)); }
    static uint32_t high(const void *p) { return static_cast<uint32_t>(reinterpret_cast<uint64_t>(p) >> 32); }
    void put_copy(void *dst, const void *src, uint32_t n) {
        put({1, n - 1, 0, low(src), high(src), low(dst), high(dst)});
    }
    void put_fence(void *word, uint32_t value) { put({5, low(word), high(word), value}); }
    void put_add(void *word, uint32_t amount) { put({0x5e00000a, low(word), high(word), amount, 0, 0, 0, 0}); }
    void ring_doorbell() { doorbell = written; }
};

TEST_F(Proxy_line, signals_follow_their_copies) {
    open();
    uint64_t src = 7, dst = 0, word = 0;
    put_copy(&dst, &src, sizeof src);
    put_fence(&word, 9);
    EXPECT_FALSE(line->serve()) << "nothing was rung";
    ring_doorbell();
    EXPECT_TRUE(line->serve());
    EXPECT_EQ(read, written) << "consumed";
    EXPECT_EQ(dst, 0u) << "but not done";
    EXPECT_EQ(word, 0u);
    EXPECT_TRUE(stream->step());
    EXPECT_EQ(dst, 7u);
    EXPECT_EQ(word, 0u);
    EXPECT_TRUE(stream->step());
    EXPECT_EQ(word, 9u);
    EXPECT_FALSE(line->serve());
    EXPECT_TRUE(line->close(1000));
}

TEST_F(Proxy_line, joins_copies_that_continue_each_other) {
    open();
    std::array<uint8_t, 64> src{}, dst{};
    for (size_t i = 0; i < src.size(); i++)
        src[i] = static_cast<uint8_t>(i + 1);
    uint64_t word = 0;
    put_copy(&dst[0], &src[0], 16);
    put_copy(&dst[16], &src[16], 7);
    put_copy(&dst[23], &src[24], 8); // the source does not continue
    put_copy(&dst[40], &src[32], 8); // the destination does not
    put_fence(&word, 1);
    put_copy(&dst[48], &src[40], 8); // continues, but after a signal
    ring_doorbell();
    line->serve();
    EXPECT_EQ(stream->given, 5u);
    for (int i = 0; i < 3; i++)
        stream->step();
    EXPECT_EQ(word, 0u);
    EXPECT_TRUE(line->close(1000));
    EXPECT_EQ(word, 1u);
    for (const auto &[to, from, n] : {std::array<size_t, 3>{0, 0, 23}, {23, 24, 8}, {40, 32, 8}, {48, 40, 8}})
        EXPECT_EQ(std::memcmp(&dst[to], &src[from], n), 0) << to;
    EXPECT_EQ(dst[31], 0);
}

TEST_F(Proxy_line, wraps) {
    open();
    std::array<uint32_t, 3> dst{};
    const uint32_t src = 5;
    const int packets = 1000;
    for (int i = 0; i < packets; i++) {
        const uint64_t left = bytes - written % bytes;
        if (left < 28)
            put({static_cast<uint32_t>(left / 4 - 1) << 16}), written += left - 4;
        put_copy(&dst[static_cast<size_t>(i) % 3], &src, sizeof src);
        ring_doorbell();
        ASSERT_TRUE(line->serve());
    }
    EXPECT_GT(read, 6 * bytes);
    EXPECT_EQ(stream->given, static_cast<uint64_t>(packets));
    EXPECT_TRUE(line->close(1000));
    EXPECT_EQ(dst[0] + dst[1] + dst[2], 15u);
}

TEST_F(Proxy_line, atomics_count_though_none_has_arrived) {
    open();
    uint64_t word = 0x1ffffffff;
    for (int i = 0; i < 3; i++)
        put_add(&word, 1);
    ring_doorbell();
    line->serve();
    EXPECT_EQ(word, 0x1ffffffffu);
    while (stream->step())
        ;
    EXPECT_EQ(word, 0x200000002u);
    word += 10; // another path of this rank raised the word
    put_add(&word, 1);
    ring_doorbell();
    line->serve();
    while (stream->step())
        ;
    EXPECT_EQ(word, 0x20000000du);
    EXPECT_TRUE(line->close(1000));
}

TEST_F(Proxy_line, atomics_on_a_word_that_is_another_one_by_now) {
    open();
    uint64_t word = 0;
    for (int life = 0; life < 3; life++) {
        word = 0; // freed, and the next one is at the same address
        for (uint64_t value = 1; value <= 5; value++) {
            put_add(&word, 1);
            ring_doorbell();
            EXPECT_TRUE(line->serve());
            while (stream->step())
                ;
            ASSERT_EQ(word, value) << "life " << life;
        }
    }
    EXPECT_TRUE(line->close(1000));
}

TEST_F(Proxy_line, signals_by_copies_where_streams_cannot_store) {
    runtime->stores = false;
    open();
    // More signals than there is staging for, none of them delivered early.
    uint64_t word = 0;
    uint32_t sent = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 200; i++)
            put_fence(&word, ++sent);
        ring_doorbell();
        line->serve();
        EXPECT_LE(word, sent);
    }
    for (int i = 0; i < 10000 && (read != written || word != sent); i++) {
        stream->step();
        line->serve();
    }
    EXPECT_EQ(read, written);
    EXPECT_EQ(word, 600u);
    EXPECT_TRUE(line->close(1000));
    line.reset();
    EXPECT_EQ(runtime->in_use, 0);
}

TEST_F(Proxy_line, stops_at_a_packet_it_does_not_know) {
    static std::vector<std::string> lines;
    lines.clear();
    sdma_log_to([](int level, const char *text) {
        if (level == 0)
            lines.push_back(text);
    });
    open();
    uint64_t word = 0;
    put_fence(&word, 1);
    put({0x00000002, low(&word), high(&word), 0, 5});
    put_fence(&word, 2);
    ring_doorbell();
    line->serve();
    EXPECT_EQ(read, 16u) << "not consumed";
    while (stream->step())
        ;
    EXPECT_EQ(word, 1u) << "what came before was done, what follows is not";
    EXPECT_FALSE(line->serve());
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_NE(lines[0].find("queue under test"), std::string::npos);
    EXPECT_NE(lines[0].find("0x10"), std::string::npos);
    EXPECT_NE(lines[0].find("00000002"), std::string::npos);
    EXPECT_TRUE(line->close(1000));
    sdma_log_to(nullptr);
}

TEST_F(Proxy_line, stops_when_pointers_make_no_sense) {
    sdma_log_to([](int, const char *) {});
    for (const auto &[rung, write] : {std::pair<uint64_t, uint64_t>{16, 0}, // rung before written
                                      {bytes + 4, bytes + 4},               // more than the ring holds
                                      {6, 6}}) {                            // not a whole dword
        open();
        doorbell = rung;
        written = write;
        EXPECT_FALSE(line->serve());
        EXPECT_EQ(read, 0u);
        doorbell = written = 0;
        EXPECT_FALSE(line->serve()) << "stays stopped";
        EXPECT_TRUE(line->close(1000));
    }
    sdma_log_to(nullptr);
}

TEST_F(Proxy_line, stops_when_the_runtime_fails) {
    sdma_log_to([](int, const char *) {});
    open();
    uint64_t src = 1, dst = 0, word = 0;
    runtime->copies = gpu::Status::failed;
    put_copy(&dst, &src, 8);
    put_fence(&word, 1);
    ring_doorbell();
    line->serve();
    EXPECT_LT(read, written);
    EXPECT_FALSE(line->serve());
    EXPECT_EQ(stream->given, 0u) << "no signal without its copy";
    EXPECT_TRUE(line->close(1000));
    sdma_log_to(nullptr);
}

TEST_F(Proxy_line, close_waits_for_bytes_on_their_way) {
    open();
    uint64_t word = 0;
    put_fence(&word, 1);
    ring_doorbell();
    line->serve();
    EXPECT_EQ(word, 0u);
    EXPECT_TRUE(line->close(1000));
    EXPECT_EQ(word, 1u);
    put_fence(&word, 2);
    ring_doorbell();
    EXPECT_FALSE(line->serve()) << "closed";
}

TEST_F(Proxy_line, close_gives_up_on_a_runtime_that_hangs) {
    runtime->stuck = true;
    open();
    uint64_t word = 0;
    put_fence(&word, 1);
    ring_doorbell();
    line->serve();
    EXPECT_FALSE(line->close(20));
}

// ---- the back end with its threads -----------------------------------------------------------------

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
