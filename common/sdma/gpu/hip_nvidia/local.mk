# SPDX-License-Identifier: BSD-3-Clause
if NVIDIA
libmpisdma_la_SOURCES += \
	common/sdma/gpu/hip_nvidia/arguments.h \
	common/sdma/gpu/hip_nvidia/driver.cpp common/sdma/gpu/hip_nvidia/driver.hpp \
	common/sdma/gpu/hip_nvidia/exports.cpp common/sdma/gpu/hip_nvidia/exports.hpp \
	common/sdma/gpu/hip_nvidia/launcher.cpp common/sdma/gpu/hip_nvidia/launcher.hpp \
	common/sdma/gpu/hip_nvidia/pinned.cpp common/sdma/gpu/hip_nvidia/pinned.hpp \
	common/sdma/gpu/hip_nvidia/runtime.cpp \
	common/sdma/gpu/hip_nvidia/stream.cpp common/sdma/gpu/hip_nvidia/stream.hpp
endif
EXTRA_DIST += common/sdma/gpu/hip_nvidia/kernels.cu common/sdma/gpu/hip_nvidia/hip/hip_runtime_api.h
