//! What is done to a topology on purpose.

use std::collections::BTreeMap;

use vtax_sys::clock;
use vtax_sys::netlink::{Netlink, add_black_hole, delete_root_qdisc, set_down, set_up};
use vtax_topology::blueprint::{Cable, CableEnd};
use vtax_topology::event::{ALL, Event};
use vtax_topology::timeline::{Entry, Source};
use vtax_units::Nanos;

use crate::build;
use crate::error::{Result, RouterError, While};
use crate::lab::RouterLab;

/// The interfaces that are on again when their router is, by the routers that are switched off.
#[derive(Debug, Default)]
pub(crate) struct SwitchedOff(BTreeMap<String, Vec<String>>);

impl SwitchedOff {
    /// A router was switched off, and these of its interfaces with it.
    fn add(&mut self, router: &str, interfaces: Vec<String>) {
        self.0.entry(router.to_owned()).or_default().extend(interfaces);
    }

    /// The link that this interface is an end of was cut: it stays off when its router is on again.
    fn cut(&mut self, router: &str, interface: &str) {
        if let Some(interfaces) = self.0.get_mut(router) {
            interfaces.retain(|known| known != interface);
        }
    }

    /// The link that this interface is an end of was restored: where its router is off, it will be on again with it. Whether it is.
    fn waits(&mut self, router: &str, interface: &str) -> bool {
        let Some(interfaces) = self.0.get_mut(router) else { return false };
        if !interfaces.iter().any(|known| known == interface) {
            interfaces.push(interface.to_owned());
        }
        true
    }
}

impl RouterLab {
    /// Does it; when it was done, in nanoseconds since 1970.
    ///
    /// # Errors
    ///
    /// [`RouterError::Unknown`] for a link or router that isn't there, and where something is refused.
    pub fn inject(&mut self, event: &Event) -> Result<Nanos> {
        if let Some(misfit) = event.misfit(self.blueprint()) {
            return Err(RouterError::Unknown(misfit.to_string()));
        }
        let what = || event.to_string();
        let at = clock::unix_time();
        match event {
            Event::Cut { link } => {
                let end = self.end(link, None)?.0;
                self.turn(&end, false).during(what)?;
                self.switched_off.cut(&end.node, &end.interface.name);
            }
            Event::Lossy { link, from, of_a_million } => {
                let (end, cable) = self.end(link, from.as_deref())?;
                self.silence(&end, &cable, *of_a_million).during(what)?;
            }
            Event::RestoreLink { link } => self.restore_link(link)?,
            Event::Kill { router } => {
                // Its cables first: what its daemons would say on their way out reaches nobody.
                let off = build::switch_off(self.space(router)?).during(what)?;
                self.switched_off.add(router, off);
                self.router_mut(router)?.switch_off()?;
            }
            Event::Stop { router, daemon } => self.router_mut(router)?.stop(*daemon)?,
            Event::RestoreRouter { router } => self.restore_router(router)?,
        }
        let router = String::new();
        self.note(Entry { at, router, source: Source::Fault, text: event.to_string() });
        Ok(at)
    }

    /// The end of a link at a router, or its first, and the cable.
    fn end(&self, link: &str, at: Option<&str>) -> Result<(CableEnd, Cable)> {
        let none = || RouterError::Unknown(format!("there is no link `{link}`"));
        let cable = self.blueprint().cable(link).ok_or_else(none)?;
        let end = match at {
            None => Some(&cable.ends[0]),
            Some(router) => cable.ends.iter().find(|end| end.node == router),
        };
        Ok((end.ok_or_else(none)?.clone(), cable.clone()))
    }

    fn turn(&self, end: &CableEnd, on: bool) -> vtax_sys::Result<()> {
        let name = &end.interface.name;
        let Ok(space) = self.space(&end.node) else { return Ok(()) };
        Netlink::open_in(space)?.send(if on { set_up(name) } else { set_down(name) })
    }

    /// Has an end lose packets that leave it, so many instead of those that the cable loses anyway.
    fn silence(&self, end: &CableEnd, cable: &Cable, of_a_million: u32) -> vtax_sys::Result<()> {
        let Ok(space) = self.space(&end.node) else { return Ok(()) };
        let mut netlink = Netlink::open_in(space)?;
        let index = netlink.link(&end.interface.name)?.index;
        match of_a_million {
            ALL.. => netlink.send(add_black_hole(index)),
            part => netlink.send_all(build::losing(index, cable, part)),
        }
    }

    fn restore_link(&mut self, link: &str) -> Result<()> {
        let what = || format!("restore: {link}");
        let (_, cable) = self.end(link, None)?;
        for end in &cable.ends {
            let space = self.space(&end.node)?;
            let mut netlink = Netlink::open_in(space).during(what)?;
            let index = netlink.link(&end.interface.name).during(what)?.index;
            let shape = build::shape(index, &cable);
            if shape.is_empty() {
                // It has none where the link wasn't lossy.
                _ = netlink.send(delete_root_qdisc(index));
            } else {
                netlink.send_all(shape).during(what)?;
            }
            if !self.switched_off.waits(&end.node, &end.interface.name) {
                self.turn(end, true).during(what)?;
            }
        }
        Ok(())
    }

    fn restore_router(&mut self, router: &str) -> Result<()> {
        let what = || format!("restore: {router}");
        let space = self.space(router)?.try_clone().during(what)?;
        if let Some(interfaces) = self.switched_off.0.get(router) {
            build::switch_on(&space, interfaces).during(what)?;
            self.switched_off.0.remove(router);
        }
        self.router_mut(router)?.switch_on(&space)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn off() -> SwitchedOff {
        let mut off = SwitchedOff::default();
        off.add("p1", ["pe1", "pe2"].map(str::to_owned).to_vec());
        off
    }

    #[test]
    fn a_link_that_is_restored_waits_for_its_router() {
        let mut off = off();
        assert!(off.waits("p1", "pe2"));
        assert_eq!(off.0["p1"], ["pe1", "pe2"], "once");
        assert!(!off.waits("pe2", "p1"), "this end's router is on");
        assert_eq!(off.0.len(), 1);
    }

    #[test]
    fn a_link_that_is_cut_stays_so_when_its_router_is_restored() {
        let mut off = off();
        off.cut("p1", "pe2");
        off.cut("pe2", "p1");
        assert_eq!(off.0["p1"], ["pe1"]);
        assert_eq!(off.0.len(), 1);
        assert!(off.waits("p1", "pe2"), "until it is restored");
        assert_eq!(off.0["p1"], ["pe1", "pe2"]);
    }
}
