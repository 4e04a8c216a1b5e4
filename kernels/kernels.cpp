// SPDX-License-Identifier: BSD-3-Clause
//
// The kernels for amdgcn (clang -x hip) and host twins (-DSDMA_TWIN). For nvcc the same headers are in
// common/sdma/gpu/hip_nvidia/kernels.cu.
#include "copy.h"
#include "issue.h"
#include "resident.h"

// One workgroup of one wave.
SDMA_KERNEL(64) sdma_issue_kernel(struct sdma_work *work) {
    sdma::report(work, sdma::issue(work, sdma::device::lane(), sdma::device::lanes()));
}

// One workgroup of one wave.
SDMA_KERNEL(64) sdma_resident_kernel(struct sdma_mailbox *mailbox) {
    uint32_t lane = sdma::device::lane(), lanes = sdma::device::lanes();
    sdma::reside(mailbox,
                 [=](sdma_work *work, uint64_t) { return sdma::report(work, sdma::issue(work, lane, lanes)); });
}

// Any number of workgroups of at most 256 lanes.
SDMA_KERNEL(256) sdma_copy_kernel(struct sdma_work *work) { sdma::copy(work); }
