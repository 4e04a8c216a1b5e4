/* SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI windows on GPU memory. The component wraps the best other one: that one builds the window, synchronises, and
 * serves targets in host memory or on other nodes. What goes to GPU memory of this node is ours: put and get as
 * one-sided operations of libmpisdma, accumulates by get, compute and put under a lock of ours.
 *
 *   component.c  register, query, select        rma.c         MPI_Put, MPI_Get and their request forms
 *   window.c     make and free, attach          accumulate.c  the accumulate family
 *   peer.c       lines to targets, waiting      sync.c        fence, start .. wait, lock .. flush
 *   move.c       datatypes -> copies            request.c     requests, progress
 *   lower.c      device origins of the other component's operations
 *
 * The other component casts win->w_osc_module to its own type. So that stays its object, of which we replace entries
 * and keep the former ones in osc_sdma_window_t.lower; the window is found by its address.
 */
#ifndef OSC_SDMA_H
#define OSC_SDMA_H

#include "ompi_coll_sdma/glue.h"

#include "common/sdma/onesided.h"

#include <pthread.h>

extern ompi_osc_base_component_t mca_osc_sdma_component;

/* A published range of a target as we have attached it. */
typedef struct osc_sdma_remote {
    struct osc_sdma_remote *next;
    uint64_t place, version;
    sdma_remote_t *remote;
} osc_sdma_remote_t;

/* One rank of a window as a target. */
typedef struct osc_sdma_peer {
    bool device;      /* it has, or may get, GPU memory */
    bool ours;        /* ... which we reach: it is on this node */
    bool cpu_reaches; /* ... and so does its CPU */
    sdma_address_t address;
    sdma_board_name_t board_name;
    uint64_t base; /* in its addresses; 0 in dynamic windows */
    uint64_t size; /* of the window; everything in dynamic windows */
    uint64_t disp_unit;
    /* From the first operation on. Written under the window's lock. */
    sdma_line_t *_Atomic line;
    sdma_board_t *board;
    osc_sdma_remote_t *remotes;
    uint64_t starts; /* epochs that we have begun towards it by MPI_Win_start */
} osc_sdma_peer_t;

/* A range of ours that peers may reach. */
typedef struct osc_sdma_region {
    struct osc_sdma_region *next;
    const void *base;
    sdma_memory_t *memory;
} osc_sdma_region_t;

typedef struct osc_sdma_window {
    struct osc_sdma_window *next;
    ompi_win_t *win;
    ompi_osc_base_module_t lower; /* what the other component offers */
    int ranks, rank;
    bool dynamic;
    bool spans_nodes;
    bool lazy_locks;        /* the other component returns from MPI_Win_lock before it has the lock */
    osc_sdma_peer_t *peers; /* NULL: no rank has GPU memory in this window */
    bool has_address;
    sdma_board_t *board;
    osc_sdma_region_t *regions;
    void *device_memory; /* made for MPI_Win_allocate */
    void *host_memory;
    pthread_mutex_t lock;
    struct osc_sdma_late *late; /* results that the other component has not delivered yet */
} osc_sdma_window_t;

/* `count` elements of `type` at `base`. */
typedef struct osc_sdma_buffer {
    void *base;
    size_t count;
    struct ompi_datatype_t *type;
} osc_sdma_buffer_t;

/* Where an access goes. */
typedef struct osc_sdma_reach {
    osc_sdma_peer_t *peer; /* NULL: the other component */
    sdma_remote_t *remote;
    uint64_t base;            /* of the remote, in the target's addresses */
    osc_sdma_buffer_t buffer; /* in the target's addresses */
} osc_sdma_reach_t;

/* An end of an operation: `line` has reached `number`. line NULL: nothing to wait for. */
typedef struct osc_sdma_mark {
    sdma_line_t *line;
    uint64_t number;
} osc_sdma_mark_t;

/* window.c. All functions here return OMPI_ or MPI_ERR_ codes unless they say otherwise. */
int osc_sdma_window_make(ompi_win_t *win, void **base, size_t size, int disp_unit, struct ompi_communicator_t *comm,
                         struct opal_info_t *info, int flavor, int *model);
/* Never NULL for a window whose entries were replaced. */
osc_sdma_window_t *osc_sdma_window_of(ompi_win_t *win);
/* The list of all windows, locked; false: somebody else has it. */
bool osc_sdma_windows_try_lock(osc_sdma_window_t **first);
void osc_sdma_windows_unlock(void);

/* component.c: what the best component besides us makes of the window. */
int osc_sdma_select_lower(osc_sdma_window_t *window, void **base, size_t size, int disp_unit,
                          struct ompi_communicator_t *comm, struct opal_info_t *info, int flavor, int *model);

/* peer.c */
int osc_sdma_reach(osc_sdma_window_t *window, int target, ptrdiff_t disp, size_t count, struct ompi_datatype_t *type,
                   osc_sdma_reach_t *reach);
/* A target to which nothing has gone yet. */
int osc_sdma_connect(osc_sdma_window_t *window, int target);
/* Our operations to `target`, or to all: until origins may be used again (`local`) or the effects are there. */
int osc_sdma_drain(osc_sdma_window_t *window, int target, bool local);
int osc_sdma_drain_all(osc_sdma_window_t *window, bool local);
int osc_sdma_wait(osc_sdma_mark_t mark, bool local);
/* Under the lock that all accumulates to a target take. */
int osc_sdma_lock_target(osc_sdma_peer_t *peer);
void osc_sdma_unlock_target(osc_sdma_peer_t *peer);
void osc_sdma_peers_close(osc_sdma_window_t *window);

/* move.c: everything from the one to the other; `mark` says when it has happened. The copies are posted, and may
 * wait for a push. */
typedef enum osc_sdma_way { OSC_SDMA_PUT, OSC_SDMA_GET } osc_sdma_way_t;
int osc_sdma_move(osc_sdma_way_t way, const osc_sdma_buffer_t *local, const osc_sdma_reach_t *reach,
                  osc_sdma_mark_t *mark);
size_t osc_sdma_bytes(const osc_sdma_buffer_t *buffer);

/* rma.c */
int osc_sdma_admit(osc_sdma_window_t *window, int target, ptrdiff_t disp);

/* rma.c, accumulate.c, sync.c: take over the entries of a module. */
void osc_sdma_take_rma(ompi_osc_base_module_t *module);
void osc_sdma_take_accumulates(ompi_osc_base_module_t *module);
void osc_sdma_take_synchronisation(ompi_osc_base_module_t *module);

/* lower.c */
int osc_sdma_lower_put(osc_sdma_window_t *window, const osc_sdma_buffer_t *origin, int target, ptrdiff_t disp,
                       const osc_sdma_buffer_t *to, ompi_request_t **request);
int osc_sdma_lower_get(osc_sdma_window_t *window, const osc_sdma_buffer_t *origin, int target, ptrdiff_t disp,
                       const osc_sdma_buffer_t *from, ompi_request_t **request);
/* `result` NULL: an accumulate. */
int osc_sdma_lower_accumulate(osc_sdma_window_t *window, const osc_sdma_buffer_t *origin,
                              const osc_sdma_buffer_t *result, int target, ptrdiff_t disp, const osc_sdma_buffer_t *to,
                              struct ompi_op_t *op, ompi_request_t **request);
int osc_sdma_lower_fetch_and_op(osc_sdma_window_t *window, const void *origin, void *result,
                                struct ompi_datatype_t *type, int target, ptrdiff_t disp, struct ompi_op_t *op);
int osc_sdma_lower_compare_and_swap(osc_sdma_window_t *window, const void *origin, const void *compare, void *result,
                                    struct ompi_datatype_t *type, int target, ptrdiff_t disp);
/* After the other component's own synchronisation: results that went through the host. */
int osc_sdma_deliver_late(osc_sdma_window_t *window, int status);

/* request.c */
/* Done when `mark` is reached in the sense of `local`. */
int osc_sdma_request(osc_sdma_window_t *window, osc_sdma_mark_t mark, bool local, ompi_request_t **request);
void osc_sdma_start_progress(void);
void osc_sdma_stop_progress(void);
/* Completes all requests of a window whose operations are over. */
void osc_sdma_finish_requests(osc_sdma_window_t *window);

#endif
