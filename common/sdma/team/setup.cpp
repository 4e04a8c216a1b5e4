// SPDX-License-Identifier: BSD-3-Clause
//
// Team set-up: exchange, open the peers' segments, agree that all could.
#include "team.hpp"

#include "../base/base.hpp"
#include "../base/phase.hpp"

namespace sdma::team {

namespace {

constexpr uint32_t most_ranks = 1u << 16; // of one node; keeps sizes of segments in range
constexpr int most_slots = 4096;
constexpr uint32_t polls_between_checks = 1u << 10;

sdma_reason_t checked_reason(uint64_t value, sdma_reason_t otherwise) {
    return value > SDMA_REASON_none && value < SDMA_REASON_COUNT ? static_cast<sdma_reason_t>(value) : otherwise;
}

} // namespace

Team::Team(memory::Memory &memory, const sdma_bootstrap_t &bootstrap, sdma_reason_t refused)
    : memory_(memory), bootstrap_(bootstrap), rank_(static_cast<uint32_t>(bootstrap.rank)), refused_(refused) {
    layout_.size = static_cast<uint32_t>(bootstrap.size);
    const int slots = params().slots;
    layout_.depth = static_cast<uint32_t>(slots < 1 ? 1 : slots > most_slots ? most_slots : slots);
    if (bootstrap.size <= 1)
        turn_off(SDMA_REASON_single_rank);
    else if (layout_.size > most_ranks)
        turn_off(SDMA_REASON_too_large); // the same everywhere
}

Team::~Team() {
    if (gpu::Runtime *runtime = memory_.open_runtime()) {
        for (auto &rank : ranks_)
            for (auto &[key, attached] : rank.attached)
                if (attached.attachment)
                    memory_.attachments().drop(*runtime, *attached.attachment);
        for (auto &rank : ranks_)
            if (segments_kept_)
                rank.segment.keep_mapped();
            else if (rank.pinned)
                runtime->unpin(rank.segment.address());
    }
    // The exchange may still read and write there: kept for ever rather than freed under it.
    if (in_exchange_)
        static_cast<void>(announcements_.release());
}

sdma_status_t Team::test() {
    switch (stage_) {
    case Stage::start:
        announcements_ = std::make_unique<Announcement[]>(layout_.size + 1);
        if (announce(memory_.runtime_loaded()))
            stage_ = Stage::exchange;
        break;
    case Stage::exchange:
        if (exchanged(Stage::attach))
            read_announcements();
        break;
    case Stage::second_exchange:
        exchanged(Stage::attach);
        break;
    default:
        break;
    }
    if (stage_ == Stage::attach) {
        const sdma_reason_t reason = attach_peers();
        store_verdict(reason);
        if (reason != SDMA_REASON_none)
            turn_off(reason);
        else
            stage_ = Stage::verdicts;
    }
    if (stage_ == Stage::verdicts)
        collect_verdicts();
    return stage_ == Stage::live ? SDMA_OK : stage_ == Stage::off ? SDMA_DECLINED : SDMA_PENDING;
}

bool Team::announce(bool with_segments) {
    if (with_segments && refused_ == SDMA_REASON_none && !create_segments())
        refused_ = SDMA_REASON_no_memory;
    mine().magic = team_magic;
    mine().version = wire_version;
    mine().slots = layout_.depth;
    mine().identity = memory_.identity();
    mine().loaded = with_segments;
    mine().refused = refused_;
    count(Counter::exchanges);
    if (bootstrap_.allgather(bootstrap_.context, &mine(), announcements_.get(), sizeof(Announcement)) == 0) {
        in_exchange_ = true;
        return true;
    }
    log(0, "rank %u: the exchange at set-up could not be started", rank_);
    turn_off(SDMA_REASON_setup_failed);
    return false;
}

bool Team::create_segments() {
    if (!ranks_.empty())
        return true; // made for the first exchange
    Timed timed(Phase::segments);
    if (!memory_.create())
        return false;
    ranks_.resize(layout_.size);
    memory::Segment &segment = ranks_[rank_].segment;
    segment = memory::Segment::create("mpi-sdma-team", layout_.bytes());
    if (!segment)
        return false;
    Header &own = header(rank_);
    own.geometry = layout_.geometry();
    own.rank = rank_;
    own.version = wire_version;
    own.magic.store(team_magic, std::memory_order_release);
    mine().process_fd = static_cast<uint64_t>(memory_.fd());
    mine().team_fd = static_cast<uint64_t>(segment.fd());
    return true;
}

bool Team::exchanged(Stage next_if_done) {
    const int done = bootstrap_.test(bootstrap_.context);
    if (done == 0)
        return false;
    in_exchange_ = false;
    if (done > 0) {
        stage_ = next_if_done;
        return true;
    }
    log(0, "rank %u: the exchange at set-up failed", rank_);
    store_verdict(SDMA_REASON_setup_failed); // for peers whose exchange did not fail
    turn_off(SDMA_REASON_setup_failed);
    return false;
}

// Everybody reads the same announcements and comes to the same conclusion.
void Team::read_announcements() {
    uint32_t loaded = 0;
    for (uint32_t p = 0; p < layout_.size; p++) {
        if (announcements_[p].magic != team_magic || announcements_[p].version != wire_version)
            return turn_off(SDMA_REASON_version);
        loaded += announcements_[p].loaded != 0;
    }
    for (uint32_t p = 0; p < layout_.size; p++)
        if (announcements_[p].refused != SDMA_REASON_none)
            return turn_off(checked_reason(announcements_[p].refused, SDMA_REASON_setup_failed));
    if (loaded == 0)
        return turn_off(SDMA_REASON_no_runtime);
    // Some have a runtime and some do not: now the others need segments too, to say no in.
    if (loaded < layout_.size && announce(true))
        stage_ = Stage::second_exchange;
}

sdma_reason_t Team::attach_peers() {
    Timed timed(Phase::segments);
    for (uint32_t p = 0; p < layout_.size; p++) {
        const Announcement &peer = announcements_[p];
        if (peer.refused != SDMA_REASON_none)
            return checked_reason(peer.refused, SDMA_REASON_setup_failed);
        if (peer.slots != layout_.depth) {
            log(0, "rank %u has parameter slots=%u, rank %u has %llu", rank_, layout_.depth, p,
                static_cast<unsigned long long>(peer.slots));
            return SDMA_REASON_mismatch;
        }
        if (p == rank_)
            continue;
        if (!memory::reachable(memory_.identity(), peer.identity)) {
            log(0, "rank %u is in another pid namespace than rank %u", p, rank_);
            return SDMA_REASON_peer_segment;
        }
        Rank &rank = ranks_[p];
        rank.process = memory_.process(peer.identity, peer.process_fd);
        if (!rank.process)
            return SDMA_REASON_peer_segment;
        rank.segment = memory::Segment::open(peer.identity, peer.team_fd, layout_.bytes(), true);
        rank.segment.close_fd();
        if (!rank.segment || header(p).magic.load(std::memory_order_acquire) != team_magic ||
            header(p).version != wire_version || header(p).geometry != layout_.geometry() || header(p).rank != p) {
            log(0, "team segment of rank %u cannot be opened or is malformed", p);
            return SDMA_REASON_peer_segment;
        }
    }
    served_.assign(layout_.depth, 0);
    return SDMA_REASON_none;
}

void Team::store_verdict(sdma_reason_t reason) {
    if (!ranks_.empty() && ranks_[rank_].segment)
        header(rank_).verdict.store(1 + static_cast<uint64_t>(reason), std::memory_order_release);
}

void Team::collect_verdicts() {
    for (; next_verdict_ < layout_.size; next_verdict_++) {
        const uint64_t verdict = header(next_verdict_).verdict.load(std::memory_order_acquire);
        if (verdict == 0) {
            if (++polls_ % polls_between_checks == 0 && ranks_[next_verdict_].process->gone()) {
                log(0, "rank %u ended during set-up", next_verdict_);
                turn_off(SDMA_REASON_peer_gone);
            }
            return;
        }
        if (verdict != 1)
            return turn_off(checked_reason(verdict - 1, SDMA_REASON_setup_failed));
    }
    // A stored verdict says that the peer has opened our segment: nobody needs the descriptor again.
    ranks_[rank_].segment.close_fd();
    announcements_.reset();
    stage_ = Stage::live;
}

void Team::turn_off(sdma_reason_t reason) {
    reason_ = reason;
    stage_ = Stage::off;
    if (reason != SDMA_REASON_no_runtime && reason != SDMA_REASON_single_rank)
        log(1, "team of %u ranks is off: %s", layout_.size, sdma_reason_text(reason));
}

sdma_reason_t Team::pin(gpu::Runtime &runtime) {
    if (pinned_by_)
        return SDMA_REASON_none;
    Timed timed(Phase::pinning);
    for (Rank &rank : ranks_) {
        if (rank.pinned)
            continue;
        void *device_address = nullptr;
        gpu::Status status = runtime.pin(rank.segment.address(), rank.segment.bytes(), device_address);
        if (status != gpu::Status::ok) {
            log(0, "a team segment of %zu bytes cannot be pinned: %s", rank.segment.bytes(), gpu::to_string(status));
            return SDMA_REASON_pin_failed;
        }
        rank.device_address = reinterpret_cast<uint64_t>(device_address);
        rank.pinned = true;
    }
    pinned_by_ = &runtime;
    return SDMA_REASON_none;
}

void Team::set_fault(sdma_reason_t reason) {
    if (live())
        header(rank_).fault.store(1 + static_cast<uint64_t>(reason), std::memory_order_release);
}

void Team::break_off(sdma_reason_t reason) {
    if (broken_ == SDMA_REASON_none)
        broken_ = reason;
}

sdma_reason_t Team::lost(uint32_t peer) const {
    if (peer == rank_)
        return SDMA_REASON_none;
    if (header(peer).fault.load(std::memory_order_acquire) != 0)
        return SDMA_REASON_peer_fault;
    return ranks_[peer].process->gone() ? SDMA_REASON_peer_gone : SDMA_REASON_none;
}

} // namespace sdma::team
