# SPDX-License-Identifier: BSD-3-Clause
# The resident kernel and who hands records to it.
check_PROGRAMS += test/unit/resident_test
TESTS += test/unit/resident_test
test_unit_resident_test_SOURCES = test/unit/resident_test.cpp test/unit/lanes.hpp kernels/twin.cpp $(fake_node)
test_unit_resident_test_LDADD = libsdmatest.la $(GTEST_LIBS)

# Every interleaving of the handshake; with a deliberate mistake it must find one.
handshakes = test/unit/resident_explore test/unit/resident_no_closing_drain test/unit/resident_blind_end \
    test/unit/resident_no_post_drain
check_PROGRAMS += $(handshakes)
TESTS += $(handshakes)
test_unit_resident_explore_SOURCES = test/unit/resident_explore.cpp
test_unit_resident_explore_LDADD =
test_unit_resident_no_closing_drain_SOURCES = test/unit/resident_explore.cpp
test_unit_resident_no_closing_drain_CPPFLAGS = $(AM_CPPFLAGS) -DSDMA_TEST_BUILD -DSDMA_MUTANT_NO_CLOSING_DRAIN
test_unit_resident_no_closing_drain_LDADD =
test_unit_resident_blind_end_SOURCES = test/unit/resident_explore.cpp
test_unit_resident_blind_end_CPPFLAGS = $(AM_CPPFLAGS) -DSDMA_TEST_BUILD -DSDMA_MUTANT_BLIND_END
test_unit_resident_blind_end_LDADD =
test_unit_resident_no_post_drain_SOURCES = test/unit/resident_explore.cpp
test_unit_resident_no_post_drain_CPPFLAGS = $(AM_CPPFLAGS) -DSDMA_TEST_BUILD -DSDMA_MUTANT_NO_POST_DRAIN
test_unit_resident_no_post_drain_LDADD =
