#!/usr/bin/env bash
# Tries the image's second stage without a container engine: a plain Debian root from debootstrap, the runtime script in
# it, the server started there as its own user, asked by `tenon health` and by psql, and stopped by SIGTERM.
# Usage: docker/try.sh BINARY [ROOT]    (as root; needs debootstrap, and psql for the last check; ROOT is kept)
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${1:?usage: docker/try.sh BINARY [ROOT]}
root=${2:-}
made=
server=
if [ -z "$root" ]; then
    root=$(mktemp -d /tmp/tenon-root.XXXXXX)
    made=$root
fi
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    [ -z "$made" ] || rm -rf --one-file-system "$made"
}
trap finish EXIT
[ -x "$root/bin/bash" ] || debootstrap --variant=minbase bookworm "$root" >/dev/null
# mktemp's directories are root's alone.
chmod 755 "$root"
install -m 755 "$binary" "$root/usr/local/bin/tenon"
install -m 755 docker/install-runtime.sh "$root/tmp/install-runtime.sh"
chroot "$root" /tmp/install-runtime.sh /usr/local/bin/tenon

free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
port=$(free)
http=$(free)
inside() { chroot --userspec=10001:10001 "$root" "$@"; }
if inside env TENON_LISTEN=0.0.0.0:"$port" tenon 2>/dev/null; then
    echo "started on every address without a password file" >&2
    exit 1
fi
# Not by the function: $! is to be the server itself, into which chroot turns.
start() {
    chroot --userspec=10001:10001 "$root" env TENON_LISTEN=127.0.0.1:"$port" TENON_HTTP=127.0.0.1:"$http" TENON_STORE=/store \
        TENON_DATA_DIR=/data XDG_CACHE_HOME=/cache tenon "$@" &
    server=$!
    for _ in $(seq 600); do
        inside tenon health --to 127.0.0.1:"$port" >/dev/null 2>&1 && break
        sleep 0.1
    done
    inside tenon health --to 127.0.0.1:"$port"
}
stop() {
    kill -TERM $server
    wait $server
    server=
}
start --demo=0.01
[ "$(stat -c %u /proc/$server)" = 10001 ] || { echo "the server runs as user $(stat -c %u /proc/$server)" >&2; exit 1; }
ask() { psql -XAtd "host=127.0.0.1 port=$port user=tenon dbname=tenon" -c "$1"; }
rows=$(ask 'SELECT count(*) FROM lineitem')
python3 - "$http" <<'PY'
import sys, urllib.request
def get(path): return urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}{path}", timeout=5).read().decode()
assert get("/readyz") == "ready\n" and "tenon_statements_total" in get("/metrics")
PY
stop
# The tables are there again.
start
[ "$(ask 'SELECT count(*) FROM lineitem')" = "$rows" ] || { echo "lineitem has not its $rows rows any more" >&2; exit 1; }
stop
echo "docker/try.sh: ok"
