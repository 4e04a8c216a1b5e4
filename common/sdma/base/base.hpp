// SPDX-License-Identifier: BSD-3-Clause
//
// Parameters, counters, log: the process-wide plumbing under everything else.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "../sdma.h"

namespace sdma {

// Live parameter values; names, defaults, units and help are in base/params.def (the one table).
struct Params {
#define SDMA_PARAM_ROW_BOOL bool
#define SDMA_PARAM_ROW_INT int
#define SDMA_PARAM_ROW_SIZE size_t
#define SDMA_PARAM_ROW_STRING const char *
#define SDMA_PARAM(type, name, default_value, unit, settable, help) SDMA_PARAM_ROW_##type name = default_value;
#include "params.def"
#undef SDMA_PARAM
};
Params &params();

// Counters; base/counters.def is the one table. Relaxed; any thread.
enum class Counter : uint32_t {
#define SDMA_COUNTER(name, help) name,
#include "counters.def"
#undef SDMA_COUNTER
    first_declined, // one per reason follows
};
void count(Counter counter, uint64_t amount = 1);
void count_declined(sdma_reason_t reason);

// One line, lower case, with values, no newline. Level 0 = an error, logged once where first seen.
void log(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

} // namespace sdma
