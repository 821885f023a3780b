//! Programs that compute, with their temporary files in memory.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// Mounts an empty file system in memory, in a mount namespace of its own, and becomes the program.
const MOUNTED: &str = "mount -t tmpfs -o mode=1777 tests /dev/shm && TMPDIR=/dev/shm exec \"$@\"";

/// Whether this user may mount one: root can, most containers' root can't.
static MAY_MOUNT: LazyLock<bool> = LazyLock::new(|| {
    let mut tried = unshared(Path::new("true"));
    tried.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    tried.status().is_ok_and(|status| status.success())
});

/// A program at the lowest priority, with temporary files in memory where that is possible; they are gone when its last process is.
/// Made-up runs are hundreds of files, each written through to the disk and deleted soon after: on ext4 without a journal, which looks
/// at all that was deleted lately for each new file, that was a quarter of these programs' CPU time.
pub(super) fn command(program: &Path) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "19"]);
    if *MAY_MOUNT {
        let unshared = unshared(program);
        nice.arg(unshared.get_program()).args(unshared.get_args());
    } else {
        nice.arg(program);
    }
    nice
}

fn unshared(program: &Path) -> Command {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", MOUNTED, "sh"]).arg(program);
    unshare
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_in_memory_and_nobody_elses() {
        let mut command = command(Path::new("sh"));
        command.args(["-c", "nice; echo x > \"${TMPDIR:-/tmp}/in-memory-$$\"; echo \"$TMPDIR\"; ls /dev/shm; rm \"${TMPDIR:-/tmp}/in-memory-$$\""]);
        let output = command.output().expect("a program");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.first(), Some(&"19"), "{said}");
        if *MAY_MOUNT {
            assert_eq!(lines.get(1), Some(&"/dev/shm"), "{said}");
            assert!(lines.len() == 3 && lines[2].starts_with("in-memory-"), "{said}");
        }
    }
}
