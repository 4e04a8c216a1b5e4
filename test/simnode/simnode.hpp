// SPDX-License-Identifier: BSD-3-Clause
//
// The seam inside the simulated node: the thunk side (topology, memory, IPC, events: thunk/) and
// the queue side (SDMA and AQL workers: queue/). Both live in the drop-in libhsakmt.so.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace simnode {

// What sdma_simnode put into the environment (SDMA_SIMNODE_*), parsed once.
struct Fault {
    std::string kind;  // "device-open", "attach", "slots", "stall", "die", "no-ring-doorbell"
    int64_t rank = -1; // -1: every process; else the launcher-given rank of the process
    int64_t at = 0;    // packet or operation number, by kind
};
struct Options {
    unsigned gpus = 8;
    std::string gfx = "gfx90a";
    size_t vram = size_t{4} << 30; // bytes per GPU
    uint64_t chaos = 0;            // 0: off
    std::vector<Fault> faults;
    std::string trace; // file, "" = off
};
const Options &options();
// The fault of this kind that concerns this process, or nullptr. Rank from the launcher's
// OMPI_COMM_WORLD_RANK or PMIX_RANK.
const Fault *fault(const char *kind);

// One line on standard error, "sdma_simnode: ...", with the process id.
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

// ---- thunk side, used by the queue side ------------------------------------------------------

// True if every byte is mapped to `gpu` (device memory, registered host memory, an attachment).
bool accessible(unsigned gpu, uint64_t address, size_t bytes);
// Where the CPU finds what the GPUs know by `gpu_address`. The same, except in registered memory that
// cannot be mapped twice (private memory of the application): the GPUs' address of that is one that no
// CPU access goes through, a kernel's twin neither.
uint64_t cpu_address(uint64_t gpu_address);
// What hsaKmtSetEvent does for a signal that has a mailbox: wake its waiters.
void set_event(uint32_t event_id);

// ---- queue side, used by the thunk side --------------------------------------------------------

struct Sdma_queue {
    unsigned gpu = 0;
    unsigned engine = 0;
    uint32_t queue_id = 0;
    uint8_t *ring = nullptr;
    size_t bytes = 0;
    uint64_t *read_pointer = nullptr;
    uint64_t *write_pointer = nullptr;
    uint64_t *doorbell = nullptr;
};
struct Aql_queue {
    unsigned gpu = 0;
    uint32_t queue_id = 0;
    uint8_t *ring = nullptr;
    size_t bytes = 0;                  // 64 per packet
    uint64_t *read_pointer = nullptr;  // packet index
    uint64_t *write_pointer = nullptr; // packet index
    uint64_t *doorbell = nullptr;      // last packet index; the thunk initialises it to all ones
};

// A thread that serves one queue; the destructor stops it, after which the queue's memory is not
// touched any more.
class Worker {
public:
    virtual ~Worker() = default;
    // The queue is destroyed: complains about what hardware would have left undone.
    virtual void end() {}
};
std::unique_ptr<Worker> start_sdma(const Sdma_queue &queue);
std::unique_ptr<Worker> start_aql(const Aql_queue &queue);

} // namespace simnode
