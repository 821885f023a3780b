//! Numbers for people: three significant digits, one unit, one style everywhere.

use vtax_stats::FAR;

/// A value with its unit, as `24.1k req/s`, `1.23 ms`, `41.2 µs/req`, `0.4 %`.
pub(crate) fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "ns" => duration(value),
        "ns/req" => format!("{}/req", duration(value)),
        "1" => format!("{} %", digits(value * 100.0)),
        "bit/s" => scaled(value, 1000.0, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]),
        "B/s" => scaled(value, 1000.0, &["B/s", "kB/s", "MB/s", "GB/s", "TB/s"]),
        "B" => scaled(value, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"]),
        "" => digits(value),
        _ => scaled_suffix(value, unit),
    }
}

/// A typical value, `24.1k req/s`; where of a trial only a lower bound is known it is one as well, `≥ 24.1k req/s`.
pub(crate) fn typical(value: f64, unit: &str, at_least: bool) -> String {
    let sign = if at_least { "≥ " } else { "" };
    format!("{sign}{}", quantity(value, unit))
}

/// An interval around a value that is printed beside it, in the same unit where that is possible:
/// `23.5k–24.8k`, `1.10–1.32`, else with units of its own: `905 µs–1.01 ms`. An end that is absurdly far says only that: `905 µs to > 10.0 s`.
pub(crate) fn range(center: f64, (low, high): (f64, f64), unit: &str) -> String {
    if is_far(center, low) || is_far(center, high) {
        let end = |value: f64| match is_far(center, value) {
            true if value > center => format!("> {}", quantity(center * FAR, unit)),
            true => format!("< {}", quantity(center / FAR, unit)),
            false => quantity(value, unit),
        };
        // A sign before a number and a dash don't go together.
        return format!("{} to {}", end(low), end(high));
    }
    let texts = [quantity(low, unit), quantity(high, unit), quantity(center, unit)];
    let parts: Vec<_> = texts.iter().filter_map(|t| t.split_once(' ')).collect();
    match parts.as_slice() {
        [(low, a), (high, b), (_, c)] if a == b && b == c => format!("{low}–{high}"),
        _ => format!("{}–{}", texts[0], texts[1]),
    }
}

/// Whether an end of an interval is so far from its centre that its number says nothing.
pub(crate) fn is_far(center: f64, end: f64) -> bool {
    center > 0.0 && end > 0.0 && !(1.0 / FAR..=FAR).contains(&(end / center))
}

/// A duration in nanoseconds.
pub(crate) fn duration(ns: f64) -> String {
    scaled(ns, 1000.0, &["ns", "µs", "ms", "s"])
}

/// A length of time that may be days: `40 s`, `25 min`, `3.5 h`.
pub(crate) fn long(ms: u64) -> String {
    let seconds = ms as f64 / 1000.0;
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// A tax, as `1.02x`, `38x`.
pub(crate) fn tax(ratio: f64) -> String {
    format!("{}x", ratio_digits(ratio))
}

/// What is known of a tax: itself, or what it is at least or at most: `1.02x`, `≥ 35x`, `≤ 0.80x`; empty where it is nothing.
pub(crate) fn known_tax(known: Option<f64>, at_least: Option<f64>, at_most: Option<f64>) -> String {
    match (known, at_least, at_most) {
        (Some(t), ..) => tax(t),
        (_, Some(t), _) => format!("≥ {}", tax(t)),
        (_, _, Some(t)) => format!("≤ {}", tax(t)),
        (None, None, None) => String::new(),
    }
}

/// A tax that is an end of what is possible: `38x`, `> 10000x`.
pub(crate) fn far_tax(ratio: f64) -> String {
    format!("{}x", far_digits(ratio))
}

fn far_digits(ratio: f64) -> String {
    match ratio {
        r if r > FAR => format!("> {FAR}"),
        r if r < 1.0 / FAR => format!("< {}", 1.0 / FAR),
        r => ratio_digits(r),
    }
}

/// The interval of a tax, as `0.98–1.06`.
pub(crate) fn tax_range(low: f64, high: f64) -> String {
    range_of((low, high), far_digits)
}

/// [`tax_range`] where a verdict was read off it: an end that rounding would put on an edge of the margin, or on 1, has a digit more,
/// so that one sees on which side of it it lies.
pub(crate) fn judged_range(interval: (f64, f64), margin: f64) -> String {
    range_of(interval, |ratio| judged_digits(ratio, margin))
}

/// [`tax`] with a digit more where [`judged_range`] has one.
pub(crate) fn judged_tax(ratio: f64, margin: f64) -> String {
    format!("{}x", judged_digits(ratio, margin))
}

fn judged_digits(ratio: f64, margin: f64) -> String {
    let told = far_digits(ratio);
    let looks_like = |edge: &f64| *edge != ratio && far_digits(*edge) == told;
    if ![1.0 / (1.0 + margin), 1.0, 1.0 + margin].iter().any(looks_like) {
        return told;
    }
    let decimals = told.split_once('.').map_or(0, |(_, decimals)| decimals.len()) + 1;
    format!("{ratio:.decimals$}")
}

fn range_of((low, high): (f64, f64), told: impl Fn(f64) -> String) -> String {
    match (told(low), told(high)) {
        (a, b) if a == b && low >= 1.995 => format!("{}–{}", digits(low), digits(high)),
        // A sign before a number and a dash don't go together.
        (a, b) if low < 1.0 / FAR || high > FAR => format!("{a} to {b}"),
        (a, b) => format!("{a}–{b}"),
    }
}

/// How much something is in units of another: `11x as much`, `1/8.6 as much`, `12 % more`, `as much`; of a time, as long.
pub(crate) fn much(ratio: f64, unit: &str) -> String {
    let (number, words) = parts(ratio, unit);
    if number.is_empty() { words.to_owned() } else { format!("{number} {words}") }
}

/// An end of what a ratio may be, where the other isn't known: `at most 1/35 as much`, `at least 2x as long`, `at least 41 % less`.
pub(crate) fn bounded(ratio: f64, is_upper: bool, unit: &str) -> String {
    // What is less is told by how much is missing, which grows as the ratio falls.
    let turned = matches!(parts(ratio, unit).1, "less" | "shorter");
    let word = if is_upper == turned { "at least" } else { "at most" };
    format!("{word} {}", much(ratio, unit))
}

/// [`much`] as a number, empty where there is nothing to count, and the words behind it.
fn parts(ratio: f64, unit: &str) -> (String, &'static str) {
    let time = unit.starts_with("ns");
    let as_much = if time { "as long" } else { "as much" };
    let (more, less) = if time { ("longer", "shorter") } else { ("more", "less") };
    match change(ratio).as_str() {
        "0 %" => (String::new(), as_much),
        times if times.contains(['x', '/']) => (times.to_owned(), as_much),
        share => match share.strip_prefix('−') {
            Some(share) => (share.to_owned(), less),
            None => (share.trim_start_matches('+').to_owned(), more),
        },
    }
}

/// [`parts`] of what is an end of an interval.
fn end_parts(ratio: f64, unit: &str) -> (String, &'static str) {
    let words = parts(ratio.clamp(1.0 / FAR, FAR), unit).1;
    (end(ratio, |ratio| parts(ratio, unit).0), words)
}

/// An end of an interval in words, where one that is absurdly far says only that: `more than 10000x`.
pub(crate) fn end(ratio: f64, words: impl Fn(f64) -> String) -> String {
    let told = words(ratio.clamp(1.0 / FAR, FAR));
    match ratio {
        r if r > FAR => format!("more than {told}"),
        r if r < 1.0 / FAR => format!("less than {told}"),
        _ => told,
    }
}

/// From how much to how much: `8.2x to 13x as much`, `5.0 % to 20 % less`, `between 6.0 % less and 49 % more`.
pub(crate) fn span(low: f64, high: f64, unit: &str) -> String {
    let (numbers, words) = span_parts(low, high, unit);
    words.map_or_else(|| numbers.clone(), |words| format!("{numbers} {words}"))
}

/// The same beside what it is the interval of, whose words aren't said again: `12 % more (3.0 % to 20 %)`.
pub(crate) fn much_within(ratio: f64, (low, high): (f64, f64), unit: &str) -> String {
    let (numbers, words) = span_parts(low, high, unit);
    let own = parts(ratio, unit).1;
    let said_again = words.filter(|words| *words != own);
    let interval = said_again.map_or_else(|| numbers.clone(), |words| format!("{numbers} {words}"));
    let much = much(ratio, unit);
    // Both ends are the same as that, as far as it is told.
    if span(low, high, unit) == much { much } else { format!("{much} ({interval})") }
}

/// Both ends, with the words behind them where they are the same.
fn span_parts(low: f64, high: f64, unit: &str) -> (String, Option<&'static str>) {
    let ((a, before), (b, behind)) = (end_parts(low, unit), end_parts(high, unit));
    if before != behind || a.is_empty() != b.is_empty() {
        let much = |number: &str, words| if number.is_empty() { words } else { format!("{number} {words}") };
        return (format!("between {} and {}", much(&a, before.into()), much(&b, behind.into())), None);
    }
    match (a == b, before) {
        (true, _) if a.is_empty() => (before.to_owned(), None),
        (true, _) => (a, Some(before)),
        // The smaller change first.
        (false, "less" | "shorter") => (format!("{b} to {a}"), Some(before)),
        (false, _) => (format!("{a} to {b}"), Some(before)),
    }
}

/// A change where room is short: `11x`, `1/8.6`, `+12 %`, `−3 %`.
pub(crate) fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0).abs() * 100.0;
    match ratio {
        r if r >= 1.995 => format!("{}x", plainly(r)),
        r if r <= 0.501 => format!("1/{}", plainly(1.0 / r)),
        _ if percent < 0.05 => "0 %".to_owned(),
        r => {
            let sign = if r > 1.0 { '+' } else { '−' };
            if percent >= 9.95 { format!("{sign}{percent:.0} %") } else { format!("{sign}{percent:.1} %") }
        }
    }
}

/// As a [`tax`], so that a sentence and a table say the same, without zeros behind the point.
fn plainly(ratio: f64) -> String {
    let text = ratio_digits(ratio);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Near 1 two decimals matter; far from it three digits are plenty.
fn ratio_digits(ratio: f64) -> String {
    match ratio {
        r if r >= 99.5 => digits(r),
        r if r >= 9.95 => format!("{r:.0}"),
        r if r >= 1.995 => format!("{r:.1}"),
        r if r >= 0.0995 => format!("{r:.2}"),
        r => digits(r),
    }
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut unit = 0;
    // 999.6 would print as 1000 of the smaller unit.
    while value.abs() >= step * 0.9995 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    format!("{} {}", digits(value), units[unit])
}

fn scaled_suffix(value: f64, unit: &str) -> String {
    let (mut value, mut suffix) = (value, "");
    // Below ten thousand a plain number reads better than a `k`.
    if value.abs() >= 9999.5 {
        for s in ["k", "M", "G", "T"] {
            value /= 1000.0;
            suffix = s;
            if value.abs() < 999.5 {
                break;
            }
        }
    }
    format!("{}{suffix} {unit}", digits(value))
}

/// Three significant digits without an exponent; a whole number keeps all of its digits.
pub(crate) fn digits(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "—".to_owned();
    }
    if size == 0.0 {
        return "0".to_owned();
    }
    let decimals = match size {
        s if s >= 99.95 => 0,
        s if s >= 9.995 => 1,
        s if s >= 0.9995 => 2,
        s => (2.0 - s.log10().floor()).clamp(0.0, 9.0) as usize,
    };
    format!("{value:.decimals$}")
}

/// As [`digits`], a whole number without decimals: counts, rates that a plan gives.
pub(crate) fn whole(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 { format!("{value:.0}") } else { digits(value) }
}

/// Two decimals; what isn't zero never looks like it.
pub(crate) fn fixed(value: f64) -> String {
    match value {
        v if !v.is_finite() => "—".to_owned(),
        v if v != 0.0 && v.abs() < 0.005 => if v > 0.0 { "<0.01" } else { ">-0.01" }.to_owned(),
        v => format!("{:.2}", v + 0.0),
    }
}

/// A round value at an axis: as a [`quantity`], without zeros that say nothing.
pub(crate) fn tick(value: f64, unit: &str) -> String {
    if value == 0.0 && unit != "1" {
        return "0".to_owned();
    }
    let text = quantity(value, unit);
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    match digits.contains('.') {
        true => format!("{}{rest}", digits.trim_end_matches('0').trim_end_matches('.')),
        false => text,
    }
}

/// A quantile as a percentage with all of its nines: `50 %`, `99.99 %`.
pub(crate) fn quantile_name(quantile: f64) -> String {
    let percent = format!("{:.5}", quantile * 100.0);
    format!("{} %", percent.trim_end_matches('0').trim_end_matches('.'))
}

/// A tax at an axis: `0.5x`, `1.05x`, `20x`.
pub(crate) fn tax_tick(ratio: f64) -> String {
    format!("{}x", tick(ratio, "").trim_end())
}

/// Date and time of milliseconds since 1970, in UTC: `2026-11-20 16:35:48 UTC`.
pub(crate) fn utc(unix_ms: u64) -> String {
    vtax_units::utc(unix_ms / 1000, "%Y-%m-%d %H:%M:%S UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_said_as_people_say_it() {
        for (ratio, long, short) in [
            (10.6, "11x as much", "11x"),
            (0.0953, "1/10 as much", "1/10"),
            (1.0 / 30.7, "1/31 as much", "1/31"),
            (2.47, "2.5x as much", "2.5x"),
            (1.12, "12 % more", "+12 %"),
            (0.968, "3.2 % less", "−3.2 %"),
            (1.0001, "as much", "0 %"),
        ] {
            assert_eq!((much(ratio, "req/s").as_str(), change(ratio).as_str()), (long, short));
        }
        assert_eq!(much(2.5, "ns"), "2.5x as long");
        assert_eq!(much(0.9, "ns"), "10 % shorter");
    }

    #[test]
    fn an_end_is_said_in_the_direction_of_its_words() {
        for (ratio, is_upper, text) in [
            (1.0 / 35.0, true, "at most 1/35 as much"),
            (0.59, true, "at least 41 % less"),
            (0.9, false, "at most 10 % less"),
            (1.2, true, "at most 20 % more"),
            (1.2, false, "at least 20 % more"),
            (2.5, false, "at least 2.5x as much"),
        ] {
            assert_eq!(bounded(ratio, is_upper, "req/s"), text);
        }
        assert_eq!(bounded(0.9, true, "ns"), "at least 10 % shorter");
    }

    #[test]
    fn a_span_is_said_as_people_say_it() {
        for (low, high, text) in [
            (8.2, 13.0, "8.2x to 13x as much"),
            (0.94, 1.49, "between 6.0 % less and 49 % more"),
            (0.8, 0.95, "5.0 % to 20 % less"),
            (1.03, 1.2, "3.0 % to 20 % more"),
            (0.2, 0.9, "between 1/5 as much and 10 % less"),
            (0.05, 0.125, "1/20 to 1/8 as much"),
            (1.1, 3.0, "between 10 % more and 3x as much"),
            (1.0, 1.49, "between as much and 49 % more"),
            (1.0, 1.0, "as much"),
            (1.2, 1.2, "20 % more"),
        ] {
            assert_eq!(span(low, high, "req/s"), text);
        }
        assert_eq!(span(0.8, 0.95, "ns"), "5.0 % to 20 % shorter");
        assert_eq!(span(4e-14, 1.2e13, "ns"), "less than 1/10000 to more than 10000x as long");
        assert_eq!(span(0.9, 1.2e13, "ns"), "between 10 % shorter and more than 10000x as long");
        assert_eq!(
            [end(1e-9, change), end(1e9, change), end(1.1, change)],
            ["less than 1/10000", "more than 10000x", "+10 %"]
        );
        assert_eq!(much_within(10.6, (8.2, 13.0), "ns"), "11x as long (8.2x to 13x)");
        assert_eq!(
            much_within(1.01, (0.97, 1.04), "ns"),
            "1.0 % longer (between 3.0 % shorter and 4.0 % longer)"
        );
        assert_eq!(much_within(1.0, (1.0, 1.0), "1"), "as much");
        assert_eq!(much_within(1.9, (1.2, 3.0), "ns"), "90 % longer (between 20 % longer and 3x as long)");
    }

    #[test]
    fn people_read_these() {
        for (value, unit, text) in [
            (24_123.0, "req/s", "24.1k req/s"),
            (640.0, "req/s", "640 req/s"),
            (9_999.4, "req/s", "9999 req/s"),
            (999_960.0, "req/s", "1.00M req/s"),
            (1_234_567.0, "ns", "1.23 ms"),
            (999_960.0, "ns", "1.00 ms"),
            (41_230.0, "ns/req", "41.2 µs/req"),
            (0.004, "1", "0.400 %"),
            (0.0, "1", "0 %"),
            (1_572_864.0, "B", "1.50 MiB"),
            (941_000_000.0, "bit/s", "941 Mbit/s"),
        ] {
            assert_eq!(quantity(value, unit), text);
        }
        assert_eq!(range(1.2e6, (1.1e6, 1.3e6), "ns"), "1.10–1.30");
        assert_eq!(range(1.2e6, (0.9e6, 1.3e6), "ns"), "900 µs–1.30 ms");
        assert_eq!(range(185e3, (13.5e3, 2.7e14), "ns"), "13.5 µs to > 1.85 s");
        assert_eq!(range(185e3, (0.1, 2.7e14), "ns"), "< 18.5 ns to > 1.85 s");
        assert!(!is_far(0.0, 2.7e14) && !is_far(1.0, 0.0), "nothing is a multiple of 0");
        assert_eq!(tick(2e6, "ns"), "2 ms");
        assert_eq!(tick(20_000.0, "req/s"), "20k req/s");
        assert_eq!(tax_tick(1.05), "1.05x");
        assert_eq!(quantile_name(0.9999), "99.99 %");
        assert_eq!(quantile_name(0.5), "50 %");
        assert_eq!(tax(1.018), "1.02x");
        assert_eq!(tax(38.4), "38x");
        let known =
            [(Some(1.2), None, None), (None, Some(1.2), None), (None, None, Some(0.8)), (None, None, None)];
        let known = known.map(|(tax, least, most)| known_tax(tax, least, most));
        assert_eq!(known, ["1.20x", "≥ 1.20x", "≤ 0.80x", ""]);
        assert_eq!(tax_range(17.6, 18.4), "17.6–18.4");
        assert_eq!(tax_range(35.1, 41.4), "35–41");
        assert_eq!(tax_range(0.0247, 1798.0), "0.0247–1798");
        assert_eq!(tax_range(2.5e-6, 180_842.0), "< 0.0001 to > 10000");
        assert_eq!([far_tax(12_481_840.0), far_tax(1.2)], ["> 10000x", "1.20x"]);
        assert_eq!(tax(0.0123), "0.0123x");
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(1_709_208_000_000), "2024-02-29 12:00:00 UTC");
    }

    /// An interval of 0.946 to 1.046 is not within 5 %, and must not be printed as 0.95 to 1.05.
    #[test]
    fn rounding_moves_no_end_onto_the_edge_of_the_margin() {
        let told = |low, high| judged_range((low, high), 0.05);
        assert_eq!(told(0.946, 1.046), "0.946–1.046");
        assert_eq!(told(0.93, 1.02), "0.93–1.02");
        assert_eq!(told(1.002, 1.3), "1.002–1.30");
        assert_eq!(told(1.0, 1.3), "1.00–1.30");
        assert_eq!(told(17.6, 18.4), tax_range(17.6, 18.4));
        assert_eq!(judged_range((0.3, 2.01), 1.0), "0.30–2.01");
        assert_eq!([judged_tax(1.052, 0.05), judged_tax(1.3, 0.05)], ["1.052x", "1.30x"]);
    }

    #[test]
    fn what_is_not_zero_does_not_look_like_it() {
        assert_eq!(fixed(0.0), "0.00");
        assert_eq!(fixed(0.004), "<0.01");
        assert_eq!(fixed(49.756), "49.76");
    }
}
