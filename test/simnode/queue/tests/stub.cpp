// SPDX-License-Identifier: BSD-3-Clause
#include "stub.hpp"

#include <cstdarg>
#include <cstdio>
#include <map>
#include <sys/mman.h>

namespace {

std::mutex lock;
std::map<uint64_t, size_t> ranges;
std::vector<std::string> said;
std::vector<uint32_t> raised;

} // namespace

namespace stub {

Gpu_memory::Gpu_memory(size_t bytes) : bytes_(bytes) {
    data_ = static_cast<uint8_t *>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::lock_guard guard(lock);
    ranges[address()] = bytes;
}
void Gpu_memory::unmap() {
    std::lock_guard guard(lock);
    ranges.erase(address());
}
Gpu_memory::~Gpu_memory() {
    unmap();
    munmap(data_, bytes_);
}

simnode::Options &options() {
    static simnode::Options all;
    return all;
}
std::vector<std::string> complaints() {
    std::lock_guard guard(lock);
    return said;
}
std::vector<uint32_t> events() {
    std::lock_guard guard(lock);
    return raised;
}
void clear() {
    std::lock_guard guard(lock);
    said.clear();
    raised.clear();
}

} // namespace stub

namespace simnode {

const Options &options() { return stub::options(); }

const Fault *fault(const char *kind) {
    for (const Fault &fault : stub::options().faults)
        if (fault.kind == kind)
            return &fault;
    return nullptr;
}

void complain(const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "complaint: %s\n", text);
    std::lock_guard guard(lock);
    said.push_back(text);
}

bool accessible(unsigned, uint64_t address, size_t bytes) {
    std::lock_guard guard(lock);
    for (auto &[base, size] : ranges)
        if (address >= base && address - base <= size && bytes <= size - (address - base))
            return true;
    return false;
}

uint64_t cpu_address(uint64_t gpu_address) { return gpu_address; }

void set_event(uint32_t event_id) {
    std::lock_guard guard(lock);
    raised.push_back(event_id);
}

} // namespace simnode
