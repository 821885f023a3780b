//! Whom the server knows.

use vtax_plan::model::SubscriberFormats;
use vtax_wire::sip::Uri;

/// The subscribers, computed from their formats: none takes memory before it registers.
#[derive(Debug)]
pub(super) struct Users {
    pub(super) formats: SubscriberFormats,
    pub(super) count: u32,
    pub(super) realm: Vec<u8>,
    pub(super) domain: Vec<u8>,
}

impl Users {
    /// The subscriber of that public identity; `None` where there is none.
    pub(super) fn public(&self, uri: &Uri<'_>) -> Option<u32> {
        let mut buffer = [0; 128];
        let user = uri.unescaped_user(&mut buffer)?;
        self.formats.public.index(user).filter(|index| *index < self.count)
    }

    /// The subscriber of that private identity.
    pub(super) fn private(&self, name: &[u8]) -> Option<u32> {
        self.formats.private.index(name).filter(|index| *index < self.count)
    }
}
