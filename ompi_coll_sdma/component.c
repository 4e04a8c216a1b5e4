/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The component: what Open MPI finds in mca_coll_sdma.so.
 */
#include "ompi_coll_sdma/coll_sdma.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int stream = -1;

void coll_sdma_say(int level, const char *format, ...) {
    if (level > 0 && level > coll_sdma_settings.verbose) {
        return;
    }
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    opal_output(level > 0 && stream >= 0 ? stream : 0, "coll:sdma: %s", line);
}

static void from_library(int level, const char *line) { coll_sdma_say(level, "%s", line); }

/* 4.1 and 6.0 share the names of their libraries, so the loader cannot keep a component of one out of the other. */
static int check_release(void) {
    int major = 0;
    int minor = 0;
    const char *running = ompi_version_string + strcspn(ompi_version_string, "0123456789");
    if (2 == sscanf(running, "%d.%d", &major, &minor) && OMPI_MAJOR_VERSION == major && OMPI_MINOR_VERSION == minor) {
        return OMPI_SUCCESS;
    }
    coll_sdma_say(0, "built for Open MPI %d.%d but loaded by \"%s\"; not used", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                  ompi_version_string);
    return OMPI_ERR_NOT_AVAILABLE;
}

static int register_component(void) {
    int status = check_release();
    return OMPI_SUCCESS == status ? coll_sdma_register_params() : status;
}

static int open_component(void) {
    stream = opal_output_open(NULL);
    sdma_log_to(from_library);
    return OMPI_SUCCESS;
}

/* Communicators, and with them the teams, are gone by now. */
static int close_component(void) {
    coll_sdma_stop_progress();
    sdma_log_to(NULL);
    coll_sdma_restore_params();
    if (stream >= 0) {
        opal_output_close(stream);
        stream = -1;
    }
    return OMPI_SUCCESS;
}

__attribute__((visibility("default"))) mca_coll_base_component_t mca_coll_sdma_component = {
    .collm_version =
        {
            SDMA_COLL_VERSION,
            .mca_component_name = "sdma",
            MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION),
            .mca_open_component = open_component,
            .mca_close_component = close_component,
            .mca_register_component_params = register_component,
        },
    .collm_data = {MCA_BASE_METADATA_PARAM_NONE},
    .collm_init_query = coll_sdma_open_fallback,
    .collm_comm_query = coll_sdma_comm_query,
};
