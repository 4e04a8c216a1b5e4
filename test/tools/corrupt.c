/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Preloaded under sdma_bench: spoils one byte of what a collective delivered, or one behind it, so
 * that the test of -c can fail. SDMA_CORRUPT_OFFSET is counted in the receive buffer of rank 0;
 * SDMA_CORRUPT_CALL says in which call. */
#include <mpi.h>
#include <stdlib.h>

static void corrupt(void *recv, MPI_Comm comm) {
    static long calls;
    const char *call = getenv("SDMA_CORRUPT_CALL"), *offset = getenv("SDMA_CORRUPT_OFFSET");
    int rank = -1;
    PMPI_Comm_rank(comm, &rank);
    if (rank == 0 && call && offset && ++calls == atol(call))
        ((unsigned char *)recv)[atol(offset)] ^= 0x80;
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
