//! HTTP load: requests over connections that are kept or closed, in the clear or with TLS, alone or in sessions.
//!
//! GET requests that are all alike, in the clear, have a dialogue of their own ([`dialogue`]), of which nothing but the
//! status is looked at. All others are made of a script ([`script`], [`exchange`]) over a layer that knows connections and
//! TLS ([`secure`]). HTTP/2 has its own dialogue over the same layer, of several requests at once on a connection ([`streams`]).

mod dialogue;
mod exchange;
mod http2_found;
mod result;
mod script;
mod secure;
mod session;
mod spec;
mod streams;
mod websocket;

pub use http2_found::Http2Details;
pub use result::{HttpDetails, HttpExchanges, HttpRequestDetails, HttpTlsDetails};
pub use session::HttpSession;
pub use spec::{HttpRequests, HttpSpec};
