#!/usr/bin/env bash
# Downloads a released operator-bounds, compares its checksum, and prints the directory that it is in.
#   install.sh VERSION DIRECTORY
# OPERATOR_BOUNDS_RELEASES names another place to download from.
set -euo pipefail

version=${1:?which version, such as v0.1.0}
directory=${2:?into which directory}
releases=${OPERATOR_BOUNDS_RELEASES:-https://github.com/operator-bounds/operator-bounds/releases/download}

case "$version" in
  v[0-9]*) ;;
  *) echo "install.sh: $version is no version: v0.1.0, for example" >&2; exit 2 ;;
esac
case "$(uname -s)-$(uname -m)" in
  Linux-x86_64) target=x86_64-unknown-linux-gnu ;;
  Linux-aarch64 | Linux-arm64) target=aarch64-unknown-linux-gnu ;;
  Darwin-arm64) target=aarch64-apple-darwin ;;
  Darwin-x86_64) target=x86_64-apple-darwin ;;
  *) echo "install.sh: there is no release for $(uname -s) on $(uname -m): build it with cargo" >&2; exit 2 ;;
esac

name=operator-bounds-$version-$target
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fetch() { curl --fail --silent --show-error --location --retry 3 --proto '=https,file' --output "$work/$1" "$releases/$version/$1"; }
fetch "$name.tar.gz"
fetch sha256sums.txt

sum() { if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1; }
expected=$(awk -v file="$name.tar.gz" '$2 == file || $2 == "*" file {print $1}' "$work/sha256sums.txt")
actual=$(sum "$work/$name.tar.gz")
if [ -z "$expected" ] || [ "$expected" != "$actual" ]; then
  echo "install.sh: $name.tar.gz is not what sha256sums.txt says (${expected:-nothing} there, $actual here): not installed" >&2
  exit 2
fi

mkdir -p "$directory"
tar -xzf "$work/$name.tar.gz" -C "$work"
install -m 0755 "$work/$name/operator-bounds" "$directory/operator-bounds.new"
mv "$directory/operator-bounds.new" "$directory/operator-bounds"
echo "$directory"
