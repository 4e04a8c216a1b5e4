// SPDX-License-Identifier: BSD-3-Clause
//
// What a process shows its peers of one group of its memories, as an MPI window is one: which address ranges have
// which keys, and a lock that anybody of the group may take. A shared segment; only the owner's CPU writes entries.
//
//   owner:   version odd (release), fields ..., version even (release)
//   reader:  version (acquire), copy fields, version again
#pragma once

#include <memory>
#include <mutex>

#include "address.hpp"

namespace sdma::line {

struct Board_entry {
    memory::Word version; // odd: being written
    memory::Word base, bytes;
    memory::Word key[std::size(sdma_key_t{}.words)];
    memory::Word unused[5];
};
static_assert(sizeof(Board_entry) == 128);

struct Board_table {
    memory::Word magic, lock;
    memory::Word used; // entries beyond were never written
    memory::Word unused[13];
    Board_entry entry[1];
};

class Board {
public:
    static constexpr uint64_t most_entries = 4096, most_counters = uint64_t{1} << 24;

    static std::unique_ptr<Board> create(size_t entries, size_t counters);
    // A peer's; nullptr if it cannot be opened or is not what it should be.
    static std::unique_ptr<Board> open(const Address &peer, const sdma_board_name_t &name);

    sdma_board_name_t name() const { return {{static_cast<uint64_t>(segment_.fd()), entries_, counters_}}; }

    // The owner's. False: no entry is free.
    bool publish(uint64_t base, uint64_t bytes, const sdma_key_t &key);
    void withdraw(uint64_t base);

    // 1: [address, address + bytes) lies inside an entry, which is copied; 0: it touches none; -1: it
    // is partly inside one.
    int find(uint64_t address, uint64_t bytes, sdma_posting_t &posting) const;

    bool try_lock() { return table().lock.exchange(1, std::memory_order_acquire) == 0; }
    void unlock() { table().lock.store(0, std::memory_order_release); }

    // Of a number out of range: nothing, and 0.
    void add(size_t counter) {
        if (counter < counters_)
            this->counter(counter)->fetch_add(1, std::memory_order_release);
    }
    uint64_t read(size_t counter) const {
        return counter < counters_ ? this->counter(counter)->load(std::memory_order_acquire) : 0;
    }

private:
    Board(memory::Segment segment, uint64_t entries, uint64_t counters)
        : segment_(std::move(segment)), entries_(entries), counters_(counters) {}
    static bool sensible(uint64_t entries, uint64_t counters) {
        return entries > 0 && entries <= most_entries && counters <= most_counters;
    }
    static size_t counters_at(uint64_t entries) { return offsetof(Board_table, entry) + entries * sizeof(Board_entry); }
    static size_t bytes_for(uint64_t entries, uint64_t counters) {
        return counters_at(entries) + counters * sizeof(memory::Word);
    }
    memory::Word *counter(size_t counter) const { return segment_.at<memory::Word>(counters_at(entries_)) + counter; }
    Board_table &table() const { return *segment_.at<Board_table>(0); }
    void write(Board_entry &entry, uint64_t base, uint64_t bytes, const sdma_key_t &key);

    memory::Segment segment_;
    uint64_t entries_, counters_;
    std::mutex mutex_; // of the owner's threads
};

} // namespace sdma::line
