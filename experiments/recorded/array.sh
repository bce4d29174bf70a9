#!/usr/bin/env bash
# Every server on recorded work: array.sh ONEFOLD DIR
#
# DIR is what record.sh has made. Prints, as tables: losses of the predictor and of the sampled
# index; the predictors; three indexes in equal memory; what every preset carries; and what whole
# drives program, where they deduplicate alone and where a server does before them. Requests come
# one for each that is answered, 256 at a time, and volumes were empty before. Needs python3.
set -euo pipefail
python3 - "$(realpath "$1")" "$(realpath "$2")" <<'PY'
import json, os, subprocess, sys, tempfile

onefold, recordings = sys.argv[1:3]
names = ["packages", "build", "system", "database", "mail", "office"]
presets = (["software", "software-today", "cal17-baseline", "cal17", "dedicated", "cidr"]
           + ["cidr-%d" % engines for engines in range(1, 11)]
           + ["cidr+", "fidr-index", "fidr-nic", "fidr-direct", "fidr", "fidr-hooks"])
# Memory of an index for each chunk that differs, in bytes.
memory = 8

def run(preset, name, *settings):
    command = [onefold, "array", "run", "--preset", preset, "--json",
               "--trace", os.path.join(recordings, name + ".rec")]
    for setting in ("trace_before=nothing", "outstanding=256") + settings:
        command += ["--set", setting]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)

def table(title, columns, rows, cells="---:|"):
    print("\n| %s | %s |\n|---|%s" % (title, " | ".join(columns), cells * len(columns)))
    for head, cells in rows:
        print("| %s | %s |" % (head, " | ".join(cells)))

percent = lambda share: "%.1f %%" % (100 * share) if share is not None else "-"

# Predictors: every chunk is guessed before its look-up, and learnt of after it.
guesses = {}
for name in names:
    for kind in ["all-unique", "recent", "oracle"]:
        report = run("cidr+", name, "predictor.kind=" + kind)
        score = report["predictor"]
        chunks = sum(score.values())
        guesses[name, kind] = {
            "right": (score["unique_right"] + score["duplicate_right"]) / chunks,
            "in vain": score["unique_wrong"] / chunks, "late": score["duplicate_wrong"] / chunks,
            "duplicates": report["duplicate_share"], "GB/s": report["gb_per_s"]}

# Indexes: buckets of FIDR, hooks, and buckets that read as rarely as hooks, in equal memory.
def indexed(name, preset, *settings):
    report = run(preset, name, *settings)
    return {"reads": report["table_reads_a_look_up"], "missed": report["missed_share"],
            "GB/s": report["gb_per_s"]}

indexes = {}
for name in names:
    trace = run("fidr", name)
    chunks = trace["trace"]["chunks_known"] + trace["trace"]["chunks_drawn"]
    differ = round(chunks * (1 - trace["duplicate_share"]))
    small = ["table.entries=%d" % differ, "table.cache_bytes=%d" % (memory * differ),
             "workload.addresses=2000", "table_ssd.count=1"]
    sampled = ["table.sample_one_in=32", "table.follow_chunks=64"]
    indexes[name] = {"buckets": indexed(name, "fidr", *small),
                     "hooks": indexed(name, "fidr-hooks", *small),
                     "sampled buckets": indexed(name, "fidr", *small, *sampled)}

lost = []
for name in names:
    recent, every = guesses[name, "recent"], guesses[name, "all-unique"]
    if recent["right"] <= every["right"]:
        lost.append((name, ["`recent`", "guesses right, %s beside %s of `all-unique`"
                                  % (percent(recent["right"]), percent(every["right"]))]))
    lost.append((name, ["`recent`", "compresses %s of all chunks in vain"
                              % percent(recent["in vain"])]))
    hooks, buckets = indexes[name]["hooks"], indexes[name]["buckets"]
    if hooks["missed"] > buckets["missed"]:
        lost.append((name, ["hooks", "store %s of the duplicates again"
                                  % percent(hooks["missed"])]))
    if hooks["reads"] >= buckets["reads"]:
        lost.append((name, ["hooks", "read %.3f pages a chunk beside %.3f"
                                  % (hooks["reads"], buckets["reads"])]))
table("losses", ["of", "what"], lost, "---|")
table("guessed right", ["duplicates", "all-unique", "recent", "in vain", "late", "oracle"],
      [(name, [percent(guesses[name, "recent"]["duplicates"]),
                     percent(guesses[name, "all-unique"]["right"]),
                     percent(guesses[name, "recent"]["right"]),
                     percent(guesses[name, "recent"]["in vain"]),
                     percent(guesses[name, "recent"]["late"]),
                     percent(guesses[name, "oracle"]["right"])]) for name in names])
kinds = ["buckets", "hooks", "sampled buckets"]
table("%d bytes of memory a chunk" % memory,
      ["pages read a chunk: %s" % kinds[0]] + kinds[1:] + ["duplicates missed: %s" % kinds[0]]
      + kinds[1:],
      [(name, ["%.3f" % indexes[name][kind]["reads"] for kind in kinds]
        + [percent(indexes[name][kind]["missed"]) for kind in kinds]) for name in names])
rows = []
for preset in presets:
    reports = [run(preset, name) for name in names]
    stops = [report["bottleneck"]["name"] for report in reports]
    most = max(sorted(set(stops)), key=stops.count)
    rows.append(("`%s`" % preset, ["%.2f" % report["gb_per_s"] for report in reports]
                 + ["%s in %d" % (most, stops.count(most))]))
table("GB/s", names + ["stopped by"], rows)

# Where to deduplicate: the same drives, of pages of 4 KiB, alone or behind a server that finds
# everything and compresses nothing. An empty drive holds the largest volume.
geometry = """precondition = 'none'
geometry.page_bytes = 4096
geometry.blocks_per_plane = 24
geometry.pages_per_block = 32
ftl.over_provisioning = 0.3
controller.idle_after_ns = 1000000
"""
server = ["place.compression=none", "chunk_bytes=4096", "workload.compressed_share=1",
          "workload.compressed_spread=0", "cpu.metadata_ns_per_chunk=750"]
counts = [1, 2, 4, 8]
with tempfile.TemporaryDirectory() as work:
    plain, alone = os.path.join(work, "plain.toml"), os.path.join(work, "alone.toml")
    with open(plain, "w") as to:
        to.write(geometry)
    with open(alone, "w") as to:
        to.write(geometry + "dedup.policy = 'gleaner'\n")
    def stored(preset, name, count, model, *settings):
        report = run(preset, name, "ssd.model=" + model, "ssd.count=%d" % count, *settings)
        drives = report["drives"]
        written = report["bytes_of_all"]["client_in"] + report["bytes_of_all"]["completed"]
        return {"left": drives["pages_programmed"] * drives["page_bytes"] / written,
                "GB/s": report["gb_per_s"], "p99": drives["write_ns"][1] / 1e6}
    cells = {}
    for name in names:
        first = [stored("intra-ssd", name, count, alone) for count in counts]
        cells[name] = first + [stored("software", name, 4, plain, *server)]
columns = ["%d alone" % count for count in counts] + ["4 behind a server"]
for title, form in [("left", "programmed, of what was written"), ("GB/s", "GB/s"),
                    ("p99", "p99 of a write to a drive, ms")]:
    show = percent if title == "left" else lambda number: "%.2f" % number
    table(form, columns, [(name, [show(cell[title]) for cell in cells[name]]) for name in names])
PY
