//! A software bridge: the kernel's.

use super::path_builder::PathBuilder;
use super::site::{Built, Site};
use super::switched::{self, Switches};
use crate::error::Result;
use crate::spec::TestbedSpec;

/// Client and systems under test on one bridge of the kernel's.
pub(super) struct Bridge;

impl PathBuilder for Bridge {
    fn suits(&self, _spec: &TestbedSpec) -> Result<(), String> {
        Ok(())
    }

    fn build(&self, site: &mut Site<'_>) -> Result<Built> {
        switched::build(site, site.path(), |_, fabric, path| Ok(Switches::one(fabric.add_switch(path.mtu)?)))
    }
}
