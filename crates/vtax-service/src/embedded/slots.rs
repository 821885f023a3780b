//! A worker's connections by number.

use std::os::fd::OwnedFd;

use rustix::event::epoll;
use rustix::io::Errno;

/// What an event says of whom it is: the number of a slot, or one of a worker's own sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) id: u32,
    /// Tells events of a connection from those of the one before in the same slot.
    generation: u32,
}

impl Token {
    /// That of a socket of the worker itself; numbers from the top, where no slot is.
    pub(super) const fn own(index: u32) -> Self {
        Self { id: u32::MAX - index, generation: 0 }
    }

    pub(super) fn of(data: epoll::EventData) -> Self {
        let word = data.u64();
        Self { id: word as u32, generation: (word >> 32) as u32 }
    }

    fn data(self) -> epoll::EventData {
        epoll::EventData::new_u64(u64::from(self.generation) << 32 | u64::from(self.id))
    }

    /// Watches a socket of the worker itself for input.
    pub(super) fn watch(self, epoll: &OwnedFd, fd: &OwnedFd) -> Result<(), Errno> {
        epoll::add(epoll, fd, self.data(), epoll::EventFlags::IN)
    }
}

/// Room for a connection.
#[derive(Debug)]
struct Slot<C> {
    connection: Option<C>,
    generation: u32,
}

/// The connections of a worker, watched by its epoll, edge-triggered.
#[derive(Debug)]
pub(super) struct Slots<C> {
    slots: Vec<Slot<C>>,
    free: Vec<u32>,
}

impl<C> Slots<C> {
    pub(super) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    /// How many connections there are.
    pub(super) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Watches `fd` and keeps the connection that belongs to it; gives that back where it can't be watched.
    pub(super) fn open(
        &mut self,
        epoll: &OwnedFd,
        connection: C,
        fd: impl FnOnce(&C) -> &OwnedFd,
    ) -> Result<(), C> {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { connection: None, generation: 0 });
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[id as usize];
        let token = Token { id, generation: slot.generation };
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        if epoll::add(epoll, fd(&connection), token.data(), flags).is_err() {
            self.free.push(id);
            return Err(connection);
        }
        slot.connection = Some(connection);
        Ok(())
    }

    /// The connection that an event is of, where it is still there.
    pub(super) fn get_mut(&mut self, token: Token) -> Option<&mut C> {
        let slot = self.slots.get_mut(token.id as usize)?;
        if slot.generation == token.generation { slot.connection.as_mut() } else { None }
    }

    /// Takes out the connection that an event is of; its slot is kept for it.
    pub(super) fn take(&mut self, token: Token) -> Option<C> {
        let slot = self.slots.get_mut(token.id as usize)?;
        if slot.generation == token.generation { slot.connection.take() } else { None }
    }

    /// Puts back what was [taken](Self::take).
    pub(super) fn put_back(&mut self, token: Token, connection: C) {
        if let Some(slot) = self.slots.get_mut(token.id as usize) {
            slot.connection = Some(connection);
        }
    }

    /// Gives up the connection in this slot.
    pub(super) fn close(&mut self, id: u32) -> Option<C> {
        let slot = self.slots.get_mut(id as usize)?;
        let connection = slot.connection.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id);
        Some(connection)
    }

    /// The slots whose connection `wanted` finds.
    pub(super) fn find(&self, wanted: impl Fn(&C) -> bool) -> Vec<u32> {
        let found = self.slots.iter().enumerate();
        let found = found.filter(|(_, slot)| slot.connection.as_ref().is_some_and(&wanted));
        found.map(|(id, _)| id as u32).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn an_event_of_a_connection_that_is_gone_finds_nothing() {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll");
        let mut slots: Slots<OwnedFd> = Slots::new();
        let (one, _peer) = UnixStream::pair().expect("a pair");
        let (two, _other) = UnixStream::pair().expect("a pair");
        slots.open(&epoll, one.into(), |fd| fd).expect("watched");
        let first = Token { id: 0, generation: 0 };
        assert!(slots.get_mut(first).is_some());
        assert!(slots.close(0).is_some() && slots.close(0).is_none());
        slots.open(&epoll, two.into(), |fd| fd).expect("watched");
        assert!(slots.get_mut(first).is_none(), "its slot has another connection now");
        assert_eq!((slots.count(), slots.find(|_| true)), (1, vec![0]));
        assert!(slots.get_mut(Token::own(0)).is_none());
        let second = Token { id: 0, generation: 1 };
        assert_eq!(Token::of(second.data()), second);
    }
}
