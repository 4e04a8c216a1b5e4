// SPDX-License-Identifier: BSD-3-Clause
//
// What operations cost in memory beyond what the GPU runtime and MPI hold: measured after both were used, and again
// after operations of ours on every path.
//   host=BYTES (default 4 MiB)   gpu=BYTES (default 8 MiB): the most per rank
#include <dlfcn.h>

#include <algorithm>

#include "test/depth/process.hpp"
#include "test/mpi/ledger.hpp"

namespace {

// Free memory of this rank's GPU, which no other rank uses here, from the driver: HIP counts only its own.
uint64_t gpu_available(int rank) {
    using Query = int (*)(uint32_t node, uint64_t * bytes);
    void *library = dlopen("libhsakmt.so.1", RTLD_NOW | RTLD_NOLOAD);
    const auto query = library == nullptr ? nullptr : reinterpret_cast<Query>(dlsym(library, "hsaKmtAvailableMemory"));
    uint64_t bytes = 0;
    const auto node = static_cast<uint32_t>(rank) + 1; // the host is node 0
    return query != nullptr && query(node, &bytes) == 0 ? bytes : 0;
}

struct Sample {
    uint64_t gpu;
    Held held;
    explicit Sample(const Job &job) {
        MPI_Barrier(MPI_COMM_WORLD);
        gpu = gpu_available(job.rank);
        held = Held();
        MPI_Barrier(MPI_COMM_WORLD);
    }
};

void use_runtime_and_mpi(const Job &job, Buffer &from, Buffer &to) {
    to.store(0, from.load(0, from.bytes()));
    (void)hipMemset(from.data(), 1, from.bytes()); // a kernel
    (void)hipMemcpy(to.data(), from.data(), from.bytes(), hipMemcpyDeviceToDevice);
    (void)hipDeviceSynchronize();
    const auto ranks = static_cast<size_t>(job.size);
    std::vector<uint8_t> out(from.bytes());
    std::vector<uint8_t> in(from.bytes());
    const std::vector<int> counts(ranks, static_cast<int>(from.bytes() / ranks));
    std::vector<int> places(ranks);
    for (size_t i = 0; i < ranks; ++i) {
        places[i] = static_cast<int>(i) * counts[i];
    }
    for (int i = 0; i < 3; ++i) {
        MPI_Alltoallv(out.data(), counts.data(), places.data(), MPI_BYTE, in.data(), counts.data(), places.data(),
                      MPI_BYTE, MPI_COMM_WORLD);
    }
}

} // namespace

int main(int argc, char **argv) {
    Job job(argc, argv);
    Device::get().select(job.rank);
    Ledger ledger(job);
    constexpr int large = 300000;
    constexpr int small = 4000;
    const size_t all = static_cast<size_t>(large) * static_cast<size_t>(job.size);
    Buffer from(all, Memory::device);
    Buffer to(all, Memory::device);
    const auto operate = [&](int bytes) {
        for (const Kind kind : {Kind::alltoall, Kind::allgather}) {
            ledger.run(MPI_COMM_WORLD, kind, {&from, 0, MPI_BYTE, bytes}, {&to, 0, MPI_BYTE, bytes}, ledger.eligible());
        }
    };
    for (int i = 0; i < 3; ++i) {
        use_runtime_and_mpi(job, from, to);
    }
    const Sample before(job);
    for (int i = 0; i < 5; ++i) {
        operate(large);
        operate(small);
    }
    const Sample after(job);
    job.check(before.gpu > 0, "the driver does not say how much GPU memory is free");
    const uint64_t gpu = before.gpu - std::min(after.gpu, before.gpu);
    const size_t host = after.held.host_bytes() - std::min(before.held.host_bytes(), after.held.host_bytes());
    std::printf("rank %d: %" PRIu64 " KiB of GPU memory, %zu KiB of host memory; %s; before: %s\n", job.rank,
                gpu >> 10U, host >> 10U, after.held.text().c_str(), before.held.text().c_str());
    job.check(gpu > 0, "no GPU memory is used, so this measures something else");
    job.check(gpu <= job.number("gpu", 8 << 20U), "%" PRIu64 " bytes of GPU memory", gpu);
    job.check(host <= job.number("host", 4 << 20U), "%zu bytes of host memory", host);
    return job.finish("budget");
}
