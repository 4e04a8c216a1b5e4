// SPDX-License-Identifier: BSD-3-Clause
//
// One collective call of one rank: is it eligible here, do all agree, move.
#pragma once

#include <optional>

#include "context.hpp"
#include "transfer.hpp"

namespace sdma::op {

class Op {
public:
    // Copies the description. `context` and `team` (live) outlive this.
    Op(Context &context, team::Team &team, const sdma_desc_t &desc);
    ~Op(); // settled

    sdma_status_t test(); // never waits
    sdma_reason_t reason() const { return reason_; }

private:
    void move();
    void settle(sdma_status_t status, sdma_reason_t reason);

    Context &context_;
    team::Team &team_;
    team::Call call_;
    const char *source_ = nullptr;
    char *destination_ = nullptr;
    std::byte *record_ = nullptr; // until the transfer has it
    std::optional<Transfer> transfer_;
    sdma_status_t status_ = SDMA_PENDING;
    sdma_reason_t reason_ = SDMA_REASON_none;
};

// Whether this rank can take part, or why not. On success (none) the call has its device and the
// registration of its receive buffer, of which one use is counted.
sdma_reason_t examine(Context &context, team::Team &team, const sdma_desc_t &desc, team::Call &call);

} // namespace sdma::op
