/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One communicator: whether it is ours, and what the components below us offer on it.
 */
#include "ompi_coll_sdma/coll_sdma.h"

static bool save_lower(coll_sdma_module_t *module) {
    mca_coll_base_comm_coll_t *coll = module->comm->c_coll;
    if (NULL == coll->coll_alltoall || NULL == coll->coll_allgather || NULL == coll->coll_iallgather) {
        return false;
    }
    coll_sdma_lower_t *lower = &module->lower;
    lower->coll_alltoall = coll->coll_alltoall;
    lower->coll_alltoall_module = coll->coll_alltoall_module;
    lower->coll_allgather = coll->coll_allgather;
    lower->coll_allgather_module = coll->coll_allgather_module;
    lower->coll_iallgather = coll->coll_iallgather;
    lower->coll_iallgather_module = coll->coll_iallgather_module;
    SDMA_KEEP(lower, alltoall);
    SDMA_KEEP(lower, allgather);
    SDMA_KEEP(lower, iallgather);
    return true;
}

/* An error makes the base drop this module quietly. That is right where nothing is below us, as on the
 * sub-communicators of HAN, whose info keys re-order the components. */
static int enable(mca_coll_base_module_t *base, struct ompi_communicator_t *comm) {
    coll_sdma_module_t *module = (coll_sdma_module_t *)base;
    module->comm = comm;
    if (!save_lower(module)) {
        return OMPI_ERR_NOT_AVAILABLE;
    }
    SDMA_INSTALL(comm, base, alltoall);
    SDMA_INSTALL(comm, base, allgather);
    return OMPI_SUCCESS;
}

static int disable(mca_coll_base_module_t *base, struct ompi_communicator_t *comm) {
    coll_sdma_module_t *module = (coll_sdma_module_t *)base;
    SDMA_UNINSTALL(comm, &module->lower, alltoall);
    SDMA_UNINSTALL(comm, &module->lower, allgather);
    (void)module;
    return OMPI_SUCCESS;
}

/* Runs inside progress, too (MPI_Comm_idup), and for the world inside init: nothing may block or communicate. */
mca_coll_base_module_t *coll_sdma_comm_query(struct ompi_communicator_t *comm, int *priority) {
    if (OMPI_COMM_IS_INTER(comm)) {
        return NULL;
    }
    coll_sdma_module_t *module = OBJ_NEW(coll_sdma_module_t);
    if (NULL == module) {
        return NULL;
    }
    *priority = sdma_glue.priority;
    module->super.coll_module_enable = enable;
    module->super.coll_module_disable = disable;
    module->super.coll_alltoall = coll_sdma_alltoall;
    module->super.coll_allgather = coll_sdma_allgather;
    return &module->super;
}

static void construct(coll_sdma_module_t *module) {
    module->lower = (coll_sdma_lower_t){0};
    module->comm = NULL;
    module->state = COLL_SDMA_NEW;
    module->team = NULL;
    module->bootstrap = (sdma_bootstrap_t){0};
    module->exchange = MPI_REQUEST_NULL;
}

static void destruct(coll_sdma_module_t *module) {
    if (NULL != module->team) {
        sdma_team_free(module->team);
        module->team = NULL;
    }
    SDMA_DROP(&module->lower, alltoall);
    SDMA_DROP(&module->lower, allgather);
    SDMA_DROP(&module->lower, iallgather);
}

OBJ_CLASS_INSTANCE(coll_sdma_module_t, mca_coll_base_module_t, construct, destruct);
