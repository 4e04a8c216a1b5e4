# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# With --debian13: every test again in a root of Debian 13 (Open MPI 5.0, ROCr 6.1, HIP 5.7) on simulated gfx942, the
# tests of a running job also on gfx90a, and UCX with its ROCm transports below the component.

debian13=$build/debian13

in_debian13() { "$top/scripts/debian_root.sh" trixie "$debian13" "$@"; }

# Also the first half of README's two commands on a fresh system.
debian13_make() {
    rm -f "$debian13/made"
    command -v debootstrap >/dev/null || { apt update && apt install --no-install-recommends debootstrap; }
    in_debian13
    expect '^quickstart: ok, ' in_debian13 ./quickstart.sh
    in_debian13 make -C build check TESTS= -j"${JOBS:-$(nproc)}"
    touch "$debian13/made"
}

# debian13_test GFX NAME
debian13_test() {
    [ -e "$debian13/made" ] || {
        echo "debian13/make did not succeed"
        return 1
    }
    SDMA_SIMNODE_GFX=$1 in_debian13 ./runtests.sh --run-one "$2" ${soak:+--soak}
}

if [ -n "$use_debian13" ]; then
    host_names=("${names[@]}")
    register debian13/make 1500 debian13_make
    for name in "${host_names[@]}"; do
        register "debian13/$name" "${limits[$name]}" debian13_test gfx942 "$name"
    done
    unset name host_names
fi
