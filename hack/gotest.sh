#!/usr/bin/env bash
# Runs go test, and says at the very end what failed: logs of programs that a failed test
# prints are long, and whoever reads the end of a CI log must find the cause there.
#
#   hack/gotest.sh [--again] ARGUMENT OF GO TEST...
#
# --again, for end-to-end tests: what failed runs once more, by itself. A test that passes
# then is reported as flaky and does not fail the run; one that fails twice does. Builds that
# fail, panics and time limits are never tried again.
set -euo pipefail
again=
if [[ ${1:-} == --again ]]; then
	again=yes
	shift
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# failed: "PACKAGE TEST" for each test that failed, "PACKAGE" alone for a package that did not
# get so far as to name one.
failed() {
	awk '/^--- FAIL: / { names = names " " $3 }
		/^(panic: |fatal error: )/ { names = ""; broken = 1 }
		/^FAIL\t/ {
			n = split(names, name, " ")
			if (n == 0 || broken) { print $2 } else for (i = 1; i <= n; i++) print $2, name[i]
			names = ""; broken = 0
		}
		/^ok  \t/ { names = ""; broken = 0 }' "$log"
}

# causes: the lines in which tests say what is wrong, without the logs below them.
causes() {
	grep -aE '^ *--- FAIL|^FAIL|^panic: |^fatal error: |^ +[a-z0-9_]+_test\.go:[0-9]+: ' "$log" | grep -avE '_test\.go:[0-9]+: [a-z-]+:$' | cut -c 1-300 | tail -n 40
}

if go test "$@" 2>&1 | tee "$log"; then
	exit 0
fi
list=$(failed)
echo "== what failed:"
causes
if [[ -z $again || -z $list ]] || grep -qv ' ' <<<"$list"; then
	exit 1
fi

# The arguments without the packages.
flags=()
for a in "$@"; do
	[[ $a == ./* ]] || flags+=("$a")
done
first=$(causes)
for package in $(cut -d ' ' -f 1 <<<"$list" | sort -u); do
	tests=$(awk -v p="$package" '$1 == p { print $2 }' <<<"$list" | paste -sd '|')
	echo "== again: $package $tests"
	if ! go test "${flags[@]}" -run "^($tests)\$" "$package" 2>&1 | tee "$log"; then
		echo "== failed twice:"
		causes
		exit 1
	fi
done
echo "== FLAKY, passed when run again; at first:"
echo "$first"
