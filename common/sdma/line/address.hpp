// SPDX-License-Identifier: BSD-3-Clause
//
// What travels between processes by the caller's means: where a process is, and which part of its
// memory a key opens. Both are plain words that anybody may have written; reading them proves
// nothing but their form.
#pragma once

#include "../memory/process.hpp"
#include "../onesided.h"

namespace sdma::line {

struct Address {
    memory::Identity identity;
    uint64_t fd = 0; // of the process segment, in that process
};

struct Key {
    uint64_t pid = 0, start_time = 0, instance = 0; // the owner
    uint64_t registration = 0, generation = 0;
    uint64_t offset = 0, bytes = 0; // in the registered allocation

    bool of(const memory::Identity &owner) const {
        return pid == owner.pid && start_time == owner.start_time && instance == owner.instance;
    }
};

sdma_address_t pack(const Address &address);
sdma_key_t pack(const Key &key);
// False if the words are not of this form or version.
bool unpack(const sdma_address_t &words, Address &address);
bool unpack(const sdma_key_t &words, Key &key);

} // namespace sdma::line
