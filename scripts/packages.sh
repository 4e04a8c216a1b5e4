# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# What a build and its tests need from Debian. Sourced; the one list.

packages_needed=(
    autoconf automake libtool make g++ pkg-config python3 xz-utils
    libopenmpi-dev openmpi-bin libhwloc-dev libgtest-dev libucx-dev ucx-utils valgrind
    libhsa-runtime-dev libhsakmt-dev libamdhip64-dev
)
# The first pair that the release has: a clang for GPU code, with its linker.
packages_clang=("clang-22 lld-22" "clang-19 lld-19")

installed() {
    dpkg-query --show --showformat '${db:Status-Status}\n' "$@" 2>/dev/null | grep -qv '^installed$' && return 1
    dpkg-query --show "$@" >/dev/null 2>&1
}

# Prints the missing packages, and for the clang the pairs to try, one pair a line.
missing_packages() {
    local package
    for package in "${packages_needed[@]}"; do
        installed "$package" || echo "$package"
    done
}

have_clang() {
    local pair
    for pair in "${packages_clang[@]}"; do
        # shellcheck disable=SC2086
        installed $pair && return
    done
    return 1
}

apt() {
    local root=()
    [ "$(id -u)" = 0 ] || root=(sudo)
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o Dpkg::Use-Pty=0 "$@"
}

# Installs what is missing; nothing to do takes no network and no root.
install_packages() {
    local missing pair
    mapfile -t missing < <(missing_packages)
    [ ${#missing[@]} -gt 0 ] || ! have_clang || return 0
    if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
        echo "missing packages: ${missing[*]} ${packages_clang[0]}; run this as root or install them first"
        return 1
    fi
    apt update || return
    if [ ${#missing[@]} -gt 0 ]; then
        apt install --no-install-recommends "${missing[@]}" || return
    fi
    have_clang && return
    for pair in "${packages_clang[@]}"; do
        # shellcheck disable=SC2086
        apt install --no-install-recommends $pair && return
    done
    echo "neither of these pairs can be installed: ${packages_clang[*]}"
    return 1
}
