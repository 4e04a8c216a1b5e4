// SPDX-License-Identifier: BSD-3-Clause
//
// One-sided operations on a fake node: the right bytes, in the right order, and done means done.
#include "test/support/lines.hpp"

using namespace ranks;
using sdma::params;

namespace {

enum class Way { engines, resident, host, loadstore, mixed, fence, no_queues };

class Onesided : public testing::TestWithParam<Way> {
protected:
    Onesided()
        : loadstore_max_(params().put_loadstore_max, largest_by_kernel()),
          initiator_(params().put_initiator,
                     GetParam() == Way::engines || GetParam() == Way::resident ? "gpu" : "host"),
          launch_(params().launch, GetParam() == Way::resident ? "resident" : "call"),
          signal_(params().signal, GetParam() == Way::fence ? "fence" : "auto"),
          chunk_(params().chunk_max, size_t{4096}) {}
    static size_t largest_by_kernel() {
        return GetParam() == Way::loadstore ? size_t{1} << 40 : GetParam() == Way::mixed ? size_t{1000} : size_t{0};
    }
    static void prepare(Rank &rank) {
        rank.gpu->faults.no_queues = GetParam() == Way::no_queues;
        rank.gpu->faults.chaos = 7;
    }
    With<size_t> loadstore_max_;
    With<const char *> initiator_, launch_, signal_;
    With<size_t> chunk_;
};

constexpr size_t sizes[] = {0, 1, 3, 7, 8, 63, 64, 4095, 4096, 4097, 20001};
constexpr size_t room = 20001 + 64;

TEST_P(Onesided, puts_and_gets_of_all_sizes_at_all_places) {
    with_line(room, prepare, [](Place &place, End &end) {
        std::vector<char> host(room);
        char *device = place.rank.gpu->allocate(0, room);
        char *pinned = place.rank.gpu->allocate(0, room, nullptr, sdma::gpu::Memory_kind::pinned_host);
        uint64_t round = 0;
        for (char *memory : {device, host.data(), pinned})
            for (size_t bytes : sizes)
                for (size_t shift : {0, 1, 5}) {
                    char *local = memory + 3 + shift;
                    memset(memory, 0x11, room);
                    fill(local, 0, 1, bytes, ++round);
                    ASSERT_EQ(SDMA_OK, end.put(local, 2 * shift, bytes));
                    ASSERT_EQ(SDMA_OK, end.flush());
                    memset(memory, 0x22, room);
                    // One more on either side shows what surrounds the bytes.
                    ASSERT_EQ(SDMA_OK, end.get(local, 2 * shift, bytes));
                    ASSERT_EQ(SDMA_OK, end.flush());
                    ASSERT_TRUE(matches(local, 0, 1, bytes, round));
                    for (size_t i = 0; i < room; i++)
                        if (memory + i < local || memory + i >= local + bytes) {
                            ASSERT_EQ(0x22, memory[i]) << "byte " << i << ", " << bytes << " bytes at " << shift;
                        }
                }
        EXPECT_EQ(0, place.rank.gpu->pins()); // what was pinned for operations is not any more
    });
}

TEST_P(Onesided, nothing_beside_a_put_is_touched) {
    World world(2);
    with_windows(world, room, [](Place &place) {
        prepare(place.rank);
        if (place.rank.rank == 1)
            memset(place.window.base, 0x33, room);
        place.barrier();
        if (place.rank.rank == 0) {
            End end = place.to(1);
            std::vector<char> host(300);
            fill(host.data(), 0, 1, 300, 0);
            ASSERT_EQ(SDMA_OK, end.put(host.data(), 77, 300));
            ASSERT_EQ(SDMA_OK, end.flush());
        }
        place.barrier();
        if (place.rank.rank == 1) {
            matches(place.window.base + 77, 0, 1, 300, 0);
            for (size_t i = 0; i < room; i++)
                if (i < 77 || i >= 377) {
                    ASSERT_EQ(0x33, place.window.base[i]) << i;
                }
        }
    });
}

TEST_P(Onesided, everybody_to_everybody_many_at_a_time) {
    constexpr size_t bytes = 1777, depth = 64;
    World world(3);
    with_windows(world, 3 * depth * bytes, [](Place &place) {
        prepare(place.rank);
        Rank &rank = place.rank;
        std::vector<std::unique_ptr<End>> ends;
        for (size_t p = 0; p < 3; p++)
            ends.push_back(std::make_unique<End>(rank, place.addresses[p], place.keys[p]));
        char *send = rank.gpu->allocate(0, 3 * depth * bytes);
        for (uint64_t round = 0; round < 3; round++) {
            for (size_t i = 0; i < depth; i++)
                for (int p = 0; p < 3; p++) {
                    const auto mine = static_cast<size_t>(rank.rank);
                    char *block = send + (static_cast<size_t>(p) * depth + i) * bytes;
                    fill(block, rank.rank, p, bytes, round * depth + i);
                    ASSERT_EQ(SDMA_OK, ends[static_cast<size_t>(p)]->put(block, (mine * depth + i) * bytes, bytes));
                }
            for (auto &end : ends)
                ASSERT_EQ(SDMA_OK, end->flush());
            place.barrier();
            for (size_t i = 0; i < depth; i++)
                for (int p = 0; p < 3; p++)
                    matches(place.window.base + (static_cast<size_t>(p) * depth + i) * bytes, p, rank.rank, bytes,
                            round * depth + i);
            place.barrier();
        }
    });
    EXPECT_EQ(0, world.node.attached);
}

// ---- as much as anybody likes --------------------------------------------------------------------

struct Small {
    const char *name;
    size_t ring_bytes;
    size_t launch_slots;
    int batch;
};

TEST_P(Onesided, thousands_outstanding_with_little_room) {
    for (const Small &small : {Small{"smallest ring", 4096, 64, 256}, Small{"two launches", 65536, 2, 16},
                               Small{"one by one", 4096, 2, 1}}) {
        SCOPED_TRACE(small.name);
        With batch(params().put_batch, small.batch);
        constexpr size_t puts = 2048, bytes = 100;
        World world(2);
        with_windows(world, puts * bytes, [&](Place &place) {
            prepare(place.rank);
            place.rank.gpu->ring_bytes = small.ring_bytes;
            place.rank.gpu->launch_slots = small.launch_slots;
            if (place.rank.rank == 0) {
                End end = place.to(1);
                char *send = place.rank.gpu->allocate(0, puts * bytes);
                for (size_t i = 0; i < puts; i++) {
                    fill(send + i * bytes, 0, 1, bytes, i);
                    ASSERT_EQ(SDMA_OK, end.put(send + i * bytes, i * bytes, bytes));
                    ASSERT_EQ(i + 1, end.number);
                }
                ASSERT_EQ(SDMA_OK, end.flush());
                EXPECT_EQ(puts, end.line->done());
                EXPECT_EQ(puts, end.line->local());
            }
            place.barrier();
            for (size_t i = 0; i < puts && place.rank.rank == 1; i++)
                ASSERT_TRUE(matches(place.window.base + i * bytes, 0, 1, bytes, i));
        });
    }
}

TEST_P(Onesided, one_operation_larger_than_a_ring) {
    constexpr size_t bytes = 5 << 20; // in chunks of 4096: ten times the smallest ring
    const auto smallest_ring = [](Rank &rank) {
        prepare(rank);
        rank.gpu->ring_bytes = 4096;
    };
    with_line(bytes, smallest_ring, [](Place &place, End &end) {
        char *memory = place.rank.gpu->allocate(0, bytes);
        fill(memory, 0, 1, bytes, 5);
        ASSERT_EQ(SDMA_OK, end.put(memory, 0, bytes));
        EXPECT_EQ(1u, end.number);
        ASSERT_EQ(SDMA_OK, end.flush());
        memset(memory, 0, bytes);
        ASSERT_EQ(SDMA_OK, end.get(memory, 0, bytes));
        ASSERT_EQ(SDMA_OK, end.flush());
        matches(memory, 0, 1, bytes, 5);
    });
}

TEST_P(Onesided, rectangles) {
    with_line(40000, prepare, [](Place &, End &end) {
        const auto n = size_t{40000};
        std::vector<char> from(n), to(n);
        fill(from.data(), 0, 1, n, 1);
        for (const sdma_rectangle_t &shape :
             {sdma_rectangle_t{17, 100, 130, 201}, sdma_rectangle_t{3, 5000, 5000, 5000},
              sdma_rectangle_t{300, 8, 16, 8}, sdma_rectangle_t{1, 77, 0, 0}}) {
            memset(to.data(), 0x44, n);
            Request put = end.request(false, from.data() + 1, 11, 0), get = end.request(true, to.data() + 1, 11, 0);
            put.shape = get.shape = shape;
            ASSERT_EQ(SDMA_OK, end.post(put));
            ASSERT_EQ(SDMA_OK, end.flush());
            ASSERT_EQ(SDMA_OK, end.post(get));
            ASSERT_EQ(SDMA_OK, end.flush());
            std::vector<char> expected(n, 0x44);
            for (size_t row = 0; row < shape.rows; row++)
                memcpy(&expected[1 + row * shape.local_pitch], &from[1 + row * shape.local_pitch], shape.row_bytes);
            EXPECT_EQ(expected, to) << shape.rows << " rows";
        }
        // Too much for a size or for the memory.
        Request put = end.request(false, from.data(), 0, 0);
        for (const sdma_rectangle_t &shape :
             {sdma_rectangle_t{3, 8, 8, SIZE_MAX / 2}, sdma_rectangle_t{SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX},
              sdma_rectangle_t{2, 8, 8, 40000 - 7},
              sdma_rectangle_t{size_t{1} << 33, size_t{1} << 33, size_t{1} << 33, size_t{1} << 33}}) {
            put.shape = shape;
            EXPECT_EQ(SDMA_ERROR, end.post(put));
        }
        EXPECT_EQ(SDMA_OK, end.line->progress());
    });
}

// ---- order ---------------------------------------------------------------------------------------

TEST_P(Onesided, a_fence_orders_overlapping_puts) {
    constexpr size_t bytes = 3000, rounds = 60;
    with_line(bytes, prepare, [](Place &place, End &end) {
        char *send = place.rank.gpu->allocate(0, rounds * bytes);
        std::vector<char> expected(bytes);
        // Large and small ones in turn: engine and kernel, where both are in use.
        for (size_t i = 0; i < rounds; i++) {
            const size_t length = i % 2 == 0 ? bytes : 1 + i * 13;
            fill(send + i * bytes, 0, 1, length, i);
            memcpy(expected.data(), send + i * bytes, length);
            ASSERT_EQ(SDMA_OK, end.put(send + i * bytes, 0, length));
            ASSERT_EQ(SDMA_OK, end.line->fence());
        }
        char *back = place.rank.gpu->allocate(0, bytes);
        ASSERT_EQ(SDMA_OK, end.get(back, 0, bytes)); // after the last fence
        ASSERT_EQ(SDMA_OK, end.flush());
        EXPECT_EQ(0, memcmp(expected.data(), back, bytes));
    });
}

TEST_P(Onesided, a_signal_comes_after_its_data) {
    constexpr size_t bytes = 2500, rounds = 40;
    World world(2);
    with_windows(world, 8 + rounds * bytes, [](Place &place) {
        prepare(place.rank);
        if (place.rank.rank == 0) {
            End end = place.to(1);
            char *send = place.rank.gpu->allocate(0, rounds * bytes);
            for (size_t i = 0; i < rounds; i++) {
                fill(send + i * bytes, 0, 1, bytes, i);
                Request put = end.request(false, send + i * bytes, 8 + i * bytes, i % 7 == 6 ? 0 : bytes);
                put.signal = true;
                put.value = (i + 1) << 32 | (i + 1); // both halves
                ASSERT_EQ(SDMA_OK, end.post(put));
                ASSERT_EQ(i + 1, end.number);
            }
            ASSERT_EQ(SDMA_OK, end.flush());
        } else {
            auto *word = reinterpret_cast<uint64_t *>(place.window.base);
            uint64_t seen = 0;
            until([&] {
                const uint64_t value = __atomic_load_n(word, __ATOMIC_ACQUIRE);
                EXPECT_EQ(value >> 32, value & UINT32_MAX);
                for (; seen < (value & UINT32_MAX); seen++)
                    if (seen % 7 != 6)
                        matches(place.window.base + 8 + seen * bytes, 0, 1, bytes, seen);
                return seen == rounds;
            });
        }
    });
}

std::string way_name(const testing::TestParamInfo<Way> &info) {
    constexpr const char *names[] = {"engines", "resident", "host", "loadstore", "mixed", "fence", "no_queues"};
    return names[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Ways, Onesided,
                         testing::Values(Way::engines, Way::resident, Way::host, Way::loadstore, Way::mixed, Way::fence,
                                         Way::no_queues),
                         way_name);

// ---- what done means -----------------------------------------------------------------------------

// A few hundred calls, none of which may find more than there is.
template <class Check> void stays(End &end, Check check) {
    for (int i = 0; i < 300; i++) {
        ASSERT_EQ(SDMA_OK, end.line->progress());
        ASSERT_TRUE(check());
        std::this_thread::yield();
    }
}

TEST(Flush, waits_for_the_signal_behind_the_data) {
    for (const char *initiator : {"host", "gpu"}) {
        With loadstore(params().put_loadstore_max, 0);
        With by(params().put_initiator, initiator);
        with_line(4096, [](Place &place, End &end) {
            char *memory = place.rank.gpu->allocate(0, 4096);
            fill(memory, 0, 1, 4096, 0);
            for (auto fault : {&fake::Faults::stall_engines, &fake::Faults::stall_before_signal}) {
                place.rank.gpu->faults.*fault = true;
                const uint64_t before = end.line->posted();
                ASSERT_EQ(SDMA_OK, end.put(memory, 0, 4096));
                ASSERT_EQ(SDMA_OK, end.line->push());
                stays(end, [&] { return end.line->done() == before && end.line->local() == before; });
                place.rank.gpu->faults.*fault = false;
                ASSERT_EQ(SDMA_OK, end.flush());
                EXPECT_EQ(before + 1, end.line->done());
            }
        });
    }
}

TEST(Flush, waits_for_load_store_kernels) {
    with_line(4096, [](Place &place, End &end) {
        char *memory = place.rank.gpu->allocate(0, 4096);
        place.rank.gpu->faults.hold_launches = true;
        ASSERT_EQ(SDMA_OK, end.put(memory, 0, 4096));
        stays(end, [&] { return end.line->done() == 0; });
        place.rank.gpu->faults.hold_launches = false;
        ASSERT_EQ(SDMA_OK, end.flush());
    });
}

// The engine has not signalled the first put, so no kernel may do the second yet.
TEST(Fence, holds_a_kernel_back_behind_an_engine) {
    With loadstore(params().put_loadstore_max, 100);
    With initiator(params().put_initiator, "host");
    with_line(4096, [](Place &place, End &end) {
        char *memory = place.rank.gpu->allocate(0, 4096);
        place.rank.gpu->faults.stall_before_signal = true;
        ASSERT_EQ(SDMA_OK, end.put(memory, 0, 4000));
        ASSERT_EQ(SDMA_OK, end.line->fence());
        ASSERT_EQ(SDMA_OK, end.put(memory, 0, 50));
        stays(end, [&] { return place.rank.gpu->launched == 0; });
        place.rank.gpu->faults.stall_before_signal = false;
        ASSERT_EQ(SDMA_OK, end.flush());
        EXPECT_EQ(1u, place.rank.gpu->launched);
    });
}

// On the caller's own process, whose GPU it can allocate the word on.
TEST(Flush, can_ask_the_target) {
    With loadstore(params().put_loadstore_max, 0);
    With at_target(params().flush_at_target, true);
    for (const char *signal : {"auto", "fence"}) {
        With kind(params().signal, signal);
        World world(1);
        with_windows(world, 64 * 500, [](Place &place) {
            place.rank.gpu->faults.chaos = 3;
            End end = place.to(0);
            char *memory = place.rank.gpu->allocate(0, 64 * 500);
            fill(memory, 0, 0, 64 * 500, 0);
            for (size_t i = 0; i < 64; i++) {
                ASSERT_EQ(SDMA_OK, end.put(memory + i * 500, i * 500, 500));
                if (i % 3 == 0) {
                    ASSERT_EQ(SDMA_OK, end.line->push());
                }
            }
            ASSERT_EQ(SDMA_OK, end.flush());
            matches(place.window.base, 0, 0, 64 * 500, 0);
            place.rank.gpu->faults.stall_before_signal = true;
            ASSERT_EQ(SDMA_OK, end.put(memory, 0, 10));
            stays(end, [&] { return end.line->done() == 64; });
            place.rank.gpu->faults.stall_before_signal = false;
            ASSERT_EQ(SDMA_OK, end.flush());
        });
    }
}

TEST(Flush, at_a_target_that_is_hidden_declines) {
    With loadstore(params().put_loadstore_max, 0);
    With at_target(params().flush_at_target, true);
    with_line(100, [](Place &place, End &end) {
        char *memory = place.rank.gpu->allocate(0, 100);
        EXPECT_EQ(SDMA_DECLINED, end.put(memory, 0, 100));
        EXPECT_EQ(SDMA_REASON_no_gpu, end.line->reason());
        memset(memory, 1, 100);
        ASSERT_EQ(SDMA_OK, end.get(memory, 0, 100)); // its word is where its data goes
        ASSERT_EQ(SDMA_OK, end.flush());
        EXPECT_EQ(std::string(100, 0), std::string(memory, 100));
    });
}

// ---- economy -------------------------------------------------------------------------------------

TEST(Batches, share_a_doorbell) {
    With loadstore(params().put_loadstore_max, 0);
    with_line(10000, [](Place &place, End &end) {
        char *memory = place.rank.gpu->allocate(0, 10000);
        const uint64_t before = counter("put_batches");
        for (size_t i = 0; i < 100; i++)
            ASSERT_EQ(SDMA_OK, end.put(memory + i * 100, i * 100, 100));
        ASSERT_EQ(SDMA_OK, end.line->push());
        ASSERT_EQ(SDMA_OK, end.flush());
        EXPECT_EQ(1u, counter("put_batches") - before);
    });
}

// A batch of both paths needs two launches, and holds one while it waits for the other.
TEST(Batches, of_both_paths_need_one_launch_slot_only) {
    With loadstore(params().put_loadstore_max, 100);
    With batch(params().put_batch, 4);
    constexpr size_t puts = 200, bytes = 300;
    with_line(puts * bytes, [](Place &place, End &end) {
        place.rank.gpu->launch_slots = 1;
        char *memory = place.rank.gpu->allocate(0, puts * bytes);
        for (size_t i = 0; i < puts; i++)
            ASSERT_EQ(SDMA_OK, end.put(memory + i * bytes, i * bytes, i % 2 == 0 ? 50 : bytes));
        ASSERT_EQ(SDMA_OK, end.flush());
    });
}

TEST(Batches, back_pressure_is_pending_and_ends) {
    With batch(params().put_batch, 4);
    with_line(1000, [](Place &place, End &end) {
        char *memory = place.rank.gpu->allocate(0, 1000);
        place.rank.gpu->launch_slots = 2;
        place.rank.gpu->faults.hold_launches = true;
        uint64_t number = 0;
        sdma_status_t status = SDMA_OK;
        for (size_t i = 0; i < 1000 && status == SDMA_OK; i++)
            status = end.line->post(end.request(false, memory + i % 10 * 100, i % 10 * 100, 100), number);
        EXPECT_EQ(SDMA_PENDING, status);
        EXPECT_GE(number, 12u);
        EXPECT_LE(number, 100u);
        place.rank.gpu->faults.hold_launches = false;
        ASSERT_EQ(SDMA_OK, end.put(memory, 0, 100)); // with progress
        ASSERT_EQ(SDMA_OK, end.flush());
        EXPECT_EQ(number + 1, end.line->done());
    });
}

TEST(Threads, each_with_a_line) {
    constexpr size_t bytes = 900, puts = 300;
    World world(5);
    With loadstore(params().put_loadstore_max, 500);
    with_windows(world, puts * bytes, [](Place &place) {
        if (place.rank.rank == 0) {
            char *send = place.rank.gpu->allocate(0, 4 * puts * bytes);
            std::vector<std::thread> threads;
            for (int t = 1; t <= 4; t++)
                threads.emplace_back([&, t] {
                    End end = place.to(t);
                    for (size_t i = 0; i < puts; i++) {
                        char *block = send + (static_cast<size_t>(t - 1) * puts + i) * bytes;
                        const size_t length = i % 3 == 0 ? 100 : bytes;
                        fill(block, 0, t, length, i);
                        EXPECT_EQ(SDMA_OK, end.put(block, i * bytes, length));
                        if (i % 16 == 0)
                            end.line->push();
                    }
                    EXPECT_EQ(SDMA_OK, end.flush());
                });
            for (auto &thread : threads)
                thread.join();
        }
        place.barrier();
        for (size_t i = 0; i < puts && place.rank.rank > 0; i++)
            ASSERT_TRUE(matches(place.window.base + i * bytes, 0, place.rank.rank, i % 3 == 0 ? 100 : bytes, i));
    });
}

TEST(Threads, four_on_one_line) {
    constexpr size_t bytes = 300, puts = 200;
    World world(2);
    with_windows(world, 4 * puts * bytes, [](Place &place) {
        if (place.rank.rank == 0) {
            char *send = place.rank.gpu->allocate(0, 4 * puts * bytes);
            End end = place.to(1);
            std::vector<std::thread> threads;
            for (size_t t = 0; t < 4; t++)
                threads.emplace_back([&, t] {
                    uint64_t number = 0;
                    for (size_t i = t * puts; i < (t + 1) * puts; i++) {
                        fill(send + i * bytes, 0, 1, bytes, i);
                        until([&] {
                            const auto status =
                                end.line->post(end.request(false, send + i * bytes, i * bytes, bytes), number);
                            end.line->progress();
                            return status == SDMA_OK;
                        });
                    }
                    until([&] { return end.line->progress() == SDMA_OK && end.line->done() >= number; });
                });
            for (auto &thread : threads)
                thread.join();
            EXPECT_EQ(4 * puts, end.line->done());
        }
        place.barrier();
        for (size_t i = 0; i < 4 * puts && place.rank.rank == 1; i++)
            ASSERT_TRUE(matches(place.window.base + i * bytes, 0, 1, bytes, i));
    });
}

} // namespace
