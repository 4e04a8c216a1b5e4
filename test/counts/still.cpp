// SPDX-License-Identifier: BSD-3-Clause
#include "still.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <thread>

#include "common/sdma/engine/proxy.hpp"
#include "common/sdma/engine/user.hpp"

// ---- linked instead of the product's ---------------------------------------------------------------

// Time stands still, too: nothing is done because a machine is slow.
extern "C" int clock_gettime(clockid_t, timespec *now) noexcept {
    *now = {1000, 0};
    return 0;
}

namespace fake {

// Rings of the fake node.
class Back_end final : public sdma::engine::Back_end {
public:
    explicit Back_end(std::shared_ptr<sdma::gpu::Runtime> runtime) : runtime_(std::move(runtime)) {}
    const char *name() const override { return "still"; }
    sdma_reason_t available(int) override { return SDMA_REASON_none; }
    sdma_reason_t create(int device, uint32_t engine, sdma::engine::Producer producer,
                         std::unique_ptr<sdma::engine::Queue> &queue) override {
        const auto &hardware = *static_cast<Runtime &>(*runtime_).make_queue(device, engine, producer);
        queue = std::make_unique<sdma::engine::Queue>();
        queue->ring = hardware.ring;
        queue->bytes = hardware.bytes;
        queue->gpu_ringable = hardware.gpu_ringable;
        queue->device = hardware.device;
        queue->engine = hardware.engine;
        queue->producer = hardware.producer;
        queue->wake = hardware.wake;
        queue->visible_cursors = hardware.visible_cursors;
        queue->back_end = name();
        return SDMA_REASON_none;
    }
    void destroy(sdma::engine::Queue &queue) override { queue.ring = nullptr; }

private:
    std::shared_ptr<sdma::gpu::Runtime> runtime_;
};

} // namespace fake

namespace sdma {

namespace {
op::Context *acting = nullptr; // of the rank whose turn it is
}

Hold::Hold() : context(*acting) {}
Hold::~Hold() = default;
int with_context(int (*body)(op::Context &)) { return body(*acting); }
op::Platform process_platform() { return {}; }

namespace engine {
std::unique_ptr<Back_end> make_user_back_end(std::shared_ptr<gpu::Runtime> runtime, const Topology &) {
    return std::make_unique<fake::Back_end>(std::move(runtime));
}
std::unique_ptr<Back_end> make_proxy_back_end(std::shared_ptr<gpu::Runtime> runtime) {
    return std::make_unique<fake::Back_end>(std::move(runtime));
}
} // namespace engine

} // namespace sdma

// ---- the world -------------------------------------------------------------------------------------

namespace still {

namespace {

constexpr size_t block_bytes = 64;

std::unique_ptr<sdma::op::Context> new_context(const std::shared_ptr<fake::Runtime> &gpu) {
    sdma::op::Platform platform;
    platform.gpu.loaded = [] { return true; };
    platform.gpu.open = [gpu](sdma_reason_t &) { return gpu; };
    platform.has_kernels = [](const std::string &) { return true; };
    return std::make_unique<sdma::op::Context>(platform);
}

// All mappings of shared segments.
std::vector<Segment> mapped(bool own) {
    std::vector<Segment> found;
    FILE *maps = fopen("/proc/self/maps", "r");
    char row[512];
    while (maps && fgets(row, sizeof row, maps)) {
        unsigned long begin, end;
        char access[5];
        if (strstr(row, "/memfd:mpi-sdma") && sscanf(row, "%lx-%lx %4s", &begin, &end, access) == 3)
            found.push_back({reinterpret_cast<char *>(begin), reinterpret_cast<char *>(end), access[1] == 'w', own});
    }
    if (maps)
        fclose(maps);
    return found;
}

} // namespace

World::World(int size) : ranks_(static_cast<size_t>(size)), host_(2 * block_bytes * static_cast<size_t>(size)) {
    sdma::params().sysfs = "/nonexistent"; // the GPUs are the fake node's: each has an engine of its own
    // By engines, however small.
    sdma::params().loadstore_max_alltoall = sdma::params().loadstore_max_allgather = 0;
    const size_t bytes = block_bytes * ranks_.size();
    for (int r = 0; r < size; r++) {
        Rank &rank = ranks_[static_cast<size_t>(r)];
        rank.gpu = std::make_shared<fake::Runtime>(node_, r % gpus, 1, true);
        rank.send = rank.gpu->allocate(0, bytes);
        rank.recv = rank.gpu->allocate(0, bytes);
        rank.context = new_context(rank.gpu);
        sdma::acting = rank.context.get();
        const sdma_bootstrap_t bootstrap{r, size, this, allgather, exchanged};
        sdma_team_start(&bootstrap, &rank.team);
        static_cast<void>(sdma_team_test(rank.team)); // announces, and nobody has answered
        if (r == 0)
            segments_ = mapped(true);
    }
    // Rank 0 opens its peers' segments in its next test; what is there before is other ranks' own.
    const std::vector<Segment> before = mapped(false);
    sdma::acting = ranks_[0].context.get();
    static_cast<void>(sdma_team_test(ranks_[0].team));
    for (const Segment &segment : mapped(false))
        if (std::none_of(before.begin(), before.end(), [&](const Segment &old) { return old.begin == segment.begin; }))
            segments_.push_back(segment);
    bool live = false;
    for (int turns = 0; turns < 4 && !live; turns++) {
        live = true;
        for (Rank &rank : ranks_) {
            sdma::acting = rank.context.get();
            live = sdma_team_test(rank.team) == SDMA_OK && live;
        }
    }
    if (!live)
        throw std::runtime_error("the team is not live");
}

World::~World() {
    for (Rank &rank : ranks_)
        sdma_team_free(rank.team);
}

// Callbacks know the world alone: ranks announce one after the other.
int World::allgather(void *context, const void *mine, void *all, size_t bytes) {
    for (Rank &rank : static_cast<World *>(context)->ranks_)
        if (!rank.announced) {
            rank.announced = mine;
            rank.all = all;
            rank.bytes = bytes;
            return 0;
        }
    return -1;
}

int World::exchanged(void *context) {
    std::vector<Rank> &ranks = static_cast<World *>(context)->ranks_;
    if (!ranks.back().announced)
        return 0;
    for (const Rank &to : ranks)
        for (size_t from = 0; from < ranks.size(); from++)
            memcpy(static_cast<char *>(to.all) + from * to.bytes, ranks[from].announced, to.bytes);
    return 1;
}

void World::start(int r, sdma_kind_t kind) {
    Rank &rank = ranks_[static_cast<size_t>(r)];
    sdma_desc_t desc{};
    desc.kind = kind;
    desc.send = device_memory ? rank.send : host_.data();
    desc.recv = device_memory ? rank.recv : host_.data() + host_.size() / 2;
    desc.block_bytes = block_bytes;
    sdma::acting = rank.context.get();
    if (sdma_op_start(rank.team, &desc, &rank.op) != SDMA_OK)
        throw std::runtime_error("an operation could not be started");
}

sdma_status_t World::test(int r) { return sdma_op_test(ranks_[static_cast<size_t>(r)].op); }

void World::free(int r) { sdma_op_free(ranks_[static_cast<size_t>(r)].op); }

void World::settle() {
    for (bool moved = true; moved;) {
        moved = false;
        for (Rank &rank : ranks_)
            moved = rank.gpu->step() || moved;
    }
}

void World::settle_resident(uint64_t records) {
    settle(); // it is started here
    for (uint64_t looks = 0; ranks_[0].gpu->resided < records; looks++) {
        if (looks > 100'000'000)
            throw std::runtime_error("the resident kernel does not take a record");
        std::this_thread::yield();
    }
    settle();
}

} // namespace still
