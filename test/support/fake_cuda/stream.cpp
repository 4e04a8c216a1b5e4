// SPDX-License-Identifier: BSD-3-Clause
#include "node.hpp"

#include <cstring>
#include <memory>

using namespace fake_cuda;

extern "C" {

CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t bytes, CUstream stream) {
    const Driver_call call;
    stream_of(stream).give([=] { std::memset(reinterpret_cast<void *>(address), value, bytes); });
    return CUDA_SUCCESS;
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    const Driver_call call;
    if (current_device() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    stream_of(stream).give(
        [=] { std::memcpy(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), bytes); });
    return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned, int) {
    const Driver_call call;
    auto *const made = new Stream;
    streams().insert(made);
    *stream = reinterpret_cast<CUstream>(made);
    return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream stream) {
    {
        const Driver_call call;
        streams().erase(reinterpret_cast<Stream *>(stream));
    }
    delete reinterpret_cast<Stream *>(stream);
    return CUDA_SUCCESS;
}
CUresult cuStreamQuery(CUstream stream) { return stream_of(stream).idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; }
CUresult cuStreamSynchronize(CUstream stream) {
    stream_of(stream).wait();
    return CUDA_SUCCESS;
}
CUresult cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams *operations, unsigned) {
    const Driver_call call;
    for (unsigned i = 0; i < count; i++) {
        const auto operation = operations[i].writeValue;
        if (operation.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64)
            stream_of(stream).give([=] {
                __atomic_store_n(reinterpret_cast<uint64_t *>(operation.address), operation.value64, __ATOMIC_RELEASE);
            });
        else if (operation.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32)
            stream_of(stream).give([=] {
                __atomic_store_n(reinterpret_cast<uint32_t *>(operation.address), operation.value, __ATOMIC_RELEASE);
            });
        else
            return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

// What record() put into a stream last; a wait is for that one.
struct CUevent_st {
    std::shared_ptr<std::atomic<bool>> reached = std::make_shared<std::atomic<bool>>(true);
};
CUresult cuEventCreate(CUevent *event, unsigned) {
    *event = new CUevent_st;
    return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent event) {
    delete event;
    return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
    const Driver_call call;
    event->reached = std::make_shared<std::atomic<bool>>(false);
    stream_of(stream).give([reached = event->reached] {
        reached->store(true);
        reached->notify_all();
    });
    return CUDA_SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
    const Driver_call call;
    stream_of(stream).give([reached = event->reached] { reached->wait(false); });
    return CUDA_SUCCESS;
}

} // extern "C"
