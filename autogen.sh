#!/bin/sh
# Makes configure from a checkout. Needs autoconf, automake and libtool.
set -e
cd "$(dirname "$0")"
for tool in autoreconf automake libtoolize; do
    command -v "$tool" >/dev/null || { echo "autogen.sh: $tool is missing (Debian: apt-get install autoconf automake libtool)" >&2; exit 1; }
done
mkdir -p build-aux m4
exec autoreconf --install --force --warnings=all
