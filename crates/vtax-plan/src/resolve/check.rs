//! Checks that several keys share.

use vtax_units::{Bytes, Nanos, Rate, Share};

use crate::decode::{Item, Many};
use crate::diagnose::{Report, shorten};
use crate::model::{CapacityMeasure, Load};
use crate::raw::LoadRaw;
use crate::source::{Span, Spanned};

/// A measurement longer than this is taken for a slip.
pub(crate) const LONGEST: Nanos = Nanos::from_secs(24 * 3600);
/// A step shorter than this holds too few requests to judge.
pub(crate) const SHORTEST_STEP: Nanos = Nanos::from_millis(50);
/// No single machine offers more.
const HIGHEST_RATE: Rate = Rate(1e8);

/// Refuses names that would not do in an id, a label or a file name.
pub(crate) fn check_name(name: &Spanned<String>, report: &mut Report) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.value.is_empty() || name.value.len() > 60 || !name.value.chars().all(fits) {
        let shown = shorten(&name.value);
        report
            .error(name.span, format!("`{shown}` can't be a name"))
            .help("a name is 1 to 60 letters, digits, `-` and `_`");
    }
    name.value.clone()
}

/// Refuses 0 and what is above `most`.
pub(crate) fn count_in(count: &Spanned<u32>, none: &str, most: u32, report: &mut Report) -> u32 {
    check_count(count.value, count.span, none, most, report);
    count.value
}

pub(crate) fn check_count(value: u32, span: Span, none: &str, most: u32, report: &mut Report) {
    if value == 0 {
        report.error(span, format!("0 is too few: {none}"));
    } else if value > most {
        report.error(span, format!("{value} is too many: at most {most}"));
    }
}

/// Checks every value of a list of counts.
pub(crate) fn counts_in(counts: &Many<u32>, none: &str, most: u32, report: &mut Report) {
    for item in &counts.items {
        check_count(item.value, item.span, none, most, report);
    }
}

/// Which shares a key takes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shares {
    /// More than nothing, less than all.
    Part,
    /// All, too.
    UpToAll,
    /// Nothing, too.
    FromNothing,
}

/// Refuses shares that a key doesn't take.
pub(crate) fn share_in(share: &Spanned<Share>, key: &str, taken: Shares, report: &mut Report) -> Share {
    let value = share.value.0;
    let (fits, words) = match taken {
        Shares::Part => (value > 0.0 && value < 1.0, "above 0% and below 100%"),
        Shares::UpToAll => (value > 0.0 && value <= 1.0, "above 0% and at most 100%"),
        Shares::FromNothing => ((0.0..1.0).contains(&value), "at least 0% and below 100%"),
    };
    if !fits {
        report.error(share.span, format!("`{key}` must be {words}"));
    }
    share.value
}

/// Refuses durations outside of [`least`, `most`].
pub(crate) fn duration_in(
    duration: &Spanned<Nanos>,
    key: &str,
    least: Nanos,
    most: Nanos,
    report: &mut Report,
) -> Nanos {
    if duration.value < least || duration.value > most {
        let least = match least {
            Nanos::ZERO => String::new(),
            Nanos(1) => "more than 0s and ".to_owned(),
            least => format!("at least {least} and "),
        };
        report.error(duration.span, format!("`{key}` must be {least}at most {most}"));
    }
    duration.value
}

pub(crate) fn memory_in(memory: &Bytes, span: Span, least: Bytes, report: &mut Report) {
    let most = Bytes::from_mib(16 << 20);
    if *memory < least {
        report.error(span, format!("{memory} of memory is too little: at least {least}"));
    } else if *memory > most {
        report.error(span, format!("{memory} of memory is more than any host has: at most {most}"));
    }
}

/// Refuses shares of a capacity that isn't known, and loads that no machine offers.
pub(crate) fn check_load(load: &Item<LoadRaw>, capacity_found: bool, report: &mut Report) {
    let share = match load.value.0 {
        Load::Rate(rate) => return rate_in(&Spanned { value: rate, span: load.span }, report),
        Load::OwnCapacity(share) | Load::LowestCapacity(share) => share,
    };
    if !(share.0 > 0.0 && share.0 <= 5.0) {
        report.error(load.span, format!("a load is above 0% and at most {} of the capacity", Share(5.0)));
    }
    if !capacity_found {
        report.error(load.span, "no capacity is measured before this, so a share of it means nothing").help(
            "put `- capacity`, or `- ims` with SIP, above it in `measure`; or give a rate such as `1000/s`",
        );
    }
}

/// Refuses rates that no machine offers.
pub(crate) fn rate_in(rate: &Spanned<Rate>, report: &mut Report) {
    if !(rate.value.0 > 0.0 && rate.value <= HIGHEST_RATE) {
        report.error(rate.span, format!("a rate is above 0/s and at most {HIGHEST_RATE}"));
    }
}

/// Refuses highest rates of searches that no machine offers, or that lie below all rates that are tried.
pub(crate) fn highest_in(max: &Spanned<Rate>, report: &mut Report) {
    let (least, value) = (CapacityMeasure::LEAST_RATE, max.value);
    if value.0 > 0.0 && value < least {
        report
            .error(max.span, format!("a search has no rate up to {value}: none below {least} is tried"))
            .help(format!("set `max` to {least} or more; lower rates can be the `load` of `latency`"));
    } else {
        rate_in(max, report);
    }
}

/// Refuses port 0.
pub(crate) fn check_port(port: &Spanned<u16>, report: &mut Report) -> u16 {
    if port.value == 0 {
        report.error(port.span, "0 is no port to talk to").help("ports are 1 to 65535");
    }
    port.value
}

/// The name given, checked, or the kind's.
pub(crate) fn name_or(name: Option<&Spanned<String>>, default: &str, report: &mut Report) -> String {
    name.map_or_else(|| default.to_owned(), |name| check_name(name, report))
}
