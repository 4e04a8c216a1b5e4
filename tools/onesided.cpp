// SPDX-License-Identifier: BSD-3-Clause
//
// sdma_bench put_bw, put_bibw, put_lat, get_bw, get_lat: two ranks, as OSU's.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <mpi.h>

#include "bench.hpp"
#include "mpit.hpp"
#include "pattern.hpp"
#include "verdict.hpp"

namespace tools {

namespace {

struct Operation {
    bool get;
    bool both_ways; // else rank 0 is the origin and rank 1 the target
    bool latency;   // one operation at a time
};

// Bytes behind what is received into, which no operation may touch.
constexpr size_t guard_bytes = 64;
constexpr unsigned char guard_byte = 0xa5;
// A bandwidth moves this many times fewer messages than a latency, each a window of them.
constexpr int fewer = 10;

// What helps who has no memory for all operations between two synchronisations.
constexpr const char *needs_less = "; a smaller -m or -W needs less";

// The window's memory and its handle, on this rank.
class Window {
public:
    // `name` of the memory's kind.
    Window(Window_kind kind, Device_memory &memory, Memory name, size_t bytes) : kind_(kind), memory_(memory) {
        const auto size = static_cast<MPI_Aint>(bytes);
        if (kind != Window_kind::allocate && !(base_ = memory.allocate(bytes)))
            die(memory.error() + needs_less);
        switch (kind) {
        case Window_kind::create:
            MPI_Win_create(base_, size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &handle);
            break;
        case Window_kind::allocate:
            allocate(size, name);
            break;
        case Window_kind::dynamic:
            MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &handle);
            MPI_Win_attach(handle, base_, size);
            break;
        }
        MPI_Aint own = 0, all[2] = {};
        int rank = 0;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        if (kind == Window_kind::dynamic)
            MPI_Get_address(base_, &own);
        MPI_Allgather(&own, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD);
        peers_base = all[1 - rank];
    }
    ~Window() {
        MPI_Barrier(MPI_COMM_WORLD);
        if (kind_ == Window_kind::dynamic)
            MPI_Win_detach(handle, base_);
        MPI_Win_free(&handle);
        if (kind_ != Window_kind::allocate)
            memory_.deallocate(base_);
    }
    Window(const Window &) = delete;
    Window &operator=(const Window &) = delete;
    void *data() const { return base_; }

    MPI_Win handle = MPI_WIN_NULL;
    MPI_Aint peers_base = 0; // displacement of the first byte at the peer

private:
    // With MPI 4.1's key for the kind, which an MPI need not follow.
    void allocate(MPI_Aint size, Memory name) {
        MPI_Info info;
        MPI_Info_create(&info);
        if (name != Memory::host)
            MPI_Info_set(info, "mpi_memory_alloc_kinds", (to_string(name) + std::string(":device")).c_str());
        MPI_Win_allocate(size, 1, info, MPI_COMM_WORLD, &base_, &handle);
        MPI_Info_free(&info);
        const int mine = memory_.is_mine(base_);
        int both = 0, rank = 0;
        MPI_Allreduce(&mine, &both, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        if (both)
            return;
        if (rank == 0)
            die("-w allocate: this MPI gives host memory only; use -w create or dynamic, or H for the window");
        MPI_Barrier(MPI_COMM_WORLD); // until rank 0 has ended the job
    }

    Window_kind kind_;
    Device_memory &memory_;
    void *base_ = nullptr;
};

class Benchmark {
public:
    Benchmark(Operation operation, const Options &options, Device_memory &device);
    ~Benchmark() { MPI_Group_free(&peer_group_); }
    Benchmark(const Benchmark &) = delete;
    Benchmark &operator=(const Benchmark &) = delete;
    int run();

private:
    bool origin() const { return rank_ == 0 || operation_.both_ways; }
    bool target() const { return rank_ == 1 || operation_.both_ways; }
    bool passive() const { return options_.sync != Sync::fence && options_.sync != Sync::pscw; }
    // All messages between two synchronisations.
    size_t batch(size_t bytes) const { return bytes * static_cast<size_t>(messages_); }
    // OSU's number of `number`, which the user may have `given`, for what is run here.
    int repeats(int number, bool given) const { return operation_.latency || given ? number : number / fewer; }

    void print_header() const;
    void run_size(size_t bytes);
    double iterate(size_t bytes);
    void open();
    void close();
    void begin();
    void issue(size_t bytes);
    void end();

    void prepare(size_t bytes);
    void verify(size_t bytes);
    template <typename Access> void with_own_window(Access access);
    // The bytes are this iteration's, from the sending rank to the receiving one.
    Block_id sent_by(int rank) const {
        return {static_cast<uint32_t>(rank), static_cast<uint32_t>(1 - rank), iteration_};
    }

    struct Moved {
        uint64_t operations = 0, batches = 0, staged = 0;
    };
    Moved moved() const;
    std::string path_name(const Moved &before, const Moved &after) const;

    Operation operation_;
    const Options &options_;
    int messages_;
    std::string error_;
    std::unique_ptr<Device_memory> host_;
    Device_memory &buffer_memory_, &window_memory_;
    Buffer buffer_;
    Window window_;
    std::vector<unsigned char> staging_;
    Counters counters_;
    MPI_Group peer_group_ = MPI_GROUP_NULL;
    int rank_ = 0;
    uint32_t iteration_ = 0; // over all sizes: names the pattern
    Verdict verdict_{options_};
};

Benchmark::Benchmark(Operation operation, const Options &options, Device_memory &device)
    : operation_(operation), options_(options), messages_(operation.latency ? 1 : options.messages),
      host_(Device_memory::open(Memory::host, error_)), buffer_memory_(origin_on_device(options) ? device : *host_),
      window_memory_(window_on_device(options) ? device : *host_),
      buffer_(buffer_memory_, batch(options.largest) + guard_bytes),
      window_(options.window, window_memory_, window_on_device(options) ? options.memory : Memory::host,
              batch(options.largest) + guard_bytes),
      staging_(options.check ? batch(options.largest) + guard_bytes : 0) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    if (!buffer_.data())
        die(buffer_memory_.error() + needs_less);
    MPI_Group world;
    const int peer = 1 - rank_;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &peer, &peer_group_);
    MPI_Group_free(&world);
}

int Benchmark::run() {
    if (rank_ == 0)
        print_header();
    open();
    bool correct = true;
    for (size_t bytes = options_.smallest; bytes <= options_.largest && correct; bytes *= 2) {
        run_size(bytes);
        correct = verdict_.all_correct();
    }
    close();
    if (options_.full && rank_ == 0)
        print(counters_);
    return correct ? EXIT_SUCCESS : EXIT_FAILURE;
}

void Benchmark::print_header() const {
    const auto place = [&](bool on_device) { return to_string(on_device ? options_.memory : Memory::host); };
    std::printf("# sdma_bench %s, origin's buffer %s, window %s by %s, %s", options_.verb.c_str(),
                place(origin_on_device(options_)), place(window_on_device(options_)), to_string(options_.window),
                to_string(options_.sync));
    if (!operation_.latency)
        std::printf(", %d operations each", messages_);
    std::printf("\n%-12s%18s", "# Size", operation_.latency ? "Latency(us)" : "Bandwidth(MB/s)");
    if (options_.full)
        std::printf("%12s", "Iterations");
    std::printf("  %s%s\n", "Path", options_.check ? "  Validation" : "");
    std::fflush(stdout);
}

void Benchmark::run_size(size_t bytes) {
    const int warmup = repeats(warmup_for(options_, bytes), options_.warmup >= 0);
    const int iterations = repeats(iterations_for(options_, bytes), options_.iterations > 0);
    const Moved before = moved();
    double seconds = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < warmup + iterations; ++i) {
        const double took = iterate(bytes);
        seconds += i < warmup ? 0 : took;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const std::string path = path_name(before, moved());
    if (rank_ != 0)
        return;
    const double each = seconds / iterations;
    const double megabytes = static_cast<double>(batch(bytes)) * (operation_.both_ways ? 2 : 1) / 1e6;
    std::printf("%-12zu%18.2f", bytes, operation_.latency ? each * 1e6 : each > 0 ? megabytes / each : 0);
    if (options_.full)
        std::printf("%12d", iterations);
    std::printf("  %s%s", path.c_str(), options_.check ? "" : "\n");
    std::fflush(stdout);
}

double Benchmark::iterate(size_t bytes) {
    ++iteration_;
    if (options_.check)
        prepare(bytes);
    const double start = MPI_Wtime();
    begin();
    if (origin())
        issue(bytes);
    end();
    const double seconds = MPI_Wtime() - start;
    if (options_.check)
        verify(bytes);
    return seconds;
}

// ---- synchronisation ------------------------------------------------------------------------------

// Once for all iterations.
void Benchmark::open() {
    if (options_.sync == Sync::fence)
        MPI_Win_fence(MPI_MODE_NOPRECEDE, window_.handle);
    if (origin() && (options_.sync == Sync::flush || options_.sync == Sync::flush_local))
        MPI_Win_lock(MPI_LOCK_SHARED, 1 - rank_, 0, window_.handle);
}

void Benchmark::close() {
    if (options_.sync == Sync::fence)
        MPI_Win_fence(MPI_MODE_NOSUCCEED, window_.handle);
    if (origin() && (options_.sync == Sync::flush || options_.sync == Sync::flush_local))
        MPI_Win_unlock(1 - rank_, window_.handle);
}

void Benchmark::begin() {
    if (options_.sync == Sync::pscw && target())
        MPI_Win_post(peer_group_, 0, window_.handle);
    if (!origin())
        return;
    if (options_.sync == Sync::pscw)
        MPI_Win_start(peer_group_, 0, window_.handle);
    else if (options_.sync == Sync::lock)
        MPI_Win_lock(MPI_LOCK_SHARED, 1 - rank_, 0, window_.handle);
    else if (options_.sync == Sync::lock_all)
        MPI_Win_lock_all(0, window_.handle);
}

void Benchmark::issue(size_t bytes) {
    const int count = static_cast<int>(bytes), peer = 1 - rank_;
    for (int i = 0; i < messages_; ++i) {
        const size_t offset = static_cast<size_t>(i) * bytes;
        char *buffer = static_cast<char *>(buffer_.data()) + offset;
        const MPI_Aint at = window_.peers_base + static_cast<MPI_Aint>(offset);
        const int status = operation_.get ? MPI_Get(buffer, count, MPI_BYTE, peer, at, count, MPI_BYTE, window_.handle)
                                          : MPI_Put(buffer, count, MPI_BYTE, peer, at, count, MPI_BYTE, window_.handle);
        if (status != MPI_SUCCESS)
            die(options_.verb + " of " + std::to_string(bytes) + " bytes failed with MPI error " +
                std::to_string(status));
    }
}

void Benchmark::end() {
    const int peer = 1 - rank_;
    switch (options_.sync) {
    case Sync::fence:
        MPI_Win_fence(0, window_.handle);
        break;
    case Sync::pscw:
        if (origin())
            MPI_Win_complete(window_.handle);
        if (target())
            MPI_Win_wait(window_.handle);
        break;
    case Sync::lock:
        if (origin())
            MPI_Win_unlock(peer, window_.handle);
        break;
    case Sync::lock_all:
        if (origin())
            MPI_Win_unlock_all(window_.handle);
        break;
    case Sync::flush:
        if (origin())
            MPI_Win_flush(peer, window_.handle);
        break;
    case Sync::flush_local:
        if (origin())
            MPI_Win_flush_local(peer, window_.handle);
        break;
    }
}

// ---- validation -----------------------------------------------------------------------------------

// Where the synchronisation is one-sided MPI wants a lock for a look at the own window.
template <typename Access> void Benchmark::with_own_window(Access access) {
    if (passive())
        MPI_Win_lock(MPI_LOCK_SHARED, rank_, 0, window_.handle);
    const bool good = access(static_cast<unsigned char *>(window_.data()));
    if (passive())
        MPI_Win_unlock(rank_, window_.handle);
    if (!good)
        die(window_memory_.error());
}

// What is sent is in place on the sending side, and the guard on the receiving one, before anybody begins.
void Benchmark::prepare(size_t bytes) {
    const size_t all = batch(bytes);
    const std::vector<unsigned char> guard(guard_bytes, guard_byte);
    fill_pattern(sent_by(rank_), staging_.data(), all);
    auto *buffer = static_cast<unsigned char *>(buffer_.data());
    if (origin() && !(operation_.get ? buffer_memory_.write(buffer + all, guard.data(), guard_bytes)
                                     : buffer_memory_.write(buffer, staging_.data(), all)))
        die(buffer_memory_.error());
    if (target())
        with_own_window([&](unsigned char *window) {
            return operation_.get ? window_memory_.write(window, staging_.data(), all)
                                  : window_memory_.write(window + all, guard.data(), guard_bytes);
        });
    options_.sync == Sync::fence ? MPI_Win_fence(0, window_.handle) : MPI_Barrier(MPI_COMM_WORLD);
}

void Benchmark::verify(size_t bytes) {
    const size_t all = batch(bytes);
    if (options_.sync == Sync::flush_local && origin())
        MPI_Win_flush(1 - rank_, window_.handle); // not timed
    MPI_Barrier(MPI_COMM_WORLD);
    if (operation_.get ? !origin() : !target())
        return;
    if (!operation_.get)
        with_own_window([&](const unsigned char *window) {
            return window_memory_.read(staging_.data(), window, all + guard_bytes);
        });
    else if (!buffer_memory_.read(staging_.data(), buffer_.data(), all + guard_bytes))
        die(buffer_memory_.error());
    const Block_id id = sent_by(1 - rank_);
    const size_t wrong = first_wrong_byte(id, staging_.data(), all);
    if (wrong < all)
        return verdict_.complain(
            bytes, iteration_, "operation " + std::to_string(wrong / bytes) + ", byte " + std::to_string(wrong % bytes),
            staging_[wrong], pattern_byte(id, wrong));
    for (size_t i = 0; i < guard_bytes; ++i)
        if (staging_[all + i] != guard_byte)
            return verdict_.complain(bytes, iteration_, "byte " + std::to_string(i) + " behind the buffer",
                                     staging_[all + i], guard_byte);
}

// ---- who moved the bytes --------------------------------------------------------------------------

Benchmark::Moved Benchmark::moved() const {
    Moved moved;
    for (const Counter_value &counter : counters_.read())
        if (counter.name == "puts" || counter.name == "gets")
            moved.operations += counter.value;
        else if (counter.name == "put_batches")
            moved.batches += counter.value;
        else if (counter.name == "staged")
            moved.staged += counter.value;
    return moved;
}

// As any rank saw it: engines, else loads and stores of kernel or CPU; nothing of ours: the component below.
std::string Benchmark::path_name(const Moved &before, const Moved &after) const {
    uint64_t mine[] = {after.operations - before.operations, after.batches - before.batches,
                       after.staged - before.staged};
    uint64_t all[std::size(mine)];
    MPI_Allreduce(mine, all, std::size(mine), MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    std::string name = all[0] == 0 ? "" : all[1] > 0 ? "sdma" : "loadstore";
    if (all[2] > 0)
        name += name.empty() ? "staged" : "+staged";
    if (name.empty())
        name = origin_on_device(options_) || window_on_device(options_) ? "other" : "host";
    return name;
}

int run(Operation operation, const Options &options, Device_memory &device) {
    int size = 0, rank = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (size != 2) {
        if (rank == 0)
            std::fprintf(stderr, "sdma_bench: %s needs two ranks, not %d\n", options.verb.c_str(), size);
        return EXIT_FAILURE;
    }
    return Benchmark(operation, options, device).run();
}

} // namespace

int run_put_bw(const Options &options, Device_memory &memory) { return run({false, false, false}, options, memory); }
int run_put_bibw(const Options &options, Device_memory &memory) { return run({false, true, false}, options, memory); }
int run_put_lat(const Options &options, Device_memory &memory) { return run({false, false, true}, options, memory); }
int run_get_bw(const Options &options, Device_memory &memory) { return run({true, false, false}, options, memory); }
int run_get_lat(const Options &options, Device_memory &memory) { return run({true, false, true}, options, memory); }

} // namespace tools
