// SPDX-License-Identifier: BSD-3-Clause
//
// Elements, reductions and datatypes of one-sided operations, once as MPI has them and once as the model has them.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "test/mpi/harness.hpp"

namespace rma {

using Bytes = std::vector<uint8_t>;

enum class Element { u8, i32, u64, f64 };
inline constexpr size_t elements = 4;

inline size_t bytes_of(Element element) {
    constexpr size_t bytes[elements] = {1, 4, 8, 8};
    return bytes[static_cast<size_t>(element)];
}
inline MPI_Datatype type_of(Element element) {
    const MPI_Datatype types[elements] = {MPI_UINT8_T, MPI_INT32_T, MPI_UINT64_T, MPI_DOUBLE};
    return types[static_cast<size_t>(element)];
}

enum class Reduction { replace, no_op, sum, prod, min, max, land, lor, lxor, band, bor, bxor };
inline constexpr size_t reductions = 12;

inline MPI_Op op_of(Reduction reduction) {
    const MPI_Op ops[reductions] = {MPI_REPLACE, MPI_NO_OP, MPI_SUM,  MPI_PROD, MPI_MIN, MPI_MAX,
                                    MPI_LAND,    MPI_LOR,   MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR};
    return ops[static_cast<size_t>(reduction)];
}

// What `now` at the target becomes. Wide is unsigned for integers, where overflow is allowed.
template <class Type, class Wide> Type reduced(Reduction reduction, Type now, Type with) {
    switch (reduction) {
    case Reduction::replace:
        return with;
    case Reduction::no_op:
        return now;
    case Reduction::sum:
        return static_cast<Type>(static_cast<Wide>(now) + static_cast<Wide>(with));
    case Reduction::prod:
        return static_cast<Type>(static_cast<Wide>(now) * static_cast<Wide>(with));
    case Reduction::min:
        return std::min(now, with);
    case Reduction::max:
        return std::max(now, with);
    case Reduction::land:
        return now != 0 && with != 0;
    case Reduction::lor:
        return now != 0 || with != 0;
    case Reduction::lxor:
        return (now != 0) != (with != 0);
    default:
        break;
    }
    if constexpr (std::is_integral_v<Type>) {
        switch (reduction) {
        case Reduction::band:
            return now & with;
        case Reduction::bor:
            return now | with;
        default:
            return now ^ with;
        }
    }
    std::abort(); // no bits of floating point
}

template <class Type, class Wide = Type>
void reduce_run(Reduction reduction, uint8_t *target, const uint8_t *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += sizeof(Type)) {
        Type now;
        Type with;
        std::memcpy(&now, target + i, sizeof now);
        std::memcpy(&with, from + i, sizeof with);
        now = reduced<Type, Wide>(reduction, now, with);
        std::memcpy(target + i, &now, sizeof now);
    }
}

inline void reduce(Element element, Reduction reduction, uint8_t *target, const uint8_t *from, size_t bytes) {
    switch (element) {
    case Element::u8:
        return reduce_run<uint8_t, unsigned>(reduction, target, from, bytes);
    case Element::i32:
        return reduce_run<int32_t, uint32_t>(reduction, target, from, bytes);
    case Element::u64:
        return reduce_run<uint64_t>(reduction, target, from, bytes);
    case Element::f64:
        return reduce_run<double>(reduction, target, from, bytes);
    }
}

// `count` of `type`, and the runs of bytes that it names, in the order of its type map.
class Shape {
public:
    enum class Kind { contiguous, vector, indexed, subarray, resized };
    static constexpr uint64_t kinds = 5;

    Shape(Kind kind, Element element, size_t number, Random &random) : bytes_(number * bytes_of(element)) {
        const MPI_Datatype base = type_of(element);
        const size_t size = bytes_of(element);
        const size_t blocks = divisor(number, random);
        if (blocks == 0 || kind == Kind::contiguous) {
            simple(base, number, random.below(2) == 0);
            return;
        }
        const size_t block = number / blocks; // elements
        const size_t pitch = block + 1 + random.below(3);
        const auto row = [&](size_t at) { runs_.push_back({at * size, block * size}); };
        switch (kind) {
        case Kind::vector:
            MPI_Type_vector(integer(blocks), integer(block), integer(pitch), base, &type_);
            for (size_t i = 0; i < blocks; ++i) {
                row(i * pitch);
            }
            break;
        case Kind::indexed: { // backwards: the type map's order is not that of memory
            std::vector<int> lengths(blocks, integer(block));
            std::vector<int> places;
            for (size_t i = blocks; i-- > 0;) {
                places.push_back(integer(i * pitch));
                row(i * pitch);
            }
            MPI_Type_indexed(integer(blocks), lengths.data(), places.data(), base, &type_);
            break;
        }
        case Kind::subarray: {
            const int whole[2] = {integer(blocks + 2), integer(block + 3)};
            const int part[2] = {integer(blocks), integer(block)};
            const int start[2] = {1, 2};
            MPI_Type_create_subarray(2, whole, part, start, MPI_ORDER_C, base, &type_);
            for (size_t i = 0; i < blocks; ++i) {
                row((i + 1) * (block + 3) + 2);
            }
            break;
        }
        default: { // resized: a gap behind each element of the type
            MPI_Datatype inner = MPI_DATATYPE_NULL;
            MPI_Type_contiguous(integer(block), base, &inner);
            MPI_Type_create_resized(inner, 0, static_cast<MPI_Aint>(pitch * size), &type_);
            MPI_Type_free(&inner);
            count_ = integer(blocks);
            for (size_t i = 0; i < blocks; ++i) {
                row(i * pitch);
            }
        }
        }
        MPI_Type_commit(&type_);
        derived_ = true;
    }
    ~Shape() {
        if (derived_) {
            MPI_Type_free(&type_);
        }
    }
    Shape(const Shape &) = delete;
    Shape &operator=(const Shape &) = delete;

    MPI_Datatype type() const { return type_; }
    int count() const { return count_; }
    size_t bytes() const { return bytes_; } // of data
    // Of memory, from the address on.
    size_t span() const {
        size_t span = 0;
        for (const Run &run : runs_) {
            span = std::max(span, run.offset + run.bytes);
        }
        return span;
    }
    Bytes pack(const uint8_t *from) const {
        Bytes packed;
        packed.reserve(bytes_);
        for (const Run &run : runs_) {
            packed.insert(packed.end(), from + run.offset, from + run.offset + run.bytes);
        }
        return packed;
    }
    void unpack(uint8_t *to, const Bytes &packed) const {
        const uint8_t *from = packed.data();
        for (const Run &run : runs_) {
            std::memcpy(to + run.offset, from, run.bytes);
            from += run.bytes;
        }
    }
    void accumulate(Element element, Reduction reduction, uint8_t *to, const Bytes &packed) const {
        const uint8_t *from = packed.data();
        for (const Run &run : runs_) {
            reduce(element, reduction, to + run.offset, from, run.bytes);
            from += run.bytes;
        }
    }

private:
    struct Run {
        size_t offset, bytes;
    };
    static int integer(size_t value) { return static_cast<int>(value); }
    // A number of equal blocks for `number` elements, 1000 at the most.
    static size_t divisor(size_t number, Random &random) {
        size_t divisor = number == 0 ? 0 : 1 + random.below(std::min<size_t>(number, 1000));
        while (divisor > 1 && number % divisor != 0) {
            --divisor;
        }
        return divisor;
    }
    void simple(MPI_Datatype base, size_t number, bool in_type) {
        type_ = base;
        count_ = integer(number);
        if (in_type && number > 0) {
            MPI_Type_contiguous(count_, base, &type_);
            MPI_Type_commit(&type_);
            count_ = 1;
            derived_ = true;
        }
        if (number > 0) {
            runs_.push_back({0, bytes_});
        }
    }
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
    int count_ = 1;
    bool derived_ = false;
    size_t bytes_;
    std::vector<Run> runs_;
};

} // namespace rma
