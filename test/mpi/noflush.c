/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Preloaded under rma: flushes that do nothing, which its checks must notice. */
#include <mpi.h>

int MPI_Win_flush(int rank, MPI_Win win) {
    (void)rank;
    (void)win;
    return MPI_SUCCESS;
}

int MPI_Win_flush_all(MPI_Win win) {
    (void)win;
    return MPI_SUCCESS;
}

int MPI_Win_flush_local(int rank, MPI_Win win) {
    (void)rank;
    (void)win;
    return MPI_SUCCESS;
}
