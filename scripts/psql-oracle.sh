#!/usr/bin/env bash
# Writes tests/drivers/psql/*.out: what psql shows for each *.sql there against PostgreSQL 15, in a throw-away cluster.
set -euo pipefail
cd "$(dirname "$0")/.."
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
"${run[@]}" $bin/initdb -D "$dir/data" -A trust -E UTF8 --locale=C.UTF-8 --no-sync >/dev/null
"${run[@]}" $bin/pg_ctl -D "$dir/data" -w -l "$dir/log" start \
    -o "-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off -c timezone=UTC" >/dev/null
host="host=127.0.0.1 port=$port sslmode=disable"
psql -Xqc "CREATE ROLE tenon SUPERUSER LOGIN" "$host user=$user dbname=postgres"
cd tests/drivers/psql
for input in *.sql; do
    psql -Xqc "DROP DATABASE IF EXISTS tenon" -c "CREATE DATABASE tenon OWNER tenon" "$host user=$user dbname=postgres" 2>/dev/null
    PAGER="" LC_ALL=C.UTF-8 COLUMNS=120 psql -X -v ON_ERROR_STOP=0 -d "$host user=tenon dbname=tenon" -a -f "$input" \
        > "${input%.sql}.out" 2> "${input%.sql}.err"
    # The test reads output first, then errors, as here.
    cat "${input%.sql}.err" >> "${input%.sql}.out"
    rm "${input%.sql}.err"
done
