#!/bin/sh
# Installs the engines that benchmarks compare against and tests take answers from, into .deps/venv.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
venv="$root/.deps/venv"
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -c 'import duckdb; assert duckdb.__version__ == "1.5.6"' 2>/dev/null ||
  "$venv/bin/pip" install --quiet 'duckdb==1.5.6' 'pyarrow>=16'
