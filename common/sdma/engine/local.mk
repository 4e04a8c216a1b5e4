# SPDX-License-Identifier: BSD-3-Clause
libmpisdma_la_SOURCES += \
	common/sdma/engine/engine.hpp common/sdma/engine/engines.cpp \
	common/sdma/engine/probe.cpp common/sdma/engine/probe.hpp \
	common/sdma/engine/thunk.cpp common/sdma/engine/thunk.hpp \
	common/sdma/engine/topology.cpp common/sdma/engine/topology.hpp \
	common/sdma/engine/user.cpp common/sdma/engine/user.hpp

include common/sdma/engine/proxy.mk
