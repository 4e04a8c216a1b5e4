// SPDX-License-Identifier: BSD-3-Clause
//
// What a launch, a trip over the bus and a fence cost on this machine: no path through a kernel can be faster than
// their sum. One line per figure, medians in us. Uses two GPUs where there are two.
//   limits
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include <cuda.h>
#include <cuda_runtime.h>

namespace {

constexpr int rounds = 1000;
constexpr uint64_t stop = ~uint64_t{0};

void must(cudaError_t error, const char *what) {
    if (error == cudaSuccess)
        return;
    std::fprintf(stderr, "limits: %s: %s\n", what, cudaGetErrorString(error));
    std::exit(1);
}

uint64_t load(const uint64_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

double now_us() {
    using namespace std::chrono;
    return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

template <typename T> double median(std::vector<T> values) {
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return static_cast<double>(values[values.size() / 2]);
}

void show(const char *what, const std::function<double()> &once) {
    std::vector<double> us;
    for (int i = 0; i < rounds + 50; i++)
        if (const double one = once(); i >= 50)
            us.push_back(one);
    std::printf("%-68s %7.2f\n", what, median(us));
    std::fflush(stdout);
}

template <int words> struct Arguments {
    uint64_t *word;
    uint64_t value;
    uint64_t more[words];
};
using Small = Arguments<2>;
using Record = Arguments<62>; // as large as the library's for two ranks

template <typename Arguments> __global__ void raise(const __grid_constant__ Arguments arguments) {
    asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(arguments.word), "l"(arguments.value) : "memory");
}

__global__ void echo(const uint64_t *in, uint64_t *out) {
    uint64_t value = 0;
    for (uint64_t seen = 0; seen != stop; value = seen) {
        asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(seen) : "l"(in) : "memory");
        if (seen != value)
            asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(out), "l"(seen) : "memory");
    }
}

__device__ uint64_t clock_ns() {
    uint64_t now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)::"memory");
    return now;
}

// One after the other, each needing what the last one brought: zero. ns[round] of one of them.
constexpr int chain = 16;

enum class Step { load_host, acquire_device, swap_device };

template <Step step> __global__ void chain_times(uint64_t *word, uint32_t *ns) {
    for (int i = 0; i < rounds; i++) {
        uint64_t seen = 0;
        const uint64_t start = clock_ns();
        for (int link = 0; link < chain; link++) {
            if constexpr (step == Step::load_host)
                asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(seen) : "l"(word + seen) : "memory");
            else if constexpr (step == Step::acquire_device)
                asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(seen) : "l"(word + seen) : "memory");
            else
                asm volatile("atom.cas.relaxed.gpu.b64 %0, [%1], 0, 0;" : "=l"(seen) : "l"(word + seen) : "memory");
        }
        // Loads that nobody needs would be left out.
        ns[i] = static_cast<uint32_t>(clock_ns() - start) / chain + static_cast<uint32_t>(seen);
    }
}

// Packets to the host, and a fence. A fence waits, so that the clock is right behind it.
__global__ void fence_times(uint64_t *host, uint32_t *ns) {
    for (int i = 0; i < rounds; i++) {
        const uint64_t start = clock_ns();
        for (int word = 0; word < 16; word++)
            asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(host + word), "l"(start & 0) : "memory");
        asm volatile("fence.acq_rel.sys;" ::: "memory");
        ns[i] = static_cast<uint32_t>(clock_ns() - start);
    }
}

uint64_t *pinned(size_t bytes) {
    void *memory = nullptr;
    must(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped), "cudaHostAlloc");
    return static_cast<uint64_t *>(memory);
}

template <typename Arguments> void launch_rows(cudaStream_t stream, uint64_t *word, int lanes, const char *what) {
    uint64_t value = 0;
    double called = 0;
    const auto once = [&] {
        const double start = now_us();
        raise<<<1, lanes, 0, stream>>>(Arguments{word, ++value, {}});
        called = now_us() - start;
        while (load(word) != value)
            ;
        return now_us() - start;
    };
    __atomic_store_n(word, 0, __ATOMIC_RELEASE);
    show(what, once);
    show("  of it the call", [&] {
        once();
        return called;
    });
}

void launches(cudaStream_t stream, uint64_t *word) {
    launch_rows<Small>(stream, word, 32, "empty kernel until the CPU sees its word: 32 B of arguments");
    launch_rows<Record>(stream, word, 32, "  512 B of arguments");
    launch_rows<Record>(stream, word, 256, "  512 B of arguments, 256 lanes");
}

void echoes(cudaStream_t stream, uint64_t *words) {
    uint64_t *const in = words, *const out = words + 16;
    *in = *out = 0;
    echo<<<1, 1, 0, stream>>>(in, out);
    uint64_t value = 0;
    show("a running kernel answers a word of the CPU", [&] {
        const double start = now_us();
        __atomic_store_n(in, ++value, __ATOMIC_RELEASE);
        while (load(out) != value)
            ;
        return now_us() - start;
    });
    __atomic_store_n(in, stop, __ATOMIC_RELEASE);
    must(cudaStreamSynchronize(stream), "echo");
}

void steps(cudaStream_t stream, uint64_t *host) {
    uint64_t *device = nullptr;
    uint32_t *ns = nullptr;
    must(cudaMalloc(&device, sizeof *device), "cudaMalloc");
    must(cudaMemset(device, 0, sizeof *device), "cudaMemset");
    must(cudaMallocManaged(&ns, rounds * sizeof *ns), "cudaMallocManaged");
    *host = 0;
    const auto row = [&](const char *what, const auto &launch) {
        launch();
        must(cudaStreamSynchronize(stream), what);
        std::printf("%-68s %7.2f\n", what, median(std::vector<uint32_t>(ns, ns + rounds)) * 1e-3);
    };
    row("in a kernel: load a word of the host", [&] { chain_times<Step::load_host><<<1, 1, 0, stream>>>(host, ns); });
    row("in a kernel: 16 words to the host and a fence", [&] { fence_times<<<1, 1, 0, stream>>>(host, ns); });
    row("in a kernel: acquire a word of the device",
        [&] { chain_times<Step::acquire_device><<<1, 1, 0, stream>>>(device, ns); });
    row("in a kernel: compare and swap a word of the device",
        [&] { chain_times<Step::swap_device><<<1, 1, 0, stream>>>(device, ns); });
    cudaFree(ns);
    cudaFree(device);
}

void copies(cudaStream_t stream, uint64_t *word) {
    int gpus = 0;
    must(cudaGetDeviceCount(&gpus), "cudaGetDeviceCount");
    CUresult (*write_value)(CUstream, CUdeviceptr, cuuint64_t, unsigned) = nullptr;
    cudaDriverEntryPointQueryResult found;
    must(cudaGetDriverEntryPointByVersion("cuStreamWriteValue64", reinterpret_cast<void **>(&write_value), 12000,
                                          cudaEnableDefault, &found),
         "cudaGetDriverEntryPointByVersion");
    char *from = nullptr, *to = nullptr;
    must(cudaMalloc(&from, 1024), "cudaMalloc");
    if (gpus > 1) {
        must(cudaDeviceEnablePeerAccess(1, 0), "cudaDeviceEnablePeerAccess");
        must(cudaSetDevice(1), "cudaSetDevice");
    }
    must(cudaMalloc(&to, 1024), "cudaMalloc");
    must(cudaSetDevice(0), "cudaSetDevice");
    uint64_t value = 0;
    *word = 0;
    double called = 0;
    const auto once = [&] {
        const double start = now_us();
        must(cudaMemcpyAsync(to, from, 1024, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
        called = now_us() - start;
        write_value(stream, reinterpret_cast<CUdeviceptr>(word), ++value, 0);
        while (load(word) != value)
            ;
        return now_us() - start;
    };
    show(gpus > 1 ? "copy of 1 KiB to the other GPU and a word behind it" : "copy of 1 KiB and a word behind it", once);
    show("  of it the call of the copy", [&] {
        once();
        return called;
    });
    cudaFree(from);
    cudaFree(to);
}

} // namespace

int main() {
    cudaStream_t stream;
    int lowest = 0, highest = 0;
    must(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
    must(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest), "cudaStreamCreateWithPriority");
    uint64_t *const words = pinned(1024);
    launches(stream, words);
    echoes(stream, words);
    steps(stream, words);
    copies(stream, words);
    return 0;
}
