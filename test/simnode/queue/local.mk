# SPDX-License-Identifier: BSD-3-Clause
# The queue side of the simulated node's libhsakmt.so.1, with the host twins of the kernels.

simnode_queue_sources = \
    test/simnode/queue/amd_kernels.cpp \
    test/simnode/queue/amd_kernels.hpp \
    test/simnode/queue/aql_worker.cpp \
    test/simnode/queue/code_object.cpp \
    test/simnode/queue/code_object.hpp \
    test/simnode/queue/executor.cpp \
    test/simnode/queue/executor.hpp \
    test/simnode/queue/idle.cpp \
    test/simnode/queue/idle.hpp \
    test/simnode/queue/metadata.cpp \
    test/simnode/queue/packet.cpp \
    test/simnode/queue/packet.hpp \
    test/simnode/queue/report.cpp \
    test/simnode/queue/report.hpp \
    test/simnode/queue/sdma_worker.cpp \
    test/simnode/queue/simnode_api.h \
    test/simnode/queue/twin_runner.cpp \
    test/simnode/queue/twin_runner.hpp \
    kernels/twin.cpp
simnode_libhsakmt_la_SOURCES += $(simnode_queue_sources)

if GTEST
check_PROGRAMS += test/simnode/queue/tests/queue_test
TESTS += test/simnode/queue/tests/queue_test
test_simnode_queue_tests_queue_test_SOURCES = $(simnode_queue_sources) \
    test/simnode/queue/tests/aql_test.cpp \
    test/simnode/queue/tests/executor_test.cpp \
    test/simnode/queue/tests/packet_test.cpp \
    test/simnode/queue/tests/sdma_worker_test.cpp \
    test/simnode/queue/tests/stub.cpp \
    test/simnode/queue/tests/stub.hpp
test_simnode_queue_tests_queue_test_CPPFLAGS = $(AM_CPPFLAGS) $(HSAKMT_CPPFLAGS)
# Programs may export twins of their own kernels.
test_simnode_queue_tests_queue_test_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_simnode_queue_tests_queue_test_LDADD = $(GTEST_LIBS) -ldl -lpthread
endif
