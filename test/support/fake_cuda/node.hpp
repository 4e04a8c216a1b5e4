// SPDX-License-Identifier: BSD-3-Clause
//
// A stand-in for libcuda.so.1 and libcudart.so.13 on host memory: what this project calls of them,
// so that its NVIDIA platform runs where there is no NVIDIA GPU. Device memory is a memfd, which
// other processes of the same user map by an IPC handle; a stream is a thread; a kernel is found by
// its name and run by the code that the host shares with it. FAKE_CUDA_DEVICES says how many GPUs
// there are (2). It proves the use of the interface and the protocol, nothing about speed or caches.
#include <fcntl.h>
//
// What the parts of the stand-in for CUDA share: GPUs, allocations, contexts and streams of this process.
//
//   node.cpp     devices, contexts, the state below      memory.cpp   allocations, IPC, attributes
//   stream.cpp   copies, stores and events in order      kernels.cpp  modules and launches
//   runtime.cpp  the runtime's names, for test programs
//
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <cuda.h>

namespace fake_cuda {

struct Gpu {
    int number = 0;
    bool active = false; // its primary context
};

enum class Kind { device, managed, pool, host_allocated, host_registered };

struct Import {
    uint64_t process, base, id; // of the exporter
    int opened;
};

struct Allocation {
    Kind kind;
    size_t bytes;
    int device;
    uint64_t id;
    int file = -1;
    bool imported = false;
    bool synchronous = false;
    Import import{};
};

struct Node {
    std::mutex mutex;
    std::vector<Gpu> gpus;
    std::map<char *, Allocation> allocations;
    uint64_t next_id = 1;

    Node();
    std::map<char *, Allocation>::iterator find(CUdeviceptr address);
};

Node &node();

// Without a destructor: exit handlers run after those of a thread.
struct Contexts {
    CUcontext entries[16];
    int count;
    bool empty() const { return count == 0; }
    CUcontext &back() { return entries[count - 1]; }
    void push_back(CUcontext context) { entries[count++ % 16] = context; }
    void pop_back() { count--; }
    void clear() { count = 0; }
};
extern thread_local Contexts contexts;
extern thread_local int runtime_device;

CUcontext context_of(int device);
int current_device();

struct Stream {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> work;
    bool busy = false, stop = false;
    std::thread thread{[this] { run(); }};

    void run() {
        std::unique_lock lock(mutex);
        while (true) {
            changed.wait(lock, [this] { return stop || !work.empty(); });
            if (work.empty())
                return;
            auto action = std::move(work.front());
            work.pop_front();
            busy = true;
            lock.unlock();
            action();
            lock.lock();
            busy = false;
            changed.notify_all();
        }
    }
    void give(std::function<void()> action) {
        std::lock_guard lock(mutex);
        work.push_back(std::move(action));
        changed.notify_all();
    }
    bool idle() {
        std::lock_guard lock(mutex);
        return work.empty() && !busy;
    }
    void wait() {
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] { return work.empty() && !busy; });
    }
    ~Stream() {
        {
            std::lock_guard lock(mutex);
            stop = true;
            changed.notify_all();
        }
        thread.join();
    }
};

// The driver has one lock per context, and holds it while it waits for all kernels before memory goes.
std::mutex &driver_lock();
std::set<Stream *> &streams(); // guarded by driver_lock()
class Driver_call {
    std::lock_guard<std::mutex> lock{driver_lock()};
};
struct All_waited_for {
    Driver_call call;
    All_waited_for() {
        for (Stream *stream : streams())
            stream->wait();
    }
};
Stream &stream_of(void *handle);

} // namespace fake_cuda
