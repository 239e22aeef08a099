#!/usr/bin/env bash
# The read-only checks every change must pass, fastest first. One line each, and
# the complaints of the first that fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

step() { printf 'lint: %s\n' "$*"; }

step gofmt -s
unformatted=$(git ls-files -co --exclude-standard -- '*.go' | while read -r f; do
	[[ ! -f $f ]] || echo "$f"
done | xargs gofmt -s -l)
if [[ -n $unformatted ]]; then
	echo "these files are not formatted (gofmt -s -w FILE):" >&2
	echo "$unformatted" >&2
	exit 1
fi

step rules of the repository
go test ./test/archtest

step go vet
go vet ./...

step staticcheck
bin/staticcheck ./...
