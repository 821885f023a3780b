//! What a trial's facts say of the routers on its path.

use vtax_router::Raised;
use vtax_units::fact;

/// All keys begin with `path.lab.`; times are in nanoseconds from the start of the bring-up.
pub(super) fn facts(raised: &Raised) -> Vec<(String, String)> {
    let mut facts: Vec<(String, String)> =
        raised.stages.iter().map(|(stage, at)| (fact::of_stage(stage.word()), at.0.to_string())).collect();
    facts.extend(raised.ttl.map(|ttl| (fact::PATH_LAB_TTL.to_owned(), ttl.to_string())));
    if !raised.labels.is_empty() {
        let labels: Vec<String> = raised.labels.iter().map(u32::to_string).collect();
        facts.push((fact::PATH_LAB_LABELS.to_owned(), labels.join(" ")));
    }
    if !raised.version.is_empty() {
        facts.push((fact::PATH_LAB_VERSION.to_owned(), raised.version.clone()));
    }
    facts
}

#[cfg(test)]
mod tests {
    use vtax_topology::expect::Stage;
    use vtax_units::Nanos;

    use super::*;

    #[test]
    fn each_stage_and_what_was_seen_is_told() {
        let raised = Raised {
            stages: vec![(Stage::Daemons, Nanos(5)), (Stage::LabelSessions, Nanos(9))],
            ttl: Some(62),
            labels: vec![17, 80],
            version: "zebra version 8.4.4".to_owned(),
        };
        let told: Vec<String> =
            facts(&raised).into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(
            told,
            [
                "path.lab.daemons_ns=5",
                "path.lab.label_sessions_ns=9",
                "path.lab.ttl=62",
                "path.lab.labels=17 80",
                "path.lab.version=zebra version 8.4.4",
            ]
        );
    }
}
