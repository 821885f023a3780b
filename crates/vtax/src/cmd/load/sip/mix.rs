//! Scenarios and limits, as the command line has them.

use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use vtax_plan::model::{MixPart, Scenario, SipMetric};
use vtax_units::{Nanos, Share};

/// `SCENARIO`, or `SCENARIO=SHARE` separated by commas.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mix(Vec<(Scenario, Share)>);

impl Default for Mix {
    /// The mix of the study and of ETSI TS 186 008-2.
    fn default() -> Self {
        Self(vec![
            (Scenario::Calling, Share(0.5)),
            (Scenario::Messaging, Share(0.3)),
            (Scenario::ReRegistration, Share(0.15)),
            (Scenario::Registration, Share(0.025)),
            (Scenario::DeRegistration, Share(0.025)),
        ])
    }
}

impl Mix {
    /// Calls alone.
    pub(super) fn calls() -> Self {
        Self(vec![(Scenario::Calling, Share(1.0))])
    }

    /// As a workload has it.
    pub(super) fn parts(&self, ihs_limit: Share) -> Vec<MixPart> {
        let part =
            |(scenario, share): &(Scenario, Share)| MixPart { scenario: *scenario, share: *share, ihs_limit };
        self.0.iter().map(part).collect()
    }
}

impl FromStr for Mix {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts: Vec<(Scenario, Share)> = text.split(',').map(part).collect::<Result<_>>()?;
        let sum: f64 = parts.iter().map(|(_, share)| share.0).sum();
        ensure!((sum - 1.0).abs() < 1e-6, "the shares add up to {}, not 100%", Share(sum));
        for (i, (scenario, _)) in parts.iter().enumerate() {
            let again = parts[..i].iter().any(|(other, _)| other == scenario);
            ensure!(!again, "{} is there twice", scenario.name());
        }
        Ok(Self(parts))
    }
}

fn part(text: &str) -> Result<(Scenario, Share)> {
    let (name, share) = match text.split_once('=') {
        Some((name, share)) => (name, share.parse()?),
        None => (text, Share(1.0)),
    };
    let found = Scenario::ALL.into_iter().find(|s| s.name() == name);
    let names = || Scenario::ALL.map(Scenario::name).join(", ");
    Ok((found.with_context(|| format!("`{name}` is no scenario; there are {}", names()))?, share))
}

/// `METRIC=TIME`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Limit {
    pub(super) metric: SipMetric,
    pub(super) longest: Nanos,
}

impl FromStr for Limit {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, longest) = text.split_once('=').context("a limit is METRIC=TIME, such as ses1=2s")?;
        let short = |metric: &SipMetric| metric.name().trim_start_matches("PX_TRT-").to_ascii_lowercase();
        let found = SipMetric::ALL.into_iter().find(|m| short(m) == name.to_ascii_lowercase());
        let names = || SipMetric::ALL.map(|m| short(&m)).join(", ");
        let metric = found.with_context(|| format!("`{name}` is no metric; there are {}", names()))?;
        Ok(Self { metric, longest: longest.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_and_limits_are_read() {
        assert_eq!("calling".parse::<Mix>().unwrap(), Mix::calls());
        let mix: Mix = "calling=60%,messaging=0.4".parse().unwrap();
        assert_eq!(mix.0[1], (Scenario::Messaging, Share(0.4)));
        assert_eq!(Mix::default().parts(Share(0.1)).iter().map(|p| p.share.0).sum::<f64>(), 1.0);
        let limit: Limit = "SES1=2s".parse().unwrap();
        assert_eq!(limit, Limit { metric: SipMetric::Ses1, longest: Nanos::from_secs(2) });
        for text in ["", "dialling", "calling=60%", "calling=50%,calling=50%", "calling=x"] {
            assert!(text.parse::<Mix>().is_err(), "{text}");
        }
        for text in ["", "ses1", "ses9=1s", "ses1=x"] {
            assert!(text.parse::<Limit>().is_err(), "{text}");
        }
    }
}
