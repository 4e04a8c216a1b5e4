// SPDX-License-Identifier: BSD-3-Clause
#include "thunk.hpp"

#include <dlfcn.h>

#include "../gpu/loaded.hpp"

namespace sdma::engine::thunk {

std::optional<Functions> find() {
    for (const std::string &path : gpu::loaded_objects("libhsakmt")) {
        void *library = gpu::reference_loaded(path);
        if (!library)
            continue;
        Functions found{};
        bool complete = true;
        const auto resolve = [&](auto &function, const char *name, bool needed = true) {
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
            complete = complete && (function || !needed);
        };
        resolve(found.hsaKmtOpenKFD, "hsaKmtOpenKFD");
        resolve(found.hsaKmtCloseKFD, "hsaKmtCloseKFD");
        resolve(found.hsaKmtAllocMemory, "hsaKmtAllocMemory");
        resolve(found.hsaKmtFreeMemory, "hsaKmtFreeMemory");
        resolve(found.hsaKmtMapMemoryToGPU, "hsaKmtMapMemoryToGPU");
        resolve(found.hsaKmtUnmapMemoryToGPU, "hsaKmtUnmapMemoryToGPU");
        resolve(found.hsaKmtCreateQueue, "hsaKmtCreateQueue");
        resolve(found.hsaKmtUpdateQueue, "hsaKmtUpdateQueue");
        resolve(found.hsaKmtDestroyQueue, "hsaKmtDestroyQueue");
        resolve(found.hsaKmtCreateQueueExt, "hsaKmtCreateQueueExt", false);
        if (complete)
            return found;
        dlclose(library);
    }
    return std::nullopt;
}

} // namespace sdma::engine::thunk
