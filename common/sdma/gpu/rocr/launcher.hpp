// SPDX-License-Identifier: BSD-3-Clause
//
// Kernel dispatch by AQL packets into queues of our own: no HIP stream, no HIP version.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "../gpu.hpp"
#include "system.hpp"

namespace sdma::gpu::rocr {

// One small queue per device, created with the first launch on it, one more for the resident kernel,
// which would hold up the others, and a fixed number of launch slots (completion signal + kernel
// arguments). Thread-safe; nothing waits for the GPU.
class Launcher {
public:
    explicit Launcher(const System &system);
    ~Launcher();

    // Make the device's queue now. What failed once is not tried again.
    Status prepare(int device);
    Status launch(int device, Kernel kernel, uint32_t workgroups, const void *argument, Launch &launch);
    Status finished(Launch launch);

private:
    struct Entry { // of a kernel in the loaded code object
        uint64_t object = 0;
        uint32_t private_bytes = 0, group_bytes = 0;
    };
    enum class State : uint8_t { unopened, ready, unusable };
    struct Device_queue {
        const System *system = nullptr;
        int device = -1;
        State state = State::unopened;
        Status why = Status::failed; // unusable
        hsa_queue_t *queue = nullptr, *resident_queue = nullptr;
        hsa_executable_t executable{};
        std::array<Entry, 3> kernels{}; // by Kernel
        std::atomic<bool> broken{false};
    };
    struct Slot {
        hsa_signal_t signal{};
        void *arguments = nullptr;
        uint64_t round = 0; // uses so far, tells launches in one slot apart
        int device = -1;
    };

    static void queue_error(hsa_status_t status, hsa_queue_t *queue, void *device_queue);
    Status ready(int device);
    Status open(Device_queue &own, int device);
    Status open_queue(Device_queue &own, hsa_queue_t *&queue);
    Status load_code(Device_queue &own, int device);
    bool find_kernel(Device_queue &own, int device, Kernel kernel, const char *symbol);
    bool create_slots();
    Slot *free_slot();
    bool done(const Slot &slot) const;

    const System &system_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<Device_queue>> queues_; // by device
    std::vector<Slot> slots_;
    void *arguments_ = nullptr;
};

} // namespace sdma::gpu::rocr
