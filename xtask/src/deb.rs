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

/// Files and folders that are installed as they are. What the documents name below `plans`, `ci` and the like is in `/usr/share/vtax`.
const COPIED: [(&str, &str); 12] = [
    ("README.md", "usr/share/doc/vtax/README.md"),
    ("ARCHITECTURE.md", "usr/share/doc/vtax/ARCHITECTURE.md"),
    ("CHANGELOG.md", "usr/share/doc/vtax/CHANGELOG.md"),
    ("CONTRIBUTING.md", "usr/share/doc/vtax/CONTRIBUTING.md"),
    ("SECURITY.md", "usr/share/doc/vtax/SECURITY.md"),
    ("crates/vtax/licences.txt", "usr/share/doc/vtax/licences.txt"),
    ("docs", "usr/share/doc/vtax/docs"),
    ("plans", "usr/share/vtax/plans"),
    ("schema", "usr/share/vtax/schema"),
    ("studies", "usr/share/vtax/studies"),
    ("contrib", "usr/share/vtax/contrib"),
    ("ci", "usr/share/vtax/ci"),
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
    for (file, place) in copied()? {
        copy(&file, &tree.join(place))?;
    }
    write(&tree.join("usr/share/doc/vtax/copyright"), copyright()?.as_bytes(), 0o644)
}

/// Each file of [`COPIED`], and where it is put in the package.
fn copied() -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut copied = Vec::new();
    for (from, to) in COPIED {
        let source = root().join(from);
        if source.is_file() {
            copied.push((source, to.into()));
            continue;
        }
        for file in all_files(&source)? {
            let place = Path::new(to).join(file.strip_prefix(&source).context("a file is in its folder")?);
            copied.push((file, place));
        }
    }
    Ok(copied)
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

/// The files of a directory and of those below it, in order.
fn all_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut all = files(directory)?;
    for entry in fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            all.extend(all_files(&entry.path())?);
        }
    }
    all.sort();
    Ok(all)
}

/// Copies a file. A program stays one, whatever else its rights are here.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let reading = || format!("reading {}", from.display());
    let mode = fs::metadata(from).with_context(reading)?.permissions().mode();
    write(to, &fs::read(from).with_context(reading)?, if mode & 0o100 == 0 { 0o644 } else { 0o755 })
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

    /// Relative paths of plans, scripts and studies that a document names and that are there.
    fn named(document: &Path) -> Vec<PathBuf> {
        let text = fs::read_to_string(document).unwrap();
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
        let words =
            text.split(|c: char| !is_part(c)).map(|word| word.trim_matches('.').trim_start_matches('/'));
        let folders = ["plans/", "ci/", "contrib/", "schema/", "studies/"];
        let named = words.filter(|word| folders.iter().any(|folder| word.starts_with(folder)));
        named.map(PathBuf::from).filter(|path| root().join(path).is_file()).collect()
    }

    #[test]
    fn what_the_documents_name_is_in_the_package() {
        let copied = copied().unwrap();
        let place = |file: &Path| copied.iter().find(|(from, _)| from == file).map(|(_, to)| to.clone());
        let mut documents = files(&root().join("docs")).unwrap();
        documents.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
        documents.push(root().join("README.md"));
        let mut seen = 0;
        for document in documents {
            for path in named(&document) {
                let expected = Some(Path::new("usr/share/vtax").join(&path));
                assert_eq!(place(&root().join(&path)), expected, "{}", document.display());
                seen += 1;
            }
        }
        assert!(seen > 30, "{seen}");
        let whole = Path::new("studies/virtual-servers/whole/ftp-bulk.yaml");
        assert!(place(&root().join(whole)).is_some());
        assert!(place(&root().join("ARCHITECTURE.md")).is_some());
    }

    #[test]
    fn a_program_is_installed_as_one() {
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let place = std::env::temp_dir().join(format!("xtask-deb-{}", std::process::id()));
        for (name, rights) in [("gate.sh", 0o755), ("gitlab.yml", 0o644)] {
            copy(&root().join("ci").join(name), &place.join(name)).unwrap();
            assert_eq!(mode(&place.join(name)), rights, "{name}");
        }
        fs::remove_dir_all(&place).unwrap();
    }
}
