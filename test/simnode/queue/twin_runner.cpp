// SPDX-License-Identifier: BSD-3-Clause
#include "twin_runner.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <numeric>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>

#include "idle.hpp"
#include "kernels/twin.h"
#include "simnode_api.h"
#include "test/simnode/simnode.hpp"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace simnode {
namespace {

constexpr size_t stack_bytes = 64 << 10;
constexpr size_t guard_bytes = 4096;
constexpr size_t most_fibers = 8192; // lanes that wait at the same time

struct Stack_free {
    void operator()(void *stack) const { munmap(stack, guard_bytes + stack_bytes); }
};
using Stack = std::unique_ptr<void, Stack_free>;

Stack make_stack() {
    void *stack = mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) {
        complain("twin kernels: no memory for another lane's stack");
        abort();
    }
    mprotect(stack, guard_bytes, PROT_NONE);
    return Stack(stack);
}

class Runner;

struct Fiber {
    Stack stack;
    ucontext_t context;
    Runner *runner = nullptr;
    sdma_twin_position position{};
    bool finished = false;
#if defined(__SANITIZE_THREAD__)
    void *tsan = nullptr;
#endif
};

class Runner {
public:
    Runner(unsigned gpu, Twin twin, const void *kernarg, uint64_t grid, uint32_t workgroup, Chaos &chaos)
        : gpu_(gpu), twin_(twin), kernarg_(kernarg), grid_(grid), workgroup_(workgroup), chaos_(chaos) {
        constexpr uint64_t shuffled = 1 << 16;
        if (!chaos_.on() || grid > shuffled)
            return;
        order_.resize(grid);
        std::iota(order_.begin(), order_.end(), 0);
        for (uint64_t i = grid; i > 1; i--)
            std::swap(order_[i - 1], order_[chaos_.pick(i)]);
    }

    bool run(const std::function<bool()> &stopped) {
        Backoff backoff(0);
        while (next_ < grid_ || !waiting_.empty()) {
            if (stopped()) {
                drop();
                return false;
            }
            uint64_t started = next_;
            size_t waited = waiting_.size();
            turn();
            // Nobody started or ended: the lanes wait for something outside the kernel.
            if (next_ == started && waiting_.size() == waited)
                backoff.pause();
            else
                backoff.reset();
        }
        return true;
    }

private:
    unsigned gpu_;
    Twin twin_;
    const void *kernarg_;
    uint64_t grid_;
    uint32_t workgroup_;
    Chaos &chaos_;
    std::vector<uint32_t> order_; // of lanes, if not ascending
    uint64_t next_ = 0;           // lane to start
    ucontext_t scheduler_{};
    std::vector<std::unique_ptr<Fiber>> waiting_, spare_;
#if defined(__SANITIZE_THREAD__)
    void *tsan_ = __tsan_get_current_fiber();
#endif

    // Every waiting lane gets a turn, then all lanes that have not begun.
    void turn() {
        if (chaos_.on())
            for (size_t i = waiting_.size(); i > 1; i--)
                std::swap(waiting_[i - 1], waiting_[chaos_.pick(i)]);
        for (auto &fiber : waiting_)
            resume(*fiber);
        while (next_ < grid_ && waiting_.size() < most_fibers) {
            waiting_.push_back(spare_.empty() ? make_fiber() : take_spare());
            start(*waiting_.back());
            resume(*waiting_.back());
        }
        for (size_t i = waiting_.size(); i-- > 0;)
            if (waiting_[i]->finished) {
                spare_.push_back(std::move(waiting_[i]));
                waiting_[i] = std::move(waiting_.back());
                waiting_.pop_back();
            }
    }

    std::unique_ptr<Fiber> make_fiber() {
        auto fiber = std::make_unique<Fiber>();
        fiber->stack = make_stack();
        fiber->runner = this;
        return fiber;
    }
    std::unique_ptr<Fiber> take_spare() {
        auto fiber = std::move(spare_.back());
        spare_.pop_back();
        return fiber;
    }

    void start(Fiber &fiber) {
        fiber.finished = false;
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = static_cast<uint8_t *>(fiber.stack.get()) + guard_bytes;
        fiber.context.uc_stack.ss_size = stack_bytes;
        fiber.context.uc_link = nullptr;
        auto address = reinterpret_cast<uintptr_t>(&fiber);
        makecontext(&fiber.context, reinterpret_cast<void (*)()>(entry), 2, static_cast<unsigned>(address >> 32),
                    static_cast<unsigned>(address));
#if defined(__SANITIZE_THREAD__)
        fiber.tsan = __tsan_create_fiber(0);
#endif
    }

    void resume(Fiber &fiber) {
        sdma_twin_here = &fiber.position;
#if defined(__SANITIZE_THREAD__)
        __tsan_switch_to_fiber(fiber.tsan, 0);
#endif
        swapcontext(&scheduler_, &fiber.context);
        sdma_twin_here = nullptr;
#if defined(__SANITIZE_THREAD__)
        if (fiber.finished)
            __tsan_destroy_fiber(fiber.tsan);
#endif
    }

    void suspend(Fiber &fiber) {
#if defined(__SANITIZE_THREAD__)
        __tsan_switch_to_fiber(tsan_, 0);
#endif
        swapcontext(&fiber.context, &scheduler_);
    }

    // A fiber serves lane after lane: only when one waits does the next lane need another fiber.
    static void entry(unsigned high, unsigned low) {
        auto &fiber = *reinterpret_cast<Fiber *>(static_cast<uintptr_t>(uint64_t{high} << 32 | low));
        fiber.runner->serve(fiber);
    }
    void serve(Fiber &fiber) {
        while (next_ < grid_) {
            place(fiber, order_.empty() ? next_ : order_[next_]);
            next_++;
            twin_(kernarg_);
        }
        fiber.finished = true;
        suspend(fiber);
    }
    void place(Fiber &fiber, uint64_t lane) {
        sdma_twin_position &position = fiber.position;
        position.workgroup = static_cast<uint32_t>(lane / workgroup_);
        position.workgroups = static_cast<uint32_t>((grid_ + workgroup_ - 1) / workgroup_);
        position.lane = static_cast<uint32_t>(lane % workgroup_);
        position.lanes = static_cast<uint32_t>(std::min<uint64_t>(workgroup_, grid_ - lane + position.lane));
        position.context = &fiber;
        position.reaches = [](void *context, uint64_t doorbell) -> int {
            return accessible(static_cast<Fiber *>(context)->runner->gpu_, doorbell, sizeof(uint64_t));
        };
        position.yield = [](void *context) {
            auto &yielding = *static_cast<Fiber *>(context);
            yielding.runner->suspend(yielding);
        };
    }

    void drop() {
#if defined(__SANITIZE_THREAD__)
        for (auto &fiber : waiting_)
            __tsan_destroy_fiber(fiber->tsan);
#endif
        waiting_.clear();
    }
};

template <typename Argument, void (*kernel)(Argument *)> void with(const void *kernarg) {
    Argument *argument;
    memcpy(&argument, kernarg, sizeof argument);
    kernel(argument);
}

} // namespace

Twin find_twin(const std::string &name) {
    static constexpr struct {
        const char *name;
        Twin twin;
    } own[] = {{"sdma_issue_kernel", with<sdma_work, sdma_issue_kernel>},
               {"sdma_copy_kernel", with<sdma_work, sdma_copy_kernel>},
               {"sdma_resident_kernel", with<sdma_mailbox, sdma_resident_kernel>}};
    for (auto &entry : own)
        if (name == entry.name)
            return entry.twin;
    return reinterpret_cast<Twin>(dlsym(RTLD_DEFAULT, ("sdma_twin_" + name).c_str()));
}

bool run_twin(unsigned gpu, Twin twin, const void *kernarg, uint64_t grid, uint32_t workgroup, Chaos &chaos,
              const std::function<bool()> &stopped) {
    return Runner(gpu, twin, kernarg, grid, workgroup, chaos).run(stopped);
}

} // namespace simnode

struct sdma_twin_position *sdma_simnode_position(void) {
    return sdma_twin_here;
}
