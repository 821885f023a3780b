//! What the kernel counted while a step ran.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{major, minor};
use serde::{Deserialize, Serialize};

use super::mounted::{Counters, Mounted};

/// What the kernel counted while a step ran; differences.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoCounters {
    /// Bytes that this program's reads fetched from storage (`read_bytes` of /proc/self/io); `None` where the kernel doesn't tell.
    pub fetched: Option<u64>,
    /// The device that holds the files, all its users together; `None` where there is none, as of a tmpfs.
    pub device: Option<DeviceCounters>,
    /// Who the bytes were fetched from, where it is no device of this system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

/// Counters of a block device (kernel document `iostats`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCounters {
    /// Its name: `vda`.
    pub name: String,
    /// Reads that ended, those merged into others not counted.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes that ended.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Flushes of its cache.
    pub flushes: u64,
}

/// Counters at a moment.
#[derive(Debug, Clone)]
pub(super) struct Moment {
    fetched: Option<u64>,
    device: Option<DeviceCounters>,
    /// Of what the load has mounted, and who serves it.
    mounted: Option<(Counters, &'static str)>,
}

impl Moment {
    /// Now, for files at this path or on a volume that the load has mounted; without either, nothing of this system's storage has
    /// a part in it.
    pub(super) fn now(path: Option<&Path>, mounted: Option<&Mounted>) -> Self {
        if let Some(mounted) = mounted {
            let counters = mounted.counters();
            let mounted = Some((counters, mounted.server()));
            return Self { fetched: Some(counters.fetched()), device: None, mounted };
        }
        let Some(path) = path else { return Self { fetched: None, device: None, mounted: None } };
        let io = fs::read_to_string("/proc/self/io").ok();
        let fetched = io.and_then(|text| field(&text, "read_bytes:"));
        Self { fetched, device: device(path), mounted: None }
    }

    /// What was counted since then; of what the load has mounted, all of it.
    pub(super) fn since(self, before: &Self) -> (IoCounters, Option<Counters>) {
        let fetched = self.fetched.zip(before.fetched).map(|(now, then)| now.saturating_sub(then));
        let device = self.device.zip(before.device.as_ref()).map(|(now, then)| DeviceCounters {
            reads: now.reads.saturating_sub(then.reads),
            read_bytes: now.read_bytes.saturating_sub(then.read_bytes),
            writes: now.writes.saturating_sub(then.writes),
            write_bytes: now.write_bytes.saturating_sub(then.write_bytes),
            flushes: now.flushes.saturating_sub(then.flushes),
            name: now.name,
        });
        let server = self.mounted.map(|(_, server)| server.to_owned());
        let mounted = self.mounted.zip(before.mounted).map(|((now, _), (then, _))| now.since(then));
        (IoCounters { fetched, device, server }, mounted)
    }
}

fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// The device under a path: the one that it is, or the one of its file system.
fn device(path: &Path) -> Option<DeviceCounters> {
    let metadata = fs::metadata(path).ok()?;
    let of_device = rustix::fs::FileType::from_raw_mode(metadata.mode()) == rustix::fs::FileType::BlockDevice;
    let number = if of_device { metadata.rdev() } else { metadata.dev() };
    let place = format!("/sys/dev/block/{}:{}", major(number), minor(number));
    let name = fs::read_link(&place).ok()?.file_name()?.to_string_lossy().into_owned();
    parse(name, &fs::read_to_string(format!("{place}/stat")).ok()?)
}

fn parse(name: String, stat: &str) -> Option<DeviceCounters> {
    let fields: Vec<u64> = stat.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let at = |i: usize| fields.get(i).copied();
    Some(DeviceCounters {
        name,
        reads: at(0)?,
        read_bytes: at(2)? * 512,
        writes: at(4)?,
        write_bytes: at(6)? * 512,
        flushes: at(15).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_differences() {
        let at =
            |stat: &str| Moment { fetched: Some(7), device: parse("vda".to_owned(), stat), mounted: None };
        let before = at("10 1 80 0 20 2 160 0 0 0 0 0 0 0 0 3 0");
        let now = at("15 1 120 0 21 2 168 0 0 0 0 0 0 0 0 4 0");
        let (counted, _) = now.since(&before);
        let device = counted.device.unwrap();
        assert_eq!((device.reads, device.read_bytes, device.writes), (5, 40 * 512, 1));
        assert_eq!((device.write_bytes, device.flushes, counted.fetched), (8 * 512, 1, Some(0)));
        assert!(parse("x".to_owned(), "1 2 nonsense").is_none());
        assert_eq!(field("rchar: 5\nread_bytes: 4096\n", "read_bytes:"), Some(4096));
    }
}
