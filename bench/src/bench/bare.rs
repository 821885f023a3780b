//! The least that a closed loop of HTTP can cost: receive and send, over the same sockets as others have, and nothing else.
//!
//! Nothing of an answer is looked at but its length, which is that of the first one: all are alike. What a loop costs beyond this one
//! is the generator's own.

use std::io::{Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::program::{pinned, run};

const EVENTS: usize = 256;
/// As the generator's own.
const BUFFER_BYTES: usize = 64 << 10;
/// Longest answer that the length is told from.
const ANSWER_MAX: usize = 1 << 20;

/// Runs the loop in a process of its own on a CPU; the answers per second of its CPU time.
pub(super) fn per_cpu_second(cpu: &str, address: SocketAddr, connections: u32, seconds: u32) -> Result<f64> {
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = pinned(cpu, &program.display().to_string());
    command.args(["bare-http", &address.to_string(), &connections.to_string(), &seconds.to_string()]);
    let (output, reaped) = run(&mut command, "the bare loop")?;
    let answers: f64 = output.trim().parse().with_context(|| format!("the bare loop printed `{output}`"))?;
    Ok(answers / reaped.cpu.total().as_secs_f64())
}

/// `vtax-bench bare-http ADDRESS CONNECTIONS SECONDS`: prints how many answers came.
pub(crate) fn main(address: &str, connections: &str, seconds: &str) -> Result<()> {
    let address: SocketAddr = address.parse().context("an address")?;
    let connections: u64 = connections.parse().context("a number of connections")?;
    let time = Duration::from_secs(seconds.parse().context("a number of seconds")?);
    println!("{}", closed_loop(address, connections, time)?);
    Ok(())
}

/// Asks on each connection as soon as the last answer came; the answers that came.
fn closed_loop(address: SocketAddr, connections: u64, time: Duration) -> Result<u64> {
    let request = format!("GET /file HTTP/1.1\r\nHost: {address}\r\nUser-Agent: vtax\r\n\r\n").into_bytes();
    let length = length_of_answer(address, &request)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    // Each with the bytes of its answer that have come.
    let mut streams: Vec<(TcpStream, usize)> = Vec::new();
    let until = Instant::now() + time;
    for number in 0..connections {
        let stream = TcpStream::connect(address).context("connecting")?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &stream, epoll::EventData::new_u64(number), flags)?;
        rustix::net::send(&stream, &request, SendFlags::NOSIGNAL)?;
        streams.push((stream, 0));
    }
    let mut events = [MaybeUninit::uninit(); EVENTS];
    let (mut answers, mut buffer) = (0, vec![0; BUFFER_BYTES]);
    let patience = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    while Instant::now() < until {
        let ready = match epoll::wait(&epoll, &mut events[..], Some(&patience)) {
            Ok((ready, _)) => ready,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        for event in ready {
            let place = usize::try_from(event.data.u64())?;
            let (stream, have) = streams.get_mut(place).context("an event of no connection")?;
            let (_, got) = rustix::net::recv(&*stream, &mut buffer[..], RecvFlags::empty())?;
            ensure!(got > 0, "the server closed a connection");
            *have += got;
            ensure!(*have <= length, "an answer is longer than the first was");
            if *have == length {
                *have = 0;
                answers += 1;
                rustix::net::send(&*stream, &request, SendFlags::NOSIGNAL)?;
            }
        }
    }
    Ok(answers)
}

/// Head and body of one answer together.
fn length_of_answer(address: SocketAddr, request: &[u8]) -> Result<usize> {
    let mut stream = TcpStream::connect(address).context("connecting")?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(request)?;
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    while answer.len() < ANSWER_MAX {
        let got = stream.read(&mut buffer).context("waiting for an answer")?;
        ensure!(got > 0, "the server closed the connection");
        answer.extend_from_slice(&buffer[..got]);
        if let Some(length) = whole(&answer) {
            return Ok(length);
        }
    }
    anyhow::bail!("an answer is longer than {ANSWER_MAX} bytes")
}

/// The length of an answer that says how long it is.
fn whole(answer: &[u8]) -> Option<usize> {
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
    let body: usize =
        text.lines().find_map(|line| line.strip_prefix("content-length:"))?.trim().parse().ok()?;
    (answer.len() >= head + body).then_some(head + body)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn answers_are_counted_whole() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut asked = [0; 1024];
                    while stream.read(&mut asked).is_ok_and(|got| got > 0) {
                        // In two pieces.
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe");
                        std::thread::sleep(Duration::from_millis(2));
                        let _ = stream.write_all(b"llo");
                    }
                });
            }
        });
        let answers = closed_loop(address, 3, Duration::from_millis(300)).unwrap();
        assert!(answers > 3, "{answers}");
    }

    #[test]
    fn an_answer_is_whole_with_its_body() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(whole(answer), Some(answer.len()));
        assert_eq!(whole(&answer[..answer.len() - 1]), None);
        assert_eq!(whole(b"HTTP/1.1 200 OK\r\n\r\n"), None);
    }
}
