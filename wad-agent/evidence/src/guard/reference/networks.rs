//! References of the networks at the other ends of flows.

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use super::LEAST;
use crate::guard::signal::{Measured, Network, Reading};

/// Networks that are known: those are forgotten first that have shown nothing for longest.
const MOST_NETWORKS: usize = 32;

/// Values of which a mean is made; from then on each has so large a part in it.
const MOST_VALUES: u32 = 24;

/// The goodput of all, that of one, octets sent again, the RTT.
const MEANS: usize = 4;

/// The networks, those that have shown something last at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Networks(Vec<OfNetwork>);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfNetwork {
    network: Network,
    means: [Mean; MEANS],
}

/// The mean of logarithms of the newest values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mean {
    values: u32,
    ln: f64,
}

fn values(reading: &Reading) -> [Option<f64>; MEANS] {
    [
        reading.of(Measured::Goodput),
        reading.of_one(Measured::Goodput),
        reading.of(Measured::Resent),
        reading.of(Measured::RttInflation),
    ]
}

/// Returns the places of a measure.
const fn places(measured: Measured) -> &'static [usize] {
    match measured {
        Measured::Goodput => &[0, 1],
        Measured::Resent => &[2],
        Measured::RttInflation => &[3],
    }
}

impl Networks {
    /// Takes what flows to a network have shown.
    pub fn learn(&mut self, network: Network, reading: &Reading) {
        let means = self.seen(network);
        for (mean, value) in means.iter_mut().zip(values(reading)) {
            value.into_iter().for_each(|value| mean.add(value.ln()));
        }
    }

    /// Does so as long as little is known of it.
    pub fn meet(&mut self, network: Network, reading: &Reading) {
        let means = self.seen(network);
        for (mean, value) in means.iter_mut().zip(values(reading)) {
            if mean.values < MOST_VALUES {
                value.into_iter().for_each(|value| mean.add(value.ln()));
            }
        }
    }

    /// Has what comes hereafter count for more than what was.
    pub fn fade(&mut self) {
        let Self(all) = self;
        let means = all.iter_mut().flat_map(|of| &mut of.means);
        means.for_each(|mean| mean.values = mean.values.min(LEAST as u32));
    }

    /// Returns how much worse flows are to networks that are known, in the mean of these: as a
    /// logarithm. None where none is known.
    pub fn worse_ln(&self, measured: Measured, now: &[(Network, Reading)]) -> Option<f64> {
        let Self(all) = self;
        let of_network = |(network, reading): &(Network, Reading)| {
            let known = all.iter().find(|of| of.network == *network)?;
            let values = values(reading);
            let worse_ln = |place: &usize| {
                let before_ln = known.means[*place].known()?;
                Some(measured.worse_ln(values[*place]?.ln(), before_ln))
            };
            places(measured).iter().filter_map(worse_ln).reduce(f64::min)
        };
        let known = now.iter().filter_map(of_network);
        let (sum_ln, networks) =
            known.fold((0.0, 0_u32), |(sum, n), worse_ln| (sum + worse_ln, n + 1));
        (networks > 0).then(|| sum_ln / f64::from(networks))
    }

    fn seen(&mut self, network: Network) -> &mut [Mean; MEANS] {
        let Self(all) = self;
        let place = all.iter().position(|of| of.network == network);
        let of = match place {
            Some(place) => all.remove(place),
            None => OfNetwork { network, ..OfNetwork::default() },
        };
        if all.len() == MOST_NETWORKS {
            all.remove(0);
        }
        all.push(of);
        let last = all.len() - 1;
        &mut all[last].means
    }
}

impl Mean {
    fn add(&mut self, ln: f64) {
        self.values = (self.values + 1).min(MOST_VALUES);
        self.ln += (ln - self.ln) / f64::from(self.values);
    }

    fn known(&self) -> Option<f64> {
        (self.values >= LEAST as u32).then_some(self.ln)
    }
}

impl<'de> Deserialize<'de> for Networks {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let all = Vec::<OfNetwork>::deserialize(from)?;
        let is_mean = |mean: &Mean| mean.values <= MOST_VALUES && mean.ln.is_finite();
        let are_kept =
            all.len() <= MOST_NETWORKS && all.iter().flat_map(|of| &of.means).all(is_mean);
        are_kept.then_some(Self(all)).ok_or_else(|| D::Error::custom("no such networks are kept"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_are_forgotten_that_show_nothing() {
        let mut networks = Networks::default();
        let reading = Reading { resent: Some(0.0), ..Reading::default() };
        let known = |networks: &Networks, of| {
            networks.worse_ln(Measured::Resent, &[(of, reading)]).is_some()
        };
        for _ in 0..LEAST {
            (0..32).for_each(|network| networks.learn(network, &reading));
        }
        assert!((0..32).all(|network| known(&networks, network)));
        networks.meet(0, &reading);
        networks.learn(99, &reading);
        assert!(known(&networks, 0) && !known(&networks, 1) && !known(&networks, 99));
    }

    #[test]
    fn a_mean_is_of_the_newest() {
        let mut mean = Mean::default();
        (0..1_000).for_each(|_| mean.add(1.0));
        assert!((mean.ln - 1.0).abs() < 1e-9);
        (0..100).for_each(|_| mean.add(3.0));
        assert!(mean.ln > 2.9, "{}", mean.ln);
    }
}
