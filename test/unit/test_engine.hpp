// SPDX-License-Identifier: BSD-3-Clause
//
// A queue with an engine for tests: ring, pointers and cursors in plain memory, and a decoder of its
// own that executes what was published.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "common/sdma/ring/producer.h"
#include "common/sdma/ring/ring.h"

namespace test_engine {

struct Event {
    char op; // 'c' copy, 'a' atomic, 'f' fence
    uint64_t dst;
    uint64_t bytes;
};

class Queue {
public:
    explicit Queue(uint64_t ring_bytes, uint64_t start = 0)
        : dwords_(ring_bytes / 4 + 16, 0xdeadbeef), read_(start), write_(start), doorbell_(start),
          cursors_(sdma::ring::cursors_at(start, start)) {
        ring.base = reinterpret_cast<uint64_t>(dwords_.data());
        ring.bytes = ring_bytes;
        ring.read_pointer = reinterpret_cast<uint64_t>(&read_);
        ring.write_pointer = reinterpret_cast<uint64_t>(&write_);
        ring.doorbell = reinterpret_cast<uint64_t>(&doorbell_);
        ring.cursors = reinterpret_cast<uint64_t>(&cursors_);
    }
    Queue(const Queue &) = delete;

    // Execute at most `packets`; throws on anything an engine could not execute.
    void consume(uint64_t packets = UINT64_MAX) {
        uint64_t bell = __atomic_load_n(&doorbell_, __ATOMIC_ACQUIRE);
        check(bell <= __atomic_load_n(&write_, __ATOMIC_ACQUIRE), "doorbell beyond the write pointer");
        check(bell >= read_ && bell - read_ < ring.bytes, "backlog larger than the ring");
        if (bell != last_bell_) {
            ++bells;
            last_bell_ = bell;
        }
        for (; packets != 0 && read_ != bell; --packets) {
            uint64_t at = read_ % ring.bytes;
            uint64_t bytes = execute(dwords_.data() + at / 4);
            check(at + bytes <= ring.bytes, "packet straddles the end");
            check(bytes <= bell - read_, "packet published in part");
            __atomic_store_n(&read_, read_ + bytes, __ATOMIC_RELEASE);
        }
    }

    uint64_t read() const { return read_; }
    uint64_t written() const { return write_; }
    uint64_t rung() const { return doorbell_; }
    const sdma_ring_cursors &cursors() const { return cursors_; }
    const uint32_t *dwords() const { return dwords_.data(); }
    bool overrun() const {
        for (size_t i = ring.bytes / 4; i < dwords_.size(); ++i) {
            if (dwords_[i] != 0xdeadbeef) {
                return true;
            }
        }
        return false;
    }

    sdma_ring ring{};
    std::vector<Event> events;
    uint64_t bells = 0;
    uint64_t pads = 0; // dwords

private:
    static void check(bool good, const char *what) {
        if (!good) {
            throw std::runtime_error(what);
        }
    }
    static uint64_t word(const uint32_t *dwords) { return dwords[0] | uint64_t{dwords[1]} << 32; }

    uint64_t execute(const uint32_t *packet) {
        switch (packet[0]) {
        case 0x00000000:
            ++pads;
            return 4;
        case 0x00000001: {
            uint64_t bytes = uint64_t{packet[1]} + 1;
            check(packet[2] == 0, "copy with swap bits");
            std::memmove(reinterpret_cast<void *>(word(packet + 5)), reinterpret_cast<void *>(word(packet + 3)), bytes);
            events.push_back({'c', word(packet + 5), bytes});
            return 28;
        }
        case 0x5e00000a:
            *reinterpret_cast<uint64_t *>(word(packet + 1)) += word(packet + 3);
            events.push_back({'a', word(packet + 1), 8});
            return 32;
        case 0x00000005:
            *reinterpret_cast<uint32_t *>(word(packet + 1)) = packet[3];
            events.push_back({'f', word(packet + 1), 4});
            return 16;
        default:
            throw std::runtime_error("no packet: header " + std::to_string(packet[0]));
        }
    }

    std::vector<uint32_t> dwords_;
    uint64_t read_, write_, doorbell_;
    uint64_t last_bell_ = UINT64_MAX;
    sdma_ring_cursors cursors_;
};

} // namespace test_engine
