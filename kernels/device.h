// SPDX-License-Identifier: BSD-3-Clause
//
// All that differs between targets, but for NVIDIA's entry points (hip_nvidia/kernels.cu): amdgcn
// by plain clang (no HIP headers, no device libraries), nvcc (sm_70 and later), and the host.
// Addresses are integers, as in the shared structs; on amdgcn they become global, not flat,
// accesses, so that vmcnt counts them.
//
//   system   memory that other devices and the host see; relaxed, ordered by drain() (store_last: where a
//            target has a releasing store it is one)
//   cursor   producers' cursors, seen by this device's producers only; peek: what orders nothing
//
// The host's accesses are acquire and release, which costs x86 nothing and which other CPUs need.
// There, a caller is one lane of one workgroup; compiled with SDMA_TWIN, a lane of a twin kernel
// (twin.h); with SDMA_TWIN_ACCESS as well, the test supplies every shared access.
#pragma once

#include <stdint.h>

#include "mutants.h"

#if defined(__HIP__)

#define SDMA_DEVICE static inline __attribute__((device))
#define SDMA_DEVICE_MEMBER inline __attribute__((device))
#define SDMA_KERNEL(most_lanes) extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, most_lanes))) void

namespace sdma::device {

template <typename T> using Global = __attribute__((address_space(1))) T;

SDMA_DEVICE uint32_t lane() { return __builtin_amdgcn_workitem_id_x(); }
SDMA_DEVICE uint32_t lanes() { return __builtin_amdgcn_workgroup_size_x(); }
SDMA_DEVICE uint32_t workgroup() { return __builtin_amdgcn_workgroup_id_x(); }
SDMA_DEVICE uint32_t workgroups() { return __builtin_amdgcn_grid_size_x() / lanes(); }

inline constexpr int system_scope = mutant::narrow_scope ? __HIP_MEMORY_SCOPE_WORKGROUP : __HIP_MEMORY_SCOPE_SYSTEM;

SDMA_DEVICE uint64_t load_system(uint64_t address) {
    return __hip_atomic_load((Global<uint64_t> *)address, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
SDMA_DEVICE void store_system(uint64_t address, uint64_t value) {
    __hip_atomic_store((Global<uint64_t> *)address, value, __ATOMIC_RELAXED, system_scope);
}
SDMA_DEVICE void store_last(uint64_t address, uint64_t value) { store_system(address, value); }
SDMA_DEVICE void store_system_dword(uint64_t address, uint32_t value) {
    __hip_atomic_store((Global<uint32_t> *)address, value, __ATOMIC_RELAXED, system_scope);
}
SDMA_DEVICE uint32_t add_system(uint64_t address, uint32_t value) {
    return __hip_atomic_fetch_add((Global<uint32_t> *)address, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

SDMA_DEVICE uint64_t load_cursor(uint64_t address) {
    return __hip_atomic_load((Global<uint64_t> *)address, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
SDMA_DEVICE uint64_t peek_cursor(uint64_t address) { return load_cursor(address); }
SDMA_DEVICE void store_cursor(uint64_t address, uint64_t value) {
    __hip_atomic_store((Global<uint64_t> *)address, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
SDMA_DEVICE bool swap_cursor(uint64_t address, uint64_t expected, uint64_t wanted) {
    return __hip_atomic_compare_exchange_strong((Global<uint64_t> *)address, &expected, wanted, __ATOMIC_RELAXED,
                                                __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

// Every store of this wave has reached memory. By name, not by __builtin_amdgcn_s_waitcnt, whose
// immediate means something else on each generation.
SDMA_DEVICE void drain() {
#if defined(__GFX12__)
    __asm__ volatile("s_wait_storecnt 0x0" ::: "memory");
#elif defined(__GFX10__) || defined(__GFX11__)
    __asm__ volatile("s_waitcnt_vscnt null, 0x0" ::: "memory");
#else
    __asm__ volatile("s_waitcnt vmcnt(0)" ::: "memory");
#endif
}
SDMA_DEVICE void drain_ring(uint64_t) { drain(); }
SDMA_DEVICE void drain_write_pointer() { drain(); }
SDMA_DEVICE void drain_doorbell() { drain(); }

// Make what this wave, and kernels before it, wrote visible to engines and peers. The explicit
// drain is not redundant: clang up to 22.1 drops the wait for the cache write-back when the wave
// has no store of its own in flight (llvm-project pull request 178316).
SDMA_DEVICE void release_system_and_drain() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
    if constexpr (!mutant::no_release_drain) {
        drain();
    }
}

SDMA_DEVICE void release_earlier_kernels() { release_system_and_drain(); }

// What others stored before a store that this wave has loaded: no older copy is in its caches.
SDMA_DEVICE void acquire_system() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, ""); }

SDMA_DEVICE void pause() { __builtin_amdgcn_s_sleep(1); }

// Of the counter that LLVM's AMDGPU guide and HIP's wall_clock64() describe: 100 MHz.
SDMA_DEVICE uint64_t clock_ns() {
#if defined(__GFX11__) || defined(__GFX12__)
    return __builtin_readsteadycounter() * 10;
#else
    return __builtin_amdgcn_s_memrealtime() * 10;
#endif
}

// Lanes of a wave run in lock step: a lane that left a loop does not go on before the last one
// has. A loop over this leaves no lane behind, whatever the compiler does to its exits.
SDMA_DEVICE bool any_lane(bool predicate) {
#if !__has_builtin(__builtin_amdgcn_ballot_w64)
    return __builtin_amdgcn_uicmp(predicate, 0, 33) != 0; // clang 14; 33 is "not equal"
#elif defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__)
    return __builtin_amdgcn_ballot_w32(predicate) != 0;
#else
    return __builtin_amdgcn_ballot_w64(predicate) != 0;
#endif
}

// All lanes of the wave are here and get the value of lane 0.
inline constexpr bool lock_step = true;
SDMA_DEVICE uint64_t broadcast(uint64_t, uint64_t value) {
    uint64_t low = static_cast<uint32_t>(__builtin_amdgcn_readfirstlane(static_cast<int>(value)));
    uint64_t high = static_cast<uint32_t>(__builtin_amdgcn_readfirstlane(static_cast<int>(value >> 32)));
    return high << 32 | low;
}

SDMA_DEVICE void workgroup_sync() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

template <typename T> SDMA_DEVICE T *pointer(uint64_t address) { return (T *)(Global<T> *)address; }
template <typename T> SDMA_DEVICE T load(uint64_t address) { return *(const Global<T> *)address; }
template <typename T> SDMA_DEVICE void store(uint64_t address, T value) { *(Global<T> *)address = value; }
typedef uint32_t Vector __attribute__((ext_vector_type(4)));

} // namespace sdma::device

#elif defined(__CUDACC__)

#define SDMA_DEVICE static inline __device__
#define SDMA_DEVICE_MEMBER __device__ __forceinline__
#define SDMA_KERNEL(most_lanes) extern "C" __global__ void __launch_bounds__(most_lanes)

namespace sdma::device {

SDMA_DEVICE uint32_t lane() { return threadIdx.x; }
SDMA_DEVICE uint32_t lanes() { return blockDim.x; }
SDMA_DEVICE uint32_t workgroup() { return blockIdx.x; }
SDMA_DEVICE uint32_t workgroups() { return gridDim.x; }

SDMA_DEVICE uint64_t load_system(uint64_t address) {
    uint64_t value;
    asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
}
SDMA_DEVICE void store_system(uint64_t address, uint64_t value) {
    asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}
// What was stored before it is visible to whoever acquires it.
SDMA_DEVICE void store_last(uint64_t address, uint64_t value) {
    asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}
SDMA_DEVICE void store_system_dword(uint64_t address, uint32_t value) {
    asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}
SDMA_DEVICE uint32_t add_system(uint64_t address, uint32_t value) {
    uint32_t old;
    asm volatile("atom.add.acq_rel.sys.u32 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(value) : "memory");
    return old;
}

SDMA_DEVICE uint64_t load_cursor(uint64_t address) {
    uint64_t value;
    asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
}
SDMA_DEVICE uint64_t peek_cursor(uint64_t address) {
    uint64_t value;
    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
}
SDMA_DEVICE void store_cursor(uint64_t address, uint64_t value) {
    asm volatile("st.release.gpu.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}
SDMA_DEVICE bool swap_cursor(uint64_t address, uint64_t expected, uint64_t wanted) {
    uint64_t old;
    asm volatile("atom.cas.relaxed.gpu.b64 %0, [%1], %2, %3;"
                 : "=l"(old)
                 : "l"(address), "l"(expected), "l"(wanted)
                 : "memory");
    return old == expected;
}

SDMA_DEVICE void drain() { __threadfence_system(); }
SDMA_DEVICE void release_system_and_drain() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
// A fence waits for a trip over the bus, and the reader of these rings is a host thread, which acquires
// the doorbell and looks at nothing else before: it is enough that the doorbell is a releasing store.
// The release and acquire of the commit cursor put the doorbells of several producers in order. What
// earlier kernels wrote became visible when they ended.
SDMA_DEVICE void drain_ring(uint64_t) {}
SDMA_DEVICE void drain_write_pointer() {}
SDMA_DEVICE void drain_doorbell() {}
SDMA_DEVICE void release_earlier_kernels() {}
SDMA_DEVICE void acquire_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
SDMA_DEVICE void pause() { __nanosleep(100); }
SDMA_DEVICE uint64_t clock_ns() {
    uint64_t now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)::"memory");
    return now;
}

// Lanes make progress on their own since sm_70.
SDMA_DEVICE bool any_lane(bool predicate) { return predicate; }

// All lanes of the wave come here and get the value of lane 0.
inline constexpr bool lock_step = true;
SDMA_DEVICE uint64_t broadcast(uint64_t, uint64_t value) { return __shfl_sync(0xffffffff, value, 0); }

SDMA_DEVICE void workgroup_sync() { __syncthreads(); }

template <typename T> SDMA_DEVICE T *pointer(uint64_t address) { return reinterpret_cast<T *>(address); }
// What is copied, each byte once. Not through the first-level cache, where the resident kernel might find older bytes.
template <typename T> SDMA_DEVICE T load(uint64_t address) { return __ldcg(reinterpret_cast<const T *>(address)); }
template <typename T> SDMA_DEVICE void store(uint64_t address, T value) { *reinterpret_cast<T *>(address) = value; }
using Vector = uint4;

} // namespace sdma::device

#else

#include <sched.h>
#include <time.h>

#ifdef SDMA_TWIN
#include "twin.h"
#endif

#define SDMA_DEVICE [[maybe_unused]] static inline
#define SDMA_DEVICE_MEMBER inline
#define SDMA_KERNEL(most_lanes) extern "C" void

namespace sdma::device {

#ifdef SDMA_TWIN
SDMA_DEVICE uint32_t lane() { return sdma_twin_here->lane; }
SDMA_DEVICE uint32_t lanes() { return sdma_twin_here->lanes; }
SDMA_DEVICE uint32_t workgroup() { return sdma_twin_here->workgroup; }
SDMA_DEVICE uint32_t workgroups() { return sdma_twin_here->workgroups; }
// Whoever runs the lanes also gives other threads their turn: not for each lane.
SDMA_DEVICE void pause() { sdma_twin_here->yield(sdma_twin_here->context); }
#else
SDMA_DEVICE uint32_t lane() { return 0; }
SDMA_DEVICE uint32_t lanes() { return 1; }
SDMA_DEVICE uint32_t workgroup() { return 0; }
SDMA_DEVICE uint32_t workgroups() { return 1; }
SDMA_DEVICE void pause() { sched_yield(); }
#endif

#ifdef SDMA_TWIN_ACCESS
uint64_t load_system(uint64_t address);
void store_system(uint64_t address, uint64_t value);
void store_system_dword(uint64_t address, uint32_t value);
bool swap_cursor(uint64_t address, uint64_t expected, uint64_t wanted);
void drain();
uint64_t clock_ns();
#else
SDMA_DEVICE uint64_t clock_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return uint64_t(now.tv_sec) * 1000000000 + uint64_t(now.tv_nsec);
}
SDMA_DEVICE uint64_t load_system(uint64_t address) {
    return __atomic_load_n(reinterpret_cast<const uint64_t *>(address), __ATOMIC_ACQUIRE);
}
SDMA_DEVICE void store_system(uint64_t address, uint64_t value) {
    __atomic_store_n(reinterpret_cast<uint64_t *>(address), value, __ATOMIC_RELEASE);
}
SDMA_DEVICE void store_system_dword(uint64_t address, uint32_t value) {
    __atomic_store_n(reinterpret_cast<uint32_t *>(address), value, __ATOMIC_RELEASE);
}
SDMA_DEVICE bool swap_cursor(uint64_t address, uint64_t expected, uint64_t wanted) {
    return __atomic_compare_exchange_n(reinterpret_cast<uint64_t *>(address), &expected, wanted, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}
// Out of the write-combining buffers, in program order. A C++ fence is no instruction for that.
SDMA_DEVICE void drain() {
#if defined(__x86_64__)
    __builtin_ia32_mfence();
#elif defined(__aarch64__)
    __asm__ volatile("dsb sy" ::: "memory");
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}
#endif

// The ring may lie in device memory behind the bus: reading the last dword back makes the device
// have taken what was written before it (as ROCm's copy-engine library does).
SDMA_DEVICE void drain_ring(uint64_t last_dword) {
    drain();
    (void)__atomic_load_n(reinterpret_cast<const volatile uint32_t *>(last_dword), __ATOMIC_ACQUIRE);
}
SDMA_DEVICE void drain_write_pointer() { drain(); }
SDMA_DEVICE void drain_doorbell() { drain(); }
SDMA_DEVICE void release_system_and_drain() { drain(); }
SDMA_DEVICE void release_earlier_kernels() { release_system_and_drain(); }
SDMA_DEVICE void store_last(uint64_t address, uint64_t value) { store_system(address, value); }
SDMA_DEVICE void acquire_system() {} // every load does

SDMA_DEVICE uint32_t add_system(uint64_t address, uint32_t value) {
    return __atomic_fetch_add(reinterpret_cast<uint32_t *>(address), value, __ATOMIC_ACQ_REL);
}
SDMA_DEVICE uint64_t load_cursor(uint64_t address) { return load_system(address); }
SDMA_DEVICE uint64_t peek_cursor(uint64_t address) { return load_cursor(address); }
SDMA_DEVICE void store_cursor(uint64_t address, uint64_t value) { store_system(address, value); }

SDMA_DEVICE bool any_lane(bool predicate) { return predicate; }

// Lanes come here when they like: through a word that only lane 0 writes.
inline constexpr bool lock_step = false;
SDMA_DEVICE uint64_t broadcast(uint64_t word, uint64_t value) {
    if (lane() != 0) {
        return load_system(word);
    }
    store_system(word, value);
    return value;
}

template <typename T> SDMA_DEVICE T *pointer(uint64_t address) { return reinterpret_cast<T *>(address); }
template <typename T> SDMA_DEVICE T load(uint64_t address) {
    T value;
    __builtin_memcpy(&value, reinterpret_cast<const void *>(address), sizeof value);
    return value;
}
template <typename T> SDMA_DEVICE void store(uint64_t address, T value) {
    __builtin_memcpy(reinterpret_cast<void *>(address), &value, sizeof value);
}
struct Vector {
    uint64_t low, high;
};

} // namespace sdma::device

#endif

namespace sdma::device {

// One store: an engine that saw half of it would run off.
SDMA_DEVICE void store_doorbell(uint64_t address, uint64_t value) {
#if defined(SDMA_TWIN)
    if (sdma_twin_here->reaches && !sdma_twin_here->reaches(sdma_twin_here->context, address)) {
        return;
    }
#endif
    if constexpr (mutant::half_doorbell) {
        store_system_dword(address, static_cast<uint32_t>(value));
        store_system_dword(address + 4, static_cast<uint32_t>(value >> 32));
    } else {
        store_last(address, value);
    }
}

// Called by every lane of a workgroup of one wave. True for one lane, once all have called, with
// the largest outcome (1, 2 or 3) of all. `counter`: a zeroed word for those lanes that share
// nothing else (twins).
SDMA_DEVICE bool last_of_wave([[maybe_unused]] uint64_t counter, uint32_t &outcome) {
#if defined(__HIP__)
    outcome = any_lane(outcome >= 3) ? 3 : any_lane(outcome >= 2) ? 2 : 1;
    return lane() == 0;
#elif defined(__CUDACC__)
    __syncwarp();
    outcome = __any_sync(__activemask(), outcome >= 3) ? 3 : __any_sync(__activemask(), outcome >= 2) ? 2 : 1;
    return lane() == 0;
#else
    uint32_t mine = 1u + (outcome >= 2 ? 1u << 10 : 0) + (outcome >= 3 ? 1u << 20 : 0);
    uint32_t all = add_system(counter, mine) + mine;
    outcome = all >> 20 != 0 ? 3 : (all >> 10 & 0x3ff) != 0 ? 2 : 1;
    return (all & 0x3ff) == lanes();
#endif
}

// Called by every lane of a grid after its last store. True for one lane, when all stores of all
// workgroups are visible to the system. `counter`: a zeroed word in memory that takes atomics.
SDMA_DEVICE bool last_of_grid(uint64_t counter) {
    release_system_and_drain(); // by every wave: each may sit on another L2
#if defined(__HIP__) || defined(__CUDACC__)
    workgroup_sync();
    return lane() == 0 && add_system(counter, 1) == workgroups() - 1;
#else
    return add_system(counter, 1) == workgroups() * lanes() - 1;
#endif
}

} // namespace sdma::device
