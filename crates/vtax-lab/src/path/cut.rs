//! What can be done to a path while it is in use.

use std::sync::Arc;

use vtax_sys::NetNs;
use vtax_sys::netlink::{Netlink, set_down, set_up};

use super::End;
use crate::error::{LabError, Result, While};
use crate::ovs::Ovs;

/// Cuts and restores a path, and kills its controller; may be used from any thread while the testbed stands.
#[derive(Debug, Clone)]
pub struct PathSwitch {
    inner: Arc<Reach>,
}

#[derive(Debug)]
struct Reach {
    path: String,
    cable: Option<Cable>,
    ovs: Option<Arc<Ovs>>,
}

/// The interface whose state is the cable's.
#[derive(Debug, Clone)]
pub(crate) struct Cable {
    /// Where it is; `None`: the lab's own network namespace.
    pub(crate) inside: Option<Arc<NetNs>>,
    /// Its name there.
    pub(crate) interface: String,
}

impl Cable {
    /// The cable that is plugged into this end.
    pub(crate) fn of(end: &End) -> Result<Self> {
        match end {
            End::Tap { interface, inside, .. } => {
                Ok(Self { inside: inside.clone(), interface: interface.clone() })
            }
            End::Inside { netns, interface } => {
                let netns = netns.try_clone().during(|| format!("hold the cable of {interface}"))?;
                Ok(Self { inside: Some(Arc::new(netns)), interface: interface.clone() })
            }
        }
    }
}

impl PathSwitch {
    pub(crate) fn new(path: &str, cable: Option<Cable>, ovs: Option<Arc<Ovs>>) -> Self {
        Self { inner: Arc::new(Reach { path: path.to_owned(), cable, ovs }) }
    }

    /// Cuts the path: the switch's port of the client goes down, as if its cable were pulled; on a `direct`
    /// path the service's end does.
    ///
    /// # Errors
    ///
    /// On a path that isn't the lab's to cut, and where the kernel refuses.
    pub fn cut(&self) -> Result<()> {
        self.turn(false)
    }

    /// Plugs the cable in again.
    ///
    /// # Errors
    ///
    /// As [`cut`](Self::cut).
    pub fn restore(&self) -> Result<()> {
        self.turn(true)
    }

    fn turn(&self, on: bool) -> Result<()> {
        let path = &self.inner.path;
        let cable = self.inner.cable.as_ref().ok_or_else(|| LabError::Path {
            path: path.clone(),
            reason: "its cable is real, or the host's loopback; vtax can't cut it".to_owned(),
        })?;
        let what = || format!("{} path {path}", if on { "restore" } else { "cut" });
        let mut netlink = match &cable.inside {
            Some(inside) => Netlink::open_in(inside),
            None => Netlink::open(),
        }
        .during(what)?;
        let name = &cable.interface;
        netlink.send(if on { set_up(name) } else { set_down(name) }).during(what)
    }

    /// Kills the OpenFlow controller at once. The switch then does what the plan's `when_lost` says.
    ///
    /// # Errors
    ///
    /// Where the path has none, or it can't be killed.
    pub fn kill_controller(&self) -> Result<()> {
        match &self.inner.ovs {
            Some(ovs) => ovs.kill_controller(),
            None => Err(LabError::Path {
                path: self.inner.path.clone(),
                reason:
                    "it has no controller to kill; a path of kind `sdn` has one (testcontroller or os-ken)"
                        .to_owned(),
            }),
        }
    }
}
