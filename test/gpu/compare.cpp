// SPDX-License-Identifier: BSD-3-Clause
//
// Ours, NCCL and the bare copy engine on the same buffers in the same run.
//   mpirun -np N compare [sizes=1,1024,...] [rounds=5] [target=20000 us per round] [only=NAME,...]
//                        [collectives=alltoall,allgather] [json=FILE] [gemm=BYTES PER PEER] [workgroups=N]
// Each size is run in rounds, each round by every way in turn; what is printed is the median of the
// rounds, and for our ways, in brackets, who the counters say has moved the bytes. Before it is timed, each way's
// result is checked at the ends and in the middle of each block.
#include "compare.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include <mpi.h>

namespace {

using Clock = std::chrono::steady_clock;
using Options = std::map<std::string, std::string>;

std::vector<std::string> split(const std::string &text) {
    std::vector<std::string> parts;
    std::istringstream list(text);
    for (std::string part; std::getline(list, part, ',');)
        parts.push_back(part);
    return parts;
}

std::string option(const Options &options, const char *name, const char *otherwise) {
    const auto found = options.find(name);
    return found == options.end() ? otherwise : found->second;
}

double largest_of_all(double mine) {
    double all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t half = values.size() / 2;
    return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// ---- correctness: samples, every byte is sdma_bench -c's work ----------------------------------------------

char pattern(int from, int to, size_t at) { return static_cast<char>(from * 31 + to * 17 + at % 251 + 1); }

std::vector<size_t> samples(size_t block) {
    std::vector<size_t> at{0, block / 2, block - 1};
    for (size_t i = 1; i < 8 && i < block; i++)
        at.insert(at.end(), {i, block - 1 - i});
    return at;
}

void put(char *device, char value) { must(cudaMemcpy(device, &value, 1, cudaMemcpyDefault), "cudaMemcpy"); }

void check_result(const Job &job, Way &way, Collective collective, size_t block) {
    const int sent = collective == Collective::alltoall ? job.size : 1;
    must(cudaMemset(way.recv(), 0, block * static_cast<size_t>(job.size)), "cudaMemset");
    for (int to = 0; to < sent; to++)
        for (size_t at : samples(block))
            put(way.send() + static_cast<size_t>(to) * block + at, pattern(job.rank, to, at));
    must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    MPI_Barrier(MPI_COMM_WORLD);
    way.start(collective, block);
    way.finish();
    MPI_Barrier(MPI_COMM_WORLD); // the bare copy engine says nothing about the peers' copies
    for (int from = 0; from < job.size; from++)
        for (size_t at : samples(block)) {
            char got = 0;
            must(cudaMemcpy(&got, way.recv() + static_cast<size_t>(from) * block + at, 1, cudaMemcpyDefault),
                 "cudaMemcpy");
            if (got != pattern(from, collective == Collective::alltoall ? job.rank : 0, at))
                give_up(way.name() + ": wrong byte " + std::to_string(at) + " of the block of rank " +
                        std::to_string(from) + ", " + std::to_string(block) + " bytes per peer");
        }
}

// ---- time ------------------------------------------------------------------------------------------------

// Microseconds per call of the slowest rank.
double time_calls(Way &way, Collective collective, size_t block, int calls) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto start = Clock::now();
    for (int i = 0; i < calls; i++)
        way.start(collective, block);
    way.finish();
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    return largest_of_all(us) / calls;
}

struct Row {
    std::string collective, way;
    size_t block;
    std::string path;
    std::vector<double> us;
};

double bus_bandwidth(const Job &job, const Row &row) {
    return static_cast<double>(row.block) * (job.size - 1) / median(row.us) * 1e-3;
}

void measure(const Job &job, std::vector<std::unique_ptr<Way>> &ways, Collective collective, size_t block, int rounds,
             double target_us, std::vector<Row> &rows) {
    struct Entry {
        Way *way;
        int calls;
        Row row;
    };
    std::vector<Entry> entries;
    const char *collective_name = collective == Collective::alltoall ? "alltoall" : "allgather";
    for (const auto &way : ways) {
        if (!way->prepare(collective, block))
            continue;
        check_result(job, *way, collective, block);
        way->path();
        time_calls(*way, collective, block, 3);
        const double us = time_calls(*way, collective, block, 3);
        const int calls = std::clamp(static_cast<int>(target_us / us), 3, 2000);
        entries.push_back({way.get(), calls, {collective_name, way->name(), block, {}, {}}});
    }
    for (int round = 0; round < rounds; round++)
        for (Entry &entry : entries) {
            entry.way->prepare(collective, block);
            time_calls(*entry.way, collective, block, 1);
            entry.row.us.push_back(time_calls(*entry.way, collective, block, entry.calls));
        }
    for (Entry &entry : entries) {
        entry.row.path = entry.way->path();
        const std::string moved = entry.row.path.empty() ? "" : "[" + entry.row.path + "]";
        if (job.rank == 0)
            std::printf(" %s%s %.2f us %.1f", entry.row.way.c_str(), moved.c_str(), median(entry.row.us),
                        bus_bandwidth(job, entry.row));
        rows.push_back(std::move(entry.row));
    }
    if (job.rank == 0) {
        std::printf("\n");
        std::fflush(stdout);
    }
}

// ---- beside a GEMM --------------------------------------------------------------------------------------

struct Beside {
    std::string way;
    std::vector<double> alone, gemm, call; // us per product alone and beside, us per call
};

constexpr int products = 20;

// Enough calls to last beyond the last product.
int calls_beside(const Job &job, Way &way, Gemm &gemm, size_t block) {
    way.prepare(Collective::alltoall, block);
    check_result(job, way, Collective::alltoall, block);
    const double call_us = time_calls(way, Collective::alltoall, block, 10);
    way.path();
    gemm.start(products);
    const double product_us = largest_of_all(gemm.finish());
    return static_cast<int>(1.3 * products * product_us / call_us) + 2;
}

void measure_pair(Way &way, Gemm &gemm, size_t block, int calls, Beside &result) {
    way.prepare(Collective::alltoall, block);
    MPI_Barrier(MPI_COMM_WORLD);
    gemm.start(products);
    result.alone.push_back(largest_of_all(gemm.finish()));
    MPI_Barrier(MPI_COMM_WORLD);
    way.start(Collective::alltoall, block); // running when the product begins
    gemm.start(products);
    const auto start = Clock::now();
    for (int i = 0; i < calls; i++)
        way.start(Collective::alltoall, block);
    way.finish();
    result.call.push_back(
        largest_of_all(std::chrono::duration<double, std::micro>(Clock::now() - start).count() / calls));
    result.gemm.push_back(largest_of_all(gemm.finish()));
    way.path();
}

// In turns: a GPU that has become warm is slower, alone as well.
std::vector<Beside> measure_beside(const Job &job, const std::vector<std::unique_ptr<Way>> &ways, size_t block,
                                   int rounds) {
    Gemm gemm;
    std::vector<Beside> all;
    std::vector<int> calls;
    for (const auto &way : ways) {
        all.push_back({way->name(), {}, {}, {}});
        calls.push_back(calls_beside(job, *way, gemm, block));
    }
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < ways.size(); i++)
            measure_pair(*ways[i], gemm, block, calls[i], all[i]);
    return all;
}

// ---- JSON ----------------------------------------------------------------------------------------------

std::string list(const std::vector<double> &values) {
    std::string text;
    for (double value : values)
        text += (text.empty() ? "[" : ", ") + std::to_string(value);
    return text + "]";
}

void write_json(const std::string &path, const Job &job, const std::vector<Row> &rows,
                const std::vector<Beside> &beside) {
    cudaDeviceProp properties;
    must(cudaGetDeviceProperties(&properties, job.device), "cudaGetDeviceProperties");
    int driver = 0;
    cudaDriverGetVersion(&driver);
    std::ofstream out(path);
    out << "{\n  \"gpu\": \"" << properties.name << "\", \"gpus\": " << job.devices << ", \"ranks\": " << job.size
        << ", \"cuda\": " << driver << ", \"nccl\": \"" << nccl_version() << "\",\n  \"rows\": [";
    const char *comma = "\n";
    for (const Row &row : rows) {
        out << comma << "    {\"collective\": \"" << row.collective << "\", \"way\": \"" << row.way
            << "\", \"path\": \"" << row.path << "\", \"bytes\": " << row.block << ", \"us\": " << median(row.us)
            << ", \"bus_gbps\": " << bus_bandwidth(job, row) << ", \"rounds_us\": " << list(row.us) << "}";
        comma = ",\n";
    }
    out << "\n  ],\n  \"gemm\": [";
    comma = "\n";
    for (const Beside &entry : beside) {
        out << comma << "    {\"way\": \"" << entry.way << "\", \"alone_us\": " << list(entry.alone)
            << ", \"beside_us\": " << list(entry.gemm) << ", \"call_us\": " << list(entry.call) << "}";
        comma = ",\n";
    }
    out << "\n  ]\n}\n";
}

Job start(int argc, char **argv) {
    // A communicator decides at its first collective whether GPUs are in play: CUDA comes first.
    const char *local = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    Job job;
    must(cudaGetDeviceCount(&job.devices), "cudaGetDeviceCount");
    job.device = (local ? std::atoi(local) : 0) % job.devices;
    must(cudaSetDevice(job.device), "cudaSetDevice");
    must(cudaFree(nullptr), "cudaFree");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.size);
    return job;
}

} // namespace

int main(int argc, char **argv) {
    Options options;
    for (int i = 1; i < argc; i++) {
        const std::string argument = argv[i];
        options[argument.substr(0, argument.find('='))] = argument.substr(argument.find('=') + 1);
    }
    const Job job = start(argc, argv);
    {
        std::vector<size_t> sizes;
        for (const std::string &size : split(option(options, "sizes", "16,1024,4096,65536,1048576,16777216")))
            sizes.push_back(std::stoull(size));
        const size_t gemm_block = std::stoull(option(options, "gemm", "0"));
        const size_t largest = std::max(*std::max_element(sizes.begin(), sizes.end()), gemm_block);
        const int rounds = std::stoi(option(options, "rounds", "5"));
        const double target = std::stod(option(options, "target", "20000"));
        const std::vector<std::string> only = split(option(options, "only", ""));

        Buffers buffers(job, largest);
        std::vector<std::unique_ptr<Way>> ways;
        const auto wanted = [&](const std::string &name) {
            return only.empty() || std::find(only.begin(), only.end(), name) != only.end();
        };
        const std::string all = std::to_string(size_t{1} << 40);
        const auto loadstore_max = [](const std::string &most) {
            return "loadstore_max_alltoall=" + most + ",loadstore_max_allgather=" + most;
        };
        const std::string workgroups = option(options, "workgroups", "");
        const std::string at_most = workgroups.empty() ? "" : ",loadstore_workgroups=" + workgroups;
        const struct {
            const char *name;
            std::string parameters;
            const char *path;
            size_t most;
        } ours[] = {{"auto", "", "", ~size_t{0}},
                    {"resident", "launch=resident", "", ~size_t{0}},
                    {"engine", "initiator=gpu," + loadstore_max("0"), "engine", ~size_t{0}},
                    {"engine-resident", "initiator=gpu,launch=resident," + loadstore_max("0"), "engine", ~size_t{0}},
                    {"host", "initiator=host", "host", ~size_t{0}},
                    {"loadstore", loadstore_max(all) + at_most, "loadstore", size_t{64} << 20},
                    {"loadstore-1", loadstore_max(all) + ",loadstore_workgroups=1", "loadstore", size_t{1} << 20}};
        for (const auto &[name, parameters, path, most] : ours)
            if (wanted(name))
                ways.push_back(make_ours(name, parameters, path, most, buffers));
        if (wanted("copy-engine"))
            ways.push_back(make_copy_engine(job, buffers));
        for (const char *kind : {"", "-blocking", "-1cta", "-ce"})
            if (wanted(std::string("nccl") + kind))
                if (auto way = make_nccl(job, kind, largest, buffers))
                    ways.push_back(std::move(way));

        if (job.rank == 0)
            std::printf("%d ranks on %d GPUs, NCCL %s; per way: median us per call, bus GB/s\n", job.size, job.devices,
                        nccl_version().c_str());
        std::vector<Row> rows;
        for (const std::string &name : split(option(options, "collectives", "alltoall,allgather")))
            for (size_t block : sizes) {
                if (job.rank == 0)
                    std::printf("%s %zu:", name.c_str(), block);
                measure(job, ways, name == "alltoall" ? Collective::alltoall : Collective::allgather, block, rounds,
                        target, rows);
            }
        std::vector<Beside> beside;
        if (gemm_block && Gemm::built()) {
            beside = measure_beside(job, ways, gemm_block, std::max(rounds, 5));
            for (const Beside &entry : beside) {
                std::vector<double> slower;
                for (size_t i = 0; i < entry.alone.size(); i++)
                    slower.push_back(100 * (entry.gemm[i] / entry.alone[i] - 1));
                if (job.rank == 0)
                    std::printf("gemm beside %s: %.1f us alone, %.1f us beside (%+.2f %%), %.1f us per call\n",
                                entry.way.c_str(), median(entry.alone), median(entry.gemm), median(slower),
                                median(entry.call));
            }
        }
        const std::string json = option(options, "json", "");
        if (job.rank == 0 && !json.empty())
            write_json(json, job, rows, beside);
        ways.clear();
    }
    MPI_Finalize();
    return 0;
}
