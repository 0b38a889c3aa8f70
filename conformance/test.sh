#!/usr/bin/env bash
# Runs parts of the test suite, which are make targets, and goes on after a failure. Usage:
#
#   conformance/test.sh WAVE …     WAVE = '[busy:]JOBS:TARGET …'
#
# A wave runs its targets, at most JOBS at a time; the next wave begins when all have ended. "busy:" runs LOOPS (4) loops
# that do nothing but compute beside the wave, and its targets with GOMAXPROCS=1, since no test's verdict may depend
# on the speed of the machine. What a target prints is in bin/test/TARGET.log, too. The end names what took long, of
# parts, packages and tests, and what failed. The exit code is 0 if all passed.
set -u -o pipefail
export logs=bin/test
rm -rf "$logs" && mkdir -p "$logs"
loops=()
trap '[ ${#loops[@]} -eq 0 ] || kill "${loops[@]}" 2>/dev/null' EXIT
trap 'exit 130' INT TERM

# run TARGET writes its seconds and its exit code beside its log.
run() {
  local from=$EPOCHSECONDS code=0
  make --no-print-directory "$1" </dev/null 2>&1 | tee "$logs/$1.log" || code=$?
  echo "$((EPOCHSECONDS - from)) $1 $code" >"$logs/$1.result"
}
export -f run
minutes() { printf '%dm%02ds' $(($1 / 60)) $(($1 % 60)); }

for wave in "$@"; do
  procs=()
  if [[ $wave == busy:* ]]; then
    wave=${wave#busy:} procs=(env GOMAXPROCS=1)
    echo "beside ${LOOPS:-4} busy loops, with GOMAXPROCS=1: ${wave#*:}"
    for _ in $(seq "${LOOPS:-4}"); do timeout 3h bash -c 'while :; do :; done' & loops+=($!); done
  fi
  tr ' ' '\n' <<<"${wave#*:}" | "${procs[@]}" xargs -P "${wave%%:*}" -I TARGET bash -o pipefail -c 'run TARGET'
  [ ${#loops[@]} -eq 0 ] || { kill "${loops[@]}"; wait "${loops[@]}" 2>/dev/null; loops=(); }
done

results=$(sort -rn "$logs"/*.result)
printf '\ntime of each part, the longest first:\n'
while read -r seconds part code; do
  printf '  %-30s %8s  %s\n' "$part" "$(minutes "$seconds")" "$([ "$code" = 0 ] && echo passed || echo FAILED)"
done <<<"$results"

# slowest prints the dozen longest of lines "SECONDS WHAT".
slowest() { sort -rn | head -n 12 | while read -r seconds what; do printf '  %7.1fs  %s\n' "$seconds" "$what"; done; }
printf '\npackages, the slowest first:\n'
sed -nE 's/^(ok|FAIL)[[:space:]]+github.com\/celvpa\/celvpa(\/([^[:space:]]+))?[[:space:]]+([0-9.]+)s$/\4 \3/p' "$logs"/*.log | slowest
# A test with subtests ends after them, and is left out where one of them says what took long.
tests=$(sed -nE 's/^ *--- (PASS|FAIL): (.+) \(([0-9.]+)s\)$/\3 \2/p' "$logs"/*.log |
  awk '{seconds[$2] = $1; parent = $2; while (sub(/\/[^\/]*$/, "", parent)) has[parent] = 1} END {for (test in seconds) if (!has[test]) print seconds[test], test}')
[ -z "$tests" ] || { printf '\ntests on labs, the slowest first:\n' && slowest <<<"$tests"; }

failed=$(awk '$3 != 0 {print $2}' <<<"$results")
[ -z "$failed" ] || printf '\nfailures:\n'
for part in $failed; do
  # Failed tests and packages, and what assertions said; with neither, the end of the output.
  what=$(awk '/^ *--- FAIL: |^FAIL[[:space:]]+[a-z]|^(panic|fatal error): / {if (!seen[$0]++) print; next}
    /^[[:space:]]+Error Trace:/ {said = 1} said {print} /^[[:space:]]+Test:/ {said = 0}' "$logs/$part.log" | cut -c 1-400 | head -n 80)
  printf '%s (%s)\n%s\n' "$part" "$logs/$part.log" "$(sed 's/^/    /' <<<"${what:-$(tail -n 15 "$logs/$part.log")}")"
done
count=$(wc -w <<<"$failed")
printf '\nall parts together: %s\nparts: %d passed, %d failed\n' "$(minutes $SECONDS)" $(($(wc -l <<<"$results") - count)) "$count"
[ "$count" -eq 0 ]
