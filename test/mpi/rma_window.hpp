// SPDX-License-Identifier: BSD-3-Clause
//
// Windows of every kind, and operations on them in flight.
#pragma once

#include "test/mpi/rma_model.hpp"

namespace rma {

enum class Flavor { create, allocate, shared, dynamic };
enum class Place { host, pinned, device, mixed }; // mixed: in turn by rank

struct Kind {
    const char *name;
    Flavor flavor;
    Place place;
    bool device() const { return place == Place::device || place == Place::mixed; }
};
inline constexpr Kind kinds[] = {
    {"create-host", Flavor::create, Place::host},       {"create-pinned", Flavor::create, Place::pinned},
    {"create-device", Flavor::create, Place::device},   {"create-mixed", Flavor::create, Place::mixed},
    {"allocate", Flavor::allocate, Place::host},        {"shared", Flavor::shared, Place::host},
    {"dynamic-host", Flavor::dynamic, Place::host},     {"dynamic-pinned", Flavor::dynamic, Place::pinned},
    {"dynamic-device", Flavor::dynamic, Place::device}, {"dynamic-mixed", Flavor::dynamic, Place::mixed},
};

// A window of `bytes` on every rank of the world. Memory of our own has guards on both sides.
class Window {
public:
    Window(const Job &job, const Kind &kind, size_t bytes, std::vector<size_t> units)
        : rank_(job.rank), dynamic_(kind.flavor == Flavor::dynamic), bytes_(bytes), units_(std::move(units)) {
        const auto me = static_cast<size_t>(rank_);
        const auto unit = static_cast<int>(units_[me]);
        const auto size = static_cast<MPI_Aint>(bytes);
        if (kind.flavor == Flavor::create || dynamic_) {
            const bool device = kind.place == Place::device || (kind.place == Place::mixed && rank_ % 2 == 1);
            memory_.emplace(bytes + 2 * guard, device                        ? Memory::device
                                               : kind.place == Place::pinned ? Memory::pinned
                                                                             : Memory::host);
            base_ = memory_->data() + guard;
            memory_->store(0, Bytes(memory_->bytes(), guard_byte));
        }
        switch (kind.flavor) {
        case Flavor::create:
            MPI_Win_create(base_, size, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &handle);
            break;
        case Flavor::allocate:
            MPI_Win_allocate(size, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &base_, &handle);
            break;
        case Flavor::shared:
            MPI_Win_allocate_shared(size, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &base_, &handle);
            break;
        case Flavor::dynamic:
            MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &handle);
            MPI_Win_attach(handle, base_, size);
            break;
        }
        MPI_Aint address = 0;
        MPI_Get_address(base_, &address);
        addresses_.resize(static_cast<size_t>(job.size));
        MPI_Allgather(&address, 1, MPI_AINT, addresses_.data(), 1, MPI_AINT, MPI_COMM_WORLD);
    }
    ~Window() {
        if (dynamic_) {
            MPI_Win_detach(handle, base_);
        }
        MPI_Win_free(&handle);
    }
    Window(const Window &) = delete;
    Window &operator=(const Window &) = delete;

    MPI_Aint displacement(int target, size_t offset) const {
        const auto t = static_cast<size_t>(target);
        return dynamic_ ? addresses_[t] + static_cast<MPI_Aint>(offset) : static_cast<MPI_Aint>(offset / units_[t]);
    }

    // Own content, under a lock of oneself so that MPI lets us look.
    void store(const Bytes &content) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank_, 0, handle);
        if (memory_) {
            memory_->store(guard, content);
        } else {
            std::memcpy(base_, content.data(), content.size());
        }
        MPI_Win_unlock(rank_, handle);
    }
    Bytes load() const {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank_, 0, handle);
        Bytes content = memory_ ? memory_->load(guard, bytes_) : Bytes(base_, base_ + bytes_);
        MPI_Win_unlock(rank_, handle);
        return content;
    }
    bool guards_intact() const {
        const Bytes untouched(guard, guard_byte);
        return !memory_ || (memory_->load(0, guard) == untouched && memory_->load(guard + bytes_, guard) == untouched);
    }

    MPI_Win handle = MPI_WIN_NULL;

private:
    static constexpr size_t guard = 4096;
    static constexpr uint8_t guard_byte = 0xc3;

    int rank_;
    bool dynamic_;
    size_t bytes_;
    std::vector<size_t> units_;
    std::optional<Buffer> memory_;
    uint8_t *base_ = nullptr;
    std::vector<MPI_Aint> addresses_;
};

// An operation of ours between its call and its check.
class Flight {
public:
    explicit Flight(Operation &&operation) : operation(std::move(operation)) {
        make(origin_, this->operation.origin);
        make(compare_, this->operation.compare);
        make(result_, this->operation.result_before);
    }

    // By the function that returns a request, where there is one and it is wanted.
    void issue(const Window &window, bool requests) {
        const Operation &o = operation;
        const MPI_Aint at = window.displacement(o.target, o.offset);
        const MPI_Op op = op_of(o.reduction);
        const MPI_Win win = window.handle;
        const Side from = side(o.at_origin, origin_);
        const Side to = side(o.at_result, result_);
        const int count = o.at_target->count();
        const MPI_Datatype type = o.at_target->type();
        switch (o.function) {
        case Function::put:
            requests ? MPI_Rput(from.data, from.count, from.type, o.target, at, count, type, win, &request_)
                     : MPI_Put(from.data, from.count, from.type, o.target, at, count, type, win);
            break;
        case Function::get:
            requests ? MPI_Rget(to.data, to.count, to.type, o.target, at, count, type, win, &request_)
                     : MPI_Get(to.data, to.count, to.type, o.target, at, count, type, win);
            break;
        case Function::accumulate:
            requests ? MPI_Raccumulate(from.data, from.count, from.type, o.target, at, count, type, op, win, &request_)
                     : MPI_Accumulate(from.data, from.count, from.type, o.target, at, count, type, op, win);
            break;
        case Function::get_accumulate: {
            const Side sent = o.origin_ignored ? Side{nullptr, 0, MPI_BYTE} : from;
            requests ? MPI_Rget_accumulate(sent.data, sent.count, sent.type, to.data, to.count, to.type, o.target, at,
                                           count, type, op, win, &request_)
                     : MPI_Get_accumulate(sent.data, sent.count, sent.type, to.data, to.count, to.type, o.target, at,
                                          count, type, op, win);
            break;
        }
        case Function::fetch_and_op:
            MPI_Fetch_and_op(from.data, to.data, type_of(o.element), o.target, at, op, win);
            break;
        case Function::compare_and_swap:
            MPI_Compare_and_swap(from.data, compare_->data() + Operation::margin, to.data, type_of(o.element), o.target,
                                 at, win);
            break;
        }
        requested_ = request_ != MPI_REQUEST_NULL;
    }
    // True: there was a request, and what it stands for is complete here.
    bool wait() {
        MPI_Wait(&request_, MPI_STATUS_IGNORE);
        return requested_;
    }

    // The operation is complete at the origin: results are there, and what was sent is as it was.
    void check(Job &job, const char *where) {
        if (operation.receives()) {
            same(job, where, "result", *result_, operation.result_then);
        }
        if (operation.sends()) {
            same(job, where, "origin", *origin_, operation.origin);
        }
    }
    // Complete at the origin, perhaps not at the target: what was sent may be overwritten.
    void spoil() {
        for (const std::unique_ptr<Buffer> *buffer : {&origin_, &compare_}) {
            if (*buffer) {
                (*buffer)->store(0, Bytes((*buffer)->bytes(), 0xee));
            }
        }
    }

    Operation operation;

private:
    struct Side {
        uint8_t *data;
        int count;
        MPI_Datatype type;
    };
    void make(std::unique_ptr<Buffer> &buffer, const Bytes &image) const {
        if (!image.empty()) {
            buffer = std::make_unique<Buffer>(image.size(), operation.memory);
            buffer->store(0, image);
        }
    }
    static Side side(const std::unique_ptr<Shape> &shape, const std::unique_ptr<Buffer> &buffer) {
        return buffer ? Side{buffer->data() + Operation::margin, shape->count(), shape->type()}
                      : Side{nullptr, 0, MPI_BYTE};
    }
    void same(Job &job, const char *where, const char *what, const Buffer &buffer, const Bytes &image) const {
        const Bytes now = buffer.load(0, buffer.bytes());
        const auto at = std::mismatch(now.begin(), now.end(), image.begin());
        job.check(at.first == now.end(),
                  "%s: %s of %zu bytes, element %zu, op %d, target %d at %zu: %s buffer, byte %td of %zu is %d, not %d",
                  where, name_of(operation.function), operation.at_target->bytes(), bytes_of(operation.element),
                  static_cast<int>(operation.reduction), operation.target, operation.offset, what,
                  at.first - now.begin() - static_cast<ptrdiff_t>(Operation::margin), now.size(),
                  at.first == now.end() ? 0 : *at.first, at.first == now.end() ? 0 : *at.second);
    }

    std::unique_ptr<Buffer> origin_, compare_, result_;
    MPI_Request request_ = MPI_REQUEST_NULL;
    bool requested_ = false;
};

} // namespace rma
