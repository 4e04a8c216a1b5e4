// SPDX-License-Identifier: BSD-3-Clause
//
// Which cache lines of shared segments a piece of code touches, exactly and without a change of the
// code: the segments are closed to the process, every access faults, and the handler opens the page
// for that one instruction. x86-64, one thread.
#pragma once

#include <set>
#include <vector>

#include <csignal>
#include <sys/mman.h>
#include <ucontext.h>

#include "still.hpp"

namespace still {

class Lines {
public:
    struct Count {
        size_t peers_loaded, own_loaded, peers_stored, own_stored; // lines; read-modify-write is a store
        size_t loads, stores;                                      // accesses
    };

    explicit Lines(const World &world) : segments_(world.segments()) {
        active_ = this;
        struct sigaction action {};
        action.sa_flags = SA_SIGINFO;
        action.sa_sigaction = on_access;
        sigaction(SIGSEGV, &action, nullptr);
        action.sa_sigaction = on_step;
        sigaction(SIGTRAP, &action, nullptr);
    }
    ~Lines() {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGTRAP, SIG_DFL);
    }
    Lines(const Lines &) = delete;

    void close() {
        for (const Segment &segment : segments_)
            mprotect(segment.begin, segment.bytes(), PROT_NONE);
    }
    void open() {
        for (const Segment &segment : segments_)
            mprotect(segment.begin, segment.bytes(), protection(segment));
    }

    // Of everything since the last one.
    Count take() {
        Count count{};
        for (const Access &access : accesses_)
            (access.store ? count.stores : count.loads)++;
        count.peers_loaded = lines(false, false);
        count.own_loaded = lines(false, true);
        count.peers_stored = lines(true, false);
        count.own_stored = lines(true, true);
        accesses_.clear();
        return count;
    }

private:
    struct Access {
        uintptr_t address;
        bool store, own;
    };
    static constexpr greg_t trap_flag = 0x100, write_fault = 2;

    static int protection(const Segment &segment) { return PROT_READ | (segment.writable ? PROT_WRITE : 0); }
    size_t lines(bool store, bool own) const {
        std::set<uintptr_t> touched;
        for (const Access &access : accesses_)
            if (access.store == store && access.own == own)
                touched.insert(access.address / 64);
        return touched.size();
    }

    static void *page(char *address) {
        return reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(address) & ~4095ul);
    }

    static void on_access(int, siginfo_t *info, void *context) {
        auto *address = static_cast<char *>(info->si_addr);
        Lines &self = *active_;
        for (const Segment &segment : self.segments_) {
            if (address < segment.begin || address >= segment.end)
                continue;
            auto &registers = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;
            self.accesses_.push_back(
                {reinterpret_cast<uintptr_t>(address), (registers[REG_ERR] & write_fault) != 0, segment.own});
            self.opened_.push_back(page(address));
            mprotect(self.opened_.back(), 4096, protection(segment));
            registers[REG_EFL] |= trap_flag;
            return;
        }
        signal(SIGSEGV, SIG_DFL); // a real one
    }

    static void on_step(int, siginfo_t *, void *context) {
        for (void *opened : active_->opened_)
            mprotect(opened, 4096, PROT_NONE);
        active_->opened_.clear();
        static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_EFL] &= ~trap_flag;
    }

    static inline Lines *active_ = nullptr;
    std::vector<Segment> segments_;
    std::vector<Access> accesses_;
    std::vector<void *> opened_;
};

} // namespace still
