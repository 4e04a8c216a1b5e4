/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The accumulate family on GPU memory: fetch, compute here, put back, all of it under one lock per window and target
 * that every member of the family takes. So elements are atomic, and operations of one origin keep their order.
 */
#include "ompi_osc_sdma/osc_sdma.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

/* One call. `result` and `compare` may be NULL. */
typedef struct call {
    osc_sdma_window_t *window;
    int target;
    ptrdiff_t disp;
    osc_sdma_buffer_t origin, there;
    const osc_sdma_buffer_t *result;
    const void *compare;
    struct ompi_op_t *op; /* NULL: compare and swap */
} call_t;

/* An array of the one predefined type that both sides consist of. */
typedef struct array {
    struct ompi_datatype_t *type;
    size_t count, bytes;
    char *memory;
    osc_sdma_buffer_t buffer;
} array_t;

static int make_array(array_t *array, const osc_sdma_buffer_t *like) {
    *array = (array_t){.type = like->type};
    if (!ompi_datatype_is_predefined(like->type)) {
        array->type = ompi_datatype_get_single_predefined_type_from_args(like->type);
    }
    size_t size = 0;
    if (NULL != array->type) {
        ompi_datatype_type_size(array->type, &size);
    }
    if (0 == size) {
        return MPI_ERR_TYPE;
    }
    array->count = osc_sdma_bytes(like) / size;
    ptrdiff_t gap;
    array->bytes = (size_t)opal_datatype_span(&array->type->super, array->count, &gap);
    array->memory = calloc(1, array->bytes);
    if (NULL == array->memory) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    array->buffer = (osc_sdma_buffer_t){.base = array->memory - gap, .count = array->count, .type = array->type};
    return OMPI_SUCCESS;
}

/* One call of the convertor each way for everything: Open MPI 4.1's ompi_datatype_sndrcv, which takes 64 KiB at a time,
 * loses the end of some types. */
static int convert(const osc_sdma_buffer_t *from, const osc_sdma_buffer_t *to) {
    size_t bytes = osc_sdma_bytes(from);
    struct iovec packed = {.iov_base = malloc(bytes + 1), .iov_len = bytes};
    if (NULL == packed.iov_base) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    opal_convertor_t convertor;
    uint32_t pieces = 1;
    size_t moved = bytes;
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &from->type->super, from->count, from->base, 0,
                                             &convertor);
    opal_convertor_pack(&convertor, &packed, &pieces, &moved);
    OBJ_DESTRUCT(&convertor);
    bool whole = moved == bytes;
    packed.iov_len = bytes;
    pieces = 1;
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, &to->type->super, to->count, to->base, 0,
                                             &convertor);
    opal_convertor_unpack(&convertor, &packed, &pieces, &moved);
    OBJ_DESTRUCT(&convertor);
    free(packed.iov_base);
    return whole && moved == bytes ? OMPI_SUCCESS : OMPI_ERROR;
}

/* Between memory of this process, wherever it is, and an array. */
static int load(const array_t *array, const osc_sdma_buffer_t *from) {
    glue_staged_t staged;
    int status = glue_host_send(&staged, from->base, from->count, from->type);
    if (OMPI_SUCCESS == status) {
        osc_sdma_buffer_t host = {.base = (void *)(uintptr_t)staged.buffer, .count = from->count, .type = from->type};
        status = convert(&host, &array->buffer);
        glue_unstage_send(&staged);
    }
    return status;
}

static int store(const array_t *array, const osc_sdma_buffer_t *to) {
    glue_staged_t staged;
    int status = glue_host_recv(&staged, to->base, to->count, to->type);
    if (OMPI_SUCCESS == status) {
        osc_sdma_buffer_t host = {.base = (void *)(uintptr_t)staged.buffer, .count = to->count, .type = to->type};
        status = glue_unstage_recv(&staged, convert(&array->buffer, &host));
    }
    return status;
}

static int move(osc_sdma_way_t way, const array_t *array, const osc_sdma_reach_t *reach) {
    osc_sdma_mark_t mark = {.line = NULL};
    int status = osc_sdma_move(way, &array->buffer, reach, &mark);
    return OMPI_SUCCESS == status ? osc_sdma_wait(mark, false) : status;
}

static bool changes_nothing(const call_t *call) { return &ompi_mpi_op_no_op.op == call->op; }
static bool only_writes(const call_t *call) { return &ompi_mpi_op_replace.op == call->op; }

/* With the lock: `target` gets what was there before. */
static int exchange(const call_t *call, const osc_sdma_reach_t *reach, const array_t *origin, array_t *target) {
    int status = OMPI_SUCCESS;
    if (NULL != call->result || !only_writes(call)) {
        status = move(OSC_SDMA_GET, target, reach);
    }
    if (OMPI_SUCCESS != status || changes_nothing(call)) {
        return status;
    }
    if (only_writes(call)) {
        return move(OSC_SDMA_PUT, origin, reach);
    }
    if (NULL == call->op) {
        bool same = 0 == memcmp(call->compare, target->memory, target->bytes);
        return same ? move(OSC_SDMA_PUT, origin, reach) : OMPI_SUCCESS;
    }
    if (NULL == call->result) {
        ompi_op_reduce(call->op, origin->buffer.base, target->buffer.base, target->count, target->type);
        return move(OSC_SDMA_PUT, target, reach);
    }
    array_t changed;
    status = make_array(&changed, &target->buffer);
    if (OMPI_SUCCESS != status) {
        return status;
    }
    memcpy(changed.memory, target->memory, target->bytes);
    ompi_op_reduce(call->op, origin->buffer.base, changed.buffer.base, changed.count, changed.type);
    status = move(OSC_SDMA_PUT, &changed, reach);
    free(changed.memory);
    return status;
}

static int perform(const call_t *call, const osc_sdma_reach_t *reach) {
    array_t origin = {.memory = NULL};
    array_t target = {.memory = NULL};
    int status = make_array(&target, &reach->buffer);
    if (OMPI_SUCCESS == status && !changes_nothing(call)) {
        status = osc_sdma_bytes(&call->origin) != osc_sdma_bytes(&reach->buffer) ? MPI_ERR_TRUNCATE
                                                                                 : make_array(&origin, &reach->buffer);
        if (OMPI_SUCCESS == status) {
            status = load(&origin, &call->origin);
        }
    }
    if (OMPI_SUCCESS == status) {
        status = osc_sdma_lock_target(reach->peer);
    }
    if (OMPI_SUCCESS == status) {
        status = exchange(call, reach, &origin, &target);
        osc_sdma_unlock_target(reach->peer);
    }
    if (OMPI_SUCCESS == status && NULL != call->result) {
        status = store(&target, call->result);
    }
    if (OMPI_SUCCESS == status) {
        sdma_count("accumulates", 1);
    }
    free(origin.memory);
    free(target.memory);
    return status;
}

/* Ranks of other nodes do not see our lock, so in a window of several nodes all must leave a target to the other
 * component, whose CPU computes there; or, where it cannot, only ranks of the target's node have access. */
typedef enum server { OURS, THEIRS, NOBODY } server_t;
static server_t server_of(const osc_sdma_window_t *window, int target) {
    const osc_sdma_peer_t *peer = NULL != window->peers ? &window->peers[target] : NULL;
    if (NULL == peer || !peer->device) {
        return THEIRS;
    }
    if (peer->ours) {
        return window->spans_nodes && peer->cpu_reaches ? THEIRS : OURS;
    }
    return peer->cpu_reaches || window->dynamic ? THEIRS : NOBODY;
}

/* Whether the call is not the other component's; then `status` is that of the call. */
static bool serve(const call_t *call, int *status) {
    osc_sdma_reach_t reach;
    switch (server_of(call->window, call->target)) {
    case THEIRS:
        return false;
    case NOBODY:
        glue_say(0, "accumulates to GPU memory of rank %d on another node are not supported", call->target);
        *status = MPI_ERR_UNSUPPORTED_OPERATION;
        return true;
    default:
        break;
    }
    *status = osc_sdma_reach(call->window, call->target, call->disp, call->there.count, call->there.type, &reach);
    if (OMPI_SUCCESS != *status) {
        return true;
    }
    if (NULL == reach.peer) {
        return false; /* host memory of a dynamic window */
    }
    *status = osc_sdma_admit(call->window, call->target, call->disp);
    if (OMPI_SUCCESS == *status) {
        *status = perform(call, &reach);
    }
    return true;
}

/* A request of what is over. */
static int over(const call_t *call, int status, ompi_request_t **request) {
    return OMPI_SUCCESS == status ? osc_sdma_request(call->window, (osc_sdma_mark_t){.line = NULL}, true, request)
                                  : status;
}

static int accumulate_any(call_t *call, ompi_request_t **request) {
    int status;
    if (!serve(call, &status)) {
        return osc_sdma_lower_accumulate(call->window, &call->origin, call->result, call->target, call->disp,
                                         &call->there, call->op, request);
    }
    return NULL != request ? over(call, status, request) : status;
}

/* ---- the entries ------------------------------------------------------------------------------------------------ */

static osc_sdma_buffer_t buffer_of(const void *base, int count, struct ompi_datatype_t *type) {
    return (osc_sdma_buffer_t){.base = (void *)(uintptr_t)base, .count = (size_t)count, .type = type};
}

static call_t call_of(const void *origin, int origin_count, struct ompi_datatype_t *origin_type,
                      const osc_sdma_buffer_t *result, int target, ptrdiff_t disp, int count,
                      struct ompi_datatype_t *type, struct ompi_op_t *op, ompi_win_t *win) {
    return (call_t){
        .window = osc_sdma_window_of(win),
        .target = target,
        .disp = disp,
        .origin = buffer_of(origin, origin_count, origin_type),
        .there = buffer_of(NULL, count, type),
        .result = result,
        .op = op,
    };
}

static int accumulate(const void *origin, int origin_count, struct ompi_datatype_t *origin_type, int target,
                      ptrdiff_t disp, int count, struct ompi_datatype_t *type, struct ompi_op_t *op, ompi_win_t *win) {
    call_t call = call_of(origin, origin_count, origin_type, NULL, target, disp, count, type, op, win);
    return accumulate_any(&call, NULL);
}

static int raccumulate(const void *origin, int origin_count, struct ompi_datatype_t *origin_type, int target,
                       ptrdiff_t disp, int count, struct ompi_datatype_t *type, struct ompi_op_t *op, ompi_win_t *win,
                       ompi_request_t **request) {
    call_t call = call_of(origin, origin_count, origin_type, NULL, target, disp, count, type, op, win);
    return accumulate_any(&call, request);
}

static int get_accumulate(const void *origin, int origin_count, struct ompi_datatype_t *origin_type, void *result,
                          int result_count, struct ompi_datatype_t *result_type, int target, ptrdiff_t disp, int count,
                          struct ompi_datatype_t *type, struct ompi_op_t *op, ompi_win_t *win) {
    osc_sdma_buffer_t back = buffer_of(result, result_count, result_type);
    call_t call = call_of(origin, origin_count, origin_type, &back, target, disp, count, type, op, win);
    return accumulate_any(&call, NULL);
}

static int rget_accumulate(const void *origin, int origin_count, struct ompi_datatype_t *origin_type, void *result,
                           int result_count, struct ompi_datatype_t *result_type, int target, ptrdiff_t disp, int count,
                           struct ompi_datatype_t *type, struct ompi_op_t *op, ompi_win_t *win,
                           ompi_request_t **request) {
    osc_sdma_buffer_t back = buffer_of(result, result_count, result_type);
    call_t call = call_of(origin, origin_count, origin_type, &back, target, disp, count, type, op, win);
    return accumulate_any(&call, request);
}

static int fetch_and_op(const void *origin, void *result, struct ompi_datatype_t *type, int target, ptrdiff_t disp,
                        struct ompi_op_t *op, ompi_win_t *win) {
    osc_sdma_buffer_t back = buffer_of(result, 1, type);
    call_t call = call_of(origin, 1, type, &back, target, disp, 1, type, op, win);
    int status;
    return serve(&call, &status) ? status
                                 : osc_sdma_lower_fetch_and_op(call.window, origin, result, type, target, disp, op);
}

static int compare_and_swap(const void *origin, const void *compare, void *result, struct ompi_datatype_t *type,
                            int target, ptrdiff_t disp, ompi_win_t *win) {
    osc_sdma_buffer_t back = buffer_of(result, 1, type);
    call_t call = call_of(origin, 1, type, &back, target, disp, 1, type, NULL, win);
    glue_staged_t expected;
    int status = glue_host_send(&expected, compare, 1, type);
    if (OMPI_SUCCESS != status) {
        return status;
    }
    call.compare = expected.buffer;
    bool served = serve(&call, &status);
    glue_unstage_send(&expected);
    return served ? status : osc_sdma_lower_compare_and_swap(call.window, origin, compare, result, type, target, disp);
}

void osc_sdma_take_accumulates(ompi_osc_base_module_t *module) {
    module->osc_accumulate = accumulate;
    module->osc_raccumulate = raccumulate;
    module->osc_get_accumulate = get_accumulate;
    module->osc_rget_accumulate = rget_accumulate;
    module->osc_fetch_and_op = fetch_and_op;
    module->osc_compare_and_swap = compare_and_swap;
}
