// SPDX-License-Identifier: BSD-3-Clause
#include "node.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "common/sdma/gpu/hip_nvidia/arguments.h"
#include "kernels/copy.h"
#include "kernels/issue.h"
#include "kernels/resident.h"

using namespace fake_cuda;

namespace {

constexpr const char *kernel_names[] = {"sdma_issue_small", "sdma_issue_large", "sdma_copy_small", "sdma_copy_large",
                                        "sdma_resident"};

void run_kernel(size_t kernel, const sdma_launch &launch) {
    auto *work = reinterpret_cast<sdma_work *>(launch.record);
    if (kernel < 2)
        sdma::report(work, sdma::issue(work, 0, 1));
    else
        sdma::copy(work);
    __atomic_store_n(reinterpret_cast<uint64_t *>(launch.done), 1, __ATOMIC_RELEASE);
}

// What the real kernel takes the record from.
void check_carried(const sdma_mailbox_carried &carried, uint64_t number, const sdma_work *work) {
    const uint64_t *const words = carried.words[number % SDMA_MAILBOX_SLOTS];
    std::vector<char> values;
    for (uint32_t i = 0; i <= static_cast<uint32_t>(words[0]); i++) {
        if (words[i] >> 32 != static_cast<uint32_t>(number + 1))
            std::abort();
        const auto value = static_cast<uint32_t>(words[i]);
        values.insert(values.end(), reinterpret_cast<const char *>(&value), reinterpret_cast<const char *>(&value + 1));
    }
    if (values.size() == sizeof(uint32_t))
        return; // not carried
    std::vector<char> expected(sizeof(uint32_t));
    const auto add = [&expected](const void *from, size_t bytes) {
        expected.insert(expected.end(), static_cast<const char *>(from), static_cast<const char *>(from) + bytes);
    };
    add(&work, sizeof work);
    add(work, work->record_bytes);
    const auto *queues =
        reinterpret_cast<const sdma_work_queue *>(reinterpret_cast<const char *>(work) + work->queues_offset);
    for (uint32_t q = 0; q < work->queues; q++)
        add(reinterpret_cast<const void *>(queues[q].ring), sizeof(sdma_ring));
    if (values.size() != expected.size() || !std::equal(values.begin() + 4, values.end(), expected.begin() + 4))
        std::abort();
}

void reside(const sdma_residence &residence) {
    auto *const mailbox = reinterpret_cast<sdma_mailbox *>(residence.mailbox);
    uint64_t number = mailbox->done;
    sdma::reside(mailbox, [&](sdma_work *work, uint64_t) {
        check_carried(*reinterpret_cast<const sdma_mailbox_carried *>(mailbox + 1), number++, work);
        sdma::Outcome outcome = sdma::issue(work, 0, 1);
        uint64_t tiles = 0;
        if (work->resident_copies && sdma::copying::count_tiles(work, tiles, sdma::plan::wave_tile_bytes)) {
            sdma::copying::copy_share(work, {0, tiles}, {0, 1}, sdma::plan::wave_tile_bytes);
            sdma::copying::raise_signals(work);
        }
        return sdma::report(work, outcome);
    });
    __atomic_store_n(reinterpret_cast<uint64_t *>(residence.done), 1, __ATOMIC_RELEASE);
}

} // namespace

extern "C" {

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    if (std::memcmp(image, "\177ELF", 4) != 0) // a cubin is one
        return CUDA_ERROR_INVALID_IMAGE;
    *module = reinterpret_cast<CUmodule>(const_cast<void *>(image));
    return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction *function, CUmodule, const char *name) {
    for (const char *const &known : kernel_names)
        if (std::strcmp(known, name) == 0) {
            *function = reinterpret_cast<CUfunction>(const_cast<const char **>(&known));
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}
CUresult cuLaunchKernel(CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        CUstream stream, void **parameters, void **) {
    const Driver_call call;
    const auto kernel = static_cast<size_t>(reinterpret_cast<const char *const *>(function) - std::begin(kernel_names));
    if (std::strcmp(kernel_names[kernel], "sdma_resident") == 0)
        stream_of(stream).give(
            [residence = *static_cast<const sdma_residence *>(parameters[0])] { reside(residence); });
    else
        stream_of(stream).give( // sdma_launch is first in either form
            [=, launch = *static_cast<const sdma_launch *>(parameters[0])] { run_kernel(kernel, launch); });
    return CUDA_SUCCESS;
}

} // extern "C"
