/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Open MPI 5.0 and later never install this header that opal/mca/threads/mutex.h includes. The types must be
 * those of the library (plain pthread types); the functions serve the inline code of other headers.
 * Found last (-idirafter): the real one wins.
 */
#ifndef SDMA_COMPAT_THREADS_PTHREADS_MUTEX_H
#define SDMA_COMPAT_THREADS_PTHREADS_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

#include "opal_config.h"

#include "opal/constants.h"

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;

#define OPAL_THREAD_INTERNAL_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#define OPAL_THREAD_INTERNAL_COND_INITIALIZER PTHREAD_COND_INITIALIZER
#ifdef PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#define OPAL_THREAD_INTERNAL_RECURSIVE_MUTEX_INITIALIZER PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#endif

static inline int opal_thread_internal_mutex_init(opal_thread_internal_mutex_t *mutex, bool recursive) {
    pthread_mutexattr_t attributes;
    if (pthread_mutexattr_init(&attributes) != 0) {
        return OPAL_ERR_IN_ERRNO;
    }
    int failed = pthread_mutexattr_settype(&attributes, recursive ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_DEFAULT) ||
                 pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return failed ? OPAL_ERR_IN_ERRNO : OPAL_SUCCESS;
}

static inline void opal_thread_internal_mutex_lock(opal_thread_internal_mutex_t *mutex) { pthread_mutex_lock(mutex); }

static inline int opal_thread_internal_mutex_trylock(opal_thread_internal_mutex_t *mutex) {
    return pthread_mutex_trylock(mutex) != 0;
}

static inline void opal_thread_internal_mutex_unlock(opal_thread_internal_mutex_t *mutex) {
    pthread_mutex_unlock(mutex);
}

static inline void opal_thread_internal_mutex_destroy(opal_thread_internal_mutex_t *mutex) {
    pthread_mutex_destroy(mutex);
}

static inline int opal_thread_internal_cond_init(opal_thread_internal_cond_t *condition) {
    return pthread_cond_init(condition, NULL) != 0 ? OPAL_ERR_IN_ERRNO : OPAL_SUCCESS;
}

static inline void opal_thread_internal_cond_wait(opal_thread_internal_cond_t *condition,
                                                  opal_thread_internal_mutex_t *mutex) {
    pthread_cond_wait(condition, mutex);
}

static inline void opal_thread_internal_cond_broadcast(opal_thread_internal_cond_t *condition) {
    pthread_cond_broadcast(condition);
}

static inline void opal_thread_internal_cond_signal(opal_thread_internal_cond_t *condition) {
    pthread_cond_signal(condition);
}

static inline void opal_thread_internal_cond_destroy(opal_thread_internal_cond_t *condition) {
    pthread_cond_destroy(condition);
}

#endif
