// SPDX-License-Identifier: BSD-3-Clause
//
// The NVIDIA runtime and the proxy on a real GPU, in one process (and a child for IPC).
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "common/sdma/base/base.hpp"
#include "common/sdma/engine/engine.hpp"
#include "common/sdma/gpu/gpu.hpp"
#include "common/sdma/op/resident.hpp"
#include "common/sdma/plan/plan.hpp"

namespace {

using namespace sdma;
using gpu::Memory_kind;
using gpu::Status;

std::string program; // argv[0]

std::shared_ptr<gpu::Runtime> runtime() {
    sdma_reason_t reason;
    cudaFree(nullptr); // starts the primary context
    return gpu::open_runtime(reason);
}

template <typename Condition> bool within_seconds(int seconds, Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (!condition())
        if (std::chrono::steady_clock::now() > deadline)
            return false;
    return true;
}

struct Device_buffer {
    explicit Device_buffer(size_t bytes) : bytes(bytes) { EXPECT_EQ(cudaMalloc(&data, bytes), cudaSuccess); }
    ~Device_buffer() { cudaFree(data); }
    Device_buffer(const Device_buffer &) = delete;
    Device_buffer &operator=(const Device_buffer &) = delete;
    void write(const std::vector<uint8_t> &from) {
        ASSERT_EQ(cudaMemcpy(data, from.data(), from.size(), cudaMemcpyDefault), cudaSuccess);
        ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    }
    std::vector<uint8_t> read() const {
        std::vector<uint8_t> to(bytes);
        EXPECT_EQ(cudaMemcpy(to.data(), data, bytes, cudaMemcpyDefault), cudaSuccess);
        return to;
    }
    uint64_t at(size_t offset) const { return reinterpret_cast<uint64_t>(data) + offset; }
    void *data = nullptr;
    size_t bytes;
};

std::vector<uint8_t> random_bytes(size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<uint8_t> bytes(count);
    for (auto &byte : bytes)
        byte = static_cast<uint8_t>(random());
    return bytes;
}

// Must be the first test: nothing has started CUDA yet.
TEST(Nvidia, is_not_there_before_the_application_starts_it) {
    sdma_reason_t reason = SDMA_REASON_none;
    EXPECT_EQ(gpu::open_runtime(reason), nullptr);
    EXPECT_TRUE(reason == SDMA_REASON_no_runtime || reason == SDMA_REASON_no_gpu);
    ASSERT_EQ(cudaFree(nullptr), cudaSuccess);
    EXPECT_TRUE(gpu::runtime_loaded());
    const auto started = gpu::open_runtime(reason);
    ASSERT_NE(started, nullptr) << sdma_reason_text(reason);
    EXPECT_STREQ(started->name(), "cuda");
    EXPECT_FALSE(started->devices().empty());
    for (const auto &device : started->devices())
        std::printf("%s %s %u lanes %u workgroups, CUDA %s\n", gpu::to_string(device.pci).c_str(),
                    device.target.c_str(), device.wave_lanes, device.workgroups, started->version().c_str());
}

TEST(Nvidia, knows_what_a_pointer_is) {
    const auto gpu = runtime();
    int local = 0;
    EXPECT_EQ(gpu->classify(&local).kind, Memory_kind::host);
    EXPECT_EQ(gpu->classify(nullptr).kind, Memory_kind::host);
    EXPECT_EQ(gpu->classify(reinterpret_cast<void *>(0x10)).kind, Memory_kind::host);

    void *pinned = nullptr, *managed = nullptr, *pool = nullptr;
    ASSERT_EQ(cudaMallocHost(&pinned, 4096), cudaSuccess);
    EXPECT_EQ(gpu->classify(pinned).kind, Memory_kind::pinned_host);
    cudaFreeHost(pinned);
    ASSERT_EQ(cudaMallocManaged(&managed, 4096, cudaMemAttachGlobal), cudaSuccess);
    EXPECT_EQ(gpu->classify(managed).kind, Memory_kind::unsupported);
    cudaFree(managed);
    ASSERT_EQ(cudaMallocAsync(&pool, 4096, nullptr), cudaSuccess);
    cudaStreamSynchronize(nullptr);
    EXPECT_EQ(gpu->classify(pool).kind, Memory_kind::unsupported);
    cudaFreeAsync(pool, nullptr);

    uint64_t first = 0;
    {
        const Device_buffer buffer(100000);
        const auto range = gpu->classify(reinterpret_cast<void *>(buffer.at(99999)));
        EXPECT_EQ(range.kind, Memory_kind::device);
        EXPECT_EQ(range.base, buffer.data);
        EXPECT_GE(range.bytes, 100000u);
        EXPECT_EQ(range.device, 0);
        EXPECT_EQ(gpu->classify(buffer.data).generation, range.generation);
        first = range.generation;
    }
    const Device_buffer again(100000);
    EXPECT_NE(gpu->classify(again.data).generation, first);
}

TEST(Nvidia, copies_between_any_two) {
    const auto gpu = runtime();
    const auto in = random_bytes(100001, 1);
    const Device_buffer a(in.size()), b(in.size());
    std::vector<uint8_t> out(in.size());
    EXPECT_EQ(gpu->copy(a.data, in.data(), in.size()), Status::ok);
    EXPECT_EQ(gpu->copy(b.data, a.data, in.size()), Status::ok);
    EXPECT_EQ(gpu->copy(out.data(), b.data, in.size()), Status::ok);
    EXPECT_EQ(in, out);
    std::fill(out.begin(), out.end(), 0);
    EXPECT_EQ(gpu->copy(out.data(), in.data(), in.size()), Status::ok);
    EXPECT_EQ(in, out);
}

TEST(Nvidia, streams_order_signals_behind_copies) {
    const auto gpu = runtime();
    const auto in = random_bytes(size_t{64} << 20, 2);
    Device_buffer a(in.size());
    const Device_buffer b(in.size());
    a.write(in);
    auto *words = static_cast<uint64_t *>(gpu->allocate_shared(4096));
    auto *tail = static_cast<uint8_t *>(gpu->allocate_shared(4096));
    ASSERT_NE(words, nullptr);
    const auto stream = gpu->stream(0);
    ASSERT_NE(stream, nullptr);
    words[0] = words[1] = ~uint64_t{0};
    EXPECT_EQ(stream->copy(b.data, a.data, in.size()), Status::ok);
    EXPECT_EQ(stream->copy(tail, reinterpret_cast<void *>(b.at(in.size() - 4096)), 4096), Status::ok);
    EXPECT_EQ(stream->store(reinterpret_cast<uint64_t>(&words[0]), 0x1122334455667788, 8), Status::ok);
    EXPECT_EQ(stream->store(reinterpret_cast<uint64_t>(&words[1]), 7, 4), Status::ok);
    EXPECT_EQ(stream->submit(), Status::ok);
    EXPECT_TRUE(within_seconds(5, [&] { return __atomic_load_n(&words[1], __ATOMIC_ACQUIRE) == 0xffffffff00000007; }));
    EXPECT_EQ(words[0], 0x1122334455667788u);
    EXPECT_EQ(std::memcmp(tail, in.data() + in.size() - 4096, 4096), 0) << "the signal passed the copy";
    uint64_t mark = 0;
    EXPECT_EQ(stream->mark(mark), Status::ok);
    EXPECT_TRUE(within_seconds(5, [&] { return stream->reached(mark) == Status::ok; }));
    EXPECT_EQ(b.read(), in);
    gpu->free_shared(words);
    gpu->free_shared(tail);
}

TEST(Nvidia, pins_a_shared_segment) {
    const auto gpu = runtime();
    const int file = memfd_create("sdma-test", 0);
    ASSERT_EQ(ftruncate(file, 65536), 0);
    void *segment = mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ASSERT_NE(segment, MAP_FAILED);
    void *address = nullptr;
    ASSERT_EQ(gpu->pin(segment, 65536, address), Status::ok);
    const auto stream = gpu->stream(0);
    EXPECT_EQ(stream->store(reinterpret_cast<uint64_t>(address) + 4096, 5, 8), Status::ok);
    EXPECT_EQ(stream->submit(), Status::ok);
    auto *word = reinterpret_cast<uint64_t *>(static_cast<char *>(segment) + 4096);
    EXPECT_TRUE(within_seconds(5, [&] { return __atomic_load_n(word, __ATOMIC_ACQUIRE) == 5; }));
    gpu->unpin(segment);
    munmap(segment, 65536);
    close(file);
}

// ---- kernels ---------------------------------------------------------------------------------------

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
    gpu.release(launch);
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

// ---- another process -----------------------------------------------------------------------------

std::string to_hex(const gpu::Handle &handle) {
    std::string text;
    char word[12];
    for (uint32_t value : handle.words) {
        std::snprintf(word, sizeof word, "%08x", value);
        text += word;
    }
    return text;
}

// The child: attaches each handle, adds one to the first byte, says what went wrong by its status.
int attach_all(int argc, char **argv) {
    const auto gpu = runtime();
    if (!gpu)
        return 2;
    std::vector<void *> mapped;
    for (int i = 2; i < argc; i++) {
        gpu::Handle handle;
        for (size_t w = 0; w < handle.words.size(); w++)
            handle.words[w] = static_cast<uint32_t>(std::stoul(std::string(argv[i]).substr(8 * w, 8), nullptr, 16));
        void *memory = nullptr;
        if (gpu->attach(0, handle, size_t{1} << 40, memory) == Status::ok)
            return 3; // larger than it is
        if (gpu->attach(0, handle, 5000, memory) != Status::ok)
            return 4;
        uint8_t byte = 0;
        if (gpu->copy(&byte, memory, 1) != Status::ok || byte != i)
            return 5;
        byte++;
        if (gpu->copy(memory, &byte, 1) != Status::ok)
            return 6;
        mapped.push_back(memory);
    }
    for (void *memory : mapped)
        gpu->detach(memory);
    gpu::Handle wild;
    wild.words.fill(0x5a5a5a5a);
    void *memory = nullptr;
    return gpu->attach(0, wild, 1, memory) == Status::ok ? 7 : 0;
}

TEST(Nvidia, gives_memory_to_another_process) {
    const auto gpu = runtime();
    // Small ones share a block of the driver's.
    const Device_buffer a(5000), b(5000), c(size_t{8} << 20);
    std::string command = program + " --attach";
    uint8_t first = 2;
    for (const Device_buffer *buffer : {&a, &b, &c}) {
        const auto range = gpu->classify(buffer->data);
        gpu::Handle handle;
        ASSERT_EQ(gpu->export_memory(range.base, range.bytes, handle), Status::ok);
        ASSERT_EQ(gpu->copy(buffer->data, &first, 1), Status::ok);
        first++;
        command += " " + to_hex(handle);
    }
    const int status = std::system(command.c_str());
    EXPECT_EQ(WEXITSTATUS(status), 0) << "see attach_all()";
    first = 3;
    for (const Device_buffer *buffer : {&a, &b, &c}) {
        uint8_t byte = 0;
        ASSERT_EQ(gpu->copy(&byte, buffer->data, 1), Status::ok);
        EXPECT_EQ(byte, first++);
    }
}

} // namespace

int main(int argc, char **argv) {
    program = argv[0];
    if (argc > 1 && std::strcmp(argv[1], "--attach") == 0)
        return attach_all(argc, argv);
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
