/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Endpoints: one line each. What is outstanding is a list of numbers in rising order, so progress looks at
 * its head only, and a flush is an entry with the number that was posted last: it ends under new posts.
 */
#include "ucx_tl_sdma/tl.h"

#include <stdlib.h>
#include <string.h>

static tl_iface_t *iface_of(const tl_ep_t *ep) { return (tl_iface_t *)ep->super.iface; }

void tl_complete(uct_completion_t *comp, ucs_status_t status) {
    if (comp == NULL) {
        return;
    }
    if (status != UCS_OK && comp->status == UCS_OK) {
        comp->status = status;
    }
    if (--comp->count == 0) {
        comp->func(comp);
    }
}

/* ---- what is outstanding ----------------------------------------------------------------------------- */

tl_op_t *tl_op_get(tl_iface_t *iface, bool counted) {
    tl_op_t *op = iface->free_ops;
    if (op != NULL) {
        iface->free_ops = op->next_free;
    } else if ((op = malloc(sizeof(*op))) == NULL) {
        return NULL;
    }
    *op = (tl_op_t){.counted = counted};
    iface->outstanding += counted;
    return op;
}

void tl_op_put(tl_iface_t *iface, tl_op_t *op) {
    if (op->buffer != NULL) {
        tl_buffer_put(iface, op->buffer);
    }
    iface->outstanding -= op->counted;
    op->next_free = iface->free_ops;
    iface->free_ops = op;
}

void tl_op_queue(tl_ep_t *ep, tl_op_t *op) {
    ucs_list_add_tail(&ep->ops, &op->link);
    tl_ep_activate(ep);
}

void tl_ep_activate(tl_ep_t *ep) {
    if (!ep->active) {
        ep->active = true;
        ucs_list_add_tail(&iface_of(ep)->active, &ep->active_link);
    }
}

static bool reached(const tl_ep_t *ep, const tl_op_t *op) {
    return (op->at_done ? sdma_line_done(ep->line) : sdma_line_local(ep->line)) >= op->number;
}

bool tl_ep_ready(tl_ep_t *ep) {
    if (ep->check_failed) {
        return true;
    }
    if (ucs_list_is_empty(&ep->ops)) {
        return !ucs_list_is_empty(&ep->pending);
    }
    return reached(ep, ucs_list_head(&ep->ops, tl_op_t, link));
}

static unsigned deliver(tl_ep_t *ep, ucs_status_t status) {
    tl_iface_t *iface = iface_of(ep);
    unsigned count = 0;
    while (!ucs_list_is_empty(&ep->ops)) {
        tl_op_t *op = ucs_list_head(&ep->ops, tl_op_t, link);
        if (status == UCS_OK && !reached(ep, op)) {
            break;
        }
        ucs_list_del(&op->link);
        if (op->unpack != NULL && status == UCS_OK) {
            op->unpack(op->unpack_arg, op->buffer->data, op->bytes);
        }
        uct_completion_t *comp = op->comp;
        tl_op_put(iface, op);
        tl_complete(comp, status);
        count++;
    }
    return count;
}

/* ---- errors ------------------------------------------------------------------------------------------ */

/* Everything outstanding ends with `status`, and the user is told, once. Only from progress, and only with the
 * engines at rest: buffers go back to the user. */
static unsigned fail(tl_ep_t *ep, ucs_status_t status) {
    ep->check_failed = false;
    if (ep->status != UCS_OK) {
        return 0;
    }
    ep->status = status;
    deliver(ep, status);
    if (!ep->destroyed) {
        uct_iface_handle_ep_err(ep->super.iface, &ep->super, status);
    }
    return 1;
}

static ucs_status_t line_status(const tl_ep_t *ep) {
    return sdma_line_reason(ep->line) == SDMA_REASON_fault ? UCS_ERR_IO_ERROR : UCS_ERR_ENDPOINT_TIMEOUT;
}

/* For posts, whose callers do not expect the error handler. */
ucs_status_t tl_ep_line_error(tl_ep_t *ep) {
    tl_ep_fail_later(ep);
    return line_status(ep);
}

void tl_ep_fail_later(tl_ep_t *ep) {
    ep->check_failed = ep->status == UCS_OK;
    tl_ep_activate(ep);
}

ucs_status_t tl_ep_check(uct_ep_h tl_ep, unsigned flags, uct_completion_t *comp) {
    tl_ep_t *ep = (tl_ep_t *)tl_ep;
    (void)flags, (void)comp;
    if (ep->status == UCS_OK && !sdma_line_alive(ep->line)) {
        tl_ep_fail_later(ep);
    }
    return UCS_OK;
}

/* ---- a peer's memory --------------------------------------------------------------------------------- */

static size_t slot_of(const sdma_key_t *key) {
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof(key->words) / sizeof(key->words[0]); i++) {
        sum = (sum ^ key->words[i]) * 0x9e3779b97f4a7c15u;
    }
    return sum >> 32 & (TL_REMOTE_SLOTS - 1);
}

static void remote_free(tl_remote_t *remote) {
    sdma_remote_detach(remote->remote);
    free(remote);
}

/* The most recently found first; the ninth of a slot goes. */
sdma_remote_t *tl_ep_remote(tl_ep_t *ep, const sdma_key_t *key) {
    tl_remote_t **slot = &ep->remotes[slot_of(key)], **at = slot;
    for (unsigned i = 0; *at != NULL; at = &(*at)->next, i++) {
        if (memcmp(&(*at)->key, key, sizeof(*key)) == 0) {
            tl_remote_t *found = *at;
            *at = found->next;
            found->next = *slot;
            *slot = found;
            return found->remote;
        }
        if (i + 1 == TL_REMOTES_PER_SLOT) {
            remote_free(*at);
            *at = NULL;
            break;
        }
    }
    tl_remote_t *remote = malloc(sizeof(*remote));
    if (remote == NULL) {
        return NULL;
    }
    sdma_reason_t reason = SDMA_REASON_none;
    if (sdma_remote_attach(ep->line, key, &remote->remote, &reason) != SDMA_OK) {
        ucs_debug("sdma: memory of process %lu is not used: %s", ep->peer.pid, sdma_reason_text(reason));
        free(remote);
        return NULL;
    }
    remote->key = *key;
    remote->next = *slot;
    *slot = remote;
    return remote->remote;
}

void tl_ep_forget_remote(tl_ep_t *ep, const sdma_key_t *key) {
    for (tl_remote_t **at = &ep->remotes[slot_of(key)]; *at != NULL; at = &(*at)->next) {
        if (memcmp(&(*at)->key, key, sizeof(*key)) == 0) {
            tl_remote_t *gone = *at;
            *at = gone->next;
            remote_free(gone);
            return;
        }
    }
}

/* ---- life -------------------------------------------------------------------------------------------- */

ucs_status_t tl_ep_create(const uct_ep_params_t *params, uct_ep_h *made) {
    const uint64_t needed = UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_IFACE_ADDR;
    if ((params->field_mask & needed) != needed) {
        return UCS_ERR_INVALID_PARAM;
    }
    tl_iface_t *iface = (tl_iface_t *)params->iface;
    tl_iface_addr_t address;
    memcpy(&address, params->iface_addr, sizeof(address));

    tl_ep_t *ep = calloc(1, sizeof(*ep));
    if (ep == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    sdma_reason_t reason = SDMA_REASON_none;
    const sdma_address_t *own = &((tl_md_t *)iface->super.md)->address;
    sdma_address_t peer = *own; /* on this node, or UCX would not have come here */
    memcpy(&peer.words[3], address.words, sizeof(address.words));
    if (sdma_line_open(&peer, &ep->line, &reason) != SDMA_OK) {
        ucs_debug("sdma: no line to process %lu: %s", address.pid, sdma_reason_text(reason));
        free(ep);
        return UCS_ERR_UNREACHABLE;
    }
    ep->super.iface = params->iface;
    ep->peer = address;
    ep->own = memcmp(&peer, own, sizeof(peer)) == 0;
    ucs_list_head_init(&ep->ops);
    ucs_list_head_init(&ep->pending);
    ucs_list_add_tail(&iface->eps, &ep->link);
    *made = &ep->super;
    return UCS_OK;
}

static void close_iface_fence(tl_ep_t *ep) {
    if (ep->iface_fence != 0) {
        ep->iface_fence = 0;
        iface_of(ep)->fenced_eps--;
    }
}

static void release(tl_ep_t *ep) {
    for (size_t i = 0; i < TL_REMOTE_SLOTS; i++) {
        while (ep->remotes[i] != NULL) {
            tl_remote_t *remote = ep->remotes[i];
            ep->remotes[i] = remote->next;
            remote_free(remote);
        }
    }
    sdma_line_close(ep->line); /* engines are done with our buffers from here on */
    while (!ucs_list_is_empty(&ep->ops)) {
        tl_op_t *op = ucs_list_head(&ep->ops, tl_op_t, link);
        ucs_list_del(&op->link);
        tl_op_put(iface_of(ep), op);
    }
    close_iface_fence(ep);
    ucs_list_del(&ep->link);
    if (ep->active) {
        ucs_list_del(&ep->active_link);
    }
    free(ep);
}

void tl_ep_destroy(uct_ep_h tl_ep) {
    tl_ep_t *ep = (tl_ep_t *)tl_ep;
    ep->destroyed = true;
    if (!ep->progressing) {
        release(ep);
    }
}

/* ---- what is pending --------------------------------------------------------------------------------- */

/* Kept in the request's private bytes. */
typedef struct tl_pending {
    ucs_list_link_t link;
    bool fenced; /* a fence came when this one was the last */
} tl_pending_t;

static tl_pending_t *pending_of(uct_pending_req_t *request) { return (tl_pending_t *)(void *)request->priv; }
static uct_pending_req_t *request_of(ucs_list_link_t *link) {
    return (uct_pending_req_t *)(void *)((char *)link - offsetof(uct_pending_req_t, priv));
}

/* ---- order ------------------------------------------------------------------------------------------- */

/* LOCAL and REMOTE are the same here: the number that is waited for has been seen behind the data. */
ucs_status_t tl_ep_flush(uct_ep_h tl_ep, unsigned flags, uct_completion_t *comp) {
    tl_ep_t *ep = (tl_ep_t *)tl_ep;
    (void)flags; /* with CANCEL, UCP purges what is pending; what engines have cannot be called back */
    if (tl_ep_behind_pending(ep)) {
        return UCS_ERR_NO_RESOURCE;
    }
    if (ucs_list_is_empty(&ep->ops) && sdma_line_done(ep->line) >= sdma_line_posted(ep->line)) {
        return UCS_OK;
    }
    sdma_line_push(ep->line); /* a broken line is reported by progress */
    tl_ep_activate(ep);
    if (comp == NULL) {
        return UCS_INPROGRESS;
    }
    tl_op_t *op = tl_op_get(iface_of(ep), false);
    if (op == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    op->number = sdma_line_posted(ep->line);
    op->at_done = true;
    op->comp = comp;
    tl_op_queue(ep, op);
    return UCS_INPROGRESS;
}

static void fence_posted(tl_ep_t *ep) {
    ep->fence = sdma_line_posted(ep->line);
    sdma_line_fence(ep->line);
}

ucs_status_t tl_ep_fence(uct_ep_h tl_ep, unsigned flags) {
    tl_ep_t *ep = (tl_ep_t *)tl_ep;
    (void)flags;
    if (!ucs_list_is_empty(&ep->pending)) {
        pending_of(request_of(ep->pending.prev))->fenced = true; /* then again, once that one is posted */
    }
    fence_posted(ep);
    return UCS_OK;
}

void tl_ep_open_iface_fence(tl_ep_t *ep) {
    const uint64_t posted = sdma_line_posted(ep->line);
    tl_ep_fence(&ep->super, 0);
    if (sdma_line_done(ep->line) < posted) {
        iface_of(ep)->fenced_eps += ep->iface_fence == 0;
        ep->iface_fence = posted;
        tl_ep_activate(ep);
    }
}

/* ---- pending ----------------------------------------------------------------------------------------- */

/* Never refused: a request that could go at once goes at the next progress. */
ucs_status_t tl_ep_pending_add(uct_ep_h tl_ep, uct_pending_req_t *request, unsigned flags) {
    tl_ep_t *ep = (tl_ep_t *)tl_ep;
    (void)flags;
    _Static_assert(sizeof(tl_pending_t) <= UCT_PENDING_REQ_PRIV_LEN, "private bytes of a request");
    pending_of(request)->fenced = false;
    ucs_list_add_tail(&ep->pending, &pending_of(request)->link);
    tl_ep_activate(ep);
    return UCS_OK;
}

void tl_ep_pending_purge(uct_ep_h tl_ep, uct_pending_purge_callback_t callback, void *arg) {
    tl_ep_t *ep = (tl_ep_t *)tl_ep;
    while (!ucs_list_is_empty(&ep->pending)) {
        ucs_list_link_t *first = ep->pending.next;
        ucs_list_del(first);
        callback(request_of(first), arg);
    }
}

static unsigned dispatch(tl_ep_t *ep) {
    unsigned count = 0;
    while (!ep->destroyed && !ucs_list_is_empty(&ep->pending)) {
        ucs_list_link_t *first = ep->pending.next;
        ucs_list_del(first);
        ep->dispatching = true;
        uct_pending_req_t *request = request_of(first);
        const bool fenced = pending_of(request)->fenced;
        const ucs_status_t status = request->func(request);
        ep->dispatching = false;
        if (status != UCS_OK) {
            ucs_list_add_head(&ep->pending, first);
            break;
        }
        if (fenced) {
            fence_posted(ep);
        }
        count++;
    }
    return count;
}

/* ---- progress ---------------------------------------------------------------------------------------- */

unsigned tl_ep_progress(tl_ep_t *ep) {
    unsigned count = 0;
    ep->progressing = true;
    const sdma_status_t status = sdma_line_progress(ep->line);
    ep->full = false;
    if (ep->iface_fence != 0 && sdma_line_done(ep->line) >= ep->iface_fence) {
        close_iface_fence(ep);
    }
    if (status == SDMA_ERROR) {
        count += fail(ep, line_status(ep));
    } else {
        count += deliver(ep, UCS_OK);
        if (ep->check_failed && sdma_line_done(ep->line) >= sdma_line_posted(ep->line)) {
            count += fail(ep, UCS_ERR_ENDPOINT_TIMEOUT);
        }
    }
    count += dispatch(ep);
    ep->progressing = false;
    if (ep->destroyed) {
        release(ep);
        return count;
    }
    if (ucs_list_is_empty(&ep->ops) && ucs_list_is_empty(&ep->pending) && ep->iface_fence == 0 && !ep->check_failed) {
        ep->active = false;
        ucs_list_del(&ep->active_link);
    }
    return count;
}
