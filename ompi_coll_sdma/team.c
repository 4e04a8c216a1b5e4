/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Set-up of a team by the first operation of a communicator, and the waiting that libmpisdma leaves to us: every
 * loop polls opal_progress, so a rank that waits stays killable and serves its other communication.
 */
#include "ompi_coll_sdma/coll_sdma.h"

#include <limits.h>
#include <stdatomic.h>

/* libmpisdma's view of MPI: one nonblocking allgather of host bytes through the component below. Every rank starts
 * it in the same blocking call, hence at the same place in the communicator's order of collectives. */
static int start_exchange(void *context, const void *mine, void *all, size_t bytes) {
    coll_sdma_module_t *module = context;
    if (bytes > INT_MAX) {
        return -1;
    }
    sdma_count_t count = (sdma_count_t)bytes;
    int status = module->lower.coll_iallgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, module->comm,
                                               &module->exchange, module->lower.coll_iallgather_module);
    return OMPI_SUCCESS == status ? 0 : -1;
}

static int test_exchange(void *context) {
    coll_sdma_module_t *module = context;
    if (MPI_REQUEST_NULL == module->exchange) {
        return 1;
    }
    if (!REQUEST_COMPLETE(module->exchange)) {
        return 0;
    }
    int failed = MPI_SUCCESS != module->exchange->req_status.MPI_ERROR;
    ompi_request_free(&module->exchange);
    return failed ? -1 : 1;
}

/* Peers that have freed memory need us to drop our mappings of it, even while we start no operation. The low-priority
 * list is polled once in eight rounds of progress. */
static atomic_bool progressing;

static int progress(void) { return sdma_progress(); }

static void start_progress(void) {
    if (!atomic_exchange(&progressing, true)) {
        opal_progress_register_lp(progress);
    }
}

void coll_sdma_stop_progress(void) {
    if (atomic_exchange(&progressing, false)) {
        opal_progress_unregister(progress);
    }
}

/* Why operations cannot be served at all, or none. Also then we take part, to stage device buffers. */
static sdma_reason_t no_team(struct ompi_communicator_t *comm) {
    if (ompi_comm_size(comm) < 2) {
        return SDMA_REASON_single_rank;
    }
    return ompi_group_have_remote_peers(comm->c_local_group) ? SDMA_REASON_remote_peers : SDMA_REASON_none;
}

static void switch_off(coll_sdma_module_t *module, sdma_reason_t reason) {
    module->state = COLL_SDMA_OFF;
    if (0 == ompi_comm_rank(module->comm)) {
        glue_say(1, "%s: not served: %s", module->comm->c_name, sdma_reason_text(reason));
    }
}

static void decide(coll_sdma_module_t *module, sdma_status_t status) {
    if (SDMA_OK == status) {
        module->state = COLL_SDMA_LIVE;
        start_progress();
        if (0 == ompi_comm_rank(module->comm)) {
            glue_say(1, "%s: team of %d ranks is live", module->comm->c_name, ompi_comm_size(module->comm));
        }
        return;
    }
    switch_off(module, sdma_team_reason(module->team));
    sdma_team_free(module->team);
    module->team = NULL;
}

int coll_sdma_team_up(coll_sdma_module_t *module) {
    if (COLL_SDMA_NEW != module->state) {
        return OMPI_SUCCESS;
    }
    const sdma_reason_t reason = no_team(module->comm);
    if (SDMA_REASON_none != reason) {
        switch_off(module, reason);
        return OMPI_SUCCESS;
    }
    glue_publish();
    module->bootstrap = (sdma_bootstrap_t){
        .rank = ompi_comm_rank(module->comm),
        .size = ompi_comm_size(module->comm),
        .context = module,
        .allgather = start_exchange,
        .test = test_exchange,
    };
    sdma_team_start(&module->bootstrap, &module->team);
    if (NULL == module->team) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    sdma_status_t status;
    while (SDMA_PENDING == (status = sdma_team_test(module->team))) {
        opal_progress();
    }
    decide(module, status);
    return SDMA_ERROR == status ? OMPI_ERROR : OMPI_SUCCESS;
}

/* A test is a few loads, progress polls all of Open MPI's transports: not after each. */
enum { TESTS_PER_PROGRESS = 8 };

sdma_status_t coll_sdma_run(coll_sdma_module_t *module, const sdma_desc_t *desc) {
    glue_publish();
    sdma_op_t *op = NULL;
    if (SDMA_OK != sdma_op_start(module->team, desc, &op)) {
        return SDMA_ERROR;
    }
    sdma_status_t status;
    for (unsigned tests = 1; SDMA_PENDING == (status = sdma_op_test(op)); ++tests) {
        if (0 == tests % TESTS_PER_PROGRESS) {
            opal_progress();
        }
    }
    sdma_op_free(op);
    return status;
}
