// SPDX-License-Identifier: BSD-3-Clause
//
// A queue with its worker thread: pointers, doorbell, wrap, faults.
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <unistd.h>

#include "stub.hpp"
#include "test/simnode/queue/simnode_api.h"

using namespace simnode;

namespace {

constexpr size_t ring_bytes = 1024;

struct sdma_simnode_counts counts() {
    struct sdma_simnode_counts now;
    sdma_simnode_counts(&now, sizeof now);
    return now;
}

class Queue : public testing::Test {
protected:
    stub::Gpu_memory ring{4096}, pointers{4096}, memory{1 << 16};
    uint64_t &read = *pointers.at<uint64_t>(0), &write = *pointers.at<uint64_t>(64);
    uint64_t &doorbell = *pointers.at<uint64_t>(128);
    uint64_t written = 0;
    std::unique_ptr<Worker> worker;

    void SetUp() override {
        stub::clear();
        stub::options() = Options{};
        sdma_simnode_reseed(0);
    }
    void start() {
        Sdma_queue queue;
        queue.gpu = 3;
        queue.engine = 2;
        queue.queue_id = 9;
        queue.ring = ring.data();
        queue.bytes = ring_bytes;
        queue.read_pointer = &read;
        queue.write_pointer = &write;
        queue.doorbell = &doorbell;
        worker = start_sdma(queue);
    }
    void put(const std::vector<uint32_t> &dwords) {
        for (uint32_t dword : dwords) {
            __atomic_store_n(ring.at<uint32_t>(written % ring_bytes), dword, __ATOMIC_RELAXED);
            written += 4;
        }
    }
    void publish() { __atomic_store_n(&write, written, __ATOMIC_RELEASE); }
    void ring_doorbell() { __atomic_store_n(&doorbell, written, __ATOMIC_RELEASE); }
    void submit(const std::vector<uint32_t> &dwords) {
        put(dwords);
        publish();
        ring_doorbell();
    }
    static uint32_t low(uint64_t value) { return static_cast<uint32_t>(value); }
    static uint32_t high(uint64_t value) { return static_cast<uint32_t>(value >> 32); }
    std::vector<uint32_t> add_one(size_t word) {
        uint64_t address = memory.address(word);
        return {0x5e00000a, low(address), high(address), 1, 0, 0, 0, 0};
    }
    std::vector<uint32_t> copy(size_t to, size_t from, uint32_t bytes) {
        uint64_t source = memory.address(from), target = memory.address(to);
        return {1, bytes - 1, 0, low(source), high(source), low(target), high(target)};
    }
    uint64_t load(const uint64_t &word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }
    bool reaches(size_t word, uint64_t value) {
        return stub::eventually([&] { return load(*memory.at<uint64_t>(word)) == value; });
    }
    bool complains() {
        return stub::eventually([] { return !stub::complaints().empty(); });
    }
};

TEST_F(Queue, CopyThenSignalOverManyWraps) {
    start();
    for (uint64_t i = 1; i <= 500; i++) {
        memset(memory.data() + 4096, static_cast<int>(i), 100);
        while (ring_bytes - written % ring_bytes < 60) // no packet straddles the end
            submit({0});
        auto packets = copy(8192, 4096, 100), signal = add_one(0);
        packets.insert(packets.end(), signal.begin(), signal.end());
        submit(packets);
        ASSERT_TRUE(reaches(0, i));
        ASSERT_EQ(memory.data()[8192 + 99], static_cast<uint8_t>(i));
    }
    EXPECT_TRUE(stub::eventually([&] { return load(read) == written; }));
    EXPECT_TRUE(stub::complaints().empty());
}

TEST_F(Queue, NothingHappensWithoutTheDoorbell) {
    start();
    put(add_one(0));
    publish();
    usleep(20000); // nothing to wait for: shows that nothing comes
    EXPECT_EQ(load(*memory.at<uint64_t>(0)), 0u);
    EXPECT_EQ(load(read), 0u);
    ring_doorbell();
    EXPECT_TRUE(reaches(0, 1));
}

TEST_F(Queue, ResumesAtTheReadPointer) {
    start();
    submit(add_one(0));
    ASSERT_TRUE(reaches(0, 1));
    worker.reset();
    EXPECT_EQ(read, written);
    start();
    submit(add_one(0));
    EXPECT_TRUE(reaches(0, 2));
}

TEST_F(Queue, DoorbellPastTheWritePointer) {
    start();
    put(add_one(0));
    ring_doorbell();
    EXPECT_TRUE(complains());
    EXPECT_EQ(load(*memory.at<uint64_t>(0)), 0u);
}

TEST_F(Queue, DoorbellBackwards) {
    start();
    submit(add_one(0));
    ASSERT_TRUE(reaches(0, 1));
    __atomic_store_n(&doorbell, uint64_t{4}, __ATOMIC_RELEASE);
    EXPECT_TRUE(complains());
}

TEST_F(Queue, WritePointerBackwards) {
    start();
    submit(add_one(0));
    ASSERT_TRUE(reaches(0, 1));
    __atomic_store_n(&write, uint64_t{4}, __ATOMIC_RELEASE);
    __atomic_store_n(&doorbell, written + 32, __ATOMIC_RELEASE);
    EXPECT_TRUE(complains());
}

TEST_F(Queue, MoreThanTheRing) {
    start();
    __atomic_store_n(&write, uint64_t{ring_bytes + 4}, __ATOMIC_RELEASE);
    __atomic_store_n(&doorbell, uint64_t{ring_bytes + 4}, __ATOMIC_RELEASE);
    EXPECT_TRUE(complains());
}

TEST_F(Queue, StraddlingPacket) {
    start();
    for (unsigned i = 0; i < (ring_bytes - 16) / 4; i++)
        put({0});
    submit({});
    ASSERT_TRUE(stub::eventually([&] { return load(read) == written; }));
    submit(add_one(0)); // 32 bytes, 16 of them before the end
    ASSERT_TRUE(complains());
    EXPECT_NE(stub::complaints()[0].find("ring end"), std::string::npos);
    EXPECT_EQ(load(*memory.at<uint64_t>(0)), 0u);
}

TEST_F(Queue, MalformedPacketHangsTheQueue) {
    start();
    uint64_t before = counts().refused;
    submit(add_one(0));
    ASSERT_TRUE(reaches(0, 1));
    submit({0x0e, 1, 2, 3});
    ASSERT_TRUE(complains());
    std::string said = stub::complaints()[0];
    for (const char *part : {"gpu=3", "engine=2", "queue=9", "offset=32", "0000000e"})
        EXPECT_NE(said.find(part), std::string::npos) << said;
    submit(add_one(0));
    usleep(20000);
    EXPECT_EQ(load(*memory.at<uint64_t>(0)), 1u);
    EXPECT_EQ(stub::complaints().size(), 1u);
    EXPECT_EQ(counts().refused, before + 1);
}

TEST_F(Queue, PollBlocksThisQueueOnly) {
    start();
    uint64_t flag = memory.address(64);
    std::vector<uint32_t> poll{0xb0000008, low(flag), high(flag), 1, ~0u, 0x0fff0004};
    auto after = add_one(0);
    poll.insert(poll.end(), after.begin(), after.end());
    submit(poll);
    usleep(20000);
    EXPECT_EQ(load(*memory.at<uint64_t>(0)), 0u);
    __atomic_store_n(memory.at<uint32_t>(64), 1u, __ATOMIC_RELEASE);
    EXPECT_TRUE(reaches(0, 1));
}

TEST_F(Queue, DestroyedInsideAPoll) {
    start();
    uint64_t flag = memory.address(64);
    submit({0xb0000008, low(flag), high(flag), 1, ~0u, 0x0fff0004});
    worker.reset();
    EXPECT_EQ(read, 0u); // not passed
}

TEST_F(Queue, StallStopsAtItsPacket) {
    stub::options().faults = {Fault{"stall", -1, 3}};
    start();
    submit(add_one(0));
    submit(add_one(0));
    submit(add_one(0));
    ASSERT_TRUE(complains());
    EXPECT_EQ(load(*memory.at<uint64_t>(0)), 2u);
    EXPECT_EQ(load(read), 64u);
}

// Faults and the trace file are looked up once per process: these tests run in one of their own.
class Own_process : public Queue {
protected:
    void SetUp() override {
        Queue::SetUp();
        testing::FLAGS_gtest_death_test_style = "threadsafe";
    }
    [[noreturn]] void die_at_the_second_packet() {
        stub::options().faults = {Fault{"die", -1, 2}};
        start();
        submit(add_one(0));
        if (!reaches(0, 1))
            _exit(1);
        submit(add_one(0));
        reaches(0, 2);
        _exit(2);
    }
    [[noreturn]] void count_and_trace(const std::string &file) {
        stub::options().trace = file;
        struct sdma_simnode_counts before = counts();
        start();
        submit(copy(8192, 4096, 100));
        submit(add_one(0));
        bool good = reaches(0, 1);
        worker.reset();
        struct sdma_simnode_counts after = counts();
        good = good && after.copy == before.copy + 1 && after.atomic == before.atomic + 1 &&
               after.copied_bytes == before.copied_bytes + 100 && after.own_copy == before.own_copy + 1 &&
               after.doorbells > before.doorbells;
        std::ifstream lines(file);
        std::string first, second;
        std::getline(lines, first);
        std::getline(lines, second);
        unlink(file.c_str());
        good = good && first.find("gpu=3 engine=2 queue=9 offset=0 COPY") != std::string::npos &&
               second.find("offset=28 ATOMIC") != std::string::npos;
        _exit(good ? 0 : 1);
    }
};
using Own_process_death_test = Own_process;

TEST_F(Own_process_death_test, CountsAndTrace) {
    std::string file = testing::TempDir() + "simnode_trace." + std::to_string(getpid());
    EXPECT_EXIT(count_and_trace(file), testing::ExitedWithCode(0), "");
}

TEST_F(Own_process_death_test, DieKillsTheProcess) {
    EXPECT_EXIT(die_at_the_second_packet(), testing::KilledBySignal(SIGKILL), "fault die");
}

class Chaotic_queue : public Queue, public testing::WithParamInterface<uint64_t> {};

// Many operations in flight: signals in order, data there with its signal, read pointer never back.
TEST_P(Chaotic_queue, DataWithSignal) {
    sdma_simnode_reseed(GetParam());
    start();
    uint64_t last_read = 0;
    for (uint64_t i = 1; i <= 100; i++) {
        memset(memory.data() + 4096, static_cast<int>(i), 64);
        while (ring_bytes - written % ring_bytes < 60)
            submit({0});
        auto packets = copy(8192, 4096, 64), signal = add_one(0);
        packets.insert(packets.end(), signal.begin(), signal.end());
        submit(packets);
        ASSERT_TRUE(stub::eventually([&] {
            uint64_t now = load(read);
            EXPECT_GE(now, last_read);
            EXPECT_LE(now, written);
            last_read = now;
            return load(*memory.at<uint64_t>(0)) == i;
        }));
        ASSERT_EQ(memory.data()[8192 + 63], static_cast<uint8_t>(i));
    }
    EXPECT_TRUE(stub::eventually([&] { return load(read) == written; })); // lags, but arrives
    worker.reset();
    EXPECT_TRUE(stub::complaints().empty());
}
INSTANTIATE_TEST_SUITE_P(Seeds, Chaotic_queue, testing::Range<uint64_t>(1, 6));

TEST_F(Queue, ReadPointerRunsAheadOfTheDataUnderChaos) {
    sdma_simnode_reseed(5);
    start();
    memory.data()[4096] = 7;
    submit(copy(8192, 4096, 1));
    EXPECT_TRUE(stub::eventually([&] { return load(read) == written; }));
    EXPECT_EQ(__atomic_load_n(memory.data() + 8192, __ATOMIC_ACQUIRE), 0);
    submit(add_one(0));
    EXPECT_TRUE(reaches(0, 1));
    EXPECT_EQ(memory.data()[8192], 7);
}

} // namespace
