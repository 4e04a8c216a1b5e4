// SPDX-License-Identifier: BSD-3-Clause
#include "test/simnode/thunk/node.hpp"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/simnode/simnode.hpp"
#include "test/simnode/thunk/model.hpp"

namespace simnode {

namespace {

constexpr unsigned most_seats = 256;
constexpr uint32_t most_rows = 1u << 16;

// Free while `bytes` is 0. The id of the object in row r is generation << 16 | r.
struct Row {
    std::atomic<uint64_t> bytes;
    uint32_t gpu;
    uint32_t generation;
    uint64_t holders[most_seats / 64];
};

struct Table {
    uint32_t rows_used;                                        // rows at or above this were never used
    uint16_t slots[most_gpus][most_engines][slots_per_engine]; // seat + 1, or 0
    Row rows[most_rows];
};

std::mutex mutex_;
int file = -1;
unsigned seat;
Table *table;
std::atomic<bool> is_forked{false};
auto &own_holds = *new std::unordered_map<uint32_t, unsigned>;

bool record_lock(int command, short type, off_t byte, struct flock &lock) {
    lock = {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = byte;
    lock.l_len = 1;
    int result;
    while ((result = fcntl(file, command, &lock)) < 0 && errno == EINTR) {
    }
    return result == 0;
}

// Byte 0 of the file guards the table between processes, the mutex between threads; byte 1 + n is
// the seat n. The file must never be opened a second time: closing that would drop the locks.
class Guard {
public:
    Guard() { record_lock(F_SETLKW, F_WRLCK, 0, lock_); }
    ~Guard() { record_lock(F_SETLK, F_UNLCK, 0, lock_); }
    Guard(const Guard &) = delete;

private:
    std::lock_guard<std::mutex> threads_{mutex_};
    struct flock lock_ {};
};

bool unused(const Row &row) {
    for (uint64_t word : row.holders)
        if (word)
            return false;
    return true;
}

void release(Row &row) {
    row.bytes.store(0, std::memory_order_release);
    ++row.generation;
}

void leave(Row &row, unsigned who) {
    row.holders[who / 64] &= ~(uint64_t{1} << who % 64);
    if (row.bytes && unused(row))
        release(row);
}

void clear_seat(unsigned who) {
    for (uint32_t r = 0; r < table->rows_used; ++r)
        leave(table->rows[r], who);
    for (auto &gpu : table->slots)
        for (auto &engine : gpu)
            for (uint16_t &slot : engine)
                if (slot == who + 1)
                    slot = 0;
}

void clear_vanished() {
    for (unsigned who = 0; who < most_seats; ++who) {
        struct flock lock;
        if (who != seat && record_lock(F_GETLK, F_WRLCK, 1 + who, lock) && lock.l_type == F_UNLCK)
            clear_seat(who);
    }
}

size_t used(unsigned gpu) {
    size_t sum = 0;
    for (uint32_t r = 0; r < table->rows_used; ++r)
        if (table->rows[r].gpu == gpu)
            sum += table->rows[r].bytes;
    return sum;
}

bool fits(unsigned gpu, size_t bytes) {
    const size_t now = used(gpu);
    return now <= options().vram && bytes <= options().vram - now;
}

uint32_t free_row() {
    for (uint32_t r = 0; r < table->rows_used; ++r)
        if (table->rows[r].bytes == 0)
            return r;
    return table->rows_used;
}

Row *find(uint32_t object) {
    const uint32_t r = object & (most_rows - 1);
    Row &row = table->rows[r];
    return r < table->rows_used && row.bytes && (row.generation & 0xffff) == object >> 16 ? &row : nullptr;
}

std::string file_name(const char *directory) { return std::string(directory) + "/node"; }

bool take_seat() {
    const char *directory = getenv("SDMA_SIMNODE_DIR");
    if (!directory) {
        complain("this library is part of a simulated node: start the program with sdma_simnode");
        return false;
    }
    file = open(file_name(directory).c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) {
        complain("cannot open %s: %s", file_name(directory).c_str(), strerror(errno));
        return false;
    }
    void *mapped = mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) {
        complain("cannot map %s: %s", file_name(directory).c_str(), strerror(errno));
        return false;
    }
    table = static_cast<Table *>(mapped);
    pthread_atfork(nullptr, nullptr, [] { is_forked = true; });
    for (seat = 0; seat < most_seats; ++seat) {
        struct flock lock;
        if (record_lock(F_SETLK, F_WRLCK, 1 + seat, lock)) {
            Guard guard;
            clear_seat(seat);
            return true;
        }
    }
    complain("more than %u processes on the simulated node", most_seats);
    return false;
}

} // namespace

bool join_node() {
    static const bool joined = take_seat();
    return joined && !forked();
}

bool forked() { return is_forked; }

uint32_t charge(unsigned gpu, size_t bytes) {
    Guard guard;
    if (!fits(gpu, bytes)) {
        clear_vanished();
        if (!fits(gpu, bytes))
            return 0;
    }
    const uint32_t r = free_row();
    if (r == most_rows)
        return 0;
    Row &row = table->rows[r];
    row.gpu = gpu;
    if ((row.generation & 0xffff) == 0) // an id is never 0
        row.generation = 1;
    memset(row.holders, 0, sizeof row.holders);
    row.holders[seat / 64] |= uint64_t{1} << seat % 64;
    if (r == table->rows_used)
        table->rows_used = r + 1;
    row.bytes.store(bytes, std::memory_order_release);
    const uint32_t object = row.generation << 16 | r;
    own_holds[object] = 1;
    return object;
}

bool hold(uint32_t object) {
    Guard guard;
    Row *row = find(object);
    if (!row)
        return false;
    row->holders[seat / 64] |= uint64_t{1} << seat % 64;
    ++own_holds[object];
    return true;
}

void drop(uint32_t object) {
    Guard guard;
    const auto own = own_holds.find(object);
    if (own == own_holds.end() || --own->second > 0)
        return;
    own_holds.erase(own);
    if (Row *row = find(object))
        leave(*row, seat);
}

size_t available(unsigned gpu) {
    Guard guard;
    clear_vanished();
    const size_t now = used(gpu);
    return now < options().vram ? options().vram - now : 0;
}

int take_slot(unsigned gpu, unsigned first, unsigned count, unsigned &engine) {
    Guard guard;
    for (int again = 0; again < 2; ++again) {
        for (unsigned s = 0; s < slots_per_engine; ++s) {
            for (engine = first; engine < first + count; ++engine) {
                uint16_t &slot = table->slots[gpu][engine][s];
                if (slot == 0) {
                    slot = static_cast<uint16_t>(seat + 1);
                    return static_cast<int>(s);
                }
            }
        }
        clear_vanished();
    }
    return -1;
}

void give_slot(unsigned gpu, unsigned engine, int slot) {
    Guard guard;
    table->slots[gpu][engine][slot] = 0;
}

bool create_node(const char *directory) {
    const int made = open(file_name(directory).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (made < 0)
        return false;
    const bool sized = ftruncate(made, sizeof(Table)) == 0;
    close(made);
    return sized;
}

} // namespace simnode
