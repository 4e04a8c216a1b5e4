// SPDX-License-Identifier: BSD-3-Clause
//
// The team segment: one per rank and team.
//
//   header | slot 0 | slot 1 | ...         slot = offer line | detail line | blocks | arrivals | departures
//
// Operation number s uses slot s % depth of every rank's segment; its epoch is s + 1. A rank writes
// its own segment only, but for the arrival words: arrivals[p] of a slot is written by rank p alone
// (its engine, its kernel or its CPU). Departure words are raised by our own engines. What a
// declined call reads of a peer (epoch, status, consumed) is in one cache line.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../memory/segment.hpp"

namespace sdma::team {

using memory::Word;

inline constexpr uint64_t team_magic = 0x53444d415445414d; // "SDMATEAM"
// Of everything that processes share: bump it at any change of a segment or of the announcement.
inline constexpr uint64_t wire_version = 1;

inline constexpr size_t line = 64;

struct alignas(line) Header {
    Word magic, version;
    Word geometry; // size << 32 | depth
    Word rank;
    Word verdict; // of the set-up: 0 = none yet, 1 + reason
    Word fault;   // this rank serves nothing any more: 1 + reason
};

struct alignas(line) Offer_line {
    Word epoch;    // stored last, with release
    Word status;   // see pack_status()
    Word consumed; // epoch of the last use of this slot that this rank is finished with
    Word verdict;  // epoch << 16 | 1 + reason
    Word confirmed;
    Word registration, generation; // of the receive buffer
    Word offset;                   // of the receive buffer in its registration
};

struct alignas(line) Detail_line {
    Word block_bytes; // regular layout
};

struct Block_words {
    Word offset, bytes; // what this rank receives from one peer, from `offset` of the offer
};

static_assert(sizeof(Header) == line && sizeof(Offer_line) == line && sizeof(Detail_line) == line);

struct Layout {
    uint32_t size = 0, depth = 0;

    static constexpr size_t lines(size_t bytes) { return (bytes + line - 1) / line * line; }
    constexpr size_t blocks_at() const { return 2 * line; }
    constexpr size_t arrivals_at() const { return blocks_at() + lines(size * sizeof(Block_words)); }
    constexpr size_t departures_at() const { return arrivals_at() + lines(size * sizeof(Word)); }
    constexpr size_t slot_bytes() const { return departures_at() + lines(size * sizeof(Word)); }
    constexpr size_t slot(uint32_t index) const { return line + index * slot_bytes(); }
    constexpr size_t bytes() const { return slot(depth); }
    constexpr uint64_t geometry() const { return static_cast<uint64_t>(size) << 32 | depth; }

    // Offsets in the segment.
    constexpr size_t arrival(uint32_t index, uint32_t peer) const {
#ifdef SDMA_MUTANT_SUMMED_ARRIVAL
        (void)index, (void)peer;
        return slot(0) + arrivals_at();
#else
        return slot(index) + arrivals_at() + peer * sizeof(Word);
#endif
    }
    constexpr size_t departure(uint32_t index, uint32_t peer) const {
        return slot(index) + departures_at() + peer * sizeof(Word);
    }
};

} // namespace sdma::team
