// SPDX-License-Identifier: BSD-3-Clause
//
// Deliberate mistakes that the tests must catch, switched on by -DSDMA_MUTANT_...; test builds only.
#pragma once

#if !defined(SDMA_TEST_BUILD) &&                                                                                       \
    (defined(SDMA_MUTANT_SIGNAL_FIRST) || defined(SDMA_MUTANT_TWO_RESERVATIONS) ||                                     \
     defined(SDMA_MUTANT_DOORBELL_FIRST) || defined(SDMA_MUTANT_NO_DRAIN) || defined(SDMA_MUTANT_NO_RELEASE_DRAIN) ||  \
     defined(SDMA_MUTANT_HALF_DOORBELL) || defined(SDMA_MUTANT_NARROW_SCOPE) || defined(SDMA_MUTANT_NO_PAD) ||         \
     defined(SDMA_MUTANT_NO_CLOSING_DRAIN) || defined(SDMA_MUTANT_BLIND_END) || defined(SDMA_MUTANT_NO_POST_DRAIN) ||  \
     defined(SDMA_MUTANT_EARLY_FLUSH))
#error "SDMA_MUTANT_* belongs in test builds (SDMA_TEST_BUILD)"
#endif

namespace sdma::mutant {

#ifdef SDMA_MUTANT_SIGNAL_FIRST // the signals before the copies
inline constexpr bool signal_first = true;
#else
inline constexpr bool signal_first = false;
#endif

#ifdef SDMA_MUTANT_TWO_RESERVATIONS // copies and signals reserved apart: others may come between
inline constexpr bool two_reservations = true;
#else
inline constexpr bool two_reservations = false;
#endif

#ifdef SDMA_MUTANT_DOORBELL_FIRST // the doorbell before the write pointer
inline constexpr bool doorbell_first = true;
#else
inline constexpr bool doorbell_first = false;
#endif

#ifdef SDMA_MUTANT_NO_DRAIN // nothing waits for packets to arrive before they are published
inline constexpr bool no_drain = true;
#else
inline constexpr bool no_drain = false;
#endif

#ifdef SDMA_MUTANT_NO_RELEASE_DRAIN // the compiler's own release, without the explicit wait
inline constexpr bool no_release_drain = true;
#else
inline constexpr bool no_release_drain = false;
#endif

#ifdef SDMA_MUTANT_HALF_DOORBELL // the doorbell as two 32-bit stores
inline constexpr bool half_doorbell = true;
#else
inline constexpr bool half_doorbell = false;
#endif

#ifdef SDMA_MUTANT_NARROW_SCOPE // packets, write pointer and doorbell stored at workgroup scope
inline constexpr bool narrow_scope = true;
#else
inline constexpr bool narrow_scope = false;
#endif

#ifdef SDMA_MUTANT_NO_PAD // packets run over the end of the ring
inline constexpr bool no_pad = true;
#else
inline constexpr bool no_pad = false;
#endif

#ifdef SDMA_MUTANT_NO_CLOSING_DRAIN // the resident kernel looks again before others see that it closes
inline constexpr bool no_closing_drain = true;
#else
inline constexpr bool no_closing_drain = false;
#endif

#ifdef SDMA_MUTANT_BLIND_END // the resident kernel ends without looking again
inline constexpr bool blind_end = true;
#else
inline constexpr bool blind_end = false;
#endif

#ifdef SDMA_MUTANT_NO_POST_DRAIN // the host looks at the kernel's state before the kernel sees the record
inline constexpr bool no_post_drain = true;
#else
inline constexpr bool no_post_drain = false;
#endif

#ifdef SDMA_MUTANT_EARLY_FLUSH // one-sided operations count as complete once they are issued
inline constexpr bool early_flush = true;
#else
inline constexpr bool early_flush = false;
#endif

} // namespace sdma::mutant
