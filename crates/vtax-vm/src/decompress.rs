//! Decompression of kernels and kernel modules, all formats that distributions use.

use std::io::{self, Read};

use ruzstd::decoding::StreamingDecoder;

/// More than any kernel or module is; stops a decompression bomb.
const MOST_BYTES: u64 = 512 << 20;

/// Magic of the legacy LZ4 frame that the kernel's build uses (`lz4 -l`).
const LZ4_LEGACY: &[u8] = &[0x02, 0x21, 0x4c, 0x18];
/// Largest block of a legacy LZ4 frame, before compression.
const LZ4_LEGACY_BLOCK: usize = 8 << 20;

/// Formats by their first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Plain,
    Gzip,
    Xz,
    Zstd,
    Lz4,
    Other(&'static str),
}

impl Format {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let known: [(&[u8], Self); 8] = [
            (b"\x7fELF", Self::Plain),
            (&[0x1f, 0x8b], Self::Gzip),
            (b"\xfd7zXZ\0", Self::Xz),
            (&[0x28, 0xb5, 0x2f, 0xfd], Self::Zstd),
            (LZ4_LEGACY, Self::Lz4),
            (b"BZh", Self::Other("bzip2")),
            (b"\x5d\0\0", Self::Other("lzma")),
            (b"\x89LZO", Self::Other("lzo")),
        ];
        let found = known.into_iter().find(|(magic, _)| bytes.starts_with(magic));
        found.map_or(Self::Other("unknown"), |(_, format)| format)
    }
}

/// The ELF file in `bytes`, whatever it is compressed with.
///
/// Bytes behind the compressed stream are ignored: a bzImage has the size there.
pub(crate) fn elf(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let out = match Format::of(bytes) {
        Format::Plain => return Ok(bytes.to_vec()),
        Format::Gzip => bounded(flate2::read::GzDecoder::new(bytes))?,
        Format::Xz => bounded(lzma_rust2::XzReader::new(bytes, false))?,
        // A kernel's build uses `zstd -22 --ultra`, whose window is 128 MiB.
        Format::Zstd => {
            bounded(StreamingDecoder::new_with_max_window_size(bytes, MOST_BYTES).map_err(io::Error::other)?)?
        }
        Format::Lz4 => lz4_legacy(bytes)?,
        Format::Other(name) => return Err(invalid(format!("compressed as {name}, which vtax can't read"))),
    };
    match out.starts_with(b"\x7fELF") {
        true => Ok(out),
        false => Err(invalid("what was compressed is not an ELF file")),
    }
}

fn bounded(reader: impl Read) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    reader.take(MOST_BYTES + 1).read_to_end(&mut out)?;
    match out.len() as u64 > MOST_BYTES {
        true => Err(invalid(format!("larger than {} MiB once decompressed", MOST_BYTES >> 20))),
        false => Ok(out),
    }
}

/// Magic, then blocks that each begin with their compressed size; there is no end mark.
fn lz4_legacy(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut block = vec![0; LZ4_LEGACY_BLOCK];
    let mut rest = &bytes[LZ4_LEGACY.len()..];
    while let Some((size, after)) = rest.split_first_chunk::<4>() {
        let size = u32::from_le_bytes(*size) as usize;
        // What follows the last block (a bzImage's uncompressed size) is no block.
        let Some(compressed) = after.get(..size).filter(|_| size > 0) else { break };
        let written =
            lz4_flex::block::decompress_into(compressed, &mut block).map_err(|e| invalid(e.to_string()))?;
        out.extend_from_slice(&block[..written]);
        rest = &after[size..];
        if written < LZ4_LEGACY_BLOCK || out.len() as u64 > MOST_BYTES {
            break;
        }
    }
    Ok(out)
}

fn invalid(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// Looks enough like ELF, is compressible, and is longer than one legacy LZ4 block.
    fn sample() -> Vec<u8> {
        let mut bytes = b"\x7fELF".to_vec();
        for i in 0..2_300_000_u32 {
            bytes.extend((i / 7).to_le_bytes());
        }
        bytes
    }

    /// Compresses with the distribution's own tool, as a kernel's build does.
    fn compressed_by(program: &str, args: &[&str], input: &[u8]) -> Option<Vec<u8>> {
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut stdin = child.stdin.take()?;
        let output = std::thread::scope(|scope| {
            scope.spawn(move || stdin.write_all(input));
            child.wait_with_output()
        });
        output.ok().filter(|o| o.status.success()).map(|o| o.stdout)
    }

    #[test]
    fn every_format_of_a_kernel_build_is_read_with_the_size_behind_it() {
        let sample = sample();
        let builds: [(&str, &[&str], Format); 5] = [
            ("gzip", &["-n", "-f"], Format::Gzip),
            ("xz", &["--check=crc32", "--x86", "--lzma2=preset=1"], Format::Xz),
            ("xz", &["--check=crc32", "--lzma2=dict=1MiB"], Format::Xz),
            ("zstd", &["-22", "--ultra"], Format::Zstd),
            ("lz4", &["-l", "-9", "-", "-"], Format::Lz4),
        ];
        for (program, args, format) in builds {
            let Some(mut bytes) = compressed_by(program, args, &sample) else {
                let _ = vtax_sys::require::possible(Some(format!("{program} is not installed")));
                continue;
            };
            assert_eq!(Format::of(&bytes), format, "{program}");
            bytes.extend((sample.len() as u32).to_le_bytes());
            assert!(elf(&bytes).unwrap() == sample, "{program} {args:?}");
            bytes.truncate(bytes.len() / 2);
            assert!(elf(&bytes).is_err() || format == Format::Lz4, "{program} cut in half");
        }
    }

    #[test]
    fn legacy_lz4_is_read_where_no_tool_is_installed() {
        let sample = sample();
        let mut bytes = LZ4_LEGACY.to_vec();
        for block in sample.chunks(LZ4_LEGACY_BLOCK) {
            let compressed = lz4_flex::block::compress(block);
            bytes.extend((compressed.len() as u32).to_le_bytes());
            bytes.extend(compressed);
        }
        bytes.extend((sample.len() as u32).to_le_bytes());
        assert!(elf(&bytes).unwrap() == sample);
    }

    #[test]
    fn an_unknown_format_is_named() {
        assert_eq!(elf(b"BZh91AY").unwrap_err().to_string(), "compressed as bzip2, which vtax can't read");
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(which in 0_usize..5, tail in proptest::collection::vec(any::<u8>(), 0..300)) {
            let magics: [&[u8]; 5] = [&[0x1f, 0x8b, 8], b"\xfd7zXZ\0\0\x01", &[0x28, 0xb5, 0x2f, 0xfd], LZ4_LEGACY, b""];
            let bytes = [magics[which], &tail].concat();
            let _ = elf(&bytes);
        }
    }
}
