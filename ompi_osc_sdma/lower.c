/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Operations of the other component, which may not be able to touch GPU memory: origins and results that are there
 * go through host copies. Such an operation is completed by its request, at once: whatever the epoch is, nothing of
 * it is left to deliver at its end. Only MPI_Compare_and_swap has no request.
 */
#include "ompi_osc_sdma/osc_sdma.h"

#include <stdlib.h>

typedef struct osc_sdma_late {
    struct osc_sdma_late *next;
    glue_staged_t origin, compare, result;
} late_t;

static int wait_for(int status, ompi_request_t *request) {
    return OMPI_SUCCESS == status ? ompi_request_wait(&request, MPI_STATUS_IGNORE) : status;
}

/* For callers that want a request of an operation that is over. */
static int hand_out(osc_sdma_window_t *window, int status, ompi_request_t **request) {
    if (OMPI_SUCCESS != status || NULL == request) {
        return status;
    }
    return osc_sdma_request(window, (osc_sdma_mark_t){.line = NULL}, true, request);
}

int osc_sdma_lower_put(osc_sdma_window_t *window, const osc_sdma_buffer_t *origin, int target, ptrdiff_t disp,
                       const osc_sdma_buffer_t *to, ompi_request_t **request) {
    glue_staged_t from;
    int status = glue_stage_send(&from, origin->base, origin->count, origin->type);
    if (OMPI_SUCCESS != status) {
        return status;
    }
    int count = (int)origin->count;
    int to_count = (int)to->count;
    if (NULL == from.memory) {
        return NULL == request ? window->lower.osc_put(from.buffer, count, origin->type, target, disp, to_count,
                                                       to->type, window->win)
                               : window->lower.osc_rput(from.buffer, count, origin->type, target, disp, to_count,
                                                        to->type, window->win, request);
    }
    sdma_count("staged", 1);
    ompi_request_t *own = MPI_REQUEST_NULL;
    status =
        window->lower.osc_rput(from.buffer, count, origin->type, target, disp, to_count, to->type, window->win, &own);
    status = wait_for(status, own);
    glue_unstage_send(&from);
    return hand_out(window, status, request);
}

int osc_sdma_lower_get(osc_sdma_window_t *window, const osc_sdma_buffer_t *origin, int target, ptrdiff_t disp,
                       const osc_sdma_buffer_t *from, ompi_request_t **request) {
    glue_staged_t to;
    int status = glue_stage_recv(&to, origin->base, origin->count, origin->type, 0, 0);
    if (OMPI_SUCCESS != status) {
        return status;
    }
    int count = (int)origin->count;
    int from_count = (int)from->count;
    if (NULL == to.memory) {
        return NULL == request ? window->lower.osc_get(to.buffer, count, origin->type, target, disp, from_count,
                                                       from->type, window->win)
                               : window->lower.osc_rget(to.buffer, count, origin->type, target, disp, from_count,
                                                        from->type, window->win, request);
    }
    sdma_count("staged", 1);
    ompi_request_t *own = MPI_REQUEST_NULL;
    status =
        window->lower.osc_rget(to.buffer, count, origin->type, target, disp, from_count, from->type, window->win, &own);
    status = glue_unstage_recv(&to, wait_for(status, own));
    return hand_out(window, status, request);
}

/* The request form of what this is. */
static int start_accumulate(const osc_sdma_window_t *window, const osc_sdma_buffer_t *origin, void *from,
                            const osc_sdma_buffer_t *result, void *back, int target, ptrdiff_t disp,
                            const osc_sdma_buffer_t *to, struct ompi_op_t *op, ompi_request_t **request) {
    if (NULL == result) {
        return window->lower.osc_raccumulate(from, (int)origin->count, origin->type, target, disp, (int)to->count,
                                             to->type, op, window->win, request);
    }
    return window->lower.osc_rget_accumulate(from, (int)origin->count, origin->type, back, (int)result->count,
                                             result->type, target, disp, (int)to->count, to->type, op, window->win,
                                             request);
}

static int start_plain(const osc_sdma_window_t *window, const osc_sdma_buffer_t *origin,
                       const osc_sdma_buffer_t *result, int target, ptrdiff_t disp, const osc_sdma_buffer_t *to,
                       struct ompi_op_t *op) {
    if (NULL == result) {
        return window->lower.osc_accumulate(origin->base, (int)origin->count, origin->type, target, disp,
                                            (int)to->count, to->type, op, window->win);
    }
    return window->lower.osc_get_accumulate(origin->base, (int)origin->count, origin->type, result->base,
                                            (int)result->count, result->type, target, disp, (int)to->count, to->type,
                                            op, window->win);
}

int osc_sdma_lower_accumulate(osc_sdma_window_t *window, const osc_sdma_buffer_t *origin,
                              const osc_sdma_buffer_t *result, int target, ptrdiff_t disp, const osc_sdma_buffer_t *to,
                              struct ompi_op_t *op, ompi_request_t **request) {
    glue_staged_t from;
    glue_staged_t back = {.memory = NULL};
    int status = glue_stage_send(&from, origin->base, origin->count, origin->type);
    if (OMPI_SUCCESS != status) {
        return status;
    }
    if (NULL != result) {
        status = glue_stage_recv(&back, result->base, result->count, result->type, 0, 0);
    }
    if (OMPI_SUCCESS != status) {
        glue_unstage_send(&from);
        return status;
    }
    if (NULL == from.memory && NULL == back.memory) {
        return NULL == request
                   ? start_plain(window, origin, result, target, disp, to, op)
                   : start_accumulate(window, origin, origin->base, result, back.buffer, target, disp, to, op, request);
    }
    sdma_count("staged", 1);
    ompi_request_t *own = MPI_REQUEST_NULL;
    status = start_accumulate(window, origin, from.buffer, result, back.buffer, target, disp, to, op, &own);
    status = glue_unstage_recv(&back, wait_for(status, own));
    glue_unstage_send(&from);
    return hand_out(window, status, request);
}

/* Open MPI's components have a quicker way for host memory. */
int osc_sdma_lower_fetch_and_op(osc_sdma_window_t *window, const void *origin, void *result,
                                struct ompi_datatype_t *type, int target, ptrdiff_t disp, struct ompi_op_t *op) {
    if (!sdma_is_device(origin) && !sdma_is_device(result)) {
        return window->lower.osc_fetch_and_op(origin, result, type, target, disp, op, window->win);
    }
    osc_sdma_buffer_t from = {.base = (void *)(uintptr_t)origin, .count = 1, .type = type};
    osc_sdma_buffer_t back = {.base = result, .count = 1, .type = type};
    return osc_sdma_lower_accumulate(window, &from, &back, target, disp, &back, op, NULL);
}

/* ---- compare and swap ---------------------------------------------------------------------------------------- */

static void drop(late_t *late) {
    glue_unstage_send(&late->origin);
    glue_unstage_send(&late->compare);
    free(late);
}

static int stage_all(late_t *late, const void *origin, const void *compare, void *result,
                     struct ompi_datatype_t *type) {
    int status = glue_stage_send(&late->origin, origin, 1, type);
    if (OMPI_SUCCESS == status) {
        status = glue_stage_send(&late->compare, compare, 1, type);
    }
    return OMPI_SUCCESS == status ? glue_stage_recv(&late->result, result, 1, type, 0, 0) : status;
}

int osc_sdma_lower_compare_and_swap(osc_sdma_window_t *window, const void *origin, const void *compare, void *result,
                                    struct ompi_datatype_t *type, int target, ptrdiff_t disp) {
    late_t *late = calloc(1, sizeof(*late));
    if (NULL == late) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    int status = stage_all(late, origin, compare, result, type);
    if (OMPI_SUCCESS == status) {
        status = window->lower.osc_compare_and_swap(late->origin.buffer, late->compare.buffer, late->result.buffer,
                                                    type, target, disp, window->win);
    }
    if (OMPI_SUCCESS != status ||
        (NULL == late->origin.memory && NULL == late->compare.memory && NULL == late->result.memory)) {
        glue_unstage_send(&late->result);
        drop(late);
        return status;
    }
    sdma_count("staged", 1);
    pthread_mutex_lock(&window->lock);
    late->next = window->late;
    window->late = late;
    pthread_mutex_unlock(&window->lock);
    return OMPI_SUCCESS;
}

int osc_sdma_deliver_late(osc_sdma_window_t *window, int status) {
    if (NULL == __atomic_load_n(&window->late, __ATOMIC_RELAXED)) {
        return status;
    }
    pthread_mutex_lock(&window->lock);
    late_t *late = window->late;
    window->late = NULL;
    pthread_mutex_unlock(&window->lock);
    while (NULL != late) {
        late_t *next = late->next;
        status = glue_unstage_recv(&late->result, status);
        drop(late);
        late = next;
    }
    return status;
}
