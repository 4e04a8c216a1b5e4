# SPDX-License-Identifier: BSD-3-Clause
# Teams, operations and memory with ranks as threads on a fake node. Linked with engines of their own.
fake_node = test/support/fake_node.cpp test/support/fake_node.hpp test/support/fake_engines.cpp test/support/ranks.hpp

operation_tests = test/unit/base_test test/unit/collectives_test test/unit/agreement_test test/unit/memory_test \
    test/unit/fault_test test/unit/hostile_test test/unit/exhaustion_test
check_PROGRAMS += $(operation_tests)
TESTS += $(operation_tests)

test_unit_collectives_test_SOURCES = test/unit/collectives_test.cpp $(fake_node)
test_unit_collectives_test_LDADD = libsdmatest.la $(GTEST_LIBS)

test_unit_agreement_test_SOURCES = test/unit/agreement_test.cpp $(fake_node)
test_unit_agreement_test_LDADD = libsdmatest.la $(GTEST_LIBS)

test_unit_memory_test_SOURCES = test/unit/memory_test.cpp $(fake_node)
test_unit_memory_test_LDADD = libsdmatest.la $(GTEST_LIBS)

test_unit_fault_test_SOURCES = test/unit/fault_test.cpp test/support/played_peer.hpp $(fake_node)
test_unit_fault_test_LDADD = libsdmatest.la $(GTEST_LIBS)

test_unit_exhaustion_test_SOURCES = test/unit/exhaustion_test.cpp $(fake_node)
test_unit_exhaustion_test_LDADD = libsdmatest.la $(GTEST_LIBS)

test_unit_hostile_test_SOURCES = test/unit/hostile_test.cpp test/support/played_peer.hpp $(fake_node)
test_unit_hostile_test_LDADD = libsdmatest.la $(GTEST_LIBS)

test_unit_base_test_SOURCES = test/unit/base_test.cpp
test_unit_base_test_LDADD = libsdmatest.la $(GTEST_LIBS)

check_PROGRAMS += test/unit/board_test
TESTS += test/unit/board_test
test_unit_board_test_SOURCES = test/unit/board_test.cpp
test_unit_board_test_LDADD = libsdmatest.la $(GTEST_LIBS)

# One-sided operations. With a flush that does not wait the tests must fail.
line_support = $(fake_node) test/support/lines.hpp
line_tests = test/unit/onesided_test test/unit/line_memory_test test/unit/line_fault_test test/unit/line_early_flush
check_PROGRAMS += $(line_tests)
TESTS += $(line_tests)

test_unit_onesided_test_SOURCES = test/unit/onesided_test.cpp $(line_support)
test_unit_onesided_test_LDADD = libsdmatest.la $(GTEST_LIBS)

test_unit_line_memory_test_SOURCES = test/unit/line_memory_test.cpp $(line_support)
test_unit_line_memory_test_LDADD = libsdmatest.la $(GTEST_LIBS)

test_unit_line_fault_test_SOURCES = test/unit/line_fault_test.cpp test/support/played_peer.hpp $(line_support)
test_unit_line_fault_test_LDADD = libsdmatest.la $(GTEST_LIBS)

test_unit_line_early_flush_SOURCES = test/unit/line_early_flush.cpp test/unit/onesided_test.cpp common/sdma/line/batch.cpp \
    $(line_support)
test_unit_line_early_flush_CPPFLAGS = $(AM_CPPFLAGS) -DSDMA_TEST_BUILD -DSDMA_MUTANT_EARLY_FLUSH
test_unit_line_early_flush_LDADD = libsdmatest.la $(GTEST_LIBS)
