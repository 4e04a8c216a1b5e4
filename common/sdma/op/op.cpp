// SPDX-License-Identifier: BSD-3-Clause
#include "op.hpp"

#include <new>
#include <utility>

#include "../base/base.hpp"
#include "../base/phase.hpp"

namespace sdma::op {

Op::Op(Context &context, team::Team &team, const sdma_desc_t &desc)
    : context_(context), team_(team), source_(static_cast<const char *>(desc.send)),
      destination_(static_cast<char *>(desc.recv)) {
    if (desc.in_place)
        source_ = destination_;
    context.memory().progress(); // what peers have freed is not mapped for longer than to here
    team::Shape &shape = call_.shape;
    shape.kind = desc.kind == SDMA_ALLGATHER ? SDMA_ALLGATHER : SDMA_ALLTOALL;
    shape.rank = team.rank();
    shape.size = team.size();
    shape.in_place = desc.in_place != 0;
    // What may be lacking is taken before the others count on us.
    try {
        call_.refused = examine(context, team, desc, call_);
        if (call_.refused == SDMA_REASON_none && !(record_ = context.take_record(Transfer::record_bytes(team.size()))))
            call_.refused = SDMA_REASON_no_memory;
    } catch (const std::bad_alloc &) {
        call_.refused = SDMA_REASON_no_memory;
    }
    team.start(call_);
}

Op::~Op() { context_.memory().registry().release(call_.receive); }

sdma_status_t Op::test() {
    if (status_ != SDMA_PENDING)
        return status_;
    if (!call_.settled()) {
        if (context_.faulted())
            team_.break_off(SDMA_REASON_fault);
        team_.advance();
    }
    switch (call_.stage) {
    case team::Call::Stage::declined:
        settle(SDMA_DECLINED, call_.reason);
        break;
    case team::Call::Stage::failed:
        settle(SDMA_ERROR, call_.reason);
        break;
    case team::Call::Stage::agreed:
        move();
        break;
    default:
        break;
    }
    return status_;
}

void Op::move() {
    if (!transfer_)
        transfer_.emplace(context_, team_, call_, source_, destination_, std::exchange(record_, nullptr));
    sdma_status_t status = SDMA_ERROR;
    sdma_reason_t reason = SDMA_REASON_no_memory;
    try {
        status = transfer_->test();
        reason = transfer_->reason();
    } catch (const std::bad_alloc &) {
        log(0, "rank %u: no memory for operation %llu", team_.rank(), static_cast<unsigned long long>(call_.sequence));
        team_.set_fault(reason); // the others wait for our data
        team_.break_off(reason);
    }
    if (status != SDMA_PENDING)
        settle(status, reason);
}

void Op::settle(sdma_status_t status, sdma_reason_t reason) {
    status_ = status;
    reason_ = reason;
    transfer_.reset();
    if (record_)
        context_.give_record(std::exchange(record_, nullptr), Transfer::record_bytes(team_.size()));
    team_.finish(call_);
    if (status == SDMA_OK) {
        count(Counter::served);
        report_setup(team_.rank());
    } else if (status == SDMA_DECLINED) {
        count_declined(reason);
        if (team_.first_declined(reason))
            log(1, "rank %u of %u: %s declined: %s (%s); later ones are counted only", team_.rank(), team_.size(),
                call_.shape.kind == SDMA_ALLGATHER ? "allgather" : "alltoall", sdma_reason_name(reason),
                sdma_reason_text(reason));
    }
}

// ---- eligibility ---------------------------------------------------------------------------------

namespace {

// The shape of the call; only what does not depend on memory.
sdma_reason_t take_shape(const sdma_desc_t &desc, team::Shape &shape) {
    if (desc.refused != SDMA_REASON_none)
        return desc.refused < SDMA_REASON_COUNT ? desc.refused : SDMA_REASON_datatype;
    if (desc.layout != SDMA_CONTIGUOUS || (desc.kind != SDMA_ALLTOALL && desc.kind != SDMA_ALLGATHER))
        return SDMA_REASON_datatype;
    if (desc.in_place && desc.kind == SDMA_ALLTOALL)
        return SDMA_REASON_in_place;
    shape.block_bytes = desc.block_bytes;
    if (desc.send_blocks && !desc.in_place)
        shape.send_blocks.assign(desc.send_blocks, desc.send_blocks + shape.size);
    if (desc.recv_blocks)
        shape.recv_blocks.assign(desc.recv_blocks, desc.recv_blocks + shape.size);
    return !shape.irregular() && shape.block_bytes == 0 ? SDMA_REASON_empty : SDMA_REASON_none;
}

// GPU memory that holds `bytes` from `address` on.
sdma_reason_t locate(gpu::Runtime &runtime, const void *address, uint64_t bytes, gpu::Range &range) {
    range = runtime.classify(address);
    switch (range.kind) {
    case gpu::Memory_kind::host:
    case gpu::Memory_kind::pinned_host:
        return SDMA_REASON_host_buffer;
    case gpu::Memory_kind::unsupported:
        return SDMA_REASON_memory_kind;
    case gpu::Memory_kind::device:
        break;
    }
    const auto offset = static_cast<uint64_t>(static_cast<const char *>(address) - static_cast<char *>(range.base));
    return bytes <= range.bytes - offset ? SDMA_REASON_none : SDMA_REASON_too_large;
}

} // namespace

sdma_reason_t examine(Context &context, team::Team &team, const sdma_desc_t &desc, team::Call &call) {
    if (context.faulted())
        return SDMA_REASON_fault;
    if (!params().enable)
        return SDMA_REASON_disabled;
    sdma_reason_t reason = take_shape(desc, call.shape);
    if (reason != SDMA_REASON_none)
        return reason;
    uint64_t send_end = 0, recv_end = 0;
    if (!call.shape.send_end(send_end) || !call.shape.recv_end(recv_end))
        return SDMA_REASON_too_large;

    gpu::Runtime *runtime = context.memory().runtime(reason);
    if (!runtime)
        return reason != SDMA_REASON_none ? reason : SDMA_REASON_no_runtime;
    gpu::Range source, destination;
    if (recv_end > 0 && (reason = locate(*runtime, desc.recv, recv_end, destination)) != SDMA_REASON_none)
        return reason;
    if (send_end > 0 && !desc.in_place && (reason = locate(*runtime, desc.send, send_end, source)) != SDMA_REASON_none)
        return reason;
    if (source.device >= 0 && destination.device >= 0 && source.device != destination.device)
        return SDMA_REASON_mixed_devices;
    call.device = destination.device >= 0 ? destination.device : source.device;
    if (call.device >= 0 && (reason = context.kernels(call.device)) != SDMA_REASON_none)
        return reason;
    if ((reason = team.pin(*runtime)) != SDMA_REASON_none)
        return reason;
    if (recv_end > 0) {
        call.receive_offset =
            static_cast<uint64_t>(static_cast<char *>(desc.recv) - static_cast<char *>(destination.base));
        reason = context.memory().registry().acquire(*runtime, destination, call.receive);
    }
    return reason;
}

} // namespace sdma::op
