/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Requests of MPI_Rput and MPI_Rget, and the progress of what was posted.
 */
#include "ompi_osc_sdma/osc_sdma.h"

#include <stdatomic.h>

typedef struct osc_sdma_request {
    ompi_request_t super;
    struct osc_sdma_request *next;
    osc_sdma_window_t *window;
    osc_sdma_mark_t mark;
    bool local;
    bool freed; /* before it was complete */
} osc_sdma_request_t;

/* What is not complete yet. */
static pthread_mutex_t requests_lock = PTHREAD_MUTEX_INITIALIZER;
static osc_sdma_request_t *_Atomic requests;

static int cancel_request(ompi_request_t *request, int flag) {
    (void)request, (void)flag;
    return MPI_ERR_REQUEST;
}

static int free_request(ompi_request_t **handle) {
    osc_sdma_request_t *request = (osc_sdma_request_t *)*handle;
    pthread_mutex_lock(&requests_lock);
    bool complete = REQUEST_COMPLETE(&request->super);
    request->freed = true;
    pthread_mutex_unlock(&requests_lock);
    *handle = MPI_REQUEST_NULL;
    if (complete) {
        OMPI_REQUEST_FINI(&request->super);
        OBJ_RELEASE(request);
    }
    return OMPI_SUCCESS;
}

static void construct(osc_sdma_request_t *request) {
    OMPI_REQUEST_INIT(&request->super, false);
    request->super.req_type = OMPI_REQUEST_WIN;
    request->super.req_free = free_request;
    request->super.req_cancel = cancel_request;
    request->super.req_status._cancelled = 0;
    request->super.req_status.MPI_ERROR = MPI_SUCCESS;
    request->super.req_state = OMPI_REQUEST_ACTIVE;
    request->freed = false;
}

static OBJ_CLASS_INSTANCE(osc_sdma_request_t, ompi_request_t, construct, NULL);

static bool reached(const osc_sdma_request_t *request) {
    if (NULL == request->mark.line) {
        return true;
    }
    uint64_t now = request->local ? sdma_line_local(request->mark.line) : sdma_line_done(request->mark.line);
    return now >= request->mark.number;
}

/* A broken line counts everything as done. */
static void complete(osc_sdma_request_t *request) {
    if (NULL != request->mark.line && SDMA_OK != sdma_line_progress(request->mark.line)) {
        request->super.req_status.MPI_ERROR = MPI_ERR_OTHER;
    }
    ompi_request_complete(&request->super, true);
}

int osc_sdma_request(osc_sdma_window_t *window, osc_sdma_mark_t mark, bool local, ompi_request_t **handle) {
    osc_sdma_request_t *request = OBJ_NEW(osc_sdma_request_t);
    if (NULL == request) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    request->window = window;
    request->mark = mark;
    request->local = local;
    request->super.req_mpi_object.win = window->win;
    *handle = &request->super;
    if (reached(request)) {
        complete(request);
        return OMPI_SUCCESS;
    }
    pthread_mutex_lock(&requests_lock);
    request->next = requests;
    requests = request;
    pthread_mutex_unlock(&requests_lock);
    return OMPI_SUCCESS;
}

/* Takes out what has been reached, and with `all` of a window: everything. The number done. */
static int complete_requests(const osc_sdma_window_t *all) {
    int done = 0;
    osc_sdma_request_t *request = requests;
    osc_sdma_request_t *rest = NULL;
    while (NULL != request) {
        osc_sdma_request_t *next = request->next;
        if (request->window != all && !reached(request)) {
            request->next = rest;
            rest = request;
        } else {
            ++done;
            bool freed = request->freed;
            complete(request);
            if (freed) {
                OMPI_REQUEST_FINI(&request->super);
                OBJ_RELEASE(request);
            }
        }
        request = next;
    }
    requests = rest;
    return done;
}

void osc_sdma_finish_requests(osc_sdma_window_t *window) {
    pthread_mutex_lock(&requests_lock);
    complete_requests(window);
    pthread_mutex_unlock(&requests_lock);
}

/* ---- progress -------------------------------------------------------------------------------------------------- */

static atomic_bool progressing;

static void progress_window(const osc_sdma_window_t *window) {
    for (int p = 0; p < window->ranks && NULL != window->peers; ++p) {
        sdma_line_t *line = atomic_load_explicit(&window->peers[p].line, memory_order_acquire);
        if (NULL != line && sdma_line_done(line) != sdma_line_posted(line)) {
            sdma_line_progress(line);
        }
    }
}

/* Moves what was posted, also while nobody waits for it. Whoever finds others at it leaves it to them. */
static int progress(void) {
    int done = sdma_progress();
    osc_sdma_window_t *window;
    if (!osc_sdma_windows_try_lock(&window)) {
        return done;
    }
    for (; NULL != window; window = window->next) {
        progress_window(window);
    }
    if (NULL != requests && 0 == pthread_mutex_trylock(&requests_lock)) {
        done += complete_requests(NULL);
        pthread_mutex_unlock(&requests_lock);
    }
    osc_sdma_windows_unlock();
    return done;
}

void osc_sdma_start_progress(void) {
    if (!atomic_exchange(&progressing, true)) {
        opal_progress_register(progress);
    }
}

void osc_sdma_stop_progress(void) {
    if (atomic_exchange(&progressing, false)) {
        opal_progress_unregister(progress);
    }
}
