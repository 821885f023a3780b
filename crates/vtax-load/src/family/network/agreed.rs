//! What a test on the client has to do with.

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
