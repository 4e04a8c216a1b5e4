/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See threads_pthreads_mutex.h. Yielding is left to the system here; only inline code that we do not call uses it.
 */
#ifndef SDMA_COMPAT_THREADS_PTHREADS_THREADS_H
#define SDMA_COMPAT_THREADS_PTHREADS_THREADS_H

#include <sched.h>

#include "opal/mca/threads/threads.h"

#define OPAL_THREAD_YIELD_WHEN_IDLE_DEFAULT false

static inline void opal_thread_yield(void) { sched_yield(); }

#endif
