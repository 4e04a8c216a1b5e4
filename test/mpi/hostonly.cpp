// SPDX-License-Identifier: BSD-3-Clause
//
// A program without GPU memory: the component must load no GPU library, start no thread and exchange once per
// communicator. Not linked with any GPU runtime.
#include <dirent.h>

#include <fstream>

#include "test/mpi/harness.hpp"

namespace {

int threads() {
    int count = 0;
    if (DIR *tasks = opendir("/proc/self/task")) {
        while (readdir(tasks) != nullptr) {
            ++count;
        }
        closedir(tasks);
    }
    return count - 2; // "." and ".."
}

std::string gpu_library() {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        for (const char *name : {"libamdhip64", "libhsa-runtime64", "libhsakmt", "libcuda.so", "libcudart"}) {
            if (line.find(name) != std::string::npos) {
                return line;
            }
        }
    }
    return "";
}

// Alltoall, allgather and in-place allgather, `rounds` times.
void work(Job &job, MPI_Comm comm, int rounds) {
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    const auto ranks = static_cast<size_t>(size);
    for (int round = 0; round < rounds; ++round) {
        const auto iteration = static_cast<uint64_t>(round);
        const size_t bytes = 1 + static_cast<size_t>(round) * 37 % 5000;
        std::vector<uint8_t> out;
        std::vector<uint8_t> wanted;
        for (int peer = 0; peer < size; ++peer) {
            const auto to = Pattern(rank, peer, iteration).block(bytes);
            const auto from = Pattern(peer, rank, iteration).block(bytes);
            out.insert(out.end(), to.begin(), to.end());
            wanted.insert(wanted.end(), from.begin(), from.end());
        }
        std::vector<uint8_t> in(bytes * ranks);
        const auto count = static_cast<int>(bytes);
        MPI_Alltoall(out.data(), count, MPI_BYTE, in.data(), count, MPI_BYTE, comm);
        job.check(in == wanted, "alltoall of %zu bytes", bytes);
        std::vector<int> rounds_of(ranks, -1);
        MPI_Allgather(&round, 1, MPI_INT, rounds_of.data(), sizeof(int), MPI_BYTE, comm);
        job.check(rounds_of == std::vector<int>(ranks, round), "allgather as bytes in round %d", round);
        std::fill(rounds_of.begin(), rounds_of.end(), -1);
        rounds_of[static_cast<size_t>(rank)] = round;
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, rounds_of.data(), 1, MPI_INT, comm);
        job.check(rounds_of == std::vector<int>(ranks, round), "allgather in round %d", round);
    }
}

} // namespace

int main(int argc, char **argv) {
    Job job(argc, argv);
    const int before = threads();
    const int rounds = 100;
    work(job, MPI_COMM_WORLD, rounds);
    job.check(job.counters.known("exchanges"), "the component's counters are missing");
    job.check(job.counters["exchanges"] == 1, "%llu exchanges instead of one", job.counters["exchanges"]);
    job.check(job.counters["passed"] == 3ULL * rounds, "%llu of %d operations passed on", job.counters["passed"],
              3 * rounds);
    MPI_Comm dup = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    work(job, dup, rounds);
    MPI_Comm_free(&dup);
    job.check(job.counters["exchanges"] == 2, "%llu exchanges instead of two", job.counters["exchanges"]);
    for (const char *name : {"served", "staged", "launches", "attached"}) {
        job.check(job.counters[name] == 0, "%s is %llu", name, job.counters[name]);
    }
    const std::string library = gpu_library();
    job.check(library.empty(), "a GPU library is loaded: %s", library.c_str());
    job.check(threads() == before, "%d threads instead of %d", threads(), before);
    return job.finish("hostonly");
}
