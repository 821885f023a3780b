//! Where an agent's stream is ssh's, or that of something like it: what the other side's shell is told, and how vtax gets there.

use std::io::{self, Read, Write};

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

/// The line that says that vtax is there and is started next.
const THERE: &str = "vtax-is-there";
/// The most that a host may say before that line, such as a message of the day.
const MOST_SAID: usize = 65_536;

/// The vtax that a host is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program<'a> {
    /// One that is there, by its path.
    There(&'a str),
    /// One that comes by the stream's beginning, of so many bytes.
    Sent(u64),
}

/// A word of such a script, whatever is in it, without single quotes. Plans name programs and nodes, and one that a run is gone on with
/// may come from others.
#[must_use]
pub fn quoted(word: &str) -> String {
    let mut out = String::from("\"");
    for c in word.chars() {
        match c {
            '\'' => out.push_str("$(printf \"\\047\")"),
            '"' | '$' | '`' | '\\' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A script that makes a directory which only its user can list, `$d` in the arguments, and runs vtax in it ([`hand_over`] is the other
/// side). It has no single quotes, if the arguments have none.
///
/// Every user may enter it: services that drop root's rights have their files below. What is made there is closed by the umask.
///
/// One shell has the directory from its making to its end, so that whatever becomes of the other side, the stream's end takes the directory
/// with it: the program ends, or not all of it came. The shell stays when the program is killed, and a signal to both ends only the
/// program. What dies with it may still make a file, hence the second try.
#[must_use]
pub fn script(program: Program<'_>, arguments: &str) -> String {
    let (receive, path) = match program {
        Program::There(path) => ("true".to_owned(), quoted(path)),
        // Nothing more is sent before it is known to be there, so that it matters not whether `head` reads ahead.
        Program::Sent(bytes) => (
            format!(
                "{{ head -c {bytes} > \"$d/vtax\" && [ \"$(wc -c < \"$d/vtax\")\" -eq {bytes} ] && chmod 700 \"$d/vtax\" || \
                 {{ echo \"not all of vtax came\" >&2; false; }}; }}"
            ),
            "\"$d/vtax\"".to_owned(),
        ),
    };
    format!(
        "umask 077; trap : HUP INT TERM; d=$(mktemp -d \"${{TMPDIR:-/tmp}}/vtax-XXXXXXXX\") || exit 1; \
         chmod 711 \"$d\" && {receive} && echo {THERE} && {path} {arguments}; s=$?; rm -rf \"$d\" || {{ sleep 1; rm -rf \"$d\"; }}; exit $s"
    )
}

/// Sends a program to such a script, where it has one sent, and waits until it is there. What is read afterwards is the program's.
///
/// # Errors
///
/// Where the stream ends before, or the host says other things without an end; with the end of what it said.
pub fn hand_over(program: Option<impl Read>, mut to: impl Write, mut from: impl Read) -> io::Result<()> {
    if let Some(mut program) = program {
        io::copy(&mut program, &mut to)?;
        to.flush()?;
    }
    let (mut last, mut line) = (Vec::new(), Vec::new());
    // One at a time: what follows the line belongs to somebody else.
    let mut byte = [0];
    for _ in 0..MOST_SAID {
        if from.read(&mut byte)? == 0 {
            break;
        }
        if byte[0] != b'\n' {
            line.push(byte[0]);
        } else if line.trim_ascii() == THERE.as_bytes() {
            return Ok(());
        } else {
            last = std::mem::take(&mut line);
        }
    }
    let end = if line.trim_ascii().is_empty() { last } else { line };
    let end = String::from_utf8_lossy(end.trim_ascii()).chars().take(200).collect::<String>();
    let said = if end.is_empty() { "nothing".to_owned() } else { format!("`{}`", end.escape_debug()) };
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("vtax isn't there; the host said {said}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_fit_between_single_quotes() {
        for program in [Program::Sent(5), Program::There("/usr/bin/vtax"), Program::There("'; touch x; '")] {
            let script = script(program, "host-agent --dir \"$d/job\"");
            assert!(!script.contains('\''), "{script}");
        }
    }

    #[test]
    fn a_word_is_one_to_a_shell_whatever_is_in_it() {
        for word in [
            "/usr/bin/vtax",
            "",
            "a b",
            "a'b''",
            "$(id)`id`$HOME",
            "\"; id; \"",
            "\\",
            "\\'\"$",
            "a\nb",
            "-x *",
        ] {
            let script = format!("printf %s {}", quoted(word));
            assert!(!script.contains('\''), "{script}");
            // As it stands between single quotes for the user's own shell.
            let whole = format!("exec sh -c '{script}'");
            let output = std::process::Command::new("sh").args(["-c", &whole]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), word);
        }
    }

    /// Web servers that root starts serve as another user, from files below.
    #[test]
    fn every_user_may_enter_its_directory_and_none_but_its_own_what_is_made_there() {
        let arguments = "-c \"mkdir $d/job; stat -c %a $d $d/job\"";
        let script = script(Program::There("sh"), arguments);
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "vtax-is-there\n711\n700\n");
    }

    #[test]
    fn what_follows_the_line_is_left_to_read() {
        let mut said = &b"Welcome!\nvtax-is-there\r\nframes"[..];
        let mut sent = Vec::new();
        hand_over(Some(&b"program"[..]), &mut sent, &mut said).unwrap();
        assert_eq!((sent.as_slice(), said), (&b"program"[..], &b"frames"[..]));
    }

    #[test]
    fn a_host_that_says_other_things_is_quoted_and_not_listened_to_for_ever() {
        let told = |said: &[u8]| hand_over(None::<&[u8]>, io::sink(), said).unwrap_err().to_string();
        assert_eq!(told(b""), "vtax isn't there; the host said nothing");
        assert_eq!(told(b"hello\nno \x1b[1mway\n"), "vtax isn't there; the host said `no \\u{1b}[1mway`");
        assert!(told(&vec![b'x'; 10 * MOST_SAID]).len() < 300);
        assert!(hand_over(None::<&[u8]>, io::sink(), io::repeat(b'\n')).is_err());
    }
}
