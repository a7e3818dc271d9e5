//! The bets and the limits, held against published implementations of the same on inputs that
//! all share. `published.py` beside this has made the tables, by confseq 0.0.11 and ville 0.1.0.

use wad_evidence::{
    bets::Bets,
    differences::{Differences, Side, score},
};

/// As in the script.
const DIFFERENCES: [f64; 30] = [
    0.31, -0.12, 0.44, 0.05, 0.27, 1.9, -0.33, 0.18, 0.22, 0.09, 0.41, -0.07, 0.36, 0.15, -2.4,
    0.29, 0.11, 0.52, 0.02, 0.24, 0.33, -0.19, 0.48, 0.13, 0.21, 0.38, 0.07, 0.3, -0.04, 0.26,
];

/// The effect that is bet against, the pairs, and what 1 has become by confseq and by ville.
const GAINS: [(f64, usize, f64, f64); 12] = [
    (0.0, 1, 1.2953125, 1.2953125),
    (0.0, 5, 1.5166267265887556, 1.5166267265887559),
    (0.0, 12, 2.2816226359743252, 2.2816226359743252),
    (0.0, 30, 5.140776322662655, 5.1407763226626555),
    (0.2, 1, 1.2953125, 1.2953125),
    (0.2, 5, 0.8759168346790969, 0.875916834679097),
    (0.2, 12, 0.8714483839962297, 0.8714483839962298),
    (0.2, 30, 0.7348466747558116, 0.7348466747558117),
    (-0.5, 1, 1.2953125, 1.2953125),
    (-0.5, 5, 6.349478821030109, 6.349478821030111),
    (-0.5, 12, 106.33949263136789, 106.33949263136799),
    (-0.5, 30, 111040.51981963923, 111040.51981963939),
];

/// Alpha, and the effects at which the gain of confseq comes to its inverse.
const LIMITS: [(f64, f64, f64); 2] = [
    (0.025, -0.11999999999999998, 0.43999999999999995),
    (0.1, -0.0543089026833154, 0.4102330385478818),
];

const EXACTNESS: f64 = 1e-9;

#[test]
fn gains_are_those_of_confseq_and_ville() {
    for (effect, pairs, confseq, ville) in GAINS {
        let (mut bets, mut before) = (Bets::default(), Differences::default());
        for difference in &DIFFERENCES[..pairs] {
            bets.take(score(difference - effect, before.next_scale()));
            before.add(*difference);
        }
        for published in [confseq, ville] {
            let gain = bets.gain_ln().exp();
            assert!((gain / published - 1.0).abs() < EXACTNESS, "{effect} {pairs}: {gain}");
        }
    }
}

#[test]
fn limits_are_where_the_gain_of_confseq_comes_to_the_inverse_of_alpha() {
    let differences = Differences::of(DIFFERENCES);
    for (alpha, least, most) in LIMITS {
        for (side, published) in [(Side::Least, least), (Side::Most, most)] {
            let limit = differences.limit(side, alpha).unwrap();
            assert!((limit - published).abs() < EXACTNESS, "{side:?} {alpha}: {limit}");
        }
    }
}
