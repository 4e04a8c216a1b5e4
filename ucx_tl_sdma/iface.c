/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The interface: what UCX is told about us, progress over the endpoints that need it, pinned buffers, sleep.
 */
#include "ucx_tl_sdma/tl.h"

#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

/* Retired mappings are dropped at every so many polls; lines with something to do look for themselves. */
enum { POLLS_BETWEEN_SWEEPS = 64 };

static tl_md_t *md_of(const tl_iface_t *iface) { return (tl_md_t *)iface->super.md; }

/* ---- buffers ----------------------------------------------------------------------------------------- */

/* ROCr's own copies pin and unpin host memory by its start address: no buffer starts where our pinned range does. */
static ucs_status_t make_buffers(tl_iface_t *iface) {
    const size_t count = iface->config.tx_buffers, bytes = iface->config.seg_size;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    sdma_reason_t reason = SDMA_REASON_none;
    iface->buffers = calloc(count, sizeof(*iface->buffers));
    if (iface->buffers == NULL || posix_memalign((void **)&iface->slab, page, page + count * bytes) != 0) {
        iface->slab = NULL;
        return UCS_ERR_NO_MEMORY;
    }
    if (sdma_memory_register(iface->slab, page + count * bytes, 0, &iface->slab_memory, &reason) != SDMA_OK) {
        ucs_debug("sdma: no pinned buffers: %s", sdma_reason_text(reason)); /* then each use pins its own part */
    }
    for (size_t i = 0; i < count; i++) {
        iface->buffers[i].data = iface->slab + page + i * bytes;
        tl_buffer_put(iface, &iface->buffers[i]);
    }
    return UCS_OK;
}

tl_buffer_t *tl_buffer_get(tl_iface_t *iface, ucs_status_t *status) {
    *status = iface->slab == NULL ? make_buffers(iface) : UCS_OK;
    tl_buffer_t *buffer = iface->free_buffers;
    if (*status == UCS_OK && buffer == NULL) {
        *status = UCS_ERR_NO_RESOURCE;
    }
    if (*status != UCS_OK) {
        return NULL;
    }
    iface->free_buffers = buffer->next;
    return buffer;
}

void tl_buffer_put(tl_iface_t *iface, tl_buffer_t *buffer) {
    buffer->next = iface->free_buffers;
    iface->free_buffers = buffer;
}

/* ---- attributes -------------------------------------------------------------------------------------- */

static ucs_status_t iface_query(uct_iface_h tl_iface, uct_iface_attr_t *attr) {
    tl_iface_t *iface = (tl_iface_t *)tl_iface;
    const tl_iface_config_t *config = &iface->config;
    uct_base_iface_query(&iface->super, attr);
    attr->cap.flags = UCT_IFACE_FLAG_PUT_SHORT | UCT_IFACE_FLAG_PUT_BCOPY | UCT_IFACE_FLAG_PUT_ZCOPY |
                      UCT_IFACE_FLAG_GET_SHORT | UCT_IFACE_FLAG_GET_BCOPY | UCT_IFACE_FLAG_GET_ZCOPY |
                      UCT_IFACE_FLAG_PENDING | UCT_IFACE_FLAG_CONNECT_TO_IFACE | UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE |
                      UCT_IFACE_FLAG_EP_CHECK;
    /* Nothing is ever received, but UCP asks for both before it gives a sleeping worker a lane of us. */
    attr->cap.event_flags = UCT_IFACE_FLAG_EVENT_SEND_COMP | UCT_IFACE_FLAG_EVENT_RECV | UCT_IFACE_FLAG_EVENT_FD;
    attr->cap.put.max_short = config->max_short;
    attr->cap.put.max_bcopy = config->seg_size;
    attr->cap.put.min_zcopy = 0;
    attr->cap.put.max_zcopy = SIZE_MAX;
    attr->cap.put.opt_zcopy_align = 1;
    attr->cap.put.align_mtu = 1;
    attr->cap.put.max_iov = 1;
    attr->cap.get.max_short = config->max_short;
    attr->cap.get.max_bcopy = config->seg_size;
    attr->cap.get.min_zcopy = 0;
    attr->cap.get.max_zcopy = SIZE_MAX;
    attr->cap.get.opt_zcopy_align = 1;
    attr->cap.get.align_mtu = 1;
    attr->cap.get.max_iov = 1;
    attr->device_addr_len = sizeof(tl_device_addr_t);
    attr->iface_addr_len = sizeof(tl_iface_addr_t);
    attr->bandwidth.dedicated = iface->bandwidth;
    attr->bandwidth.shared = 0;
    attr->latency = ucs_linear_func_make(iface->latency, 0);
    attr->overhead = config->overhead;
    return UCS_OK;
}

static ucs_status_t estimate_perf(uct_iface_h tl_iface, uct_perf_attr_t *attr) {
    const tl_iface_t *iface = (tl_iface_t *)tl_iface;
    const ucs_status_t status = uct_base_iface_estimate_perf(tl_iface, attr);
    if (status != UCS_OK) {
        return status;
    }
    if (attr->field_mask & UCT_PERF_ATTR_FIELD_RECV_OVERHEAD) {
        attr->recv_overhead = 0; /* the target's CPU does nothing */
    }
    /* Asked by memory type: in 1.23 for a lane, before that for a copy within this process only. */
    const uint64_t types = UCT_PERF_ATTR_FIELD_LOCAL_MEMORY_TYPE | UCT_PERF_ATTR_FIELD_REMOTE_MEMORY_TYPE;
    if ((attr->field_mask & types) != types) {
        return UCS_OK;
    }
    if (attr->local_memory_type == UCS_MEMORY_TYPE_HOST && attr->remote_memory_type == UCS_MEMORY_TYPE_HOST) {
        if (attr->field_mask & UCT_PERF_ATTR_FIELD_BANDWIDTH) {
            attr->bandwidth.dedicated = iface->config.host_bandwidth;
        }
#if UCX_RELEASE >= 123
        if (attr->field_mask & UCT_PERF_ATTR_FIELD_PATH_BANDWIDTH) {
            attr->path_bandwidth.dedicated = iface->config.host_bandwidth;
        }
#endif
    } else if ((attr->operation == UCT_EP_OP_PUT_SHORT || attr->operation == UCT_EP_OP_GET_SHORT) &&
               (attr->field_mask & UCT_PERF_ATTR_FIELD_LATENCY)) {
        attr->latency = ucs_linear_func_make(iface->config.copy_latency, 0);
    }
    return UCS_OK;
}

/* ---- addresses --------------------------------------------------------------------------------------- */

static ucs_status_t get_device_address(uct_iface_h iface, uct_device_addr_t *address) {
    memcpy(address, md_of((tl_iface_t *)iface)->address.words, sizeof(tl_device_addr_t));
    return UCS_OK;
}

static ucs_status_t get_address(uct_iface_h iface, uct_iface_addr_t *address) {
    memcpy(address, &((tl_iface_t *)iface)->address, sizeof(tl_iface_addr_t));
    return UCS_OK;
}

static bool same_node(const uct_iface_h iface, const uct_device_addr_t *address) {
    return memcmp(address, md_of((tl_iface_t *)iface)->address.words, sizeof(tl_device_addr_t)) == 0;
}

#if UCX_RELEASE >= 118
static int is_reachable_v2(const uct_iface_h iface, const uct_iface_is_reachable_params_t *params) {
    if (!(params->field_mask & UCT_IFACE_IS_REACHABLE_FIELD_DEVICE_ADDR) || params->device_addr == NULL) {
        uct_iface_fill_info_str_buf(params, "no device address");
        return 0;
    }
    if (!same_node(iface, params->device_addr)) {
        uct_iface_fill_info_str_buf(params, "on another node or in another pid namespace");
        return 0;
    }
    return uct_iface_scope_is_reachable(iface, params);
}

static int ep_is_connected(uct_ep_h ep, const uct_ep_is_connected_params_t *params) {
    if (!uct_base_ep_is_connected(ep, params)) {
        return 0;
    }
    return !(params->field_mask & UCT_EP_IS_CONNECTED_FIELD_IFACE_ADDR) ||
           memcmp(params->iface_addr, &((tl_ep_t *)ep)->peer, sizeof(tl_iface_addr_t)) == 0;
}
#else
static int is_reachable(const uct_iface_h iface, const uct_device_addr_t *device, const uct_iface_addr_t *address) {
    (void)address;
    return same_node(iface, device);
}
#endif

/* ---- progress ---------------------------------------------------------------------------------------- */

static void tell(const char *name, uint64_t *count) {
    if (*count > 0) {
        sdma_count(name, *count);
        *count = 0;
    }
}

static void tell_counts(tl_iface_t *iface) {
    tell("ucx_short", &iface->count_short);
    tell("ucx_bcopy", &iface->count_bcopy);
    tell("ucx_zcopy", &iface->count_zcopy);
}

static unsigned iface_progress(uct_iface_h tl_iface) {
    tl_iface_t *iface = (tl_iface_t *)tl_iface;
    unsigned count = 0;
    if (iface->polls++ % POLLS_BETWEEN_SWEEPS == 0) {
        bool left;
        sdma_progress();
        count += tl_md_progress(md_of(iface), &left);
        tell_counts(iface);
    }
    /* A callback may add and destroy endpoints, other ones too, so take the first and put it last. */
    for (unsigned long left = ucs_list_length(&iface->active); left > 0 && !ucs_list_is_empty(&iface->active); left--) {
        tl_ep_t *ep = ucs_list_head(&iface->active, tl_ep_t, active_link);
        ucs_list_del(&ep->active_link);
        ucs_list_add_tail(&iface->active, &ep->active_link);
        count += tl_ep_progress(ep);
    }
    return count;
}

static ucs_status_t iface_flush(uct_iface_h tl_iface, unsigned flags, uct_completion_t *comp) {
    tl_iface_t *iface = (tl_iface_t *)tl_iface;
    if (comp != NULL) {
        return UCS_ERR_UNSUPPORTED;
    }
    ucs_status_t status = UCS_OK;
    tl_ep_t *ep;
    ucs_list_for_each(ep, &iface->eps, link) {
        if (tl_ep_flush(&ep->super, flags, NULL) != UCS_OK) {
            status = UCS_INPROGRESS;
        }
    }
    return status;
}

/* Lines know nothing of each other: until one is past its fence, the others take nothing new. */
static ucs_status_t iface_fence(uct_iface_h tl_iface, unsigned flags) {
    tl_iface_t *iface = (tl_iface_t *)tl_iface;
    (void)flags;
    tl_ep_t *ep;
    ucs_list_for_each(ep, &iface->eps, link) { tl_ep_open_iface_fence(ep); }
    return UCS_OK;
}

/* ---- sleep ------------------------------------------------------------------------------------------- */

static ucs_status_t event_fd_get(uct_iface_h tl_iface, int *fd) {
    tl_iface_t *iface = (tl_iface_t *)tl_iface;
    if (iface->event_fd < 0) {
        iface->event_fd = fcntl(sdma_event_fd(), F_DUPFD_CLOEXEC, 0);
    }
    *fd = iface->event_fd;
    return *fd < 0 ? UCS_ERR_UNSUPPORTED : UCS_OK;
}

static ucs_status_t event_arm(uct_iface_h tl_iface, unsigned events) {
    tl_iface_t *iface = (tl_iface_t *)tl_iface;
    (void)events;
    bool left = false;
    if (tl_md_progress(md_of(iface), &left) > 0 || left) {
        return UCS_ERR_BUSY; /* peers tell nobody when they let go of memory */
    }
    tl_ep_t *ep;
    ucs_list_for_each(ep, &iface->active, active_link) {
        if (sdma_line_push(ep->line) == SDMA_ERROR || tl_ep_ready(ep)) {
            return UCS_ERR_BUSY;
        }
    }
    struct pollfd event = {.fd = iface->event_fd, .events = POLLIN};
    if (ucs_list_is_empty(&iface->active) && poll(&event, 1, 0) == 0) {
        return UCS_OK; /* nothing of ours can happen: no thread need look */
    }
    return sdma_event_arm() == SDMA_OK ? UCS_OK : UCS_ERR_BUSY;
}

/* ---- life -------------------------------------------------------------------------------------------- */

static void iface_close(uct_iface_h iface);

static uct_iface_ops_t iface_ops = {
    .ep_put_short = tl_ep_put_short,
    .ep_put_bcopy = tl_ep_put_bcopy,
    .ep_put_zcopy = tl_ep_put_zcopy,
    .ep_get_short = tl_ep_get_short,
    .ep_get_bcopy = tl_ep_get_bcopy,
    .ep_get_zcopy = tl_ep_get_zcopy,
    .ep_pending_add = tl_ep_pending_add,
    .ep_pending_purge = tl_ep_pending_purge,
    .ep_flush = tl_ep_flush,
    .ep_fence = tl_ep_fence,
    .ep_check = tl_ep_check,
    .ep_create = tl_ep_create,
    .ep_destroy = tl_ep_destroy,
    .iface_flush = iface_flush,
    .iface_fence = iface_fence,
    .iface_progress_enable = uct_base_iface_progress_enable,
    .iface_progress_disable = uct_base_iface_progress_disable,
    .iface_progress = iface_progress,
    .iface_event_fd_get = event_fd_get,
    .iface_event_arm = event_arm,
    .iface_close = iface_close,
    .iface_query = iface_query,
    .iface_get_device_address = get_device_address,
    .iface_get_address = get_address,
#if UCX_RELEASE >= 118
    .iface_is_reachable = uct_base_iface_is_reachable,
#else
    .iface_is_reachable = is_reachable,
#endif
};

#if UCX_RELEASE >= 123
static ucs_status_t ep_invalidate(uct_ep_h ep, const void *params) {
    (void)params;
#else
static ucs_status_t ep_invalidate(uct_ep_h ep, unsigned flags) {
    (void)flags;
#endif
    tl_ep_fail_later((tl_ep_t *)ep);
    return UCS_OK;
}

static uct_iface_internal_ops_t internal_ops = {
#if UCX_RELEASE >= 123
    .iface_query_v2 = uct_iface_base_query_v2,
#endif
    .iface_estimate_perf = estimate_perf,
    .iface_vfs_refresh = (void *)ucs_empty_function,
    .ep_query = (void *)ucs_empty_function_return_unsupported,
    .ep_invalidate = ep_invalidate,
#if UCX_RELEASE >= 118
    .ep_connect_to_ep_v2 = (void *)ucs_empty_function_return_unsupported,
    .iface_is_reachable_v2 = is_reachable_v2,
    .ep_is_connected = ep_is_connected,
#endif
#if UCX_RELEASE >= 123
    .ep_get_device_ep = (void *)ucs_empty_function_return_unsupported,
    .ep_put_sgl_zcopy = (void *)ucs_empty_function_return_unsupported,
    .ep_get_sgl_zcopy = (void *)ucs_empty_function_return_unsupported,
    .ep_outstanding_purge = (void *)ucs_empty_function_return_unsupported,
#endif
};

static UCS_CLASS_INIT_FUNC(tl_iface_t, uct_md_h md, uct_worker_h worker, const uct_iface_params_t *params,
                           const uct_iface_config_t *config) {
    static _Atomic uint64_t numbers;
    UCS_CLASS_CALL_SUPER_INIT(uct_base_iface_t, &iface_ops, &internal_ops, md, worker, params, config);
    memset((char *)self + sizeof(self->super), 0, sizeof(*self) - sizeof(self->super));
    self->config = *(const tl_iface_config_t *)config;
    if (self->config.tx_queue_len == 0 || self->config.tx_buffers == 0 || self->config.seg_size == 0 ||
        self->config.max_short > self->config.seg_size) {
        ucs_error("sdma: UCX_SDMA_TX_QUEUE_LEN, _TX_BUFFERS and _SEG_SIZE must not be 0, nor _MAX_SHORT above "
                  "_SEG_SIZE");
        return UCS_ERR_INVALID_PARAM;
    }
    if (!tl_md_take_address(md_of(self))) {
        return UCS_ERR_NO_DEVICE;
    }
    memcpy(self->address.words, &md_of(self)->address.words[3], sizeof(self->address.words));
    self->address.pid = (uint64_t)getpid();
    self->address.number = atomic_fetch_add(&numbers, 1);
    const bool beat = self->config.prefer && !md_of(self)->copier;
    self->bandwidth = beat && self->config.bandwidth < 500e9 ? 500e9 : self->config.bandwidth;
    self->latency = beat && self->config.latency > 1e-9 ? 1e-9 : self->config.latency;
    self->event_fd = -1;
    ucs_list_head_init(&self->eps);
    ucs_list_head_init(&self->active);
    return UCS_OK;
}

static UCS_CLASS_CLEANUP_FUNC(tl_iface_t) {
    uct_base_iface_progress_disable(&self->super.super, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    tell_counts(self);
    if (self->event_fd >= 0) {
        close(self->event_fd);
    }
    if (self->slab_memory != NULL) {
        sdma_memory_release(self->slab_memory);
    }
    free(self->slab);
    free(self->buffers);
    while (self->free_ops != NULL) {
        tl_op_t *op = self->free_ops;
        self->free_ops = op->next_free;
        free(op);
    }
}

UCS_CLASS_DEFINE(tl_iface_t, uct_base_iface_t)
static UCS_CLASS_DEFINE_NEW_FUNC(tl_iface_t, uct_iface_t, uct_md_h, uct_worker_h, const uct_iface_params_t *,
                                 const uct_iface_config_t *) static UCS_CLASS_DEFINE_DELETE_FUNC(tl_iface_t,
                                                                                                 uct_iface_t)

    static void iface_close(uct_iface_h iface) {
    UCS_CLASS_DELETE_FUNC_NAME(tl_iface_t)(iface);
}

ucs_status_t tl_iface_open(uct_md_h md, uct_worker_h worker, const uct_iface_params_t *params,
                           const uct_iface_config_t *config, uct_iface_h *iface) {
    return UCS_CLASS_NEW_FUNC_NAME(tl_iface_t)(md, worker, params, config, iface);
}
