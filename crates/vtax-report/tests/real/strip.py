"""Makes a kept run of a finished one: what taxes, intervals and verdicts are made of, and nothing that names the machine.

Usage: strip.py RUN OUT

Kept as they are: the plan, and of each trial its cell, measure, round, validity, figures and histograms. Left out: the files of
trials, what a trial found about its testbed (`facts`, `limits`), the course within a trial (`intervals`), sockets, counts of interfaces,
and the histograms of the generator's lateness, which no tax is made of. Names of hosts become `kept`; provenance keeps what
the report can't do without. Ends with 1 where a name or a path of this machine is left.
"""

import json
import os
import re
import sys

# The course of a trial within itself, and what only describes it.
EMPTY_LISTS = {"intervals", "connections", "checks", "pauses", "members"}
# A path of this machine in a text; targets of requests are short and in the plan.
PATHS = re.compile(r"/(root|home|work|tmp|usr|proc|var|opt)\b")


def without(value):
    """The same without what isn't kept."""
    if isinstance(value, dict):
        kept = {}
        for key, inner in value.items():
            if key == "facts":
                kept[key] = {}
            elif key in EMPTY_LISTS and isinstance(inner, list):
                kept[key] = []
            elif key == "lateness" and isinstance(inner, str) and isinstance(value.get("latency"), str):
                # An encoded histogram has to be one: the latencies' stands in for it.
                kept[key] = value["latency"]
            elif key == "host" and isinstance(inner, str):
                kept[key] = "kept"
            else:
                kept[key] = without(inner)
        return kept
    if isinstance(value, list):
        return [without(inner) for inner in value]
    return value


def journal(lines):
    """The journal's entries, without notes: they may quote commands."""
    for line in lines:
        entry = json.loads(line)
        if entry["event"] != "note":
            yield json.dumps(without(entry), ensure_ascii=False, separators=(",", ":"))


def provenance(full):
    """When and from which seed; the machine as an unnamed one."""
    keep = ("version", "run_id", "vtax_version", "seed", "started_unix_ms", "ended_unix_ms")
    kept = {key: full[key] for key in keep}
    kept["host"] = {"name": "kept", "cpus": full["host"]["cpus"]}
    if full.get("accelerator"):
        kept["accelerator"] = {"kind": full["accelerator"]["kind"], "reason": ""}
    return kept


def main():
    run, out = sys.argv[1], sys.argv[2]
    os.makedirs(os.path.join(out, "trials"), exist_ok=True)
    read = lambda name: open(os.path.join(run, name), encoding="utf-8")
    with read("plan.yaml") as file:
        plan = file.read()
    with read("journal.jsonl") as file:
        texts = {"journal.jsonl": "\n".join(journal(file)) + "\n", "plan.yaml": plan}
    with read("provenance.json") as file:
        full = json.load(file)
    texts["provenance.json"] = json.dumps(provenance(full), indent=1) + "\n"
    for name, text in texts.items():
        left = [full["host"]["name"]] if full["host"]["name"] in text else []
        left += [match.group() for match in PATHS.finditer(text)] if name != "plan.yaml" else []
        if left:
            sys.exit(f"{name} still has {left[0]}")
        with open(os.path.join(out, name), "w", encoding="utf-8") as file:
            file.write(text)


main()
