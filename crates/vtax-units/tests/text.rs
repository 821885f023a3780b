//! Every quantity prints as text that reads back as itself, and no text makes a parser panic.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use proptest::prelude::*;
use vtax_units::{BitRate, Bytes, CpuSet, Nanos, Rate, Share, UnitError};

/// Prints, reads back, and goes through JSON.
fn round_trip<T>(value: &T) -> Result<(), TestCaseError>
where
    T: Debug
        + Display
        + PartialEq
        + FromStr<Err = UnitError>
        + serde::Serialize
        + serde::de::DeserializeOwned,
{
    let text = value.to_string();
    prop_assert_eq!(&text.parse::<T>().map_err(|e| TestCaseError::fail(e.to_string()))?, value);
    let json = serde_json::to_string(value).unwrap();
    prop_assert_eq!(&json, &format!("\"{text}\""));
    prop_assert_eq!(&serde_json::from_str::<T>(&json).unwrap(), value);
    Ok(())
}

/// Whole numbers of every size, often round ones.
fn integers() -> impl Strategy<Value = u64> {
    let round = (0u64..1 << 20, prop::sample::select(vec![1, 1000, 1_000_000, 1 << 10, 1 << 30]));
    prop_oneof![any::<u64>(), 0u64..100_000, round.prop_map(|(n, factor)| n * factor), Just(u64::MAX)]
}

proptest! {
    #[test]
    fn whole_quantities_round_trip(n in integers()) {
        round_trip(&Nanos(n))?;
        round_trip(&Bytes(n))?;
        round_trip(&BitRate(n))?;
    }

    #[test]
    fn rates_round_trip(rate in prop_oneof![0.0..1e15, 0.0..1000.0, (0u32..1_000_000).prop_map(f64::from)]) {
        round_trip(&Rate(rate))?;
    }

    #[test]
    fn shares_round_trip_to_a_millionth_of_a_percent(percent in 0u64..1_000_000_000_000) {
        let share = Share(percent as f64 / 1e8);
        let back: Share = share.to_string().parse().unwrap();
        prop_assert!((back.0 - share.0).abs() <= 1e-8 * share.0.max(1e-2), "{share:?} {share} {back:?}");
        prop_assert_eq!(back.to_string(), share.to_string());
    }

    #[test]
    fn cpu_sets_round_trip(cpus in prop::collection::btree_set(0usize..8192, 0..40)) {
        round_trip(&CpuSet::of(cpus))?;
    }

    #[test]
    fn no_text_panics(text in prop_oneof![any::<String>(), "[-0-9._ ]{0,30}[a-zA-Zµμ/%]{0,4}", "[0-9,-]{0,20}"]) {
        let _ = text.parse::<Nanos>();
        let _ = text.parse::<Bytes>();
        let _ = text.parse::<Rate>();
        let _ = text.parse::<BitRate>();
        let _ = text.parse::<Share>();
        let _ = text.parse::<CpuSet>();
    }

    #[test]
    fn what_is_read_is_finite_and_not_negative(text in "[0-9]{0,400}\\.?[0-9]{0,400}(/s|M/s|%|k)?") {
        if let Ok(rate) = text.parse::<Rate>() {
            prop_assert!(rate.0.is_finite() && rate.0 >= 0.0);
        }
        if let Ok(share) = text.parse::<Share>() {
            prop_assert!(share.0.is_finite() && share.0 >= 0.0);
        }
    }
}

#[test]
fn durations_are_read_as_people_write_them() {
    for (text, nanos) in [
        ("40ms", 40_000_000),
        ("1m30s", 90_000_000_000),
        ("1h 2m 3s", 3_723_000_000_000),
        ("1.5s", 1_500_000_000),
        ("250us", 250_000),
        ("250\u{b5}s", 250_000),
        ("250\u{3bc}s", 250_000),
        ("0", 0),
        (" 2 s ", 2_000_000_000),
    ] {
        assert_eq!(text.parse::<Nanos>().unwrap(), Nanos(nanos), "{text}");
    }
    assert_eq!(Nanos(250_000).to_string(), "250us");
}

#[test]
fn sizes_and_rates_are_read_as_people_write_them() {
    assert_eq!("1.5KiB".parse::<Bytes>().unwrap(), Bytes(1536));
    assert_eq!("10k".parse::<Bytes>().unwrap(), Bytes(10_000));
    assert_eq!("2TiB".parse::<Bytes>().unwrap(), Bytes(2 << 40));
    assert_eq!("20k/s".parse::<Rate>().unwrap(), Rate(20_000.0));
    assert_eq!("120/min".parse::<Rate>().unwrap(), Rate(2.0));
    assert_eq!("0.5".parse::<Share>().unwrap(), Share(0.5));
    assert_eq!("7%".parse::<Share>().unwrap().to_string(), "7%");
    assert_eq!("1000%".parse::<Share>().unwrap(), Share(10.0));
    assert_eq!("0".parse::<Share>().unwrap(), Share(0.0));
    assert_eq!("984.4mbit".parse::<BitRate>().unwrap(), BitRate(984_400_000));
}

#[test]
fn a_refusal_says_what_was_expected_and_why() {
    for (error, expected) in [
        (
            "5".parse::<Nanos>().unwrap_err(),
            "`5` is not a duration such as 40ms, 2s or 1m30s: the unit is missing",
        ),
        ("5sec".parse::<Nanos>().unwrap_err(), "`sec` is not a unit of time (ns, us, "),
        ("-5s".parse::<Nanos>().unwrap_err(), "it is negative"),
        ("".parse::<Nanos>().unwrap_err(), "it is empty"),
        ("99999999999h".parse::<Nanos>().unwrap_err(), "it is too large"),
        ("1mb".parse::<Bytes>().unwrap_err(), "`mb` is not a unit of size (B, kB, "),
        ("1gb".parse::<BitRate>().unwrap_err(), "`gb` is not a unit of bit rate"),
        ("half".parse::<Share>().unwrap_err(), "it starts with no number"),
        (
            "10".parse::<Share>().unwrap_err(),
            "`10` is not a share such as 50% or 0.5: without `%` it is a fraction, which is below 1; did you mean `10%`?",
        ),
        ("1.0".parse::<Share>().unwrap_err(), "did you mean `1%` or `100%`?"),
        ("1.5".parse::<Share>().unwrap_err(), "did you mean `1.5%` or `150%`?"),
        ("99.9".parse::<Share>().unwrap_err(), "did you mean `99.9%`?"),
        ("3-1".parse::<CpuSet>().unwrap_err(), "`3-1` runs backwards"),
        ("9999".parse::<CpuSet>().unwrap_err(), "`9999` is not a CPU number"),
    ] {
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn numbers_in_json_are_taken_where_they_can_only_mean_one_thing() {
    assert_eq!(serde_json::from_str::<Bytes>("100").unwrap(), Bytes(100));
    assert_eq!(serde_json::from_str::<Rate>("2.5").unwrap(), Rate(2.5));
    assert!(serde_json::from_str::<Nanos>("5").is_err());
    assert_eq!(serde_json::from_str::<Share>("0.5").unwrap(), Share(0.5));
    for wrong in ["-0.5", "10", "1", "2.5"] {
        assert!(serde_json::from_str::<Share>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn times_are_told_as_people_say_them() {
    for (secs, text) in [
        (5, "5 s"),
        (99, "99 s"),
        (245, "4 min"),
        (250, "4 min 10 s"),
        (3_600, "1 h"),
        (7_300, "2 h 1 min"),
        (400_000, "4 days"),
    ] {
        assert_eq!(Nanos::from_secs(secs).about(), text);
    }
}
