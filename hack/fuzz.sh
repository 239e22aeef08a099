#!/usr/bin/env bash
# Fuzzes every fuzz target of the repository for a while. Inputs that fail are
# kept by Go under testdata/fuzz: commit them with the fix.
#
#   hack/fuzz.sh [TIME]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
budget=${1:-20s}

git grep --untracked -oE '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go' | sort | while IFS=: read -r file target; do
	target=${target#func }
	echo "fuzz: $target in $(dirname "$file") for $budget"
	go test -run '^$' -fuzz "^$target\$" -fuzztime "$budget" "./$(dirname "$file")" </dev/null
done
