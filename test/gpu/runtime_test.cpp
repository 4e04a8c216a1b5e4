// SPDX-License-Identifier: BSD-3-Clause
//
// The NVIDIA runtime on a real GPU, in one process (and a child for IPC); with kernels_test.cpp one program.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <cuda.h>

#include "common/sdma/gpu/hip_nvidia/stream.hpp"
#include "test/gpu/runtime_test.hpp"

namespace {

using namespace runtime_tests;

std::string program; // argv[0]

// Must be the first test, so this file the program's first: nothing has started CUDA yet.
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

TEST(Nvidia, a_stream_keeps_signals_that_the_driver_had_no_memory_for) {
    const auto gpu = runtime();
    auto driver = gpu::nvidia::find_driver();
    CUcontext context = nullptr;
    ASSERT_TRUE(driver && driver->cuCtxGetCurrent(&context) == CUDA_SUCCESS);
    const auto store = driver->cuStreamBatchMemOp;
    auto *word = static_cast<uint64_t *>(gpu->allocate_shared(4096));
    {
        const auto stream = gpu::nvidia::Cuda_stream::make(*driver, context);
        ASSERT_NE(stream, nullptr);
        driver->cuStreamBatchMemOp = [](auto...) { return CUDA_ERROR_OUT_OF_MEMORY; };
        EXPECT_EQ(stream->store(reinterpret_cast<uint64_t>(word), 9, 8), Status::ok);
        EXPECT_EQ(stream->submit(), Status::no_memory);
        driver->cuStreamBatchMemOp = store;
        EXPECT_EQ(stream->submit(), Status::ok);
        uint64_t mark = 0;
        EXPECT_EQ(stream->mark(mark), Status::ok);
        EXPECT_TRUE(within_seconds(5, [&] { return stream->reached(mark) == Status::ok; }));
        EXPECT_EQ(__atomic_load_n(word, __ATOMIC_ACQUIRE), 9u);
    }
    gpu->free_shared(word);
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
