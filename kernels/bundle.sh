#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Print C++ source that puts one offload bundle of the given code objects into read-only data; the
# assembler works out offsets and sizes.
#   bundle.sh TARGET=FILE...        TARGET: gfx942 (amdgcn) or sm_90 (NVIDIA)
# FILEs are read when the output is assembled, relative to the compiler's working directory.
set -eu

entry() { # ID LABEL
    echo "    .quad ${2}_start - sdma_kernel_bundle, ${2}_end - ${2}_start, ${#1}"
    echo "    .ascii \"$1\""
}

echo '// Made by kernels/bundle.sh.'
echo '__asm__(R"('
echo '    .section .rodata.sdma_kernels, "a"'
echo '    .balign 4096'
for symbol in sdma_kernel_bundle sdma_kernel_bundle_end; do
    echo "    .globl $symbol"
    echo "    .hidden $symbol"
done
echo 'sdma_kernel_bundle:'
echo '    .ascii "__CLANG_OFFLOAD_BUNDLE__"'
echo "    .quad $(($# + 1))"
entry host-x86_64-unknown-linux-gnu- .Lhost
for object in "$@"; do
    target=${object%%=*}
    case $target in
    sm_*) entry "cuda-nvptx64-nvidia-cuda--$target" ".L$target" ;;
    *) entry "hipv4-amdgcn-amd-amdhsa--$target" ".L$target" ;;
    esac
done
echo '    .balign 4096'
echo '.Lhost_start:'
echo '.Lhost_end:'
for object in "$@"; do
    target=${object%%=*}
    echo '    .balign 4096'
    echo ".L${target}_start:"
    echo "    .incbin \"${object#*=}\""
    echo ".L${target}_end:"
done
echo 'sdma_kernel_bundle_end:'
echo '    .previous'
echo ')");'
