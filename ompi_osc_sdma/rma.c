/* SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Put, MPI_Get, MPI_Rput, MPI_Rget.
 */
#include "ompi_osc_sdma/osc_sdma.h"

/* The other component's say on the epoch: it knows whether there is one, and takes a lock now that it takes lazily. */
int osc_sdma_admit(osc_sdma_window_t *window, int target, ptrdiff_t disp) {
    return window->lower.osc_put(NULL, 0, MPI_BYTE, target, disp, 0, MPI_BYTE, window->win);
}

static int transfer(osc_sdma_way_t way, const osc_sdma_buffer_t *origin, int target, ptrdiff_t disp,
                    const osc_sdma_buffer_t *there, ompi_win_t *win, ompi_request_t **request) {
    osc_sdma_window_t *window = osc_sdma_window_of(win);
    osc_sdma_reach_t reach;
    int status = osc_sdma_reach(window, target, disp, there->count, there->type, &reach);
    if (OMPI_SUCCESS != status) {
        return status;
    }
    if (NULL == reach.peer) {
        return OSC_SDMA_PUT == way ? osc_sdma_lower_put(window, origin, target, disp, there, request)
                                   : osc_sdma_lower_get(window, origin, target, disp, there, request);
    }
    osc_sdma_mark_t mark = {.line = NULL};
    status = osc_sdma_admit(window, target, disp);
    if (OMPI_SUCCESS == status) {
        status = osc_sdma_move(way, origin, &reach, &mark);
    }
    if (OMPI_SUCCESS == status && NULL != request) {
        status = osc_sdma_request(window, mark, OSC_SDMA_PUT == way, request);
    }
    return status;
}

static osc_sdma_buffer_t buffer_of(const void *base, int count, struct ompi_datatype_t *type) {
    return (osc_sdma_buffer_t){.base = (void *)(uintptr_t)base, .count = (size_t)count, .type = type};
}

static int put(const void *origin, int origin_count, struct ompi_datatype_t *origin_type, int target, ptrdiff_t disp,
               int count, struct ompi_datatype_t *type, ompi_win_t *win) {
    osc_sdma_buffer_t here = buffer_of(origin, origin_count, origin_type);
    osc_sdma_buffer_t there = buffer_of(NULL, count, type);
    return transfer(OSC_SDMA_PUT, &here, target, disp, &there, win, NULL);
}

static int get(void *origin, int origin_count, struct ompi_datatype_t *origin_type, int target, ptrdiff_t disp,
               int count, struct ompi_datatype_t *type, ompi_win_t *win) {
    osc_sdma_buffer_t here = buffer_of(origin, origin_count, origin_type);
    osc_sdma_buffer_t there = buffer_of(NULL, count, type);
    return transfer(OSC_SDMA_GET, &here, target, disp, &there, win, NULL);
}

static int rput(const void *origin, int origin_count, struct ompi_datatype_t *origin_type, int target, ptrdiff_t disp,
                int count, struct ompi_datatype_t *type, ompi_win_t *win, ompi_request_t **request) {
    osc_sdma_buffer_t here = buffer_of(origin, origin_count, origin_type);
    osc_sdma_buffer_t there = buffer_of(NULL, count, type);
    return transfer(OSC_SDMA_PUT, &here, target, disp, &there, win, request);
}

static int rget(void *origin, int origin_count, struct ompi_datatype_t *origin_type, int target, ptrdiff_t disp,
                int count, struct ompi_datatype_t *type, ompi_win_t *win, ompi_request_t **request) {
    osc_sdma_buffer_t here = buffer_of(origin, origin_count, origin_type);
    osc_sdma_buffer_t there = buffer_of(NULL, count, type);
    return transfer(OSC_SDMA_GET, &here, target, disp, &there, win, request);
}

void osc_sdma_take_rma(ompi_osc_base_module_t *module) {
    module->osc_put = put;
    module->osc_get = get;
    module->osc_rput = rput;
    module->osc_rget = rget;
}
