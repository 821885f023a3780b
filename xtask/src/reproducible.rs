//! Whether two builds in different directories give the same bytes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use crate::place::root;
use crate::tasks::{run, vtax};

/// Builds what is committed in a directory of another name and depth, with crates that cargo keeps elsewhere, and compares that with
/// what `make build` left.
///
/// # Errors
///
/// Where the bytes differ, or something isn't committed, so that the sources do.
pub(crate) fn check() -> Result<()> {
    let git = |args: &[&str]| -> Result<String> {
        let output = Command::new("git").args(args).current_dir(root()).output().context("starting git")?;
        ensure!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    ensure!(
        git(&["status", "--porcelain"])?.is_empty(),
        "commit first: two builds would have different sources"
    );
    let commit = git(&["describe", "--always", "--dirty", "--abbrev=12"])?;
    // Not below this one, whose settings cargo would take, too.
    let top = std::env::temp_dir().join(format!("vtax-elsewhere-{}", std::process::id()));
    let other = top.join("in/another/place");
    std::fs::create_dir_all(&other).with_context(|| format!("creating {}", other.display()))?;
    let archive = other.join("source.tar");
    git(&["archive", "--output", &archive.display().to_string(), "HEAD"])?;
    run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&other))?;
    // Another user has cargo's crates elsewhere. Copied, so that nothing is loaded once more.
    let cargo = top.join("a/user/of/cargo");
    std::fs::create_dir_all(&cargo).with_context(|| format!("creating {}", cargo.display()))?;
    run(Command::new("cp").arg("-r").arg(cargo_home()?.join("registry")).arg(&cargo))?;
    // By make, as anybody would; what it asks git for is given, since the copy has none.
    let mut make = Command::new("make");
    make.args(["build", &format!("COMMIT={commit}")])
        .current_dir(&other)
        .env("CARGO_HOME", &cargo)
        .env_remove("CARGO")
        .env_remove("CARGO_TARGET_DIR");
    let status = make.status().context("starting make")?;
    ensure!(status.success(), "make ended with {status}");
    let same = compare(&vtax(), &other.join("target/vtax"));
    if same.is_ok() {
        // Some gigabytes; where the two differ, they are there to be looked at.
        std::fs::remove_dir_all(&top).with_context(|| format!("removing {}", top.display()))?;
    }
    same
}

/// Where cargo keeps crates.
fn cargo_home() -> Result<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(home)
        .context("neither CARGO_HOME nor HOME is set")
}

fn compare(one: &Path, two: &Path) -> Result<()> {
    let digest = |path: &Path| -> Result<String> {
        let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        Ok(format!(
            "{} bytes, sha256 {}",
            bytes.len(),
            Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect::<String>()
        ))
    };
    let (one, two) = (digest(one)?, digest(two)?);
    println!("one:     {one}\nanother: {two}");
    if one != two {
        bail!("the builds differ");
    }
    Ok(())
}
