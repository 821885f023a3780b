//! Offered load as written.

use vtax_units::Share;

use crate::decode::{Decode, scalar};
use crate::diagnose::{Report, nearest};
use crate::model;
use crate::tree::Node;

words! {
    /// Arrival process.
    ArrivalsRaw(model::ArrivalProcess) = "arrival process", "processes" {
        "poisson": Poisson, "Exponential gaps, as independent clients make them.";
        "constant": Constant, "Equal gaps.";
    }
}

/// Offered load of a latency measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadRaw(pub(crate) model::Load);

/// What a load looks like, for messages and the schema.
const LOAD: &str = "a load such as `50% of capacity`, `50% of lowest capacity` or `1000/s`";

impl Decode for LoadRaw {
    fn decode(node: &Node, report: &mut Report) -> Option<Self> {
        // `50 % of capacity` is written as well.
        let text = scalar(node, LOAD, report)?.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = text.replacen(" %", "%", 1);
        let words: Vec<&str> = text.split_whitespace().collect();
        let (share, of_lowest) = match words.as_slice() {
            [rate] if !rate.ends_with('%') => {
                if let Some(meant) = without_unit(rate) {
                    report
                        .error(node.span, format!("`{rate}` is a rate without its unit"))
                        .help(format!("did you mean {meant}?"));
                    return None;
                }
                let parsed = rate.parse().map(model::Load::Rate);
                if let Err(error) = &parsed {
                    let error: &vtax_units::UnitError = error;
                    report.error(node.span, format!("`{rate}` is not {LOAD}: {}", error.reason));
                }
                return parsed.ok().map(Self);
            }
            [share, "of", "capacity"] | [share, "of", "own", "capacity"] => (*share, false),
            [share, "of", "lowest"] | [share, "of", "lowest", "capacity"] => (*share, true),
            words => {
                let near = words.iter().find_map(|w| nearest(w, ["capacity", "lowest"]));
                let entry = report.error(node.span, format!("{} is not {LOAD}", node.describe()));
                match (words, near) {
                    ([share], _) => _ = entry.help(format!("{share} of what? write `{share} of capacity`")),
                    (_, Some(word)) => _ = entry.help(format!("did you mean `{word}`?")),
                    _ => {}
                }
                return None;
            }
        };
        match share.parse() {
            Ok(share) if of_lowest => Some(Self(model::Load::LowestCapacity(share))),
            Ok(share) => Some(Self(model::Load::OwnCapacity(share))),
            Err(error) => {
                report.error(node.span, vtax_units::UnitError::to_string(&error));
                None
            }
        }
    }
}

/// What a bare number may have been meant to be; `None` where it is something else.
fn without_unit(text: &str) -> Option<String> {
    if !text.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    // A fraction below 1 is a share as it is.
    if let Some(share) = text.parse::<Share>().ok().filter(|share| share.0 > 0.0) {
        return Some(format!("`{share} of capacity`, or `{text}/s`"));
    }
    let of_capacity = if number <= 100.0 { format!(", or `{text}% of capacity`") } else { String::new() };
    Some(format!("`{text}/s`{of_capacity}"))
}

scalar_schema! { LoadRaw: "Load", "string", LOAD, ["50% of capacity", "50% of lowest capacity", "1000/s"] }
