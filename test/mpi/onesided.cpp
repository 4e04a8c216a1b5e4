// SPDX-License-Identifier: BSD-3-Clause
//
// One-sided operations between processes, on hipMalloc memory, without MPI's: MPI only carries addresses and keys.
// Every rank puts into its own part of every rank's window, plain, as rectangles and with a signal; the owner checks
// every byte of its window; the parts are then fetched back. All draw from the same random numbers.
//   rounds=N (default 20)   max=BYTES of one operation (default 300000)   host=0: device memory only
//   NAME=VALUE: a parameter of the library
#include <algorithm>
#include <memory>

#include "common/sdma/onesided.h"
#include "test/mpi/buffers.hpp"
#include "test/mpi/harness.hpp"

namespace {

// The parameters that these tests change.
void set_parameters(const Job &job) {
    size_t count = 0;
    const sdma_param_t *rows = sdma_params(&count);
    for (size_t i = 0; i < count; ++i) {
        const std::string value = job.option(rows[i].name, "");
        if (value.empty()) {
            continue;
        }
        switch (rows[i].type) {
        case SDMA_PARAM_BOOL:
            *static_cast<bool *>(rows[i].value) = value == "1";
            break;
        case SDMA_PARAM_INT:
            *static_cast<int *>(rows[i].value) = std::atoi(value.c_str());
            break;
        case SDMA_PARAM_SIZE:
            *static_cast<size_t *>(rows[i].value) = std::strtoull(value.c_str(), nullptr, 0);
            break;
        case SDMA_PARAM_STRING:
            sdma_param_set(&rows[i], value.c_str());
            break;
        }
    }
}

// What one rank puts into its part of another one's window in one round: the same numbers on both sides.
struct Script {
    struct Step {
        size_t offset;
        sdma_rectangle_t shape; // tight on the sender's side
        bool fenced;            // it overlaps the one before
    };
    std::vector<Step> steps;
    std::vector<uint8_t> source; // one after the other
    uint64_t signal;

    Script(int from, int to, uint64_t round, size_t part, size_t most)
        : signal((round + 1) << 32U | static_cast<uint64_t>(from * 64 + to)) {
        Random random(static_cast<uint64_t>(from * 1000 + to) * 100003 + round);
        size_t at = 8;
        for (size_t i = 0; i < 12; ++i) {
            const size_t kind = random.below(4);
            const size_t limit = kind == 0 ? 64 : most;
            Step step{at, {1, 1 + random.below(limit), 0, 0}, false};
            if (kind == 1) {
                step.shape = {1 + random.below(20), 1 + random.below(500), 0, 0};
                step.shape.remote_pitch = step.shape.row_bytes + random.below(60);
            }
            if (kind == 2 && i > 0) {
                step.offset = steps.back().offset + random.below(16);
                step.fenced = true;
            }
            step.shape.local_pitch = step.shape.row_bytes;
            const size_t end = step.offset + step.shape.rows * std::max(step.shape.remote_pitch, step.shape.row_bytes);
            if (end > part) {
                break;
            }
            at = std::max(at, end + random.below(9));
            steps.push_back(step);
        }
        size_t bytes = 0;
        for (const Step &step : steps) {
            bytes += step.shape.rows * step.shape.row_bytes;
        }
        source = Pattern(from, to, round).block(bytes);
    }
    // What the part looks like afterwards.
    void apply(uint8_t *part) const {
        const uint8_t *from = source.data();
        for (const Step &step : steps) {
            for (size_t row = 0; row < step.shape.rows; ++row, from += step.shape.row_bytes) {
                std::memcpy(part + step.offset + row * step.shape.remote_pitch, from, step.shape.row_bytes);
            }
        }
        std::memcpy(part, &signal, sizeof signal);
    }
};

class Lines {
public:
    Lines(Job &job, Buffer &window) : job_(job) {
        sdma_reason_t reason = SDMA_REASON_none;
        sdma_address_t address{};
        sdma_key_t key{};
        must(sdma_address(&address, &reason), "address", reason);
        must(sdma_memory_register(window.data(), window.bytes(), 1, &memory_, &reason), "registration", reason);
        sdma_memory_key(memory_, &key);
        const auto ranks = static_cast<size_t>(job.size);
        std::vector<sdma_address_t> addresses(ranks);
        std::vector<sdma_key_t> keys(ranks);
        MPI_Allgather(&address, sizeof address, MPI_BYTE, addresses.data(), sizeof address, MPI_BYTE, MPI_COMM_WORLD);
        MPI_Allgather(&key, sizeof key, MPI_BYTE, keys.data(), sizeof key, MPI_BYTE, MPI_COMM_WORLD);
        lines.resize(ranks);
        remotes.resize(ranks);
        for (size_t p = 0; p < ranks; ++p) {
            must(sdma_line_open(&addresses[p], &lines[p], &reason), "line", reason);
            must(sdma_remote_attach(lines[p], &keys[p], &remotes[p], &reason), "remote", reason);
        }
    }
    ~Lines() {
        for (size_t p = 0; p < lines.size(); ++p) {
            sdma_remote_detach(remotes[p]);
            sdma_line_close(lines[p]);
        }
        sdma_memory_release(memory_);
        sdma_address_release();
    }
    Lines(const Lines &) = delete;
    Lines &operator=(const Lines &) = delete;

    void must(sdma_status_t status, const char *what, sdma_reason_t reason) const {
        if (!job_.check(status == SDMA_OK, "%s: status %d, %s", what, status, sdma_reason_text(reason))) {
            std::exit(1);
        }
    }
    // Posts until there is room.
    template <class Post> void post(size_t peer, Post call) {
        sdma_status_t status = SDMA_PENDING;
        while ((status = call(lines[peer])) == SDMA_PENDING) {
            sdma_line_progress(lines[peer]);
        }
        must(status, "post", sdma_line_reason(lines[peer]));
    }
    void flush() {
        for (sdma_line_t *line : lines) {
            const uint64_t all = sdma_line_posted(line);
            sdma_status_t status = SDMA_OK;
            while (sdma_line_done(line) < all && status == SDMA_OK) {
                status = sdma_line_progress(line);
            }
            must(status, "progress", sdma_line_reason(line));
        }
    }
    std::vector<sdma_line_t *> lines;
    std::vector<sdma_remote_t *> remotes;

private:
    Job &job_;
    sdma_memory_t *memory_ = nullptr;
};

} // namespace

int main(int argc, char **argv) {
    Job job(argc, argv);
    Device::get().select(job.rank);
    set_parameters(job);
    const size_t most = job.number("max", 300000);
    const size_t part = 64 + most * 6 / 8 * 8;
    const uint64_t rounds = job.number("rounds", 20);
    const bool host = job.number("host", 1) != 0;
    const auto ranks = static_cast<size_t>(job.size);
    const auto me = static_cast<size_t>(job.rank);
    Buffer window(part * ranks, Memory::device);
    std::vector<uint8_t> image(window.bytes(), 0x5a);
    window.store(0, image);
    auto connected = std::make_unique<Lines>(job, window);
    for (uint64_t round = 0; round < rounds; ++round) {
        // From device memory in one round, from host memory, which nobody has pinned, in the next.
        std::vector<std::unique_ptr<Buffer>> sources;
        for (size_t p = 0; p < ranks; ++p) {
            const auto to = static_cast<int>(p);
            const Script script(job.rank, to, round, part, most);
            sources.push_back(std::make_unique<Buffer>(script.source.size() + 1,
                                                       round % 2 == 0 || !host ? Memory::device : Memory::host));
            sources[p]->store(0, script.source);
            const uint8_t *from = sources[p]->data();
            uint64_t number = 0;
            for (const Script::Step &step : script.steps) {
                if (step.fenced) {
                    sdma_line_fence(connected->lines[p]);
                }
                connected->post(p, [&](sdma_line_t *line) {
                    const size_t at = me * part + step.offset;
                    return step.shape.rows == 1
                               ? sdma_put(line, from, connected->remotes[p], at, step.shape.row_bytes, &number)
                               : sdma_put_rectangle(line, from, connected->remotes[p], at, &step.shape, &number);
                });
                from += step.shape.rows * step.shape.row_bytes;
            }
            connected->post(p, [&](sdma_line_t *line) {
                return sdma_put_signal(line, nullptr, connected->remotes[p], 0, 0, me * part, script.signal, &number);
            });
            sdma_line_push(connected->lines[p]);
        }
        connected->flush();
        MPI_Barrier(MPI_COMM_WORLD);
        for (size_t p = 0; p < ranks; ++p) {
            Script(static_cast<int>(p), job.rank, round, part, most).apply(image.data() + p * part);
        }
        const std::vector<uint8_t> now = window.load(0, window.bytes());
        const size_t wrong =
            static_cast<size_t>(std::mismatch(now.begin(), now.end(), image.begin()).first - now.begin());
        job.check(wrong == now.size(), "round %" PRIu64 ": byte %zu of the part of rank %zu is %d, expected %d", round,
                  wrong % part, wrong / part, wrong < now.size() ? now[wrong] : 0,
                  wrong < now.size() ? image[wrong] : 0);
        // The neighbour's window, whole.
        const size_t next = (me + 1) % ranks;
        Buffer back(window.bytes(), round % 2 == 0 && host ? Memory::host : Memory::device);
        uint64_t number = 0;
        connected->post(next, [&](sdma_line_t *line) {
            return sdma_get(line, back.data(), connected->remotes[next], 0, window.bytes(), &number);
        });
        connected->flush();
        std::vector<uint8_t> theirs(window.bytes());
        MPI_Sendrecv(image.data(), static_cast<int>(image.size()), MPI_BYTE, static_cast<int>((me + ranks - 1) % ranks),
                     0, theirs.data(), static_cast<int>(theirs.size()), MPI_BYTE, static_cast<int>(next), 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        job.check(back.load(0, back.bytes()) == theirs, "round %" PRIu64 ": what came back from rank %zu is wrong",
                  round, next);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    connected.reset();
    return job.finish("onesided");
}
