// SPDX-License-Identifier: BSD-3-Clause
//
// What an MPI_Put costs on the simulated node, in counts: SDMA packets and doorbells of our queues, kernel launches,
// copies by the GPU runtime, and system calls of the calling thread. One line for each origin memory, size and number
// of puts before a flush, which makes everything count. Rank 0 puts to rank 1; test/counts/puts.py makes the table.
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "test/mpi/buffers.hpp"
#include "test/mpi/harness.hpp"
#include "test/simnode/queue/simnode_api.h"

namespace {

// System calls of this process's first thread, which a parent made by fork() counts through ptrace.
class System_calls {
public:
    // Before threads are started. The parent does not return from here: it ends as this process does.
    System_calls() {
        void *shared = mmap(nullptr, sizeof *count_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        count_ = static_cast<std::atomic<uint64_t> *>(shared);
        const pid_t child = fork();
        if (shared == MAP_FAILED || child < 0) {
            std::perror("system calls cannot be counted");
            std::exit(1);
        }
        if (child > 0) {
            follow(child);
        }
        ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
        raise(SIGSTOP);
    }
    uint64_t count() const { return *count_; }

private:
    // Open MPI's and others' ways to let time pass: how often says how long it took.
    static bool waits(uint64_t number) {
        return number == SYS_sched_yield || number == SYS_poll || number == SYS_epoll_wait || number == SYS_epoll_pwait;
    }
    [[noreturn]] void follow(pid_t child) {
        int status = 0;
        bool entry = true;
        waitpid(child, &status, 0);
        ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
        for (long signal = 0;; signal = 0) {
            ptrace(PTRACE_SYSCALL, child, nullptr, signal);
            if (waitpid(child, &status, 0) < 0 || !WIFSTOPPED(status)) {
                _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
            }
            if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
                signal = WSTOPSIG(status);
                continue;
            }
            user_regs_struct registers{};
            ptrace(PTRACE_GETREGS, child, nullptr, &registers);
            *count_ += entry && !waits(registers.orig_rax) ? 1 : 0;
            entry = !entry;
        }
    }
    std::atomic<uint64_t> *count_ = nullptr;
};

struct Counts {
    uint64_t packets, doorbells, copies, launches, system_calls;

    static Counts now(const Job &job, const System_calls &calls) {
        // Found at run time, as with a real thunk there is none.
        static const auto read =
            reinterpret_cast<decltype(&sdma_simnode_counts)>(dlsym(RTLD_DEFAULT, "sdma_simnode_counts"));
        struct sdma_simnode_counts node {};
        if (read == nullptr) {
            std::fprintf(stderr, "not on the simulated node\n");
            std::exit(1);
        }
        read(&node, sizeof node);
        // Engines may see two doorbells as one; there is one for each batch, which is for one queue here.
        return {node.own_copy + node.own_atomic + node.own_fence, job.counters["put_batches"],
                node.copy - node.own_copy, job.counters["launches"], calls.count()};
    }
};

constexpr int most_puts = 32;
constexpr size_t sizes[] = {8, 65536, 1 << 20};

void measure(const Job &job, const System_calls &calls, MPI_Win window, Memory memory, size_t bytes, int puts) {
    const Buffer buffer(bytes * most_puts, memory);
    const auto batch = [&] {
        for (int i = 0; i < puts; ++i) {
            const size_t at = static_cast<size_t>(i) * bytes;
            MPI_Put(buffer.data() + at, static_cast<int>(bytes), MPI_BYTE, 1, static_cast<MPI_Aint>(at),
                    static_cast<int>(bytes), MPI_BYTE, window);
        }
        MPI_Win_flush(1, window);
    };
    batch(); // attaches, pins, makes queues
    const int times = most_puts / puts;
    const Counts before = Counts::now(job, calls);
    for (int i = 0; i < times; ++i) {
        batch();
    }
    const Counts after = Counts::now(job, calls);
    const auto each = [&](uint64_t Counts::*count) {
        return static_cast<double>(after.*count - before.*count) / most_puts;
    };
    std::printf("%s %zu %d %.3f %.3f %.3f %.3f %.3f\n", memory == Memory::device ? "device" : "host", bytes, puts,
                each(&Counts::packets), each(&Counts::doorbells), each(&Counts::launches), each(&Counts::copies),
                each(&Counts::system_calls));
    std::fflush(stdout);
}

} // namespace

int main(int argc, char **argv) {
    const System_calls calls;
    Job job(argc, argv);
    Device::get().select(job.rank);
    {
        const Buffer memory(most_puts * sizes[2], Memory::device);
        MPI_Win window = MPI_WIN_NULL;
        MPI_Win_create(memory.data(), static_cast<MPI_Aint>(memory.bytes()), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
        MPI_Win_lock_all(0, window);
        for (const Memory origin : {Memory::device, Memory::host}) {
            for (const size_t bytes : sizes) {
                for (const int puts : {1, most_puts}) {
                    if (job.rank == 0) {
                        measure(job, calls, window, origin, bytes, puts);
                    }
                }
            }
        }
        MPI_Win_unlock_all(window);
        MPI_Win_free(&window);
    }
    MPI_Finalize();
    return 0;
}
