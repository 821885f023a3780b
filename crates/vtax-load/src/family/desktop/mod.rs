//! Remote desktops as their users see them.
//!
//! Each session is a client of RFB with a user who types, scrolls, drags and watches. Content of vtax's own runs on the desktop
//! ([`vtax_service`](https://docs.rs/vtax-service)'s `embedded::desktop`) and answers each input with a marker. Latency is from the intended
//! time of an input to the end of the update whose decoding brought its marker.

mod desk;
mod picture;
mod result;
mod session;
mod spec;
mod tls;
mod user;
mod worker;

pub use result::{DesktopFigures, DesktopResult, Kind};
pub use session::DesktopSession;
pub use spec::{DesktopSpec, Keep};
