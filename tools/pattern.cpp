// SPDX-License-Identifier: BSD-3-Clause
#include "pattern.hpp"

#include <algorithm>
#include <cstring>

namespace tools {

namespace {

constexpr size_t word_bytes = sizeof(uint64_t);
constexpr uint64_t odd = 0x9e3779b97f4a7c15; // spreads consecutive words

uint64_t seed(Block_id id) { return ((uint64_t{id.from} << 32) | id.to) * odd + 1; }

uint64_t mix(uint64_t value) {
    value ^= value >> 32;
    value *= 0xd6e8feb86659fd93;
    return value ^ (value >> 32);
}

uint64_t word(uint64_t seed, uint32_t iteration, size_t index) {
    return mix(seed + index * odd) ^ ((iteration & 0xff) * 0x0101010101010101);
}

} // namespace

void fill_pattern(Block_id id, unsigned char *block, size_t bytes) {
    const uint64_t start = seed(id);
    for (size_t offset = 0; offset < bytes; offset += word_bytes) {
        const uint64_t value = word(start, id.iteration, offset / word_bytes);
        std::memcpy(block + offset, &value, std::min(word_bytes, bytes - offset));
    }
}

unsigned char pattern_byte(Block_id id, size_t offset) {
    const uint64_t value = word(seed(id), id.iteration, offset / word_bytes);
    unsigned char bytes[word_bytes];
    std::memcpy(bytes, &value, word_bytes);
    return bytes[offset % word_bytes];
}

size_t first_wrong_byte(Block_id id, const unsigned char *block, size_t bytes) {
    const uint64_t start = seed(id);
    for (size_t offset = 0; offset < bytes; offset += word_bytes) {
        const size_t here = std::min(word_bytes, bytes - offset);
        const uint64_t value = word(start, id.iteration, offset / word_bytes);
        if (std::memcmp(block + offset, &value, here) == 0)
            continue;
        while (block[offset] == pattern_byte(id, offset))
            ++offset;
        return offset;
    }
    return bytes;
}

} // namespace tools
