// SPDX-License-Identifier: BSD-3-Clause
//
// One checked MPI_Alltoall or MPI_Allgather: every byte that must arrive, and every byte around that must not change.
#pragma once

#include "test/mpi/buffers.hpp"
#include "test/mpi/harness.hpp"

enum class Kind { alltoall, allgather };

// One of the two sides: `count` elements of `type` per block, from `offset` in a buffer on.
struct Side {
    Buffer *buffer = nullptr;
    size_t offset = 0;
    MPI_Datatype type = MPI_BYTE;
    int count = 0;
};

class Exchange {
public:
    Exchange(Job &job, MPI_Comm comm, Kind kind) : job_(job), comm_(comm), kind_(kind) {
        MPI_Comm_rank(comm, &rank_);
        MPI_Comm_size(comm, &size_);
    }

    // The code of the MPI call. With an error the content is not looked at. `send.buffer` null: in place.
    int run(const Side &send, const Side &recv, uint64_t iteration) {
        const bool in_place = send.buffer == nullptr;
        const size_t bytes = block_bytes(recv);
        if (!in_place) {
            std::vector<uint8_t> image = send.buffer->load(0, send.buffer->bytes());
            for (int block = 0; block < (kind_ == Kind::alltoall ? size_ : 1); ++block) {
                put(image, send, block, Pattern(rank_, to(block), iteration).block(bytes));
            }
            send.buffer->store(0, image);
        }
        std::vector<uint8_t> image = recv.buffer->load(0, recv.buffer->bytes());
        for (int block = 0; in_place && block < size_; ++block) {
            if (kind_ == Kind::alltoall || block == rank_) {
                put(image, recv, block, Pattern(rank_, to(block), iteration).block(bytes));
            }
        }
        recv.buffer->store(0, image);

        const int code = call(in_place ? MPI_IN_PLACE : send.buffer->data() + send.offset, send,
                              recv.buffer->data() + recv.offset, recv);
        if (code != MPI_SUCCESS) {
            return code;
        }
        for (int block = 0; block < size_; ++block) {
            put(image, recv, block, Pattern(block, kind_ == Kind::alltoall ? rank_ : 0, iteration).block(bytes));
        }
        compare(recv.buffer->load(0, recv.buffer->bytes()), image, recv, bytes, iteration);
        return code;
    }

private:
    int to(int block) const { return kind_ == Kind::alltoall ? block : 0; }

    static size_t block_bytes(const Side &side) {
        int size = 0;
        MPI_Type_size(side.type, &size);
        return static_cast<size_t>(size) * static_cast<size_t>(side.count);
    }

    // Lays a block out as MPI does, so any datatype is as good as another.
    void put(std::vector<uint8_t> &image, const Side &side, int block, const std::vector<uint8_t> &content) const {
        if (content.empty()) {
            return;
        }
        MPI_Aint lower = 0;
        MPI_Aint extent = 0;
        MPI_Type_get_extent(side.type, &lower, &extent);
        uint8_t *at = image.data() + side.offset + static_cast<MPI_Aint>(block) * side.count * extent;
        int position = 0;
        MPI_Unpack(content.data(), static_cast<int>(content.size()), &position, at, side.count, side.type, comm_);
    }

    int call(const void *from, const Side &send, void *to, const Side &recv) const {
        return kind_ == Kind::alltoall ? MPI_Alltoall(from, send.count, send.type, to, recv.count, recv.type, comm_)
                                       : MPI_Allgather(from, send.count, send.type, to, recv.count, recv.type, comm_);
    }

    void compare(const std::vector<uint8_t> &got, const std::vector<uint8_t> &wanted, const Side &recv, size_t bytes,
                 uint64_t iteration) {
        if (got == wanted) {
            return;
        }
        size_t first = 0;
        while (got[first] == wanted[first]) {
            ++first;
        }
        job_.check(false,
                   "%s of %zu bytes, iteration %" PRIu64 ": byte %zu of the receive buffer (starts at %zu) is "
                   "0x%02x, not 0x%02x",
                   kind_ == Kind::alltoall ? "alltoall" : "allgather", bytes, iteration, first, recv.offset, got[first],
                   wanted[first]);
    }

    Job &job_;
    MPI_Comm comm_;
    Kind kind_;
    int rank_ = 0;
    int size_ = 0;
};
