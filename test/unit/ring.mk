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

# Plain programs that explore interleavings; with a deliberate mistake they must find one.
ring_explore_sources = test/unit/ring_explore.cpp test/unit/ring_model.hpp
issue_explore_sources = test/unit/issue_explore.cpp test/unit/ring_model.hpp
explorers = test/unit/ring_explore test/unit/ring_doorbell_first test/unit/ring_no_drain test/unit/ring_no_pad \
    test/unit/issue_explore test/unit/issue_signal_first test/unit/issue_two_reservations
check_PROGRAMS += $(explorers)
TESTS += $(explorers)

test_unit_ring_explore_SOURCES = $(ring_explore_sources)
test_unit_ring_explore_LDADD =
test_unit_ring_doorbell_first_SOURCES = $(ring_explore_sources)
test_unit_ring_doorbell_first_CPPFLAGS = $(AM_CPPFLAGS) -DSDMA_TEST_BUILD -DSDMA_MUTANT_DOORBELL_FIRST
test_unit_ring_doorbell_first_LDADD =
test_unit_ring_no_drain_SOURCES = $(ring_explore_sources)
test_unit_ring_no_drain_CPPFLAGS = $(AM_CPPFLAGS) -DSDMA_TEST_BUILD -DSDMA_MUTANT_NO_DRAIN
test_unit_ring_no_drain_LDADD =
test_unit_ring_no_pad_SOURCES = $(ring_explore_sources)
test_unit_ring_no_pad_CPPFLAGS = $(AM_CPPFLAGS) -DSDMA_TEST_BUILD -DSDMA_MUTANT_NO_PAD
test_unit_ring_no_pad_LDADD =

test_unit_issue_explore_SOURCES = $(issue_explore_sources)
test_unit_issue_explore_LDADD = libsdmatest.la
test_unit_issue_signal_first_SOURCES = $(issue_explore_sources)
test_unit_issue_signal_first_CPPFLAGS = $(AM_CPPFLAGS) -DSDMA_TEST_BUILD -DSDMA_MUTANT_SIGNAL_FIRST
test_unit_issue_signal_first_LDADD = libsdmatest.la
test_unit_issue_two_reservations_SOURCES = $(issue_explore_sources)
test_unit_issue_two_reservations_CPPFLAGS = $(AM_CPPFLAGS) -DSDMA_TEST_BUILD -DSDMA_MUTANT_TWO_RESERVATIONS
test_unit_issue_two_reservations_LDADD = libsdmatest.la

include test/stress/local.mk
