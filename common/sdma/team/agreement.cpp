// SPDX-License-Identifier: BSD-3-Clause
//
// The agreement on each call: offers, attachments, verdicts. See team.hpp.
#include "team.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "../base/base.hpp"

namespace sdma::team {

namespace {

// Looking whether peers still live is a system call per peer.
constexpr uint32_t polls_between_checks = 1u << 12;

// status: kind in bits 0-7, reason in bits 8-23, then flags.
constexpr uint64_t irregular_bit = 1ull << 24, evicted_bit = 1ull << 25;

uint64_t pack_status(const Offer &offer) {
    return static_cast<uint64_t>(offer.kind) | static_cast<uint64_t>(offer.reason) << 8 |
           (offer.irregular ? irregular_bit : 0) | (offer.evicted ? evicted_bit : 0);
}

bool unpack_status(uint64_t status, Offer &offer) {
    const uint64_t kind = status & 0xff, reason = status >> 8 & 0xffff;
    if ((kind != SDMA_ALLTOALL && kind != SDMA_ALLGATHER) || reason >= SDMA_REASON_COUNT ||
        (status & ~(irregular_bit | evicted_bit | 0xffffff)) != 0)
        return false;
    offer.kind = static_cast<sdma_kind_t>(kind);
    offer.reason = static_cast<sdma_reason_t>(reason);
    offer.irregular = (status & irregular_bit) != 0;
    offer.evicted = (status & evicted_bit) != 0;
    return true;
}

} // namespace

void Team::start(Call &call) {
    let_go_if_pressed();
    call.sequence = next_sequence_++;
    unfinished_++;
    *calls_end_ = &call;
    calls_end_ = &call.next;
    advance();
}

// One pass in call order. A call that cannot be offered holds back all later ones, and one whose
// offers are not complete holds back the reading of later offers; verdicts have no order.
void Team::advance() {
    bool may_collect = true;
    for (Call **at = &calls_; *at;) {
        Call &call = **at;
        if (call.stage == Call::Stage::queued && !try_offer(call))
            break;
        try {
            if (call.stage == Call::Stage::offered && may_collect)
                may_collect = try_collect(call);
            if (call.stage == Call::Stage::verdict)
                try_verdict(call);
        } catch (const std::bad_alloc &) {
            log(0, "rank %u: no memory for operation %llu", rank_, static_cast<unsigned long long>(call.sequence));
            give_up(call, SDMA_REASON_no_memory);
        }
        if (!call.settled()) {
            at = &call.next;
            continue;
        }
        *at = call.next;
        if (!*at)
            calls_end_ = at;
    }
}

// Eligible when it was offered, not any more: no if there is a round and we have not said yes in it, else peers see the
// fault.
void Team::give_up(Call &call, sdma_reason_t reason) {
    if (call.stage == Call::Stage::offered)
        store_call_verdict(call, reason);
    set_fault(reason);
    settle(call, Call::Stage::failed, reason);
}

void Team::finish(Call &call) {
    offer_line(rank_, slot(call)).consumed.store(call.epoch(), std::memory_order_release);
    unfinished_--;
}

void Team::settle(Call &call, Call::Stage stage, sdma_reason_t reason) {
    call.stage = stage;
    call.reason = reason;
    if (stage == Call::Stage::failed)
        break_off(reason);
}

// At a low rate: has a peer ended whose word is `missing`? Then nothing more will come from it.
template <class Missing> bool Team::check_peers(Call &call, Missing missing) {
    if (++call.polls % polls_between_checks != 0)
        return true;
    for (uint32_t p = 0; p < layout_.size; p++) {
        if (p == rank_ || !ranks_[p].process->gone() || !missing(p))
            continue;
        if (broken_ == SDMA_REASON_none)
            log(0, "rank %u: rank %u (process %llu) ended before operation %llu", rank_, p,
                static_cast<unsigned long long>(ranks_[p].process->identity().pid),
                static_cast<unsigned long long>(call.sequence));
        settle(call, Call::Stage::failed, SDMA_REASON_peer_gone);
        return false;
    }
    return true;
}

// ---- offering ------------------------------------------------------------------------------------

bool Team::try_offer(Call &call) {
#ifndef SDMA_MUTANT_EARLY_REUSE
    if (call.sequence >= layout_.depth) {
        const uint64_t last_use = call.epoch() - layout_.depth;
        const size_t at = layout_.slot(slot(call)); // not once per peer: this is most of what a declined call costs
        const auto in_use = [&](uint32_t p) {
            return ranks_[p].segment.at<Offer_line>(at)->consumed.load(std::memory_order_acquire) < last_use;
        };
        for (; call.next_peer < layout_.size; call.next_peer++)
            if (in_use(call.next_peer))
                return !check_peers(call, in_use); // a dead peer settles the call
    }
#endif
    call.next_peer = 0;
    publish(call);
    call.stage = Call::Stage::offered;
    if (call.mine.reason != SDMA_REASON_none)
        settle(call, Call::Stage::declined, call.mine.reason); // nobody can be of another opinion
    return true;
}

void Team::publish(Call &call) {
    Offer &mine = call.mine;
    mine.kind = call.shape.kind;
    mine.reason = call.refused != SDMA_REASON_none ? call.refused : broken_;
    Offer_line &words = offer_line(rank_, slot(call));
    if (mine.reason == SDMA_REASON_none) {
        if (call.device != last_device_) {
            eviction_serial_++; // what is mapped is mapped for another GPU, or for none
            last_device_ = call.device;
        }
        call.eviction_serial = eviction_serial_;
        mine.evicted = eviction_serial_ != eviction_known_;
        mine.irregular = call.shape.irregular();
        mine.block_bytes = call.shape.block_bytes;
        mine.registration = call.receive.id;
        mine.generation = call.receive.generation;
        mine.offset = call.receive_offset;
        mine.confirmed = evictions_; // of nothing: always
        if (mine.registration != 0) {
            auto found = confirmed_.find(static_cast<uint32_t>(mine.registration % memory::table_entries));
            mine.confirmed =
                found != confirmed_.end() && found->second.id == mine.registration ? found->second.evictions : 0;
        }
        words.confirmed.store(mine.confirmed, std::memory_order_relaxed);
        words.registration.store(mine.registration, std::memory_order_relaxed);
        words.generation.store(mine.generation, std::memory_order_relaxed);
        words.offset.store(mine.offset, std::memory_order_relaxed);
        const size_t slot_at = layout_.slot(slot(call));
        word(rank_, slot_at)[line / sizeof(Word)].store(mine.block_bytes, std::memory_order_relaxed);
        auto *blocks = ranks_[rank_].segment.at<Block_words>(slot_at + layout_.blocks_at());
        for (uint32_t p = 0; mine.irregular && p < layout_.size; p++) {
            const sdma_block_t block = call.shape.recv(p);
            blocks[p].offset.store(block.offset, std::memory_order_relaxed);
            blocks[p].bytes.store(block.bytes, std::memory_order_relaxed);
        }
    }
    words.status.store(pack_status(mine), std::memory_order_relaxed);
    words.epoch.store(call.epoch(), std::memory_order_release);
}

// ---- collecting ----------------------------------------------------------------------------------

bool Team::read_offer(uint32_t peer, uint32_t slot, Offer &offer) const {
    const Offer_line &words = offer_line(peer, slot);
    if (!unpack_status(words.status.load(std::memory_order_relaxed), offer))
        return false;
    if (offer.reason != SDMA_REASON_none)
        return true;
    offer.confirmed = words.confirmed.load(std::memory_order_relaxed);
    offer.registration = words.registration.load(std::memory_order_relaxed);
    offer.generation = words.generation.load(std::memory_order_relaxed);
    offer.offset = words.offset.load(std::memory_order_relaxed);
    offer.block_bytes = word(peer, layout_.slot(slot))[line / sizeof(Word)].load(std::memory_order_relaxed);
    return true;
}

// True once the call's offers are all read, or need not be.
bool Team::try_collect(Call &call) {
    if (call.offers.empty()) {
        call.offers.resize(layout_.size);
        call.offers[rank_] = call.mine;
    }
    const auto missing = [&](uint32_t p) {
        return offer_line(p, slot(call)).epoch.load(std::memory_order_acquire) != call.epoch();
    };
    for (uint32_t &p = call.next_peer; p < layout_.size; p++) {
        if (p == rank_)
            continue;
        if (missing(p))
            return !check_peers(call, missing);
        if (!read_offer(p, slot(call), call.offers[p])) {
            log(0, "rank %u: the offer of rank %u for operation %llu is malformed", rank_, p,
                static_cast<unsigned long long>(call.sequence));
            set_fault(SDMA_REASON_peer_segment);
            settle(call, Call::Stage::failed, SDMA_REASON_peer_segment);
            return true;
        }
        if (call.offers[p].reason != SDMA_REASON_none) {
            settle(call, Call::Stage::declined, SDMA_REASON_peer_declined);
            return true;
        }
    }
    decide(call);
    return true;
}

// All are eligible. From here on every rank must compute the same from the same offers.
void Team::decide(Call &call) {
    call.next_peer = 0;
    if (broken_ != SDMA_REASON_none)
        return give_up(call, broken_);
    bool irregular = false, evicted = false;
    uint64_t regular_bytes = 0; // of the first regular one; those have no empty blocks
    for (const Offer &offer : call.offers) {
        irregular |= offer.irregular;
        evicted |= offer.evicted;
        if (!offer.irregular && regular_bytes == 0)
            regular_bytes = offer.block_bytes;
    }
    for (const Offer &offer : call.offers)
        if (offer.kind != call.offers[0].kind || (!offer.irregular && offer.block_bytes != regular_bytes))
            return settle(call, Call::Stage::declined, SDMA_REASON_mismatch);

    evictions_ += evicted;
    if (call.mine.evicted)
        eviction_known_ = std::max(eviction_known_, call.eviction_serial);
    call.evictions = evictions_;
    const bool confirmed = std::all_of(call.offers.begin(), call.offers.end(), [&](const Offer &offer) {
        return offer.registration == 0 || offer.confirmed == evictions_;
    });
    sdma_reason_t reason;
    if (irregular || !confirmed) {
        // Sizes of irregular layouts are compared by pairs, so that too goes through the verdict.
        find_targets(call, true, reason);
        store_call_verdict(call, reason);
        call.stage = Call::Stage::verdict;
    } else if (find_targets(call, false, reason)) {
        agree(call);
    } else {
        log(0, "rank %u: operation %llu offers memory that was confirmed but is not known: %s", rank_,
            static_cast<unsigned long long>(call.sequence), sdma_reason_name(reason));
        set_fault(SDMA_REASON_peer_segment); // peers count on our data
        settle(call, Call::Stage::failed, SDMA_REASON_peer_segment);
    }
}

bool Team::find_targets(Call &call, bool may_attach, sdma_reason_t &reason) {
    reason = SDMA_REASON_none;
    call.targets.resize(layout_.size);
    last_attached_call_ = call.sequence;
    for (uint32_t p = 0; p < layout_.size && reason == SDMA_REASON_none; p++)
        if (p != rank_)
            reason = find_target(call, p, may_attach);
    return reason == SDMA_REASON_none;
}

// Where our block for `peer` goes.
sdma_reason_t Team::find_target(Call &call, uint32_t peer, bool may_attach) {
    const Offer &offer = call.offers[peer];
    const uint64_t bytes = call.shape.send(peer).bytes;
    sdma_block_t place = Shape::regular_recv(rank_, offer.block_bytes);
    if (offer.irregular) {
        const auto *blocks = ranks_[peer].segment.at<const Block_words>(layout_.slot(slot(call)) + layout_.blocks_at());
        place.offset = blocks[rank_].offset.load(std::memory_order_relaxed);
        place.bytes = blocks[rank_].bytes.load(std::memory_order_relaxed);
    }
    if (place.bytes != bytes)
        return SDMA_REASON_mismatch;
    // Also with nothing to send now: what a round confirms is that everybody has mapped it.
    if (offer.registration == 0 || call.device < 0)
        return bytes == 0 ? SDMA_REASON_none : SDMA_REASON_mismatch;

    auto &attached = ranks_[peer].attached;
    const uint64_t key = offer.registration % memory::table_entries << 32 | static_cast<uint32_t>(call.device);
    auto found = attached.find(key);
    memory::Attachment *attachment = found != attached.end() ? found->second.attachment : nullptr;
    const bool present =
        attachment && attachment->source.id == offer.registration && attachment->source.generation == offer.generation;
    if (present) {
        found->second.last_call = call.sequence;
    } else {
        sdma_reason_t reason = SDMA_REASON_attach_failed;
        gpu::Runtime *runtime = memory_.runtime(reason);
        if (!may_attach || !runtime)
            return reason == SDMA_REASON_none ? SDMA_REASON_attach_failed : reason;
        // Made before anything is counted on it: memory may be short.
        Attached &place = attached[key];
        if (attachment) // the entry is another allocation now
            memory_.attachments().drop(*runtime, *std::exchange(place.attachment, nullptr));
        reason = memory_.attachments().acquire(*runtime, ranks_[peer].process, call.device, offer.registration,
                                               offer.generation, place.attachment);
        if (reason != SDMA_REASON_none)
            return reason;
        place.last_call = call.sequence;
        attachment = place.attachment;
    }
    if (bytes == 0)
        return SDMA_REASON_none;
    uint64_t begin, end;
    if (__builtin_add_overflow(offer.offset, place.offset, &begin) || __builtin_add_overflow(begin, bytes, &end) ||
        end > attachment->source.bytes)
        return SDMA_REASON_too_large;
    call.targets[peer] = {attachment, begin, bytes};
    return SDMA_REASON_none;
}

// ---- verdicts ------------------------------------------------------------------------------------

void Team::store_call_verdict(Call &call, sdma_reason_t reason) {
    offer_line(rank_, slot(call))
        .verdict.store(call.epoch() << 16 | (1 + static_cast<uint64_t>(reason)), std::memory_order_release);
}

bool Team::try_verdict(Call &call) {
    const auto verdict_of = [&](uint32_t p) {
        return offer_line(p, slot(call)).verdict.load(std::memory_order_acquire);
    };
    const auto missing = [&](uint32_t p) {
        return verdict_of(p) >> 16 != (call.epoch() & (~uint64_t{0} >> 16)) || (verdict_of(p) & 0xffff) == 0;
    };
    for (uint32_t &p = call.next_peer; p < layout_.size; p++) {
        if (missing(p))
            return !check_peers(call, missing);
        const uint64_t reason = (verdict_of(p) & 0xffff) - 1;
        if (reason != SDMA_REASON_none) {
            settle(call, Call::Stage::declined,
                   reason < SDMA_REASON_COUNT ? static_cast<sdma_reason_t>(reason) : SDMA_REASON_attach_failed);
            return true;
        }
    }
    // Every peer can reach our buffer, as long as none lets go of anything.
    if (call.receive.id != 0)
        confirmed_[static_cast<uint32_t>(call.receive.id % memory::table_entries)] = {call.receive.id, call.evictions};
    agree(call);
    return true;
}

void Team::agree(Call &call) {
    call.served = ++served_[slot(call)];
#ifdef SDMA_MUTANT_SUMMED_ARRIVAL
    call.served_in_team = ++served_in_team_;
#endif
    settle(call, Call::Stage::agreed, SDMA_REASON_none);
}

// ---- letting go ----------------------------------------------------------------------------------

// The process holds more than it should: give up what no call needs, and say so in the next offers. What the last call
// needed the next one most likely needs, too: if that alone is too much, letting go of it would help nobody.
void Team::let_go_if_pressed() {
    if (unfinished_ > 0 || !pinned_by_ || memory_.attachments().pressure() == seen_pressure_)
        return;
    seen_pressure_ = memory_.attachments().pressure();
    if (drop_older_attachments())
        eviction_serial_++;
}

// False if there were none.
bool Team::drop_older_attachments() {
    size_t dropped = 0;
    for (Rank &rank : ranks_)
        dropped += std::erase_if(rank.attached, [this](const auto &entry) {
            const auto &[attachment, last_call] = entry.second;
            if (last_call == last_attached_call_)
                return false;
            if (attachment)
                memory_.attachments().drop(*pinned_by_, *attachment);
            return true;
        });
    return dropped > 0;
}

} // namespace sdma::team
