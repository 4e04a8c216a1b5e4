// SPDX-License-Identifier: BSD-3-Clause
//
// sdma_bench alltoall, allgather.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <mpi.h>

#include "bench.hpp"
#include "mpit.hpp"
#include "pattern.hpp"
#include "verdict.hpp"

namespace tools {

namespace {

enum class Collective : unsigned char { alltoall, allgather };

// The receiver named in the pattern of a block that all ranks get.
constexpr uint32_t everybody = UINT32_MAX;

// Bytes behind the receive buffer that no operation may touch.
constexpr size_t guard_bytes = 64;
constexpr unsigned char guard_byte = 0xa5;

// --ab changes sides this many times per size, so that drift of the machine hits both alike.
constexpr int ab_rounds = 5;

// What tells how an operation was served, in the order in which it is printed.
struct Path {
    const char *counter;
    const char *name;
};
constexpr std::array<Path, 3> paths{{{"bytes_sdma", "sdma"}, {"bytes_loadstore", "loadstore"}, {"staged", "staged"}}};
using Path_counts = std::array<uint64_t, paths.size()>;

struct Timing {
    double seconds = 0; // of this rank
    int iterations = 0;
};

// The same on every rank.
struct Latency {
    double average, least, most; // microseconds
};

class Benchmark {
public:
    Benchmark(Collective collective, const Options &options, Device_memory &memory);
    int run();

private:
    void print_header() const;
    void run_size(size_t bytes);
    void time_block(size_t bytes, int warmup, int iterations, Timing &timing);
    double iterate(size_t bytes);
    void print_size(size_t bytes, const Timing &timing, const std::string &path);
    void print_comparison(size_t bytes, const Timing &on, const Timing &off, const std::string &path);

    void prepare(size_t bytes);
    void verify(size_t bytes);

    Latency over_ranks(const Timing &timing) const;
    Path_counts path_counts() const;
    std::string path_name(const Path_counts &before, const Path_counts &after) const;
    double bus_bandwidth(size_t bytes, double microseconds) const;

    Collective collective_;
    const Options &options_;
    Device_memory &memory_;
    Counters counters_;
    Switch switch_;
    int rank_ = 0, size_ = 0;
    std::vector<unsigned char> staging_;
    Buffer send_, recv_;
    uint32_t iteration_ = 0; // over all sizes: names the pattern
    Verdict verdict_{options_};
};

int ranks() {
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

Benchmark::Benchmark(Collective collective, const Options &options, Device_memory &memory)
    : collective_(collective), options_(options), memory_(memory),
      staging_(options.check ? ranks() * options.largest + guard_bytes : 0),
      send_(memory, collective == Collective::alltoall ? ranks() * options.largest : options.largest),
      recv_(memory, ranks() * options.largest + guard_bytes) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    size_ = ranks();
    if (!send_.data() || !recv_.data())
        die(memory.error() + "; a smaller -m needs less");
}

int Benchmark::run() {
    if (options_.compare && !switch_.usable()) {
        if (rank_ == 0)
            std::fprintf(stderr, "sdma_bench: --ab needs coll/sdma, which this job has not loaded\n");
        return EXIT_FAILURE;
    }
    if (rank_ == 0)
        print_header();
    bool correct = true;
    for (size_t bytes = options_.smallest; bytes <= options_.largest && correct; bytes *= 2) {
        run_size(bytes);
        correct = verdict_.all_correct();
    }
    if (options_.full && rank_ == 0)
        print(counters_);
    return correct ? EXIT_SUCCESS : EXIT_FAILURE;
}

void Benchmark::print_header() const {
    std::printf("# sdma_bench %s, %d ranks, memory %s\n%-12s", options_.verb.c_str(), size_, to_string(options_.memory),
                "# Size");
    if (options_.compare)
        std::printf("%18s%18s%10s", "On Latency(us)", "Off Latency(us)", "Off/On");
    else
        std::printf("%18s", "Avg Latency(us)");
    if (options_.full && !options_.compare)
        std::printf("%18s%18s%12s", "Min Latency(us)", "Max Latency(us)", "Iterations");
    std::printf("%14s  %s%s\n", "Bus(GB/s)", "Path", options_.check ? "  Validation" : "");
    std::fflush(stdout);
}

void Benchmark::run_size(size_t bytes) {
    const int warmup = warmup_for(options_, bytes), iterations = iterations_for(options_, bytes);
    if (!options_.compare) {
        Timing timing;
        const Path_counts before = path_counts();
        time_block(bytes, warmup, iterations, timing);
        print_size(bytes, timing, path_name(before, path_counts()));
        return;
    }
    const int rounds = std::min(ab_rounds, iterations);
    Timing on, off;
    Path_counts served{}, start{};
    for (int round = 0; round < rounds; ++round)
        for (const bool enable : {true, false}) {
            if (!switch_.set(enable))
                die("coll_sdma_enable cannot be written");
            const int share = iterations * (round + 1) / rounds - iterations * round / rounds;
            const Path_counts before = path_counts();
            time_block(bytes, (warmup + rounds - 1) / rounds, share, enable ? on : off);
            const Path_counts after = path_counts();
            for (size_t i = 0; i < paths.size() && enable; ++i)
                served[i] += after[i] - before[i];
        }
    if (!switch_.set(true))
        die("coll_sdma_enable cannot be written");
    print_comparison(bytes, on, off, path_name(start, served));
}

void Benchmark::time_block(size_t bytes, int warmup, int iterations, Timing &timing) {
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < warmup + iterations; ++i) {
        const double seconds = iterate(bytes);
        if (i < warmup)
            continue;
        timing.seconds += seconds;
        ++timing.iterations;
    }
}

double Benchmark::iterate(size_t bytes) {
    ++iteration_;
    if (options_.check)
        prepare(bytes);
    const int count = static_cast<int>(bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    const int status =
        collective_ == Collective::alltoall
            ? MPI_Alltoall(send_.data(), count, MPI_BYTE, recv_.data(), count, MPI_BYTE, MPI_COMM_WORLD)
            : MPI_Allgather(send_.data(), count, MPI_BYTE, recv_.data(), count, MPI_BYTE, MPI_COMM_WORLD);
    const double seconds = MPI_Wtime() - start;
    if (status != MPI_SUCCESS)
        die(options_.verb + " of " + std::to_string(bytes) + " bytes failed with MPI error " + std::to_string(status));
    if (options_.check)
        verify(bytes);
    return seconds;
}

void Benchmark::prepare(size_t bytes) {
    const bool same_for_all = collective_ == Collective::allgather;
    const uint32_t blocks = same_for_all ? 1 : static_cast<uint32_t>(size_);
    for (uint32_t to = 0; to < blocks; ++to)
        fill_pattern({static_cast<uint32_t>(rank_), same_for_all ? everybody : to, iteration_},
                     staging_.data() + to * bytes, bytes);
    bool written = memory_.write(send_.data(), staging_.data(), blocks * bytes);
    std::fill_n(staging_.begin(), guard_bytes, guard_byte);
    written = written &&
              memory_.write(static_cast<unsigned char *>(recv_.data()) + size_ * bytes, staging_.data(), guard_bytes);
    if (!written)
        die(memory_.error());
}

void Benchmark::verify(size_t bytes) {
    if (!memory_.read(staging_.data(), recv_.data(), size_ * bytes + guard_bytes))
        die(memory_.error());
    const uint32_t to = collective_ == Collective::allgather ? everybody : static_cast<uint32_t>(rank_);
    for (uint32_t from = 0; from < static_cast<uint32_t>(size_); ++from) {
        const Block_id id{from, to, iteration_};
        const unsigned char *block = staging_.data() + from * bytes;
        const size_t wrong = first_wrong_byte(id, block, bytes);
        if (wrong < bytes)
            return verdict_.complain(bytes, iteration_,
                                     "block from rank " + std::to_string(from) + ", byte " + std::to_string(wrong),
                                     block[wrong], pattern_byte(id, wrong));
    }
    const auto guard = staging_.begin() + static_cast<ptrdiff_t>(size_ * bytes);
    const auto wrong = std::find_if(guard, guard + guard_bytes, [](unsigned char byte) { return byte != guard_byte; });
    if (wrong != guard + guard_bytes)
        verdict_.complain(bytes, iteration_, "byte " + std::to_string(wrong - guard) + " behind the buffer", *wrong,
                          guard_byte);
}

Latency Benchmark::over_ranks(const Timing &timing) const {
    const double mine = timing.seconds * 1e6 / timing.iterations;
    Latency latency{};
    MPI_Allreduce(&mine, &latency.average, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(&mine, &latency.least, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&mine, &latency.most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    latency.average /= size_;
    return latency;
}

void Benchmark::print_size(size_t bytes, const Timing &timing, const std::string &path) {
    const Latency latency = over_ranks(timing);
    if (rank_ != 0)
        return;
    std::printf("%-12zu%18.2f", bytes, latency.average);
    if (options_.full)
        std::printf("%18.2f%18.2f%12d", latency.least, latency.most, timing.iterations);
    std::printf("%14.3f  %s%s", bus_bandwidth(bytes, latency.average), path.c_str(), options_.check ? "" : "\n");
    std::fflush(stdout);
}

void Benchmark::print_comparison(size_t bytes, const Timing &on, const Timing &off, const std::string &path) {
    const double on_us = over_ranks(on).average, off_us = over_ranks(off).average;
    if (rank_ != 0)
        return;
    std::printf("%-12zu%18.2f%18.2f%10.2f%14.3f  %s%s", bytes, on_us, off_us, off_us / on_us,
                bus_bandwidth(bytes, on_us), path.c_str(), options_.check ? "" : "\n");
    std::fflush(stdout);
}

Path_counts Benchmark::path_counts() const {
    Path_counts counts{};
    for (const Counter_value &counter : counters_.read())
        for (size_t i = 0; i < paths.size(); ++i)
            if (counter.name == paths[i].counter)
                counts[i] = counter.value;
    return counts;
}

// "sdma", "sdma+staged", ...: what any rank used; else the module below served the operation.
std::string Benchmark::path_name(const Path_counts &before, const Path_counts &after) const {
    Path_counts mine{}, all{};
    for (size_t i = 0; i < paths.size(); ++i)
        mine[i] = after[i] - before[i];
    MPI_Allreduce(mine.data(), all.data(), static_cast<int>(paths.size()), MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    std::string name;
    for (size_t i = 0; i < paths.size(); ++i)
        if (all[i] > 0)
            name += (name.empty() ? "" : "+") + std::string(paths[i].name);
    if (name.empty())
        name = options_.memory == Memory::host ? "host" : "other";
    return name;
}

// Bytes per rank and direction over the links, as nccl-tests counts them.
double Benchmark::bus_bandwidth(size_t bytes, double microseconds) const {
    return microseconds > 0 ? static_cast<double>(bytes) * (size_ - 1) / microseconds / 1e3 : 0;
}

} // namespace

int run_alltoall(const Options &options, Device_memory &memory) {
    return Benchmark(Collective::alltoall, options, memory).run();
}

int run_allgather(const Options &options, Device_memory &memory) {
    return Benchmark(Collective::allgather, options, memory).run();
}

} // namespace tools
