//! What a desktop shows and how it answers: text that is typed and scrolled, a picture that is dragged, a film.
//!
//! A client of the X protocol without a toolkit. Each input is answered by what it asks for and, last, by the marker with its number
//! ([`vtax_wire::desktop`]): once the marker is on a user's screen, so is the answer. What is shown follows from the seed.

mod scene;
mod server;

use std::io;
use std::time::Duration;

use vtax_wire::x11::{self, EventKind, Packet};

use scene::Scene;
pub use server::XServer;

/// How long an X server is waited for that isn't there yet.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a desktop's content ended.
#[derive(Debug, thiserror::Error)]
pub enum DesktopError {
    /// The X server can't be reached, or has gone.
    #[error("the X server of display :{display}")]
    Server {
        /// Number of the display.
        display: u32,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It declined, or isn't of a kind that is drawn on here.
    #[error("the X server of display :{display}")]
    Setup {
        /// Number of the display.
        display: u32,
        /// What it is about.
        #[source]
        source: x11::SetupError,
    },
    /// A desktop too small or too large for what is shown.
    #[error("display :{display} has {width}x{height} pixels: 400x300 to 8192x8192 are needed")]
    Size {
        /// Number of the display.
        display: u32,
        /// In pixels.
        width: u16,
        /// In pixels.
        height: u16,
    },
    /// It refused a request.
    #[error("the X server of display :{display} refused request {request}: error {code}")]
    Refused {
        /// Number of the display.
        display: u32,
        /// The request's major code.
        request: u8,
        /// The error's code.
        code: u8,
    },
}

/// Shows the content on a display until the X server ends. `ready` is called once it is there and answers.
///
/// # Errors
/// The server isn't there, isn't usable, or refuses a request.
pub fn serve(display: u32, seed: u64, ready: impl FnOnce()) -> Result<(), DesktopError> {
    let mut server = XServer::connect(display, PATIENCE)?;
    let mut scene = Scene::new(&server.setup, display, seed)?;
    scene.ask_keys(server.out());
    let keys = server.reply()?;
    scene.keys(&keys);
    scene.build(server.out());
    // The answer to a question that comes after all of it: it is drawn.
    scene.ask_keys(server.out());
    server.reply()?;
    ready();
    loop {
        if server.receive()? == 0 {
            return Ok(());
        }
        let mut ask = false;
        while let Some(packet) = server.packet() {
            match packet {
                Packet::Event(event) if event.kind == EventKind::Mapping => ask = true,
                Packet::Event(event) => scene.event(&event, server.out()),
                Packet::Reply(reply) => {
                    let reply = reply.to_vec();
                    scene.keys(&reply);
                }
                Packet::Error { code, request } => return Err(server.refused(request, code)),
            }
        }
        if ask {
            scene.ask_keys(server.out());
        }
        server.flush()?;
    }
}
