// SPDX-License-Identifier: BSD-3-Clause
#include "fake_node.hpp"

#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/sdma/plan/work.h"
#include "common/sdma/ring/initiate.hpp"
#include "common/sdma/ring/producer.h"
#include "kernels/resident.h"

namespace fake {

using namespace sdma;
using gpu::Status;

namespace {

constexpr uint32_t handle_magic = 0xfa4e0001;

size_t pages(size_t bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return (bytes + page - 1) / page * page;
}

uint64_t load(const void *word) { return __atomic_load_n(static_cast<const uint64_t *>(word), __ATOMIC_ACQUIRE); }

void run_copy_kernel(const struct sdma_work *work) {
    const auto *peers =
        reinterpret_cast<const sdma_work_peer *>(reinterpret_cast<const char *>(work) + work->peers_offset);
    for (uint32_t p = 0; p < work->peers; p++)
        if (peers[p].path == SDMA_PATH_LOADSTORE)
            memcpy(reinterpret_cast<void *>(peers[p].dst), reinterpret_cast<const void *>(peers[p].src),
                   peers[p].bytes);
    if (work->kernel_signals == 0)
        return;
    const auto raise = [](uint64_t address, uint64_t value) {
        if (address != 0)
            __atomic_store_n(reinterpret_cast<uint64_t *>(address), value, __ATOMIC_RELEASE);
    };
    for (uint32_t p = 0; p < work->peers; p++)
        if (peers[p].path == SDMA_PATH_LOADSTORE) {
            raise(peers[p].arrival, peers[p].arrival_value);
            raise(peers[p].departure, peers[p].departure_value);
        }
}

} // namespace

Node::Node() : file(memfd_create("fake-gpu-memory", MFD_CLOEXEC)) {
    if (file < 0)
        throw std::runtime_error("no memory");
}

Node::~Node() { close(file); }

void Node::give_back(const Allocation &allocation) {
    if (allocation.freed && allocation.mappings == 0)
        fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, allocation.offset,
                  static_cast<off_t>(pages(allocation.bytes)));
}

size_t Node::charged() {
    std::lock_guard lock(mutex);
    size_t bytes = 0;
    for (auto &[id, allocation] : allocations)
        bytes += !allocation.freed || allocation.mappings > 0 ? allocation.bytes : 0;
    return bytes;
}

// One hardware queue: the ring a producer writes, and how far the engine is.
struct Runtime::Ring {
    engine::Queue queue;
    struct sdma_ring ring {};
    struct sdma_ring_cursors cursors {};
    std::vector<uint32_t> dwords;
    uint64_t read = 0, write = 0, doorbell = 0;
    bool stopped = false;

    // Executes one packet; false if there is none.
    bool step(const Faults &faults) {
        if (stopped || faults.stall_engines || load(&doorbell) == read)
            return false;
        const uint32_t *packet = dwords.data() + read % ring.bytes / 4;
        uint32_t dw[8];
        for (size_t i = 0; i < 8 && packet + i < dwords.data() + dwords.size(); i++)
            dw[i] = __atomic_load_n(packet + i, __ATOMIC_RELAXED);
        const auto address = [&dw](int i) { return dw[i] | static_cast<uint64_t>(dw[i + 1]) << 32; };
        uint64_t bytes;
        switch (dw[0]) {
        case 0:
            bytes = 4;
            break;
        case 0x00000001:
            bytes = 28;
            memcpy(reinterpret_cast<void *>(address(5)), reinterpret_cast<const void *>(address(3)),
                   uint64_t{dw[1]} + 1);
            break;
        case 0x5e00000a:
            if (faults.stall_before_signal)
                return false;
            bytes = 32;
            __atomic_fetch_add(reinterpret_cast<uint64_t *>(address(1)), address(3), __ATOMIC_RELEASE);
            break;
        case 0x00000005:
            if (faults.stall_before_signal)
                return false;
            bytes = 16;
            __atomic_store_n(reinterpret_cast<uint32_t *>(address(1)), dw[3], __ATOMIC_RELEASE);
            break;
        default:
            throw std::runtime_error("no packet");
        }
        __atomic_store_n(&read, read + bytes, __ATOMIC_RELEASE);
        return true;
    }
};

Runtime::Runtime(Node &node, int rank, int devices, bool still) : node_(node), random_(1) {
    for (int i = 0; i < devices; i++) {
        gpu::Device device;
        device.pci = {0, static_cast<uint8_t>(rank), static_cast<uint8_t>(i), 0};
        device.target = "fake";
        device.wave_lanes = 64;
        device.workgroups = 4;
        devices_.push_back(device);
    }
    if (!still)
        thread_ = std::thread([this] { hardware(); });
}

Runtime::~Runtime() {
    {
        std::lock_guard lock(hardware_mutex_);
        stop_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable())
        thread_.join();
    for (auto &[launch, thread] : residents_)
        thread.join();
    while (!own_.empty())
        free(own_.begin()->first);
}

// ---- memory --------------------------------------------------------------------------------------

char *Runtime::allocate(int device, size_t bytes, void *at, gpu::Memory_kind kind) {
    std::scoped_lock lock(mutex_, node_.mutex);
    const off_t offset = node_.end;
    node_.end += static_cast<off_t>(pages(bytes));
    if (ftruncate(node_.file, node_.end) != 0)
        throw std::runtime_error("no memory");
    void *base = mmap(at, pages(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), node_.file, offset);
    if (base == MAP_FAILED)
        throw std::runtime_error("no addresses");
    const uint32_t id = node_.next++;
    node_.allocations[id] = {offset, bytes, false, 0, static_cast<char *>(base)};
    own_[static_cast<char *>(base)] = {id, bytes, pages(bytes), device, ++node_.generation, kind};
    return static_cast<char *>(base);
}

void Runtime::free(void *base, bool keep_address) {
    std::function<void(void *, uint64_t)> hook;
    uint64_t generation;
    {
        std::scoped_lock lock(mutex_, node_.mutex);
        auto own = own_.find(static_cast<char *>(base));
        generation = own->second.generation;
        auto &allocation = node_.allocations[own->second.id];
        allocation.freed = true;
        node_.give_back(allocation);
        if (keep_address)
            mmap(base, own->second.mapped_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        else
            munmap(base, own->second.mapped_bytes);
        own_.erase(own);
        hook = hook_;
    }
    if (hook && !faults.frees_unheard)
        hook(base, generation);
}

gpu::Range Runtime::classify(const void *address) {
    std::lock_guard lock(mutex_);
    auto after = own_.upper_bound(static_cast<char *>(const_cast<void *>(address)));
    if (after == own_.begin())
        return {};
    auto &[base, own] = *--after;
    if (address >= base + own.bytes)
        return {};
    return {own.kind, own.device, base, own.bytes, own.generation};
}

Status Runtime::export_memory(void *base, size_t bytes, gpu::Handle &handle) {
    std::lock_guard lock(mutex_);
    auto own = own_.find(static_cast<char *>(base));
    if (own == own_.end() || own->second.bytes != bytes)
        return Status::invalid;
    handle.words[0] = handle_magic;
    handle.words[1] = own->second.id;
    return Status::ok;
}

Status Runtime::attach(int device, const gpu::Handle &handle, size_t bytes, void *&mapped) {
    if (faults.fail_attach)
        return Status::failed;
    std::scoped_lock lock(mutex_, node_.mutex);
    auto found = node_.allocations.find(handle.words[1]);
    if (device < 0 || handle.words[0] != handle_magic || found == node_.allocations.end() || found->second.freed ||
        found->second.bytes != bytes)
        return Status::invalid;
    if (faults.one_mapping)
        for (const auto &[address, mapping] : mapped_)
            if (const Node::Allocation &other = node_.allocations[mapping.id];
                other.base < found->second.base + bytes && found->second.base < other.base + other.bytes)
                return Status::failed;
    mapped = mmap(nullptr, pages(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, node_.file, found->second.offset);
    if (mapped == MAP_FAILED)
        return Status::no_memory;
    found->second.mappings++;
    node_.attached++;
    mapped_[static_cast<char *>(mapped)] = {found->first, pages(bytes)};
    return Status::ok;
}

void Runtime::detach(void *mapped) {
    std::scoped_lock lock(mutex_, node_.mutex);
    auto found = mapped_.find(static_cast<char *>(mapped));
    munmap(mapped, found->second.bytes);
    auto &allocation = node_.allocations[found->second.id];
    allocation.mappings--;
    node_.give_back(allocation);
    node_.attached--;
    mapped_.erase(found);
}

Status Runtime::pin(void *address, size_t bytes, void *&device_address) {
    if (faults.fail_pin)
        return Status::failed;
    if (reinterpret_cast<uintptr_t>(address) % 4096 != 0 || bytes % 4096 != 0)
        return Status::invalid;
    pins_++;
    device_address = address;
    return Status::ok;
}

void Runtime::unpin(void *) { pins_--; }

void *Runtime::allocate_shared(size_t bytes) {
    auto made = std::make_unique<uint64_t[]>((bytes + 7) / 8);
    void *address = made.get();
    std::lock_guard lock(mutex_);
    shared_[address] = std::move(made);
    return address;
}
void Runtime::free_shared(void *address) {
    std::lock_guard lock(mutex_);
    shared_.erase(address);
}
void *Runtime::allocate_device(int, size_t bytes) { return calloc(1, bytes); }
void Runtime::free_device(void *address) { ::free(address); }

Status Runtime::copy(void *dst, const void *src, size_t bytes) {
    memmove(dst, src, bytes);
    return Status::ok;
}

void Runtime::on_free(std::function<void(void *, uint64_t)> hook) {
    std::lock_guard lock(mutex_);
    hook_ = std::move(hook);
}

// ---- hardware ------------------------------------------------------------------------------------

Status Runtime::launch(int device, gpu::Kernel kernel, uint32_t workgroups, const void *argument, gpu::Launch &launch) {
    if (device < 0 || static_cast<size_t>(device) >= devices_.size() || workgroups == 0)
        return Status::invalid;
    if (faults.refuse_launches)
        return Status::failed;
    std::lock_guard lock(hardware_mutex_);
    if (running_.size() >= launch_slots)
        return Status::pending;
    if (kernel == gpu::Kernel::resident && faults.no_resident)
        return Status::unsupported;
    launch = next_launch_++;
    running_.insert(launch);
    launches_.push_back({kernel, const_cast<void *>(argument), launch});
    launched++;
    wake_.notify_all();
    return Status::ok;
}

Status Runtime::finished(gpu::Launch launch) {
    std::lock_guard lock(hardware_mutex_);
    if (launch == 0 || launch >= next_launch_)
        return Status::invalid;
    if (running_.contains(launch))
        return Status::pending;
    if (auto found = residents_.find(launch); found != residents_.end()) {
        found->second.join(); // it has said that it is finished, as its last
        residents_.erase(found);
    }
    return failed_.contains(launch) ? Status::failed : Status::ok;
}

engine::Queue *Runtime::make_queue(int device, uint32_t engine, engine::Producer producer) {
    auto made = std::make_unique<Ring>();
    Ring &ring = *made;
    ring.dwords.resize(ring_bytes / 4);
    ring.ring.base = reinterpret_cast<uint64_t>(ring.dwords.data());
    ring.ring.bytes = ring_bytes;
    ring.ring.read_pointer = reinterpret_cast<uint64_t>(&ring.read);
    ring.ring.write_pointer = reinterpret_cast<uint64_t>(&ring.write);
    ring.ring.doorbell = reinterpret_cast<uint64_t>(&ring.doorbell);
    ring.ring.cursors = reinterpret_cast<uint64_t>(&ring.cursors);
    ring.cursors = ring::cursors_at(0, 0);
    ring.queue.ring = &ring.ring;
    ring.queue.bytes = ring.ring.bytes;
    ring.queue.gpu_ringable = true;
    ring.queue.device = device;
    ring.queue.engine = engine;
    ring.queue.producer = producer;
    ring.queue.back_end = "fake";
    ring.queue.visible_cursors = &ring.cursors;
    ring.queue.wake = [this] { wake_.notify_all(); };
    std::lock_guard lock(hardware_mutex_);
    rings_.push_back(std::move(made));
    return &rings_.back()->queue;
}

void Runtime::stop_queue(engine::Queue &queue) {
    std::lock_guard lock(hardware_mutex_);
    for (auto &ring : rings_)
        if (&ring->queue == &queue)
            ring->stopped = true;
}

void Runtime::hardware() {
    std::unique_lock lock(hardware_mutex_);
    while (!stop_) {
        const bool launched = run_launch(), consumed = run_queues();
        if (!launched && !consumed)
            // Bounded, because faults end and doorbells ring without a word to us.
            wake_.wait_for(lock, std::chrono::microseconds(200));
        lock.unlock(); // let callers in
        lock.lock();
    }
}

bool Runtime::step() {
    std::lock_guard lock(hardware_mutex_);
    const bool launched = run_launch(), consumed = run_queues();
    return launched || consumed;
}

bool Runtime::idle() {
    std::lock_guard lock(hardware_mutex_);
    for (auto &ring : rings_)
        if (load(&ring->doorbell) != load(&ring->read))
            return false;
    return launches_.empty();
}

bool Runtime::run_launch() {
    if (launches_.empty() || faults.hold_launches)
        return false;
    // A kernel that waits for room in a small ring would wait for this very thread.
    if (launches_.front().kernel == gpu::Kernel::issue && ring_bytes < 65536)
        for (auto &ring : rings_)
            if (!ring->stopped && load(&ring->doorbell) != ring->read)
                return false;
    const Work work = launches_.front();
    launches_.pop_front();
    if (work.kernel == gpu::Kernel::resident && !faults.fail_launches) {
        run_resident(work);
        return true;
    }
    if (!faults.fail_launches) {
        auto *record = static_cast<struct sdma_work *>(work.argument);
        if (work.kernel == gpu::Kernel::issue)
            initiate_on_host(record); // the same code as the kernel's
        else
            run_copy_kernel(record);
    }
    if (faults.fail_launches)
        failed_.insert(work.launch);
    running_.erase(work.launch);
    return true;
}

// The kernel's code as one lane.
void Runtime::run_resident(const Work &work) {
    const uint32_t late = faults.slow_start != 0 ? static_cast<uint32_t>(random_() % faults.slow_start) : 0;
    residents_[work.launch] = std::thread([this, work, late] {
        std::this_thread::sleep_for(std::chrono::microseconds(late)); // a fault to bear, nobody relies on it
        reside(static_cast<sdma_mailbox *>(work.argument), [this](struct sdma_work *record, uint64_t bytes) {
            if (bytes != record->record_bytes)
                throw std::runtime_error("another record than was handed over");
            const Outcome outcome = issue(record, 0, 1);
            if (record->resident_copies != 0)
                run_copy_kernel(record);
            const bool reported = report(record, outcome);
            resided++;
            return reported;
        });
        // The last: no access to the mailbox is left.
        std::lock_guard lock(hardware_mutex_);
        running_.erase(work.launch);
    });
}

bool Runtime::run_queues() {
    const uint64_t chaos = faults.chaos;
    bool any = false;
    if (const uint32_t slow = faults.slow_us; slow != 0) {
        const auto now = std::chrono::steady_clock::now();
        if (now < next_packet_)
            return false;
        next_packet_ = now + std::chrono::microseconds(slow);
        for (auto &ring : rings_)
            ring->step(faults);
        return false;
    }
    for (auto &ring : rings_) {
        if (chaos != 0) {
            // A few packets of a queue, or none, and then others get a turn.
            for (uint64_t packets = random_() % 4; packets > 0 && ring->step(faults); packets--)
                any = true;
            any = any || load(&ring->doorbell) != ring->read;
        } else {
            while (ring->step(faults))
                any = true;
        }
    }
    return any;
}

} // namespace fake
