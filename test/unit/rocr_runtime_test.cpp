// SPDX-License-Identifier: BSD-3-Clause
//
// The ROCr runtime against the installed ROCr: run it under sdma_simnode with two GPUs or more
// (rocr_test.sh does). Started again with --peer it is the other process of an exchange.
#include <cstring>
#include <set>
#include <string>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rocr_application.hpp"

namespace sdma {

using gpu::Memory_kind;

// Must be the first: nothing of ROCr is started yet.
TEST(Rocr_start, NothingBeforeTheApplication) {
    EXPECT_TRUE(gpu::runtime_loaded());
    sdma_reason_t reason = SDMA_REASON_none;
    EXPECT_FALSE(gpu::open_runtime(reason));
    EXPECT_EQ(reason, SDMA_REASON_no_gpu);
    uint16_t major = 0;
    EXPECT_EQ(hsa_system_get_info(HSA_SYSTEM_INFO_VERSION_MAJOR, &major), HSA_STATUS_ERROR_NOT_INITIALIZED);
}

TEST_F(Rocr, OneRuntimeWithTheApplicationsGpus) {
    EXPECT_EQ(open(), runtime);
    EXPECT_STREQ(runtime->name(), "rocr");
    EXPECT_FALSE(runtime->version().empty());
    const auto &devices = runtime->devices();
    ASSERT_EQ(devices.size(), application().gpus.size());
    std::set<gpu::Pci_address> addresses;
    std::set<uint32_t> nodes;
    for (size_t i = 0; i < devices.size(); i++) {
        uint32_t location = 0, domain = 0;
        hsa_agent_get_info(application().gpus[i], static_cast<hsa_agent_info_t>(HSA_AMD_AGENT_INFO_BDFID), &location);
        hsa_agent_get_info(application().gpus[i], static_cast<hsa_agent_info_t>(HSA_AMD_AGENT_INFO_DOMAIN), &domain);
        EXPECT_EQ(devices[i].pci.bus, location >> 8 & 0xff);
        EXPECT_EQ(devices[i].pci.domain, domain);
        EXPECT_EQ(devices[i].target.substr(0, 3), "gfx");
        EXPECT_EQ(devices[i].target.find(':'), std::string::npos);
        EXPECT_EQ(devices[i].wave_lanes, 64u);
        EXPECT_GT(devices[i].workgroups, 0u);
        addresses.insert(devices[i].pci);
        nodes.insert(devices[i].node);
    }
    EXPECT_EQ(addresses.size(), devices.size());
    EXPECT_EQ(nodes.size(), devices.size());
}

TEST_F(Rocr, ClassifiesHostMemory) {
    int local = 0;
    const std::vector<char> heap(MiB);
    for (const void *address :
         std::initializer_list<const void *>{&local, heap.data(), nullptr, reinterpret_cast<const void *>(0x10)})
        EXPECT_EQ(runtime->classify(address).kind, Memory_kind::host) << address;
    void *pinned = allocate(application().host, MiB);
    ASSERT_TRUE(pinned);
    const auto range = runtime->classify(static_cast<char *>(pinned) + 100);
    EXPECT_EQ(range.kind, Memory_kind::pinned_host);
    EXPECT_EQ(range.device, -1);
    EXPECT_EQ(range.base, pinned);
    hsa_amd_memory_pool_free(pinned);
}

TEST_F(Rocr, ClassifiesDeviceMemoryByAllocation) {
    for (const size_t bytes : {64 * KiB, 3 * MiB})
        for (int device : {0, 1}) {
            auto *memory = static_cast<char *>(allocate(application().vram[device], bytes));
            ASSERT_TRUE(memory);
            const auto range = runtime->classify(memory + bytes / 2);
            EXPECT_EQ(range.kind, Memory_kind::device);
            EXPECT_EQ(range.device, device);
            EXPECT_EQ(range.base, memory);
            EXPECT_GE(range.bytes, bytes);
            EXPECT_NE(range.generation, 0u);
            EXPECT_EQ(runtime->classify(memory).generation, range.generation);
            EXPECT_EQ(runtime->classify(memory + bytes - 1).base, memory);
            hsa_amd_memory_pool_free(memory);
            EXPECT_NE(runtime->classify(memory).generation, range.generation);
        }
}

TEST_F(Rocr, GenerationTellsReuseOfAnAddress) {
    std::vector<std::pair<void *, uint64_t>> freed;
    runtime->on_free([&](void *base, uint64_t generation) { freed.emplace_back(base, generation); });
    for (const size_t bytes : {64 * KiB, 4 * MiB}) {
        bool reused = false;
        void *first = allocate(application().vram[0], bytes);
        uint64_t generation = runtime->classify(first).generation;
        for (int attempt = 0; attempt < 8 && !reused; attempt++) {
            freed.clear();
            hsa_amd_memory_pool_free(first);
            ASSERT_EQ(freed.size(), 1u);
            EXPECT_EQ(freed[0], std::make_pair(first, generation));
            void *second = allocate(application().vram[0], bytes);
            const auto range = runtime->classify(second);
            EXPECT_NE(range.generation, generation);
            reused = second == first;
            first = second;
            generation = range.generation;
        }
        EXPECT_TRUE(reused) << "no address was reused: nothing was tested";
        hsa_amd_memory_pool_free(first);
    }
    freed.clear();
    void *never_seen = allocate(application().vram[0], MiB);
    hsa_amd_memory_pool_free(never_seen);
    EXPECT_TRUE(freed.empty());
    runtime->on_free(nullptr);
}

TEST_F(Rocr, ClassifiesFromManyThreads) {
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 50; i++) {
                auto *memory = static_cast<char *>(allocate(application().vram[t % 2], 64 * KiB));
                const auto one = runtime->classify(memory + i), two = runtime->classify(memory);
                wrong += one.base != memory || one.device != t % 2 || one.generation != two.generation;
                hsa_amd_memory_pool_free(memory);
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(wrong, 0);
}

TEST_F(Rocr, SharesAllocationsBetweenProcesses) {
    void *neighbour = buffer(0, 64 * KiB, 1); // so that the next small one is not first in its block
    for (const size_t bytes : {64 * KiB, 4 * MiB}) {
        void *memory = buffer(0, bytes, 7);
        const auto range = runtime->classify(memory);
        gpu::Handle handle;
        ASSERT_EQ(runtime->export_memory(range.base, range.bytes, handle), Status::ok);
        std::string hex;
        for (uint32_t word : handle.words)
            hex += std::to_string(word) + ',';
        const std::string size = std::to_string(range.bytes);
        const pid_t peer = fork();
        if (peer == 0) {
            execl("/proc/self/exe", "peer", "--peer", hex.c_str(), size.c_str(), nullptr);
            _exit(99);
        }
        int status = -1;
        waitpid(peer, &status, 0);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "peer status " << status;
        EXPECT_EQ(read(memory, bytes), pattern(bytes, 8)); // what the peer wrote
        hsa_amd_memory_pool_free(memory);
    }
    EXPECT_EQ(read(neighbour, 64 * KiB), pattern(64 * KiB, 1));
    hsa_amd_memory_pool_free(neighbour);
}

// The other process: a kernel on its GPU reads 7 and writes 8. (Memory attached for GPU 1 is not
// there for the engines of GPU 0, which a blocking copy would use: the memory is GPU 0's.)
static int peer_main(const char *words, size_t bytes) {
    if (application().gpus.size() < 2)
        return 1;
    const auto runtime = open();
    gpu::Handle handle;
    for (uint32_t &word : handle.words) {
        char *end = nullptr;
        word = static_cast<uint32_t>(std::strtoul(words, &end, 10));
        words = end + 1;
    }
    void *mapped = nullptr;
    if (runtime->attach(1, handle, bytes, mapped) != Status::ok)
        return 2;
    // Not ours: nobody may export it once more.
    if (runtime->classify(mapped).kind != Memory_kind::unsupported)
        return 3;
    void *local = allocate(application().vram[1], bytes);
    const auto move = [&](const void *src, void *dst) {
        gpu::Launch launch = 0;
        return runtime->launch(1, gpu::Kernel::copy, 2, make_record(*runtime, nullptr, src, dst, bytes), launch) ==
                   Status::ok &&
               within_limit([&] { return runtime->finished(launch) != Status::pending; }) &&
               runtime->finished(launch) == Status::ok;
    };
    std::vector<uint32_t> seen(bytes / sizeof(uint32_t));
    if (!move(mapped, local) || runtime->copy(seen.data(), local, bytes) != Status::ok || seen != pattern(bytes, 7))
        return 4;
    if (runtime->copy(local, pattern(bytes, 8).data(), bytes) != Status::ok || !move(local, mapped))
        return 5;
    runtime->detach(mapped);
    return 0;
}

// While GPU memory that ROCr keeps is bounded.
struct Kept_bound {
    explicit Kept_bound(size_t bytes) { params().kept_max = bytes; }
    ~Kept_bound() { params().kept_max = before; }
    const size_t before = params().kept_max;
};

// Alone in its block, an allocation takes the block away with it: no bound for these.
TEST_F(Rocr, SharesSmallAllocationsThatComeBackForEver) {
    runtime->on_free(nullptr);
    const Kept_bound bound(64 * MiB);
    for (int i = 0; i < 100; i++) {
        void *memory = allocate(application().vram[0], 1536 * KiB); // no second one has room
        gpu::Handle handle;
        ASSERT_EQ(runtime->export_memory(memory, runtime->classify(memory).bytes, handle), Status::ok) << i;
        hsa_amd_memory_pool_free(memory);
    }
}

// Two allocations in one block, one of them shared. If nothing is kept any more, then this ROCr is mended.
TEST_F(Rocr, BoundsWhatIsKeptOfSmallSharedAllocations) {
    runtime->on_free(nullptr);
    const auto share = [&](size_t bytes) {
        void *memory = allocate(application().vram[0], bytes);
        void *neighbour = allocate(application().vram[0], bytes);
        gpu::Handle handle;
        const Status status = runtime->export_memory(memory, runtime->classify(memory).bytes, handle);
        hsa_amd_memory_pool_free(memory);
        hsa_amd_memory_pool_free(neighbour);
        return status;
    };
    const Kept_bound bound(64 * MiB);
    int shared = 0;
    while (shared < 100 && share(800 * KiB) == Status::ok)
        shared++;
    EXPECT_GE(shared, 20); // other tests may have left some
    EXPECT_LE(shared, 40); // blocks that were cut before have room left
    EXPECT_EQ(share(800 * KiB), Status::kept);
    EXPECT_EQ(share(3 * MiB), Status::ok); // has a block of its own
    const Kept_bound more(128 * MiB);
    EXPECT_EQ(share(800 * KiB), Status::ok);
}

TEST_F(Rocr, RefusesMalformedHandles) {
    void *memory = buffer(0, 4 * MiB, 1);
    gpu::Handle handle;
    ASSERT_EQ(runtime->export_memory(memory, 4 * MiB, handle), Status::ok);
    void *mapped = memory;
    EXPECT_EQ(runtime->attach(1, handle, 4 * MiB + 4096, mapped), Status::invalid);
    EXPECT_EQ(mapped, nullptr);
    EXPECT_EQ(runtime->attach(1, handle, 0, mapped), Status::invalid);
    EXPECT_EQ(runtime->attach(-1, handle, 4 * MiB, mapped), Status::invalid);
    EXPECT_EQ(runtime->attach(99, handle, 4 * MiB, mapped), Status::invalid);
    EXPECT_EQ(runtime->attach(1, {}, 4 * MiB, mapped), Status::invalid);
    gpu::Handle other = handle;
    other.words[0]++;
    EXPECT_EQ(runtime->attach(1, other, 4 * MiB, mapped), Status::invalid);
    EXPECT_NE(runtime->export_memory(static_cast<char *>(memory) + 4096, 4096, handle), Status::ok);
    hsa_amd_memory_pool_free(memory);
}

TEST_F(Rocr, AllocatesZeroedMemory) {
    for (int round = 0; round < 3; round++) { // memory that was dirty before, too
        auto *shared = static_cast<uint32_t *>(runtime->allocate_shared(64 * KiB));
        ASSERT_TRUE(shared);
        EXPECT_TRUE(std::all_of(shared, shared + 16 * KiB, [](uint32_t word) { return word == 0; }));
        std::fill(shared, shared + 16 * KiB, 0xffffffffu);
        void *device = runtime->allocate_device(1, 64 * KiB);
        ASSERT_TRUE(device);
        EXPECT_EQ(runtime->classify(device).device, 1);
        EXPECT_EQ(read(device, 64 * KiB), std::vector<uint32_t>(16 * KiB));
        EXPECT_EQ(runtime->copy(device, shared, 64 * KiB), Status::ok);
        runtime->free_device(device);
        runtime->free_shared(shared);
    }
    EXPECT_EQ(runtime->allocate_device(99, 4096), nullptr);
}

TEST_F(Rocr, LoadStoreKernelMovesBytesAndSignals) {
    void *src = buffer(0, MiB, 3), *dst = buffer(1, MiB, 4);
    Record *record = make_record(*runtime, nullptr, src, dst, MiB - 64);
    ASSERT_TRUE(record);
    EXPECT_EQ(run(0, gpu::Kernel::copy, 4, record), Status::ok);
    EXPECT_EQ(record->work.status, static_cast<uint64_t>(SDMA_WORK_ISSUED));
    EXPECT_EQ(load(record->arrival), 1u);
    EXPECT_EQ(load(record->departure), 1u);
    auto wanted = pattern(MiB, 3);
    const auto old = pattern(MiB, 4);
    std::copy(old.end() - 16, old.end(), wanted.end() - 16);
    EXPECT_EQ(read(dst, MiB), wanted);
    runtime->free_shared(record);
    hsa_amd_memory_pool_free(src);
    hsa_amd_memory_pool_free(dst);
}

TEST_F(Rocr, KernelsReachAPinnedSharedSegment) {
    const int file = memfd_create("segment", MFD_CLOEXEC);
    ASSERT_EQ(ftruncate(file, 64 * KiB), 0);
    void *segment = mmap(nullptr, 64 * KiB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ASSERT_NE(segment, MAP_FAILED);
    std::memset(segment, 0, 64 * KiB);
    void *address = nullptr;
    ASSERT_EQ(runtime->pin(segment, 64 * KiB, address), Status::ok);
    EXPECT_EQ(runtime->classify(segment).kind, Memory_kind::pinned_host);
    void *src = buffer(0, 4 * KiB, 5);
    Record *record = make_record(*runtime, nullptr, src, static_cast<char *>(address) + 4 * KiB, 4 * KiB);
    record->peer.arrival = reinterpret_cast<uint64_t>(address);
    EXPECT_EQ(run(0, gpu::Kernel::copy, 1, record), Status::ok);
    EXPECT_EQ(load(*static_cast<uint64_t *>(segment)), 1u);
    EXPECT_EQ(std::memcmp(static_cast<char *>(segment) + 4 * KiB, pattern(4 * KiB, 5).data(), 4 * KiB), 0);
    runtime->free_shared(record);
    runtime->unpin(segment);
    EXPECT_EQ(runtime->classify(segment).kind, Memory_kind::host);
    munmap(segment, 64 * KiB);
    close(file);
    hsa_amd_memory_pool_free(src);
}

TEST_F(Rocr, LaunchesAreCountedAndSlotsComeBack) {
    std::vector<gpu::Launch> launches;
    // All launches share it, nothing is moved, and it is never freed: some are not waited for.
    Record *record = make_record(*runtime, nullptr, nullptr, nullptr, 0);
    record->work.kernel_signals = 0;
    gpu::Launch launch = 0;
    Status status = Status::ok;
    for (int i = 0; i < 500; i++) { // nobody asks what became of them
        ASSERT_TRUE(within_limit([&] {
            status = runtime->launch(i % 2, gpu::Kernel::copy, 1, record, launch);
            EXPECT_EQ(status == Status::pending, launch == 0);
            return status != Status::pending;
        }));
        ASSERT_EQ(status, Status::ok);
        launches.push_back(launch);
    }
    EXPECT_EQ(std::set(launches.begin(), launches.end()).size(), launches.size());
    for (gpu::Launch one : launches)
        EXPECT_TRUE(within_limit([&] { return runtime->finished(one) == Status::ok; }));
    EXPECT_EQ(runtime->finished(launch + (launch & ~uint64_t{0xff})), Status::invalid) << "a round to come";
    EXPECT_EQ(runtime->launch(99, gpu::Kernel::copy, 1, record, launch), Status::invalid);
    EXPECT_EQ(runtime->launch(0, gpu::Kernel::copy, 0, record, launch), Status::invalid);
    EXPECT_EQ(runtime->finished(0), Status::invalid);
}

TEST_F(Rocr, StreamKeepsItsOrder) {
    const auto stream = runtime->stream(0);
    ASSERT_TRUE(stream);
    constexpr size_t bytes = 256 * KiB, hops = 100;
    std::vector<void *> buffers;
    for (int i = 0; i < 4; i++)
        buffers.push_back(buffer(i % 2, bytes, i));
    void *host = runtime->allocate_shared(bytes);
    uint64_t mark = 0;
    // Each copy reads what the one before has written.
    for (size_t i = 0; i < hops; i++) {
        Status status;
        ASSERT_TRUE(within_limit([&] {
            status = stream->copy(buffers[(i + 1) % 4], buffers[i % 4], bytes);
            if (status == Status::pending)
                stream->reached(mark);
            return status != Status::pending;
        }));
        ASSERT_EQ(status, Status::ok);
    }
    Status status;
    ASSERT_TRUE(within_limit([&] {
        status = stream->copy(host, buffers[hops % 4], bytes);
        return status != Status::pending;
    }));
    ASSERT_EQ(stream->mark(mark), Status::ok);
    EXPECT_EQ(stream->store(reinterpret_cast<uint64_t>(host), 1, 8), Status::unsupported);
    EXPECT_TRUE(within_limit([&] { return stream->reached(mark) == Status::ok; }));
    EXPECT_EQ(std::memcmp(host, pattern(bytes, 0).data(), bytes), 0);
    runtime->free_shared(host);
    for (void *memory : buffers)
        hsa_amd_memory_pool_free(memory);
}

// Under sdma_simnode --fault; rocr_test.sh chooses it.
TEST_F(Rocr, UnderFaultAttach) {
    void *memory = buffer(0, 4 * MiB, 1);
    gpu::Handle handle;
    ASSERT_EQ(runtime->export_memory(memory, 4 * MiB, handle), Status::ok);
    void *mapped = nullptr;
    EXPECT_NE(runtime->attach(1, handle, 4 * MiB, mapped), Status::ok);
    EXPECT_EQ(mapped, nullptr);
}

} // namespace sdma

int main(int argc, char **argv) {
    if (argc == 4 && std::strcmp(argv[1], "--peer") == 0)
        return sdma::peer_main(argv[2], std::strtoull(argv[3], nullptr, 10));
    if (argc == 3 && std::strcmp(argv[1], "--end") == 0)
        return sdma::end_main(argv[2]);
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
