//! One session: what each command does.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::data::Place;
use super::stream::Stream;
use super::{Shared, files};

/// Longest line of a command.
const LINE_MAX: usize = 4096;
/// How long a client may say nothing.
const SILENCE: Duration = Duration::from_secs(300);
/// Bytes of a file that are moved at once with TLS.
const PIECE: usize = 64 << 10;

/// One session.
pub(super) struct Session<'a> {
    shared: &'a Arc<Shared>,
    control: Stream,
    /// Bytes that came and aren't a whole line yet.
    line: Vec<u8>,
    own: IpAddr,
    peer: IpAddr,
    named: bool,
    logged_in: bool,
    /// Data connections are protected.
    protect: bool,
    next: Place,
    offset: u64,
}

/// What a command leads to.
enum After {
    GoOn,
    End,
}

impl<'a> Session<'a> {
    /// Greets the client.
    pub(super) fn begin(shared: &'a Arc<Shared>, stream: TcpStream, peer: SocketAddr) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SILENCE))?;
        let own = stream.local_addr()?.ip();
        let control = match &shared.tls {
            Some(tls) if shared.server.implicit => Stream::protect(stream, tls)?,
            _ => Stream::Plain(stream),
        };
        let mut session = Self {
            shared,
            control,
            line: Vec::new(),
            own,
            peer: peer.ip(),
            named: false,
            logged_in: false,
            protect: false,
            next: Place::default(),
            offset: 0,
        };
        session.reply("220 vtax")?;
        Ok(session)
    }

    /// Carries out commands until the client leaves.
    pub(super) fn run(mut self) -> io::Result<()> {
        while let Some(line) = self.line()? {
            let (verb, argument) = line.split_once(' ').unwrap_or((&line, ""));
            let verb = verb.to_ascii_uppercase();
            if let After::End = self.carry_out(&verb, argument)? {
                break;
            }
        }
        self.control.close()
    }

    /// The next line; `None` at the end.
    fn line(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.line.drain(..=end).collect();
                return Ok(Some(String::from_utf8_lossy(line.trim_ascii_end()).into_owned()));
            }
            if self.line.len() > LINE_MAX {
                self.reply("500 The line is too long.")?;
                return Ok(None);
            }
            let mut part = [0; 1024];
            match self.control.read(&mut part)? {
                0 => return Ok(None),
                got => self.line.extend_from_slice(&part[..got]),
            }
        }
    }

    fn reply(&mut self, text: &str) -> io::Result<()> {
        self.control.write_all(format!("{text}\r\n").as_bytes())?;
        self.control.flush()
    }

    fn carry_out(&mut self, verb: &str, argument: &str) -> io::Result<After> {
        match verb {
            "USER" => {
                (self.named, self.logged_in) = (argument == self.shared.server.user, false);
                self.reply("331 Password, please.")?;
            }
            "PASS" if self.named && argument == self.shared.server.password => {
                self.logged_in = true;
                self.reply("230 Welcome.")?;
            }
            "PASS" => self.reply("530 Name or password is wrong.")?,
            "AUTH" => self.begin_tls(argument)?,
            "PBSZ" if self.is_protected() => self.reply("200 PBSZ=0")?,
            "PROT" if self.is_protected() => self.prot(argument)?,
            "PBSZ" | "PROT" => self.reply("503 AUTH first.")?,
            "FEAT" => self
                .reply("211-Features:\r\n EPSV\r\n EPRT\r\n SIZE\r\n REST STREAM\r\n AUTH TLS\r\n211 End.")?,
            "NOOP" | "SYST" => self.reply(if verb == "NOOP" { "200 Yes." } else { "215 UNIX Type: L8" })?,
            "QUIT" => {
                self.reply("221 Good-bye.")?;
                return Ok(After::End);
            }
            _ if !self.logged_in => self.reply("530 Log in first.")?,
            "TYPE" | "MODE" | "STRU" => self.reply("200 Yes.")?,
            "PWD" => self.reply("257 \"/\"")?,
            "CWD" => self.reply(if argument == "/" { "250 Yes." } else { "550 There is none." })?,
            "EPSV" | "PASV" => self.passive(verb)?,
            "EPRT" | "PORT" => self.active(argument)?,
            "REST" => match argument.parse() {
                Ok(offset) => {
                    self.offset = offset;
                    self.reply("350 From there.")?;
                }
                Err(_) => self.reply("501 That is no number.")?,
            },
            "SIZE" => self.size(argument)?,
            "DELE" => self.delete(argument)?,
            "RETR" => self.retrieve(argument)?,
            "STOR" => self.store(argument)?,
            "LIST" => self.list()?,
            _ => self.reply("502 That is not known here.")?,
        }
        Ok(After::GoOn)
    }

    fn is_protected(&self) -> bool {
        matches!(self.control, Stream::Tls(_))
    }

    fn begin_tls(&mut self, argument: &str) -> io::Result<()> {
        let Some(tls) = self.shared.tls.as_ref().filter(|_| !self.is_protected()) else {
            return self.reply("534 There is no TLS to begin.");
        };
        if !argument.eq_ignore_ascii_case("TLS") {
            return self.reply("504 TLS only.");
        }
        self.reply("234 Begin.")?;
        // What came in the clear behind the command isn't the client's word.
        self.line.clear();
        if let Some(stream) = self.control.take_plain() {
            self.control = Stream::protect(stream, tls)?;
        }
        (self.named, self.logged_in) = (false, false);
        Ok(())
    }

    fn prot(&mut self, argument: &str) -> io::Result<()> {
        match argument.to_ascii_uppercase().as_str() {
            level @ ("P" | "C") => {
                self.protect = level == "P";
                self.reply("200 Yes.")
            }
            _ => self.reply("504 P or C."),
        }
    }

    fn passive(&mut self, verb: &str) -> io::Result<()> {
        let port = self.next.listen(self.own)?;
        match (verb, self.own) {
            ("EPSV", _) => self.reply(&format!("229 Entering Extended Passive Mode (|||{port}|)")),
            (_, IpAddr::V4(own)) => {
                let ([a, b, c, d], [high, low]) = (own.octets(), port.to_be_bytes());
                self.reply(&format!("227 Entering Passive Mode ({a},{b},{c},{d},{high},{low})"))
            }
            _ => self.reply("522 Use EPSV."),
        }
    }

    /// Only to the client's own address: a server that connects elsewhere can be sent anywhere.
    fn active(&mut self, argument: &str) -> io::Result<()> {
        let extended = || {
            let delimiter = argument.chars().next()?;
            let mut parts = argument.split(delimiter).skip(2);
            let (address, port) = (parts.next()?.parse::<IpAddr>().ok()?, parts.next()?.parse().ok()?);
            Some(SocketAddr::new(address, port))
        };
        let old = || {
            let (address, port) = vtax_wire::ftp::passive(argument.as_bytes())?;
            Some(SocketAddr::new(address.into(), port))
        };
        match old().or_else(extended).filter(|there| there.ip() == self.peer && there.port() >= 1024) {
            Some(there) => {
                self.next.wait_at(there);
                self.reply("200 Yes.")
            }
            None => self.reply("501 That is no port of yours."),
        }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        files::path(&self.shared.server.directory, name)
    }

    fn size(&mut self, name: &str) -> io::Result<()> {
        match self.path(name).and_then(|path| path.metadata().ok()).filter(std::fs::Metadata::is_file) {
            Some(metadata) => self.reply(&format!("213 {}", metadata.len())),
            None => self.reply("550 There is no such file."),
        }
    }

    fn delete(&mut self, name: &str) -> io::Result<()> {
        match self.path(name).map(std::fs::remove_file) {
            Some(Ok(())) => self.reply("250 It is gone."),
            _ => self.reply("550 There is no such file."),
        }
    }

    /// The data connection; the client has been told where there is none.
    fn data(&mut self) -> io::Result<Option<Stream>> {
        let stream = match self.next.connect(self.peer) {
            Ok(stream) => stream,
            Err(_) => {
                self.reply("425 There is no data connection.")?;
                return Ok(None);
            }
        };
        self.reply("150 Here it comes.")?;
        match self.shared.tls.as_ref().filter(|_| self.protect) {
            Some(tls) => Stream::protect(stream, tls).map(Some),
            None => Ok(Some(Stream::Plain(stream))),
        }
    }

    fn retrieve(&mut self, name: &str) -> io::Result<()> {
        let offset = std::mem::take(&mut self.offset);
        let Some(mut file) = self.path(name).and_then(|path| files::open(&path, offset).ok()) else {
            self.next.forget();
            return self.reply("550 There is no such file.");
        };
        let Some(mut data) = self.data()? else { return Ok(()) };
        let sent = match &mut data {
            // The kernel copies it.
            Stream::Plain(stream) => io::copy(&mut file, stream).map(drop),
            other => copy(&mut file, other),
        };
        self.ended(sent.and_then(|()| data.close()))
    }

    fn store(&mut self, name: &str) -> io::Result<()> {
        let offset = std::mem::take(&mut self.offset);
        let Some(mut file) = self.path(name).and_then(|path| files::create(&path, offset).ok()) else {
            self.next.forget();
            return self.reply("553 It can't be written.");
        };
        let Some(mut data) = self.data()? else { return Ok(()) };
        // Without close_notify the end may be somebody else's word: that is an error here.
        let stored = copy(&mut data, &mut file);
        let stored = stored.and_then(|()| data.close());
        self.ended(stored)
    }

    fn list(&mut self) -> io::Result<()> {
        let Some(mut data) = self.data()? else { return Ok(()) };
        let listed = files::list(&self.shared.server.directory, &mut data);
        self.ended(listed.and_then(|()| data.close()))
    }

    /// The final reply of a transfer.
    fn ended(&mut self, result: io::Result<()>) -> io::Result<()> {
        match result {
            Ok(()) => self.reply("226 That was it."),
            Err(error) if error.kind() == io::ErrorKind::StorageFull => self.reply("452 The disk is full."),
            Err(_) => self.reply("426 The data connection broke."),
        }
    }
}

fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return to.flush(),
            Ok(got) => to.write_all(&piece[..got])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
