//! The rate of the CPU's cycle counter (TSC).

/// The rate of the cycle counter, in kHz, measured once in 20 ms; `None` where the CPU has none, or one whose rate changes
/// with the CPU's frequency.
#[must_use]
pub fn rate_khz() -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    {
        static RATE: std::sync::OnceLock<Option<u32>> = std::sync::OnceLock::new();
        *RATE.get_or_init(|| tsc::is_invariant().then(tsc::measured).flatten())
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

#[cfg(target_arch = "x86_64")]
mod tsc {
    use std::arch::x86_64::{__cpuid, _rdtsc};
    use std::thread;
    use std::time::{Duration, Instant};

    /// The two readings of one side lie some 50 ns apart, so this is exact to 10 ppm.
    const SPAN: Duration = Duration::from_millis(20);
    /// One of so many readings is not interrupted, on however busy a CPU.
    const READINGS: usize = 32;

    /// Whether the counter has one rate whatever the CPU does (CPUID 8000_0007h, EDX bit 8).
    pub(super) fn is_invariant() -> bool {
        const POWER: u32 = 0x8000_0007;
        cpuid(0x8000_0000).eax >= POWER && cpuid(POWER).edx & (1 << 8) != 0
    }

    fn cpuid(leaf: u32) -> std::arch::x86_64::CpuidResult {
        __cpuid(leaf)
    }

    fn counter() -> u64 {
        // SAFETY: RDTSC reads a register, and every x86-64 CPU has it. Where the system forbids it to programs it ends them
        // (prctl PR_SET_TSC), which is not for vtax.
        unsafe { _rdtsc() }
    }

    /// The counter and the time of one moment: the reading of several that took the shortest.
    fn moment() -> (Instant, u64) {
        let reading = |_| {
            let before = Instant::now();
            let counter = counter();
            (before.elapsed(), before, counter)
        };
        let best = (0..READINGS).map(reading).min_by_key(|(took, ..)| *took);
        let (took, before, counter) = best.expect("there is more than one reading");
        (before + took / 2, counter)
    }

    pub(super) fn measured() -> Option<u32> {
        let (from, first) = moment();
        thread::sleep(SPAN);
        let (to, last) = moment();
        let nanos = to.duration_since(from).as_nanos();
        let khz = u128::from(last.checked_sub(first)?) * 1_000_000 / nanos.max(1);
        // Slower or faster than any CPU is no counter of cycles.
        u32::try_from(khz).ok().filter(|khz| (100_000..=20_000_000).contains(khz))
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn two_measurements_agree_and_the_rate_is_kept() {
        let Some(kept) = rate_khz() else {
            assert!(!tsc::is_invariant(), "an invariant counter has a rate");
            return;
        };
        assert_eq!(rate_khz(), Some(kept));
        let again = tsc::measured().expect("it was measured before");
        // To a part in a thousand: a clock that is set right (adjtimex) may run 500 ppm off.
        assert!(again.abs_diff(kept) < kept / 1000, "{again} and {kept} kHz");
    }
}
