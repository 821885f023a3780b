//! A connection over which calls go, and their answers.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Instant;

use vtax_wire::nfs::{NfsError, status};
use vtax_wire::rpc::{self, Caller, Record, RpcError};
use vtax_wire::xdr::Reader;

use super::spec::NfsSpec;
use super::{AGAIN, AROUND, TRANSFER};
use crate::family::storage::client::Stream;

/// Tags of single calls have this bit, which operations never have, and are counted from 2 on: below are signs of life.
const TAG: u32 = 1 << 31;

/// What ends a connection, or keeps one from being made.
#[derive(Debug, thiserror::Error)]
pub(in crate::family::storage) enum LinkError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Rpc(#[from] RpcError),
    #[error("{0}")]
    Nfs(#[from] NfsError),
    /// An answer that can't come now.
    #[error("the server does not keep to the protocol: {0}")]
    Order(&'static str),
    /// The path leads nowhere.
    #[error("{name}: {error}")]
    Path { name: String, error: NfsError },
    /// Nobody says where MOUNT is served.
    #[error("its port mapper can't be asked for the port of MOUNT ({error}): give it as mount-port=N")]
    PortMapper { error: Box<Self> },
    /// The port mapper knows no such program.
    #[error("its port mapper knows of no MOUNT version 3: the server doesn't serve NFS version 3")]
    NotServed,
}

/// What came of asking a server.
pub(super) type Linked<T> = Result<T, LinkError>;

/// One connection.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) stream: Stream,
    pub(super) caller: Caller,
    pub(super) input: Vec<u8>,
    /// Of the input, what came and isn't taken yet.
    begin: usize,
    end: usize,
    /// Single calls so far. A server may answer a call with the tag of an earlier one without carrying it out.
    calls: u32,
}

impl Wire {
    /// Connects, as whom the specification says.
    pub(super) fn connect(address: SocketAddr, spec: &NfsSpec, until: Instant) -> Result<Self, LinkError> {
        let stream = Stream::connect(address, until)?;
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let caller = Caller { machine, uid: spec.uid, gid: spec.gid, gids: Vec::new() };
        Ok(Self {
            stream,
            caller,
            input: vec![0; 2 * (TRANSFER + AROUND) as usize],
            begin: 0,
            end: 0,
            calls: 1,
        })
    }

    /// Appends what comes to the input; how much that is, `None` where it is nothing.
    pub(super) fn receive(&mut self, wait: bool) -> io::Result<Option<usize>> {
        self.make_room();
        let got = self.stream.receive(&mut self.input[self.end..], wait)?;
        self.end += got.unwrap_or(0);
        Ok(got)
    }

    /// One call, and its answer. `build` appends it with the tag that it is given.
    pub(super) fn exchange<T>(
        &mut self,
        build: impl FnOnce(&mut Vec<u8>, u32, &Caller),
        read: impl FnOnce(Reader<'_>) -> Result<T, NfsError>,
        until: Instant,
    ) -> Result<T, LinkError> {
        self.calls = if self.calls < TAG - 1 { self.calls + 1 } else { 2 };
        let tag = TAG | self.calls;
        let mut out = Vec::with_capacity(1024);
        build(&mut out, tag, &self.caller);
        self.stream.send_all(&out, until)?;
        loop {
            if let Some(message) = self.next_message()? {
                let message = &self.input[message];
                // A late answer to an operation that was given up may come first.
                if rpc::answered(message)? != tag {
                    continue;
                }
                return Ok(read(rpc::results(message)?)?);
            }
            self.make_room();
            let got = self.stream.receive_some(&mut self.input[self.end..], until)?;
            self.end += got;
        }
    }

    /// The next whole message of what came, which stays there until more is received.
    pub(super) fn next_message(&mut self) -> Result<Option<Range<usize>>, LinkError> {
        let most = (TRANSFER + AROUND) as usize;
        match rpc::record(&mut self.input[self.begin..self.end], most)? {
            Record::Incomplete => Ok(None),
            Record::Whole { message, consumed } => {
                let found = self.begin + message.start..self.begin + message.end;
                self.begin += consumed;
                Ok(Some(found))
            }
        }
    }

    /// Makes room behind what came. The longest message fits, as the input is twice as long.
    fn make_room(&mut self) {
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
        } else if self.begin > 0 && self.input.len() - self.end < (64 << 10) {
            self.input.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
    }
}

/// Tries again where the server wants more time.
pub(super) fn patiently<T>(
    until: Instant,
    mut attempt: impl FnMut() -> Result<T, LinkError>,
) -> Result<T, LinkError> {
    loop {
        match attempt() {
            Err(LinkError::Nfs(error))
                if matches!(error.status(), Some(status::DELAY | status::GRACE))
                    && Instant::now() + AGAIN < until =>
            {
                std::thread::sleep(AGAIN);
            }
            other => return other,
        }
    }
}
