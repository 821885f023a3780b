//! The socket: many requests in one datagram, one acknowledgement each.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::message::{HEADER, Message, NLM_F_ACK, NLM_F_DUMP, Request, messages, u32_at};
use crate::error::{Context, Result, SysError};
use crate::netns::NetNs;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// Acknowledgements wait in the socket's buffer while the kernel works through a datagram; this
/// many fit with room to spare.
const MOST_PER_DATAGRAM: usize = 64;
const MOST_BYTES: usize = 16 << 10;

/// A conversation with the kernel about the interfaces of one network namespace.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Netlink {
    /// About the network namespace of this thread.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses a socket.
    pub fn open() -> Result<Self> {
        // Protocol 0 is NETLINK_ROUTE.
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)
            .context("open", "netlink socket")?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0)).context("bind", "netlink socket")?;
        Ok(Self { socket, sequence: 0, buffer: vec![0; 64 << 10] })
    }

    /// About another network namespace.
    ///
    /// # Errors
    ///
    /// Where the namespace can't be entered.
    pub fn open_in(namespace: &NetNs) -> Result<Self> {
        namespace.run(Self::open)
    }

    /// Does one thing.
    ///
    /// # Errors
    ///
    /// What the kernel refuses, with the words of the request.
    pub fn send(&mut self, request: Request) -> Result<()> {
        self.send_all([request])
    }

    /// Does many things in order, several per system call. Goes on after a refusal.
    ///
    /// # Errors
    ///
    /// The first refusal.
    pub fn send_all(&mut self, requests: impl IntoIterator<Item = Request>) -> Result<()> {
        let mut first_error = None;
        let mut batch = Vec::new();
        let mut size = 0;
        for request in requests {
            if batch.len() == MOST_PER_DATAGRAM || size + request.bytes.len() > MOST_BYTES {
                first_error = self.send_batch(std::mem::take(&mut batch))?.or(first_error);
                size = 0;
            }
            size += request.bytes.len();
            batch.push(request);
        }
        // The earliest wins: later ones are often only its consequence.
        let last = if batch.is_empty() { None } else { self.send_batch(batch)? };
        first_error.or(last).map_or(Ok(()), Err)
    }

    fn send_batch(&mut self, mut batch: Vec<Request>) -> Result<Option<SysError>> {
        let first = self.sequence.wrapping_add(1);
        let mut datagram = Vec::with_capacity(batch.iter().map(|r| r.bytes.len()).sum());
        for request in &mut batch {
            self.sequence = self.sequence.wrapping_add(1);
            request.seal(self.sequence, NLM_F_ACK);
            datagram.extend_from_slice(&request.bytes);
        }
        let object = &batch[0].object;
        rustix::net::send(&self.socket, &datagram, SendFlags::empty())
            .context(batch[0].operation, object.as_str())?;
        let mut refused: Option<(usize, io::Error)> = None;
        let mut answered = 0;
        while answered < batch.len() {
            let length = self.receive(object)?;
            for message in messages(&self.buffer[..length]).filter(|m| m.kind == NLMSG_ERROR) {
                let index = message.sequence.wrapping_sub(first) as usize;
                if index >= batch.len() {
                    continue;
                }
                answered += 1;
                if let Some(e) = refusal(&message)
                    && refused.as_ref().is_none_or(|(i, _)| index < *i)
                {
                    refused = Some((index, e));
                }
            }
        }
        Ok(refused.map(|(index, e)| into_error(batch.swap_remove(index), e)))
    }

    fn receive(&mut self, object: &str) -> Result<usize> {
        loop {
            match rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((length, _)) if length >= HEADER => return Ok(length),
                Ok(_) => {
                    return Err(SysError::Unexpected { operation: "netlink", what: "a short answer".into() });
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e).context("hear back about", object),
            }
        }
    }

    /// Asks for a list and calls `each` with the type and payload of every answer.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses.
    pub(super) fn dump(&mut self, mut request: Request, mut each: impl FnMut(u16, &[u8])) -> Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = self.sequence;
        request.seal(sequence, NLM_F_DUMP);
        rustix::net::send(&self.socket, &request.bytes, SendFlags::empty())
            .context(request.operation, request.object.as_str())?;
        loop {
            let length = self.receive(&request.object)?;
            for message in messages(&self.buffer[..length]).filter(|m| m.sequence == sequence) {
                match message.kind {
                    NLMSG_DONE => return Ok(()),
                    NLMSG_ERROR => return refusal(&message).map_or(Ok(()), |e| Err(into_error(request, e))),
                    kind => each(kind, message.payload),
                }
            }
        }
    }
}

fn refusal(message: &Message<'_>) -> Option<io::Error> {
    // The kernel sends the negative error number, and zero for "done".
    let number = u32_at(message.payload, 0).cast_signed();
    (number != 0).then(|| io::Error::from_raw_os_error(number.wrapping_neg()))
}

fn into_error(request: Request, source: io::Error) -> SysError {
    let unknown = matches!(source.raw_os_error(), Some(libc::ENOENT | libc::EOPNOTSUPP));
    match request.feature {
        Some(feature) if unknown => SysError::NoFeature { feature, source },
        _ => SysError::Call { operation: request.operation, object: request.object, source },
    }
}
