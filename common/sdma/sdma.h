/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The interface of libmpisdma: collectives on GPU buffers among the ranks of a node.
 *
 * Model
 *   team   the ranks of one communicator, all on this node. Set-up is nonblocking:
 *            sdma_team_start -> sdma_team_test until it is not SDMA_PENDING.
 *   op     one collective call:  sdma_op_start -> sdma_op_test ... -> sdma_op_free.
 *
 *   Every rank of a live team starts the same operations in the same order; whether one is
 *   served is agreed on by all ranks before any byte moves (SDMA_DECLINED on every rank, or on
 *   none). Nothing here blocks: the caller loops over the test function and its own progress.
 *
 * Threads: functions may be called from any thread; calls on one team must not overlap.
 * Nothing throws across this boundary. Sizes and offsets are bytes.
 */
#ifndef SDMA_H
#define SDMA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SDMA_API __attribute__((visibility("default")))

typedef enum sdma_status {
    SDMA_OK = 0,       /* done */
    SDMA_PENDING = 1,  /* call the test function again */
    SDMA_DECLINED = 2, /* nothing was moved; use another way. The reason is named. */
    SDMA_ERROR = -1    /* hardware or peer fault; one line was logged; the buffer content is undefined */
} sdma_status_t;

/* Why something was declined or switched off: base/reasons.def is the one list. */
typedef enum sdma_reason {
#define SDMA_REASON(name, text) SDMA_REASON_##name,
#include "base/reasons.def"
#undef SDMA_REASON
    SDMA_REASON_COUNT
} sdma_reason_t;

/* Short name ("host_buffer") and a sentence for users. Static strings; never NULL. */
SDMA_API const char *sdma_reason_name(sdma_reason_t reason);
SDMA_API const char *sdma_reason_text(sdma_reason_t reason);

/* ---- parameters, counters, log -------------------------------------------------------------- */

typedef enum sdma_param_type { SDMA_PARAM_BOOL, SDMA_PARAM_INT, SDMA_PARAM_SIZE, SDMA_PARAM_STRING } sdma_param_type_t;

/* One row of the parameter table. `value` points at the live storage (bool, int, size_t or
 * const char *); the plug-in that owns the process's configuration writes it before the first
 * team starts; rows with `settable` may change at any time and are read at each operation. */
typedef struct sdma_param {
    const char *name;
    sdma_param_type_t type;
    const char *unit; /* "" where there is none */
    const char *help;
    int settable;
    void *value;
} sdma_param_t;

SDMA_API const sdma_param_t *sdma_params(size_t *count);
/* Gives a string row the value `text`: a copy that stays as long as the process. Any thread. */
SDMA_API void sdma_param_set(const sdma_param_t *row, const char *text);

/* One counter. `value` is updated with relaxed atomics for the life of the process. */
typedef struct sdma_counter {
    const char *name;
    const char *help;
    const uint64_t *value;
} sdma_counter_t;

SDMA_API const sdma_counter_t *sdma_counters(size_t *count);

/* For what the glue itself counts and the table lists ("staged"). Unknown names are ignored. */
SDMA_API void sdma_count(const char *name, uint64_t amount);

/* Where lines go; `level` 0 is always shown (errors, once), higher ones need verbosity.
 * NULL restores standard error. The line has no newline. */
typedef void (*sdma_log_fn)(int level, const char *line);
SDMA_API void sdma_log_to(sdma_log_fn fn);

SDMA_API const char *sdma_version(void);

/* ---- teams ---------------------------------------------------------------------------------- */

/* How a team exchanges its first bytes. One allgather at a time. Owned by the caller until the
 * team is up, declined or freed. */
typedef struct sdma_bootstrap {
    int rank;
    int size;
    void *context;
    /* Start an allgather of `bytes` per rank; `mine` and `all` stay valid until it is done. 0 = ok. */
    int (*allgather)(void *context, const void *mine, void *all, size_t bytes);
    /* 1 = done, 0 = call again, negative = failed. */
    int (*test)(void *context);
} sdma_bootstrap_t;

typedef struct sdma_team sdma_team_t;
typedef struct sdma_op sdma_op_t;

/* Collective. Errors: SDMA_DECLINED (this process cannot take part; peers learn it in the exchange,
 * so the team object is made all the same and must be tested and freed). */
SDMA_API sdma_status_t sdma_team_start(const sdma_bootstrap_t *bootstrap, sdma_team_t **team);

/* SDMA_OK: live. SDMA_DECLINED: dormant (no rank had a GPU runtime) or off, the same on all ranks;
 * sdma_team_reason says which. */
SDMA_API sdma_status_t sdma_team_test(sdma_team_t *team);
SDMA_API sdma_reason_t sdma_team_reason(const sdma_team_t *team);
SDMA_API void sdma_team_free(sdma_team_t *team);

/* ---- collectives ---------------------------------------------------------------------------- */

typedef enum sdma_kind { SDMA_ALLTOALL = 1, SDMA_ALLGATHER = 2 } sdma_kind_t;
typedef enum sdma_layout { SDMA_CONTIGUOUS = 0, SDMA_RECTANGLE = 1 } sdma_layout_t;

typedef struct sdma_block {
    size_t offset;
    size_t bytes;
} sdma_block_t;

/* One collective call. `send_blocks`/`recv_blocks` have one entry per rank of the team, offsets
 * from `send`/`recv`; NULL means the regular layout: block p at p * block_bytes (send side of an
 * allgather: one block at 0). `send` is ignored in place. The description is copied at start;
 * the buffers belong to the operation until it is done. */
typedef struct sdma_desc {
    sdma_kind_t kind;
    int in_place;
    sdma_layout_t layout;
    const void *send;
    void *recv;
    size_t block_bytes;
    const sdma_block_t *send_blocks;
    const sdma_block_t *recv_blocks;
    /* SDMA_REASON_none, or why the caller already knows that it cannot be served here (the
     * operation is then started all the same, so that every rank declines). */
    sdma_reason_t refused;
} sdma_desc_t;

/* SDMA_OK: started, test it. SDMA_ERROR: no memory; nothing was started. */
SDMA_API sdma_status_t sdma_op_start(sdma_team_t *team, const sdma_desc_t *desc, sdma_op_t **op);

/* SDMA_PENDING until done, declined or failed; never waits. */
SDMA_API sdma_status_t sdma_op_test(sdma_op_t *op);
SDMA_API sdma_reason_t sdma_op_reason(const sdma_op_t *op);
/* Only after op_test gave something other than SDMA_PENDING. */
SDMA_API void sdma_op_free(sdma_op_t *op);

/* Process-wide work that belongs to no operation (retired registrations). Cheap; any thread.
 * Returns the number of things done. */
SDMA_API int sdma_progress(void);

/* ---- memory, for callers that stage through the host ------------------------------------------ */

/* 1 once a GPU runtime is loaded in this process. Starts none; cheap. */
SDMA_API int sdma_runtime_loaded(void);
/* 1 if `ptr` is memory that only a GPU may be trusted to touch. Starts no GPU runtime. */
SDMA_API int sdma_is_device(const void *ptr);
/* Blocking copy by the GPU runtime between any two of device and host memory. */
SDMA_API sdma_status_t sdma_copy(void *dst, const void *src, size_t bytes);

/* Device memory by the application's own HIP or CUDA runtime, on its current device. SDMA_DECLINED: none is loaded,
 * or it refuses. */
SDMA_API sdma_status_t sdma_device_allocate(size_t bytes, void **memory);
SDMA_API void sdma_device_free(void *memory);

/* What this process sees and would use: GPUs, queue back ends and why others are not in use
 * (found by making one queue per GPU for a moment), thresholds, versions. Text or JSON, zero-terminated, owned by the
 * caller (free()). */
SDMA_API char *sdma_describe(int json);

#ifdef __cplusplus
}
#endif
#endif
