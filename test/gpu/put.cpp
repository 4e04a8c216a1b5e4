// SPDX-License-Identifier: BSD-3-Clause
//
// One-sided puts straight on libmpisdma's lines, and the bare copy engine, from rank 0 to rank 1 of a job of two:
//   mpirun -np 2 put [rounds=5] [json=FILE]
// put_lat: 8 bytes, each waited for until it is visible at the target. put_bw: from 4 MiB up, windows of 64 puts to
// as many places, as OSU has them, and 1 GiB at most. What is printed is the median of the rounds. Every byte is
// checked, for every way and size; the counters must say that the way moved them.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

#include <cuda.h>
#include <mpi.h>

#include "common/sdma/onesided.h"
#include "parameters.hpp"

namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t most_bytes = size_t{256} << 20, most_window = 64, most_in_window = size_t{1} << 30;

struct Mode {
    const char *name, *initiator, *launch;
    const char *loadstore_max;
    const char *moved; // the counter that must rise
};
constexpr const char *all = "1099511627776";
constexpr Mode latency_modes[] = {
    {"loadstore, launched", "host", "call", all, "launches"},
    {"loadstore, resident", "host", "resident", all, "resident"},
    {"engine, by the CPU", "host", "call", "0", "put_batches"},
    {"engine, launched", "gpu", "call", "0", "launches"},
    {"engine, resident", "gpu", "resident", "0", "resident"},
};
constexpr Mode bandwidth_modes[] = {
    {"one workgroup, launched", "gpu", "call", "0", "launches"},
    {"one workgroup, resident", "gpu", "resident", "0", "resident"},
    {"by the CPU", "host", "call", "0", "put_batches"},
};

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

std::vector<uint64_t> pattern(size_t bytes, uint64_t seed) {
    std::vector<uint64_t> words(bytes / sizeof(uint64_t));
    for (size_t i = 0; i < words.size(); i++)
        words[i] = (seed << 40) + i * 0x9e3779b97f4a7c15;
    return words;
}

class Pair {
public:
    Pair(int rank, char *memory) : memory_(memory) {
        sdma_reason_t reason;
        sdma_address_t mine, both[2];
        if (sdma_address(&mine, &reason) != SDMA_OK)
            give_up(std::string("no address: ") + sdma_reason_text(reason));
        MPI_Allgather(&mine, sizeof mine, MPI_BYTE, both, sizeof mine, MPI_BYTE, MPI_COMM_WORLD);
        if (sdma_memory_register(memory, most_in_window, 1, &registered_, &reason) != SDMA_OK)
            give_up(std::string("cannot register: ") + sdma_reason_text(reason));
        sdma_key_t key, keys[2];
        sdma_memory_key(registered_, &key);
        MPI_Allgather(&key, sizeof key, MPI_BYTE, keys, sizeof key, MPI_BYTE, MPI_COMM_WORLD);
        if (sdma_line_open(&both[1 - rank], &line_, &reason) != SDMA_OK ||
            sdma_remote_attach(line_, &keys[1 - rank], &remote_, &reason) != SDMA_OK)
            give_up(std::string("no line: ") + sdma_reason_text(reason));
    }
    ~Pair() {
        sdma_remote_detach(remote_);
        sdma_line_close(line_);
        sdma_memory_release(registered_);
        sdma_address_release();
    }
    Pair(const Pair &) = delete;
    Pair &operator=(const Pair &) = delete;

    void put(size_t at, size_t bytes) {
        uint64_t number;
        sdma_status_t status;
        while ((status = sdma_put(line_, memory_ + at, remote_, at, bytes, &number)) == SDMA_PENDING)
            progress();
        if (status != SDMA_OK)
            give_up(std::string("a put is not served: ") + sdma_reason_text(sdma_line_reason(line_)));
        sdma_line_push(line_); // large ones do not wait for more, as MPI_Put has it
    }
    void finish() {
        while (sdma_line_done(line_) < sdma_line_posted(line_))
            progress();
    }

private:
    void progress() {
        if (sdma_line_progress(line_) != SDMA_OK)
            give_up(std::string("the line is broken: ") + sdma_reason_text(sdma_line_reason(line_)));
    }
    char *const memory_;
    sdma_memory_t *registered_ = nullptr;
    sdma_line_t *line_ = nullptr;
    sdma_remote_t *remote_ = nullptr;
};

// The same by the driver alone: copies on one stream, then a stream write of a pinned word that is polled.
class Bare {
public:
    Bare(int rank, char *memory) : memory_(memory) {
        cudaDriverEntryPointQueryResult found;
        must(cudaGetDriverEntryPointByVersion("cuStreamWriteValue64", reinterpret_cast<void **>(&write_value_), 12000,
                                              cudaEnableDefault, &found),
             "cudaGetDriverEntryPointByVersion");
        cudaIpcMemHandle_t mine, both[2];
        must(cudaIpcGetMemHandle(&mine, memory), "cudaIpcGetMemHandle");
        MPI_Allgather(&mine, sizeof mine, MPI_BYTE, both, sizeof mine, MPI_BYTE, MPI_COMM_WORLD);
        if (rank != 0)
            return;
        must(cudaIpcOpenMemHandle(&target_, both[1], cudaIpcMemLazyEnablePeerAccess), "cudaIpcOpenMemHandle");
        must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
        must(cudaHostAlloc(reinterpret_cast<void **>(&done_), sizeof *done_, cudaHostAllocMapped), "cudaHostAlloc");
        *done_ = 0;
    }
    ~Bare() {
        if (!target_)
            return;
        cudaStreamDestroy(stream_);
        cudaIpcCloseMemHandle(target_);
        cudaFreeHost(done_);
    }
    Bare(const Bare &) = delete;
    Bare &operator=(const Bare &) = delete;

    void put(size_t at, size_t bytes) {
        must(cudaMemcpyAsync(static_cast<char *>(target_) + at, memory_ + at, bytes, cudaMemcpyDefault, stream_),
             "cudaMemcpyAsync");
    }
    void finish() {
        if (write_value_(stream_, reinterpret_cast<CUdeviceptr>(done_), ++writes_, 0) != CUDA_SUCCESS)
            give_up("cuStreamWriteValue64 failed");
        while (__atomic_load_n(done_, __ATOMIC_ACQUIRE) < writes_)
            ;
    }

private:
    char *const memory_;
    void *target_ = nullptr;
    cudaStream_t stream_ = nullptr;
    uint64_t *done_ = nullptr, writes_ = 0;
    CUresult (*write_value_)(CUstream, CUdeviceptr, cuuint64_t, unsigned) = nullptr;
};

struct Row {
    std::string verb, way;
    size_t bytes;
    double us;
};

class Measurement {
public:
    Measurement(int rank, char *memory, int rounds) : rank_(rank), memory_(memory), rounds_(rounds) {}

    // Rank 0 puts, `window` at a time; both check.
    template <typename Way>
    double run(Way &way, const char *verb, const std::string &name, size_t bytes, size_t window, int calls) {
        const uint64_t seed = ++seeds_;
        const std::vector<uint64_t> words = pattern(bytes, rank_ == 0 ? seed : seed + 1000);
        for (size_t i = 0; i < window; i++)
            must(cudaMemcpy(memory_ + i * bytes, words.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
        must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        MPI_Barrier(MPI_COMM_WORLD);
        double us = 0;
        if (rank_ == 0) {
            const auto once = [&] {
                for (size_t i = 0; i < window; i++)
                    way.put(i * bytes, bytes);
                way.finish();
            };
            for (int i = 0; i < 5; i++)
                once();
            std::vector<double> times;
            for (int round = 0; round < rounds_; round++) {
                const auto start = Clock::now();
                for (int i = 0; i < calls; i++)
                    once();
                times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count() / calls /
                                static_cast<double>(window));
            }
            us = median(times);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank_ == 1) {
            const std::vector<uint64_t> right = pattern(bytes, seed);
            std::vector<uint64_t> got(words.size());
            for (size_t i = 0; i < window; i++) {
                must(cudaMemcpy(got.data(), memory_ + i * bytes, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
                if (got != right)
                    give_up(std::string(verb) + ", " + name + ", " + std::to_string(bytes) + " bytes: wrong bytes");
            }
        }
        rows.push_back({verb, name, bytes, us});
        return us;
    }
    double run(Pair &pair, const char *verb, const Mode &mode, size_t bytes, size_t window, int calls) {
        set_parameter("put_initiator", mode.initiator);
        set_parameter("launch", mode.launch);
        set_parameter("put_loadstore_max", mode.loadstore_max);
        const uint64_t before = __atomic_load_n(counter(mode.moved), __ATOMIC_RELAXED);
        const double us = run<Pair>(pair, verb, mode.name, bytes, window, calls);
        if (rank_ == 0 && __atomic_load_n(counter(mode.moved), __ATOMIC_RELAXED) == before)
            give_up(std::string(mode.name) + ": the counter " + mode.moved +
                    " says that somebody else moved the bytes");
        return us;
    }
    std::vector<Row> rows;

private:
    const int rank_;
    char *const memory_;
    const int rounds_;
    uint64_t seeds_ = 0;
};

void measure(int rank, char *memory, int rounds, const std::string &json) {
    Measurement measurement(rank, memory, rounds);
    Bare bare(rank, memory);
    Pair pair(rank, memory);
    const auto line = [rank](const char *form, auto... values) {
        if (rank == 0) {
            std::printf(form, values...);
            std::fflush(stdout);
        }
    };
    line("put_lat 8 bytes, us: copy engine %.2f", measurement.run(bare, "put_lat", "copy engine", 8, 1, 1000));
    for (const Mode &mode : latency_modes)
        line("; %s %.2f", mode.name, measurement.run(pair, "put_lat", mode, 8, 1, 1000));
    for (size_t bytes = size_t{4} << 20; bytes <= most_bytes; bytes *= 4) {
        const size_t window = std::min(most_window, most_in_window / bytes);
        const int calls = static_cast<int>(std::max<size_t>(most_in_window / bytes / window, 2));
        const double bare_us = measurement.run(bare, "put_bw", "copy engine", bytes, window, calls);
        line("\nput_bw %zu bytes, GB/s: copy engine %.1f", bytes, static_cast<double>(bytes) / bare_us * 1e-3);
        for (const Mode &mode : bandwidth_modes) {
            const double us = measurement.run(pair, "put_bw", mode, bytes, window, calls);
            line("; %s %.1f (%.3f)", mode.name, static_cast<double>(bytes) / us * 1e-3, bare_us / us);
        }
    }
    line("\n%s\n", "all bytes right");
    if (rank != 0 || json.empty())
        return;
    std::ofstream out(json);
    out << "{\n  \"rows\": [";
    const char *comma = "\n";
    for (const Row &row : measurement.rows) {
        out << comma << "    {\"verb\": \"" << row.verb << "\", \"way\": \"" << row.way
            << "\", \"bytes\": " << row.bytes << ", \"us\": " << row.us << "}";
        comma = ",\n";
    }
    out << "\n  ]\n}\n";
}

} // namespace

int main(int argc, char **argv) {
    int rounds = 5;
    std::string json;
    for (int i = 1; i < argc; i++) {
        const std::string argument = argv[i];
        if (argument.starts_with("rounds="))
            rounds = std::stoi(argument.substr(7));
        else if (argument.starts_with("json="))
            json = argument.substr(5);
    }
    const char *local = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    int devices = 0;
    must(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    must(cudaSetDevice((local ? std::atoi(local) : 0) % devices), "cudaSetDevice");
    char *memory = nullptr;
    must(cudaMalloc(reinterpret_cast<void **>(&memory), most_in_window), "cudaMalloc");
    MPI_Init(&argc, &argv);
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2)
        give_up("two ranks are needed");
    measure(rank, memory, rounds, json);
    MPI_Finalize();
    cudaFree(memory);
    return 0;
}
