// SPDX-License-Identifier: BSD-3-Clause
//
// The parser of the kernels' offload bundle, and the bundle that is in the library.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "kernels/bundle.h"

namespace {

using sdma::kernels::code_object;

std::string quad(uint64_t value) { return {reinterpret_cast<const char *>(&value), sizeof value}; }

struct Entry {
    uint64_t offset, size;
    std::string id;
};

std::string bundle_of(const std::vector<Entry> &entries, const std::string &bodies) {
    std::string bundle = "__CLANG_OFFLOAD_BUNDLE__" + quad(entries.size());
    for (const Entry &entry : entries) {
        bundle += quad(entry.offset) + quad(entry.size) + quad(entry.id.size()) + entry.id;
    }
    bundle.resize(512, '\0');
    return bundle + bodies;
}

std::string find(const std::string &bundle, std::string_view target) {
    auto found = code_object(std::as_bytes(std::span(bundle)), target);
    return {reinterpret_cast<const char *>(found.data()), found.size()};
}

const std::vector<Entry> three = {{512, 0, "host-x86_64-unknown-linux-gnu-"},
                                  {512, 3, "hipv4-amdgcn-amd-amdhsa--gfx90a"},
                                  {515, 4, "hipv4-amdgcn-amd-amdhsa--gfx942"},
                                  {519, 2, "cuda-nvptx64-nvidia-cuda--sm_90"}};

TEST(Bundle, finds_targets_by_whole_name) {
    std::string bundle = bundle_of(three, "AAABBBBCC");
    EXPECT_EQ(find(bundle, "gfx90a"), "AAA");
    EXPECT_EQ(find(bundle, "gfx942"), "BBBB");
    EXPECT_EQ(find(bundle, "gfx942:sramecc+:xnack-"), "BBBB");
    EXPECT_EQ(find(bundle, "sm_90"), "CC");
    for (const char *absent : {"gfx90", "gfx9", "942", "gfx9420", "", ":xnack-", "host-x86_64-unknown-linux-gnu-"}) {
        EXPECT_EQ(find(bundle, absent), "") << absent;
    }
}

TEST(Bundle, no_target_in_a_spoiled_bundle) {
    std::string bundle = bundle_of(three, "AAABBBBCC");
    EXPECT_EQ(find("", "gfx942"), "");
    std::string other = bundle;
    other[0] = 'x';
    EXPECT_EQ(find(other, "gfx942"), "");
    for (size_t length = 0; length < bundle.size(); ++length) {
        std::string found = find(bundle.substr(0, length), "sm_90");
        EXPECT_EQ(found, "") << "cut to " << length; // its body is the last
    }
    EXPECT_EQ(find(bundle_of({{~uint64_t{0}, 4, "x--gfx942"}}, "AAAA"), "gfx942"), "");
    EXPECT_EQ(find(bundle_of({{512, ~uint64_t{0}, "x--gfx942"}}, "AAAA"), "gfx942"), "");
    EXPECT_EQ(find(bundle_of({{513, 4, "x--gfx942"}}, "AAAA"), "gfx942"), "");
    std::string endless = bundle;
    std::memset(endless.data() + 24, 0xff, 8); // entries
    EXPECT_EQ(find(endless, "gfx1100"), "");
}

TEST(Bundle, library_has_an_object_with_both_kernels) {
    size_t objects = 0;
    for (const char *target : {"gfx90a", "gfx942", "gfx950", "sm_70", "sm_80", "sm_90", "sm_100"}) {
        auto found = code_object(target);
        std::string bytes(reinterpret_cast<const char *>(found.data()), found.size());
        if (!bytes.empty()) {
            ++objects;
            EXPECT_EQ(bytes.substr(0, 4), "\x7f"
                                          "ELF")
                << target;
            EXPECT_NE(bytes.find("sdma_issue_kernel"), std::string::npos) << target;
            EXPECT_NE(bytes.find("sdma_copy_kernel"), std::string::npos) << target;
            EXPECT_EQ(reinterpret_cast<uintptr_t>(found.data()) % 4096, 0u) << target;
        }
    }
    EXPECT_GT(objects, 0u);
}

} // namespace
