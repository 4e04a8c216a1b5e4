// SPDX-License-Identifier: BSD-3-Clause
//
// Ways to run one collective on device buffers, for compare.cpp.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "give_up.hpp"

struct Job {
    int rank = 0, size = 1;
    int device = 0, devices = 1; // of this process; on this node
};

enum class Collective { alltoall, allgather };

// One way. Buffers have `size` blocks of up to the largest block on the receive side, and on the
// send side one (allgather) or `size` (alltoall).
class Way {
public:
    virtual ~Way() = default;
    virtual std::string name() const = 0;
    // Who has moved the bytes of all calls since the last question; empty where there is no doubt. Gives up if it
    // was not who this way is for.
    virtual std::string path() { return {}; }
    // Called before the first call of a size; false: this size is not for this way.
    virtual bool prepare(Collective, size_t /*block*/) { return true; }
    virtual void start(Collective collective, size_t block) = 0; // one call
    virtual void finish() {}                                     // wait for all that was started
    virtual char *send() = 0;
    virtual char *recv() = 0;
};

// cudaMalloc buffers that several ways share.
struct Buffers {
    Buffers(const Job &job, size_t largest);
    ~Buffers();
    Buffers(const Buffers &) = delete;
    Buffers &operator=(const Buffers &) = delete;
    char *send = nullptr, *recv = nullptr;
};

// MPI with the parameters of libmpisdma as they are but for what the way says ("initiator=host,launch=call"), for
// blocks up to `most`. `path`: who must be found to have moved the bytes (engine, host, loadstore); empty: anybody of
// ours.
std::unique_ptr<Way> make_ours(const std::string &name, const std::string &parameters, const std::string &path,
                               size_t most, Buffers &buffers);
// The bare copy engine: each peer's block and the own one by a copy on a stream of its own,
// completion by a stream write to pinned memory that the host polls.
std::unique_ptr<Way> make_copy_engine(const Job &job, Buffers &buffers);
// NCCL as `kind` says: "" (its choice), "-blocking" (its choice, waited for at each call), "-1cta",
// "-ce" (copy engines). Empty if this program was built without it or it cannot run here.
std::unique_ptr<Way> make_nccl(const Job &job, const std::string &kind, size_t largest, Buffers &buffers);
std::string nccl_version();

// A product of two 8192 x 8192 bf16 matrices, over and over.
class Gemm {
public:
    Gemm();
    ~Gemm();
    void start(int count);
    double finish(); // microseconds per product
    static bool built();

private:
    struct State;
    std::unique_ptr<State> state_;
};
