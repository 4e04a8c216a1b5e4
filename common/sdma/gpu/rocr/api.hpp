// SPDX-License-Identifier: BSD-3-Clause
//
// The functions of ROCr (libhsa-runtime64) that this library calls, found in the copy that the
// application has loaded and started.
#pragma once

#include <optional>

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

namespace sdma::gpu::rocr {

#define SDMA_ROCR_FUNCTIONS(X)                                                                                         \
    X(hsa_init)                                                                                                        \
    X(hsa_shut_down)                                                                                                   \
    X(hsa_status_string)                                                                                               \
    X(hsa_system_get_info)                                                                                             \
    X(hsa_iterate_agents)                                                                                              \
    X(hsa_agent_get_info)                                                                                              \
    X(hsa_agent_iterate_isas)                                                                                          \
    X(hsa_isa_get_info_alt)                                                                                            \
    X(hsa_queue_create)                                                                                                \
    X(hsa_queue_destroy)                                                                                               \
    X(hsa_queue_load_read_index_scacquire)                                                                             \
    X(hsa_queue_load_write_index_relaxed)                                                                              \
    X(hsa_queue_store_write_index_screlease)                                                                           \
    X(hsa_signal_destroy)                                                                                              \
    X(hsa_signal_load_scacquire)                                                                                       \
    X(hsa_signal_store_relaxed)                                                                                        \
    X(hsa_signal_store_screlease)                                                                                      \
    X(hsa_code_object_reader_create_from_memory)                                                                       \
    X(hsa_code_object_reader_destroy)                                                                                  \
    X(hsa_executable_create_alt)                                                                                       \
    X(hsa_executable_load_agent_code_object)                                                                           \
    X(hsa_executable_freeze)                                                                                           \
    X(hsa_executable_destroy)                                                                                          \
    X(hsa_executable_get_symbol_by_name)                                                                               \
    X(hsa_executable_symbol_get_info)                                                                                  \
    X(hsa_memory_copy)                                                                                                 \
    X(hsa_amd_agent_iterate_memory_pools)                                                                              \
    X(hsa_amd_agent_memory_pool_get_info)                                                                              \
    X(hsa_amd_memory_pool_get_info)                                                                                    \
    X(hsa_amd_memory_pool_allocate)                                                                                    \
    X(hsa_amd_memory_pool_free)                                                                                        \
    X(hsa_amd_agents_allow_access)                                                                                     \
    X(hsa_amd_memory_lock)                                                                                             \
    X(hsa_amd_memory_unlock)                                                                                           \
    X(hsa_amd_memory_fill)                                                                                             \
    X(hsa_amd_memory_async_copy)                                                                                       \
    X(hsa_amd_signal_create)                                                                                           \
    X(hsa_amd_pointer_info)                                                                                            \
    X(hsa_amd_ipc_memory_create)                                                                                       \
    X(hsa_amd_ipc_memory_attach)                                                                                       \
    X(hsa_amd_ipc_memory_detach)                                                                                       \
    X(hsa_amd_register_deallocation_callback)                                                                          \
    X(hsa_amd_deregister_deallocation_callback)

struct Api {
#define SDMA_ROCR_FUNCTION(name) decltype(&::name) name = nullptr;
    SDMA_ROCR_FUNCTIONS(SDMA_ROCR_FUNCTION)
#undef SDMA_ROCR_FUNCTION

    // What ROCr says about a status; static string.
    const char *text(hsa_status_t status) const;
};

// The loaded ROCr that the application has started; none while there is no such one. Takes a
// reference on the library, none on the runtime inside it (hsa_init).
std::optional<Api> find_started();

} // namespace sdma::gpu::rocr
