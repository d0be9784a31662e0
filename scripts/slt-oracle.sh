#!/usr/bin/env bash
# Runs the .slt files against PostgreSQL 15 (Debian package postgresql-15) in a throw-away cluster: the check that
# their expectations are PostgreSQL's. With --update it rewrites the expectations from PostgreSQL's answers.
# Usage: scripts/slt-oracle.sh [--update] [FILTER]
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --update ]; then
    export TENON_SLT_UPDATE=1
    shift
fi
bin=/usr/lib/postgresql/15/bin
[ -x $bin/postgres ] || { echo "needs PostgreSQL 15: apt-get install postgresql-15" >&2; exit 1; }

dir=$(mktemp -d /tmp/tenon-oracle.XXXXXX)
user=$(id -un)
run=()
if [ "$(id -u)" = 0 ]; then # PostgreSQL refuses to run as root.
    chown postgres "$dir"
    user=postgres
    run=(setpriv --reuid=postgres --regid=postgres --clear-groups)
fi
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
trap '"${run[@]}" $bin/pg_ctl -D "$dir/data" -m immediate stop >/dev/null 2>&1; rm -rf "$dir"' EXIT
"${run[@]}" $bin/initdb -D "$dir/data" -A trust -E UTF8 --locale=C --no-sync >/dev/null
"${run[@]}" $bin/pg_ctl -D "$dir/data" -w -l "$dir/log" start \
    -o "-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off -c timezone=UTC" >/dev/null
TENON_SLT_POSTGRES="host=127.0.0.1 port=$port user=$user sslmode=disable" \
    cargo test -q --workspace --test server -- "$@"
if [ -n "${TENON_SLT_UPDATE:-}" ]; then # An error is expected by its SQLSTATE alone.
    find tests/slt -name '*.slt' -newer "$dir/data/PG_VERSION" -exec sed -i -E 's/^statement error .*\\\(([0-9A-Z]{5})\\\)$/statement error (\1)/; s/^query +$/query/' {} +
fi
