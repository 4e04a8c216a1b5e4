// SPDX-License-Identifier: BSD-3-Clause
//
// Kernel metadata of code objects V3 and later: LLVM's AMDGPUUsage, "Code Object V3 Metadata".
#include <cstring>

#include "code_object.hpp"

namespace simnode {
namespace {

// As much of msgpack as metadata uses. Every read is checked; after a failure all reads fail.
class Reader {
public:
    Reader(const uint8_t *at, size_t bytes) : at_(at), end_(at + bytes) {}
    bool ok() const { return ok_; }

    // Entries of a map or array; 0 and failed if it is none.
    uint64_t map() { return container(0x80, 0xde); }
    uint64_t array() { return container(0x90, 0xdc); }

    std::string text() {
        uint8_t type = byte();
        uint64_t bytes = 0;
        if ((type & 0xe0) == 0xa0)
            bytes = type & 0x1f;
        else if (type >= 0xd9 && type <= 0xdb)
            bytes = number(1u << (type - 0xd9));
        else
            return fail(), std::string();
        const uint8_t *data = take(bytes);
        return data ? std::string(reinterpret_cast<const char *>(data), bytes) : std::string();
    }

    uint64_t integer() {
        uint8_t type = byte();
        if (type < 0x80)
            return type;
        if (type >= 0xcc && type <= 0xd3)
            return number(1u << ((type - 0xcc) & 3));
        return fail(), 0;
    }

    void skip(unsigned depth = 0) {
        if (at_ == end_ || depth > 32)
            return fail();
        uint8_t type = *at_;
        if ((type & 0xf0) == 0x80 || type == 0xde || type == 0xdf)
            skip_all(2 * map(), depth);
        else if ((type & 0xf0) == 0x90 || type == 0xdc || type == 0xdd)
            skip_all(array(), depth);
        else if ((type & 0xe0) == 0xa0 || (type >= 0xd9 && type <= 0xdb))
            text();
        else if (type < 0x80 || (type >= 0xcc && type <= 0xd3))
            integer();
        else if (type >= 0xe0 || type == 0xc0 || type == 0xc2 || type == 0xc3)
            byte();
        else
            fail(); // binary, floating point and extensions do not occur
    }

private:
    const uint8_t *at_, *end_;
    bool ok_ = true;

    void fail() {
        ok_ = false;
        at_ = end_;
    }
    const uint8_t *take(uint64_t bytes) {
        if (bytes > static_cast<uint64_t>(end_ - at_))
            return fail(), nullptr;
        const uint8_t *data = at_;
        at_ += bytes;
        return data;
    }
    uint8_t byte() {
        const uint8_t *data = take(1);
        return data ? *data : 0xc1; // never used by msgpack
    }
    uint64_t number(unsigned bytes) {
        uint64_t value = 0;
        const uint8_t *data = take(bytes);
        for (unsigned i = 0; data && i < bytes; i++)
            value = value << 8 | data[i];
        return value;
    }
    uint64_t container(uint8_t small, uint8_t large) {
        uint8_t type = byte();
        if ((type & 0xf0) == small)
            return type & 0x0f;
        if (type == large || type == large + 1)
            return number(type == large ? 2 : 4);
        return fail(), 0;
    }
    void skip_all(uint64_t count, unsigned depth) {
        while (count-- && ok_)
            skip(depth + 1);
    }
};

Argument read_argument(Reader &reader, bool &hidden) {
    Argument argument;
    for (uint64_t left = reader.map(); left && reader.ok(); left--) {
        std::string key = reader.text();
        if (key == ".name")
            argument.name = reader.text();
        else if (key == ".offset")
            argument.offset = static_cast<uint32_t>(reader.integer());
        else if (key == ".size")
            argument.bytes = static_cast<uint32_t>(reader.integer());
        else if (key == ".value_kind")
            hidden = reader.text().rfind("hidden_", 0) == 0;
        else
            reader.skip();
    }
    return argument;
}

// One kernel's map; its descriptor symbol.
std::string read_kernel(Reader &reader, std::vector<Argument> &arguments) {
    std::string symbol;
    for (uint64_t left = reader.map(); left && reader.ok(); left--) {
        std::string key = reader.text();
        if (key == ".symbol") {
            symbol = reader.text();
        } else if (key == ".args") {
            for (uint64_t count = reader.array(); count && reader.ok(); count--) {
                bool hidden = false;
                Argument argument = read_argument(reader, hidden);
                if (!hidden)
                    arguments.push_back(argument);
            }
        } else {
            reader.skip();
        }
    }
    return symbol;
}

} // namespace

bool parse_arguments(const uint8_t *metadata, size_t bytes, const std::string &symbol,
                     std::vector<Argument> &arguments) {
    Reader reader(metadata, bytes);
    for (uint64_t left = reader.map(); left && reader.ok(); left--) {
        if (reader.text() != "amdhsa.kernels") {
            reader.skip();
            continue;
        }
        for (uint64_t kernels = reader.array(); kernels && reader.ok(); kernels--) {
            std::vector<Argument> found;
            if (read_kernel(reader, found) == symbol && reader.ok()) {
                arguments = std::move(found);
                return true;
            }
        }
    }
    return false;
}

} // namespace simnode
