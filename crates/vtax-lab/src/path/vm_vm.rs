//! Two virtual machines on one virtual switch: the client is one too.

use vtax_plan::model::VirtualSwitch;

use super::path_builder::{PathBuilder, no_routers};
use super::site::{Built, Site};
use super::switched::{self, Switches};
use crate::error::Result;
use crate::lab::Lab;
use crate::ovs;
use crate::spec::TestbedSpec;

/// All nodes virtual machines, on one switch.
pub(super) struct VmVm(pub(super) VirtualSwitch);

impl PathBuilder for VmVm {
    fn suits(&self, spec: &TestbedSpec) -> Result<(), String> {
        no_routers(spec, "its client is a virtual machine on the same switch")
    }

    fn obstacle(&self, _lab: &Lab) -> Option<String> {
        match self.0 {
            VirtualSwitch::Bridge => None,
            VirtualSwitch::Ovs => ovs::obstacle(super::ovs::PART),
        }
    }

    fn build(&self, site: &mut Site<'_>) -> Result<Built> {
        switched::build(site, site.path(), |site, fabric, path| {
            let (ovs, near) = match self.0 {
                VirtualSwitch::Bridge => (None, fabric.add_switch(path.mtu)?),
                VirtualSwitch::Ovs => {
                    let (ovs, switch) = super::ovs::start(site, path, fabric, super::ovs::PART)?;
                    (Some(ovs), switch)
                }
            };
            Ok(Switches { ovs, guest_client: true, ..Switches::one(near) })
        })
    }
}
