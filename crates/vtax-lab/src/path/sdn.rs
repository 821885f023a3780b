//! An Open vSwitch that an OpenFlow controller steers.

use vtax_plan::model::{Datapath, SdnMode, SdnOptions};

use super::path_builder::PathBuilder;
use super::site::{Built, Site};
use super::switched::{self, Switches};
use crate::error::Result;
use crate::lab::Lab;
use crate::ovs;
use crate::spec::TestbedSpec;

/// Client and systems under test on one Open vSwitch with a controller.
pub(super) struct Sdn(pub(super) SdnOptions);

impl PathBuilder for Sdn {
    fn suits(&self, _spec: &TestbedSpec) -> Result<(), String> {
        Ok(())
    }

    fn obstacle(&self, _lab: &Lab) -> Option<String> {
        ovs::controller_obstacle(self.0.controller).or_else(|| ovs::obstacle(self.0.ovs))
    }

    /// A packet that goes by way of a controller comes back as it is: without what a card would have filled
    /// in, and in a message of OpenFlow of at most 64 KiB. The kernel's datapath fills it in before it asks;
    /// in user space offloads must be off.
    fn build(&self, site: &mut Site<'_>) -> Result<Built> {
        let in_kernel = self.0.ovs.datapath != Datapath::User && ovs::kernel_has_datapath();
        let mut path = site.path().clone();
        path.offloads &= in_kernel && self.0.mode == SdnMode::Reactive;
        switched::build(site, &path, |site, fabric, path| {
            let (ovs, switch) = super::ovs::start(site, path, fabric, self.0.ovs)?;
            Ok(Switches { ovs: Some(ovs), ..Switches::one(switch) })
        })
    }
}
