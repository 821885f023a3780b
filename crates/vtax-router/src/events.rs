//! What is done to a topology on purpose.

use vtax_sys::clock;
use vtax_sys::netlink::{Netem, Netlink, add_black_hole, add_netem, delete_root_qdisc, set_down, set_up};
use vtax_topology::blueprint::{Cable, CableEnd};
use vtax_topology::event::{ALL, Event};
use vtax_topology::timeline::{Entry, Source};
use vtax_units::Nanos;

use crate::build;
use crate::error::{Result, RouterError, While};
use crate::lab::RouterLab;

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
            }
            Event::Lossy { link, from, of_a_million } => {
                let (end, cable) = self.end(link, from.as_deref())?;
                self.silence(&end, &cable, *of_a_million).during(what)?;
            }
            Event::RestoreLink { link } => self.restore_link(link)?,
            Event::Kill { router } => {
                // Its cables first: what its daemons would say on their way out reaches nobody.
                let off = build::switch_off(self.space(router)?).during(what)?;
                self.switched_off.entry(router.clone()).or_default().extend(off);
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
        netlink.send(match of_a_million {
            ALL.. => add_black_hole(index),
            part => {
                let loss = f64::from(part) / f64::from(ALL);
                add_netem(index, &Netem { loss, ..build::netem(cable) })
            }
        })
    }

    fn restore_link(&self, link: &str) -> Result<()> {
        let what = || format!("restore: {link}");
        let (_, cable) = self.end(link, None)?;
        for end in &cable.ends {
            let space = self.space(&end.node)?;
            let mut netlink = Netlink::open_in(space).during(what)?;
            let index = netlink.link(&end.interface.name).during(what)?.index;
            match build::shape(index, &cable) {
                Some(shape) => netlink.send(shape).during(what)?,
                // It has none where the link wasn't lossy.
                None => _ = netlink.send(delete_root_qdisc(index)),
            }
            self.turn(end, true).during(what)?;
        }
        Ok(())
    }

    fn restore_router(&mut self, router: &str) -> Result<()> {
        let what = || format!("restore: {router}");
        let space = self.space(router)?.try_clone().during(what)?;
        if let Some(interfaces) = self.switched_off.get(router) {
            build::switch_on(&space, interfaces).during(what)?;
            self.switched_off.remove(router);
        }
        self.router_mut(router)?.switch_on(&space)
    }
}
