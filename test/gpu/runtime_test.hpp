// SPDX-License-Identifier: BSD-3-Clause
//
// For the tests of the NVIDIA runtime: CUDA as an application starts it, and device memory with content.
#pragma once

#include <chrono>
#include <memory>
#include <random>
#include <vector>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "common/sdma/base/base.hpp"
#include "common/sdma/gpu/gpu.hpp"

namespace runtime_tests {

using namespace sdma;
using gpu::Memory_kind;
using gpu::Status;

inline std::shared_ptr<gpu::Runtime> runtime() {
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

inline std::vector<uint8_t> random_bytes(size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<uint8_t> bytes(count);
    for (auto &byte : bytes)
        byte = static_cast<uint8_t>(random());
    return bytes;
}

} // namespace runtime_tests
