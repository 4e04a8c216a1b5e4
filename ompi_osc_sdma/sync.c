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
    module->osc_unlock = unlock;
    module->osc_unlock_all = unlock_all;
    module->osc_flush = flush;
    module->osc_flush_all = flush_all;
    module->osc_flush_local = flush_local;
    module->osc_flush_local_all = flush_local_all;
}
