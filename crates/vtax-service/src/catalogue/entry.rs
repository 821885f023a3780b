//! What the crate asks of each service of the catalogue.

use std::path::{Path, PathBuf};

use vtax_plan::model::Subscribers;

use crate::error::ServiceError;
use crate::hidden::Hidden;
use crate::packages::{Missing, Package};
use crate::recipe::{EntryContext, Prepared, Recipe};

/// A service of the catalogue with the options that a plan gives it.
pub(crate) trait Entry {
    /// True of a service that is vtax itself.
    fn is_own(&self) -> bool {
        false
    }

    /// The packages it comes from, present or not.
    fn packages(&self) -> Vec<Package> {
        Vec::new()
    }

    /// What the host lacks of it, first things first.
    fn missing(&self) -> Option<Missing> {
        self.packages().into_iter().find(Package::missing).map(Missing::from)
    }

    /// Where in `cache` its program is unpacked; `None` where it is installed, or isn't there.
    fn unpacked(&self, cache: &Path) -> Option<PathBuf> {
        let _ = cache;
        None
    }

    /// What it is started from that this host has and nodes don't see.
    fn hidden(&self) -> Vec<Hidden> {
        Vec::new()
    }

    /// Its installed programs and modules.
    fn installed_files(&self) -> Vec<PathBuf> {
        let packages = self.packages().into_iter();
        packages.filter(|package| !package.missing()).map(|package| package.program.into()).collect()
    }

    /// True where it is started by root and gives its privileges up by itself.
    fn drops_privileges(&self) -> bool {
        false
    }

    /// Makes in the directory `cache` what can be made before its start; `None` where there is nothing of that kind.
    fn prepare(
        &self,
        service: &str,
        subscribers: Option<&Subscribers>,
        cache: &Path,
    ) -> Result<Option<Prepared>, ServiceError> {
        let _ = (service, subscribers, cache);
        Ok(None)
    }

    /// Writes its files and says how to start its processes: in this order, the one that clients talk to last.
    fn recipes(&self, context: &EntryContext<'_>) -> Result<Vec<Recipe>, ServiceError>;
}
