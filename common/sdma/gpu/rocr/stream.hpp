// SPDX-License-Identifier: BSD-3-Clause
//
// ROCr has no streams: a line of copies, each of which depends on the signal of the one before.
#pragma once

#include <memory>
#include <vector>

#include "../gpu.hpp"
#include "system.hpp"

namespace sdma::gpu::rocr {

class Copy_stream final : public Stream {
public:
    // nullptr (logged) without signals.
    static std::unique_ptr<Copy_stream> make(const System &system, int device);
    ~Copy_stream() override;

    Status copy(void *dst, const void *src, size_t bytes) override; // pending: too many in flight
    Status store(uint64_t, uint64_t, uint32_t) override { return Status::unsupported; }
    Status mark(uint64_t &mark) override;
    Status reached(uint64_t mark) override;

private:
    Copy_stream(const System &system, int device) : system_(system), device_(device) {}
    hsa_signal_t &signal(uint64_t number) { return signals_[number % signals_.size()]; }
    void advance();
    hsa_agent_t owner(const void *address) const;

    const System &system_;
    const int device_;
    std::vector<hsa_signal_t> signals_; // copy n completes signals_[n % size]
    uint64_t submitted_ = 0;            // number of the last copy
    uint64_t completed_ = 0;            // all up to this one are done
    bool failed_ = false;
};

} // namespace sdma::gpu::rocr
