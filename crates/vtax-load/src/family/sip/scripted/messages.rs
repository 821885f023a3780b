//! What messages mean to a call.

use vtax_wire::sip::{Address, Challenge, Message, Method, Name, StartLine};
use vtax_wire::sipp::{Ere, Expect, Matcher};

use super::call::Call;

/// Route sets, tags and URIs that are kept are no longer.
const KEPT_MAX: usize = 4_096;

/// Whether a response is to the request that was sent last, or to an INVITE that has no final answer yet.
pub(super) fn is_answer(message: &Message<'_>, call: &Call) -> bool {
    let Some(asked) = call.asked else { return true };
    message.cseq().is_ok_and(|cseq| match cseq.method {
        Method::Invite => call.invited == Some(cseq.number),
        method => (cseq.number, method) == asked,
    })
}

/// Whether a message is of the kind that a command waits for.
pub(super) fn is_expected(expect: &Expect, message: &Message<'_>, matcher: &mut Matcher) -> bool {
    let mut like = |ere: &Ere, text: &[u8]| ere.find(matcher, text).is_some();
    match (message.start(), expect) {
        (StartLine::Status { code, .. }, Expect::Status(own)) => code == *own,
        (StartLine::Status { code, .. }, Expect::StatusLike(ere)) => {
            like(ere, &[code / 100 % 10, code / 10 % 10, code % 10].map(|digit| b'0' + digit as u8))
        }
        (StartLine::Request { method_text, .. }, Expect::Method(own)) => method_text == own,
        (StartLine::Request { method_text, .. }, Expect::MethodLike(ere)) => like(ere, method_text),
        _ => false,
    }
}

pub(super) fn keep(to: &mut Vec<u8>, text: &[u8], most: usize) {
    to.clear();
    if text.len() <= most {
        to.extend_from_slice(text);
    }
}

/// Keeps what later messages of the call need.
pub(super) fn learn(call: &mut Call, message: &Message<'_>, route_set: bool) {
    let is_request = message.method().is_some();
    let far = if is_request { message.from() } else { message.to() };
    if let Ok(Address { tag: Some(tag), .. }) = far {
        keep(&mut call.peer_tag, tag, KEPT_MAX);
    }
    if !route_set {
        return;
    }
    call.routes.clear();
    // A caller's route is the way back (RFC 3261 section 12.1.2).
    let count = message.values(Name::RecordRoute).count();
    for i in 0..count {
        let at = if is_request { i } else { count - 1 - i };
        let Some(route) = message.values(Name::RecordRoute).nth(at) else { continue };
        if call.routes.len() + route.len() > KEPT_MAX {
            break;
        }
        if i > 0 {
            call.routes.extend_from_slice(b", ");
        }
        call.routes.extend_from_slice(route);
    }
    if let Some(Ok(contact)) = message.values(Name::Contact).next().map(Address::parse) {
        keep(&mut call.next_url, contact.uri, KEPT_MAX);
    }
}

/// Keeps a challenge; false where there is none that can be answered.
pub(super) fn challenged(call: &mut Call, message: &Message<'_>) -> bool {
    for (name, proxy) in [(Name::WwwAuthenticate, false), (Name::ProxyAuthenticate, true)] {
        for line in message.lines(name) {
            if let Ok(challenge) = Challenge::parse(line) {
                return call.auth.meet(&challenge, proxy).is_some();
            }
        }
    }
    false
}
