#!/bin/sh
# Measures a change and fails where it costs more than it may (docs/install.md, "In CI"). For any CI: everything comes from the
# environment.
#
#   VTAX_PLAN       the plan
#   VTAX_BASELINE   the directory of a run of the unchanged service; it is made where there is none
#   VTAX_MAX_TAX    how much more a change may cost, such as 10%
#   VTAX_METRICS    what is compared, such as capacity,latency_p99; empty: what a report's first table has (`vtax explain` knows each)
#   VTAX_STRICT     1: fail also where the runs can't tell
#   VTAX_OUT        where the change's run, vtax.xml and vtax.md are put; vtax-gate unless given
#   VTAX            the program; vtax unless given
#
# Exit code: that of `vtax compare`, or of the run that failed. 0: the limit isn't shown to be exceeded (with VTAX_STRICT=1: it is shown
# to be kept); 1: it is exceeded (with VTAX_STRICT=1: or the runs can't tell); 2: the runs can't be compared, as where the baseline is
# incomplete or none of its trials counts, or there is no place for the files, as where VTAX_OUT can't be made; 3: a file can't be
# written after all, as where the disk is full.
set -eu

vtax=${VTAX:-vtax}
plan=${VTAX_PLAN:?name the plan}
baseline=${VTAX_BASELINE:?name the directory of the baseline\'s run}
tax=${VTAX_MAX_TAX:-10%}
out=${VTAX_OUT:-vtax-gate}

# However they are spelled.
if [ "$baseline" = "$out/run" ] || [ "$baseline" -ef "$out/run" ]; then
    echo "gate: VTAX_BASELINE and the change's run can't be the same directory, $baseline" >&2
    exit 2
fi
mkdir -p "$out" || exit 2
# A build before this one in the same place has left its own, which would be published as this one's.
rm -f "$out/vtax.xml" "$out/vtax.md" || exit 2
[ ! -e "$out/run/journal.jsonl" ] || rm -rf "$out/run" || exit 2
# A mistyped name is told before hours are spent on measuring.
(
    set -f
    for name in $(echo "${VTAX_METRICS:-}" | tr , ' '); do
        [ "$name" = all ] || "$vtax" explain "$name" > /dev/null || exit 2
    done
)
if [ ! -e "$baseline/journal.jsonl" ]; then
    echo "gate: there is no baseline in $baseline; this run becomes it, and nothing is compared"
    code=0
    "$vtax" run "$plan" --out "$baseline" || code=$?
    [ "$code" = 0 ] || echo "gate: the run in $baseline is no baseline: remove it and try again" >&2
    exit "$code"
fi
if ! grep -q '"event":"completed"' "$baseline/journal.jsonl"; then
    # Gone on with here it would be half of the service as it was and half of the change.
    echo "gate: the baseline in $baseline is incomplete. If no other job is making it: remove it, and the next run becomes the" \
        "baseline, or finish it where the unchanged service is in place: $vtax run --resume $baseline" >&2
    exit 2
fi
# Every change would be measured in vain. What a trial observed may be valid where the trial isn't: its own validity stands before that.
if ! LC_ALL=C sed 's/"observations":.*//' "$baseline/journal.jsonl" | grep -q '"validity":"valid"'; then
    echo "gate: no trial of the baseline in $baseline counts, so it can't be compared with. Remove it and try again: the next run" \
        "becomes the baseline" >&2
    exit 2
fi
"$vtax" run "$plan" --out "$out/run"

set -- "$baseline" "$out/run" --same-machine --max-tax "$tax" --junit "$out/vtax.xml" --markdown "$out/vtax.md"
[ -z "${VTAX_METRICS:-}" ] || set -- "$@" --metric "$VTAX_METRICS"
[ "${VTAX_STRICT:-0}" != 1 ] || set -- "$@" --strict
code=0
"$vtax" compare "$@" || code=$?
# GitHub shows this file beside the checks.
if [ -n "${GITHUB_STEP_SUMMARY:-}" ] && [ -e "$out/vtax.md" ]; then
    cat "$out/vtax.md" >> "$GITHUB_STEP_SUMMARY" || echo "gate: the summary can't be written" >&2
fi
exit "$code"
