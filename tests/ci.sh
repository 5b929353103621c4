#!/usr/bin/env bash
# The GitHub action's steps and the pre-commit hook, run in repositories made for it, with a binary that was built here.
#   tests/ci.sh BINARY
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
binary=$(realpath "${1:?the operator-bounds binary}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
expect() { # CODE WORDS COMMAND…
  local code=0 wanted=$1 words=$2
  shift 2
  "$@" >"$work/out" 2>&1 || code=$?
  [ "$code" = "$wanted" ] || { cat "$work/out" >&2; fail "exit $code instead of $wanted: $*"; }
  grep -qF -- "$words" "$work/out" || { cat "$work/out" >&2; fail "does not say \"$words\": $*"; }
}

echo "==> a release with a checksum is installed, another one is not"
version=v0.1.0
name=operator-bounds-$version-$(uname -m)-unknown-linux-gnu
mkdir -p "$work/releases/$version" "$work/$name"
cp "$binary" "$work/$name/operator-bounds"
tar -C "$work" -czf "$work/releases/$version/$name.tar.gz" "$name"
(cd "$work/releases/$version" && sha256sum -- *.tar.gz >sha256sums.txt)
export OPERATOR_BOUNDS_RELEASES=file://$work/releases
expect 0 "$work/bin" "$root/ci/install.sh" "$version" "$work/bin"
"$work/bin/operator-bounds" --version
printf x >>"$work/releases/$version/$name.tar.gz"
expect 2 "is not what sha256sums.txt says" "$root/ci/install.sh" "$version" "$work/tampered"
[ ! -e "$work/tampered/operator-bounds" ] || fail "a tampered release was installed"
expect 2 "is no version" "$root/ci/install.sh" "../v1" "$work/elsewhere"

repository() {
  rm -rf "$work/repo"
  git init -q -b main "$work/repo"
  cd "$work/repo"
  git config user.email ci@example.com
  git config user.name ci
  cp -r "$root/examples/etcd/cluster" cluster
  echo "replicas: 1" >values.yaml
  git add -A
  git commit -qm base
  BASE=$(git rev-parse HEAD)
  export BASE
}
export PATH=$work/bin:$PATH

echo "==> the action's steps on a pull request"
repository
export CLUSTER=cluster/
expect 0 "no manifest has changed" "$root/ci/check.sh"
mkdir operators
cp "$root/examples/etcd/etcdoperator.v0.9.4.yaml" "operators/an operator; touch pwned.yaml"
mv "operators/an operator; touch pwned.yaml" 'operators/$(touch pwned) etcd.yaml'
echo "replicas: 2" >values.yaml
git add -A
git commit -qm "an operator"
expect 1 "::error file=" "$root/ci/check.sh"
grep -qF 'line=31,col=11' "$work/out" || fail "does not say where"
[ ! -e pwned ] || fail "a file name was run as a command"
operator-bounds derive operators/*.yaml --for serviceaccount team-a/installer >cluster/granted.yaml
git add -A
git commit -qm "what it needs"
expect 0 "" "$root/ci/check.sh"
printf 'apiVersion: v1\nkind: [\n' >broken.yaml
git add -A
git commit -qm broken
expect 2 "broken.yaml" "$root/ci/check.sh"
BASE=1111111111111111111111111111111111111111 expect 2 "fetch the whole history" "$root/ci/check.sh"

echo "==> the steps of action.yml itself"
python3 - "$root/action.yml" >"$work/steps.sh" <<'PYTHON'
import re, sys
text = open(sys.argv[1]).read()
runs = re.findall(r"run: \|\n((?:        .*\n)+)", text)
assert len(runs) == 2 and "${{" not in "".join(runs), "an expression in a command line"
assert not re.search(r"uses: [^@]+@(?![0-9a-f]{40})", text), "an action that is not pinned"
print("set -euo pipefail\n" + "\n".join(re.sub(r"(?m)^        ", "", run) for run in runs))
PYTHON
git rm -q broken.yaml
git commit -qm mended
GITHUB_ACTION_PATH=$root RUNNER_TEMP=$work/temp GITHUB_PATH=$work/path VERSION=v0.1.0 expect 0 "" bash "$work/steps.sh"

echo "==> a manifest that a search for words would miss, from the top and from below"
repository
mkdir operators
sed 's/^apiVersion:/"api\\u0056ersion":/' "$root/examples/etcd/etcdoperator.v0.9.4.yaml" >operators/hidden.yaml
grep -q apiVersion operators/hidden.yaml && fail "the example has changed: nothing is hidden in it"
git add -A
git commit -qm hidden
expect 1 "::error file=operators/hidden.yaml" "$root/ci/check.sh"
cd operators
CLUSTER=../cluster/ expect 1 "::error file=hidden.yaml" "$root/ci/check.sh"
cd ..

echo "==> the pre-commit hook"
if ! command -v pre-commit >/dev/null && command -v python3 >/dev/null; then
  python3 -m venv "$work/venv" >/dev/null 2>&1 && "$work/venv/bin/pip" install -q pre-commit >/dev/null 2>&1 && PATH=$PATH:$work/venv/bin || true
fi
if command -v pre-commit >/dev/null; then
  hooks=$work/hooks
  mkdir "$hooks"
  cp -r "$root/ci" "$root/.pre-commit-hooks.yaml" "$root/Cargo.toml" "$hooks/"
  (cd "$hooks" && git init -q -b main && git -c user.email=a@b -c user.name=a add -A && git -c user.email=a@b -c user.name=a commit -qm hooks)
  repository
  cat >.pre-commit-config.yaml <<YAML
repos:
- repo: $hooks
  rev: $(git -C "$hooks" rev-parse HEAD)
  hooks: [{id: operator-bounds-check, files: ^operators/, args: [--cluster, cluster/]}]
YAML
  mkdir operators
  cp "$root/examples/etcd/etcdoperator.v0.9.4.yaml" operators/
  git add -A
  export PRE_COMMIT_HOME=$work/pre-commit
  expect 1 "asks for more than ServiceAccount team-a/installer" pre-commit run --all-files
  operator-bounds derive operators/etcdoperator.v0.9.4.yaml --for serviceaccount team-a/installer >cluster/granted.yaml
  git add -A
  expect 0 "Passed" pre-commit run --all-files
else
  "$(dirname "${BASH_SOURCE[0]}")/parts/not-run.sh" "pre-commit is not installed (pip install pre-commit)"
fi
echo "ci: all as it should be"
