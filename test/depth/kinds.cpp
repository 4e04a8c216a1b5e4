// SPDX-License-Identifier: BSD-3-Clause
//
// Every kind of memory that HIP has, on either side of an operation: served, or declined by all with the reason that
// the documents name, and every byte right in both cases.

#include "test/mpi/ledger.hpp"

namespace {

constexpr int bytes = 200000;

struct Kind_of_memory {
    const char *name;
    const char *reason; // nullptr: served
    hipError_t (*make)(void **memory, size_t bytes);
    hipError_t (*give)(void *memory);
};

hipError_t make_host(void **memory, size_t size) {
    *memory = std::malloc(size);
    return hipSuccess;
}
hipError_t free_host(void *memory) {
    std::free(memory);
    return hipSuccess;
}
hipError_t make_registered(void **memory, size_t size) {
    const size_t page = 4096;
    *memory = std::aligned_alloc(page, (size + page - 1) / page * page);
    return hipHostRegister(*memory, size, hipHostRegisterDefault);
}
hipError_t free_registered(void *memory) {
    const hipError_t error = hipHostUnregister(memory);
    std::free(memory);
    return error;
}

// HIP 5.2 crashes if a pool is used on the null stream.
hipStream_t stream() {
    static hipStream_t made = nullptr;
    if (made == nullptr) {
        (void)hipStreamCreate(&made);
    }
    return made;
}
hipError_t make_from_pool(void **memory, size_t size) {
    const hipError_t error = hipMallocAsync(memory, size, stream());
    return error == hipSuccess ? hipStreamSynchronize(stream()) : error;
}

// HIP 5.7 has it only for GPUs with images, which those for computing are not.
hipError_t make_pitched(void **memory, size_t size) {
    size_t pitch = 0;
    const hipError_t error = hipMallocPitch(memory, &pitch, 4096, (size + 4095) / 4096);
    int device = 0;
    int images = 1;
    (void)hipGetDevice(&device);
    (void)hipDeviceGetAttribute(&images, hipDeviceAttributeImageSupport, device);
    return error == hipErrorInvalidValue && images == 0 ? hipErrorNotSupported : error;
}

const Kind_of_memory kinds[] = {
    {"device", nullptr, [](void **memory, size_t size) { return hipMalloc(memory, size); }, hipFree},
    {"fine-grained", nullptr,
     [](void **memory, size_t size) { return hipExtMallocWithFlags(memory, size, hipDeviceMallocFinegrained); },
     hipFree},
    {"pitched", nullptr, make_pitched, hipFree},
    {"pool", nullptr, make_from_pool, [](void *memory) { return hipFreeAsync(memory, stream()); }},
    {"managed", "host_buffer", [](void **memory, size_t size) { return hipMallocManaged(memory, size); }, hipFree},
    {"pinned host", "host_buffer", [](void **memory, size_t size) { return hipHostMalloc(memory, size); }, hipHostFree},
    {"coherent pinned host", "host_buffer",
     [](void **memory, size_t size) { return hipHostMalloc(memory, size, hipHostMallocCoherent); }, hipHostFree},
    {"registered host", "host_buffer", make_registered, free_registered},
    {"unregistered host", "host_buffer", make_host, free_host},
};

class Piece {
public:
    Piece(Job &job, const Kind_of_memory &kind, size_t size) : kind_(kind) {
        const hipError_t error = kind.make(&memory_, size);
        known_ = error != hipErrorNotSupported;
        if (known_) {
            job.check(error == hipSuccess, "%s memory: %s", kind.name, hipGetErrorString(error));
        }
        if (error != hipSuccess) {
            memory_ = nullptr;
        }
    }
    ~Piece() {
        if (memory_ != nullptr) {
            (void)kind_.give(memory_);
        }
    }
    Piece(const Piece &) = delete;
    Piece &operator=(const Piece &) = delete;
    uint8_t *data() const { return static_cast<uint8_t *>(memory_); }
    bool known() const { return known_; }

private:
    const Kind_of_memory &kind_;
    void *memory_ = nullptr;
    bool known_ = false;
};

// One operation, checked by copies that HIP makes.
void exchange(Job &job, Kind kind, const char *name, uint8_t *from, uint8_t *to, uint64_t iteration) {
    const auto block = static_cast<size_t>(bytes);
    const auto ranks = static_cast<size_t>(job.size);
    for (size_t peer = 0; peer < ranks; ++peer) {
        const int receiver = kind == Kind::alltoall ? static_cast<int>(peer) : 0;
        Device::get().copy(from + peer * block, Pattern(job.rank, receiver, iteration).block(block).data(), block);
    }
    const int code = kind == Kind::alltoall ? MPI_Alltoall(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, MPI_COMM_WORLD)
                                            : MPI_Allgather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, MPI_COMM_WORLD);
    job.check(code == MPI_SUCCESS, "%s: MPI error %d", name, code);
    std::vector<uint8_t> got(block);
    for (size_t peer = 0; peer < ranks; ++peer) {
        const int receiver = kind == Kind::alltoall ? job.rank : 0;
        Device::get().copy(got.data(), to + peer * block, block);
        job.check(got == Pattern(static_cast<int>(peer), receiver, iteration).block(block),
                  "%s: wrong bytes of rank %zu", name, peer);
    }
}

void one_kind(Job &job, const Kind_of_memory &kind, uint64_t &iteration) {
    const size_t all = static_cast<size_t>(bytes) * static_cast<size_t>(job.size);
    const Piece piece(job, kind, all);
    if (!piece.known() || piece.data() == nullptr) {
        std::printf("rank %d: %s memory: not here\n", job.rank, kind.name);
        return;
    }
    Buffer device(all, Memory::device);
    const std::string refusal = kind.reason == nullptr ? "" : std::string("declined_") + kind.reason;
    for (const bool receives : {false, true}) {
        for (const Kind operation : {Kind::alltoall, Kind::allgather}) {
            const auto served = job.counters["served"];
            const auto declined = job.counters[refusal];
            exchange(job, operation, kind.name, receives ? device.data() : piece.data(),
                     receives ? piece.data() : device.data(), ++iteration);
            const auto now_served = job.counters["served"] - served;
            const auto now_declined = job.counters[refusal] - declined;
            job.check(now_served == (kind.reason == nullptr ? 1 : 0), "%s memory as %s buffer: served %llu", kind.name,
                      receives ? "receive" : "send", now_served);
            job.check(kind.reason == nullptr || now_declined == 1, "%s memory: %s rose by %llu", kind.name,
                      refusal.c_str(), now_declined);
        }
    }
    if (job.rank == 0) {
        std::printf("%s memory: %s\n", kind.name, kind.reason == nullptr ? "served" : kind.reason);
    }
}

} // namespace

int main(int argc, char **argv) {
    Job job(argc, argv);
    Device::get().select(job.rank);
    uint64_t iteration = 0;
    for (const Kind_of_memory &kind : kinds) {
        one_kind(job, kind, iteration);
    }
    return job.finish("kinds");
}
