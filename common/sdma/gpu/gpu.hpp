// SPDX-License-Identifier: BSD-3-Clause
//
// The GPU runtime of the process as a table of functions. `rocr` implements it on ROCr (memory,
// IPC, AQL dispatch; no HIP), `hip_nvidia` on CUDA through the HIP names, and the tests on plain
// host memory. Nothing above this header knows which one runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../sdma.h"

namespace sdma::gpu {

// GPUs are matched between processes and with sysfs by this, never by ordinal.
struct Pci_address {
    uint32_t domain = 0;
    uint8_t bus = 0, device = 0, function = 0;
    auto operator<=>(const Pci_address &) const = default;
};
std::string to_string(const Pci_address &address); // "0000:c1:00.0"

// From what AMD's kernel driver calls the location id: bus [15:8], device [7:3], function [2:0].
// Partitions of one GPU (CPX, DPX) share these; newer drivers tell them apart by [31:28], which
// takes the function's place here (an AMD GPU is function 0 of its device).
Pci_address pci_of_location(uint32_t domain, uint32_t location);

struct Device {
    Pci_address pci;
    std::string target;      // "gfx942", "sm_90"
    uint32_t node = 0;       // KFD node id where there is one
    uint32_t wave_lanes = 0; // 64 or 32
    uint32_t workgroups = 0; // compute units: the most a kernel could use at once
};

enum class Memory_kind : uint8_t {
    host,        // not known to the runtime
    pinned_host, // known, but host memory
    device,      // exportable device memory (coarse- or fine-grained)
    unsupported  // not exportable: of the virtual-memory API, imported; on NVIDIA GPUs managed and of pools, too
};

// What a pointer belongs to. `generation` is unique in the process per allocation: memory freed
// and allocated again at the same address has another one.
struct Range {
    Memory_kind kind = Memory_kind::host;
    int device = -1;
    void *base = nullptr;
    size_t bytes = 0;
    uint64_t generation = 0;
    void *device_base = nullptr; // pinned host memory: what devices use for `base`; nullptr = the same
};

// An exported allocation, readable by peers of this node. Plain bytes from an untrusted segment:
// attach() checks them.
struct Handle {
    std::array<uint32_t, 16> words{};
};

enum class Status : uint8_t { ok, pending, no_memory, denied, unsupported, invalid, kept, failed };
const char *to_string(Status status);

enum class Kernel : uint8_t { issue, copy, resident };

// A launched kernel, also after its end; 0 is none.
using Launch = uint64_t;

// One in-order line of asynchronous work on a device, for the proxy engine. One user thread.
// Failed submissions leave nothing behind.
class Stream {
public:
    virtual ~Stream() = default;
    virtual Status copy(void *dst, const void *src, size_t bytes) = 0;
    // Store the low `width` (4 or 8) bytes of `value` after everything before; unsupported where
    // the runtime has no such operation (then: a copy from pinned memory, ordered like any other).
    virtual Status store(uint64_t address, uint64_t value, uint32_t width) = 0;
    // Hand over what copy() and store() may have gathered: call it after the last of a burst.
    virtual Status submit() { return Status::ok; }
    // Number the work submitted so far; reached() is ok once all of it is complete.
    virtual Status mark(uint64_t &mark) = 0;
    virtual Status reached(uint64_t mark) = 0; // pending, ok, failed
};

class Runtime {
public:
    virtual ~Runtime() = default;

    virtual const char *name() const = 0;
    virtual std::string version() const = 0;
    virtual const std::vector<Device> &devices() const = 0;

    // Any address; an unknown one is host memory, never an error. Thread-safe.
    virtual Range classify(const void *address) = 0;

    // Whole allocations only: `base` and `bytes` as classify() gave them.
    virtual Status export_memory(void *base, size_t bytes, Handle &handle) = 0;
    // Map a peer's allocation for `device`: its engines, kernels and streams. Not for copy(), which
    // may choose an engine of another device.
    virtual Status attach(int device, const Handle &handle, size_t bytes, void *&mapped) = 0;
    virtual void detach(void *mapped) = 0;

    // Make host memory of ours (a mapped shared segment; page-aligned) usable by every device.
    // `device_address` is what engines and kernels use for it; may equal `address`.
    virtual Status pin(void *address, size_t bytes, void *&device_address) = 0;
    virtual void unpin(void *address) = 0;

    // Zeroed pinned host memory that all devices and the host reach coherently at one address.
    virtual void *allocate_shared(size_t bytes) = 0;
    virtual void free_shared(void *address) = 0;

    // Zeroed uncached (or finest-grained) memory of `device`, for producers' cursors.
    virtual void *allocate_device(int device, size_t bytes) = 0;
    virtual void free_device(void *address) = 0;

    // Make what launches on `device` need: a failure then is known before ranks have agreed on anything.
    virtual Status prepare(int) { return Status::ok; }
    // Start `kernel` with one pointer argument. Never waits for the GPU: Status::pending when no
    // launch slot is free. A slot is free again once its kernel has ended, whether anybody has asked or not: who holds
    // one launch and waits for another cannot stand in its own way.
    virtual Status launch(int device, Kernel kernel, uint32_t workgroups, const void *argument, Launch &launch) = 0;
    virtual Status finished(Launch launch) = 0; // pending, ok, failed

    // nullptr where none can be had.
    virtual std::unique_ptr<Stream> stream(int device) = 0;

    // What signal packets engines of this platform can raise in pinned host memory without help.
    virtual bool host_atomics() const = 0;

    // Whether peers and the host see what a running kernel has stored and released, before it ends: then it
    // may raise signals itself. Not so for AMD's coarse-grained memory, which needs the kernel's end.
    virtual bool coherent_stores() const { return false; }
    // Whether the resident kernel moves load/store peers as well, and reads the records that a mailbox carries.
    virtual bool resident_copies() const { return false; }

    // Blocking copy between any two of device and host memory.
    virtual Status copy(void *dst, const void *src, size_t bytes) = 0;

    // One-time hook: the allocation that starts at `base` was freed by the application. Called
    // from inside the free; must not call back into the runtime.
    virtual void on_free(std::function<void(void *base, uint64_t generation)> hook) = 0;
};

// True once a GPU runtime library is loaded in this process (by the application; never by us).
bool runtime_loaded();

// The runtime of this process, with a reference of our own; nullptr with the reason while the
// application has not started it or it has no GPU. Starts nothing by itself. Cheap when already
// open; any thread.
std::shared_ptr<Runtime> open_runtime(sdma_reason_t &reason);

} // namespace sdma::gpu
