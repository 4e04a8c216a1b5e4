// SPDX-License-Identifier: BSD-3-Clause
//
// Shared segments: anonymous memory files that peers of the node open through the owner's
// descriptor in procfs. Nothing is left behind when a process is killed. Every word of a segment
// is a 64-bit atomic; what a peer wrote is untrusted: copy a word, then check the copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sdma::memory {

using Word = std::atomic<uint64_t>;
static_assert(sizeof(Word) == 8 && Word::is_always_lock_free);

// A process of this node that never was and never will be another one. `instance` tells apart
// several contexts in one process.
struct Identity {
    uint64_t boot_id[2] = {};
    uint64_t pid_namespace = 0;
    uint64_t pid = 0;
    uint64_t start_time = 0; // clock ticks since boot, field 22 of /proc/<pid>/stat
    uint64_t instance = 0;
    bool operator==(const Identity &) const = default;
};
Identity new_identity(); // this process, a new instance

// The same node and pid namespace: procfs shows that process here.
bool reachable(const Identity &own, const Identity &peer);

// 0 if there is no such process or it is a zombie.
uint64_t process_start_time(uint64_t pid);
// Whether the process that started then is no more, or a zombie. What cannot be found out, for want of descriptors, is
// no end.
bool process_ended(uint64_t pid, uint64_t start_time);

class Segment {
public:
    Segment() = default;
    Segment(Segment &&other) noexcept { swap(other); }
    Segment &operator=(Segment &&other) noexcept {
        swap(other);
        return *this;
    }
    ~Segment();

    // Zeroed, close-on-exec, sealed against resizing. Empty if the kernel refuses.
    static Segment create(const char *name, size_t bytes);
    // A peer's segment of exactly `bytes`, with a descriptor of our own; empty if it cannot be opened or is not what it
    // should be.
    static Segment open(const Identity &peer, uint64_t fd, size_t bytes, bool writable);

    explicit operator bool() const { return address_ != nullptr; }
    std::byte *address() const { return address_; }
    size_t bytes() const { return bytes_; }
    int fd() const { return fd_; }
    void close_fd();    // the mapping stays
    void keep_mapped(); // for as long as the process lives; the segment is empty then

    template <class T> T *at(size_t offset) const { return reinterpret_cast<T *>(address_ + offset); }

private:
    void swap(Segment &other) noexcept;
    bool map(int protection);

    std::byte *address_ = nullptr;
    size_t bytes_ = 0;
    int fd_ = -1;
};

size_t round_to_pages(size_t bytes);

} // namespace sdma::memory
