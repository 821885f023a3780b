//! A target that does what a test tells it to: a disk in memory, answers of its own choice, or none.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// The longest segment, sequence and first burst that it takes: short, so that everything comes in parts.
const SEGMENT: usize = 8192;
const BURST: usize = 16384;
pub(crate) const BLOCK: usize = 512;
pub(crate) const BLOCKS: usize = 8192;

/// What becomes of the next READ or WRITE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// It is carried out.
    Serve,
    /// It ends with this status and sense key, code and qualifier.
    Fail(u8, [u8; 3]),
    /// So many bytes less come or go, with a residual count.
    Short(usize),
    /// Data for a place that wasn't asked for.
    WrongPlace,
    /// More data than was asked for.
    TooMuch,
    /// An R2T beyond the command's data.
    WrongR2t,
    /// No answer, ever.
    Silence,
    /// The connection ends when the first data has come.
    Drop,
    /// It says that it drops the connection.
    TellDrop,
    /// A ping that must be answered first.
    Ping,
    /// The PDU is rejected.
    Reject,
    /// Bytes that are no PDU.
    Garbage,
}

#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    pub(crate) disk: Arc<Mutex<Vec<u8>>>,
    /// What comes next, the last one first; afterwards everything is served.
    pub(crate) acts: Arc<Mutex<Vec<Act>>>,
    pub(crate) logins: Arc<AtomicU32>,
    pub(crate) aborts: Arc<AtomicU32>,
    pub(crate) pongs: Arc<AtomicU32>,
    pub(crate) r2ts: Arc<AtomicU32>,
    pub(crate) logouts: Arc<AtomicU32>,
    /// It has a caching page, which says that it may only be read.
    pub(crate) write_protected: Arc<AtomicBool>,
}

impl Fake {
    pub(crate) fn start(initial_r2t: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let fake = Self {
            address: listener.local_addr().unwrap(),
            disk: Arc::new(Mutex::new(vec![0; BLOCK * BLOCKS])),
            acts: Arc::default(),
            logins: Arc::default(),
            aborts: Arc::default(),
            pongs: Arc::default(),
            r2ts: Arc::default(),
            logouts: Arc::default(),
            write_protected: Arc::default(),
        };
        let of = fake.clone();
        // Ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let fake = of.clone();
                thread::spawn(move || Connection::new(fake, stream, initial_r2t).run());
            }
        });
        fake
    }

    pub(crate) fn next(&self, acts: &[Act]) {
        let mut all = self.acts.lock().unwrap();
        all.extend(acts.iter().rev());
    }
}

struct Connection {
    fake: Fake,
    stream: TcpStream,
    initial_r2t: bool,
    stat_sn: u32,
    exp_cmd_sn: u32,
    /// The number of the last command with each tag.
    numbers: HashMap<u32, u32>,
}

struct Pdu {
    header: [u8; 48],
    data: Vec<u8>,
}

impl Pdu {
    fn word(&self, at: usize) -> u32 {
        u32::from_be_bytes([self.header[at], self.header[at + 1], self.header[at + 2], self.header[at + 3]])
    }
}

impl Connection {
    fn new(fake: Fake, stream: TcpStream, initial_r2t: bool) -> Self {
        stream.set_nodelay(true).unwrap();
        Self { fake, stream, initial_r2t, stat_sn: 100, exp_cmd_sn: 1, numbers: HashMap::new() }
    }

    fn read(&mut self) -> Option<Pdu> {
        let mut header = [0; 48];
        self.stream.read_exact(&mut header).ok()?;
        let length = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
        let mut data = vec![0; length.next_multiple_of(4)];
        self.stream.read_exact(&mut data).ok()?;
        data.truncate(length);
        Some(Pdu { header, data })
    }

    /// Sends a PDU: its first bytes, fields by place, data. Counters are filled in.
    fn send(&mut self, first: [u8; 4], fields: &[(usize, u32)], data: &[u8], counts: bool) -> Option<()> {
        let mut out = [0u8; 48];
        out[..4].copy_from_slice(&first);
        out[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
        let counters = [(24, self.stat_sn), (28, self.exp_cmd_sn), (32, self.exp_cmd_sn + 31)];
        for (at, value) in counters.iter().chain(fields) {
            out[*at..at + 4].copy_from_slice(&value.to_be_bytes());
        }
        self.stat_sn += u32::from(counts);
        let mut all = out.to_vec();
        all.extend_from_slice(data);
        all.resize(all.len().next_multiple_of(4), 0);
        self.stream.write_all(&all).ok()
    }

    fn run(mut self) -> Option<()> {
        loop {
            let pdu = self.read()?;
            match pdu.header[0] & 0x3f {
                0x03 => self.login(&pdu)?,
                0x01 => self.command(&pdu)?,
                0x00 => {
                    self.fake.pongs.fetch_add(1, Ordering::Relaxed);
                    // A ping of the initiator's own.
                    if pdu.word(16) != u32::MAX {
                        self.send([0x20, 0x80, 0, 0], &[(16, pdu.word(16)), (20, u32::MAX)], &[], true)?;
                    }
                }
                0x02 => {
                    // RFC 7143 section 11.5.5: RefCmdSN is the number of the command that is to be aborted.
                    let named = self.numbers.get(&pdu.word(20));
                    assert_eq!(named, Some(&pdu.word(32)), "what is aborted was sent with this number");
                    self.fake.aborts.fetch_add(1, Ordering::Relaxed);
                    self.send([0x22, 0x80, 0, 0], &[(16, pdu.word(16))], &[], true)?;
                }
                0x06 => {
                    self.fake.logouts.fetch_add(1, Ordering::Relaxed);
                    return self.send([0x26, 0x80, 0, 0], &[(16, pdu.word(16))], &[], true);
                }
                other => panic!("a PDU that no initiator sends: {other:#x}"),
            }
        }
    }

    fn login(&mut self, pdu: &Pdu) -> Option<()> {
        let stage = pdu.header[1] >> 2 & 3;
        let r2t = if self.initial_r2t { "Yes" } else { "No" };
        let parameters = format!(
            "HeaderDigest=None\0DataDigest=None\0MaxRecvDataSegmentLength={SEGMENT}\0MaxBurstLength={BURST}\0\
             FirstBurstLength={BURST}\0InitialR2T={r2t}\0ImmediateData=Yes\0MaxOutstandingR2T=1\0MaxConnections=1\0"
        );
        let (text, next) = match stage {
            0 => ("AuthMethod=None\0TargetPortalGroupTag=1\0", 1),
            _ => {
                self.fake.logins.fetch_add(1, Ordering::Relaxed);
                (parameters.as_str(), 3)
            }
        };
        self.send([0x23, 0x80 | stage << 2 | next, 0, 0], &[(16, pdu.word(16))], text.as_bytes(), true)
    }

    fn command(&mut self, pdu: &Pdu) -> Option<()> {
        assert_eq!(pdu.word(24), self.exp_cmd_sn, "commands are numbered one by one");
        self.exp_cmd_sn += 1;
        self.numbers.insert(pdu.word(16), pdu.word(24));
        let cdb = &pdu.header[32..48];
        let tag = pdu.word(16);
        match cdb[0] {
            0x00 | 0x35 => self.status(tag, 0, None, 0),
            0x12 => {
                let mut data = [0; 36];
                data[8..36].copy_from_slice(b"VTAX    FAKE DISK       1.0 ");
                self.data_in(tag, 0, &data, true)
            }
            0x25 => {
                let last = (BLOCKS as u32 - 1).to_be_bytes();
                let data = [last, (BLOCK as u32).to_be_bytes()].concat();
                self.data_in(tag, 0, &data, true)
            }
            0x1a if self.fake.write_protected.load(Ordering::Relaxed) => {
                let mut data = [0; 24];
                (data[0], data[2], data[4], data[5]) = (23, 0x80, 0x08, 0x12);
                self.data_in(tag, 0, &data, true)
            }
            0x1a => self.status(tag, 2, Some([5, 0x24, 0]), 0),
            0x28 | 0x2a => {
                let block = u32::from_be_bytes([cdb[2], cdb[3], cdb[4], cdb[5]]) as usize;
                let blocks = usize::from(u16::from_be_bytes([cdb[7], cdb[8]]));
                let (from, length) = (block * BLOCK, blocks * BLOCK);
                assert_eq!(pdu.word(20) as usize, length, "the expected length is the command's");
                let act = self.fake.acts.lock().unwrap().pop().unwrap_or(Act::Serve);
                match cdb[0] {
                    0x28 => self.read_command(tag, from, length, act),
                    _ => self.write_command(pdu, from, length, act),
                }
            }
            other => panic!("a command that is not expected: {other:#x}"),
        }
    }

    fn status(&mut self, tag: u32, status: u8, sense: Option<[u8; 3]>, missing: usize) -> Option<()> {
        let sense = sense.map(|[key, code, qualifier]| {
            let mut data = vec![0; 20];
            (data[1], data[2], data[4], data[14], data[15]) = (18, 0x70, key, code, qualifier);
            data
        });
        let flags = if missing > 0 { 0x82 } else { 0x80 };
        let fields = [(16, tag), (44, missing as u32)];
        self.send([0x21, flags, 0, status], &fields, &sense.unwrap_or_default(), true)
    }

    fn data_in(&mut self, tag: u32, offset: usize, data: &[u8], last: bool) -> Option<()> {
        let flags = if last { 0x81 } else { 0 };
        self.send([0x25, flags, 0, 0], &[(16, tag), (20, u32::MAX), (40, offset as u32)], data, last)
    }

    /// What reads and writes have in common; true where the command is dealt with.
    fn act(&mut self, tag: u32, act: Act) -> Option<bool> {
        match act {
            Act::Fail(status, sense) => self.status(tag, status, (status == 2).then_some(sense), 0)?,
            Act::Silence => {}
            Act::TellDrop => {
                self.send([0x32, 0x80, 0, 0], &[(16, u32::MAX), (36, 0x0200_0000)], &[], true)?;
            }
            Act::Reject => self.send([0x3f, 0x80, 9, 0], &[(16, u32::MAX)], &[0; 48], true)?,
            Act::Garbage => self.stream.write_all(&[0xee; 96]).ok()?,
            Act::Ping => {
                self.send([0x20, 0x80, 0, 0], &[(16, u32::MAX), (20, 77)], &[], false)?;
                let pong = self.read()?;
                assert_eq!((pong.header[0] & 0x3f, pong.word(20)), (0, 77), "the ping is answered first");
                self.fake.pongs.fetch_add(1, Ordering::Relaxed);
                return Some(false);
            }
            _ => return Some(false),
        }
        Some(true)
    }

    fn read_command(&mut self, tag: u32, from: usize, length: usize, act: Act) -> Option<()> {
        if self.act(tag, act)? {
            return Some(());
        }
        if act == Act::Drop {
            return None;
        }
        let mut data = self.fake.disk.lock().unwrap()[from..from + length].to_vec();
        let mut missing = 0;
        match act {
            Act::WrongPlace => return self.data_in(tag, BLOCK, &data[..BLOCK], true),
            Act::TooMuch => data.extend_from_slice(&[1; BLOCK]),
            Act::Short(less) => {
                data.truncate(length - less);
                missing = less;
            }
            _ => {}
        }
        // The first part tells nothing; the status comes in a PDU of its own.
        for (at, part) in data.chunks(SEGMENT).enumerate() {
            self.data_in(tag, at * SEGMENT, part, false)?;
        }
        self.status(tag, 0, None, missing)
    }

    fn write_command(&mut self, pdu: &Pdu, from: usize, length: usize, act: Act) -> Option<()> {
        let tag = pdu.word(16);
        let mut data = pdu.data.clone();
        let mut last = pdu.header[1] & 0x80 != 0;
        while !last {
            let more = self.read()?;
            assert_eq!((more.header[0] & 0x3f, more.word(16), more.word(20)), (0x05, tag, u32::MAX));
            assert_eq!(more.word(40) as usize, data.len(), "data comes in order");
            data.extend_from_slice(&more.data);
            last = more.header[1] & 0x80 != 0;
        }
        assert!(data.len() <= if self.initial_r2t { SEGMENT } else { BURST }, "not more than was allowed");
        if act == Act::Drop {
            return None;
        }
        if self.act(tag, act)? {
            return Some(());
        }
        if act == Act::WrongR2t {
            let fields = [(16, tag), (20, 5), (40, length as u32), (44, 512)];
            return self.send([0x31, 0x80, 0, 0], &fields, &[], false);
        }
        while data.len() < length {
            self.ask_for(tag, &mut data, length)?;
        }
        let (missing, kept) = match act {
            Act::Short(less) => (less, length - less),
            _ => (0, length),
        };
        self.fake.disk.lock().unwrap()[from..from + kept].copy_from_slice(&data[..kept]);
        self.status(tag, 0, None, missing)
    }

    /// One R2T and the data that answers it.
    fn ask_for(&mut self, tag: u32, data: &mut Vec<u8>, length: usize) -> Option<()> {
        let wanted = (length - data.len()).min(BURST);
        let target_tag = self.fake.r2ts.fetch_add(1, Ordering::Relaxed);
        let fields = [(16, tag), (20, target_tag), (40, data.len() as u32), (44, wanted as u32)];
        self.send([0x31, 0x80, 0, 0], &fields, &[], false)?;
        let (mut got, mut number) = (0, 0);
        while got < wanted {
            let pdu = self.read()?;
            if pdu.header[0] & 0x3f == 0x01 {
                panic!("the test has several writes under way, which this target does not know");
            }
            assert_eq!((pdu.header[0] & 0x3f, pdu.word(20), pdu.word(36)), (0x05, target_tag, number));
            assert!(pdu.data.len() <= SEGMENT && pdu.word(40) as usize == data.len());
            got += pdu.data.len();
            data.extend_from_slice(&pdu.data);
            number += 1;
            assert_eq!(pdu.header[1] & 0x80 != 0, got == wanted, "the last one says so");
        }
        Some(())
    }
}
