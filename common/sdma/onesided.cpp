// SPDX-License-Identifier: BSD-3-Clause
//
// The C interface of one-sided operations.
#include "onesided.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <thread>

#include "line/board.hpp"
#include "line/events.hpp"
#include "line/line.hpp"
#include "process.hpp"

using namespace sdma;

struct sdma_memory {
    Hold hold;
    std::unique_ptr<line::Region> region;
};

struct sdma_line {
    Hold hold;
    std::unique_ptr<line::Line> line;
};

struct sdma_remote {
    std::unique_ptr<line::Remote> remote;
};

struct sdma_board {
    std::unique_ptr<line::Board> board;
};

namespace {

constinit std::mutex address_mutex;
constinit Hold *address_hold = nullptr; // while addresses > 0; never destroyed by the end of the process
constinit size_t addresses = 0;

// Made at first use. Lines may still be open at exit: the object stays, but its thread looks at no
// memory of a GPU runtime any more once that may be gone.
line::Events &events() {
    static struct Events_of_process {
        line::Events *all = new line::Events;
        ~Events_of_process() { all->stop(); }
    } process;
    return *process.all;
}

line::Request request(bool get, const void *local, sdma_remote_t *remote, size_t offset,
                      const sdma_rectangle_t &shape) {
    line::Request made;
    made.get = get;
    made.local = static_cast<char *>(const_cast<void *>(local));
    made.remote = remote->remote.get();
    made.offset = offset;
    made.shape = shape;
    return made;
}

sdma_rectangle_t one_row(size_t bytes) { return {1, bytes, bytes, bytes}; }

sdma_status_t post(sdma_line_t *line, const line::Request &request, uint64_t *number) {
    return guarded(SDMA_ERROR, [&] { return line->line->post(request, *number); });
}

} // namespace

extern "C" {

sdma_status_t sdma_address(sdma_address_t *address, sdma_reason_t *reason) {
    *reason = SDMA_REASON_no_memory;
    return guarded(SDMA_DECLINED, [&] {
        std::lock_guard lock(address_mutex);
        auto hold = std::make_unique<Hold>();
        memory::Memory &memory = hold->context.memory();
        if (!memory.create())
            return SDMA_DECLINED;
        *address = line::pack(line::Address{memory.identity(), static_cast<uint64_t>(memory.fd())});
        if (addresses++ == 0)
            address_hold = hold.release();
        *reason = SDMA_REASON_none;
        return SDMA_OK;
    });
}

void sdma_address_release(void) {
    std::lock_guard lock(address_mutex);
    if (addresses > 0 && --addresses == 0) {
        delete address_hold;
        address_hold = nullptr;
    }
}

sdma_status_t sdma_memory_register(void *base, size_t bytes, int exportable, sdma_memory_t **memory,
                                   sdma_reason_t *reason) {
    *memory = nullptr;
    *reason = SDMA_REASON_no_memory;
    return guarded(SDMA_DECLINED, [&] {
        std::unique_ptr<sdma_memory> made(new sdma_memory);
        made->region = line::Region::make(made->hold.context, base, bytes, exportable != 0, *reason);
        if (!made->region)
            return SDMA_DECLINED;
        *memory = made.release();
        return SDMA_OK;
    });
}

void sdma_memory_key(const sdma_memory_t *memory, sdma_key_t *key) { *key = line::pack(memory->region->key()); }

void sdma_memory_invalidate(sdma_memory_t *memory) { memory->region->retire(); }
int sdma_memory_retired(const sdma_memory_t *memory) { return memory->region->retired() ? 1 : 0; }
int sdma_memory_reachable(const sdma_memory_t *memory) { return memory->region->reachable() ? 1 : 0; }
int sdma_memory_await_unreachable(const sdma_memory_t *memory) {
    return guarded(0, [&] {
        while (memory->region->reachable()) {
            if (memory->region->retired_for() >= std::chrono::milliseconds(params().hardware_timeout))
                return 0;
            events().progress();
            memory->hold.context.memory().progress();
            std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
        return 1;
    });
}
void sdma_memory_release(sdma_memory_t *memory) { delete memory; }

sdma_status_t sdma_line_open(const sdma_address_t *peer, sdma_line_t **line, sdma_reason_t *reason) {
    *line = nullptr;
    *reason = SDMA_REASON_no_memory;
    return guarded(SDMA_DECLINED, [&] {
        std::unique_ptr<sdma_line> made(new sdma_line);
        made->line = line::Line::open(made->hold.context, &events(), *peer, *reason);
        if (!made->line)
            return SDMA_DECLINED;
        *line = made.release();
        return SDMA_OK;
    });
}

void sdma_line_close(sdma_line_t *line) { delete line; }

int sdma_line_alive(sdma_line_t *line) { return line->line->alive() ? 1 : 0; }

sdma_status_t sdma_remote_attach(sdma_line_t *line, const sdma_key_t *key, sdma_remote_t **remote,
                                 sdma_reason_t *reason) {
    *remote = nullptr;
    *reason = SDMA_REASON_no_memory;
    return guarded(SDMA_DECLINED, [&] {
        std::unique_ptr<sdma_remote> made(new sdma_remote);
        made->remote = line->line->attach(*key, *reason);
        if (!made->remote)
            return SDMA_DECLINED;
        *remote = made.release();
        return SDMA_OK;
    });
}

void sdma_remote_detach(sdma_remote_t *remote) {
    if (remote)
        remote->remote->line.detach(*remote->remote);
    delete remote;
}

sdma_status_t sdma_put(sdma_line_t *line, const void *local, sdma_remote_t *remote, size_t offset, size_t bytes,
                       uint64_t *number) {
    return post(line, request(false, local, remote, offset, one_row(bytes)), number);
}

sdma_status_t sdma_get(sdma_line_t *line, void *local, sdma_remote_t *remote, size_t offset, size_t bytes,
                       uint64_t *number) {
    return post(line, request(true, local, remote, offset, one_row(bytes)), number);
}

sdma_status_t sdma_put_rectangle(sdma_line_t *line, const void *local, sdma_remote_t *remote, size_t offset,
                                 const sdma_rectangle_t *rectangle, uint64_t *number) {
    return post(line, request(false, local, remote, offset, *rectangle), number);
}

sdma_status_t sdma_get_rectangle(sdma_line_t *line, void *local, sdma_remote_t *remote, size_t offset,
                                 const sdma_rectangle_t *rectangle, uint64_t *number) {
    return post(line, request(true, local, remote, offset, *rectangle), number);
}

sdma_status_t sdma_put_signal(sdma_line_t *line, const void *local, sdma_remote_t *remote, size_t offset, size_t bytes,
                              size_t signal_offset, uint64_t value, uint64_t *number) {
    line::Request made = request(false, local, remote, offset, one_row(bytes));
    made.signal = true;
    made.signal_offset = signal_offset;
    made.value = value;
    return post(line, made, number);
}

sdma_status_t sdma_line_push(sdma_line_t *line) {
    return guarded(SDMA_ERROR, [&] { return line->line->push(); });
}

sdma_status_t sdma_line_fence(sdma_line_t *line) {
    return guarded(SDMA_ERROR, [&] { return line->line->fence(); });
}

sdma_status_t sdma_line_progress(sdma_line_t *line) {
    return guarded(SDMA_ERROR, [&] { return line->line->progress(); });
}

uint64_t sdma_line_posted(const sdma_line_t *line) { return line->line->posted(); }
uint64_t sdma_line_local(const sdma_line_t *line) { return line->line->local(); }
uint64_t sdma_line_done(const sdma_line_t *line) { return line->line->done(); }
sdma_reason_t sdma_line_reason(const sdma_line_t *line) { return line->line->reason(); }

sdma_board_t *sdma_board_create(size_t entries, size_t counters, sdma_board_name_t *name) {
    return guarded(static_cast<sdma_board_t *>(nullptr), [&]() -> sdma_board_t * {
        std::unique_ptr<sdma_board> made(new sdma_board{line::Board::create(entries, counters)});
        if (!made->board)
            return nullptr;
        *name = made->board->name();
        return made.release();
    });
}

sdma_board_t *sdma_board_open(const sdma_address_t *owner, const sdma_board_name_t *name) {
    return guarded(static_cast<sdma_board_t *>(nullptr), [&]() -> sdma_board_t * {
        line::Address address;
        if (!line::unpack(*owner, address))
            return nullptr;
        std::unique_ptr<sdma_board> made(new sdma_board{line::Board::open(address, *name)});
        return made->board ? made.release() : nullptr;
    });
}

void sdma_board_close(sdma_board_t *board) { delete board; }

sdma_status_t sdma_board_publish(sdma_board_t *board, const void *base, size_t bytes, const sdma_key_t *key) {
    return board->board->publish(reinterpret_cast<uint64_t>(base), bytes, *key) ? SDMA_OK : SDMA_DECLINED;
}

void sdma_board_withdraw(sdma_board_t *board, const void *base) {
    board->board->withdraw(reinterpret_cast<uint64_t>(base));
}

int sdma_board_find(const sdma_board_t *board, uint64_t address, size_t bytes, sdma_posting_t *posting) {
    return board->board->find(address, bytes, *posting);
}

int sdma_board_try_lock(sdma_board_t *board) { return board->board->try_lock() ? 1 : 0; }
void sdma_board_unlock(sdma_board_t *board) { board->board->unlock(); }
void sdma_board_add(sdma_board_t *board, size_t counter) { board->board->add(counter); }
uint64_t sdma_board_read(const sdma_board_t *board, size_t counter) { return board->board->read(counter); }

int sdma_event_fd(void) {
    return guarded(-1, [] { return events().fd(); });
}

sdma_status_t sdma_event_arm(void) {
    return guarded(SDMA_PENDING, [] { return events().arm() ? SDMA_OK : SDMA_PENDING; });
}

} // extern "C"
