//! What a trial's facts say of the routers on its path, and whether they changed routes while something was measured.

use vtax_agent::{AgentError, Client};
use vtax_router::Raised;
use vtax_sys::clock::unix_time;
use vtax_topology::timeline::{Entry, Source};
use vtax_units::{Nanos, counted, fact};

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

/// A measurement during which nothing is broken on purpose: routes stay as they are.
pub(super) struct SteadyRoutes<'a> {
    routers: &'a Client,
    /// Its beginning on the clock of the routers' node.
    from: Result<Nanos, AgentError>,
}

impl<'a> SteadyRoutes<'a> {
    /// From now on.
    pub(super) fn watch(routers: &'a Client) -> Self {
        Self { routers, from: now_there(routers) }
    }

    /// What was changed until now.
    ///
    /// # Errors
    ///
    /// Where the routers' node doesn't say.
    pub(super) fn end(self) -> Result<RouteChanges, AgentError> {
        let entries = self.routers.timeline(self.from?, now_there(self.routers)?)?;
        Ok(RouteChanges::among(entries))
    }
}

/// The present on the clock of the routers' node.
fn now_there(routers: &Client) -> Result<Nanos, AgentError> {
    let ahead = routers.clock()?.offset_ns;
    Ok(Nanos(unix_time().0.saturating_add_signed(ahead)))
}

/// Changes of routes.
#[derive(Debug)]
pub(super) struct RouteChanges {
    /// Routes that were set or removed, next hops that were set, and interfaces that went down.
    pub(super) count: usize,
    first: Option<Entry>,
}

impl RouteChanges {
    fn among(entries: Vec<Entry>) -> Self {
        let mut changes = entries.into_iter().filter(is_change);
        let first = changes.next();
        Self { count: usize::from(first.is_some()) + changes.count(), first }
    }

    /// Why the trial doesn't count, where there were any.
    pub(super) fn why(&self) -> Option<String> {
        let first = self.first.as_ref()?;
        let times = counted(self.count as u64, "time");
        Some(format!(
            "routes changed {times} while it was measured, though nothing was broken on purpose; first at {}: {}",
            first.router, first.text
        ))
    }
}

/// Whether packets may take another route since.
fn is_change(entry: &Entry) -> bool {
    match &entry.source {
        Source::Kernel => !is_harmless(&entry.text),
        // Nothing was done on purpose: there was more than is kept.
        Source::Fault => true,
        Source::Daemon(_) => false,
    }
}

/// Whether what a kernel did leaves all routes as they were.
fn is_harmless(text: &str) -> bool {
    // A capture that begins is told of as an interface that is up.
    let comes_up = text.starts_with("interface ") && text.ends_with(": up");
    // FRR removes a next hop that no route has used for 180 s (`zebra nexthop-group keep`). Where an interface takes its next hops with
    // it, the interface is told of too.
    let is_tidied = text.starts_with("next hop ") && text.ends_with(": removed");
    comes_up || is_tidied
}

#[cfg(test)]
mod tests {
    use vtax_topology::expect::Stage;

    use super::*;

    #[test]
    fn what_kernels_change_of_routes_is_counted_and_nothing_else() {
        let entry = |source: Source, text: &str| Entry {
            at: Nanos(1),
            router: "pe1".to_owned(),
            source,
            text: text.to_owned(),
        };
        let kernel = |text| entry(Source::Kernel, text);
        let said = entry(Source::Daemon("ospfd".to_owned()), "route 10.96.2.0/24: removed");
        let unused = kernel("next hop 14 by interface 5 via 10.0.0.1: removed");
        let nothing = vec![said, kernel("interface p1: up"), unused];
        let changes = RouteChanges::among(nothing.clone());
        assert_eq!((changes.count, changes.why()), (0, None));
        let mut some = nothing;
        some.extend(
            [
                "route label 17 via 10.0.0.6: removed",
                "next hop 20 of 12, 13: set",
                "interface p1: without carrier",
                "more changes than could be heard",
            ]
            .map(kernel),
        );
        some.push(entry(Source::Fault, "12 later entries are left out"));
        let changes = RouteChanges::among(some);
        assert_eq!(changes.count, 5);
        assert_eq!(
            changes.why().unwrap(),
            "routes changed 5 times while it was measured, though nothing was broken on purpose; first at pe1: route \
             label 17 via 10.0.0.6: removed"
        );
    }

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
