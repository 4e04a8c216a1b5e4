// SPDX-License-Identifier: BSD-3-Clause
//
// For tests on the installed ROCr (under sdma_simnode): the application that starts it and owns the
// buffers, and what the library's upper layers would do with the runtime.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include "common/sdma/base/base.hpp"
#include "common/sdma/gpu/gpu.hpp"
#include "common/sdma/plan/work.h"
#include "common/sdma/ring/ring.h"

namespace sdma {

using gpu::Status;

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

inline hsa_amd_memory_pool_t pool_of(hsa_agent_t agent, uint32_t flag) {
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

inline Application &application() {
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
inline void *allocate(hsa_amd_memory_pool_t pool, size_t bytes) {
    void *memory = nullptr;
    if (hsa_amd_memory_pool_allocate(pool, bytes, 0, &memory) != HSA_STATUS_SUCCESS)
        return nullptr;
    auto &gpus = application().gpus;
    hsa_amd_agents_allow_access(static_cast<uint32_t>(gpus.size()), gpus.data(), nullptr, memory);
    return memory;
}

inline std::vector<uint32_t> pattern(size_t bytes, uint32_t seed) {
    std::vector<uint32_t> words(bytes / sizeof(uint32_t));
    for (size_t i = 0; i < words.size(); i++)
        words[i] = static_cast<uint32_t>(i) * 2654435761u ^ seed;
    return words;
}

// ---- the library's side --------------------------------------------------------------------------

inline std::shared_ptr<gpu::Runtime> open() {
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

inline Record *make_record(gpu::Runtime &runtime, const sdma_ring *ring, const void *src, void *dst, size_t bytes) {
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

inline uint64_t load(const uint64_t &word) { return std::atomic_ref(const_cast<uint64_t &>(word)).load(); }

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
        return status;
    }

    std::shared_ptr<gpu::Runtime> runtime;
};

// The process that --end starts (user_queue_test.cpp).
int end_main(const char *how);

} // namespace sdma
