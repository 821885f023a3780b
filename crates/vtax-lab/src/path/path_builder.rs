//! What a kind of path must be able to do.

use vtax_plan::model::NetPath;

use super::site::{Built, Site};
use crate::error::Result;
use crate::lab::Lab;
use crate::spec::TestbedSpec;

/// Builds the paths of one kind.
pub(crate) trait PathBuilder {
    /// Whether it can join what a testbed is made of.
    ///
    /// # Errors
    ///
    /// Why not, in words for the user.
    fn suits(&self, spec: &TestbedSpec) -> Result<(), String>;

    /// Why it can't be built on this host, with the way out; `None` where it can.
    fn obstacle(&self, _lab: &Lab) -> Option<String> {
        None
    }

    /// Starts the nodes and joins them.
    ///
    /// # Errors
    ///
    /// Where something is refused; what was built until then is taken down.
    fn build(&self, site: &mut Site<'_>) -> Result<Built>;

    /// Whether threads of the kernel work for it on any CPU of the host, so that of a CPU's time nobody can say whose it is.
    fn is_on_any_cpu(&self) -> bool {
        false
    }

    /// What a plan says about such a path that a report needs beside what was measured.
    fn facts(&self, path: &NetPath) -> Vec<(String, String)> {
        vec![
            ("path.kind".to_owned(), path.kind.word().to_owned()),
            ("path.mtu".to_owned(), path.mtu.to_string()),
        ]
    }
}

/// For paths with room for one system under test.
pub(super) fn one_system(spec: &TestbedSpec, why: &str) -> Result<(), String> {
    match spec.suts.len() {
        1 => Ok(()),
        several => Err(format!(
            "`{}` joins one system under test, not {several}: {why}; use `bridge`",
            spec.path.kind.word()
        )),
    }
}

/// For paths that can't begin at a router.
pub(super) fn no_routers(spec: &TestbedSpec, why: &str) -> Result<(), String> {
    match spec.routers {
        0 => Ok(()),
        _ => Err(format!("`{}` can't begin at a router: {why}; use `bridge`", spec.path.kind.word())),
    }
}
