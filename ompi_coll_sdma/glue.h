/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What our components of different frameworks share. Each links these files and defines sdma_glue.
 *
 *   glue.c      messages, the release check       fallback.c  stock components for `--mca <framework> sdma`
 *   library.c   parameters and counters           staging.c   device buffers for components below us
 */
#ifndef SDMA_OMPI_GLUE_H
#define SDMA_OMPI_GLUE_H

#include "ompi_coll_sdma/shim.h"

#include "common/sdma/sdma.h"

typedef enum glue_stage { GLUE_STAGE_AUTO, GLUE_STAGE_ALWAYS, GLUE_STAGE_NEVER } glue_stage_t;

/* One component. */
typedef struct glue {
    const mca_base_component_t *component;
    const char *other; /* the framework of the component whose parameters of libmpisdma are the same */
    /* Parameters that all have. */
    int priority;
    int verbose;
    int stage;
    char *fallback;
} glue_t;
extern glue_t sdma_glue;

/* Level 0 is always shown. */
void glue_say(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Messages get a stream, and libmpisdma's come with ours unless the other component shows them already. */
void glue_open(void);
void glue_close(void);
int glue_check_release(void);

/* A parameter of a component itself. */
typedef struct glue_param {
    const char *name;
    mca_base_var_type_t type;
    bool settable;
    const mca_base_var_enum_value_t *values;
    const char *help;
    void *value;
} glue_param_t;
extern const mca_base_var_enum_value_t glue_stage_values[];
int glue_register_params(const glue_param_t *params, size_t count);
int glue_register_counter(const char *name, const char *help, void *value);
/* Parameters and counters of libmpisdma, under the component's name; it gets its defaults back when the component is
 * unloaded. */
int glue_register_library(void);
/* Hands changed string values to libmpisdma; before each operation. */
void glue_publish(void);

/* Opens what the include list of the framework lacks: "auto": all there is; "none"; or a list. `start` does what
 * the framework does with each component after registering and opening it; false: it is closed again. */
typedef bool (*glue_start_fn)(const mca_base_component_t *component, bool progress_threads, bool mpi_threads);
bool glue_component_present(mca_base_framework_t *framework, const char *name);
int glue_open_fallback(mca_base_framework_t *framework, glue_start_fn start, bool progress_threads, bool mpi_threads);

/* One buffer as a component below gets to see it. */
typedef struct glue_staged {
    void *buffer; /* what to hand down */
    void *memory; /* host copy, or NULL: handed down as it is */
    void *device;
    size_t bytes;
} glue_staged_t;
/* `elements` of `type` at `buffer`; MPI_IN_PLACE passes through. An OMPI_ code. */
int glue_stage_send(glue_staged_t *staged, const void *buffer, size_t elements, struct ompi_datatype_t *type);
/* `kept` elements from `first` on are read, too (in place: what this rank contributes). */
int glue_stage_recv(glue_staged_t *staged, void *buffer, size_t elements, struct ompi_datatype_t *type, size_t first,
                    size_t kept);
/* The same where the CPU is going to read or write all of it, whatever the parameter stage says. */
int glue_host_send(glue_staged_t *staged, const void *buffer, size_t elements, struct ompi_datatype_t *type);
int glue_host_recv(glue_staged_t *staged, void *buffer, size_t elements, struct ompi_datatype_t *type);
/* Both free the host copy; the second one copies it to the device first if `status` is OMPI_SUCCESS. */
void glue_unstage_send(glue_staged_t *staged);
int glue_unstage_recv(glue_staged_t *staged, int status);

#endif
