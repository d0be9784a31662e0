#!/usr/bin/env bash
# Brings PostgreSQL's regression suite (its SQL and data) from Debian's source package into .deps/regress, where
# tests/oracle/run.py reads it. It is never part of this repository. The package's version is the server's that is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$PWD/.deps/regress
[ ! -e "$target/version" ] || exit 0

version=$(dpkg-query -W -f '${Version}' postgresql-15)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir -p "$work/lists/partial"
key=/usr/share/keyrings/debian-archive-keyring.gpg
for suite in "debian bookworm" "debian-security bookworm-security"; do
    echo "deb-src [signed-by=$key] http://deb.debian.org/$suite main"
done >"$work/sources.list"
apt=(-qq -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/lists")
cd "$work"
apt-get "${apt[@]}" update
# A point release leaves the archive when the next one comes.
apt-get "${apt[@]}" source --download-only "postgresql-15=$version" ||
    apt-get "${apt[@]}" source --download-only "postgresql-15/bookworm"
tar xjf postgresql-15_*.orig.tar.bz2 --wildcards --strip-components=3 '*/src/test/regress/sql' '*/src/test/regress/data'
chmod -R a+rX regress
mkdir -p "$(dirname "$target")"
rm -rf "$target"
cp -r regress "$target"
echo "$version" >"$target/version"
