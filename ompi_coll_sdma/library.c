/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Every parameter and counter of libmpisdma under the component's name. The storage is libmpisdma's, so where the
 * component of the other framework has registered a parameter already, ours is a second name of it.
 */
#include "ompi_coll_sdma/glue.h"

#include <stdio.h>
#include <string.h>

const mca_base_var_enum_value_t glue_stage_values[] = {
    {GLUE_STAGE_AUTO, "auto"}, {GLUE_STAGE_ALWAYS, "always"}, {GLUE_STAGE_NEVER, "never"}, {0, NULL}};

static int register_var(const char *name, const char *help, mca_base_var_type_t type, mca_base_var_enum_t *values,
                        bool settable, void *storage) {
    int index = mca_base_component_var_register(
        sdma_glue.component, name, help, type, values, 0, settable ? MCA_BASE_VAR_FLAG_SETTABLE : 0, OPAL_INFO_LVL_4,
        settable ? MCA_BASE_VAR_SCOPE_LOCAL : MCA_BASE_VAR_SCOPE_READONLY, storage);
    return index < 0 ? index : OMPI_SUCCESS;
}

static int register_param(const glue_param_t *param) {
    mca_base_var_enum_t *enumerator = NULL;
    if (NULL != param->values && OPAL_SUCCESS != mca_base_var_enum_create(param->name, param->values, &enumerator)) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    int status = register_var(param->name, param->help, param->type, enumerator, param->settable, param->value);
    if (NULL != enumerator) {
        OBJ_RELEASE(enumerator);
    }
    return status;
}

int glue_register_params(const glue_param_t *params, size_t count) {
    int status = OMPI_SUCCESS;
    for (size_t i = 0; i < count && OMPI_SUCCESS == status; ++i) {
        status = register_param(&params[i]);
    }
    return status;
}

/* Open MPI allocates the strings of its variables, and frees them at each write by MPI_T and with the component. */
typedef struct text {
    const sdma_param_t *row;
    const char *original;
    char *value;           /* Open MPI's, where the variable is ours */
    char **storage;        /* &value, or that of the other component */
    const char *published; /* what libmpisdma got from us last: its copy */
} text_t;
static text_t texts[16];
static size_t text_count;
static text_t *settable[16]; /* those of them that are looked at before each operation */
static size_t settable_count;

/* Where Open MPI has the row's own storage. */
typedef struct number {
    const sdma_param_t *row;
    size_t bytes;
    size_t original; /* its first bytes */
} number_t;
static number_t numbers[32];
static size_t number_count;

/* NULL: more string rows than there is room for. */
static text_t *new_text(const sdma_param_t *row) {
    if (text_count == sizeof(texts) / sizeof(texts[0])) {
        return NULL;
    }
    text_t *text = &texts[text_count++];
    *text = (text_t){.row = row, .original = *(const char **)row->value};
    text->value = (char *)(uintptr_t)text->original;
    text->storage = &text->value;
    text->published = text->original;
    return text;
}

/* False: more rows than there is room for. */
static bool keep_number(const sdma_param_t *row, size_t bytes) {
    if (number_count == sizeof(numbers) / sizeof(numbers[0])) {
        return false;
    }
    number_t *number = &numbers[number_count++];
    *number = (number_t){.row = row, .bytes = bytes};
    memcpy(&number->original, row->value, bytes);
    return true;
}

static int register_synonym(const sdma_param_t *row, int index, text_t *text) {
    if (NULL != text) {
        const void *storage = NULL;
        if (OPAL_SUCCESS != mca_base_var_get_value(index, &storage, NULL, NULL)) {
            return OMPI_ERROR;
        }
        text->storage = (char **)(uintptr_t)storage;
    }
    int synonym =
        mca_base_var_register_synonym(index, "ompi", sdma_glue.component->mca_type_name, "sdma", row->name, 0);
    return synonym < 0 ? synonym : OMPI_SUCCESS;
}

static int register_row(const sdma_param_t *row) {
    static const struct {
        mca_base_var_type_t type;
        size_t bytes;
    } kinds[] = {
        [SDMA_PARAM_BOOL] = {MCA_BASE_VAR_TYPE_BOOL, sizeof(bool)},
        [SDMA_PARAM_INT] = {MCA_BASE_VAR_TYPE_INT, sizeof(int)},
        [SDMA_PARAM_SIZE] = {MCA_BASE_VAR_TYPE_SIZE_T, sizeof(size_t)},
        [SDMA_PARAM_STRING] = {MCA_BASE_VAR_TYPE_STRING, sizeof(char *)},
    };
    bool is_text = SDMA_PARAM_STRING == row->type;
    text_t *text = is_text ? new_text(row) : NULL;
    if (is_text && NULL == text) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    int index = mca_base_var_find("ompi", sdma_glue.other, "sdma", row->name);
    if (index >= 0) {
        return register_synonym(row, index, text);
    }
    if (!is_text && !keep_number(row, kinds[row->type].bytes)) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    char help[512];
    snprintf(help, sizeof(help), "%s%s%s%s", row->help, '\0' != row->unit[0] ? " [" : "", row->unit,
             '\0' != row->unit[0] ? "]" : "");
    return register_var(row->name, help, kinds[row->type].type, NULL, row->settable,
                        is_text ? text->storage : row->value);
}

/* A row is only written when Open MPI's value has changed: a program may have set the row directly. A write by MPI_T
 * frees the old string, is NULL for a moment and tells nobody: docs/tuning.md asks for none during operations. */
static void publish(text_t *text) {
    const char *value = __atomic_load_n(text->storage, __ATOMIC_ACQUIRE);
    const char *wanted = NULL != value ? value : text->original;
    if (0 != strcmp(wanted, __atomic_load_n(&text->published, __ATOMIC_ACQUIRE))) {
        sdma_param_set(text->row, wanted);
        const char *copy = __atomic_load_n((const char **)text->row->value, __ATOMIC_ACQUIRE);
        __atomic_store_n(&text->published, copy, __ATOMIC_RELEASE);
    }
}

void glue_publish(void) {
    for (size_t i = 0; i < settable_count; ++i) {
        publish(settable[i]);
    }
}

int glue_register_counter(const char *name, const char *help, void *value) {
    int index = mca_base_component_pvar_register(
        sdma_glue.component, name, help, OPAL_INFO_LVL_4, MCA_BASE_PVAR_CLASS_COUNTER,
        MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
        MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, NULL, NULL, NULL, value);
    return index < 0 ? index : OMPI_SUCCESS;
}

/* libmpisdma stays when we are unloaded, which happens without a close where only the tool interface was started; and
 * what a row holds when Open MPI registers it the next time is its default. */
__attribute__((destructor)) static void restore(void) {
    for (size_t i = 0; i < text_count; ++i) {
        if (texts[i].storage == &texts[i].value) {
            sdma_param_set(texts[i].row, texts[i].original);
        }
    }
    for (size_t i = 0; i < number_count; ++i) {
        memcpy(numbers[i].row->value, &numbers[i].original, numbers[i].bytes);
    }
    text_count = settable_count = number_count = 0;
}

int glue_register_library(void) {
    int status = OMPI_SUCCESS;
    size_t count;
    const sdma_param_t *rows = sdma_params(&count);
    restore(); /* nobody may have unloaded us */
    for (size_t i = 0; i < count && OMPI_SUCCESS == status; ++i) {
        status = register_row(&rows[i]);
    }
    for (size_t i = 0; i < text_count; ++i) {
        publish(&texts[i]);
        if (texts[i].row->settable) {
            settable[settable_count++] = &texts[i];
        }
    }

    const sdma_counter_t *counters = sdma_counters(&count);
    for (size_t i = 0; i < count && OMPI_SUCCESS == status; ++i) {
        status = glue_register_counter(counters[i].name, counters[i].help, (void *)(uintptr_t)counters[i].value);
    }
    return status;
}
