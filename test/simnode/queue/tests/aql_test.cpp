// SPDX-License-Identifier: BSD-3-Clause
//
// AQL queues, host twins, kernels without a code object, and metadata.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <unistd.h>

#include <hsa/amd_hsa_kernel_code.h>
#include <hsa/amd_hsa_signal.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include "kernels/twin.h"
#include "stub.hpp"
#include "test/simnode/queue/code_object.hpp"
#include "test/simnode/queue/simnode_api.h"
#include "test/simnode/queue/twin_runner.hpp"

using namespace simnode;

namespace {

constexpr uint64_t slots = 16;

class Aql : public testing::Test {
protected:
    stub::Gpu_memory ring{4096}, pointers{4096}, memory{1 << 16};
    uint64_t &read = *pointers.at<uint64_t>(0), &write = *pointers.at<uint64_t>(64);
    uint64_t &doorbell = *pointers.at<uint64_t>(128);
    std::unique_ptr<Worker> worker;

    void SetUp() override {
        stub::clear();
        stub::options() = Options{};
        sdma_simnode_reseed(0);
        for (uint64_t i = 0; i < slots; i++)
            *ring.at<uint16_t>(64 * i) = HSA_PACKET_TYPE_INVALID;
        doorbell = ~uint64_t{0};
        start();
    }
    void start() {
        Aql_queue queue;
        queue.ring = ring.data();
        queue.bytes = 64 * slots;
        queue.read_pointer = &read;
        queue.write_pointer = &write;
        queue.doorbell = &doorbell;
        worker = start_aql(queue);
    }
    template <typename Packet> void fill(uint64_t index, const Packet &packet, uint16_t header) {
        static_assert(sizeof packet == 64);
        uint8_t *slot = ring.data() + index % slots * 64;
        memcpy(slot + 2, reinterpret_cast<const uint8_t *>(&packet) + 2, 62);
        __atomic_store_n(reinterpret_cast<uint16_t *>(slot), header, __ATOMIC_RELEASE);
    }
    void ring_doorbell(uint64_t index) { __atomic_store_n(&doorbell, index, __ATOMIC_RELEASE); }
    hsa_signal_t signal(size_t offset, int64_t value) {
        auto *made = memory.at<amd_signal_t>(offset);
        made->value = value;
        return {memory.address(offset)};
    }
    int64_t value(size_t offset) {
        return __atomic_load_n(const_cast<int64_t *>(&memory.at<amd_signal_t>(offset)->value), __ATOMIC_ACQUIRE);
    }
    void set(size_t offset, int64_t value) {
        __atomic_store_n(const_cast<int64_t *>(&memory.at<amd_signal_t>(offset)->value), value, __ATOMIC_RELEASE);
    }
    bool reaches(size_t offset, int64_t wanted) {
        return stub::eventually([&] { return value(offset) == wanted; });
    }
    bool complains() {
        return stub::eventually([] { return !stub::complaints().empty(); });
    }
};

constexpr size_t done = 0, first = 128, second = 256;

TEST_F(Aql, BarrierAndWaitsForAll) {
    hsa_barrier_and_packet_t packet{};
    packet.dep_signal[0] = signal(first, 1);
    packet.dep_signal[3] = signal(second, 1);
    packet.completion_signal = signal(done, 5);
    fill(0, packet, HSA_PACKET_TYPE_BARRIER_AND);
    ring_doorbell(0);
    set(first, 0);
    usleep(20000);
    EXPECT_EQ(value(done), 5);
    EXPECT_EQ(__atomic_load_n(&read, __ATOMIC_ACQUIRE), 0u);
    set(second, 0);
    EXPECT_TRUE(reaches(done, 4));
    EXPECT_EQ(__atomic_load_n(&read, __ATOMIC_ACQUIRE), 1u);
    EXPECT_EQ(*ring.at<uint8_t>(0), HSA_PACKET_TYPE_INVALID);
    EXPECT_NE(memory.at<amd_signal_t>(done)->start_ts, 0u);
    EXPECT_GE(memory.at<amd_signal_t>(done)->end_ts, memory.at<amd_signal_t>(done)->start_ts);
}

TEST_F(Aql, BarrierOrWaitsForOne) {
    hsa_barrier_and_packet_t packet{};
    packet.dep_signal[0] = signal(first, 1);
    packet.dep_signal[1] = signal(second, 1);
    packet.completion_signal = signal(done, 1);
    fill(0, packet, HSA_PACKET_TYPE_BARRIER_OR);
    ring_doorbell(0);
    usleep(20000);
    EXPECT_EQ(value(done), 1);
    set(second, 0);
    EXPECT_TRUE(reaches(done, 0));
}

TEST_F(Aql, CompletionRaisesTheEvent) {
    hsa_barrier_and_packet_t packet{};
    packet.completion_signal = signal(done, 1);
    memory.at<amd_signal_t>(done)->event_mailbox_ptr = memory.address(1024);
    memory.at<amd_signal_t>(done)->event_id = 33;
    fill(0, packet, HSA_PACKET_TYPE_BARRIER_AND);
    ring_doorbell(0);
    ASSERT_TRUE(reaches(done, 0));
    EXPECT_TRUE(stub::eventually([] { return stub::events() == std::vector<uint32_t>{33}; }));
    EXPECT_EQ(*memory.at<uint64_t>(1024), 33u);
}

TEST_F(Aql, BarrierValue) {
    hsa_amd_barrier_value_packet_t packet{};
    packet.header.AmdFormat = HSA_AMD_PACKET_TYPE_BARRIER_VALUE;
    packet.signal = signal(first, 0x10);
    packet.value = 3;
    packet.mask = 0xf;
    packet.cond = HSA_SIGNAL_CONDITION_GTE;
    packet.completion_signal = signal(done, 1);
    fill(0, packet, HSA_PACKET_TYPE_VENDOR_SPECIFIC);
    ring_doorbell(0);
    usleep(20000);
    EXPECT_EQ(value(done), 1);
    set(first, 0x13);
    EXPECT_TRUE(reaches(done, 0));
}

TEST_F(Aql, LaterDoorbellWaitsForTheHeader) {
    hsa_barrier_and_packet_t packet{};
    packet.completion_signal = signal(done, 2);
    fill(1, packet, HSA_PACKET_TYPE_BARRIER_AND);
    ring_doorbell(1);
    usleep(20000);
    EXPECT_EQ(value(done), 2);
    fill(0, packet, HSA_PACKET_TYPE_BARRIER_AND);
    ring_doorbell(0); // goes back: another producer
    EXPECT_TRUE(reaches(done, 0));
}

TEST_F(Aql, LateDoorbellOfAnEarlierPacketHidesNone) {
    hsa_barrier_and_packet_t packet{};
    packet.dep_signal[0] = signal(first, 1);
    packet.completion_signal = signal(done, 3);
    fill(0, packet, HSA_PACKET_TYPE_BARRIER_AND);
    ring_doorbell(0);
    packet.dep_signal[0] = {};
    fill(1, packet, HSA_PACKET_TYPE_BARRIER_AND);
    fill(2, packet, HSA_PACKET_TYPE_BARRIER_AND);
    ring_doorbell(2);
    ring_doorbell(1); // by a slower producer; the engine, still at packet 0, never sees the 2
    set(first, 0);
    EXPECT_TRUE(reaches(done, 0));
    worker->end();
    EXPECT_TRUE(stub::complaints().empty());
}

TEST_F(Aql, ForgottenDoorbellIsFound) {
    hsa_barrier_and_packet_t packet{};
    packet.completion_signal = signal(done, 3);
    fill(0, packet, HSA_PACKET_TYPE_BARRIER_AND);
    packet.dep_signal[0] = signal(first, 1);
    fill(1, packet, HSA_PACKET_TYPE_BARRIER_AND);
    ring_doorbell(1);
    ASSERT_TRUE(reaches(done, 2)); // so the 1 was seen
    packet.dep_signal[0] = {};
    fill(2, packet, HSA_PACKET_TYPE_BARRIER_AND);
    set(first, 0);
    EXPECT_TRUE(reaches(done, 0)); // the ring may still come
    EXPECT_TRUE(stub::complaints().empty());
    worker->end();
    EXPECT_EQ(stub::complaints().size(), 1u);
}

TEST_F(Aql, ManyWraps) {
    signal(done, 1000);
    for (uint64_t i = 0; i < 1000; i++) {
        hsa_barrier_and_packet_t packet{};
        packet.completion_signal = {memory.address(done)};
        ASSERT_TRUE(stub::eventually([&] { return i - __atomic_load_n(&read, __ATOMIC_ACQUIRE) < slots; }));
        fill(i, packet, HSA_PACKET_TYPE_BARRIER_AND);
        ring_doorbell(i);
    }
    EXPECT_TRUE(reaches(done, 0));
}

TEST_F(Aql, InvalidPacketsHangTheQueue) {
    hsa_barrier_and_packet_t packet{};
    packet.completion_signal = signal(done, 1);
    fill(0, packet, 77);
    ring_doorbell(0);
    EXPECT_TRUE(complains());
    EXPECT_EQ(value(done), 1);
}

TEST_F(Aql, UnknownVendorFormatHangs) {
    hsa_amd_barrier_value_packet_t packet{};
    packet.header.AmdFormat = 9;
    fill(0, packet, HSA_PACKET_TYPE_VENDOR_SPECIFIC);
    ring_doorbell(0);
    EXPECT_TRUE(complains());
}

TEST_F(Aql, EmptyGridHangs) {
    hsa_kernel_dispatch_packet_t packet{};
    packet.workgroup_size_x = packet.workgroup_size_y = packet.workgroup_size_z = 1;
    fill(0, packet, HSA_PACKET_TYPE_KERNEL_DISPATCH);
    ring_doorbell(0);
    EXPECT_TRUE(complains());
}

class Blit : public Aql {
protected:
    // As ROCr makes them: amd_kernel_code_t with the register counts, instructions behind it.
    hsa_kernel_dispatch_packet_t dispatch(uint32_t sgprs, uint32_t vgprs, const std::vector<uint64_t> &arguments) {
        auto *code = memory.at<amd_kernel_code_t>(4096);
        *code = amd_kernel_code_t{};
        code->kernel_code_entry_byte_offset = sizeof *code;
        code->compute_pgm_rsrc1 = (vgprs - 1) / 4 | (sgprs - 1) / 8 << 6;
        memcpy(memory.data() + 512, arguments.data(), arguments.size() * 8);
        hsa_kernel_dispatch_packet_t packet{};
        packet.grid_size_x = 256;
        packet.workgroup_size_x = 64;
        packet.grid_size_y = packet.grid_size_z = packet.workgroup_size_y = packet.workgroup_size_z = 1;
        packet.kernel_object = memory.address(4096);
        packet.kernarg_address = memory.data() + 512;
        packet.completion_signal = signal(done, 1);
        return packet;
    }
    bool run(const hsa_kernel_dispatch_packet_t &packet) {
        fill(0, packet, HSA_PACKET_TYPE_KERNEL_DISPATCH);
        ring_doorbell(0);
        return reaches(done, 0);
    }
};

TEST_F(Blit, CopyAligned) {
    uint64_t from = memory.address(8192), to = memory.address(16384);
    memset(memory.data() + 8192, 0x5a, 100);
    EXPECT_TRUE(
        run(dispatch(32, 12, {from, to, from + 4, to + 4, from + 8, to + 8, from + 96, to + 96, from + 99, to + 99})));
    EXPECT_EQ(memory.data()[16384 + 98], 0x5a);
    EXPECT_EQ(memory.data()[16384 + 99], 0);
}

TEST_F(Blit, CopyMisaligned) {
    uint64_t from = memory.address(8192), to = memory.address(16385);
    memset(memory.data() + 8192, 0x5a, 100);
    EXPECT_TRUE(run(dispatch(23, 10, {from, to, from + 64, to + 64, from + 99, to + 99, 256})));
    EXPECT_EQ(memory.data()[16385 + 98], 0x5a);
    EXPECT_EQ(memory.data()[16385 + 99], 0);
}

TEST_F(Blit, Fill) {
    uint64_t to = memory.address(16384);
    EXPECT_TRUE(run(dispatch(19, 8, {to, to + 64, to + 80, 0x4000000001234567})));
    EXPECT_EQ(*memory.at<uint32_t>(16384 + 76), 0x01234567u);
    EXPECT_EQ(*memory.at<uint32_t>(16384 + 80), 0u);
}

TEST_F(Blit, UnknownKernelAborts) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_DEATH(run(dispatch(100, 100, {0})), "unknown kernel without a code object");
}

TEST_F(Blit, InaccessibleMemoryAborts) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_DEATH(run(dispatch(19, 8, {0x1000, 0x1000, 0x2000, 0})), "not accessible");
}

// Twins --------------------------------------------------------------------------------------

struct Arguments {
    std::multiset<uint32_t> lanes;
    std::vector<uint32_t> order;
    uint32_t arrived = 0, workgroups = 0;
    bool met = true;
    uint32_t release = 0;
};

void note_lane(const void *kernarg) {
    auto &arguments = **static_cast<Arguments *const *>(kernarg);
    auto &here = *sdma_twin_here;
    uint32_t lane = here.workgroup * 64 + here.lane;
    arguments.lanes.insert(lane);
    arguments.order.push_back(lane);
    arguments.workgroups = here.workgroups;
}

// Every lane waits for all others: only works if all run at the same time.
void meet(const void *kernarg) {
    auto &arguments = **static_cast<Arguments *const *>(kernarg);
    uint32_t lane = sdma_twin_here->lane, workgroup = sdma_twin_here->workgroup;
    uint32_t all = sdma_twin_here->workgroups * sdma_twin_here->lanes;
    arguments.arrived++;
    while (arguments.arrived < all)
        sdma_twin_here->yield(sdma_twin_here->context);
    arguments.met = arguments.met && lane == sdma_twin_here->lane && workgroup == sdma_twin_here->workgroup;
    note_lane(kernarg);
}

void wait_for_release(const void *kernarg) {
    auto &arguments = **static_cast<Arguments *const *>(kernarg);
    while (!__atomic_load_n(&arguments.release, __ATOMIC_ACQUIRE))
        sdma_twin_here->yield(sdma_twin_here->context);
}

class Twins : public testing::TestWithParam<uint64_t> {
protected:
    void SetUp() override { sdma_simnode_reseed(GetParam()); }
    void TearDown() override { sdma_simnode_reseed(0); }
    Chaos chaos{1};
    Arguments arguments;
    Arguments *kernarg = &arguments;
};

TEST_P(Twins, EveryLaneOnce) {
    EXPECT_TRUE(run_twin(0, note_lane, &kernarg, 64 * 100 + 5, 64, chaos, [] { return false; }));
    EXPECT_EQ(arguments.workgroups, 101u);
    ASSERT_EQ(arguments.lanes.size(), 6405u);
    uint32_t expected = 0;
    for (uint32_t lane : arguments.lanes)
        EXPECT_EQ(lane, expected++);
    EXPECT_EQ(std::is_sorted(arguments.order.begin(), arguments.order.end()), GetParam() == 0);
}

TEST_P(Twins, LanesWaitForEachOther) {
    EXPECT_TRUE(run_twin(0, meet, &kernarg, 64 * 8, 64, chaos, [] { return false; }));
    EXPECT_TRUE(arguments.met);
    EXPECT_EQ(std::set<uint32_t>(arguments.order.begin(), arguments.order.end()).size(), 512u);
}

TEST_P(Twins, WaitsForAnotherThread) {
    std::thread other([&] {
        usleep(5000);
        __atomic_store_n(&arguments.release, 1u, __ATOMIC_RELEASE);
    });
    EXPECT_TRUE(run_twin(0, wait_for_release, &kernarg, 64, 64, chaos, [] { return false; }));
    other.join();
}

TEST_P(Twins, CanBeStopped) {
    int turns = 0;
    EXPECT_FALSE(run_twin(0, wait_for_release, &kernarg, 64, 64, chaos, [&] { return ++turns > 10; }));
}

INSTANTIATE_TEST_SUITE_P(Seeds, Twins, testing::Values(0, 1, 2, 3));

TEST(Twin, Table) {
    EXPECT_NE(find_twin("sdma_issue_kernel"), nullptr);
    EXPECT_NE(find_twin("sdma_copy_kernel"), nullptr);
    EXPECT_EQ(find_twin("no_such_kernel"), nullptr);
}

// Metadata -----------------------------------------------------------------------------------

std::string text(const std::string &value) { return static_cast<char>(0xa0 | value.size()) + value; }

TEST(Metadata, Arguments) {
    std::string argument1 = "\x84" + text(".name") + text("src") + text(".offset") + '\0' + text(".size") + "\x08" +
                            text(".value_kind") + text("global_buffer");
    std::string argument2 =
        "\x83" + text(".offset") + "\xcd\x01\x02" + text(".size") + "\x04" + text(".value_kind") + text("by_value");
    std::string hidden =
        "\x83" + text(".offset") + "\x10" + text(".size") + "\x08" + text(".value_kind") + text("hidden_none");
    std::string kernel =
        "\x82" + text(".symbol") + text("k.kd") + text(".args") + "\x93" + argument1 + argument2 + hidden;
    std::string other = "\x81" + text(".symbol") + text("other.kd");
    std::string all =
        "\x82" + text("amdhsa.version") + "\x92\x01\xc0" + text("amdhsa.kernels") + "\x92" + other + kernel;
    auto data = reinterpret_cast<const uint8_t *>(all.data());
    std::vector<Argument> arguments;
    ASSERT_TRUE(parse_arguments(data, all.size(), "k.kd", arguments));
    ASSERT_EQ(arguments.size(), 2u);
    EXPECT_EQ(arguments[0].name, "src");
    EXPECT_EQ(arguments[0].offset, 0u);
    EXPECT_EQ(arguments[1].offset, 0x102u);
    EXPECT_EQ(arguments[1].bytes, 4u);
    EXPECT_FALSE(parse_arguments(data, all.size(), "none.kd", arguments));
    for (size_t cut = 0; cut < all.size(); cut++) // a truncated note never reads past its end
        EXPECT_FALSE(parse_arguments(std::vector<uint8_t>(data, data + cut).data(), cut, "k.kd", arguments));
}

TEST(Metadata, NoCodeObject) {
    stub::Gpu_memory memory(1 << 16);
    Kernel kernel;
    EXPECT_NE(find_kernel(0, memory.address(8192), kernel), "");
    EXPECT_NE(find_kernel(0, 0x1234, kernel), "");
}

} // namespace
