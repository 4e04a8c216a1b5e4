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
    return OMPI_SUCCESS;
}

/* The search for the component below also asks those that search themselves (monitoring), and they ask us. */
static _Thread_local bool selecting;

static int query(struct ompi_win_t *win, void **base, size_t size, int disp_unit, struct ompi_communicator_t *comm,
                 struct opal_info_t *info, int flavor) {
    (void)win, (void)base, (void)size, (void)disp_unit, (void)comm, (void)info, (void)flavor;
    return selecting ? -1 : sdma_glue.priority;
}

/* What a component is asked about. */
typedef struct asked {
    void **base;
    size_t size;
    int disp_unit;
    struct ompi_communicator_t *comm;
    struct opal_info_t *info;
    int flavor;
} asked_t;

/* The best of those whose bit, by their place in the framework's list, is not set in `tried`; sets it. */
static ompi_osc_base_component_t *best_other(ompi_win_t *win, const asked_t *asked, uint64_t *tried, int *status) {
    ompi_osc_base_component_t *best = NULL;
    int best_priority = -1;
    uint64_t best_bit = 0;
    uint64_t bit = 1;
    mca_base_component_list_item_t *item;
    OPAL_LIST_FOREACH(item, &ompi_osc_base_framework.framework_components, mca_base_component_list_item_t) {
        ompi_osc_base_component_t *component = (ompi_osc_base_component_t *)(uintptr_t)item->cli_component;
        uint64_t own_bit = bit;
        bit <<= 1;
        if (&mca_osc_sdma_component == component || 0 != (*tried & own_bit)) {
            continue;
        }
        int priority = component->osc_query(win, asked->base, asked->size, asked->disp_unit, asked->comm, asked->info,
                                            asked->flavor);
        if (MPI_WIN_FLAVOR_SHARED == asked->flavor && OMPI_ERR_RMA_SHARED == priority) {
            *status = priority;
            return NULL;
        }
        if (priority > best_priority) {
            best = component;
            best_priority = priority;
            best_bit = own_bit;
        }
    }
    *tried |= best_bit;
    return best;
}

/* A rank that went on alone would wait for the others for ever. */
static bool all_say(bool yes, struct ompi_communicator_t *comm) {
    int mine = yes;
    int all = 0;
    int status =
        comm->c_coll->coll_allreduce(&mine, &all, 1, MPI_INT, MPI_LAND, comm, comm->c_coll->coll_allreduce_module);
    return OMPI_SUCCESS == status && 0 != all;
}

/* The best that builds the window. One that fails has failed on all ranks, or nobody goes on. */
static int select_lower(osc_sdma_window_t *window, const asked_t *asked, int *model) {
    int status = OMPI_ERR_NOT_SUPPORTED;
    uint64_t tried = 0;
    ompi_osc_base_component_t *best;
    while (NULL != (best = best_other(window->win, asked, &tried, &status))) {
        const char *name = best->osc_version.mca_component_name;
        status = best->osc_select(window->win, asked->base, asked->size, asked->disp_unit, asked->comm, asked->info,
                                  asked->flavor, model);
        window->lazy_locks = 0 == strcmp("pt2pt", name);
        if (all_say(OMPI_SUCCESS == status, asked->comm)) {
            glue_say(2, "%s is below", name);
            return OMPI_SUCCESS;
        }
        glue_say(1, "%s does not build the window, error %d", name, status);
        if (!all_say(OMPI_SUCCESS != status, asked->comm)) {
            status = OMPI_SUCCESS == status ? OMPI_ERROR : status;
            break;
        }
    }
    if (OMPI_ERR_RMA_SHARED != status) {
        glue_say(0, "no other one-sided component builds this window: error %d", status);
    }
    return status;
}

int osc_sdma_select_lower(osc_sdma_window_t *window, void **base, size_t size, int disp_unit,
                          struct ompi_communicator_t *comm, struct opal_info_t *info, int flavor, int *model) {
    const asked_t asked = {base, size, disp_unit, comm, info, flavor};
    selecting = true;
    int status = select_lower(window, &asked, model);
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
