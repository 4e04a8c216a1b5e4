# SPDX-License-Identifier: BSD-3-Clause
# Teams, operations and memory with ranks as threads on a fake node. Linked with engines of their own.
fake_node = test/support/fake_node.cpp test/support/fake_node.hpp test/support/fake_engines.cpp test/support/ranks.hpp

operation_tests = test/unit/collectives_test test/unit/agreement_test test/unit/memory_test
check_PROGRAMS += $(operation_tests)
TESTS += $(operation_tests)

test_unit_collectives_test_SOURCES = test/unit/collectives_test.cpp $(fake_node)
test_unit_collectives_test_LDADD = libsdmatest.la $(GTEST_LIBS)

test_unit_agreement_test_SOURCES = test/unit/agreement_test.cpp $(fake_node)
test_unit_agreement_test_LDADD = libsdmatest.la $(GTEST_LIBS)

test_unit_memory_test_SOURCES = test/unit/memory_test.cpp $(fake_node)
test_unit_memory_test_LDADD = libsdmatest.la $(GTEST_LIBS)
