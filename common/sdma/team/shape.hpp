// SPDX-License-Identifier: BSD-3-Clause
//
// Which bytes of whose buffer a collective moves: pure, no memory is touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../sdma.h"

namespace sdma::team {

struct Shape {
    sdma_kind_t kind = SDMA_ALLTOALL;
    uint32_t rank = 0, size = 0;
    uint64_t block_bytes = 0;
    bool in_place = false;
    // Irregular layout: one entry per rank. Empty: regular.
    std::vector<sdma_block_t> send_blocks, recv_blocks;

    bool irregular() const { return !send_blocks.empty() || !recv_blocks.empty(); }

    // What goes to `peer`, from the start of the send buffer (in place: of the receive buffer).
    sdma_block_t send(uint32_t peer) const {
        if (in_place)
            return recv(rank);
        if (!send_blocks.empty())
            return send_blocks[peer];
        return {kind == SDMA_ALLTOALL ? peer * block_bytes : 0, block_bytes};
    }
    // What comes from `peer`, from the start of the receive buffer.
    sdma_block_t recv(uint32_t peer) const {
        return recv_blocks.empty() ? regular_recv(peer, block_bytes) : recv_blocks[peer];
    }
    static sdma_block_t regular_recv(uint32_t peer, uint64_t block_bytes) { return {peer * block_bytes, block_bytes}; }

    // First byte beyond all blocks of non-zero size; false if an offset is out of range.
    bool send_end(uint64_t &end) const { return end_of(&Shape::send, end); }
    bool recv_end(uint64_t &end) const { return end_of(&Shape::recv, end); }

private:
    bool end_of(sdma_block_t (Shape::*block)(uint32_t) const, uint64_t &end) const {
        uint64_t unused;
        if (__builtin_mul_overflow(block_bytes, static_cast<uint64_t>(size), &unused))
            return false;
        end = 0;
        // In the regular layout no block ends behind the last one; this is done at every call.
        for (uint32_t p = irregular() ? 0 : size - 1; p < size; p++) {
            const sdma_block_t here = (this->*block)(p);
            uint64_t end_here;
            if (__builtin_add_overflow(here.offset, here.bytes, &end_here))
                return false;
            if (here.bytes > 0 && end_here > end)
                end = end_here;
        }
        return true;
    }
};

} // namespace sdma::team
