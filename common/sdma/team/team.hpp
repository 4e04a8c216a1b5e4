// SPDX-License-Identifier: BSD-3-Clause
//
// The ranks of one communicator on this node: set-up, and the agreement on each call.
//
// Set-up:   one small exchange; nobody has a GPU runtime -> dormant, and nothing else is made.
//           Else open the peers' segments, store the verdict in the own one, read all verdicts.
// Calls:    queued -> offered -> [attach -> verdict] -> agreed | declined | failed
//
// An offer that is not eligible makes every rank decline. A verdict round is made when a rank may
// lack something that it needs for a peer's offer, and every rank computes from the same offers
// whether it is made. For that each team counts `evictions`: calls, agreed on as eligible, in which
// a rank said that it has let go of attachments (or uses another GPU than before). An offer says at
// which count its registration was last confirmed by a round (0: never); a round is made unless all
// offers say the present count. Offers are read in call order, so the count is the same everywhere.
//
// Calls on one team must not overlap. Words of peers are copied, then checked.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "../memory/memory.hpp"
#include "layout.hpp"
#include "shape.hpp"

namespace sdma::team {

// What a rank says about a call.
struct Offer {
    sdma_kind_t kind = SDMA_ALLTOALL;
    sdma_reason_t reason = SDMA_REASON_none; // none = eligible
    bool irregular = false;
    bool evicted = false;
    uint64_t confirmed = 0;
    uint64_t registration = 0, generation = 0, offset = 0;
    uint64_t block_bytes = 0;
};

struct Call {
    enum class Stage : uint8_t { queued, offered, verdict, agreed, declined, failed };

    // Given by the caller. `device`: -1 if this rank moves nothing.
    Shape shape;
    sdma_reason_t refused = SDMA_REASON_none;
    int device = -1;
    memory::Registration receive; // none if nothing is received
    uint64_t receive_offset = 0;

    // Result.
    Stage stage = Stage::queued;
    sdma_reason_t reason = SDMA_REASON_none;
    uint64_t sequence = 0;
    uint64_t served = 0; // uses of the slot served so far, this one included: what signal words show
#ifdef SDMA_MUTANT_SUMMED_ARRIVAL
    uint64_t served_in_team = 0;
#endif
    struct Target {
        memory::Attachment *attachment = nullptr; // nullptr: nothing to send there
        uint64_t offset = 0, bytes = 0;
    };
    std::vector<Target> targets; // per rank, once agreed

    // The team's own.
    Call *next = nullptr;
    Offer mine;
    uint64_t eviction_serial = 0;
    uint64_t evictions = 0; // the team's count at this call
    std::vector<Offer> offers;
    uint32_t next_peer = 0;
    uint32_t polls = 0;

    uint64_t epoch() const { return sequence + 1; }
    bool settled() const { return stage >= Stage::agreed; }
};

class Team {
public:
    // `refused`: why this process cannot take part, or none; the peers learn it in the exchange.
    Team(memory::Memory &memory, const sdma_bootstrap_t &bootstrap, sdma_reason_t refused);
    ~Team();
    Team(const Team &) = delete;
    Team &operator=(const Team &) = delete;

    // OK: live. DECLINED: dormant or off. Never waits.
    sdma_status_t test();
    sdma_reason_t reason() const { return reason_; }
    // A kernel or an engine that is late may write there for as long as the process lives.
    void keep_segments() { segments_kept_ = true; }
    bool live() const { return stage_ == Stage::live; }
    uint32_t rank() const { return rank_; }
    uint32_t size() const { return layout_.size; }

    // Make the segments usable by engines and kernels. At the first call with a device buffer.
    sdma_reason_t pin(gpu::Runtime &runtime);

    // Queue a call; it stays where it is until finish().
    void start(Call &call);
    // Move all calls on as far as the peers allow.
    void advance();
    // The caller needs nothing of this call any more: the slot may be used again.
    void finish(Call &call);

    uint32_t slot(const Call &call) const { return static_cast<uint32_t>(call.sequence % layout_.depth); }

    // Signal words: arrivals in the segment of the receiver, departures in ours.
    Word &arrival_from(const Call &call, uint32_t peer) { return *word(rank_, layout_.arrival(slot(call), peer)); }
    Word &arrival_at(const Call &call, uint32_t peer) { return *word(peer, layout_.arrival(slot(call), rank_)); }
    Word &departure(const Call &call, uint32_t peer) { return *word(rank_, layout_.departure(slot(call), peer)); }
    uint64_t arrival_address(const Call &call, uint32_t peer) const {
        return ranks_[peer].device_address + layout_.arrival(slot(call), rank_);
    }
    uint64_t departure_address(const Call &call, uint32_t peer) const {
        return ranks_[rank_].device_address + layout_.departure(slot(call), peer);
    }

    // This rank serves nothing any more; peers that wait for its data see it.
    void set_fault(sdma_reason_t reason);
    // Later calls are refused with `reason`; the first one stays.
    void break_off(sdma_reason_t reason);
    sdma_reason_t broken() const { return broken_; }
    // Whether no call was declined for this reason before.
    bool first_declined(sdma_reason_t reason) {
        const uint64_t seen = declined_for_;
        declined_for_ |= uint64_t{1} << reason;
        return declined_for_ != seen;
    }
    // Why data of `peer` will never come: peer_gone, peer_fault or none. Makes a system call.
    sdma_reason_t lost(uint32_t peer) const;

private:
    struct Announcement {
        uint64_t magic, version, slots;
        memory::Identity identity;
        uint64_t process_fd, team_fd;
        uint64_t loaded;  // has a GPU runtime; 0 = no segments yet
        uint64_t refused; // sdma_reason_t
    };
    struct Attached {
        memory::Attachment *attachment = nullptr; // nullptr: could not be mapped
        uint64_t last_call = 0;
    };
    struct Rank {
        std::shared_ptr<memory::Peer_process> process;
        memory::Segment segment;
        uint64_t device_address = 0;
        bool pinned = false;
        // What was agreed on in this team, by entry of the owner's table and device.
        std::unordered_map<uint64_t, Attached> attached;
    };
    struct Confirmed {
        uint64_t id = 0, evictions = 0;
    };
    enum class Stage : uint8_t { start, exchange, second_exchange, attach, verdicts, live, off };

    // setup.cpp
    bool announce(bool with_segments);
    bool create_segments();
    bool exchanged(Stage next_if_done);
    void read_announcements();
    sdma_reason_t attach_peers();
    void store_verdict(sdma_reason_t reason);
    void collect_verdicts();
    void turn_off(sdma_reason_t reason);

    // agreement.cpp
    bool try_offer(Call &call);
    bool try_collect(Call &call);
    bool try_verdict(Call &call);
    void decide(Call &call);
    void agree(Call &call);
    void give_up(Call &call, sdma_reason_t reason);
    void settle(Call &call, Call::Stage stage, sdma_reason_t reason);
    void publish(Call &call);
    bool read_offer(uint32_t peer, uint32_t slot, Offer &offer) const;
    bool find_targets(Call &call, bool may_attach, sdma_reason_t &reason);
    sdma_reason_t find_target(Call &call, uint32_t peer, bool may_attach);
    void store_call_verdict(Call &call, sdma_reason_t reason);
    void let_go_if_pressed();
    bool drop_older_attachments();
    template <class Missing> bool check_peers(Call &call, Missing missing);

    Announcement &mine() { return announcements_[layout_.size]; }
    Word *word(uint32_t rank, size_t offset) const { return ranks_[rank].segment.at<Word>(offset); }
    Header &header(uint32_t rank) const { return *ranks_[rank].segment.at<Header>(0); }
    Offer_line &offer_line(uint32_t rank, uint32_t slot) const {
        return *ranks_[rank].segment.at<Offer_line>(layout_.slot(slot));
    }

    memory::Memory &memory_;
    sdma_bootstrap_t bootstrap_;
    uint32_t rank_;
    Layout layout_;
    Stage stage_ = Stage::start;
    sdma_reason_t refused_;
    sdma_reason_t reason_ = SDMA_REASON_none;
    sdma_reason_t broken_ = SDMA_REASON_none;
    uint64_t declined_for_ = 0; // a bit per reason
    static_assert(SDMA_REASON_COUNT <= 64);
    bool in_exchange_ = false;
    bool segments_kept_ = false;
    std::unique_ptr<Announcement[]> announcements_; // of all ranks, then the one that is sent
    std::vector<Rank> ranks_;
    gpu::Runtime *pinned_by_ = nullptr;
    uint32_t next_verdict_ = 0;
    uint32_t polls_ = 0;

    uint64_t next_sequence_ = 0;
    uint32_t unfinished_ = 0; // calls started and not finished
    Call *calls_ = nullptr;   // not settled, in call order; a list of their own needs no memory
    Call **calls_end_ = &calls_;
    std::vector<uint64_t> served_; // per slot
#ifdef SDMA_MUTANT_SUMMED_ARRIVAL
    uint64_t served_in_team_ = 0;
#endif
    uint64_t evictions_ = 1;       // calls agreed on so far in which a rank had evicted
    uint64_t eviction_serial_ = 0; // how often we have let go
    uint64_t eviction_known_ = 0;  // ... and up to which the peers have agreed to know it
    uint64_t seen_pressure_ = 0;
    uint64_t last_attached_call_ = 0;                   // the last one that looked for its targets
    int last_device_ = -2;                              // of the last eligible offer; none yet
    std::unordered_map<uint32_t, Confirmed> confirmed_; // own registrations, by table entry
};

} // namespace sdma::team
