//! Parsers of `/proc` files.
//!
//! What they read may be short, odd or hostile (a process names itself as it likes, a fake `/proc`
//! may hold anything): they never panic, never allocate more than the limits below, take the
//! fields that are there and leave the rest at zero.

use vtax_units::Nanos;

use crate::types::{CpuTimes, DiskCounters, InterfaceCounters, Memory};

/// Linux supports no more CPUs (`CONFIG_NR_CPUS`).
const MOST_CPUS: usize = 8192;
/// Interfaces and disks beyond this many are left out.
const MOST_DEVICES: usize = 1024;
/// The kernel nests no more PID namespaces (`MAX_PID_NS_LEVEL`).
const MOST_NAMESPACES: usize = 33;
/// `IFNAMSIZ` and `DISK_NAME_LEN` are smaller.
const LONGEST_NAME: usize = 64;

/// Numbers in a line of fields separated by blanks; what is no number, or missing, is zero.
struct Numbers<'a>(std::slice::Split<'a, u8, fn(&u8) -> bool>);

impl<'a> Numbers<'a> {
    fn of(text: &'a [u8]) -> Self {
        Self(text.split(u8::is_ascii_whitespace as fn(&u8) -> bool))
    }

    fn word(&mut self) -> &'a [u8] {
        self.0.find(|w| !w.is_empty()).unwrap_or(&[])
    }

    fn next(&mut self) -> u64 {
        number(self.word())
    }

    fn skip(&mut self, count: usize) -> &mut Self {
        for _ in 0..count {
            self.word();
        }
        self
    }
}

/// An unsigned decimal number; zero where it is none, the largest where it is larger.
fn number(word: &[u8]) -> u64 {
    if word.is_empty() || !word.iter().all(u8::is_ascii_digit) {
        return 0;
    }
    word.iter().fold(0u64, |n, d| n.saturating_mul(10).saturating_add(u64::from(d - b'0')))
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|b| *b == b'\n')
}

fn name(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST_NAME)]).into_owned()
}

/// Appends each CPU of `/proc/stat`; `tick` is the length of one clock tick.
pub(crate) fn cpus(text: &[u8], tick: Nanos, out: &mut Vec<CpuTimes>) {
    for line in lines(text) {
        let Some(rest) = line.strip_prefix(b"cpu") else { continue };
        let mut fields = Numbers::of(rest);
        // The first line, `cpu  ...`, is the sum of all.
        if !rest.first().is_some_and(u8::is_ascii_digit) || out.len() == MOST_CPUS {
            continue;
        }
        let Ok(cpu) = u32::try_from(fields.next()) else { continue };
        let [user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice] =
            std::array::from_fn(|_| fields.next().saturating_mul(tick.0));
        let guest = guest.saturating_add(guest_nice);
        out.push(CpuTimes {
            cpu,
            // The kernel counts a guest's time as user time too.
            user: Nanos(user.saturating_add(nice).saturating_sub(guest)),
            system: Nanos(system),
            irq: Nanos(irq),
            softirq: Nanos(softirq),
            steal: Nanos(steal),
            guest: Nanos(guest),
            idle: Nanos(idle.saturating_add(iowait)),
        });
    }
}

/// `PF_KTHREAD` of the kernel's `linux/sched.h`.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The fields of `/proc/<pid>/stat` (`proc_pid_stat(5)`) that are used; times in ticks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TaskStat<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) parent: u32,
    pub(crate) kernel_thread: bool,
    /// User mode, guest included.
    pub(crate) user: u64,
    pub(crate) system: u64,
    pub(crate) reaped_user: u64,
    pub(crate) reaped_system: u64,
    pub(crate) start: u64,
    pub(crate) resident_pages: u64,
    pub(crate) guest: u64,
}

/// Parses `/proc/<pid>/stat`; `None` where it has no name in parentheses.
pub(crate) fn task(text: &[u8]) -> Option<TaskStat<'_>> {
    // The name may hold blanks and parentheses; the last `)` ends it.
    let open = text.iter().position(|b| *b == b'(')?;
    let close = text.iter().rposition(|b| *b == b')')?;
    let name = text.get(open + 1..close)?;
    let mut fields = Numbers::of(&text[close + 1..]);
    let parent = u32::try_from(fields.skip(1).next()).unwrap_or(0);
    let flags = fields.skip(4).next();
    let user = fields.skip(4).next();
    let (system, reaped_user, reaped_system) = (fields.next(), fields.next(), fields.next());
    let start = fields.skip(4).next();
    let resident_pages = fields.skip(1).next();
    let guest = fields.skip(18).next();
    Some(TaskStat {
        name,
        parent,
        kernel_thread: flags & KERNEL_THREAD != 0,
        user,
        system,
        reaped_user,
        reaped_system,
        start,
        resident_pages,
        guest,
    })
}

/// Resident pages that may be others' as well, the third field of `/proc/<pid>/statm`: of files, and memory that
/// processes share.
pub(crate) fn shared_pages(text: &[u8]) -> u64 {
    Numbers::of(text).skip(2).next()
}

/// A process's numbers in the PID namespaces that it is in, that of this `/proc` first: `NSpid` of `/proc/<pid>/status`.
pub(crate) fn namespace_ids(text: &[u8]) -> Vec<u32> {
    let line = lines(text).find_map(|line| line.strip_prefix(b"NSpid:")).unwrap_or_default();
    let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    words.take(MOST_NAMESPACES).map(|word| u32::try_from(number(word)).unwrap_or(0)).collect()
}

/// The time a task ran, the first field of `/proc/<pid>/task/<tid>/schedstat` (`sched-stats`).
pub(crate) fn run_time(text: &[u8]) -> Option<Nanos> {
    let word = Numbers::of(text).word();
    (!word.is_empty() && word.iter().all(u8::is_ascii_digit)).then(|| Nanos(number(word)))
}

/// Parses `/proc/meminfo`.
pub(crate) fn memory(text: &[u8]) -> Memory {
    let (mut memory, mut swap_total, mut swap_free) = (Memory::default(), 0, 0);
    for line in lines(text) {
        let mut fields = Numbers::of(line);
        let place = match fields.word() {
            b"MemTotal:" => &mut memory.total_bytes,
            b"MemAvailable:" => &mut memory.available_bytes,
            b"SwapTotal:" => &mut swap_total,
            b"SwapFree:" => &mut swap_free,
            _ => continue,
        };
        // The unit is always kB, and means KiB.
        *place = fields.next().saturating_mul(1024);
    }
    memory.swap_used_bytes = swap_total.saturating_sub(swap_free);
    memory
}

/// Appends each interface of `/proc/net/dev`.
pub(crate) fn interfaces(text: &[u8], out: &mut Vec<InterfaceCounters>) {
    // Two lines of headings come first.
    for line in lines(text).skip(2) {
        // A name may hold a colon (an alias); the counters can't.
        let Some(colon) = line.iter().rposition(|b| *b == b':') else { continue };
        if out.len() == MOST_DEVICES {
            return;
        }
        let mut fields = Numbers::of(&line[colon + 1..]);
        let [rx_bytes, rx_packets, _, rx_dropped] = std::array::from_fn(|_| fields.next());
        fields.skip(4);
        let [tx_bytes, tx_packets, _, tx_dropped] = std::array::from_fn(|_| fields.next());
        out.push(InterfaceCounters {
            name: name(line[..colon].trim_ascii()),
            rx_bytes,
            rx_packets,
            rx_dropped,
            tx_bytes,
            tx_packets,
            tx_dropped,
        });
    }
}

/// Appends each whole disk of `/proc/diskstats` that ever did anything.
///
/// Partitions are left out, their disk has their counters too. Sectors are of 512 bytes whatever
/// the disk says (kernel document `iostats`).
pub(crate) fn disks(text: &[u8], out: &mut Vec<DiskCounters>) {
    let mut disk: &[u8] = &[];
    for line in lines(text) {
        let mut fields = Numbers::of(line);
        let this = fields.skip(2).word();
        if this.is_empty() || is_partition_of(this, disk) {
            continue;
        }
        disk = this;
        let reads = fields.next();
        let read_bytes = fields.skip(1).next().saturating_mul(512);
        let writes = fields.skip(1).next();
        let write_bytes = fields.skip(1).next().saturating_mul(512);
        if reads == 0 && writes == 0 {
            continue;
        }
        if out.len() == MOST_DEVICES {
            return;
        }
        out.push(DiskCounters { name: name(this), read_bytes, reads, write_bytes, writes });
    }
}

/// `sda1` is a partition of `sda`, `nvme0n1p1` one of `nvme0n1`, but `dm-10` none of `dm-1`.
fn is_partition_of(name: &[u8], disk: &[u8]) -> bool {
    let Some(&last) = disk.last() else { return false };
    let Some(rest) = name.strip_prefix(disk) else { return false };
    let digits = if last.is_ascii_digit() { rest.strip_prefix(b"p").unwrap_or(&[]) } else { rest };
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

/// The counters `pswpin` and `pswpout` of `/proc/vmstat`, in pages.
pub(crate) fn swapped_pages(text: &[u8]) -> (u64, u64) {
    let mut pages = (0, 0);
    for line in lines(text) {
        let mut fields = Numbers::of(line);
        match fields.word() {
            b"pswpin" => pages.0 = fields.next(),
            b"pswpout" => pages.1 = fields.next(),
            _ => {}
        }
    }
    pages
}

/// Time in which some task waited, from `/proc/pressure/*` (accounting/psi.rst: total in µs); `None` where there
/// is no such line.
pub(crate) fn pressure(text: &[u8]) -> Option<Nanos> {
    let line = lines(text).find(|line| line.starts_with(b"some "))?;
    let total = line.split(|b| *b == b' ').find_map(|word| word.strip_prefix(b"total="))?;
    let micros: u64 = std::str::from_utf8(total).ok()?.trim().parse().ok()?;
    Some(Nanos(micros.saturating_mul(1_000)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TICK: Nanos = Nanos(10_000_000);

    #[test]
    fn guest_time_is_taken_out_of_user_time() {
        let mut out = Vec::new();
        cpus(b"cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 100 5 7 1000 3 2 4 6 50 1\ncpu1 1\nintr 5\n", TICK, &mut out);
        assert_eq!(out.len(), 2);
        assert_eq!(out[0].user, Nanos(54 * TICK.0));
        assert_eq!(out[0].guest, Nanos(51 * TICK.0));
        assert_eq!(out[0].idle, Nanos(1003 * TICK.0));
        assert_eq!(out[1], CpuTimes { cpu: 1, user: TICK, ..CpuTimes::default() });
    }

    #[test]
    fn a_task_may_call_itself_anything() {
        let line = b"42 (a) b) S 7 42 42 0 -1 4194560 1 2 3 4 11 12 13 14 20 0 3 0 99 1000 25 1 2 3 \
            4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 5 6\n";
        let task = task(line).expect("a name in parentheses");
        assert_eq!(task.name, b"a) b");
        assert_eq!((task.parent, task.kernel_thread), (7, false));
        assert_eq!((task.user, task.system, task.reaped_user, task.reaped_system), (11, 12, 13, 14));
        assert_eq!((task.start, task.resident_pages, task.guest), (99, 25, 5));
    }

    #[test]
    fn short_task_lines_read_as_zero() {
        assert_eq!(task(b"42 (x"), None);
        assert_eq!(task(b") ("), None);
        assert_eq!(task(b"42 (x) S"), Some(TaskStat { name: b"x", ..TaskStat::default() }));
    }

    #[test]
    fn shared_pages_are_the_third_figure() {
        assert_eq!(shared_pages(b"900 300 120 5 0 70 0\n"), 120);
        assert_eq!(shared_pages(b"900"), 0);
    }

    #[test]
    fn a_process_has_a_number_in_each_namespace() {
        assert_eq!(namespace_ids(b"Name:\tqemu\nPid:\t70\nNSpid:\t4070\t70\t1\nNSsid:\t9\n"), [4070, 70, 1]);
        assert!(namespace_ids(b"Name:\tqemu\nPid:\t70\n").is_empty());
    }

    #[test]
    fn partitions_are_left_out() {
        let mut out = Vec::new();
        let text = b" 8 0 sda 1 0 8 0 2 0 16 0\n 8 1 sda1 1 0 8 0 2 0 16 0\n 253 1 dm-1 1 0 8 0 1 0 8\n \
            253 10 dm-10 1 0 8 0 1 0 8\n 259 0 nvme0n1 3 0 8\n 259 1 nvme0n1p1 3 0 8\n 7 0 loop0 0 0 0 0 0\n";
        disks(text, &mut out);
        let names: Vec<&str> = out.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(names, ["sda", "dm-1", "dm-10", "nvme0n1"]);
        assert_eq!((out[0].read_bytes, out[0].write_bytes), (4096, 8192));
    }

    #[test]
    fn interfaces_and_memory() {
        let mut out = Vec::new();
        interfaces(
            b"Inter-|\n face |\n  eth0: 10 2 0 1 0 0 0 0 20 4 0 3 0 0 0 0\n eth0:1:7 1\nnonsense\n",
            &mut out,
        );
        assert_eq!(out.len(), 2);
        assert_eq!((out[0].rx_bytes, out[0].rx_dropped, out[0].tx_bytes, out[0].tx_dropped), (10, 1, 20, 3));
        assert_eq!(out[1].name, "eth0:1");
        let memory = memory(b"MemTotal: 10 kB\nMemAvailable: 4 kB\nSwapTotal: 3 kB\nSwapFree: 1 kB\n");
        assert_eq!((memory.total_bytes, memory.available_bytes, memory.swap_used_bytes), (10240, 4096, 2048));
        assert_eq!(swapped_pages(b"pswpin 3\npswpout 4\n"), (3, 4));
        let psi = b"some avg10=0.00 avg60=0.00 avg300=0.00 total=9196\nfull avg10=0.00 total=3443\n";
        assert_eq!(pressure(psi), Some(Nanos(9_196_000)));
        assert_eq!(pressure(b"full total=1\n"), None);
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(text in proptest::collection::vec(any::<u8>(), 0..600)) {
            cpus(&text, Nanos(u64::MAX), &mut Vec::new());
            interfaces(&text, &mut Vec::new());
            disks(&text, &mut Vec::new());
            let _ = (task(&text), memory(&text), run_time(&text), swapped_pages(&text), pressure(&text));
            let _ = namespace_ids(&text);
        }

        #[test]
        fn almost_right_text_never_panics(text in "(cpu[0-9]{0,3}|[0-9]{1,25}|\\(|\\)|[: \n]|[a-z]){0,80}") {
            let text = text.as_bytes();
            cpus(text, Nanos(u64::MAX), &mut Vec::new());
            interfaces(text, &mut Vec::new());
            disks(text, &mut Vec::new());
            let _ = (task(text), memory(text), run_time(text), swapped_pages(text));
        }
    }
}
