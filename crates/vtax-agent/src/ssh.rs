//! Where an agent's stream is ssh's, or that of something like it: what the other side's shell is told.

/// Options of ssh: no terminal, never a question, and an end where the other side is gone.
pub const OPTIONS: [&str; 9] = [
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=10",
    "-o",
    "ServerAliveInterval=5",
    "-o",
    "ServerAliveCountMax=3",
];

/// A script that makes a directory which only its user can read, takes a program of so many bytes from its input, and says where it is
/// ([`directory_told`]). One of which not all came leaves nothing: whoever sent it is gone. It has no single quotes.
#[must_use]
pub fn receive(bytes: u64) -> String {
    format!(
        "umask 077; d=$(mktemp -d \"${{TMPDIR:-/tmp}}/vtax-XXXXXXXX\") || exit 1; trap : HUP INT TERM; \
         cat > \"$d/vtax\" && [ \"$(wc -c < \"$d/vtax\")\" -eq {bytes} ] && chmod 700 \"$d/vtax\" && echo \"vtax-in $d\" || \
         {{ rm -rf \"$d\"; echo \"not all of vtax came\" >&2; exit 1; }}"
    )
}

/// The directory that such a script told of. It becomes part of a script, and the host may answer anything.
#[must_use]
pub fn directory_told(told: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let directory = told.lines().rev().find_map(|line| line.trim().strip_prefix("vtax-in "))?;
    let good = directory.starts_with('/') && directory.len() < 200 && directory.chars().all(plain);
    (good && !directory.contains("..")).then(|| directory.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_a_plain_path() {
        assert_eq!(directory_told("motd\nvtax-in /tmp/vtax-Ab12\n").as_deref(), Some("/tmp/vtax-Ab12"));
        for told in
            ["", "/tmp/x", "vtax-in tmp/x", "vtax-in /tmp/$(x)", "vtax-in /tmp/a b", "vtax-in /tmp/../etc"]
        {
            assert_eq!(directory_told(told), None, "{told}");
        }
    }
}
