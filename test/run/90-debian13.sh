# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# With --debian13: the tests again in a root of Debian 13 (Open MPI 5.0, ROCr 6.1, HIP 5.7, UCX with ROCm transports) on
# simulated gfx942, some also on gfx90a. With --soak also what no library and no compiler of the release takes part in, and
# further rows of a kind, so that without it both releases together take about 40 minutes on two cores.

debian13=$build/debian13

in_debian13() { "$top/scripts/debian_root.sh" trixie "$debian13" "$@"; }

# Also the first half of README's two commands on a fresh system.
debian13_make() {
    rm -f "$debian13/made" "$build/debian13.none"
    touch "$build/debian13.start"
    unshare --mount --pid --fork --mount-proc true 2>/dev/null ||
        echo "mount and process namespaces are not allowed here" >"$build/debian13.none"
    debian13_skip
    command -v debootstrap >/dev/null || { apt update && apt install --no-install-recommends debootstrap; }
    in_debian13 >"$build/debian13.log" 2>&1 || {
        cat "$build/debian13.log"
        ! grep -qE 'Failed getting release file|apt has no source' "$build/debian13.log" ||
            echo "this machine's apt sources lead to no Debian 13" >"$build/debian13.none"
        debian13_skip
        return 1
    }
    quickstart_by in_debian13 ./quickstart.sh
    in_debian13 make -C build check TESTS= -j"${JOBS:-$(nproc)}"
    mv "$build/debian13.start" "$debian13/made" # as old as the copy
}

# One file of the tree that the copy in the root does not have as it is, if there is one.
debian13_changed() {
    find "$top" \( -path "$top/build*" -o -path "$top/.git" -o -path "$top/autom4te.cache" \) -prune \
        -o -type f -newer "$debian13/made" -print -quit
}

debian13_skip() { [ ! -e "$build/debian13.none" ] || skip "$(cat "$build/debian13.none")"; }

# debian13_test GFX NAME
debian13_test() {
    debian13_skip
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

# The same everywhere, run by debian13/make already, or one of many of its kind.
debian13_left_out() {
    [ -z "$soak" ] || return 1
    case $1 in
    unit/rocr | counts/host | chaos/bench) return 1 ;;
    unit/* | stress/* | counts/* | sources/* | install/dist* | sanitizers/* | nvidia/* | quickstart) ;;
    *chaos* | mpi/collectives-[37] | mpi/collectives-all-* | mpi/collectives-*-gpu* | mpi/collectives-*-engines) ;;
    mpi/collectives-small-* | mpi/collectives-two-* | mpi/collectives-fence | mpi/collectives-disabled) ;;
    mpi/resident-7 | mpi/resident-s[hm]* | mpi/resident-no-*) ;;
    *) return 1 ;;
    esac
}

if [ -n "$use_debian13" ]; then
    host_names=("${names[@]}")
    register debian13/make 2400 debian13_make
    for name in "${host_names[@]}"; do
        debian13_left_out "$name" || register "debian13/$name" "${limits[$name]}" debian13_test gfx942 "$name"
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
