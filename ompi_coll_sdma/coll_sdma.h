/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The Open MPI side of mpi-sdma: turns MPI_Alltoall and MPI_Allgather into operations of libmpisdma and hands
 * everything that is declined to the component below. No GPU knowledge, no protocol.
 *
 *   component.c    open, register, query, close          params.c  its own parameters and counters
 *   module.c       one communicator: lower functions     team.c    set-up, waiting, progress
 *   collectives.c  MPI_Alltoall, MPI_Allgather           glue.h    what it shares with the one-sided component
 */
#ifndef COLL_SDMA_H
#define COLL_SDMA_H

#include "ompi_coll_sdma/glue.h"

/* What the components below offer, of what we take over or need. */
typedef struct coll_sdma_lower {
    mca_coll_base_module_allgather_fn_t coll_allgather;
    mca_coll_base_module_t *coll_allgather_module;
    mca_coll_base_module_alltoall_fn_t coll_alltoall;
    mca_coll_base_module_t *coll_alltoall_module;
    mca_coll_base_module_iallgather_fn_t coll_iallgather;
    mca_coll_base_module_t *coll_iallgather_module;
} coll_sdma_lower_t;

typedef enum coll_sdma_state {
    COLL_SDMA_NEW,  /* no operation yet */
    COLL_SDMA_LIVE, /* operations are offered to the team */
    COLL_SDMA_OFF   /* no team, dormant or failed, the same on every rank: operations go to the components below */
} coll_sdma_state_t;

/* One communicator. MPI forbids overlapping blocking collectives on it, so no lock is needed. */
typedef struct coll_sdma_module {
    mca_coll_base_module_t super;
    coll_sdma_lower_t lower;
    struct ompi_communicator_t *comm;
    coll_sdma_state_t state;
    sdma_team_t *team;
    sdma_bootstrap_t bootstrap;
    ompi_request_t *exchange;
} coll_sdma_module_t;
OBJ_CLASS_DECLARATION(coll_sdma_module_t);

extern mca_coll_base_component_t mca_coll_sdma_component;

/* params.c */
int coll_sdma_register_params(void);
/* Operations given to the component below without asking the team. */
void coll_sdma_count_passed(void);

/* module.c */
mca_coll_base_module_t *coll_sdma_comm_query(struct ompi_communicator_t *comm, int *priority);

/* team.c: an OMPI_ code; the first call sets the team up and decides module->state. Polls progress until then. */
int coll_sdma_team_up(coll_sdma_module_t *module);
/* Offers one operation to a live team and waits, polling progress. SDMA_PENDING is never returned. */
sdma_status_t coll_sdma_run(coll_sdma_module_t *module, const sdma_desc_t *desc);
void coll_sdma_stop_progress(void);

/* collectives.c */
int coll_sdma_alltoall(const void *send, sdma_count_t send_count, struct ompi_datatype_t *send_type, void *recv,
                       sdma_count_t recv_count, struct ompi_datatype_t *recv_type, struct ompi_communicator_t *comm,
                       mca_coll_base_module_t *module);
int coll_sdma_allgather(const void *send, sdma_count_t send_count, struct ompi_datatype_t *send_type, void *recv,
                        sdma_count_t recv_count, struct ompi_datatype_t *recv_type, struct ompi_communicator_t *comm,
                        mca_coll_base_module_t *module);

#endif
