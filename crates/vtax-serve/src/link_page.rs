//! The link in a file that leads a browser there: what stands in a command line, every user of the host may read.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::ServeError;
use crate::guard::BY_FILE;

/// One name for all: what a server that was killed has left is replaced by the next one's.
const NAME: &str = "open.html";

/// A file, for its owner alone, that leads a browser to a server's link. It is removed when this is dropped.
pub struct LinkPage {
    path: PathBuf,
    text: String,
}

impl std::fmt::Debug for LinkPage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The token isn't printed by chance.
        f.debug_struct("LinkPage").field("path", &self.path).finish_non_exhaustive()
    }
}

impl LinkPage {
    /// Writes it into the cache.
    ///
    /// # Errors
    ///
    /// [`ServeError::System`] where it can't be written.
    pub fn write(cache: &Path, link: &str) -> Result<Self, ServeError> {
        let failed = |source| ServeError::System { operation: "keep the link in a file", source };
        let directory = cache.join("serve");
        fs::create_dir_all(&directory).map_err(failed)?;
        let path = directory.canonicalize().map_err(failed)?.join(NAME);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let text = format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>vtax</title>\n\
             <meta http-equiv=\"refresh\" content=\"0; url={link}&amp;{BY_FILE}\"></head>\n\
             <body><a href=\"{link}&amp;{BY_FILE}\">vtax serve</a></body></html>\n"
        );
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
        let page = Self { path, text };
        file.write_all(page.text.as_bytes()).map_err(failed)?;
        Ok(page)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it in a while, when a browser has read it.
    pub fn remove_after(self, time: Duration) {
        let remove = move || {
            std::thread::sleep(time);
            drop(self);
        };
        // Where there is no thread for it, it is removed at once, and the link was printed.
        let _ = std::thread::Builder::new().name("link-page".into()).spawn(remove);
    }
}

impl Drop for LinkPage {
    fn drop(&mut self) {
        // Another server may have put its own there.
        if fs::read_to_string(&self.path).is_ok_and(|text| text == self.text) {
            // What can't be removed is for its owner alone, and the next one replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn it_is_for_its_owner_alone_and_goes() {
        let cache = tempfile::tempdir().unwrap();
        let first = LinkPage::write(cache.path(), "http://127.0.0.1:8093/?token=ab").unwrap();
        let path = first.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("url=http://127.0.0.1:8093/?token=ab&amp;via=file\""), "{text}");
        let second = LinkPage::write(cache.path(), "http://127.0.0.1:8094/?token=cd").unwrap();
        drop(first);
        assert!(fs::read_to_string(&path).unwrap().contains("token=cd"), "another's stays");
        drop(second);
        assert!(!path.exists());
    }
}
