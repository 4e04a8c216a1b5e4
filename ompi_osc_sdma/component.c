/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The component: what Open MPI finds in mca_osc_sdma.so.
 */
#include "ompi_osc_sdma/osc_sdma.h"

#include <string.h>

glue_t sdma_glue = {.component = &mca_osc_sdma_component.osc_version};

static const glue_param_t own_params[] = {
    {"priority", MCA_BASE_VAR_TYPE_INT, false, NULL,
     "priority among osc components; above all that build windows (rdma: 101), since the best of them is used below",
     &sdma_glue.priority},
    {"fallback", MCA_BASE_VAR_TYPE_STRING, false, NULL,
     "components opened in addition where the list given by --mca osc names none but sdma: auto (all), none, or a list",
     &sdma_glue.fallback},
    {"verbose", MCA_BASE_VAR_TYPE_INT, true, NULL, "messages: 0 errors only, 1 decisions by window, more: details",
     &sdma_glue.verbose},
    {"stage", MCA_BASE_VAR_TYPE_INT, true, glue_stage_values,
     "copy device origins of operations that the component below serves through host memory: auto (where Open MPI is "
     "not GPU-aware), always, never (the component below must be able to access them)",
     &sdma_glue.stage},
};

static int register_component(void) {
    int status = glue_check_release();
    if (OMPI_SUCCESS != status) {
        return status;
    }
    sdma_glue = (glue_t){.component = &mca_osc_sdma_component.osc_version,
                         .other = "coll",
                         .priority = 1000,
                         .fallback = "rdma,sm,pt2pt"};
    status = glue_register_params(own_params, sizeof(own_params) / sizeof(own_params[0]));
    return OMPI_SUCCESS == status ? glue_register_library() : status;
}

static int open_component(void) {
    glue_open();
    return OMPI_SUCCESS;
}

static bool start_other(const mca_base_component_t *component, bool progress_threads, bool mpi_threads) {
    const ompi_osc_base_component_t *osc = (const ompi_osc_base_component_t *)component;
    return OMPI_SUCCESS == osc->osc_init(progress_threads, mpi_threads);
}

/* Alone in an include list we would have nobody to build windows. */
static int init(bool progress_threads, bool mpi_threads) {
    mca_base_framework_t *framework = &ompi_osc_base_framework;
    bool complete = glue_component_present(framework, "rdma") || glue_component_present(framework, "pt2pt") ||
                    glue_component_present(framework, "ucx");
    return complete ? OMPI_SUCCESS : glue_open_fallback(framework, start_other, progress_threads, mpi_threads);
}

/* Windows are gone. The framework calls this, and never closes a component that it has started. */
static int finalize(void) {
    osc_sdma_stop_progress();
    glue_close();
    glue_restore();
    return OMPI_SUCCESS;
}

/* The search for the component below also asks those that search themselves (monitoring), and they ask us. */
static _Thread_local bool selecting;

static int query(struct ompi_win_t *win, void **base, size_t size, int disp_unit, struct ompi_communicator_t *comm,
                 struct opal_info_t *info, int flavor) {
    (void)win, (void)base, (void)size, (void)disp_unit, (void)comm, (void)info, (void)flavor;
    return selecting ? -1 : sdma_glue.priority;
}

static ompi_osc_base_component_t *best_other(ompi_win_t *win, void **base, size_t size, int disp_unit,
                                             struct ompi_communicator_t *comm, struct opal_info_t *info, int flavor,
                                             int *status) {
    ompi_osc_base_component_t *best = NULL;
    int best_priority = -1;
    *status = OMPI_ERR_NOT_SUPPORTED;
    mca_base_component_list_item_t *item;
    OPAL_LIST_FOREACH(item, &ompi_osc_base_framework.framework_components, mca_base_component_list_item_t) {
        ompi_osc_base_component_t *component = (ompi_osc_base_component_t *)(uintptr_t)item->cli_component;
        if (&mca_osc_sdma_component == component) {
            continue;
        }
        int priority = component->osc_query(win, base, size, disp_unit, comm, info, flavor);
        if (MPI_WIN_FLAVOR_SHARED == flavor && OMPI_ERR_RMA_SHARED == priority) {
            *status = priority;
            return NULL;
        }
        if (priority > best_priority) {
            best = component;
            best_priority = priority;
        }
    }
    return best;
}

int osc_sdma_select_lower(osc_sdma_window_t *window, void **base, size_t size, int disp_unit,
                          struct ompi_communicator_t *comm, struct opal_info_t *info, int flavor, int *model) {
    int status;
    selecting = true;
    ompi_osc_base_component_t *best = best_other(window->win, base, size, disp_unit, comm, info, flavor, &status);
    if (NULL != best) {
        status = best->osc_select(window->win, base, size, disp_unit, comm, info, flavor, model);
        window->lazy_locks = 0 == strcmp("pt2pt", best->osc_version.mca_component_name);
        glue_say(2, "window of %zu bytes: %s is below", size, best->osc_version.mca_component_name);
    }
    selecting = false;
    return status;
}

__attribute__((visibility("default"))) ompi_osc_base_component_t mca_osc_sdma_component = {
    .osc_version =
        {
            OMPI_OSC_BASE_VERSION_3_0_0,
            .mca_component_name = "sdma",
            MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION),
            .mca_open_component = open_component,
            .mca_register_component_params = register_component,
        },
    .osc_data = {MCA_BASE_METADATA_PARAM_NONE},
    .osc_init = init,
    .osc_query = query,
    .osc_select = osc_sdma_window_make,
    .osc_finalize = finalize,
};
