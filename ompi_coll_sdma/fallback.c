/* SPDX-License-Identifier: BSD-3-Clause
 *
 * `mpirun --mca coll sdma`, word for word. Open MPI demands every collective of every communicator from the
 * components of an include list, and we have two. Without help such a job fails in MPI_Init, so the stock components
 * are opened here, as if the user had named them: they belong to the framework from then on, which selects them by
 * their own priorities and closes them at finalize.
 */
#include "ompi_coll_sdma/coll_sdma.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef mca_base_component_list_item_t item_t;

static bool present(const char *name) {
    item_t *item;
    OPAL_LIST_FOREACH(item, &ompi_coll_base_framework.framework_components, mca_base_component_list_item_t) {
        if (0 == strcmp(name, item->cli_component->mca_component_name)) {
            return true;
        }
    }
    return false;
}

/* self is needed, too: basic and libnbc have no MPI_Exscan on one rank. */
static bool complete(void) { return present("basic") && present("libnbc") && present("self"); }

/* "^" and the names that are open: everything else this Open MPI has, static or not. This form knows no errors for
 * names that a build lacks. */
static char *all_others(void) {
    size_t length = 2;
    item_t *item;
    OPAL_LIST_FOREACH(item, &ompi_coll_base_framework.framework_components, mca_base_component_list_item_t) {
        length += strlen(item->cli_component->mca_component_name) + 1;
    }
    char *list = malloc(length);
    if (NULL == list) {
        return NULL;
    }
    strcpy(list, "^");
    OPAL_LIST_FOREACH(item, &ompi_coll_base_framework.framework_components, mca_base_component_list_item_t) {
        if ('\0' != list[1]) {
            strcat(list, ",");
        }
        strcat(list, item->cli_component->mca_component_name);
    }
    return list;
}

/* Appends to framework_components what `selection` means. */
static int find(char *selection) {
    mca_base_framework_t *framework = &ompi_coll_base_framework;
    char *saved = framework->framework_selection;
    framework->framework_selection = selection;
    int status = mca_base_component_find(NULL, framework, false, true);
    framework->framework_selection = saved;
    return status;
}

/* What the framework does with each component before the loop that is calling us; true if it is to be kept. */
static bool start(const mca_base_component_t *component, bool progress_threads, bool mpi_threads) {
    int output = ompi_coll_base_framework.framework_output;
    if (NULL != component->mca_register_component_params &&
        OMPI_SUCCESS != component->mca_register_component_params()) {
        return false;
    }
    const mca_coll_base_component_t *coll = (const mca_coll_base_component_t *)component;
    if ((NULL == component->mca_open_component || OMPI_SUCCESS == component->mca_open_component()) &&
        OMPI_SUCCESS == coll->collm_init_query(progress_threads, mpi_threads)) {
        return true;
    }
    mca_base_component_close(component, output);
    return false;
}

/* The named components that are not open yet; the caller frees it. */
static char *missing_of(const char *names) {
    char *list = calloc(1, strlen(names) + 1);
    char *copy = strdup(names);
    char *next = NULL;
    for (char *name = NULL != list && NULL != copy ? strtok_r(copy, ",", &next) : NULL; NULL != name;
         name = strtok_r(NULL, ",", &next)) {
        if (!present(name)) {
            strcat(strcat(list, '\0' == list[0] ? "" : ","), name);
        }
    }
    free(copy);
    return list;
}

int coll_sdma_open_fallback(bool progress_threads, bool mpi_threads) {
    const char *selection = ompi_coll_base_framework.framework_selection;
    const char *wanted = coll_sdma_settings.fallback;
    bool include_list = NULL != selection && '\0' != selection[0] && '^' != selection[0];
    if (!include_list || complete() || NULL == wanted || 0 == strcmp(wanted, "none")) {
        return OMPI_SUCCESS;
    }
    opal_list_t *components = &ompi_coll_base_framework.framework_components;
    opal_list_item_t *tail = opal_list_get_last(components);
    char *list = 0 == strcmp(wanted, "auto") ? all_others() : missing_of(wanted);
    int status = NULL == list ? OMPI_ERR_OUT_OF_RESOURCE : '\0' == list[0] ? OMPI_SUCCESS : find(list);
    coll_sdma_say(2, "components opened besides \"%s\": %s", selection, NULL == list ? "" : list);
    free(list);

    /* The loop that is calling us has fetched its next entry already, so it does not visit these. */
    opal_list_item_t *next;
    for (opal_list_item_t *entry = opal_list_get_next(tail); entry != opal_list_get_end(components); entry = next) {
        next = opal_list_get_next(entry);
        if (!start(((item_t *)entry)->cli_component, progress_threads, mpi_threads)) {
            opal_list_remove_item(components, entry);
            OBJ_RELEASE(entry);
        }
    }
    return status;
}
