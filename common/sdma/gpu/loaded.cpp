// SPDX-License-Identifier: BSD-3-Clause
#include "loaded.hpp"

#include <dlfcn.h>
#include <link.h>

namespace sdma::gpu {

std::vector<std::string> loaded_objects(std::string_view prefix) {
    struct Search {
        std::string_view prefix;
        std::vector<std::string> paths;
    } search{prefix, {}};
    dl_iterate_phdr(
        [](dl_phdr_info *info, size_t, void *data) {
            auto &wanted = *static_cast<Search *>(data);
            std::string_view path = info->dlpi_name ? info->dlpi_name : "";
            if (path.substr(path.rfind('/') + 1).starts_with(wanted.prefix))
                wanted.paths.emplace_back(path);
            return 0;
        },
        &search);
    return search.paths;
}

uint64_t load_count() {
    uint64_t count = 0;
    dl_iterate_phdr(
        [](dl_phdr_info *info, size_t, void *data) {
            *static_cast<uint64_t *>(data) = info->dlpi_adds;
            return 1; // the number is the same in every entry
        },
        &count);
    return count;
}

bool Seen_loaded::operator()() {
    if (found_.load(std::memory_order_relaxed))
        return true;
    const uint64_t now = load_count();
    if (searched_.load(std::memory_order_acquire) == now)
        return found_.load(std::memory_order_relaxed); // another thread may have searched since the first look
    if (!loaded_objects(prefix_).empty())
        found_.store(true, std::memory_order_relaxed);
    searched_.store(now, std::memory_order_release);
    return found_.load(std::memory_order_relaxed);
}

void *reference_loaded(const std::string &path) { return dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD); }

} // namespace sdma::gpu
