// SPDX-License-Identifier: BSD-3-Clause
//
// A team in one thread: every rank has its own context, GPU runtime and hardware, and each of them
// moves only when it is told to. So what one call of one rank costs is the same in every run.
// Everything of the product is the real thing but for two parts: the GPU runtime is the fake node's,
// and its rings are what the queue back ends give. The clock does not move either.
#pragma once

#include <memory>
#include <vector>

#include "common/sdma/process.hpp"
#include "common/sdma/sdma.h"
#include "test/support/fake_node.hpp"

namespace still {

inline constexpr int gpus = 8; // ranks share them in turn, as on a node of eight

struct Rank {
    std::shared_ptr<fake::Runtime> gpu;
    std::unique_ptr<sdma::op::Context> context;
    sdma_team_t *team = nullptr;
    sdma_op_t *op = nullptr;
    char *send = nullptr, *recv = nullptr;
    const void *announced = nullptr; // the exchange at set-up
    void *all = nullptr;
    size_t bytes = 0;
};

struct Segment {
    char *begin, *end;
    bool writable;
    bool own; // rank 0's
    size_t bytes() const { return static_cast<size_t>(end - begin); }
};

class World {
public:
    explicit World(int size); // all ranks live; throws if not
    ~World();
    World(const World &) = delete;
    World &operator=(const World &) = delete;

    int size() const { return static_cast<int>(ranks_.size()); }
    Rank &rank(int r) { return ranks_[static_cast<size_t>(r)]; }
    bool device_memory = true; // of the buffers of later calls; 64 bytes per peer

    // The three functions of sdma.h, as rank `r`.
    void start(int r, sdma_kind_t kind);
    sdma_status_t test(int r);
    void free(int r);
    // All hardware until nothing is left to do.
    void settle();
    // The same, once rank 0's resident kernel, which is a thread, has issued `records` in all.
    void settle_resident(uint64_t records);

    // The shared segments as rank 0 has mapped them.
    const std::vector<Segment> &segments() const { return segments_; }

private:
    static int allgather(void *context, const void *mine, void *all, size_t bytes);
    static int exchanged(void *context);

    fake::Node node_;
    std::vector<Rank> ranks_;
    std::vector<char> host_;
    std::vector<Segment> segments_;
};

} // namespace still
