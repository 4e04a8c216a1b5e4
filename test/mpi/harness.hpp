// SPDX-License-Identifier: BSD-3-Clause
//
// What the MPI tests share: the job, failures, options ("name=value" arguments), the pattern of every byte.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cinttypes>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "test/mpi/mpit.hpp"

// MPI from first to last, and the count of what went wrong. Option component=none: the job must be without ours.
class Job {
public:
    Job(int argc, char **argv, int threads = MPI_THREAD_SINGLE) {
        int provided = 0;
        MPI_Init_thread(&argc, &argv, threads, &provided);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        counters.open();
        check(provided >= threads, "thread level %d, wanted %d", provided, threads);
        for (int i = 1; i < argc; ++i) {
            const std::string argument = argv[i];
            const size_t equals = argument.find('=');
            options_[argument.substr(0, equals)] = equals == std::string::npos ? "" : argument.substr(equals + 1);
        }
        // Whatever a program then proves would be proved of somebody else.
        const bool wanted = option("component", "loaded") == "loaded";
        check(counters.known("served") == wanted, "the component is %sloaded", wanted ? "not " : "");
    }
    ~Job() = default;
    Job(const Job &) = delete;
    Job &operator=(const Job &) = delete;

    // Reports what fails on standard error, the first few times.
    __attribute__((format(printf, 3, 4))) bool check(bool good, const char *format, ...) {
        if (!good && failures_++ < 10) {
            char line[512];
            va_list arguments;
            va_start(arguments, format);
            std::vsnprintf(line, sizeof(line), format, arguments);
            va_end(arguments);
            std::fprintf(stderr, "rank %d: FAILED: %s\n", rank, line);
        }
        return good;
    }

    std::string option(const char *name, const char *otherwise) const {
        const auto found = options_.find(name);
        return found == options_.end() ? otherwise : found->second;
    }
    uint64_t number(const char *name, uint64_t otherwise) const {
        const auto found = options_.find(name);
        return found == options_.end() ? otherwise : std::strtoull(found->second.c_str(), nullptr, 0);
    }

    // Ends MPI; the exit code of the program. Every rank learns of every failure.
    int finish(const char *name) {
        const unsigned long long mine = failures_;
        unsigned long long all = 0;
        MPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0) {
            std::printf("%s: %s, %llu failures\n", name, all == 0 ? "passed" : "failed", all);
            std::fflush(stdout);
        }
        MPI_Finalize();
        return all == 0 ? 0 : 1;
    }

    int rank = 0;
    int size = 0;
    Counters counters; // counted from here on

private:
    std::atomic<unsigned long long> failures_ = 0;
    std::map<std::string, std::string> options_;
};

// The byte at `offset` of what `sender` has for `receiver` in an iteration. Every argument changes it.
class Pattern {
public:
    Pattern(int sender, int receiver, uint64_t iteration)
        : seed_(mix(mix(mix(static_cast<uint64_t>(sender) + 1) + static_cast<uint64_t>(receiver) + 1) + iteration)) {}
    uint8_t operator[](size_t offset) const {
        return static_cast<uint8_t>((seed_ + offset * 0x9e3779b97f4a7c15U) >> 40U);
    }
    std::vector<uint8_t> block(size_t bytes) const {
        std::vector<uint8_t> block(bytes);
        for (size_t i = 0; i < bytes; ++i) {
            block[i] = (*this)[i];
        }
        return block;
    }

private:
    static uint64_t mix(uint64_t x) {
        x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
        x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
        return x ^ (x >> 31U);
    }
    uint64_t seed_;
};

// The same on every rank for the same seed.
class Random {
public:
    explicit Random(uint64_t seed) : state_(seed * 2862933555777941757U + 3037000493U) {}
    uint64_t operator()() {
        state_ ^= state_ << 13U;
        state_ ^= state_ >> 7U;
        state_ ^= state_ << 17U;
        return state_;
    }
    uint64_t below(uint64_t limit) { return (*this)() % limit; }

private:
    uint64_t state_;
};
