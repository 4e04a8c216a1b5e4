/* SPDX-License-Identifier: BSD-3-Clause
 *
 * UCX's private tables differ from one minor release to the next under one library name and without symbol
 * versions, so nothing but this file keeps a wrong pair apart. Two questions, the cheap one first:
 *   which functions does libuct export?  They came one by one, so they tell the release.
 *   do the tables have the form we expect?  A component that every build has is looked at.
 * Pointers are followed only into objects that are loaded.
 */
#include "ucx_tl_sdma/release.h"

#include "ucx_tl_sdma/tl.h"

#include <dlfcn.h>
#include <string.h>

/* Weak: absent in releases before the one named. */
#define SINCE(function) extern void function(void) __attribute__((weak))
SINCE(uct_md_query_v2);          /* 1.14 */
SINCE(uct_rkey_compare);         /* 1.16 */
SINCE(uct_md_base_md_query);     /* 1.17 */
SINCE(uct_rkey_unpack_v2);       /* 1.19 */
SINCE(uct_ep_get_device_ep);     /* 1.20 */
SINCE(uct_md_mem_elem_pack);     /* 1.21 */
SINCE(uct_ep_put_sgl_zcopy);     /* 1.22 */
SINCE(uct_ep_outstanding_purge); /* 1.23 */

/* 117 stands for 1.17 and 1.18, whose tables are the same. */
static int running_release(void) {
    const struct {
        int release;
        bool here;
    } marks[] = {
        {123, uct_ep_outstanding_purge != NULL}, {122, uct_ep_put_sgl_zcopy != NULL},
        {121, uct_md_mem_elem_pack != NULL},     {120, uct_ep_get_device_ep != NULL},
        {119, uct_rkey_unpack_v2 != NULL},       {117, uct_md_base_md_query != NULL},
        {116, uct_rkey_compare != NULL},         {114, uct_md_query_v2 != NULL},
    };
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        if (marks[i].here) {
            return marks[i].release;
        }
    }
    return 113;
}

static bool in_an_object(const void *address) {
    Dl_info info;
    return address != NULL && dladdr(address, &info) != 0;
}

static bool text_is(const char *text, const char *expected) {
    return in_an_object(text) && strcmp(text, expected) == 0;
}

/* UCX's own `self` is in libuct itself and looks the same in all releases. */
static bool form_is_known(const uct_component_t *self) {
    if (!text_is(self->md_config.name, "Self memory domain") || !text_is(self->md_config.prefix, "SELF_") ||
        self->query_md_resources != uct_md_query_single_md_resource || !in_an_object(self->tl_list.next)) {
        return false;
    }
    const uct_tl_t *tl = ucs_list_head(&self->tl_list, uct_tl_t, list);
    return strncmp(tl->name, "self", sizeof(tl->name)) == 0 && text_is(tl->config.name, "self transport") &&
           text_is(tl->config.prefix, "SELF_");
}

/* NULL if there is none, or the list is none. */
static const uct_component_t *find(const char *name) {
    const ucs_list_link_t *link = uct_components_list.next;
    for (unsigned i = 0; i < 256 && link != &uct_components_list && in_an_object(link); i++, link = link->next) {
        const uct_component_t *component = ucs_container_of(link, uct_component_t, list);
        if (strncmp(component->name, name, sizeof(component->name)) == 0) {
            return component;
        }
    }
    return NULL;
}

static bool refuse(const char *why) {
    ucs_warn("sdma: built for UCX %d.%d, but %s; the transport is not used", UCX_RELEASE / 100, UCX_RELEASE % 100, why);
    return false;
}

bool tl_release_fits(void) {
    const int expected = UCX_RELEASE == 118 ? 117 : UCX_RELEASE;
    if (running_release() != expected) {
        return refuse("another release is loaded");
    }
    const uct_component_t *self = find("self");
    if (self == NULL || !form_is_known(self)) {
        return refuse("the loaded one has other tables");
    }
    return find(TL_NAME) == NULL;
}
