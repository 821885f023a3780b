//! A physical switch, emulated, and a virtual switch behind it.

use vtax_plan::model::VirtualSwitch;

use super::path_builder::PathBuilder;
use super::site::{Built, Site};
use super::switched::{self, Switches};
use crate::error::Result;
use crate::lab::Lab;
use crate::ovs;
use crate::spec::TestbedSpec;

/// The client on the physical switch, virtual machines on the virtual one.
pub(super) struct Bridged(pub(super) VirtualSwitch);

impl PathBuilder for Bridged {
    fn suits(&self, _spec: &TestbedSpec) -> Result<(), String> {
        Ok(())
    }

    fn obstacle(&self, _lab: &Lab) -> Option<String> {
        match self.0 {
            VirtualSwitch::Bridge => None,
            VirtualSwitch::Ovs => ovs::obstacle(super::ovs::PART),
        }
    }

    fn build(&self, site: &mut Site<'_>) -> Result<Built> {
        switched::build(site, site.path(), |site, fabric, path| {
            let mut near = fabric.add_switch(path.mtu)?;
            let (ovs, mut far) = match self.0 {
                VirtualSwitch::Bridge => (None, fabric.add_switch(path.mtu)?),
                VirtualSwitch::Ovs => {
                    let (ovs, switch) = super::ovs::start(site, path, fabric, super::ovs::PART)?;
                    (Some(ovs), switch)
                }
            };
            fabric.uplink(&mut near, &mut far, switched::shared(path))?;
            fabric.start(&far)?;
            // The virtual switch's ports are as fast as it is; only the physical one's are limited, but for systems with wires of
            // their own.
            Ok(Switches { ovs, far: Some(far), unlimited_far: true, ..Switches::one(near) })
        })
    }
}
