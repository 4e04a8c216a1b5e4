// SPDX-License-Identifier: BSD-3-Clause
//
// Every interleaving of a host that hands records over with resident kernels that end: the product's
// two sides of the handshake, one shared access at a time. Stores arrive late: the host's in order,
// the kernel's in any. States that were seen are not entered again. Every record must be served
// once, by one kernel at a time, without the host coming back to look.
// Exit status 0: no violation, or, with a deliberate mistake compiled in (kernels/mutants.h), one
// was found.
//   resident_explore [long]    long: one record more, some 800,000 states
#define SDMA_TWIN 1
#define SDMA_TWIN_ACCESS 1
#include "common/sdma/op/mailbox.hpp"
#include "kernels/resident.h"

#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <list>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <vector>

namespace {

constexpr uint64_t most_records = 3;
uint64_t records = 2;

uint64_t mix(uint64_t hash, uint64_t value) {
    hash ^= value + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
    hash *= 0xff51afd7ed558ccd;
    return hash ^ hash >> 32;
}

struct Agent {
    std::function<void()> body;
    bool in_order; // its stores
    ucontext_t here{};
    std::unique_ptr<char[]> stack{new char[32 << 10]};
    sdma_twin_position position{};
    struct Store {
        uint64_t address, value;
    };
    std::vector<Store> pending;
    uint64_t history = 0; // of what it has seen: its local state
    uint64_t clock = 0;
    bool begun = false, draining = false, ended = false, replaced = false;
    const uint64_t *awaited = nullptr; // it looks again when this word is another
    uint64_t awaited_old = 0;

    bool enabled() const {
        return !ended && !(draining && !pending.empty()) && !(awaited != nullptr && *awaited == awaited_old);
    }
    // Whether a store may arrive before those in front of it.
    bool free(size_t i) const {
        return i == 0 || (!in_order && std::none_of(pending.begin(), pending.begin() + static_cast<long>(i),
                                                    [&](const Store &s) { return s.address == pending[i].address; }));
    }
};

// A world that is replayed from the start along a path of choices.
class World {
public:
    World() {
        start([this] { host(); }, true);
    }

    // Choices: an agent goes on to its next access, or one of its stores arrives.
    struct Choice {
        Agent *agent;
        size_t store; // none: ~0
    };
    std::vector<Choice> choices() {
        std::vector<Choice> all;
        for (Agent &agent : agents_) {
            if (agent.enabled())
                all.push_back({&agent, ~size_t{0}});
            for (size_t i = 0; i < agent.pending.size(); i++)
                if (agent.free(i))
                    all.push_back({&agent, i});
        }
        return all;
    }
    void take(const Choice &choice) {
        if (choice.store == ~size_t{0}) {
            resume(*choice.agent);
            return;
        }
        const Agent::Store store = choice.agent->pending[choice.store];
        choice.agent->pending.erase(choice.agent->pending.begin() + static_cast<long>(choice.store));
        *reinterpret_cast<uint64_t *>(store.address) = store.value;
    }
    // Nobody goes on by itself.
    void check_end() const {
        for (const Agent &agent : agents_)
            require(agent.ended, "somebody waits for ever");
        for (uint64_t i = 0; i < records; i++)
            require(served_[i] == 1, "a record is not served");
        require(mailbox_.state == SDMA_MAILBOX_ENDED, "a kernel is gone without a word");
    }
    uint64_t state() const {
        uint64_t hash = mix(mix(mailbox_.head, mailbox_.done), mix(mailbox_.state, mailbox_.order));
        for (uint64_t i = 0; i < records; i++)
            hash = mix(mix(hash, mailbox_.records[i].record), served_[i]);
        for (const Agent &agent : agents_) {
            hash = mix(mix(hash, agent.history),
                       agent.begun | agent.ended << 1 | agent.draining << 2 | (agent.awaited != nullptr) << 3);
            for (const Agent::Store &store : agent.pending)
                hash = mix(mix(hash, store.address - reinterpret_cast<uint64_t>(&mailbox_)), store.value);
        }
        return hash;
    }

    // ---- accesses ----
    uint64_t load(uint64_t address) {
        Agent &agent = step();
        uint64_t value = *reinterpret_cast<const uint64_t *>(address);
        for (const Agent::Store &store : agent.pending)
            if (store.address == address)
                value = store.value;
        agent.history = mix(agent.history, value);
        return value;
    }
    void store(uint64_t address, uint64_t value) {
        require(!here_->replaced, "two kernels at a time");
        if (address == reinterpret_cast<uint64_t>(&mailbox_.order)) // among the lanes of one wave
            mailbox_.order = value;
        else
            here_->pending.push_back({address, value});
    }
    void drain() {
        here_->draining = true;
        step().draining = false;
        here_->history = mix(here_->history, 1);
    }
    uint64_t clock() { return ++here_->clock; }

private:
    static void require(bool good, const char *what) {
        if (!good)
            throw std::runtime_error(what);
    }

    // Resident::submit(), record after record.
    void host() {
        namespace mailbox = sdma::op::mailbox;
        for (uint64_t i = 0; i < records; i++) {
            if (mailbox::state(mailbox_) == SDMA_MAILBOX_ENDED)
                launch();
            mailbox::post(mailbox_, i, 1000 + i, 8);
            enum sdma_mailbox_state state;
            while ((state = mailbox::state(mailbox_)) == SDMA_MAILBOX_CLOSING)
                wait_for_change(mailbox_.state, state);
            if (state == SDMA_MAILBOX_ENDED)
                launch();
        }
    }
    void launch() {
        sdma::op::mailbox::open(mailbox_, 1); // a kernel's second look at nothing is its last
        drain();                              // as the dispatch of a kernel does
        for (Agent &agent : agents_)
            agent.replaced = &agent != here_;
        start([this] { kernel(); }, false);
    }
    void kernel() {
        sdma::reside(&mailbox_, [this](sdma_work *work, uint64_t bytes) {
            const uint64_t record = reinterpret_cast<uint64_t>(work) - 1000;
            require(record < records && bytes == 8, "no such record");
            require(++served_[record] == 1, "a record is served twice");
            return true;
        });
    }

    void start(std::function<void()> body, bool in_order) {
        Agent &agent = agents_.emplace_back();
        agent.body = std::move(body);
        agent.in_order = in_order;
        agent.position = {0, 1, 0, 1, [](void *) {}, nullptr, nullptr};
        getcontext(&agent.here);
        agent.here.uc_stack.ss_sp = agent.stack.get();
        agent.here.uc_stack.ss_size = 32 << 10;
        const auto self = reinterpret_cast<uint64_t>(this);
        makecontext(&agent.here, reinterpret_cast<void (*)()>(enter), 2, static_cast<unsigned>(self >> 32),
                    static_cast<unsigned>(self));
    }
    static void enter(unsigned high, unsigned low) {
        World &world = *reinterpret_cast<World *>(uint64_t{high} << 32 | low);
        Agent &agent = *world.here_;
        try {
            agent.body();
        } catch (const std::exception &error) {
            world.violation_ = error.what();
        }
        agent.ended = true;
        swapcontext(&agent.here, &world.scheduler_);
    }
    void resume(Agent &agent) {
        here_ = &agent;
        agent.begun = true;
        sdma_twin_here = &agent.position;
        swapcontext(&scheduler_, &agent.here);
        require(violation_.empty(), violation_.c_str());
    }
    // To the scheduler, and back when this agent is chosen.
    Agent &step() {
        Agent &agent = *here_;
        swapcontext(&agent.here, &scheduler_);
        require(!agent.replaced, "two kernels at a time");
        return agent;
    }
    void wait_for_change(const uint64_t &word, uint64_t old) {
        here_->awaited = &word;
        here_->awaited_old = old;
        step().awaited = nullptr;
    }

    sdma_mailbox mailbox_{};
    uint64_t served_[most_records] = {};
    std::list<Agent> agents_;
    Agent *here_ = nullptr;
    ucontext_t scheduler_{};
    std::string violation_;
};

World *world;

// Depth first; a path is replayed for each branch.
class Explorer {
public:
    size_t run() {
        std::vector<std::vector<uint8_t>> paths{{}};
        while (!paths.empty()) {
            std::vector<uint8_t> path = std::move(paths.back());
            paths.pop_back();
            World replay;
            world = &replay;
            for (uint8_t choice : path)
                replay.take(replay.choices()[choice]);
            for (;;) {
                const auto choices = replay.choices();
                if (choices.empty())
                    replay.check_end();
                if (choices.empty() || !seen_.insert(replay.state()).second)
                    break;
                for (size_t i = 1; i < choices.size(); i++) {
                    paths.push_back(path);
                    paths.back().push_back(static_cast<uint8_t>(i));
                }
                path.push_back(0);
                replay.take(choices[0]);
            }
        }
        return seen_.size();
    }

private:
    std::unordered_set<uint64_t> seen_;
};

} // namespace

__thread struct sdma_twin_position *sdma_twin_here;

namespace sdma::device {
uint64_t load_system(uint64_t address) { return world->load(address); }
void store_system(uint64_t address, uint64_t value) { world->store(address, value); }
void store_system_dword(uint64_t, uint32_t) { throw std::logic_error("not part of the handshake"); }
bool swap_cursor(uint64_t, uint64_t, uint64_t) { throw std::logic_error("not part of the handshake"); }
void drain() { world->drain(); }
uint64_t clock_ns() { return world->clock(); }
} // namespace sdma::device

int main(int argc, char **argv) {
#ifdef __SANITIZE_THREAD__
    return 77; // it does not follow the model's switches between stacks
#endif
    using namespace sdma;
    if (argc > 1 && std::strcmp(argv[1], "long") == 0)
        records = most_records;
    const bool mistaken = mutant::no_closing_drain || mutant::blind_end || mutant::no_post_drain;
    try {
        const size_t states = Explorer().run();
        std::printf("%zu states, no violation\n", states);
        return mistaken ? 1 : 0;
    } catch (const std::exception &violation) {
        std::printf("%s\n", violation.what());
        return mistaken ? 0 : 1;
    }
}
