//! G.711: 16-bit samples as bytes, after ITU-T G.711.

/// Which of the two laws.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Law {
    /// PCMU, payload type 0.
    Mu,
    /// PCMA, payload type 8.
    A,
}

/// Added to a sample before mu-law looks for its segment, and the largest sample it then has.
const BIAS: i32 = 0x84;
const CLIP: i32 = 32_635;

impl Law {
    /// Its payload type (RFC 3551 section 6).
    #[must_use]
    pub const fn payload_type(self) -> u8 {
        match self {
            Self::Mu => 0,
            Self::A => 8,
        }
    }

    /// A sample as a byte.
    #[must_use]
    pub fn encode(self, sample: i16) -> u8 {
        match self {
            Self::Mu => {
                let sign = if sample < 0 { 0x80 } else { 0 };
                let magnitude = i32::from(sample).abs().min(CLIP) + BIAS;
                // The segment is the place of the highest bit, which is bit 7 at least.
                let segment = 31 - magnitude.leading_zeros() - 7;
                let step = (magnitude >> (segment + 3)) & 0x0f;
                !(sign | (segment as u8) << 4 | step as u8)
            }
            Self::A => {
                let sign = if sample >= 0 { 0x80 } else { 0 };
                // Negative samples count from -1 on, so that there are as many of them.
                let whole = if sample >= 0 { i32::from(sample) } else { -(i32::from(sample) + 1) };
                // Of 13 bits with the sign.
                let magnitude = whole >> 3;
                let byte = if magnitude < 32 {
                    magnitude >> 1
                } else {
                    let segment = (31 - magnitude.leading_zeros() - 4) as i32;
                    segment << 4 | ((magnitude >> segment) & 0x0f)
                };
                (sign | byte as u8) ^ 0x55
            }
        }
    }

    /// The sample that a byte stands for.
    #[must_use]
    pub fn decode(self, byte: u8) -> i16 {
        match self {
            Self::Mu => {
                let byte = !byte;
                let (segment, step) = (u32::from(byte >> 4 & 7), i32::from(byte & 0x0f));
                let magnitude = (((step << 3) + BIAS) << segment) - BIAS;
                (if byte & 0x80 == 0 { magnitude } else { -magnitude }) as i16
            }
            Self::A => {
                let byte = byte ^ 0x55;
                let (segment, step) = (u32::from(byte >> 4 & 7), i32::from(byte & 0x0f));
                let magnitude = match segment {
                    0 => (step << 4) + 8,
                    _ => ((step << 4) + 0x108) << (segment - 1),
                };
                (if byte & 0x80 == 0 { -magnitude } else { magnitude }) as i16
            }
        }
    }
}

/// A tone of so many hertz, as so many samples of [`super::CLOCK`] per second, from that sample on.
pub fn tone(law: Law, hertz: f64, from: u64, out: &mut [u8]) {
    for (sample, byte) in (from..).zip(out) {
        let phase = std::f64::consts::TAU * hertz * (sample as f64) / f64::from(super::CLOCK);
        *byte = law.encode((phase.sin() * 8_000.0) as i16);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_that_of_its_sample() {
        for byte in 0..=u8::MAX {
            // Two bytes of mu-law stand for 0.
            if byte != 0x7f {
                assert_eq!(Law::Mu.encode(Law::Mu.decode(byte)), byte, "mu {byte:#x}");
            }
            assert_eq!(Law::A.encode(Law::A.decode(byte)), byte, "A {byte:#x}");
        }
    }

    #[test]
    fn samples_come_back_within_half_a_step() {
        for law in [Law::Mu, Law::A] {
            for sample in (i16::MIN..=i16::MAX).step_by(7) {
                let (own, back) = (f64::from(sample), f64::from(law.decode(law.encode(sample))));
                // Half a step is less than a 24th of any sample in it, and at most 8 near 0.
                let most = (own.abs() / 24.0).max(8.0);
                assert!((own - back).abs() <= most, "{law:?} {own} {back}");
            }
        }
    }

    #[test]
    fn silence_and_the_largest_samples_are_the_known_bytes() {
        assert_eq!((Law::Mu.encode(0), Law::A.encode(0)), (0xff, 0xd5));
        assert_eq!((Law::Mu.encode(i16::MAX), Law::A.encode(i16::MAX)), (0x80, 0xaa));
        assert_eq!((Law::Mu.encode(i16::MIN), Law::A.encode(i16::MIN)), (0x00, 0x2a));
        let mut bytes = [0; 160];
        tone(Law::A, 1_000.0, 0, &mut bytes);
        assert!(bytes[0] == 0xd5 && bytes[2] != bytes[0] && bytes[8..16] == bytes[16..24]);
    }
}
