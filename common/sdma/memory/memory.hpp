// SPDX-License-Identifier: BSD-3-Clause
//
// The memory side of one process: its own segment and registrations, the peers it knows, what it
// has mapped of theirs, and the GPU runtime they all need. Nothing is made before it is needed.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "attachments.hpp"
#include "pins.hpp"
#include "process.hpp"

namespace sdma::memory {

// Where the GPU runtime comes from: gpu::runtime_loaded and gpu::open_runtime, or a test's own.
struct Gpu_source {
    std::function<bool()> loaded;
    std::function<std::shared_ptr<gpu::Runtime>(sdma_reason_t &)> open;
};

class Memory {
public:
    explicit Memory(Gpu_source source);
    ~Memory(); // no team and no operation is left
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;

    const Identity &identity() const { return identity_; }
    bool runtime_loaded() const { return source_.loaded(); }

    // Make the process segment. Idempotent; false if the kernel refuses.
    bool create();
    int fd() const { return segment_.fd(); }
    Registry &registry() { return *registry_; }          // after create()
    Attachments &attachments() { return *attachments_; } // after create()
    Pins &pins() { return pins_; }

    // One object per process of the node, however many teams share it.
    std::shared_ptr<Peer_process> process(const Identity &identity, uint64_t fd);

    // The runtime once the application has started it; nullptr with the reason before. After create().
    gpu::Runtime *runtime(sdma_reason_t &reason);
    // Only if it is open already.
    gpu::Runtime *open_runtime() const { return opened_.load(std::memory_order_acquire); }

    const std::shared_ptr<gpu::Runtime> &shared_runtime() const { return runtime_; } // once it is open

    // Retirements by peers. Any thread; cheap. Returns the number of things done.
    int progress();

private:
    Gpu_source source_;
    Identity identity_;
    std::mutex mutex_;
    Segment segment_;
    std::shared_ptr<Registry> registry_;
    std::unique_ptr<Attachments> attachments_;
    Pins pins_;
    std::vector<std::weak_ptr<Peer_process>> processes_;
    std::shared_ptr<gpu::Runtime> runtime_;
    std::atomic<gpu::Runtime *> opened_{nullptr};
};

} // namespace sdma::memory
