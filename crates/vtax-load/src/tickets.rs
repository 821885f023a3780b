//! Tickets of TLS sessions: which are kept, and which the next connection resumes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use rustls::NamedGroup;
use rustls::client::{
    ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls12Resumption, Tls13ClientSessionValue,
};
use rustls::pki_types::ServerName;
use vtax_sys::sync::lock;

/// Which tickets are kept where there are more, and used first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The newest: those that were not asked for grow old.
    Newest,
    /// The oldest: those of the session that began first, where a server wants that one and no other.
    Oldest,
}

impl Kept {
    /// Tickets of TLS 1.3 that are kept at most.
    const fn most(self) -> usize {
        match self {
            // As many as connections that may begin before another is done.
            Self::Newest => 256,
            // Servers send two at the beginning of a session, and one with each that is resumed.
            Self::Oldest => 8,
        }
    }
}

/// The tickets of one server.
#[derive(Debug)]
pub(crate) struct Tickets {
    kept: Kept,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// Of TLS 1.3, each good for one connection, in the order in which they came.
    tls13: VecDeque<Tls13ClientSessionValue>,
    tls12: Option<Tls12ClientSessionValue>,
    group: Option<NamedGroup>,
}

impl Tickets {
    pub(crate) fn new(kept: Kept) -> Self {
        Self { kept, held: Mutex::default() }
    }

    /// Has connections resume by these.
    pub(crate) fn resumption(self: Arc<Self>) -> Resumption {
        let store: Arc<dyn ClientSessionStore> = self;
        Resumption::store(store).tls12_resumption(Tls12Resumption::SessionIdOrTickets)
    }

    /// Forgets all of them.
    pub(crate) fn clear(&self) {
        *self.held() = Held::default();
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        let held = self.held();
        held.tls13.is_empty() && held.tls12.is_none()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        lock(&self.held)
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.held().group = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.held().group
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        let mut held = self.held();
        match self.kept {
            Kept::Newest => held.tls12 = Some(value),
            Kept::Oldest => drop(held.tls12.get_or_insert(value)),
        }
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.held().tls12.clone()
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.held().tls12 = None;
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut held = self.held();
        if held.tls13.len() == self.kept.most() {
            match self.kept {
                Kept::Newest => held.tls13.pop_front(),
                Kept::Oldest => held.tls13.pop_back(),
            };
        }
        held.tls13.push_back(value);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let mut held = self.held();
        match self.kept {
            Kept::Newest => held.tls13.pop_back(),
            Kept::Oldest => held.tls13.pop_front(),
        }
    }
}
