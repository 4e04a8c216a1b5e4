# SPDX-License-Identifier: BSD-3-Clause
# MPI programs that runtests.sh starts by the rows of tests.list. They know nothing of the component but the names
# of its counters and parameters.

EXTRA_DIST += test/mpi/tests.list test/mpi/windows.list

MPI_TEST_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS) -DOMPI_SKIP_MPICXX
MPI_TEST_LDADD = $(MPI_LIBS)
mpi_test_headers = test/mpi/harness.hpp test/mpi/mpit.hpp
mpi_device_headers = $(mpi_test_headers) test/mpi/buffers.hpp test/mpi/exchange.hpp test/mpi/ledger.hpp

# Without any GPU library in the process.
check_PROGRAMS += test/mpi/defaults test/mpi/hostonly test/mpi/others
test_mpi_defaults_SOURCES = test/mpi/defaults.cpp test/mpi/mpit.hpp
test_mpi_defaults_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
test_mpi_defaults_LDADD = $(MPI_TEST_LDADD)
test_mpi_hostonly_SOURCES = test/mpi/hostonly.cpp $(mpi_test_headers)
test_mpi_hostonly_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
test_mpi_hostonly_LDADD = $(MPI_TEST_LDADD)
test_mpi_others_SOURCES = test/mpi/others.cpp $(mpi_test_headers)
test_mpi_others_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
test_mpi_others_LDADD = $(MPI_TEST_LDADD)

if HIP
MPI_DEVICE_CPPFLAGS = $(MPI_TEST_CPPFLAGS) $(ROCM_CPPFLAGS) -D__HIP_PLATFORM_AMD__
MPI_DEVICE_LDADD = $(MPI_TEST_LDADD) $(ROCM_LDFLAGS) -lamdhip64 -ldl -lpthread
check_PROGRAMS += test/mpi/ahead test/mpi/chaos test/mpi/collectives test/mpi/crossed test/mpi/enable \
	test/mpi/faults test/mpi/lifetime test/mpi/onesided test/mpi/realloc test/mpi/rma test/mpi/windows
test_mpi_ahead_SOURCES = test/mpi/ahead.cpp $(mpi_device_headers)
test_mpi_ahead_CPPFLAGS = $(MPI_DEVICE_CPPFLAGS)
test_mpi_ahead_LDADD = $(MPI_DEVICE_LDADD)
test_mpi_chaos_SOURCES = test/mpi/chaos.cpp $(mpi_device_headers)
test_mpi_chaos_CPPFLAGS = $(MPI_DEVICE_CPPFLAGS)
test_mpi_chaos_LDADD = $(MPI_DEVICE_LDADD)
test_mpi_collectives_SOURCES = test/mpi/collectives.cpp $(mpi_device_headers)
test_mpi_collectives_CPPFLAGS = $(MPI_DEVICE_CPPFLAGS)
test_mpi_collectives_LDADD = $(MPI_DEVICE_LDADD)
test_mpi_crossed_SOURCES = test/mpi/crossed.cpp $(mpi_device_headers)
test_mpi_crossed_CPPFLAGS = $(MPI_DEVICE_CPPFLAGS)
test_mpi_crossed_LDADD = $(MPI_DEVICE_LDADD)
test_mpi_enable_SOURCES = test/mpi/enable.cpp $(mpi_device_headers)
test_mpi_enable_CPPFLAGS = $(MPI_DEVICE_CPPFLAGS)
test_mpi_enable_LDADD = $(MPI_DEVICE_LDADD)
test_mpi_faults_SOURCES = test/mpi/faults.cpp $(mpi_device_headers)
test_mpi_faults_CPPFLAGS = $(MPI_DEVICE_CPPFLAGS)
test_mpi_faults_LDADD = $(MPI_DEVICE_LDADD)
test_mpi_lifetime_SOURCES = test/mpi/lifetime.cpp test/depth/process.hpp $(mpi_device_headers)
test_mpi_lifetime_CPPFLAGS = $(MPI_DEVICE_CPPFLAGS)
test_mpi_lifetime_LDADD = $(MPI_DEVICE_LDADD)
test_mpi_onesided_SOURCES = test/mpi/onesided.cpp $(mpi_device_headers)
test_mpi_onesided_CPPFLAGS = $(MPI_DEVICE_CPPFLAGS)
test_mpi_onesided_LDADD = $(MPI_DEVICE_LDADD) libmpisdma.la
test_mpi_realloc_SOURCES = test/mpi/realloc.cpp $(mpi_device_headers)
test_mpi_realloc_CPPFLAGS = $(MPI_DEVICE_CPPFLAGS)
test_mpi_realloc_LDADD = $(MPI_DEVICE_LDADD)
test_mpi_rma_SOURCES = test/mpi/rma.cpp test/mpi/rma_model.hpp test/mpi/rma_types.hpp test/mpi/rma_window.hpp \
	$(mpi_device_headers)
test_mpi_rma_CPPFLAGS = $(MPI_DEVICE_CPPFLAGS)
test_mpi_rma_LDADD = $(MPI_DEVICE_LDADD)
test_mpi_windows_SOURCES = test/mpi/windows.cpp $(mpi_device_headers)
test_mpi_windows_CPPFLAGS = $(MPI_DEVICE_CPPFLAGS)
test_mpi_windows_LDADD = $(MPI_DEVICE_LDADD)
endif

# A libmpisdma whose flush does not wait, to be preloaded: windows must notice.
check_LTLIBRARIES += libearlyflush.la
libearlyflush_la_SOURCES = common/sdma/line/batch.cpp
libearlyflush_la_CPPFLAGS = $(libmpisdma_la_CPPFLAGS) -DSDMA_TEST_BUILD -DSDMA_MUTANT_EARLY_FLUSH
libearlyflush_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath $(abs_builddir) -Wl,-z,muldefs
libearlyflush_la_LIBADD = libsdmatest.la

# A stand-in for libmpisdma, to run and to measure the component alone: LD_PRELOAD it.
dist_check_SCRIPTS += test/mpi/glue.sh
TESTS += test/mpi/glue.sh
check_LTLIBRARIES += libstandin.la
libstandin_la_SOURCES = test/support/standin_sdma.c common/sdma/sdma.h
libstandin_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
libstandin_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath $(abs_builddir)
libstandin_la_LIBADD =

# The rpath makes libtool build a shared object.
check_LTLIBRARIES += test/mpi/libnoflush.la
test_mpi_libnoflush_la_SOURCES = test/mpi/noflush.c
test_mpi_libnoflush_la_CPPFLAGS = $(MPI_TEST_CPPFLAGS)
test_mpi_libnoflush_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere

check_LTLIBRARIES += test/mpi/librefuse.la
test_mpi_librefuse_la_SOURCES = test/mpi/refuse.c
test_mpi_librefuse_la_CPPFLAGS = $(AM_CPPFLAGS) $(OMPI_CPPFLAGS)
test_mpi_librefuse_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
