// SPDX-License-Identifier: BSD-3-Clause
#include "application.hpp"

#include <algorithm>
#include <dlfcn.h>

#include "loaded.hpp"

namespace sdma::gpu {

namespace {

struct Library {
    int (*allocate)(void **memory, size_t bytes) = nullptr;
    int (*free)(void *memory) = nullptr;
};

constexpr struct Names {
    const char *prefix, *allocate, *free;
} libraries[] = {{"libamdhip64", "hipMalloc", "hipFree"}, {"libcudart", "cudaMalloc", "cudaFree"}};

Library find() {
    for (const Names &names : libraries)
        for (const std::string &path : loaded_objects(names.prefix))
            if (void *handle = reference_loaded(path)) {
                Library library;
                library.allocate = reinterpret_cast<decltype(library.allocate)>(dlsym(handle, names.allocate));
                library.free = reinterpret_cast<decltype(library.free)>(dlsym(handle, names.free));
                if (library.allocate && library.free)
                    return library;
            }
    return {};
}

} // namespace

void *application_allocate(size_t bytes) {
    const Library library = find();
    void *memory = nullptr;
    // Both runtimes' success is 0.
    return library.allocate && library.allocate(&memory, std::max<size_t>(bytes, 1)) == 0 ? memory : nullptr;
}

void application_free(void *memory) {
    if (const Library library = find(); library.free)
        library.free(memory);
}

} // namespace sdma::gpu
