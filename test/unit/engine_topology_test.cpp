// SPDX-License-Identifier: BSD-3-Clause
//
// Engine choice on sysfs trees as the kernel driver writes them. No GPU, no simulated node.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include "common/sdma/engine/topology.hpp"

namespace sdma::engine {

namespace fs = std::filesystem;

// A topology folder that is gone at the end of the test.
class Sysfs_tree : public testing::Test {
protected:
    Sysfs_tree() {
        char name[] = "/tmp/sdma_topology_XXXXXX";
        root_ = mkdtemp(name);
    }
    ~Sysfs_tree() override { fs::remove_all(root_); }

    void cpu(unsigned node) { write(folder(node), "cpu_cores_count 64\nsimd_count 0\nlocation_id 0\ndomain 0\n"); }
    void gpu(unsigned node, unsigned domain, unsigned location, unsigned ordinary, unsigned xgmi) {
        write(folder(node), "cpu_cores_count 0\nsimd_count 1216\nlocation_id " + std::to_string(location) +
                                "\ndomain " + std::to_string(domain) + "\nnum_sdma_engines " +
                                std::to_string(ordinary) + "\nnum_sdma_xgmi_engines " + std::to_string(xgmi) +
                                "\nnum_sdma_queues_per_engine 8\nunique_id 18446744073709551615\n");
    }
    // `mask` < 0: a driver that does not write it
    void link(unsigned from, unsigned to, unsigned type, int mask, const char *kind = "io_links") {
        std::string text = "type " + std::to_string(type) + "\nnode_from " + std::to_string(from) + "\nnode_to " +
                           std::to_string(to) + "\nweight 15\n";
        if (mask >= 0)
            text += "recommended_sdma_engine_id_mask " + std::to_string(mask) + "\n";
        write(folder(from) / kind / std::to_string(links_++), text);
    }
    Topology read() const { return Topology::read(root_); }

private:
    fs::path folder(unsigned node) const {
        return fs::path(root_) / "class/kfd/kfd/topology/nodes" / std::to_string(node);
    }
    static void write(const fs::path &folder, const std::string &text) {
        fs::create_directories(folder);
        std::ofstream(folder / "properties") << text;
    }
    std::string root_;
    unsigned links_ = 0;
};

constexpr unsigned xgmi = 11, pcie = 2;

gpu::Pci_address at_bus(unsigned bus) { return {0, static_cast<uint8_t>(bus), 0, 0}; }

TEST(Choose_engine, TakesTheOnlyRecommendedOne) {
    EXPECT_EQ(choose_engine({2, 14}, {1u << 10, true}, 0), 10u);
    EXPECT_EQ(choose_engine({2, 14}, {1u << 10, true}, 5), 10u);
}

TEST(Choose_engine, SpreadsPeersOverSeveralRecommendedOnes) {
    const Link any{0xfffc, true}; // all xGMI engines of a GPU with 2 + 14
    std::set<uint32_t> used;
    for (uint32_t peer = 0; peer < 7; peer++)
        used.insert(choose_engine({2, 14}, any, peer));
    EXPECT_EQ(used.size(), 7u);
    EXPECT_EQ(*used.begin(), 2u);
    EXPECT_EQ(choose_engine({2, 14}, any, 14), choose_engine({2, 14}, any, 0));
}

TEST(Choose_engine, IgnoresRecommendedEnginesThatDoNotExist) {
    EXPECT_EQ(choose_engine({2, 0}, {0xfffc, true}, 0), 0u); // a CPX partition
    EXPECT_EQ(choose_engine({2, 3}, {1u << 9 | 1u << 3, true}, 0), 3u);
}

TEST(Choose_engine, SpreadsPeersOfAnUnknownMask) {
    EXPECT_EQ(choose_engine({2, 3}, {0, true}, 0), 2u); // MI250X: every xGMI engine
    EXPECT_EQ(choose_engine({2, 3}, {0, true}, 1), 3u);
    EXPECT_EQ(choose_engine({2, 3}, {0, true}, 3), 2u);
    std::set<uint32_t> used;
    for (uint32_t peer = 0; peer < 7; peer++) { // MI300X: one engine per die, even numbers
        const uint32_t engine = choose_engine({2, 14}, {0, true}, peer);
        EXPECT_EQ(engine % 2, 0u);
        EXPECT_GE(engine, 2u);
        used.insert(engine);
    }
    EXPECT_EQ(used.size(), 7u);
    for (uint32_t peer = 0; peer < 7; peer++) // MI308X: of six only these are real
        EXPECT_TRUE(std::set<uint32_t>({2, 4, 6}).contains(choose_engine({2, 6}, {0, true}, peer)));
}

TEST(Choose_engine, UsesOrdinaryEnginesOverPcieAndInPartitions) {
    EXPECT_EQ(choose_engine({2, 14}, {0, false}, 0), 0u);
    EXPECT_EQ(choose_engine({2, 14}, {0, false}, 1), 1u);
    EXPECT_EQ(choose_engine({2, 0}, {0, true}, 3), 1u);
    EXPECT_EQ(choose_engine({1, 0}, {0, true}, 3), 0u);
    EXPECT_EQ(choose_engine({0, 0}, {0, true}, 3), 0u);
}

TEST_F(Sysfs_tree, EmptyWithoutTheDriver) {
    EXPECT_TRUE(read().gpus().empty());
    EXPECT_EQ(read().engine(at_bus(1), at_bus(2)), 0u);
}

// The driver's own table for eight MI300X (engine number, source physical id x destination).
TEST_F(Sysfs_tree, FollowsTheTableOfEightMi300x) {
    constexpr int table[8][8] = {{-1, 14, 12, 2, 4, 8, 10, 6}, {14, -1, 2, 10, 8, 4, 6, 12},
                                 {10, 2, -1, 12, 14, 6, 4, 8}, {2, 12, 10, -1, 6, 14, 8, 4},
                                 {4, 8, 14, 6, -1, 10, 12, 2}, {8, 4, 6, 14, 12, -1, 2, 10},
                                 {10, 6, 4, 8, 12, 2, -1, 14}, {6, 12, 8, 4, 2, 10, 14, -1}};
    cpu(0);
    cpu(1);
    // Node numbers run against the PCI addresses: only the latter may count.
    const auto node = [](unsigned gpu) { return 9 - gpu; };
    const auto bus = [](unsigned gpu) { return 0x11 * (gpu + 1); };
    for (unsigned from = 0; from < 8; from++) {
        gpu(node(from), 0, bus(from) << 8, 2, 14);
        link(node(from), 0, pcie, 0x3);
        for (unsigned to = 0; to < 8; to++)
            if (to != from)
                link(node(from), node(to), xgmi, 1 << table[from][to]);
    }
    const Topology topology = read();
    ASSERT_EQ(topology.gpus().size(), 8u);
    for (unsigned from = 0; from < 8; from++)
        for (unsigned to = 0; to < 8; to++)
            EXPECT_EQ(topology.engine(at_bus(bus(from)), at_bus(bus(to))),
                      from == to ? 0u : static_cast<uint32_t>(table[from][to]))
                << from << " -> " << to;
    EXPECT_EQ(topology.find(at_bus(bus(3)))->node, node(3));
    EXPECT_EQ(topology.find(at_bus(0)), nullptr);
}

TEST_F(Sysfs_tree, SpreadsPeersWithoutRecommendation) {
    for (unsigned from = 0; from < 8; from++) {
        gpu(from + 1, 0, (0x10 + from) << 8, 2, 14);
        for (unsigned to = 0; to < 8; to++)
            if (to != from)
                link(from + 1, to + 1, xgmi, -1);
    }
    const Topology topology = read();
    for (unsigned from = 0; from < 8; from++) {
        std::set<uint32_t> used;
        for (unsigned to = 0; to < 8; to++)
            if (to != from)
                used.insert(topology.engine(at_bus(0x10 + from), at_bus(0x10 + to)));
        EXPECT_EQ(used.size(), 7u) << "source " << from;
    }
}

TEST_F(Sysfs_tree, TellsPartitionsOfOneGpuApart) {
    for (unsigned partition = 0; partition < 4; partition++) {
        gpu(partition + 1, 1, partition << 28 | 0xc1 << 8, 2, 0);
        for (unsigned to = 0; to < 4; to++)
            if (to != partition)
                link(partition + 1, to + 1, xgmi, -1);
    }
    const Topology topology = read();
    ASSERT_EQ(topology.gpus().size(), 4u);
    for (unsigned partition = 0; partition < 4; partition++) {
        const Gpu_node *node = topology.find({1, 0xc1, 0, static_cast<uint8_t>(partition)});
        ASSERT_NE(node, nullptr);
        EXPECT_EQ(node->node, partition + 1);
        EXPECT_LT(topology.engine(node->pci, {1, 0xc1, 0, static_cast<uint8_t>((partition + 1) % 4)}), 2u);
    }
}

TEST_F(Sysfs_tree, ReadsPeerLinksOverPcie) {
    gpu(1, 0, 0x100, 2, 3);
    gpu(2, 0, 0x200, 2, 3);
    link(1, 2, pcie, -1, "p2p_links");
    EXPECT_LT(read().engine(at_bus(1), at_bus(2)), 2u);
    link(2, 1, xgmi, -1, "p2p_links");
    EXPECT_GE(read().engine(at_bus(2), at_bus(1)), 2u);
}

TEST_F(Sysfs_tree, UnknownPeerGetsTheFirstEngine) {
    gpu(1, 0, 0x100, 2, 14);
    EXPECT_EQ(read().engine(at_bus(1), at_bus(9)), 0u);
}

TEST(Pci_address, OfALocation) {
    EXPECT_EQ(gpu::to_string(gpu::pci_of_location(0, 0xc100)), "0000:c1:00.0");
    EXPECT_EQ(gpu::to_string(gpu::pci_of_location(2, 0x0afb)), "0002:0a:1f.3");
    EXPECT_EQ(gpu::to_string(gpu::pci_of_location(0, 5u << 28 | 0xc100)), "0000:c1:00.5");
}

} // namespace sdma::engine
