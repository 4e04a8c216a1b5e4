// SPDX-License-Identifier: BSD-3-Clause
#include "address.hpp"

namespace sdma::line {

namespace {

// "SDMAADR", "SDMAKEY" and a version.
constexpr uint64_t address_tag = 0x53444d4141445201;
constexpr uint64_t key_tag = 0x53444d414b455901;

} // namespace

sdma_address_t pack(const Address &address) {
    const memory::Identity &id = address.identity;
    return {
        {id.boot_id[0], id.boot_id[1], id.pid_namespace, address_tag, id.pid, id.start_time, id.instance, address.fd}};
}

bool unpack(const sdma_address_t &words, Address &address) {
    const uint64_t(&w)[8] = words.words;
    address.identity = {{w[0], w[1]}, w[2], w[4], w[5], w[6]};
    address.fd = w[7];
    return w[3] == address_tag;
}

sdma_key_t pack(const Key &key) {
    return {{key_tag, key.pid, key.start_time, key.instance, key.registration, key.generation, key.offset, key.bytes}};
}

bool unpack(const sdma_key_t &words, Key &key) {
    const uint64_t(&w)[8] = words.words;
    key = {w[1], w[2], w[3], w[4], w[5], w[6], w[7]};
    return w[0] == key_tag;
}

} // namespace sdma::line
