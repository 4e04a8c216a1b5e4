// SPDX-License-Identifier: BSD-3-Clause
#include "compare.hpp"

#include <cstring>
#include <map>
#include <sstream>

#include <cuda.h>
#include <mpi.h>

#include "common/sdma/sdma.h"

Buffers::Buffers(const Job &job, size_t largest) {
    const size_t bytes = largest * static_cast<size_t>(job.size);
    must(cudaMalloc(reinterpret_cast<void **>(&send), bytes), "cudaMalloc");
    must(cudaMalloc(reinterpret_cast<void **>(&recv), bytes), "cudaMalloc");
}

Buffers::~Buffers() {
    cudaFree(send);
    cudaFree(recv);
}

namespace {

// ---- ours ------------------------------------------------------------------------------------------

void set_parameter(const std::string &name, const std::string &value) {
    size_t count = 0;
    const sdma_param_t *rows = sdma_params(&count);
    for (size_t i = 0; i < count; i++) {
        if (name != rows[i].name)
            continue;
        if (!rows[i].settable)
            give_up("parameter " + name + " cannot be set at run time");
        switch (rows[i].type) {
        case SDMA_PARAM_BOOL:
            *static_cast<bool *>(rows[i].value) = value == "1";
            return;
        case SDMA_PARAM_INT:
            *static_cast<int *>(rows[i].value) = std::stoi(value);
            return;
        case SDMA_PARAM_SIZE:
            *static_cast<size_t *>(rows[i].value) = std::stoull(value);
            return;
        case SDMA_PARAM_STRING: {
            static std::map<std::string, std::string> kept; // the table points at them
            *static_cast<const char **>(rows[i].value) = kept.emplace(value, value).first->second.c_str();
            return;
        }
        }
    }
    give_up("there is no parameter " + name);
}

class Ours : public Way {
public:
    Ours(std::string name, const std::string &parameters, size_t most, Buffers &buffers)
        : name_(std::move(name)), most_(most), buffers_(buffers) {
        std::istringstream list(parameters);
        for (std::string item; std::getline(list, item, ',');)
            parameters_.emplace_back(item.substr(0, item.find('=')), item.substr(item.find('=') + 1));
    }
    std::string name() const override { return name_; }
    bool prepare(Collective, size_t block) override {
        for (const auto &[name, value] : parameters_)
            set_parameter(name, value);
        return block <= most_;
    }
    void start(Collective collective, size_t block) override {
        const auto count = static_cast<int>(block);
        if (collective == Collective::alltoall)
            MPI_Alltoall(buffers_.send, count, MPI_BYTE, buffers_.recv, count, MPI_BYTE, MPI_COMM_WORLD);
        else
            MPI_Allgather(buffers_.send, count, MPI_BYTE, buffers_.recv, count, MPI_BYTE, MPI_COMM_WORLD);
    }
    char *send() override { return buffers_.send; }
    char *recv() override { return buffers_.recv; }

private:
    std::string name_;
    size_t most_;
    Buffers &buffers_;
    std::vector<std::pair<std::string, std::string>> parameters_;
};

// ---- the bare copy engine ------------------------------------------------------------------------------

class Copy_engine : public Way {
public:
    Copy_engine(const Job &job, Buffers &buffers) : job_(job), buffers_(buffers) {
        cudaDriverEntryPointQueryResult found;
        must(cudaGetDriverEntryPointByVersion("cuStreamWriteValue64", reinterpret_cast<void **>(&write_value_), 12000,
                                              cudaEnableDefault, &found),
             "cudaGetDriverEntryPointByVersion");
        cudaIpcMemHandle_t mine;
        must(cudaIpcGetMemHandle(&mine, buffers_.recv), "cudaIpcGetMemHandle");
        std::vector<cudaIpcMemHandle_t> handles(static_cast<size_t>(job.size));
        MPI_Allgather(&mine, sizeof mine, MPI_BYTE, handles.data(), sizeof mine, MPI_BYTE, MPI_COMM_WORLD);
        must(cudaHostAlloc(reinterpret_cast<void **>(&done_), static_cast<size_t>(job.size) * stride * sizeof *done_,
                           cudaHostAllocMapped),
             "cudaHostAlloc");
        std::memset(done_, 0, static_cast<size_t>(job.size) * stride * sizeof *done_);
        for (int peer = 0; peer < job.size; peer++) {
            void *mapped = buffers_.recv;
            if (peer != job.rank)
                must(cudaIpcOpenMemHandle(&mapped, handles[static_cast<size_t>(peer)], cudaIpcMemLazyEnablePeerAccess),
                     "cudaIpcOpenMemHandle");
            targets_.push_back(static_cast<char *>(mapped));
            cudaStream_t stream;
            must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
            streams_.push_back(stream);
        }
    }
    ~Copy_engine() override {
        for (int peer = 0; peer < job_.size; peer++)
            if (peer != job_.rank)
                cudaIpcCloseMemHandle(targets_[static_cast<size_t>(peer)]);
        for (cudaStream_t stream : streams_)
            cudaStreamDestroy(stream);
        cudaFreeHost(done_);
    }
    std::string name() const override { return "copy-engine"; }
    void start(Collective collective, size_t block) override {
        calls_++;
        for (int step = 1; step <= job_.size; step++) {
            const auto peer = static_cast<size_t>((job_.rank + step) % job_.size);
            const char *from = buffers_.send + (collective == Collective::alltoall ? peer * block : 0);
            char *to = targets_[peer] + static_cast<size_t>(job_.rank) * block;
            must(cudaMemcpyAsync(to, from, block, cudaMemcpyDefault, streams_[peer]), "cudaMemcpyAsync");
            if (write_value_(streams_[peer], reinterpret_cast<CUdeviceptr>(&done_[peer * stride]), calls_, 0) !=
                CUDA_SUCCESS)
                give_up("cuStreamWriteValue64 failed");
        }
        for (size_t peer = 0; peer < streams_.size(); peer++)
            while (__atomic_load_n(&done_[peer * stride], __ATOMIC_ACQUIRE) < calls_)
                ;
    }
    char *send() override { return buffers_.send; }
    char *recv() override { return buffers_.recv; }

private:
    static constexpr size_t stride = 16; // words between two words that are polled
    Job job_;
    Buffers &buffers_;
    CUresult (*write_value_)(CUstream, CUdeviceptr, cuuint64_t, unsigned) = nullptr;
    std::vector<char *> targets_;
    std::vector<cudaStream_t> streams_;
    uint64_t *done_ = nullptr;
    uint64_t calls_ = 0;
};

} // namespace

std::unique_ptr<Way> make_ours(const std::string &name, const std::string &parameters, size_t most, Buffers &buffers) {
    return std::make_unique<Ours>(name, parameters, most, buffers);
}

std::unique_ptr<Way> make_copy_engine(const Job &job, Buffers &buffers) {
    return std::make_unique<Copy_engine>(job, buffers);
}
