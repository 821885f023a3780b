//! What is done to a topology on purpose.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::blueprint::Blueprint;
use crate::frr::Daemon;

/// Something that is broken, or mended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A link's cable is pulled: both ends see it at once.
    Cut {
        /// The link.
        link: String,
    },
    /// A link loses packets in one direction, and neither end is told.
    Lossy {
        /// The link.
        link: String,
        /// The router that its packets come from; `None`: the first end's.
        from: Option<String>,
        /// How many of a million packets are lost.
        of_a_million: u32,
    },
    /// A router is switched off: its daemons end at once, all its cables are dead.
    Kill {
        /// The router.
        router: String,
    },
    /// A daemon ends at once; what the kernel forwards by goes on.
    Stop {
        /// The router.
        router: String,
        /// The daemon.
        daemon: Daemon,
    },
    /// A link is whole again, in both directions.
    RestoreLink {
        /// The link.
        link: String,
    },
    /// A router is switched on, and its daemons are started with what they were told at first.
    RestoreRouter {
        /// The router.
        router: String,
    },
}

/// Why something can't happen to what is built so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// `there is no link `a-b``.
    pub why: String,
    /// What there is in its place, where a name is wrong; else empty.
    pub instead: String,
}

impl From<String> for Misfit {
    fn from(why: String) -> Self {
        Self { why, instead: String::new() }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { why, instead } = self;
        if instead.is_empty() { f.write_str(why) } else { write!(f, "{why}; there are {instead}") }
    }
}

/// All of a million: everything is lost.
pub const ALL: u32 = 1_000_000;

impl Event {
    /// Whether it mends what another broke.
    #[must_use]
    pub const fn mends(&self) -> bool {
        matches!(self, Self::RestoreLink { .. } | Self::RestoreRouter { .. })
    }

    /// Why it can't happen to what is built so; `None` where it can.
    #[must_use]
    pub fn misfit(&self, blueprint: &Blueprint) -> Option<Misfit> {
        let link = |name: &str| {
            let none = || Misfit {
                why: format!("there is no link `{name}`"),
                instead: listed(blueprint.cables.iter().map(|cable| cable.name.as_str())),
            };
            blueprint.cable(name).is_none().then(none)
        };
        let router = |name: &str| {
            let none = || Misfit {
                why: format!("there is no router `{name}`"),
                instead: listed(blueprint.nodes.iter().map(|node| node.name.as_str())),
            };
            blueprint.node(name).is_none().then(none)
        };
        match self {
            Self::Cut { link: name } | Self::RestoreLink { link: name } => link(name),
            Self::Lossy { link: name, from, .. } => link(name).or_else(|| {
                let from = from.as_deref()?;
                let ends = &blueprint.cable(name)?.ends;
                let there = ends.iter().any(|end| end.node == from);
                (!there).then(|| format!("`{from}` is at neither end of link `{name}`").into())
            }),
            Self::Kill { router: name } | Self::RestoreRouter { router: name } => router(name),
            Self::Stop { router: name, daemon } => router(name).or_else(|| {
                let runs = match &blueprint.node(name)?.kind {
                    crate::blueprint::NodeKind::Router(daemons) => daemons.contains(daemon),
                    _ => false,
                };
                (!runs).then(|| format!("router `{name}` runs no {}", daemon.program()).into())
            }),
        }
    }
}

/// At most twenty names, quoted.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.take(20).map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { link } => write!(f, "cut: {link}"),
            Self::Lossy { link, from, of_a_million } => {
                write!(f, "lossy: {link}")?;
                if let Some(from) = from {
                    write!(f, " from {from}")?;
                }
                if *of_a_million < ALL {
                    write!(f, ", {} %", f64::from(*of_a_million) / 10_000.0)?;
                }
                Ok(())
            }
            Self::Kill { router } => write!(f, "kill: {router}"),
            Self::Stop { router, daemon } => write!(f, "stop: {} of {router}", daemon.program()),
            Self::RestoreLink { link } => write!(f, "restore: {link}"),
            Self::RestoreRouter { router } => write!(f, "restore: {router}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::topology;
    use crate::options::{Choice, MplsVpn};

    #[test]
    fn what_isn_t_there_can_t_break() {
        let vpn = Blueprint::of(&topology(&Choice::MplsVpn(MplsVpn::default())), 1500);
        let cut = |link: &str| Event::Cut { link: link.to_owned() }.misfit(&vpn);
        assert_eq!(cut("p1-pe2"), None);
        let unknown = cut("p1-pe3").unwrap();
        assert_eq!(unknown.why, "there is no link `p1-pe3`");
        assert!(unknown.to_string().starts_with("there is no link `p1-pe3`; there are `pe1-p1`, "));
        let stop = |router: &str, daemon| Event::Stop { router: router.to_owned(), daemon }.misfit(&vpn);
        assert_eq!(stop("pe1", Daemon::Bgpd), None);
        assert_eq!(stop("p1", Daemon::Bgpd).unwrap().to_string(), "router `p1` runs no bgpd");
        let lossy = |from: &str| {
            let from = Some(from.to_owned());
            Event::Lossy { link: "p1-pe2".to_owned(), from, of_a_million: ALL }.misfit(&vpn)
        };
        assert_eq!(lossy("p1"), None);
        assert!(lossy("pe1").unwrap().why.contains("neither end"));
    }

    #[test]
    fn events_that_break_and_that_mend_are_told_apart_and_stored() {
        for (event, mends) in [
            (Event::Cut { link: "l".to_owned() }, false),
            (Event::Lossy { link: "l".to_owned(), from: None, of_a_million: 5 }, false),
            (Event::Kill { router: "r".to_owned() }, false),
            (Event::Stop { router: "r".to_owned(), daemon: Daemon::Ldpd }, false),
            (Event::RestoreLink { link: "l".to_owned() }, true),
            (Event::RestoreRouter { router: "r".to_owned() }, true),
        ] {
            assert_eq!(event.mends(), mends, "{event:?}");
            let text = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event, "{text}");
        }
    }
}
