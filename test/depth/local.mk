# SPDX-License-Identifier: BSD-3-Clause
# What operations hold and give back, in which environments, with how many threads. runtests.sh starts the programs
# by the rows of tests.list; test/run/ has the scripts around them.

EXTRA_DIST += test/depth/tests.list

if HIP
check_PROGRAMS += test/depth/budget test/depth/ends test/depth/gpus test/depth/kinds test/depth/resources test/depth/threads
test_depth_budget_SOURCES = test/depth/budget.cpp test/depth/process.hpp $(mpi_device_headers)
test_depth_budget_CPPFLAGS = $(MPI_DEVICE_CPPFLAGS)
test_depth_budget_LDADD = $(MPI_DEVICE_LDADD)
# Without any GPU library in the process at first.
test_depth_ends_SOURCES = test/depth/ends.cpp $(mpi_test_headers)
test_depth_ends_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
test_depth_ends_LDADD = $(MPI_TEST_LDADD) -ldl
test_depth_gpus_SOURCES = test/depth/gpus.cpp $(mpi_device_headers)
test_depth_gpus_CPPFLAGS = $(MPI_DEVICE_CPPFLAGS)
test_depth_gpus_LDADD = $(MPI_DEVICE_LDADD)
test_depth_kinds_SOURCES = test/depth/kinds.cpp $(mpi_device_headers)
test_depth_kinds_CPPFLAGS = $(MPI_DEVICE_CPPFLAGS)
test_depth_kinds_LDADD = $(MPI_DEVICE_LDADD)
test_depth_resources_SOURCES = test/depth/resources.cpp test/depth/process.hpp $(mpi_device_headers)
test_depth_resources_CPPFLAGS = $(MPI_DEVICE_CPPFLAGS)
test_depth_resources_LDADD = $(MPI_DEVICE_LDADD)
test_depth_threads_SOURCES = test/depth/threads.cpp $(mpi_device_headers)
test_depth_threads_CPPFLAGS = $(MPI_DEVICE_CPPFLAGS)
test_depth_threads_LDADD = $(MPI_DEVICE_LDADD)
endif
