// SPDX-License-Identifier: BSD-3-Clause
#include "compare.hpp"

#if __has_include(<cublas_v2.h>)
#include <random>

#include <cublas_v2.h>

namespace {
constexpr int n = 8192;
constexpr size_t elements = size_t{n} * n;
} // namespace

struct Gemm::State {
    cublasHandle_t handle = nullptr;
    cudaStream_t stream = nullptr;
    cudaEvent_t first = nullptr, last = nullptr;
    void *a = nullptr, *b = nullptr, *c = nullptr;
    int count = 0;
};

bool Gemm::built() { return true; }

Gemm::Gemm() : state_(std::make_unique<State>()) {
    State &state = *state_;
    must(cudaStreamCreateWithFlags(&state.stream, cudaStreamNonBlocking), "cudaStreamCreate");
    must(cudaEventCreate(&state.first), "cudaEventCreate");
    must(cudaEventCreate(&state.last), "cudaEventCreate");
    // Random operands: on zeros the product runs faster than on real data.
    std::vector<uint16_t> operand(elements);
    std::minstd_rand random(1);
    for (uint16_t &value : operand) {
        const uint32_t bits = static_cast<uint32_t>(random());
        value = static_cast<uint16_t>((bits & 0x807f) | 0x3f00); // bf16, magnitude 0.5 to 1
    }
    for (void **matrix : {&state.a, &state.b, &state.c}) {
        must(cudaMalloc(matrix, elements * sizeof(uint16_t)), "cudaMalloc");
        must(cudaMemcpy(*matrix, operand.data(), elements * sizeof(uint16_t), cudaMemcpyDefault), "cudaMemcpy");
    }
    if (cublasCreate(&state.handle) != CUBLAS_STATUS_SUCCESS ||
        cublasSetStream(state.handle, state.stream) != CUBLAS_STATUS_SUCCESS)
        give_up("cuBLAS does not start");
}

Gemm::~Gemm() {
    cublasDestroy(state_->handle);
    for (void *matrix : {state_->a, state_->b, state_->c})
        cudaFree(matrix);
    cudaEventDestroy(state_->first);
    cudaEventDestroy(state_->last);
    cudaStreamDestroy(state_->stream);
}

void Gemm::start(int count) {
    State &state = *state_;
    const float one = 1, zero = 0;
    state.count = count;
    must(cudaEventRecord(state.first, state.stream), "cudaEventRecord");
    for (int i = 0; i < count; i++)
        if (cublasGemmEx(state.handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, state.a, CUDA_R_16BF, n, state.b,
                         CUDA_R_16BF, n, &zero, state.c, CUDA_R_16BF, n, CUBLAS_COMPUTE_32F,
                         CUBLAS_GEMM_DEFAULT) != CUBLAS_STATUS_SUCCESS)
            give_up("cublasGemmEx failed");
    must(cudaEventRecord(state.last, state.stream), "cudaEventRecord");
}

double Gemm::finish() {
    must(cudaEventSynchronize(state_->last), "cudaEventSynchronize");
    float ms = 0;
    must(cudaEventElapsedTime(&ms, state_->first, state_->last), "cudaEventElapsedTime");
    return 1e3 * ms / state_->count;
}

#else

struct Gemm::State {};
bool Gemm::built() { return false; }
Gemm::Gemm() { give_up("built without cuBLAS"); }
Gemm::~Gemm() = default;
void Gemm::start(int) {}
double Gemm::finish() { return 0; }

#endif
