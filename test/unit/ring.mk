# SPDX-License-Identifier: BSD-3-Clause
# Packets, plans, ring, kernels as twins.
check_PROGRAMS += test/unit/packet_test test/unit/plan_test test/unit/issue_test test/unit/copy_test \
    test/unit/bundle_test
TESTS += test/unit/packet_test test/unit/plan_test test/unit/issue_test test/unit/copy_test test/unit/bundle_test

test_unit_packet_test_SOURCES = test/unit/packet_test.cpp
test_unit_packet_test_LDADD = $(GTEST_LIBS)

test_unit_plan_test_SOURCES = test/unit/plan_test.cpp
test_unit_plan_test_LDADD = libsdmatest.la $(GTEST_LIBS)

test_unit_issue_test_SOURCES = test/unit/issue_test.cpp test/unit/lanes.hpp test/unit/test_engine.hpp kernels/twin.cpp
test_unit_issue_test_LDADD = libsdmatest.la $(GTEST_LIBS)

test_unit_copy_test_SOURCES = test/unit/copy_test.cpp test/unit/lanes.hpp kernels/twin.cpp
test_unit_copy_test_LDADD = libsdmatest.la $(GTEST_LIBS)

test_unit_bundle_test_SOURCES = test/unit/bundle_test.cpp
test_unit_bundle_test_LDADD = libsdmatest.la $(GTEST_LIBS)
