"""Prints the table of published.rs, by published implementations of the same:

    pip install confseq==0.0.11 ville==0.1.0 && python3 published.py

(Where confseq's part in C++ cannot be built, `src` of its sdist in PYTHONPATH is enough.)

confseq's diversified_betting_mart and ville's BettingTest play the stakes that wad-evidence plays,
on scores that have been brought from [-1, 1] to [0, 1]. A stake of s there is a bet of 2 s. ville has
no bets that stay the same, but bounds them: with an alpha near 0 all are at the bound.
"""

import numpy as np

np.float_ = np.float64  # confseq is of before numpy 2.

from confseq.betting import diversified_betting_mart
from ville import BettingTest
from ville.evalues import combine

STAKES = [0.9, 0.45, 0.225, 0.1125, 0.05625, 0.028125]

DIFFERENCES = [
    0.31, -0.12, 0.44, 0.05, 0.27, 1.9, -0.33, 0.18, 0.22, 0.09, 0.41, -0.07,
    0.36, 0.15, -2.4, 0.29, 0.11, 0.52, 0.02, 0.24, 0.33, -0.19, 0.48, 0.13,
    0.21, 0.38, 0.07, 0.3, -0.04, 0.26,
]


def scales(differences):
    """Twice the median step between those before; 0 while there are fewer than four."""
    steps = np.abs(np.diff(differences))
    before = [np.sort(steps[: max(n - 1, 0)]) for n in range(len(differences))]
    return np.array([2 * s[len(s) // 2] if len(s) >= 4 else 0.0 for s in before])


def scores(effect):
    left = np.array(DIFFERENCES) - effect
    with np.errstate(divide="ignore", invalid="ignore"):
        by_scale = np.clip(left / scales(DIFFERENCES), -1, 1)
    return np.where(left == 0, 0.0, by_scale)


def by_confseq(scores):
    bets = [lambda x, m, bet=2 * stake: np.repeat(bet, len(x)) for stake in STAKES]
    return diversified_betting_mart(
        (scores + 1) / 2, 0.5, lambdas_fns_positive=bets, theta=1, trunc_scale=1
    )


def by_ville(scores):
    each = [
        BettingTest(0.5, alternative="greater", alpha=1e-300, c=stake).fit((scores + 1) / 2).e_values_
        for stake in STAKES
    ]
    return combine(np.array(each), method="mean", axis=0)


def limit(sign, alpha):
    """The effect at which confseq's gain comes to 1/alpha."""
    refuted, possible = -9.0 * sign, 9.0 * sign
    for _ in range(100):
        middle = (refuted + possible) / 2
        if by_confseq(sign * scores(middle))[-1] >= 1 / alpha:
            refuted = middle
        else:
            possible = middle
    return possible


if __name__ == "__main__":
    for effect in [0.0, 0.2, -0.5]:
        confseq, ville = by_confseq(scores(effect)), by_ville(scores(effect))
        assert np.allclose(confseq, ville, rtol=1e-12, atol=0)
        for pairs in [1, 5, 12, 30]:
            print(f"    ({effect}, {pairs}, {confseq[pairs - 1]}, {ville[pairs - 1]}),")
    for alpha in [0.025, 0.1]:
        print(f"    ({alpha}, {limit(1, alpha)}, {limit(-1, alpha)}),")
