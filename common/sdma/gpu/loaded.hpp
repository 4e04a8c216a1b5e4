// SPDX-License-Identifier: BSD-3-Clause
//
// Shared libraries that this process has loaded already. Nothing here ever loads one.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sdma::gpu {

// Paths of the loaded objects whose file name starts with `prefix`. Python wheels bundle renamed
// copies ("libhsa-runtime64-1a2b3c.so"), so only the start of the name identifies a library.
std::vector<std::string> loaded_objects(std::string_view prefix);

// A number that changes whenever an object is loaded; costs a fraction of a microsecond.
uint64_t load_count();

// Whether an object whose name starts with `prefix` is loaded. Asked at every call of a host-only job:
// searches only when something was loaded since. Once true, true for ever. Any thread.
class Seen_loaded {
public:
    explicit constexpr Seen_loaded(std::string_view prefix) : prefix_(prefix) {}
    bool operator()();

private:
    const std::string_view prefix_;
    std::atomic<bool> found_{false};
    std::atomic<uint64_t> searched_{0};
};

// A handle for dlsym with a reference of its own on the object loaded from `path`; nullptr if it
// is not loaded any more. Whoever has called functions of the object keeps the reference for the
// life of the process: its threads and callbacks must not lose their code.
void *reference_loaded(const std::string &path);

} // namespace sdma::gpu
