// SPDX-License-Identifier: BSD-3-Clause
#include "segment.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/base.hpp"

namespace sdma::memory {

namespace {

// Reads a small file of procfs; returns its length without the end, 0 on failure with the reason in errno.
size_t read_file(const char *path, char *text, size_t room) {
    int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t length = read(fd, text, room - 1);
    close(fd);
    text[length > 0 ? length : 0] = 0;
    return length > 0 ? static_cast<size_t>(length) : 0;
}

void read_boot_id(uint64_t (&boot_id)[2]) {
    char text[64];
    read_file("/proc/sys/kernel/random/boot_id", text, sizeof text);
    int digits = 0;
    for (const char *p = text; *p && digits < 32; p++) {
        const char digit[2] = {*p, 0};
        char *end;
        uint64_t value = strtoull(digit, &end, 16);
        if (*end)
            continue; // a dash
        boot_id[digits / 16] = boot_id[digits / 16] << 4 | value;
        digits++;
    }
}

} // namespace

uint64_t process_start_time(uint64_t pid) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%llu/stat", static_cast<unsigned long long>(pid));
    if (!read_file(path, text, sizeof text))
        return 0;
    char *field = strrchr(text, ')'); // the command may hold spaces and brackets
    if (!field || field[1] != ' ' || field[2] == 'Z' || field[2] == 'X')
        return 0;
    // After ")": field 3 is the state; the start time is field 22.
    for (int number = 2; number < 22 && field; number++)
        field = strchr(field + 1, ' ');
    return field ? strtoull(field + 1, nullptr, 10) : 0;
}

bool process_ended(uint64_t pid, uint64_t start_time) {
    errno = 0;
    const uint64_t now = process_start_time(pid);
    return now != 0 ? now != start_time : errno == 0 || errno == ENOENT || errno == ESRCH;
}

Identity new_identity() {
    static std::atomic<uint64_t> instances{0};
    Identity identity;
    read_boot_id(identity.boot_id);
    struct stat status {};
    if (stat("/proc/self/ns/pid", &status) == 0)
        identity.pid_namespace = status.st_ino;
    identity.pid = static_cast<uint64_t>(getpid());
    identity.start_time = process_start_time(identity.pid);
    identity.instance = ++instances;
    return identity;
}

bool reachable(const Identity &own, const Identity &peer) {
    return own.boot_id[0] == peer.boot_id[0] && own.boot_id[1] == peer.boot_id[1] &&
           own.pid_namespace == peer.pid_namespace;
}

size_t round_to_pages(size_t bytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return (bytes + page - 1) & ~(page - 1);
}

Segment::~Segment() {
    if (address_)
        munmap(address_, bytes_);
    close_fd();
}

void Segment::swap(Segment &other) noexcept {
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    std::swap(fd_, other.fd_);
}

void Segment::close_fd() {
    if (fd_ >= 0)
        close(fd_);
    fd_ = -1;
}

void Segment::keep_mapped() { address_ = nullptr; }

bool Segment::map(int protection) {
    void *address = mmap(nullptr, bytes_, protection, MAP_SHARED, fd_, 0);
    if (address == MAP_FAILED)
        return false;
    address_ = static_cast<std::byte *>(address);
    return true;
}

Segment Segment::create(const char *name, size_t bytes) {
    Segment segment;
    segment.bytes_ = round_to_pages(bytes);
    segment.fd_ = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (segment.fd_ < 0 || ftruncate(segment.fd_, static_cast<off_t>(segment.bytes_)) != 0 ||
        fcntl(segment.fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 ||
        !segment.map(PROT_READ | PROT_WRITE)) {
        log(0, "a shared segment of %zu bytes cannot be made: %s", segment.bytes_, strerror(errno));
        return {};
    }
    return segment;
}

Segment Segment::open(const Identity &peer, uint64_t fd, size_t bytes, bool writable) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%llu/fd/%llu", static_cast<unsigned long long>(peer.pid),
             static_cast<unsigned long long>(fd));
    // A pid may have been given away since the peer announced it.
    if (process_start_time(peer.pid) != peer.start_time)
        return {};
    Segment segment;
    segment.bytes_ = round_to_pages(bytes);
    // Never block on, or disturb, what an untrusted number may point to.
    segment.fd_ = ::open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (segment.fd_ < 0)
        return {};
    struct stat status {};
    const int seals = fcntl(segment.fd_, F_GET_SEALS);
    // Without the seal a peer could shrink the file under us: every access would be a SIGBUS.
    if (fstat(segment.fd_, &status) != 0 || !S_ISREG(status.st_mode) || seals < 0 || !(seals & F_SEAL_SHRINK) ||
        static_cast<size_t>(status.st_size) != segment.bytes_ ||
        !segment.map(writable ? PROT_READ | PROT_WRITE : PROT_READ))
        return {};
    return segment;
}

} // namespace sdma::memory
