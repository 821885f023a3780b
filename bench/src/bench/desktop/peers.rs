//! Other clients of RFB, which are played the same.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use vtax_sys::reap::Reaped;
use vtax_wire::rfb::Encoding;

use super::player::Player;
use super::{CLIENT_CPU, SERVER_CPU};
use crate::program::{Server, pinned, run, run_to};

/// vncdotool as a program: asks for so many updates, and draws them.
const SCRIPT: &str = "\
import sys
from twisted.internet import reactor
from vncdotool.client import VNCDoToolClient, VNCDoToolFactory

left = int(sys.argv[2])

class Client(VNCDoToolClient):
    def vncConnectionMade(self):
        self.setImageMode()
        self.framebufferUpdateRequest()

    def commitUpdate(self, rectangles):
        global left
        left -= 1
        self.framebufferUpdateRequest(incremental=True)
        if left == 0:
            reactor.stop()

factory = VNCDoToolFactory()
factory.protocol = Client
reactor.connectTCP('127.0.0.1', int(sys.argv[1]), factory)
reactor.run()
sys.exit(left)
";

/// A client beside ours.
#[derive(Clone, Copy)]
pub(super) enum Peer {
    /// A program in Python on Twisted, which automates desktops.
    Vncdotool,
    /// TigerVNC's viewer, which shows what it decodes on another X server.
    Tigervnc,
}

impl Peer {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Vncdotool => "vncdotool",
            Self::Tigervnc => "TigerVNC's viewer",
        }
    }

    /// Takes a play to its end.
    pub(super) fn play(
        self,
        player: &Player,
        updates: usize,
        encoding: Encoding,
        viewer: &Viewer,
    ) -> Result<Reaped> {
        let port = player.first.port().to_string();
        match self {
            Self::Vncdotool => {
                let mut command = pinned(CLIENT_CPU, &viewer.python()?);
                command.arg(viewer.directory.path().join("client.py")).args([&port, &updates.to_string()]);
                Ok(run(&mut command, "vncdotool")?.1)
            }
            Self::Tigervnc => {
                let mut command = pinned(CLIENT_CPU, "xtigervncviewer");
                command.env("DISPLAY", format!(":{}", viewer.display)).env("HOME", viewer.directory.path());
                command.args([
                    "-AutoSelect=0",
                    "-FullColor=1",
                    "-AlertOnFatalError=0",
                    "-ReconnectOnError=0",
                ]);
                command.arg(format!("-PreferredEncoding={}", encoding.name()));
                command.arg(format!("127.0.0.1::{port}"));
                // The server's end is an error to it.
                Ok(run_to(&mut command, "xtigervncviewer", &[0, 1])?.1)
            }
        }
    }
}

/// What the peers need: an X server to show something on, a home, a program for vncdotool.
pub(super) struct Viewer {
    directory: TempDir,
    display: u16,
    _screen: Server,
}

impl Viewer {
    pub(super) fn start() -> Result<Self> {
        let directory = tempfile::tempdir().context("making a temporary directory")?;
        std::fs::write(directory.path().join("client.py"), SCRIPT)?;
        let display = vtax_sys::free_port();
        let mut command = pinned(SERVER_CPU, "Xvfb");
        command.args([&format!(":{display}"), "-screen", "0", "1280x1024x24", "-nolisten", "tcp"]);
        let mut screen = Server::start(&mut command, "Xvfb")?;
        let socket = format!("/tmp/.X11-unix/X{display}");
        screen.wait(|_| Path::new(&socket).exists())?;
        Ok(Self { directory, display, _screen: screen })
    }

    /// The Python that has vncdotool: the system's, or one in an environment of its own that `$VTAX_VNCDOTOOL` names.
    fn python(&self) -> Result<String> {
        let python = std::env::var("VTAX_VNCDOTOOL").unwrap_or_else(|_| "python3".to_owned());
        let known = Command::new(&python).args(["-c", "import vncdotool"]).output();
        match known {
            Ok(output) if output.status.success() => Ok(python),
            _ => bail!(
                "{python} has no vncdotool: `python3 -m venv DIR && DIR/bin/pip install vncdotool`, and VTAX_VNCDOTOOL=DIR/bin/python"
            ),
        }
    }
}
