// SPDX-License-Identifier: BSD-3-Clause
//
// Windows on device memory by osc/sdma: what rma, which knows no component, does not show. mode=...
//   many          2,048 puts to each rank before one flush; the counters say that they were ours
//   threads       four threads put to parts of their own, each with its own flushes
//   message       put, flush, then a word by other means than MPI: the data must be there (rounds=N)
//   realloc       memory freed and allocated again under new windows, and attached again to one (rounds=N)
//   outstanding   a window is freed with puts on their way
//   atomics       all ranks change the same elements at once by the whole accumulate family (rounds=N)
//   allocate      MPI_Win_allocate with the info key of MPI 4.1 for device memory
//   host          a window on host memory costs nothing: nothing is counted
//   range         what leaves the target's window is refused, and the window goes on
//   nodes         a job on several nodes: targets of the own node are ours, others the component's below
//   kill          rank 1 ends amid puts of the others: mpirun must end them
#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

#include "test/mpi/buffers.hpp"
#include "test/mpi/harness.hpp"

namespace {

class Window {
public:
    Window(void *base, size_t bytes) {
        MPI_Win_create(base, static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &handle);
    }
    explicit Window(const Buffer &buffer) : Window(buffer.data(), buffer.bytes()) {}
    ~Window() { MPI_Win_free(&handle); }
    Window(const Window &) = delete;
    Window &operator=(const Window &) = delete;

    int put(const uint8_t *from, size_t bytes, int target, size_t at) const {
        const auto count = static_cast<int>(bytes);
        return MPI_Put(from, count, MPI_BYTE, target, static_cast<MPI_Aint>(at), count, MPI_BYTE, handle);
    }
    int get(uint8_t *to, size_t bytes, int target, size_t at) const {
        const auto count = static_cast<int>(bytes);
        return MPI_Get(to, count, MPI_BYTE, target, static_cast<MPI_Aint>(at), count, MPI_BYTE, handle);
    }

    MPI_Win handle = MPI_WIN_NULL;
};

size_t ranks(const Job &job) { return static_cast<size_t>(job.size); }
size_t place(int rank, size_t bytes) { return static_cast<size_t>(rank) * bytes; }

void compare(Job &job, const Buffer &window, size_t at, const std::vector<uint8_t> &wanted, const char *what,
             int from) {
    job.check(window.load(at, wanted.size()) == wanted, "%s: wrong bytes of rank %d", what, from);
}

void many(Job &job) {
    constexpr size_t puts = 2048;
    constexpr size_t stride = 520;
    Buffer window(puts * stride * ranks(job), Memory::device);
    Buffer origin(puts * stride, Memory::device);
    origin.store(0, Pattern(job.rank, 0, 7).block(origin.bytes()));
    const auto before = job.counters["puts"];
    const Window win(window);
    MPI_Win_lock_all(0, win.handle);
    for (int target = 0; target < job.size; ++target) {
        for (size_t i = 0; i < puts; ++i) {
            win.put(origin.data() + i * stride, 1 + i % stride, target, place(job.rank, puts * stride) + i * stride);
        }
    }
    MPI_Win_flush_all(win.handle);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int from = 0; from < job.size; ++from) {
        const auto content = Pattern(from, 0, 7).block(puts * stride);
        const auto now = window.load(place(from, puts * stride), puts * stride);
        size_t wrong = 0;
        for (size_t i = 0; i < puts; ++i) {
            wrong += std::memcmp(&now[i * stride], &content[i * stride], 1 + i % stride) != 0 ? 1 : 0;
        }
        job.check(wrong == 0, "%zu of %zu puts of rank %d are wrong", wrong, puts, from);
    }
    MPI_Win_unlock_all(win.handle);
    const auto counted = job.counters["puts"] - before;
    job.check(counted == puts * ranks(job), "%llu puts were ours, not %zu", counted, puts * ranks(job));
}

void threads(Job &job) {
    constexpr size_t count = 4;
    constexpr size_t bytes = 20000;
    constexpr uint64_t rounds = 20;
    const size_t part = bytes * ranks(job);
    Buffer window(count * part, Memory::device);
    const Window win(window);
    MPI_Win_lock_all(0, win.handle);
    std::vector<std::thread> running;
    for (size_t t = 0; t < count; ++t) {
        running.emplace_back([&, t] {
            Buffer origin(bytes, Memory::device);
            Buffer back(bytes, t % 2 == 0 ? Memory::device : Memory::host);
            for (uint64_t round = 0; round < rounds; ++round) {
                for (int target = 0; target < job.size; ++target) {
                    const auto content = Pattern(job.rank, target, round * count + t).block(bytes);
                    origin.store(0, content);
                    const size_t at = t * part + place(job.rank, bytes);
                    win.put(origin.data(), bytes, target, at);
                    MPI_Win_flush(target, win.handle);
                    win.get(back.data(), bytes, target, at);
                    MPI_Win_flush_local(target, win.handle);
                    // A get is complete here once it is complete at all.
                    compare(job, back, 0, content, "thread", job.rank);
                }
            }
        });
    }
    for (std::thread &thread : running) {
        thread.join();
    }
    MPI_Win_unlock_all(win.handle);
    MPI_Barrier(MPI_COMM_WORLD);
    for (size_t t = 0; t < count; ++t) {
        for (int from = 0; from < job.size; ++from) {
            compare(job, window, t * part + place(from, bytes),
                    Pattern(from, job.rank, (rounds - 1) * count + t).block(bytes), "threads", from);
        }
    }
}

// A word of each rank in shared host memory: the message that is not MPI's.
class Words {
public:
    explicit Words(Job &job) : words_(ranks(job)) {
        void *base = nullptr;
        MPI_Win_allocate_shared(sizeof(std::atomic<uint64_t>), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &handle_);
        new (base) std::atomic<uint64_t>(0);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int p = 0; p < job.size; ++p) {
            MPI_Aint bytes = 0;
            int unit = 0;
            void *word = nullptr;
            MPI_Win_shared_query(handle_, p, &bytes, &unit, &word);
            words_[static_cast<size_t>(p)] = static_cast<std::atomic<uint64_t> *>(word);
        }
    }
    ~Words() { MPI_Win_free(&handle_); }
    Words(const Words &) = delete;
    Words &operator=(const Words &) = delete;

    std::atomic<uint64_t> &of(int rank) { return *words_[static_cast<size_t>(rank)]; }

private:
    std::vector<std::atomic<uint64_t> *> words_;
    MPI_Win handle_ = MPI_WIN_NULL;
};

// Round by round to the next rank, which answers by the same word of its own.
void message(Job &job) {
    const uint64_t rounds = job.number("rounds", 40);
    constexpr size_t most = 300000;
    Words words(job);
    Buffer window(most, Memory::device);
    Buffer origin(most, Memory::device);
    const Window win(window);
    const int next = (job.rank + 1) % job.size;
    const int before = (job.rank + job.size - 1) % job.size;
    Random random(job.number("seed", 1));
    MPI_Win_lock_all(0, win.handle);
    for (uint64_t round = 1; round <= rounds; ++round) {
        const size_t bytes = round % 3 == 0 ? 1 + random.below(most) : 1 + random.below(5000);
        origin.store(0, Pattern(job.rank, next, round).block(bytes));
        win.put(origin.data(), bytes, next, 0);
        if (round % 2 == 0) {
            MPI_Win_flush(next, win.handle);
        } else {
            MPI_Win_flush_all(win.handle);
        }
        words.of(job.rank).store(2 * round - 1, std::memory_order_release);
        while (words.of(before).load(std::memory_order_acquire) < 2 * round - 1) {
        }
        compare(job, window, 0, Pattern(before, job.rank, round).block(bytes), "message", before);
        words.of(job.rank).store(2 * round, std::memory_order_release);
        while (words.of(next).load(std::memory_order_acquire) < 2 * round) { // it has looked
        }
    }
    MPI_Win_unlock_all(win.handle);
}

// Everybody puts its pattern to everybody and checks what arrived.
void exchange(Job &job, const Window &win, const Buffer &window, size_t bytes, uint64_t round,
              const std::function<size_t(int)> &base) {
    Buffer origin(bytes, Memory::device);
    origin.store(0, Pattern(job.rank, 0, round).block(bytes));
    MPI_Win_lock_all(0, win.handle);
    for (int target = 0; target < job.size; ++target) {
        win.put(origin.data(), bytes, target, base(target) + place(job.rank, bytes));
    }
    MPI_Win_unlock_all(win.handle);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int from = 0; from < job.size; ++from) {
        compare(job, window, place(from, bytes), Pattern(from, 0, round).block(bytes), "exchange", from);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

void reallocate(Job &job) {
    const uint64_t rounds = job.number("rounds", 20);
    const size_t most = 1 + job.number("max", 30000);
    Random random(3);
    for (uint64_t round = 0; round < rounds; ++round) {
        const size_t bytes = 1 + random.below(most);
        Buffer window(bytes * ranks(job), Memory::device);
        const Window win(window);
        exchange(job, win, window, bytes, round, [](int) { return size_t{0}; });
    }
    MPI_Win handle = MPI_WIN_NULL;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &handle);
    for (uint64_t round = 0; round < rounds; ++round) {
        const size_t bytes = 1 + random.below(most);
        Buffer window(bytes * ranks(job), Memory::device);
        MPI_Win_attach(handle, window.data(), static_cast<MPI_Aint>(window.bytes()));
        MPI_Aint mine = 0;
        MPI_Get_address(window.data(), &mine);
        std::vector<MPI_Aint> all(ranks(job));
        MPI_Allgather(&mine, 1, MPI_AINT, all.data(), 1, MPI_AINT, MPI_COMM_WORLD);
        Buffer origin(bytes, Memory::device);
        origin.store(0, Pattern(job.rank, 1, round).block(bytes));
        MPI_Win_lock_all(0, handle);
        for (int target = 0; target < job.size; ++target) {
            MPI_Put(origin.data(), static_cast<int>(bytes), MPI_BYTE, target,
                    all[static_cast<size_t>(target)] + static_cast<MPI_Aint>(place(job.rank, bytes)),
                    static_cast<int>(bytes), MPI_BYTE, handle);
        }
        MPI_Win_unlock_all(handle);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int from = 0; from < job.size; ++from) {
            compare(job, window, place(from, bytes), Pattern(from, 1, round).block(bytes), "attached", from);
        }
        MPI_Win_detach(handle, window.data());
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_free(&handle);
}

void outstanding(Job &job) {
    constexpr size_t bytes = 1100000;
    Buffer origin(bytes, Memory::device);
    origin.store(0, Pattern(job.rank, 0, 0).block(bytes));
    Buffer window(bytes * ranks(job), Memory::device);
    {
        const Window win(window);
        MPI_Win_fence(0, win.handle);
        for (int target = 0; target < job.size; ++target) {
            win.put(origin.data(), bytes, target, place(job.rank, bytes));
        }
    }
    for (int from = 0; from < job.size; ++from) {
        compare(job, window, place(from, bytes), Pattern(from, 0, 0).block(bytes), "freed window", from);
    }
}

void atomics(Job &job) {
    const auto rounds = static_cast<int64_t>(job.number("rounds", 40));
    const size_t words = 4;
    Buffer window(words * 8, Memory::device);
    window.store(0, std::vector<uint8_t>(window.bytes(), 0));
    const Window win(window);
    const int64_t one = 1;
    int64_t sum = 0;
    MPI_Win_lock_all(0, win.handle);
    for (int64_t round = 0; round < rounds; ++round) {
        int64_t old = 0;
        MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, 0, MPI_SUM, win.handle);
        MPI_Win_flush(0, win.handle);
        sum += old;
        const int64_t two[2] = {round, 1};
        MPI_Accumulate(two, 2, MPI_INT64_T, 0, 8, 2, MPI_INT64_T, MPI_SUM, win.handle);
        // A counter by compare and swap.
        int64_t seen = 0;
        for (int64_t expected = 0;; expected = seen) {
            const int64_t wanted = expected + 1;
            MPI_Compare_and_swap(&wanted, &expected, &seen, MPI_INT64_T, 0, 24, win.handle);
            MPI_Win_flush(0, win.handle);
            if (seen == expected) {
                break;
            }
        }
    }
    MPI_Win_unlock_all(win.handle);
    int64_t all = 0;
    MPI_Allreduce(&sum, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    const int64_t total = rounds * job.size;
    // Every value was fetched exactly once.
    job.check(all == total * (total - 1) / 2, "fetched values add up to %" PRId64, all);
    if (job.rank == 0) {
        int64_t now[words];
        Device::get().copy(now, window.data(), sizeof now);
        job.check(now[0] == total && now[2] == total && now[3] == total, "counters %" PRId64 " %" PRId64 " %" PRId64,
                  now[0], now[2], now[3]);
        job.check(now[1] == job.size * rounds * (rounds - 1) / 2, "sum %" PRId64, now[1]);
    }
    job.check(job.counters["accumulates"] >= static_cast<unsigned long long>(3 * rounds), "%llu accumulates were ours",
              job.counters["accumulates"]);
}

bool is_device(const void *memory) {
    hipPointerAttribute_t attributes{};
    return hipPointerGetAttributes(&attributes, memory) == hipSuccess && attributes.devicePointer == memory &&
           attributes.hostPointer == nullptr;
}

void allocate(Job &job) {
    constexpr size_t bytes = 50000;
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    // Rank 1 asks for nothing, and gets host memory.
    const bool device = job.rank != 1;
    if (device) {
        MPI_Info_set(info, "mpi_memory_alloc_kinds", "rocm:device");
    }
    for (int round = 0; round < 3; ++round) {
        uint8_t *base = nullptr;
        MPI_Win handle = MPI_WIN_NULL;
        MPI_Win_allocate(static_cast<MPI_Aint>(bytes * ranks(job)), 1, info, MPI_COMM_WORLD, &base, &handle);
        job.check(is_device(base) == device, "the memory is %sdevice memory", device ? "not " : "");
        int *flavor = nullptr;
        int found = 0;
        MPI_Win_get_attr(handle, MPI_WIN_CREATE_FLAVOR, &flavor, &found);
        job.check(found != 0 && *flavor == MPI_WIN_FLAVOR_ALLOCATE, "the flavor is another");
        Buffer origin(bytes, Memory::device);
        origin.store(0, Pattern(job.rank, 0, 5).block(bytes));
        MPI_Win_fence(0, handle);
        for (int target = 0; target < job.size; ++target) {
            MPI_Put(origin.data(), bytes, MPI_BYTE, target, static_cast<MPI_Aint>(place(job.rank, bytes)), bytes,
                    MPI_BYTE, handle);
        }
        MPI_Win_fence(0, handle);
        std::vector<uint8_t> now(bytes * ranks(job));
        Device::get().copy(now.data(), base, now.size());
        for (int from = 0; from < job.size; ++from) {
            job.check(std::memcmp(&now[place(from, bytes)], Pattern(from, 0, 5).block(bytes).data(), bytes) == 0,
                      "wrong bytes of rank %d", from);
        }
        MPI_Win_free(&handle);
    }
    MPI_Info_free(&info);
}

void host(Job &job) {
    constexpr size_t bytes = 10000;
    Buffer window(bytes * ranks(job), Memory::host);
    Buffer origin(bytes, Memory::host);
    origin.store(0, Pattern(job.rank, 0, 9).block(bytes));
    {
        const Window win(window);
        MPI_Win_fence(0, win.handle);
        for (int target = 0; target < job.size; ++target) {
            win.put(origin.data(), bytes, target, place(job.rank, bytes));
        }
        MPI_Win_fence(0, win.handle);
        for (int from = 0; from < job.size; ++from) {
            compare(job, window, place(from, bytes), Pattern(from, 0, 9).block(bytes), "host", from);
        }
    }
    for (const char *counter : {"puts", "gets", "staged", "accumulates"}) {
        job.check(job.counters[counter] == 0, "%s: %llu", counter, job.counters[counter]);
    }
}

void range(Job &job) {
    constexpr size_t bytes = 5000;
    Buffer window(bytes, Memory::device);
    window.store(0, std::vector<uint8_t>(bytes, 1));
    Buffer origin(bytes, Memory::device);
    const Window win(window);
    MPI_Win_set_errhandler(win.handle, MPI_ERRORS_RETURN);
    const int target = (job.rank + 1) % job.size;
    MPI_Win_lock_all(0, win.handle);
    for (const auto &[at, count] : {std::pair<MPI_Aint, int>{1, 5000}, {5000, 1}, {1LL << 40, 1}}) {
        const int code = MPI_Put(origin.data(), count, MPI_BYTE, target, at, count, MPI_BYTE, win.handle);
        int kind = MPI_SUCCESS;
        MPI_Error_class(code, &kind);
        job.check(kind == MPI_ERR_RMA_RANGE, "at %td: error class %d", static_cast<ptrdiff_t>(at), kind);
    }
    origin.store(0, std::vector<uint8_t>(bytes, 2));
    job.check(win.put(origin.data(), bytes, target, 0) == MPI_SUCCESS, "a put after refused ones failed");
    MPI_Win_unlock_all(win.handle);
    MPI_Barrier(MPI_COMM_WORLD);
    compare(job, window, 0, std::vector<uint8_t>(bytes, 2), "range", job.rank);
}

void nodes(Job &job) {
    constexpr size_t bytes = 40000;
    MPI_Comm node = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    int local = 0;
    MPI_Comm_size(node, &local);
    job.check(local > 1 && local < job.size, "%d of %d ranks are on this node", local, job.size);
    const auto before = job.counters["puts"];
    Buffer window(bytes * ranks(job), Memory::device);
    const uint64_t rounds = 3;
    {
        const Window win(window);
        for (uint64_t round = 0; round < rounds; ++round) {
            exchange(job, win, window, bytes, round, [](int) { return size_t{0}; });
        }
    }
    const auto counted = job.counters["puts"] - before;
    job.check(counted == rounds * static_cast<unsigned>(local), "%llu puts were ours", counted);
    MPI_Comm_free(&node);
}

void kill_one(Job &job) {
    constexpr size_t bytes = 200000;
    Buffer window(bytes, Memory::device);
    Buffer origin(bytes, Memory::device);
    const Window win(window);
    MPI_Win_lock_all(0, win.handle);
    for (uint64_t round = 0;; ++round) {
        if (job.rank == 1 && round == 20) {
            std::raise(SIGKILL);
        }
        win.put(origin.data(), bytes, 1, 0);
        MPI_Win_flush(1, win.handle);
    }
}

} // namespace

int main(int argc, char **argv) {
    const std::map<std::string, std::function<void(Job &)>> modes = {{"many", many},
                                                                     {"threads", threads},
                                                                     {"message", message},
                                                                     {"realloc", reallocate},
                                                                     {"outstanding", outstanding},
                                                                     {"atomics", atomics},
                                                                     {"allocate", allocate},
                                                                     {"host", host},
                                                                     {"range", range},
                                                                     {"nodes", nodes},
                                                                     {"kill", kill_one}};
    // Open MPI 4.1 has nobody for windows of several nodes and several threads.
    const bool one = std::any_of(argv, argv + argc, [](const std::string &text) { return text == "mode=nodes"; });
    Job job(argc, argv, one ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE);
    Device::get().select(job.rank);
    const auto mode = modes.find(job.option("mode", ""));
    if (job.check(mode != modes.end(), "no such mode")) {
        mode->second(job);
    }
    return job.finish("windows");
}
