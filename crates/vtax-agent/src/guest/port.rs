//! The port the agent talks through: a virtio-serial one (Linux `drivers/char/virtio_console.c`), or a serial line.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use vtax_vm::contract::{AGENT_PORT, UML_READY};

use super::error::GuestError;

/// Ports appear by messages from QEMU, which take milliseconds unless the host is stuck.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(1);

/// Opens the agent's port, for reading and writing.
pub(super) fn open() -> Result<OwnedFd, GuestError> {
    let started = Instant::now();
    loop {
        if let Some(device) = device_of(Path::new("/sys/class/virtio-ports")) {
            let opened = OpenOptions::new().read(true).write(true).open(&device);
            return opened.map(Into::into).map_err(GuestError::call("open", device.display().to_string()));
        }
        if started.elapsed() > PATIENCE {
            return Err(GuestError::NoPort { name: AGENT_PORT, waited: PATIENCE });
        }
        std::thread::sleep(PAUSE);
    }
}

/// Opens a serial line (`ttyS0`) as a stream of bytes, and says on it that the agent listens: what was sent before that was
/// taken for typing.
pub(super) fn open_line(name: &str) -> Result<OwnedFd, GuestError> {
    let device = Path::new("/dev").join(name);
    let place = device.display().to_string();
    let failed = |operation| GuestError::call(operation, place.as_str());
    let line = OpenOptions::new().read(true).write(true).open(&device);
    let mut line = line.map_err(failed("open"))?;
    let mut raw =
        tcgetattr(&line).map_err(std::io::Error::from).map_err(failed("ask for the settings of"))?;
    raw.make_raw();
    let set = tcsetattr(&line, OptionalActions::Flush, &raw).map_err(std::io::Error::from);
    set.map_err(failed("set up"))?;
    line.write_all(UML_READY).map_err(failed("write to"))?;
    Ok(line.into())
}

/// `/dev/vport0p1` of the port with our name. The name comes after the port itself.
fn device_of(class: &Path) -> Option<PathBuf> {
    fs::read_dir(class).ok()?.flatten().find_map(|port| {
        let name = fs::read_to_string(port.path().join("name")).ok()?;
        (name.trim_end() == AGENT_PORT).then(|| Path::new("/dev").join(port.file_name()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_found_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        for (port, name) in [("vport0p0", "other\n"), ("vport0p1", "vtax.agent\n")] {
            fs::create_dir(dir.path().join(port)).unwrap();
            fs::write(dir.path().join(port).join("name"), name).unwrap();
        }
        assert_eq!(device_of(dir.path()), Some(PathBuf::from("/dev/vport0p1")));
        assert_eq!(device_of(&dir.path().join("none")), None);
    }
}
