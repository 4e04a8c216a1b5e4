// SPDX-License-Identifier: BSD-3-Clause
#include "transfer.hpp"

#include <algorithm>
#include <cstring>

#include "../base/base.hpp"
#include "../ring/initiate.hpp"

namespace sdma::op {

namespace {

bool is(const char *parameter, const char *value) { return strcmp(parameter, value) == 0; }

uint64_t load_acquire(const uint64_t &word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }

} // namespace

Transfer::Transfer(Context &context, team::Team &team, team::Call &call, const char *source, char *destination,
                   std::byte *record)
    : context_(context), team_(team), call_(call), source_(source), destination_(destination),
      runtime_(*context.memory().open_runtime()), record_(record), record_bytes_(record_bytes(team.size())) {}

// Few sizes, so that the pool stays small.
size_t Transfer::record_bytes(size_t ranks) { return (plan::record_bytes(ranks, ranks) + 1023) & ~size_t{1023}; }

Transfer::~Transfer() {
    unclaim_rings();
    if (held_)
        resident_->release();
    if (in_flight()) { // after a fault: the record, mappings and signal words stay where a kernel or an engine may look
        team_.keep_segments();
        return;
    }
    give_back();
    for (uint32_t p = 0; p < uses_counted_; p++)
        if (memory::Attachment *attachment = call_.targets[p].attachment)
            context_.memory().attachments().unuse(*attachment);
}

sdma_status_t Transfer::test() {
    if (state_ != State::done && state_ != State::failed && context_.faulted())
        fail(SDMA_REASON_fault); // another operation's hardware fault has taken our queues as well
    if (state_ == State::prepare && prepare())
        state_ = State::issue;
    if (state_ == State::issue && issue())
        state_ = State::wait;
    if (state_ == State::wait) {
        const bool own = own_part_done();
        if (state_ == State::wait && own && all_arrived())
            state_ = State::done;
        else if (state_ == State::wait && own && lost_ != SDMA_REASON_none && !others_to_come_)
            fail(lost_);
        if (state_ == State::wait)
            watch(own);
    } else if (state_ == State::issue) {
        watch(false);
    }
    return state_ == State::done ? SDMA_OK : state_ == State::failed ? SDMA_ERROR : SDMA_PENDING;
}

// ---- prepare -------------------------------------------------------------------------------------

bool Transfer::prepare() {
    by_host_ = context_.engines()->producer(call_.device, params().initiator) == engine::Producer::host;
    if (!use_attachments())
        return false;
    peers_.reserve(team_.size());
    add_peers();
    choose_signals();
    return build_record();
}

void Transfer::choose_signals() {
    const char *signal = params().signal;
    const auto prefers_fence = [](const engine::Queue *queue) { return queue->prefers_fence; };
    const bool fence = is(signal, "fence") ||
                       (!is(signal, "atomic") &&
                        (!runtime_.host_atomics() || std::any_of(queues_.begin(), queues_.end(), prefers_fence)));
    signal_kind_ = fence ? SDMA_SIGNAL_FENCE : SDMA_SIGNAL_ATOMIC;
    kernel_signals_ = copy_.needed && runtime_.coherent_stores();
}

bool Transfer::use_attachments() {
    for (; uses_counted_ < team_.size(); uses_counted_++) {
        memory::Attachment *attachment = call_.targets[uses_counted_].attachment;
        if (!attachment || context_.memory().attachments().use(*attachment))
            continue;
        log(0, "rank %u: rank %u has taken back the receive buffer of operation %llu", team_.rank(), uses_counted_,
            static_cast<unsigned long long>(call_.sequence));
        team_.set_fault(SDMA_REASON_peer_segment); // the others wait for our data
        fail(SDMA_REASON_peer_segment);
        return false;
    }
    return true;
}

void Transfer::add_peers() {
    const team::Shape &shape = call_.shape;
    const gpu::Pci_address own =
        call_.device >= 0 ? runtime_.devices()[static_cast<size_t>(call_.device)].pci : gpu::Pci_address{};
    // Not all start with rank 0: its links would be the bottleneck.
    for (uint32_t step = 1; step <= team_.size(); step++) {
        const uint32_t peer = (team_.rank() + step) % team_.size();
        const sdma_block_t block = shape.send(peer);
        if (peer == team_.rank()) {
            if (block.bytes == 0 || shape.in_place)
                raise_by_cpu(peer);
            else
                add_peer(peer, source_ + block.offset,
                         reinterpret_cast<uint64_t>(destination_) + shape.recv(peer).offset, block.bytes, own);
        } else if (block.bytes == 0) {
            raise_by_cpu(peer); // nothing to wait for: no packet needed
        } else {
            const team::Call::Target &target = call_.targets[peer];
            gpu_shared_ = gpu_shared_ || target.attachment->source.pci == own;
            add_peer(peer, source_ + block.offset,
                     reinterpret_cast<uint64_t>(target.attachment->mapped) + target.offset, block.bytes,
                     target.attachment->source.pci);
        }
    }
}

void Transfer::add_peer(uint32_t peer, const char *src, uint64_t dst, uint64_t bytes, const gpu::Pci_address &where) {
    const bool own = peer == team_.rank();
    plan::Peer leg;
    leg.src = reinterpret_cast<uint64_t>(src);
    leg.dst = dst;
    leg.bytes = bytes;
    leg.arrival = own ? 0 : team_.arrival_address(call_, peer);
    leg.departure = team_.departure_address(call_, peer);
    leg.arrival_value = leg.departure_value = call_.served;
    leg.rank = peer;
    // The CPU as initiator, if asked for, means: no kernel, as far as there are queues.
    const uint64_t loadstore_max = is(params().initiator, "host")       ? 0
                                   : call_.shape.kind == SDMA_ALLGATHER ? params().loadstore_max_allgather
                                                                        : params().loadstore_max_alltoall;
    engine::Queue *queue = nullptr;
    if (plan::choose_path(bytes, loadstore_max, true) == SDMA_PATH_ENGINE) {
        sdma_reason_t reason;
        queue =
            context_.queue(call_.device, where, by_host_ ? engine::Producer::host : engine::Producer::device, reason);
    }
    leg.path = plan::choose_path(bytes, loadstore_max, queue != nullptr);
    if (queue) {
        auto found = std::find(queues_.begin(), queues_.end(), queue);
        leg.queue = static_cast<uint32_t>(found - queues_.begin());
        if (found == queues_.end())
            queues_.push_back(queue);
        software_ = software_ || queue->read_by_software;
    } else {
        copy_.needed = true;
        loadstore_bytes_ += bytes;
    }
    peers_.push_back(leg);
    count(own                               ? Counter::bytes_local
          : leg.path == SDMA_PATH_LOADSTORE ? Counter::bytes_loadstore
                                            : Counter::bytes_sdma,
          bytes);
}

// What the packets of a queue would do, with values instead of additions: we are the only writer.
void Transfer::raise_by_cpu(uint32_t peer) {
    team_.departure(call_, peer).store(call_.served, std::memory_order_relaxed);
    if (peer != team_.rank())
#ifdef SDMA_MUTANT_SUMMED_ARRIVAL
        team_.arrival_at(call_, peer).fetch_add(1, std::memory_order_release);
#else
        team_.arrival_at(call_, peer).store(call_.served, std::memory_order_release);
#endif
}

bool Transfer::build_record() {
    if (peers_.empty())
        return true;
    std::vector<uint64_t> rings;
    rings.reserve(queues_.size());
    {
        auto lock = context_.use_queues();
        if (context_.faulted())
            return false; // the next test sees it
        for (engine::Queue *queue : queues_)
            rings.push_back(reinterpret_cast<uint64_t>(queue->ring));
    }
    plan::Operation operation;
    operation.kind = static_cast<uint32_t>(call_.shape.kind);
    operation.sequence = call_.sequence;
    operation.slot = team_.slot(call_);
    operation.signal_kind = signal_kind_;
    // The limit is the hardware's.
    const bool any_size =
        std::all_of(queues_.begin(), queues_.end(), [](const engine::Queue *queue) { return queue->read_by_software; });
    operation.chunk_bytes = plan::clamp_chunk(any_size ? packet::copy_limit : params().chunk_max);
    operation.spin_budget = plan::spin_budget(static_cast<uint64_t>(std::max(params().hardware_timeout, 1)),
                                              by_host_ ? plan::Initiator::host : plan::Initiator::gpu);
    operation.kernel_signals = kernel_signals_;
    const bool resident = is(params().launch, "resident") && (!by_host_ || queues_.empty());
    operation.resident_copies =
        resident && kernel_signals_ && runtime_.resident_copies() && loadstore_bytes_ <= params().resident_max;
    operation.rings = rings;
    operation.peers = peers_;
    work_ = plan::build(operation, {record_, record_bytes_});
    if (!work_) {
        log(0, "rank %u: operation %llu does not fit a work record of %zu bytes", team_.rank(),
            static_cast<unsigned long long>(call_.sequence), record_bytes_);
        team_.set_fault(SDMA_REASON_no_memory);
        fail(SDMA_REASON_no_memory);
        return false;
    }
    copy_.needed = copy_.needed && !operation.resident_copies;
    issue_.needed = (!queues_.empty() && !by_host_) || operation.resident_copies;
    if (issue_.needed && resident)
        resident_ = &context_.resident(call_.device);
    return true;
}

// ---- issue ---------------------------------------------------------------------------------------

// True once everything is on its way.
bool Transfer::issue() {
    if (!work_)
        return true;
    if (context_.faulted())
        return false; // the next test sees it
    if (by_host_ && !queues_.empty() && !host_issued_) {
        auto lock = context_.use_queues();
        if (context_.faulted() || !rings_have_room())
            return false;
        initiate_on_host(work_);
        host_issued_ = true;
    }
    if (issue_.needed && !issue_.launch && !handed_ && (!claim_rings() || !hand_over()))
        return false;
    return !copy_.needed || copy_.launch ||
           launch(copy_, gpu::Kernel::copy, plan::workgroups(loadstore_bytes_, params().loadstore_workgroups));
}

// To the resident kernel or to one of our own.
bool Transfer::hand_over() {
    gpu::Status status = resident_ ? resident_->submit(*work_) : gpu::Status::unsupported;
    if (status == gpu::Status::unsupported) {
        resident_ = nullptr;
        copy_.needed = copy_.needed || work_->resident_copies != 0;
        work_->resident_copies = 0;
        issue_.needed = !queues_.empty();
        return !issue_.needed || launch(issue_, gpu::Kernel::issue, 1);
    }
    handed_ = status == gpu::Status::ok;
    held_ = handed_ && !gpu_shared_;
    if (held_)
        resident_->hold();
    if (!handed_ && status != gpu::Status::pending)
        hardware_fault(std::string("resident kernel cannot be started: ") + gpu::to_string(status));
    return handed_;
}

bool Transfer::launch(Started &started, gpu::Kernel kernel, uint32_t workgroups) {
    gpu::Status status = runtime_.launch(call_.device, kernel, workgroups, work_, started.launch);
    if (status == gpu::Status::ok) {
        count(Counter::launches);
        return true;
    }
    started.launch = 0;
    if (status != gpu::Status::pending)
        hardware_fault(std::string(kernel == gpu::Kernel::issue ? "issue" : "copy") +
                       " kernel cannot be started: " + gpu::to_string(status));
    return false;
}

uint64_t Transfer::packet_dwords(uint32_t queue) const {
    uint64_t dwords = 0;
    for (const plan::Peer &peer : peers_)
        if (peer.path == SDMA_PATH_ENGINE && peer.queue == queue) {
            sdma_work_peer packed{};
            packed.bytes = peer.bytes;
            packed.arrival = peer.arrival;
            packed.departure = peer.departure;
            dwords += plan::packet_dwords(packed, work_->chunk_bytes, signal_kind_);
        }
    return dwords;
}

// All or none: operations that each kept a part would wait for each other.
bool Transfer::claim_rings() {
    claims_.reserve(queues_.size()); // what is claimed is noted
    while (claims_.size() < queues_.size()) {
        const auto q = static_cast<uint32_t>(claims_.size());
        const uint64_t bytes = queues_[q]->read_by_software ? packet_dwords(q) * sizeof(uint32_t) : 0;
        if (bytes != 0 && !queues_[q]->claim(bytes)) {
            unclaim_rings();
            return false;
        }
        claims_.push_back(bytes);
    }
    return true;
}

void Transfer::unclaim_rings() {
    for (size_t q = 0; q < claims_.size(); q++)
        if (claims_[q] != 0)
            queues_[q]->unclaim(claims_[q]);
    claims_.clear();
}

// The CPU initiator would wait for room. More than half a ring can only be written piece by piece. With the queues in
// use.
bool Transfer::rings_have_room() const {
    for (uint32_t q = 0; q < queues_.size(); q++) {
        const struct sdma_ring *ring = queues_[q]->ring;
        if (!ring)
            return false; // taken out of use: the next test sees the fault
        const uint64_t dwords = packet_dwords(q);
        const auto *cursors = reinterpret_cast<const struct sdma_ring_cursors *>(ring->cursors);
        const uint64_t used =
            load_acquire(cursors->reserve) - load_acquire(*reinterpret_cast<const uint64_t *>(ring->read_pointer));
        if (used > 0 && used + std::min(4 * dwords, ring->bytes / 2) > ring->bytes / 2)
            return false;
    }
    return true;
}

// ---- wait ----------------------------------------------------------------------------------------

bool Transfer::reached(const team::Word &word) const {
    const uint64_t value = word.load(std::memory_order_acquire);
    uint64_t expected = call_.served;
#ifdef SDMA_MUTANT_SUMMED_ARRIVAL
    if (&word == &team_.arrival_from(call_, 0))
        expected = call_.served_in_team * (team_.size() - 1);
#endif
    // A FENCE, of ours or of the peer's, leaves the upper half alone.
    return static_cast<int32_t>(static_cast<uint32_t>(value - expected)) >= 0;
}

// False while it runs; a kernel that failed is a hardware fault.
bool Transfer::poll_launch(Started &started, const char *name) {
    if (started.finished || !started.launch)
        return true;
    gpu::Status status = runtime_.finished(started.launch);
    if (status == gpu::Status::pending)
        return false;
    if (status != gpu::Status::ok) {
        hardware_fault(std::string(name) + " kernel ended with: " + gpu::to_string(status));
        return false;
    }
    started.finished = true;
    return true;
}

// False while the record is open; it is not touched any more then.
bool Transfer::poll_resident() {
    if (!handed_ || load_acquire(work_->status) != SDMA_WORK_OPEN)
        return true;
    if (resident_->poll() == gpu::Status::failed)
        hardware_fault("the resident kernel is dead");
    return false;
}

// Who waits for packets has the time to be the one who reads them.
void Transfer::serve_queues() {
    auto lock = context_.use_queues();
    for (engine::Queue *queue : queues_)
        if (queue->serve)
            queue->serve();
}

bool Transfer::own_part_done() {
    if (software_ && next_departure_ != team_.size())
        serve_queues();
    if (work_) {
        const uint64_t status = load_acquire(work_->status);
        if (status > SDMA_WORK_ISSUED) {
            hardware_fault(status == SDMA_WORK_RING_STUCK ? "a ring has no room and its engine does not read"
                                                          : "the initiator found no sense in the work record");
            return false;
        }
        const bool was_finished = copy_.finished;
        if (!poll_resident() || !poll_launch(issue_, "issue") || !poll_launch(copy_, "copy"))
            return false;
        if (copy_.finished && !was_finished && !kernel_signals_)
            for (const plan::Peer &peer : peers_)
                if (peer.path == SDMA_PATH_LOADSTORE)
                    raise_by_cpu(peer.rank);
    }
    while (next_departure_ < team_.size() && reached(team_.departure(call_, next_departure_)))
        next_departure_++;
    if (next_departure_ != team_.size())
        return false;
    unclaim_rings(); // all packets are consumed
    give_back();
    return true;
}

bool Transfer::all_arrived() {
    while (next_arrival_ < team_.size() &&
           (next_arrival_ == team_.rank() || reached(team_.arrival_from(call_, next_arrival_))))
        next_arrival_++;
    return next_arrival_ == team_.size();
}

// Whether a kernel or an engine may still have to do with it.
bool Transfer::in_flight() const {
    return work_ && (host_issued_ || handed_ || issue_.launch != 0 || copy_.launch != 0);
}

// Nothing of ours is in flight.
void Transfer::give_back() {
    if (record_)
        context_.give_record(record_, record_bytes_);
    record_ = nullptr;
    work_ = nullptr;
}

} // namespace sdma::op
