/* SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Alltoall and MPI_Allgather: datatypes to bytes per peer, then the team or the component below.
 */
#include "ompi_coll_sdma/coll_sdma.h"

/* One call. All element counts are those of the whole buffer. The two operations have the same C signature. */
typedef struct call {
    sdma_kind_t kind;
    const void *send;
    sdma_count_t send_count;
    size_t send_elements;
    struct ompi_datatype_t *send_type;
    void *recv;
    sdma_count_t recv_count;
    size_t recv_elements;
    struct ompi_datatype_t *recv_type;
    struct ompi_communicator_t *comm;
    mca_coll_base_module_alltoall_fn_t lower;
    mca_coll_base_module_t *lower_module;
} call_t;

static bool in_place(const call_t *call) { return MPI_IN_PLACE == call->send; }

/* A run of elements as one piece of memory. */
typedef struct piece {
    void *start;
    size_t bytes;
    bool contiguous;
} piece_t;

/* The opal function takes a 32-bit count but only asks whether it is 1: gaps between elements matter from 2 on. */
static piece_t piece_of(const void *buffer, size_t elements, struct ompi_datatype_t *type) {
    size_t size;
    ptrdiff_t true_lb;
    ptrdiff_t true_extent;
    ompi_datatype_type_size(type, &size);
    ompi_datatype_get_true_extent(type, &true_lb, &true_extent);
    return (piece_t){
        .start = (char *)(uintptr_t)buffer + true_lb,
        .bytes = size * elements,
        .contiguous = 0 == size || opal_datatype_is_contiguous_memory_layout(&type->super, elements > 1 ? 2 : 1),
    };
}

static sdma_desc_t describe(const call_t *call) {
    size_t ranks = (size_t)ompi_comm_size(call->comm);
    piece_t to = piece_of(call->recv, call->recv_elements, call->recv_type);
    piece_t from = in_place(call) ? to : piece_of(call->send, call->send_elements, call->send_type);
    size_t send_bytes = SDMA_ALLTOALL == call->kind || in_place(call) ? from.bytes : from.bytes * ranks;
    sdma_desc_t desc = {
        .kind = call->kind,
        .in_place = in_place(call),
        .send = from.start,
        .recv = to.start,
        .block_bytes = to.bytes / ranks,
    };
    if (SDMA_ALLTOALL == call->kind && in_place(call)) {
        desc.refused = SDMA_REASON_in_place;
    } else if (!from.contiguous || !to.contiguous) {
        desc.refused = SDMA_REASON_datatype;
    } else if (send_bytes != to.bytes) {
        desc.refused = SDMA_REASON_mismatch;
    }
    return desc;
}

static int call_lower(const call_t *call) {
    glue_staged_t from;
    glue_staged_t to;
    int status = glue_stage_send(&from, call->send, call->send_elements, call->send_type);
    if (OMPI_SUCCESS != status) {
        return status;
    }
    /* In place, an allgather reads this rank's block and an alltoall all of them. */
    size_t first = SDMA_ALLGATHER == call->kind ? (size_t)ompi_comm_rank(call->comm) * (size_t)call->recv_count : 0;
    size_t kept = SDMA_ALLGATHER == call->kind ? (size_t)call->recv_count : call->recv_elements;
    status = glue_stage_recv(&to, call->recv, call->recv_elements, call->recv_type, first, in_place(call) ? kept : 0);
    if (OMPI_SUCCESS == status) {
        if (NULL != from.memory || NULL != to.memory) {
            sdma_count("staged", 1);
        }
        status = call->lower(from.buffer, call->send_count, call->send_type, to.buffer, call->recv_count,
                             call->recv_type, call->comm, call->lower_module);
        status = glue_unstage_recv(&to, status);
    }
    glue_unstage_send(&from);
    return status;
}

static int collective(coll_sdma_module_t *module, const call_t *call) {
    int status = coll_sdma_team_up(module);
    if (OMPI_SUCCESS != status) {
        return status;
    }
    if (COLL_SDMA_OFF == module->state) {
        coll_sdma_count_passed();
        return call_lower(call);
    }
    sdma_desc_t desc = describe(call);
    switch (coll_sdma_run(module, &desc)) {
    case SDMA_OK:
        return OMPI_SUCCESS;
    case SDMA_DECLINED:
        return call_lower(call);
    default:
        return OMPI_ERROR;
    }
}

int coll_sdma_alltoall(const void *send, sdma_count_t send_count, struct ompi_datatype_t *send_type, void *recv,
                       sdma_count_t recv_count, struct ompi_datatype_t *recv_type, struct ompi_communicator_t *comm,
                       mca_coll_base_module_t *base) {
    coll_sdma_module_t *module = (coll_sdma_module_t *)base;
    size_t ranks = (size_t)ompi_comm_size(comm);
    call_t call = {
        .kind = SDMA_ALLTOALL,
        .send = send,
        .send_count = send_count,
        .send_elements = ranks * (size_t)send_count,
        .send_type = send_type,
        .recv = recv,
        .recv_count = recv_count,
        .recv_elements = ranks * (size_t)recv_count,
        .recv_type = recv_type,
        .comm = comm,
        .lower = module->lower.coll_alltoall,
        .lower_module = module->lower.coll_alltoall_module,
    };
    return collective(module, &call);
}

int coll_sdma_allgather(const void *send, sdma_count_t send_count, struct ompi_datatype_t *send_type, void *recv,
                        sdma_count_t recv_count, struct ompi_datatype_t *recv_type, struct ompi_communicator_t *comm,
                        mca_coll_base_module_t *base) {
    coll_sdma_module_t *module = (coll_sdma_module_t *)base;
    call_t call = {
        .kind = SDMA_ALLGATHER,
        .send = send,
        .send_count = send_count,
        .send_elements = (size_t)send_count,
        .send_type = send_type,
        .recv = recv,
        .recv_count = recv_count,
        .recv_elements = (size_t)ompi_comm_size(comm) * (size_t)recv_count,
        .recv_type = recv_type,
        .comm = comm,
        .lower = module->lower.coll_allgather,
        .lower_module = module->lower.coll_allgather_module,
    };
    return collective(module, &call);
}
