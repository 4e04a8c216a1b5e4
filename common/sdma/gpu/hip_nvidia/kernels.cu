// SPDX-License-Identifier: BSD-3-Clause
//
// Entry points for NVIDIA GPUs around the kernels of kernels/: the record is brought on the chip
// first, and a pinned word says when a kernel has ended, so that no event is needed.
#include "../../../../kernels/copy.h"
#include "../../../../kernels/issue.h"
#include "../../../../kernels/resident.h"
#include "arguments.h"

namespace {

// The queues' rings, which follow the record in shared memory.
__device__ const sdma_work *point_at_rings(sdma_work *record, uint32_t lane, uint32_t lanes) {
    auto *queues = reinterpret_cast<sdma_work_queue *>(reinterpret_cast<char *>(record) + record->queues_offset);
    for (uint32_t q = lane; q < record->queues; q += lanes)
        queues[q].ring = reinterpret_cast<uint64_t>(record) + record->record_bytes + q * sizeof(sdma_ring);
    return record;
}

// A record in host memory, by one wave: all lanes load at once, where one would make a trip over the bus for each word
// (5 us per put in a window of 64, 2 x H200).
__device__ const sdma_work *fetch(const sdma_work *work, uint64_t bytes, uint64_t *shared) {
    constexpr uint64_t ring_words = sizeof(sdma_ring) / 8;
    const uint64_t words = bytes / 8;
    if (words > SDMA_STAGED)
        return work;
    for (uint64_t i = threadIdx.x; i < words; i += 32)
        shared[i] = reinterpret_cast<const uint64_t *>(work)[i];
    __syncwarp();
    auto *record = reinterpret_cast<sdma_work *>(shared);
    if (!sdma::plan::record_ok(*record) || words + record->queues * ring_words > SDMA_STAGED)
        return work;
    const auto *queues =
        reinterpret_cast<const sdma_work_queue *>(reinterpret_cast<const char *>(shared) + record->queues_offset);
    for (uint64_t i = threadIdx.x; i < record->queues * ring_words; i += 32)
        shared[words + i] = reinterpret_cast<const uint64_t *>(queues[i / ring_words].ring)[i % ring_words];
    __syncwarp();
    point_at_rings(record, threadIdx.x, 32);
    __syncwarp();
    return record;
}

// The record that came with the launch, in shared memory. Every lane of the workgroup calls it.
template <typename Arguments> __device__ const sdma_work *stage(const Arguments &arguments, uint64_t *shared) {
    for (uint64_t i = threadIdx.x; i < sizeof arguments.inline_words / 8; i += blockDim.x)
        shared[i] = arguments.inline_words[i];
    __syncthreads();
    const sdma_work *record = point_at_rings(reinterpret_cast<sdma_work *>(shared), threadIdx.x, blockDim.x);
    __syncthreads();
    return record;
}

__device__ sdma_work *home(const sdma_launch &launch) { return reinterpret_cast<sdma_work *>(launch.record); }

// One workgroup of one wave.
template <typename Arguments> __device__ void issue(const Arguments &arguments, const sdma_work *record) {
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

namespace copying = sdma::copying;
constexpr uint32_t wave = 32;

__device__ uint32_t wave_number() { return threadIdx.x / wave; }
__device__ copying::Group this_wave() { return {threadIdx.x % wave, wave}; }

// This workgroup's part of all LOADSTORE peers; false if one makes no sense. A workgroup that is alone has little to
// copy: its waves share it, so that no block waits for another one's loads.
__device__ bool copy_part(const sdma_work *record) {
    const bool alone = gridDim.x == 1;
    const uint64_t tile = alone ? sdma::plan::wave_tile_bytes : sdma::plan::tile_bytes;
    uint64_t tiles = 0;
    if (!sdma::plan::record_ok(*record) || !copying::count_tiles(record, tiles, tile))
        return false;
    const uint64_t parts = alone ? blockDim.x / wave : gridDim.x, part = alone ? wave_number() : blockIdx.x;
    const copying::Group all{threadIdx.x, blockDim.x};
    copying::copy_share(record, sdma::plan::share(tiles, parts, part), alone ? this_wave() : all, tile);
    return true;
}

// One fence, then every word that says so. The launch's word stands for the status of a record that
// was served: it tells the host that nothing looks at the record any more.
__device__ void copy(const sdma_launch &launch, const sdma_work *record) {
    const bool good = copy_part(record);
    if (!last_of_grid(launch.counter))
        return;
    if (good && record->kernel_signals)
        copying::raise_signals(record);
    if (good) {
        sdma::device::store_system(launch.done, 1);
    } else {
        sdma::device::store_system(reinterpret_cast<uint64_t>(&home(launch)->status), SDMA_WORK_BAD);
        sdma::device::store_last(launch.done, 1);
    }
}

// ---- the resident kernel ---------------------------------------------------------------------------
//
// Wave 0 resides; the other waves of the workgroup help it to copy.

struct Task {
    const sdma_work *record; // nullptr: go home
    uint64_t tiles;
};

__device__ void meet() { asm volatile("barrier.sync 1, %0;" ::"n"(SDMA_RESIDENT_LANES) : "memory"); }

__device__ void copy_task(const Task &task) {
    copying::copy_share(task.record, sdma::plan::share(task.tiles, SDMA_RESIDENT_LANES / wave, wave_number()),
                        this_wave(), sdma::plan::wave_tile_bytes);
}

__device__ void help(const Task &task) {
    for (meet(); task.record; meet()) {
        copy_task(task);
        meet();
    }
}

// Of wave 0.
class Server {
public:
    __device__ Server(sdma_mailbox *mailbox, uint64_t *shared, Task &task)
        : words_(reinterpret_cast<uint64_t>(mailbox + 1)), shared_(shared), task_(task) {}

    // Two words per lane of what the next record will carry, under way together with the look at the mailbox's head:
    // the records of small operations are whole then.
    __device__ void expect(uint64_t number) {
        number_ = number;
        for (uint32_t i = 0; i < early_; i++)
            seen_[i] = sdma::device::load_system(word(number, threadIdx.x + i * wave));
    }
    __device__ void rest() {} // a look is a trip over the bus, which is rest enough

    __device__ bool serve(uint64_t number, const sdma_mailbox_entry &entry) {
        auto *record = reinterpret_cast<sdma_work *>(shared_ + 1);
        auto *origin = reinterpret_cast<sdma_work *>(shared_);
        bool whole = false;
        if (take(number)) {
            origin = *reinterpret_cast<sdma_work **>(shared_);
            whole = true;
        } else { // too large: from where the host has it
            using sdma::residing::load;
            sdma::device::acquire_system();
            origin = reinterpret_cast<sdma_work *>(load(entry.record));
            record = const_cast<sdma_work *>(fetch(origin, load(entry.bytes), shared_));
        }
        const bool good = sdma::plan::record_ok(*record);
        if (whole && good)
            point_at_rings(record, threadIdx.x, wave);
        __syncwarp();
        sdma::Outcome outcome{SDMA_WORK_ISSUED, 0};
        if (!good || record->queues != 0)
            outcome = sdma::issue(record, threadIdx.x, wave);
        __syncwarp();
        if (good && record->resident_copies && !copy(record))
            outcome.status = SDMA_WORK_BAD;
        const bool told = sdma::report(origin, outcome);
        __syncwarp(); // before the next record
        return told;
    }

private:
    static constexpr uint32_t early_ = 2;

    __device__ uint64_t word(uint64_t number, uint32_t index) const {
        return words_ + ((number % SDMA_MAILBOX_SLOTS) * SDMA_MAILBOX_WORDS + index) * sizeof(uint64_t);
    }
    __device__ static bool tagged(uint64_t seen, uint64_t number) {
        return static_cast<uint32_t>(seen >> 32) == static_cast<uint32_t>(number + 1);
    }
    // How many values are carried. 0 as well if the early look came before the host had written them all.
    __device__ uint32_t count(uint64_t number) const {
        const uint64_t first = __shfl_sync(0xffffffff, seen_[0], 0);
        const uint32_t values = tagged(first, number) ? static_cast<uint32_t>(first) : 0;
        bool all = true;
        for (uint32_t i = 0; i < early_; i++)
            all &= threadIdx.x + i * wave > values || tagged(seen_[i], number);
        return __all_sync(0xffffffff, all) ? values : 0;
    }
    // The carried values into shared memory; false if there are none.
    __device__ bool take(uint64_t number) {
        uint32_t values = number_ == number ? count(number) : 0;
        if (values == 0) { // head has been seen since: whatever the host wrote before it is there now
            expect(number);
            values = count(number);
        }
        if (values == 0 || values >= SDMA_MAILBOX_WORDS)
            return false;
        auto *const to = reinterpret_cast<uint32_t *>(shared_) - 1;
        for (uint32_t i = 0; i < early_; i++)
            if (const uint32_t at = threadIdx.x + i * wave; at != 0 && at <= values)
                to[at] = static_cast<uint32_t>(seen_[i]);
        bool all = true;
        for (uint32_t at = threadIdx.x + early_ * wave; at <= values; at += wave) {
            const uint64_t late = sdma::device::load_system(word(number, at));
            all &= tagged(late, number);
            to[at] = static_cast<uint32_t>(late);
        }
        __syncwarp();
        return __all_sync(0xffffffff, all);
    }
    // By all waves; one fence, then the signals.
    __device__ bool copy(const sdma_work *record) {
        uint64_t tiles = 0;
        if (!copying::count_tiles(record, tiles, sdma::plan::wave_tile_bytes))
            return false;
        if (threadIdx.x == 0)
            task_ = {record, tiles};
        __syncwarp();
        meet();
        copy_task(task_);
        meet();
        if (threadIdx.x == 0) {
            sdma::device::release_system_and_drain();
            copying::raise_signals(record);
        }
        return true;
    }

    const uint64_t words_;
    uint64_t *const shared_;
    Task &task_;
    uint64_t number_ = ~uint64_t{0};
    uint64_t seen_[early_] = {};
};

} // namespace

SDMA_KERNEL(32) sdma_issue_small(const __grid_constant__ sdma_launch_small arguments) {
    __shared__ uint64_t shared[SDMA_INLINE_SMALL];
    issue(arguments, stage(arguments, shared));
}

SDMA_KERNEL(32) sdma_issue_large(const __grid_constant__ sdma_launch_large arguments) {
    __shared__ uint64_t shared[SDMA_STAGED];
    const bool here = arguments.launch.words != 0;
    const sdma_work *const record = home(arguments.launch);
    issue(arguments, here ? stage(arguments, shared) : fetch(record, record->record_bytes, shared));
}

SDMA_KERNEL(SDMA_RESIDENT_LANES) sdma_resident(const sdma_residence residence) {
    __shared__ uint64_t shared[SDMA_STAGED];
    __shared__ Task task;
    if (wave_number() != 0) {
        help(task);
        return;
    }
    auto *const mailbox = reinterpret_cast<sdma_mailbox *>(residence.mailbox);
    Server server(mailbox, shared, task);
    sdma::reside_as(mailbox, server);
    if (threadIdx.x == 0)
        task.record = nullptr;
    __syncwarp();
    meet();
    if (threadIdx.x == 0) {
        sdma::device::drain();
        sdma::device::store_system(residence.done, 1);
    }
}

// Straight from the launch's constants, which all lanes read at once.
SDMA_KERNEL(256) sdma_copy_small(const __grid_constant__ sdma_launch_small arguments) {
    copy(arguments.launch, reinterpret_cast<const sdma_work *>(arguments.inline_words));
}

SDMA_KERNEL(256) sdma_copy_large(const __grid_constant__ sdma_launch_large arguments) {
    __shared__ uint64_t shared[SDMA_INLINE_LARGE];
    const bool here = arguments.launch.words != 0;
    copy(arguments.launch, here ? stage(arguments, shared) : home(arguments.launch));
}
