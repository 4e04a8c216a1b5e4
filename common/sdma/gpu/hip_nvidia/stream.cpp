// SPDX-License-Identifier: BSD-3-Clause
#include "stream.hpp"

#include <atomic>

namespace sdma::gpu::nvidia {

std::unique_ptr<Cuda_stream> Cuda_stream::make(const Driver &driver, CUcontext context) {
    const Use_context use(driver, context);
    auto made = std::unique_ptr<Cuda_stream>(new Cuda_stream(driver, context));
    if (make_stream(driver, made->stream_) != Status::ok)
        return nullptr;
    made->word_ = Pinned(driver, sizeof *made->reached_);
    made->reached_ = static_cast<uint64_t *>(made->word_.get());
    return made->reached_ ? std::move(made) : nullptr;
}

Cuda_stream::~Cuda_stream() {
    const Use_context use(driver_, context_);
    if (use) {
        for (CUstream stream : {stream_, side_})
            if (stream)
                driver_.cuStreamDestroy(stream);
        if (copied_)
            driver_.cuEventDestroy(copied_);
    }
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

Status Cuda_stream::store(uint64_t address, uint64_t value, uint32_t width) {
    if (gathered_ + 1 == stores_.size())
        if (const Status status = submit(); status != Status::ok)
            return status;
    add_store(address, value, width);
    return Status::ok;
}

// The default flags put a barrier before each store: what copies wrote is visible first.
void Cuda_stream::add_store(uint64_t address, uint64_t value, uint32_t width) {
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
}

Status Cuda_stream::submit() { return gathered_ == 0 ? Status::ok : give_stores(); }

bool Cuda_stream::finished() const {
    return std::atomic_ref<uint64_t>(*reached_).load(std::memory_order_acquire) == marks_;
}

bool Cuda_stream::open_side() {
    if (side_)
        return copied_ != nullptr; // made once, or never
    return make_stream(driver_, side_) == Status::ok &&
           driver_.status("make an event", driver_.cuEventCreate(&copied_, CU_EVENT_DISABLE_TIMING)) == Status::ok;
}

// What was stored by the side is over once `finished`, so that stores stay in order.
Status Cuda_stream::give_stores() {
    const Use_context use(driver_, context_);
    if (!use) {
        gathered_ = 0;
        return Status::failed;
    }
    CUstream stream = stream_;
    if (!finished() && open_side()) {
        Status status = driver_.status("record an event", driver_.cuEventRecord(copied_, stream_));
        if (status == Status::ok)
            status = driver_.status("wait for an event", driver_.cuStreamWaitEvent(side_, copied_, 0));
        if (status != Status::ok)
            return status;
        stream = side_;
    }
    const unsigned count = gathered_ + 1;
    add_store(reinterpret_cast<uint64_t>(reached_), ++marks_, sizeof marks_);
    gathered_ = 0;
    const Status status = driver_.status("store signals", driver_.cuStreamBatchMemOp(stream, count, stores_.data(), 0));
    if (status == Status::no_memory) { // may pass: they are still there for another attempt
        gathered_ = count - 1;
        --marks_;
    }
    return status;
}

Status Cuda_stream::mark(uint64_t &mark) {
    const Status status = give_stores();
    mark = marks_;
    return status;
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
