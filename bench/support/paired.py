"""Ratios of paired measurements: the Hodges-Lehmann estimate on logarithms and its interval from
the exact distribution of Wilcoxon's signed-rank statistic, as `rouse compare` has them for runs."""
import math
import statistics


def signed_rank_cutoff(count: int, error: float) -> int:
    """The largest k with P(W < k) <= error / 2; W is the rank sum of the positive differences."""
    ways = [1]
    for rank in range(1, count + 1):
        longer = ways + [0] * rank
        for total, number in enumerate(ways):
            longer[total + rank] += number
        ways = longer
    below, cutoff = 0, 0
    while (below + ways[cutoff]) / 2 ** count <= error / 2:
        below += ways[cutoff]
        cutoff += 1
    return cutoff


def ratio(ours: list[float], theirs: list[float]) -> tuple[float, float | None, float | None]:
    """theirs / ours of pairs, with its 95 % interval; no interval where the pairs are too few."""
    logs = [math.log(b / a) for a, b in zip(ours, theirs, strict=True)]
    walsh = sorted((logs[i] + logs[j]) / 2 for i in range(len(logs)) for j in range(i, len(logs)))
    cutoff = signed_rank_cutoff(len(logs), 0.05)
    bounds = (None, None) if cutoff == 0 else (math.exp(walsh[cutoff - 1]),
                                               math.exp(walsh[-cutoff]))
    return math.exp(statistics.median(walsh)), *bounds
