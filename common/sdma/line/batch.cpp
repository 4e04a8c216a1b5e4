// SPDX-License-Identifier: BSD-3-Clause
#include "batch.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "../../../kernels/mutants.h"
#include "../base/base.hpp"
#include "../ring/initiate.hpp"

namespace sdma::line {

namespace {

bool is(const char *parameter, const char *value) { return strcmp(parameter, value) == 0; }

uint64_t load_acquire(const uint64_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

// The limit is the hardware's.
uint64_t chunk_bytes(const engine::Queue &queue) {
    return plan::clamp_chunk(queue.read_by_software ? packet::copy_limit : params().chunk_max);
}

// What a batch may take of a ring: as much as one reservation can, so that it never waits for itself.
uint64_t most_dwords(const engine::Queue &queue) { return queue.bytes / 2 / sizeof(uint32_t); }
constexpr uint64_t signals_dwords = 2 * packet::Atomic::dwords;

} // namespace

Batch::Batch(op::Context &context, gpu::Runtime &runtime, int device, bool by_host, bool held, bool at_target)
    : context_(context), runtime_(runtime), device_(device), by_host_(by_host), held_(held), at_target_(at_target) {}

// A record that kernels or engines may still use stays where it is.
Batch::~Batch() {
    unclaim_rings();
    if (record_ && (complete_ || !issued_))
        context_.give_record(record_, record_bytes_);
}

// ---- filling -------------------------------------------------------------------------------------

uint64_t Batch::most_bytes(const engine::Queue *queue) {
    if (!queue)
        return UINT64_MAX;
    return (most_dwords(*queue) - signals_dwords) / packet::Copy::dwords * chunk_bytes(*queue);
}

bool Batch::add(uint64_t src, uint64_t dst, uint64_t bytes, engine::Queue *queue, Target_word *target) {
    if (copies_.size() >= static_cast<size_t>(std::max(params().put_batch, 1)))
        return false;
    plan::Peer copy;
    copy.src = src;
    copy.dst = dst;
    copy.bytes = bytes;
    copy.path = queue ? SDMA_PATH_ENGINE : SDMA_PATH_LOADSTORE;
    if (queue) {
        auto leg = std::find_if(legs_.begin(), legs_.end(), [&](const Leg &leg) { return leg.queue == queue; });
        // One record, one limit of its copies.
        if (!legs_.empty() && legs_[0].queue->read_by_software != queue->read_by_software)
            return false;
        const uint64_t dwords = plan::copies(bytes, chunk_bytes(*queue)) * packet::Copy::dwords;
        if (leg != legs_.end() &&
            (leg->target != target || leg->dwords + dwords + signals_dwords > most_dwords(*queue)))
            return false;
        if (leg == legs_.end())
            leg = legs_.insert(leg, Leg{queue, target, 0, 0, 0});
        leg->dwords += dwords;
        copy.queue = static_cast<uint32_t>(leg - legs_.begin());
    }
    copies_.push_back(copy);
    return true;
}

bool Batch::add_value(uint64_t value, uint64_t dst, engine::Queue *queue, Target_word *target) {
    if (!add(0, dst, sizeof value, queue, target))
        return false;
    values_.push_back({copies_.size() - 1, value});
    return true;
}

// ---- records -------------------------------------------------------------------------------------

// An ATOMIC makes the proxy read the word first, by a copy that it waits for.
enum sdma_signal_kind Batch::signal_kind() const {
    const char *signal = params().signal;
    const auto prefers_fence = [](const Leg &leg) { return leg.queue->prefers_fence; };
    const bool fence = is(signal, "fence") || (!is(signal, "atomic") &&
                                               (!runtime_.host_atomics() || std::ranges::any_of(legs_, prefers_fence)));
    return fence ? SDMA_SIGNAL_FENCE : SDMA_SIGNAL_ATOMIC;
}

bool Batch::build_copying() {
    signal_kind_ = signal_kind();
    if (!record_) {
        const size_t words = 2 * legs_.size() + values_.size();
        const size_t bytes = plan::record_bytes(legs_.size(), copies_.size());
        // Few sizes of records, so that the pool stays small.
        record_bytes_ = (bytes + words * sizeof(uint64_t) + 1023) & ~size_t{1023};
        record_ = context_.take_record(record_bytes_);
        if (!record_)
            return false;
        words_ = reinterpret_cast<uint64_t *>(record_ + bytes);
        std::fill_n(words_, words, 0);
    }
    for (size_t i = 0; i < values_.size(); i++) {
        *value(i) = values_[i].value;
        copies_[values_[i].copy].src = reinterpret_cast<uint64_t>(value(i));
    }
    std::vector<plan::Peer *> last(legs_.size());
    for (plan::Peer &copy : copies_)
        if (copy.path == SDMA_PATH_ENGINE)
            last[copy.queue] = &copy;
    for (size_t i = 0; i < legs_.size(); i++) {
        last[i]->departure = reinterpret_cast<uint64_t>(word(i));
        last[i]->departure_value = 1;
        if (Target_word *target = legs_[i].target) {
            legs_[i].expected_at_target = ++target->raised;
            last[i]->arrival = target->address;
            last[i]->arrival_value = static_cast<uint32_t>(target->raised); // as much as a FENCE stores
        }
    }
    return build(copies_);
}

// Every queue fetches its target word.
bool Batch::build_reading() {
    std::vector<plan::Peer> reads(legs_.size());
    for (size_t i = 0; i < legs_.size(); i++) {
        reads[i].src = legs_[i].target->address;
        reads[i].dst = reinterpret_cast<uint64_t>(read_back(i));
        reads[i].bytes = sizeof(uint64_t);
        reads[i].departure = reinterpret_cast<uint64_t>(word(i));
        reads[i].departure_value = 1;
        reads[i].queue = static_cast<uint32_t>(i);
        *word(i) = 0;
    }
    return build(reads);
}

bool Batch::build(const std::vector<plan::Peer> &peers) {
    std::vector<uint64_t> rings;
    {
        auto lock = context_.use_queues();
        if (context_.faulted())
            return false;
        for (const Leg &leg : legs_)
            rings.push_back(reinterpret_cast<uint64_t>(leg.queue->ring));
    }
    plan::Operation operation;
    operation.sequence = last;
    operation.signal_kind = signal_kind_;
    operation.chunk_bytes = legs_.empty() ? packet::copy_limit : chunk_bytes(*legs_[0].queue);
    operation.spin_budget = plan::spin_budget(static_cast<uint64_t>(std::max(params().hardware_timeout, 1)),
                                              by_host_ ? plan::Initiator::host : plan::Initiator::gpu);
    operation.rings = rings;
    operation.peers = peers;
    uint64_t moved_by_kernel = 0;
    for (const plan::Peer &peer : peers)
        moved_by_kernel += peer.path == SDMA_PATH_LOADSTORE ? peer.bytes : 0;
    const bool resident = is(params().launch, "resident") && (!by_host_ || legs_.empty());
    operation.resident_copies =
        resident && moved_by_kernel != 0 && runtime_.resident_copies() && moved_by_kernel <= params().resident_max;
    const auto room = static_cast<size_t>(reinterpret_cast<std::byte *>(words_) - record_);
    work_ = plan::build(operation, {record_, room});
    started_ = host_issued_ = handed_ = false;
    issue_ = {0, (!legs_.empty() && !by_host_) || operation.resident_copies, false};
    resident_ = issue_.needed && resident ? &context_.resident(device_) : nullptr;
    copy_ = {0, moved_by_kernel != 0 && !operation.resident_copies, false};
    return work_ != nullptr;
}

// ---- issue ---------------------------------------------------------------------------------------

Batch::Progress Batch::issue() {
    if (!work_ && !build_copying())
        return context_.faulted() || !record_ ? Progress::waiting : fail("makes no sense");
    const Progress progress = start();
    issued_ = issued_ || progress == Progress::moved;
    return progress;
}

// All parts, each once.
Batch::Progress Batch::start() {
    if (by_host_ && !legs_.empty() && !host_issued_) {
        auto lock = context_.use_queues();
        if (context_.faulted() || !room_in_rings())
            return Progress::waiting;
        initiate_on_host(work_);
        for (const Leg &leg : legs_)
            if (leg.queue->serve && !leg.queue->serve())
                leg.queue->wake(); // another thread is at it, or the runtime is full
        host_issued_ = issued_ = true;
        count(Counter::put_batches);
    }
    if (issue_.needed && !issue_.launch && !handed_) {
        if (!claim_rings())
            return Progress::waiting;
        announce();
        if (Progress progress = hand_over(); progress != Progress::moved)
            return progress;
    }
    if (copy_.needed && !copy_.launch) {
        uint64_t bytes = 0;
        for (const plan::Peer &copy : copies_)
            bytes += copy.path == SDMA_PATH_LOADSTORE ? copy.bytes : 0;
        const uint32_t workgroups = plan::workgroups(bytes, params().loadstore_workgroups);
        if (Progress progress = launch(copy_, gpu::Kernel::copy, workgroups, "copy"); progress != Progress::moved)
            return progress;
    }
    started_ = true;
    return Progress::moved;
}

// To the resident kernel or to one of our own.
Batch::Progress Batch::hand_over() {
    const gpu::Status status = resident_ ? resident_->submit(*work_) : gpu::Status::unsupported;
    if (status == gpu::Status::unsupported) {
        resident_ = nullptr;
        copy_.needed = copy_.needed || work_->resident_copies != 0;
        work_->resident_copies = 0;
        issue_.needed = !legs_.empty();
        return issue_.needed ? launch(issue_, gpu::Kernel::issue, 1, "issue") : Progress::moved;
    }
    if (status == gpu::Status::pending)
        return Progress::waiting;
    if (status != gpu::Status::ok)
        return fail(std::string("resident kernel cannot be started: ") + gpu::to_string(status));
    handed_ = issued_ = true;
    if (!legs_.empty())
        count(Counter::put_batches);
    return Progress::moved;
}

Batch::Progress Batch::launch(Started &started, gpu::Kernel kernel, uint32_t workgroups, const char *name) {
    const gpu::Status status = runtime_.launch(device_, kernel, workgroups, work_, started.launch);
    if (status == gpu::Status::ok) {
        issued_ = true;
        count(Counter::launches);
        if (kernel == gpu::Kernel::issue)
            count(Counter::put_batches);
        return Progress::moved;
    }
    started.launch = 0;
    if (status == gpu::Status::pending)
        return Progress::waiting;
    return fail(std::string(name) + " kernel cannot be started: " + gpu::to_string(status));
}

// All or none, as for collectives; kept until the end.
bool Batch::claim_rings() {
    const auto needed = [this](const Leg &leg) { return leg.queue->read_by_software && !by_host_; };
    for (Leg &leg : legs_) {
        const uint64_t bytes = (leg.dwords + signals_dwords) * sizeof(uint32_t);
        if (leg.claim != 0 || !needed(leg))
            continue;
        if (!leg.queue->claim(bytes)) {
            unclaim_rings();
            return false;
        }
        leg.claim = bytes;
    }
    return true;
}

void Batch::unclaim_rings() {
    for (Leg &leg : legs_)
        if (leg.claim != 0)
            leg.queue->unclaim(std::exchange(leg.claim, 0));
}

// The CPU would have to wait for room, and nothing here waits. Other threads may still be faster: then
// it waits for their packets to be read. A claim takes up to its own size again for the pad at the
// ring's end. Call with the queues in use.
bool Batch::room_in_rings() const {
    for (const Leg &leg : legs_) {
        const struct sdma_ring *ring = leg.queue->ring;
        if (!ring)
            return false; // taken out of use: progress finds the fault
        const auto *cursors = reinterpret_cast<const struct sdma_ring_cursors *>(ring->cursors);
        const uint64_t read = load_acquire(reinterpret_cast<const uint64_t *>(ring->read_pointer));
        const uint64_t used = load_acquire(&cursors->reserve) - read;
        const uint64_t claim = (leg.dwords + signals_dwords) * sizeof(uint32_t);
        if (used > 0 && used + 2 * claim > ring->bytes)
            return false;
    }
    return true;
}

// ---- completion ----------------------------------------------------------------------------------

bool Batch::reached(const uint64_t *word, uint64_t expected) const {
    const uint64_t value = load_acquire(word);
    return signal_kind_ == SDMA_SIGNAL_FENCE ? static_cast<int32_t>(static_cast<uint32_t>(value - expected)) >= 0
                                             : static_cast<int64_t>(value - expected) >= 0;
}

bool Batch::all_raised() const {
    for (size_t i = 0; i < legs_.size(); i++)
        if (!reached(word(i), 1) && !mutant::early_flush)
            return false;
    return true;
}

bool Batch::all_at_target() const {
    for (size_t i = 0; i < legs_.size(); i++)
        if (!reached(read_back(i), legs_[i].expected_at_target))
            return false;
    return true;
}

bool Batch::finished(const Started &started) const {
    return started.finished || !started.launch || runtime_.finished(started.launch) != gpu::Status::pending;
}

bool Batch::launched(Started &started, const char *name) {
    if (started.finished || !started.launch)
        return true;
    const gpu::Status status = runtime_.finished(started.launch);
    if (status == gpu::Status::pending)
        return false;
    started.finished = true;
    if (status != gpu::Status::ok)
        fail(std::string(name) + " kernel ended with: " + gpu::to_string(status));
    return true;
}

// The resident kernel has not come to the record yet, and may have to be started again.
bool Batch::issue_open() const { return handed_ && load_acquire(&work_->status) == SDMA_WORK_OPEN; }

bool Batch::ready() const {
    return !started_ || issue_open() || load_acquire(&work_->status) > SDMA_WORK_ISSUED ||
           (all_raised() && finished(issue_) && finished(copy_));
}

// Nobody may look for the packets for long. Before a launch, which takes longer than a thread needs to get up.
void Batch::announce() {
    auto lock = context_.use_queues();
    for (const Leg &leg : legs_)
        if (leg.queue->wake)
            leg.queue->wake();
}

// Where no hardware reads the rings, who waits does.
void Batch::serve() {
    auto lock = context_.use_queues();
    for (const Leg &leg : legs_)
        if (leg.queue->serve)
            leg.queue->serve();
}

Batch::Progress Batch::poll() {
    if (!started_)
        if (Progress progress = start(); progress != Progress::moved)
            return progress;
    if (!legs_.empty() && legs_[0].queue->read_by_software && !all_raised())
        serve();
    if (issue_open())
        return resident_->poll() == gpu::Status::failed ? fail("the resident kernel is dead") : Progress::waiting;
    const uint64_t status = load_acquire(&work_->status);
    if (status > SDMA_WORK_ISSUED)
        return fail(status == SDMA_WORK_RING_STUCK ? "a ring has no room and its engine does not read"
                                                   : "the initiator found no sense in the work record");
    const bool both = launched(issue_, "issue") & launched(copy_, "copy");
    if (!what_.empty())
        return Progress::failed;
    if (!both || !all_raised())
        return Progress::waiting;
    const bool news = !departed_ && !fetches;
    departed_ = true;
    if (!at_target_ || legs_.empty() || (state_ == State::reading && all_at_target())) {
        complete_ = true;
        unclaim_rings();
        return Progress::moved;
    }
    // What came back may have been fetched before the word was raised: again, then.
    state_ = State::reading;
    if (!build_reading())
        return Progress::waiting;
    if (start() == Progress::failed)
        return Progress::failed;
    return news ? Progress::moved : Progress::waiting;
}

// ---- diagnostics ---------------------------------------------------------------------------------

Batch::Progress Batch::fail(std::string what) {
    what_ = std::move(what);
    return Progress::failed;
}

uint64_t Batch::activity() const {
    uint64_t sum = (issued_ ? 1 : 0) + (started_ ? 2 : 0) + (issue_.finished ? 4 : 0) + (copy_.finished ? 8 : 0);
    auto lock = context_.use_queues();
    for (const Leg &leg : legs_)
        if (const struct sdma_ring *ring = leg.queue->ring)
            sum += 16 * load_acquire(reinterpret_cast<const uint64_t *>(ring->read_pointer));
    return sum;
}

std::string Batch::describe() const {
    std::string text = std::to_string(copies_.size()) + " copies, operations up to " + std::to_string(last);
    if (!issued_)
        text += record_ ? ", not issued" : ", no work record";
    if (copy_.needed)
        text += copy_.finished ? ", load/store kernel finished" : ", load/store kernel not finished";
    auto lock = context_.use_queues();
    for (size_t i = 0; i < legs_.size(); i++) {
        text += "; " + legs_[i].queue->describe();
        if (words_)
            text += ", signal is " + std::to_string(load_acquire(word(i))) + ", expected 1";
    }
    return text;
}

} // namespace sdma::line
