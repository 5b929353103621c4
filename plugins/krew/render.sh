#!/usr/bin/env bash
# The krew manifest of a release: render.sh TAG ARCHIVE… prints it, with the version and the checksum of each archive.
set -euo pipefail
tag=${1:?usage: render.sh TAG ARCHIVE…}
shift
text=$(sed "s/@TAG@/$tag/g" "$(dirname "$0")/operator-bounds.yaml")
for archive in "$@"; do
  target=$(basename "$archive" .tar.gz)
  target=${target#"operator-bounds-$tag-"}
  checksum=$(sha256sum "$archive" | cut -d ' ' -f 1)
  text=${text//"@$target@"/$checksum}
done
if left=$(grep -o '@[a-z0-9_-]*@' <<<"$text"); then
  echo "no archive was given for ${left//$'\n'/ }" >&2
  exit 1
fi
printf '%s\n' "$text"
