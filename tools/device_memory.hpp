// SPDX-License-Identifier: BSD-3-Clause
//
// Buffers of the kind that the user names with -d. The GPU runtimes are opened at run time, so
// that one binary serves machines with either, or none.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace tools {

enum class Memory : unsigned char { host, rocm, cuda };

// The letters of -d; false if `name` is none of them.
bool parse_memory(const std::string &name, Memory &memory);
const char *to_string(Memory memory);

// One kind of memory. Single-threaded. Every call that can fail leaves one line in error().
class Device_memory {
public:
    // Opens and starts the runtime; nullptr and one line in `error` when there is none or it
    // sees no device. Call it before MPI_Init: a communicator decides at its first collective
    // whether GPUs are in play.
    static std::unique_ptr<Device_memory> open(Memory memory, std::string &error);

    virtual ~Device_memory() = default;
    virtual int devices() const = 0;
    virtual bool select(int device) = 0;
    // nullptr on failure. Freed with deallocate().
    virtual void *allocate(size_t bytes) = 0;
    virtual void deallocate(void *buffer) = 0;
    // Blocking copies between host memory and a buffer.
    virtual bool write(void *buffer, const void *host, size_t bytes) = 0;
    virtual bool read(void *host, const void *buffer, size_t bytes) = 0;
    // Whether memory that others have allocated is of this kind.
    virtual bool is_mine(const void *buffer) = 0;
    const std::string &error() const { return error_; }

protected:
    std::string error_;
};

// A buffer of a Device_memory, which must outlive it.
class Buffer {
public:
    Buffer(Device_memory &memory, size_t bytes) : memory_(memory), data_(memory.allocate(bytes)) {}
    ~Buffer() {
        if (data_)
            memory_.deallocate(data_);
    }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    void *data() const { return data_; }

private:
    Device_memory &memory_;
    void *data_;
};

} // namespace tools
