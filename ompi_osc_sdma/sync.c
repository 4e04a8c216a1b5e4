/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Synchronisation is the other component's. Whatever ends an epoch or completes operations first waits for ours: a
 * target that hears of the end finds the data there.
 */
#include "ompi_osc_sdma/osc_sdma.h"

/* The epoch ends whatever became of our operations. */
static int after(osc_sdma_window_t *window, int ours, int lower) {
    lower = osc_sdma_deliver_late(window, lower);
    return OMPI_SUCCESS == ours ? lower : ours;
}

static int fence(int assertion, ompi_win_t *win) {
    osc_sdma_window_t *window = osc_sdma_window_of(win);
    int ours = osc_sdma_drain_all(window, false);
    return after(window, ours, window->lower.osc_fence(assertion, win));
}

static int complete(ompi_win_t *win) {
    osc_sdma_window_t *window = osc_sdma_window_of(win);
    int ours = osc_sdma_drain_all(window, false);
    return after(window, ours, window->lower.osc_complete(win));
}

/* ---- start and post ---------------------------------------------------------------------------------------------- */

/* The other component may return from start before a target has posted, since it holds its own operations back until
 * then. Ours do not pass it, so targets count their posts to each origin on their boards. */
typedef int (*each_fn)(osc_sdma_window_t *window, int rank);

static int for_each(struct ompi_group_t *group, osc_sdma_window_t *window, each_fn each) {
    int status = OMPI_SUCCESS;
    for (int i = 0; i < ompi_group_size(group) && OMPI_SUCCESS == status; ++i) {
        int rank;
        status = ompi_group_translate_ranks(group, 1, &i, window->win->w_group, &rank);
        if (OMPI_SUCCESS == status) {
            status = each(window, rank);
        }
    }
    return status;
}

static int announce(osc_sdma_window_t *window, int rank) {
    sdma_board_add(window->board, (size_t)rank);
    return OMPI_SUCCESS;
}

static int await_post(osc_sdma_window_t *window, int rank) {
    osc_sdma_peer_t *peer = &window->peers[rank];
    int status = peer->ours ? osc_sdma_connect(window, rank) : OMPI_SUCCESS;
    if (!peer->ours || OMPI_SUCCESS != status) {
        return status;
    }
    ++peer->starts;
    while (sdma_board_read(peer->board, (size_t)window->rank) < peer->starts) {
        if (!sdma_line_alive(peer->line)) {
            return OMPI_ERROR;
        }
        opal_progress();
    }
    return OMPI_SUCCESS;
}

static int post(struct ompi_group_t *group, int assertion, ompi_win_t *win) {
    osc_sdma_window_t *window = osc_sdma_window_of(win);
    int status = window->lower.osc_post(group, assertion, win);
    return OMPI_SUCCESS == status && NULL != window->board ? for_each(group, window, announce) : status;
}

static int start(struct ompi_group_t *group, int assertion, ompi_win_t *win) {
    osc_sdma_window_t *window = osc_sdma_window_of(win);
    int status = window->lower.osc_start(group, assertion, win);
    return OMPI_SUCCESS == status && NULL != window->peers ? for_each(group, window, await_post) : status;
}

/* ---- locks ----------------------------------------------------------------------------------------------------------
 */

static bool must_settle(const osc_sdma_window_t *window, int assertion) {
    return window->lazy_locks && NULL != window->peers && 0 == (assertion & MPI_MODE_NOCHECK);
}

/* A flush waits for the lock. */
static int lock(int type, int target, int assertion, ompi_win_t *win) {
    osc_sdma_window_t *window = osc_sdma_window_of(win);
    int status = window->lower.osc_lock(type, target, assertion, win);
    return OMPI_SUCCESS == status && must_settle(window, assertion) ? window->lower.osc_flush(target, win) : status;
}

static int lock_all(int assertion, ompi_win_t *win) {
    osc_sdma_window_t *window = osc_sdma_window_of(win);
    int status = window->lower.osc_lock_all(assertion, win);
    return OMPI_SUCCESS == status && must_settle(window, assertion) ? window->lower.osc_flush_all(win) : status;
}

static int unlock(int target, ompi_win_t *win) {
    osc_sdma_window_t *window = osc_sdma_window_of(win);
    int ours = osc_sdma_drain(window, target, false);
    return after(window, ours, window->lower.osc_unlock(target, win));
}

static int unlock_all(ompi_win_t *win) {
    osc_sdma_window_t *window = osc_sdma_window_of(win);
    int ours = osc_sdma_drain_all(window, false);
    return after(window, ours, window->lower.osc_unlock_all(win));
}

/* ---- flushes --------------------------------------------------------------------------------------------------------
 */

static int flush(int target, ompi_win_t *win) {
    osc_sdma_window_t *window = osc_sdma_window_of(win);
    int ours = osc_sdma_drain(window, target, false);
    return after(window, ours, window->lower.osc_flush(target, win));
}

static int flush_all(ompi_win_t *win) {
    osc_sdma_window_t *window = osc_sdma_window_of(win);
    int ours = osc_sdma_drain_all(window, false);
    return after(window, ours, window->lower.osc_flush_all(win));
}

static int flush_local(int target, ompi_win_t *win) {
    osc_sdma_window_t *window = osc_sdma_window_of(win);
    int ours = osc_sdma_drain(window, target, true);
    return after(window, ours, window->lower.osc_flush_local(target, win));
}

static int flush_local_all(ompi_win_t *win) {
    osc_sdma_window_t *window = osc_sdma_window_of(win);
    int ours = osc_sdma_drain_all(window, true);
    return after(window, ours, window->lower.osc_flush_local_all(win));
}

void osc_sdma_take_synchronisation(ompi_osc_base_module_t *module) {
    module->osc_fence = fence;
    module->osc_complete = complete;
    module->osc_post = post;
    module->osc_start = start;
    module->osc_lock = lock;
    module->osc_lock_all = lock_all;
    module->osc_unlock = unlock;
    module->osc_unlock_all = unlock_all;
    module->osc_flush = flush;
    module->osc_flush_all = flush_all;
    module->osc_flush_local = flush_local;
    module->osc_flush_local_all = flush_local_all;
}
