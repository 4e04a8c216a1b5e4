// SPDX-License-Identifier: BSD-3-Clause
//
// The kernels as host functions, for the simulated node and for tests; never in the product.
#define SDMA_TWIN 1
#include "kernels.cpp"

__thread struct sdma_twin_position *sdma_twin_here;
