//! Asking FRR's daemons: the stream that its own tool `vtysh` uses.
//!
//! A command is its text and a zero byte; the answer is text, then three zero bytes and a code (FRR's
//! `lib/vty.c`, `vtysh_read`).

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::error::{OnPath, Result, RouterError};

/// How long a daemon may take to answer: also an emulated one with ten thousand routes.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// The longest answer that is read: ten thousand routes have some megabytes.
const LONGEST: usize = 64 << 20;

/// A conversation with one daemon.
#[derive(Debug)]
pub(crate) struct Vty {
    stream: UnixStream,
    path: std::path::PathBuf,
}

impl Vty {
    /// Connects to the daemon with this socket.
    pub(crate) fn connect(path: &Path) -> Result<Self> {
        let stream = UnixStream::connect(path).on("connect to", path)?;
        stream.set_read_timeout(Some(ANSWERS_WITHIN)).on("set up", path)?;
        stream.set_write_timeout(Some(ANSWERS_WITHIN)).on("set up", path)?;
        let mut vty = Self { stream, path: path.to_owned() };
        vty.ask("enable")?;
        Ok(vty)
    }

    /// What it answers to a command.
    pub(crate) fn ask(&mut self, command: &str) -> Result<String> {
        let mut bytes = command.as_bytes().to_vec();
        bytes.push(0);
        self.stream.write_all(&bytes).on("ask", &self.path)?;
        let mut answer = Vec::new();
        let mut buffer = [0; 16 << 10];
        loop {
            let length = self.stream.read(&mut buffer).on("hear from", &self.path)?;
            if length == 0 {
                let error = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
                return Err(error).on("hear from", &self.path);
            }
            answer.extend_from_slice(&buffer[..length]);
            if let Some(code) = ended(&answer) {
                answer.truncate(answer.len() - 4);
                return told(command, code, answer);
            }
            if answer.len() > LONGEST {
                return Err(RouterError::Unknown(format!("`{command}` is answered with more than 64 MiB")));
            }
        }
    }
}

/// The code of an answer that is whole.
fn ended(answer: &[u8]) -> Option<u8> {
    match answer.last_chunk::<4>() {
        Some([0, 0, 0, code]) => Some(*code),
        _ => None,
    }
}

fn told(command: &str, code: u8, answer: Vec<u8>) -> Result<String> {
    let text = String::from_utf8_lossy(&answer).into_owned();
    // 0 is success, 1 a warning: `show` of what isn't there warns.
    if code > 1 {
        return Err(RouterError::Unknown(format!("`{command}` is refused ({code}): {}", text.trim())));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn answers_come_in_pieces_and_end_with_a_code() {
        let directory = std::env::temp_dir().join(format!("vtax-vty-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("zebra.vty");
        let listener = UnixListener::bind(&path).unwrap();
        let daemon = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut heard = Vec::new();
            for answer in [&b"\0\0\0\0"[..], b"{\n}\n\0\0\0\0", b"% no\n\0\0\0\x02"] {
                let mut byte = [1];
                while byte[0] != 0 {
                    stream.read_exact(&mut byte).unwrap();
                    heard.push(byte[0]);
                }
                for piece in answer.chunks(3) {
                    stream.write_all(piece).unwrap();
                }
            }
            heard
        });
        let mut vty = Vty::connect(&path).unwrap();
        assert_eq!(vty.ask("show x json").unwrap(), "{\n}\n");
        assert!(vty.ask("bad").unwrap_err().to_string().contains("% no"));
        assert_eq!(daemon.join().unwrap(), b"enable\0show x json\0bad\0");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
