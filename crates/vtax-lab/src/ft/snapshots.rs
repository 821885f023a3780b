//! Protection by snapshots: a state of the guest that is some seconds old, kept on the other host.

use std::sync::Arc;
use std::time::{Duration, Instant};

use vtax_vm::ft::{Snapshot, Start, take_snapshot};

use super::shared::{Member, Roles, Shared};
use crate::error::Result;
use vtax_sys::sync::{lock, wait_timeout_while};

impl Shared {
    /// Starts a QEMU that waits on `host`, takes a first snapshot, and then one after the other for as long as
    /// the same two are there. On a thread of its own; `busy` is set.
    pub(crate) fn keep_snapshots(self: &Arc<Self>, primary: &Member, host: usize, interval: Duration) {
        let started = Instant::now();
        let begun = self.start_member(host, Start::AwaitState).and_then(|secondary| {
            // From here on a fence of its host finds it.
            lock(&self.roles).secondary = Some(secondary.clone());
            *lock(&primary.checkpoints) = Default::default();
            Ok((self.snapshot(primary, &secondary)?, secondary))
        });
        let secondary = match begun {
            Ok((first, secondary)) => {
                self.armed(host, started, Some(first));
                secondary
            }
            Err(e) => return self.not_armed(host, &e),
        };
        while self.may_go_on(primary, &secondary, interval) {
            let taken = self.snapshot(primary, &secondary);
            let mut roles = lock(&self.roles);
            roles.settle(&self.changed);
            // One that failed leaves the one before; why it failed, the supervisor finds out.
            if let (Ok(snapshot), true) = (taken, unchanged(&roles, primary, &secondary)) {
                roles.snapshot = Some(snapshot);
            }
        }
    }

    /// Waits for the next snapshot's time; false where there is to be none. Where true, `busy` is set.
    fn may_go_on(&self, primary: &Member, secondary: &Member, interval: Duration) -> bool {
        loop {
            let roles = lock(&self.roles);
            let same = |roles: &mut Roles| unchanged(roles, primary, secondary);
            let mut roles = wait_timeout_while(&self.changed, roles, interval, same);
            if !unchanged(&roles, primary, secondary) {
                return false;
            }
            // Where another thread is busy with the pair, it is most likely about to change.
            if !std::mem::replace(&mut roles.busy, true) {
                return true;
            }
        }
    }

    fn snapshot(&self, primary: &Member, secondary: &Member) -> Result<Arc<Snapshot>> {
        let streams = self.hosts[primary.host].connect(&self.hosts[secondary.host])?;
        let taken = take_snapshot(&primary.replica, &secondary.replica, streams).map_err(self.vm_error())?;
        self.count_traffic(primary, secondary);
        Ok(Arc::new(taken))
    }
}

/// Whether the two still are what they were and the guest is protected.
fn unchanged(roles: &Roles, primary: &Member, secondary: &Member) -> bool {
    let is = |member: &Option<Member>, other: &Member| member.as_ref().is_some_and(|m| m.id == other.id);
    !roles.ending && roles.armed.is_some() && is(&roles.primary, primary) && is(&roles.secondary, secondary)
}
