// SPDX-License-Identifier: BSD-3-Clause
//
// A ring whose every shared access is a step that a test chooses: producers are coroutines running
// the product's ring source, the consumer is a step of its own.
//
// Memory is as unkind as DESIGN allows: what a producer stores to ring, write pointer or doorbell
// arrives only when it drains, newest first, one step each. Cursors are atomic and arrive at once.
// The consumer may act on the write pointer alone, as an engine whose queue is reloaded does.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/sdma/ring/producer.h"

namespace ring_model {

struct Violation : std::runtime_error {
    using std::runtime_error::runtime_error;
};

inline uint64_t mix(uint64_t hash, uint64_t value) {
    hash ^= value + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
    hash *= 0xff51afd7ed558ccd;
    return hash ^ hash >> 32;
}

class World;

// A point to switch to; ucontext only starts it, because its switches are system calls.
struct Point {
    jmp_buf here;
    ucontext_t start;
    bool started = false;
};

inline void switch_points(Point &from, Point &to) {
#ifdef __SANITIZE_ADDRESS__ // knows what swapcontext does
    swapcontext(&from.start, &to.start);
    return;
#endif
    if (_setjmp(from.here) == 0) {
        if (to.started) {
            _longjmp(to.here, 1);
        }
        to.started = true;
        setcontext(&to.start);
    }
}

struct Pending {
    uint64_t address, value;
    bool dword;
};

// A producer. Its local state is a function of what it has observed since its last mark().
struct Producer {
    World *world = nullptr;
    uint32_t index = 0;
    std::function<void(Producer &)> body;
    std::string violation;
    Point point;
    std::unique_ptr<char[]> stack{new char[64 << 10]};
    std::vector<Pending> pending;
    uint64_t history = 0;
    bool ended = false;
    bool dirty = false;   // others changed memory since mark()
    bool waiting = false; // until they do
    sdma_twin_position position{};

    // The local state is `state` and nothing else.
    void mark(uint64_t state) {
        history = mix(0, state);
        dirty = false;
    }
    void wait_for_change();
    void observe(uint64_t value) { history = mix(history, value); }
};

class World {
public:
    World(uint64_t ring_bytes, uint64_t start, uint32_t producers) : start_(start), dwords(ring_bytes / 4) {
        all.resize(producers);
        ring = {address(dwords.data()), ring_bytes,         address(&read),
                address(&write),        address(&doorbell), address(&cursors)};
    }
    World(const World &) = delete;

    // A fresh world with the same producers' bodies.
    void restart() {
        std::fill(dwords.begin(), dwords.end(), 0x0badbad0);
        read = write = doorbell = start_;
        cursors = sdma::ring::cursors_at(start_, start_);
        for (uint32_t i = 0; i < all.size(); ++i) {
            Producer &producer = all[i];
            producer.world = this;
            producer.index = i;
            producer.ended = producer.waiting = false;
            producer.position = {
                0, 1, 0, 1, [](void *self) { static_cast<Producer *>(self)->world->yield(); }, &producer, nullptr};
            producer.violation.clear();
            producer.pending.clear();
            producer.mark(0);
            prepare(producer);
            resume(producer); // up to its first access
        }
    }

    bool enabled(const Producer &producer) const { return !producer.ended && !producer.waiting; }
    bool consumer_enabled() const { return read != write; }

    void step(Producer &producer) { resume(producer); }

    // Skip the pad, hand one packet to `take`, which returns its dwords.
    void step_consumer(const std::function<uint32_t(const uint32_t *)> &take) {
        uint64_t mask = ring.bytes - 1;
        while (dwords[(read & mask) / 4] == 0) {
            read += 4;
            require(read != write, "a pad without a packet");
        }
        uint64_t at = read & mask;
        uint64_t bytes = uint64_t{take(&dwords[at / 4])} * 4;
        require(at + bytes <= ring.bytes, "a packet straddles the end");
        require(bytes <= write - read, "a packet is published in part");
        read += bytes;
        changed(nullptr);
    }

    uint64_t state() const {
        uint64_t hash = mix(mix(mix(read, write), doorbell), mix(cursors.reserve, cursors.commit));
        hash = mix(hash, cursors.cached_read);
        for (uint32_t dword : dwords) {
            hash = mix(hash, dword);
        }
        for (const Producer &producer : all) {
            hash = mix(mix(hash, producer.history), producer.ended | producer.waiting << 1 | producer.dirty << 2);
            for (const Pending &store : producer.pending) {
                hash = mix(mix(hash, store.address - ring.base), store.value);
            }
        }
        return hash;
    }

    static void require(bool good, const char *what) {
        if (!good) {
            throw Violation(what);
        }
    }

    // ---- what device.h asks for -----------------------------------------------------------------

    void yield() { switch_points(running->point, scheduler_); }

    uint64_t load(uint64_t where) {
        yield();
        uint64_t value = *reinterpret_cast<uint64_t *>(where);
        running->observe(value);
        return value;
    }
    void store(uint64_t where, uint64_t value, bool dword) {
        if (is_cursor(where)) {
            yield();
            apply({where, value, dword});
        } else {
            running->pending.push_back({where, value, dword});
        }
    }
    bool swap(uint64_t where, uint64_t expected, uint64_t wanted) {
        yield();
        auto *word = reinterpret_cast<uint64_t *>(where);
        bool same = *word == expected;
        running->observe(same);
        if (same) {
            apply({where, wanted, false});
        }
        return same;
    }
    // One step for all ring dwords, whose order nobody can see, and one for each other store.
    void drain() {
        auto &pending = running->pending;
        while (!pending.empty()) {
            yield();
            bool dwords_now = pending.back().dword;
            do {
                Pending newest = pending.back();
                pending.pop_back();
                apply(newest);
            } while (dwords_now && !pending.empty() && pending.back().dword);
            running->observe(pending.size());
        }
    }

    sdma_ring ring;
    std::vector<Producer> all;
    Producer *running = nullptr;

private:
    template <typename T> static uint64_t address(T *pointer) { return reinterpret_cast<uint64_t>(pointer); }

    static void enter(unsigned high, unsigned low) {
        auto *self = reinterpret_cast<Producer *>(uint64_t{high} << 32 | low);
        try {
            self->body(*self);
            self->world->drain();
        } catch (const Violation &violation) {
            self->violation = violation.what();
        }
        self->ended = true;
        self->history = 1;
        self->dirty = false;
        self->world->yield();
    }

    static void prepare(Producer &producer) {
        ucontext_t &start = producer.point.start;
        producer.point.started = false;
        getcontext(&start);
        start.uc_stack.ss_sp = producer.stack.get();
        start.uc_stack.ss_size = 64 << 10;
        start.uc_link = nullptr;
        auto self = address(&producer);
        makecontext(&start, reinterpret_cast<void (*)()>(enter), 2, unsigned(self >> 32), unsigned(self));
    }

    void resume(Producer &producer) {
        running = &producer;
        sdma_twin_here = &producer.position;
        switch_points(scheduler_, producer.point);
        running = nullptr;
        if (!producer.violation.empty()) {
            throw Violation(producer.violation);
        }
    }

    bool is_cursor(uint64_t where) const {
        return where >= address(&cursors) && where < address(&cursors) + sizeof cursors;
    }

    void changed(const Producer *by) {
        for (Producer &producer : all) {
            if (&producer != by) {
                producer.dirty = true;
                producer.waiting = false;
            }
        }
    }

    // The store arrives.
    void apply(const Pending &store) {
        if (store.dword) {
            uint64_t at = store.address - ring.base;
            require(at < ring.bytes, "a dword beyond the end of the ring");
            require(((at - read) & (ring.bytes - 1)) >= write - read, "a published dword is overwritten");
            dwords[at / 4] = uint32_t(store.value);
        } else {
            if (store.address == ring.write_pointer) {
                require(store.value > write && store.value - read < ring.bytes, "a wrong write pointer");
            }
            if (store.address == ring.doorbell) {
                require(store.value > doorbell, "the doorbell falls");
                require(store.value <= write, "the doorbell is ahead of the write pointer");
            }
            *reinterpret_cast<uint64_t *>(store.address) = store.value;
        }
        changed(running);
    }

    uint64_t start_;

public:
    std::vector<uint32_t> dwords;
    uint64_t read = 0, write = 0, doorbell = 0;
    sdma_ring_cursors cursors{};

private:
    Point scheduler_{.here = {}, .start = {}, .started = true};
};

inline void Producer::wait_for_change() {
    if (!dirty) {
        waiting = true;
        world->yield();
    }
}

inline World *world; // the one whose producers run

} // namespace ring_model

// What device.h leaves to a test that is compiled with SDMA_TWIN_ACCESS.
namespace sdma::device {
uint64_t load_system(uint64_t address) { return ring_model::world->load(address); }
void store_system(uint64_t address, uint64_t value) { ring_model::world->store(address, value, false); }
void store_system_dword(uint64_t address, uint32_t value) { ring_model::world->store(address, value, true); }
bool swap_cursor(uint64_t address, uint64_t expected, uint64_t wanted) {
    return ring_model::world->swap(address, expected, wanted);
}
void drain() { ring_model::world->drain(); }
} // namespace sdma::device

__thread struct sdma_twin_position *sdma_twin_here;
