// SPDX-License-Identifier: BSD-3-Clause
//
// What one-sided operations must do, in host memory. Every rank draws the operations of all ranks from the same random
// numbers and applies them to an image of every window; its own ones it then has to issue.
//
// A window is two areas in which everybody accumulates at once, with one operation that commutes, and an area per
// origin. In its own area an origin never touches a byte twice in a round, except by accumulates in a row, whose
// order MPI guarantees.
#pragma once

#include <memory>
#include <optional>

#include "test/mpi/buffers.hpp"
#include "test/mpi/rma_types.hpp"

namespace rma {

enum class Function { put, get, accumulate, get_accumulate, fetch_and_op, compare_and_swap };
inline constexpr uint64_t functions = 6;

inline const char *name_of(Function function) {
    constexpr const char *names[functions] = {
        "put", "get", "accumulate", "get_accumulate", "fetch_and_op", "compare_and_swap"};
    return names[static_cast<size_t>(function)];
}

// One operation, the content of its buffers before, and what comes back. Buffers have `margin` bytes on both sides.
struct Operation {
    static constexpr size_t margin = 64;

    Function function = Function::put;
    Element element = Element::u8;
    Reduction reduction = Reduction::replace;
    Memory memory = Memory::host; // of the buffers
    int target = 0;
    size_t offset = 0; // in the window
    std::unique_ptr<Shape> at_target, at_origin, at_result;
    bool origin_ignored = false;      // no-op: anything may be passed
    Bytes origin, compare;            // images of what is sent
    Bytes result_before, result_then; // of what is received into

    bool sends() const { return function != Function::get; }
    bool receives() const { return function != Function::put && function != Function::accumulate; }
};

// Of Open MPI alone, in host memory, 4.1.4 if not said otherwise.
//   rdma  osc/rdma over btl/vader: single-element functions on oneself crash; logical operations on single elements
//         are bitwise, and the least and the greatest signed; get_accumulate returns other data now and then
//   rdma_allocate  ... in memory that MPI allocates, single-element functions on others crash, too
//   rdma_5  5.0.7's: single-element functions return other data, bitwise accumulates by
//         several origins get lost, and so do some of datatypes with gaps
//   sm    osc/sm: an operation between a large scattered type and another one moves the wrong bytes
enum class Defects { none, rdma, rdma_allocate, rdma_5, sm };

class Model {
public:
    // `most`: bytes of one operation. `units`: every rank's displacement unit.
    Model(int ranks, size_t most, std::vector<size_t> units)
        : most_(most), area_((most * 3 + 16384) / 64 * 64), units_(std::move(units)),
          windows_(static_cast<size_t>(ranks), Bytes(common_u64 + common_f64 + area_ * static_cast<size_t>(ranks))) {
        for (int r = 0; r < ranks; ++r) {
            Bytes &window = windows_[static_cast<size_t>(r)];
            window = Pattern(r, r, 0).block(window.size());
            numbers(window.data() + common_u64, common_f64, Pattern(r, r, 1));
        }
    }

    size_t bytes() const { return windows_[0].size(); }
    const Bytes &window(int rank) const { return windows_[static_cast<size_t>(rank)]; }

    struct Round {
        uint64_t seed = 0;                    // of this round
        uint64_t epoch = 0;                   // chooses how the common areas are accumulated to
        std::vector<std::vector<bool>> pairs; // [origin][target]; empty: all
        std::vector<Memory> memories;         // for origins' buffers
        size_t operations = 6;                // per pair
        Defects defects = Defects::none;      // what to leave out
    };
    // Applies all ranks' operations, and returns those of rank `mine`.
    std::vector<Operation> play(const Round &round, int mine) {
        std::vector<Operation> own;
        const auto ranks = static_cast<int>(windows_.size());
        for (int origin = 0; origin < ranks; ++origin) {
            for (int target = 0; target < ranks; ++target) {
                if (!round.pairs.empty() && !round.pairs[static_cast<size_t>(origin)][static_cast<size_t>(target)]) {
                    continue;
                }
                for (Operation &operation : draw(round, origin, target)) {
                    if (origin == mine) {
                        own.push_back(std::move(operation));
                    }
                }
            }
        }
        return own;
    }

private:
    static constexpr size_t common_u64 = 4096;
    static constexpr size_t common_f64 = 4096;

    // Small whole numbers, whose sums are exact in any order.
    static void numbers(uint8_t *to, size_t bytes, const Pattern &pattern) {
        for (size_t i = 0; i + sizeof(double) <= bytes; i += sizeof(double)) {
            const double value = 1 + pattern[i] % 64;
            std::memcpy(to + i, &value, sizeof value);
        }
    }
    // An image of a buffer for `shape`.
    static Bytes image(const Shape &shape, Element element, const Pattern &pattern) {
        Bytes image = pattern.block(shape.span() + 2 * Operation::margin);
        if (element == Element::f64) {
            numbers(image.data() + Operation::margin, shape.span(), pattern);
        }
        return image;
    }

    size_t draw_bytes(Random &random) const {
        switch (random.below(16)) {
        case 0:
            return 0;
        case 1:
            return 1;
        case 2:
        case 3:
            return 8;
        case 4:
            return std::min<size_t>(most_, 65536);
        case 5:
            return random.below(2) == 0 ? most_ : random.below(most_ + 1);
        default:
            return random.below(std::min<size_t>(most_, 5000)) | 1U;
        }
    }

    std::vector<Operation> draw(const Round &round, int origin, int target) {
        Random random(round.seed * 1000003 + static_cast<uint64_t>(origin * 1009 + target) + 1);
        for (int i = 0; i < 8; ++i) {
            random(); // neighbouring seeds part
        }
        const size_t unit = units_[static_cast<size_t>(target)];
        std::vector<Operation> drawn;
        size_t at = common_u64 + common_f64 + static_cast<size_t>(origin) * area_ + random.below(64);
        const size_t end = common_u64 + common_f64 + (static_cast<size_t>(origin) + 1) * area_;
        for (size_t i = 0; i < round.operations; ++i) {
            const Pattern pattern(origin, target, random());
            Operation operation;
            // Each row ends with a get, from where this round has put nothing: one that comes too late is noticed.
            const bool last = i + 1 == round.operations;
            const bool again =
                !last && !drawn.empty() && random.below(3) == 0 && repeat(drawn.back(), operation, random);
            if (!again && !last && random.below(4) == 0) {
                common(operation, round.epoch, round.defects, random);
            } else if (!again) {
                place(operation, random);
                avoid(round.defects, operation, origin == target);
                operation.function = last ? Function::get : operation.function;
                const size_t step = std::max(bytes_of(operation.element), unit);
                at = (at + step - 1) / step * step;
                operation.offset = at;
                if (!spread(operation, end - std::min(end, at), round.defects, random)) {
                    break;
                }
                at += operation.at_target->span() + random.below(20);
            }
            operation.target = target;
            operation.memory = round.memories[random.below(round.memories.size())];
            operation.origin_ignored = operation.function == Function::get_accumulate &&
                                       operation.reduction == Reduction::no_op && random.below(2) == 0;
            fill(operation, pattern, random);
            apply(operation);
            drawn.push_back(std::move(operation));
        }
        return drawn;
    }

    static bool single(const Operation &operation) {
        return operation.function == Function::fetch_and_op || operation.function == Function::compare_and_swap;
    }
    // Which function in the origin's own area; the element.
    static void place(Operation &operation, Random &random) {
        operation.function = static_cast<Function>(random.below(functions));
        operation.element = static_cast<Element>(random.below(3));
        if (operation.function != Function::put && operation.function != Function::get) {
            operation.reduction = static_cast<Reduction>(random.below(reductions));
            if (operation.function == Function::accumulate && operation.reduction == Reduction::no_op) {
                operation.reduction = Reduction::replace;
            }
            if (operation.element == Element::u8 && operation.reduction == Reduction::sum) {
                operation.reduction = Reduction::bxor; // Open MPI's sums of bytes saturate, but not all
            }
        }
    }
    // A window that Open MPI serves by itself gets no operation that 4.1.4 does wrong there.
    static void avoid(Defects defects, Operation &operation, bool self) {
        Reduction &reduction = operation.reduction;
        if (defects == Defects::none || defects == Defects::sm) {
            return;
        }
        if ((single(operation) && (self || defects != Defects::rdma)) ||
            operation.function == Function::get_accumulate) {
            operation.function = Function::get;
        } else if (defects == Defects::rdma_5 && operation.function == Function::accumulate) {
            operation.function = Function::put;
        }
        if (reduction == Reduction::land || reduction == Reduction::lor || reduction == Reduction::lxor ||
            (operation.element == Element::u64 && (reduction == Reduction::min || reduction == Reduction::max))) {
            reduction = Reduction::bxor;
        }
    }
    // An accumulate in the areas of all: the same operation by everybody in this epoch.
    void common(Operation &operation, uint64_t epoch, Defects defects, Random &random) const {
        constexpr Reduction whole[] = {Reduction::sum, Reduction::bxor, Reduction::max, Reduction::prod};
        constexpr Reduction real[] = {Reduction::sum, Reduction::max, Reduction::min};
        const bool integers = random.below(2) == 0;
        operation.function = Function::accumulate;
        operation.element = integers ? Element::u64 : Element::f64;
        operation.reduction = integers ? whole[epoch % (defects == Defects::none     ? 4
                                                        : defects == Defects::rdma_5 ? 1
                                                                                     : 2)]
                                       : real[epoch % 3];
        const size_t start = 8 * random.below(64);
        operation.offset = (integers ? 0 : common_u64) + start;
        const size_t number = 1 + random.below(64);
        operation.at_target = std::make_unique<Shape>(draw_kind(random), operation.element, number, random);
        if (operation.at_target->span() > common_u64 - start) {
            operation.at_target = std::make_unique<Shape>(Shape::Kind::contiguous, operation.element, number, random);
        }
        operation.at_origin = std::make_unique<Shape>(draw_kind(random), operation.element, number, random);
    }
    // The same elements of the target once more: accumulates of one origin are ordered.
    static bool repeat(const Operation &before, Operation &operation, Random &random) {
        if (before.function == Function::put || before.function == Function::get ||
            before.function == Function::compare_and_swap) {
            return false;
        }
        const size_t number = before.at_target->bytes() / bytes_of(before.element);
        operation.function = before.function;
        operation.element = before.element;
        operation.reduction = before.reduction;
        operation.offset = before.offset;
        Random same(number); // shapes do not matter here
        if (single(before)) {
            contiguous(operation, same);
            return true;
        }
        const bool gap = before.at_target->span() != before.at_target->bytes();
        if (gap) {
            return false;
        }
        operation.at_target = std::make_unique<Shape>(Shape::Kind::contiguous, before.element, number, same);
        operation.at_origin = std::make_unique<Shape>(draw_kind(random), before.element, number, random);
        operation.at_result = std::make_unique<Shape>(draw_kind(random), before.element, number, random);
        return true;
    }
    static Shape::Kind draw_kind(Random &random) {
        return random.below(2) == 0 ? Shape::Kind::contiguous : static_cast<Shape::Kind>(random.below(Shape::kinds));
    }
    static void contiguous(Operation &operation, Random &random) {
        for (auto *shape : {&operation.at_target, &operation.at_origin, &operation.at_result}) {
            *shape = std::make_unique<Shape>(Shape::Kind::contiguous, operation.element, 1, random);
        }
    }
    // The three shapes, of which the target's needs `room`. False: there is none.
    bool spread(Operation &operation, size_t room, Defects defects, Random &random) const {
        if (single(operation)) {
            contiguous(operation, random);
            return room >= bytes_of(operation.element);
        }
        const size_t least = operation.function == Function::get && random.below(2) == 0 ? most_ / 4 : 0;
        const size_t number = std::max(least, draw_bytes(random)) / bytes_of(operation.element);
        const bool simple = defects == Defects::sm && number > 8192;
        for (auto *shape : {&operation.at_target, &operation.at_origin, &operation.at_result}) {
            const Shape::Kind kind = simple ? Shape::Kind::contiguous : draw_kind(random);
            *shape = std::make_unique<Shape>(kind, operation.element, number, random);
        }
        return operation.at_target->span() <= room;
    }

    void fill(Operation &operation, const Pattern &pattern, Random &random) {
        if (operation.sends()) {
            operation.origin = image(*operation.at_origin, operation.element, pattern);
        }
        if (operation.receives()) {
            operation.result_before = image(*operation.at_result, Element::u8, Pattern(1, 1, random()));
        }
        if (operation.function == Function::compare_and_swap) {
            operation.compare = image(*operation.at_origin, operation.element, Pattern(2, 2, random()));
            if (random.below(2) == 0) { // what is there
                std::memcpy(operation.compare.data() + Operation::margin, at(operation), bytes_of(operation.element));
            }
        }
    }

    uint8_t *at(const Operation &operation) {
        return windows_[static_cast<size_t>(operation.target)].data() + operation.offset;
    }

    void apply(Operation &operation) {
        uint8_t *window = at(operation);
        if (operation.receives()) {
            operation.result_then = operation.result_before;
            operation.at_result->unpack(operation.result_then.data() + Operation::margin,
                                        operation.at_target->pack(window));
        }
        if (operation.function == Function::get) {
            return;
        }
        const Bytes packed = operation.at_origin->pack(operation.origin.data() + Operation::margin);
        if (operation.function == Function::put) {
            operation.at_target->unpack(window, packed);
        } else if (operation.function != Function::compare_and_swap) {
            operation.at_target->accumulate(operation.element, operation.reduction, window, packed);
        } else if (std::memcmp(window, operation.compare.data() + Operation::margin, packed.size()) == 0) {
            std::memcpy(window, packed.data(), packed.size());
        }
    }

    size_t most_, area_;
    std::vector<size_t> units_;
    std::vector<Bytes> windows_;
};

} // namespace rma
