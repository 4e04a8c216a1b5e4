// SPDX-License-Identifier: BSD-3-Clause
//
// Entry points for NVIDIA GPUs around the kernels of kernels/: the record is brought on the chip
// first, and a pinned word says when a kernel has ended, so that no event is needed.
#include "../../../../kernels/copy.h"
#include "../../../../kernels/issue.h"
#include "../../../../kernels/resident.h"
#include "arguments.h"

namespace {

// The record in shared memory, its queues pointing at ring descriptions there. Every lane of the
// workgroup calls it.
template <typename Arguments> __device__ const sdma_work *stage(const Arguments &arguments, uint64_t *shared) {
    const uint64_t words = arguments.launch.words;
    if (words == 0)
        return reinterpret_cast<const sdma_work *>(arguments.launch.record);
    for (uint64_t i = threadIdx.x; i < sizeof arguments.inline_words / 8; i += blockDim.x)
        shared[i] = arguments.inline_words[i];
    __syncthreads();
    auto *record = reinterpret_cast<sdma_work *>(shared);
    auto *queues = reinterpret_cast<sdma_work_queue *>(reinterpret_cast<char *>(shared) + record->queues_offset);
    for (uint32_t q = threadIdx.x; q < record->queues; q += blockDim.x)
        queues[q].ring = reinterpret_cast<uint64_t>(shared + words) + q * sizeof(sdma_ring);
    __syncthreads();
    return record;
}

// The same with a record that lies in host memory, as the host would have laid it out.
__device__ const sdma_work *fetch(const sdma_work *work, uint64_t bytes, uint64_t *shared) {
    constexpr uint64_t ring_words = sizeof(sdma_ring) / 8;
    const uint64_t words = bytes / 8;
    if (words > SDMA_INLINE_LARGE)
        return work;
    for (uint64_t i = threadIdx.x; i < words; i += blockDim.x)
        shared[i] = reinterpret_cast<const uint64_t *>(work)[i];
    __syncwarp();
    auto *record = reinterpret_cast<sdma_work *>(shared);
    if (!sdma::plan::record_ok(*record) || words + record->queues * ring_words > SDMA_INLINE_LARGE)
        return work;
    auto *queues = reinterpret_cast<sdma_work_queue *>(reinterpret_cast<char *>(shared) + record->queues_offset);
    for (uint64_t i = threadIdx.x; i < record->queues * ring_words; i += blockDim.x)
        shared[words + i] = reinterpret_cast<const uint64_t *>(queues[i / ring_words].ring)[i % ring_words];
    __syncwarp();
    for (uint32_t q = threadIdx.x; q < record->queues; q += blockDim.x)
        queues[q].ring = reinterpret_cast<uint64_t>(shared + words + q * ring_words);
    __syncwarp();
    return record;
}

__device__ sdma_work *home(const sdma_launch &launch) { return reinterpret_cast<sdma_work *>(launch.record); }

// One workgroup of one wave.
template <typename Arguments> __device__ void issue(const Arguments &arguments, uint64_t *shared) {
    const sdma_work *record = stage(arguments, shared);
    sdma::report(home(arguments.launch), sdma::issue(record, threadIdx.x, blockDim.x));
    __syncwarp();
    if (threadIdx.x == 0)
        sdma::device::store_last(arguments.launch.done, 1);
}

// True for one lane of the grid, when every store of every lane is visible to the system. The
// counter is in device memory: the GPU may have no atomics on host memory.
__device__ bool last_of_grid(uint64_t counter) {
    __syncthreads();
    if (threadIdx.x != 0)
        return false;
    sdma::device::release_system_and_drain(); // for the whole workgroup: it follows the barrier
    if (gridDim.x == 1)
        return true;
    auto *finished = reinterpret_cast<unsigned int *>(counter);
    if (atomicAdd(finished, 1) != gridDim.x - 1)
        return false;
    *finished = 0;
    sdma::device::release_system_and_drain();
    return true;
}

// One fence, then every word that says so. The launch's word stands for the status of a record that
// was served: it tells the host that nothing looks at the record any more.
template <typename Arguments> __device__ void copy(const Arguments &arguments, uint64_t *shared) {
    namespace copying = sdma::copying;
    const sdma_work *record = stage(arguments, shared);
    uint64_t tiles = 0;
    const bool good = sdma::plan::record_ok(*record) && copying::count_tiles(record, tiles);
    if (good)
        copying::copy_share(record, sdma::plan::share(tiles, gridDim.x, blockIdx.x));
    if (!last_of_grid(arguments.launch.counter))
        return;
    if (good && record->kernel_signals)
        copying::raise_signals(record);
    if (good) {
        sdma::device::store_system(arguments.launch.done, 1);
    } else {
        sdma::device::store_system(reinterpret_cast<uint64_t>(&home(arguments.launch)->status), SDMA_WORK_BAD);
        sdma::device::store_last(arguments.launch.done, 1);
    }
}

} // namespace

SDMA_KERNEL(32) sdma_issue_small(const __grid_constant__ sdma_launch_small arguments) {
    __shared__ uint64_t shared[SDMA_INLINE_SMALL];
    issue(arguments, shared);
}

SDMA_KERNEL(32) sdma_issue_large(const __grid_constant__ sdma_launch_large arguments) {
    __shared__ uint64_t shared[SDMA_INLINE_LARGE];
    issue(arguments, shared);
}

SDMA_KERNEL(32) sdma_resident(const sdma_residence residence) {
    __shared__ uint64_t shared[SDMA_INLINE_LARGE];
    sdma::reside(reinterpret_cast<sdma_mailbox *>(residence.mailbox), [&](sdma_work *work, uint64_t bytes) {
        const sdma_work *record = fetch(work, bytes, shared);
        const bool told = sdma::report(work, sdma::issue(record, threadIdx.x, blockDim.x));
        __syncwarp(); // before the next record
        return told;
    });
    if (threadIdx.x == 0) {
        sdma::device::drain();
        sdma::device::store_system(residence.done, 1);
    }
}

SDMA_KERNEL(256) sdma_copy_small(const __grid_constant__ sdma_launch_small arguments) {
    __shared__ uint64_t shared[SDMA_INLINE_SMALL];
    copy(arguments, shared);
}

SDMA_KERNEL(256) sdma_copy_large(const __grid_constant__ sdma_launch_large arguments) {
    __shared__ uint64_t shared[SDMA_INLINE_LARGE];
    copy(arguments, shared);
}
