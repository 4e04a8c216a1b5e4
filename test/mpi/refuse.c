/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Preloaded under windows and rma: osc components that refuse. REFUSE_GPU=NAME: the component does not offer itself
 * for windows on GPU memory, as osc/rdma of GPU-aware releases does. REFUSE_ALL=NAMES: these offer themselves, and then
 * do not build the window. REFUSE_COPY=N: the first MPI_Compare_and_swap's copy N fails, and then the
 * job ends.
 */
#define _GNU_SOURCE
#include "ompi_coll_sdma/shim.h"

#include "common/sdma/sdma.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ompi_osc_base_component_query_fn_t real_query;
static int (*is_device)(const void *);

static int query(struct ompi_win_t *win, void **base, size_t size, int disp_unit, struct ompi_communicator_t *comm,
                 struct opal_info_t *info, int flavor) {
    if (MPI_WIN_FLAVOR_CREATE == flavor && is_device(*base)) {
        return -1;
    }
    return real_query(win, base, size, disp_unit, comm, info, flavor);
}

static int select_none(struct ompi_win_t *win, void **base, size_t size, int disp_unit,
                       struct ompi_communicator_t *comm, struct opal_info_t *info, int flavor, int *model) {
    (void)win, (void)base, (void)size, (void)disp_unit, (void)comm, (void)info, (void)flavor, (void)model;
    return OMPI_ERR_OUT_OF_RESOURCE;
}

static bool names(const char *variable, const char *name) {
    const char *list = getenv(variable);
    const char *at = NULL == list ? NULL : strstr(list, name);
    return NULL != at && (at == list || ',' == at[-1]) && ('\0' == at[strlen(name)] || ',' == at[strlen(name)]);
}

static void change(void) {
    is_device = (int (*)(const void *))dlsym(RTLD_DEFAULT, "sdma_is_device");
    mca_base_component_list_item_t *item;
    OPAL_LIST_FOREACH(item, &ompi_osc_base_framework.framework_components, mca_base_component_list_item_t) {
        ompi_osc_base_component_t *component = (ompi_osc_base_component_t *)(uintptr_t)item->cli_component;
        const char *name = component->osc_version.mca_component_name;
        if (names("REFUSE_GPU", name)) {
            real_query = component->osc_query;
            component->osc_query = query;
        }
        if (names("REFUSE_ALL", name)) {
            component->osc_select = select_none;
        }
    }
}

static _Thread_local int refuse_copy; /* how many until then; 0: none */

sdma_status_t sdma_copy(void *to, const void *from, size_t bytes) {
    sdma_status_t (*real)(void *, const void *, size_t) =
        (sdma_status_t(*)(void *, const void *, size_t))dlsym(RTLD_NEXT, "sdma_copy");
    bool refused = refuse_copy > 0 && 0 == --refuse_copy;
    return refused || NULL == real ? SDMA_ERROR : real(to, from, bytes);
}

int MPI_Compare_and_swap(const void *origin, const void *compare, void *result, MPI_Datatype type, int target,
                         MPI_Aint at, MPI_Win win) {
    const char *number = getenv("REFUSE_COPY");
    if (NULL == number) {
        return PMPI_Compare_and_swap(origin, compare, result, type, target, at, win);
    }
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    refuse_copy = atoi(number);
    int status = PMPI_Compare_and_swap(origin, compare, result, type, target, at, win);
    fprintf(stderr, "compare and swap: %s\n", MPI_SUCCESS == status ? "done" : "an error");
    MPI_Abort(MPI_COMM_WORLD, 1);
    return status;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    int status = PMPI_Init_thread(argc, argv, required, provided);
    if (MPI_SUCCESS == status) {
        change();
    }
    return status;
}
