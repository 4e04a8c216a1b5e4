/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Open MPI installs ompi/op/op.h but not this header that it includes. Fortran and C integers have the same
 * size in every supported build, so a conversion is the value itself. Found last (-idirafter): the real one wins.
 */
#ifndef SDMA_COMPAT_FINT_2_INT_H
#define SDMA_COMPAT_FINT_2_INT_H

#define OMPI_FINT_2_INT(value) (value)
#define OMPI_INT_2_FINT(value) (value)

#endif
