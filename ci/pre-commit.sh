#!/usr/bin/env bash
# The hook of .pre-commit-hooks.yaml: operator-bounds from PATH, or the release of this very version, downloaded once.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if ! command -v operator-bounds >/dev/null; then
  version=v$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$here/../Cargo.toml")
  directory=${XDG_CACHE_HOME:-$HOME/.cache}/operator-bounds/bin/$version
  if [ ! -x "$directory/operator-bounds" ]; then "$here/install.sh" "$version" "$directory" >/dev/null; fi
  PATH=$directory:$PATH
fi
exec operator-bounds check "$@"
