#!/usr/bin/env python3
"""Draws the sweeps of bench_joins as SVG: one plot a sweep, a line an operator.

Usage: bench/plot.py CSV ... [--out DIRECTORY]  (bench/results unless given). Needs bench/requirements.txt.
Rows are named sweep.WHAT.OPERATOR.X; other rows are left alone.
"""

import argparse
import csv
from collections import defaultdict
from pathlib import Path

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "joins"
import matplotlib.pyplot as plt  # noqa: E402

# What the x axis of a sweep is, and what the y axis shows: a column of the CSV and its label.
RATE = ("g_tuples_per_s", "G tuples/s, both inputs")
TIME = ("ms", "ms")
SWEEPS = {
    "selectivity": ("probe rows with a partner", RATE),
    "duplicates": ("build rows of a key (as many pairs everywhere)", TIME),
    "ratio": ("probe rows for each build row", RATE),
    "skew": ("distribution of probe keys", RATE),
    "table": ("keys of a shared table", RATE),
    "skew_both": ("distribution of keys on both sides", RATE),
    "payload": ("payload columns a side, one partner a row", TIME),
    "payload_1in10": ("payload columns a side, one probe row in ten has a partner", TIME),
    "payload_dup8": ("payload columns a side, eight partners a probe row", TIME),
}


def sweeps(paths):
    """{sweep: {operator: [(x, row)]}} in the order of the files."""
    found = defaultdict(lambda: defaultdict(list))
    for path in paths:
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                parts = row["row"].split(".", 3)
                if len(parts) == 4 and parts[0] == "sweep":
                    found[parts[1]][parts[2]].append((parts[3], row))
    return found


def draw(sweep, operators, directory):
    label, (column, unit) = SWEEPS.get(sweep, (sweep, RATE))
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    places = {}
    for points in operators.values():
        for x, _ in points:
            places.setdefault(x, len(places))
    for operator, points in operators.items():
        axes.plot([places[x] for x, _ in points], [float(row[column]) for _, row in points], marker="o", label=operator)
    axes.set_xticks(range(len(places)), places)
    axes.set_xlabel(label)
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    path = directory / f"joins-{sweep}.svg"
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    print(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("csv", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for sweep, operators in sweeps(arguments.csv).items():
        draw(sweep, operators, arguments.out)


if __name__ == "__main__":
    main()
