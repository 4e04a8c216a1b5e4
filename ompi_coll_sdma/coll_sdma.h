/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The Open MPI side of mpi-sdma: turns MPI_Alltoall and MPI_Allgather into operations of libmpisdma and hands
 * everything that is declined to the component below. No GPU knowledge, no protocol.
 *
 *   component.c    open, register, query, close          fallback.c  stock components for `--mca coll sdma`
 *   module.c       one communicator: lower functions     params.c    parameters and counters of libmpisdma
 *   team.c         set-up, waiting, progress             staging.c   device buffers for components below
 *   collectives.c  MPI_Alltoall, MPI_Allgather
 */
#ifndef COLL_SDMA_H
#define COLL_SDMA_H

#include "ompi_coll_sdma/shim.h"

#include "common/sdma/sdma.h"

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

/* params.c: the parameters that the glue itself has. */
typedef enum coll_sdma_stage { COLL_SDMA_STAGE_AUTO, COLL_SDMA_STAGE_ALWAYS, COLL_SDMA_STAGE_NEVER } coll_sdma_stage_t;
typedef struct coll_sdma_settings {
    int priority;
    char *fallback;
    int verbose;
    int stage;
} coll_sdma_settings_t;
extern coll_sdma_settings_t coll_sdma_settings;
int coll_sdma_register_params(void);
/* Hands changed string values to libmpisdma; before each team or operation. */
void coll_sdma_publish_params(void);
/* Gives libmpisdma its defaults back, since Open MPI frees the strings it made; before the component goes. */
void coll_sdma_restore_params(void);
/* Operations given to the component below without asking the team. */
void coll_sdma_count_passed(void);

/* component.c: level 0 is always shown. */
void coll_sdma_say(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* fallback.c: completes an include list that lacks basic, libnbc or self. */
int coll_sdma_open_fallback(bool progress_threads, bool mpi_threads);

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

/* staging.c: one buffer as a component below gets to see it. */
typedef struct coll_sdma_staged {
    void *buffer; /* what to hand down */
    void *memory; /* host copy, or NULL: handed down as it is */
    void *device;
    size_t bytes;
} coll_sdma_staged_t;
/* `blocks` * `count` elements of `type` at `buffer`; MPI_IN_PLACE passes through. An OMPI_ code. */
int coll_sdma_stage_send(coll_sdma_staged_t *staged, const void *buffer, size_t elements, struct ompi_datatype_t *type);
/* `kept` elements from `first` on are read, too (in place: what this rank contributes). */
int coll_sdma_stage_recv(coll_sdma_staged_t *staged, void *buffer, size_t elements, struct ompi_datatype_t *type,
                         size_t first, size_t kept);
/* Both free the host copy; the second one copies it to the device first if `status` is OMPI_SUCCESS. */
void coll_sdma_unstage_send(coll_sdma_staged_t *staged);
int coll_sdma_unstage_recv(coll_sdma_staged_t *staged, int status);

#endif
