// SPDX-License-Identifier: BSD-3-Clause
#include "api.hpp"

#include <atomic>

#include <dlfcn.h>

#include "../../base/base.hpp"
#include "../loaded.hpp"
#include "../platform.hpp"

namespace sdma::gpu {

namespace {

constexpr const char *library_prefix = "libhsa-runtime64";

// nullptr: every function was found; else the first missing one.
const char *resolve(void *library, rocr::Api &api) {
#define SDMA_ROCR_FUNCTION(name)                                                                                       \
    api.name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name));                                             \
    if (!api.name)                                                                                                     \
        return #name;
    SDMA_ROCR_FUNCTIONS(SDMA_ROCR_FUNCTION)
#undef SDMA_ROCR_FUNCTION
    return nullptr;
}

// Any query of the system is refused until somebody has called hsa_init.
bool started(const rocr::Api &api) {
    uint16_t major = 0;
    return api.hsa_system_get_info(HSA_SYSTEM_INFO_VERSION_MAJOR, &major) == HSA_STATUS_SUCCESS;
}

} // namespace

bool platform_loaded() {
    static constinit Seen_loaded seen{library_prefix};
    return seen();
}

const char *rocr::Api::text(hsa_status_t status) const {
    const char *text = nullptr;
    return hsa_status_string(status, &text) == HSA_STATUS_SUCCESS && text ? text : "unknown ROCr status";
}

std::optional<rocr::Api> rocr::find_started() {
    static std::atomic<bool> logged{false};
    for (const std::string &path : loaded_objects(library_prefix)) {
        void *library = reference_loaded(path);
        if (!library)
            continue;
        Api api;
        if (const char *missing = resolve(library, api)) {
            if (!logged.exchange(true))
                log(0, "%s has no function %s: it cannot be used", path.c_str(), missing);
        } else if (started(api)) {
            return api;
        }
        dlclose(library); // not ours yet; asked again at the next call
    }
    return std::nullopt;
}

} // namespace sdma::gpu
