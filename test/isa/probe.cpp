// SPDX-License-Identifier: BSD-3-Clause
//
// Small kernels around the functions whose instructions matter, with addresses that check_isa.py
// recognises in the assembly.
#include "common/sdma/ring/producer.h"
#include "kernels/resident.h"

namespace {

inline constexpr sdma_ring ring = {0x111100001000, 4096,           0x222200002000,
                                   0x333300003000, 0x444400004000, 0x555500005000};
inline constexpr uint64_t mailbox = 0x666600006000, record = 0x777700007000;

} // namespace

// One packet, published.
SDMA_KERNEL(64) probe_publish(uint64_t src, uint64_t dst) {
    sdma::ring::Reservation reservation{64, 64, 64 + sdma::packet::Copy::size()};
    sdma::ring::Writer writer = sdma::ring::begin(ring, reservation);
    put(writer, sdma::packet::copy(src, dst, 4096));
    sdma::ring::publish(ring, reservation);
}

// A wave with no store of its own in flight: here compilers have dropped the wait for the write-back.
SDMA_KERNEL(64) probe_release() {
    sdma::device::release_system_and_drain();
    sdma::device::store_doorbell(ring.doorbell, 64);
}

// The resident kernel's last look.
SDMA_KERNEL(64) probe_close(uint64_t *out) {
    sdma::residing::Idle idle{0, 1};
    *out = sdma::residing::close(sdma::device::pointer<sdma_mailbox>(mailbox), 5, idle);
}

// Its way from the mailbox to a record.
SDMA_KERNEL(64) probe_acquire(uint64_t *out) {
    if (sdma::residing::load(sdma::device::pointer<sdma_mailbox>(mailbox)->head) != 5) {
        sdma::device::acquire_system();
        *out = sdma::device::load<uint64_t>(record);
    }
}
