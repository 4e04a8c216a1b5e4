# SPDX-License-Identifier: BSD-3-Clause
# Engine choice; on the simulated node: the ROCr runtime and user-mode queues.
check_PROGRAMS += test/unit/engine_test
TESTS += test/unit/engine_test
test_unit_engine_test_SOURCES = test/unit/engine_topology_test.cpp
test_unit_engine_test_CPPFLAGS = $(AM_CPPFLAGS) $(HSAKMT_CPPFLAGS)
test_unit_engine_test_LDADD = libsdmatest.la $(GTEST_LIBS)

if SIMNODE
# The thunk's header comes with what the simulated node needs.
test_unit_engine_test_SOURCES += test/unit/engine_thunk_test.cpp

check_PROGRAMS += test/unit/rocr_test
test_unit_rocr_test_SOURCES = test/unit/rocr_application.hpp test/unit/rocr_runtime_test.cpp \
    test/unit/user_queue_test.cpp
test_unit_rocr_test_CPPFLAGS = $(AM_CPPFLAGS) $(ROCM_CPPFLAGS)
test_unit_rocr_test_LDADD = libsdmatest.la $(ROCM_LDFLAGS) -lhsa-runtime64 $(GTEST_LIBS)
dist_check_SCRIPTS += test/unit/rocr_test.sh
TESTS += test/unit/rocr_test.sh
endif
