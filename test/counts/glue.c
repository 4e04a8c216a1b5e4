/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Calls of MPI_Alltoall on the stand-in for libmpisdma: under callgrind one dump per call of this process. What the
 * component costs is in there; test/counts/run takes it out.
 */
#include <mpi.h>
#include <stdlib.h>
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#define CALLGRIND_TOGGLE_COLLECT
#define CALLGRIND_DUMP_STATS_AT(name)
#endif

enum { WARM_UP = 20, MEASURED = 10, BYTES = 8 };

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char *send = calloc((size_t)size, BYTES);
    char *recv = calloc((size_t)size, BYTES);
    if (send == NULL || recv == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int i = 0; i < WARM_UP; ++i) {
        MPI_Alltoall(send, BYTES, MPI_BYTE, recv, BYTES, MPI_BYTE, MPI_COMM_WORLD);
    }
    CALLGRIND_START_INSTRUMENTATION;
    for (int i = 0; i < MEASURED; ++i) {
        CALLGRIND_TOGGLE_COLLECT;
        MPI_Alltoall(send, BYTES, MPI_BYTE, recv, BYTES, MPI_BYTE, MPI_COMM_WORLD);
        CALLGRIND_TOGGLE_COLLECT;
        CALLGRIND_DUMP_STATS_AT("glue");
    }
    CALLGRIND_STOP_INSTRUMENTATION;
    free(send);
    free(recv);
    MPI_Finalize();
    return 0;
}
