// SPDX-License-Identifier: BSD-3-Clause
//
// SDMA queues of this process: one per (device, engine, producer), shared by all teams, created on
// first use by the first back end that can, destroyed when the process's layer goes down.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../gpu/gpu.hpp"
#include "../ring/ring.h"

namespace sdma::engine {

// Who may write packets: never both on one ring.
enum class Producer : uint8_t { device, host };

enum class Placement : uint8_t { device_uncached, host_pinned };

struct Queue {
    struct sdma_ring *ring = nullptr; // shared with kernels; host address == device address
    size_t bytes = 0;
    Placement placement = Placement::device_uncached;
    bool gpu_ringable = false;
    uint64_t generation = 0; // unique in the process
    int device = -1;
    uint32_t engine = 0;
    Producer producer = Producer::device;
    std::string back_end; // "user", "proxy"
    // Signals by FENCE cost its consumer less than by ATOMIC.
    bool prefers_fence = false;
    // Where no hardware reads the doorbell: consume what has been rung, in the caller's thread, which saves the way
    // over another one. True if there was anything. Call it with the queues in use (op::Context). Empty for hardware.
    std::function<bool()> serve;
    // Let the thread that serves as well come, for callers that will not look for long. Any thread; cheap.
    std::function<void()> wake;
    // Set before destroy() after a fault: a kernel may still come to the ring, so its memory stays.
    bool faulty = false;
    // Its consumer is a thread that calls the runtime: packets have no size limit of hardware's, and kernels must not
    // wait for it. The runtime's driver may hold a lock while it waits for kernels, where memory is unmapped or freed
    // by the application; a kernel that waited for room would be waited for itself (seen on 2 x H200), so room is
    // claimed before it starts.
    bool read_by_software = false;
    // For a kernel's packets of `packet_bytes` in all, until they are consumed; false: not now. A claim that can never
    // be fits into an idle ring. Any thread.
    bool claim(uint64_t packet_bytes);
    void unclaim(uint64_t packet_bytes);
    std::atomic<uint64_t> claimed{0};
    // The cursors where the host may read them (device memory behind a small BAR it may not).
    const struct sdma_ring_cursors *visible_cursors = nullptr;
    // Diagnostic line part: engine, read, write and committed pointers.
    std::string describe() const;
};

// The pad before a reservation is smaller than the reservation.
inline constexpr uint64_t with_pads(uint64_t packet_bytes) { return 2 * packet_bytes; }

inline bool Queue::claim(uint64_t packet_bytes) {
    uint64_t others = claimed.load(std::memory_order_relaxed);
    do {
        if (others != 0 && others + with_pads(packet_bytes) >= bytes)
            return false;
    } while (!claimed.compare_exchange_weak(others, others + with_pads(packet_bytes)));
    return true;
}

inline void Queue::unclaim(uint64_t packet_bytes) { claimed -= with_pads(packet_bytes); }

// The size of a ring for which the parameter ring_bytes says `wanted`.
inline constexpr size_t ring_size(size_t wanted) {
    return std::bit_floor(std::clamp<size_t>(wanted, 4096, size_t{64} << 20));
}

// A number for Queue::generation.
uint64_t new_generation();

// One way to get queues. Created lazily; every method thread-safe.
class Back_end {
public:
    virtual ~Back_end() = default;
    virtual const char *name() const = 0;
    // SDMA_REASON_none if queues can be had on `device` as far as one can tell without making one.
    virtual sdma_reason_t available(int device) = 0;
    // Who writes its packets best.
    virtual Producer producer() const { return Producer::device; }
    // `engine` is a hint (see choose_engine); the queue says which one it got.
    virtual sdma_reason_t create(int device, uint32_t engine, Producer producer, std::unique_ptr<Queue> &queue) = 0;
    // The engine must not touch the ring any more when this returns, or the ring is kept for ever.
    virtual void destroy(Queue &queue) = 0;
};

// Which engine moves bytes from `source` to `destination`: pure, from what the topology says.
struct Link {
    uint32_t recommended_mask = 0; // 0: unknown
    bool xgmi = false;
};
struct Engine_counts {
    uint32_t ordinary = 1;
    uint32_t xgmi = 0;
};
uint32_t choose_engine(const Engine_counts &counts, const Link &link, uint32_t peer_index);

// The queues of the process.
class Engines {
public:
    explicit Engines(std::shared_ptr<gpu::Runtime> runtime);
    ~Engines();

    // The queue on `device` for traffic to `peer`, made at first use. nullptr with the reason
    // when no back end gives one: the caller takes the load/store path. Thread-safe.
    Queue *queue(int device, const gpu::Pci_address &peer, Producer producer, sdma_reason_t &reason);

    // Who writes packets for the queues of `device` (-1: none), by a parameter's word: gpu, host, or auto, which is the
    // GPU where hardware reads the packets, as far as one can tell without making a queue. Where a thread of ours does,
    // it is the CPU, whose packets are there before a kernel has started (an empty launch: 8.1 us, H200). Thread-safe.
    Producer producer(int device, const char *word);

    // Take a queue out of use for good after a fault: destroyed before anybody hears of it.
    void abandon(Queue &queue);

    // For sdma_info: each back end with the reason why it gives no queue (none: in use, or it could be).
    struct Report {
        std::string back_end;
        sdma_reason_t reason;
    };
    std::vector<Report> report(int device);

private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace sdma::engine
