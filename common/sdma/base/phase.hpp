// SPDX-License-Identifier: BSD-3-Clause
//
// Where the set-up before the first operation spends its time: our own work, not the waiting for
// peers. Phases nest; what an inner one takes does not count for the outer one.
#pragma once

#include <cstdint>

namespace sdma {

enum class Phase : uint8_t { segments, runtime, pinning, exports, attachments, queues, kernels, count };

// Measures from construction to destruction, on one thread.
class Timed {
public:
    explicit Timed(Phase phase);
    ~Timed();
    Timed(const Timed &) = delete;
    Timed &operator=(const Timed &) = delete;

private:
    Phase phase_;
    Timed *outer_;
    int64_t start_;
    int64_t inner_ = 0;
};

// The sum and the phases so far, as one line at level 1. At the first call in the process only:
// later ones cost a load. Any thread.
void report_setup(uint32_t rank);

} // namespace sdma
