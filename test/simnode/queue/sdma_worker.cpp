// SPDX-License-Identifier: BSD-3-Clause
//
// A user-mode SDMA queue as an engine sees it: the doorbell says how far packets may be fetched,
// the write pointer must have been published before it, both count bytes monotonically. What
// hardware would hang on is complained about in one line and hangs the queue.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <dlfcn.h>
#include <execinfo.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "executor.hpp"
#include "idle.hpp"
#include "packet.hpp"
#include "report.hpp"
#include "test/simnode/simnode.hpp"

namespace simnode {
namespace {

// Faults strike the queues of the program under test, not those that ROCr makes for hipMemcpy:
// whose code asked the thunk for this queue?
bool created_by_rocr() {
    void *frames[16];
    int depth = backtrace(frames, 16);
    Dl_info self{}, caller{};
    dladdr(reinterpret_cast<void *>(&created_by_rocr), &self);
    const auto from = [&caller](const char *library) {
        return caller.dli_fname && std::string(caller.dli_fname).find(library) != std::string::npos;
    };
    for (int i = 0; i < depth; i++) // a sanitizer may stand between
        if (dladdr(frames[i], &caller) && caller.dli_fbase != self.dli_fbase && !from("libasan.so"))
            return from("libhsa-runtime64");
    return false;
}

class Sdma_worker : public Worker {
public:
    explicit Sdma_worker(const Sdma_queue &queue)
        : queue_(queue), generation_(generation_of(options().gfx)), own_(!created_by_rocr()), bell_(queue.doorbell),
          chaos_(uint64_t{queue.gpu} << 32 | queue.engine << 16 | queue.queue_id | (own_ ? 0x8000 : 0)),
          executor_(queue.gpu, chaos_, [this] { return bell_.stopped(); }) {
        const Fault *stall = own_ ? fault("stall") : nullptr;
        stall_at_ = stall ? stall->at : -1;
        fetched_ = __atomic_load_n(queue_.read_pointer, __ATOMIC_ACQUIRE);
        thread_ = std::thread([this] { run(); });
    }
    ~Sdma_worker() override {
        bell_.stop();
        thread_.join();
        // A dequeued engine finishes what it has begun: afterwards nothing of ours is in flight, and
        // the queue can be put back where it was.
        std::string error = executor_.land();
        if (!error.empty())
            refuse(error);
        if (!hung_)
            publish_read_pointer();
    }

private:
    Sdma_queue queue_;
    Generation generation_;
    bool own_;
    Bell bell_;
    Chaos chaos_;
    Executor executor_;
    int64_t stall_at_;
    int64_t packets_ = 0;
    bool hung_ = false;            // the worker's thread, until it is joined
    uint64_t fetched_ = 0;         // bytes consumed
    uint64_t bound_ = 0;           // the doorbell as last accepted
    uint64_t written_ = 0;         // the write pointer as last seen
    std::vector<uint32_t> packet_; // fetched copy: the producer may reuse the ring behind the read pointer
    std::thread thread_;

    void run() {
        bound_ = fetched_;
        while (!bell_.stopped()) {
            uint64_t doorbell = bell_.read();
            if (doorbell == bound_) {
                publish_read_pointer();
                bell_.wait(bound_);
                continue;
            }
            if (!accept(doorbell))
                return hang();
            if (chaos_.on())
                chaos_.delay();
            while (fetched_ != bound_ && !bell_.stopped())
                if (!step())
                    return hang();
        }
    }

    void hang() {
        hung_ = true;
        bell_.wait_stopped();
    }

    bool accept(uint64_t doorbell) {
        uint64_t written = __atomic_load_n(queue_.write_pointer, __ATOMIC_ACQUIRE);
        char text[160] = "";
        if (written < written_)
            snprintf(text, sizeof text, "write pointer went back from 0x%" PRIx64 " to 0x%" PRIx64, written_, written);
        else if (doorbell < bound_)
            snprintf(text, sizeof text, "doorbell went back from 0x%" PRIx64 " to 0x%" PRIx64, bound_, doorbell);
        else if (doorbell > written)
            snprintf(text, sizeof text, "doorbell 0x%" PRIx64 " is past the write pointer 0x%" PRIx64, doorbell,
                     written);
        else if (doorbell - fetched_ > queue_.bytes)
            snprintf(text, sizeof text,
                     "doorbell 0x%" PRIx64 " is more than the ring ahead of the read pointer 0x%" PRIx64, doorbell,
                     fetched_);
        else if (doorbell % 4)
            snprintf(text, sizeof text, "doorbell 0x%" PRIx64 " is not in whole dwords", doorbell);
        if (*text) {
            packet_.clear();
            refuse(text);
            return false;
        }
        bound_ = doorbell;
        written_ = written;
        counts().doorbells++;
        if (own_)
            counts().own_doorbells++;
        return true;
    }

    // False: the queue hangs.
    bool step() {
        size_t position = fetched_ & (queue_.bytes - 1);
        size_t available = std::min<uint64_t>(queue_.bytes - position, bound_ - fetched_) / 4;
        const uint32_t *ring = reinterpret_cast<const uint32_t *>(queue_.ring + position);
        fetch(ring, std::min<size_t>(available, longest_header));
        Packet packet;
        std::string error = decode(generation_, packet_.data(), available, packet);
        if (error.empty() && packet.op == Op::write)
            fetch(ring, packet.dwords);
        if (error.empty() && ++packets_ == stall_at_) {
            complain("fault stall: %s stops at its packet %" PRId64, name().c_str(), packets_);
            return false;
        }
        if (own_)
            maybe_die();
        if (error.empty()) {
            bool early = chaos_.on() && chaos_.one_in(4);
            if (early)
                publish_read_pointer(packet.dwords * 4);
            error = executor_.execute(packet, packet_.data());
            if (packet.op == Op::poll && bell_.stopped())
                return true; // to be polled again if the queue comes back
        }
        if (!error.empty()) {
            refuse(error);
            return false;
        }
        record(packet);
        fetched_ += uint64_t{packet.dwords} * 4;
        if (!chaos_.on() || chaos_.one_in(4))
            publish_read_pointer();
        return true;
    }

    void fetch(const uint32_t *ring, size_t dwords) {
        packet_.resize(dwords);
        for (size_t i = 0; i < dwords; i++)
            packet_[i] = __atomic_load_n(ring + i, __ATOMIC_RELAXED);
    }

    // Consumed, which says nothing about the bytes moved. Under chaos it lags, and runs ahead of them.
    void publish_read_pointer(uint64_t ahead = 0) {
        __atomic_store_n(queue_.read_pointer, fetched_ + ahead, __ATOMIC_RELEASE);
    }

    static constexpr size_t longest_header = 16; // dwords, more than any packet has without payload

    std::string name() const {
        return "gpu=" + std::to_string(queue_.gpu) + " engine=" + std::to_string(queue_.engine) +
               " queue=" + std::to_string(queue_.queue_id);
    }

    void record(const Packet &packet) {
        Counts &all = counts();
        all.packets[static_cast<size_t>(packet.op)]++;
        bool moves = packet.op == Op::copy || packet.op == Op::copy_rect || packet.op == Op::write;
        uint64_t bytes = moves ? packet.bytes : 0;
        all.copied_bytes += bytes;
        if (own_) {
            all.own_copied_bytes += bytes;
            all.own_copy += packet.op == Op::copy;
            all.own_fence += packet.op == Op::fence;
            all.own_atomic += packet.op == Op::atomic;
        }
        if (tracing())
            trace(name() + (own_ ? "" : " rocr") + " offset=" + std::to_string(fetched_) + " " + describe(packet));
    }

    void refuse(const std::string &why) {
        counts().refused++;
        std::string dwords;
        for (size_t i = 0; i < packet_.size() && i < 8; i++) {
            char text[12];
            snprintf(text, sizeof text, " %08x", packet_[i]);
            dwords += text;
        }
        complain("%s offset=%" PRIu64 " (ring offset 0x%" PRIx64 "): %s; dwords%s; the queue hangs", name().c_str(),
                 fetched_, fetched_ & (queue_.bytes - 1), why.c_str(), dwords.c_str());
    }
};

} // namespace

std::unique_ptr<Worker> start_sdma(const Sdma_queue &queue) { return std::make_unique<Sdma_worker>(queue); }

} // namespace simnode
