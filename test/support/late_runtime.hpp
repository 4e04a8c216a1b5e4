// SPDX-License-Identifier: BSD-3-Clause
//
// A runtime on host memory whose streams are as late as they are allowed to be.
#pragma once

#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/sdma/gpu/gpu.hpp"

namespace sdma {

struct Late_runtime : gpu::Runtime {
    bool stores = true;  // streams can store
    bool streams = true; // there are streams
    bool stuck = false;  // nothing on a stream ever completes
    gpu::Status copies = gpu::Status::ok, submissions = gpu::Status::ok;
    int in_use = 0; // allocations
    std::vector<gpu::Device> gpus{{.pci = {0, 0xc1, 0, 0}, .target = "none", .wave_lanes = 32, .workgroups = 1}};

    struct Late_stream : gpu::Stream {
        explicit Late_stream(Late_runtime &owner) : owner(owner) {}
        Late_runtime &owner;
        std::mutex mutex;
        std::deque<std::function<void()>> work;
        uint64_t given = 0, submitted = 0, done = 0;

        gpu::Status give(std::function<void()> action) {
            std::lock_guard guard(mutex);
            work.push_back(std::move(action));
            given++;
            return gpu::Status::ok;
        }
        gpu::Status copy(void *dst, const void *src, size_t bytes) override {
            if (owner.copies != gpu::Status::ok)
                return owner.copies;
            return give([=] { std::memcpy(dst, src, bytes); });
        }
        gpu::Status store(uint64_t address, uint64_t value, uint32_t width) override {
            if (!owner.stores)
                return gpu::Status::unsupported;
            return give([=] { std::memcpy(reinterpret_cast<void *>(address), &value, width); });
        }
        gpu::Status submit() override {
            std::lock_guard guard(mutex);
            if (owner.submissions == gpu::Status::ok)
                submitted = given;
            return owner.submissions;
        }
        gpu::Status mark(uint64_t &mark) override {
            std::lock_guard guard(mutex);
            mark = submitted = given;
            return gpu::Status::ok;
        }
        // Time passes when somebody looks: one step each.
        gpu::Status reached(uint64_t mark) override {
            step();
            std::lock_guard guard(mutex);
            return done >= mark ? gpu::Status::ok : gpu::Status::pending;
        }
        bool step() {
            std::lock_guard guard(mutex);
            if (owner.stuck || work.empty() || done == submitted)
                return false;
            work.front()();
            work.pop_front();
            done++;
            return true;
        }
    };
    Late_stream *last_stream = nullptr;

    const char *name() const override { return "late"; }
    std::string version() const override { return "0"; }
    const std::vector<gpu::Device> &devices() const override { return gpus; }
    gpu::Range classify(const void *) override { return {}; }
    gpu::Status export_memory(void *, size_t, gpu::Handle &) override { return gpu::Status::unsupported; }
    gpu::Status attach(int, const gpu::Handle &, size_t, void *&) override { return gpu::Status::unsupported; }
    void detach(void *) override {}
    gpu::Status pin(void *, size_t, void *&) override { return gpu::Status::unsupported; }
    void unpin(void *) override {}
    void *allocate_shared(size_t bytes) override {
        in_use++;
        void *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
        return std::memset(memory, 0, bytes);
    }
    void free_shared(void *address) override {
        in_use--;
        std::free(address);
    }
    void *allocate_device(int, size_t bytes) override { return allocate_shared(bytes); }
    void free_device(void *address) override { free_shared(address); }
    gpu::Status launch(int, gpu::Kernel, uint32_t, const void *, gpu::Launch &) override {
        return gpu::Status::unsupported;
    }
    gpu::Status finished(gpu::Launch) override { return gpu::Status::failed; }
    std::unique_ptr<gpu::Stream> stream(int) override {
        if (!streams)
            return nullptr;
        auto made = std::make_unique<Late_stream>(*this);
        last_stream = made.get();
        return made;
    }
    bool host_atomics() const override { return false; }
    gpu::Status copy(void *dst, const void *src, size_t bytes) override {
        std::memcpy(dst, src, bytes);
        return gpu::Status::ok;
    }
    void on_free(std::function<void(void *, uint64_t)>) override {}
};

} // namespace sdma
