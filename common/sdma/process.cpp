// SPDX-License-Identifier: BSD-3-Clause
#include "process.hpp"

#include <mutex>

#include "../../kernels/bundle.h"

namespace sdma {

namespace {

constinit std::mutex context_mutex;
constinit op::Context *process_context = nullptr; // while holds > 0, and after a fault
constinit size_t holds = 0;

op::Context &hold_context() {
    std::lock_guard lock(context_mutex);
    if (!process_context)
        process_context = new op::Context(process_platform());
    holds++;
    return *process_context;
}

} // namespace

op::Platform process_platform() {
    return {{gpu::runtime_loaded, gpu::open_runtime},
            [](const std::string &target) { return !kernels::code_object(target).empty(); }};
}

Hold::Hold() : context(hold_context()) {}

Hold::~Hold() {
    std::lock_guard lock(context_mutex);
    // After a fault it stays: off is for good, and engines or kernels may yet use what it has mapped.
    if (--holds > 0 || process_context->faulted())
        return;
    delete process_context;
    process_context = nullptr;
}

int with_context(int (*body)(op::Context &)) {
    std::unique_lock lock(context_mutex, std::try_to_lock);
    return lock && process_context ? body(*process_context) : 0;
}

} // namespace sdma
