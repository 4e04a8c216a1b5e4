// SPDX-License-Identifier: BSD-3-Clause
//
// The tests of flush against a layer whose flush does not wait: they must notice.
#include <cstdio>

#include <gtest/gtest.h>

int main(int argc, char **argv) {
    testing::InitGoogleTest(&argc, argv);
    testing::GTEST_FLAG(filter) = "Flush.waits_for_the_signal_behind_the_data:Fence.*";
    const bool noticed = RUN_ALL_TESTS() != 0;
    std::printf("the mistake was %s\n", noticed ? "noticed, as it must be" : "NOT noticed");
    return noticed ? 0 : 1;
}
