// SPDX-License-Identifier: BSD-3-Clause
//
// sdma_bench: time, bandwidth and correctness of the operations that mpi-sdma serves, with OSU's
// letters and columns.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>

#include <mpi.h>

#include "bench.hpp"

namespace tools {

void die(const std::string &message) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::fprintf(stderr, "sdma_bench: rank %d: %s\n", rank, message.c_str());
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    std::abort();
}

} // namespace tools

namespace {

constexpr tools::Verb verbs[] = {
    {"alltoall", "MPI_Alltoall, size = bytes per peer", tools::run_alltoall, tools::check_collective},
    {"allgather", "MPI_Allgather, size = bytes per rank", tools::run_allgather, tools::check_collective},
    {"put_bw", "MPI_Put from rank 0 to rank 1, bandwidth", tools::run_put_bw, tools::check_onesided},
    {"put_bibw", "MPI_Put both ways at once, bandwidth", tools::run_put_bibw, tools::check_onesided},
    {"put_lat", "one MPI_Put and its synchronisation", tools::run_put_lat, tools::check_onesided},
    {"get_bw", "MPI_Get by rank 0 from rank 1, bandwidth", tools::run_get_bw, tools::check_onesided},
    {"get_lat", "one MPI_Get and its synchronisation", tools::run_get_lat, tools::check_onesided},
};

const tools::Verb *find_verb(const std::string &name) {
    for (const tools::Verb &verb : verbs)
        if (name == verb.name)
            return &verb;
    return nullptr;
}

void print_help() {
    std::puts("usage: mpirun ... sdma_bench OPERATION [options] [D|H D|H]\n\noperations:");
    for (const tools::Verb &verb : verbs)
        std::printf("  %-14s%s\n", verb.name, verb.help);
    std::puts("\noptions:\n"
              "  -d MEMORY     rocm, cuda or host (default host)\n"
              "  -m MIN:MAX    sizes, doubling; K, M and G are understood (default 1:1M)\n"
              "  -i N          timed iterations (default 1000, above 8 KiB 100)\n"
              "  -x N          warm-up iterations (default 200, above 8 KiB 10)\n"
              "  -c            check every byte of every iteration\n"
              "  -f            also minimum and maximum over the ranks, iterations, counters\n"
              "one-sided operations, between two ranks:\n"
              "  D|H D|H       where the origin's buffer and the window are: memory of -d, or host memory\n"
              "  -w KIND       create (default), allocate or dynamic\n"
              "  -s SYNC       flush (default), fence, pscw, lock, lock_all or flush_local\n"
              "  -W N          operations before each synchronisation of a bandwidth (default 64)\n"
              "collectives:\n"
              "  --ab          switch coll/sdma off and on in turns; print both and the ratio\n"
              "\n  -h, --help    this text");
}

// By rank 0 of the job, however that was started.
int help_once(int argc, char **argv) {
    int rank = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        print_help();
    MPI_Finalize();
    return EXIT_SUCCESS;
}

// Lets the lowest rank that has something to complain about say so, once for the job.
bool any_error(const std::string &error) {
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int mine = error.empty() ? size : rank;
    int lowest = size;
    MPI_Allreduce(&mine, &lowest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (lowest == rank)
        std::fprintf(stderr, "sdma_bench: %s\n", error.c_str());
    return lowest < size;
}

// The ranks of a node share out its devices in turn.
std::string select_device(tools::Device_memory &memory) {
    MPI_Comm node;
    int local_rank = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &local_rank);
    MPI_Comm_free(&node);
    return memory.select(local_rank % memory.devices()) ? std::string() : memory.error();
}

} // namespace

int main(int argc, char **argv) {
    tools::Options options;
    std::string error = tools::parse(argc, argv, options);
    if (error.empty() && options.help)
        return help_once(argc, argv);
    const tools::Verb *verb = find_verb(options.verb);
    if (error.empty() && !verb)
        error = options.verb + ": no such operation; --help lists them";
    else if (error.empty())
        error = verb->check(options);
    std::unique_ptr<tools::Device_memory> memory;
    if (error.empty())
        memory = tools::Device_memory::open(options.memory, error);

    MPI_Init(&argc, &argv);
    int status = EXIT_FAILURE;
    if (!any_error(error) && !any_error(select_device(*memory)))
        try {
            status = verb->run(options, *memory);
        } catch (const std::bad_alloc &) {
            tools::die("no host memory for the copies that -c compares; a smaller -m or -W needs less");
        }
    MPI_Finalize();
    return status;
}
