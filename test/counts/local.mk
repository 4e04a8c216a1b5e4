# SPDX-License-Identifier: BSD-3-Clause
# What our own code costs, in counts. test/counts/run starts these under callgrind.
check_PROGRAMS += test/counts/counts test/counts/glue
EXTRA_DIST += test/counts/run test/counts/callgrind.py test/counts/puts.py

test_counts_counts_SOURCES = test/counts/counts.cpp test/counts/lines.hpp test/counts/still.cpp test/counts/still.hpp \
    test/support/fake_node.cpp test/support/fake_node.hpp
test_counts_counts_LDADD = libsdmatest.la

test_counts_glue_SOURCES = test/counts/glue.c
test_counts_glue_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
test_counts_glue_LDADD = $(MPI_TEST_LDADD)

if HIP
check_PROGRAMS += test/counts/puts
test_counts_puts_SOURCES = test/counts/puts.cpp test/simnode/queue/simnode_api.h $(mpi_device_headers)
test_counts_puts_CPPFLAGS = $(MPI_DEVICE_CPPFLAGS)
test_counts_puts_LDADD = $(MPI_DEVICE_LDADD)
endif
