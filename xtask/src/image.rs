//! An OCI image with vtax in it and nothing else, as one file that `podman load` and `docker load` take.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::archive::Archive;
use crate::place::root;
use crate::tasks::{source_time, vtax};

/// What is in the layer besides the program: directories with their rights.
const DIRECTORIES: [(&str, u32); 6] = [
    ("etc/", 0o755),
    ("tmp/", 0o1777),
    ("usr/", 0o755),
    ("usr/bin/", 0o755),
    ("var/", 0o755),
    ("work/", 0o1777),
];

/// Writes the image of the program that `make build` left.
///
/// # Errors
///
/// Where there is none, or the file can't be written.
pub(crate) fn image() -> Result<()> {
    let program = vtax();
    let program = std::fs::read(&program).with_context(|| format!("reading {}", program.display()))?;
    let file = target_file();
    std::fs::write(&file, bytes(&program, architecture()?, source_time())?)
        .with_context(|| format!("writing {}", file.display()))?;
    println!("{}", file.display());
    Ok(())
}

fn target_file() -> PathBuf {
    root().join(format!("target/vtax-{}-oci.tar", env!("CARGO_PKG_VERSION")))
}

/// This machine's architecture as images name it.
fn architecture() -> Result<&'static str> {
    Ok(match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => bail!("no name for {other} is known that images use"),
    })
}

/// A part of the image, named by its content.
struct Blob {
    digest: String,
    bytes: Vec<u8>,
}

impl Blob {
    fn new(bytes: Vec<u8>) -> Self {
        let digest = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { digest, bytes }
    }

    fn json(value: &Value) -> Self {
        Self::new(value.to_string().into_bytes())
    }

    fn descriptor(&self, kind: &str) -> Value {
        let media = format!("application/vnd.oci.image.{kind}");
        json!({"mediaType": media, "digest": format!("sha256:{}", self.digest), "size": self.bytes.len()})
    }
}

/// The whole image, by the OCI's image layout 1.0.0.
fn bytes(program: &[u8], architecture: &str, time: u64) -> Result<Vec<u8>> {
    let mut layer = Archive::new(time);
    for (name, mode) in DIRECTORIES {
        layer.directory(name, mode)?;
    }
    layer.file("etc/passwd", 0o644, b"root:x:0:0:root:/work:/usr/bin/vtax\n")?;
    layer.file("usr/bin/vtax", 0o755, program)?;
    let layer = Blob::new(layer.finish());
    let config = Blob::json(&json!({
        "architecture": architecture,
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/vtax"],
            "Env": ["PATH=/usr/bin", "HOME=/work"],
            "WorkingDir": "/work",
            "Labels": {
                "org.opencontainers.image.title": "vtax",
                "org.opencontainers.image.version": env!("CARGO_PKG_VERSION"),
                "org.opencontainers.image.licenses": "Apache-2.0 OR MIT",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", layer.digest)]},
    }));
    let manifest = Blob::json(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config.descriptor("config.v1+json"),
        "layers": [layer.descriptor("layer.v1.tar")],
    }));
    let mut described = manifest.descriptor("manifest.v1+json");
    described["platform"] = json!({"architecture": architecture, "os": "linux"});
    let reference = concat!("vtax:", env!("CARGO_PKG_VERSION"));
    described["annotations"] = json!({"org.opencontainers.image.ref.name": env!("CARGO_PKG_VERSION"), "io.containerd.image.name": reference});
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [described],
    });
    let mut image = Archive::new(time);
    image.file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    image.file("index.json", 0o644, index.to_string().as_bytes())?;
    image.directory("blobs/", 0o755)?;
    image.directory("blobs/sha256/", 0o755)?;
    for blob in [&config, &manifest, &layer] {
        image.file(&format!("blobs/sha256/{}", blob.digest), 0o644, &blob.bytes)?;
    }
    Ok(image.finish())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The files of an archive of ours.
    fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let (mut files, mut at) = (BTreeMap::new(), 0);
        while archive[at] != 0 {
            let text = |from: usize, to: usize| {
                String::from_utf8(
                    archive[at + from..at + to].iter().copied().take_while(|b| *b != 0).collect(),
                )
                .unwrap()
            };
            let size = usize::from_str_radix(&text(124, 136), 8).unwrap();
            files.insert(text(0, 100), archive[at + 512..at + 512 + size].to_vec());
            at += 512 + size.next_multiple_of(512);
        }
        files
    }

    #[test]
    fn every_part_is_found_by_its_digest() {
        let image = bytes(b"program", "amd64", 7).unwrap();
        assert_eq!(image, bytes(b"program", "amd64", 7).unwrap(), "the same bytes twice");
        let files = files(&image);
        let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
            let bytes = &files[&format!("blobs/sha256/{digest}")];
            assert_eq!(descriptor["size"], bytes.len());
            let sum: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(sum, digest);
            bytes.clone()
        };
        let manifest = json(&blob(&json(&files["index.json"])["manifests"][0]));
        let config = json(&blob(&manifest["config"]));
        let layer = blob(&manifest["layers"][0]);
        assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
        assert_eq!(config["config"]["Entrypoint"][0], "/usr/bin/vtax");
        assert_eq!(self::files(&layer)["usr/bin/vtax"], b"program");
    }
}
