//! Numbers and bytes that look random and follow from a seed, the same on every machine and in every version. Not for secrets.

/// What [`SplitMix64`] adds from one number to the next: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The generator SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator whose numbers follow from `seed`.
    #[inline]
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        spread_bits(self.0)
    }
}

/// Spreads each bit of a number over all others (the finaliser of [`SplitMix64`]). No two numbers become one.
#[inline]
#[must_use]
pub const fn spread_bits(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The seed of one of several workers whose draws all follow from `seed`, but not from each other. Workers count from 0.
#[inline]
#[must_use]
pub const fn worker_seed(seed: u64, worker: usize) -> u64 {
    seed ^ (worker as u64 + 1).wrapping_mul(STEP)
}

/// Bytes that no compression makes shorter, the same each time (xorshift64: Marsaglia, "Xorshift RNGs", 2003).
#[must_use]
pub fn noise(size: usize) -> Vec<u8> {
    let mut state = STEP;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_forever() {
        // The first outputs of the authors' reference implementation for the seed 1234567.
        let mut random = SplitMix64::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.bits()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
        assert_eq!(SplitMix64::new(0).bits(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(spread_bits(0), 0);
        assert_eq!(spread_bits(1), 0x5692_161d_100b_05e5);
    }

    #[test]
    fn workers_have_the_seeds_that_they_always_had() {
        assert_eq!(worker_seed(0, 0), 0x9e37_79b9_7f4a_7c15);
        assert_eq!(worker_seed(7, 0), 0x9e37_79b9_7f4a_7c12);
        assert_eq!(worker_seed(7, 1), 0x3c6e_f372_fe94_f82d);
        assert_eq!(worker_seed(7, 2), 0xdaa6_6d2c_7ddf_7438);
        assert_eq!(worker_seed(u64::MAX, 255), 0xc886_4680_b583_eaff);
    }

    #[test]
    fn noise_is_the_same_each_time_and_even() {
        let first = [
            0xad, 0x4d, 0xf3, 0x0b, 0xae, 0x77, 0x1b, 0xdc, 0x76, 0x60, 0x6e, 0x02, 0xb9, 0xee, 0xf0, 0x64,
            0x36, 0x61, 0x90,
        ];
        assert_eq!(noise(19), first);
        assert!(noise(0).is_empty());
        let bytes = noise(100_000);
        assert_eq!(bytes.len(), 100_000);
        let mut counts = [0u32; 256];
        for byte in &bytes {
            counts[usize::from(*byte)] += 1;
        }
        // 390 expected each; six standard deviations are 119.
        assert!(counts.iter().all(|c| (271..=510).contains(c)), "{counts:?}");
    }
}
