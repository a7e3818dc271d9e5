//! Noise as paths have it, which a seed decides.

use std::f64::consts::TAU;

/// Numbers by chance (SplitMix64).
pub struct Chance(u64);

impl Chance {
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    /// Returns a number from 0 to 1, without both.
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((mixed ^ (mixed >> 31)) >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// Returns one of mean 0 and deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (TAU * self.uniform()).cos()
    }

    /// Returns one of Student's t of two degrees: its variance is infinite.
    pub fn heavy(&mut self) -> f64 {
        let chi_square = -2.0 * self.uniform().ln();
        self.normal() / (chi_square / 2.0).sqrt()
    }
}

/// Kinds of noise, in which one block after the other stands.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Each block for itself.
    Independent,
    /// Much as the block before: a correlation of 0.9.
    Correlated,
    /// Each for itself, and some far out, without a variance.
    Heavy,
    /// A day of 288 blocks, of which the best is 2.7 times as good as the worst; half of the rest
    /// is as in the block before, and some are far out.
    Daily,
}

pub const KINDS: [Kind; 4] = [Kind::Independent, Kind::Correlated, Kind::Heavy, Kind::Daily];

/// Noise of one path.
pub struct Noise {
    kind: Kind,
    chance: Chance,
    block: u32,
    level: f64,
}

impl Noise {
    pub fn new(kind: Kind, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let level = chance.normal();
        Self { kind, chance, block: 0, level }
    }

    /// Returns that of the next block: of deviation 1, where it has any.
    pub fn next(&mut self) -> f64 {
        self.block += 1;
        let correlation: f64 = if matches!(self.kind, Kind::Correlated) { 0.9 } else { 0.5 };
        self.level = correlation * self.level
            + (1.0 - correlation * correlation).sqrt() * self.chance.normal();
        match self.kind {
            Kind::Independent => self.chance.normal(),
            Kind::Correlated => self.level,
            Kind::Heavy => self.chance.heavy(),
            Kind::Daily => {
                let day = 2.5 * (TAU * f64::from(self.block) / 288.0).sin();
                day + 0.7 * self.level + 0.5 * self.chance.heavy()
            }
        }
    }
}
