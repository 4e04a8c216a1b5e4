#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Another Debian release on this machine: debian_root.sh SUITE FOLDER [COMMAND...]
# Makes FOLDER a root of that release with debootstrap and nothing more, if it is not one yet; without COMMAND copies
# this tree to /mpi-sdma in it; else runs COMMAND in that tree. The packages come from where this machine's own come
# from. All of it is in a mount and process namespace that ends with this script, however it ends.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
fail() {
    echo "debian_root: $*" >&2
    exit 1
}

[ $# -ge 2 ] || fail "usage: debian_root.sh SUITE FOLDER [COMMAND...]"
[ "$(id -u)" = 0 ] || fail "needs root"
if [ -z "${debian_root_is_private:-}" ]; then
    debian_root_is_private=1 exec unshare --mount --pid --fork --kill-child --mount-proc "$0" "$@"
fi
suite=$1 root=$2
shift 2

# Lines of sources.list for $suite: this machine's, with the other release's name.
sources() {
    local own uri release
    own=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    apt-get indextargets --format "\$(REPO_URI) \$(RELEASE)" 'Identifier: Packages' 'Component: main' |
        while read -r uri release; do
            case $release in
            "$own" | "$own-updates" | "$own-security") echo "deb $uri ${release/#"$own"/"$suite"} main" ;;
            esac
        done | sort -u
}

# Only what says how to reach the archive: this machine's archive may be a snapshot, or behind a proxy.
apt_settings() { apt-config dump | grep -E '^Acquire::(Check-|https?::|Retries)' || true; }

make_root() {
    local lines mirror
    command -v debootstrap >/dev/null || fail "debootstrap is missing (Debian: apt-get install debootstrap)"
    lines=$(sources)
    mirror=$(awk -v suite="$suite" '$3 == suite { print $2; exit }' <<<"$lines")
    [ -n "$mirror" ] || fail "apt has no source of this Debian's main packages that names it by its code name"
    rm -rf "$root.partial"
    debootstrap --variant=minbase "$suite" "$root.partial" "$mirror"
    printf '%s\n' "$lines" >"$root.partial/etc/apt/sources.list"
    apt_settings >"$root.partial/etc/apt/apt.conf.d/90host"
    # A root that can be made again need not survive a power cut.
    echo force-unsafe-io >"$root.partial/etc/dpkg/dpkg.cfg.d/unsafe-io"
    mv "$root.partial" "$root"
}

# What git tracks or would; a packed release has no git and nothing to leave out but builds. Files that went away go
# there, too.
copy_tree() {
    local tree=$root/mpi-sdma git=(git -c safe.directory='*' -C "$top")
    mkdir -p "$tree"
    find "$tree" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
    if "${git[@]}" rev-parse --git-dir >/dev/null 2>&1; then
        "${git[@]}" ls-files -z --cached --others --exclude-standard |
            tar -C "$top" --null --files-from=- --ignore-failed-read -cf - | tar -C "$tree" -xf -
    else
        tar -C "$top" --exclude=./build --exclude='./build-*' -cf - . | tar -C "$tree" -xf -
    fi
}

enter_root() {
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    # A mount point, as any root: unshare wants that.
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    # Process numbers start anew, and PRTE stops at what an earlier process of its number has left.
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    mount --rbind /sys "$root/sys"
    # The shell stays as process 1 of its namespace and takes in orphans.
    chroot "$root" /usr/bin/env -i HOME=/root LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        ${JOBS:+JOBS="$JOBS"} ${SDMA_SIMNODE_GFX:+SDMA_SIMNODE_GFX="$SDMA_SIMNODE_GFX"} \
        bash -c 'cd /mpi-sdma && exec "$@"' bash "$@"
}

[ -d "$root" ] || make_root
if [ $# = 0 ]; then copy_tree; else enter_root "$@"; fi
