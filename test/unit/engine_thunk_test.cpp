// SPDX-License-Identifier: BSD-3-Clause
//
// Our declarations of the thunk against the installed header.
#include <type_traits>

#include <gtest/gtest.h>
#include <hsakmt.h>

#include "common/sdma/engine/thunk.hpp"

namespace sdma::engine::thunk {

static_assert(sizeof(HSAKMT_STATUS) == sizeof(Status));
static_assert(success == static_cast<Status>(HSAKMT_STATUS_SUCCESS));
static_assert(error == static_cast<Status>(HSAKMT_STATUS_ERROR));
static_assert(no_memory == static_cast<Status>(HSAKMT_STATUS_NO_MEMORY));
static_assert(out_of_resources == static_cast<Status>(HSAKMT_STATUS_OUT_OF_RESOURCES));
static_assert(not_opened == static_cast<Status>(HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED));
static_assert(already_opened == static_cast<Status>(HSAKMT_STATUS_KERNEL_ALREADY_OPENED));

static_assert(sizeof(HSA_QUEUE_TYPE) == sizeof(Queue_type) && sizeof(HSA_QUEUE_PRIORITY) == sizeof(int64_t));
static_assert(queue_sdma == static_cast<Queue_type>(HSA_QUEUE_SDMA));
static_assert(queue_sdma_xgmi == static_cast<Queue_type>(HSA_QUEUE_SDMA_XGMI));
static_assert(HSA_QUEUE_PRIORITY_NORMAL == 0);

static_assert(sizeof(HsaQueueResource) == sizeof(Queue_resource));
static_assert(offsetof(HsaQueueResource, QueueId) == offsetof(Queue_resource, id));
static_assert(offsetof(HsaQueueResource, Queue_DoorBell_aql) == offsetof(Queue_resource, doorbell));
static_assert(offsetof(HsaQueueResource, Queue_write_ptr_aql) == offsetof(Queue_resource, write_pointer));
static_assert(offsetof(HsaQueueResource, Queue_read_ptr_aql) == offsetof(Queue_resource, read_pointer));
static_assert(offsetof(HsaQueueResource, ErrorReason) == offsetof(Queue_resource, error_reason));

// Passed by value: one word, and trivially so.
static_assert(sizeof(HsaMemFlags) == sizeof(uint32_t) && std::is_trivially_copyable_v<HsaMemFlags>);

TEST(Thunk, FlagsAreTheHeadersBits) {
    const auto value = [](auto set) {
        HsaMemFlags flags{};
        set(flags);
        return flags.Value;
    };
    EXPECT_EQ(value([](HsaMemFlags &f) { f.ui32.NonPaged = 1; }), flag_non_paged);
    EXPECT_EQ(value([](HsaMemFlags &f) { f.ui32.HostAccess = 1; }), flag_host_access);
    EXPECT_EQ(value([](HsaMemFlags &f) { f.ui32.ExecuteAccess = 1; }), flag_execute_access);
    EXPECT_EQ(value([](HsaMemFlags &f) { f.ui32.NoNUMABind = 1; }), flag_no_numa_bind);
    EXPECT_EQ(value([](HsaMemFlags &f) { f.ui32.Uncached = 1; }), flag_uncached);
    EXPECT_EQ(value([](HsaMemFlags &f) { f.ui32.PageSize = HSA_PAGE_SIZE_4KB; }), 0u);
}

// Same argument list, types of the same size in the same order.
template <typename Ours, typename Theirs> struct Same_call : std::false_type {};
template <typename R1, typename... A1, typename R2, typename... A2>
struct Same_call<R1 (*)(A1...), R2 (*)(A2...)>
    : std::bool_constant<sizeof(R1) == sizeof(R2) && sizeof...(A1) == sizeof...(A2) &&
                         ((sizeof(A1) == sizeof(A2)) && ...) &&
                         ((std::is_pointer_v<A1> == std::is_pointer_v<A2>)&&...)> {};
#define SDMA_SAME_CALL(name) static_assert(Same_call<decltype(Functions::name), decltype(&::name)>::value)
SDMA_SAME_CALL(hsaKmtOpenKFD);
SDMA_SAME_CALL(hsaKmtCloseKFD);
SDMA_SAME_CALL(hsaKmtAllocMemory);
SDMA_SAME_CALL(hsaKmtFreeMemory);
SDMA_SAME_CALL(hsaKmtMapMemoryToGPU);
SDMA_SAME_CALL(hsaKmtUnmapMemoryToGPU);
SDMA_SAME_CALL(hsaKmtCreateQueue);
SDMA_SAME_CALL(hsaKmtUpdateQueue);
SDMA_SAME_CALL(hsaKmtDestroyQueue);

TEST(Thunk, NoneIsLoadedHere) { EXPECT_FALSE(find()); }

} // namespace sdma::engine::thunk
