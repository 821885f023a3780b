//! The kernel's list of the mounts that this process sees (proc_pid_mountinfo(5)).

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// Major and minor number of the file system's device. On btrfs stat(2) tells another one, of the subvolume.
    pub device: (u64, u64),
    /// What of the file system is mounted.
    pub root: PathBuf,
    /// Where. Of several mounts at one place the last hides the others.
    pub point: PathBuf,
    /// Options of this mount: `rw,nosuid`.
    pub options: String,
    /// Kind of the file system: `ext4`.
    pub kind: String,
    /// Options of the file system, whose mounts all have them.
    pub file_system_options: String,
}

/// All of them, in the order in which they are listed.
///
/// # Errors
///
/// Where there is no `/proc`.
pub fn mounts() -> io::Result<Vec<Mounted>> {
    std::fs::read("/proc/self/mountinfo").map(|list| parse(&list))
}

/// The mounts of such a list; lines that are none are left out. Paths are any bytes.
#[must_use]
pub fn parse(list: &[u8]) -> Vec<Mounted> {
    list.split(|byte| *byte == b'\n').filter_map(mounted).collect()
}

/// `36 35 98:0 /root /mnt rw,noatime shared:1 - ext3 /dev/root rw,errors=continue`, with any number of words before the dash.
fn mounted(line: &[u8]) -> Option<Mounted> {
    let mut words = line.split(|byte| *byte == b' ');
    let device = std::str::from_utf8(words.nth(2)?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let device = (major.parse().ok()?, minor.parse().ok()?);
    let [root, point, options] = [words.next()?, words.next()?, words.next()?];
    words.find(|word| *word == b"-")?;
    let [kind, _source, of_all] = [words.next()?, words.next()?, words.next()?];
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Some(Mounted {
        device,
        root: unescaped(root),
        point: unescaped(point),
        options: text(options),
        kind: text(kind),
        file_system_options: text(of_all),
    })
}

/// A path as it is: a blank stands in the list as `\040`, a backslash as `\134`.
fn unescaped(word: &[u8]) -> PathBuf {
    let (mut path, mut rest) = (Vec::with_capacity(word.len()), word);
    loop {
        rest = match rest {
            [] => return OsString::from_vec(path).into(),
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                path.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                after
            }
            [byte, after @ ..] => {
                path.push(*byte);
                after
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn mounts_are_read_as_they_are_listed() {
        let list = b"\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
40 27 0:38 /@home /home\\040of\\134all rw,noatime shared:7 master:2 - btrfs /dev/sdb1 rw,subvol=/@home
nonsense
41 27 x:y / /mnt rw - tmpfs tmpfs rw
42 27 0:1 / /mnt rw tmpfs tmpfs rw
";
        let found = parse(list);
        assert_eq!(found.len(), 2, "{found:?}");
        let [first, second] = [&found[0], &found[1]];
        assert_eq!((first.device, first.point.as_path()), ((254, 0), Path::new("/")));
        assert_eq!((first.kind.as_str(), first.file_system_options.as_str()), ("ext4", "rw,discard"));
        assert_eq!((second.root.as_path(), second.options.as_str()), (Path::new("/@home"), "rw,noatime"));
        assert_eq!(second.point, Path::new("/home of\\all"));
        assert_eq!(unescaped(b"/\\134\\011\\9"), Path::new("/\\\t\\9"));
    }

    #[test]
    fn this_process_has_a_root() {
        assert!(mounts().unwrap().iter().any(|mount| mount.point == Path::new("/")));
    }

    proptest! {
        #[test]
        fn any_list_is_read(list in prop::collection::vec(any::<u8>(), 0..300)) {
            let lines = list.iter().filter(|byte| **byte == b'\n').count() + 1;
            prop_assert!(parse(&list).len() <= lines);
        }

        #[test]
        fn any_place_is_read_as_it_is(place in prop::collection::vec(1..=u8::MAX, 1..40)) {
            let mut line = b"40 27 0:38 / ".to_vec();
            for byte in &place {
                match byte {
                    b' ' | b'\t' | b'\n' | b'\\' => line.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
                    _ => line.push(*byte),
                }
            }
            line.extend_from_slice(b" rw - btrfs /dev/sdb1 rw\n");
            let found = parse(&line);
            prop_assert_eq!(found[0].point.as_os_str().as_bytes(), place);
        }
    }
}
