/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Put and get. All bytes of a peer's GPU memory go over the endpoint's line, so that order and flush hold for
 * every kind of operation. Short and buffered ones pass through pinned buffers of the interface. To this
 * very process, short ones of any length are asked for and must be finished on return (UCP copies between
 * memory types this way).
 */
#include "ucx_tl_sdma/tl.h"

#include <string.h>

/* Posted, but not yet told to the engines, behind others that are: more may follow and share the doorbell. */
enum { UNPUSHED_MAX = 16 };

static tl_iface_t *iface_of(const tl_ep_t *ep) { return (tl_iface_t *)ep->super.iface; }

static const tl_key_t *key_of(uct_rkey_t rkey) { return (const tl_key_t *)rkey; }

static ucs_status_t check_range(const tl_ep_t *ep, const tl_key_t *key, uint64_t remote, size_t length) {
    if ((key->kind == TL_MEMORY_HOST && key->pid != ep->peer.pid) || remote < key->base ||
        remote - key->base > key->bytes || length > key->bytes - (remote - key->base)) {
        ucs_debug("sdma: length %zu at 0x%lx is outside of the key's memory, or the key is not this peer's", length,
                  remote);
        return UCS_ERR_INVALID_PARAM;
    }
    return UCS_OK;
}

static ucs_status_t check_length(const char *name, size_t length, size_t most) {
    if (length > most) {
        ucs_error("Invalid %s length: %zu (expected: <= %zu)", name, length, most);
        return UCS_ERR_INVALID_PARAM;
    }
    return UCS_OK;
}

/* Operations of other endpoints that an interface fence put before ours. */
static bool held_back(const tl_ep_t *ep) { return iface_of(ep)->fenced_eps > (ep->iface_fence != 0 ? 1u : 0u); }

/* Whether another operation may be posted; else the user tries again after progress. */
static ucs_status_t check_room(tl_ep_t *ep) {
    if (ep->status != UCS_OK) {
        return ep->status;
    }
    return ep->full || tl_ep_behind_pending(ep) || held_back(ep) ||
                   iface_of(ep)->outstanding >= iface_of(ep)->config.tx_queue_len
               ? UCS_ERR_NO_RESOURCE
               : UCS_OK;
}

/* GPU memory of this process, by a short operation: done on return, so that it takes no room. UCP, which copies between
 * memory types this way, ends the process if it is told to try again. */
static ucs_status_t check_own(tl_ep_t *ep) {
    return ep->status != UCS_OK ? ep->status : tl_ep_behind_pending(ep) ? UCS_ERR_NO_RESOURCE : UCS_OK;
}

/* A copy by the CPU comes after everything before the last fence. */
static ucs_status_t check_host_order(tl_ep_t *ep) {
    if (ep->status != UCS_OK) {
        return ep->status;
    }
    if (tl_ep_behind_pending(ep) || held_back(ep) || sdma_line_done(ep->line) < ep->fence) {
        tl_ep_activate(ep);
        return UCS_ERR_NO_RESOURCE;
    }
    return UCS_OK;
}

/* OK: posted as *number. NO_RESOURCE: the line is full. UNSUPPORTED: this pair of memories. */
static ucs_status_t post(tl_ep_t *ep, bool get, void *local, const tl_key_t *key, uint64_t remote, size_t length,
                         uint64_t *number) {
    sdma_remote_t *memory = tl_ep_remote(ep, &key->key);
    if (memory == NULL) {
        return sdma_line_alive(ep->line) ? UCS_ERR_INVALID_ADDR : tl_ep_line_error(ep);
    }
    const size_t offset = remote - key->base;
    const sdma_status_t status = get ? sdma_get(ep->line, local, memory, offset, length, number)
                                     : sdma_put(ep->line, local, memory, offset, length, number);
    switch (status) {
    case SDMA_OK:
        if (*number - sdma_line_done(ep->line) == 1 || *number % UNPUSHED_MAX == 0) {
            sdma_line_push(ep->line);
        }
        return UCS_OK;
    case SDMA_PENDING:
        ep->full = true;
        tl_ep_activate(ep);
        return UCS_ERR_NO_RESOURCE;
    case SDMA_DECLINED:
        if (sdma_line_reason(ep->line) == SDMA_REASON_retired) {
            tl_ep_forget_remote(ep, &key->key);
            return UCS_ERR_INVALID_ADDR;
        }
        return UCS_ERR_UNSUPPORTED;
    default: /* a broken line, or a key that promised more than there is */
        return sdma_line_push(ep->line) == SDMA_ERROR ? tl_ep_line_error(ep) : UCS_ERR_INVALID_PARAM;
    }
}

/* Posts and waits; the wait is bounded by the hardware timeout of the line, which then breaks. */
static ucs_status_t copy_now(tl_ep_t *ep, bool get, void *local, const tl_key_t *key, uint64_t remote, size_t length) {
    uint64_t number = 0;
    ucs_status_t status;
    while ((status = post(ep, get, local, key, remote, length, &number)) == UCS_ERR_NO_RESOURCE) {
        if (sdma_line_progress(ep->line) == SDMA_ERROR) {
            return tl_ep_line_error(ep);
        }
    }
    if (status != UCS_OK) {
        return status;
    }
    do { /* a broken line counts everything as done */
        if (sdma_line_progress(ep->line) == SDMA_ERROR) {
            return tl_ep_line_error(ep);
        }
    } while (sdma_line_done(ep->line) < number);
    return UCS_OK;
}

/* UCP copies between memory types of this process without a key: both addresses are its own. */
static ucs_status_t copy_without_key(const tl_ep_t *ep, bool get, void *local, uint64_t remote, size_t length) {
    if (!ep->own) {
        ucs_debug("sdma: no key for length %zu at 0x%lx", length, remote);
        return UCS_ERR_INVALID_PARAM;
    }
    void *other = (void *)(uintptr_t)remote;
    return sdma_copy(get ? local : other, get ? other : local, length) == SDMA_OK ? UCS_OK : UCS_ERR_IO_ERROR;
}

/* Through a buffer, and done on return: for short operations, and for memory that the line cannot take. */
static ucs_status_t copy_staged(tl_ep_t *ep, bool get, void *local, const tl_key_t *key, uint64_t remote,
                                size_t length) {
    tl_iface_t *iface = iface_of(ep);
    ucs_status_t status;
    tl_buffer_t *buffer = tl_buffer_get(iface, &status);
    if (buffer == NULL) {
        return ep->own ? copy_without_key(ep, get, local, remote, length) : status;
    }
    const bool device = sdma_is_device(local) != 0;
    char *at = local;
    while (status == UCS_OK && length > 0) {
        const size_t now = length < iface->config.seg_size ? length : iface->config.seg_size;
        if (!get) {
            if (!device) {
                memcpy(buffer->data, at, now);
            } else if (sdma_copy(buffer->data, at, now) != SDMA_OK) {
                status = UCS_ERR_IO_ERROR;
                break;
            }
        }
        status = copy_now(ep, get, buffer->data, key, remote, now);
        if (get && status == UCS_OK) {
            if (!device) {
                memcpy(at, buffer->data, now);
            } else if (sdma_copy(at, buffer->data, now) != SDMA_OK) {
                status = UCS_ERR_IO_ERROR;
            }
        }
        at += now;
        remote += now;
        length -= now;
    }
    tl_buffer_put(iface, buffer);
    return status;
}

/* `op` is the caller's, filled but for its number; it is queued, and counted, or given back. */
static ucs_status_t post_op(tl_ep_t *ep, bool get, void *local, const tl_key_t *key, uint64_t remote, size_t length,
                            tl_op_t *op, uint64_t *counter) {
    const ucs_status_t status = post(ep, get, local, key, remote, length, &op->number);
    if (status != UCS_OK) {
        tl_op_put(iface_of(ep), op);
        return status;
    }
    op->at_done = get;
    tl_op_queue(ep, op);
    (*counter)++;
    return UCS_INPROGRESS;
}

/* An operation with a buffer. */
static tl_op_t *buffered_op(tl_ep_t *ep, ucs_status_t *status) {
    tl_iface_t *iface = iface_of(ep);
    if ((*status = check_room(ep)) != UCS_OK) {
        return NULL;
    }
    tl_buffer_t *buffer = tl_buffer_get(iface, status);
    if (buffer == NULL) {
        return NULL;
    }
    tl_op_t *op = tl_op_get(iface, true);
    if (op == NULL) {
        tl_buffer_put(iface, buffer);
        *status = UCS_ERR_NO_MEMORY;
        return NULL;
    }
    op->buffer = buffer;
    return op;
}

/* ---- short ------------------------------------------------------------------------------------------- */

ucs_status_t tl_ep_put_short(uct_ep_h tl_ep, const void *buffer, unsigned length, uint64_t remote, uct_rkey_t rkey) {
    tl_ep_t *ep = (tl_ep_t *)tl_ep;
    const tl_key_t *key = key_of(rkey);
    if (rkey == UCT_INVALID_RKEY) {
        return copy_without_key(ep, false, (void *)(uintptr_t)buffer, remote, length);
    }
    ucs_status_t status = ep->own ? UCS_OK : check_length("put_short", length, iface_of(ep)->config.max_short);
    if (status != UCS_OK || length == 0 || (status = check_range(ep, key, remote, length)) != UCS_OK) {
        return status;
    }
    void *local = (void *)(uintptr_t)buffer;
    if (key->kind == TL_MEMORY_HOST) {
        status = check_host_order(ep);
        return status != UCS_OK ? status : tl_host_copy(ep, false, local, remote, length);
    }
    if (ep->own) {
        status = check_own(ep);
        return status != UCS_OK ? status : copy_staged(ep, false, local, key, remote, length);
    }
    tl_op_t *op = buffered_op(ep, &status);
    if (op == NULL) {
        return status;
    }
    if (((tl_md_t *)iface_of(ep)->super.md)->copier && sdma_is_device(buffer)) {
        if (sdma_copy(op->buffer->data, buffer, length) != SDMA_OK) {
            tl_op_put(iface_of(ep), op);
            return UCS_ERR_IO_ERROR;
        }
    } else {
        memcpy(op->buffer->data, buffer, length);
    }
    status = post_op(ep, false, op->buffer->data, key, remote, length, op, &iface_of(ep)->count_short);
    return status == UCS_INPROGRESS ? UCS_OK : status;
}

ucs_status_t tl_ep_get_short(uct_ep_h tl_ep, void *buffer, unsigned length, uint64_t remote, uct_rkey_t rkey) {
    tl_ep_t *ep = (tl_ep_t *)tl_ep;
    const tl_key_t *key = key_of(rkey);
    if (rkey == UCT_INVALID_RKEY) {
        return copy_without_key(ep, true, buffer, remote, length);
    }
    ucs_status_t status = ep->own ? UCS_OK : check_length("get_short", length, iface_of(ep)->config.max_short);
    if (status != UCS_OK || length == 0 || (status = check_range(ep, key, remote, length)) != UCS_OK) {
        return status;
    }
    if (key->kind == TL_MEMORY_HOST) {
        status = check_host_order(ep);
        return status != UCS_OK ? status : tl_host_copy(ep, true, buffer, remote, length);
    }
    if ((status = ep->own ? check_own(ep) : check_room(ep)) == UCS_OK) {
        status = copy_staged(ep, true, buffer, key, remote, length);
        iface_of(ep)->count_short += status == UCS_OK && !ep->own;
    }
    return status;
}

/* ---- buffered ---------------------------------------------------------------------------------------- */

ssize_t tl_ep_put_bcopy(uct_ep_h tl_ep, uct_pack_callback_t pack, void *arg, uint64_t remote, uct_rkey_t rkey) {
    tl_ep_t *ep = (tl_ep_t *)tl_ep;
    const tl_key_t *key = key_of(rkey);
    ucs_status_t status;
    if (rkey == UCT_INVALID_RKEY) {
        return UCS_ERR_INVALID_PARAM;
    }
    if (key->kind == TL_MEMORY_HOST && (status = check_host_order(ep)) != UCS_OK) {
        return status;
    }
    tl_op_t *op = buffered_op(ep, &status);
    if (op == NULL) {
        return status;
    }
    const size_t length = pack(op->buffer->data, arg);
    status = check_range(ep, key, remote, length);
    if (status == UCS_OK && length > 0 && key->kind == TL_MEMORY_HOST) {
        status = tl_host_copy(ep, false, op->buffer->data, remote, length);
    } else if (status == UCS_OK && length > 0) {
        /* What is packed cannot be packed again, so here a full line is waited for. */
        while ((status = post(ep, false, op->buffer->data, key, remote, length, &op->number)) == UCS_ERR_NO_RESOURCE &&
               sdma_line_progress(ep->line) != SDMA_ERROR) {
        }
        if (status == UCS_OK) {
            tl_op_queue(ep, op);
            iface_of(ep)->count_bcopy++;
            return (ssize_t)length;
        }
        if (status == UCS_ERR_NO_RESOURCE) {
            status = tl_ep_line_error(ep);
        }
    }
    tl_op_put(iface_of(ep), op);
    return status == UCS_OK ? (ssize_t)length : (ssize_t)status;
}

ucs_status_t tl_ep_get_bcopy(uct_ep_h tl_ep, uct_unpack_callback_t unpack, void *arg, size_t length, uint64_t remote,
                             uct_rkey_t rkey, uct_completion_t *comp) {
    tl_ep_t *ep = (tl_ep_t *)tl_ep;
    const tl_key_t *key = key_of(rkey);
    if (rkey == UCT_INVALID_RKEY) {
        return UCS_ERR_INVALID_PARAM;
    }
    ucs_status_t status = check_length("get_bcopy", length, iface_of(ep)->config.seg_size);
    if (status != UCS_OK || length == 0 || (status = check_range(ep, key, remote, length)) != UCS_OK) {
        return status;
    }
    if (key->kind == TL_MEMORY_HOST && (status = check_host_order(ep)) != UCS_OK) {
        return status;
    }
    tl_op_t *op = buffered_op(ep, &status);
    if (op == NULL) {
        return status;
    }
    if (key->kind == TL_MEMORY_HOST) {
        status = tl_host_copy(ep, true, op->buffer->data, remote, length);
        if (status == UCS_OK) {
            unpack(arg, op->buffer->data, length);
        }
        tl_op_put(iface_of(ep), op);
        return status;
    }
    op->unpack = unpack;
    op->unpack_arg = arg;
    op->bytes = length;
    op->comp = comp;
    return post_op(ep, true, op->buffer->data, key, remote, length, op, &iface_of(ep)->count_bcopy);
}

/* ---- zero-copy --------------------------------------------------------------------------------------- */

static ucs_status_t zcopy(tl_ep_t *ep, bool get, const uct_iov_t *iov, size_t count, uint64_t remote, uct_rkey_t rkey,
                          uct_completion_t *comp) {
    const tl_key_t *key = key_of(rkey);
    if (count > 1 || (count == 1 && iov->count > 1 && iov->stride != iov->length)) {
        ucs_error("Invalid iov: %zu entries with %u blocks (expected: one block)", count, count > 0 ? iov->count : 0);
        return UCS_ERR_INVALID_PARAM;
    }
    const size_t length = count == 0 ? 0 : iov->length * iov->count;
    if (length == 0) {
        return UCS_OK;
    }
    if (rkey == UCT_INVALID_RKEY) {
        return copy_without_key(ep, get, iov->buffer, remote, length);
    }
    ucs_status_t status = check_range(ep, key, remote, length);
    if (status != UCS_OK) {
        return status;
    }
    if (key->kind == TL_MEMORY_HOST) {
        status = check_host_order(ep);
        return status != UCS_OK ? status : tl_host_copy(ep, get, iov->buffer, remote, length);
    }
    if ((status = check_room(ep)) != UCS_OK) {
        return status;
    }
    tl_op_t *op = tl_op_get(iface_of(ep), true);
    if (op == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    op->comp = comp;
    if (iov->memh != NULL) {
        tl_memh_pin(iov->memh);
    }
    status = post_op(ep, get, iov->buffer, key, remote, length, op, &iface_of(ep)->count_zcopy);
    return status != UCS_ERR_UNSUPPORTED ? status : copy_staged(ep, get, iov->buffer, key, remote, length);
}

ucs_status_t tl_ep_put_zcopy(uct_ep_h ep, const uct_iov_t *iov, size_t count, uint64_t remote, uct_rkey_t rkey,
                             uct_completion_t *comp) {
    return zcopy((tl_ep_t *)ep, false, iov, count, remote, rkey, comp);
}

ucs_status_t tl_ep_get_zcopy(uct_ep_h ep, const uct_iov_t *iov, size_t count, uint64_t remote, uct_rkey_t rkey,
                             uct_completion_t *comp) {
    return zcopy((tl_ep_t *)ep, true, iov, count, remote, rkey, comp);
}
