/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The rows of the domain's configuration: our own and, under the same prefix, every parameter of libmpisdma.
 * Another plug-in of the process may own those (Open MPI's), so only what differs from the default is written.
 */
#include "ucx_tl_sdma/tl.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ucs_config_field_t own_rows[] = {
    {"", "", NULL, offsetof(tl_md_config_t, super), UCS_CONFIG_TYPE_TABLE(uct_md_config_table)},
#define TL_MD_PARAM(name, value, type, field, help)                                                                    \
    {#name, value, help, offsetof(tl_md_config_t, field), UCS_CONFIG_TYPE_##type},
#include "ucx_tl_sdma/params.def"
};
enum { OWN_ROWS = sizeof(own_rows) / sizeof(own_rows[0]) };

static ucs_config_field_t *rows; /* lives as long as the process, as UCX's own do */

static char *upper(const char *name) {
    char *made = strdup(name);
    for (char *c = made; c != NULL && *c != '\0'; c++) {
        *c = (char)toupper((unsigned char)*c);
    }
    return made;
}

static char *text_of(const sdma_param_t *param) {
    char *text = NULL;
    int written = -1;
    switch (param->type) {
    case SDMA_PARAM_BOOL:
        return strdup(*(const bool *)param->value ? "y" : "n");
    case SDMA_PARAM_INT:
        written = asprintf(&text, "%d", *(const int *)param->value);
        break;
    case SDMA_PARAM_SIZE:
        written = asprintf(&text, "%zu", *(const size_t *)param->value);
        break;
    case SDMA_PARAM_STRING:
        return strdup(*(const char *const *)param->value);
    }
    return written < 0 ? NULL : text;
}

/* As text, so that a value that was not touched can be told from one that was set. */
static ucs_config_field_t row_of(const sdma_param_t *param, size_t index) {
    static const ucs_config_parser_t text = UCS_CONFIG_TYPE_STRING;
    return (ucs_config_field_t){upper(param->name), text_of(param), param->help,
                                offsetof(tl_md_config_t, layer) + index * sizeof(char *), text};
}

ucs_config_field_t *tl_md_config_rows(size_t *config_bytes) {
    size_t count = 0;
    const sdma_param_t *params = sdma_params(&count);
    rows = calloc(OWN_ROWS + count + 1, sizeof(*rows));
    if (rows == NULL) {
        return NULL;
    }
    memcpy(rows, own_rows, sizeof(own_rows));
    for (size_t i = 0; i < count; i++) {
        rows[OWN_ROWS + i] = row_of(&params[i], i);
        if (rows[OWN_ROWS + i].name == NULL || rows[OWN_ROWS + i].dfl_value == NULL) {
            return NULL;
        }
    }
    *config_bytes = sizeof(tl_md_config_t) + count * sizeof(char *);
    return rows;
}

static bool set(const sdma_param_t *param, const char *text) {
    int yes = 0, number = 0;
    size_t size = 0;
    switch (param->type) {
    case SDMA_PARAM_BOOL:
        if (!ucs_config_sscanf_bool(text, &yes, NULL)) {
            return false;
        }
        *(bool *)param->value = yes != 0;
        return true;
    case SDMA_PARAM_INT:
        if (!ucs_config_sscanf_int(text, &number, NULL)) {
            return false;
        }
        *(int *)param->value = number;
        return true;
    case SDMA_PARAM_SIZE:
        if (!ucs_config_sscanf_memunits(text, &size, NULL)) {
            return false;
        }
        *(size_t *)param->value = size;
        return true;
    default:
        sdma_param_set(param, text);
        return true;
    }
}

void tl_apply_layer_params(const tl_md_config_t *config) {
    size_t count = 0;
    const sdma_param_t *params = sdma_params(&count);
    for (size_t i = 0; i < count; i++) {
        const ucs_config_field_t *row = &rows[OWN_ROWS + i];
        if (strcmp(config->layer[i], row->dfl_value) != 0 && !set(&params[i], config->layer[i])) {
            ucs_warn("sdma: UCX_SDMA_%s=%s is not understood and not used", row->name, config->layer[i]);
        }
    }
}
