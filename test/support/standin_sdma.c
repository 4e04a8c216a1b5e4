/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A stand-in for libmpisdma: the whole of sdma.h over host memory, to test the plug-ins alone (and to count what
 * they cost). Peers are read by process_vm_readv. Every operation synchronises all ranks.
 *
 *   STANDIN_SDMA = dormant   teams are declined at set-up (the default)
 *                  live      every operation is served
 *                  device    operations whose buffers are all "device" memory are served
 *                  fault     operation number STANDIN_SDMA_AT fails
 *
 * "Device" memory comes from standin_device_alloc; nobody can touch it except through sdma_copy or the library:
 * a plug-in that hands it to a component below ends with SIGSEGV.
 */
#define _GNU_SOURCE
#include "common/sdma/sdma.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- tables --------------------------------------------------------------------------------- */

static const char *const reason_names[] = {
#define SDMA_REASON(name, text) #name,
#include "common/sdma/base/reasons.def"
#undef SDMA_REASON
};
static const char *const reason_texts[] = {
#define SDMA_REASON(name, text) text,
#include "common/sdma/base/reasons.def"
#undef SDMA_REASON
};
const char *sdma_reason_name(sdma_reason_t reason) { return reason_names[reason]; }
const char *sdma_reason_text(sdma_reason_t reason) { return reason_texts[reason]; }

#define TYPE_BOOL bool
#define TYPE_INT int
#define TYPE_SIZE size_t
#define TYPE_STRING const char *
static struct values {
#define SDMA_PARAM(type, name, initial, unit, settable, help) TYPE_##type name;
#include "common/sdma/base/params.def"
#undef SDMA_PARAM
} values = {
#define SDMA_PARAM(type, name, initial, unit, settable, help) .name = initial,
#include "common/sdma/base/params.def"
#undef SDMA_PARAM
};
static const sdma_param_t params[] = {
#define SDMA_PARAM(type, name, initial, unit, settable, help)                                                          \
    {#name, SDMA_PARAM_##type, unit, help, settable, &values.name},
#include "common/sdma/base/params.def"
#undef SDMA_PARAM
};
const sdma_param_t *sdma_params(size_t *count) {
    *count = sizeof(params) / sizeof(params[0]);
    return params;
}

void sdma_param_set(const sdma_param_t *row, const char *text) { *(const char **)row->value = strdup(text); }

enum {
#define SDMA_COUNTER(name, help) COUNTER_##name,
#include "common/sdma/base/counters.def"
#undef SDMA_COUNTER
    COUNTER_declined,
    COUNTERS = COUNTER_declined + SDMA_REASON_COUNT
};
static uint64_t amounts[COUNTERS];
static const sdma_counter_t counters[COUNTERS] = {
#define SDMA_COUNTER(name, help) {#name, help, &amounts[COUNTER_##name]},
#include "common/sdma/base/counters.def"
#undef SDMA_COUNTER
#define SDMA_REASON(name, text) {"declined_" #name, text, &amounts[COUNTER_declined + SDMA_REASON_##name]},
#include "common/sdma/base/reasons.def"
#undef SDMA_REASON
};
const sdma_counter_t *sdma_counters(size_t *count) {
    *count = COUNTERS;
    return counters;
}
void sdma_count(const char *name, uint64_t amount) {
    for (size_t i = 0; i < COUNTERS; ++i) {
        if (strcmp(name, counters[i].name) == 0) {
            amounts[i] += amount;
            return;
        }
    }
}

static sdma_log_fn log_fn;
void sdma_log_to(sdma_log_fn fn) { log_fn = fn; }
const char *sdma_version(void) { return "stand-in"; }
char *sdma_describe(int json) { return strdup(json ? "{}" : "stand-in"); }
int sdma_progress(void) { return 0; }
int sdma_runtime_loaded(void) { return 0; }

/* ---- "device" memory -------------------------------------------------------------------------- */

enum { ALLOCATIONS = 4096 };
static struct allocation {
    char *locked; /* what the program sees */
    char *open;   /* what the library uses */
    size_t bytes;
} allocations[ALLOCATIONS];

static void *resolve(const void *pointer) {
    for (size_t i = 0; i < ALLOCATIONS; ++i) {
        size_t offset = (size_t)((uintptr_t)pointer - (uintptr_t)allocations[i].locked);
        if (allocations[i].locked != NULL && offset < allocations[i].bytes) {
            return allocations[i].open + offset;
        }
    }
    return NULL;
}

SDMA_API void *standin_device_alloc(size_t bytes) {
    for (size_t i = 0; i < ALLOCATIONS; ++i) {
        struct allocation *a = &allocations[i];
        if (a->locked == NULL) {
            int fd = memfd_create("standin", MFD_CLOEXEC);
            if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) {
                return NULL;
            }
            a->open = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            a->locked = mmap(NULL, bytes, PROT_NONE, MAP_SHARED, fd, 0);
            a->bytes = bytes;
            close(fd);
            return a->locked;
        }
    }
    return NULL;
}

SDMA_API void standin_device_free(void *pointer) {
    for (size_t i = 0; i < ALLOCATIONS; ++i) {
        struct allocation *a = &allocations[i];
        if (pointer != NULL && a->locked == pointer) {
            munmap(a->open, a->bytes);
            munmap(a->locked, a->bytes);
            *a = (struct allocation){0};
        }
    }
}

int sdma_is_device(const void *pointer) { return resolve(pointer) != NULL; }

sdma_status_t sdma_copy(void *dst, const void *src, size_t bytes) {
    void *to = resolve(dst);
    void *from = resolve(src);
    memcpy(to != NULL ? to : dst, from != NULL ? from : src, bytes);
    return SDMA_OK;
}

/* ---- teams ------------------------------------------------------------------------------------ */

typedef struct offer {
    _Atomic uint64_t epoch;
    uint64_t refused;
    const void *send;
} offer_t;

typedef struct mailbox {
    offer_t offers[2]; /* nobody can be two operations ahead */
    _Atomic uint64_t finished;
} mailbox_t;

typedef struct card {
    pid_t pid;
    mailbox_t *mailbox;
} card_t;

struct sdma_team {
    sdma_bootstrap_t bootstrap;
    bool live;
    card_t mine;
    card_t *cards;
    mailbox_t *mailbox; /* outlives the team: a slow peer may yet have to see its last word */
    uint64_t epoch;
};

struct sdma_op {
    sdma_team_t *team;
    sdma_desc_t desc;
    sdma_reason_t reason;
    char *to;
    const char **sends; /* by peer */
    int seen;
    bool moved;
    int finished;
};

static const char *mode(void) {
    const char *text = getenv("STANDIN_SDMA");
    return text != NULL ? text : "dormant";
}

sdma_status_t sdma_team_start(const sdma_bootstrap_t *bootstrap, sdma_team_t **team) {
    sdma_team_t *t = calloc(1, sizeof(*t));
    t->bootstrap = *bootstrap;
    t->mailbox = calloc(1, sizeof(*t->mailbox));
    t->mine = (card_t){getpid(), t->mailbox};
    t->cards = calloc((size_t)bootstrap->size, sizeof(card_t));
    t->live = strcmp(mode(), "dormant") != 0;
    amounts[COUNTER_exchanges]++;
    *team = t;
    return bootstrap->allgather(bootstrap->context, &t->mine, t->cards, sizeof(card_t)) == 0 ? SDMA_OK : SDMA_DECLINED;
}

sdma_status_t sdma_team_test(sdma_team_t *team) {
    int done = team->bootstrap.test(team->bootstrap.context);
    if (done == 0) {
        return SDMA_PENDING;
    }
    return done > 0 && team->live ? SDMA_OK : SDMA_DECLINED;
}

sdma_reason_t sdma_team_reason(const sdma_team_t *team) {
    return team->live ? SDMA_REASON_none : SDMA_REASON_no_runtime;
}

void sdma_team_free(sdma_team_t *team) {
    free(team->cards);
    free(team);
}

/* ---- operations ------------------------------------------------------------------------------- */

static bool read_peer(const card_t *card, void *to, const void *from, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        struct iovec local = {(char *)to + done, bytes - done};
        struct iovec remote = {(char *)(uintptr_t)from + done, bytes - done};
        ssize_t got = process_vm_readv(card->pid, &local, 1, &remote, 1, 0);
        if (got <= 0) {
            return false;
        }
        done += (size_t)got;
    }
    return true;
}

static sdma_reason_t refuse(const sdma_desc_t *desc) {
    bool device = sdma_is_device(desc->recv) && (desc->in_place || sdma_is_device(desc->send));
    return desc->refused != SDMA_REASON_none          ? desc->refused
           : !values.enable                           ? SDMA_REASON_disabled
           : desc->block_bytes == 0                   ? SDMA_REASON_empty
           : strcmp(mode(), "device") == 0 && !device ? SDMA_REASON_host_buffer
                                                      : SDMA_REASON_none;
}

sdma_status_t sdma_op_start(sdma_team_t *team, const sdma_desc_t *desc, sdma_op_t **op) {
    sdma_op_t *o = calloc(1, sizeof(*o));
    o->team = team;
    o->desc = *desc;
    o->reason = refuse(desc);
    o->sends = calloc((size_t)team->bootstrap.size, sizeof(*o->sends));
    void *to = resolve(desc->recv);
    o->to = to != NULL ? to : desc->recv;
    const void *send = resolve(desc->send);
    send = send != NULL ? send : desc->send;
    if (desc->in_place) {
        send = o->to + (size_t)team->bootstrap.rank * desc->block_bytes;
    }
    uint64_t epoch = ++team->epoch;
    offer_t *offer = &team->mailbox->offers[epoch % 2];
    offer->refused = o->reason;
    offer->send = send;
    atomic_store(&offer->epoch, epoch);
    *op = o;
    return SDMA_OK;
}

/* Reads what one peer offers, once it has. */
static sdma_status_t look(sdma_op_t *op, int peer) {
    sdma_team_t *team = op->team;
    const card_t *card = &team->cards[peer];
    const offer_t *theirs = &card->mailbox->offers[team->epoch % 2];
    offer_t offer;
    /* The epoch by itself first: one read of all could take the rest from before it was written. */
    if (!read_peer(card, &offer.epoch, &theirs->epoch, sizeof(offer.epoch))) {
        return SDMA_ERROR;
    }
    if (offer.epoch != team->epoch) {
        return SDMA_PENDING;
    }
    if (!read_peer(card, &offer, theirs, sizeof(offer))) {
        return SDMA_ERROR;
    }
    if (offer.refused != SDMA_REASON_none && op->reason == SDMA_REASON_none) {
        op->reason = SDMA_REASON_peer_declined;
    }
    op->sends[peer] = offer.send;
    return SDMA_OK;
}

/* Takes my block of every peer. */
static sdma_status_t move(sdma_op_t *op) {
    const sdma_team_t *team = op->team;
    const sdma_desc_t *desc = &op->desc;
    int me = team->bootstrap.rank;
    size_t from = desc->kind == SDMA_ALLTOALL ? (size_t)me * desc->block_bytes : 0;
    for (int peer = 0; peer < team->bootstrap.size; ++peer) {
        if (desc->in_place && peer == me) {
            continue;
        }
        if (!read_peer(&team->cards[peer], op->to + (size_t)peer * desc->block_bytes, op->sends[peer] + from,
                       desc->block_bytes)) {
            return SDMA_ERROR;
        }
        amounts[peer == me ? COUNTER_bytes_local : COUNTER_bytes_sdma] += desc->block_bytes;
    }
    return SDMA_OK;
}

static sdma_status_t verdict(sdma_op_t *op) {
    if (op->reason != SDMA_REASON_none) {
        amounts[COUNTER_declined + op->reason]++;
        return SDMA_DECLINED;
    }
    const char *at = getenv("STANDIN_SDMA_AT");
    if (strcmp(mode(), "fault") == 0 && at != NULL && op->team->epoch == strtoull(at, NULL, 10)) {
        if (log_fn != NULL) {
            log_fn(0, "the stand-in fails this operation as told");
        }
        return SDMA_ERROR;
    }
    amounts[COUNTER_served]++;
    amounts[COUNTER_launches] += strcmp(values.initiator, "host") != 0;
    return SDMA_OK;
}

sdma_status_t sdma_op_test(sdma_op_t *op) {
    sdma_team_t *team = op->team;
    for (; op->seen < team->bootstrap.size; op->seen++) {
        sdma_status_t status = look(op, op->seen);
        if (status != SDMA_OK) {
            return status;
        }
    }
    if (op->reason == SDMA_REASON_none && !op->moved) {
        sdma_status_t status = move(op);
        if (status != SDMA_OK) {
            return status;
        }
        op->moved = true;
    }
    atomic_store(&team->mailbox->finished, team->epoch);
    for (; op->finished < team->bootstrap.size; op->finished++) {
        const card_t *card = &team->cards[op->finished];
        uint64_t finished;
        if (!read_peer(card, &finished, &card->mailbox->finished, sizeof(finished))) {
            return SDMA_ERROR;
        }
        if (finished < team->epoch) {
            return SDMA_PENDING;
        }
    }
    return verdict(op);
}

sdma_reason_t sdma_op_reason(const sdma_op_t *op) { return op->reason; }

void sdma_op_free(sdma_op_t *op) {
    free(op->sends);
    free(op);
}
