/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Two datatypes to copies. Both sides are walked together; runs of equal pieces at equal distances become one
 * rectangle, so that contiguous memory, vectors and subarrays are one operation each and everything else is as many
 * as it takes. What lies in the gaps of a datatype is never touched.
 */
#include "ompi_osc_sdma/osc_sdma.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

/* Such a copy waits for no others: it has a doorbell, and where a kernel moves bytes or writes packets a launch, of
 * its own. Unmeasured on AMD hardware. */
enum { ALONE_BYTES = 64 * 1024 };

size_t osc_sdma_bytes(const osc_sdma_buffer_t *buffer) {
    size_t size;
    ompi_datatype_type_size(buffer->type, &size);
    return size * buffer->count;
}

/* ---- one side -------------------------------------------------------------------------------------------------- */

typedef struct pieces {
    opal_convertor_t convertor;
    struct iovec room[32];
    uint32_t count, next;
    bool last; /* the convertor has no more */
    char *start;
    size_t bytes; /* of the current piece that are left */
} pieces_t;

static void begin(pieces_t *pieces, const osc_sdma_buffer_t *buffer) {
    pieces->count = pieces->next = 0;
    pieces->last = false;
    pieces->bytes = 0;
    OBJ_CONSTRUCT(&pieces->convertor, opal_convertor_t);
    opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &buffer->type->super, buffer->count,
                                             buffer->base, 0, &pieces->convertor);
}

static void end(pieces_t *pieces) { OBJ_DESTRUCT(&pieces->convertor); }

/* False at the end of the datatype. */
static bool have_piece(pieces_t *pieces) {
    while (0 == pieces->bytes) {
        if (pieces->next == pieces->count) {
            if (pieces->last) {
                return false;
            }
            size_t bytes = 0;
            pieces->count = sizeof(pieces->room) / sizeof(pieces->room[0]);
            pieces->next = 0;
            pieces->last = 0 != opal_convertor_raw(&pieces->convertor, pieces->room, &pieces->count, &bytes);
            continue;
        }
        pieces->start = pieces->room[pieces->next].iov_base;
        pieces->bytes = pieces->room[pieces->next].iov_len;
        ++pieces->next;
    }
    return true;
}

static void consume(pieces_t *pieces, size_t bytes) {
    pieces->start += bytes;
    pieces->bytes -= bytes;
}

/* ---- posting ----------------------------------------------------------------------------------------------------- */

typedef struct mover {
    osc_sdma_way_t way;
    const osc_sdma_reach_t *reach;
    osc_sdma_mark_t *mark;
} mover_t;

/* A rectangle of both sides. */
typedef struct tile {
    char *local;
    uint64_t offset; /* in the remote */
    sdma_rectangle_t shape;
} tile_t;

static sdma_status_t post(const mover_t *mover, const tile_t *tile) {
    sdma_line_t *line = mover->reach->peer->line;
    sdma_status_t status;
    do {
        status = OSC_SDMA_PUT == mover->way ? sdma_put_rectangle(line, tile->local, mover->reach->remote, tile->offset,
                                                                 &tile->shape, &mover->mark->number)
                                            : sdma_get_rectangle(line, tile->local, mover->reach->remote, tile->offset,
                                                                 &tile->shape, &mover->mark->number);
        if (SDMA_PENDING == status) {
            sdma_line_progress(line);
            opal_progress();
        }
    } while (SDMA_PENDING == status);
    mover->mark->line = line;
    return status;
}

static sdma_status_t copy_rows(const tile_t *to, const tile_t *from) {
    sdma_status_t status = SDMA_OK;
    for (size_t row = 0; row < from->shape.rows && SDMA_OK == status; ++row) {
        status = sdma_copy(to->local + row * to->shape.local_pitch, from->local + row * from->shape.local_pitch,
                           from->shape.row_bytes);
    }
    return status;
}

/* Memory of ours that engines cannot use (it may not be pinned, it is managed or on an unreachable GPU of ours)
 * goes through a host copy. Waits. */
static int post_staged(const mover_t *mover, const tile_t *tile) {
    tile_t copy = *tile;
    copy.local = malloc(tile->shape.rows * tile->shape.row_bytes);
    copy.shape.local_pitch = tile->shape.row_bytes;
    if (NULL == copy.local) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    sdma_count("staged", 1);
    sdma_status_t status = OSC_SDMA_PUT == mover->way ? copy_rows(&copy, tile) : SDMA_OK;
    if (SDMA_OK == status) {
        status = post(mover, &copy);
    }
    int done = SDMA_OK == status ? osc_sdma_wait(*mover->mark, OSC_SDMA_PUT == mover->way) : OMPI_ERROR;
    if (OMPI_SUCCESS == done && OSC_SDMA_GET == mover->way && SDMA_OK != copy_rows(tile, &copy)) {
        done = OMPI_ERROR;
    }
    free(copy.local);
    if (SDMA_DECLINED == status) {
        glue_say(0, "an access to GPU memory of a window cannot be served: %s",
                 sdma_reason_text(sdma_line_reason(mover->reach->peer->line)));
    }
    return done;
}

static int emit(const mover_t *mover, const tile_t *tile) {
    if (0 == tile->shape.rows) {
        return OMPI_SUCCESS;
    }
    switch (post(mover, tile)) {
    case SDMA_OK:
        return OMPI_SUCCESS;
    case SDMA_DECLINED:
        return post_staged(mover, tile);
    default:
        return OMPI_ERROR;
    }
}

/* ---- both sides ----------------------------------------------------------------------------------------------------
 */

/* Whether the piece continues the rectangle; pitches are settled by the second row. */
static bool extend(tile_t *tile, const tile_t *piece) {
    sdma_rectangle_t *shape = &tile->shape;
    if (0 == shape->rows || shape->row_bytes != piece->shape.row_bytes) {
        return false;
    }
    if (1 == shape->rows && piece->local > tile->local && piece->offset > tile->offset) {
        size_t local_pitch = (size_t)(piece->local - tile->local);
        size_t remote_pitch = (size_t)(piece->offset - tile->offset);
        if (local_pitch < shape->row_bytes || remote_pitch < shape->row_bytes) {
            return false;
        }
        shape->local_pitch = local_pitch;
        shape->remote_pitch = remote_pitch;
        shape->rows = 2;
        return true;
    }
    if (shape->rows > 1 && piece->local == tile->local + shape->rows * shape->local_pitch &&
        piece->offset == tile->offset + shape->rows * shape->remote_pitch) {
        ++shape->rows;
        return true;
    }
    return false;
}

static int walk(const mover_t *mover, pieces_t *local, pieces_t *remote) {
    tile_t tile = {.shape.rows = 0};
    int status = OMPI_SUCCESS;
    while (OMPI_SUCCESS == status && have_piece(local) && have_piece(remote)) {
        size_t bytes = local->bytes < remote->bytes ? local->bytes : remote->bytes;
        tile_t piece = {.local = local->start,
                        .offset = (uint64_t)(uintptr_t)remote->start - mover->reach->base,
                        .shape = {1, bytes, bytes, bytes}};
        if (!extend(&tile, &piece)) {
            status = emit(mover, &tile);
            tile = piece;
        }
        consume(local, bytes);
        consume(remote, bytes);
    }
    return OMPI_SUCCESS == status ? emit(mover, &tile) : status;
}

/* NULL: not one piece. The opal function only asks whether the count is 1: gaps between elements matter from 2 on. */
static char *start_of(const osc_sdma_buffer_t *buffer) {
    if (!opal_datatype_is_contiguous_memory_layout(&buffer->type->super, buffer->count > 1 ? 2 : 1)) {
        return NULL;
    }
    ptrdiff_t true_lb;
    ptrdiff_t true_extent;
    ompi_datatype_get_true_extent(buffer->type, &true_lb, &true_extent);
    return (char *)buffer->base + true_lb;
}

static int walk_both(const mover_t *mover, const osc_sdma_buffer_t *local) {
    pieces_t here;
    pieces_t there;
    begin(&here, local);
    begin(&there, &mover->reach->buffer);
    int status = walk(mover, &here, &there);
    end(&here);
    end(&there);
    return status;
}

int osc_sdma_move(osc_sdma_way_t way, const osc_sdma_buffer_t *local, const osc_sdma_reach_t *reach,
                  osc_sdma_mark_t *mark) {
    size_t bytes = osc_sdma_bytes(local);
    if (bytes != osc_sdma_bytes(&reach->buffer)) {
        return MPI_ERR_TRUNCATE;
    }
    sdma_line_t *line = reach->peer->line;
    bool idle = sdma_line_posted(line) == sdma_line_done(line);
    mover_t mover = {.way = way, .reach = reach, .mark = mark};
    char *from = start_of(local);
    char *to = start_of(&reach->buffer);
    int status = OMPI_SUCCESS;
    if (NULL != from && NULL != to) {
        tile_t tile = {
            .local = from, .offset = (uint64_t)(uintptr_t)to - reach->base, .shape = {1, bytes, bytes, bytes}};
        status = emit(&mover, &tile);
    } else {
        status = walk_both(&mover, local);
    }
    if ((idle || bytes >= ALONE_BYTES) && SDMA_OK != sdma_line_push(line) && OMPI_SUCCESS == status) {
        status = OMPI_ERROR;
    }
    return status;
}
