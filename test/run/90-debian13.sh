# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# With --debian13: the tests again in a root of Debian 13 (Open MPI 5.0, ROCr 6.1, HIP 5.7, UCX with ROCm transports) on
# simulated gfx942, some also on gfx90a. What neither a library nor the GPU compiler of the release takes part in is
# repeated with --soak only.

debian13=$build/debian13

in_debian13() { "$top/scripts/debian_root.sh" trixie "$debian13" "$@"; }

# Also the first half of README's two commands on a fresh system.
debian13_make() {
    rm -f "$debian13/made"
    touch "$build/debian13.start"
    command -v debootstrap >/dev/null || { apt update && apt install --no-install-recommends debootstrap; }
    in_debian13
    quickstart_by in_debian13 ./quickstart.sh
    in_debian13 make -C build check TESTS= -j"${JOBS:-$(nproc)}"
    mv "$build/debian13.start" "$debian13/made" # as old as the copy
}

# One file of the tree that the copy in the root does not have as it is, if there is one.
debian13_changed() {
    find "$top" \( -path "$top/build*" -o -path "$top/.git" -o -path "$top/autom4te.cache" \) -prune \
        -o -type f -newer "$debian13/made" -print -quit
}

# debian13_test GFX NAME
debian13_test() {
    [ -e "$debian13/made" ] || {
        echo "debian13/make did not succeed"
        return 1
    }
    local changed
    changed=$(debian13_changed)
    [ -z "$changed" ] || {
        echo "debian13/make is needed again: $changed is newer"
        return 1
    }
    SDMA_SIMNODE_GFX=$1 in_debian13 ./runtests.sh --run-one "$2" ${soak:+--soak}
}

# The same everywhere, run by debian13/make already, or one of many seeds.
debian13_same() {
    case $1 in
    unit/rocr | counts/host) return 1 ;;
    unit/* | stress/* | counts/* | sources/* | install/dist* | sanitizers/* | quickstart | chaos/[1-4]1-*)
        [ -z "$soak" ]
        ;;
    *) return 1 ;;
    esac
}

if [ -n "$use_debian13" ]; then
    host_names=("${names[@]}")
    register debian13/make 2400 debian13_make
    for name in "${host_names[@]}"; do
        debian13_same "$name" || register "debian13/$name" "${limits[$name]}" debian13_test gfx942 "$name"
    done
    for name in "${host_names[@]}"; do
        case $name in
        simnode/selftest | mpi/collectives-[48] | mpi/realloc | mpi/onesided | mpi/resident-2 | ucx/* | chaos/bench)
            register "debian13/gfx90a/$name" "${limits[$name]}" debian13_test gfx90a "$name"
            ;;
        esac
    done
    unset name host_names
fi
