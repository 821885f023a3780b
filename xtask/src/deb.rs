//! The Debian package, built by dpkg-deb.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::place::root;
use crate::tasks::{run, source_time, vtax};

/// Where shells look for what they complete.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/vtax"),
    ("zsh", "usr/share/zsh/vendor-completions/_vtax"),
    ("fish", "usr/share/fish/vendor_completions.d/vtax.fish"),
];

/// Builds the package of the program that `make build` left.
///
/// # Errors
///
/// Where there is none, something can't be written, or dpkg-deb isn't there.
pub(crate) fn deb() -> Result<()> {
    let tree = root().join("target/deb");
    if tree.exists() {
        fs::remove_dir_all(&tree).with_context(|| format!("removing {}", tree.display()))?;
    }
    fill(&tree)?;
    let architecture = said(Command::new("dpkg").arg("--print-architecture"))?;
    let control = control(architecture.trim(), kibibytes(&tree)?);
    write(&tree.join("DEBIAN/control"), control.as_bytes(), 0o644)?;
    let package = format!("target/vtax_{}_{}.deb", env!("CARGO_PKG_VERSION"), architecture.trim());
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "--build", "target/deb", &package]);
    // Everything has the commit's time, so that two builds give the same bytes.
    run(build.env("SOURCE_DATE_EPOCH", source_time().to_string()))?;
    println!("{}", root().join(package).display());
    Ok(())
}

/// What is installed.
fn fill(tree: &Path) -> Result<()> {
    let program = vtax();
    let bytes = fs::read(&program)
        .with_context(|| format!("reading {}: `make build` makes it", program.display()))?;
    write(&tree.join("usr/bin/vtax"), &bytes, 0o755)?;
    for (shell, place) in COMPLETIONS {
        let script = said(Command::new(&program).args(["completions", shell]))?;
        write(&tree.join(place), script.as_bytes(), 0o644)?;
    }
    let man = tree.join("usr/share/man/man1");
    directory(&man)?;
    run(Command::new(&program).arg("man").arg(&man))?;
    for page in files(&man)? {
        fs::set_permissions(&page, Permissions::from_mode(0o644))?;
        // Without name and time in it.
        run(Command::new("gzip").args(["-9", "-n"]).arg(&page))?;
    }
    let documents = tree.join("usr/share/doc/vtax");
    for name in ["README.md", "CHANGELOG.md", "SECURITY.md"] {
        copy(&root().join(name), &documents.join(name))?;
    }
    for (from, to) in [
        ("docs", "usr/share/doc/vtax/docs"),
        ("plans", "usr/share/vtax/plans"),
        ("schema", "usr/share/vtax/schema"),
    ] {
        for file in files(&root().join(from))? {
            copy(&file, &tree.join(to).join(file.file_name().context("a file has no name")?))?;
        }
    }
    copy(&root().join("crates/vtax/licences.txt"), &documents.join("licences.txt"))?;
    write(&documents.join("copyright"), copyright()?.as_bytes(), 0o644)
}

fn control(architecture: &str, kibibytes: u64) -> String {
    format!(
        "Package: vtax\nVersion: {}\nArchitecture: {architecture}\nMaintainer: vtax maintainers <maintainers@vtax.invalid>\n\
         Installed-Size: {kibibytes}\nSection: utils\nPriority: optional\nRecommends: qemu-system-x86, crun\n\
         Description: the virtualization tax, measured\n \
         What does it cost to move a service into a container, into a virtual machine,\n \
         or behind a virtual switch? vtax builds the testbed, runs the same service with\n \
         the same binaries in each environment under the same load, and reports the\n \
         difference with confidence intervals.\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// Debian's file about copyright, format 1.0.
fn copyright() -> Result<String> {
    let mit = fs::read_to_string(root().join("LICENSE-MIT")).context("reading LICENSE-MIT")?;
    let mit: String = mit
        .lines()
        .map(|line| if line.trim().is_empty() { " .\n".into() } else { format!(" {line}\n") })
        .collect();
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: vtax\n\n\
         Files: *\nCopyright: the vtax maintainers\nLicense: Apache-2.0 or Expat\nComment:\n The program is linked statically; licences.txt \
         beside this file names every\n package in it with its licence.\n\nLicense: Apache-2.0\n On Debian systems the text is in \
         /usr/share/common-licenses/Apache-2.0.\n\nLicense: Expat\n{mit}"
    ))
}

/// Size of everything below a directory, each file rounded up.
fn kibibytes(directory: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))? {
        let entry = entry?;
        sum += if entry.file_type()?.is_dir() {
            kibibytes(&entry.path())?
        } else {
            entry.metadata()?.len().div_ceil(1024)
        };
    }
    Ok(sum)
}

/// The files of a directory in order, those below it left out.
fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))?;
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    Ok(files)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    write(to, &fs::read(from).with_context(|| format!("reading {}", from.display()))?, 0o644)
}

/// Writes a file with its directories, with these rights whatever the umask is.
fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    directory(path.parent().context("a file is in no directory")?)?;
    fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))?;
    fs::set_permissions(path, Permissions::from_mode(mode))
        .with_context(|| format!("writing {}", path.display()))
}

/// Makes a directory below `target/deb`; each has the rights that a package's directories have.
fn directory(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("creating {}", path.display()))?;
    let tree = root().join("target/deb");
    for directory in path.ancestors().take_while(|directory| directory.starts_with(&tree)) {
        fs::set_permissions(directory, Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// What a program prints.
fn said(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    ensure!(output.status.success(), "{command:?} ended with {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_files_are_what_dpkg_reads() {
        let control = control("amd64", 12);
        for field in ["Package: vtax\n", "Architecture: amd64\n", "Installed-Size: 12\n", "\nDescription: "] {
            assert!(control.contains(field), "{control}");
        }
        // A line is a field or goes on with one.
        assert!(control.lines().all(|line| line.starts_with(' ') || line.contains(": ")), "{control}");
        let copyright = copyright().unwrap();
        assert!(
            copyright.lines().all(|line| line.is_empty() || line.starts_with(' ') || line.contains(':')),
            "{copyright}"
        );
    }
}
