# SPDX-License-Identifier: BSD-3-Clause
libmpisdma_la_SOURCES += \
	common/sdma/gpu/application.cpp common/sdma/gpu/application.hpp \
	common/sdma/gpu/gpu.cpp common/sdma/gpu/gpu.hpp \
	common/sdma/gpu/loaded.cpp common/sdma/gpu/loaded.hpp \
	common/sdma/gpu/platform.hpp

if AMD
libmpisdma_la_SOURCES += \
	common/sdma/gpu/rocr/allocations.cpp common/sdma/gpu/rocr/allocations.hpp \
	common/sdma/gpu/rocr/api.cpp common/sdma/gpu/rocr/api.hpp \
	common/sdma/gpu/rocr/fragments.cpp common/sdma/gpu/rocr/fragments.hpp \
	common/sdma/gpu/rocr/launcher.cpp common/sdma/gpu/rocr/launcher.hpp \
	common/sdma/gpu/rocr/runtime.cpp \
	common/sdma/gpu/rocr/stream.cpp common/sdma/gpu/rocr/stream.hpp \
	common/sdma/gpu/rocr/system.cpp common/sdma/gpu/rocr/system.hpp
endif

include common/sdma/gpu/hip_nvidia/local.mk
