#!/usr/bin/env bash
# Installs what the tests need and the machine lacks: Debian packages (psql, pgbench, PostgreSQL 15 as an oracle, sqlsmith) through
# apt-get, PostgreSQL's regression suite from its source package into .deps/regress, and Python drivers, DuckDB and NVRTC
# from PyPI into .deps/venv. Does nothing, quickly, when all is there already.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=()
command -v psql >/dev/null || packages+=(postgresql-client)
command -v pgbench >/dev/null || packages+=(postgresql-contrib)
[ -x /usr/lib/postgresql/15/bin/postgres ] || packages+=(postgresql-15)
command -v sqlsmith >/dev/null || packages+=(sqlsmith)
command -v openssl >/dev/null || packages+=(openssl)
command -v g++ >/dev/null || packages+=(g++)
command -v python3 >/dev/null || packages+=(python3)
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
    cp scripts/requirements.txt "$stamp"
fi
scripts/fetch-pg-regress.sh
