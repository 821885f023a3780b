//! What the kernel's clients count.

/// What was sent to a server and fetched from it, by name; the names are the same for all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::family::storage) struct Counters {
    reads: u64,
    writes: u64,
    /// Calls that make data durable.
    syncs: u64,
    read_bytes: u64,
    write_bytes: u64,
}

impl Counters {
    /// What was counted since then.
    pub(in crate::family::storage) fn since(self, then: Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(then.reads),
            writes: self.writes.saturating_sub(then.writes),
            syncs: self.syncs.saturating_sub(then.syncs),
            read_bytes: self.read_bytes.saturating_sub(then.read_bytes),
            write_bytes: self.write_bytes.saturating_sub(then.write_bytes),
        }
    }

    /// Bytes fetched from the server.
    pub(in crate::family::storage) const fn fetched(self) -> u64 {
        self.read_bytes
    }

    /// By name.
    pub(in crate::family::storage) fn named(self) -> Vec<(String, u64)> {
        [
            ("reads of the kernel's client", self.reads),
            ("writes of the kernel's client", self.writes),
            ("syncs of the kernel's client", self.syncs),
            ("bytes read from the server", self.read_bytes),
            ("bytes written to the server", self.write_bytes),
        ]
        .map(|(name, count)| (name.to_owned(), count))
        .to_vec()
    }
}

/// Of the mount at this place, from `/proc/self/mountstats`.
pub(super) fn of_nfs(text: &str, place: &str) -> Counters {
    let ours = |line: &str| line.starts_with("device ") && line.contains(&format!(" mounted on {place} "));
    let lines =
        text.lines().skip_while(|line| !ours(line)).skip(1).take_while(|line| !line.starts_with("device "));
    let mut counters = Counters::default();
    for line in lines {
        let Some((name, rest)) = line.trim().split_once(':') else { continue };
        let numbers: Vec<u64> = rest.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
        match name {
            // Normal and direct reads and writes as asked for, then what came from and went to the server.
            "bytes" => (counters.read_bytes, counters.write_bytes) = (at(4), at(5)),
            "READ" => counters.reads = at(0),
            "WRITE" => counters.writes = at(0),
            "COMMIT" => counters.syncs = at(0),
            _ => {}
        }
    }
    counters
}

/// Of all SMB shares together, from `/proc/fs/cifs/Stats`.
pub(super) fn of_smb(text: &str) -> Counters {
    let mut counters = Counters::default();
    for line in text.lines() {
        let first = |rest: &str| rest.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("Bytes read:") {
            counters.read_bytes += first(rest).unwrap_or(0);
            let written = rest.split_once("Bytes written:").and_then(|(_, rest)| first(rest));
            counters.write_bytes += written.unwrap_or(0);
        } else if let Some(rest) = line.strip_prefix("Reads:") {
            counters.reads += first(rest).unwrap_or(0);
        } else if let Some(rest) = line.strip_prefix("Writes:") {
            counters.writes += first(rest).unwrap_or(0);
        } else if let Some(rest) = line.strip_prefix("Flushes:") {
            counters.syncs += first(rest).unwrap_or(0);
        }
    }
    counters
}

/// Of all disks together, from their `stat` (kernel document `iostats`).
pub(super) fn of_disks(stats: impl Iterator<Item = String>) -> Counters {
    let mut counters = Counters::default();
    for stat in stats {
        let numbers: Vec<u64> = stat.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
        counters.reads += at(0);
        counters.read_bytes += at(2) * 512;
        counters.writes += at(4);
        counters.write_bytes += at(6) * 512;
        counters.syncs += at(15);
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_nfs_mounts_own_counters_are_read() {
        let text = "device a:/x mounted on /m/1 with fstype nfs4 statvers=1.1\n\
                    \tbytes:\t1 2 3 4 5 6 7 8\n\
                    \tREAD: 9 9 0 0 0 0 0 0 0\n\
                    device 10.0.0.2:/vtax mounted on /m/0 with fstype nfs4 statvers=1.1\n\
                    \topts:\trw,vers=4.1\n\
                    \tbytes:\t40 50 60 70 4096 8192 1 2\n\
                    \tper-op statistics\n\
                    \t        NULL: 1 1 0 44 24 0 0 0 0\n\
                    \t        READ: 3 3 0 1 1 1 1 1 0\n\
                    \t       WRITE: 4 4 0 1 1 1 1 1 0\n\
                    \t      COMMIT: 2 2 0 1 1 1 1 1 0\n";
        let found = of_nfs(text, "/m/0");
        let expected = Counters { reads: 3, writes: 4, syncs: 2, read_bytes: 4096, write_bytes: 8192 };
        assert_eq!(found, expected);
        assert_eq!(of_nfs(text, "/m/1").reads, 9);
        assert_eq!(of_nfs("nonsense", "/m/0"), Counters::default());
        assert_eq!(found.since(Counters { reads: 1, ..found }).named()[0].1, 2);
    }

    #[test]
    fn smb_and_disks_too() {
        let text = "1) \\\\10.0.0.2\\vtax\nSMBs: 55\nBytes read: 4096  Bytes written: 1048576\n\
                    Reads: 3 total 0 failed\nWrites: 4 total 0 failed\nFlushes: 1 total 0 failed\n";
        let expected = Counters { reads: 3, writes: 4, syncs: 1, read_bytes: 4096, write_bytes: 1 << 20 };
        assert_eq!(of_smb(text), expected);
        let stats = ["10 1 80 0 20 2 160 0 0 0 0 0 0 0 0 3 0", "1 0 8 0 1 0 8 0 0 0 0", "?"];
        let found = of_disks(stats.into_iter().map(str::to_owned));
        let expected =
            Counters { reads: 11, writes: 21, syncs: 3, read_bytes: 88 * 512, write_bytes: 168 * 512 };
        assert_eq!(found, expected);
    }
}
