# SPDX-License-Identifier: BSD-3-Clause
# The queue side of the simulated node's libhsakmt.so.1, with the host twins of the kernels.

simnode_libhsakmt_la_SOURCES += \
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
