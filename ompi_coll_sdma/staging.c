/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Device buffers for components below us. An Open MPI that knows no GPUs would touch them with memcpy or hand them
 * to a transport that cannot read them, so it gets a host copy of the same layout. A local decision: what peers pass
 * does not matter.
 */
#include "ompi_coll_sdma/glue.h"

#include <stdlib.h>

static bool must_stage(const void *buffer) {
    return MPI_IN_PLACE != buffer && GLUE_STAGE_NEVER != sdma_glue.stage && sdma_is_device(buffer) &&
           (GLUE_STAGE_ALWAYS == sdma_glue.stage || !sdma_ompi_gpu_aware());
}

/* Makes the host copy and fills `bytes` of it from offset `from` on. */
static int load(glue_staged_t *staged, size_t from, size_t bytes) {
    staged->memory = malloc(staged->bytes);
    if (NULL == staged->memory) {
        glue_say(0, "no host memory to stage %zu bytes", staged->bytes);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    if (SDMA_OK != sdma_copy((char *)staged->memory + from, (char *)staged->device + from, bytes)) {
        free(staged->memory);
        staged->memory = NULL; /* some callers unstage whatever became of it */
        return OMPI_ERROR;
    }
    return OMPI_SUCCESS;
}

/* The elements that are read are `kept` from `first` on. */
static int stage(glue_staged_t *staged, bool (*wanted)(const void *), const void *buffer, size_t elements,
                 struct ompi_datatype_t *type, size_t first, size_t kept) {
    *staged = (glue_staged_t){.buffer = (void *)(uintptr_t)buffer};
    /* With a lower bound other than 0 the first byte that matters is not at `buffer`. */
    ptrdiff_t gap = 0;
    ptrdiff_t span = MPI_IN_PLACE == buffer ? 0 : opal_datatype_span(&type->super, elements, &gap);
    if (span <= 0 || !wanted((const char *)buffer + gap)) {
        return OMPI_SUCCESS;
    }
    staged->bytes = (size_t)span;
    staged->device = (char *)(uintptr_t)buffer + gap;
    ptrdiff_t lower_bound;
    ptrdiff_t extent;
    ompi_datatype_get_extent(type, &lower_bound, &extent);
    ptrdiff_t unused;
    int status = load(staged, first * (size_t)extent, (size_t)opal_datatype_span(&type->super, kept, &unused));
    if (OMPI_SUCCESS == status) {
        staged->buffer = (char *)staged->memory - gap;
    }
    return status;
}

/* The whole span goes back to the device, so what lies in gaps of the datatype must be read first. */
static int stage_back(glue_staged_t *staged, bool (*wanted)(const void *), void *buffer, size_t elements,
                      struct ompi_datatype_t *type, size_t first, size_t kept) {
    bool gaps = !opal_datatype_is_contiguous_memory_layout(&type->super, elements > 1 ? 2 : 1);
    return stage(staged, wanted, buffer, elements, type, gaps ? 0 : first, gaps ? elements : kept);
}

int glue_stage_send(glue_staged_t *staged, const void *buffer, size_t elements, struct ompi_datatype_t *type) {
    return stage(staged, must_stage, buffer, elements, type, 0, elements);
}

int glue_stage_recv(glue_staged_t *staged, void *buffer, size_t elements, struct ompi_datatype_t *type, size_t first,
                    size_t kept) {
    return stage_back(staged, must_stage, buffer, elements, type, first, kept);
}

static bool on_device(const void *buffer) { return 0 != sdma_is_device(buffer); }

int glue_host_send(glue_staged_t *staged, const void *buffer, size_t elements, struct ompi_datatype_t *type) {
    return stage(staged, on_device, buffer, elements, type, 0, elements);
}

int glue_host_recv(glue_staged_t *staged, void *buffer, size_t elements, struct ompi_datatype_t *type) {
    return stage_back(staged, on_device, buffer, elements, type, 0, 0);
}

void glue_unstage_send(glue_staged_t *staged) { free(staged->memory); }

int glue_unstage_recv(glue_staged_t *staged, int status) {
    if (NULL != staged->memory && OMPI_SUCCESS == status &&
        SDMA_OK != sdma_copy(staged->device, staged->memory, staged->bytes)) {
        status = OMPI_ERROR;
    }
    free(staged->memory);
    return status;
}
