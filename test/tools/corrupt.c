/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Preloaded under sdma_bench: spoils one byte of what an operation delivered, or one behind it, so
 * that the test of -c can fail. SDMA_CORRUPT_OFFSET is counted in the receive buffer of rank 0, or in
 * what its put writes; SDMA_CORRUPT_CALL says in which call. One-sided operations: with flush. */
#include <mpi.h>
#include <stdlib.h>

/* Where to spoil this call of rank 0; -1: nowhere. */
static long offset_now(MPI_Comm comm) {
    static long calls;
    const char *call = getenv("SDMA_CORRUPT_CALL"), *offset = getenv("SDMA_CORRUPT_OFFSET");
    int rank = -1;
    PMPI_Comm_rank(comm, &rank);
    return rank == 0 && call && offset && ++calls == atol(call) ? atol(offset) : -1;
}

static void corrupt(void *recv, MPI_Comm comm) {
    const long offset = offset_now(comm);
    if (offset >= 0)
        ((unsigned char *)recv)[offset] ^= 0x80;
}

int MPI_Alltoall(const void *send, int send_count, MPI_Datatype send_type, void *recv, int recv_count,
                 MPI_Datatype recv_type, MPI_Comm comm) {
    const int status = PMPI_Alltoall(send, send_count, send_type, recv, recv_count, recv_type, comm);
    corrupt(recv, comm);
    return status;
}

int MPI_Allgather(const void *send, int send_count, MPI_Datatype send_type, void *recv, int recv_count,
                  MPI_Datatype recv_type, MPI_Comm comm) {
    const int status = PMPI_Allgather(send, send_count, send_type, recv, recv_count, recv_type, comm);
    corrupt(recv, comm);
    return status;
}

int MPI_Put(const void *from, int count, MPI_Datatype type, int target, MPI_Aint at, int target_count,
            MPI_Datatype target_type, MPI_Win win) {
    const int status = PMPI_Put(from, count, type, target, at, target_count, target_type, win);
    const long offset = offset_now(MPI_COMM_WORLD);
    if (offset >= 0) {
        /* Behind what was put anything but the guard will do. */
        const unsigned char byte = offset < count ? ((const unsigned char *)from)[offset] ^ 0x80 : 0;
        PMPI_Win_flush(target, win);
        PMPI_Put(&byte, 1, MPI_BYTE, target, at + offset, 1, MPI_BYTE, win);
        PMPI_Win_flush(target, win);
    }
    return status;
}

int MPI_Get(void *to, int count, MPI_Datatype type, int target, MPI_Aint at, int target_count, MPI_Datatype target_type,
            MPI_Win win) {
    const int status = PMPI_Get(to, count, type, target, at, target_count, target_type, win);
    const long offset = offset_now(MPI_COMM_WORLD);
    if (offset >= 0) {
        PMPI_Win_flush(target, win);
        ((unsigned char *)to)[offset] ^= 0x80;
    }
    return status;
}
