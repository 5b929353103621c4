# shellcheck shell=bash
# For scripts that build or unpack something once, into a cache outside the repository. The name of an entry ends with a hash
# of what it was made from, so a change makes a new one, and the old ones have to go some day.

cache=${XDG_CACHE_HOME:-$HOME/.cache}/operator-bounds

# cache_hash FILE…: a short hash of the files' content.
cache_hash() { cat "$@" | { sha256sum 2>/dev/null || shasum -a 256; } | cut -c1-16; }

# cache_used ENTRY: it is in use, now. Whoever prunes goes by this.
cache_used() { touch -c "$1"; }

# cache_prune FAMILY: removes the entries of a family (control-plane, registry, …) that nobody has used for a week, and what
# builds that were cut off have left behind.
cache_prune() {
  find "$cache" -mindepth 1 -maxdepth 1 \( -name "$1-[0-9a-f]*" -mtime +6 -o -name 'building.*' -mtime +0 \) \
    -exec rm -rf {} + 2>/dev/null || true
}
