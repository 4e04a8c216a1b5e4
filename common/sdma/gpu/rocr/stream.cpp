// SPDX-License-Identifier: BSD-3-Clause
#include "stream.hpp"

#include <chrono>
#include <thread>

#include "../../base/base.hpp"

namespace sdma::gpu::rocr {

namespace {
constexpr size_t most_in_flight = 32;
} // namespace

std::unique_ptr<Copy_stream> Copy_stream::make(const System &system, int device) {
    std::unique_ptr<Copy_stream> stream(new Copy_stream(system, device));
    while (stream->signals_.size() < most_in_flight) {
        hsa_signal_t signal{};
        const auto status = system.api.hsa_amd_signal_create(0, 0, nullptr, HSA_AMD_SIGNAL_AMD_GPU_ONLY, &signal);
        if (status != HSA_STATUS_SUCCESS) {
            system.failure("creating a signal", status);
            return nullptr;
        }
        stream->signals_.push_back(signal);
    }
    return stream;
}

Copy_stream::~Copy_stream() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(params().hardware_timeout);
    for (advance(); completed_ != submitted_ && !failed_; advance()) {
        if (std::chrono::steady_clock::now() > end) {
            log(0, "rocr: copies of GPU %s are not done after %d ms; their signals are kept",
                to_string(system_.devices[device_].pci).c_str(), params().hardware_timeout);
            return; // an engine may still write to them
        }
        std::this_thread::yield();
    }
    if (failed_)
        return;
    for (hsa_signal_t signal : signals_)
        system_.api.hsa_signal_destroy(signal);
}

Status Copy_stream::copy(void *dst, const void *src, size_t bytes) {
    advance();
    if (failed_)
        return Status::failed;
    if (bytes == 0)
        return Status::ok;
    // The signal of copy n - size must not be armed again before copy n - size + 1, which waits for
    // it to be zero, is done.
    const uint64_t number = submitted_ + 1;
    if (number > signals_.size() && completed_ < number - signals_.size() + 1)
        return Status::pending;
    const hsa_signal_t &own = signal(number);
    system_.api.hsa_signal_store_relaxed(own, 1);
    const uint32_t dependencies = completed_ == submitted_ ? 0 : 1;
    // ROCr copies by the source's GPU. A peer's memory is mapped for this one only.
    const hsa_agent_t from =
        owner(src).handle == system_.host_agent.handle ? system_.host_agent : system_.agents[device_];
    const auto status = system_.api.hsa_amd_memory_async_copy(dst, owner(dst), src, from, bytes, dependencies,
                                                              dependencies ? &signal(submitted_) : nullptr, own);
    if (status != HSA_STATUS_SUCCESS)
        return system_.failure("copy", status);
    submitted_ = number;
    return Status::ok;
}

Status Copy_stream::mark(uint64_t &mark) {
    mark = submitted_;
    return Status::ok;
}

Status Copy_stream::reached(uint64_t mark) {
    advance();
    if (mark <= completed_)
        return Status::ok;
    return failed_ ? Status::failed : Status::pending;
}

void Copy_stream::advance() {
    while (!failed_ && completed_ != submitted_) {
        const hsa_signal_value_t value = system_.api.hsa_signal_load_scacquire(signal(completed_ + 1));
        if (value > 0)
            return;
        if (value < 0) {
            log(0, "rocr: a copy of GPU %s failed", to_string(system_.devices[device_].pci).c_str());
            failed_ = true;
            return;
        }
        completed_++;
    }
}

// ROCr chooses the engine by the agents, so they must be the real ones.
hsa_agent_t Copy_stream::owner(const void *address) const {
    hsa_amd_pointer_info_t info{};
    info.size = sizeof info;
    const bool known =
        system_.api.hsa_amd_pointer_info(address, &info, nullptr, nullptr, nullptr) == HSA_STATUS_SUCCESS &&
        info.type != HSA_EXT_POINTER_TYPE_UNKNOWN;
    if (!known)
        return system_.host_agent;
    return system_.device_of(info.agentOwner) >= 0 ? info.agentOwner : system_.host_agent;
}

} // namespace sdma::gpu::rocr
