#!/usr/bin/env bash
# Builds the module twice from the files of this working tree, at two places, from nothing, with two homes for cargo, and
# compares the bytes: with each other, and with the module given. usage: reproducible.sh BUILD_POLICY [MODULE]
set -euo pipefail
builder=$(realpath "$1")
module=${2:+$(realpath "$2")}
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Paths of different lengths. Offsets and padding would show it.
places=("$work/a" "$work/another/place/with a longer name")
home=$(realpath "${CARGO_HOME:-$HOME/.cargo}")

for number in 0 1; do
  place=${places[number]}
  mkdir -p "$place"
  # What git would commit, as it is now: files that git ignores are no sources.
  git ls-files -z --cached --others --exclude-standard |
    while IFS= read -r -d '' file; do [[ ! -e $file ]] || printf '%s\0' "$file"; done |
    tar -c --null -T - | tar -x -C "$place"
  # The same crates by another path.
  mkdir -p "$work/home-$number"
  ln -s "$home"/* "$work/home-$number/"
  began=$SECONDS
  (cd "$place" && CARGO_HOME=$work/home-$number "$builder" --root . --target-dir target/policy "$work/$number.wasm")
  echo "build $((number + 1)): $(sha256sum <"$work/$number.wasm" | cut -d' ' -f1), $(wc -c <"$work/$number.wasm") bytes, $((SECONDS - began)) s"
done

same() {
  cmp "$1" "$2" || { echo "reproducible.sh: $3. Look for paths, times and random numbers: strings, wasm-objdump -h" >&2; exit 1; }
}
same "$work/0.wasm" "$work/1.wasm" "two clean builds of the same sources differ"
[[ -z $module ]] || same "$module" "$work/0.wasm" "$module is not what a clean build gives"
echo "reproducible: sha256 $(sha256sum <"$work/0.wasm" | cut -d' ' -f1)"
