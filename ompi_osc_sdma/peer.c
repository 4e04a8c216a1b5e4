/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks of a window as targets: whether an access is ours, and waiting for what went there.
 */
#include "ompi_osc_sdma/osc_sdma.h"

#include <stdatomic.h>
#include <stdlib.h>

/* A test is a few loads, progress polls all of Open MPI's transports: not after each. */
enum { TESTS_PER_PROGRESS = 8 };

/* ---- lines and mappings; under the window's lock -------------------------------------------------------------- */

static int connect_to(osc_sdma_peer_t *peer, int target) {
    if (NULL != peer->line) {
        return OMPI_SUCCESS;
    }
    sdma_reason_t reason = SDMA_REASON_peer_segment;
    sdma_line_t *line = NULL;
    peer->board = sdma_board_open(&peer->address, &peer->board_name);
    if (NULL == peer->board || SDMA_OK != sdma_line_open(&peer->address, &line, &reason)) {
        glue_say(0, "GPU memory of rank %d cannot be reached: %s", target, sdma_reason_text(reason));
        if (NULL != peer->board) {
            sdma_board_close(peer->board);
            peer->board = NULL;
        }
        return OMPI_ERR_UNREACH;
    }
    atomic_store_explicit(&peer->line, line, memory_order_release);
    return OMPI_SUCCESS;
}

int osc_sdma_connect(osc_sdma_window_t *window, int target) {
    pthread_mutex_lock(&window->lock);
    int status = connect_to(&window->peers[target], target);
    pthread_mutex_unlock(&window->lock);
    return status;
}

/* Places are used again for other memory, with another version. */
static int attach(osc_sdma_peer_t *peer, const sdma_posting_t *posting, int target, sdma_remote_t **remote) {
    osc_sdma_remote_t *known = peer->remotes;
    while (NULL != known && known->place != posting->place) {
        known = known->next;
    }
    if (NULL == known) {
        known = calloc(1, sizeof(*known));
        if (NULL == known) {
            return OMPI_ERR_OUT_OF_RESOURCE;
        }
        known->place = posting->place;
        known->next = peer->remotes;
        peer->remotes = known;
    }
    if (NULL == known->remote || known->version != posting->version) {
        if (NULL != known->remote) {
            sdma_remote_detach(known->remote);
            known->remote = NULL;
        }
        sdma_reason_t reason;
        if (SDMA_OK != sdma_remote_attach(peer->line, &posting->key, &known->remote, &reason)) {
            glue_say(0, "GPU memory of rank %d cannot be reached: %s", target, sdma_reason_text(reason));
            return OMPI_ERR_UNREACH;
        }
        known->version = posting->version;
    }
    *remote = known->remote;
    return OMPI_SUCCESS;
}

static int find(osc_sdma_peer_t *peer, int target, uint64_t first, size_t bytes, osc_sdma_reach_t *reach) {
    int status = connect_to(peer, target);
    if (OMPI_SUCCESS != status) {
        return status;
    }
    sdma_posting_t posting;
    switch (sdma_board_find(peer->board, first, bytes, &posting)) {
    case 1:
        status = attach(peer, &posting, target, &reach->remote);
        reach->peer = peer;
        reach->base = posting.base;
        return status;
    case 0: /* host memory that is attached to a dynamic window */
        return OMPI_SUCCESS;
    default:
        return OMPI_ERR_RMA_RANGE;
    }
}

int osc_sdma_reach(osc_sdma_window_t *window, int target, ptrdiff_t disp, size_t count, struct ompi_datatype_t *type,
                   osc_sdma_reach_t *reach) {
    reach->peer = NULL;
    ptrdiff_t gap = 0;
    ptrdiff_t span = opal_datatype_span(&type->super, count, &gap);
    osc_sdma_peer_t *peer = NULL != window->peers ? &window->peers[target] : NULL;
    if (NULL == peer || !peer->ours || span <= 0) {
        return OMPI_SUCCESS;
    }
    uint64_t offset = (uint64_t)disp * (window->dynamic ? 1 : peer->disp_unit);
    uint64_t first = offset + (uint64_t)gap; /* below 0 it is beyond every size */
    if (first > peer->size || (uint64_t)span > peer->size - first) {
        return OMPI_ERR_RMA_RANGE;
    }
    reach->buffer = (osc_sdma_buffer_t){.base = (void *)(uintptr_t)(peer->base + offset), .count = count, .type = type};
    pthread_mutex_lock(&window->lock);
    int status = find(peer, target, peer->base + first, (size_t)span, reach);
    pthread_mutex_unlock(&window->lock);
    return status;
}

void osc_sdma_peers_close(osc_sdma_window_t *window) {
    for (int p = 0; p < window->ranks; ++p) {
        osc_sdma_peer_t *peer = &window->peers[p];
        while (NULL != peer->remotes) {
            osc_sdma_remote_t *next = peer->remotes->next;
            if (NULL != peer->remotes->remote) {
                sdma_remote_detach(peer->remotes->remote);
            }
            free(peer->remotes);
            peer->remotes = next;
        }
        if (NULL != peer->line) {
            sdma_line_close(peer->line);
            sdma_board_close(peer->board);
        }
    }
}

/* ---- waiting ---------------------------------------------------------------------------------------------------- */

int osc_sdma_wait(osc_sdma_mark_t mark, bool local) {
    if (NULL == mark.line) {
        return OMPI_SUCCESS;
    }
    for (unsigned tests = 1;; ++tests) {
        if (SDMA_OK != sdma_line_progress(mark.line)) {
            return OMPI_ERROR;
        }
        if ((local ? sdma_line_local(mark.line) : sdma_line_done(mark.line)) >= mark.number) {
            return OMPI_SUCCESS;
        }
        if (0 == tests % TESTS_PER_PROGRESS) {
            opal_progress();
        }
    }
}

int osc_sdma_drain(osc_sdma_window_t *window, int target, bool local) {
    if (NULL == window->peers) {
        return OMPI_SUCCESS;
    }
    osc_sdma_mark_t mark = {.line = atomic_load_explicit(&window->peers[target].line, memory_order_acquire)};
    if (NULL != mark.line) {
        mark.number = sdma_line_posted(mark.line);
    }
    return osc_sdma_wait(mark, local);
}

int osc_sdma_drain_all(osc_sdma_window_t *window, bool local) {
    int status = OMPI_SUCCESS;
    /* All of it on its way before the first wait. */
    for (int p = 0; p < window->ranks && NULL != window->peers; ++p) {
        sdma_line_t *line = atomic_load_explicit(&window->peers[p].line, memory_order_acquire);
        if (NULL != line) {
            sdma_line_push(line);
        }
    }
    for (int p = 0; p < window->ranks; ++p) {
        int one = osc_sdma_drain(window, p, local);
        status = OMPI_SUCCESS == status ? one : status;
    }
    return status;
}

int osc_sdma_lock_target(osc_sdma_peer_t *peer) {
    while (!sdma_board_try_lock(peer->board)) {
        if (!sdma_line_alive(peer->line)) {
            return OMPI_ERROR;
        }
        opal_progress();
    }
    return OMPI_SUCCESS;
}

void osc_sdma_unlock_target(osc_sdma_peer_t *peer) { sdma_board_unlock(peer->board); }
