# SPDX-License-Identifier: BSD-3-Clause
# The kernels of every GPU target, in one offload bundle in the library.
kernel_sources = kernels/kernels.cpp kernels/issue.h kernels/copy.h kernels/device.h kernels/mutants.h \
    kernels/resident.h common/sdma/plan/mailbox.h \
    common/sdma/packet/packet.h common/sdma/plan/check.h common/sdma/plan/layout.h common/sdma/plan/work.h \
    common/sdma/ring/producer.h common/sdma/ring/ring.h

GPU_CLANG_FLAGS = -x hip --cuda-device-only -nogpulib -nogpuinc -O3 -std=c++20 -Wall -Wextra -mcode-object-version=4 \
    --no-gpu-bundle-output

if AMD
kernel_objects = $(GPU_TARGETS:%=kernels/%.elf)
kernel_entries = $(foreach target,$(GPU_TARGETS),$(target)=kernels/$(target).elf)
endif
if NVIDIA
kernel_objects = $(NVCC_ARCHS:%=kernels/sm_%.cubin)
kernel_entries = $(foreach arch,$(NVCC_ARCHS),sm_$(arch)=kernels/sm_$(arch).cubin)
endif

kernels/%.elf: $(kernel_sources)
	@$(MKDIR_P) kernels
	$(AM_V_GEN)$(CLANG_GPU) $(GPU_CLANG_FLAGS) --offload-arch=$* $(top_srcdir)/kernels/kernels.cpp -o $@

# NVIDIA's entry points: the same kernels, with the record brought on the chip first.
nvidia_kernels = common/sdma/gpu/hip_nvidia/kernels.cu
kernels/sm_%.cubin: $(kernel_sources) $(nvidia_kernels) common/sdma/gpu/hip_nvidia/arguments.h
	@$(MKDIR_P) kernels
	$(AM_V_GEN)$(NVCC) -arch=sm_$* -O3 -std=c++20 -cubin $(top_srcdir)/$(nvidia_kernels) -o $@

kernels/bundle_data.cpp: $(kernel_objects) kernels/bundle.sh
	$(AM_V_GEN)$(SHELL) $(top_srcdir)/kernels/bundle.sh $(kernel_entries) >$@.tmp && mv $@.tmp $@

BUILT_SOURCES += kernels/bundle_data.cpp
CLEANFILES += kernels/bundle_data.cpp $(kernel_objects)
EXTRA_DIST += kernels/bundle.sh
# twin.cpp is for the simulated node and tests only.
EXTRA_DIST += kernels/kernels.cpp kernels/twin.cpp kernels/twin.h

libmpisdma_la_SOURCES += kernels/bundle.cpp kernels/bundle.h kernels/issue.h kernels/copy.h kernels/device.h \
    kernels/mutants.h kernels/resident.h
nodist_libmpisdma_la_SOURCES = kernels/bundle_data.cpp
nodist_libsdmatest_la_SOURCES = kernels/bundle_data.cpp
