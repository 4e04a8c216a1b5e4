// SPDX-License-Identifier: BSD-3-Clause
//
// The installed HIP on the simulated node: nothing but the public API, as an application uses it.
// Run under sdma_simnode --gpus 4 --vram 256M.
#include <cstdint>
#include <vector>

#include <hip/hip_runtime_api.h>

#include "test/simnode/selftest.hpp"

namespace {

constexpr int gpus = 4;
constexpr size_t mebibyte = size_t{1} << 20;

#define HIP(call) REQUIRE((call) == hipSuccess)

std::vector<uint8_t> pattern(size_t bytes, unsigned seed) {
    std::vector<uint8_t> data(bytes);
    uint32_t state = seed * 2654435761u + 1;
    for (uint8_t &byte : data)
        byte = static_cast<uint8_t>((state = state * 1664525u + 1013904223u) >> 24);
    return data;
}

void test_devices() {
    int count = 0;
    HIP(hipGetDeviceCount(&count));
    CHECK(count == gpus);
    char previous[32] = "";
    for (int device = 0; device < count; ++device) {
        hipDeviceProp_t properties;
        HIP(hipGetDeviceProperties(&properties, device));
        CHECK(properties.totalGlobalMem == 256 * mebibyte);
        CHECK(strncmp(properties.gcnArchName, "gfx", 3) == 0);
        char place[32];
        HIP(hipDeviceGetPCIBusId(place, sizeof place, device));
        CHECK(strcmp(place, previous) != 0);
        strcpy(previous, place);
    }
}

// There and back, then a fill. The copies go to an offset, so that nothing is aligned; not the fill:
// HIP 5.2 overruns a small unaligned buffer.
void test_copies() {
    for (size_t bytes : {size_t{1}, size_t{3}, size_t{64}, size_t{4095}, size_t{4096}, size_t{65537}, mebibyte,
                         4 * mebibyte + 5, 16 * mebibyte, 64 * mebibyte}) {
        const size_t offset = bytes % 7;
        const auto sent = pattern(bytes, static_cast<unsigned>(bytes));
        std::vector<uint8_t> received(bytes);
        uint8_t *memory = nullptr;
        HIP(hipMalloc(reinterpret_cast<void **>(&memory), bytes + offset));
        HIP(hipMemcpy(memory + offset, sent.data(), bytes, hipMemcpyHostToDevice));
        HIP(hipMemcpy(received.data(), memory + offset, bytes, hipMemcpyDeviceToHost));
        CHECK(received == sent);
        HIP(hipMemset(memory, 0x5a, bytes));
        HIP(hipMemcpy(received.data(), memory, bytes, hipMemcpyDeviceToHost));
        CHECK(received == std::vector<uint8_t>(bytes, 0x5a));
        HIP(hipFree(memory));
    }
}

void test_peers() {
    constexpr size_t bytes = 3 * mebibyte + 1;
    const auto sent = pattern(bytes, 9);
    std::vector<uint8_t> received(bytes);
    void *near = nullptr, *far = nullptr;
    HIP(hipSetDevice(1));
    HIP(hipMalloc(&near, bytes));
    HIP(hipSetDevice(3));
    HIP(hipMalloc(&far, bytes));
    HIP(hipMemcpy(near, sent.data(), bytes, hipMemcpyHostToDevice));
    HIP(hipMemcpyPeer(far, 3, near, 1, bytes));
    HIP(hipMemcpy(received.data(), far, bytes, hipMemcpyDeviceToHost));
    CHECK(received == sent);
    HIP(hipFree(near));
    HIP(hipFree(far));
    HIP(hipSetDevice(0));
}

void test_streams() {
    constexpr size_t bytes = 2 * mebibyte;
    hipStream_t stream;
    hipEvent_t event;
    void *pinned = nullptr, *memory = nullptr;
    HIP(hipStreamCreate(&stream));
    HIP(hipEventCreate(&event));
    HIP(hipHostMalloc(&pinned, 2 * bytes, 0));
    HIP(hipMalloc(&memory, bytes));
    const auto sent = pattern(bytes, 5);
    memcpy(pinned, sent.data(), bytes);
    auto *back = static_cast<uint8_t *>(pinned) + bytes;
    for (int round = 0; round < 20; ++round) {
        memset(back, 0, bytes);
        HIP(hipMemcpyAsync(memory, pinned, bytes, hipMemcpyHostToDevice, stream));
        HIP(hipMemcpyAsync(back, memory, bytes, hipMemcpyDeviceToHost, stream));
        HIP(hipEventRecord(event, stream));
        HIP(hipEventSynchronize(event));
        CHECK(memcmp(back, sent.data(), bytes) == 0);
    }
    std::vector<uint8_t> registered(bytes); // private memory, not aligned
    HIP(hipHostRegister(registered.data(), bytes, hipHostRegisterDefault));
    HIP(hipMemcpyAsync(registered.data(), memory, bytes, hipMemcpyDeviceToHost, stream));
    HIP(hipStreamSynchronize(stream));
    CHECK(registered == sent);
    registered[0] ^= 1;
    HIP(hipMemcpyAsync(memory, registered.data(), bytes, hipMemcpyHostToDevice, stream));
    HIP(hipMemcpyAsync(back, memory, bytes, hipMemcpyDeviceToHost, stream));
    HIP(hipStreamSynchronize(stream));
    CHECK(memcmp(back, registered.data(), bytes) == 0);
    HIP(hipHostUnregister(registered.data()));
    HIP(hipFree(memory));
    HIP(hipHostFree(pinned));
    HIP(hipEventDestroy(event));
    HIP(hipStreamDestroy(stream));
}

void test_out_of_memory() {
    std::vector<void *> held;
    void *memory = nullptr;
    while (held.size() < 100 && hipMalloc(&memory, 16 * mebibyte) == hipSuccess)
        held.push_back(memory);
    CHECK(held.size() >= 10 && held.size() <= 16);
    CHECK(hipMalloc(&memory, 32 * mebibyte) == hipErrorOutOfMemory);
    for (void *one : held)
        HIP(hipFree(one));
    HIP(hipMalloc(&memory, 128 * mebibyte));
    HIP(hipFree(memory));
}

struct Offer {
    hipIpcMemHandle_t handle;
    uint64_t bytes;
};

int open_for_parent() {
    HIP(hipSetDevice(2));
    for (int round = 0; round < 2; ++round) {
        const auto offer = receive_from<Offer>(STDIN_FILENO);
        void *theirs = nullptr;
        HIP(hipIpcOpenMemHandle(&theirs, offer.handle, hipIpcMemLazyEnablePeerAccess));
        std::vector<uint8_t> received(offer.bytes);
        HIP(hipMemcpy(received.data(), theirs, offer.bytes, hipMemcpyDeviceToHost));
        CHECK(received == pattern(offer.bytes, 21));
        HIP(hipMemcpy(theirs, pattern(offer.bytes, 22).data(), offer.bytes, hipMemcpyHostToDevice));
        HIP(hipIpcCloseMemHandle(theirs));
        send_to(STDOUT_FILENO, failures);
    }
    return failures;
}

void test_sharing() {
    Other other("open");
    // A large allocation, and one that ROCr cuts out of a larger block.
    for (uint64_t bytes : {uint64_t{5} * mebibyte, uint64_t{70000}}) {
        void *first = nullptr, *memory = nullptr;
        HIP(hipMalloc(&first, 4096));
        HIP(hipMalloc(&memory, bytes));
        HIP(hipMemcpy(memory, pattern(bytes, 21).data(), bytes, hipMemcpyHostToDevice));
        Offer offer{{}, bytes};
        HIP(hipIpcGetMemHandle(&offer.handle, memory));
        other.send(offer);
        CHECK(other.receive<int>() == 0);
        std::vector<uint8_t> received(bytes);
        HIP(hipMemcpy(received.data(), memory, bytes, hipMemcpyDeviceToHost));
        CHECK(received == pattern(bytes, 22));
        HIP(hipFree(memory));
        HIP(hipFree(first));
    }
}

} // namespace

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "open") == 0)
        return open_for_parent();
    test_devices();
    test_copies();
    test_peers();
    test_streams();
    test_sharing();
    test_out_of_memory();
    printf("selftest_hip: %s\n", failures ? "failed" : "passed");
    return failures ? 1 : 0;
}
