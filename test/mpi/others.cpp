// SPDX-License-Identifier: BSD-3-Clause
//
// Every collective that the component leaves alone still has an implementation and gives the right result, on host
// memory: blocking, nonblocking, neighbor, on intra- and inter-communicators.
#include <numeric>

#include "test/mpi/harness.hpp"

namespace {

using Ints = std::vector<int>;

// What each rank sends to each, and receives from each.
Ints outgoing(int rank, int size, int round) {
    Ints values(static_cast<size_t>(size));
    for (int peer = 0; peer < size; ++peer) {
        values[static_cast<size_t>(peer)] = (round * 100 + rank) * 100 + peer;
    }
    return values;
}
Ints incoming(int rank, int size, int round) {
    Ints values(static_cast<size_t>(size));
    for (int peer = 0; peer < size; ++peer) {
        values[static_cast<size_t>(peer)] = (round * 100 + peer) * 100 + rank;
    }
    return values;
}
Ints ranks(int size) {
    Ints values(static_cast<size_t>(size));
    std::iota(values.begin(), values.end(), 0);
    return values;
}

class Others {
public:
    Others(Job &job, MPI_Comm comm) : job_(job), comm_(comm) {
        MPI_Comm_rank(comm, &rank_);
        MPI_Comm_size(comm, &size_);
        ones_.assign(static_cast<size_t>(size_), 1);
        displacements_ = ranks(size_);
    }

    void blocking() {
        const Ints out = outgoing(rank_, size_, 1);
        Ints in(out.size());
        MPI_Barrier(comm_);
        MPI_Alltoallv(out.data(), ones_.data(), displacements_.data(), MPI_INT, in.data(), ones_.data(),
                      displacements_.data(), MPI_INT, comm_);
        expect("alltoallv", in, incoming(rank_, size_, 1));
        const std::vector<MPI_Datatype> types(static_cast<size_t>(size_), MPI_INT);
        Ints bytes = displacements_;
        for (int &byte : bytes) {
            byte *= static_cast<int>(sizeof(int));
        }
        in.assign(in.size(), -1);
        MPI_Alltoallw(out.data(), ones_.data(), bytes.data(), types.data(), in.data(), ones_.data(), bytes.data(),
                      types.data(), comm_);
        expect("alltoallw", in, incoming(rank_, size_, 1));
        MPI_Allgatherv(&rank_, 1, MPI_INT, in.data(), ones_.data(), displacements_.data(), MPI_INT, comm_);
        expect("allgatherv", in, ranks(size_));
        in.assign(in.size(), -1);
        MPI_Gather(&rank_, 1, MPI_INT, in.data(), 1, MPI_INT, 0, comm_);
        expect("gather", in, rank_ == 0 ? ranks(size_) : Ints(in.size(), -1));
        MPI_Gatherv(&rank_, 1, MPI_INT, in.data(), ones_.data(), displacements_.data(), MPI_INT, size_ - 1, comm_);
        expect("gatherv", rank_ == size_ - 1 ? in : ranks(size_), ranks(size_));
        int got = -1;
        MPI_Scatter(displacements_.data(), 1, MPI_INT, &got, 1, MPI_INT, 0, comm_);
        expect("scatter", {got}, {rank_});
        MPI_Scatterv(displacements_.data(), ones_.data(), displacements_.data(), MPI_INT, &got, 1, MPI_INT, 0, comm_);
        expect("scatterv", {got}, {rank_});
        got = rank_ == 0 ? 4711 : 0;
        MPI_Bcast(&got, 1, MPI_INT, 0, comm_);
        expect("bcast", {got}, {4711});
        reductions();
    }

    void nonblocking() {
        const Ints out = outgoing(rank_, size_, 2);
        std::vector<Ints> in(4, Ints(out.size(), -1));
        Ints sum(1, -1);
        int word = rank_ == 0 ? 815 : 0;
        std::vector<MPI_Request> requests(7, MPI_REQUEST_NULL);
        MPI_Ialltoall(out.data(), 1, MPI_INT, in[0].data(), 1, MPI_INT, comm_, &requests[0]);
        MPI_Ialltoallv(out.data(), ones_.data(), displacements_.data(), MPI_INT, in[1].data(), ones_.data(),
                       displacements_.data(), MPI_INT, comm_, &requests[1]);
        MPI_Iallgather(&rank_, 1, MPI_INT, in[2].data(), 1, MPI_INT, comm_, &requests[2]);
        MPI_Ibcast(&word, 1, MPI_INT, 0, comm_, &requests[3]);
        MPI_Iallreduce(&rank_, sum.data(), 1, MPI_INT, MPI_SUM, comm_, &requests[4]);
        MPI_Ibarrier(comm_, &requests[5]);
        MPI_Igather(&rank_, 1, MPI_INT, in[3].data(), 1, MPI_INT, 0, comm_, &requests[6]);
        // A blocking one that is ours, in between.
        Ints all(out.size());
        MPI_Alltoall(out.data(), 1, MPI_INT, all.data(), 1, MPI_INT, comm_);
        for (size_t i = requests.size(); i-- > 0;) {
            MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        }
        expect("alltoall in between", all, incoming(rank_, size_, 2));
        expect("ialltoall", in[0], incoming(rank_, size_, 2));
        expect("ialltoallv", in[1], incoming(rank_, size_, 2));
        expect("iallgather", in[2], ranks(size_));
        expect("ibcast", {word}, {815});
        expect("iallreduce", sum, {size_ * (size_ - 1) / 2});
        expect("igather", in[3], rank_ == 0 ? ranks(size_) : Ints(out.size(), -1));
    }

    // A ring.
    void neighbors() {
        MPI_Comm ring = MPI_COMM_NULL;
        const int periodic = 1;
        MPI_Cart_create(comm_, 1, &size_, &periodic, 0, &ring);
        const int left = (rank_ + size_ - 1) % size_;
        const int right = (rank_ + 1) % size_;
        Ints in(2, -1);
        MPI_Neighbor_allgather(&rank_, 1, MPI_INT, in.data(), 1, MPI_INT, ring);
        expect("neighbor_allgather", in, {left, right});
        const Ints out = {rank_, rank_};
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Ineighbor_alltoall(out.data(), 1, MPI_INT, in.data(), 1, MPI_INT, ring, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        expect("ineighbor_alltoall", in, {left, right});
        MPI_Comm_free(&ring);
    }

    // Even and odd ranks as two groups.
    void intercommunicator() {
        MPI_Comm half = MPI_COMM_NULL;
        MPI_Comm inter = MPI_COMM_NULL;
        MPI_Comm_split(comm_, rank_ & 1, rank_, &half);
        MPI_Intercomm_create(half, 0, comm_, 1 - (rank_ & 1), 7, &inter);
        int remote = 0;
        MPI_Comm_remote_size(inter, &remote);
        Ints in(static_cast<size_t>(remote), -1);
        const Ints out(static_cast<size_t>(remote), rank_);
        Ints wanted(in.size());
        for (int i = 0; i < remote; ++i) {
            wanted[static_cast<size_t>(i)] = 2 * i + 1 - (rank_ & 1);
        }
        MPI_Alltoall(out.data(), 1, MPI_INT, in.data(), 1, MPI_INT, inter);
        expect("alltoall between groups", in, wanted);
        in.assign(in.size(), -1);
        MPI_Allgather(&rank_, 1, MPI_INT, in.data(), 1, MPI_INT, inter);
        expect("allgather between groups", in, wanted);
        MPI_Comm merged = MPI_COMM_NULL;
        MPI_Intercomm_merge(inter, rank_ & 1, &merged);
        MPI_Comm_free(&inter);
        MPI_Comm_free(&half);
        Others(job_, merged).blocking();
        MPI_Comm_free(&merged);
    }

private:
    void reductions() {
        int got = -1;
        const int triangle = size_ * (size_ - 1) / 2;
        MPI_Allreduce(&rank_, &got, 1, MPI_INT, MPI_SUM, comm_);
        expect("allreduce", {got}, {triangle});
        got = triangle;
        MPI_Reduce(&rank_, &got, 1, MPI_INT, MPI_SUM, 0, comm_);
        expect("reduce", {got}, {triangle});
        MPI_Scan(&rank_, &got, 1, MPI_INT, MPI_SUM, comm_);
        expect("scan", {got}, {rank_ * (rank_ + 1) / 2});
        got = 0;
        MPI_Exscan(&rank_, &got, 1, MPI_INT, MPI_SUM, comm_);
        expect("exscan", {got}, {rank_ * (rank_ - 1) / 2});
        MPI_Reduce_scatter(displacements_.data(), &got, ones_.data(), MPI_INT, MPI_SUM, comm_);
        expect("reduce_scatter", {got}, {rank_ * size_});
        MPI_Reduce_scatter_block(displacements_.data(), &got, 1, MPI_INT, MPI_SUM, comm_);
        expect("reduce_scatter_block", {got}, {rank_ * size_});
        int local = 5;
        MPI_Reduce_local(&rank_, &local, 1, MPI_INT, MPI_SUM);
        expect("reduce_local", {local}, {rank_ + 5});
    }

    void expect(const char *what, const Ints &got, const Ints &wanted) {
        size_t first = 0;
        while (first < got.size() && got[first] == wanted[first]) {
            ++first;
        }
        job_.check(got == wanted, "%s: element %zu is %d, not %d", what, first, first < got.size() ? got[first] : 0,
                   first < got.size() ? wanted[first] : 0);
    }

    Job &job_;
    MPI_Comm comm_;
    int rank_ = 0;
    int size_ = 0;
    Ints ones_;
    Ints displacements_;
};

} // namespace

int main(int argc, char **argv) {
    Job job(argc, argv);
    Others(job, MPI_COMM_SELF).blocking();
    Others world(job, MPI_COMM_WORLD);
    for (int round = 0; round < 3; ++round) {
        world.blocking();
        world.nonblocking();
        if (job.size > 2) {
            world.neighbors();
        }
        if (job.size > 1) {
            world.intercommunicator();
        }
    }
    return job.finish("others");
}
