// SPDX-License-Identifier: BSD-3-Clause
//
// A peer that a test plays by hand: rank 1 of a team of two, word by word. A mortal one's process is
// a child that does nothing but hold the segments, so that the test can end it.
#pragma once

#include <csignal>

#include <sys/wait.h>
#include <unistd.h>

#include "common/sdma/team/layout.hpp"
#include "ranks.hpp"

namespace ranks {

class Played_peer {
public:
    explicit Played_peer(uint32_t depth, bool mortal = false) : layout{2, depth} {
        process = sdma::memory::Segment::create("played-process", sizeof(sdma::memory::Process_table));
        team = sdma::memory::Segment::create("played-team", layout.bytes());
        identity_ = sdma::memory::new_identity();
        if (mortal) {
            child_ = fork();
            if (child_ == 0)
                for (;;)
                    pause();
            identity_.pid = static_cast<uint64_t>(child_);
            identity_.start_time = sdma::memory::process_start_time(identity_.pid);
        }
        table().instance = identity_.instance;
        table().entries = sdma::memory::table_entries;
        table().version = sdma::memory::process_version;
        table().magic = sdma::memory::process_magic;
        header().geometry = layout.geometry();
        header().rank = 1;
        header().version = sdma::team::wire_version;
        header().magic = sdma::team::team_magic;
        header().verdict = 1;
    }
    ~Played_peer() { end(); }

    void end() {
        if (child_ > 0) {
            kill(child_, SIGKILL);
            waitpid(child_, nullptr, 0);
        }
        child_ = -1;
    }

    // Rank 0's announcement with this peer's particulars.
    sdma_bootstrap_t bootstrap() {
        return {0, 2, this, allgather, [](void *) { return 1; }};
    }

    const sdma::memory::Identity &identity() const { return identity_; }
    sdma::memory::Process_table &table() { return *process.at<sdma::memory::Process_table>(0); }
    sdma::team::Header &header() { return *team.at<sdma::team::Header>(0); }
    sdma::team::Offer_line &offer(uint64_t sequence) {
        return *team.at<sdma::team::Offer_line>(layout.slot(static_cast<uint32_t>(sequence % layout.depth)));
    }
    sdma::team::Word &block_bytes(uint64_t sequence) { return (&offer(sequence).epoch)[8]; }
    // A good offer of an alltoall, with a registration that rank 0 can map if `gpu` made it.
    void offer_alltoall(uint64_t sequence, uint64_t bytes, uint64_t id, uint64_t generation) {
        auto &words = offer(sequence);
        words.status = SDMA_ALLTOALL;
        words.confirmed = 0;
        words.registration = id;
        words.generation = generation;
        words.offset = 0;
        block_bytes(sequence) = bytes;
        words.epoch = sequence + 1;
    }
    void refuse(uint64_t sequence) {
        offer(sequence).status = SDMA_ALLTOALL | static_cast<uint64_t>(SDMA_REASON_host_buffer) << 8;
        offer(sequence).epoch = sequence + 1;
    }
    void say(uint64_t sequence, sdma_reason_t reason) {
        offer(sequence).verdict = (sequence + 1) << 16 | (1u + reason);
    }

    // Registration `id` for memory of a fake runtime.
    void publish(uint64_t id, fake::Runtime &gpu, char *memory) {
        const sdma::gpu::Range range = gpu.classify(memory);
        sdma::gpu::Handle handle;
        gpu.export_memory(range.base, range.bytes, handle);
        auto &entry = table().entry[id % sdma::memory::table_entries];
        uint64_t words[8];
        memcpy(words, handle.words.data(), sizeof words);
        for (int i = 0; i < 8; i++)
            entry.handle[i] = words[i];
        entry.generation = range.generation;
        entry.bytes = range.bytes;
        entry.id = id;
    }

    sdma::team::Layout layout;
    sdma::memory::Segment process, team;

private:
    static int allgather(void *context, const void *mine, void *all, size_t bytes) {
        auto &self = *static_cast<Played_peer *>(context);
        char *peer = static_cast<char *>(all) + bytes;
        memcpy(all, mine, bytes);
        memcpy(peer, mine, bytes);
        // After magic, version and slots: the identity and the two descriptors.
        memcpy(peer + 24, &self.identity_, sizeof self.identity_);
        const uint64_t fds[2] = {static_cast<uint64_t>(self.process.fd()), static_cast<uint64_t>(self.team.fd())};
        memcpy(peer + 24 + sizeof self.identity_, fds, sizeof fds);
        return 0;
    }

    pid_t child_ = -1;
    sdma::memory::Identity identity_;
};

// Rank 0 opposite a played peer: a context with a GPU, and a team that is up.
class Opposite {
public:
    explicit Opposite(Played_peer &peer) : world(1), rank(world, 0), peer_gpu(world.node, 1, 1) {
        rank.size = 2;
        rank.main.team.emplace(rank.context->memory(), peer.bootstrap(), SDMA_REASON_none);
        until([&] { return (status = rank.main.team->test()) != SDMA_PENDING; });
        if (status == SDMA_OK)
            rank.context->add(*rank.main.team);
    }
    World world;
    Rank rank;
    fake::Runtime peer_gpu; // the peer's memory
    sdma_status_t status = SDMA_PENDING;
};

} // namespace ranks
