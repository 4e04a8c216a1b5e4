# SPDX-License-Identifier: BSD-3-Clause
libmpisdma_la_SOURCES += \
	common/sdma/engine/near.cpp common/sdma/engine/near.hpp \
	common/sdma/engine/proxy.cpp common/sdma/engine/proxy.hpp \
	common/sdma/engine/proxy_decode.cpp common/sdma/engine/proxy_decode.hpp \
	common/sdma/engine/proxy_line.cpp common/sdma/engine/proxy_line.hpp \
	common/sdma/engine/proxy_worker.cpp common/sdma/engine/proxy_worker.hpp
