// SPDX-License-Identifier: BSD-3-Clause
#include "compare.hpp"

#include <cstring>
#include <map>
#include <sstream>

#include <cuda.h>
#include <mpi.h>

#include "parameters.hpp"

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

struct Counts {
    uint64_t served = 0, sdma = 0, loadstore = 0, launches = 0, resident = 0;

    static Counts now() {
        static const uint64_t *const rows[] = {counter("served"), counter("bytes_sdma"), counter("bytes_loadstore"),
                                               counter("launches"), counter("resident")};
        const auto value = [](const uint64_t *row) { return __atomic_load_n(row, __ATOMIC_RELAXED); };
        return {value(rows[0]), value(rows[1]), value(rows[2]), value(rows[3]), value(rows[4])};
    }
    void add(const Counts &after, const Counts &before) {
        served += after.served - before.served;
        sdma += after.sdma - before.sdma;
        loadstore += after.loadstore - before.loadstore;
        launches += after.launches - before.launches;
        resident += after.resident - before.resident;
    }
};

class Ours : public Way {
public:
    Ours(std::string name, const std::string &parameters, std::string path, size_t most, Buffers &buffers)
        : name_(std::move(name)), path_(std::move(path)), most_(most), buffers_(buffers) {
        std::istringstream list(parameters);
        for (std::string item; std::getline(list, item, ',');) {
            parameters_.emplace_back(item.substr(0, item.find('=')), item.substr(item.find('=') + 1));
            originals.emplace(parameters_.back().first, get_parameter(parameters_.back().first));
        }
    }
    std::string name() const override { return name_; }
    bool prepare(Collective, size_t block) override {
        for (const auto &[name, value] : originals)
            set_parameter(name, value);
        for (const auto &[name, value] : parameters_)
            set_parameter(name, value);
        return block <= most_;
    }
    void start(Collective collective, size_t block) override {
        const Counts before = Counts::now();
        const auto count = static_cast<int>(block);
        if (collective == Collective::alltoall)
            MPI_Alltoall(buffers_.send, count, MPI_BYTE, buffers_.recv, count, MPI_BYTE, MPI_COMM_WORLD);
        else
            MPI_Allgather(buffers_.send, count, MPI_BYTE, buffers_.recv, count, MPI_BYTE, MPI_COMM_WORLD);
        calls_++;
        moved_.add(Counts::now(), before);
    }
    std::string path() override {
        const auto [served, sdma, loadstore, launches, resident] = moved_;
        std::string found = sdma == 0 ? "" : launches != 0 || resident != 0 ? "engine" : "host";
        if (loadstore != 0)
            found += found.empty() ? "loadstore" : "+loadstore";
        if (served != calls_ || found.empty() || (!path_.empty() && found != path_))
            give_up(name_ + ": " + std::to_string(served) + " of " + std::to_string(calls_) + " calls served, by " +
                    (found.empty() ? "nobody of ours" : found));
        if (resident != 0)
            found += resident == calls_ ? ",resident" : ",partly resident";
        moved_ = {};
        calls_ = 0;
        return found;
    }
    char *send() override { return buffers_.send; }
    char *recv() override { return buffers_.recv; }

private:
    inline static std::map<std::string, std::string> originals; // of all parameters that some way sets

    std::string name_, path_;
    size_t most_;
    Buffers &buffers_;
    std::vector<std::pair<std::string, std::string>> parameters_;
    Counts moved_;
    uint64_t calls_ = 0;
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

std::unique_ptr<Way> make_ours(const std::string &name, const std::string &parameters, const std::string &path,
                               size_t most, Buffers &buffers) {
    return std::make_unique<Ours>(name, parameters, path, most, buffers);
}

std::unique_ptr<Way> make_copy_engine(const Job &job, Buffers &buffers) {
    return std::make_unique<Copy_engine>(job, buffers);
}
