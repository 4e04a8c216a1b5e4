/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Every parameter and counter of libmpisdma under the name coll_sdma_<name>, and the few that the glue has itself.
 */
#include "ompi_coll_sdma/coll_sdma.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

coll_sdma_settings_t coll_sdma_settings;

static _Atomic unsigned long long passed;

void coll_sdma_count_passed(void) { atomic_fetch_add_explicit(&passed, 1, memory_order_relaxed); }

/* ---- the glue's own ---------------------------------------------------------------------------------------- */

static const mca_base_var_enum_value_t stage_values[] = {
    {COLL_SDMA_STAGE_AUTO, "auto"}, {COLL_SDMA_STAGE_ALWAYS, "always"}, {COLL_SDMA_STAGE_NEVER, "never"}, {0, NULL}};

static const struct own_param {
    const char *name;
    mca_base_var_type_t type;
    bool settable;
    const mca_base_var_enum_value_t *values;
    const char *help;
    void *value;
} own_params[] = {
    {"priority", MCA_BASE_VAR_TYPE_INT, false, NULL,
     "priority among coll components; above those that copy through the host (78), below hcoll (90)",
     &coll_sdma_settings.priority},
    {"fallback", MCA_BASE_VAR_TYPE_STRING, false, NULL,
     "components opened in addition where the list given by --mca coll lacks basic, libnbc or self: auto (all), none, "
     "or a list",
     &coll_sdma_settings.fallback},
    {"verbose", MCA_BASE_VAR_TYPE_INT, true, NULL,
     "messages: 0 errors only, 1 decisions by communicator, more: details", &coll_sdma_settings.verbose},
    {"stage", MCA_BASE_VAR_TYPE_INT, true, stage_values,
     "copy device buffers of declined operations through host memory: auto (where Open MPI is not GPU-aware), always, "
     "never (the components below must be able to access them)",
     &coll_sdma_settings.stage},
};

static int register_own(const struct own_param *param) {
    mca_base_var_enum_t *enumerator = NULL;
    if (NULL != param->values && OPAL_SUCCESS != mca_base_var_enum_create(param->name, param->values, &enumerator)) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    int index = mca_base_component_var_register(
        &mca_coll_sdma_component.collm_version, param->name, param->help, param->type, enumerator, 0,
        param->settable ? MCA_BASE_VAR_FLAG_SETTABLE : 0, OPAL_INFO_LVL_4,
        param->settable ? MCA_BASE_VAR_SCOPE_LOCAL : MCA_BASE_VAR_SCOPE_READONLY, param->value);
    if (NULL != enumerator) {
        OBJ_RELEASE(enumerator);
    }
    return index < 0 ? index : OMPI_SUCCESS;
}

/* ---- libmpisdma's ------------------------------------------------------------------------------------------- */

/* Open MPI allocates the strings of its variables, frees them at each write by MPI_T and with the component, while
 * libmpisdma may live on for another plug-in and other threads may be reading. So its rows point to copies, which are
 * kept as long as we are open: one per value that was ever in use. */
typedef struct text {
    const sdma_param_t *row;
    const char *original;
    char *value;         /* Open MPI's */
    const char *current; /* what the row was last given */
} text_t;
static text_t texts[16];
static size_t text_count;

typedef struct copy {
    struct copy *next;
    char text[];
} copy_t;
static copy_t *copies;
static pthread_mutex_t copies_lock = PTHREAD_MUTEX_INITIALIZER;

/* NULL: no memory. */
static const char *kept(const char *text) {
    pthread_mutex_lock(&copies_lock);
    copy_t *copy = copies;
    while (NULL != copy && 0 != strcmp(copy->text, text)) {
        copy = copy->next;
    }
    if (NULL == copy && NULL != (copy = malloc(sizeof(*copy) + strlen(text) + 1))) {
        strcpy(copy->text, text);
        copy->next = copies;
        copies = copy;
    }
    pthread_mutex_unlock(&copies_lock);
    return NULL != copy ? copy->text : NULL;
}

/* NULL: more string rows than there is room for. */
static void *storage_of(const sdma_param_t *row) {
    if (SDMA_PARAM_STRING != row->type) {
        return row->value;
    }
    if (text_count == sizeof(texts) / sizeof(texts[0])) {
        return NULL;
    }
    text_t *text = &texts[text_count++];
    text->row = row;
    text->original = text->current = *(const char **)row->value;
    text->value = (char *)(uintptr_t)text->original;
    return &text->value;
}

static int register_row(const sdma_param_t *row) {
    static const mca_base_var_type_t types[] = {
        [SDMA_PARAM_BOOL] = MCA_BASE_VAR_TYPE_BOOL,
        [SDMA_PARAM_INT] = MCA_BASE_VAR_TYPE_INT,
        [SDMA_PARAM_SIZE] = MCA_BASE_VAR_TYPE_SIZE_T,
        [SDMA_PARAM_STRING] = MCA_BASE_VAR_TYPE_STRING,
    };
    void *storage = storage_of(row);
    if (NULL == storage) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    char help[512];
    snprintf(help, sizeof(help), "%s%s%s%s", row->help, '\0' != row->unit[0] ? " [" : "", row->unit,
             '\0' != row->unit[0] ? "]" : "");
    int index = mca_base_component_var_register(
        &mca_coll_sdma_component.collm_version, row->name, help, types[row->type], NULL, 0,
        row->settable ? MCA_BASE_VAR_FLAG_SETTABLE : 0, OPAL_INFO_LVL_4,
        row->settable ? MCA_BASE_VAR_SCOPE_LOCAL : MCA_BASE_VAR_SCOPE_READONLY, storage);
    return index < 0 ? index : OMPI_SUCCESS;
}

static int register_counter(const char *name, const char *help, void *value) {
    int index = mca_base_component_pvar_register(
        &mca_coll_sdma_component.collm_version, name, help, OPAL_INFO_LVL_4, MCA_BASE_PVAR_CLASS_COUNTER,
        MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
        MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, NULL, NULL, NULL, value);
    return index < 0 ? index : OMPI_SUCCESS;
}

int coll_sdma_register_params(void) {
    coll_sdma_settings = (coll_sdma_settings_t){.priority = 85, .fallback = "auto"};
    int status = OMPI_SUCCESS;
    for (size_t i = 0; i < sizeof(own_params) / sizeof(own_params[0]) && OMPI_SUCCESS == status; ++i) {
        status = register_own(&own_params[i]);
    }
    size_t count;
    const sdma_param_t *rows = sdma_params(&count);
    text_count = 0;
    for (size_t i = 0; i < count && OMPI_SUCCESS == status; ++i) {
        status = register_row(&rows[i]);
    }
    coll_sdma_publish_params();

    const sdma_counter_t *counters = sdma_counters(&count);
    for (size_t i = 0; i < count && OMPI_SUCCESS == status; ++i) {
        status = register_counter(counters[i].name, counters[i].help, (void *)(uintptr_t)counters[i].value);
    }
    if (OMPI_SUCCESS == status) {
        status =
            register_counter("passed", "operations given to the component below because the team is not live", &passed);
    }
    return status;
}

/* A row is only written when Open MPI's value is another than before. */
void coll_sdma_publish_params(void) {
    for (size_t i = 0; i < text_count; ++i) {
        text_t *text = &texts[i];
        const char *wanted = NULL != text->value ? text->value : text->original;
        if (0 == strcmp(wanted, text->current)) {
            continue;
        }
        const char *copy = kept(wanted);
        if (NULL != copy) {
            text->current = copy;
            __atomic_store_n((const char **)text->row->value, copy, __ATOMIC_RELEASE);
        }
    }
}

void coll_sdma_restore_params(void) {
    for (size_t i = 0; i < text_count; ++i) {
        *(const char **)texts[i].row->value = texts[i].original;
    }
    text_count = 0;
    while (NULL != copies) {
        copy_t *next = copies->next;
        free(copies);
        copies = next;
    }
}
