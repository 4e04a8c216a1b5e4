/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The component: what Open MPI finds in mca_coll_sdma.so.
 */
#include "ompi_coll_sdma/coll_sdma.h"

glue_t sdma_glue = {.component = &mca_coll_sdma_component.collm_version};

static int register_component(void) {
    int status = glue_check_release();
    return OMPI_SUCCESS == status ? coll_sdma_register_params() : status;
}

static int open_component(void) {
    glue_open();
    return OMPI_SUCCESS;
}

/* Communicators, and with them the teams, are gone by now. */
static int close_component(void) {
    coll_sdma_stop_progress();
    glue_close();
    return OMPI_SUCCESS;
}

static bool start_other(const mca_base_component_t *component, bool progress_threads, bool mpi_threads) {
    const mca_coll_base_component_t *coll = (const mca_coll_base_component_t *)component;
    return OMPI_SUCCESS == coll->collm_init_query(progress_threads, mpi_threads);
}

/* Open MPI demands every collective of every communicator from the components of an include list, and we have two.
 * self is needed, too: basic and libnbc have no MPI_Exscan on one rank. */
static int init_query(bool progress_threads, bool mpi_threads) {
    mca_base_framework_t *framework = &ompi_coll_base_framework;
    bool complete = glue_component_present(framework, "basic") && glue_component_present(framework, "libnbc") &&
                    glue_component_present(framework, "self");
    return complete ? OMPI_SUCCESS : glue_open_fallback(framework, start_other, progress_threads, mpi_threads);
}

__attribute__((visibility("default"))) mca_coll_base_component_t mca_coll_sdma_component = {
    .collm_version =
        {
            SDMA_COLL_VERSION,
            .mca_component_name = "sdma",
            MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION),
            .mca_open_component = open_component,
            .mca_close_component = close_component,
            .mca_register_component_params = register_component,
        },
    .collm_data = {MCA_BASE_METADATA_PARAM_NONE},
    .collm_init_query = init_query,
    .collm_comm_query = coll_sdma_comm_query,
};
