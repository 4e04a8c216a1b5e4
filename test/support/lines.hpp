// SPDX-License-Identifier: BSD-3-Clause
//
// One-sided operations among ranks as threads: addresses and keys go by a board in memory.
#pragma once

#include "common/sdma/line/events.hpp"
#include "common/sdma/line/line.hpp"
#include "ranks.hpp"

namespace ranks {

using sdma::line::Line;
using sdma::line::Region;
using sdma::line::Remote;
using sdma::line::Request;

inline sdma_address_t address_of(Rank &rank) {
    sdma::memory::Memory &memory = rank.context->memory();
    if (!memory.create())
        throw std::runtime_error("no segment");
    return sdma::line::pack(sdma::line::Address{memory.identity(), static_cast<uint64_t>(memory.fd())});
}

// Device memory that peers may use.
struct Window {
    Window(Rank &rank, size_t bytes, int device = 0) : base(rank.gpu->allocate(device, bytes)), bytes(bytes) {
        sdma_reason_t reason;
        region = Region::make(*rank.context, base, bytes, true, reason);
        if (!region)
            throw std::runtime_error(sdma_reason_name(reason));
    }
    sdma_key_t key() const { return sdma::line::pack(region->key()); }
    char *base;
    size_t bytes;
    std::unique_ptr<Region> region;
};

// A line with one remote.
struct End {
    End(Rank &rank, const sdma_address_t &address, const sdma_key_t &key, sdma::line::Events *events = nullptr) {
        sdma_reason_t reason;
        line = Line::open(*rank.context, events, address, reason);
        if (!line)
            throw std::runtime_error(std::string("line: ") + sdma_reason_name(reason));
        remote = line->attach(key, reason);
        if (!remote)
            throw std::runtime_error(std::string("remote: ") + sdma_reason_name(reason));
    }
    ~End() {
        if (remote)
            line->detach(*remote);
    }

    Request request(bool get, const void *local, size_t offset, size_t bytes) {
        Request request;
        request.get = get;
        request.local = static_cast<char *>(const_cast<void *>(local));
        request.remote = remote.get();
        request.offset = offset;
        request.shape = {1, bytes, bytes, bytes};
        return request;
    }
    // Posts, with progress for as long as there is no room.
    sdma_status_t post(const Request &request) {
        sdma_status_t status = SDMA_PENDING;
        until([&] {
            status = line->post(request, number);
            if (status == SDMA_PENDING)
                line->progress();
            return status != SDMA_PENDING;
        });
        return status;
    }
    sdma_status_t put(const void *local, size_t offset, size_t bytes) {
        return post(request(false, local, offset, bytes));
    }
    sdma_status_t get(void *local, size_t offset, size_t bytes) { return post(request(true, local, offset, bytes)); }
    sdma_status_t flush() {
        sdma_status_t status = SDMA_OK;
        const uint64_t all = line->posted();
        until([&] {
            status = line->progress();
            return line->done() >= all;
        });
        return status;
    }

    std::unique_ptr<Line> line;
    std::unique_ptr<Remote> remote;
    uint64_t number = 0; // of the last operation
};

// `size` ranks, each with a window; `body` has the addresses and keys of all.
struct Place {
    Rank &rank;
    Window &window;
    const std::vector<sdma_address_t> &addresses;
    const std::vector<sdma_key_t> &keys;
    End to(int peer) const { return End(rank, addresses[static_cast<size_t>(peer)], keys[static_cast<size_t>(peer)]); }
    void barrier() const { rank.world.barrier.wait(); }
};

inline void with_windows(World &world, size_t bytes, const std::function<void(Place &)> &body) {
    std::vector<sdma_address_t> addresses(static_cast<size_t>(world.size));
    std::vector<sdma_key_t> keys(static_cast<size_t>(world.size));
    world.run_raw([&](Rank &rank) {
        Window window(rank, bytes);
        addresses[static_cast<size_t>(rank.rank)] = address_of(rank);
        keys[static_cast<size_t>(rank.rank)] = window.key();
        Place place{rank, window, addresses, keys};
        rank.world.barrier.wait();
        body(place);
        rank.world.barrier.wait();
    });
}

// Two ranks: the first has a line to the window of the second, which does nothing. `prepare` comes before the line.
inline void with_line(size_t bytes, const std::function<void(Rank &)> &prepare,
                      const std::function<void(Place &, End &)> &body) {
    World world(2);
    with_windows(world, bytes, [&](Place &place) {
        if (place.rank.rank == 1)
            return;
        if (prepare)
            prepare(place.rank);
        End end = place.to(1);
        body(place, end);
    });
    EXPECT_EQ(0, world.node.attached);
}
inline void with_line(size_t bytes, const std::function<void(Place &, End &)> &body) {
    with_line(bytes, nullptr, body);
}

} // namespace ranks
