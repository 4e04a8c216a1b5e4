/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages, and which Open MPI this was built for.
 */
#include "ompi_coll_sdma/glue.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int stream = -1;
static bool shows_library;

void glue_say(int level, const char *format, ...) {
    if (level > 0 && level > sdma_glue.verbose) {
        return;
    }
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    opal_output(level > 0 && stream >= 0 ? stream : 0, "%s:sdma: %s", sdma_glue.component->mca_type_name, line);
}

static void from_library(int level, const char *line) { glue_say(level, "%s", line); }

void glue_open(void) {
    stream = opal_output_open(NULL);
    shows_library = mca_base_var_find("ompi", sdma_glue.other, "sdma", "verbose") < 0;
    if (shows_library) {
        sdma_log_to(from_library);
    }
}

void glue_close(void) {
    if (shows_library) {
        sdma_log_to(NULL);
        shows_library = false;
    }
    if (stream >= 0) {
        opal_output_close(stream);
        stream = -1;
    }
}

/* 4.1 and 6.0 share the names of their libraries, so the loader cannot keep a component of one out of the other. */
int glue_check_release(void) {
    int major = 0;
    int minor = 0;
    const char *running = ompi_version_string + strcspn(ompi_version_string, "0123456789");
    if (2 == sscanf(running, "%d.%d", &major, &minor) && OMPI_MAJOR_VERSION == major && OMPI_MINOR_VERSION == minor) {
        return OMPI_SUCCESS;
    }
    glue_say(0, "built for Open MPI %d.%d but loaded by \"%s\"; not used", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
             ompi_version_string);
    return OMPI_ERR_NOT_AVAILABLE;
}
