# SPDX-License-Identifier: BSD-3-Clause
# The Open MPI component.

# What it shares with the one-sided component; each has its own copy of it.
sdma_glue_sources = \
	ompi_coll_sdma/fallback.c \
	ompi_coll_sdma/glue.c \
	ompi_coll_sdma/glue.h \
	ompi_coll_sdma/library.c \
	ompi_coll_sdma/shim.h \
	ompi_coll_sdma/staging.c

ompicomp_LTLIBRARIES += mca_coll_sdma.la
mca_coll_sdma_la_SOURCES = $(sdma_glue_sources) \
	ompi_coll_sdma/coll_sdma.h \
	ompi_coll_sdma/collectives.c \
	ompi_coll_sdma/component.c \
	ompi_coll_sdma/module.c \
	ompi_coll_sdma/params.c \
	ompi_coll_sdma/team.c
mca_coll_sdma_la_CPPFLAGS = $(AM_CPPFLAGS) $(OMPI_CPPFLAGS)
mca_coll_sdma_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared $(SDMA_COMPLETE) \
	-export-symbols-regex '^mca_coll_sdma_component$$'
mca_coll_sdma_la_LIBADD = libmpisdma.la $(OMPI_LIBS)

# Only for Open MPI installations that lack these headers: searched last.
EXTRA_DIST += \
	ompi_coll_sdma/compat/ompi/mpi/fortran/base/fint_2_int.h \
	ompi_coll_sdma/compat/opal/mca/threads/pthreads/threads_pthreads_mutex.h \
	ompi_coll_sdma/compat/opal/mca/threads/pthreads/threads_pthreads_threads.h \
	ompi_coll_sdma/compat/opal/mca/threads/pthreads/threads_pthreads_tsd.h

# To be read into a shell: where Open MPI finds the component.
pkgdata_DATA = ompi_coll_sdma/sdma-env.sh
