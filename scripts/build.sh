# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# From a checkout to an installed build in build/install; sourced by quickstart.sh and runtests.sh, which set
# $top (the checkout) and $self (the name in messages).

build=$top/build
prefix=$build/install
logs=$build/logs

# shellcheck source=scripts/packages.sh
. "$top/scripts/packages.sh"

fail() {
    echo "$self: $*" >&2
    exit 1
}

# step WORDS -- COMMAND...: one line on the screen, everything else in a log file.
step() {
    local words=$1 log
    shift 2
    log=$logs/$(tr -cs 'a-zA-Z0-9\n' - <<<"$words").log
    local start=$SECONDS
    if ! "$@" >"$log" 2>&1 </dev/null; then
        tail -n 25 "$log" >&2
        fail "$words: failed (log: ${log#"$PWD"/})"
    fi
    printf '%-50s %4d s\n' "$words" $((SECONDS - start))
}

check_system() {
    local release=none
    [ ! -r /etc/debian_version ] || release=$(cat /etc/debian_version)
    case $release in
    12 | 12.* | 13 | 13.*) ;;
    *) fail "this needs Debian 12 or 13, not \"$release\"; README.md says how to build elsewhere" ;;
    esac
}

configure_build() {
    cd "$build" && "$top/configure" --prefix="$prefix" --enable-werror
}

# Everything that is not done yet, and nothing twice.
prepare_build() {
    mkdir -p "$logs"
    check_system
    step "packages" -- install_packages
    if [ ! -x "$top/configure" ] || [ "$top/configure.ac" -nt "$top/configure" ]; then
        step "autogen" -- "$top/autogen.sh"
    fi
    [ -x "$build/config.status" ] || step "configure" -- configure_build
    step "make" -- make -C "$build" -j"${JOBS:-$(nproc)}"
    step "make install" -- make -C "$build" install
}

# The environment of a user of the installed build.
enter_install() {
    env_script=$(find "$prefix" -name sdma-env.sh | head -n 1)
    [ -n "$env_script" ] || fail "make install left no sdma-env.sh under $prefix"
    # shellcheck disable=SC1090
    . "$env_script"
    # A checker runs as root in a container, with fewer cores than ranks.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
}
