#!/usr/bin/env bash
# Says what was not run, and why: not-run.sh WHAT. It is also written into the file that OPERATOR_BOUNDS_NOT_RUN names, by which CI
# knows that something was left out.
set -euo pipefail
line="NOT RUN: $*"
echo "$line"
[[ -z ${OPERATOR_BOUNDS_NOT_RUN:-} ]] || echo "$line" >>"$OPERATOR_BOUNDS_NOT_RUN"
