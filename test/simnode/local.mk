# SPDX-License-Identifier: BSD-3-Clause
# The simulated node: a drop-in libhsakmt.so.1 in a folder of its own, and the launcher that puts it
# on the library path. Neither needs libmpisdma.
simnode_LTLIBRARIES += test/simnode/libhsakmt.la
simnode_libhsakmt_la_SOURCES = \
    test/simnode/simnode.hpp \
    test/simnode/thunk/event.cpp \
    test/simnode/thunk/memory.cpp test/simnode/thunk/memory.hpp test/simnode/thunk/memory_api.cpp \
    test/simnode/thunk/model.cpp test/simnode/thunk/model.hpp \
    test/simnode/thunk/node.cpp test/simnode/thunk/node.hpp \
    test/simnode/thunk/options.cpp \
    test/simnode/thunk/queue.cpp \
    test/simnode/thunk/share.cpp test/simnode/thunk/share.hpp \
    test/simnode/thunk/system.cpp \
    test/simnode/thunk/topology.cpp \
    test/simnode/thunk/unsupported.cpp
include test/simnode/queue/local.mk
test_simnode_libhsakmt_la_SOURCES = $(simnode_libhsakmt_la_SOURCES)
test_simnode_libhsakmt_la_CPPFLAGS = $(AM_CPPFLAGS) $(HSAKMT_CPPFLAGS)
# What is exported is said in the version script alone.
test_simnode_libhsakmt_la_CXXFLAGS = $(SDMA_CFLAGS) $(SDMA_SANITIZE)
test_simnode_libhsakmt_la_LDFLAGS = $(AM_LDFLAGS) -version-info 1:0:0 $(SDMA_COMPLETE) -Wl,-z,nodelete \
    -Wl,--version-script=$(top_srcdir)/test/simnode/thunk/libhsakmt.map
test_simnode_libhsakmt_la_LIBADD = -ldl -lpthread
test_simnode_libhsakmt_la_DEPENDENCIES = test/simnode/thunk/libhsakmt.map
EXTRA_DIST += test/simnode/thunk/libhsakmt.map

bin_PROGRAMS += test/simnode/sdma_simnode
test_simnode_sdma_simnode_SOURCES = test/simnode/simnode.hpp \
    test/simnode/launcher/sdma_simnode.cpp test/simnode/launcher/sysfs.cpp test/simnode/launcher/sysfs.hpp \
    test/simnode/thunk/model.cpp test/simnode/thunk/model.hpp \
    test/simnode/thunk/node.cpp test/simnode/thunk/node.hpp \
    test/simnode/thunk/options.cpp
test_simnode_sdma_simnode_CPPFLAGS = $(AM_CPPFLAGS) -DSIMNODE_LIBRARY_FOLDER='"$(simnodedir)"'
test_simnode_sdma_simnode_LDADD = -ldl

# The node tested by itself, and with the installed ROCr and HIP on it.
check_PROGRAMS += test/simnode/selftest_thunk
test_simnode_selftest_thunk_SOURCES = test/simnode/selftest.hpp test/simnode/selftest_thunk.cpp
test_simnode_selftest_thunk_CPPFLAGS = $(AM_CPPFLAGS) $(HSAKMT_CPPFLAGS)
test_simnode_selftest_thunk_LDFLAGS = $(AM_LDFLAGS) -no-install
test_simnode_selftest_thunk_LDADD = test/simnode/libhsakmt.la -ldl -lpthread
if HIP
check_PROGRAMS += test/simnode/selftest_hip
test_simnode_selftest_hip_SOURCES = test/simnode/selftest.hpp test/simnode/selftest_hip.cpp
test_simnode_selftest_hip_CPPFLAGS = $(AM_CPPFLAGS) $(ROCM_CPPFLAGS) -D__HIP_PLATFORM_AMD__
test_simnode_selftest_hip_LDFLAGS = $(AM_LDFLAGS) $(ROCM_LDFLAGS)
test_simnode_selftest_hip_LDADD = -lamdhip64
endif
dist_check_SCRIPTS += test/simnode/selftest.sh
TESTS += test/simnode/selftest.sh
