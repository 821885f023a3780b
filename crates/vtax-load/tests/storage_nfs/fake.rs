//! A server that does what a test tells it to: files in memory, answers of its own choice, or none.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use vtax_load::storage::nfs::NfsVersion;
use vtax_wire::nfs::status;
use vtax_wire::nfs3::PORT_MAPPER;
use vtax_wire::rpc;
use vtax_wire::xdr::{Reader, XdrError, fixed, long, opaque, word};

/// Longest transfer: short, so that records go in parts.
pub(crate) const TRANSFER: u32 = 16384;
const LAST: u32 = 1 << 31;

/// What becomes of the next READ, WRITE or COMMIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// It is carried out.
    Serve,
    /// It ends with this status.
    Fail(u32),
    /// So many bytes less are read or written than asked for.
    Short(u32),
    /// The file ends here.
    End,
    /// No byte is read or written.
    Nothing,
    /// More is read or written than asked for.
    TooMuch,
    /// One of the bytes is another.
    WrongData,
    /// The data is not on stable storage although that was asked for.
    NotStable,
    /// The write is acknowledged, but nothing is written.
    Forget,
    /// Before it is carried out, all files are nothing but zeros.
    Empty,
    /// No answer, ever.
    Silence,
    /// The connection ends.
    Drop,
    /// The session isn't known any more.
    BadSession,
    /// The answer is in a slot that the session doesn't have.
    BadSlot,
    /// The answer comes three times.
    Thrice,
    /// The answer is to another call.
    OtherCall,
    /// The answer is to other operations.
    OtherOperations,
    /// The answer ends in its middle.
    Cut,
    /// The answer comes in pieces of a few bytes.
    Pieces,
    /// Empty pieces that never end.
    EndlessPieces,
    /// A length beyond any.
    HugeLength,
    /// Bytes that are no answer.
    Garbage,
    /// The server calls the client.
    Call,
}

#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    pub(crate) version: NfsVersion,
    pub(crate) files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    /// Names in the directories of small files.
    pub(crate) names: Arc<Mutex<Vec<String>>>,
    /// Directories that were to be made.
    pub(crate) made: Arc<Mutex<Vec<String>>>,
    /// What was to be removed. It stays.
    pub(crate) removed: Arc<Mutex<Vec<String>>>,
    /// What comes next, the last one first; afterwards everything is served.
    pub(crate) acts: Arc<Mutex<Vec<Act>>>,
    /// The same for OPEN, in version 3 CREATE, which fails so.
    pub(crate) opens: Arc<Mutex<Vec<u32>>>,
    /// Of every so many READs, WRITEs and COMMITs one becomes this.
    pub(crate) every: Arc<Mutex<Option<(u64, Act)>>>,
    pub(crate) free: Arc<AtomicU64>,
    /// Sessions that were begun, in version 3 exports that were mounted.
    pub(crate) sessions: Arc<AtomicU32>,
    /// What the port mapper says of MOUNT.
    pub(crate) mapped: Arc<AtomicU32>,
    /// How often it began anew: its verifier of writes.
    pub(crate) restarts: Arc<AtomicU32>,
    operations: Arc<AtomicU64>,
}

impl Fake {
    pub(crate) fn start(version: NfsVersion) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let fake = Self {
            address: listener.local_addr().unwrap(),
            version,
            files: Arc::default(),
            names: Arc::default(),
            made: Arc::default(),
            removed: Arc::default(),
            acts: Arc::default(),
            opens: Arc::default(),
            every: Arc::default(),
            free: Arc::new(AtomicU64::new(1 << 30)),
            sessions: Arc::default(),
            mapped: Arc::new(AtomicU32::new(listener.local_addr().unwrap().port().into())),
            restarts: Arc::default(),
            operations: Arc::default(),
        };
        let of = fake.clone();
        // Ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let fake = of.clone();
                thread::spawn(move || {
                    stream.set_nodelay(true).unwrap();
                    Connection { fake, stream }.run()
                });
            }
        });
        fake
    }

    pub(crate) fn next(&self, acts: &[Act]) {
        self.acts.lock().unwrap().extend(acts.iter().rev());
    }

    /// Whether there is something of this name; a directory of small files is where some are.
    pub(crate) fn has(&self, name: &str) -> bool {
        match name.ends_with(".d") {
            true => !self.names.lock().unwrap().is_empty(),
            false => self.files.lock().unwrap().contains_key(name),
        }
    }

    pub(crate) fn verifier(&self) -> [u8; 8] {
        [self.restarts.load(Ordering::Relaxed) as u8; 8]
    }

    pub(crate) fn act(&self) -> Act {
        let number = self.operations.fetch_add(1, Ordering::Relaxed) + 1;
        let next = self.acts.lock().unwrap().pop();
        let every = *self.every.lock().unwrap();
        next.or(every.filter(|(of, _)| number.is_multiple_of(*of)).map(|(_, act)| act)).unwrap_or(Act::Serve)
    }
}

struct Connection {
    fake: Fake,
    stream: TcpStream,
}

/// An answer that is being made.
pub(crate) struct Answer {
    pub(crate) out: Vec<u8>,
    count: u32,
    /// What the answer as a whole is to become.
    pub(crate) act: Act,
    /// The present file or directory.
    pub(crate) here: String,
    /// Where in the answer the slot is said.
    slot_at: usize,
}

/// How an operation ended.
pub(crate) type Ended = Result<(), u32>;

impl Connection {
    fn run(mut self) -> Option<()> {
        loop {
            let mut mark = [0; 4];
            self.stream.read_exact(&mut mark).ok()?;
            let mut call = vec![0; (u32::from_be_bytes(mark) & !LAST) as usize];
            self.stream.read_exact(&mut call).ok()?;
            let (xid, answer) = answer(&self.fake, &call).expect("a call that makes sense");
            self.send(xid, answer)?;
        }
    }

    fn send(&mut self, xid: u32, mut answer: Answer) -> Option<()> {
        let other = if answer.act == Act::OtherCall { 0x40 } else { 0 };
        if answer.act == Act::BadSlot {
            answer.out[answer.slot_at..answer.slot_at + 4].copy_from_slice(&9999u32.to_be_bytes());
        }
        let mut body = Vec::new();
        let kind = u32::from(answer.act != Act::Call);
        [xid ^ other, kind, 0, 0, 0, 0].into_iter().for_each(|value| word(&mut body, value));
        body.extend_from_slice(&answer.out);
        if answer.act == Act::Cut {
            body.truncate(body.len() - 6);
        }
        let mut out = Vec::new();
        match answer.act {
            Act::Silence => return Some(()),
            Act::Drop => return None,
            Act::HugeLength => word(&mut out, LAST | 0x7fff_fff0),
            Act::Garbage => out.extend_from_slice(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            Act::EndlessPieces => out.extend_from_slice(&[0; 4096]),
            Act::Pieces => {
                // As many as there may be, the last of them with the rest.
                let (begin, rest) = body.split_at(63.min(body.len() - 1));
                for byte in begin {
                    word(&mut out, 1);
                    out.push(*byte);
                }
                word(&mut out, rest.len() as u32 | LAST);
                out.extend_from_slice(rest);
            }
            _ => {
                for _ in 0..if answer.act == Act::Thrice { 3 } else { 1 } {
                    word(&mut out, body.len() as u32 | LAST);
                    out.extend_from_slice(&body);
                }
            }
        }
        self.stream.write_all(&out).ok()
    }
}

/// The number of a call, and its answer.
fn answer(fake: &Fake, call: &[u8]) -> Result<(u32, Answer), XdrError> {
    let called = rpc::called(call).expect("a call");
    let (xid, mut reader) = (called.xid, called.arguments);
    let mut answer = Answer { out: Vec::new(), count: 0, act: Act::Serve, here: String::new(), slot_at: 0 };
    if called.procedure.version == 3 || called.procedure.program == PORT_MAPPER {
        if let Err(status) = answer.version_3(fake, called.procedure, &mut reader)? {
            answer.out.clear();
            word(&mut answer.out, status);
        }
        return Ok((xid, answer));
    }
    let _tag = reader.opaque(1024)?;
    let _minor = reader.word()?;
    let mut status = 0;
    for _ in 0..reader.word()? {
        let number = reader.word()?;
        answer.count += 1;
        let begin = answer.out.len();
        word(&mut answer.out, number);
        word(&mut answer.out, 0);
        if let Err(failed) = answer.operation(fake, number, &mut reader)? {
            status = failed;
            answer.out.truncate(begin + 4);
            word(&mut answer.out, failed);
            break;
        }
        if answer.act == Act::OtherOperations {
            answer.out[begin..begin + 4].copy_from_slice(&26u32.to_be_bytes());
        }
    }
    let mut head = Vec::new();
    word(&mut head, status);
    opaque(&mut head, b"");
    word(&mut head, answer.count);
    answer.slot_at += head.len();
    head.append(&mut answer.out);
    answer.out = head;
    Ok((xid, answer))
}

impl Answer {
    pub(crate) fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|value| word(&mut self.out, *value));
    }

    fn change(&mut self) {
        self.words(&[1]);
        self.out.extend_from_slice(&[0; 16]);
    }

    fn stateid(&mut self) {
        self.words(&[1, 7, 7, 7]);
    }

    fn operation(&mut self, fake: &Fake, number: u32, call: &mut Reader<'_>) -> Result<Ended, XdrError> {
        match number {
            4 => {
                let _ = (call.word()?, call.fixed(16)?);
                self.stateid();
            }
            5 => {
                let _ = (call.long()?, call.word()?);
                self.act = fake.act();
                match self.act {
                    Act::Fail(status) => return Ok(Err(status)),
                    _ => fixed(&mut self.out, &fake.verifier()),
                }
            }
            6 => {
                let (_directory, name) = (call.word()?, call.opaque(255)?);
                let _ = (call.fixed(12)?, call.opaque(64)?);
                self.here = String::from_utf8_lossy(name).into_owned();
                fake.made.lock().unwrap().push(self.here.clone());
                self.change();
                self.words(&[0]);
            }
            9 => {
                let _ = call.fixed(4 + 8)?;
                self.attributes(fake);
            }
            10 => {
                let here = self.here.clone();
                opaque(&mut self.out, here.as_bytes());
            }
            15 => {
                self.here = String::from_utf8_lossy(call.opaque(255)?).into_owned();
                if self.here.starts_with("vtax-") && !fake.has(&self.here) {
                    return Ok(Err(status::NOENT));
                }
            }
            18 => return self.open(fake, call),
            22 => self.here = String::from_utf8_lossy(call.opaque(128)?).into_owned(),
            24 => "root".clone_into(&mut self.here),
            25 => return self.read(fake, call),
            26 | 28 | 34 => self.of_files(fake, number, call)?,
            38 => return self.write(fake, call),
            42..=44 | 57 | 58 => self.of_clients(fake, number, call)?,
            53 => {
                let session: [u8; 16] = call.array()?;
                let (sequence, slot) = (call.word()?, call.word()?);
                let _ = (call.word()?, call.word()?);
                fixed(&mut self.out, &session);
                self.words(&[sequence]);
                self.slot_at = self.out.len();
                self.words(&[slot, 63, 63, 0]);
            }
            other => panic!("operation {other}"),
        }
        Ok(Ok(()))
    }

    /// READDIR, REMOVE, SETATTR of the size.
    fn of_files(&mut self, fake: &Fake, number: u32, call: &mut Reader<'_>) -> Result<(), XdrError> {
        match number {
            26 => {
                let _ = call.fixed(8 + 8 + 4 + 4 + 4)?;
                fixed(&mut self.out, &[0; 8]);
                for name in &*fake.names.lock().unwrap() {
                    self.words(&[1]);
                    long(&mut self.out, 3);
                    opaque(&mut self.out, name.as_bytes());
                    // Without attributes.
                    self.words(&[0, 0]);
                }
                self.words(&[0, 1]);
            }
            28 => {
                let name = String::from_utf8_lossy(call.opaque(255)?).into_owned();
                fake.removed.lock().unwrap().push(name);
                self.change();
            }
            _ => {
                let (_state, _attributes) = (call.fixed(16)?, call.fixed(12)?);
                let size = call.long()? as usize;
                fake.files.lock().unwrap().entry(self.here.clone()).or_default().resize(size, 0);
                self.words(&[1, 1 << 4]);
            }
        }
        Ok(())
    }

    /// EXCHANGE_ID, CREATE_SESSION, DESTROY_SESSION, DESTROY_CLIENTID, RECLAIM_COMPLETE.
    fn of_clients(&mut self, fake: &Fake, number: u32, call: &mut Reader<'_>) -> Result<(), XdrError> {
        match number {
            42 => {
                let _ = (call.fixed(8)?, call.opaque(1024)?, call.fixed(12)?);
                long(&mut self.out, 1);
                self.words(&[1, 0, 0, 0, 0]);
                opaque(&mut self.out, b"fake");
                opaque(&mut self.out, b"fake");
                self.words(&[0]);
            }
            43 => {
                let _ = call.fixed(8 + 4 + 4 + 14 * 4 + 12)?;
                fixed(&mut self.out, &[5; 16]);
                self.words(&[1, 0]);
                self.words(&[0, TRANSFER + 4096, TRANSFER + 4096, 4096, 16, 64, 0]);
                self.words(&[0, 4096, 4096, 0, 2, 1, 0]);
                fake.sessions.fetch_add(1, Ordering::Relaxed);
            }
            44 => _ = call.fixed(16)?,
            57 => _ = call.long()?,
            _ => _ = call.word()?,
        }
        Ok(())
    }

    fn attributes(&mut self, fake: &Fake) {
        // Of a file its size, of a directory what its file system can do: what was asked for of each.
        let size = fake.files.lock().unwrap().get(&self.here).map(|file| file.len() as u64);
        match size {
            Some(size) => {
                self.words(&[2, 1 << 1 | 1 << 4, 0, 12, 1]);
                long(&mut self.out, size);
            }
            None => {
                self.words(&[2, 1 << 10, 1 << 10 | 1 << 12, 4 + 8 + 8, 90]);
                let free = fake.free.load(Ordering::Relaxed);
                long(&mut self.out, free);
                long(&mut self.out, 1 << 40);
            }
        }
    }

    fn open(&mut self, fake: &Fake, call: &mut Reader<'_>) -> Result<Ended, XdrError> {
        let _ = (call.fixed(12 + 8)?, call.opaque(1024)?);
        if call.word()? == 1 {
            let _ = (call.word()?, call.fixed(12)?, call.opaque(64)?);
        }
        let (_claim, name) = (call.word()?, call.opaque(255)?);
        if let Some(status) = fake.opens.lock().unwrap().pop() {
            return Ok(Err(status));
        }
        self.here = String::from_utf8_lossy(name).into_owned();
        fake.files.lock().unwrap().entry(self.here.clone()).or_default();
        self.stateid();
        self.change();
        self.words(&[0, 0, 0]);
        Ok(Ok(()))
    }

    fn read(&mut self, fake: &Fake, call: &mut Reader<'_>) -> Result<Ended, XdrError> {
        let _ = call.fixed(16)?;
        let (offset, length) = (call.long()? as usize, call.word()? as usize);
        Ok(self.fetched(fake, offset, length).map(|(data, end)| {
            word(&mut self.out, end.into());
            opaque(&mut self.out, &data);
        }))
    }

    /// What a read of the present file gives, and whether that is its end.
    pub(crate) fn fetched(
        &mut self,
        fake: &Fake,
        offset: usize,
        length: usize,
    ) -> Result<(Vec<u8>, bool), u32> {
        self.act = fake.act();
        let files = fake.files.lock().unwrap();
        let held = files.get(&self.here).and_then(|file| file.get(offset..)).unwrap_or_default();
        let mut data = held[..length.min(held.len())].to_vec();
        let mut end = data.len() == held.len();
        match self.act {
            Act::Fail(status) => return Err(status),
            Act::BadSession => return Err(status::BADSESSION),
            Act::Short(less) => {
                data.truncate(data.len().saturating_sub(less as usize));
                end = false;
            }
            Act::End => {
                data.truncate(data.len() / 2);
                end = true;
            }
            Act::Nothing => {
                data.clear();
                end = false;
            }
            Act::TooMuch => data.resize(length + 8, 1),
            Act::WrongData => data[100] ^= 1,
            _ => {}
        }
        Ok((data, end))
    }

    fn write(&mut self, fake: &Fake, call: &mut Reader<'_>) -> Result<Ended, XdrError> {
        let _ = call.fixed(16)?;
        let (offset, stable) = (call.long()? as usize, call.word()?);
        let data = call.opaque(TRANSFER as usize)?;
        Ok(self.stored(fake, offset, data, stable).map(|told| {
            self.words(&told);
            fixed(&mut self.out, &fake.verifier());
        }))
    }

    /// What a write to the present file is told: how many bytes, and how stable they are.
    pub(crate) fn stored(
        &mut self,
        fake: &Fake,
        offset: usize,
        data: &[u8],
        stable: u32,
    ) -> Result<[u32; 2], u32> {
        self.act = fake.act();
        let (mut count, mut committed) = (data.len(), stable);
        match self.act {
            Act::Fail(status) => return Err(status),
            Act::BadSession => return Err(status::BADSESSION),
            Act::Short(less) => count = count.saturating_sub(less as usize),
            Act::Nothing => count = 0,
            Act::TooMuch => count += 8,
            Act::NotStable => committed = 0,
            _ => {}
        }
        if self.act == Act::Empty {
            fake.files.lock().unwrap().values_mut().for_each(|file| file.fill(0));
        }
        let written = data.len().min(count);
        if self.act != Act::Forget {
            let mut files = fake.files.lock().unwrap();
            let file = files.entry(self.here.clone()).or_default();
            file.resize(file.len().max(offset + written), 0);
            file[offset..offset + written].copy_from_slice(&data[..written]);
        }
        Ok([count as u32, committed])
    }
}
