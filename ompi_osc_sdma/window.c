/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One window: whether it is ours, what its ranks tell each other about it, and memory attached to it.
 */
#define _GNU_SOURCE
#include "ompi_osc_sdma/osc_sdma.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { DYNAMIC_REGIONS = 1024 };

/* What each rank tells the others before the window is built. */
typedef struct record {
    uint64_t flags;
    sdma_address_t address;
    sdma_board_name_t board_name;
    uint64_t base, size, disp_unit;
} record_t;
enum {
    HAS_BOARD = 1,     /* it has, or may get, GPU memory that peers of its node can reach */
    OUT_OF_REACH = 2,  /* it has GPU memory that nobody but its owner can reach */
    CPU_REACHES = 4,   /* ... which CPUs can reach as well */
    BRINGS_MEMORY = 8, /* it has made the memory of this MPI_Win_allocate */
};

/* ---- all windows -------------------------------------------------------------------------------------------- */

static pthread_mutex_t windows_lock = PTHREAD_MUTEX_INITIALIZER;
static osc_sdma_window_t *windows;
static _Atomic uint64_t changes = 1; /* of the list */

bool osc_sdma_windows_try_lock(osc_sdma_window_t **first) {
    if (0 != pthread_mutex_trylock(&windows_lock)) {
        return false;
    }
    *first = windows;
    return true;
}

void osc_sdma_windows_unlock(void) { pthread_mutex_unlock(&windows_lock); }

/* Operations come in runs on one window. */
osc_sdma_window_t *osc_sdma_window_of(ompi_win_t *win) {
    static _Thread_local struct {
        ompi_win_t *win;
        osc_sdma_window_t *window;
        uint64_t changes;
    } last;
    uint64_t now = atomic_load_explicit(&changes, memory_order_acquire);
    if (win != last.win || now != last.changes) {
        pthread_mutex_lock(&windows_lock);
        osc_sdma_window_t *window = windows;
        while (NULL != window && window->win != win) {
            window = window->next;
        }
        last.win = win;
        last.window = window;
        last.changes = atomic_load_explicit(&changes, memory_order_relaxed);
        pthread_mutex_unlock(&windows_lock);
    }
    return last.window;
}

static void list(osc_sdma_window_t *window) {
    pthread_mutex_lock(&windows_lock);
    window->next = windows;
    windows = window;
    atomic_fetch_add(&changes, 1);
    pthread_mutex_unlock(&windows_lock);
}

static void unlist(osc_sdma_window_t *window) {
    pthread_mutex_lock(&windows_lock);
    osc_sdma_window_t **at = &windows;
    while (*at != window) {
        at = &(*at)->next;
    }
    *at = window->next;
    atomic_fetch_add(&changes, 1);
    pthread_mutex_unlock(&windows_lock);
}

/* ---- memory of this rank ------------------------------------------------------------------------------------- */

/* Memory that some process of this node could read by the kernel, as components below do. */
static bool kernel_reaches(const void *base, size_t bytes) {
    char first;
    char last;
    struct iovec here[] = {{&first, 1}, {&last, 1}};
    struct iovec there[] = {{(void *)(uintptr_t)base, 1}, {(char *)(uintptr_t)base + bytes - 1, 1}};
    return 2 == process_vm_readv(getpid(), here, 2, there, 2, 0);
}

/* Makes GPU memory known to peers. OMPI_ERR_NOT_SUPPORTED: they cannot reach it. */
static int add_region(osc_sdma_window_t *window, const void *base, size_t bytes) {
    osc_sdma_region_t *region = calloc(1, sizeof(*region));
    if (NULL == region) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    sdma_reason_t reason = SDMA_REASON_no_memory;
    if (SDMA_OK != sdma_memory_register((void *)(uintptr_t)base, bytes, 1, &region->memory, &reason)) {
        glue_say(1, "%zu bytes of GPU memory at %p are not served: %s", bytes, base, sdma_reason_text(reason));
        free(region);
        return OMPI_ERR_NOT_SUPPORTED;
    }
    sdma_key_t key;
    sdma_memory_key(region->memory, &key);
    if (SDMA_OK != sdma_board_publish(window->board, base, bytes, &key)) {
        sdma_memory_release(region->memory);
        free(region);
        return MPI_ERR_RMA_ATTACH;
    }
    region->base = base;
    pthread_mutex_lock(&window->lock);
    region->next = window->regions;
    window->regions = region;
    pthread_mutex_unlock(&window->lock);
    return OMPI_SUCCESS;
}

/* False: there is none. */
static bool remove_region(osc_sdma_window_t *window, const void *base) {
    pthread_mutex_lock(&window->lock);
    osc_sdma_region_t **at = &window->regions;
    while (NULL != *at && (*at)->base != base) {
        at = &(*at)->next;
    }
    osc_sdma_region_t *region = *at;
    if (NULL != region) {
        *at = region->next;
    }
    pthread_mutex_unlock(&window->lock);
    if (NULL != region) {
        sdma_board_withdraw(window->board, base);
        sdma_memory_release(region->memory);
        free(region);
    }
    return NULL != region;
}

static bool make_board(osc_sdma_window_t *window, size_t entries, record_t *record) {
    sdma_reason_t reason;
    window->has_address = SDMA_OK == sdma_address(&record->address, &reason);
    if (!window->has_address) {
        return false;
    }
    window->board = sdma_board_create(entries, (size_t)window->ranks, &record->board_name);
    return NULL != window->board;
}

/* MPI 4.1: the kinds of memory that MPI_Win_allocate is asked for. */
static bool wants_device(struct opal_info_t *info) {
    char kinds[128];
    static const char *const device_kinds[] = {"rocm:device", "cuda:device"};
    if (NULL == info || !sdma_info_get(info, "mpi_memory_alloc_kinds", kinds, sizeof(kinds))) {
        return false;
    }
    return 0 == strcmp(kinds, device_kinds[0]) || 0 == strcmp(kinds, device_kinds[1]);
}

static bool enabled(void) {
    size_t count;
    const sdma_param_t *rows = sdma_params(&count);
    while (count > 0 && 0 != strcmp("enable", rows[count - 1].name)) {
        --count;
    }
    return 0 == count || *(const bool *)rows[count - 1].value;
}

/* What this rank has to say. Nothing here fails the window by itself: the others must hear of it. */
static void prepare(osc_sdma_window_t *window, void **base, size_t size, int disp_unit, struct opal_info_t *info,
                    int flavor, record_t *record) {
    *record = (record_t){.size = size, .disp_unit = (uint64_t)disp_unit};
    if (!sdma_runtime_loaded() || !enabled()) {
        return;
    }
    if (MPI_WIN_FLAVOR_DYNAMIC == flavor) {
        record->size = UINT64_MAX;
        record->flags = make_board(window, DYNAMIC_REGIONS, record) ? HAS_BOARD : 0;
        return;
    }
    void *memory = MPI_WIN_FLAVOR_CREATE == flavor ? *base : NULL;
    if (MPI_WIN_FLAVOR_ALLOCATE == flavor && wants_device(info) &&
        SDMA_OK == sdma_device_allocate(size, &window->device_memory)) {
        memory = window->device_memory;
        record->flags = BRINGS_MEMORY;
    }
    if (0 == size || NULL == memory || !sdma_is_device(memory)) {
        return;
    }
    record->base = (uint64_t)(uintptr_t)memory;
    bool reached = kernel_reaches(memory, size);
    if (make_board(window, 1, record) && OMPI_SUCCESS == add_region(window, memory, size)) {
        record->flags |= reached ? HAS_BOARD | CPU_REACHES : HAS_BOARD;
    } else if (!reached && GLUE_STAGE_NEVER != sdma_glue.stage && !sdma_ompi_gpu_aware()) {
        record->flags |= OUT_OF_REACH;
    }
}

/* ---- making and freeing -------------------------------------------------------------------------------------- */

/* Every rank does this at the same place of the communicator's order. Not by our own collective component, which
 * would set up a team that the communicator may never need. */
static int exchange(struct ompi_communicator_t *comm, const record_t *mine, record_t *all) {
    ompi_request_t *request = MPI_REQUEST_NULL;
    sdma_count_t bytes = (sdma_count_t)sizeof(*mine);
    int status = comm->c_coll->coll_iallgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, comm, &request,
                                               comm->c_coll->coll_iallgather_module);
    return OMPI_SUCCESS == status ? ompi_request_wait(&request, MPI_STATUS_IGNORE) : status;
}

static uint64_t flags_of_all(const record_t *records, int ranks) {
    uint64_t flags = 0;
    for (int p = 0; p < ranks; ++p) {
        flags |= records[p].flags;
    }
    return flags;
}

static int learn_peers(osc_sdma_window_t *window, const record_t *records, struct ompi_communicator_t *comm) {
    window->peers = calloc((size_t)window->ranks, sizeof(*window->peers));
    if (NULL == window->peers) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    for (int p = 0; p < window->ranks; ++p) {
        const record_t *record = &records[p];
        const ompi_proc_t *proc = ompi_comm_peer_lookup(comm, p);
        bool near = OPAL_PROC_ON_LOCAL_NODE(proc->super.proc_flags);
        window->spans_nodes = window->spans_nodes || !near;
        window->peers[p] = (osc_sdma_peer_t){
            .device = 0 != (record->flags & HAS_BOARD),
            .ours = 0 != (record->flags & HAS_BOARD) && near,
            .cpu_reaches = 0 != (record->flags & CPU_REACHES),
            .address = record->address,
            .board_name = record->board_name,
            .base = record->base,
            .size = record->size,
            .disp_unit = record->disp_unit,
        };
    }
    return OMPI_SUCCESS;
}

static void discard(osc_sdma_window_t *window) {
    if (NULL != window->peers) {
        osc_sdma_peers_close(window);
        free(window->peers);
    }
    while (NULL != window->regions) {
        remove_region(window, window->regions->base);
    }
    if (NULL != window->board) {
        sdma_board_close(window->board);
    }
    if (window->has_address) {
        sdma_address_release();
    }
    if (NULL != window->device_memory) {
        sdma_device_free(window->device_memory);
    }
    free(window->host_memory);
    pthread_mutex_destroy(&window->lock);
    free(window);
}

static int free_window(ompi_win_t *win) {
    osc_sdma_window_t *window = osc_sdma_window_of(win);
    int status = osc_sdma_drain_all(window, false);
    osc_sdma_finish_requests(window);
    unlist(window);
    /* The other component waits for all ranks before it frees anything: then nobody's copies are on their way. */
    int lower = window->lower.osc_free(win);
    osc_sdma_deliver_late(window, lower);
    discard(window);
    return OMPI_SUCCESS == status ? lower : status;
}

static int attach(ompi_win_t *win, void *base, size_t size) {
    osc_sdma_window_t *window = osc_sdma_window_of(win);
    if (NULL == window->board || 0 == size || !sdma_is_device(base)) {
        return window->lower.osc_win_attach(win, base, size);
    }
    int status = add_region(window, base, size);
    bool ours = OMPI_SUCCESS == status;
    if (ours && !window->spans_nodes) {
        return OMPI_SUCCESS;
    }
    if (ours || (OMPI_ERR_NOT_SUPPORTED == status && (sdma_ompi_gpu_aware() || kernel_reaches(base, size)))) {
        status = window->lower.osc_win_attach(win, base, size);
    }
    if (OMPI_SUCCESS != status) {
        glue_say(0, "%zu bytes of GPU memory at %p cannot be attached to a window", size, base);
    }
    if (OMPI_SUCCESS != status && ours) {
        remove_region(window, base);
    }
    return status;
}

static int detach(ompi_win_t *win, const void *base) {
    osc_sdma_window_t *window = osc_sdma_window_of(win);
    bool ours = remove_region(window, base);
    return ours && !window->spans_nodes ? OMPI_SUCCESS : window->lower.osc_win_detach(win, base);
}

static void take_over(osc_sdma_window_t *window) {
    ompi_osc_base_module_t *module = window->win->w_osc_module;
    window->lower = *module;
    module->osc_free = free_window;
    module->osc_win_attach = attach;
    module->osc_win_detach = detach;
    osc_sdma_take_rma(module);
    osc_sdma_take_accumulates(module);
    osc_sdma_take_synchronisation(module);
    list(window);
    osc_sdma_start_progress();
}

/* Some rank brings GPU memory to MPI_Win_allocate: then all bring theirs, since the ranks of the component below
 * must see the same kind of window. */
static int bring_memory(osc_sdma_window_t *window, size_t size, void **base) {
    if (NULL == window->device_memory && 0 != posix_memalign(&window->host_memory, 4096, size > 0 ? size : 1)) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    *base = NULL != window->device_memory ? window->device_memory : window->host_memory;
    return OMPI_SUCCESS;
}

static int make(osc_sdma_window_t *window, void **base, size_t size, int disp_unit, struct ompi_communicator_t *comm,
                struct opal_info_t *info, int flavor, int *model) {
    record_t mine;
    record_t *all = calloc((size_t)window->ranks, sizeof(*all));
    if (NULL == all) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    prepare(window, base, size, disp_unit, info, flavor, &mine);
    int status = exchange(comm, &mine, all);
    uint64_t flags = OMPI_SUCCESS == status ? flags_of_all(all, window->ranks) : 0;
    if (OMPI_SUCCESS == status && 0 != (flags & OUT_OF_REACH)) {
        if (0 != (mine.flags & OUT_OF_REACH)) {
            glue_say(0, "%zu bytes of GPU memory at %p cannot be a window: no other process can reach them", size,
                     (void *)(uintptr_t)mine.base);
        }
        status = OMPI_ERR_NOT_SUPPORTED;
    }
    if (OMPI_SUCCESS == status && 0 != (flags & HAS_BOARD)) {
        status = learn_peers(window, all, comm);
    }
    free(all);
    if (OMPI_SUCCESS == status && 0 != (flags & BRINGS_MEMORY)) {
        status = bring_memory(window, size, base);
        flavor = MPI_WIN_FLAVOR_CREATE;
    }
    if (OMPI_SUCCESS != status) {
        return status;
    }
    /* GPU-aware releases have components that refuse GPU memory (rdma). Where all of it is ours, none need see it. */
    void *nothing = NULL;
    bool ours = 0 != (mine.flags & HAS_BOARD) && !window->dynamic && !window->spans_nodes;
    return osc_sdma_select_lower(window, ours ? &nothing : base, ours ? 0 : size, disp_unit, comm, info, flavor, model);
}

int osc_sdma_window_make(ompi_win_t *win, void **base, size_t size, int disp_unit, struct ompi_communicator_t *comm,
                         struct opal_info_t *info, int flavor, int *model) {
    glue_publish();
    osc_sdma_window_t *window = calloc(1, sizeof(*window));
    if (NULL == window) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    window->win = win;
    window->ranks = ompi_comm_size(comm);
    window->rank = ompi_comm_rank(comm);
    window->dynamic = MPI_WIN_FLAVOR_DYNAMIC == flavor;
    pthread_mutex_init(&window->lock, NULL);
    int status = make(window, base, size, disp_unit, comm, info, flavor, model);
    /* A process without a GPU has no device origins, so a window in host memory is handed over as it is. */
    bool needed = NULL != window->peers || (sdma_runtime_loaded() && GLUE_STAGE_NEVER != sdma_glue.stage);
    if (OMPI_SUCCESS != status || !needed) {
        discard(window);
        return status;
    }
    take_over(window);
    glue_say(1, "window %p: %s", (void *)win,
             NULL != window->peers ? "GPU memory is served" : "device origins are copied through the host");
    return OMPI_SUCCESS;
}
