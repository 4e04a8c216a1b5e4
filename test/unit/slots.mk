# SPDX-License-Identifier: BSD-3-Clause
# Reuse of slots and what arrival words count; the second and third with a deliberate mistake in the
# product, which the test must find.
slots_tests = test/unit/slots_test test/unit/slots_early_reuse test/unit/slots_summed_arrival
check_PROGRAMS += $(slots_tests)
TESTS += $(slots_tests)

test_unit_slots_test_SOURCES = test/unit/slots_test.cpp $(fake_node)
test_unit_slots_test_LDADD = libsdmatest.la $(GTEST_LIBS)

slots_mutant_sources = test/unit/slots_test.cpp $(fake_node) common/sdma/team/agreement.cpp common/sdma/team/setup.cpp \
    common/sdma/op/op.cpp common/sdma/op/transfer.cpp common/sdma/op/watch.cpp

test_unit_slots_early_reuse_SOURCES = $(slots_mutant_sources)
test_unit_slots_early_reuse_CPPFLAGS = $(AM_CPPFLAGS) -DSDMA_MUTANT_EARLY_REUSE
test_unit_slots_early_reuse_LDADD = libsdmatest.la $(GTEST_LIBS)

test_unit_slots_summed_arrival_SOURCES = $(slots_mutant_sources)
test_unit_slots_summed_arrival_CPPFLAGS = $(AM_CPPFLAGS) -DSDMA_MUTANT_SUMMED_ARRIVAL
test_unit_slots_summed_arrival_LDADD = libsdmatest.la $(GTEST_LIBS)
