//! What a test on the client has to do with.

use std::net::SocketAddr;

use super::control::Token;
use super::{NetworkSpec, Watch};
use crate::Control;

/// A test the server has agreed to, on the client.
pub(super) struct Agreed<'a> {
    pub(super) spec: &'a NetworkSpec,
    pub(super) token: Token,
    /// Of the test's datagrams or connections; 0: the server's own.
    pub(super) port: u16,
    pub(super) control: &'a Control,
    pub(super) watch: Watch<'a>,
}

impl Agreed<'_> {
    /// Where the test's datagrams or connections go: the server's address whole, as a link-local one is none without its interface.
    pub(super) fn target(&self) -> SocketAddr {
        match self.port {
            0 => self.spec.target,
            port => at_port(self.spec.target, port),
        }
    }
}

/// The same address with another port.
pub(super) fn at_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_port_is_on_the_same_interface() {
        let link_local: SocketAddr = "[fe80::1%3]:5202".parse().unwrap();
        assert_eq!(at_port(link_local, 0), "[fe80::1%3]:0".parse().unwrap());
        assert_eq!(at_port("192.0.2.1:5202".parse().unwrap(), 7), "192.0.2.1:7".parse().unwrap());
    }
}
