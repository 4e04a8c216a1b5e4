// SPDX-License-Identifier: BSD-3-Clause
//
// Ways to end, and children, of a program that has no GPU library of its own: it loads HIP when it runs.
//   mode=dlclose    HIP is closed again, its memory not freed, before MPI_Finalize
//   mode=abort      rank 1 calls MPI_Abort with 7 while the others are in an operation
//   mode=no-finalize   all ranks leave main with code=N, MPI_Finalize is never called
//   mode=exec       a child runs another program in the middle: it inherits no descriptor of ours and all goes on
//   mode=kill       operations until somebody kills a rank; says "running" and the process ids once they are under way
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/mpi/harness.hpp"

namespace {

constexpr size_t block = 200000;

// The three functions that are needed, by hand: linking with HIP would load it at the start.
class Hip {
public:
    Hip() : library_(dlopen("libamdhip64.so.5", RTLD_NOW | RTLD_LOCAL)) {
        if (library_ == nullptr) {
            library_ = dlopen("libamdhip64.so", RTLD_NOW | RTLD_LOCAL);
        }
        if (library_ != nullptr) {
            malloc_ = reinterpret_cast<int (*)(void **, size_t)>(dlsym(library_, "hipMalloc"));
            memcpy_ = reinterpret_cast<int (*)(void *, const void *, size_t, int)>(dlsym(library_, "hipMemcpy"));
            select_ = reinterpret_cast<int (*)(int)>(dlsym(library_, "hipSetDevice"));
        }
    }
    bool good() const { return malloc_ != nullptr && memcpy_ != nullptr && select_ != nullptr; }
    bool select(int device) { return select_(device) == 0; }
    uint8_t *alloc(size_t bytes) {
        void *memory = nullptr;
        return malloc_(&memory, bytes) == 0 ? static_cast<uint8_t *>(memory) : nullptr;
    }
    bool copy(void *to, const void *from, size_t bytes) {
        constexpr int any_direction = 4; // hipMemcpyDefault
        return memcpy_(to, from, bytes, any_direction) == 0;
    }
    void close() { dlclose(library_); }

private:
    void *library_;
    int (*malloc_)(void **, size_t) = nullptr;
    int (*memcpy_)(void *, const void *, size_t, int) = nullptr;
    int (*select_)(int) = nullptr;
};

class Work {
public:
    Work(Job &job, Hip &hip) : job_(job), hip_(hip), ranks_(static_cast<size_t>(job.size)) {
        from_ = hip.alloc(block * ranks_);
        to_ = hip.alloc(block * ranks_);
        job.check(from_ != nullptr && to_ != nullptr, "no device memory");
    }
    void operator()() {
        ++iteration_;
        for (size_t peer = 0; peer < ranks_; ++peer) {
            const auto content = Pattern(job_.rank, static_cast<int>(peer), iteration_).block(block);
            job_.check(hip_.copy(from_ + peer * block, content.data(), block), "hipMemcpy failed");
        }
        const auto served = job_.counters["served"];
        MPI_Alltoall(from_, block, MPI_BYTE, to_, block, MPI_BYTE, MPI_COMM_WORLD);
        job_.check(job_.counters["served"] == served + 1, "operation %" PRIu64 " was not served", iteration_);
        std::vector<uint8_t> got(block);
        for (size_t peer = 0; peer < ranks_; ++peer) {
            job_.check(hip_.copy(got.data(), to_ + peer * block, block), "hipMemcpy failed");
            job_.check(got == Pattern(static_cast<int>(peer), job_.rank, iteration_).block(block),
                       "operation %" PRIu64 ": wrong bytes of rank %zu", iteration_, peer);
        }
    }

private:
    Job &job_;
    Hip &hip_;
    size_t ranks_;
    uint8_t *from_;
    uint8_t *to_;
    uint64_t iteration_ = 0;
};

// What a program started by us finds open.
void run_child(Job &job) {
    int ends[2];
    if (!job.check(pipe(ends) == 0, "no pipe")) {
        return;
    }
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execlp("ls", "ls", "-l", "/proc/self/fd", static_cast<char *>(nullptr));
        _exit(127);
    }
    close(ends[1]);
    std::string listing;
    char piece[512];
    for (ssize_t got = 0; (got = read(ends[0], piece, sizeof(piece))) > 0;) {
        listing.append(piece, static_cast<size_t>(got));
    }
    close(ends[0]);
    int status = -1;
    waitpid(child, &status, 0);
    job.check(status == 0 && listing.find("/proc/") != std::string::npos, "the child ended with %d", status);
    job.check(listing.find("mpi-sdma") == std::string::npos, "the child has descriptors of ours: %s", listing.c_str());
}

} // namespace

int main(int argc, char **argv) {
    Job job(argc, argv);
    const std::string mode = job.option("mode", "");
    Hip hip;
    if (!job.check(hip.good(), "HIP cannot be loaded") || !job.check(hip.select(job.rank), "no GPU %d", job.rank)) {
        return job.finish("ends");
    }
    Work work(job, hip);
    for (int i = 0; i < 5; ++i) {
        work();
    }
    if (mode == "dlclose") {
        hip.close();
    } else if (mode == "exec") {
        for (int i = 0; i < 3; ++i) {
            run_child(job);
            work();
        }
    } else if (mode == "abort") {
        if (job.rank == 1) {
            MPI_Abort(MPI_COMM_WORLD, 7);
        }
        work();
    } else if (mode == "no-finalize") {
        return static_cast<int>(job.number("code", 0));
    } else if (mode == "kill") {
        const int own = getpid();
        std::vector<int> all(static_cast<size_t>(job.size));
        MPI_Gather(&own, 1, MPI_INT, all.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (job.rank == 0) {
            std::printf("running");
            for (const int process : all) {
                std::printf(" %d", process);
            }
            std::printf("\n");
            std::fflush(stdout);
        }
        for (;;) {
            work();
        }
    } else {
        job.check(false, "no such mode: \"%s\"", mode.c_str());
    }
    return job.finish("ends");
}
