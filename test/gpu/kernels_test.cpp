// SPDX-License-Identifier: BSD-3-Clause
//
// The kernels and the proxy on a real GPU: every byte of a record is moved, and no other.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "common/sdma/engine/engine.hpp"
#include "common/sdma/op/resident.hpp"
#include "common/sdma/plan/plan.hpp"
#include "test/gpu/runtime_test.hpp"

namespace {

using namespace runtime_tests;

struct Record {
    Record(gpu::Runtime &gpu, const plan::Operation &operation) : gpu(gpu) {
        const size_t bytes = plan::record_bytes(operation.rings.size(), operation.peers.size());
        memory = static_cast<std::byte *>(gpu.allocate_shared(bytes));
        work = plan::build(operation, {memory, bytes});
    }
    ~Record() { gpu.free_shared(memory); }
    gpu::Runtime &gpu;
    std::byte *memory;
    sdma_work *work;
};

void run(gpu::Runtime &gpu, gpu::Kernel kernel, uint32_t workgroups, sdma_work *work) {
    gpu::Launch launch = 0;
    ASSERT_EQ(gpu.launch(0, kernel, workgroups, work, launch), Status::ok);
    Status status = Status::pending;
    EXPECT_TRUE(within_seconds(10, [&] { return (status = gpu.finished(launch)) != Status::pending; }));
    EXPECT_EQ(status, Status::ok);
}

// Pieces of all alignments between two buffers; what lies between them must stay as it is.
struct Pieces {
    static constexpr size_t each = 300000;
    explicit Pieces(size_t count) : count(count), from(count * each), to(count * each) {
        from.write(in = random_bytes(from.bytes, 3));
        to.write(expected = random_bytes(to.bytes, 4));
    }
    plan::Peer peer(size_t i, size_t bytes) {
        plan::Peer peer;
        const size_t s = i * each + i % 23, d = i * each + i % 17;
        peer.src = from.at(s);
        peer.dst = to.at(d);
        peer.bytes = bytes;
        std::memcpy(&expected[d], &in[s], bytes);
        return peer;
    }
    size_t count;
    Device_buffer from, to;
    std::vector<uint8_t> in, expected;
};

TEST(Nvidia, copy_kernel_moves_every_byte_and_no_other) {
    const auto gpu = runtime();
    auto *words = static_cast<uint64_t *>(gpu->allocate_shared(8192));
    // One peer travels in the small launch, 12 in the large one, 60 are read from the record.
    for (const size_t count : {1, 12, 60})
        for (const uint32_t workgroups : {1, 3, 16})
            for (const bool signals : {false, true}) {
                Pieces pieces(count);
                std::vector<plan::Peer> peers;
                for (size_t i = 0; i < count; i++) {
                    const size_t sizes[] = {1, 15, 4096, 4097, 65536, 100003, 299000};
                    plan::Peer peer = pieces.peer(i, sizes[(i + workgroups) % std::size(sizes)]);
                    peer.path = SDMA_PATH_LOADSTORE;
                    peer.arrival = reinterpret_cast<uint64_t>(&words[i]);
                    peer.arrival_value = 1000 + i;
                    peers.push_back(peer);
                    words[i] = 0;
                }
                plan::Operation operation;
                operation.chunk_bytes = 4096;
                operation.signal_kind = SDMA_SIGNAL_FENCE;
                operation.spin_budget = 1000000;
                operation.kernel_signals = signals;
                operation.peers = peers;
                Record record(*gpu, operation);
                ASSERT_NE(record.work, nullptr);
                run(*gpu, gpu::Kernel::copy, workgroups, record.work);
                EXPECT_LE(record.work->status, SDMA_WORK_ISSUED);
                // The words and the launch's end come in any order.
                for (size_t i = 0; i < count; i++)
                    EXPECT_TRUE(within_seconds(10, [&] {
                        return __atomic_load_n(&words[i], __ATOMIC_ACQUIRE) == (signals ? 1000 + i : 0);
                    })) << words[i];
                EXPECT_TRUE(pieces.to.read() == pieces.expected) << count << " peers, " << workgroups << " workgroups";
            }
    gpu->free_shared(words);
}

template <typename Issue> void feed_the_proxy(const std::shared_ptr<gpu::Runtime> &gpu, Issue issue) {
    engine::Engines engines(gpu);
    const gpu::Pci_address own = gpu->devices()[0].pci, other{0xffff, 1, 2, 0};
    auto *words = static_cast<uint64_t *>(gpu->allocate_shared(8192));
    uint64_t value = 41; // signal words only grow
    for (const size_t count : {1, 2, 12, 60})
        for (const auto kind : {SDMA_SIGNAL_FENCE, SDMA_SIGNAL_ATOMIC}) {
            sdma_reason_t reason;
            engine::Queue *queues[] = {engines.queue(0, other, engine::Producer::device, reason),
                                       engines.queue(0, own, engine::Producer::device, reason)};
            ASSERT_NE(queues[0], nullptr) << sdma_reason_text(reason);
            ASSERT_NE(queues[1], nullptr) << sdma_reason_text(reason);
            EXPECT_NE(queues[0], queues[1]);
            const uint64_t rings[] = {reinterpret_cast<uint64_t>(queues[0]->ring),
                                      reinterpret_cast<uint64_t>(queues[1]->ring)};
            Pieces pieces(count);
            std::fill(words, words + 1024, value++);
            std::vector<plan::Peer> peers;
            for (size_t i = 0; i < count; i++) {
                const size_t sizes[] = {299000, 1, 65537, 4096};
                plan::Peer peer = pieces.peer(i, sizes[i % std::size(sizes)]);
                peer.queue = i % 2;
                peer.arrival = reinterpret_cast<uint64_t>(&words[2 * i]);
                peer.departure = reinterpret_cast<uint64_t>(&words[2 * i + 1]);
                peer.arrival_value = peer.departure_value = value;
                peers.push_back(peer);
            }
            plan::Operation operation;
            operation.chunk_bytes = 4096;
            operation.signal_kind = kind;
            operation.spin_budget = 1000000;
            operation.rings = rings;
            operation.peers = peers;
            Record record(*gpu, operation);
            ASSERT_NE(record.work, nullptr);
            for (auto *queue : queues)
                queue->wake();
            issue(record.work);
            EXPECT_EQ(record.work->status, SDMA_WORK_ISSUED);
            EXPECT_TRUE(within_seconds(10, [&] {
                for (size_t i = 0; i < 2 * count; i++)
                    if (__atomic_load_n(&words[i], __ATOMIC_ACQUIRE) != value)
                        return false;
                return true;
            }));
            EXPECT_TRUE(pieces.to.read() == pieces.expected) << count << " peers, signal kind " << kind;
        }
    gpu->free_shared(words);
}

TEST(Nvidia, issue_kernel_feeds_the_proxy) {
    const auto gpu = runtime();
    feed_the_proxy(gpu, [&](sdma_work *work) { run(*gpu, gpu::Kernel::issue, 1, work); });
}

// Hand a record over and wait until it is issued.
void issue(op::Resident &resident, sdma_work *work) {
    Status status = Status::pending; // while the last kernel goes
    EXPECT_TRUE(within_seconds(10, [&] { return (status = resident.submit(*work)) != Status::pending; }));
    ASSERT_EQ(status, Status::ok);
    EXPECT_TRUE(within_seconds(10, [&] {
        return __atomic_load_n(&work->status, __ATOMIC_ACQUIRE) != SDMA_WORK_OPEN || resident.poll() == Status::failed;
    }));
}

TEST(Nvidia, resident_kernel_feeds_the_proxy) {
    const auto gpu = runtime();
    for (const int idle : {0, 30, 100000}) {
        params().resident_idle = idle;
        op::Resident resident(*gpu, 0);
        for (int round = 0; round < 3; round++)
            feed_the_proxy(gpu, [&](sdma_work *work) { issue(resident, work); });
    }
    params().resident_idle = 30;
}

// Records that a mailbox carries whole, in two parts, and not at all; a kernel that is there, and one that must start.
TEST(Nvidia, resident_kernel_moves_every_byte_and_no_other) {
    const auto gpu = runtime();
    ASSERT_TRUE(gpu->resident_copies());
    auto *words = static_cast<uint64_t *>(gpu->allocate_shared(8192));
    uint64_t value = 0;
    for (const int idle : {0, 30, 100000}) {
        params().resident_idle = idle;
        op::Resident resident(*gpu, 0);
        for (int round = 0; round < 6; round++)
            for (const size_t count : {1, 2, 5, 12, 60}) {
                Pieces pieces(count);
                std::vector<plan::Peer> peers;
                value++;
                for (size_t i = 0; i < count; i++) {
                    const size_t sizes[] = {1, 16, 4096, 511, 513, 65536, 100003};
                    plan::Peer peer = pieces.peer(i, sizes[(i + static_cast<size_t>(round)) % std::size(sizes)]);
                    peer.path = SDMA_PATH_LOADSTORE;
                    peer.arrival = reinterpret_cast<uint64_t>(&words[i]);
                    peer.arrival_value = value;
                    peers.push_back(peer);
                }
                plan::Operation operation;
                operation.chunk_bytes = 4096;
                operation.signal_kind = SDMA_SIGNAL_FENCE;
                operation.spin_budget = 1000000;
                operation.kernel_signals = operation.resident_copies = true;
                operation.peers = peers;
                Record record(*gpu, operation);
                ASSERT_NE(record.work, nullptr);
                issue(resident, record.work);
                EXPECT_EQ(record.work->status, SDMA_WORK_ISSUED);
                for (size_t i = 0; i < count; i++)
                    EXPECT_TRUE(
                        within_seconds(10, [&] { return __atomic_load_n(&words[i], __ATOMIC_ACQUIRE) == value; }));
                EXPECT_TRUE(pieces.to.read() == pieces.expected) << count << " peers, round " << round;
            }
    }
    params().resident_idle = 30;
    gpu->free_shared(words);
}

// What an application waits for the device, right after a record, and how long a record takes.
TEST(Nvidia, resident_kernel_leaves_the_device_soon) {
    const auto gpu = runtime();
    op::Resident resident(*gpu, 0);
    plan::Operation operation;
    operation.chunk_bytes = 4096;
    operation.spin_budget = 1000000;
    using Clock = std::chrono::steady_clock;
    const auto us = [](Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); };
    std::vector<double> waits, issues[2];
    const Record record(*gpu, operation);
    ASSERT_NE(record.work, nullptr);
    for (int i = 0; i < 2000; i++) {
        plan::build(operation, {record.memory, plan::record_bytes(0, 0)}); // anew: nothing is allocated or freed here
        Clock::time_point start = Clock::now();
        issue(resident, record.work);
        issues[i % 2].push_back(us(Clock::now() - start));
        start = Clock::now();
        if (i % 2 != 0) { // every second one finds the kernel at work
            EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
            waits.push_back(us(Clock::now() - start));
        }
    }
    const auto median = [](std::vector<double> &all) {
        std::nth_element(all.begin(), all.begin() + all.size() / 2, all.end());
        return all[all.size() / 2];
    };
    std::printf("record issued after %.1f us by a kernel that is there, %.1f us by one that must start; "
                "then cudaDeviceSynchronize %.1f us (idle time %d us); medians\n",
                median(issues[1]), median(issues[0]), median(waits), params().resident_idle);
    EXPECT_LT(*std::min_element(waits.begin(), waits.end()), 50);
}

TEST(Nvidia, says_that_a_record_makes_no_sense) {
    const auto gpu = runtime();
    plan::Operation operation;
    plan::Peer peer;
    const Device_buffer buffer(4096);
    peer.src = buffer.at(0);
    peer.dst = buffer.at(2048);
    peer.bytes = 16;
    peer.path = SDMA_PATH_LOADSTORE;
    operation.chunk_bytes = 4096;
    operation.peers = {&peer, 1};
    for (const auto kernel : {gpu::Kernel::issue, gpu::Kernel::copy}) {
        Record record(*gpu, operation);
        ASSERT_NE(record.work, nullptr);
        record.work->version = 99;
        run(*gpu, kernel, 1, record.work);
        EXPECT_EQ(record.work->status, SDMA_WORK_BAD);
    }
}

} // namespace
