//! Whether the kernels of the environments have sockets begin with the same: an algorithm by which TCP sends, or a largest buffer,
//! may cost more than a layer does.

use std::collections::{BTreeMap, BTreeSet};

use crate::data::RunData;

/// What differs between the systems under test, and where it is what; `None` where all is the same, or isn't known.
pub(crate) fn note(data: &RunData) -> Option<String> {
    // Environments by value, by setting.
    let mut settings: BTreeMap<&str, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    for (node, facts) in &data.provenance.nodes {
        let Some((environment, _)) = node.split_once('/').filter(|(_, role)| role.starts_with("sut")) else {
            continue;
        };
        for (setting, value) in &facts.sockets {
            settings.entry(setting).or_default().entry(value).or_default().insert(environment);
        }
    }
    let differing = settings.into_iter().filter(|(_, values)| values.len() > 1);
    let told: Vec<String> = differing.map(|(setting, values)| words(setting, &values)).collect();
    (!told.is_empty()).then(|| {
        format!(
            "Sockets don't begin with the same in all environments: {}. Part of a tax may be that (docs/vm.md).",
            told.join("; ")
        )
    })
}

/// `tcp_congestion_control is bbr in native, cubic in vm`.
fn words(setting: &str, values: &BTreeMap<&str, BTreeSet<&str>>) -> String {
    let of = |(value, places): (&&str, &BTreeSet<&str>)| {
        format!("{value} in {}", places.iter().copied().collect::<Vec<_>>().join(" and "))
    };
    let name = setting.rsplit('/').next().unwrap_or(setting);
    format!("{name} is {}", values.iter().map(of).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_between_environments_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let run = vtax_fixture::create(&directory.path().join("run"), &vtax_fixture::Options::default());
        let mut data = RunData::begin(&run.unwrap()).unwrap();
        let nodes = &mut data.provenance.nodes;
        nodes.clear();
        for (node, congestion) in [
            ("native/sut", "bbr"),
            ("container/sut", "bbr"),
            ("vm/sut", "bbr"),
            // Clients may have a kernel of their own, which all environments are measured from.
            ("vm/client", "cubic"),
        ] {
            let sockets = [("ipv4/tcp_congestion_control", congestion), ("ipv4/tcp_rmem", "1 2 3")];
            let facts = nodes.entry(node.to_owned()).or_default();
            facts.sockets = sockets.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        }
        assert_eq!(note(&data), None);
        let guest = data.provenance.nodes.get_mut("vm/sut").unwrap();
        guest.sockets.insert("ipv4/tcp_congestion_control".to_owned(), "cubic".to_owned());
        let told = "Sockets don't begin with the same in all environments: tcp_congestion_control is bbr in container and \
                    native, cubic in vm. Part of a tax may be that (docs/vm.md).";
        assert_eq!(note(&data).as_deref(), Some(told));
    }
}
