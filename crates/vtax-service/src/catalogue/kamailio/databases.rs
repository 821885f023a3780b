//! What is made once, before the trials, and copied at each start: databases of subscribers.
//!
//! They are kept in a directory of the cache, one for each set of subscribers and each version of
//! what makes them. A new one is made under another name and renamed when it is complete, so what is
//! there is whole. The ones used last are kept, the others are removed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use vtax_plan::model::Subscribers;
use vtax_units::{Nanos, hex};

use super::mariadb;
use crate::error::ServiceError;
use crate::recipe::Prepared;

/// So many databases are kept, each of them 40 MB and more.
const KEPT: usize = 4;
/// Part of every key: raised whenever the same subscribers are to get another database.
const LAYOUT: &str = "vtax database 2";
/// Prefix of what isn't finished.
const UNFINISHED: &str = "unfinished";
/// A database in its directory of the cache, and the file that tells who uses it, and when last.
const DATA: &str = "data";
const USED: &str = "used";

/// Finds the database of `subscribers` in the directory `cache`, or makes it. Two at a time wait for each other.
pub(super) fn find_or_make(
    service: &str,
    subscribers: &Subscribers,
    cache: &Path,
) -> Result<Prepared, ServiceError> {
    Store { service, directory: cache.join("subscribers") }.database(subscribers)
}

/// The databases in the cache, on behalf of a service.
struct Store<'a> {
    service: &'a str,
    directory: PathBuf,
}

impl Store<'_> {
    fn file<'p>(
        &self,
        operation: &'static str,
        path: &'p Path,
    ) -> impl FnOnce(io::Error) -> ServiceError + use<'p, '_> {
        let service = self.service.to_owned();
        move |source| ServiceError::File { service, operation, path: path.to_owned(), source }
    }

    /// Finds or makes one.
    fn database(&self, subscribers: &Subscribers) -> Result<Prepared, ServiceError> {
        fs::create_dir_all(&self.directory).map_err(self.file("making", &self.directory))?;
        let path = self.directory.join("lock");
        let lock = File::create(&path).map_err(self.file("making", &path))?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)
            .map_err(|e| self.file("locking", &path)(e.into()))?;
        // No other process is here now, so what is unfinished was left by one that was killed.
        self.remove_unfinished();
        let entry = self.directory.join(self.key(subscribers)?);
        let mut taken = None;
        if !entry.join(DATA).is_dir() {
            let begun = Instant::now();
            self.make(subscribers, &entry)?;
            taken = Some(Nanos::from(begun.elapsed()));
        }
        let path = entry.join(USED);
        let used = File::create(&path).map_err(self.file("making", &path))?;
        rustix::fs::flock(&used, FlockOperation::LockShared)
            .map_err(|e| self.file("locking", &path)(e.into()))?;
        used.set_modified(SystemTime::now()).map_err(self.file("dating", &path))?;
        self.sweep();
        Ok(Prepared { path: entry.join(DATA), taken, _used: used })
    }

    /// Name of the database of these subscribers: what goes into it, digested.
    fn key(&self, subscribers: &Subscribers) -> Result<String, ServiceError> {
        let ingredients = mariadb::ingredients().map_err(self.file("reading what makes", &self.directory))?;
        let mut digest = Sha256::new();
        let count = subscribers.count.to_string();
        let Subscribers { private, password, domain, .. } = subscribers;
        for part in [LAYOUT, &count, private, password, domain] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        digest.update(ingredients);
        Ok(hex(&digest.finalize()[..12]))
    }

    fn make(&self, subscribers: &Subscribers, entry: &Path) -> Result<(), ServiceError> {
        let stage = self.directory.join(format!("{UNFINISHED}-{}", std::process::id()));
        fs::create_dir(&stage).map_err(self.file("making", &stage))?;
        let made = mariadb::make(self.service, subscribers, &stage.join(DATA));
        let placed = made.and_then(|()| {
            // One without data may be left of an entry whose removal was cut short.
            let _ = fs::remove_dir_all(entry);
            fs::rename(&stage, entry).map_err(self.file("moving into place", entry))
        });
        if placed.is_err() {
            // The next one who comes here tries again.
            let _ = fs::remove_dir_all(&stage);
        }
        placed
    }

    fn entries(&self) -> impl Iterator<Item = PathBuf> {
        let listed = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        listed.map(|e| e.path()).filter(|p| p.is_dir())
    }

    fn remove_unfinished(&self) {
        for path in self.entries() {
            if path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(UNFINISHED)) {
                // What can't be removed takes room, no more.
                let _ = fs::remove_dir_all(&path);
            }
        }
    }

    /// Removes what was used longest ago and isn't in use.
    fn sweep(&self) {
        let mut all: Vec<(SystemTime, PathBuf)> = self
            .entries()
            .filter_map(|path| Some((fs::metadata(path.join(USED)).ok()?.modified().ok()?, path)))
            .collect();
        all.sort_by(|a, b| b.cmp(a));
        for (_, path) in all.into_iter().skip(KEPT) {
            let Ok(used) = File::open(path.join(USED)) else { continue };
            match rustix::fs::flock(&used, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => {}
                // Cut short, it has to look unfinished.
                _ => {
                    let gone = self.directory.join(format!("{UNFINISHED}-old-{}", std::process::id()));
                    if fs::rename(&path, &gone).is_ok() {
                        let _ = fs::remove_dir_all(&gone);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn entry(store: &Store<'_>, name: &str, age_s: u64) -> PathBuf {
        let path = store.directory.join(name);
        fs::create_dir_all(path.join(DATA)).expect("own directory");
        let used = File::create(path.join(USED)).expect("own directory");
        used.set_modified(SystemTime::now() - Duration::from_secs(age_s)).expect("own file");
        path
    }

    #[test]
    fn what_was_used_longest_ago_goes_unless_it_is_in_use() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let store = Store { service: "x", directory: directory.path().to_owned() };
        let all: Vec<PathBuf> =
            (0..7).map(|i| entry(&store, &i.to_string(), u64::try_from(i * 60).expect("small"))).collect();
        let used = File::open(all[5].join(USED)).expect("just made");
        rustix::fs::flock(&used, FlockOperation::LockShared).expect("nobody holds it");
        fs::create_dir(store.directory.join("unfinished-7")).expect("own directory");
        store.sweep();
        store.remove_unfinished();
        let there: Vec<bool> = all.iter().map(|p| p.exists()).collect();
        assert_eq!(there, [true, true, true, true, false, true, false]);
        assert_eq!(store.entries().count(), 5);
    }
}
