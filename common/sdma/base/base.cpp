// SPDX-License-Identifier: BSD-3-Clause
#include "base.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>
#include <set>
#include <string>

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

namespace sdma {

namespace {

constinit Params live_params;

#define SDMA_PARAM(type, name, default_value, unit, settable, help)                                                    \
    {#name, SDMA_PARAM_##type, unit, help, settable, &live_params.name},
constexpr sdma_param_t param_rows[] = {
#include "params.def"
};
#undef SDMA_PARAM

constexpr size_t named_counters = static_cast<size_t>(Counter::first_declined);
// One per reason; that of SDMA_REASON_none is not shown.
constexpr size_t counter_count = named_counters + SDMA_REASON_COUNT;

constinit std::atomic<uint64_t> counter_values[counter_count];
// sdma_counter_t promises a plain word behind the atomic.
static_assert(sizeof(std::atomic<uint64_t>) == sizeof(uint64_t) && std::atomic<uint64_t>::is_always_lock_free);

struct Counter_text {
    const char *name, *help;
};
constexpr Counter_text counter_text[counter_count] = {
#define SDMA_COUNTER(name, help) {#name, help},
#include "counters.def"
#undef SDMA_COUNTER
#define SDMA_REASON(name, text) {"declined_" #name, "operations declined: " text},
#include "reasons.def"
#undef SDMA_REASON
};

struct Counter_rows {
    sdma_counter_t rows[counter_count - 1];
    Counter_rows() {
        size_t row = 0;
        for (size_t i = 0; i < counter_count; i++)
            if (i != named_counters + SDMA_REASON_none)
                rows[row++] = {counter_text[i].name, counter_text[i].help,
                               reinterpret_cast<const uint64_t *>(&counter_values[i])};
    }
};

constinit std::atomic<sdma_log_fn> log_sink{nullptr};

constexpr Counter_text reason_text[] = {
#define SDMA_REASON(name, text) {#name, text},
#include "reasons.def"
#undef SDMA_REASON
};

} // namespace

Params &params() { return live_params; }

void count(Counter counter, uint64_t amount) {
    counter_values[static_cast<size_t>(counter)].fetch_add(amount, std::memory_order_relaxed);
}

void count_declined(sdma_reason_t reason) {
    counter_values[named_counters + reason].fetch_add(1, std::memory_order_relaxed);
}

void log(int level, const char *format, ...) {
    sdma_log_fn sink = log_sink.load(std::memory_order_acquire);
    if (!sink && level > 0)
        return;
    char line[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (sink)
        sink(level, line);
    else
        fprintf(stderr, "mpi-sdma: %s\n", line);
}

} // namespace sdma

extern "C" {

const char *sdma_reason_name(sdma_reason_t reason) {
    return static_cast<unsigned>(reason) < SDMA_REASON_COUNT ? sdma::reason_text[reason].name : "unknown";
}

const char *sdma_reason_text(sdma_reason_t reason) {
    return static_cast<unsigned>(reason) < SDMA_REASON_COUNT ? sdma::reason_text[reason].help : "unknown reason";
}

const sdma_param_t *sdma_params(size_t *count) {
    *count = sizeof sdma::param_rows / sizeof sdma::param_rows[0];
    return sdma::param_rows;
}

void sdma_param_set(const sdma_param_t *row, const char *text) {
    // Never freed: other threads may be reading. One copy per value that was ever in use.
    static std::mutex mutex;
    static auto &texts = *new std::set<std::string>;
    try {
        std::lock_guard lock(mutex);
        __atomic_store_n(static_cast<const char **>(row->value), texts.emplace(text).first->c_str(), __ATOMIC_RELEASE);
    } catch (const std::bad_alloc &) {
        sdma::log(0, "no memory for the value of %s", row->name);
    }
}

const sdma_counter_t *sdma_counters(size_t *count) {
    static const sdma::Counter_rows table;
    *count = sdma::counter_count - 1;
    return table.rows;
}

void sdma_count(const char *name, uint64_t amount) {
    for (size_t i = 0; i < sdma::named_counters; i++)
        if (strcmp(name, sdma::counter_text[i].name) == 0)
            sdma::count(static_cast<sdma::Counter>(i), amount);
}

void sdma_log_to(sdma_log_fn fn) { sdma::log_sink.store(fn, std::memory_order_release); }

const char *sdma_version(void) { return PACKAGE_VERSION; }

} // extern "C"
