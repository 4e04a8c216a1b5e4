// SPDX-License-Identifier: BSD-3-Clause
#include "launcher.hpp"

#include <atomic>
#include <cstring>

#include "../../../../kernels/bundle.h"
#include "../../base/base.hpp"
#include "../../plan/work.h"
#include "../../ring/ring.h"

namespace sdma::gpu::nvidia {

namespace {

constexpr uint32_t wave = 32;
constexpr uint32_t copy_lanes = 256; // the kernel's bound, and what one workgroup was measured with

size_t rings_bytes(const sdma_work &record) { return record.queues * sizeof(struct sdma_ring); }

// The record and its rings behind each other, if they fit.
template <typename Arguments> bool fits(const sdma_work &record) {
    return record.record_bytes % 8 == 0 &&
           record.record_bytes + rings_bytes(record) <= sizeof(Arguments::inline_words) &&
           record.queues_offset + record.queues * sizeof(sdma_work_queue) <= record.record_bytes;
}

void take(const sdma_work &record, uint64_t *words) {
    std::memcpy(words, &record, record.record_bytes);
    auto *rings = reinterpret_cast<struct sdma_ring *>(reinterpret_cast<char *>(words) + record.record_bytes);
    const auto *queues =
        reinterpret_cast<const sdma_work_queue *>(reinterpret_cast<const char *>(&record) + record.queues_offset);
    for (uint32_t q = 0; q < record.queues; q++) // one address for host and devices
        rings[q] = *reinterpret_cast<const struct sdma_ring *>(queues[q].ring);
}

} // namespace

std::unique_ptr<Launcher> Launcher::make(const Driver &driver, CUcontext context, const std::string &target) {
    auto made = std::unique_ptr<Launcher>(new Launcher(driver, context));
    return made->prepare(target) ? std::move(made) : nullptr;
}

bool Launcher::prepare(const std::string &target) {
    const auto code = kernels::code_object(target);
    if (code.empty()) {
        log(1, "cuda: no kernels for %s in this library", target.c_str());
        return false;
    }
    const Use_context use(driver_, context_);
    const auto ok = [this](const char *what, CUresult result) { return driver_.status(what, result) == Status::ok; };
    if (!ok("load the kernels", driver_.cuModuleLoadData(&module_, code.data())))
        return false;
    const struct {
        const char *name;
        CUfunction &function;
    } functions[] = {{"sdma_issue_small", issue_small_},
                     {"sdma_issue_large", issue_large_},
                     {"sdma_copy_small", copy_small_},
                     {"sdma_copy_large", copy_large_},
                     {"sdma_resident", resident_}};
    for (const auto &[name, function] : functions)
        if (!ok(name, driver_.cuModuleGetFunction(&function, module_, name)))
            return false;
    if (make_stream(driver_, stream_) != Status::ok)
        return false;
    words_ = Pinned(driver_, (slots + 1) * sizeof(Done));
    done_ = static_cast<Done *>(words_.get());
    if (!done_)
        return false;
    for (uint32_t slot = 0; slot <= slots; slot++)
        done_[slot].word = 1;
    return ok("allocate a counter", driver_.cuMemAlloc(&counter_, sizeof(uint64_t))) &&
           ok("zero a counter", driver_.cuMemsetD8Async(counter_, 0, sizeof(uint64_t), stream_));
}

Launcher::~Launcher() {
    const Use_context use(driver_, context_);
    if (!use)
        return;
    for (CUstream stream : {stream_, resident_stream_})
        if (stream) {
            driver_.cuStreamSynchronize(stream);
            driver_.cuStreamDestroy(stream);
        }
    words_ = {};
    if (counter_)
        driver_.cuMemFree(counter_);
    if (module_)
        driver_.cuModuleUnload(module_);
}

template <typename Arguments>
CUresult Launcher::start(CUfunction function, uint32_t workgroups, Kernel kernel, const Arguments &arguments) {
    void *parameters[] = {const_cast<Arguments *>(&arguments)};
    const Use_context use(driver_, context_);
    if (!use)
        return CUDA_ERROR_INVALID_CONTEXT;
    return driver_.cuLaunchKernel(function, workgroups, 1, 1, kernel == Kernel::issue ? wave : copy_lanes, 1, 1, 0,
                                  stream_, parameters, nullptr);
}

Status Launcher::launch(Kernel kernel, uint32_t workgroups, const void *argument, uint64_t &launch) {
    if (kernel == Kernel::resident)
        return launch_resident(argument, launch);
    const auto &record = *static_cast<const sdma_work *>(argument);
    std::lock_guard guard(mutex_);
    if (!done(next_))
        return Status::pending;
    Done &done = done_[next_];
    done.word = 0;

    sdma_launch head{.record = reinterpret_cast<uint64_t>(argument),
                     .done = reinterpret_cast<uint64_t>(&done.word),
                     .counter = counter_,
                     .words = 0};
    const bool issue = kernel == Kernel::issue;
    CUresult result;
    if (fits<sdma_launch_small>(record)) {
        head.words = record.record_bytes / 8;
        sdma_launch_small arguments{.launch = head, .inline_words = {}};
        take(record, arguments.inline_words);
        result = start(issue ? issue_small_ : copy_small_, workgroups, kernel, arguments);
    } else {
        sdma_launch_large arguments;
        if (fits<sdma_launch_large>(record)) {
            head.words = record.record_bytes / 8;
            take(record, arguments.inline_words);
        }
        arguments.launch = head;
        result = start(issue ? issue_large_ : copy_large_, workgroups, kernel, arguments);
    }
    const Status status = started(next_, result, launch);
    if (status == Status::ok)
        next_ = (next_ + 1) % slots;
    return status;
}

Status Launcher::started(uint32_t slot, CUresult result, uint64_t &launch) {
    const Status status = driver_.status("launch", result);
    if (status == Status::ok)
        launch = ++rounds_[slot] << slot_bits | (slot + 1);
    else
        done_[slot].word = 1;
    return status;
}

Status Launcher::launch_resident(const void *mailbox, uint64_t &launch) {
    std::lock_guard guard(mutex_);
    if (!done(resident_slot))
        return Status::pending;
    const Use_context use(driver_, context_);
    if (!use)
        return Status::failed;
    if (!resident_stream_ && make_stream(driver_, resident_stream_) != Status::ok)
        return Status::unsupported; // no reason to give up: each operation can have its kernel
    done_[resident_slot].word = 0;
    sdma_residence residence{.mailbox = reinterpret_cast<uint64_t>(mailbox),
                             .done = reinterpret_cast<uint64_t>(&done_[resident_slot].word)};
    void *parameters[] = {&residence};
    return started(
        resident_slot,
        driver_.cuLaunchKernel(resident_, 1, 1, 1, SDMA_RESIDENT_LANES, 1, 1, 0, resident_stream_, parameters, nullptr),
        launch);
}

Status Launcher::finished(uint64_t launch) {
    const uint64_t number = launch & ((1u << slot_bits) - 1);
    if (number == 0 || number > slots + 1)
        return Status::invalid;
    const auto slot = static_cast<uint32_t>(number - 1);
    if (done(slot)) // this one, or a later one in its slot
        return Status::ok;
    // A kernel that faulted never writes.
    constexpr uint32_t polls_per_query = 1024;
    std::lock_guard guard(mutex_);
    if (rounds_[slot] != launch >> slot_bits)
        return Status::ok; // its slot has a later one
    if (++polls_ % polls_per_query)
        return Status::pending;
    const Use_context use(driver_, context_);
    if (!use)
        return Status::failed;
    const CUresult result = driver_.cuStreamQuery(slot == resident_slot ? resident_stream_ : stream_);
    return result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY ? Status::pending
                                                                    : driver_.status("kernel", result);
}

} // namespace sdma::gpu::nvidia
