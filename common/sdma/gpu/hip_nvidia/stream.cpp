// SPDX-License-Identifier: BSD-3-Clause
#include "stream.hpp"

#include <atomic>

namespace sdma::gpu::nvidia {

std::unique_ptr<Cuda_stream> Cuda_stream::make(const Driver &driver, CUcontext context) {
    const Use_context use(driver, context);
    auto made = std::unique_ptr<Cuda_stream>(new Cuda_stream(driver, context));
    int lowest = 0, highest = 0;
    driver.cuCtxGetStreamPriorityRange(&lowest, &highest);
    if (driver.status("make a stream",
                      driver.cuStreamCreateWithPriority(&made->stream_, CU_STREAM_NON_BLOCKING, highest)) != Status::ok)
        return nullptr;
    made->word_ = Pinned(driver, sizeof *made->reached_);
    made->reached_ = static_cast<uint64_t *>(made->word_.get());
    return made->reached_ ? std::move(made) : nullptr;
}

Cuda_stream::~Cuda_stream() {
    const Use_context use(driver_, context_);
    if (use && stream_)
        driver_.cuStreamDestroy(stream_);
    word_ = {}; // while the context is current
}

Status Cuda_stream::copy(void *dst, const void *src, size_t bytes) {
    if (const Status status = submit(); status != Status::ok)
        return status;
    const Use_context use(driver_, context_);
    if (!use)
        return Status::failed;
    return driver_.status("copy", driver_.cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(dst),
                                                        reinterpret_cast<CUdeviceptr>(src), bytes, stream_));
}

// The default flags put a barrier before each store: what copies wrote is visible first.
Status Cuda_stream::store(uint64_t address, uint64_t value, uint32_t width) {
    if (gathered_ == stores_.size())
        if (const Status status = submit(); status != Status::ok)
            return status;
    CUstreamBatchMemOpParams &next = stores_[gathered_++];
    next = {};
    if (width == sizeof value) {
        next.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
        next.writeValue.value64 = value;
    } else {
        next.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
        next.writeValue.value = static_cast<cuuint32_t>(value);
    }
    next.writeValue.address = address;
    next.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    return Status::ok;
}

Status Cuda_stream::submit() {
    if (gathered_ == 0)
        return Status::ok;
    const unsigned count = gathered_;
    gathered_ = 0;
    const Use_context use(driver_, context_);
    if (!use)
        return Status::failed;
    return driver_.status("store signals", driver_.cuStreamBatchMemOp(stream_, count, stores_.data(), 0));
}

Status Cuda_stream::mark(uint64_t &mark) {
    mark = ++marks_;
    const Status status = store(reinterpret_cast<uint64_t>(reached_), mark, sizeof mark);
    return status == Status::ok ? submit() : status;
}

Status Cuda_stream::reached(uint64_t mark) {
    if (std::atomic_ref<uint64_t>(*reached_).load(std::memory_order_acquire) >= mark)
        return Status::ok;
    // A stream that broke never gets to the word.
    constexpr uint32_t polls_per_query = 1024;
    if (++polls_ % polls_per_query)
        return Status::pending;
    const Use_context use(driver_, context_);
    if (!use)
        return Status::failed;
    const CUresult result = driver_.cuStreamQuery(stream_);
    return result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY ? Status::pending
                                                                    : driver_.status("query a stream", result);
}

} // namespace sdma::gpu::nvidia
