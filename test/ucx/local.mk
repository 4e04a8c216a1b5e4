# SPDX-License-Identifier: BSD-3-Clause
# Programs that test the UCX transport; test/run/36-ucx-transport.sh runs them.

EXTRA_DIST += test/ucx/perftest

if HIP
UCX_TEST_CPPFLAGS = $(AM_CPPFLAGS) $(UCX_CPPFLAGS) $(ROCM_CPPFLAGS) -D__HIP_PLATFORM_AMD__ -D_GNU_SOURCE

check_PROGRAMS += test/ucx/mpi_put
test_ucx_mpi_put_SOURCES = test/ucx/mpi_put.cpp
test_ucx_mpi_put_CPPFLAGS = $(UCX_TEST_CPPFLAGS) $(MPI_CFLAGS) -DOMPI_SKIP_MPICXX
test_ucx_mpi_put_LDADD = $(MPI_LIBS) $(ROCM_LDFLAGS) -lamdhip64 -ldl

# Linked with the transport, as LD_PRELOAD would.
check_PROGRAMS += test/ucx/uct
test_ucx_uct_SOURCES = test/ucx/uct.cpp test/ucx/uct_pair.hpp test/ucx/uct.hpp
test_ucx_uct_CPPFLAGS = $(UCX_TEST_CPPFLAGS)
test_ucx_uct_LDFLAGS = $(AM_LDFLAGS) -Wl,--no-as-needed
test_ucx_uct_LDADD = libuct_sdma.la $(UCX_LIBS) $(ROCM_LDFLAGS) -lamdhip64

check_PROGRAMS += test/ucx/ucp
test_ucx_ucp_SOURCES = test/ucx/ucp.cpp test/ucx/uct.hpp
test_ucx_ucp_CPPFLAGS = $(UCX_TEST_CPPFLAGS)
test_ucx_ucp_LDFLAGS = $(AM_LDFLAGS) -Wl,--no-as-needed
test_ucx_ucp_LDADD = libuct_sdma.la libmpisdma.la $(UCX_LIBS) -lucp $(ROCM_LDFLAGS) -lamdhip64

check_PROGRAMS += test/ucx/layout
test_ucx_layout_SOURCES = test/ucx/layout.c
test_ucx_layout_CPPFLAGS = $(UCX_TEST_CPPFLAGS)
test_ucx_layout_LDADD = $(UCX_LIBS)

check_LTLIBRARIES += libother_release.la
libother_release_la_SOURCES = test/ucx/other_release.c
libother_release_la_CPPFLAGS = $(UCX_TEST_CPPFLAGS)
libother_release_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath $(abs_builddir)
libother_release_la_LIBADD =

# To be preloaded into ucx_perftest.
check_LTLIBRARIES += libperftest_rocm.la
libperftest_rocm_la_SOURCES = test/ucx/perftest_rocm.c
libperftest_rocm_la_CPPFLAGS = $(UCX_TEST_CPPFLAGS)
libperftest_rocm_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath $(abs_builddir)
libperftest_rocm_la_LIBADD = $(ROCM_LDFLAGS) -lamdhip64 -ldl
endif
