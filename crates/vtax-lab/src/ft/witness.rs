//! A client of the witness: does memory and connection survive?

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use vtax_sys::{Context, NetNs};
use vtax_vm::contract::WITNESS_PORT;

use crate::error::{LabError, Result, While};
use vtax_sys::sync::lock;

/// How long the guest may take to boot and answer.
const BOOT_WITHIN: Duration = Duration::from_secs(40);
/// How long an answer may take; a connection that is silent for longer is lost.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// Pause between an answer and the next request.
const PAUSE: Duration = Duration::from_millis(2);

/// One answer of the witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// When its request was sent.
    pub sent: Instant,
    /// When it came.
    pub came: Instant,
    /// The number it carried.
    pub number: u64,
}

/// Asks the witness over one connection, one request at a time, until it is told to stop.
#[derive(Debug)]
pub struct Questioner {
    answers: Arc<Mutex<Vec<Answer>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl Questioner {
    /// Connects from within a namespace, once the guest has booted, and begins to ask. Each request says
    /// `words`: `record` has the number written to the disk.
    ///
    /// # Errors
    ///
    /// [`LabError::Pair`] where the guest doesn't answer in time.
    pub fn start(from: &NetNs, address: IpAddr, words: &'static str) -> Result<Self> {
        let stream = connect(from, address)?;
        let answers = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (log, ended) = (Arc::clone(&answers), Arc::clone(&stop));
        let ask = move || ask(&stream, words, &log, &ended).map_err(|e| e.to_string());
        let thread = std::thread::Builder::new().name("questioner".to_owned()).spawn(ask);
        let thread = thread.context("start", "thread").during(|| "ask the witness".to_owned())?;
        let questioner = Self { answers, stop, thread: Some(thread) };
        questioner.wait_answers(1, BOOT_WITHIN)?;
        Ok(questioner)
    }

    /// What was answered so far.
    #[must_use]
    pub fn answers(&self) -> Vec<Answer> {
        lock(&self.answers).clone()
    }

    /// The first answer to come after `when`.
    #[must_use]
    pub fn first_after(&self, when: Instant) -> Option<Answer> {
        lock(&self.answers).iter().find(|answer| answer.came > when).copied()
    }

    /// Waits for so many more answers.
    ///
    /// # Errors
    ///
    /// [`LabError::Pair`] where they don't come within that time.
    pub fn wait_answers(&self, more: usize, within: Duration) -> Result<()> {
        let wanted = lock(&self.answers).len() + more;
        let until = Instant::now() + within;
        loop {
            let count = lock(&self.answers).len();
            if count >= wanted {
                return Ok(());
            }
            if Instant::now() > until || self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                let reason =
                    format!("{} answers are missing after {:.1} s", wanted - count, within.as_secs_f64());
                return Err(LabError::Pair { operation: "ask the witness", reason });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops, and says what was answered.
    ///
    /// # Errors
    ///
    /// [`LabError::Pair`] where the connection was lost, an answer was not the next number, or answered
    /// another request.
    pub fn finish(mut self) -> Result<Vec<Answer>> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap_or(Ok(())));
        ended.map_err(|reason| LabError::Pair { operation: "ask the witness", reason })?;
        let answers = std::mem::take(&mut *lock(&self.answers));
        for pair in answers.windows(2) {
            if pair[1].number != pair[0].number + 1 {
                let reason = format!("{} was followed by {}", pair[0].number, pair[1].number);
                return Err(LabError::Pair { operation: "check the witness's numbers", reason });
            }
        }
        Ok(answers)
    }
}

impl Drop for Questioner {
    fn drop(&mut self) {
        // Its thread ends with the next answer, or when the connection is given up.
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn connect(from: &NetNs, address: IpAddr) -> Result<TcpStream> {
    let until = Instant::now() + BOOT_WITHIN;
    let place = std::net::SocketAddr::from((address, WITNESS_PORT));
    let connected = from.run(|| {
        loop {
            let tried = TcpStream::connect_timeout(&place, Duration::from_secs(2));
            match tried {
                Err(e) if Instant::now() > until => return Err(e).context("connect to", place.to_string()),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
                Ok(stream) => return Ok(stream),
            }
        }
    });
    connected.during(|| "ask the witness".to_owned())
}

fn ask(stream: &TcpStream, words: &str, log: &Mutex<Vec<Answer>>, stop: &AtomicBool) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    let mut question = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        let request = format!("{words} {question}\n");
        let sent = Instant::now();
        writer.write_all(request.as_bytes())?;
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(std::io::Error::other("the witness closed the connection"));
        }
        let came = Instant::now();
        let (number, rest) = line.split_once(' ').unwrap_or_default();
        if rest != request {
            return Err(std::io::Error::other(format!("{request:?} was answered with {line:?}")));
        }
        let number = number.parse().map_err(std::io::Error::other)?;
        lock(log).push(Answer { sent, came, number });
        question += 1;
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
