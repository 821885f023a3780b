//! Open vSwitch as a path, and as a part of others.

use std::sync::Arc;

use vtax_plan::model::{Datapath, NetPath, OvsOptions, PathKind};

use super::path_builder::PathBuilder;
use super::site::{Built, Site};
use super::switched::{self, Switches};
use crate::error::Result;
use crate::fabric::{Fabric, Switch};
use crate::lab::Lab;
use crate::ovs::{self, Ovs, OvsSpec};
use crate::spec::TestbedSpec;

/// Client and systems under test on one Open vSwitch.
pub(super) struct OpenVSwitch(pub(super) OvsOptions);

/// The Open vSwitch that is part of another kind of path.
pub(super) const PART: OvsOptions = OvsOptions { datapath: Datapath::Auto };

impl PathBuilder for OpenVSwitch {
    fn suits(&self, _spec: &TestbedSpec) -> Result<(), String> {
        Ok(())
    }

    fn obstacle(&self, _lab: &Lab) -> Option<String> {
        ovs::obstacle(self.0)
    }

    fn build(&self, site: &mut Site<'_>) -> Result<Built> {
        switched::build(site, site.path(), |site, fabric, path| {
            let (ovs, switch) = start(site, path, fabric, self.0)?;
            Ok(Switches { ovs: Some(ovs), ..Switches::one(switch) })
        })
    }
}

/// Starts an Open vSwitch, with the path's controller where it has one.
pub(super) fn start(
    site: &mut Site<'_>,
    path: &NetPath,
    fabric: &Fabric,
    options: OvsOptions,
) -> Result<(Arc<Ovs>, Switch)> {
    let number = site.slot.number();
    if number > 0 {
        return Err(site.refuse(
            "two Open vSwitches of one lab would have the same datapath, so it can't be part of a \
             duet; leave `trials: duet` out",
        ));
    }
    let cpus = &site.allocation.client;
    let scratch = site.lab.scratch()?;
    let ovs = Ovs::start(OvsSpec { number, scratch, cpus, options, offloads: path.offloads })?;
    if let PathKind::Sdn(sdn) = &path.kind {
        ovs.obey(sdn)?;
    }
    let ovs = Arc::new(ovs);
    let switch = fabric.add_ovs(&ovs);
    Ok((ovs, switch))
}
