//! `vtax agent`: the part that runs inside a node.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use vtax_agent::Role;

use crate::exit::{Classify, Exit, Outcome};

/// Serves a controller on an inherited stream. Started by vtax itself, never by hand.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The node's name, which makes the agent easy to find in a list of processes.
    #[arg(long)]
    node: String,
    /// Number of the descriptor that leads to the controller; 0: standard input and output, as over ssh.
    #[arg(long)]
    fd: i32,
    /// End where nothing is heard of the controller for 15 s, as on another host.
    #[arg(long)]
    lease: bool,
    /// Directory for the services' private files; made where it is missing.
    #[arg(long)]
    dir: PathBuf,
}

pub(crate) fn run(args: &Args) -> Outcome {
    make_directory(&args.dir)
        .with_context(|| format!("node {}: create directory {}", args.node, args.dir.display()))
        .host_cannot()?;
    let (read, write) = match args.fd {
        0 => vtax_sys::inherit::standard_streams(),
        number => vtax_sys::inherit::take(number).and_then(|read| Ok((read.try_clone()?, read))),
    }
    .with_context(|| format!("node {}: the controller's stream, descriptor {}", args.node, args.fd))
    .bad_input()?;
    let role = Role { init: std::process::id() == 1, directory: args.dir.clone() };
    let serve = if args.lease { vtax_agent::serve_with_lease } else { vtax_agent::serve };
    serve(read, write, role).context("serve the controller").host_cannot()?;
    Ok(Exit::Done)
}

/// Makes the directory if it isn't there. Every user may enter it, whatever the umask: services that drop root's rights have files below.
fn make_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o711))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_may_enter_a_directory_that_is_made_and_one_that_is_there_stays_as_it_is() {
        let parent = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let directory = parent.path().join("run/node");
        make_directory(&directory).unwrap();
        assert_eq!(mode(&directory), 0o711);
        fs::set_permissions(&directory, Permissions::from_mode(0o700)).unwrap();
        make_directory(&directory).unwrap();
        assert_eq!(mode(&directory), 0o700);
    }
}
