// SPDX-License-Identifier: BSD-3-Clause
//
// The resident kernel: as a twin of many lanes, and its handshake with threads that hand records
// over while it comes and goes.
#include "common/sdma/op/resident.hpp"

#include <list>
#include <numeric>

#include "common/sdma/op/mailbox.hpp"
#include "common/sdma/plan/plan.hpp"
#include "test/support/ranks.hpp"
#include "test/unit/lanes.hpp"

using namespace ranks;
using sdma::params;
using sdma::gpu::Status;
using sdma::op::Resident;

namespace {

uint64_t load(const uint64_t &word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }

// A record with one peer per queue: a block that is copied, and signals that count its rounds.
class Job {
public:
    explicit Job(const std::vector<sdma::engine::Queue *> &queues, uint8_t seed) : blocks_(queues.size()) {
        for (size_t q = 0; q < queues.size(); q++) {
            Block &block = blocks_[q];
            block.from.resize(100 + q);
            std::iota(block.from.begin(), block.from.end(), static_cast<uint8_t>(seed + q));
            block.to.resize(block.from.size());
            rings_.push_back(reinterpret_cast<uint64_t>(queues[q]->ring));
        }
    }
    sdma_work &build() {
        round_++;
        std::vector<sdma::plan::Peer> peers;
        for (Block &block : blocks_) {
            std::fill(block.to.begin(), block.to.end(), uint8_t{0});
            sdma::plan::Peer peer;
            peer.src = reinterpret_cast<uint64_t>(block.from.data());
            peer.dst = reinterpret_cast<uint64_t>(block.to.data());
            peer.bytes = block.from.size();
            peer.arrival = reinterpret_cast<uint64_t>(&block.arrival);
            peer.departure = reinterpret_cast<uint64_t>(&block.departure);
            peer.arrival_value = peer.departure_value = round_;
            peer.queue = static_cast<uint32_t>(peers.size());
            peers.push_back(peer);
        }
        sdma::plan::Operation operation;
        operation.chunk_bytes = 4096;
        operation.spin_budget = 100'000'000;
        operation.rings = rings_;
        operation.peers = peers;
        record_.resize(sdma::plan::record_bytes(rings_.size(), peers.size()) / 8);
        return *sdma::plan::build(operation, std::as_writable_bytes(std::span(record_)));
    }
    bool issued() const {
        return load(reinterpret_cast<const sdma_work *>(record_.data())->status) == SDMA_WORK_ISSUED;
    }
    // Exactly once per round.
    bool arrived() const {
        return std::all_of(blocks_.begin(), blocks_.end(),
                           [this](const Block &block) { return load(block.departure) >= round_; });
    }
    void expect_right() const {
        for (const Block &block : blocks_) {
            EXPECT_EQ(round_, block.arrival);
            EXPECT_EQ(round_, block.departure);
            EXPECT_EQ(block.from, block.to);
        }
    }

private:
    struct Block {
        std::vector<uint8_t> from, to;
        uint64_t arrival = 0, departure = 0;
    };
    std::vector<Block> blocks_;
    std::vector<uint64_t> rings_, record_;
    uint64_t round_ = 0;
};

class Resident_test : public testing::Test {
protected:
    Resident_test() : gpu(node, 0, 1) {
        for (uint32_t q = 0; q < 3; q++)
            queues.push_back(gpu.make_queue(0, q, sdma::engine::Producer::device));
    }
    // As an operation does.
    void issue(Resident &resident, Job &job) {
        const sdma_work &work = job.build();
        until([&] {
            const Status status = resident.submit(work);
            EXPECT_TRUE(status == Status::ok || status == Status::pending);
            return status != Status::pending;
        });
        until([&] { return job.issued() || resident.poll() == Status::failed; });
        EXPECT_TRUE(job.issued());
        until([&] { return job.arrived(); });
        job.expect_right();
    }
    fake::Node node;
    fake::Runtime gpu;
    std::vector<sdma::engine::Queue *> queues;
};

TEST_F(Resident_test, a_wave_takes_records_and_ends_when_idle) {
    sdma_mailbox mailbox{};
    uint64_t posted = 0;
    const auto post = [&](Job &job) {
        const sdma_work &work = job.build();
        sdma::op::mailbox::post(mailbox, posted++, reinterpret_cast<uint64_t>(&work), work.record_bytes);
    };
    std::list<Job> jobs;
    for (uint64_t seed = 0; seed < 6; seed++) {
        sdma::op::mailbox::open(mailbox, 300'000);
        const uint64_t last = posted + 20;
        post(jobs.emplace_back(queues, static_cast<uint8_t>(posted)));
        std::mt19937_64 random(seed);
        lanes::run(
            1, seed % 2 == 0 ? 64 : 7, [&] { sdma_resident_kernel(&mailbox); }, seed,
            [&] {
                if (posted == last || random() % 256 != 0 || posted - mailbox.done == SDMA_MAILBOX_SLOTS)
                    return;
                post(jobs.emplace_back(queues, static_cast<uint8_t>(posted)));
            });
        EXPECT_EQ(SDMA_MAILBOX_ENDED, mailbox.state);
        // What came too late for this kernel is the next one's.
        if (seed == 5) {
            sdma::op::mailbox::open(mailbox, 0);
            lanes::run(1, 64, [&] { sdma_resident_kernel(&mailbox); });
        }
    }
    EXPECT_EQ(posted, mailbox.done);
    for (Job &job : jobs) {
        EXPECT_TRUE(job.issued());
        until([&] { return job.arrived(); });
        job.expect_right();
    }
}

TEST_F(Resident_test, the_stop_flag_ends_it_at_once_and_leaves_records_alone) {
    sdma_mailbox mailbox{};
    sdma::op::mailbox::open(mailbox, 3'600'000'000'000);
    Job first(queues, 1), second(queues, 2);
    const sdma_work *work = &first.build();
    sdma::op::mailbox::post(mailbox, 0, reinterpret_cast<uint64_t>(work), work->record_bytes);
    lanes::run(
        1, 64, [&] { sdma_resident_kernel(&mailbox); }, 1,
        [&] {
            if (mailbox.done == 1 && mailbox.head == 1) {
                const sdma_work *next = &second.build();
                mailbox.records[1] = {reinterpret_cast<uint64_t>(next), next->record_bytes};
                mailbox.head = 2 | SDMA_MAILBOX_STOP;
            }
        });
    EXPECT_EQ(SDMA_MAILBOX_ENDED, mailbox.state);
    EXPECT_EQ(1U, mailbox.done);
    EXPECT_TRUE(first.issued());
    EXPECT_FALSE(second.issued());
    until([&] { return first.arrived(); });
}

TEST_F(Resident_test, thousands_of_rounds_while_it_comes_and_goes) {
    for (int idle : {0, 1, 20}) {
        With<int> idle_time(params().resident_idle, idle);
        Resident resident(gpu, 0);
        Job job(queues, 3);
        const uint64_t before = gpu.launched;
        for (int round = 0; round < 2000; round++) {
            // From in its midst to long after its end.
            for (int pause = round % 50; pause > 0; pause--)
                sched_yield();
            issue(resident, job);
        }
        EXPECT_LT(before, gpu.launched);
        EXPECT_GE(before + 4000, gpu.launched); // ends between records, but never more often than it is needed
    }
}

TEST_F(Resident_test, threads_hand_over_at_any_time) {
    With<int> idle_time(params().resident_idle, 2);
    gpu.faults.slow_start = 50;
    Resident resident(gpu, 0);
    std::vector<std::thread> threads;
    for (int t = 0; t < 6; t++)
        threads.emplace_back([&, t] {
            std::mt19937_64 random(static_cast<uint64_t>(t));
            Job job(queues, static_cast<uint8_t>(10 * t));
            for (int round = 0; round < 500; round++) {
                for (uint64_t pause = random() % 20; pause > 0; pause--)
                    sched_yield();
                issue(resident, job);
            }
        });
    for (std::thread &thread : threads)
        thread.join();
}

// A record is served although nobody polls.
TEST_F(Resident_test, needs_no_poll) {
    With<int> idle_time(params().resident_idle, 0);
    Resident resident(gpu, 0);
    Job job(queues, 5);
    size_t lost = 0;
    for (int round = 0; round < 300; round++) {
        const sdma_work &work = job.build();
        until([&] { return resident.submit(work) == Status::ok; });
        // A kernel that closed for longer than submit() looks is the one exception.
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
        while (!job.issued() && std::chrono::steady_clock::now() < end)
            std::this_thread::yield();
        if (!job.issued()) {
            lost++;
            until([&] { return job.issued() || (resident.poll(), false); });
        }
        until([&] { return job.arrived(); });
    }
    EXPECT_LE(lost, 3U);
}

TEST_F(Resident_test, takes_no_more_than_it_has_room_for) {
    Resident resident(gpu, 0);
    std::list<Job> jobs;
    gpu.faults.hold_launches = true;
    for (uint32_t i = 0; i < SDMA_MAILBOX_SLOTS; i++)
        EXPECT_EQ(Status::ok, resident.submit(jobs.emplace_back(queues, static_cast<uint8_t>(i)).build()));
    Job more(queues, 99);
    const sdma_work &work = more.build();
    EXPECT_EQ(Status::pending, resident.submit(work));
    gpu.faults.hold_launches = false;
    until([&] { return resident.submit(work) == Status::ok; });
    for (Job &job : jobs)
        until([&] { return job.arrived() || (resident.poll(), false); });
    until([&] { return more.arrived() || (resident.poll(), false); });
}

TEST_F(Resident_test, waits_for_a_place_to_start_in) {
    Resident resident(gpu, 0);
    gpu.launch_slots = 0;
    Job job(queues, 1);
    const sdma_work &work = job.build();
    EXPECT_EQ(Status::pending, resident.submit(work));
    gpu.launch_slots = 64;
    EXPECT_EQ(Status::ok, resident.submit(work));
    until([&] { return job.arrived() || resident.poll() == Status::failed; });
    EXPECT_TRUE(job.arrived());
}

TEST_F(Resident_test, its_death_is_noticed) {
    Resident resident(gpu, 0);
    Job job(queues, 1);
    gpu.faults.fail_launches = true;
    EXPECT_EQ(Status::ok, resident.submit(job.build()));
    until([&] { return resident.poll() == Status::failed; });
    EXPECT_EQ(Status::failed, resident.submit(job.build()));
    EXPECT_FALSE(job.issued());
}

TEST_F(Resident_test, after_stop_nothing_is_taken) {
    With<int> idle_time(params().resident_idle, 1000000);
    Resident resident(gpu, 0);
    Job job(queues, 1);
    issue(resident, job);
    resident.stop();
    EXPECT_EQ(Status::failed, resident.submit(job.build()));
    // Its end, within patience, although it would stay for a second.
    until([&] { return resident.describe().find("ended") != std::string::npos; });
}

// ---- collectives ---------------------------------------------------------------------------------

class Collectives : public testing::Test {
protected:
    With<const char *> launch{params().launch, "resident"};
    With_loadstore_max loadstore{size_t{0}};
};

void exchange(Rank &rank, int rounds, sdma_status_t expected = SDMA_OK) {
    const auto n = static_cast<size_t>(rank.size);
    char *send = rank.gpu->allocate(0, n * 20001), *recv = rank.gpu->allocate(0, n * 20001);
    for (int round = 0; round < rounds; round++)
        EXPECT_EQ(expected, checked_alltoall(rank, send, recv, static_cast<size_t>(1 + round * 997 % 20001),
                                             static_cast<uint64_t>(round)));
}

TEST_F(Collectives, are_issued_by_it) {
    for (int idle : {0, 30, 100000}) {
        With<int> idle_time(params().resident_idle, idle);
        const uint64_t before = counter("resident");
        World world(4);
        world.run([&](Rank &rank) {
            rank.gpu->faults.chaos = static_cast<uint64_t>(idle % 7);
            exchange(rank, 50);
        });
        EXPECT_EQ(before + 200, counter("resident"));
        EXPECT_EQ(0, world.node.attached);
    }
}

TEST_F(Collectives, share_operations_with_the_load_store_kernel) {
    With_loadstore_max some(size_t{5000});
    World world(3);
    world.run([](Rank &rank) { exchange(rank, 40); });
}

// Load/store peers as well, where it can: no launch is left but its own.
TEST_F(Collectives, are_copied_by_it_up_to_a_size) {
    With_loadstore_max all(size_t{1} << 30);
    With<size_t> most(params().resident_max, 20000);
    World world(3);
    world.run([](Rank &rank) {
        rank.gpu->faults.coherent_stores = rank.gpu->faults.resident_copies = true;
        char *send = rank.gpu->allocate(0, 90000), *recv = rank.gpu->allocate(0, 90000);
        const auto n = static_cast<size_t>(rank.size);
        for (size_t bytes : {size_t{1}, size_t{4097}, 20000 / n, 20000 / n + 1, size_t{30000}}) {
            const uint64_t resided = rank.gpu->resided;
            EXPECT_EQ(SDMA_OK, checked_alltoall(rank, send, recv, bytes, bytes));
            EXPECT_EQ(bytes * n <= 20000 ? 1 : 0, rank.gpu->resided - resided) << bytes;
        }
    });
}

TEST_F(Collectives, are_copied_by_it_beside_engines) {
    With_loadstore_max some(size_t{5000});
    With<size_t> most(params().resident_max, size_t{1} << 30);
    World world(3);
    world.run([](Rank &rank) {
        rank.gpu->faults.coherent_stores = rank.gpu->faults.resident_copies = true;
        exchange(rank, 40);
    });
}

TEST_F(Collectives, go_without_it_where_there_is_none) {
    const uint64_t before = counter("resident");
    World world(3);
    world.run([](Rank &rank) {
        rank.gpu->faults.no_resident = true;
        exchange(rank, 5);
    });
    EXPECT_EQ(before, counter("resident"));
    With_loadstore_max all(size_t{1} << 30);
    With<size_t> most(params().resident_max, size_t{1} << 30);
    World copied(3);
    copied.run([](Rank &rank) {
        rank.gpu->faults.no_resident = true;
        rank.gpu->faults.coherent_stores = rank.gpu->faults.resident_copies = true;
        exchange(rank, 5);
    });
    EXPECT_EQ(before, counter("resident"));
}

// ---- room in a ring that kernels must not wait for --------------------------------------------------

TEST(Claims, leave_room_for_pads_and_let_what_is_too_large_alone) {
    sdma::engine::Queue queue;
    queue.bytes = 4096;
    EXPECT_TRUE(queue.claim(1000));
    EXPECT_TRUE(queue.claim(1000));
    EXPECT_FALSE(queue.claim(48)); // 4096 bytes in use are one too many
    EXPECT_TRUE(queue.claim(47));
    queue.unclaim(1000);
    queue.unclaim(47);
    EXPECT_FALSE(queue.claim(100000));
    queue.unclaim(1000);
    EXPECT_TRUE(queue.claim(100000));
    EXPECT_FALSE(queue.claim(1));
    queue.unclaim(100000);
    EXPECT_EQ(0U, queue.claimed);
}

TEST_F(Collectives, do_not_start_a_kernel_before_there_is_room_for_it) {
    World world(2);
    world.run([](Rank &rank) {
        exchange(rank, 2);
        sdma_reason_t reason;
        std::vector<sdma::engine::Queue *> queues;
        for (int peer = 0; peer < rank.size; peer++)
            queues.push_back(
                rank.context->queue(0, {0, static_cast<uint8_t>(peer), 0, 0}, sdma::engine::Producer::device, reason));
        for (auto *queue : queues) {
            ASSERT_NE(nullptr, queue);
            queue->read_by_software = true;
            EXPECT_TRUE(queue->claim(queue->bytes)); // somebody else's
        }
        char *send = rank.gpu->allocate(0, 2000), *recv = rank.gpu->allocate(0, 2000);
        const uint64_t before = rank.gpu->resided;
        auto op = rank.start(alltoall(send, recv, 1000));
        for (int i = 0; i < 1000; i++)
            EXPECT_EQ(SDMA_PENDING, op->test());
        EXPECT_EQ(before, rank.gpu->resided);
        for (auto *queue : queues)
            queue->unclaim(queue->bytes);
        EXPECT_EQ(SDMA_OK, Rank::finish(*op));
        for (auto *queue : queues)
            EXPECT_EQ(0U, queue->claimed);
    });
}

TEST_F(Collectives, end_with_its_death) {
    World world(2);
    world.run([](Rank &rank) {
        exchange(rank, 3);
        rank.world.barrier.wait();
        if (rank.rank == 0) {
            // The next kernel, when this one has gone.
            params().resident_idle = 0;
            rank.gpu->faults.fail_launches = true;
        }
        char *send = rank.gpu->allocate(0, 2000), *recv = rank.gpu->allocate(0, 2000);
        sdma_status_t status = SDMA_OK;
        for (int round = 0; round < 1000 && status == SDMA_OK; round++)
            status = checked_alltoall(rank, send, recv, 1000, static_cast<uint64_t>(round));
        EXPECT_NE(SDMA_OK, status);
        EXPECT_EQ(rank.rank == 0, rank.context->faulted());
    });
    params().resident_idle = 30;
}

} // namespace
