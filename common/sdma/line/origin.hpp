// SPDX-License-Identifier: BSD-3-Clause
//
// Memory of this process as one-sided operations use it: registered for peers, or as the local side.
#pragma once

#include <chrono>
#include <memory>

#include "../op/context.hpp"
#include "address.hpp"

namespace sdma::line {

// The local side of operations: where devices find its bytes.
struct Origin {
    int device = -1; // that owns it; -1: host memory, which all devices reach
    std::vector<memory::Pins::Piece> pieces;
};

// Counts a use of what had to be pinned, until release(). Reasons: memory_kind, too_large (it ends
// beyond its allocation), pin_failed.
sdma_reason_t locate(memory::Memory &memory, gpu::Runtime &runtime, const void *address, size_t bytes, Origin &origin);

// What sdma_memory_register makes.
class Region {
public:
    // nullptr with the reason. `context` outlives it.
    static std::unique_ptr<Region> make(op::Context &context, void *base, size_t bytes, bool exportable,
                                        sdma_reason_t &reason);
    ~Region();
    Region(const Region &) = delete;
    Region &operator=(const Region &) = delete;

    Key key() const { return key_; }
    // Of exported memory: take it back from peers; whether that was done, and for how long it has been so; whether a
    // peer may still reach it.
    void retire();
    bool retired() const;
    std::chrono::milliseconds retired_for() const;
    bool reachable() const;

private:
    Region(op::Context &context, gpu::Runtime &runtime) : context_(context), runtime_(runtime) {}
    sdma_reason_t export_it(const char *base, size_t bytes);

    op::Context &context_;
    gpu::Runtime &runtime_;
    Origin origin_;
    memory::Registration registration_;
    Key key_;
};

} // namespace sdma::line
