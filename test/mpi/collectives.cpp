// SPDX-License-Identifier: BSD-3-Clause
//
// MPI_Alltoall and MPI_Allgather on every kind of buffer, datatype and communicator; every byte is checked, and the
// counters must say who moved it.
//   max=BYTES       largest block (default 16 MiB)
//   memory=device   or host: what "eligible" buffers are made of
//   expect=served   or declined (nothing can be served in this job), or any
//   stages=0        device buffers of declined operations are handed down as they are
//   only=SECTION    one of: sizes slices mixed communicators zero types in_place
#include "test/mpi/ledger.hpp"

namespace {

const Side in_place;

struct Context {
    Job job;
    Ledger ledger;
    Memory memory;
    Context(int argc, char **argv)
        : job(argc, argv), ledger(job),
          memory(job.option("memory", "device") == "host" ? Memory::host : Memory::device) {
        if (memory == Memory::device) {
            Device::get().select(job.rank);
        }
    }
};

// Blocks of `bytes` at offsets that are not aligned, with untouched memory around.
void one_size(Context &c, MPI_Comm comm, size_t bytes, size_t send_at, size_t recv_at, Outcome outcome) {
    int ranks = 0;
    MPI_Comm_size(comm, &ranks);
    const size_t all = bytes * static_cast<size_t>(ranks);
    Buffer from(all + send_at + 64, c.memory);
    Buffer to(all + recv_at + 64, c.memory);
    const int count = static_cast<int>(bytes);
    const Side send{&from, send_at, MPI_BYTE, count};
    const Side recv{&to, recv_at, MPI_BYTE, count};
    for (int again = 0; again < 2; ++again) {
        c.ledger.run(comm, Kind::alltoall, send, recv, outcome);
        c.ledger.run(comm, Kind::allgather, send, recv, outcome);
        c.ledger.run(comm, Kind::allgather, in_place, recv, outcome);
    }
}

void sizes(Context &c) {
    const size_t max = c.job.number("max", 16 << 20);
    for (const size_t bytes : {size_t{1},
                               size_t{2},
                               size_t{3},
                               size_t{4},
                               size_t{7},
                               size_t{8},
                               size_t{63},
                               size_t{64},
                               size_t{100},
                               size_t{1023},
                               size_t{4096},
                               size_t{4097},
                               size_t{65536},
                               size_t{131072 - 1},
                               size_t{131072},
                               size_t{131072 + 1},
                               size_t{1000003},
                               size_t{1} << 20U,
                               (size_t{4} << 20U) - 32,
                               (size_t{4} << 20U) + 5,
                               size_t{16} << 20U}) {
        if (bytes <= max) {
            one_size(c, MPI_COMM_WORLD, bytes, 0, 0, c.ledger.eligible());
            one_size(c, MPI_COMM_WORLD, bytes, bytes % 61 + 1, bytes % 7 + 1, c.ledger.eligible());
        }
    }
}

// Send and receive side are slices of one allocation that lives through all operations.
void slices(Context &c) {
    const auto ranks = static_cast<size_t>(c.job.size);
    const size_t half = ranks * 40000 + 5000;
    Buffer buffer(2 * half, c.memory);
    Random random(1);
    for (int i = 0; i < 30; ++i) {
        const auto bytes = static_cast<int>(random.below(40000) + 1);
        const size_t low = random.below(5000);
        const size_t high = half + random.below(5000);
        const bool swap = random.below(2) == 1;
        c.ledger.run(MPI_COMM_WORLD, random.below(2) == 1 ? Kind::alltoall : Kind::allgather,
                     {&buffer, swap ? high : low, MPI_BYTE, bytes}, {&buffer, swap ? low : high, MPI_BYTE, bytes},
                     c.ledger.eligible());
    }
}

// Some ranks pass host memory, on either side: every rank must decline, and nothing may be wrong.
void mixed(Context &c) {
    for (int turn = 0; turn < 8; ++turn) {
        for (const size_t bytes : {size_t{5}, size_t{70000}, size_t{300001}}) {
            const bool odd = (c.job.rank & 1) != 0;
            const bool from_host = (turn & 1) != 0 && (odd || (turn & 4) != 0);
            const bool to_host = (turn & 2) != 0 && (!odd || (turn & 4) != 0);
            const size_t all = bytes * static_cast<size_t>(c.job.size) + 64;
            Buffer from(all, from_host ? Memory::host : c.memory);
            Buffer to(all, to_host ? Memory::host : c.memory);
            const Side send{&from, 16, MPI_BYTE, static_cast<int>(bytes)};
            const Side recv{&to, 24, MPI_BYTE, static_cast<int>(bytes)};
            const Outcome outcome = (turn & 3) == 0 ? c.ledger.eligible() : c.ledger.refused();
            c.ledger.run(MPI_COMM_WORLD, Kind::alltoall, send, recv, outcome);
            c.ledger.run(MPI_COMM_WORLD, Kind::allgather, send, recv, outcome);
            c.ledger.run(MPI_COMM_WORLD, Kind::allgather, in_place, recv,
                         (turn & 2) == 0 ? c.ledger.eligible() : c.ledger.refused());
        }
    }
}

void communicators(Context &c) {
    MPI_Comm half = MPI_COMM_NULL;
    MPI_Comm reversed = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, c.job.rank & 1, 0, &half);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -c.job.rank, &reversed);
    for (const size_t bytes : {size_t{9}, size_t{200001}}) {
        one_size(c, MPI_COMM_WORLD, bytes, 0, 0, c.ledger.eligible());
        one_size(c, half, bytes, 3, 0, c.ledger.eligible());
        one_size(c, reversed, bytes, 0, 5, c.ledger.eligible());
        one_size(c, MPI_COMM_SELF, bytes, 0, 0, Outcome::any);
    }
    for (int i = 0; i < 10; ++i) {
        MPI_Comm dup = MPI_COMM_NULL;
        MPI_Request request = MPI_REQUEST_NULL;
        if ((i & 1) == 0) {
            MPI_Comm_dup(half, &dup);
        } else {
            MPI_Comm_idup(half, &dup, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        one_size(c, dup, 1000 + static_cast<size_t>(i), 0, 0, c.ledger.eligible());
        MPI_Comm_free(&dup);
    }
    one_size(c, half, 150000, 0, 0, c.ledger.eligible());
    MPI_Comm_free(&reversed);
    MPI_Comm_free(&half);
}

void zero(Context &c) {
    MPI_Datatype nothing = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(0, MPI_INT, &nothing);
    MPI_Type_commit(&nothing);
    Buffer from(64, c.memory);
    Buffer to(64, c.memory);
    for (int i = 0; i < 5; ++i) {
        for (const Kind kind : {Kind::alltoall, Kind::allgather}) {
            c.ledger.run(MPI_COMM_WORLD, kind, {&from, 8, MPI_INT, 0}, {&to, 8, MPI_INT, 0}, Outcome::any);
            c.ledger.run(MPI_COMM_WORLD, kind, {&from, 8, nothing, 3}, {&to, 8, nothing, 3}, Outcome::any);
        }
    }
    MPI_Type_free(&nothing);
    one_size(c, MPI_COMM_WORLD, 12345, 0, 0, c.ledger.eligible());
}

struct Type {
    explicit Type(MPI_Datatype made) : type(made) { MPI_Type_commit(&type); }
    ~Type() { MPI_Type_free(&type); }
    Type(const Type &) = delete;
    Type &operator=(const Type &) = delete;
    MPI_Datatype type;
};

void one_type(Context &c, MPI_Datatype from_type, int from_count, MPI_Datatype to_type, int to_count, size_t bytes,
              bool served) {
    Buffer from(bytes, c.memory);
    Buffer to(bytes, c.memory);
    const Side send{&from, 32, from_type, from_count};
    const Side recv{&to, 48, to_type, to_count};
    const Outcome outcome = served ? c.ledger.eligible() : c.ledger.refused();
    for (const Kind kind : {Kind::alltoall, Kind::allgather}) {
        c.ledger.run(MPI_COMM_WORLD, kind, send, recv, outcome);
    }
    if (from_type == to_type) {
        c.ledger.run(MPI_COMM_WORLD, Kind::allgather, in_place, recv, outcome);
    }
}

void types(Context &c) {
    const auto ranks = static_cast<size_t>(c.job.size);
    MPI_Datatype made = MPI_DATATYPE_NULL;

    MPI_Type_contiguous(10, MPI_DOUBLE, &made);
    const Type doubles(made);
    one_type(c, doubles.type, 700, doubles.type, 700, 80 * 700 * ranks + 200, true);
    one_type(c, doubles.type, 700, MPI_DOUBLE, 7000, 80 * 700 * ranks + 200, true);
    one_type(c, MPI_BYTE, 800, doubles.type, 10, 800 * ranks + 200, true);

    const int one = 1;
    const MPI_Aint displacement = 40;
    MPI_Type_create_hindexed(1, &one, &displacement, MPI_DOUBLE, &made);
    const Type displaced(made);
    one_type(c, displaced.type, 300, displaced.type, 300, 8 * 300 * ranks + 300, true);

    MPI_Type_vector(3, 2, 5, MPI_INT, &made);
    const Type vector(made);
    one_type(c, vector.type, 100, vector.type, 100, 48 * 100 * ranks + 200, false);
    one_type(c, MPI_INT, 600, vector.type, 100, 48 * 100 * ranks + 200, false);
    one_type(c, vector.type, 100, MPI_INT, 600, 48 * 100 * ranks + 200, false);

    MPI_Type_create_resized(MPI_INT, -4, 12, &made);
    const Type padded(made);
    one_type(c, padded.type, 100, padded.type, 100, 12 * 100 * ranks + 200, false);

    // A column of a row-major matrix, resized so that blocks interleave.
    MPI_Type_vector(64, 1, c.job.size, MPI_DOUBLE, &made);
    MPI_Datatype column = made;
    MPI_Type_create_resized(column, 0, sizeof(double), &made);
    MPI_Type_free(&column);
    const Type interleaved(made);
    one_type(c, MPI_DOUBLE, 64, interleaved.type, 1, 64 * ranks * 8 + 200, false);
}

void in_place_alltoall(Context &c) {
    for (const int bytes : {4, 999, 250000}) {
        Buffer buffer(static_cast<size_t>(bytes) * static_cast<size_t>(c.job.size) + 64, c.memory);
        c.ledger.run(MPI_COMM_WORLD, Kind::alltoall, in_place, {&buffer, 24, MPI_BYTE, bytes}, c.ledger.refused());
    }
}

} // namespace

int main(int argc, char **argv) {
    Context context(argc, argv);
    const struct {
        const char *name;
        void (*run)(Context &);
    } sections[] = {{"sizes", sizes},
                    {"slices", slices},
                    {"mixed", mixed},
                    {"communicators", communicators},
                    {"zero", zero},
                    {"types", types},
                    {"in_place", in_place_alltoall}};
    const std::string only = context.job.option("only", "");
    for (const auto &section : sections) {
        if (only.empty() || only == section.name) {
            section.run(context);
        }
    }
    context.job.check(context.ledger.eligible() != Outcome::served || context.job.size == 1 ||
                          context.job.counters["served"] > 0,
                      "nothing was served");
    return context.job.finish("collectives");
}
