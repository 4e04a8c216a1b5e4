// SPDX-License-Identifier: BSD-3-Clause
#include "board.hpp"

#include <algorithm>

namespace sdma::line {

namespace {

constexpr uint64_t board_magic = 0x53444d41424f4401; // "SDMABOD" and a version

// A copy that no write overlapped. A writer is at it for some stores only: bounded, then the entry counts as free.
bool copy_entry(const Board_entry &entry, sdma_posting_t &copy) {
    for (int tries = 0; tries < 1000; tries++) {
        // Acquire loads, so that the second look at the version comes after them.
        copy.version = entry.version.load(std::memory_order_acquire);
        copy.base = entry.base.load(std::memory_order_acquire);
        copy.bytes = entry.bytes.load(std::memory_order_acquire);
        for (size_t i = 0; i < std::size(copy.key.words); i++)
            copy.key.words[i] = entry.key[i].load(std::memory_order_acquire);
        if (copy.version % 2 == 0 && entry.version.load(std::memory_order_relaxed) == copy.version)
            return copy.bytes > 0;
    }
    return false;
}

} // namespace

std::unique_ptr<Board> Board::create(size_t entries, size_t counters) {
    if (!sensible(entries, counters))
        return nullptr;
    memory::Segment segment = memory::Segment::create("mpi-sdma-board", bytes_for(entries, counters));
    if (!segment)
        return nullptr;
    std::unique_ptr<Board> board(new Board(std::move(segment), entries, counters));
    board->table().magic.store(board_magic, std::memory_order_release);
    return board;
}

std::unique_ptr<Board> Board::open(const Address &peer, const sdma_board_name_t &name) {
    const auto [fd, entries, counters] = name.words;
    if (!sensible(entries, counters))
        return nullptr;
    memory::Segment segment = memory::Segment::open(peer.identity, fd, bytes_for(entries, counters), true);
    segment.close_fd();
    if (!segment)
        return nullptr;
    std::unique_ptr<Board> board(new Board(std::move(segment), entries, counters));
    return board->table().magic.load(std::memory_order_acquire) == board_magic ? std::move(board) : nullptr;
}

void Board::write(Board_entry &entry, uint64_t base, uint64_t bytes, const sdma_key_t &key) {
    const uint64_t version = entry.version.load(std::memory_order_relaxed);
    entry.version.store(version + 1, std::memory_order_relaxed);
    // Release stores, so that whoever sees one of them sees the odd version.
    entry.base.store(base, std::memory_order_release);
    entry.bytes.store(bytes, std::memory_order_release);
    for (size_t i = 0; i < std::size(key.words); i++)
        entry.key[i].store(key.words[i], std::memory_order_release);
    entry.version.store(version + 2, std::memory_order_release);
}

bool Board::publish(uint64_t base, uint64_t bytes, const sdma_key_t &key) {
    std::lock_guard lock(mutex_);
    for (uint64_t i = 0; i < entries_; i++) {
        Board_entry &entry = table().entry[i];
        if (entry.bytes.load(std::memory_order_relaxed) != 0)
            continue;
        write(entry, base, bytes, key);
        if (i >= table().used.load(std::memory_order_relaxed))
            table().used.store(i + 1, std::memory_order_release);
        return true;
    }
    return false;
}

void Board::withdraw(uint64_t base) {
    std::lock_guard lock(mutex_);
    for (uint64_t i = 0; i < table().used.load(std::memory_order_relaxed); i++)
        if (Board_entry &entry = table().entry[i];
            entry.base.load(std::memory_order_relaxed) == base && entry.bytes.load(std::memory_order_relaxed) != 0)
            write(entry, 0, 0, {});
}

int Board::find(uint64_t address, uint64_t bytes, sdma_posting_t &posting) const {
    const uint64_t used = std::min(table().used.load(std::memory_order_acquire), entries_);
    for (uint64_t i = 0; i < used; i++) {
        if (!copy_entry(table().entry[i], posting))
            continue;
        if (address >= posting.base && address - posting.base < posting.bytes) {
            posting.place = i;
            return bytes <= posting.bytes - (address - posting.base) ? 1 : -1;
        }
        if (address < posting.base && posting.base - address < bytes)
            return -1;
    }
    return 0;
}

} // namespace sdma::line
