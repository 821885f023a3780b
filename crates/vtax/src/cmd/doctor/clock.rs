//! The host's clocks: whether the time is right, is left alone, and costs little to read.

use std::fs;

use vtax_sys::check::{Check, name};
use vtax_sys::clock::{ClockChange, WallClock, unix_ms};
use vtax_sys::sched::monotonic;
use vtax_units::Nanos;

/// 2025 in UTC: a clock that says less was never set.
const SET_MS: u64 = 1_735_689_600_000;
/// Readings whose mean is told.
const READINGS: u32 = 10_000;
/// Where a reading takes longer, the kernel uses a clock that is no part of the processor.
const SLOW: Nanos = Nanos(1_000);

/// What was found out about a clock.
struct ClockFacts {
    /// The kernel's name for where it has the time from.
    source: String,
    /// What a reading takes.
    reading: Nanos,
    unix_ms: u64,
    /// How it was set while this looked at the host.
    change: Option<ClockChange>,
}

/// Looks at the clock, which was as `earlier` when the doctor began.
pub(super) fn check(earlier: &WallClock) -> Check {
    let source = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let begin = monotonic();
    for _ in 0..READINGS {
        std::hint::black_box(monotonic());
    }
    let reading = Nanos(monotonic().saturating_sub(begin).0 / u64::from(READINGS));
    let source = source.map_or_else(|_| "an unknown source".to_owned(), |text| text.trim().to_owned());
    judge(&ClockFacts { source, reading, unix_ms: unix_ms(), change: earlier.change() })
}

fn judge(found: &ClockFacts) -> Check {
    let ClockFacts { source, reading, unix_ms, change } = found;
    let name = name::CLOCK;
    if let Some(change) = change {
        return Check::degraded(
            name,
            format!("it was {change} just now: trials in which that happens don't count and are made again"),
            "let one service keep the time, and by small steps: `timedatectl` shows which does",
        );
    }
    if *unix_ms < SET_MS {
        let day = vtax_units::utc(unix_ms / 1_000, "%Y-%m-%d");
        return Check::degraded(
            name,
            format!("it says {day}: runs get wrong names and dates; what they measure is right all the same"),
            "set it: timedatectl set-time, or timedatectl set-ntp true",
        );
    }
    let takes = match reading.0 {
        ns if *reading > SLOW => format!("{:.1} µs", ns as f64 / 1e3),
        ns => format!("{ns} ns"),
    };
    if *reading > SLOW {
        return Check::degraded(
            name,
            format!("{source}: a reading takes {takes}, which every request pays several times"),
            "the kernel's log says why it uses no faster one: dmesg | grep -i clocksource",
        );
    }
    Check::ok(name, format!("{source}, {takes} a reading, not set meanwhile"))
}

#[cfg(test)]
mod tests {
    use vtax_sys::check::State;

    use super::*;

    #[test]
    fn a_clock_that_jumps_or_was_never_set_or_is_slow_is_told_with_what_helps() {
        let good =
            || ClockFacts { source: "tsc".to_owned(), reading: Nanos(30), unix_ms: 2 * SET_MS, change: None };
        let found = judge(&good());
        assert_eq!(
            (found.state, found.found.as_str()),
            (State::Ok, "tsc, 30 ns a reading, not set meanwhile")
        );
        for (bad, said) in [
            (
                ClockFacts { change: Some(ClockChange { by_ns: -3_600_000_000_000 }), ..good() },
                "set by -3600.000 s",
            ),
            (ClockFacts { unix_ms: 86_400_000, ..good() }, "it says 1970-01-02"),
            (
                ClockFacts { source: "acpi_pm".to_owned(), reading: Nanos(3_100), ..good() },
                "acpi_pm: a reading takes 3.1",
            ),
        ] {
            let found = judge(&bad);
            assert_eq!(found.state, State::Degraded, "{found:?}");
            assert!(found.found.contains(said) && found.fix.is_some(), "{found:?}");
        }
    }

    #[test]
    fn this_hosts_clock_is_looked_at() {
        let found = check(&WallClock::look());
        assert_eq!(found.name, name::CLOCK);
        // Where it has the time from comes first, or what is wrong with it.
        let first = found.found.split([',', ':']).next().unwrap_or_default();
        assert!(!first.trim().is_empty(), "{found:?}");
        assert_eq!(found.state == State::Degraded, found.fix.is_some(), "{found:?}");
    }
}
