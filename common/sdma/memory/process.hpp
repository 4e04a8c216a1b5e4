// SPDX-License-Identifier: BSD-3-Clause
//
// The process segment: what one process tells the others about its own allocations. Only the
// owner's CPU writes it. An entry is valid while its id is not zero; ids never come back, and
// id % table_entries is the entry, so an id names entry and use in one number.
//
//   owner:   fields ... id (release)                 retire: id = 0, ++retired
//   reader:  id (acquire), copy fields, id again     retired moved: look at every id in use
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include <fcntl.h>

#include "../gpu/gpu.hpp"
#include "segment.hpp"

namespace sdma::memory {

inline constexpr uint32_t table_entries = 1024;
inline constexpr uint64_t process_magic = 0x53444d4150524f43; // "SDMAPROC"
inline constexpr uint64_t process_version = 1;

struct Table_entry {
    Word id, generation, bytes, pci;
    Word handle[sizeof(gpu::Handle) / sizeof(uint64_t)];
    Word unused[4];
};
static_assert(sizeof(Table_entry) == 128);

struct Process_table {
    Word magic, version, entries, instance;
    Word retired; // how many entries were taken back so far
    Word unused[11];
    Table_entry entry[table_entries];
};

// A copy of an entry, of this process or of a peer.
struct Exported {
    uint64_t id = 0;
    uint64_t generation = 0;
    uint64_t bytes = 0;
    gpu::Pci_address pci;
    gpu::Handle handle;
};

uint64_t pack(const gpu::Pci_address &address);
gpu::Pci_address unpack(uint64_t packed);

// False if the entry is not (or no longer) this registration.
bool read_entry(const Process_table &table, uint64_t id, uint64_t generation, Exported &entry);

// One allocation of ours that peers may map.
struct Registration {
    uint64_t id = 0; // 0 = none
    uint64_t generation = 0;
    char *base = nullptr;
    size_t bytes = 0;
};

// The allocations of this process that peers may map: exported at first use, retired when the
// application frees them, or, when the table is full, when they have been idle for longest.
// Thread-safe. The lock is never held across a call of the runtime, because the runtime calls
// retire() from inside its own locks.
class Registry {
public:
    // `table` is ours, zeroed, in the file `fd`, and outlives the registry.
    Registry(Process_table &table, int fd, uint64_t instance);

    // Finds or makes the registration of an allocation and counts one use of it until release().
    sdma_reason_t acquire(gpu::Runtime &runtime, const gpu::Range &range, Registration &registration);
    void release(const Registration &registration);

    // The application freed `base`.
    void retire(void *base, uint64_t generation);
    // Its owner takes it back; nothing happens to a later registration of the same allocation.
    void retire(uint64_t id);
    void retire_all();

    // Whether a peer process may still reach a registration, which must be retired for good. Nothing has to be done
    // by a peer that ends.
    bool reachable(uint64_t id) const;
    // For how long one has been retired that is still counted.
    std::chrono::milliseconds retired_for(uint64_t id);

    // Address of a live registration for users inside this process; nullptr if there is none.
    char *address(uint64_t id);

private:
    struct Own {
        Registration registration;
        uint32_t uses = 0;
        uint64_t last_use = 0;
        std::chrono::steady_clock::time_point retired;
    };
    void retire_locked(uint32_t index);
    bool find_free_locked(uint32_t &index);
    sdma_reason_t insert(const Exported &exported, char *base, Registration &registration);

    std::mutex mutex_;
    Process_table &table_;
    const int fd_;
    std::vector<Own> own_;
    std::map<const void *, uint32_t> by_base_;
    std::set<gpu::Status> reported_; // failures of exports that were logged
    uint32_t used_entries_ = 0;      // entries beyond were never used
    uint64_t uses_ = 0;              // one per entry written: makes ids unique
    uint64_t clock_ = 0;
};

// Another process of the node. Shared by all teams that have a rank in it.
class Peer_process {
public:
    ~Peer_process();
    // nullptr with a line in the log if its segment cannot be opened or is malformed.
    static std::shared_ptr<Peer_process> open(const Identity &own, const Identity &peer, uint64_t fd);

    const Identity &identity() const { return identity_; }
    const Process_table &table() const { return *segment_.at<const Process_table>(0); }
    bool own() const { return own_; } // this very process: its memory is used directly
    bool gone() const;

    // Tell the owner that we map, or no longer map, one of its registrations for a device: by a lock on a byte of its
    // segment, which the kernel gives back when a process ends. False: the kernel refuses.
    bool hold(uint64_t id, int device) const { return mark(id, device, F_RDLCK); }
    void let_go(uint64_t id, int device) const { mark(id, device, F_UNLCK); }

private:
    bool mark(uint64_t id, int device, short kind) const;

    Identity identity_;
    Segment segment_;
    int pidfd_ = -1;
    bool own_ = false;
};

} // namespace sdma::memory
