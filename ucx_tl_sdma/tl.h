/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The UCX transport `sdma`: put and get on GPU memory of the processes of a node, over the one-sided
 * operations of libmpisdma (common/sdma/onesided.h).
 *
 *   release.c    is this the UCX we were built for? then register the component
 *   component.c  the tables that UCX reads
 *   md.c         registration, keys, memory types
 *   iface.c      attributes, progress, buffers, events
 *   ep.c         endpoints: what is outstanding, flush, fence, pending, errors
 *   rma.c        put and get: short, buffered, zero-copy
 *   host.c       host memory of a peer, which SDMA cannot reach: copied by the kernel
 *
 * UCP serialises calls on a worker, and libmpisdma takes any thread, so there is no lock
 * but the domain's, which several workers may use.
 * Completions are delivered by iface progress only, but an invalidation's from UCX 1.18 on, which is complete on
 * return.
 */
#ifndef UCX_TL_SDMA_TL_H
#define UCX_TL_SDMA_TL_H

#include <pthread.h>
#include <stdbool.h>

#include <ucs/debug/log_def.h>

#include "common/sdma/onesided.h"
#include "ucx_tl_sdma/abi.h"

#define TL_NAME "sdma"
#define TL_DEVICE "sdma0"

/* ---- memory domain ----------------------------------------------------------------------------------- */

typedef struct tl_md_config {
    uct_md_config_t super;
    double reg_overhead;
    int always;
    char *layer[]; /* one per row of sdma_params() */
} tl_md_config_t;

typedef struct tl_md {
    uct_md_t super;
    sdma_address_t address;
    bool has_address;
    bool always;    /* offer devices without a GPU runtime, too */
    bool copier;    /* no ROCm transport is here: we detect GPU memory and copy for UCP */
    bool host_open; /* peers may copy from and to our host memory by the kernel */
    ucs_linear_func_t reg_cost;
    pthread_mutex_t lock;
#if UCX_RELEASE < 118
    ucs_list_link_t invalid; /* tl_memh_t that peers may still reach */
#endif
} tl_md_t;

typedef enum tl_memory { TL_MEMORY_NONE, TL_MEMORY_DEVICE, TL_MEMORY_HOST } tl_memory_t;

/* Registered memory. Host memory is pinned when it is first used as the local side. */
typedef struct tl_memh {
    tl_memory_t kind;
    void *base;
    size_t bytes;
    _Atomic(sdma_memory_t *) memory;
#if UCX_RELEASE < 118
    ucs_list_link_t link;
    uct_completion_t *invalidated;
#endif
} tl_memh_t;

/* What travels as a key, packed by the owner: untrusted. */
typedef struct tl_key {
    uint32_t magic;
    uint32_t kind;
    uint64_t base, bytes;
    uint64_t pid;
    sdma_key_t key;
} tl_key_t;

extern uct_component_t tl_component;

ucs_status_t tl_query_devices(uct_md_h md, uct_tl_device_resource_t **devices, unsigned *count);
/* The process's address, kept until the domain is closed. False: it cannot have one. */
bool tl_md_take_address(tl_md_t *md);
ucs_status_t tl_md_open(uct_component_t *component, const char *name, const uct_md_config_t *config, uct_md_h *md);
ucs_status_t tl_key_unpack(const void *buffer, uct_rkey_t *rkey, void **handle);
/* Ends the invalidations that have come to an end; returns how many. `left`: some have not. */
#if UCX_RELEASE >= 118
static inline unsigned tl_md_progress(tl_md_t *md, bool *left) {
    (void)md;
    *left = false;
    return 0;
}
#else
unsigned tl_md_progress(tl_md_t *md, bool *left);
#endif
void tl_complete(uct_completion_t *comp, ucs_status_t status);
/* The local side of an operation: pins host memory once instead of at each use. */
void tl_memh_pin(tl_memh_t *memh);

/* The parameters of libmpisdma as rows UCX_SDMA_<NAME>. */
ucs_config_field_t *tl_md_config_rows(size_t *config_bytes);
void tl_apply_layer_params(const tl_md_config_t *config);

/* ---- interface --------------------------------------------------------------------------------------- */

typedef struct tl_iface_config {
    uct_iface_config_t super;
    unsigned tx_queue_len;
    unsigned tx_buffers;
    size_t seg_size;
    size_t max_short;
    double bandwidth;
    double host_bandwidth;
    double latency;
    double copy_latency;
    double overhead;
    int prefer;
} tl_iface_config_t;

/* An address of libmpisdma in two parts: what all processes that can reach each other have in common, and the rest.
 * UCP's addresses have room for 31 and 63 bytes. */
typedef struct tl_device_addr {
    uint64_t words[3];
} tl_device_addr_t;

typedef struct tl_iface_addr {
    uint64_t words[5];
    uint64_t pid;
    uint64_t number; /* of the interface in its process */
} tl_iface_addr_t;

_Static_assert(sizeof(tl_device_addr_t) + offsetof(tl_iface_addr_t, pid) == sizeof(sdma_address_t), "the two parts");

/* Pinned memory for short and buffered operations. */
typedef struct tl_buffer {
    struct tl_buffer *next;
    char *data;
} tl_buffer_t;

typedef struct tl_iface {
    uct_base_iface_t super;
    tl_iface_config_t config;
    double bandwidth, latency; /* as told */
    tl_iface_addr_t address;
    ucs_list_link_t eps;    /* all */
    ucs_list_link_t active; /* those that progress has something to do for */
    struct tl_op *free_ops;
    unsigned outstanding;
    /* Endpoints with operations from before the last fence of the interface. */
    unsigned fenced_eps;
    tl_buffer_t *buffers, *free_buffers;
    char *slab;
    sdma_memory_t *slab_memory;
    unsigned polls;
    int event_fd;                                   /* a duplicate: UCX wants a number of its own for each interface */
    uint64_t count_short, count_bcopy, count_zcopy; /* not yet told to libmpisdma */
} tl_iface_t;

ucs_status_t tl_iface_open(uct_md_h md, uct_worker_h worker, const uct_iface_params_t *params,
                           const uct_iface_config_t *config, uct_iface_h *iface);
/* NULL with NO_RESOURCE (all in use) or NO_MEMORY. */
tl_buffer_t *tl_buffer_get(tl_iface_t *iface, ucs_status_t *status);
void tl_buffer_put(tl_iface_t *iface, tl_buffer_t *buffer);

/* ---- endpoint ---------------------------------------------------------------------------------------- */

/* Something to tell the user once the line has reached `number`. */
typedef struct tl_op {
    union {
        ucs_list_link_t link;
        struct tl_op *next_free;
    };
    uint64_t number;
    bool at_done; /* at done(number), else at local(number) */
    bool counted; /* against tx_queue_len */
    uct_completion_t *comp;
    tl_buffer_t *buffer;
    uct_unpack_callback_t unpack;
    void *unpack_arg;
    size_t bytes;
} tl_op_t;

/* A peer's memory as an endpoint sees it: by allocation and generation, which are part of the key. */
typedef struct tl_remote {
    struct tl_remote *next;
    sdma_key_t key;
    sdma_remote_t *remote;
} tl_remote_t;

enum { TL_REMOTE_SLOTS = 64, TL_REMOTES_PER_SLOT = 8 };

typedef struct tl_ep {
    uct_ep_t super;
    ucs_list_link_t link;        /* in iface->eps */
    ucs_list_link_t active_link; /* in iface->active */
    bool active;
    sdma_line_t *line;
    tl_iface_addr_t peer;
    bool own;            /* to this very process */
    bool full;           /* the line took no more; until the next progress */
    bool dispatching;    /* in a pending request's callback */
    bool progressing;    /* in progress(): whoever destroys the endpoint leaves that to it */
    bool destroyed;      /* during progress() */
    bool check_failed;   /* the peer is gone: say so in progress */
    ucs_status_t status; /* once it has failed */
    ucs_list_link_t ops; /* tl_op_t by number */
    ucs_list_link_t pending;
    uint64_t fence;       /* numbers up to here come before the last fence */
    uint64_t iface_fence; /* the same for the interface's; 0: none open */
    tl_remote_t *remotes[TL_REMOTE_SLOTS];
} tl_ep_t;

ucs_status_t tl_ep_create(const uct_ep_params_t *params, uct_ep_h *ep);
void tl_ep_destroy(uct_ep_h ep);
ucs_status_t tl_ep_put_short(uct_ep_h ep, const void *buffer, unsigned length, uint64_t remote, uct_rkey_t rkey);
ssize_t tl_ep_put_bcopy(uct_ep_h ep, uct_pack_callback_t pack, void *arg, uint64_t remote, uct_rkey_t rkey);
ucs_status_t tl_ep_put_zcopy(uct_ep_h ep, const uct_iov_t *iov, size_t count, uint64_t remote, uct_rkey_t rkey,
                             uct_completion_t *comp);
ucs_status_t tl_ep_get_short(uct_ep_h ep, void *buffer, unsigned length, uint64_t remote, uct_rkey_t rkey);
ucs_status_t tl_ep_get_bcopy(uct_ep_h ep, uct_unpack_callback_t unpack, void *arg, size_t length, uint64_t remote,
                             uct_rkey_t rkey, uct_completion_t *comp);
ucs_status_t tl_ep_get_zcopy(uct_ep_h ep, const uct_iov_t *iov, size_t count, uint64_t remote, uct_rkey_t rkey,
                             uct_completion_t *comp);
ucs_status_t tl_ep_flush(uct_ep_h ep, unsigned flags, uct_completion_t *comp);
ucs_status_t tl_ep_fence(uct_ep_h ep, unsigned flags);
ucs_status_t tl_ep_check(uct_ep_h ep, unsigned flags, uct_completion_t *comp);
ucs_status_t tl_ep_pending_add(uct_ep_h ep, uct_pending_req_t *request, unsigned flags);
void tl_ep_pending_purge(uct_ep_h ep, uct_pending_purge_callback_t callback, void *arg);
/* For the interface: deliver what is complete, then what is pending. Returns how many. */
unsigned tl_ep_progress(tl_ep_t *ep);
void tl_ep_activate(tl_ep_t *ep);
/* Something could be delivered without any further movement. */
bool tl_ep_ready(tl_ep_t *ep);
void tl_ep_open_iface_fence(tl_ep_t *ep);
/* The peer is gone, or the user wants it so: failed by progress once the engines are at rest. */
void tl_ep_fail_later(tl_ep_t *ep);

/* For rma.c. NULL: no memory; the memory cannot be attached. */
tl_op_t *tl_op_get(tl_iface_t *iface, bool counted);
void tl_op_put(tl_iface_t *iface, tl_op_t *op);
void tl_op_queue(tl_ep_t *ep, tl_op_t *op);
sdma_remote_t *tl_ep_remote(tl_ep_t *ep, const sdma_key_t *key);
void tl_ep_forget_remote(tl_ep_t *ep, const sdma_key_t *key);
ucs_status_t tl_ep_line_error(tl_ep_t *ep);
/* Requests that were refused before come first; what they post themselves goes. */
static inline bool tl_ep_behind_pending(tl_ep_t *ep) { return !ucs_list_is_empty(&ep->pending) && !ep->dispatching; }

/* ---- host memory of peers ---------------------------------------------------------------------------- */

/* Whether this process lets its peers do that (the kernel's ptrace rules); asks for it where it may. */
bool tl_host_open(void);
/* Copies at once. `local` may be device memory. */
ucs_status_t tl_host_copy(tl_ep_t *ep, bool get, void *local, uint64_t remote, size_t bytes);

#endif
