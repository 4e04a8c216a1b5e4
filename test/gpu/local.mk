# SPDX-License-Identifier: BSD-3-Clause
# Started by test/gpu/run on machines with NVIDIA GPUs; make check needs none.
EXTRA_DIST += test/gpu/run test/gpu/without_gpu test/support/fake_cuda/node.hpp test/support/fake_cuda/node.cpp \
	test/support/fake_cuda/memory.cpp test/support/fake_cuda/stream.cpp test/support/fake_cuda/kernels.cpp \
	test/support/fake_cuda/runtime.cpp test/gpu/plot.py test/gpu/targets.py test/gpu/programs.mk \
	test/gpu/ring_stress.cu test/gpu/limits.cu test/gpu/compare.cpp test/gpu/compare.hpp test/gpu/parameters.hpp \
	test/gpu/give_up.hpp test/gpu/put.cpp test/gpu/ways.cpp test/gpu/nccl_way.cpp test/gpu/gemm.cpp \
	test/gpu/runtime_test.cpp test/gpu/runtime_test.hpp test/gpu/kernels_test.cpp

if NVIDIA
if GTEST
check_PROGRAMS += test/gpu/runtime_test
# In this order: GoogleTest runs tests in that of the objects, and one must be the first.
test_gpu_runtime_test_SOURCES = test/gpu/runtime_test.cpp test/gpu/kernels_test.cpp test/gpu/runtime_test.hpp
test_gpu_runtime_test_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
test_gpu_runtime_test_CXXFLAGS = $(SDMA_CFLAGS) $(SDMA_SANITIZE)
test_gpu_runtime_test_LDADD = libsdmatest.la -L$(CUDA_HOME)/lib64 -L$(CUDA_HOME)/lib -lcudart $(GTEST_LIBS)
endif
endif
