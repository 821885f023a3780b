"""Computes the taxes, intervals and verdicts of a stored run again, from the values of its trials, by formulas from the
sources that docs/methodology.md names, and compares them with summary.json. Shares nothing with vtax: Student's t is
a continued fraction here, Hommel's procedure his adjusted p values. Needs Python 3 and nothing else.

Usage: recompute.py RUN MARGIN MIN_ROUNDS MAX_ROUNDS
Prints how many comparisons agree; ends with 1 and a line for each that doesn't.
"""

import json
import math
import sys
from statistics import NormalDist

ALPHA = 0.05


def beta_fraction(a, b, x):
    """The continued fraction of the incomplete beta function (Lentz's method)."""
    tiny, c = 1e-300, 1.0
    d = 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    h = d
    for m in range(1, 2000):
        for top in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + top * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + top / c
            c = c if abs(c) > tiny else tiny
            h *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    return h


def beta_share(a, b, x):
    """The regularised incomplete beta function."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    log = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x < (a + 1.0) / (a + b + 2.0):
        return math.exp(log) * beta_fraction(a, b, x) / a
    return 1.0 - math.exp(log) * beta_fraction(b, a, 1.0 - x) / b


def t_two_sided(t, df):
    """The chance of a larger |t|."""
    if math.isinf(df) or df > 1e6:
        return math.erfc(t / math.sqrt(2.0))
    return beta_share(df / 2.0, 0.5, df / (df + t * t))


def t_value(p, df):
    """The t whose two-sided chance is p."""
    low, high = 0.0, 1.0
    while t_two_sided(high, df) > p:
        high *= 2.0
    for _ in range(200):
        middle = (low + high) / 2.0
        low, high = (middle, high) if t_two_sided(middle, df) > p else (low, middle)
    return (low + high) / 2.0


def digamma(x):
    """By its recurrence and its asymptotic series."""
    total = 0.0
    while x < 20.0:
        total -= 1.0 / x
        x += 1.0
    return total + math.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4) - 1 / (252 * x**6)


def trigamma(x):
    total = 0.0
    while x < 20.0:
        total += 1.0 / x**2
        x += 1.0
    return total + 1 / x + 1 / (2 * x**2) + 1 / (6 * x**3) - 1 / (30 * x**5) + 1 / (42 * x**7)


def trigamma_inverse(value):
    low, high = 1e-6, 1e6
    while high / low > 1.0 + 1e-13:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if trigamma(middle) > value else (low, middle)
    return low


def prior(cases):
    """Smyth's prior with vtax's bounds: weight, degrees of freedom and variance, or None below three comparisons."""
    known = [(c["scatter"], c["n"] - 1) for c in cases if c["scatter"] > 0.0]
    if len(known) < 3:
        return None
    logs = [math.log(s) - digamma(d / 2) + math.log(d / 2) for s, d in known]
    m = len(logs)
    mean = sum(logs) / m
    found = sum((x - mean) ** 2 for x in logs) / (m - 1)
    kurtosis = sum((x - mean) ** 4 for x in logs) / m / found**2 if found > 0.0 else 0.0
    error = found * math.sqrt(max(kurtosis - (m - 3) / (m - 1), 0.5) / m)
    # One standard error of caution, and a weight of four at most, half of which is credited, none below ten comparisons.
    spread = found + error - sum(trigamma(d / 2) for _, d in known) / m
    weight = min(2.0 * trigamma_inverse(spread), 4.0) if spread > 0.0 else 4.0
    variance = math.exp(mean + digamma(weight / 2) - math.log(weight / 2))
    return (weight, weight / 2, variance) if m >= 10 else (0.0, 0.0, variance)


def levels(sides):
    """How far apart the two levels of a metric's trials are at most, as a logarithm; 0 where fewer than a fifth of its sides show two."""
    found = []
    for side in sides:
        if len(side) < 5 or min(side) <= 0.0:
            continue
        logs = sorted(math.log(v) for v in side)
        best = (0.0, 0.0)
        for k in range(2, len(logs) - 1):
            (low, a), (high, b) = moments(logs[:k]), moments(logs[k:])
            within = math.sqrt((a * (k - 1) + b * (len(logs) - k - 1)) / (len(logs) - 2))
            if within > 0.0:
                best = max(best, ((high - low) / within, high - low))
        found.append(best[1] if best[0] > 6.0 else None)
    clear = [f for f in found if f is not None]
    return max(clear) if clear and len(clear) >= 0.2 * len(found) else 0.0


def brackets(record):
    """Widths of what a record of the journal knows only to a bracket, as logarithms: capacities, and a benchmark's load."""
    number = lambda text: float(text.removesuffix("/s"))
    if isinstance(record, dict):
        low, high = record.get("lower"), record.get("upper")
        if isinstance(record.get("doc"), dict):
            low, high = record["doc"]["requested"], record.get("failed")
        if isinstance(low, str) and isinstance(high, str) and number(low) > 0.0:
            yield math.log(max(number(high) / number(low), 1.0))
        for value in record.values():
            yield from brackets(value)
    elif isinstance(record, list):
        for value in record:
            yield from brackets(value)


def resolution(metric, trials, journal):
    """Relative width within which a value could lie unseen: of a bracket, or of a histogram of three digits."""
    if metric in ("capacity", "doc"):
        return max((w for t in trials for w in brackets(journal[t])), default=0.0)
    histogram = metric.startswith(("latency_", "rtt_")) or metric == "lateness_p99"
    return 0.001 if histogram else 0.0


def moments(values):
    mean = math.fsum(values) / len(values)
    return mean, math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)


def memory(groups):
    """How many times larger a mean's variance is for what trials hand on to the next (docs/methodology.md, autocorrelation)."""
    found = []
    for values in groups:
        mean, variance = moments(values)
        if variance > 0.0 and len(values) >= 3:
            products = math.fsum((x - mean) * (y - mean) for x, y in zip(values, values[1:]))
            found.append((products / (variance * (len(values) - 1)), len(values)))
    if not found:
        return 1.0
    n = sum(size for _, size in found) / len(found)
    r = (sum(r for r, _ in found) / len(found) + 1.075 / n) * n / max(n - 4.0, 1.0)
    r = min(max(r, 0.0), 0.5 if n < 6 else 0.7 if n < 10 else 0.9)
    return (1.0 + r) / (1.0 - r)


def case(comparison, sides, journal):
    """A comparison from the values of both sides; None where it isn't made of rounds and has too many trials for Welch's t."""
    key = (comparison["measure"], comparison["metric"])
    ours, theirs = sides[(comparison["cell"], *key)], sides[(comparison["baseline"], *key)]
    sign = -1.0 if ours["better"] == "higher" else 1.0
    widths = [resolution(comparison["metric"], s["trials"], journal) for s in (ours, theirs)]
    unseen = sum(w * w for w in widths) / 12.0
    if comparison["rounds"] is None:
        a, b = ([math.log(v) for v in side["values"]] for side in (ours, theirs))
        if len(a) >= 6 and len(b) >= 6:
            return None
        parts = [(v / len(side), len(side)) for side, (_, v) in ((a, moments(a)), (b, moments(b)))]
        factor = memory((a, b))
        squared = factor * sum(p for p, _ in parts)
        df = squared**2 / sum((factor * p) ** 2 / (n - 1) for p, n in parts) if squared > 0.0 else math.inf
        mean = sign * (moments(a)[0] - moments(b)[0])
        n = min(len(a), len(b))
        return {"of": comparison, "mean": mean, "n": n, "scatter": 0.0, "unseen": unseen, "welch": (squared, df)}
    by_round = lambda side: {place(journal[t]): v for t, v in zip(side["trials"], side["values"])}
    a, b = by_round(ours), by_round(theirs)
    logs = [sign * math.log(a[r] / b[r]) for r in sorted(a) if r in b]
    mean, scatter = moments(logs)
    # Rounds that agree but for rounding have none.
    scatter = scatter if max(logs) - min(logs) > 1e-12 else 0.0
    return {"of": comparison, "mean": mean, "n": len(logs), "scatter": scatter, "unseen": unseen}


def place(trial):
    """The round of a trial; where the journal doesn't have it, its repetition."""
    return trial["measure"], trial["repetition"] if trial.get("round") is None else trial["round"]


def measure(c, shared, least, most, apart):
    """Adds the scatter's squared standard error, its degrees of freedom, the stretch for optional stopping, and what levels need."""
    df, squared = c["n"] - 1, c["scatter"] / c["n"]
    if "welch" in c:
        squared, df = c["welch"]
    elif shared and c["n"] <= 5:
        weight, lent, variance = shared
        squared = max(squared, (weight * variance / c["n"] + df * squared) / (weight + df), variance / 10 / c["n"])
        df += lent
    c["squared"], c["df"] = squared, df if squared > 0.0 else math.inf
    c["stretch"] = 1.0 + 2.5 / c["n"] if most > least and c["n"] > least else 1.0
    # Half the distance of two levels widens the 95 % interval, and others as they widen the scatter.
    c["levels"] = apart / 2.0 / t_value(ALPHA, c["df"]) if apart else 0.0


def reach(c, t, z):
    """How far so many standard errors of the scatter reach, and of what the resolution hides."""
    return c["stretch"] * math.hypot(t * math.sqrt(c["squared"]), z * math.sqrt(c["unseen"])) + t * c["levels"]


def half(c, level):
    return reach(c, t_value(level, c["df"]), t_value(level, math.inf))


def chance(c, distance):
    """The level whose interval ends so far away."""
    if distance <= 0.0:
        return 1.0
    if reach(c, 1.0, 1.0) == 0.0:
        return 0.0
    normal = lambda p: -NormalDist().inv_cdf(max(p, 1e-300) / 2.0)
    low, high = 0.0, 1.0
    beyond = lambda t: reach(c, t, normal(t_two_sided(t, c["df"])) if t > 0.0 else 0.0) > distance
    while not beyond(high) and high < 1e9:
        high *= 2.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (low, middle) if beyond(middle) else (middle, high)
    return t_two_sided((low + high) / 2.0, c["df"])


def claims(c, margin):
    """The p values of a difference, and of equality by two one-sided tests."""
    edge = math.log1p(margin)
    beyond = lambda d: chance(c, d)
    if c["of"]["tax"] is None:
        # Only its lower end is known, or only its upper one: it can be nothing but worse, or better.
        return beyond(c["mean"] if c["of"]["at_least"] is not None else -c["mean"]), 1.0
    return min(beyond(c["mean"]), beyond(-c["mean"])), max(beyond(c["mean"] + edge), beyond(edge - c["mean"]))


def hommel(p):
    """Hommel's adjusted p values (Wright, Biometrics 48, 1992)."""
    n = len(p)
    order = sorted(range(n), key=lambda i: p[i])
    ordered = [p[i] for i in order]
    adjusted = ordered[:]
    for m in range(n, 1, -1):
        c = min(m * ordered[n - m + k] / (k + 1) for k in range(m))
        for i in range(n):
            bound = c if i >= n - m else min(c, m * ordered[i])
            adjusted[i] = max(adjusted[i], bound)
    result = [0.0] * n
    for place, i in enumerate(order):
        result[i] = adjusted[place]
    return result


def differences(c, different, equal):
    """What of a comparison isn't as it was computed here."""
    of = c["of"]
    near = lambda a, b: abs(math.log(a / b)) < 5e-5 * max(half(c, ALPHA), 1e-9) + 1e-7
    ends = lambda h: (math.exp(c["mean"] - h), math.exp(c["mean"] + h))
    bound = of["tax"] is None
    if bound:
        name, here = ("at_least", ends(half(c, ALPHA))[0]) if of["at_least"] is not None else ("at_most", ends(half(c, ALPHA))[1])
        if not near(of[name], here):
            yield f"{name} {of[name]} is {here}"
    elif not near(of["tax"], math.exp(c["mean"])):
        yield f"tax {of['tax']} is {math.exp(c['mean'])}"
    for name, level in (("interval", ALPHA), ("corrected", of["level"])):
        if bound:
            break
        here = ends(half(c, level))
        if any(abs(math.log(a / b)) > 1e-5 * half(c, level) + 1e-9 for a, b in zip(of[name], here)):
            yield f"{name} {of[name]} is {here}"
    here = "equivalent" if equal else "inconclusive"
    if different and not equal:
        here = "worse" if c["mean"] > 0.0 else "better"
    judged_elsewhere = of["doubt"] in ("drifted", "below-detectable")
    if here != of["verdict"] and not judged_elsewhere:
        yield f"verdict {of['verdict']} is {here}"


def main():
    run, margin, least, most = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    with open(f"{run}/summary.json", encoding="utf-8") as file:
        summary = json.load(file)
    journal = {}
    with open(f"{run}/journal.jsonl", encoding="utf-8") as file:
        for line in file:
            entry = json.loads(line)
            if entry["event"] == "trial-ended":
                journal[entry["index"]] = entry
    sides = {}
    for cell in summary["cells"]:
        for metric, figures in cell["metrics"].items():
            if metric == "doc":
                # Told is the lower end of each bracket; taxes are of the middle.
                halves = [max(brackets(journal[t]), default=0.0) / 2.0 for t in figures["trials"]]
                middles = [v * math.exp(half) for v, half in zip(figures["values"], halves)]
                figures = dict(figures, values=middles)
            sides[(cell["cell"], cell["measure"], metric)] = figures
    families = {}
    for comparison in summary["comparisons"]:
        if comparison["family"] is not None:
            # Two families of one run differ in one of these; those of one comparison are one each.
            alone = len(families) if comparison["family"] == 1 else None
            key = (comparison["family"], comparison["asked_first"], alone)
            families.setdefault(key, []).append(case(comparison, sides, journal))
    # Of more than eight looks a fifth was spent on ending early.
    alpha = ALPHA * 0.8 if most - least + 1 > 8 else ALPHA
    checked, wrong = 0, []
    for cases in families.values():
        if None in cases:
            wrong.append(f"a family of {len(cases)} has intervals of resamples, which this can't check")
            continue
        for metric in {c["of"]["metric"] for c in cases}:
            alike = [c for c in cases if c["of"]["metric"] == metric]
            shared = prior(alike)
            own = {tuple(sides[(c["of"][of], c["of"]["measure"], metric)]["values"]) for c in alike for of in ("cell", "baseline")}
            apart = levels(own)
            for c in alike:
                measure(c, shared, least, most, apart)
        found = [claims(c, margin) for c in cases]
        shares = (1.0, 1.0) if len(cases) == 1 else (0.8, 0.4)
        told = [
            [p <= share * alpha for p in hommel([pair[kind] for pair in found])] for kind, share in enumerate(shares)
        ]
        for c, different, equal in zip(cases, *told):
            checked += 1
            of = c["of"]
            name = f"{of['cell']} {of['measure']} {of['metric']}"
            wrong.extend(f"{name}: {text}" for text in differences(c, different, equal))
    print(f"{checked} comparisons in {len(families)} families, {len(wrong)} differences")
    print("\n".join(wrong))
    sys.exit(1 if wrong or not checked else 0)


main()
