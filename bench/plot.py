#!/usr/bin/env python3
"""Draws the sweeps of bench_joins and the figures of bench_triton as SVG.

Usage: bench/plot.py CSV ... [--out DIRECTORY]  (bench/results unless given). Needs bench/requirements.txt.
Of bench_joins, one plot a sweep, a line an operator: rows named sweep.WHAT.OPERATOR.X; others are left alone.
Of bench_triton, the files of --figures: one plot a figure of Lutz 2022, a line a series.
Of `bench budgets`, the file of --csv: a line a query, and their geometric mean beside that of the CPU.
"""

import argparse
import csv
import math
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


# Figures of bench_triton: the name of the file, and what the x axis is.
FIGURES = {
    "1": ("budget", "device memory, as a share of the bytes of both inputs"),
    "13": ("size", "build rows, as many as probe rows, in millions"),
    "15": ("phases", "workload and budget"),
    "18": ("partitioners", "fan-out"),
    "20": ("prefix-sum", "fan-out"),
    "21": ("ratio", "probe rows for each build row"),
    "22": ("width", "bytes of a row"),
    "near": ("near", "device memory, in percent of what holds all build rows"),
    "pairs": ("pairs", "build rows, as many as probe rows, in millions; all pairs come out"),
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


def points(paths):
    """{figure: {series: [(x, y)]}} and {figure: unit}, in the order of the files."""
    found, units = defaultdict(lambda: defaultdict(list)), {}
    for path in paths:
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                found[row["figure"]][row["series"]].append((row["x"], float(row["y"])))
                units[row["figure"]] = row["unit"]
    return found, units


def draw_figure(name, label, unit, series, directory):
    """Lines over numbers, in equal steps; stacked bars where x is text."""
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    xs = list(dict.fromkeys(x for line in series.values() for x, _ in line))
    try:
        xs.sort(key=float)
        bars = False
    except ValueError:
        bars = True
    places, below = {x: i for i, x in enumerate(xs)}, [0.0] * len(xs)
    for title, line in series.items():
        if bars:
            heights = [0.0] * len(xs)
            for x, y in line:
                heights[places[x]] = y
            axes.bar(range(len(xs)), heights, bottom=below, label=title)
            below = [a + b for a, b in zip(below, heights)]
        else:
            line = sorted(line, key=lambda point: places[point[0]])
            axes.plot([places[x] for x, _ in line], [y for _, y in line], marker="o", label=title)
    axes.set_xticks(range(len(xs)), xs, rotation=60 if bars else 0, ha="right" if bars else "center")
    axes.set_xlabel(label)
    axes.set_ylabel(unit)
    if name == "partitioners":
        # Within the device's memory and over the bus: twenty times apart.
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="x-small")
    path = directory / f"triton-{name}.svg"
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    print(path)


def draw_budgets(path, directory):
    """A line a query over shares of what it touches, on a logarithmic axis; the CPU alone at the right."""
    times = defaultdict(dict)
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            times[row["query"]][row["share"]] = (float(row["ms"]), row["where"])
    shares = [share for share in next(iter(times.values())) if share != "cpu"]
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    xs = range(len(shares) + 1)
    marks = {"": "o", "*": "^", "c": "s", "*c": "D"}
    for query, of_query in times.items():
        line = [of_query[share] for share in [*shares, "cpu"]]
        (drawn,) = axes.plot(xs, [ms for ms, _ in line], alpha=0.35, linewidth=0.8)
        for x, (ms, where) in zip(xs, line):
            axes.plot(x, ms, marks[where], color=drawn.get_color(), markersize=4)
        axes.annotate(query, (xs[-1], line[-1][0]), xytext=(6, -3), textcoords="offset points", fontsize="xx-small")
    means = []
    for share in [*shares, "cpu"]:
        logs = [math.log(of_query[share][0]) for of_query in times.values()]
        means.append(math.exp(sum(logs) / len(logs)))
    axes.plot(xs, means, color="black", linewidth=2, label="geometric mean")
    for where, label in [("", "device"), ("*", "device, columns in chunks"), ("c", "CPU"), ("*c", "both")]:
        axes.plot([], [], marks[where], color="gray", label=label)
    axes.set_yscale("log")
    axes.set_xticks(xs, [*("all" if share == "1" else f"1/{share}" for share in shares), "CPU alone"])
    axes.set_xlabel("device memory, as a share of what the query touches")
    axes.set_ylabel("ms")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="x-small")
    path = directory / "tpch-budgets.svg"
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    print(path)


def header(path):
    with open(path) as file:
        return file.readline().strip()


def has_points(path):
    return header(path) == "figure,series,x,y,unit"


def has_budgets(path):
    return header(path) == "query,share,touched_bytes,ms,where"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("csv", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for path in filter(has_budgets, arguments.csv):
        draw_budgets(path, arguments.out)
    others = [path for path in arguments.csv if not has_budgets(path)]
    for sweep, operators in sweeps(path for path in others if not has_points(path)).items():
        draw(sweep, operators, arguments.out)
    figures, units = points(path for path in others if has_points(path))
    for figure, series in figures.items():
        name, label = FIGURES.get(figure, (figure, ""))
        draw_figure(name, label, units[figure], series, arguments.out)


if __name__ == "__main__":
    main()
