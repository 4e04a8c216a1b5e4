# SPDX-License-Identifier: BSD-3-Clause
# The C interface without a GPU runtime.
check_PROGRAMS += test/unit/interface_test
TESTS += test/unit/interface_test
test_unit_interface_test_SOURCES = test/unit/interface_test.cpp $(fake_node)
test_unit_interface_test_LDADD = libsdmatest.la $(GTEST_LIBS)
