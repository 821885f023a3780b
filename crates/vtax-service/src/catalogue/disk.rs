//! The system under test's own disk: no server, so nothing is started.

use super::entry::Entry;
use crate::error::ServiceError;
use crate::recipe::{EntryContext, Recipe};

pub(super) struct Disk;

impl Entry for Disk {
    fn is_own(&self) -> bool {
        true
    }

    fn recipes(&self, _: &EntryContext<'_>) -> Result<Vec<Recipe>, ServiceError> {
        Ok(Vec::new())
    }
}
