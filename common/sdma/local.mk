# SPDX-License-Identifier: BSD-3-Clause
# Base, memory, teams, operations, the C interface.
libmpisdma_la_SOURCES += common/sdma/sdma.cpp common/sdma/onesided.cpp common/sdma/onesided.h \
    common/sdma/process.cpp common/sdma/process.hpp \
    common/sdma/base/base.cpp common/sdma/base/base.hpp common/sdma/base/counters.def common/sdma/base/params.def \
    common/sdma/base/phase.cpp common/sdma/base/phase.hpp common/sdma/base/reasons.def \
    common/sdma/memory/attachments.cpp common/sdma/memory/attachments.hpp common/sdma/memory/memory.cpp \
    common/sdma/memory/memory.hpp common/sdma/memory/pins.cpp common/sdma/memory/pins.hpp \
    common/sdma/memory/process.cpp common/sdma/memory/process.hpp \
    common/sdma/memory/segment.cpp common/sdma/memory/segment.hpp \
    common/sdma/team/agreement.cpp common/sdma/team/layout.hpp common/sdma/team/setup.cpp common/sdma/team/shape.hpp \
    common/sdma/team/team.hpp \
    common/sdma/op/context.cpp common/sdma/op/context.hpp common/sdma/op/describe.cpp common/sdma/op/describe.hpp \
    common/sdma/op/op.cpp common/sdma/op/op.hpp common/sdma/op/transfer.cpp common/sdma/op/transfer.hpp \
    common/sdma/op/mailbox.hpp common/sdma/op/resident.cpp common/sdma/op/resident.hpp common/sdma/plan/mailbox.h \
    common/sdma/op/watch.cpp \
    common/sdma/line/address.cpp common/sdma/line/address.hpp common/sdma/line/batch.cpp common/sdma/line/batch.hpp \
    common/sdma/line/board.cpp common/sdma/line/board.hpp \
    common/sdma/line/events.cpp common/sdma/line/events.hpp common/sdma/line/line.cpp common/sdma/line/line.hpp \
    common/sdma/line/origin.cpp common/sdma/line/origin.hpp common/sdma/line/post.cpp
