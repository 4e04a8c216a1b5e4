# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# The NVIDIA platform where there is no such GPU: it compiles, the programs of test/gpu/run too, and it works on a
# stand-in for CUDA's libraries; with --soak in every row.

nvidia_cuda=${CUDA_HOME:-/usr/local/cuda}
nvidia_tree=$build/nvidia

need_nvcc() { [ -x "$nvidia_cuda/bin/nvcc" ] || skip "no nvcc in $nvidia_cuda"; }

nvidia_make() {
    need_nvcc
    mkdir -p "$nvidia_tree"
    rm -f "$nvidia_tree/made"
    cd "$nvidia_tree"
    [ -x config.status ] || "$top/configure" --prefix="$nvidia_tree/install" --enable-werror --with-hip-platform=nvidia \
        --with-cuda="$nvidia_cuda"
    make -j"${JOBS:-$(nproc)}"
    make -j"${JOBS:-$(nproc)}" test/gpu/runtime_test
    make install
    touch made
}

nvidia_made() {
    need_nvcc
    [ ! -e "$nvidia_tree/made" ] || return 0
    echo "nvidia/make did not succeed"
    return 1
}

# The libraries that comparisons need may be missing: objects will do there.
nvidia_programs() {
    nvidia_made
    mkdir -p "$nvidia_tree/programs"
    PATH=$PATH:$nvidia_cuda/bin make -C "$nvidia_tree/programs" -f "$top/test/gpu/programs.mk" -j"${JOBS:-$(nproc)}" \
        TOP="$top" PREFIX="$nvidia_tree/install" CUDA="$nvidia_cuda" NCCL="$nvidia_cuda" CUBLAS="$nvidia_cuda" ARCH=90 \
        compiled
}

nvidia_without_gpu() {
    nvidia_made
    "$top/test/gpu/without_gpu" "$nvidia_tree" "$@"
}

register nvidia/make 1800 nvidia_make
register nvidia/programs 600 nvidia_programs
if [ -n "$soak" ]; then
    register nvidia/without-gpu 1800 nvidia_without_gpu
else
    register nvidia/without-gpu 600 nvidia_without_gpu 'runtime_test|sdma_info|sdma_bench|collectives-4|resident-2|realloc'
fi
