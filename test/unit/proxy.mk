# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/unit/proxy_test
TESTS += test/unit/proxy_test
test_unit_proxy_test_SOURCES = test/unit/proxy_decode_test.cpp test/unit/proxy_line_test.cpp test/unit/proxy_test.cpp \
    test/support/late_runtime.hpp
test_unit_proxy_test_LDADD = libsdmatest.la $(GTEST_LIBS)
