// SPDX-License-Identifier: BSD-3-Clause
//
// What -c puts into blocks and expects to find. A byte depends on the sending rank, the receiving
// rank, its offset and the iteration; consecutive iterations differ in every byte, so that data
// left over from the last one is never taken for this one's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tools {

// Names a block: who sends it, to whom, in which iteration.
struct Block_id {
    uint32_t from = 0;
    uint32_t to = 0;
    uint32_t iteration = 0;
};

void fill_pattern(Block_id id, unsigned char *block, size_t bytes);

// The byte at `offset`.
unsigned char pattern_byte(Block_id id, size_t offset);

// Offset of the first wrong byte, or `bytes` if there is none.
size_t first_wrong_byte(Block_id id, const unsigned char *block, size_t bytes);

} // namespace tools
