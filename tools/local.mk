# SPDX-License-Identifier: BSD-3-Clause
bin_PROGRAMS += sdma_bench sdma_info

# MPI programs like the user's: they do not link libmpisdma.
sdma_bench_SOURCES = tools/sdma_bench.cpp tools/bench.hpp tools/collective.cpp tools/device_memory.cpp \
    tools/device_memory.hpp tools/mpit.cpp tools/mpit.hpp tools/onesided.cpp tools/options.cpp tools/options.hpp \
    tools/pattern.cpp tools/pattern.hpp tools/verdict.cpp tools/verdict.hpp
# Open MPI 4 would otherwise pull its C++ bindings in.
sdma_bench_CPPFLAGS = $(AM_CPPFLAGS) -DOMPI_SKIP_MPICXX $(MPI_CFLAGS)
sdma_bench_LDADD = $(MPI_LIBS) -ldl

sdma_info_SOURCES = tools/sdma_info.cpp tools/device_memory.cpp tools/device_memory.hpp
sdma_info_LDADD = libmpisdma.la -ldl

dist_man_MANS += docs/sdma_bench.1 docs/sdma_info.1
if SIMNODE
dist_man_MANS += docs/sdma_simnode.1
endif

# In the folders of a checkout, so that the links among them work.
dist_doc_DATA = README.md CHANGELOG.md CONTRIBUTING.md LICENSE
docsdir = $(docdir)/docs
dist_docs_DATA = docs/architecture.md docs/field-bugs.md docs/hardware.md docs/troubleshooting.md docs/performance.md \
    docs/tuning.md docs/user-guide.md
imagesdir = $(docsdir)/images
dist_images_DATA = docs/images/h200-bus-bandwidth.png

# What a checkout needs to build and test itself; a release can do so too.
EXTRA_DIST += quickstart.sh runtests.sh scripts test/run test/support/leaks.supp

# Preloaded by the test of sdma_bench -c. The rpath makes libtool build a shared object.
check_LTLIBRARIES += test/tools/libcorrupt.la
test_tools_libcorrupt_la_SOURCES = test/tools/corrupt.c
test_tools_libcorrupt_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
test_tools_libcorrupt_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere

if GTEST
check_PROGRAMS += test/tools/tools_test
TESTS += test/tools/tools_test
test_tools_tools_test_SOURCES = test/tools/tools_test.cpp tools/options.cpp tools/options.hpp tools/pattern.cpp \
    tools/pattern.hpp tools/device_memory.cpp tools/device_memory.hpp
test_tools_tools_test_LDADD = $(GTEST_LIBS) -ldl
endif
