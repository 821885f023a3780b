//! Servers of remote desktops. Every setting and its reason is in docs/desktop.md.
//!
//! Each desktop is an X server with vtax's own content on it. TigerVNC's X server speaks RFB itself; x11vnc reads another's
//! screen. Displays have the numbers of their ports: no other X server of the same node has these.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use vtax_plan::model::{DesktopOptions, DesktopSecurity};
use vtax_wire::rfb::vnc_auth_file;

use super::entry::Entry;
use super::{certificate, stunnel};
use crate::documents::write_file;
use crate::error::ServiceError;
use crate::packages::{Distribution, Package};
use crate::recipe::{Condition, EntryContext, Heard, Recipe};

const TIGERVNC: &[&str] = &["/usr/bin/Xvnc", "/usr/bin/Xtigervnc", "/usr/local/bin/Xvnc"];
const X11VNC: &[&str] = &["/usr/bin/x11vnc", "/usr/local/bin/x11vnc"];
const XVFB: &[&str] = &["/usr/bin/Xvfb", "/usr/local/bin/Xvfb"];
/// What the content says once it is there.
const SHOWN: &str = "the content is on display";
/// Where desktops behind a tunnel listen, so that it can have their ports elsewhere on this machine.
const BEHIND: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// Seed of what the desktops show, with their numbers.
const SEED: u64 = 0x5EED;

pub(super) fn packages() -> Vec<Package> {
    [tigervnc(), x11vnc()].concat()
}

/// These, and the tunnel's where there is one.
fn and_tunnel(mut packages: Vec<Package>, options: &DesktopOptions) -> Vec<Package> {
    packages.extend(options.tunnel.then(stunnel::package));
    packages
}

fn tigervnc() -> Vec<Package> {
    let of = match Distribution::of_this_host() {
        Distribution::Debian => ("tigervnc-standalone-server", "apt-get install tigervnc-standalone-server"),
        Distribution::Fedora => ("tigervnc-server-minimal", "dnf install tigervnc-server-minimal"),
        Distribution::Suse => ("xorg-x11-Xvnc", "zypper install xorg-x11-Xvnc"),
        Distribution::Arch => ("tigervnc", "pacman -S tigervnc"),
        Distribution::Alpine => ("tigervnc", "apk add tigervnc"),
    };
    vec![Package::of("tigervnc", TIGERVNC, of)]
}

fn x11vnc() -> Vec<Package> {
    let (install, xvfb) = match Distribution::of_this_host() {
        Distribution::Debian => ("apt-get install x11vnc", ("xvfb", "apt-get install xvfb")),
        Distribution::Fedora => {
            ("dnf install x11vnc", ("xorg-x11-server-Xvfb", "dnf install xorg-x11-server-Xvfb"))
        }
        Distribution::Suse => {
            ("zypper install x11vnc", ("xorg-x11-server-Xvfb", "zypper install xorg-x11-server-Xvfb"))
        }
        Distribution::Arch => ("pacman -S x11vnc", ("xorg-server-xvfb", "pacman -S xorg-server-xvfb")),
        Distribution::Alpine => ("apk add x11vnc", ("xvfb", "apk add xvfb")),
    };
    vec![Package::of("x11vnc", X11VNC, ("x11vnc", install)), Package::of("x11vnc (Xvfb)", XVFB, xvfb)]
}

/// A desktop of a service: its display's number, and where it listens.
struct Desk {
    number: u32,
    display: u32,
    address: SocketAddr,
}

/// All of them, the first one last: without a tunnel its address is the service's.
fn desks(context: &EntryContext<'_>, options: &DesktopOptions) -> impl Iterator<Item = Desk> {
    let ip = if options.tunnel { BEHIND } else { context.address.ip() };
    let first = context.address.port();
    (0..options.sessions).rev().map(move |number| {
        let port = first.saturating_add(number as u16);
        Desk { number, display: port.into(), address: SocketAddr::new(ip, port) }
    })
}

/// The tunnel to all desktops, where there is one.
fn tunnel(context: &EntryContext<'_>, options: &DesktopOptions) -> Result<Option<Recipe>, ServiceError> {
    if !options.tunnel {
        return Ok(None);
    }
    let way = |desk: Desk| (SocketAddr::new(context.address.ip(), desk.address.port()), desk.address);
    let ways: Vec<stunnel::Way> = desks(context, options).map(way).collect();
    stunnel::recipe(context, &ways).map(Some)
}

/// What shows the content on a desktop.
fn content(context: &EntryContext<'_>, desk: &Desk) -> Recipe {
    let (display, seed) = (desk.display.to_string(), (SEED + u64::from(desk.number)).to_string());
    let arguments = ["service", "desktop", "--display", &display, "--seed", &seed];
    let recipe = context.own(&arguments, Condition::Log(SHOWN.to_owned()));
    Recipe { part: Some("content"), address: desk.address, ..recipe }
}

/// The file with the password, where one is asked for.
fn password(context: &EntryContext<'_>, options: &DesktopOptions) -> Result<Option<String>, ServiceError> {
    if !options.security.asks_password() {
        return Ok(None);
    }
    let path = context.directory.join("password");
    let bytes = vnc_auth_file(DesktopOptions::PASSWORD);
    write_file(&path, &bytes).map_err(context.file("writing", &path))?;
    Ok(Some(context.path("password")))
}

/// Arguments of TigerVNC for who may come, with the files they name.
fn security(context: &EntryContext<'_>, options: &DesktopOptions) -> Result<Vec<String>, ServiceError> {
    let types = match options.security {
        DesktopSecurity::None => "None",
        DesktopSecurity::Password => "VncAuth",
        DesktopSecurity::X509 => "X509None",
        DesktopSecurity::X509Password => "X509Vnc",
    };
    let mut arguments = vec!["-SecurityTypes".to_owned(), types.to_owned()];
    if let Some(file) = password(context, options)? {
        arguments.extend(["-PasswordFile".to_owned(), file]);
    }
    if options.security.is_tls() {
        certificate::write(context)?;
        for (option, name) in [("-X509Cert", certificate::CERTIFICATE), ("-X509Key", certificate::KEY)] {
            arguments.extend([option.to_owned(), context.path(name)]);
        }
    }
    Ok(arguments)
}

/// Ready is the greeting of RFB.
fn greeting() -> Condition {
    Condition::Answer { what: "RFB's greeting".to_owned(), ask: Vec::new(), judge }
}

fn judge(answer: &[u8]) -> Heard {
    match answer.get(..12) {
        None => Heard::Incomplete,
        Some(greeting) if greeting.starts_with(b"RFB ") => Heard::Ready(None),
        Some(_) => Heard::NotYet("it doesn't greet as RFB does".to_owned()),
    }
}

pub(super) struct Tigervnc<'a>(pub(super) &'a DesktopOptions);

impl Entry for Tigervnc<'_> {
    fn packages(&self) -> Vec<Package> {
        and_tunnel(tigervnc(), self.0)
    }

    fn recipes(&self, context: &EntryContext<'_>) -> Result<Vec<Recipe>, ServiceError> {
        let security = security(context, self.0)?;
        let mut recipes = Vec::with_capacity(2 * self.0.sessions as usize);
        for desk in desks(context, self.0) {
            let mut command = vec![tigervnc()[0].program.to_owned()];
            let words = format!(
                ":{} -geometry {}x{} -depth 24 -rfbport {} -interface {} -nolisten tcp -AlwaysShared \
                 -Log *:stderr:10",
                desk.display,
                self.0.width,
                self.0.height,
                desk.address.port(),
                desk.address.ip(),
            );
            command.extend(words.split_whitespace().map(str::to_owned));
            command.extend_from_slice(&security);
            let server =
                Recipe { part: Some("Xvnc"), address: desk.address, ..context.recipe(command, greeting()) };
            recipes.extend([server, content(context, &desk)]);
        }
        recipes.extend(tunnel(context, self.0)?);
        Ok(recipes)
    }
}

pub(super) struct X11vnc<'a>(pub(super) &'a DesktopOptions);

impl Entry for X11vnc<'_> {
    fn packages(&self) -> Vec<Package> {
        and_tunnel(x11vnc(), self.0)
    }

    fn recipes(&self, context: &EntryContext<'_>) -> Result<Vec<Recipe>, ServiceError> {
        let password = password(context, self.0)?;
        let [x11vnc, xvfb] = [0, 1].map(|place| x11vnc()[place].program.to_owned());
        let mut recipes = Vec::with_capacity(3 * self.0.sessions as usize);
        for desk in desks(context, self.0) {
            let display = format!(":{}", desk.display);
            let screen = format!("{}x{}x24", self.0.width, self.0.height);
            let command = [&xvfb, &display, "-screen", "0", &screen, "-nolisten", "tcp"];
            let socket = Condition::Command(vec!["test".into(), "-S".into(), socket(&desk)]);
            let server = context.recipe(command.map(|word| word.to_owned()).to_vec(), socket);
            let mut command = vec![x11vnc.clone()];
            let words = format!(
                "-display {display} -rfbport {} -listen {} -forever -shared -nopw -nocursorshape -quiet",
                desk.address.port(),
                desk.address.ip()
            );
            command.extend(words.split_whitespace().map(str::to_owned));
            if let Some(file) = &password {
                command.retain(|word| word != "-nopw");
                command.extend(["-rfbauth".to_owned(), file.clone()]);
            }
            let viewer =
                Recipe { part: Some("x11vnc"), address: desk.address, ..context.recipe(command, greeting()) };
            let server = Recipe { part: Some("Xvfb"), address: desk.address, ..server };
            recipes.extend([server, content(context, &desk), viewer]);
        }
        recipes.extend(tunnel(context, self.0)?);
        Ok(recipes)
    }
}

/// The socket of a display.
fn socket(desk: &Desk) -> String {
    format!("/tmp/.X11-unix/X{}", desk.display)
}
