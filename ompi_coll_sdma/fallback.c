/* SPDX-License-Identifier: BSD-3-Clause
 *
 * `mpirun --mca coll sdma` or `--mca osc sdma`, word for word. Open MPI takes everything from the components of an
 * include list, and ours needs others below it. So the missing ones are opened here, as if the user had named them:
 * they belong to the framework from then on, which selects them by their own priorities and closes them at finalize.
 */
#include "ompi_coll_sdma/glue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef mca_base_component_list_item_t item_t;

bool glue_component_present(mca_base_framework_t *framework, const char *name) {
    item_t *item;
    OPAL_LIST_FOREACH(item, &framework->framework_components, mca_base_component_list_item_t) {
        if (0 == strcmp(name, item->cli_component->mca_component_name)) {
            return true;
        }
    }
    return false;
}

/* "^" and the names that are open: everything else this Open MPI has, static or not. This form knows no errors for
 * names that a build lacks. */
static char *all_others(mca_base_framework_t *framework) {
    size_t length = 2;
    item_t *item;
    OPAL_LIST_FOREACH(item, &framework->framework_components, mca_base_component_list_item_t) {
        length += strlen(item->cli_component->mca_component_name) + 1;
    }
    char *list = malloc(length);
    if (NULL == list) {
        return NULL;
    }
    strcpy(list, "^");
    OPAL_LIST_FOREACH(item, &framework->framework_components, mca_base_component_list_item_t) {
        if ('\0' != list[1]) {
            strcat(list, ",");
        }
        strcat(list, item->cli_component->mca_component_name);
    }
    return list;
}

/* Appends to framework_components what `selection` means. */
static int find(mca_base_framework_t *framework, char *selection) {
    char *saved = framework->framework_selection;
    framework->framework_selection = selection;
    int status = mca_base_component_find(NULL, framework, false, true);
    framework->framework_selection = saved;
    return status;
}

static bool listed(const char *names, const char *name) {
    size_t length = strlen(name);
    for (const char *at = strstr(names, name); NULL != at; at = strstr(at + 1, name)) {
        if ((at == names || ',' == at[-1]) && ('\0' == at[length] || ',' == at[length])) {
            return true;
        }
    }
    return false;
}

static bool begin(mca_base_framework_t *framework, const mca_base_component_t *component, glue_start_fn start,
                  bool visited, bool progress_threads, bool mpi_threads) {
    if (NULL != component->mca_register_component_params &&
        OMPI_SUCCESS != component->mca_register_component_params()) {
        return false;
    }
    if ((NULL == component->mca_open_component || OMPI_SUCCESS == component->mca_open_component()) &&
        (visited || start(component, progress_threads, mpi_threads))) {
        return true;
    }
    mca_base_component_close(component, framework->framework_output);
    return false;
}

int glue_open_fallback(mca_base_framework_t *framework, glue_start_fn start, bool progress_threads, bool mpi_threads) {
    const char *selection = framework->framework_selection;
    const char *wanted = sdma_glue.fallback;
    bool include_list = NULL != selection && '\0' != selection[0] && '^' != selection[0];
    if (!include_list || NULL == wanted || 0 == strcmp(wanted, "none")) {
        return OMPI_SUCCESS;
    }
    opal_list_t *components = &framework->framework_components;
    opal_list_item_t *tail = opal_list_get_last(components);
    char *list = all_others(framework);
    int status = NULL == list ? OMPI_ERR_OUT_OF_RESOURCE : find(framework, list);
    free(list);

    /* The loop that is calling us has fetched its next entry already: it starts these only if there is one. */
    bool visited = sdma_glue.component != ((item_t *)tail)->cli_component;
    opal_list_item_t *next;
    for (opal_list_item_t *entry = opal_list_get_next(tail); entry != opal_list_get_end(components); entry = next) {
        next = opal_list_get_next(entry);
        const mca_base_component_t *component = ((item_t *)entry)->cli_component;
        bool keep = 0 == strcmp(wanted, "auto") || listed(wanted, component->mca_component_name);
        if (!keep || !begin(framework, component, start, visited, progress_threads, mpi_threads)) {
            opal_list_remove_item(components, entry);
            OBJ_RELEASE(entry);
        } else {
            glue_say(2, "opened besides \"%s\": %s", selection, component->mca_component_name);
        }
    }
    return status;
}
