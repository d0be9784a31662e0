#!/usr/bin/env bash
# Makes a plain Debian root ready to run Tenon: the Dockerfile's second stage. The binary is there already.
# Usage: docker/install-runtime.sh BINARY    (as root)
set -euo pipefail
binary=${1:?usage: docker/install-runtime.sh BINARY}
# g++ runtime and libc are all that the binary links to; the system's own are enough. Nothing else is installed.
if missing=$(ldd "$binary" | grep 'not found'); then
    echo "$missing" >&2
    exit 1
fi
getent group tenon >/dev/null || groupadd --system --gid 10001 tenon
getent passwd tenon >/dev/null ||
    useradd --system --uid 10001 --gid tenon --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin tenon
install -d -o tenon -g tenon -m 755 /data
install -d -o tenon -g tenon -m 700 /store /cache
"$binary" --version
