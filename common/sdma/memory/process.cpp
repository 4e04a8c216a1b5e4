// SPDX-License-Identifier: BSD-3-Clause
#include "process.hpp"

#include <cstring>

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../base/base.hpp"
#include "../base/phase.hpp"

namespace sdma::memory {

namespace {

constexpr int most_devices = 64;

// Of the locks that stand for mappings of a registration, the one of a device.
struct flock bytes_of(uint64_t id, int device, short kind) {
    struct flock lock {};
    lock.l_type = kind;
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(id * most_devices + static_cast<uint64_t>(device % most_devices));
    lock.l_len = 1;
    return lock;
}

} // namespace

uint64_t pack(const gpu::Pci_address &address) {
    return static_cast<uint64_t>(address.domain) << 32 | static_cast<uint64_t>(address.bus) << 16 |
           static_cast<uint64_t>(address.device) << 8 | address.function;
}

gpu::Pci_address unpack(uint64_t packed) {
    gpu::Pci_address address;
    address.domain = static_cast<uint32_t>(packed >> 32);
    address.bus = static_cast<uint8_t>(packed >> 16);
    address.device = static_cast<uint8_t>(packed >> 8);
    address.function = static_cast<uint8_t>(packed);
    return address;
}

bool read_entry(const Process_table &table, uint64_t id, uint64_t generation, Exported &entry) {
    const Table_entry &source = table.entry[id % table_entries];
    if (id == 0 || source.id.load(std::memory_order_acquire) != id)
        return false;
    // Acquire loads, so that the second look at the id comes after them.
    uint64_t handle[sizeof(gpu::Handle) / sizeof(uint64_t)];
    entry.id = id;
    entry.generation = source.generation.load(std::memory_order_acquire);
    entry.bytes = source.bytes.load(std::memory_order_acquire);
    entry.pci = unpack(source.pci.load(std::memory_order_acquire));
    for (size_t i = 0; i < std::size(handle); i++)
        handle[i] = source.handle[i].load(std::memory_order_acquire);
    memcpy(entry.handle.words.data(), handle, sizeof handle);
    return source.id.load(std::memory_order_relaxed) == id && entry.generation == generation;
}

Registry::Registry(Process_table &table, int fd, uint64_t instance) : table_(table), fd_(fd), own_(table_entries) {
    table_.instance.store(instance, std::memory_order_relaxed);
    table_.entries.store(table_entries, std::memory_order_relaxed);
    table_.version.store(process_version, std::memory_order_relaxed);
    table_.magic.store(process_magic, std::memory_order_release);
}

sdma_reason_t Registry::acquire(gpu::Runtime &runtime, const gpu::Range &range, Registration &registration) {
    {
        std::lock_guard lock(mutex_);
        auto found = by_base_.find(range.base);
        if (found != by_base_.end()) {
            Own &own = own_[found->second];
            if (own.registration.generation == range.generation && own.registration.bytes == range.bytes) {
                own.uses++;
                own.last_use = ++clock_;
                registration = own.registration;
                return SDMA_REASON_none;
            }
            retire_locked(found->second); // freed and allocated again without the hook
        }
    }
    Timed timed(Phase::exports);
    Exported exported;
    exported.generation = range.generation;
    exported.bytes = range.bytes;
    exported.pci = runtime.devices()[static_cast<size_t>(range.device)].pci;
    gpu::Status status = runtime.export_memory(range.base, range.bytes, exported.handle);
    if (status != gpu::Status::ok) {
        std::lock_guard lock(mutex_);
        log(reported_.insert(status).second ? 0 : 2, "export of %zu bytes at %p: %s", range.bytes, range.base,
            gpu::to_string(status));
        return status == gpu::Status::unsupported ? SDMA_REASON_memory_kind
               : status == gpu::Status::kept      ? SDMA_REASON_kept
                                                  : SDMA_REASON_export_failed;
    }
    return insert(exported, static_cast<char *>(range.base), registration);
}

sdma_reason_t Registry::insert(const Exported &exported, char *base, Registration &registration) {
    std::lock_guard lock(mutex_);
    if (auto other = by_base_.find(base); other != by_base_.end()) {
        Own &own = own_[other->second];
        if (own.registration.generation == exported.generation && own.registration.bytes == exported.bytes) {
            own.uses++; // another thread was faster: the same memory, one entry
            registration = own.registration;
            return SDMA_REASON_none;
        }
        retire_locked(other->second);
    }
    uint32_t index;
    if (!find_free_locked(index)) {
        log(0, "all %u registrations are in use by operations", table_entries);
        return SDMA_REASON_no_memory;
    }
    Table_entry &entry = table_.entry[index];
    const uint64_t id = ++uses_ * table_entries + index;
    uint64_t handle[sizeof(gpu::Handle) / sizeof(uint64_t)];
    memcpy(handle, exported.handle.words.data(), sizeof handle);
    // Release stores: whoever sees one of them sees that the entry's old id is gone.
    entry.generation.store(exported.generation, std::memory_order_release);
    entry.bytes.store(exported.bytes, std::memory_order_release);
    entry.pci.store(pack(exported.pci), std::memory_order_release);
    for (size_t i = 0; i < std::size(handle); i++)
        entry.handle[i].store(handle[i], std::memory_order_release);
    entry.id.store(id, std::memory_order_release);

    registration = {id, exported.generation, base, exported.bytes};
    own_[index] = {registration, 1, ++clock_, {}};
    by_base_[base] = index;
    return SDMA_REASON_none;
}

// The lowest free entry, so that per-entry tables elsewhere stay small; else the idlest one.
bool Registry::find_free_locked(uint32_t &index) {
    uint32_t oldest = table_entries;
    for (uint32_t i = 0; i < used_entries_; i++) {
        if (own_[i].uses > 0)
            continue;
        if (own_[i].registration.id == 0) {
            index = i;
            return true;
        }
        if (oldest == table_entries || own_[i].last_use < own_[oldest].last_use)
            oldest = i;
    }
    if (used_entries_ < table_entries) {
        index = used_entries_++;
        return true;
    }
    if (oldest == table_entries)
        return false;
    retire_locked(oldest);
    index = oldest;
    return true;
}

// Uses that are still counted keep the entry from being given to another allocation.
void Registry::retire_locked(uint32_t index) {
    Own &own = own_[index];
    by_base_.erase(own.registration.base);
    own.registration = {};
    own.retired = std::chrono::steady_clock::now();
    table_.entry[index].id.store(0, std::memory_order_release);
    table_.retired.fetch_add(1, std::memory_order_release);
}

void Registry::release(const Registration &registration) {
    if (registration.id == 0)
        return;
    std::lock_guard lock(mutex_);
    own_[registration.id % table_entries].uses--;
}

void Registry::retire(void *base, uint64_t generation) {
    std::lock_guard lock(mutex_);
    auto found = by_base_.find(base);
    if (found != by_base_.end() && own_[found->second].registration.generation == generation)
        retire_locked(found->second);
}

void Registry::retire(uint64_t id) {
    std::lock_guard lock(mutex_);
    const auto index = static_cast<uint32_t>(id % table_entries);
    if (id != 0 && own_[index].registration.id == id)
        retire_locked(index);
}

void Registry::retire_all() {
    std::lock_guard lock(mutex_);
    while (!by_base_.empty())
        retire_locked(by_base_.begin()->second);
}

bool Registry::reachable(uint64_t id) const {
    struct flock lock = bytes_of(id, 0, F_WRLCK);
    lock.l_len = most_devices;
    return fcntl(fd_, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

std::chrono::milliseconds Registry::retired_for(uint64_t id) {
    std::lock_guard lock(mutex_);
    using namespace std::chrono;
    return duration_cast<milliseconds>(steady_clock::now() - own_[id % table_entries].retired);
}

char *Registry::address(uint64_t id) {
    std::lock_guard lock(mutex_);
    const Registration &registration = own_[id % table_entries].registration;
    return id != 0 && registration.id == id ? registration.base : nullptr;
}

Peer_process::~Peer_process() {
    if (pidfd_ >= 0)
        close(pidfd_);
}

std::shared_ptr<Peer_process> Peer_process::open(const Identity &own, const Identity &peer, uint64_t fd) {
    auto process = std::make_shared<Peer_process>();
    process->identity_ = peer;
    process->own_ = own == peer;
    process->segment_ = Segment::open(peer, fd, sizeof(Process_table), false);
    const char *wrong = nullptr;
    if (!process->segment_) {
        wrong = "cannot be opened";
    } else {
        const Process_table &table = process->table();
        if (table.magic.load(std::memory_order_acquire) != process_magic || table.version != process_version ||
            table.entries != table_entries || table.instance != peer.instance)
            wrong = "is malformed";
    }
    if (wrong) {
        log(0, "segment of process %llu %s", static_cast<unsigned long long>(peer.pid), wrong);
        return nullptr;
    }
    // Kernels before 5.3 have no pidfd; gone() then looks at procfs.
    process->pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(peer.pid), 0));
    // The pid may have been given away before the pidfd held it.
    return process_start_time(peer.pid) == peer.start_time ? process : nullptr;
}

bool Peer_process::mark(uint64_t id, int device, short kind) const {
    struct flock lock = bytes_of(id, device, kind);
    return fcntl(segment_.fd(), F_OFD_SETLK, &lock) == 0;
}

bool Peer_process::gone() const {
    if (own_)
        return false;
    if (pidfd_ >= 0) {
        pollfd ended = {pidfd_, POLLIN, 0}; // readable once it has ended, zombies included
        return poll(&ended, 1, 0) > 0;
    }
    return process_ended(identity_.pid, identity_.start_time);
}

} // namespace sdma::memory
