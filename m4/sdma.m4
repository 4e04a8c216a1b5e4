dnl SPDX-License-Identifier: BSD-3-Clause
dnl What configure looks for. Each failure is one line that names the missing thing and its Debian package.

AC_DEFUN([SDMA_CXX20], [
AC_LANG_PUSH([C++])
AC_MSG_CHECKING([for C++20])
sdma_save_CXXFLAGS=$CXXFLAGS
CXXFLAGS="$CXXFLAGS -std=c++20"
AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <span>
#include <compare>
struct S { int a; auto operator<=>(const S &) const = default; };]], [[int x[2] = {}; return (int)std::span<int>(x).size();]])],
    [AC_MSG_RESULT([-std=c++20]); CXX="$CXX -std=c++20"],
    [AC_MSG_RESULT([no]); AC_MSG_ERROR([the C++ compiler knows no C++20 (Debian: apt-get install g++)])])
CXXFLAGS=$sdma_save_CXXFLAGS
AC_LANG_POP([C++])
])

AC_DEFUN([SDMA_HWLOC], [
PKG_CHECK_MODULES([HWLOC], [hwloc >= 2.0], [],
    [AC_MSG_ERROR([hwloc is missing (Debian: apt-get install libhwloc-dev)])])
])

dnl Open MPI with its developers' headers. Sets OMPI_VERSION, OMPI_CPPFLAGS, OMPI_LIBS, OMPI_PKGLIBDIR, MPICC,
dnl MPICXX, MPIRUN, ompicompdir.
AC_DEFUN([SDMA_OPEN_MPI], [
AC_ARG_WITH([ompi], [AS_HELP_STRING([--with-ompi=DIR], [Open MPI installed in DIR @<:@found by PATH@:>@])],
    [sdma_ompi_path="$withval/bin"], [sdma_ompi_path=$PATH])
AC_ARG_WITH([ompi-component-dir], [AS_HELP_STRING([--with-ompi-component-dir=DIR],
    [where the component is installed; "system" is Open MPI's own directory @<:@LIBDIR/mpi-sdma/ompi@:>@])],
    [], [with_ompi_component_dir='$(libdir)/mpi-sdma/ompi'])
AC_PATH_PROG([OMPI_INFO], [ompi_info], [], [$sdma_ompi_path])
AC_PATH_PROG([MPICC], [mpicc.openmpi], [], [$sdma_ompi_path])
AS_IF([test -z "$MPICC"], [AC_PATH_PROG([MPICC], [mpicc], [], [$sdma_ompi_path])])
AC_PATH_PROG([MPICXX], [mpicxx.openmpi], [], [$sdma_ompi_path])
AS_IF([test -z "$MPICXX"], [AC_PATH_PROG([MPICXX], [mpicxx], [], [$sdma_ompi_path])])
AC_PATH_PROG([MPIRUN], [mpirun.openmpi], [], [$sdma_ompi_path])
AS_IF([test -z "$MPIRUN"], [AC_PATH_PROG([MPIRUN], [mpirun], [mpirun], [$sdma_ompi_path])])
AS_IF([test -z "$OMPI_INFO" || test -z "$MPICC" || test -z "$MPICXX"],
    [AC_MSG_ERROR([Open MPI is missing (Debian: apt-get install libopenmpi-dev openmpi-bin)])])
sdma_ompi_path_of() { "$OMPI_INFO" --path "$[]1" --parsable 2>/dev/null | sed -n "s/^path:$[]1:\\(.*\\)/\\1/p" | head -n 1; }
sdma_ompi_incdir=`sdma_ompi_path_of incdir`
sdma_ompi_libdir=`sdma_ompi_path_of libdir`
OMPI_PKGLIBDIR=`sdma_ompi_path_of pkglibdir`
OMPI_VERSION=`"$OMPI_INFO" --version 2>/dev/null | sed -n 's/^Open MPI v\(@<:@^ @:>@*\).*/\1/p' | head -n 1`
AC_MSG_CHECKING([for the Open MPI release])
AS_CASE([$OMPI_VERSION],
    [4.1.*|5.0.*], [AC_MSG_RESULT([$OMPI_VERSION])],
    [AC_MSG_RESULT([$OMPI_VERSION])
     AC_MSG_ERROR([Open MPI "$OMPI_VERSION" is not supported: this release needs 4.1 or 5.0])])
OMPI_CPPFLAGS="-I$sdma_ompi_incdir -I$sdma_ompi_incdir/openmpi"
dnl The wrapper knows further include directories (a private libdir layout, PMIx).
for flag in `"$MPICC" --showme:compile`; do
    AS_CASE([$flag], [-I*], [OMPI_CPPFLAGS="$OMPI_CPPFLAGS $flag"])
done
PKG_CHECK_EXISTS([pmix], [OMPI_CPPFLAGS="$OMPI_CPPFLAGS `$PKG_CONFIG --cflags pmix`"])
OMPI_CPPFLAGS="$OMPI_CPPFLAGS -idirafter \$(top_srcdir)/ompi_coll_sdma/compat"
OMPI_LIBS="-L$sdma_ompi_libdir -lmpi -lopen-pal"
AC_MSG_CHECKING([for Open MPI's component headers])
sdma_save_CPPFLAGS=$CPPFLAGS
CPPFLAGS="$CPPFLAGS `echo "$OMPI_CPPFLAGS" | sed "s,\\$(top_srcdir),$srcdir,"`"
AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include "ompi_config.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/mca/coll/base/coll_base_util.h"
#if !defined(MCA_COLL_BASE_VERSION_2_4_0) && !defined(MCA_COLL_BASE_VERSION_2_0_0)
#error unknown coll interface
#endif]], [[]])],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([Open MPI's component headers do not compile (Debian: apt-get install libopenmpi-dev libpmix-dev; own builds: configure Open MPI with --with-devel-headers)])])
CPPFLAGS=$sdma_save_CPPFLAGS
AS_IF([test "x$with_ompi_component_dir" = xsystem], [ompicompdir=$OMPI_PKGLIBDIR], [ompicompdir=$with_ompi_component_dir])
MPI_CFLAGS=`"$MPICC" --showme:compile`
MPI_LIBS=`"$MPICC" --showme:link`
AC_SUBST([OMPI_VERSION])
AC_SUBST([OMPI_CPPFLAGS])
AC_SUBST([OMPI_LIBS])
AC_SUBST([OMPI_PKGLIBDIR])
AC_SUBST([MPI_CFLAGS])
AC_SUBST([MPI_LIBS])
AC_SUBST([ompicompdir])
])

dnl HSA (required) and HIP (tests) headers. No ROCm library is linked into what we install.
AC_DEFUN([SDMA_ROCM], [
AC_ARG_WITH([rocm], [AS_HELP_STRING([--with-rocm=DIR], [ROCm installed in DIR @<:@/usr, then /opt/rocm@:>@])],
    [sdma_rocm_dirs=$withval], [sdma_rocm_dirs="/usr /opt/rocm"])
AC_MSG_CHECKING([for ROCr headers])
ROCM_DIR=
for dir in $sdma_rocm_dirs; do
    AS_IF([test -z "$ROCM_DIR" && test -f "$dir/include/hsa/hsa_ext_amd.h"], [ROCM_DIR=$dir])
done
AS_IF([test -z "$ROCM_DIR"],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([ROCr headers are missing in $sdma_rocm_dirs (Debian: apt-get install libhsa-runtime-dev; ROCm: hsa-rocr-dev, or give --with-rocm=DIR)])],
    [AC_MSG_RESULT([$ROCM_DIR/include/hsa])])
AS_IF([test "$ROCM_DIR" = /usr], [ROCM_CPPFLAGS= ROCM_LDFLAGS=],
    [ROCM_CPPFLAGS="-isystem $ROCM_DIR/include" ROCM_LDFLAGS="-L$ROCM_DIR/lib -Wl,-rpath,$ROCM_DIR/lib"])
AC_SUBST([ROCM_CPPFLAGS])
AC_SUBST([ROCM_LDFLAGS])
AC_SUBST([ROCM_DIR])
AC_MSG_CHECKING([for HIP headers])
AS_IF([test -f "$ROCM_DIR/include/hip/hip_runtime_api.h"], [sdma_have_hip=yes], [sdma_have_hip=no])
AC_MSG_RESULT([$sdma_have_hip])
dnl The thunk's headers (for the simulated node): in a folder of their own since ROCm 6.
HSAKMT_CPPFLAGS=$ROCM_CPPFLAGS
sdma_have_hsakmt=no
AS_IF([test -f "$ROCM_DIR/include/hsakmt/hsakmt.h"],
    [sdma_have_hsakmt=yes HSAKMT_CPPFLAGS="-isystem $ROCM_DIR/include/hsakmt $ROCM_CPPFLAGS"],
    [test -f "$ROCM_DIR/include/hsakmt.h"], [sdma_have_hsakmt=yes])
AC_SUBST([HSAKMT_CPPFLAGS])
])

dnl A clang (with its lld) that makes code objects for at least one target; sets CLANG_GPU and GPU_TARGETS.
AC_DEFUN([SDMA_GPU_CLANG], [
AC_ARG_WITH([gpu-clang], [AS_HELP_STRING([--with-gpu-clang=PATH], [clang that compiles for AMD GPUs @<:@clang-22, then others@:>@])],
    [sdma_clangs=$withval], [sdma_clangs="clang-22 clang-21 clang-20 clang-19 clang $ROCM_DIR/llvm/bin/clang clang-17 clang-16 clang-15 clang-14"])
AC_ARG_WITH([gpu-targets], [AS_HELP_STRING([--with-gpu-targets=LIST], [comma-separated targets @<:@all of gfx90a,gfx942,gfx950 the compiler knows@:>@])],
    [sdma_targets=`echo "$withval" | tr ',' ' '` sdma_targets_given=yes], [sdma_targets="gfx90a gfx942 gfx950" sdma_targets_given=no])
cat >conftest.hip <<'_SDMA'
extern "C" __attribute__((global)) void conftest(unsigned long *p) { __hip_atomic_store(p, 1ul, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM); }
_SDMA
CLANG_GPU= GPU_TARGETS=
for clang in $sdma_clangs; do
    AS_IF([test -z "$CLANG_GPU"], [
        AC_MSG_CHECKING([whether $clang makes code objects])
        for target in $sdma_targets; do
            AS_IF([$clang -x hip --offload-arch=$target --cuda-device-only -nogpulib -nogpuinc -O3 -mcode-object-version=4 --no-gpu-bundle-output conftest.hip -o conftest.elf >&AS_MESSAGE_LOG_FD 2>&1 && test -s conftest.elf],
                [GPU_TARGETS="$GPU_TARGETS $target"],
                [AS_IF([test $sdma_targets_given = yes], [GPU_TARGETS=; break])])
        done
        AS_IF([test -n "$GPU_TARGETS"], [CLANG_GPU=$clang; AC_MSG_RESULT([$GPU_TARGETS])], [AC_MSG_RESULT([no])])
    ])
done
rm -f conftest.hip conftest.elf
AS_IF([test -z "$CLANG_GPU"],
    [AC_MSG_ERROR([no clang with lld that compiles for $sdma_targets (Debian: apt-get install clang-22 lld-22, or clang-19 lld-19)])])
GPU_TARGETS=`echo $GPU_TARGETS`
AC_SUBST([CLANG_GPU])
AC_SUBST([GPU_TARGETS])
])

AC_DEFUN([SDMA_NVCC], [
AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda=DIR], [CUDA installed in DIR @<:@/usr/local/cuda@:>@])],
    [], [with_cuda=/usr/local/cuda])
AC_ARG_WITH([nvcc-archs], [AS_HELP_STRING([--with-nvcc-archs=LIST], [comma-separated compute capabilities @<:@90@:>@])],
    [NVCC_ARCHS=`echo "$withval" | tr ',' ' '`], [NVCC_ARCHS=90])
CUDA_HOME=$with_cuda
AC_PATH_PROG([NVCC], [nvcc], [], [$CUDA_HOME/bin:$PATH])
AS_IF([test -z "$NVCC"], [AC_MSG_ERROR([nvcc is missing (CUDA toolkit 13; give --with-cuda=DIR)])])
AS_IF([test -f "$CUDA_HOME/include/cuda.h"], [],
    [AC_MSG_ERROR([$CUDA_HOME/include/cuda.h is missing (CUDA toolkit 13; give --with-cuda=DIR)])])
CUDA_CPPFLAGS="-isystem $CUDA_HOME/include"
AC_SUBST([CUDA_HOME])
AC_SUBST([CUDA_CPPFLAGS])
AC_SUBST([NVCC_ARCHS])
])

AC_DEFUN([SDMA_GTEST], [
AC_LANG_PUSH([C++])
sdma_save_LIBS=$LIBS
LIBS="-lgtest -lpthread $LIBS"
have_gtest=no
AC_MSG_CHECKING([for GoogleTest])
AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <gtest/gtest.h>]], [[testing::InitGoogleTest();]])], [have_gtest=yes])
LIBS=$sdma_save_LIBS
AC_MSG_RESULT([$have_gtest])
AS_IF([test $have_gtest = no], [AC_MSG_WARN([GoogleTest is missing: make check runs no unit test (Debian: apt-get install libgtest-dev)])])
AC_LANG_POP([C++])
AM_CONDITIONAL([GTEST], [test $have_gtest = yes])
AC_SUBST([GTEST_LIBS], ["-lgtest -lgtest_main -lpthread"])
])

dnl The simulated node needs the thunk's headers; device tests need HIP as well.
AC_DEFUN([SDMA_SIMNODE], [
AC_ARG_ENABLE([simnode], [AS_HELP_STRING([--disable-simnode], [do not build the simulated node])], [],
    [AS_IF([test "$with_hip_platform" = amd && test "$sdma_have_hsakmt" = yes], [enable_simnode=yes], [enable_simnode=no])])
AS_IF([test "$enable_simnode" = yes && test "$sdma_have_hsakmt" != yes],
    [AC_MSG_ERROR([the simulated node needs the thunk's headers (Debian: apt-get install libhsakmt-dev)])])
AM_CONDITIONAL([SIMNODE], [test "$enable_simnode" = yes])
AM_CONDITIONAL([HIP], [test "$sdma_have_hip" = yes])
])

dnl UCX's libraries, for the transport: its private tables are known for these releases only. Sets UCX_CPPFLAGS,
dnl UCX_LIBS, ucx_version, ucx_release (118 for 1.18).
AC_DEFUN([SDMA_UCX], [
AC_ARG_WITH([ucx], [AS_HELP_STRING([--with-ucx@<:@=DIR@:>@], [build the UCX transport, for the UCX installed in DIR @<:@if /usr has a UCX of a known release@:>@])],
    [], [with_ucx=auto])
AS_IF([test "$with_hip_platform" != amd], [with_ucx=no])
AS_CASE([$with_ucx],
    [yes|no|auto], [UCX_CPPFLAGS= UCX_LIBS="-luct -lucs"],
    [UCX_CPPFLAGS="-isystem $with_ucx/include" UCX_LIBS="-L$with_ucx/lib -luct -lucs"])
have_ucx=no
ucx_version=
AS_IF([test "x$with_ucx" != xno], [
    AC_MSG_CHECKING([for UCX])
    sdma_save_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $UCX_CPPFLAGS"
    AC_COMPUTE_INT([sdma_major], [UCT_VERNO_MAJOR], [#include <uct/api/version.h>], [sdma_major=])
    AC_COMPUTE_INT([sdma_minor], [UCT_VERNO_MINOR], [#include <uct/api/version.h>], [sdma_minor=])
    AS_IF([test -n "$sdma_major"], [ucx_version=$sdma_major.$sdma_minor])
    CPPFLAGS=$sdma_save_CPPFLAGS
    AS_CASE([$ucx_version],
        [1.13|1.18|1.23], [have_ucx=yes; AC_MSG_RESULT([$ucx_version])],
        [""], [AC_MSG_RESULT([no])
            AS_IF([test "x$with_ucx" != xauto], [AC_MSG_ERROR([UCX's headers are missing (Debian: apt-get install libucx-dev)])])],
        [AC_MSG_RESULT([$ucx_version])
            AS_IF([test "x$with_ucx" != xauto],
                [AC_MSG_ERROR([UCX $ucx_version is not supported: the transport needs 1.13, 1.18 or 1.23])],
                [AC_MSG_WARN([UCX $ucx_version is not supported: no UCX transport (it needs 1.13, 1.18 or 1.23)])])])
])
AM_CONDITIONAL([UCX], [test $have_ucx = yes])
AC_ARG_WITH([ucx-module-dir], [AS_HELP_STRING([--with-ucx-module-dir=DIR],
    [link the UCX transport in DIR, where UCX looks for its modules, from 1.22 on for those of others too; "system" is UCX's own directory @<:@no@:>@])],
    [], [with_ucx_module_dir=no])
AS_CASE([$with_ucx_module_dir],
    [system], [ucxmoduledir=`$PKG_CONFIG --variable=libdir ucx 2>/dev/null`
        AS_IF([test -z "$ucxmoduledir"], [AC_MSG_ERROR([pkg-config does not know where UCX is: give --with-ucx-module-dir=DIR])])
        ucxmoduledir=$ucxmoduledir/ucx],
    [ucxmoduledir=$with_ucx_module_dir])
AM_CONDITIONAL([UCX_MODULE], [test $have_ucx = yes && test "x$with_ucx_module_dir" != xno])
AC_SUBST([ucxmoduledir])
AS_IF([test $have_ucx = yes], [ucx_release=`expr $sdma_major \* 100 + $sdma_minor`])
AC_SUBST([ucx_release])
AC_SUBST([UCX_CPPFLAGS])
AC_SUBST([UCX_LIBS])
])
