// SPDX-License-Identifier: BSD-3-Clause
//
// An AQL queue as the packet processor sees it: HSA Platform System Architecture 1.2, section 2.9.
// Packets are launched and completed in order, which every program has to bear.
#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <hsa/amd_hsa_signal.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include "amd_kernels.hpp"
#include "code_object.hpp"
#include "executor.hpp"
#include "idle.hpp"
#include "report.hpp"
#include "test/simnode/simnode.hpp"
#include "twin_runner.hpp"

namespace simnode {
namespace {

constexpr uint64_t packet_bytes = 64;
constexpr uint8_t vendor_pm4_ib = 1; // ROCr's internal packet format: a buffer of PM4 commands

template <typename T> T view(const std::array<uint32_t, 16> &dwords) {
    static_assert(sizeof(T) == packet_bytes);
    T packet;
    memcpy(&packet, dwords.data(), sizeof packet);
    return packet;
}

class Aql_worker : public Worker {
public:
    explicit Aql_worker(const Aql_queue &queue)
        : queue_(queue), bell_(queue.doorbell), chaos_(uint64_t{1} << 48 | uint64_t{queue.gpu} << 32 | queue.queue_id) {
        index_ = __atomic_load_n(queue_.read_pointer, __ATOMIC_ACQUIRE);
        thread_ = std::thread([this] { run(); });
    }
    ~Aql_worker() override { stop(); }

    void end() override {
        stop();
        if (bell_.read() == rung_ && index_ > unrung_)
            complain("%s aql packet %" PRIu64 ": nobody has rung for it; hardware would not have seen it",
                     name().c_str(), unrung_);
    }

private:
    Aql_queue queue_;
    Bell bell_;
    Chaos chaos_;
    uint64_t index_ = 0; // next packet
    // The ring seen last, and the first packet beyond it that was not there then. Each is rung for once, and when it is
    // there: as long as the doorbell stays so, nobody has rung for that one. For a packet that was there a ring may
    // have come and been replaced by an earlier packet's, which nobody can tell from none.
    uint64_t rung_ = ~uint64_t{0}, unrung_ = ~uint64_t{0};
    std::array<uint32_t, 16> packet_{};
    std::thread thread_;

    uint16_t header() const { return static_cast<uint16_t>(packet_[0]); }

    void run() {
        while (!bell_.stopped()) {
            uint64_t last = bell_.read();
            look_ahead(last);
            if (!due(last)) {
                bell_.wait(last);
                continue;
            }
            counts().doorbells++;
            while (due(last) && !bell_.stopped())
                if (!step())
                    return bell_.wait_stopped();
        }
    }

    // Several producers ring in any order and each once: the last ring may be for an earlier packet than a ring that it
    // replaced. So a packet is due, too, if it is valid by the time anybody has rung. All ones = never rung.
    bool due(uint64_t last) const {
        if (static_cast<int64_t>(last - index_) >= 0)
            return true;
        return last != ~uint64_t{0} && valid(index_);
    }

    void look_ahead(uint64_t last) {
        if (last == rung_)
            return;
        rung_ = last;
        unrung_ = std::max(index_, last + 1);
        while (unrung_ - index_ < queue_.bytes / packet_bytes && valid(unrung_))
            unrung_++;
    }

    uint8_t *slot(uint64_t index) const { return queue_.ring + index * packet_bytes % queue_.bytes; }
    bool valid(uint64_t index) const {
        const auto *header = reinterpret_cast<const uint16_t *>(slot(index));
        return (__atomic_load_n(header, __ATOMIC_ACQUIRE) & 0xff) != HSA_PACKET_TYPE_INVALID;
    }

    void stop() {
        bell_.stop();
        if (thread_.joinable())
            thread_.join();
    }

    // False: the queue hangs, or is being stopped.
    bool step() {
        uint32_t *dwords = reinterpret_cast<uint32_t *>(slot(index_));
        Backoff backoff;
        // The header is stored last; until then the slot is INVALID even if a later one was rung.
        while (packet_[0] = __atomic_load_n(dwords, __ATOMIC_ACQUIRE), type() == HSA_PACKET_TYPE_INVALID) {
            if (bell_.stopped())
                return false;
            backoff.pause();
        }
        for (unsigned i = 1; i < packet_.size(); i++)
            packet_[i] = __atomic_load_n(dwords + i, __ATOMIC_RELAXED);
        if (chaos_.on())
            chaos_.delay();
        uint64_t begin = gpu_clock();
        std::string error = execute();
        if (bell_.stopped())
            return false;
        if (!error.empty()) {
            refuse(error);
            return false;
        }
        __atomic_store_n(reinterpret_cast<uint16_t *>(dwords), uint16_t{HSA_PACKET_TYPE_INVALID}, __ATOMIC_RELEASE);
        __atomic_store_n(queue_.read_pointer, ++index_, __ATOMIC_RELEASE);
        if (chaos_.on())
            chaos_.delay();
        complete(begin);
        return true;
    }

    unsigned type() const { return header() & 0xff; }

    std::string execute() {
        if (header() >> 13)
            return "reserved header bits set";
        switch (type()) {
        case HSA_PACKET_TYPE_VENDOR_SPECIFIC:
            counts().vendor++;
            return vendor();
        case HSA_PACKET_TYPE_KERNEL_DISPATCH:
            counts().dispatches++;
            return dispatch(view<hsa_kernel_dispatch_packet_t>(packet_));
        case HSA_PACKET_TYPE_BARRIER_AND:
        case HSA_PACKET_TYPE_BARRIER_OR:
            counts().barriers++;
            return barrier(view<hsa_barrier_and_packet_t>(packet_), type() == HSA_PACKET_TYPE_BARRIER_AND);
        default:
            return "packet type " + std::to_string(type());
        }
    }

    std::string barrier(const hsa_barrier_and_packet_t &packet, bool all) {
        record(all ? "BARRIER_AND" : "BARRIER_OR");
        for (auto &signal : packet.dep_signal)
            if (signal.handle && !accessible(queue_.gpu, signal.handle, sizeof(amd_signal_t)))
                return "dependent signal is not accessible to the gpu";
        auto satisfied = [&] {
            bool any = false, every = true, some = false;
            for (auto &signal : packet.dep_signal) {
                if (!signal.handle)
                    continue;
                bool zero = load_signal(signal.handle) == 0;
                any = true;
                every = every && zero;
                some = some || zero;
            }
            return all ? every : some || !any;
        };
        wait(satisfied);
        return "";
    }

    std::string vendor() {
        auto packet = view<hsa_amd_barrier_value_packet_t>(packet_);
        if (packet.header.AmdFormat == vendor_pm4_ib) {
            // Cache control and the like: nothing that a coherent node has to do.
            record("PM4_IB");
            return "";
        }
        if (packet.header.AmdFormat != HSA_AMD_PACKET_TYPE_BARRIER_VALUE)
            return "vendor packet format " + std::to_string(packet.header.AmdFormat);
        record("BARRIER_VALUE");
        uint64_t signal = packet.signal.handle;
        if (!signal)
            return "";
        if (!accessible(queue_.gpu, signal, sizeof(amd_signal_t)))
            return "dependent signal is not accessible to the gpu";
        wait([&] {
            int64_t value = load_signal(signal) & packet.mask;
            switch (packet.cond) {
            case HSA_SIGNAL_CONDITION_EQ:
                return value == packet.value;
            case HSA_SIGNAL_CONDITION_NE:
                return value != packet.value;
            case HSA_SIGNAL_CONDITION_LT:
                return value < packet.value;
            default:
                return value >= packet.value;
            }
        });
        return "";
    }

    std::string dispatch(const hsa_kernel_dispatch_packet_t &packet) {
        uint64_t grid[3] = {packet.grid_size_x, packet.grid_size_y, packet.grid_size_z};
        uint64_t group[3] = {packet.workgroup_size_x, packet.workgroup_size_y, packet.workgroup_size_z};
        uint64_t lanes = group[0] * group[1] * group[2];
        if (grid[0] * grid[1] * grid[2] == 0 || lanes == 0 || lanes > 1024)
            return "grid or workgroup size out of range";
        auto kernarg = reinterpret_cast<uintptr_t>(packet.kernarg_address);
        if (kernarg && !accessible(queue_.gpu, kernarg, 8))
            return "kernel arguments are not accessible to the gpu";
        Dispatch launch{queue_.gpu, {grid[0], grid[1], grid[2]}, reinterpret_cast<const uint8_t *>(kernarg), [this] {
                            return bell_.stopped();
                        }};
        std::string error;
        if (Served served = run_rocr_kernel(packet.kernel_object, launch, error); served != Served::unknown) {
            record("DISPATCH rocr blit");
            return served == Served::yes ? "" : give_up(error);
        }
        Kernel kernel;
        error = find_kernel(queue_.gpu, packet.kernel_object, kernel);
        if (!error.empty())
            return give_up(error);
        record("DISPATCH " + kernel.name + " grid=" + std::to_string(grid[0]) + "x" + std::to_string(grid[1]) + "x" +
               std::to_string(grid[2]));
        if (Served served = run_hip_kernel(kernel, launch, error); served != Served::unknown)
            return served == Served::yes ? "" : give_up(error);
        return run_own(kernel, packet);
    }

    std::string run_own(const Kernel &kernel, const hsa_kernel_dispatch_packet_t &packet) {
        Twin twin = find_twin(kernel.name);
        if (!twin)
            return give_up("unknown kernel " + kernel.name + ": no host twin");
        if (packet.grid_size_y != 1 || packet.grid_size_z != 1)
            return give_up("kernel " + kernel.name + ": twins have one dimension");
        maybe_die();
        run_twin(queue_.gpu, twin, packet.kernarg_address, packet.grid_size_x, packet.workgroup_size_x, chaos_,
                 [this] { return bell_.stopped(); });
        return "";
    }

    template <typename Condition> void wait(Condition satisfied) {
        for (Backoff backoff; !satisfied() && !bell_.stopped();)
            backoff.pause();
    }

    static int64_t load_signal(uint64_t handle) {
        auto *signal = reinterpret_cast<amd_signal_t *>(static_cast<uintptr_t>(handle));
        return __atomic_load_n(const_cast<int64_t *>(&signal->value), __ATOMIC_ACQUIRE);
    }

    void complete(uint64_t begin) {
        uint64_t handle = uint64_t{packet_[14]} | uint64_t{packet_[15]} << 32;
        if (!handle)
            return;
        if (!accessible(queue_.gpu, handle, sizeof(amd_signal_t)))
            return refuse("completion signal is not accessible to the gpu");
        auto *signal = reinterpret_cast<amd_signal_t *>(static_cast<uintptr_t>(handle));
        __atomic_store_n(&signal->start_ts, begin, __ATOMIC_RELAXED);
        __atomic_store_n(&signal->end_ts, gpu_clock(), __ATOMIC_RELAXED);
        // Not touched after the subtraction: its owner may free it then.
        uint64_t mailbox = signal->event_mailbox_ptr;
        uint32_t event = signal->event_id;
        __atomic_fetch_sub(const_cast<int64_t *>(&signal->value), 1, __ATOMIC_ACQ_REL);
        if (!mailbox)
            return;
        __atomic_store_n(reinterpret_cast<uint64_t *>(static_cast<uintptr_t>(mailbox)), uint64_t{event},
                         __ATOMIC_RELEASE);
        set_event(event);
    }

    std::string name() const {
        return "gpu=" + std::to_string(queue_.gpu) + " queue=" + std::to_string(queue_.queue_id);
    }

    void record(const std::string &what) {
        if (tracing())
            trace(name() + " aql=" + std::to_string(index_) + " " + what);
    }

    void refuse(const std::string &why) {
        counts().refused++;
        complain("%s aql packet %" PRIu64 " (header 0x%04x): %s; the queue hangs", name().c_str(), index_, header(),
                 why.c_str());
    }

    // What no program should go on from: a real node would fault or compute something else.
    [[noreturn]] std::string give_up(const std::string &why) {
        complain("%s aql packet %" PRIu64 ": %s", name().c_str(), index_, why.c_str());
        abort();
    }
};

} // namespace

std::unique_ptr<Worker> start_aql(const Aql_queue &queue) { return std::make_unique<Aql_worker>(queue); }

} // namespace simnode
