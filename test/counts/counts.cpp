// SPDX-License-Identifier: BSD-3-Clause
//
// What calls of rank 0 cost, in a team that stands still around it (still.hpp).
//   counts instructions RANKS [CASE...]   under callgrind: one dump per measured piece, named after it
//   counts lines RANKS                    not under valgrind: cache lines of shared segments, one row per piece
// Started by test/counts/run, which makes the table.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#define CALLGRIND_TOGGLE_COLLECT
#define CALLGRIND_DUMP_STATS_AT(name) static_cast<void>(name)
#endif

#include "lines.hpp"

namespace {

using still::World;

// Calls before the measured one: every slot of the ring has been used, every pool is filled.
constexpr int warm_up = 40;

class Meter {
public:
    explicit Meter(still::Lines *lines) : lines_(lines) {}

    // Callgrind counts calls while it instruments, and instructions, of this thread alone, while it collects.
    template <class Body> void add(Body body) {
        if (lines_)
            lines_->close();
        CALLGRIND_START_INSTRUMENTATION;
        CALLGRIND_TOGGLE_COLLECT;
        body();
        CALLGRIND_TOGGLE_COLLECT;
        CALLGRIND_STOP_INSTRUMENTATION;
        if (lines_)
            lines_->open();
    }
    // The measured piece is all that was added since the last end.
    void end(const char *name) {
        CALLGRIND_DUMP_STATS_AT(name);
        if (!lines_)
            return;
        const still::Lines::Count count = lines_->take();
        printf("%s %zu %zu %zu %zu %zu %zu\n", name, count.peers_loaded, count.own_loaded, count.peers_stored,
               count.own_stored, count.loads, count.stores);
    }

private:
    still::Lines *lines_;
};

void expect(sdma_status_t wanted, sdma_status_t got, const char *what) {
    if (wanted == got)
        return;
    fprintf(stderr, "%s: status %d, not %d\n", what, got, wanted);
    exit(1);
}

void start_others(World &world, sdma_kind_t kind) {
    for (int r = 1; r < world.size(); r++)
        world.start(r, kind);
}

// The others' own work, up to the end of their calls.
void finish_others(World &world, sdma_status_t wanted) {
    for (int r = 1; r < world.size(); r++) {
        for (int tests = 0; world.test(r) == SDMA_PENDING; tests++) {
            if (tests == 4)
                expect(wanted, SDMA_PENDING, "another rank");
            world.settle();
        }
        expect(wanted, world.test(r), "another rank");
        world.free(r);
    }
}

void issue_others(World &world) {
    for (int r = 1; r < world.size(); r++)
        expect(SDMA_PENDING, world.test(r), "issue by another rank");
}

// The first call: peers' buffers get attached, over a round of verdicts.
void first(World &world) {
    start_others(world, SDMA_ALLTOALL);
    world.start(0, SDMA_ALLTOALL);
    for (int turns = 0; turns < 3; turns++) {
        for (int r = 0; r < world.size(); r++)
            static_cast<void>(world.test(r));
        world.settle();
    }
    expect(SDMA_OK, world.test(0), "the first call");
    world.free(0);
    finish_others(world, SDMA_OK);
}

struct Way {
    const char *name;
    sdma_kind_t kind = SDMA_ALLTOALL;
    const char *initiator = "gpu";
    const char *launch = "call";
    size_t loadstore_max = 0; // buffers have 64 bytes per peer
};

// All peers have offered when rank 0 comes: start, the test that issues, the one that finds all data, free.
void served(World &world, const Way &way, Meter *meter) {
    const sdma::Params plain = sdma::params();
    const bool resident = strcmp(way.launch, "resident") == 0;
    const uint64_t resided = world.rank(0).gpu->resided;
    const auto piece = [&](auto body) {
        sdma::params().initiator = way.initiator;
        sdma::params().launch = way.launch;
        sdma::params().loadstore_max_alltoall = sdma::params().loadstore_max_allgather = way.loadstore_max;
        meter ? meter->add(body) : body();
        sdma::params() = plain;
    };
    start_others(world, way.kind);
    sdma_status_t status = SDMA_PENDING;
    piece([&] {
        world.start(0, way.kind);
        status = world.test(0);
    });
    expect(SDMA_PENDING, status, way.name);
    issue_others(world);
    resident ? world.settle_resident(resided + 1) : world.settle();
    piece([&] {
        status = world.test(0);
        world.free(0);
    });
    expect(SDMA_OK, status, way.name);
    if (meter)
        meter->end(way.name);
    finish_others(world, SDMA_OK);
}

// Rank 0 comes first, and tests while nobody has offered and again while no data has come.
void waiting(World &world, Meter &meter) {
    const auto pending = [&](const char *name) {
        sdma_status_t status = SDMA_OK;
        meter.add([&] { status = world.test(0); });
        meter.end(name);
        expect(SDMA_PENDING, status, name);
    };
    world.start(0, SDMA_ALLTOALL);
    pending("test-offers");
    start_others(world, SDMA_ALLTOALL);
    expect(SDMA_PENDING, world.test(0), "issue");
    pending("test-data");
    issue_others(world);
    world.settle();
    expect(SDMA_OK, world.test(0), "waiting");
    world.free(0);
    finish_others(world, SDMA_OK);
}

// Host memory: no rank wants the call.
void declined(World &world, Meter *meter) {
    world.device_memory = false;
    start_others(world, SDMA_ALLTOALL);
    finish_others(world, SDMA_DECLINED);
    sdma_status_t status = SDMA_PENDING;
    const auto call = [&] {
        world.start(0, SDMA_ALLTOALL);
        status = world.test(0);
        world.free(0);
    };
    if (meter) {
        meter->add(call);
        meter->end("declined");
    } else {
        call();
    }
    expect(SDMA_DECLINED, status, "declined");
    world.device_memory = true;
}

void measure(World &world, Meter &meter, const std::string &only) {
    const auto wanted = [&](const char *name) { return only.empty() || only == name; };
    static constexpr Way ways[] = {
        {"alltoall"},
        {"allgather", SDMA_ALLGATHER},
        {"resident", SDMA_ALLTOALL, "gpu", "resident"},
        {"host", SDMA_ALLTOALL, "host"},
        {"loadstore", SDMA_ALLTOALL, "gpu", "call", 1 << 20},
    };
    for (const Way &way : ways)
        if (wanted(way.name)) {
            for (int i = 0; i < warm_up; i++)
                served(world, way, nullptr);
            served(world, way, &meter);
        }
    if (wanted("waiting"))
        waiting(world, meter);
    if (wanted("declined")) {
        for (int i = 0; i < warm_up; i++)
            declined(world, nullptr);
        declined(world, &meter);
    }
}

} // namespace

int main(int argc, char **argv) {
    const std::string mode = argc >= 3 ? argv[1] : "";
    if (mode != "instructions" && mode != "lines") {
        fprintf(stderr, "usage: %s instructions|lines RANKS [CASE]...\n", argv[0]);
        return 2;
    }
    World world(atoi(argv[2]));
    first(world);
    std::unique_ptr<still::Lines> lines; // after that no more segments get mapped
    if (mode == "lines")
        lines = std::make_unique<still::Lines>(world);
    Meter meter(lines.get());
    for (int i = 3; i < argc; i++)
        measure(world, meter, argv[i]);
    if (argc == 3)
        measure(world, meter, "");
    return 0;
}
