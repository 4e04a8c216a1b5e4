/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One-sided operations of libmpisdma: put and get on memory of another process of this node.
 *
 * Model
 *   memory  a range of this process that peers may read and write. Its key is plain bytes that
 *           travel by any means; a key from a peer is untrusted and checked.
 *   line    to one peer process (also to this one). Operations posted on a line are numbered
 *           1, 2, 3, ... and complete by number:
 *             local(n)   the origin buffers of all operations up to n may be used again
 *             done(n)    their effects are visible at the target (puts) or here (gets)
 *           The numbers move only in sdma_line_progress. fence: what is posted later takes effect
 *           after what was posted before. Without it, operations of a line have no order.
 *   remote  a peer's memory as seen through a line: mapped at attach, given back at detach.
 *
 *   own = sdma_address();  line = sdma_line_open(peer's address);  remote = sdma_remote_attach(key)
 *   sdma_put ...  sdma_put ...  sdma_line_push  ->  sdma_line_progress until done >= number
 *
 * Any number of operations may be outstanding: a full ring answers SDMA_PENDING ("progress, then
 * post again"), never an error. Targets run no code. Nothing blocks but what says so.
 *
 * Threads: any thread may use any line at any time; a line is closed once nobody uses it. The numbers of
 * overlapping posts are in the order in which they got in.
 */
#ifndef SDMA_ONESIDED_H
#define SDMA_ONESIDED_H

#include "sdma.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sdma_memory sdma_memory_t;
typedef struct sdma_remote sdma_remote_t;
typedef struct sdma_line sdma_line_t;

typedef struct sdma_address {
    uint64_t words[8];
} sdma_address_t; /* a process of this node. Those that can reach each other have the first three words in common. */
typedef struct sdma_key {
    uint64_t words[8];
} sdma_key_t; /* a registered range of one */

/* This process's address: valid until as many sdma_address_release as successful calls. Starts no GPU
 * runtime. SDMA_DECLINED (with the reason) if no segment can be made. */
SDMA_API sdma_status_t sdma_address(sdma_address_t *address, sdma_reason_t *reason);
SDMA_API void sdma_address_release(void);

/* Register [base, base + bytes). `exportable` 1: device memory, for peers (host memory is declined);
 * 0: any memory, as local side of own operations: host memory is pinned until the release, which saves
 * the pinning by each operation. Any number of times, overlapping too: an allocation is exported, and a
 * page pinned, once. Keep to the life of the memory. SDMA_DECLINED with the reason: unsupported kind,
 * export or pinning refused, the range ends beyond its allocation. */
SDMA_API sdma_status_t sdma_memory_register(void *base, size_t bytes, int exportable, sdma_memory_t **memory,
                                            sdma_reason_t *reason);
/* Only for exportable memory. */
SDMA_API void sdma_memory_key(const sdma_memory_t *memory, sdma_key_t *key);
/* Exported memory: take it back from all peers at once, together with every other registration of the same
 * allocation; new ones may be made. Peers drop their mappings at their next progress, operations that they have on
 * their way end first. reachable: 0 once that is so for all. retired: 1 once the keys are dead, by this or because
 * the memory was freed. */
SDMA_API void sdma_memory_invalidate(sdma_memory_t *memory);
SDMA_API int sdma_memory_retired(const sdma_memory_t *memory);
SDMA_API int sdma_memory_reachable(const sdma_memory_t *memory);
/* Waits for that until the hardware timeout has passed since the invalidation. All lines of
 * the process move meanwhile: its peers may be waiting for it. 1: unreachable. */
SDMA_API int sdma_memory_await_unreachable(const sdma_memory_t *memory);
/* No operation uses it any more. Peers' mappings are retired: they drop them at their next progress. */
SDMA_API void sdma_memory_release(sdma_memory_t *memory);

/* To any process of this node with an address, the caller's too. SDMA_DECLINED: not on this node, gone,
 * another version, segment malformed. */
SDMA_API sdma_status_t sdma_line_open(const sdma_address_t *peer, sdma_line_t **line, sdma_reason_t *reason);
/* Drops what was not issued, waits for what engines have (bounded by the hardware timeout). Remotes of
 * the line are detached before. */
SDMA_API void sdma_line_close(sdma_line_t *line);
/* 1 while the peer process lives (a zombie does not). */
SDMA_API int sdma_line_alive(sdma_line_t *line);

/* SDMA_DECLINED: attach refused, retired, malformed key: soft, never fatal. A process with several GPUs
 * maps at the first operation, which then may decline. Detach any time: what was posted goes on. */
SDMA_API sdma_status_t sdma_remote_attach(sdma_line_t *line, const sdma_key_t *key, sdma_remote_t **remote,
                                          sdma_reason_t *reason);
SDMA_API void sdma_remote_detach(sdma_remote_t *remote);

/* Post. `offset` counts from the registered base; out of range is SDMA_ERROR. `local` is any memory of
 * this process; host memory that is not pinned yet is pinned for the operation (const memory must be
 * writable pages all the same).
 * SDMA_OK: *number is the operation's; 0 bytes: OK at once, *number = the last posted.
 * SDMA_PENDING: no room now. SDMA_DECLINED: this pair of memories cannot be served, or the owner has taken
 * the memory back (sdma_line_reason); the line stays good. SDMA_ERROR: the line is broken. */
SDMA_API sdma_status_t sdma_put(sdma_line_t *line, const void *local, sdma_remote_t *remote, size_t offset,
                                size_t bytes, uint64_t *number);
SDMA_API sdma_status_t sdma_get(sdma_line_t *line, void *local, sdma_remote_t *remote, size_t offset, size_t bytes,
                                uint64_t *number);
/* A rectangle: `rows` rows of `row_bytes`, pitches in bytes on both sides. */
typedef struct sdma_rectangle {
    size_t rows, row_bytes, local_pitch, remote_pitch;
} sdma_rectangle_t;
SDMA_API sdma_status_t sdma_put_rectangle(sdma_line_t *line, const void *local, sdma_remote_t *remote, size_t offset,
                                          const sdma_rectangle_t *rectangle, uint64_t *number);
SDMA_API sdma_status_t sdma_get_rectangle(sdma_line_t *line, void *local, sdma_remote_t *remote, size_t offset,
                                          const sdma_rectangle_t *rectangle, uint64_t *number);
/* Put, then store `value` at the 8-byte aligned `signal_offset` of `remote` after the data: one operation.
 * The store is issued by sdma_line_progress once the data has arrived. `bytes` may be 0. */
SDMA_API sdma_status_t sdma_put_signal(sdma_line_t *line, const void *local, sdma_remote_t *remote, size_t offset,
                                       size_t bytes, size_t signal_offset, uint64_t value, uint64_t *number);

/* Everything posted becomes visible to the engines: one doorbell for many operations. */
SDMA_API sdma_status_t sdma_line_push(sdma_line_t *line);
/* Later operations take effect after earlier ones. */
SDMA_API sdma_status_t sdma_line_fence(sdma_line_t *line);
/* Moves the numbers; includes a push. SDMA_ERROR once the line is broken (peer gone, hardware fault):
 * then every number counts as reached and later posts answer SDMA_ERROR. After a peer's death that is
 * once our own copies are at rest. */
SDMA_API sdma_status_t sdma_line_progress(sdma_line_t *line);
SDMA_API uint64_t sdma_line_posted(const sdma_line_t *line);
SDMA_API uint64_t sdma_line_local(const sdma_line_t *line);
SDMA_API uint64_t sdma_line_done(const sdma_line_t *line);
/* Why a post was declined last, or why the line is broken. */
SDMA_API sdma_reason_t sdma_line_reason(const sdma_line_t *line);

/* ---- boards --------------------------------------------------------------------------------- */

/* What a process shows its peers of one group of its memories, as an MPI window is one: which address ranges
 * have which keys, a lock, and counters whose meaning is the user's. A peer that has the board's name and the owner's
 * address opens it and reads it at any time; the owner runs no code for that. Any thread. */
typedef struct sdma_board sdma_board_t;
typedef struct sdma_board_name {
    uint64_t words[3];
} sdma_board_name_t;
typedef struct sdma_posting {
    uint64_t place, version; /* a pair that never comes back on this board */
    uint64_t base, bytes;    /* in the owner's addresses */
    sdma_key_t key;
} sdma_posting_t;

/* Of at most `entries` ranges, 1 to 4096. NULL: no memory. */
SDMA_API sdma_board_t *sdma_board_create(size_t entries, size_t counters, sdma_board_name_t *name);
/* NULL: it cannot be opened or is malformed. */
SDMA_API sdma_board_t *sdma_board_open(const sdma_address_t *owner, const sdma_board_name_t *name);
SDMA_API void sdma_board_close(sdma_board_t *board);
/* The owner's. SDMA_DECLINED: no entry is free. Ranges do not overlap. */
SDMA_API sdma_status_t sdma_board_publish(sdma_board_t *board, const void *base, size_t bytes, const sdma_key_t *key);
SDMA_API void sdma_board_withdraw(sdma_board_t *board, const void *base);
/* 1: [address, address + bytes) lies inside a published range, which is copied; 0: it touches none; -1: only a
 * part of it is inside one. */
SDMA_API int sdma_board_find(const sdma_board_t *board, uint64_t address, size_t bytes, sdma_posting_t *posting);
/* 1: taken. Not recursive, and not given back by the death of the holder. */
SDMA_API int sdma_board_try_lock(sdma_board_t *board);
SDMA_API void sdma_board_unlock(sdma_board_t *board);
/* Start at 0. The read acquires what was stored before the addition. */
SDMA_API void sdma_board_add(sdma_board_t *board, size_t counter);
SDMA_API uint64_t sdma_board_read(const sdma_board_t *board, size_t counter);

/* Sleep support: an event descriptor (eventfd; -1: none) that becomes readable when a line of this
 * process moved after sdma_event_arm, and now and then without that: progress all lines then. arm empties
 * it; SDMA_PENDING if something moved already (do not sleep). Several may sleep on duplicates of it: arm leaves it
 * readable while a line of any of them has moved. While armed, a thread polls for the sleeper
 * every 20 us with operations outstanding, every 5 ms without. */
SDMA_API int sdma_event_fd(void);
SDMA_API sdma_status_t sdma_event_arm(void);

#ifdef __cplusplus
}
#endif
#endif
