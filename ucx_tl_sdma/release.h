/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef UCX_TL_SDMA_RELEASE_H
#define UCX_TL_SDMA_RELEASE_H

#include <stdbool.h>

/* Whether the libuct of this process is of the release whose tables we were built with. If not, one line says
 * so and UCX goes on without us. False without a line if the transport is registered already. */
bool tl_release_fits(void);

#endif
