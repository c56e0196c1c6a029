#!/usr/bin/env python3
"""Computes the figures of a comparison independently of wakelat, and stores them with their data in reference.json.

Needs numpy and scipy, from PyPI. `reference.py` prints the document; `reference.py --check` compares it with the stored one.
The test `compare.rs` checks wakelat's figures against the stored ones, without Python.
"""

import itertools
import json
import pathlib
import sys

import numpy as np
from scipy import stats

FILE = pathlib.Path(__file__).with_name("reference.json")


def t_statistic(base, new, axis=-1):
    return np.abs(stats.ttest_ind(new, base, axis=axis, equal_var=True).statistic)


def max_t(base, new, metric, shift):
    """The p-value of `shift` for one of several metrics, of which the largest statistic counts: rows are metrics."""
    shifts = new.mean(axis=1) - base.mean(axis=1)
    shifts[metric] = shift
    pooled = np.hstack([base, new - shifts[:, None]])
    runs, chosen = pooled.shape[1], new.shape[1]
    observed = t_statistic(base[metric], new[metric] - shift)
    count = total = 0
    for labels in itertools.combinations(range(runs), chosen):
        mask = np.zeros(runs, bool)
        mask[list(labels)] = True
        largest = np.nanmax(t_statistic(pooled[:, ~mask], pooled[:, mask]))
        count += largest >= observed * (1 - 1e-9)
        total += 1
    return count / total


def end(p_value, estimate, direction, level):
    """The shift at which the p-value falls to the level, by bisection."""
    near, far = 0.0, 0.01
    while p_value(estimate + direction * far) > level:
        near, far = far, far * 1.7
    while far - near > 1e-10:
        middle = (near + far) / 2
        near, far = (near, middle) if p_value(estimate + direction * middle) <= level else (middle, far)
    return estimate + direction * far


def permutation(random):
    base = np.round(random.normal([[10], [12], [15]], [[0.03], [0.05], [0.1]], (3, 5)), 4)
    new = np.round(random.normal([[10.02], [12.1], [15.2]], [[0.03], [0.05], [0.1]], (3, 5)), 4)
    single = [
        stats.permutation_test((b, n), lambda x, y, axis: t_statistic(x, y, axis), alternative="greater",
                               n_resamples=np.inf, vectorized=True).pvalue
        for b, n in zip(base, new)
    ]
    return {
        "base": base.tolist(),
        "new": new.tolist(),
        "p_single": [float(p) for p in single],
        "p_max_t": [max_t(base, new, k, 0.0) for k in range(3)],
        "interval": [
            [end(lambda s: max_t(base, new, k, s), new[k].mean() - base[k].mean(), d, 0.05) for d in (-1, 1)]
            for k in range(3)
        ],
    }


def one_sample(random):
    values = np.round(random.normal(14, 0.2, 7), 4)

    def p_value(limit):
        test = stats.permutation_test((values - limit,), lambda x, axis: np.abs(x.sum(axis=axis)), vectorized=True,
                                      permutation_type="samples", alternative="greater", n_resamples=np.inf)
        return float(test.pvalue)

    ends = [end(p_value, values.mean(), d, 0.05) for d in (-1, 1)]
    return {"values": values.tolist(), "limit": 14.1, "p": p_value(14.1), "interval": ends}


def holm(random):
    p = np.round(0.4 * random.uniform(0, 1, 8) ** 4, 5)
    order = np.argsort(p)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1, np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p)))))
    return {"p": p.tolist(), "adjusted": adjusted.tolist(), "rejected": (adjusted <= 0.05).tolist()}


class SplitMix:
    MASK = (1 << 64) - 1

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & self.MASK
        z = self.state
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & self.MASK
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & self.MASK
        return z ^ z >> 31

    def below(self, limit):
        return self.next() * limit >> 64

    def unit(self):
        return (self.next() >> 11) / 2**53


def correlation_time(series):
    centred = series - series.mean()
    covariance = np.correlate(centred, centred, "full")[len(series) - 1:]
    total = 1.0
    for lag in range(1, len(series) // 2):
        if covariance[lag] / covariance[0] <= 1 / np.sqrt(len(series)):
            break
        total += 2 * covariance[lag] / covariance[0]
    return total


def bootstrap(random):
    """Percentiles of a run in replicates of its intervals, and the simultaneous interval of their logarithms."""
    load = stats.zscore(np.convolve(random.normal(size=47), np.ones(8), "valid"))
    intervals = [np.round(np.exp(random.normal(11 + 0.3 * x, 0.8, 30))).astype(int) for x in load]
    sums = np.array([i.sum() for i in intervals], float)
    block = float(np.clip(4 * correlation_time(np.log(1 + sums)), 1, len(intervals) * 0.2))
    generator, replicates = SplitMix(3), []
    levels = (50, 90, 99)
    figures = lambda waits: np.percentile(waits, levels, method="inverted_cdf")
    for _ in range(1000):
        drawn = []
        for step in range(len(intervals)):
            if step == 0 or generator.unit() * block < 1:
                drawn.append(generator.below(len(intervals)))
            else:
                drawn.append((drawn[-1] + 1) % len(intervals))
        replicates.append(figures(np.concatenate([intervals[i] for i in drawn])))
    logs, actual = np.log(replicates), np.log(figures(np.concatenate(intervals)))
    blocks = len(intervals) / block
    widening = np.sqrt(blocks / (blocks - 1)) * (1 + 1.7 / (blocks - 1))
    scale = np.sqrt(((logs - actual) ** 2).mean(axis=0))
    largest = np.sort((np.abs(logs - actual) / scale).max(axis=1))
    # The p-value (1 + number at least as large) / 1001 falls to 0.05 at the 50th largest.
    critical = largest[-50] * widening
    return {
        "intervals": [i.tolist() for i in intervals],
        "block": block,
        "seed": 3,
        "actual": actual.tolist(),
        "scale": (scale * widening).tolist(),
        "interval": [[float(a - critical * s), float(a + critical * s)] for a, s in zip(actual, scale)],
    }


def main():
    random = np.random.default_rng(2026)
    found = {part.__name__: part(random) for part in (permutation, one_sample, holm, bootstrap)}
    text = json.dumps(found) + "\n"
    if "--check" not in sys.argv:
        print(text, end="")
    elif json.loads(text) != json.loads(FILE.read_text()):
        sys.exit("reference.json differs")


main()
