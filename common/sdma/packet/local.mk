# SPDX-License-Identifier: BSD-3-Clause
# Packets, rings and plans.
libmpisdma_la_SOURCES += common/sdma/packet/packet.h \
    common/sdma/plan/check.h common/sdma/plan/layout.h common/sdma/plan/plan.cpp common/sdma/plan/plan.hpp \
    common/sdma/plan/work.h \
    common/sdma/ring/initiate.cpp common/sdma/ring/initiate.hpp common/sdma/ring/producer.h common/sdma/ring/ring.h
