// SPDX-License-Identifier: BSD-3-Clause
//
// Field positions: Linux vega10_sdma_pkt_open.h (4.x), navi10_sdma_pkt_open.h (5.x),
// sdma_v6_0_0_pkt_open.h (6.x). Size fields hold the value minus one from gfx9 on.
#include "packet.hpp"

#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace simnode {
namespace {

std::string format(const char *form, ...) __attribute__((format(printf, 1, 2)));
std::string format(const char *form, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, form);
    vsnprintf(text, sizeof text, form, arguments);
    va_end(arguments);
    return text;
}

constexpr uint32_t bits(uint32_t value, unsigned high, unsigned low) {
    return (value >> low) & ((uint64_t{1} << (high - low + 1)) - 1);
}
constexpr uint32_t field(unsigned high, unsigned low) {
    return static_cast<uint32_t>(((uint64_t{1} << (high - low + 1)) - 1) << low);
}
constexpr uint64_t join(const uint32_t *low) { return low[0] | uint64_t{low[1]} << 32; }

constexpr uint32_t header_op = field(15, 0);

// What the checks of one packet share.
struct Fields {
    Generation generation;
    const uint32_t *dw;
    std::string error;

    bool gfx9() const { return generation == Generation::v4; }
    void refuse(const std::string &why) {
        if (error.empty())
            error = why;
    }
    // Bits outside `allowed` are reserved, or not for user queues.
    void reserved(unsigned index, uint32_t allowed) {
        if (uint32_t wrong = dw[index] & ~allowed)
            refuse(format("reserved bits 0x%08x set in dword %u", wrong, index));
    }
    void aligned(const char *what, uint64_t address, uint64_t to) {
        if (address % to)
            refuse(format("%s address 0x%" PRIx64 " is not aligned to %" PRIu64 " bytes", what, address, to));
    }
};

void copy_linear(Fields &f, Packet &packet) {
    bool broadcast = bits(f.dw[0], 27, 27);
    uint32_t policies = f.generation == Generation::v6 ? field(20, 18) | field(28, 26) : 0;
    f.reserved(0, header_op | field(27, 27) |
                      (f.generation == Generation::v6 ? field(19, 19) : 0)); // 19: cache policy valid
    f.reserved(1, field(29, 0));
    f.reserved(2, policies);
    packet.op = Op::copy;
    packet.bytes = uint64_t{f.dw[1]} + 1;
    packet.source = join(f.dw + 3);
    packet.address = join(f.dw + 5);
    packet.second_address = broadcast ? join(f.dw + 7) : 0;
    if (packet.bytes == uint64_t{1} << 30)
        f.refuse("count is 2^30, which is also what zero minus one encodes to");
}

void copy_rect(Fields &f, Packet &packet) {
    unsigned z_high = f.gfx9() ? 10 : 12;
    auto window = [&](unsigned at, Window &window) {
        f.reserved(at, field(13, 0) | field(29, 16));
        f.reserved(at + 1, field(z_high, 0) | field(31, 13));
        f.reserved(at + 2, field(27, 0));
        window = {bits(f.dw[at], 13, 0), bits(f.dw[at], 29, 16), bits(f.dw[at + 1], z_high, 0),
                  bits(f.dw[at + 1], 31, 13) + 1, bits(f.dw[at + 2], 27, 0) + 1};
    };
    f.reserved(0, header_op | field(31, 29));
    packet.op = Op::copy_rect;
    packet.element = 1u << bits(f.dw[0], 31, 29);
    if (packet.element > 16)
        f.refuse(format("element size %u", packet.element));
    packet.source = join(f.dw + 1);
    window(3, packet.from);
    packet.address = join(f.dw + 6);
    window(8, packet.to);
    f.reserved(11, field(13, 0) | field(29, 16));
    f.reserved(12, field(z_high, 0));
    packet.rect[0] = bits(f.dw[11], 13, 0) + 1;
    packet.rect[1] = bits(f.dw[11], 29, 16) + 1;
    packet.rect[2] = bits(f.dw[12], z_high, 0) + 1;
    packet.bytes = uint64_t{packet.rect[0]} * packet.rect[1] * packet.rect[2] * packet.element;
    f.aligned("source", packet.source, 4);
    f.aligned("destination", packet.address, 4);
}

void write_linear(Fields &f, Packet &packet) {
    f.reserved(0, header_op);
    f.reserved(3, field(19, 0));
    packet.op = Op::write;
    packet.address = join(f.dw + 1);
    packet.bytes = 4 * (uint64_t{bits(f.dw[3], 19, 0)} + 1);
    f.aligned("destination", packet.address, 4);
}

void fence(Fields &f, Packet &packet) {
    // From gfx10 on the header carries the memory type and coherence bits.
    f.reserved(0, header_op | (f.gfx9() ? 0 : field(18, 16) | field(20, 20) | field(22, 22) | field(23, 23)));
    packet.op = Op::fence;
    packet.address = join(f.dw + 1);
    packet.data = f.dw[3];
    f.aligned("fence", packet.address, 4);
}

void trap(Fields &f, Packet &packet) {
    f.reserved(0, header_op);
    f.reserved(1, field(27, 0));
    packet.op = Op::trap;
    packet.data = f.dw[1];
}

// ROCr's HDP flush is a fixed register poll; any other register is out of a user queue's reach.
bool is_hdp_flush(const uint32_t *dw) {
    static constexpr uint32_t idiom[6] = {0x00000008, 0, 0x80000000, 0, 0, 0};
    return memcmp(dw, idiom, sizeof idiom) == 0;
}

void poll(Fields &f, Packet &packet) {
    if (is_hdp_flush(f.dw)) {
        packet.op = Op::hdp_flush;
        return;
    }
    f.reserved(0, header_op | field(31, 28));
    f.reserved(5, field(27, 0));
    packet.op = Op::poll;
    packet.function = bits(f.dw[0], 30, 28);
    packet.address = join(f.dw + 1);
    packet.data = f.dw[3];
    packet.mask = f.dw[4];
    packet.retry = bits(f.dw[5], 27, 16);
    if (!bits(f.dw[0], 31, 31))
        f.refuse("register poll");
    if (packet.function > 6)
        f.refuse(format("comparison %u", packet.function));
    f.aligned("poll", packet.address, 4);
}

void atomic(Fields &f, Packet &packet) {
    f.reserved(0, field(7, 0) | field(31, 25) | field(16, 16));
    f.reserved(7, field(12, 0));
    packet.op = Op::atomic;
    packet.function = bits(f.dw[0], 31, 25);
    packet.address = join(f.dw + 1);
    packet.data = join(f.dw + 3);
    packet.compare = join(f.dw + 5);
    unsigned width = atomic_width(packet.function);
    if (width)
        f.aligned("atomic", packet.address, width);
    else
        f.refuse(format("atomic operation 0x%x", packet.function));
    if (bits(f.dw[0], 16, 16))
        f.refuse("looping atomic");
}

void fill(Fields &f, Packet &packet) {
    f.reserved(0, header_op | field(31, 30));
    f.reserved(4, f.generation == Generation::v6 ? field(29, 0) : field(21, 0));
    packet.op = Op::fill;
    packet.address = join(f.dw + 1);
    packet.data = f.dw[3];
    uint32_t size = bits(f.dw[0], 31, 30);
    if (size != 0 && size != 2)
        f.refuse(format("fill size %u", size));
    // Bytes minus one; dword fills ignore the low two bits.
    packet.function = size == 2 ? 4 : 1;
    packet.bytes = size == 2 ? (uint64_t{f.dw[4]} & ~uint64_t{3}) + 4 : uint64_t{f.dw[4]} + 1;
    f.aligned("destination", packet.address, packet.function);
}

void timestamp(Fields &f, Packet &packet) {
    f.reserved(0, header_op);
    packet.op = Op::timestamp;
    packet.address = join(f.dw + 1);
    f.aligned("timestamp", packet.address, 32);
}

void cache(Fields &f, Packet &packet) {
    f.reserved(0, header_op);
    packet.op = Op::cache;
}

struct Kind {
    uint32_t op, sub_op;
    uint32_t dwords;
    void (*fields)(Fields &, Packet &);
    bool before_gfx10;
};
constexpr Kind kinds[] = {
    {1, 0, 7, copy_linear, true}, {1, 4, 13, copy_rect, true}, {2, 0, 4, write_linear, true}, {5, 0, 4, fence, true},
    {6, 0, 2, trap, true},        {8, 0, 6, poll, true},       {10, 0, 8, atomic, true},      {11, 0, 5, fill, true},
    {13, 1, 3, timestamp, true},  {13, 2, 3, timestamp, true}, {17, 1, 5, cache, false},
};

const Kind *find(Generation generation, uint32_t header) {
    for (const Kind &kind : kinds)
        if (kind.op == bits(header, 7, 0) && kind.sub_op == bits(header, 15, 8) &&
            (kind.before_gfx10 || generation != Generation::v4))
            return &kind;
    return nullptr;
}

std::string too_long(size_t dwords, size_t available) {
    return format("packet of %zu dwords, but %zu to the ring end or the doorbell", dwords, available);
}

} // namespace

Generation generation_of(const std::string &gfx) {
    if (gfx.rfind("gfx9", 0) == 0)
        return Generation::v4;
    return gfx.rfind("gfx10", 0) == 0 ? Generation::v5 : Generation::v6;
}

const char *to_string(Op op) {
    static constexpr const char *names[] = {"NOP",  "COPY",      "COPY_RECT", "WRITE", "FENCE",     "TRAP",
                                            "POLL", "HDP_FLUSH", "ATOMIC",    "FILL",  "TIMESTAMP", "CACHE"};
    static_assert(sizeof names / sizeof *names == static_cast<size_t>(Op::count));
    return names[static_cast<size_t>(op)];
}

unsigned atomic_width(uint32_t tc_op) {
    // Returning forms; the non-returning ones are 0x40 above. 32 bit: 0x07..0x19, 64 bit: 0x27..0x39.
    switch (tc_op & ~0x40u) {
    case 0x07:
    case 0x08:
    case 0x0f:
    case 0x10:
    case 0x11:
    case 0x12:
    case 0x13:
    case 0x14:
    case 0x15:
    case 0x16:
    case 0x17:
    case 0x18:
    case 0x19:
        return 4;
    case 0x27:
    case 0x28:
    case 0x2f:
    case 0x30:
    case 0x31:
    case 0x32:
    case 0x33:
    case 0x34:
    case 0x35:
    case 0x36:
    case 0x37:
    case 0x38:
    case 0x39:
        return 8;
    default:
        return 0;
    }
}

std::string decode(Generation generation, const uint32_t *dwords, size_t available, Packet &packet) {
    packet = Packet{};
    if (available == 0)
        return too_long(1, 0);
    Fields f{generation, dwords, {}};
    uint32_t header = dwords[0];
    if (bits(header, 7, 0) == 0) {
        packet.dwords = bits(header, 29, 16) + 1;
        f.reserved(0, field(29, 16));
        return !f.error.empty() || packet.dwords <= available ? f.error : too_long(packet.dwords, available);
    }
    const Kind *kind = find(generation, header);
    if (!kind)
        return format("unknown op %u, sub-op %u", bits(header, 7, 0), bits(header, 15, 8));
    packet.dwords = kind->dwords;
    if (kind->fields == copy_linear && bits(header, 27, 27))
        packet.dwords += 2;
    if (packet.dwords > available)
        return too_long(packet.dwords, available);
    kind->fields(f, packet);
    if (packet.op == Op::write && f.error.empty()) {
        packet.dwords += static_cast<uint32_t>(packet.bytes / 4);
        if (packet.dwords > available)
            return too_long(packet.dwords, available);
    }
    return f.error;
}

std::string describe(const Packet &p) {
    const char *name = to_string(p.op);
    switch (p.op) {
    case Op::nop:
        return format("%s dwords=%u", name, p.dwords);
    case Op::copy:
        if (p.second_address)
            return format("%s src=0x%" PRIx64 " dst=0x%" PRIx64 " dst2=0x%" PRIx64 " bytes=%" PRIu64, name, p.source,
                          p.address, p.second_address, p.bytes);
        return format("%s src=0x%" PRIx64 " dst=0x%" PRIx64 " bytes=%" PRIu64, name, p.source, p.address, p.bytes);
    case Op::copy_rect:
        return format("%s src=0x%" PRIx64 " dst=0x%" PRIx64 " rect=%ux%ux%u element=%u", name, p.source, p.address,
                      p.rect[0], p.rect[1], p.rect[2], p.element);
    case Op::write:
        return format("%s dst=0x%" PRIx64 " bytes=%" PRIu64, name, p.address, p.bytes);
    case Op::fence:
        return format("%s address=0x%" PRIx64 " data=0x%" PRIx64, name, p.address, p.data);
    case Op::trap:
        return format("%s context=%" PRIu64, name, p.data);
    case Op::poll:
        return format("%s address=0x%" PRIx64 " function=%u reference=0x%" PRIx64 " mask=0x%x", name, p.address,
                      p.function, p.data, p.mask);
    case Op::atomic:
        return format("%s address=0x%" PRIx64 " operation=0x%x data=0x%" PRIx64, name, p.address, p.function, p.data);
    case Op::fill:
        return format("%s dst=0x%" PRIx64 " bytes=%" PRIu64 " pattern=0x%" PRIx64, name, p.address, p.bytes, p.data);
    case Op::timestamp:
        return format("%s address=0x%" PRIx64, name, p.address);
    default:
        return name;
    }
}

} // namespace simnode
