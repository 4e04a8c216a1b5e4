// SPDX-License-Identifier: BSD-3-Clause
//
// MPI_Put and MPI_Get on windows of hipMalloc memory, by whatever one-sided component Open MPI was told to use. Every
// byte is checked; at the end rank 0 prints the counters of libmpisdma that tell how the bytes went.
//   zcopy=1: fails unless all operations of this rank, and no others, were zero-copy ones of the UCX transport
#include <hip/hip_runtime_api.h>
#include <mpi.h>

#include <dlfcn.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "common/sdma/sdma.h"

namespace {

int failures = 0;

void check(bool good, const char *what) {
    if (!good && failures++ < 10) {
        std::fprintf(stderr, "FAILED: %s\n", what);
    }
}

void must(hipError_t status) {
    if (status != hipSuccess) {
        std::fprintf(stderr, "HIP: %s\n", hipGetErrorString(status));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

// The library is in the process if anything of it was used.
uint64_t counter(const char *name) {
    void *library = dlopen("libmpisdma.so.0", RTLD_NOW | RTLD_NOLOAD);
    const auto list =
        library != nullptr ? reinterpret_cast<decltype(&sdma_counters)>(dlsym(library, "sdma_counters")) : nullptr;
    size_t count = 0;
    const sdma_counter_t *rows = list != nullptr ? list(&count) : nullptr;
    for (size_t i = 0; i < count; ++i) {
        if (std::strcmp(rows[i].name, name) == 0) {
            return *rows[i].value;
        }
    }
    return 0;
}

std::vector<uint8_t> pattern(int rank, size_t bytes) {
    std::vector<uint8_t> made(bytes);
    for (size_t i = 0; i < bytes; ++i) {
        made[i] = static_cast<uint8_t>(i * 7 + i / 251 + static_cast<size_t>(rank) * 31);
    }
    return made;
}

} // namespace

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, size = 0, gpus = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    must(hipGetDeviceCount(&gpus));
    must(hipSetDevice(rank % gpus));
    const std::vector<size_t> sizes{8, 256, 4096, 65536, 1048576};
    const size_t most = sizes.back();
    void *window_memory = nullptr, *origin = nullptr;
    must(hipMalloc(&window_memory, most));
    must(hipMalloc(&origin, most));
    MPI_Win window = MPI_WIN_NULL;
    MPI_Win_create(window_memory, static_cast<MPI_Aint>(most), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    const std::vector<uint8_t> mine = pattern(rank, most), theirs = pattern(left, most);
    must(hipMemcpy(origin, mine.data(), most, hipMemcpyDefault));
    for (const size_t bytes : sizes) {
        std::vector<uint8_t> seen(bytes, 0);
        must(hipMemcpy(window_memory, seen.data(), bytes, hipMemcpyDefault));
        MPI_Win_fence(0, window);
        MPI_Put(origin, static_cast<int>(bytes), MPI_BYTE, right, 0, static_cast<int>(bytes), MPI_BYTE, window);
        MPI_Win_fence(0, window);
        must(hipMemcpy(seen.data(), window_memory, bytes, hipMemcpyDefault));
        check(std::memcmp(seen.data(), theirs.data(), bytes) == 0, "put");
        void *fetched = nullptr;
        must(hipMalloc(&fetched, bytes));
        MPI_Win_lock(MPI_LOCK_SHARED, right, 0, window);
        MPI_Get(fetched, static_cast<int>(bytes), MPI_BYTE, right, 0, static_cast<int>(bytes), MPI_BYTE, window);
        MPI_Win_flush(right, window);
        must(hipMemcpy(seen.data(), fetched, bytes, hipMemcpyDefault));
        check(std::memcmp(seen.data(), mine.data(), bytes) == 0, "get");
        MPI_Win_unlock(right, window);
        must(hipFree(fetched));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_free(&window);
    must(hipFree(window_memory));
    must(hipFree(origin));
    MPI_Finalize();
    const uint64_t zcopy = counter("ucx_zcopy"), bcopy = counter("ucx_bcopy"), brief = counter("ucx_short");
    if (rank == 0) {
        std::printf("ucx_zcopy %" PRIu64 " ucx_bcopy %" PRIu64 " ucx_short %" PRIu64 " bytes_put %" PRIu64 "\n", zcopy,
                    bcopy, brief, counter("bytes_put"));
    }
    if (argc > 1 && std::string(argv[1]) == "zcopy=1") {
        check(zcopy == 2 * sizes.size() && bcopy == 0 && brief == 0, "all by zero-copy");
    }
    return failures != 0;
}
