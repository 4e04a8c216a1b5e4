// SPDX-License-Identifier: BSD-3-Clause
//
// The ROCr runtime and user-mode queues against the installed ROCr: run it under sdma_simnode with
// two GPUs or more (rocr_runtime.sh does). The test is the application: it starts ROCr and owns
// the buffers. Started again with --peer it is the other process of an exchange.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/sdma/base/base.hpp"
#include "common/sdma/engine/engine.hpp"
#include "common/sdma/gpu/gpu.hpp"
#include "common/sdma/plan/work.h"

namespace sdma {

using engine::Producer;
using gpu::Memory_kind;
using gpu::Status;

namespace {

constexpr size_t KiB = 1024, MiB = 1024 * KiB;
constexpr auto limit = std::chrono::seconds(20);

template <typename Done> bool within_limit(Done done) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!done()) {
        if (std::chrono::steady_clock::now() > end)
            return false;
        std::this_thread::yield();
    }
    return true;
}

// ---- the application's side: its own ROCr agents and memory ------------------------------------

struct Application {
    std::vector<hsa_agent_t> gpus;
    std::vector<hsa_amd_memory_pool_t> vram;
    hsa_amd_memory_pool_t host{};
};

hsa_amd_memory_pool_t pool_of(hsa_agent_t agent, uint32_t flag) {
    struct Search {
        uint32_t flag;
        hsa_amd_memory_pool_t found;
    } search{flag, {}};
    hsa_amd_agent_iterate_memory_pools(
        agent,
        [](hsa_amd_memory_pool_t pool, void *data) {
            auto &wanted = *static_cast<Search *>(data);
            hsa_amd_segment_t segment{};
            uint32_t flags = 0;
            hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);
            if (segment == HSA_AMD_SEGMENT_GLOBAL)
                hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags);
            if (flags & wanted.flag)
                wanted.found = pool;
            return HSA_STATUS_SUCCESS;
        },
        &search);
    return search.found;
}

Application &application() {
    static Application *started = [] {
        auto *app = new Application; // lives as long as the process
        if (hsa_init() != HSA_STATUS_SUCCESS)
            return app;
        hsa_iterate_agents(
            [](hsa_agent_t agent, void *data) {
                auto &app = *static_cast<Application *>(data);
                hsa_device_type_t type{};
                hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
                if (type == HSA_DEVICE_TYPE_GPU) {
                    app.gpus.push_back(agent);
                    app.vram.push_back(pool_of(agent, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED));
                } else {
                    app.host = pool_of(agent, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED);
                }
                return HSA_STATUS_SUCCESS;
            },
            app);
        return app;
    }();
    return *started;
}

// A buffer of the application, all GPUs may touch it.
void *allocate(hsa_amd_memory_pool_t pool, size_t bytes) {
    void *memory = nullptr;
    if (hsa_amd_memory_pool_allocate(pool, bytes, 0, &memory) != HSA_STATUS_SUCCESS)
        return nullptr;
    auto &gpus = application().gpus;
    hsa_amd_agents_allow_access(static_cast<uint32_t>(gpus.size()), gpus.data(), nullptr, memory);
    return memory;
}

std::vector<uint32_t> pattern(size_t bytes, uint32_t seed) {
    std::vector<uint32_t> words(bytes / sizeof(uint32_t));
    for (size_t i = 0; i < words.size(); i++)
        words[i] = static_cast<uint32_t>(i) * 2654435761u ^ seed;
    return words;
}

// ---- the library's side --------------------------------------------------------------------------

std::shared_ptr<gpu::Runtime> open() {
    if (const char *root = std::getenv("OMPI_MCA_coll_sdma_sysfs"))
        params().sysfs = root;
    sdma_reason_t reason;
    return gpu::open_runtime(reason);
}

// A record with one queue and one peer in memory that everybody reaches.
struct Record {
    sdma_work work;
    sdma_work_queue queue;
    sdma_work_peer peer;
    uint64_t arrival, departure;
};

Record *make_record(gpu::Runtime &runtime, const sdma_ring *ring, const void *src, void *dst, size_t bytes) {
    auto *record = static_cast<Record *>(runtime.allocate_shared(sizeof(Record)));
    if (!record)
        return nullptr;
    record->work.magic = SDMA_WORK_MAGIC;
    record->work.version = SDMA_WORK_VERSION;
    record->work.record_bytes = sizeof(Record);
    record->work.signal_kind = SDMA_SIGNAL_ATOMIC;
    record->work.queues = ring ? 1 : 0;
    record->work.peers = 1;
    record->work.queues_offset = offsetof(Record, queue);
    record->work.peers_offset = offsetof(Record, peer);
    record->work.chunk_bytes = 256 * KiB;
    record->work.spin_budget = 1u << 24;
    record->work.kernel_signals = ring ? 0 : 1;
    record->queue = {reinterpret_cast<uint64_t>(ring), 0, ring ? 1u : 0u};
    record->peer.src = reinterpret_cast<uint64_t>(src);
    record->peer.dst = reinterpret_cast<uint64_t>(dst);
    record->peer.bytes = bytes;
    record->peer.arrival = reinterpret_cast<uint64_t>(&record->arrival);
    record->peer.departure = reinterpret_cast<uint64_t>(&record->departure);
    record->peer.arrival_value = record->peer.departure_value = 1;
    record->peer.path = ring ? SDMA_PATH_ENGINE : SDMA_PATH_LOADSTORE;
    return record;
}

uint64_t load(const uint64_t &word) { return std::atomic_ref(const_cast<uint64_t &>(word)).load(); }

class Rocr : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_GE(application().gpus.size(), 2u) << "run under sdma_simnode --gpus 2";
        runtime = open();
        ASSERT_TRUE(runtime);
    }

    // Bytes of a buffer that only GPUs may touch, through the runtime.
    std::vector<uint32_t> read(const void *src, size_t bytes) {
        std::vector<uint32_t> words(bytes / sizeof(uint32_t));
        EXPECT_EQ(runtime->copy(words.data(), src, bytes), Status::ok);
        return words;
    }
    void *buffer(int device, size_t bytes, uint32_t seed) {
        void *memory = allocate(application().vram[device], bytes);
        EXPECT_TRUE(memory && runtime->copy(memory, pattern(bytes, seed).data(), bytes) == Status::ok);
        return memory;
    }
    Status run(int device, gpu::Kernel kernel, uint32_t workgroups, void *argument) {
        gpu::Launch launch = 0;
        Status status = runtime->launch(device, kernel, workgroups, argument, launch);
        if (status != Status::ok)
            return status;
        within_limit([&] { return (status = runtime->finished(launch)) != Status::pending; });
        runtime->release(launch);
        return status;
    }

    std::shared_ptr<gpu::Runtime> runtime;
};

} // namespace

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
    for (const void *address : std::initializer_list<const void *>{&local, heap.data(), nullptr,
                                                                   reinterpret_cast<const void *>(0x10)})
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
    void *src = buffer(0, 4 * KiB, 1), *dst = buffer(0, 4 * KiB, 2);
    std::vector<gpu::Launch> launches;
    Record *record = make_record(*runtime, nullptr, src, dst, 4 * KiB);
    record->work.kernel_signals = 0; // the launches share the record
    gpu::Launch launch = 0;
    Status status;
    while ((status = runtime->launch(0, gpu::Kernel::copy, 1, record, launch)) == Status::ok && launches.size() < 1000)
        launches.push_back(launch);
    EXPECT_EQ(status, Status::pending);
    EXPECT_EQ(launch, 0u);
    EXPECT_EQ(launches.size(), 64u);
    EXPECT_EQ(std::set(launches.begin(), launches.end()).size(), launches.size());
    for (gpu::Launch one : launches) {
        EXPECT_TRUE(within_limit([&] { return runtime->finished(one) == Status::ok; }));
        runtime->release(one);
        EXPECT_EQ(runtime->finished(one), Status::invalid);
    }
    for (int i = 0; i < 200; i++) { // released before it is known to be finished
        ASSERT_TRUE(within_limit([&] {
            status = runtime->launch(i % 2, gpu::Kernel::copy, 1, record, launch);
            return status != Status::pending;
        }));
        ASSERT_EQ(status, Status::ok);
        if (i != 199)
            runtime->release(launch);
    }
    EXPECT_TRUE(within_limit([&] { return runtime->finished(launch) == Status::ok; }));
    runtime->release(launch);
    EXPECT_EQ(runtime->launch(99, gpu::Kernel::copy, 1, record, launch), Status::invalid);
    EXPECT_EQ(runtime->launch(0, gpu::Kernel::copy, 0, record, launch), Status::invalid);
    EXPECT_EQ(runtime->finished(0), Status::invalid);
    hsa_amd_memory_pool_free(src);
    hsa_amd_memory_pool_free(dst);
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

// ---- user-mode queues ------------------------------------------------------------------------------

class User_queue : public Rocr {
protected:
    void SetUp() override {
        Rocr::SetUp();
        params().engine = "user";
        if (runtime)
            engines = std::make_unique<engine::Engines>(runtime);
    }
    engine::Queue *queue(int device, int peer, Producer producer = Producer::device) {
        return engines->queue(device, runtime->devices()[peer].pci, producer, reason);
    }
    std::unique_ptr<engine::Engines> engines;
    sdma_reason_t reason = SDMA_REASON_none;
};

TEST_F(User_queue, KernelMovesBytesThroughTheEngine) {
    engine::Queue *own = queue(0, 1);
    ASSERT_TRUE(own) << sdma_reason_name(reason);
    EXPECT_EQ(own->back_end, "user");
    EXPECT_TRUE(own->gpu_ringable);
    EXPECT_EQ(queue(0, 1), own);
    EXPECT_NE(own->describe().find("user queue"), std::string::npos);
    void *src = buffer(0, 4 * MiB, 3), *dst = buffer(1, 4 * MiB, 4);
    for (int round = 0; round < 60; round++) { // around the ring more than once
        Record *record = make_record(*runtime, own->ring, src, dst, 4 * MiB);
        ASSERT_EQ(run(0, gpu::Kernel::issue, 1, record), Status::ok);
        EXPECT_EQ(record->work.status, static_cast<uint64_t>(SDMA_WORK_ISSUED));
        ASSERT_TRUE(within_limit([&] { return load(record->arrival) == 1 && load(record->departure) == 1; }))
            << own->describe();
        runtime->free_shared(record);
    }
    EXPECT_EQ(read(dst, 4 * MiB), pattern(4 * MiB, 3));
    hsa_amd_memory_pool_free(src);
    hsa_amd_memory_pool_free(dst);
}

TEST_F(User_queue, OnePerDeviceEngineAndProducer) {
    engine::Queue *device = queue(0, 1), *back = queue(1, 0), *host = queue(0, 1, Producer::host);
    ASSERT_TRUE(device && back && host);
    EXPECT_EQ(std::set<engine::Queue *>({device, back, host}).size(), 3u);
    EXPECT_EQ(std::set<uint64_t>({device->generation, back->generation, host->generation}).size(), 3u);
    EXPECT_EQ(host->placement, engine::Placement::host_pinned);
    std::set<uint32_t> seen;
    for (size_t peer = 1; peer < runtime->devices().size(); peer++) {
        engine::Queue *to_peer = queue(0, static_cast<int>(peer));
        ASSERT_TRUE(to_peer);
        seen.insert(to_peer->engine);
    }
    EXPECT_GE(seen.size(), std::min<size_t>(runtime->devices().size() - 1, 3));
    EXPECT_EQ(engines->queue(99, runtime->devices()[1].pci, Producer::device, reason), nullptr);
    EXPECT_EQ(reason, SDMA_REASON_no_gpu);
}

TEST_F(User_queue, AnAbandonedEngineStaysOut) {
    engine::Queue *own = queue(0, 1);
    ASSERT_TRUE(own);
    engines->abandon(*own);
    EXPECT_EQ(own->ring, nullptr);
    EXPECT_NE(own->describe().find("destroyed"), std::string::npos);
    engines->abandon(*own); // a second team saw the fault as well
    EXPECT_EQ(queue(0, 1), nullptr);
    EXPECT_EQ(reason, SDMA_REASON_fault);
    EXPECT_TRUE(queue(1, 0));
}

TEST_F(User_queue, SlotsComeBack) {
    for (int round = 0; round < 12; round++) { // an engine has eight
        engines = std::make_unique<engine::Engines>(runtime);
        ASSERT_TRUE(queue(0, 1)) << "round " << round << ": " << sdma_reason_name(reason);
    }
}

TEST_F(User_queue, SharesWhenTheEnginesAreFull) {
    std::vector<std::unique_ptr<engine::Engines>> others; // as many processes would
    engine::Queue *last = nullptr;
    for (int i = 0; i < 200; i++) {
        others.push_back(std::make_unique<engine::Engines>(runtime));
        last = others.back()->queue(0, runtime->devices()[1].pci, Producer::device, reason);
        if (!last)
            break;
    }
    EXPECT_FALSE(last);
    EXPECT_EQ(reason, SDMA_REASON_slots_full);
    EXPECT_EQ(others.back()->report(0)[0].reason, SDMA_REASON_slots_full);
    others.pop_back();
    // One that has a queue on the device uses it for all peers.
    if (runtime->devices().size() > 2) {
        engine::Queue *first = others[0]->queue(0, runtime->devices()[1].pci, Producer::device, reason);
        EXPECT_EQ(others[0]->queue(0, runtime->devices()[2].pci, Producer::device, reason), first);
    }
}

TEST_F(User_queue, ParameterAndUserCanSwitchItOff) {
    EXPECT_EQ(engines->report(0)[0].reason, SDMA_REASON_none);
    EXPECT_EQ(engines->report(0)[1].reason, SDMA_REASON_disabled);
    setenv("HSA_ENABLE_SDMA", "0", 1);
    EXPECT_EQ(queue(0, 1), nullptr);
    EXPECT_EQ(reason, SDMA_REASON_sdma_disabled);
    unsetenv("HSA_ENABLE_SDMA");
    params().engine = "none";
    engines = std::make_unique<engine::Engines>(runtime);
    EXPECT_EQ(queue(0, 1), nullptr);
    EXPECT_EQ(reason, SDMA_REASON_disabled);
}

// ---- under sdma_simnode --fault; rocr_runtime.sh chooses them --------------------------------------

class Fault_of_node : public User_queue {};

TEST_F(Fault_of_node, Slots) {
    EXPECT_EQ(queue(0, 1), nullptr);
    EXPECT_EQ(reason, SDMA_REASON_slots_full);
    EXPECT_EQ(engines->report(0)[0].reason, SDMA_REASON_slots_full);
}

TEST_F(Fault_of_node, Doorbell) {
    params().hardware_timeout = 2000;
    EXPECT_EQ(queue(0, 1), nullptr);
    EXPECT_EQ(reason, SDMA_REASON_not_ringable);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(queue(0, 0), nullptr); // known by now
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
    EXPECT_TRUE(queue(0, 1, Producer::host)); // the host can ring
}

TEST_F(Fault_of_node, Attach) {
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
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
