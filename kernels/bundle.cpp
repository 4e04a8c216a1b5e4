// SPDX-License-Identifier: BSD-3-Clause
#include "bundle.h"

#include <cstdint>
#include <cstring>

namespace sdma::kernels {
namespace {

constexpr std::string_view magic = "__CLANG_OFFLOAD_BUNDLE__";

// Takes from the front of `bytes`; false if there is less.
bool take(std::span<const std::byte> &bytes, size_t count, std::span<const std::byte> &front) {
    if (count > bytes.size()) {
        return false;
    }
    front = bytes.first(count);
    bytes = bytes.subspan(count);
    return true;
}

bool take(std::span<const std::byte> &bytes, uint64_t &value) {
    std::span<const std::byte> front;
    if (!take(bytes, sizeof value, front)) {
        return false;
    }
    std::memcpy(&value, front.data(), sizeof value);
    return true;
}

std::string_view text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

// "hipv4-amdgcn-amd-amdhsa--gfx942" is for "gfx942".
bool is_for(std::string_view id, std::string_view target) {
    size_t dashes = id.rfind("--");
    return dashes != std::string_view::npos && id.substr(dashes + 2) == target;
}

} // namespace

std::span<const std::byte> code_object(std::span<const std::byte> bundle, std::string_view target) {
    target = target.substr(0, target.find(':'));
    std::span<const std::byte> rest = bundle, front;
    uint64_t count = 0;
    if (target.empty() || !take(rest, magic.size(), front) || text(front) != magic || !take(rest, count)) {
        return {};
    }
    for (; count != 0; --count) {
        uint64_t offset = 0, size = 0, length = 0;
        if (!take(rest, offset) || !take(rest, size) || !take(rest, length) || !take(rest, length, front)) {
            return {};
        }
        if (is_for(text(front), target)) {
            bool inside = offset <= bundle.size() && size <= bundle.size() - offset;
            return inside ? bundle.subspan(offset, size) : std::span<const std::byte>{};
        }
    }
    return {};
}

std::span<const std::byte> code_object(std::string_view target) {
    return code_object({sdma_kernel_bundle, sdma_kernel_bundle_end}, target);
}

} // namespace sdma::kernels
