# SPDX-License-Identifier: BSD-3-Clause
#
# Test programs outside of the project's build: they need CUDA's runtime, NCCL and cuBLAS, or HIP's names on CUDA.
#   make -f test/gpu/programs.mk TOP=... PREFIX=... CUDA=... NCCL=... CUBLAS=... ARCH=90   (in the directory for them)
MPI_TESTS = $(filter-out chaos faults hostonly onesided rma,$(notdir $(basename $(wildcard $(TOP)/test/mpi/*.cpp))))
CXXFLAGS = -O2 -std=c++20 -Wall -Wextra -DOMPI_SKIP_MPICXX
CPPFLAGS = -I$(TOP) -isystem $(CUDA)/include -isystem $(NCCL)/include -isystem $(CUBLAS)/include
CUDA_LIBS = -L$(CUDA)/lib64 -L$(CUDA)/lib -lcudart
# Python's packages have the versioned names only.
library = $(firstword $(wildcard $(addsuffix /lib*/lib$(1).so*,$(2))))
COMPARE_LIBS = -L$(PREFIX)/lib -lmpisdma $(call library,nccl,$(NCCL) $(CUDA)) $(call library,cublas,$(CUBLAS) $(CUDA))
COMPARE = compare.o ways.o nccl_way.o gemm.o

all: ring_stress limits compare put $(MPI_TESTS)
# What can be made without the libraries.
compiled: ring_stress limits $(COMPARE) put.o $(MPI_TESTS)

ring_stress: $(TOP)/test/gpu/ring_stress.cu $(TOP)/common/sdma/engine/proxy_decode.cpp
	nvcc -arch=sm_$(ARCH) -O2 -lineinfo -std=c++20 -I$(TOP) $^ -o $@

limits: $(TOP)/test/gpu/limits.cu
	nvcc -arch=sm_$(ARCH) -O2 -std=c++20 $^ -o $@

%.o: $(TOP)/test/gpu/%.cpp $(TOP)/test/gpu/compare.hpp $(TOP)/test/gpu/parameters.hpp $(TOP)/test/gpu/give_up.hpp
	mpicxx $(CXXFLAGS) $(CPPFLAGS) -c $< -o $@

compare: $(COMPARE)
	mpicxx $^ $(CUDA_LIBS) $(COMPARE_LIBS) -o $@

put: put.o
	mpicxx $^ $(CUDA_LIBS) -L$(PREFIX)/lib -lmpisdma -o $@

$(MPI_TESTS): %: $(TOP)/test/mpi/%.cpp
	mpicxx $(CXXFLAGS) -I$(TOP)/common/sdma/gpu/hip_nvidia $(CPPFLAGS) $< $(CUDA_LIBS) -ldl -lpthread -o $@
