// SPDX-License-Identifier: BSD-3-Clause
#include "compare.hpp"

#if __has_include(<nccl.h>)
#include <mpi.h>
#include <nccl.h>

namespace {

void check(ncclResult_t status, const char *what) {
    if (status != ncclSuccess)
        give_up(std::string(what) + ": " + ncclGetErrorString(status));
}

class Nccl : public Way {
public:
    Nccl(const Job &job, std::string kind, size_t largest, Buffers &buffers) : kind_(std::move(kind)) {
        ncclUniqueId id;
        if (job.rank == 0)
            check(ncclGetUniqueId(&id), "ncclGetUniqueId");
        MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        if (kind_ == "-1cta")
            config.minCTAs = config.maxCTAs = 1;
        if (kind_ == "-ce")
            config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
        check(ncclCommInitRankConfig(&communicator_, job.size, id, job.rank, &config), "ncclCommInitRankConfig");
        must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
        send_ = buffers.send;
        recv_ = buffers.recv;
        if (kind_ == "-ce") { // copy engines serve symmetric windows only
            const size_t bytes = largest * static_cast<size_t>(job.size);
            check(ncclMemAlloc(reinterpret_cast<void **>(&send_), bytes), "ncclMemAlloc");
            check(ncclMemAlloc(reinterpret_cast<void **>(&recv_), bytes), "ncclMemAlloc");
            check(ncclCommWindowRegister(communicator_, send_, bytes, &windows_[0], NCCL_WIN_COLL_SYMMETRIC),
                  "ncclCommWindowRegister");
            check(ncclCommWindowRegister(communicator_, recv_, bytes, &windows_[1], NCCL_WIN_COLL_SYMMETRIC),
                  "ncclCommWindowRegister");
        }
    }
    ~Nccl() override {
        if (kind_ == "-ce") {
            for (ncclWindow_t window : windows_)
                ncclCommWindowDeregister(communicator_, window);
            ncclMemFree(send_);
            ncclMemFree(recv_);
        }
        cudaStreamDestroy(stream_);
        ncclCommDestroy(communicator_);
    }
    std::string name() const override { return "nccl" + kind_; }
    void start(Collective collective, size_t block) override {
        if (collective == Collective::alltoall)
            check(ncclAlltoAll(send_, recv_, block, ncclInt8, communicator_, stream_), "ncclAlltoAll");
        else
            check(ncclAllGather(send_, recv_, block, ncclInt8, communicator_, stream_), "ncclAllGather");
        if (kind_ == "-blocking")
            finish();
    }
    void finish() override { must(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }
    char *send() override { return send_; }
    char *recv() override { return recv_; }

private:
    std::string kind_;
    ncclComm_t communicator_ = nullptr;
    cudaStream_t stream_ = nullptr;
    char *send_ = nullptr, *recv_ = nullptr;
    ncclWindow_t windows_[2] = {};
};

} // namespace

std::unique_ptr<Way> make_nccl(const Job &job, const std::string &kind, size_t largest, Buffers &buffers) {
    if (job.size > job.devices) // NCCL takes one rank per GPU
        return nullptr;
    return std::make_unique<Nccl>(job, kind, largest, buffers);
}

std::string nccl_version() {
    int version = 0;
    ncclGetVersion(&version);
    return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
           std::to_string(version % 100);
}

#else

std::unique_ptr<Way> make_nccl(const Job &, const std::string &, size_t, Buffers &) { return nullptr; }
std::string nccl_version() { return "none"; }

#endif
