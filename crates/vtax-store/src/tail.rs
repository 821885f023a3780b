//! Follows a journal while it is written, as far as a reader needs who only shows how a run is getting on.

use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use vtax_sys::mountinfo::{Mounted, mounts};
use vtax_units::Nanos;

use crate::StoreError;
use crate::journal::LINE_LIMIT;
use crate::record::{Partner, Timings};
use crate::validity::Validity;

/// Most lines that one call tells: the next call goes on. A call also ends once its lines are together as long as a single one may be, so
/// that it never has more than twice that in memory.
const MOST: usize = 4096;

/// What a line of a journal says, without what a trial found.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct JournalLine {
    /// Its place in the journal, from 1.
    #[serde(skip)]
    pub place: u64,
    /// The kind of entry, as docs/formats.md names it; empty where the line can't be read.
    pub event: String,
    /// Milliseconds since 1970; 0 of a trial that ended.
    pub at_unix_ms: u64,
    /// Index of the trial.
    pub index: u32,
    /// Cell of the trial, or that a note concerns.
    pub cell: Option<String>,
    /// Measure of the trial.
    pub measure: String,
    /// Repetition of the trial, from 0.
    pub repetition: u32,
    /// Start of a trial that ended, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Whether a trial that ended counts.
    pub validity: Option<Validity>,
    /// How long the parts of a trial that ended took.
    pub timings: Option<Timings>,
    /// The trial that was made at the same time as one that ended, where trials are pairs.
    pub partner: Option<Partner>,
    /// What a note says.
    pub text: String,
}

impl JournalLine {
    /// What a trial that ended took of the run's time: two trials at the same time take the time of one. None of other lines.
    #[must_use]
    pub fn spent(&self) -> Nanos {
        let all = self.timings.unwrap_or_default().total();
        if self.partner.is_some() { Nanos(all.0 / 2) } else { all }
    }
}

/// Follows the journal of a run, also over `--resume`, which may replace the file.
#[derive(Debug)]
pub struct JournalTail {
    path: PathBuf,
    /// Device and inode of the file that was read last.
    file: Option<(u64, u64)>,
    /// Bytes of it that were read: whole lines.
    position: u64,
    /// Lines of it that were read.
    passed: u64,
    /// Number of the last line that was given, of this file or of the one that it replaced: a replacement has the same lines.
    last_line: u64,
}

impl JournalTail {
    /// A reader of the run in this directory that gives what comes after line `last_line` of it, counted from 1.
    #[must_use]
    pub fn after(run: &Path, last_line: u64) -> Self {
        Self { path: run.join("journal.jsonl"), file: None, position: 0, passed: 0, last_line }
    }

    /// Number of the last line that was given; 0 where none was.
    #[must_use]
    pub fn last_line(&self) -> u64 {
        self.last_line
    }

    /// What was written since the last call, in order; nothing where nothing was. A line that isn't whole yet comes
    /// with the next call. At most 4096 lines come at once, and fewer of long ones, so whoever wants all calls again until nothing comes.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`] where the journal is gone or can't be read, [`StoreError::Damaged`] where a line is longer
    /// than any that vtax writes.
    pub fn read(&mut self) -> Result<Vec<JournalLine>, StoreError> {
        let file = crate::files::open(&self.path)?;
        let meta = file.metadata().map_err(|e| self.error(e))?;
        let identity = (meta.dev(), meta.ino());
        if self.file != Some(identity) || meta.len() < self.position {
            (self.file, self.position, self.passed) = (Some(identity), 0, 0);
        }
        if meta.len() == self.position {
            return Ok(Vec::new());
        }
        let mut reader = BufReader::with_capacity(1 << 16, file);
        reader.seek(SeekFrom::Start(self.position)).map_err(|e| self.error(e))?;
        let (mut found, mut line) = (Vec::new(), Vec::new());
        let mut taken = 0;
        while found.len() < MOST && taken < LINE_LIMIT {
            line.clear();
            let read =
                reader.by_ref().take(LINE_LIMIT).read_until(b'\n', &mut line).map_err(|e| self.error(e))?;
            if line.last() != Some(&b'\n') {
                if read as u64 == LINE_LIMIT {
                    return Err(self.too_long());
                }
                // Who asks for what comes after more lines than there are gets those that come next.
                self.last_line = self.last_line.min(self.passed);
                break;
            }
            self.position += read as u64;
            self.passed += 1;
            if self.passed > self.last_line {
                self.last_line = self.passed;
                // Only of those that are given: a call must not end without any while there are some.
                taken += read as u64;
                let understood: JournalLine = serde_json::from_slice(&line).unwrap_or_default();
                found.push(JournalLine { place: self.passed, ..understood });
            }
        }
        Ok(found)
    }

    fn error(&self, source: std::io::Error) -> StoreError {
        StoreError::io("read", &self.path, source)
    }

    fn too_long(&self) -> StoreError {
        StoreError::Damaged {
            path: self.path.clone(),
            place: format!(":{}", self.passed + 1),
            reason: format!("the line is longer than {} MiB", LINE_LIMIT >> 20),
            way_out: "restore the run directory from a copy",
        }
    }
}

/// True where the last whole line of a journal says that nothing is missing. Only its end is read.
pub(crate) fn ends_completed(journal: &Path) -> bool {
    const END: u64 = 4096;
    let Ok(mut file) = crate::files::open(journal) else { return false };
    let length = file.metadata().map_or(0, |meta| meta.len());
    let mut end = Vec::new();
    let read = file
        .seek(SeekFrom::Start(length.saturating_sub(END)))
        .and_then(|_| file.take(END).read_to_end(&mut end));
    if read.is_err() || end.last() != Some(&b'\n') {
        return false;
    }
    let last = end[..end.len() - 1].rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    serde_json::from_slice::<JournalLine>(last).is_ok_and(|line| line.event == "completed")
}

/// Whether a vtax has the run in this directory open for writing: it holds the lock on the journal.
///
/// Where the kernel's list of locks doesn't help, as where the writer's processes can't be seen from here, a `live.jsonl` that changed
/// within the last 15 seconds counts as well: so for this long a run that has just ended counts, too. [`is_locked`] tells that apart.
#[must_use]
pub fn is_written(run: &Path) -> bool {
    let is_there = || run.join("journal.jsonl").exists();
    is_locked(run) || (is_there() && is_fresh(&run.join("live.jsonl")))
}

/// Whether the lock on the journal of the run in this directory is seen to be held: then no other vtax can go on with it.
///
/// It is looked for in the kernel's list of all locks (proc_locks(5)): trying to take it would keep out a vtax that starts at that very
/// moment. False where the holder's processes can't be seen from here.
#[must_use]
pub fn is_locked(run: &Path) -> bool {
    let journal = run.join("journal.jsonl");
    let Ok(meta) = fs::metadata(&journal) else { return false };
    let own = (major_of(meta.dev()), minor_of(meta.dev()));
    // Where there is a real device, `stat` and the list tell the same one.
    let is_unreal = own.0 == 0;
    let seen = || {
        let locks = list_of_locks().unwrap_or_default();
        let is_in_list = |device| locked(&locks, device, meta.ino());
        is_in_list(own) || (is_unreal && mounted_device(&journal).is_some_and(is_in_list))
    };
    // Of a list longer than a page it may be passed over in one reading.
    seen() || seen()
}

/// The kernel's list of locks, read a page at a time. Each read goes on by place in the list: where a lock before it is given up
/// meanwhile, the next one is passed over. So it isn't read in the few bytes that [`fs::read_to_string`] begins with.
fn list_of_locks() -> std::io::Result<String> {
    let mut list = String::with_capacity(64 << 10);
    fs::File::open("/proc/locks")?.read_to_string(&mut list)?;
    Ok(list)
}

fn is_fresh(live: &Path) -> bool {
    const FRESH: std::time::Duration = std::time::Duration::from_secs(15);
    let changed = fs::metadata(live).and_then(|meta| meta.modified()).ok();
    changed.and_then(|changed| changed.elapsed().ok()).is_some_and(|age| age < FRESH)
}

/// The device of the whole file system that a file is in. On btrfs each subvolume has a device of its own, which `stat` tells, and
/// the list of locks has that of the file system. Inodes are those of the subvolume, so a locked file of the same number in another
/// one is taken for this one.
fn mounted_device(file: &Path) -> Option<(u64, u64)> {
    let place = fs::canonicalize(file).ok()?;
    device_of_mount(mounts().ok()?, &place)
}

/// Major and minor number of the mount that a path lies on.
fn device_of_mount(mounts: Vec<Mounted>, path: &Path) -> Option<(u64, u64)> {
    let on_the_way = mounts.into_iter().filter(|mount| path.starts_with(&mount.point));
    // Of several on one place the last is the one that is seen there, and this finds the last.
    on_the_way.max_by_key(|mount| mount.point.as_os_str().len()).map(|mount| mount.device)
}

/// Whether the list has an exclusive `flock` of that file: `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`.
fn locked(locks: &str, (major, minor): (u64, u64), inode: u64) -> bool {
    locks.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let kind = [words.next(), words.next(), words.next()];
        let file = words.nth(1).unwrap_or_default();
        let mut parts = file.split(':');
        let hexadecimal = |text: Option<&str>| text.and_then(|t| u64::from_str_radix(t, 16).ok());
        kind == [Some("FLOCK"), Some("ADVISORY"), Some("WRITE")]
            && hexadecimal(parts.next()) == Some(major)
            && hexadecimal(parts.next()) == Some(minor)
            && parts.next().and_then(|t| t.parse::<u64>().ok()) == Some(inode)
    })
}

/// The major number in a `dev_t` of Linux (makedev(3)).
fn major_of(device: u64) -> u64 {
    ((device >> 32) & 0xffff_f000) | ((device >> 8) & 0xfff)
}

/// The minor number.
fn minor_of(device: u64) -> u64 {
    ((device >> 12) & 0xffff_ff00) | (device & 0xff)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;
    use vtax_sys::mountinfo::parse;

    use super::*;
    use crate::validity::InvalidReason;

    fn append(path: &Path, text: &str) {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn lines_come_once_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let mut tail = JournalTail::after(dir.path(), 0);
        assert!(tail.read().is_err(), "there is no journal");
        append(&path, "{\"event\":\"opened\",\"version\":3}\n{\"event\":\"note\",\"cell\":null,");
        assert_eq!(tail.read().unwrap().len(), 1);
        append(&path, "\"text\":\"a\"}\nnonsense\n");
        let lines = tail.read().unwrap();
        assert_eq!(
            lines.iter().map(|l| (l.place, l.event.as_str())).collect::<Vec<_>>(),
            [(2, "note"), (3, "")]
        );
        assert_eq!(lines[0].text, "a");
        assert!(tail.read().unwrap().is_empty());
        // Who comes back goes on where it was; who has seen more than there is gets what comes next.
        let again = JournalTail::after(dir.path(), 2).read().unwrap();
        assert_eq!(again.iter().map(|l| l.place).collect::<Vec<_>>(), [3]);
        let mut far = JournalTail::after(dir.path(), 1 << 40);
        assert!(far.read().unwrap().is_empty());
        append(&path, "{\"event\":\"completed\",\"at_unix_ms\":5}\n");
        assert_eq!(far.read().unwrap()[0].event, "completed");
        assert!(ends_completed(&path));
        append(&path, "{\"event\":\"resumed\",\"at_unix_ms\":6}\n{\"ev");
        assert!(!ends_completed(&path));
    }

    #[test]
    fn long_lines_come_a_few_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let long = "x".repeat(9 << 20) + "\n";
        (0..3).for_each(|_| append(&path, &long));
        let places = |tail: &mut JournalTail| -> Vec<u64> {
            tail.read().unwrap().iter().map(|line| line.place).collect()
        };
        let mut tail = JournalTail::after(dir.path(), 0);
        assert_eq!([(); 3].map(|()| places(&mut tail)), [vec![1, 2], vec![3], vec![]]);
        // What is passed over isn't kept.
        assert_eq!(places(&mut JournalTail::after(dir.path(), 2)), [3]);
    }

    #[test]
    fn a_replaced_journal_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        append(&path, "{\"event\":\"opened\"}\n{\"event\":\"note\"}\n");
        let mut tail = JournalTail::after(dir.path(), 0);
        assert_eq!(tail.read().unwrap().len(), 2);
        let new = dir.path().join("new");
        append(&new, "{\"event\":\"opened\",\"minor\":2}\n{\"event\":\"note\"}\n{\"event\":\"resumed\"}\n");
        fs::rename(&new, &path).unwrap();
        let lines = tail.read().unwrap();
        assert_eq!(lines.iter().map(|l| (l.place, l.event.as_str())).collect::<Vec<_>>(), [(3, "resumed")]);
    }

    #[test]
    fn a_trial_says_whether_it_counts() {
        let line = r#"{"event":"trial-ended","index":7,"cell":"vm","measure":"latency","repetition":1,"started_unix_ms":9,
            "validity":{"validity":"invalid","reason":"disturbed","detail":"cron"},"observations":[{"name":""}],
            "timings":{"testbed":"1s","service":"2s","measure":"3s","teardown":"0ns"},"facts":{}}"#;
        let line: JournalLine = serde_json::from_str(&line.replace('\n', " ")).unwrap();
        let invalid = Validity::Invalid { reason: InvalidReason::Disturbed, detail: "cron".to_owned() };
        assert_eq!((line.index, line.validity.as_ref()), (7, Some(&invalid)));
        assert_eq!(line.timings.unwrap().measure, Nanos::from_secs(3));
        assert_eq!(line.spent(), Nanos::from_secs(6));
    }

    #[test]
    fn two_trials_at_the_same_time_take_the_time_of_one() {
        let half = |index: u32, partner: u32| {
            let line = format!(
                r#"{{"event":"trial-ended","index":{index},"partner":{{"index":{partner},"cell":"b"}},
                "timings":{{"testbed":"1s","service":"2s","measure":"3s","teardown":"0ns"}}}}"#
            );
            serde_json::from_str::<JournalLine>(&line).unwrap().spent()
        };
        assert_eq!([half(0, 1), half(1, 0)], [Nanos::from_secs(3); 2]);
        assert_eq!(JournalLine::default().spent(), Nanos::ZERO);
    }

    #[test]
    fn locks_are_found_by_device_and_inode() {
        let list = "1: POSIX  ADVISORY  WRITE 7 08:01:5678 0 EOF\n\
                    2: FLOCK  ADVISORY  READ  8 08:01:5678 0 EOF\n\
                    3: FLOCK  ADVISORY  WRITE 9 103:1a:4242 0 EOF\n\
                    4: -> FLOCK  ADVISORY  WRITE 9 08:01:99 0 EOF\nnonsense\n";
        assert!(locked(list, (0x103, 0x1a), 4242));
        assert!(!locked(list, (8, 1), 5678), "neither a lock of another kind nor one for reading");
        assert!(!locked(list, (8, 1), 99), "who waits for a lock has none");
        assert!(!locked("", (0, 1), 2));
        assert_eq!((major_of(0x1031a), minor_of(0x1031a)), (0x103, 0x1a));
    }

    /// On btrfs `stat` tells 0:42 of a file of a subvolume that is mounted from a file system of 0:39.
    #[test]
    fn a_lock_in_a_subvolume_is_found_by_the_mount() {
        let mounts = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
                      40 22 0:38 /@old /home rw - btrfs /dev/sdb1 rw,subvol=/@old\n\
                      41 22 0:39 /@home /home rw,noatime shared:7 - btrfs /dev/sdb2 rw,subvol=/@home\n\
                      42 22 0:50 / /home\\040of\\134all rw - tmpfs tmpfs rw\n\
                      43 22 0:51 / /homes rw - tmpfs tmpfs rw\n\
                      nonsense\n44 22 x:y / /home/ann rw - tmpfs tmpfs rw\n";
        let device = |path: &str| device_of_mount(parse(mounts.as_bytes()), Path::new(path));
        let found = device("/home/ann/runs/a/journal.jsonl").unwrap();
        assert_eq!(found, (0, 39), "the last of those mounted there");
        let locks = "1: FLOCK  ADVISORY  WRITE 9 00:27:259 0 EOF\n";
        assert!(locked(locks, found, 259) && !locked(locks, (0, 42), 259));
        assert_eq!(device("/home of\\all/journal.jsonl"), Some((0, 50)));
        assert_eq!(device("/srv/journal.jsonl"), Some((8, 1)));
        assert_eq!(device("relative"), None);
        assert_eq!(device_of_mount(Vec::new(), Path::new("/")), None);
    }

    /// The kernel's two lists tell the same device of a file, whatever `stat` does.
    #[test]
    fn a_lock_is_found_by_the_mount_of_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let file = fs::File::create(&path).unwrap();
        crate::lock_journal(&file, dir.path()).unwrap();
        let locks = list_of_locks().unwrap();
        let (device, inode) = (mounted_device(&path).unwrap(), file.metadata().unwrap().ino());
        assert!(locked(&locks, device, inode), "{device:?} and {inode} are not in {locks}");
        assert_eq!(mounted_device(&dir.path().join("gone")), None);
    }

    #[test]
    fn a_writer_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        append(&path, "{\"event\":\"opened\"}\n");
        assert!(!is_written(dir.path()));
        append(&dir.path().join("live.jsonl"), "{}\n");
        assert!(is_written(dir.path()), "it has just changed");
        assert!(!is_locked(dir.path()), "nobody holds it");
        let journal = fs::File::open(&path).unwrap();
        crate::lock_journal(&journal, dir.path()).unwrap();
        assert!(is_locked(dir.path()));
        assert!(!is_written(&dir.path().join("gone")));
    }

    proptest! {
        /// Whatever is in a journal, and however it came there, each line is told once and in order.
        #[test]
        fn any_bytes_are_told_once(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..8)) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("journal.jsonl");
            let mut file = fs::File::create(&path).unwrap();
            let mut tail = JournalTail::after(dir.path(), 0);
            let mut places = Vec::new();
            for part in &parts {
                file.write_all(part).unwrap();
                places.extend(tail.read().unwrap().iter().map(|line| line.place));
            }
            let lines = parts.concat().iter().filter(|byte| **byte == b'\n').count() as u64;
            prop_assert_eq!(places, (1..=lines).collect::<Vec<_>>());
            ends_completed(&path);
        }
    }
}
