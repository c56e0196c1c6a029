#!/usr/bin/env python3
"""Holds the five queries of docs/fleet.md, as DuckDB answers them, against wakelat's own views of the same recordings.

    python3 -m venv venv && venv/bin/pip install duckdb
    venv/bin/python tests/fleet/check.py target/debug/wakelat a.wakelat b.wakelat …

The recordings need a label `release` (`record -M release=42`). Counts, sums and maxima are equal to the ns; a percentile is
within the resolution of wakelat's histograms.
"""

import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import duckdb

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "fleet.md"
LIMIT = re.compile(r"LIMIT \d+")
# Three significant digits (`hdrhistogram`), and DuckDB interpolates between two waits.
RESOLUTION = 0.002
# With fewer waits, those next to the 99th percentile are further apart than that.
ENOUGH = 10_000
# Most interferers that `why --json` lists.
LISTED = 100


def queries():
    """The queries of the page, in its order, without their limits."""
    return [LIMIT.sub("", text) for text in re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)]


def documents(wakelat, recordings, *arguments):
    """The JSON documents that a view prints of the recordings."""
    line = [wakelat, *arguments, "--json"]
    for recording in recordings:
        line += ["-i", recording]
    output = subprocess.run(line, check=True, capture_output=True, text=True).stdout
    return [json.loads(document) for document in output.splitlines()]


def equal(what, found, expected):
    """Exits if two tables differ."""
    if found != expected:
        missing = {key: value for key, value in expected.items() if found.get(key) != value}
        extra = {key: value for key, value in found.items() if expected.get(key) != value}
        sys.exit(f"{what}: DuckDB has {extra}, wakelat has {missing}")
    print(f"{what}: {len(found)} rows, equal")


def near(what, found, expected):
    if abs(found - expected) > RESOLUTION * expected + 1:
        sys.exit(f"{what}: DuckDB has {found}, wakelat has {expected}")


def groups_of(wakelat, recordings, view, *arguments):
    """The groups of a view's only report."""
    (report,) = documents(wakelat, recordings, view, "--from", "waking", *arguments)
    return report["groups"]


def by_second(wakelat, recordings, *arguments):
    """The number of waits by host and beginning of the interval."""
    counts = collections.Counter()
    waits = ["--from", "waking", "--by", "host", "--class", "wakeup,new,preempted"]
    for report in documents(wakelat, recordings, "hist", "1s", *waits, *arguments):
        for group in report["groups"]:
            counts[group["key"]["host"], report["start_unix_ns"]] += group["count"]
    return counts


def interferers(wakelat, recording, cgroup):
    """The tasks that ran while tasks of a cgroup waited."""
    (report,) = documents(wakelat, [recording], "why", "--from", "waking", "--cgroup", cgroup)
    found = report["interferers"]
    if len(found) == LISTED or report["interferers_rest"]["sum_ns"]:
        sys.exit(f"{recording}: more than {LISTED} tasks ran while {cgroup} waited: take shorter recordings")
    return [task for task in found if task["kind"] == "task"]


def in_ns(seconds):
    return round(seconds * 1e9)


def main():
    wakelat, *recordings = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        prefix = os.path.join(directory, "fleet")
        line = [wakelat, "export", "--from", "waking", "--to", "parquet", "-o", prefix]
        for recording in recordings:
            line += ["-i", recording]
        subprocess.run(line, check=True, capture_output=True)
        duckdb.sql(f"SET file_search_path = '{directory}'")
        *others, last = queries()
        answers = [duckdb.sql(query).fetchall() for query in others]
        # Python's times have no ns.
        answers.append(duckdb.sql(f"SELECT * REPLACE (epoch_ns(start) AS start) FROM ({last.strip().rstrip(';')})").fetchall())
        releases = dict(duckdb.sql(f"SELECT DISTINCT recording, label_release FROM '{prefix}-waits.parquet'").fetchall())

    by_host, by_component, by_culprit, by_release, by_interval = answers
    hosts = groups_of(wakelat, recordings, "hist", "--by", "host", "--class", "runqueue")
    equal(
        "waits and the longest, by host",
        {host: (waits, round(max_ms * 1e6)) for host, waits, _, max_ms, _ in by_host},
        {group["key"]["host"]: (group["count"], group["max_ns"]) for group in hosts},
    )
    for host, waits, p99_ms, _, _ in by_host:
        if waits < ENOUGH:
            sys.exit(f"{host}: {waits} waits: take longer recordings, of {ENOUGH} waits or more")
        (group,) = (group for group in hosts if group["key"]["host"] == host)
        near(f"p99 of {host}", p99_ms * 1e6, group["percentiles_ns"]["99"])

    components = collections.Counter()
    for group in groups_of(wakelat, recordings, "why", "--by", "cgroup"):
        for component in group["components"]:
            components[group["key"]["cgroup"], component["component"]] += component["sum_ns"]
    equal("time by cgroup and component", {row[:2]: in_ns(row[2]) for row in by_component}, dict(components))

    # Of cgroups without children: `--cgroup` takes in those below.
    cgroups = {cgroup for cgroup, _ in components}
    leaves = {cgroup for cgroup in cgroups if not any(other.startswith(cgroup.rstrip("/") + "/") for other in cgroups)}
    culprits = collections.Counter()
    for recording in recordings:
        for cgroup in leaves:
            for task in interferers(wakelat, recording, cgroup):
                culprits[cgroup, task["cgroup"]] += task["sum_ns"] if task["cgroup"] != cgroup else 0
    culprits = {pair: ns for pair, ns in culprits.items() if ns}
    found = {row[:2]: in_ns(row[2]) for row in by_culprit if row[0] in leaves}
    equal("time by cgroup and culprit's cgroup", found, culprits)

    classes = collections.Counter(), collections.Counter()
    for recording in recordings:
        release = releases[os.path.basename(recording)]
        for group in groups_of(wakelat, [recording], "hist", "--by", "class", "--class", "wakeup,new,preempted"):
            classes[0][release, group["class"]] += group["count"]
            classes[1][release, group["class"]] += group["sum_ns"]
    equal("waits by release and class", {row[:2]: row[2] for row in by_release}, dict(classes[0]))
    equal("time by release and class", {row[:2]: in_ns(row[3]) for row in by_release}, dict(classes[1]))

    equal("waits by host and second", {row[:2]: row[2] for row in by_interval}, dict(by_second(wakelat, recordings)))
    over = by_second(wakelat, recordings, "--threshold", "1ms")
    # The query counts whole buckets: not the one that 1 ms is in.
    for host, start, _, longer in by_interval:
        if (longer or 0) > over[host, start]:
            sys.exit(f"{host} at {start}: DuckDB has {longer} waits over 1 ms, wakelat has {over[host, start]}")
    print(f"waits of 1 ms or more by host and second: {len(over)} rows, none less than DuckDB's")


if __name__ == "__main__":
    main()
